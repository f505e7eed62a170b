//! Listening: the Unix socket of the local API, and, where it is wanted, the TCP address of metrics and probes.
//!
//! # Guarantees
//!
//! - A client that sends nothing, sends garbage, or does not read its answer loses its connection after the
//!   [limits'](Limits) time, or as soon as [somebody else needs the room](crate::admission).
//! - The socket's file is made anew when somebody has removed it.
//! - When the token is cancelled: no new connection is taken, requests in flight are answered within the drain timeout,
//!   newer-than waits are answered at once, requests half sent are dropped, and the socket's file is removed.

use crate::activity::Activity;
use crate::admission::{Admission, Admitted};
use crate::app::{self, App};
use crate::caller::Caller;
use crate::connection::{self, Client, Http2};
use crate::error::ApiError;
use crate::limits::{LimitError, Limits};
use crate::metrics::Listener;
use crate::socket::{self, KeptSocket, SocketError};
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

/// The pause after a connection could not be taken: the process is out of file descriptors, say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a connection is told that there is no place for, without anything being read from it.
fn turned_away() -> Vec<u8> {
    let body = serde_json::to_string(&ApiError::TooManyConnections.into_body()).unwrap_or_default();
    let head =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close";
    format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Where to listen, and how much clients may take.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServeOptions {
    /// The path of the local API's socket.
    pub socket: PathBuf,
    /// The TCP address that serves `/metrics`, `/livez` and `/readyz`, and nothing else; `None` for none.
    pub metrics_address: Option<SocketAddr>,
    /// How much clients may take.
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

    /// Checks what can be checked before anything is listened on.
    ///
    /// # Errors
    ///
    /// A limit that cannot be used, or a path that no socket can have.
    pub fn validate(&self) -> Result<(), ServeError> {
        self.limits.validate()?;
        Ok(socket::check(&self.socket)?)
    }
}

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A limit cannot be used.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// Not on the socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Not on the metrics' address.
    #[error("cannot listen on {address} for metrics (--metrics-address)")]
    MetricsAddress {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
}

/// The local API, listening; it answers once it [runs](Self::run).
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    socket: KeptSocket,
    metrics: Option<TcpListener>,
    limits: Limits,
    token: CancellationToken,
}

impl Server {
    /// Listens, for a node. The server ends when the token is cancelled.
    ///
    /// # Errors
    ///
    /// [`ServeError`] says which limit cannot be used, or which of the two places cannot be listened on, and why.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it has answered, it leaves no socket behind.
    pub async fn bind(node: Arc<Node>, options: ServeOptions, token: CancellationToken) -> Result<Self, ServeError> {
        options.validate()?;
        let socket = KeptSocket::bind(options.socket).await?;
        let metrics = match options.metrics_address {
            Some(address) => Some(
                TcpListener::bind(address).await.map_err(|source| ServeError::MetricsAddress { address, source })?,
            ),
            None => None,
        };
        let app = App::new(node, token.clone());
        Ok(Self { app, socket, metrics, limits: options.limits, token })
    }

    /// The address that metrics are served on, with the port that was chosen for port 0.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Answers until the token is cancelled, and then until what is in flight is answered or the drain timeout has passed.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it ends at once; connections that are open end with their request.
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
        // From here on nobody can connect, and a successor can take the path.
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

/// The connections that are open.
struct Connections {
    limits: Limits,
    token: CancellationToken,
    tracker: TaskTracker,
    app: Arc<App>,
    /// Whether the kernel gives no connections right now, and that has been told. Relaxed: for the log alone.
    is_refused: AtomicBool,
}

impl Connections {
    async fn take_local(&self, socket: &mut KeptSocket, router: Router) {
        let mut own = Admission::new(self.limits.connections);
        let mut foreign = Admission::new(self.limits.foreign_connections);
        let refused = &self.app.metrics.refused;
        let own_http2 = Http2::new(self.limits.http2_streams, self.limits.http2_requests, refused);
        // One request at a time, as over HTTP/1.1: others' connections are all that has to be limited.
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
                // Said as far as that can be said without waiting; whoever does not get it sees the connection closed.
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

    /// Finds room for one more connection, if there is any or can be made, and counts what that took.
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
                // The client's doing: it went away, was too slow, or does not speak HTTP.
                tracing::debug!(%error, %caller, "connection ended");
            }
            app.metrics.connection_closed(listener);
        });
    }
}
