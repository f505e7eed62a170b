//! How a request gets from the proxy to the daemon, and its answer back.
//!
//! Each request has a connection of its own to the daemon. The connection runs where the answer's body is polled, so a client that reads
//! slowly slows its own answer only, and a client that goes away takes its connection along.

use crate::daemon_error::DaemonError;
use crate::error::ApiError;
use crate::hop_by_hop::remove_of_connection;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::header;
use http::{HeaderMap, HeaderValue, Uri};
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use subtle::ConstantTimeEq as _;
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use zeroize::Zeroizing;

/// The longest that the daemon works on an answer, and a pause in which its own error arrives: it has the better message.
const LONGEST: Duration = Duration::from_secs(65);
/// The same for larder's own paths, where a client can wait for a newer status.
const LONGEST_WAIT: Duration = Duration::from_secs(605);
/// The daemon, and the token of those whose requests get there.
pub(super) struct Upstream {
    socket: PathBuf,
    token: Zeroizing<String>,
    requests: Arc<Semaphore>,
    ending: CancellationToken,
}

/// Without the token.
impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Upstream {
    pub(super) fn new(socket: PathBuf, token: Zeroizing<String>, requests: usize, ending: CancellationToken) -> Self {
        Self { socket, token, requests: Arc::new(Semaphore::new(requests)), ending }
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    fn authorize(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let (first, second) = (values.next(), values.next());
        let value = first.ok_or(ApiError::Token("the request has no token of this proxy"))?;
        let sent = bearer(value).unwrap_or_default();
        // Only the length of the token shows in the time, and everybody knows it.
        let is_own = bool::from(sent.ct_eq(self.token.as_bytes()));
        if is_own && second.is_none() {
            Ok(())
        } else {
            Err(ApiError::Token("the request has not the token of this proxy"))
        }
    }

    /// Asks the daemon on a connection of its own.
    async fn ask(&self, request: Request, place: OwnedSemaphorePermit) -> Result<Response, DaemonError> {
        let socket = || self.socket.clone();
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|source| DaemonError::Unreachable { socket: socket(), source })?;
        let broken = |error: hyper::Error| DaemonError::Broken { socket: socket(), problem: in_a_line(&error) };
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let mut connection: Pin<Box<Connection>> = Box::pin(connection);
        let answer = {
            let mut sending = std::pin::pin!(sender.send_request(request));
            tokio::select! {
                answer = sending.as_mut() => answer,
                // The daemon may close it once it has sent the answer.
                _ = connection.as_mut() => sending.await,
            }
        };
        let (mut parts, body) = answer.map_err(broken)?.into_parts();
        remove_of_connection(&mut parts.headers);
        // The length of a list is known. A stream of events ends with the proxy.
        let is_stream = body.size_hint().exact().is_none() && !parts.headers.contains_key(header::CONTENT_ENCODING);
        let ending = is_stream.then(|| Box::pin(self.ending.clone().cancelled_owned()));
        let body = Body::new(AnswerBody { body, connection: Some(connection), ending, _place: place });
        let mut response = Response::new(body);
        (*response.status_mut(), *response.headers_mut()) = (parts.status, parts.headers);
        Ok(response)
    }
}

type Connection = http1::Connection<TokioIo<UnixStream>, Body>;

/// The token of `Bearer TOKEN`.
fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

/// Answers a request as the daemon does.
pub(super) async fn forward(State(upstream): State<Arc<Upstream>>, mut request: Request) -> Result<Response, ApiError> {
    upstream.authorize(request.headers())?;
    let place = Arc::clone(&upstream.requests).try_acquire_owned().map_err(|_| ApiError::TooManyRequests)?;
    let Some(path) = request.uri().path_and_query().cloned() else {
        return Err(ApiError::only_reads(request.method()));
    };
    let longest = if path.path().starts_with("/larder/") { LONGEST_WAIT } else { LONGEST };
    *request.uri_mut() = Uri::from(path);
    *request.version_mut() = http::Version::HTTP_11;
    let headers = request.headers_mut();
    if headers.contains_key(header::TRANSFER_ENCODING) {
        // Only one of the two can be true (RFC 9112, 6.3).
        headers.remove(header::CONTENT_LENGTH);
    }
    remove_of_connection(headers);
    for name in [header::AUTHORIZATION, header::EXPECT, header::HOST] {
        headers.remove(name);
    }
    headers.insert(header::HOST, HeaderValue::from_static("larder"));
    tokio::select! {
        answer = tokio::time::timeout(longest, upstream.ask(request, place)) => match answer {
            Ok(answer) => Ok(answer?),
            Err(_elapsed) => Err(DaemonError::Late { socket: upstream.socket.clone(), after: longest }.into()),
        },
        () = upstream.ending.cancelled() => Err(ApiError::Ending),
    }
}

/// An error with its causes.
fn in_a_line(error: &hyper::Error) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}

/// The body of an answer, and the connection that it comes from.
struct AnswerBody {
    body: Incoming,
    /// `None` once it has ended.
    connection: Option<Pin<Box<Connection>>>,
    /// Of a stream that goes on until it is ended.
    ending: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    _place: OwnedSemaphorePermit,
}

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        if let Some(connection) = &mut this.connection
            && connection.as_mut().poll(cx).is_ready()
        {
            // If it failed, the body knows.
            this.connection = None;
        }
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        if frame.is_pending()
            && let Some(ending) = &mut this.ending
        {
            ready!(ending.as_mut().poll(cx));
            return Poll::Ready(None);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixListener;
    use tokio::time::Instant;

    fn upstream(socket: PathBuf, requests: usize) -> (Arc<Upstream>, CancellationToken) {
        let ending = CancellationToken::new();
        let token = Zeroizing::new("hush".to_owned());
        (Arc::new(Upstream::new(socket, token, requests, ending.clone())), ending)
    }

    fn request(path: &str) -> http::request::Builder {
        http::Request::get(path).header(header::AUTHORIZATION, "Bearer hush")
    }

    async fn code(upstream: &Arc<Upstream>, path: &str) -> u16 {
        let request = request(path).body(Body::empty()).unwrap();
        forward(State(Arc::clone(upstream)), request).await.into_response().status().as_u16()
    }

    #[tokio::test(start_paused = true)]
    async fn a_daemon_that_hangs_is_waited_for_as_long_as_its_longest_answer_takes() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("l.sock");
        let _listener = UnixListener::bind(&socket).unwrap();
        let (upstream, _) = upstream(socket, 1);
        for (path, longest) in [("/api/v1/pods", LONGEST), ("/larder/v1/pods/uid/status?timeout=10m", LONGEST_WAIT)] {
            let began = Instant::now();
            assert_eq!((code(&upstream, path).await, began.elapsed().as_secs()), (504, longest.as_secs()), "{path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_bounded_and_the_end_of_the_proxy_ends_their_wait() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("l.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let (upstream, ending) = upstream(socket, 1);
        let mut first = std::pin::pin!(code(&upstream, "/api/v1/pods"));
        let _connected = tokio::select! {
            biased;
            code = first.as_mut() => panic!("answered with {code}"),
            connected = listener.accept() => connected.unwrap(),
        };
        assert_eq!(code(&upstream, "/api/v1/pods").await, 429);
        let without = http::Request::get("/api/v1/pods").body(Body::empty()).unwrap();
        let refused = forward(State(Arc::clone(&upstream)), without).await.into_response();
        assert_eq!(refused.status(), 401, "without the token nobody learns of others");
        ending.cancel();
        assert_eq!(first.await, 503);
    }

    #[tokio::test]
    async fn neither_the_token_nor_what_is_of_a_connection_reaches_the_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("l.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let (upstream, _) = upstream(socket, 1);
        let request = request("https://rebound.example/api/v1/pods?watch=1")
            .header(header::CONNECTION, "x-own, close")
            .header("x-own", "1")
            .header("upgrade", "websocket")
            .header(header::ACCEPT, "application/json");
        let daemon = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut got = Vec::new();
            while !got.ends_with(b"\r\n\r\n") {
                assert_ne!(stream.read_buf(&mut got).await.unwrap(), 0);
            }
            let answer = "HTTP/1.1 200 OK\r\nconnection: x-hop\r\nx-hop: 1\r\nage: 3\r\ncontent-length: 2\r\n\r\n{}";
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8(got).unwrap()
        };
        let asking = forward(State(Arc::clone(&upstream)), request.body(Body::empty()).unwrap());
        let (answer, got) = tokio::join!(asking, daemon);
        let expected = "GET /api/v1/pods?watch=1 HTTP/1.1\r\naccept: application/json\r\nhost: larder\r\n\r\n";
        assert_eq!(got, expected);
        let answer = answer.unwrap();
        assert_eq!(answer.headers()["age"], "3");
        assert!(!answer.headers().contains_key("x-hop") && !answer.headers().contains_key("connection"));
        assert_eq!(axum::body::to_bytes(answer.into_body(), 10).await.unwrap(), "{}");
    }
}
