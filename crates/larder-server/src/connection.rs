//! One connection, over HTTP/1.1 or HTTP/2 as the client begins it.
//!
//! # Guarantees
//!
//! - A client that sends no whole request, or does not read its answers, loses its connection after the time limit, over either
//!   protocol. larder sends an idle HTTP/2 client a GOAWAY first, so that the client does not lose a request.
//! - The number of HTTP/2 requests is limited for each connection, and that of requests in flight for each [identity](crate::usage). larder
//!   answers one more with 429.
//! - larder drops a request at once when the client resets it.
//! - When the token is cancelled, larder accepts no more requests (GOAWAY over HTTP/2), answers those in flight within the drain
//!   timeout, and drops half-sent ones.
//!
//! # Limits
//!
//! The last 64 KiB of an answer over HTTP/2 count as taken as soon as the connection has them.
//!
//! # Cancel safety
//!
//! A connection that is dropped ends with all its requests.

use crate::activity::{Activity, Exchange, Overdue};
use crate::caller::Caller;
use crate::pass_through::{AskedUri, PassedBack};
use crate::request_body;
use crate::usage::{Data, InFlight, Usage};
use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, Request, Version, header};
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::error::Error;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use tower_http::normalize_path::NormalizePath;

/// How long a client may take to take the last part of an answer when its connection ends.
const FLUSH: Duration = Duration::from_millis(250);
/// The most bytes of the headers of one HTTP/2 request: a path with a long label selector fits.
const HEADER_LIST: u32 = 64 << 10;
/// The most bytes of request bodies that an HTTP/2 client may send: nobody reads them.
const RECEIVE_WINDOW: u32 = 64 << 10;
/// Bytes of an answer that larder hands to an HTTP/2 connection at once, as many as a frame has. A client that takes them makes progress.
const PART: usize = 16 << 10;
/// Bytes of an answer that an HTTP/2 connection buffers until the client takes them.
const SEND_BUFFER: usize = 48 << 10;

/// How a client is served.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) router: Router,
    pub(crate) head_timeout: Duration,
    pub(crate) stall_timeout: Duration,
    pub(crate) drain_timeout: Duration,
    pub(crate) most_requests: usize,
    /// The most requests in flight over HTTP/2; `None` if larder speaks only HTTP/1.1 with it.
    pub(crate) http2_streams: Option<usize>,
    /// What its identity uses; `None` where only a request says who asks, or where nobody is served anything.
    pub(crate) usage: Option<Usage>,
    pub(crate) caller: Caller,
}

type Failure = Box<dyn Error + Send + Sync>;

/// The time limits of a client.
struct Times {
    head: Duration,
    stall: Duration,
    drain: Duration,
}

/// Serves one connection to its end. After the token is cancelled, the connection ends with its requests in flight.
pub(crate) async fn serve<S>(
    stream: S,
    client: Client,
    activity: Arc<Activity>,
    tasks: TaskTracker,
    token: CancellationToken,
) -> Result<(), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let ended = CancellationToken::new();
    let builder = builder(&client, Streams { tasks, ended: ended.clone() });
    let _ended = ended.drop_guard();
    let io = TokioIo::new(StallWatch::new(stream, Arc::clone(&activity)));
    let answering = Arc::clone(&activity);
    let limits = Times { head: client.head_timeout, stall: client.stall_timeout, drain: client.drain_timeout };
    let has_http2 = client.http2_streams.is_some();
    // Relaxed: only one task counts.
    let served = AtomicUsize::new(0);
    let service = service_fn(move |request: Request<Incoming>| {
        let exchange = Exchange::begin(Arc::clone(&answering));
        let is_last = served.fetch_add(1, Ordering::Relaxed) + 1 >= client.most_requests;
        let is_http2 = request.version() == Version::HTTP_2;
        let place = client.usage.as_ref().map(Usage::request).transpose();
        let answer = answer(client.router.clone(), request, client.caller.clone(), client.usage.clone());
        async move {
            let (mut answer, place) = match place {
                Err(refusal) => (refusal.into_response(), None),
                Ok(place) => (answer.await?, place.map(Arc::new)),
            };
            // Of a request that says itself who asks.
            let place = place.or_else(|| answer.extensions_mut().remove::<Arc<InFlight>>());
            if is_last {
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(answer.map(|body| AnswerBody { body, left: None, exchange, place, is_http2 }))
        }
    });
    // With upgrades, hyper takes HTTP/2 from whoever begins it.
    if has_http2 {
        let connection = std::pin::pin!(builder.serve_connection_with_upgrades(io, service));
        drive(connection, auto::UpgradeableConnection::graceful_shutdown, &limits, &activity, &token).await
    } else {
        let connection = std::pin::pin!(builder.serve_connection(io, service));
        drive(connection, auto::Connection::graceful_shutdown, &limits, &activity, &token).await
    }
}

/// Drives a connection to its end, as [`serve`] says.
async fn drive<C>(
    mut connection: Pin<&mut C>,
    shut_down: impl FnOnce(Pin<&mut C>),
    limits: &Times,
    activity: &Activity,
    token: &CancellationToken,
) -> Result<(), Failure>
where
    C: Future<Output = Result<(), Failure>>,
{
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = activity.evicted.cancelled() => return Ok(()),
        overdue = activity.overdue(limits.head, limits.stall) => match overdue {
            Overdue::Slow => return Err("the client does not read its answer".into()),
            Overdue::Idle => {}
        },
        () = token.cancelled() => {}
    }
    shut_down(connection.as_mut());
    tokio::select! {
        ended = connection => ended,
        () = activity.evicted.cancelled() => Ok(()),
        // It does not wait for a half-sent request.
        () = activity.idle_for(FLUSH) => Ok(()),
        () = tokio::time::sleep(limits.drain) => Ok(()),
    }
}

/// Sets the limits. The [`Activity`] has the time limits of both protocols.
fn builder(client: &Client, streams: Streams) -> auto::Builder<Streams> {
    let mut builder = auto::Builder::new(streams);
    builder.http1().header_read_timeout(None);
    let Some(streams) = client.http2_streams else { return builder.http1_only() };
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(u32::try_from(streams).unwrap_or(u32::MAX))
        .max_header_list_size(HEADER_LIST)
        .initial_stream_window_size(RECEIVE_WINDOW)
        .initial_connection_window_size(RECEIVE_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(client.stall_timeout)
        .keep_alive_timeout(client.stall_timeout);
    builder
}

async fn answer(
    router: Router,
    mut request: Request<Incoming>,
    caller: Caller,
    usage: Option<Usage>,
) -> Result<Response, Infallible> {
    // Python's client asks for `/api/v1/`, and the API server answers as for `/api/v1`.
    let router = NormalizePath::trim_trailing_slash(router);
    request.extensions_mut().insert(caller);
    if let Some(usage) = usage {
        request.extensions_mut().insert(usage);
    }
    if request.uri().path().ends_with('/') {
        let asked = AskedUri(request.uri().clone());
        request.extensions_mut().insert(asked);
    }
    // HTTP/2 tells the client not to send the rest.
    if request.version() == Version::HTTP_2 || request.body().is_end_stream() {
        return router.oneshot(request.map(Body::new)).await;
    }
    let (head, body) = request.into_parts();
    let (body, rest) = request_body::share(body, &head.headers);
    let mut response = router.oneshot(Request::from_parts(head, body)).await?;
    // The API server has begun its answer, and may go on taking the body.
    let is_sent_on = response.extensions().get::<PassedBack>().is_some() && response.status().is_success();
    if !is_sent_on && !rest.read().await {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// Runs the requests of an HTTP/2 connection until the connection ends.
#[derive(Clone)]
struct Streams {
    tasks: TaskTracker,
    ended: CancellationToken,
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        self.tasks.spawn(self.ended.clone().run_until_cancelled_owned(stream));
    }
}

/// The body of an answer. Its request is in flight until this is dropped.
#[derive(Debug)]
struct AnswerBody {
    body: Body,
    /// Over HTTP/2, the rest of data that is too large to be handed over at once.
    left: Option<Data>,
    exchange: Exchange,
    /// The place of the request among those of its identity.
    place: Option<Arc<InFlight>>,
    is_http2: bool,
}

impl AnswerBody {
    /// Over HTTP/1.1 the blocked socket shows that the client does not read, so nothing is noted here.
    fn hand_over(&mut self, mut data: Data) -> Frame<Data> {
        if self.is_http2 {
            self.left = data.split_off(PART);
            self.exchange.offered();
        }
        Frame::data(data)
    }
}

impl hyper::body::Body for AnswerBody {
    type Data = Data;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Data>, axum::Error>>> {
        // The connection asks for more only after it could send the last data.
        self.exchange.taken();
        if let Some(left) = self.left.take() {
            return Poll::Ready(Some(Ok(self.hand_over(left))));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| {
            let usage = self.place.as_deref().map(InFlight::usage);
            let frame = frame?.map_data(|bytes| Data::new(bytes, usage));
            match frame.into_data() {
                Ok(data) => Ok(self.hand_over(data)),
                Err(trailers) => Ok(trailers),
            }
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_none() && self.body.is_end_stream()
    }

    /// The size of the whole body: it is asked for only before the first data.
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that tells the connection's [activity](Activity) when the other end takes nothing more, and when it does again.
///
/// Without it, a client that never reads would hold its connection and its answer for ever.
#[derive(Debug)]
struct StallWatch<S> {
    stream: S,
    activity: Arc<Activity>,
    is_pending: bool,
}

impl<S> StallWatch<S> {
    fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity, is_pending: false }
    }

    /// Passes on what a write came to.
    fn noted<T>(&mut self, outcome: Poll<T>) -> Poll<T> {
        if self.is_pending != outcome.is_pending() {
            self.is_pending = outcome.is_pending();
            if self.is_pending { self.activity.blocked() } else { self.activity.unblocked() }
        }
        outcome
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallWatch<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallWatch<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.noted(outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.noted(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(cx);
        self.noted(outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.noted(outcome)
    }
}

#[cfg(test)]
mod tests;
