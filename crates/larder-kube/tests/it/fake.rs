//! A server that gives the answers that a test has put down for it, and remembers what it was asked. It speaks HTTP/1.1 over
//! streams in memory.

use axum::body::Body;
use bytes::Bytes;
use http::uri::Authority;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use larder_kube::{ByteStream, Connecting, Connector, KubeClient, KubeOptions};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// What stands in every Secret of the tests, and in no message.
pub(crate) const SECRET: &str = "c2VudGluZWw=";

pub(crate) enum Answer {
    Body {
        code: u16,
        headers: Vec<(&'static str, String)>,
        body: Bytes,
    },
    Stream(mpsc::Receiver<io::Result<Bytes>>),
    /// The answer that the test sends, when it sends it.
    Late(oneshot::Receiver<Answer>),
    /// Nothing, for ever.
    Hang,
    /// The connection breaks.
    Break,
}

impl Answer {
    /// An answer that comes when the test sends it.
    pub(crate) fn late() -> (oneshot::Sender<Self>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self::Late(receiver))
    }
}

pub(crate) fn ok(body: &Value) -> Answer {
    Answer::Body { code: 200, headers: vec![], body: body.to_string().into() }
}

pub(crate) fn raw(body: &str) -> Answer {
    Answer::Body { code: 200, headers: vec![], body: body.to_owned().into() }
}

pub(crate) fn status(code: u16, reason: &str, message: &str) -> Answer {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": message});
    Answer::Body { code, headers: vec![], body: body.to_string().into() }
}

/// A server that serves no streaming lists.
pub(crate) fn no_streaming() -> Answer {
    status(422, "Invalid", "sendInitialEvents: Forbidden")
}

pub(crate) fn later(code: u16, seconds: u32) -> Answer {
    Answer::Body { code, headers: vec![("retry-after", seconds.to_string())], body: Bytes::new() }
}

/// A watch that the test feeds; it closes when the sender is dropped.
pub(crate) struct Feed(mpsc::Sender<io::Result<Bytes>>);

impl Feed {
    pub(crate) fn new() -> (Self, Answer) {
        let (sender, receiver) = mpsc::channel(64);
        (Self(sender), Answer::Stream(receiver))
    }

    /// A watch that has begun with a complete list of these (a streaming list).
    pub(crate) fn listing(version: &str, items: &[Value]) -> (Self, Answer) {
        let (feed, answer) = Self::new();
        let annotations = json!({"k8s.io/initial-events-end": "true"});
        let end = json!({"metadata": {"resourceVersion": version, "annotations": annotations}});
        let events = items.iter().map(|item| ("ADDED", item)).chain([("BOOKMARK", &end)]);
        for (type_, object) in events {
            let line = format!("{}\n", json!({"type": type_, "object": object}));
            feed.0.try_send(Ok(line.into())).expect("there is room for it");
        }
        (feed, answer)
    }

    pub(crate) async fn event(&self, type_: &str, object: &Value) {
        self.text(&format!("{}\n", json!({"type": type_, "object": object}))).await;
    }

    pub(crate) async fn bookmark(&self, version: &str) {
        self.event("BOOKMARK", &json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": version}}))
            .await;
    }

    pub(crate) async fn text(&self, text: &str) {
        self.0.send(Ok(text.to_owned().into())).await.expect("larder listens");
    }

    pub(crate) async fn cut(self) {
        self.0.send(Err(io::Error::other("connection reset by peer"))).await.expect("larder listens");
    }

    /// Until larder has hung up.
    pub(crate) async fn closed(&self) {
        within(self.0.closed()).await;
    }
}

#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) at: Instant,
}

impl Asked {
    pub(crate) fn is_watch(&self) -> bool {
        self.path.contains("watch=true")
    }
}

#[derive(Clone, Default)]
pub(crate) struct Fake {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    /// What a path is answered with once the answers are used up.
    always: Option<fn(&str) -> Answer>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Fake {
    /// The answers in order; once they are used up, the server hangs.
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let fake = Self::default();
        fake.answers.lock().extend(answers);
        fake
    }

    /// A server that answers each path with the same, for ever.
    pub(crate) fn always(answer: fn(&str) -> Answer) -> Self {
        Self { always: Some(answer), ..Self::default() }
    }

    pub(crate) fn push(&self, answer: Answer) {
        self.answers.lock().push_back(answer);
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.path).collect()
    }

    /// Waits until it has been asked so often.
    pub(crate) async fn until_asked(&self, times: usize) -> Vec<Asked> {
        until(|| self.asked.lock().len() >= times).await;
        self.asked()
    }

    pub(crate) fn client(&self, mut options: KubeOptions) -> KubeClient {
        options.connector = Some(Arc::new(self.clone()));
        KubeClient::without_credentials("http://fake", options).expect("the options are valid")
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Body>, io::Error> {
        let path = request.uri().path_and_query().map_or_else(String::new, ToString::to_string);
        let next = self.answers.lock().pop_front().or_else(|| self.always.map(|always| always(&path)));
        self.asked.lock().push(Asked { path, at: Instant::now() });
        let mut answer = next.unwrap_or(Answer::Hang);
        while let Answer::Late(sent) = answer {
            answer = sent.await.unwrap_or(Answer::Hang);
        }
        match answer {
            Answer::Late(_) => unreachable!("it was waited for"),
            Answer::Body { code, headers, body } => {
                let mut response = Response::builder().status(code);
                for (name, value) in headers {
                    response = response.header(name, value);
                }
                Ok(response.body(Body::from(body)).expect("a valid response"))
            }
            Answer::Stream(receiver) => {
                Ok(Response::new(Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(receiver))))
            }
            Answer::Hang => std::future::pending().await,
            Answer::Break => Err(io::Error::other("connection refused")),
        }
    }
}

impl Connector for Fake {
    fn connect(&self, _: &Authority) -> Connecting {
        let (client, server) = tokio::io::duplex(64 << 10);
        let fake = self.clone();
        let service = service_fn(move |request| fake.clone().answer(request));
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(server), service));
        Box::pin(async move { Ok(Box::new(client) as Box<dyn ByteStream>) })
    }
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fake")
    }
}

/// Waits for a condition; an hour of paused time is no time.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    within(async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Waits for a future, an hour of paused time at most.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_hours(1), future).await.expect("it comes within the hour")
}

pub(crate) fn secret(namespace: &str, name: &str, version: &str) -> Value {
    json!({"kind": "Secret", "apiVersion": "v1",
        "metadata": {"namespace": namespace, "name": name, "uid": format!("uid-{name}"), "resourceVersion": version},
        "type": "Opaque", "data": {"password": SECRET}})
}

/// As an item of a list: without kind and version.
pub(crate) fn pod(name: &str, version: &str) -> Value {
    json!({"metadata": {"namespace": "web", "name": name, "uid": format!("uid-{name}"), "resourceVersion": version},
        "spec": {"nodeName": "n1", "containers": [], "fieldOfTheFuture": [1, 2.50]}, "status": {"phase": "Running"}})
}

pub(crate) fn pods(version: &str, items: &[Value]) -> Value {
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items})
}
