//! Requests to one server over a few shared HTTP/2 connections, or over HTTP/1.1.
//!
//! The server chooses HTTP/2 in the TLS handshake (ALPN). Otherwise requests go to a pool of HTTP/1.1 connections, in which every
//! watch takes one. `dial` opens a connection, `route` the stream or proxy tunnel below, and `connection` counts requests and
//! sends PINGs. [`session`](crate::session) owns a [`Pool`]; another server or certificate makes a new one.
//!
//! # Guarantees
//!
//! - *Within the server's limit*: no request is sent before the server has said how many it takes in parallel. Watches fill at
//!   most nine tenths of that, and at most [`KubeOptions::streams_per_connection`](crate::KubeOptions::streams_per_connection),
//!   so that reads find room.
//! - *Few*: a request takes the fullest connection that has room. Only when none has room does the pool open another, one at a
//!   time, up to [`KubeOptions::max_connections`](crate::KubeOptions::max_connections). An idle connection closes after 90 s.
//! - *Stuck connections are replaced*: a connection that is silent for
//!   [`KubeOptions::ping_interval`](crate::KubeOptions::ping_interval) gets a PING, and is closed after
//!   [`KubeOptions::dead_link_timeout`](crate::KubeOptions::dead_link_timeout) of silence. A request that times out on a silent
//!   connection keeps new requests off the connection until it receives data.
//! - *Failures are shared*: all requests that wait for a connection get the failure to open it, and so do requests during the
//!   backoff after it (100 ms to 1 s). However many ask, a server that is down sees about one attempt a second.
//! - *Sent once*: a request is retried only if the connection closed before the request was sent.
//!
//! # Limits
//!
//! Without TLS, HTTP/1.1 only. HTTP/1.1 uses at most
//! [`KubeOptions::http1_connections`](crate::KubeOptions::http1_connections) connections, watches nine tenths of these. After ten
//! minutes of HTTP/1.1 the pool tries HTTP/2 again. A read waits for room and for a connection until its caller gives up. A watch fails at once ([`NoRoom`]) when watches fill all connections; its list-watch
//! then polls.
//!
//! # Cancel safety
//!
//! Dropping a request or its response resets the stream and frees its place. A connection that is being opened goes on for later
//! requests.
//!
//! # Locks
//!
//! One, over the list of connections, never held over an `.await`. The request counts of a connection are atomics and only grow
//! under the lock.

use crate::backoff::Backoff;
use crate::options::KubeOptions;
use crate::stats::Counters;
use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use larder_clock::Jitter;
use parking_lot::Mutex;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::BoxError;

mod body;
mod connection;
mod dial;
mod route;

pub(crate) use body::Body;
pub(crate) use connection::Liveness;
use connection::{Connection, Lease};
pub(crate) use dial::{Dial, Windows};
use dial::{Dialed, Http1Connector};
pub(crate) use route::{AGENT, Route, Via};

/// How long the pool uses HTTP/1.1 before it tries HTTP/2 again.
const HTTP1_TIME: Duration = Duration::from_mins(10);

/// The backoff after a connection that could not be opened.
const DIAL_INITIAL: Duration = Duration::from_millis(100);
const DIAL_MAX: Duration = Duration::from_secs(1);

/// The most attempts of a request whose connection closes before the request is sent.
const ATTEMPTS: usize = 3;

/// The most idle HTTP/1.1 connections, and their time limit.
const IDLE_CONNECTIONS: usize = 4;
const IDLE_TIME: Duration = Duration::from_secs(90);

/// Shared by all pools of a client, across changes of its configuration.
#[derive(Clone)]
pub(crate) struct Transport {
    pub(crate) counters: Arc<Counters>,
    /// Cancelled when the client is dropped; ends the connections' tasks.
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    /// How long the machine has slept in total.
    pub(crate) slept: watch::Sender<Duration>,
}

impl Transport {
    pub(crate) fn new() -> Self {
        Self {
            counters: Arc::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            slept: watch::Sender::default(),
        }
    }

    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(self.stop.clone().run_until_cancelled_owned(future));
    }
}

/// The connections to one server; clones share them.
#[derive(Clone)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    http1: Http1,
}

/// The connections of HTTP/1.1.
type Http1 = legacy::Client<Http1Connector, Body>;

struct Shared {
    dial: Arc<Dial>,
    limits: Limits,
    http1_room: Http1Room,
    transport: Transport,
    state: Mutex<State>,
    /// Notified when a request that found no room should look again.
    changed: Notify,
}

/// Room for requests over HTTP/1.1, each of which takes a connection.
struct Http1Room {
    all: Arc<Semaphore>,
    /// Fewer than `all`, so that reads find room.
    watches: Arc<Semaphore>,
}

impl Http1Room {
    fn new(connections: usize) -> Self {
        let connections = connections.min(Semaphore::MAX_PERMITS);
        let watches = connections - connections.div_ceil(10);
        Self { all: Arc::new(Semaphore::new(connections)), watches: Arc::new(Semaphore::new(watches)) }
    }

    /// A place for a request. A read waits for a place; a watch fails if watches fill their share, and else waits for short
    /// reads only.
    async fn place(&self, lasting: bool) -> Result<Http1Place, NoRoom> {
        let watch = if lasting {
            let permit = Arc::clone(&self.watches).try_acquire_owned();
            Some(permit.map_err(|_| NoRoom { setting: "http1Connections (KubeOptions::http1_connections)" })?)
        } else {
            None
        };
        Ok(Http1Place { _watch: watch, _connection: Arc::clone(&self.all).acquire_owned().await.ok() })
    }
}

/// The place of a request over HTTP/1.1, until dropped. (The semaphores are never closed.)
struct Http1Place {
    _watch: Option<OwnedSemaphorePermit>,
    _connection: Option<OwnedSemaphorePermit>,
}

/// The limits of connections.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Watches on a connection.
    lasting: usize,
    connections: usize,
}

struct State {
    /// The connections for new requests; at most [`Limits::connections`].
    connections: Vec<Arc<Connection>>,
    /// Whether a connection is being opened.
    dialing: bool,
    /// The number of finished attempts to open a connection.
    dialed: u64,
    /// The last attempt, if it failed.
    failed: Option<Failed>,
    /// The backoff of failed attempts.
    backoff: Backoff,
    /// When the server was last found to speak only HTTP/1.1.
    http1_since: Option<Instant>,
}

impl State {
    fn new(jitter: &Jitter) -> Self {
        Self {
            connections: Vec::new(),
            dialing: false,
            dialed: 0,
            failed: None,
            backoff: Backoff::new(DIAL_INITIAL, DIAL_MAX, jitter),
            http1_since: None,
        }
    }
}

struct Failed {
    attempt: u64,
    error: DialError,
    /// When the next attempt may start.
    until: Instant,
}

/// The connection of a request.
enum Leased {
    Http2(Lease),
    Http1,
    NoRoom,
}

/// The result of a look for room.
enum Found {
    Room(Lease),
    Http1,
    /// Watches fill all connections, and the request is a watch.
    NoRoom,
    /// No room yet. If a connection is being opened, the attempt's number: all waiting requests share its result.
    Wait(Option<u64>),
}

impl State {
    /// The fullest connection with room, among the doubted or the others.
    fn best(&self, lasting: bool, limit: usize, doubted: bool) -> Option<&Arc<Connection>> {
        let such = self.connections.iter().filter(|c| c.is_doubted() == doubted && c.has_room(lasting, limit));
        such.max_by_key(|connection| connection.streams())
    }

    fn answered(&mut self) {
        self.failed = None;
        self.backoff.reset();
    }
}

impl Pool {
    pub(crate) fn new(dial: Dial, options: &KubeOptions, transport: &Transport) -> Self {
        let count = |of: u32| usize::try_from(of).unwrap_or(usize::MAX);
        let limits =
            Limits { lasting: count(options.streams_per_connection), connections: count(options.max_connections) };
        let http1_room = Http1Room::new(count(options.http1_connections));
        let transport = Transport { stop: transport.stop.child_token(), ..transport.clone() };
        let dial = Arc::new(dial);
        let http1 = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIME)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .pool_timer(TokioTimer::new())
            .build(Http1Connector { dial: Arc::clone(&dial), closed: transport.stop.clone() });
        let state = Mutex::new(State::new(&options.jitter));
        let shared = Shared { dial, limits, http1_room, transport, state, changed: Notify::new() };
        Self { shared: Arc::new(shared), http1 }
    }

    /// Sends a request and returns the head of the response.
    ///
    /// Cancel safe.
    pub(crate) async fn send(&self, request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        let lasting = is_watch(request.uri());
        self.send_as(request, lasting).await
    }

    /// The same, of a request that takes the place of a watch if it is `lasting`.
    ///
    /// Cancel safe.
    pub(crate) async fn send_as(&self, request: Request<Body>, lasting: bool) -> Result<Response<Answer>, BoxError> {
        Arc::clone(&self.shared).send(self.http1.clone(), request, lasting).await
    }

    /// Sends a request that asks for another protocol, on an HTTP/1.1 connection of its own. The connection ends with the answer, or
    /// lives on as the upgraded one.
    ///
    /// Cancel safe.
    pub(crate) async fn upgrade(&self, mut request: Request<Body>) -> Result<Response<Incoming>, BoxError> {
        let stream = self.shared.dial.dial_http1().await?;
        let uri = request.uri();
        let host = uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
        let path = uri.path_and_query().cloned().map(Uri::from).unwrap_or_default();
        *request.uri_mut() = path;
        request.headers_mut().extend(host.map(|host| (HOST, host)));
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        self.shared.transport.spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection to the API server for an upgrade ended");
            }
        });
        Ok(sender.send_request(request).await?)
    }

    /// Checks that the server can be connected to.
    pub(crate) async fn reach(&self) -> Result<(), DialError> {
        match self.shared.lease(false).await? {
            Leased::Http2(_) | Leased::NoRoom => Ok(()),
            Leased::Http1 => self.shared.dial.dial_http1().await.map(drop),
        }
    }

    /// Closes all connections; requests in flight fail.
    pub(crate) fn close(&self) {
        self.shared.transport.stop.cancel();
        self.shared.changed.notify_waiters();
    }
}

/// The error of a watch when watches fill all connections.
#[derive(Debug, thiserror::Error)]
#[error("watches fill all connections that the setting {setting} allows")]
pub(crate) struct NoRoom {
    pub(crate) setting: &'static str,
}

/// Whether [`Pool::send`] failed for lack of a connection.
pub(crate) fn is_unconnected(error: &BoxError) -> bool {
    error.is::<DialError>() || error.downcast_ref().is_some_and(legacy::Error::is_connect)
}

impl Shared {
    async fn send(
        self: Arc<Self>,
        http1: Http1,
        mut request: Request<Body>,
        lasting: bool,
    ) -> Result<Response<Answer>, BoxError> {
        let mut attempts = 1;
        loop {
            let mut lease = match self.lease(lasting).await? {
                Leased::Http2(lease) => lease,
                Leased::NoRoom => {
                    return Err(NoRoom { setting: "maxConnections (KubeOptions::max_connections)" }.into());
                }
                Leased::Http1 => {
                    let place = self.http1_room.place(lasting).await?;
                    let response = http1.request(request).await?;
                    return Ok(response.map(|body| Answer { body, place: Some(Place::Http1(place)) }));
                }
            };
            match lease.send(request).await {
                Ok(mut response) => {
                    response.extensions_mut().insert(lease.liveness());
                    return Ok(response.map(|body| Answer { body, place: Some(Place::Http2(lease)) }));
                }
                Err(mut error) => {
                    let Some(unsent) = error.take_message().filter(|_| attempts < ATTEMPTS) else {
                        return Err(error.into_error().into());
                    };
                    self.retire(lease.connection());
                    request = unsent;
                    attempts += 1;
                }
            }
        }
    }

    /// A place for a request. A read waits for room, a watch does not.
    async fn lease(self: &Arc<Self>, lasting: bool) -> Result<Leased, DialError> {
        let mut awaited = None;
        loop {
            let mut changed = pin!(self.changed.notified());
            // Enabled before the look, so that no change in between is missed.
            changed.as_mut().enable();
            match self.find(lasting, awaited)? {
                Found::Room(lease) => return Ok(Leased::Http2(lease)),
                Found::Http1 => return Ok(Leased::Http1),
                Found::NoRoom => return Ok(Leased::NoRoom),
                Found::Wait(attempt) => awaited = awaited.or(attempt),
            }
            changed.await;
        }
    }

    fn find(self: &Arc<Self>, lasting: bool, awaited: Option<u64>) -> Result<Found, DialError> {
        if self.transport.stop.is_cancelled() {
            return Err(DialError::new(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the connections were closed",
            )));
        }
        let mut state = self.state.lock();
        if !self.dial.may_be_http2() || state.http1_since.is_some_and(|since| since.elapsed() < HTTP1_TIME) {
            return Ok(Found::Http1);
        }
        state.connections.retain(|connection| !connection.is_closed());
        let limit = self.limits.lasting;
        if let Some(connection) = state.best(lasting, limit, false) {
            return Ok(Found::Room(Lease::new(connection, self, lasting)));
        }
        if let Some(failed) = &state.failed {
            let was_awaited = awaited.is_some_and(|awaited| failed.attempt >= awaited);
            if was_awaited || Instant::now() < failed.until {
                return Err(failed.error.clone());
            }
        }
        if state.connections.len() < self.limits.connections {
            if !state.dialing {
                state.dialing = true;
                self.transport.spawn(Arc::clone(self).open(state.dialed));
            }
            return Ok(Found::Wait(Some(state.dialed)));
        }
        // A connection that may be stuck is better than none.
        if let Some(connection) = state.best(lasting, limit, true) {
            return Ok(Found::Room(Lease::new(connection, self, lasting)));
        }
        Ok(if lasting { Found::NoRoom } else { Found::Wait(None) })
    }

    /// Opens a connection and drives it until it ends.
    async fn open(self: Arc<Self>, attempt: u64) {
        // Boxed: the future would otherwise keep this size for the connection's life.
        let dialed = Box::pin(self.dial.dial(&self.transport)).await;
        let counters = &self.transport.counters;
        let opened = {
            let mut state = self.state.lock();
            state.dialing = false;
            state.dialed = attempt + 1;
            match dialed {
                Ok(Dialed::Http2(connection, driver)) => {
                    state.http1_since = None;
                    state.answered();
                    state.connections.push(Arc::clone(&connection));
                    counters.connection_opened();
                    Some((connection, driver))
                }
                Ok(Dialed::Http1) => {
                    state.http1_since = Some(Instant::now());
                    state.answered();
                    None
                }
                Err(error) => {
                    counters.connection_failed();
                    let until = Instant::now() + state.backoff.pause();
                    state.failed = Some(Failed { attempt, error, until });
                    None
                }
            }
        };
        self.changed.notify_waiters();
        if let Some((connection, driver)) = opened {
            // Also where this task is cancelled.
            let _gone = Gone { shared: &self, connection: &connection };
            driver.drive(&connection, counters, || self.retire_idle(&connection)).await;
        }
    }

    fn retire(&self, gone: &Arc<Connection>) {
        self.state.lock().connections.retain(|connection| !Arc::ptr_eq(connection, gone));
        self.changed.notify_waiters();
    }

    /// Removes a connection without requests. The lock keeps new requests out meanwhile.
    fn retire_idle(&self, idle: &Arc<Connection>) -> bool {
        let mut state = self.state.lock();
        let retired = idle.is_idle();
        if retired {
            state.connections.retain(|connection| !Arc::ptr_eq(connection, idle));
        }
        retired
    }
}

/// Removes a closed connection.
struct Gone<'a> {
    shared: &'a Shared,
    connection: &'a Arc<Connection>,
}

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.shared.retire(self.connection);
        self.shared.transport.counters.connection_closed();
    }
}

/// Whether a request is answered for as long as its connection lasts.
fn is_watch(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|field| field == "watch=true"))
}

/// The body of a response; holds the request's place until its end or drop.
pub struct Answer {
    body: Incoming,
    place: Option<Place>,
}

/// The place of a request, until dropped.
#[expect(dead_code, reason = "held to be dropped")]
enum Place {
    Http2(Lease),
    Http1(Http1Place),
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(None | Some(Err(_))) = frame {
            self.place = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}

/// The failure to open a connection, shared by all requests that waited.
#[derive(Clone)]
pub(crate) struct DialError(Arc<dyn Error + Send + Sync>);

impl DialError {
    fn new(error: impl Into<BoxError>) -> Self {
        Self(Arc::from(error.into()))
    }
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for DialError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
