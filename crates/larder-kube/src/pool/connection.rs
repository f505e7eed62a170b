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

/// A connection without requests is closed after this.
const IDLE_TIME: Duration = Duration::from_secs(90);

/// How often a connection is looked at for that.
const IDLE_LOOK: Duration = Duration::from_secs(30);

/// An answer that did not come for so long, over a connection that brought nothing else either, casts doubt on it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Requests that a connection has at most where the server sets no limit. 100: what most servers allow.
const MOST: usize = 100;

/// The sending end of a connection, and what is known of it.
pub(super) struct Connection {
    sender: SendRequest<Body>,
    heard: Arc<Heard>,
    /// How many requests the server allows side by side.
    most: AtomicUsize,
    /// Requests that have a place, and those of them that are watches. They grow under the pool's lock alone, so a look at
    /// them under it can be relied upon; relaxed, since they order nothing else.
    streams: AtomicUsize,
    lasting: AtomicUsize,
    /// When the last request went, in milliseconds of [`Heard`].
    idle_since: AtomicU64,
    /// When a request was last given up on in silence, in milliseconds of [`Heard`]; 0 for never.
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

    /// Whether nothing has come since a request was given up on.
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
    /// When it was sent, in milliseconds of [`Heard`].
    asked_at: u64,
    lasting: bool,
    answered: bool,
}

impl Lease {
    /// To be called under the pool's lock.
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

/// The receiving end of a connection.
pub(super) type Wire = http2::Connection<TokioIo<Listened>, Body, Tasks>;

/// What keeps a connection going.
pub(super) struct Driver(pub(super) Wire);

impl Driver {
    /// Drives a connection until it ends, or until `retire` has taken it out for having no requests.
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

/// The server's limit of requests side by side; 0 until it has told it.
pub(super) fn most(wire: &Wire) -> usize {
    wire.current_max_send_streams().min(MOST)
}

/// When something last came over a connection.
pub(super) struct Heard {
    begun: Instant,
    /// Milliseconds since `begun`, from 1. Relaxed: it is compared with times alone.
    at: AtomicU64,
    /// Rung when what had come has been taken in.
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

/// The signs of life of a connection, for whoever is answered over it.
#[derive(Clone)]
pub(crate) struct Liveness(Arc<Heard>);

impl Liveness {
    /// When it was last heard, since it began.
    pub(crate) fn heard(&self) -> Duration {
        Duration::from_millis(self.0.at())
    }

    /// How long it has been silent.
    pub(crate) fn silence(&self) -> Duration {
        Duration::from_millis(self.0.now().saturating_sub(self.0.at()))
    }
}

/// A socket that notes when something comes.
pub(super) struct Listened {
    socket: Box<dyn Socket>,
    heard: Arc<Heard>,
    /// Something has come since the reader last had to wait.
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
            // Its reader comes back for more when it has taken in the last.
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
