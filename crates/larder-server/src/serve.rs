//! The listeners: the [Unix socket](local) of the local API, and the optional TCP addresses of the same API over [TLS](tls), and of metrics and
//! probes.
//!
//! # Guarantees
//!
//! - A client that sends nothing, sends garbage, or does not read its answer loses its connection after the time in [`Limits`], or as
//!   soon as [another client needs the room](crate::admission).
//! - While the process or the machine can open no more files, larder closes the connection that has waited longest for its client,
//!   whatever its listener, and accepts the new one.
//! - If somebody removes the socket's file, larder creates a new one.
//! - When the token is cancelled, larder accepts no new connection, answers requests in flight within the drain timeout, ends newer-than
//!   waits at once, drops half-sent requests, and removes the socket's file.

mod local;
mod shares;
mod tls;

use crate::access::{Policies, PolicyError};
use crate::activity::Activity;
use crate::admins::{AccessError, AccessOptions, Admins};
use crate::admission::{Admission, Admitted};
use crate::app::{self, App};
use crate::audit::{Audit, AuditError, AuditOptions};
use crate::caller::Caller;
use crate::connection::{self, Client};
use crate::error::ApiError;
use crate::limits::{LimitError, Limits};
use crate::listen::Listen;
use crate::metrics::Listener;
use crate::pass_through::{PassThroughOptionError, PassThroughOptions, Passing};
use crate::socket::{self, PersistentSocket, SocketError};
use crate::usage::{Identity, Usages};
use axum::Router;
use larder_node::{Node, PassThrough};
use larder_tls::{TlsError, TlsOptions};
use parking_lot::Mutex;
use rustix::io::Errno;
use shares::Shares;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The pause after a connection could not be accepted, and none was evicted for it.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The pause in which an evicted connection closes its file.
const EVICT_PAUSE: Duration = Duration::from_millis(5);
/// An outage is over when every connection could be accepted for this long. The next failure is logged again.
const OUTAGE_END: Duration = Duration::from_mins(1);

/// How long a client that is turned away may take for its answer.
const TURN_AWAY: Duration = Duration::from_secs(1);

/// The answer to a connection for which there is no room. larder has read nothing from it.
fn turned_away() -> Vec<u8> {
    let body = serde_json::to_string(&ApiError::TooManyConnections.into_body()).unwrap_or_default();
    let head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nAge: 0\r\n\
         Cache-Status: larder\r\nConnection: close";
    format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Answers the first request of a connection for which there is no room, and closes the connection.
async fn turn_away<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) {
    let answer = async {
        // No client takes an answer before it has asked.
        let mut request = [0; 8 << 10];
        if stream.read(&mut request).await? == 0 {
            return Ok(());
        }
        stream.write_all(&turned_away()).await?;
        stream.shutdown().await?;
        // Closing with unread data would reset the connection before the client has the answer.
        while stream.read(&mut request).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    // A client that does not take it is gone.
    let _ = tokio::time::timeout(TURN_AWAY, answer).await;
}

/// Where to listen, and the limits of clients.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServeOptions {
    /// The path of the local API's socket.
    pub socket: PathBuf,
    /// The TCP address that serves only `/metrics`, `/livez` and `/readyz`; `None` for no address.
    pub metrics_address: Option<SocketAddr>,
    /// The TCP address that serves the local API over TLS; `None` for no address.
    pub listen: Option<SocketAddr>,
    /// The certificates of that address.
    pub tls: TlsOptions,
    /// Who sees what.
    pub access: AccessOptions,
    /// Which decisions on that are written, and where.
    pub audit: AuditOptions,
    /// What goes to the API server with the caller's own token.
    pub pass_through: PassThroughOptions,
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
        let (tls, access, audit) = (TlsOptions::default(), AccessOptions::default(), AuditOptions::default());
        let (pass_through, limits) = (PassThroughOptions::default(), Limits::default());
        Self { socket: socket.into(), metrics_address: None, listen: None, tls, access, audit, pass_through, limits }
    }

    /// Checks the options before larder listens.
    ///
    /// # Errors
    ///
    /// If a limit or an option of TLS, of access, of the audit or of pass-through is invalid, or if no socket can have the path.
    pub fn validate(&self) -> Result<(), ServeError> {
        self.limits.validate()?;
        self.tls.validate(self.listen.is_some())?;
        self.access.validate()?;
        self.audit.validate()?;
        self.pass_through.validate(self.listen.is_some())?;
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
    /// It cannot listen on the address for TLS.
    #[error("cannot listen on {address} (--listen)")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why it cannot.
        source: io::Error,
    },
    /// The certificates for that address cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An option of access cannot be used.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// An option of pass-through cannot be used.
    #[error(transparent)]
    PassThrough(#[from] PassThroughOptionError),
    /// The policy file cannot be used.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The audit cannot be written.
    #[error(transparent)]
    Audit(#[from] AuditError),
}

/// The way of what larder does not answer, if it is to go to the API server.
fn passing(
    node: &Node,
    options: PassThroughOptions,
) -> Result<Option<(PassThrough, PassThroughOptions)>, PassThroughOptionError> {
    if !options.enabled {
        return Ok(None);
    }
    let requests = u32::try_from(options.requests).unwrap_or(u32::MAX);
    let upstream = node.pass_through(requests).ok_or_else(PassThroughOptions::without_server)?;
    Ok(Some((upstream, options)))
}

/// The listening local API. It answers once it [runs](Self::run).
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    socket: PersistentSocket,
    metrics: Option<TcpListener>,
    listen: Option<(TcpListener, Arc<Listen>)>,
    passing: Option<(PassThrough, PassThroughOptions)>,
    admins: Admins,
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
        let admins = Admins::of(&options.access)?;
        let policy = Policies::open(options.access.policy)?;
        let audit = Audit::open(&options.audit)?;
        let passing = passing(&node, options.pass_through)?;
        let socket = PersistentSocket::bind(options.socket).await?;
        let metrics = match options.metrics_address {
            Some(address) => Some(
                TcpListener::bind(address).await.map_err(|source| ServeError::MetricsAddress { address, source })?,
            ),
            None => None,
        };
        let listen = match options.listen {
            Some(address) => Some(Listen::bind(address, options.tls, &node).await?),
            None => None,
        };
        let app = App::new(node, policy, audit, listen.as_ref().map(|(_, listen)| listen), token.clone());
        Ok(Self { app, socket, metrics, listen, passing, admins, limits: options.limits, token })
    }

    /// The address of the metrics, with the real port in place of port 0.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// The address of the API over TLS, with the real port in place of port 0.
    pub fn listen_address(&self) -> Option<SocketAddr> {
        self.listen.as_ref().map(|(_, listen)| listen.address())
    }

    /// Answers until the token is cancelled, and then until all requests in flight are answered or the drain timeout has passed.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, it ends at once, and each open connection ends after its request.
    pub async fn run(mut self) {
        let connections = Arc::new(Connections {
            limits: self.limits.clone(),
            token: self.token.clone(),
            tracker: TaskTracker::new(),
            app: Arc::clone(&self.app),
            admins: self.admins,
            usages: Usages::new(&self.limits, self.app.metrics.refused.clone()),
            open: Mutex::new(Open {
                own: Shares::new(self.limits.connections),
                pods: Shares::new(self.limits.pods_connections),
                unidentified: Admission::new(self.limits.foreign_connections),
                foreign: Admission::new(self.limits.foreign_connections),
                metrics: Admission::new(self.limits.metrics_connections),
                listen: Shares::new(self.limits.listen_connections),
                handshakes: Admission::new(self.limits.listen_foreign_connections),
                passed: Admission::new(self.limits.listen_foreign_connections),
                last_failure: None,
            }),
        });
        let passing = self
            .passing
            .take()
            .map(|(upstream, options)| Passing::new(upstream, &options, Arc::clone(&self.app), connections.serving()));
        let (app, answered) = (Arc::clone(&self.app), CancellationToken::new());
        let answering = async {
            tokio::join!(
                connections.take_local(&mut self.socket),
                connections.take_metrics(self.metrics.as_ref(), app::open(&self.app)),
                connections.take_tls(self.listen.as_ref(), passing),
                self.app.policy.keep_up_to_date(&self.token),
            );
            // From here on nobody can connect, and the next daemon can take the path and the addresses.
            drop((self.socket, self.metrics, self.listen));
            connections.tracker.close();
            if tokio::time::timeout(self.limits.drain_timeout, connections.tracker.wait()).await.is_err() {
                tracing::warn!(
                    left = connections.tracker.len(),
                    "dropping connections that did not end within the drain timeout"
                );
            }
            answered.cancel();
        };
        tokio::join!(answering, app.audit.write(&app.metrics.audit_lost, &answered));
    }
}

/// The open connections.
struct Connections {
    limits: Limits,
    token: CancellationToken,
    tracker: TaskTracker,
    app: Arc<App>,
    admins: Admins,
    usages: Usages,
    open: Mutex<Open>,
}

/// The open connections by kind of client. They share one lock, because they share the files of the process.
struct Open {
    /// Connections of admins to the socket.
    own: Shares,
    /// Connections of pods, on both listeners, and of users of the host who may see something.
    pods: Shares,
    /// Connections of processes in containers that the runtime has not told of yet.
    unidentified: Admission,
    foreign: Admission,
    metrics: Admission,
    /// Connections over TLS of clients whose certificates may read.
    listen: Shares,
    /// Connections over TLS in their handshake, and of clients that may not read.
    handshakes: Admission,
    /// Connections over TLS of clients that larder does not know, and whose requests go to the API server.
    passed: Admission,
    /// When a connection could last not be accepted.
    last_failure: Option<Instant>,
}

impl Open {
    /// Closes the connection that has waited longest for its client, and returns its listener.
    fn evict(&mut self) -> Option<Listener> {
        let kinds = [
            (Listener::Socket, &mut self.unidentified),
            (Listener::Socket, &mut self.foreign),
            (Listener::Metrics, &mut self.metrics),
            (Listener::Tls, &mut self.handshakes),
            (Listener::Tls, &mut self.passed),
        ];
        let of_identities =
            [(Listener::Socket, &mut self.own), (Listener::Socket, &mut self.pods), (Listener::Tls, &mut self.listen)];
        let of_identities = of_identities
            .into_iter()
            .flat_map(|(listener, shares)| shares.admissions().map(move |one| (listener, one)));
        let waiting = kinds
            .into_iter()
            .chain(of_identities)
            .filter_map(|(listener, kind)| Some((kind.longest_waiting()?, listener, kind)));
        let ((_, at), listener, kind) = waiting.min_by_key(|((since, _), ..)| *since)?;
        kind.evict(at);
        Some(listener)
    }

    /// Notes that a connection could not be accepted. Returns whether an outage begins.
    fn note_failure(&mut self) -> bool {
        let last = self.last_failure.replace(Instant::now());
        last.is_none_or(|last| last.elapsed() >= OUTAGE_END)
    }
}

/// What to do about a connection that cannot be accepted.
fn remedy(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE) => {
            "larder has as many open files as it may have; raise the limit of open files (LimitNOFILE= of systemd, \
             ulimit -n), or lower limits.connections and limits.podsConnections. Idle connections are closed meanwhile"
        }
        Some(Errno::NFILE) => {
            "the machine has as many open files as it may have; find the process that opens them, or raise fs.file-max. \
             Idle connections are closed meanwhile"
        }
        _ => "larder retries until it can",
    }
}

impl Connections {
    async fn take_metrics(&self, listener: Option<&TcpListener>, router: Router) {
        let Some(listener) = listener else { return };
        let client = Client {
            router,
            head_timeout: self.limits.metrics_head_timeout,
            stall_timeout: self.limits.metrics_stall_timeout,
            drain_timeout: self.limits.drain_timeout,
            most_requests: self.limits.metrics_requests_per_connection,
            http2_streams: None,
            usage: None,
            caller: Caller::Anonymous,
        };
        while let Some(accepted) = self.token.run_until_cancelled(listener.accept()).await {
            let Some(stream) = self.accepted(accepted.map(|(stream, _)| stream)).await else { continue };
            match self.admit(|open| open.metrics.admit(), Listener::Metrics) {
                Some(activity) => self.serve(stream, Listener::Metrics, client.clone(), activity),
                None => drop(stream.try_write(&turned_away())),
            }
        }
    }

    /// How many connections an identity may have.
    fn most_of(&self, identity: &Identity) -> usize {
        if identity.is_admin() { usize::MAX } else { self.limits.pod_connections }
    }

    /// Finds or makes room for one more connection, and counts the evicted or refused ones.
    fn admit(&self, admit: impl FnOnce(&mut Open) -> Admitted, listener: Listener) -> Option<Arc<Activity>> {
        let admitted = admit(&mut self.open.lock());
        match admitted {
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
        let error = match accepted {
            Ok(stream) => return Some(stream),
            Err(error) => error,
        };
        let is_out_of_files = matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE));
        let (is_new, evicted) = {
            let mut open = self.open.lock();
            (open.note_failure(), if is_out_of_files { open.evict() } else { None })
        };
        if is_new {
            tracing::warn!(%error, "cannot accept a connection: {}", remedy(&error));
        }
        if let Some(listener) = evicted {
            self.app.metrics.evicted(listener);
        }
        let pause = if evicted.is_some() { EVICT_PAUSE } else { ACCEPT_PAUSE };
        self.token.run_until_cancelled(tokio::time::sleep(pause)).await;
        None
    }

    fn serve<S>(&self, stream: S, listener: Listener, client: Client, activity: Arc<Activity>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (token, app, tracker) = (self.token.clone(), Arc::clone(&self.app), self.tracker.clone());
        let caller = client.caller.clone();
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
