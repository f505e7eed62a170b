//! Opens a stream to the server, direct or through a proxy's tunnel.
//!
//! hyper's own client sends CONNECT to an HTTP proxy, because hyper-util's `Tunnel` hides the status that a proxy refuses with.
//! A proxy with TLS is verified against the server's authorities, as by client-go.

use crate::connector::{ByteStream, Connector};
use crate::proxy::{Credentials, Proxy, host_and_port};
use crate::tls::in_words;
use bytes::Bytes;
use http::header::{HOST, PROXY_AUTHORIZATION, USER_AGENT};
use http::uri::Authority;
use http::{Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::client::legacy::connect::proxy::SocksV5;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::future::ready;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsConnector;
use tower::{BoxError, Service, service_fn};

/// larder's `User-Agent`.
pub(crate) const AGENT: &str = concat!("larder/", env!("CARGO_PKG_VERSION"));

/// The largest part of a proxy's response that is read.
const ANSWER: usize = 16 << 10;

/// A stream to a server.
pub(super) type Stream = Box<dyn ByteStream>;

/// Opens streams to a server.
pub(crate) struct Route {
    connector: Arc<dyn Connector>,
    via: Option<Via>,
}

/// A proxy and the way to it.
pub(crate) struct Via {
    pub(crate) proxy: Proxy,
    /// TLS to the proxy, with the server's authorities.
    pub(crate) tls: Option<(TlsConnector, ServerName<'static>)>,
    /// The time limit of opening a tunnel.
    pub(crate) timeout: Duration,
}

/// The failure of a tunnel. The surrounding message names the proxy and the server.
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
    pub(crate) fn new(connector: Arc<dyn Connector>, via: Option<Via>) -> Self {
        Self { connector, via }
    }

    pub(super) async fn open(&self, server: &Uri) -> Result<Stream, BoxError> {
        let server = authority(server).ok_or(NoTunnel::NoServer)?;
        let Some(via) = &self.via else { return Ok(self.connector.connect(&server).await?) };
        let link = tokio::time::timeout(via.timeout, via.open(&*self.connector, server)).await;
        Ok(link.unwrap_or(Err(NoTunnel::Late(via.timeout)))?)
    }
}

impl Via {
    async fn open(&self, connector: &dyn Connector, server: Authority) -> Result<Stream, NoTunnel> {
        let unreached = |error: io::Error| NoTunnel::Unreached(error.into());
        let address = authority(self.proxy.address()).ok_or(NoTunnel::NoServer)?;
        let stream = connector.connect(&address).await.map_err(unreached)?;
        if self.proxy.is_socks() {
            return greet(stream, server, &self.proxy).await;
        }
        let stream = match &self.tls {
            Some((tls, name)) => {
                let stream = tls.connect(name.clone(), stream).await;
                Box::new(stream.map_err(|error| unreached(in_words(error)))?)
            }
            None => stream,
        };
        connect(stream, server, self.proxy.credentials()).await
    }
}

/// A server's host and port.
fn authority(server: &Uri) -> Option<Authority> {
    host_and_port(server).and_then(|(host, port)| format!("{host}:{port}").parse().ok())
}

/// A tunnel through an HTTP proxy.
async fn connect(stream: Stream, server: Authority, credentials: &Credentials) -> Result<Stream, NoTunnel> {
    let mut request = Request::connect(server.as_str()).header(HOST, server.as_str()).header(USER_AGENT, AGENT);
    if let Credentials::Basic(basic) = credentials {
        request = request.header(PROXY_AUTHORIZATION, basic);
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|_| NoTunnel::NoServer)?;
    let (mut sender, connection) = http1::Builder::new().max_buf_size(ANSWER).handshake(TokioIo::new(stream)).await?;
    let answered = async move {
        match (sender.send_request(request).await?.status(), credentials) {
            (status, _) if status.is_success() => Ok(()),
            (StatusCode::PROXY_AUTHENTICATION_REQUIRED, Credentials::Basic(_)) => Err(NoTunnel::BadCredentials),
            (StatusCode::PROXY_AUTHENTICATION_REQUIRED, _) => Err(NoTunnel::NoCredentials),
            (status, _) => Err(NoTunnel::Refused(status, server)),
        }
    };
    let handed_over = async move { Ok(connection.without_shutdown().await?) };
    // A TLS or HTTP server does not speak first, so the response's buffer holds none of its bytes.
    let ((), parts) = tokio::try_join!(answered, handed_over)?;
    Ok(parts.io.into_inner())
}

/// A tunnel through a SOCKS5 proxy, over a stream to it.
async fn greet(stream: Stream, server: Authority, proxy: &Proxy) -> Result<Stream, NoTunnel> {
    let mut stream = Some(TokioIo::new(stream));
    let handed_in = service_fn(move |_| ready(stream.take().ok_or(io::Error::from(io::ErrorKind::NotConnected))));
    let mut socks = SocksV5::new(proxy.address().clone(), handed_in);
    let refused = match proxy.credentials() {
        Credentials::User(user, password) => {
            socks = socks.with_auth(user.to_string(), password.to_string());
            NoTunnel::Socks
        }
        _ => NoTunnel::SocksWithout,
    };
    socks.call(server.into()).await.map(TokioIo::into_inner).map_err(|error| refused(error.into()))
}

fn hint(status: StatusCode) -> &'static str {
    match status.as_u16() {
        403 | 405 => "; it must be told to allow that",
        502..=504 => "; can it reach the server?",
        _ => "",
    }
}
