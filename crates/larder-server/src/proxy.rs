//! A proxy of the local API on a loopback port, for clients that cannot dial a Unix socket.
//!
//! The proxy asks the daemon over its socket, so its clients read what the proxy's own user may read. It speaks TLS, because client-go
//! sends a token over TLS only.
//!
//! # Guarantees
//!
//! - *The token alone decides*: every request without it is 401, whatever its path, its `Host` and its origin. It is random, it is
//!   compared in constant time, it does not reach the daemon, and it is in no error and no `Debug`.
//! - *Unbuffered*: each part of an answer goes to the client as it comes, and the daemon is read no faster than the client reads.
//! - *Bounded*: as the local API, connections and requests are, and all that a client makes the proxy wait for has a deadline. A request
//!   without the token takes no place of one that has it.
//! - *Whole or broken*: an answer that breaks off at the daemon breaks off at the client.
//!
//! # Limits
//!
//! Any local user can open connections to the port. Nothing holds back a flood of them.
//!
//! # Cancel safety
//!
//! If a client goes away, so does its request to the daemon.

mod forward;

use crate::activity::Activity;
use crate::admission::{Admission, Admitted};
use crate::caller::Caller;
use crate::connection::{self, Client};
use crate::handshake;
use crate::limits::{LimitError, Limits};
use axum::Router;
use forward::Upstream;
use jiff::Timestamp;
use larder_tls::{Ephemeral, TlsError};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::error::Error;
use std::fmt::{self, Write as _};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use zeroize::Zeroizing;

/// The pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Open connections: fewer than those of the daemon, which has other clients.
const CONNECTIONS: usize = 64;
/// Requests in flight. Each is a connection to the daemon.
const REQUESTS: usize = 256;
/// The bytes of a token. Nobody guesses 256 bits.
const TOKEN: usize = 32;

/// Where to listen and whom to ask.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProxyOptions {
    /// The socket of the daemon.
    pub socket: PathBuf,
    /// The port on 127.0.0.1. Default: 0, any free one.
    pub port: u16,
    /// The limits of clients. `connections` (64) and `admin_requests` (256) are lower than the daemon's; the others are the same.
    /// Those of other listeners have no effect.
    pub limits: Limits,
}

impl ProxyOptions {
    /// A proxy to the daemon with this socket.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        let limits = Limits { connections: CONNECTIONS, admin_requests: REQUESTS, ..Limits::default() };
        Self { socket: socket.into(), port: 0, limits }
    }
}

/// Why the proxy cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// A limit is invalid.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// It cannot listen.
    #[error("cannot listen on {address} (--port)")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why it cannot.
        source: io::Error,
    },
    /// Its certificate cannot be made.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// There is no randomness for the token.
    #[error("cannot make a token")]
    Random(#[source] io::Error),
}

/// The listening proxy. It answers once it [runs](Self::run).
pub struct Proxy {
    listener: TcpListener,
    address: SocketAddr,
    tls: Ephemeral,
    upstream: Arc<Upstream>,
    limits: Limits,
    ending: CancellationToken,
}

/// Without the token and the key.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Proxy {
    /// Listens on 127.0.0.1. The proxy ends when `ending` is cancelled. The daemon does not have to be there.
    ///
    /// # Errors
    ///
    /// [`ProxyError`] names the invalid limit, or the address on which the proxy cannot listen, and the reason.
    pub async fn bind(options: ProxyOptions, now: Timestamp, ending: CancellationToken) -> Result<Self, ProxyError> {
        let ProxyOptions { socket, port, limits } = options;
        limits.validate()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let failed = |source| ProxyError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let names = [address.ip().to_string(), "localhost".to_owned()].into();
        let tls = Ephemeral::make(&address.to_string(), &names, now)?;
        let token = random_token().map_err(|error| ProxyError::Random(error.into()))?;
        let upstream = Arc::new(Upstream::new(socket, token, limits.admin_requests, ending.clone()));
        Ok(Self { listener, address, tls, upstream, limits, ending })
    }

    /// The address, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate of the authority that clients are to trust, in PEM.
    pub fn authority_pem(&self) -> &str {
        self.tls.authority_pem()
    }

    /// The token that clients are to send: `Authorization: Bearer TOKEN`.
    pub fn token(&self) -> &str {
        self.upstream.token()
    }

    /// Answers until it ends, and then until all requests in flight are answered or the drain timeout has passed.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, it ends at once, and each open connection ends after its request.
    pub async fn run(self) {
        let Self { listener, tls, upstream, limits, ending, .. } = self;
        let client = Client {
            router: Router::new().fallback(forward::forward).with_state(upstream),
            head_timeout: limits.head_timeout,
            stall_timeout: limits.stall_timeout,
            drain_timeout: limits.drain_timeout,
            most_requests: usize::MAX,
            http2_streams: Some(limits.http2_streams),
            // The limit of requests in flight is the upstream's, which knows whether a request has the token.
            usage: None,
            caller: Caller::Anonymous,
        };
        let handshake_timeout = limits.handshake_timeout;
        let serving = Arc::new(Serving { tls, client, handshake_timeout, tracker: TaskTracker::new(), ending });
        let mut open = Admission::new(limits.connections);
        while let Some(accepted) = serving.ending.run_until_cancelled(listener.accept()).await {
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    make_room(&mut open, &error);
                    serving.ending.run_until_cancelled(tokio::time::sleep(ACCEPT_PAUSE)).await;
                    continue;
                }
            };
            match open.admit() {
                Admitted::Free(activity) | Admitted::InPlaceOfAnother(activity) => {
                    serving.tracker.spawn(Arc::clone(&serving).connected(stream, activity));
                }
                // It is dropped: an answer needs a handshake.
                Admitted::No => {}
            }
        }
        drop(listener);
        serving.tracker.close();
        // What has not ended by then ends with the process.
        let _ = tokio::time::timeout(limits.drain_timeout, serving.tracker.wait()).await;
    }
}

/// What all connections share.
struct Serving {
    tls: Ephemeral,
    client: Client,
    handshake_timeout: Duration,
    tracker: TaskTracker,
    ending: CancellationToken,
}

impl Serving {
    async fn connected(self: Arc<Self>, stream: TcpStream, activity: Arc<Activity>) {
        if let Err(error) = self.serve(stream, activity).await {
            // The client caused it: it went away, was too slow, or does not speak TLS or HTTP.
            tracing::debug!(%error, "connection to the proxy ended");
        }
    }

    async fn serve(&self, stream: TcpStream, activity: Arc<Activity>) -> Result<(), Box<dyn Error + Send + Sync>> {
        handshake::watch_for_silence(&stream, self.client.stall_timeout)?;
        let handshake = tokio::time::timeout(self.handshake_timeout, handshake::accept(self.tls.config(), stream));
        let stream = tokio::select! {
            done = handshake => done??,
            () = activity.evicted.cancelled() => return Ok(()),
            () = self.ending.cancelled() => return Ok(()),
        };
        connection::serve(stream, self.client.clone(), activity, self.tracker.clone(), self.ending.clone()).await
    }
}

/// Closes the connection that has waited longest for its client, if the process or the machine can open no more files.
fn make_room(open: &mut Admission, error: &io::Error) {
    let is_out_of_files = matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE));
    if is_out_of_files && let Some((_, at)) = open.longest_waiting() {
        open.evict(at);
    }
}

/// In hexadecimal.
fn random_token() -> Result<Zeroizing<String>, Errno> {
    let mut random = Zeroizing::new([0; TOKEN]);
    let filled = getrandom(&mut random[..], GetRandomFlags::empty())?;
    if filled < TOKEN {
        return Err(Errno::IO);
    }
    let mut token = Zeroizing::new(String::with_capacity(TOKEN * 2));
    for byte in random.iter() {
        // Writing to a string cannot fail.
        let _ = write!(token, "{byte:02x}");
    }
    Ok(token)
}
