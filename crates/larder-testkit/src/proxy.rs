//! A proxy on loopback that leads to a simulated API server, whatever server it is asked for.
//!
//! So clients can be given an API server of a name and address that there is not, as one that only its proxy can reach.
//!
//! # Guarantees
//!
//! - What it is asked for is remembered, with what it was shown.
//! - Refusals and silence on command ([`Behaviour`]) are for connections that come after it.
//!
//! # Cancel safety
//!
//! Dropping a [`Proxy`] ends its tasks and cuts its connections soon.
//!
//! # Example
//!
//! ```
//! use larder_testkit::api_server::ApiServer;
//! use larder_testkit::proxy::{Proxy, Speaks};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let server = ApiServer::start().await?;
//! let proxy = Proxy::start(&server, Speaks::Http).await?;
//! assert!(proxy.url().starts_with("http://127.0.0.1:"));
//! assert!(proxy.asked().is_empty());
//! # Ok::<(), std::io::Error>(())
//! # }).unwrap();
//! # Ok::<(), std::io::Error>(())
//! ```

mod socks;

use crate::api_server::ApiServer;
use crate::connection::{Connection, Connections, Gated, Listening, Serve, Streams};
use bytes::Bytes;
use http::header::PROXY_AUTHORIZATION;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use parking_lot::Mutex;
use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// What a proxy speaks with its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// HTTP: it is asked by CONNECT.
    Http,
    /// The same over TLS, with the certificate of its API server.
    Https,
    /// SOCKS5.
    Socks5,
}

/// What a proxy does when it is asked for a tunnel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Behaviour {
    /// Opens it, whoever asks.
    #[default]
    Lead,
    /// Opens it for who shows this user and password, and demands them from others.
    Demand(String, String),
    /// Refuses with this HTTP status, or the code of SOCKS5.
    Refuse(u16),
    /// Never answers, for as long as the client stays.
    Hang,
    /// Closes the connection.
    Close,
}

/// What a proxy was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The server's host and port, as they were given.
    pub server: String,
    /// What was shown: the value of `Proxy-Authorization`, or `USER:PASSWORD` with SOCKS5.
    pub shown: Option<String>,
}

/// A running proxy. See the [module](self).
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    speaks: Speaks,
    connections: Arc<Connections>,
    _listening: Listening,
}

struct Shared {
    leads_to: SocketAddr,
    behaviour: Mutex<Behaviour>,
    asked: Mutex<Vec<Asked>>,
}

impl Proxy {
    /// Starts one on a free port, in front of a server.
    ///
    /// # Errors
    ///
    /// No port of loopback can be bound, or it is to speak TLS and its server does not.
    pub async fn start(server: &ApiServer, speaks: Speaks) -> io::Result<Self> {
        let tls = match speaks {
            Speaks::Https => Some(server.acceptor().ok_or_else(|| io::Error::other("the server has no certificate"))?),
            Speaks::Http | Speaks::Socks5 => None,
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Shared { leads_to: server.address(), behaviour: Mutex::default(), asked: Mutex::default() };
        let (shared, connections) = (Arc::new(shared), Arc::<Connections>::default());
        let serving = Serving { shared: Arc::clone(&shared), speaks, tls };
        let listening = Listening::start(listener, Arc::clone(&connections), serving);
        Ok(Self { shared, address, speaks, connections, _listening: listening })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL, as `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        self.url_for("")
    }

    /// Its URL with a user and password, as `USER:PASSWORD@`.
    pub fn url_for(&self, user: &str) -> String {
        let scheme = match self.speaks {
            Speaks::Http => "http",
            Speaks::Https => "https",
            Speaks::Socks5 => "socks5",
        };
        format!("{scheme}://{user}{}", self.address)
    }

    /// Sets what it does from now on.
    pub fn set(&self, behaviour: Behaviour) {
        *self.shared.behaviour.lock() = behaviour;
    }

    /// What it was asked for so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().clone()
    }

    /// How many of its connections are open.
    pub fn open(&self) -> u64 {
        self.connections.counts().1
    }

    /// Stalls the tunnels that are open now, or lets them go on: stalled, they stay open and pass no byte either way.
    pub fn stall(&self, stalled: bool) {
        self.connections.stall_all(stalled);
    }
}

#[derive(Clone)]
struct Serving {
    shared: Arc<Shared>,
    speaks: Speaks,
    tls: Option<TlsAcceptor>,
}

impl Serve<TcpStream> for Serving {
    async fn serve(self, stream: Gated<TcpStream>, _: &Connection, _: Streams) {
        match (self.speaks, self.tls) {
            (Speaks::Socks5, _) => {
                // A client that goes away in the middle is none of the proxy's business.
                let _ = socks::serve(stream, &self.shared).await;
            }
            (_, None) => self.shared.serve_http(stream).await,
            (_, Some(tls)) => {
                if let Ok(stream) = tls.accept(stream).await {
                    self.shared.serve_http(stream).await;
                }
            }
        }
    }
}

impl Shared {
    async fn serve_http(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let tunnel = Mutex::new(None);
        let service = service_fn(async |request| self.answer(request, &tunnel).await);
        let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades();
        if let Err(error) = serving.await {
            tracing::debug!(%error, "a connection of a simulated proxy ended");
        }
        let tunnel = tunnel.into_inner();
        if let Some((client, mut server)) = tunnel
            && let Ok(client) = client.await
        {
            // It ends when either side does.
            let _ = copy_bidirectional(&mut TokioIo::new(client), &mut server).await;
        }
    }

    /// What a request is answered; one for a tunnel leaves both its ends behind.
    async fn answer(
        &self,
        request: Request<Incoming>,
        tunnel: &Mutex<Option<(OnUpgrade, TcpStream)>>,
    ) -> Result<Response<Full<Bytes>>, Closed> {
        let answer = |status| {
            let mut response = Response::new(Full::default());
            *response.status_mut() = status;
            Ok(response)
        };
        if request.method() != Method::CONNECT {
            return answer(StatusCode::METHOD_NOT_ALLOWED);
        }
        let shown = request.headers().get(PROXY_AUTHORIZATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let behaviour = self.note(Asked { server: request.uri().to_string(), shown: shown.clone() });
        match behaviour {
            Behaviour::Demand(user, password) if shown != basic(&user, &password) => {
                return answer(StatusCode::PROXY_AUTHENTICATION_REQUIRED);
            }
            Behaviour::Refuse(code) => return answer(StatusCode::from_u16(code).unwrap_or(StatusCode::FORBIDDEN)),
            Behaviour::Hang => pending().await,
            Behaviour::Close => return Err(Closed),
            Behaviour::Lead | Behaviour::Demand(..) => {}
        }
        let Ok(server) = TcpStream::connect(self.leads_to).await else { return answer(StatusCode::BAD_GATEWAY) };
        *tunnel.lock() = Some((hyper::upgrade::on(request), server));
        answer(StatusCode::OK)
    }

    fn note(&self, asked: Asked) -> Behaviour {
        self.asked.lock().push(asked);
        self.behaviour.lock().clone()
    }
}

/// What is shown for basic authentication.
fn basic(user: &str, password: &str) -> Option<String> {
    let encoded = serde_json::to_value(ByteString(format!("{user}:{password}").into())).ok()?;
    Some(format!("Basic {}", encoded.as_str()?))
}

/// A proxy that closes the connection instead of an answer.
#[derive(Debug, thiserror::Error)]
#[error("closed on command")]
struct Closed;
