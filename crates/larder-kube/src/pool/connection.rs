//! One HTTP/2 connection: its request counts, its signs of life, and the task that drives it.

use super::dial::Tasks;
use super::{Body, Shared};
use crate::stats::Counters;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Close a connection that has had no requests for this long.
const IDLE_TIME: Duration = Duration::from_secs(90);

/// How often a connection checks for that.
const IDLE_LOOK: Duration = Duration::from_secs(30);

/// A request that is dropped without a response after this long, on a silent connection, makes the connection doubted.
const PATIENCE: Duration = Duration::from_secs(1);

/// The most requests on a connection, also if the server sets no limit. 100: what most servers allow.
const MOST: usize = 100;

/// The sending half of a connection, with its counts.
pub(super) struct Connection {
    sender: SendRequest<Body>,
    heard: Arc<Heard>,
    /// The server's limit of parallel requests.
    most: AtomicUsize,
    /// Requests on the connection, and the watches among them. Both grow only under the pool's lock, so a check under the lock
    /// holds. Relaxed: they order nothing else.
    streams: AtomicUsize,
    lasting: AtomicUsize,
    /// When the last request ended, in milliseconds of [`Heard`].
    idle_since: AtomicU64,
    /// When a request last timed out in silence, in milliseconds of [`Heard`]; 0 for never.
    doubted_at: AtomicU64,
}

impl Connection {
    pub(super) fn new(sender: SendRequest<Body>, heard: Arc<Heard>, most: usize) -> Self {
        let idle_since = AtomicU64::new(heard.now());
        Self {
            sender,
            heard,
            most: AtomicUsize::new(most),
            streams: AtomicUsize::new(0),
            lasting: AtomicUsize::new(0),
            idle_since,
            doubted_at: AtomicU64::new(0),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    pub(super) fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    pub(super) fn has_room(&self, lasting: bool, limit: usize) -> bool {
        let most = self.most.load(Ordering::Relaxed);
        // With the default of 90 watches, 100 requests.
        let all = most.min(limit.saturating_add(limit.div_ceil(9)));
        let watches = limit.min(most - most / 10);
        self.streams() < all && (!lasting || self.lasting.load(Ordering::Relaxed) < watches)
    }

    /// Whether the connection has been silent since a request timed out.
    pub(super) fn is_doubted(&self) -> bool {
        let doubted_at = self.doubted_at.load(Ordering::Relaxed);
        doubted_at != 0 && self.heard.at() <= doubted_at
    }

    pub(super) fn is_idle(&self) -> bool {
        let since = self.idle_since.load(Ordering::Relaxed);
        let idle = Duration::from_millis(self.heard.now().saturating_sub(since));
        self.streams() == 0 && idle >= IDLE_TIME
    }
}

/// A request's place on a connection.
pub(super) struct Lease {
    connection: Arc<Connection>,
    pool: Arc<Shared>,
    /// When the request was sent, in milliseconds of [`Heard`].
    asked_at: u64,
    lasting: bool,
    answered: bool,
}

impl Lease {
    /// Call under the pool's lock.
    pub(super) fn new(connection: &Arc<Connection>, pool: &Arc<Shared>, lasting: bool) -> Self {
        connection.streams.fetch_add(1, Ordering::Relaxed);
        if lasting {
            connection.lasting.fetch_add(1, Ordering::Relaxed);
        }
        pool.transport.counters.stream_opened();
        let asked_at = connection.heard.now();
        Self { connection: Arc::clone(connection), pool: Arc::clone(pool), asked_at, lasting, answered: false }
    }

    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    pub(super) fn liveness(&self) -> Liveness {
        Liveness(Arc::clone(&self.connection.heard))
    }

    pub(super) async fn send(
        &mut self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Body>>> {
        let sent = self.connection.sender.clone().try_send_request(request).await;
        self.answered = true;
        sent
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let connection = &self.connection;
        let now = connection.heard.now();
        let waited = Duration::from_millis(now.saturating_sub(self.asked_at));
        if !self.answered && waited >= PATIENCE && connection.heard.at() <= self.asked_at {
            connection.doubted_at.store(now, Ordering::Relaxed);
        }
        connection.idle_since.store(now, Ordering::Relaxed);
        if self.lasting {
            connection.lasting.fetch_sub(1, Ordering::Relaxed);
        }
        connection.streams.fetch_sub(1, Ordering::Relaxed);
        self.pool.transport.counters.stream_closed();
        self.pool.changed.notify_waiters();
    }
}

/// The receiving half of a connection.
pub(super) type Wire = http2::Connection<TokioIo<Listened>, Body, Tasks>;

/// Drives a connection.
pub(super) struct Driver(pub(super) Wire);

impl Driver {
    /// Drives a connection until it closes, or until `retire` has removed it as idle.
    pub(super) async fn drive(
        mut self,
        connection: &Connection,
        counters: &Counters,
        mut retire: impl FnMut() -> bool,
    ) {
        loop {
            tokio::select! {
                ended = &mut self.0 => {
                    match ended {
                        Err(error) if error.is_timeout() => {
                            counters.ping_lost();
                            tracing::warn!("a connection to the API server is stuck, and is replaced");
                        }
                        Err(error) => tracing::debug!(%error, "a connection to the API server ended"),
                        Ok(()) => {}
                    }
                    return;
                }
                () = tokio::time::sleep(IDLE_LOOK) => if retire() { return },
            }
            // The server may change its mind.
            connection.most.store(most(&self.0), Ordering::Relaxed);
        }
    }
}

/// The server's limit of parallel requests; 0 until the server sends it.
pub(super) fn most(wire: &Wire) -> usize {
    wire.current_max_send_streams().min(MOST)
}

/// When a connection last received data.
pub(super) struct Heard {
    begun: Instant,
    /// Milliseconds since `begun`, from 1. Relaxed: only compared with other times.
    at: AtomicU64,
    /// Notified when the received data has been processed.
    pub(super) taken_in: Notify,
}

impl Heard {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), at: AtomicU64::new(0), taken_in: Notify::new() }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    fn at(&self) -> u64 {
        self.at.load(Ordering::Relaxed)
    }
}

/// A connection's signs of life, for the receiver of a response.
#[derive(Clone)]
pub(crate) struct Liveness(Arc<Heard>);

impl Liveness {
    /// When the connection last received data, since its start.
    pub(crate) fn heard(&self) -> Duration {
        Duration::from_millis(self.0.at())
    }

    /// How long the connection has been silent.
    pub(crate) fn silence(&self) -> Duration {
        Duration::from_millis(self.0.now().saturating_sub(self.0.at()))
    }
}

/// A stream that notes when data arrives.
pub(super) struct Listened {
    socket: Box<dyn Socket>,
    heard: Arc<Heard>,
    /// Data has arrived since the reader last waited.
    fresh: bool,
}

/// TCP, or a tunnel through a proxy, with or without TLS.
pub(super) trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Socket for S {}

impl Listened {
    pub(super) fn new(socket: Box<dyn Socket>, heard: Arc<Heard>) -> Self {
        Self { socket, heard, fresh: false }
    }
}

impl AsyncRead for Listened {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut *self.socket).poll_read(cx, buf);
        match &read {
            Poll::Ready(_) if buf.filled().len() > before => {
                self.fresh = true;
                self.heard.at.store(self.heard.now(), Ordering::Relaxed);
            }
            // The reader waits again once it has processed the data.
            Poll::Pending if self.fresh => {
                self.fresh = false;
                self.heard.taken_in.notify_one();
            }
            _ => {}
        }
        read
    }
}

impl AsyncWrite for Listened {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.socket).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.socket).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.socket).poll_shutdown(cx)
    }
}
