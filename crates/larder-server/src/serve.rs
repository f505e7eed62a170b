//! The listeners: the Unix socket of the local API, and the optional TCP address of metrics and probes.
//!
//! # Guarantees
//!
//! - A client that sends nothing, sends garbage, or does not read its answer loses its connection after the time in [`Limits`], or as
//!   soon as [another client needs the room](crate::admission).
//! - If somebody removes the socket's file, larder creates a new one.
//! - When the token is cancelled, larder accepts no new connection, answers requests in flight within the drain timeout, ends newer-than
//!   waits at once, drops half-sent requests, and removes the socket's file.

use crate::activity::Activity;
use crate::admission::{Admission, Admitted};
use crate::app::{self, App};
use crate::caller::Caller;
use crate::connection::{self, Client, Http2};
use crate::error::ApiError;
use crate::limits::{LimitError, Limits};
use crate::metrics::Listener;
use crate::socket::{self, PersistentSocket, SocketError};
use axum::Router;
use larder_node::Node;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The pause after a connection could not be accepted, for example because the process has too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The answer to a connection for which there is no room. larder has read nothing from it.
fn turned_away() -> Vec<u8> {
    let body = serde_json::to_string(&ApiError::TooManyConnections.into_body()).unwrap_or_default();
    let head =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close";
    format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Where to listen, and the limits of clients.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServeOptions {
    /// The path of the local API's socket.
    pub socket: PathBuf,
    /// The TCP address that serves only `/metrics`, `/livez` and `/readyz`; `None` for no address.
    pub metrics_address: Option<SocketAddr>,
    /// The limits of clients.
    pub limits: Limits,
}

impl ServeOptions {
    /// Listens on this socket and on no TCP address, with the default limits.
    ///
    /// ```
    /// use larder_server::ServeOptions;
    /// let mut options = ServeOptions::new("/run/larder/larder.sock");
    /// options.limits.connections = 64;
    /// options.validate().unwrap();
    /// ```
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into(), metrics_address: None, limits: Limits::default() }
    }

    /// Checks the options before larder listens.
    ///
    /// # Errors
    ///
    /// If a limit is invalid, or if no socket can have the path.
    pub fn validate(&self) -> Result<(), ServeError> {
        self.limits.validate()?;
        Ok(socket::check(&self.socket)?)
    }
}

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A limit is invalid.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// It cannot listen on the socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// It cannot listen on the metrics' address.
    #[error("cannot listen on {address} for metrics (--metrics-address)")]
    MetricsAddress {
        /// The address.
        address: SocketAddr,
        /// Why it cannot.
        source: io::Error,
    },
}

/// The listening local API. It answers once it [runs](Self::run).
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    socket: PersistentSocket,
    metrics: Option<TcpListener>,
    limits: Limits,
    token: CancellationToken,
}

impl Server {
    /// Listens, to serve a node. The server ends when the token is cancelled.
    ///
    /// # Errors
    ///
    /// [`ServeError`] names the invalid limit, or the socket or address on which the server cannot listen, and the reason.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, it leaves no socket behind.
    pub async fn bind(node: Arc<Node>, options: ServeOptions, token: CancellationToken) -> Result<Self, ServeError> {
        options.validate()?;
        let socket = PersistentSocket::bind(options.socket).await?;
        let metrics = match options.metrics_address {
            Some(address) => Some(
                TcpListener::bind(address).await.map_err(|source| ServeError::MetricsAddress { address, source })?,
            ),
            None => None,
        };
        let app = App::new(node, token.clone());
        Ok(Self { app, socket, metrics, limits: options.limits, token })
    }

    /// The address of the metrics, with the real port in place of port 0.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Answers until the token is cancelled, and then until all requests in flight are answered or the drain timeout has passed.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, it ends at once, and each open connection ends after its request.
    pub async fn run(mut self) {
        let connections = Connections {
            limits: self.limits.clone(),
            token: self.token.clone(),
            tracker: TaskTracker::new(),
            app: Arc::clone(&self.app),
            is_refused: AtomicBool::new(false),
        };
        tokio::join!(
            connections.take_local(&mut self.socket, app::local(&self.app)),
            connections.take_metrics(self.metrics.as_ref(), app::open(&self.app)),
        );
        // From here on nobody can connect, and the next daemon can take the path.
        drop(self.socket);
        connections.tracker.close();
        if tokio::time::timeout(self.limits.drain_timeout, connections.tracker.wait()).await.is_err() {
            tracing::warn!(
                left = connections.tracker.len(),
                "dropping connections that did not end within the drain timeout"
            );
        }
    }
}

/// The open connections.
struct Connections {
    limits: Limits,
    token: CancellationToken,
    tracker: TaskTracker,
    app: Arc<App>,
    /// Whether the last accept failed, and that was logged. Relaxed: only the log depends on it.
    is_refused: AtomicBool,
}

impl Connections {
    async fn take_local(&self, socket: &mut PersistentSocket, router: Router) {
        let mut own = Admission::new(self.limits.connections);
        let mut foreign = Admission::new(self.limits.foreign_connections);
        let refused = &self.app.metrics.refused;
        let own_http2 = Http2::new(self.limits.http2_streams, self.limits.http2_requests, refused);
        // One request at a time, as over HTTP/1.1: then the limit of connections is enough.
        let foreign_http2 = Http2::new(1, self.limits.foreign_connections, refused);
        let client = Client {
            router,
            head_timeout: self.limits.head_timeout,
            stall_timeout: self.limits.stall_timeout,
            drain_timeout: self.limits.drain_timeout,
            most_requests: usize::MAX,
            http2: None,
            caller: Caller::Anonymous,
        };
        while let Some(accepted) = self.token.run_until_cancelled(socket.accept()).await {
            let Some(stream) = self.accepted(accepted).await else { continue };
            let caller = match Caller::of(&stream) {
                Ok(caller) => caller,
                Err(error) => {
                    tracing::warn!(%error, "closing a connection: the kernel does not say whose it is");
                    continue;
                }
            };
            if !caller.may_read() {
                self.app.metrics.foreign.inc();
            }
            let (admission, http2) =
                if caller.may_read() { (&mut own, &own_http2) } else { (&mut foreign, &foreign_http2) };
            let client = Client { caller, http2: Some(http2.clone()), ..client.clone() };
            match self.admit(admission, Listener::Socket) {
                Some(activity) => self.serve(stream, Listener::Socket, client, activity),
                // Written only as far as that is possible without waiting. The client finds the connection closed in any case.
                None => drop(stream.try_write(&turned_away())),
            }
        }
    }

    async fn take_metrics(&self, listener: Option<&TcpListener>, router: Router) {
        let Some(listener) = listener else { return };
        let mut admission = Admission::new(self.limits.metrics_connections);
        let client = Client {
            router,
            head_timeout: self.limits.metrics_head_timeout,
            stall_timeout: self.limits.metrics_stall_timeout,
            drain_timeout: self.limits.drain_timeout,
            most_requests: self.limits.metrics_requests_per_connection,
            http2: None,
            caller: Caller::Anonymous,
        };
        while let Some(accepted) = self.token.run_until_cancelled(listener.accept()).await {
            let Some(stream) = self.accepted(accepted.map(|(stream, _)| stream)).await else { continue };
            match self.admit(&mut admission, Listener::Metrics) {
                Some(activity) => self.serve(stream, Listener::Metrics, client.clone(), activity),
                None => drop(stream.try_write(&turned_away())),
            }
        }
    }

    /// Finds or makes room for one more connection, and counts the evicted or refused ones.
    fn admit(&self, admission: &mut Admission, listener: Listener) -> Option<Arc<Activity>> {
        match admission.admit() {
            Admitted::Free(activity) => Some(activity),
            Admitted::InPlaceOfAnother(activity) => {
                self.app.metrics.evicted(listener);
                Some(activity)
            }
            Admitted::No => {
                self.app.metrics.turned_away(listener);
                None
            }
        }
    }

    async fn accepted<S>(&self, accepted: io::Result<S>) -> Option<S> {
        match accepted {
            Ok(stream) => {
                self.is_refused.store(false, Ordering::Relaxed);
                Some(stream)
            }
            Err(error) => {
                if !self.is_refused.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "cannot accept connections: retrying until it works");
                }
                self.token.run_until_cancelled(tokio::time::sleep(ACCEPT_PAUSE)).await;
                None
            }
        }
    }

    fn serve<S>(&self, stream: S, listener: Listener, client: Client, activity: Arc<Activity>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (token, app, tracker) = (self.token.clone(), Arc::clone(&self.app), self.tracker.clone());
        let caller = client.caller;
        self.tracker.spawn(async move {
            app.metrics.connection_opened(listener);
            if let Err(error) = connection::serve(stream, client, activity, tracker, token).await {
                // The client caused it: it went away, was too slow, or does not speak HTTP.
                tracing::debug!(%error, %caller, "connection ended");
            }
            app.metrics.connection_closed(listener);
        });
    }
}
