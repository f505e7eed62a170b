//! A watch on a connection of its own.

use crate::harness::{Daemon, LIMIT};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

pub(crate) struct Watch {
    pub(crate) code: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Incoming,
    rest: Vec<u8>,
    /// Ends the connection when it is dropped.
    pub(crate) connection: JoinSet<()>,
}

impl Watch {
    /// Over the daemon's socket.
    pub(crate) async fn open(daemon: &Daemon, path: &str) -> Self {
        Self::open_as(daemon, path, "application/json").await
    }

    pub(crate) async fn open_as(daemon: &Daemon, path: &str, accept: &str) -> Self {
        let stream = UnixStream::connect(daemon.socket()).await.unwrap();
        Self::on(stream, false, request_to(false, "GET", path).header("accept", accept)).await
    }

    /// Over HTTP/1.1 or HTTP/2.
    pub(crate) async fn on<S>(stream: S, is_http2: bool, request: http::request::Builder) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (io, mut connection) = (TokioIo::new(stream), JoinSet::new());
        let request = request.body(Empty::<bytes::Bytes>::new()).unwrap();
        let beginning = async {
            if is_http2 {
                let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), io);
                let (mut sender, task) = handshake.await.unwrap();
                connection.spawn(async move { drop(task.await) });
                sender.send_request(request).await.unwrap()
            } else {
                let (mut sender, task) = hyper::client::conn::http1::handshake(io).await.unwrap();
                connection.spawn(async move { drop(task.await) });
                sender.send_request(request).await.unwrap()
            }
        };
        let (parts, body) = tokio::time::timeout(LIMIT, beginning).await.expect("an answer").into_parts();
        Self { code: parts.status.as_u16(), headers: parts.headers, body, rest: Vec::new(), connection }
    }

    /// The next event; `None` once the watch has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        self.next_or_error().await?.ok()
    }

    /// The next events, in words: type, name and version.
    pub(crate) async fn told(&mut self, count: usize) -> Vec<String> {
        let mut told = Vec::new();
        for _ in 0..count {
            told.push(self.next().await.map_or_else(|| "the end".to_owned(), |event| in_words(&event)));
        }
        told
    }

    /// The next event; an error if the watch broke off, `None` if it ended in good order.
    pub(crate) async fn next_or_error(&mut self) -> Option<Result<Value, hyper::Error>> {
        let line = async {
            loop {
                if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = self.rest.drain(..=end).collect();
                    return Some(Ok(serde_json::from_slice(&line).unwrap()));
                }
                match self.body.frame().await? {
                    Ok(frame) => self.rest.extend_from_slice(&frame.into_data().unwrap_or_default()),
                    Err(error) => return Some(Err(error)),
                }
            }
        };
        tokio::time::timeout(LIMIT, line).await.expect("an event, or the end")
    }
}

pub(crate) fn in_words(event: &Value) -> String {
    let meta = &event["object"]["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    format!("{} {} {}", text(&event["type"]), text(&meta["name"]), text(&meta["resourceVersion"]))
}

/// A request in the form of the protocol, for a host that nobody has.
pub(crate) fn request_to(is_http2: bool, method: &str, path: &str) -> http::request::Builder {
    let builder = http::Request::builder().method(method);
    if is_http2 {
        builder.uri(format!("https://larder.example{path}"))
    } else {
        builder.uri(path).header("host", "larder.example")
    }
}
