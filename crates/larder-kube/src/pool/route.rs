//! The way to a server: TCP to it, or a tunnel through a proxy, which goes on as if it were TCP.
//!
//! HTTP proxies are asked by CONNECT with hyper's own client: hyper-util's `Tunnel` does not tell what the proxy answered
//! otherwise. Those that speak TLS are trusted as the server is, as by client-go.

use crate::proxy::{Credentials, Proxy, host_and_port};
use bytes::Bytes;
use http::header::{HOST, PROXY_AUTHORIZATION, USER_AGENT};
use http::uri::Authority;
use http::{Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::SocksV5;
use hyper_util::rt::TokioIo;
use std::future::{Future, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tower::{BoxError, Service, ServiceExt, service_fn};

/// How larder calls itself.
pub(crate) const AGENT: &str = concat!("larder/", env!("CARGO_PKG_VERSION"));

/// The most that a proxy's answer is read of.
const ANSWER: usize = 16 << 10;

/// What leads to a server: TCP, or TLS to a proxy.
pub(crate) type Link = MaybeHttpsStream<TokioIo<TcpStream>>;

/// How links to servers are opened.
#[derive(Clone)]
pub(crate) struct Route {
    tcp: HttpConnector,
    via: Option<Via>,
}

/// A proxy, and how to reach it.
#[derive(Clone)]
pub(crate) struct Via {
    pub(crate) proxy: Proxy,
    /// For a proxy that speaks TLS, with whom the server's clients trust.
    pub(crate) connector: HttpsConnector<HttpConnector>,
    /// The longest that a tunnel may take to open.
    pub(crate) timeout: Duration,
}

/// Why there is no tunnel. The proxy's address stands beside the server's in the message around it.
#[derive(Debug, thiserror::Error)]
enum NoTunnel {
    #[error("the proxy cannot be reached")]
    Unreached(#[source] BoxError),
    #[error("the proxy wants a user and a password (407): give them in its URL, as in http://USER:PASSWORD@HOST:PORT")]
    NoCredentials,
    #[error("the proxy does not accept the user and password of its URL by basic authentication (407)")]
    BadCredentials,
    #[error("the proxy answered {0} to CONNECT {1}{hint}", hint = hint(*.0))]
    Refused(StatusCode, Authority),
    #[error("CONNECT through the proxy failed")]
    Broken(#[from] hyper::Error),
    #[error("the proxy does not lead there")]
    Socks(#[source] BoxError),
    #[error("the proxy, which was shown no user and password, does not lead there")]
    SocksWithout(#[source] BoxError),
    #[error("no tunnel through the proxy within {0:?}")]
    Late(Duration),
    #[error("not the address of a server")]
    NoServer,
}

impl Route {
    pub(crate) fn new(tcp: HttpConnector, via: Option<Via>) -> Self {
        Self { tcp, via }
    }
}

impl Service<Uri> for Route {
    type Response = Link;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Link, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Connectors are waited for as a part of the connection.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let Self { tcp, via } = self.clone();
        Box::pin(async move {
            let Some(via) = via else { return Ok(tcp.oneshot(server).await?.into()) };
            let timeout = via.timeout;
            let link = tokio::time::timeout(timeout, via.open(tcp, &server)).await;
            Ok(link.unwrap_or(Err(NoTunnel::Late(timeout)))?)
        })
    }
}

impl Via {
    async fn open(self, tcp: HttpConnector, server: &Uri) -> Result<Link, NoTunnel> {
        let server = host_and_port(server).and_then(|(host, port)| format!("{host}:{port}").parse().ok());
        let server: Authority = server.ok_or(NoTunnel::NoServer)?;
        let address = self.proxy.address().clone();
        if self.proxy.is_socks() {
            let tcp = tcp.oneshot(address).await.map_err(|error| NoTunnel::Unreached(error.into()))?;
            return greet(tcp, server, &self.proxy).await.map(Link::from);
        }
        let link = self.connector.oneshot(address).await.map_err(NoTunnel::Unreached)?;
        connect(link, server, self.proxy.credentials()).await
    }
}

/// A tunnel through an HTTP proxy.
async fn connect(link: Link, server: Authority, credentials: &Credentials) -> Result<Link, NoTunnel> {
    let mut request = Request::connect(server.as_str()).header(HOST, server.as_str()).header(USER_AGENT, AGENT);
    if let Credentials::Basic(basic) = credentials {
        request = request.header(PROXY_AUTHORIZATION, basic);
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|_| NoTunnel::NoServer)?;
    let (mut sender, connection) = http1::Builder::new().max_buf_size(ANSWER).handshake(link).await?;
    let answered = async move {
        match (sender.send_request(request).await?.status(), credentials) {
            (status, _) if status.is_success() => Ok(()),
            (StatusCode::PROXY_AUTHENTICATION_REQUIRED, Credentials::Basic(_)) => Err(NoTunnel::BadCredentials),
            (StatusCode::PROXY_AUTHENTICATION_REQUIRED, _) => Err(NoTunnel::NoCredentials),
            (status, _) => Err(NoTunnel::Refused(status, server)),
        }
    };
    let handed_over = async move { Ok(connection.without_shutdown().await?) };
    // A server says nothing before its client, so nothing of it has been read with the answer.
    let ((), parts) = tokio::try_join!(answered, handed_over)?;
    Ok(parts.io)
}

/// A tunnel through a SOCKS5 proxy, over a connection to it.
async fn greet(tcp: TokioIo<TcpStream>, server: Authority, proxy: &Proxy) -> Result<TokioIo<TcpStream>, NoTunnel> {
    let mut tcp = Some(tcp);
    let handed_in = service_fn(move |_| ready(tcp.take().ok_or(io::Error::from(io::ErrorKind::NotConnected))));
    let mut socks = SocksV5::new(proxy.address().clone(), handed_in);
    let refused = match proxy.credentials() {
        Credentials::User(user, password) => {
            socks = socks.with_auth(user.to_string(), password.to_string());
            NoTunnel::Socks
        }
        _ => NoTunnel::SocksWithout,
    };
    socks.call(server.into()).await.map_err(|error| refused(error.into()))
}

fn hint(status: StatusCode) -> &'static str {
    match status.as_u16() {
        403 | 405 => "; it must be told to allow that",
        502..=504 => "; can it reach the server?",
        _ => "",
    }
}
