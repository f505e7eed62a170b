//! Requests, connections, selectors, and proofs of who asks that are made of any bytes, and what must hold of each answer.
//!
//! `cargo xtask fuzz` gives these functions the bytes that libFuzzer finds. The tests give them the bytes in `fuzz/seeds` and random
//! ones.
//!
//! # Guarantees
//!
//! - *No panic*, in a handler or in a task of the connection.
//! - *A code for a mistake of the client*: never 500, and of each kind of caller only the codes that it may get.
//! - *Status*: each error has a `Status` with the code of the answer, a message and a reason.
//! - *An end*: each request is answered, and each connection ends after its client.
//!
//! # Limits
//!
//! The node has manifests and neither a cluster nor a runtime. A message that is no HTTP gets an answer of the HTTP library,
//! without a `Status`.

pub(crate) mod bench;
mod identity;
mod input;

use crate::activity::Activity;
use crate::caller::Caller;
use crate::connection::{self, Client};
use crate::limits::Limits;
use crate::usage::{Identity, Usages};
use arbitrary::Unstructured;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use bench::{Bench, root};
use http::header;
pub use identity::{cgroups, policy, tokens, whois};
use input::{Shape, Who};
use larder_resource::Kind;
use larder_resource::selector::{FieldSelector, LabelSelector};
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Bytes of the answers of a connection that are read.
const MOST_ANSWERS: usize = 1 << 20;
/// How long a client waits for more of an answer, in paused time: longer than larder waits for a version.
const PAUSE: Duration = Duration::from_secs(5);
/// How long a connection may take to end after its client, in paused time.
const LIMIT: Duration = Duration::from_mins(10);

/// Makes a request of these bytes, and checks its answer.
///
/// # Panics
///
/// If the answer is not what it must be.
pub fn request(data: &[u8]) {
    let Ok(asked) = input::request(&mut Unstructured::new(data)) else { return };
    let (method, target) = (&asked.method, &asked.target);
    // The HTTP library answers what is no URI and no header, with 400.
    let mut request = http::Request::builder().method(*method).uri(target);
    for (name, value) in [(header::ACCEPT, &asked.accept), (header::CONTENT_TYPE, &asked.content_type)] {
        if let Some(value) = value {
            request = request.header(name, value);
        }
    }
    let Ok(request) = request.body(Body::from(asked.body)) else { return };
    let bench = bench::shared();
    let (router, caller) = match asked.who {
        Who::Root => (&bench.local, Some(root())),
        Who::Foreign => (&bench.local, Some(Caller::Host { uid: 4711, gids: [4711].into(), is_admin: false })),
        Who::Nobody => (&bench.local, None),
        Who::Scraper => (&bench.open, None),
        Who::Stranger => (&bench.strangers, None),
    };
    let (code, status) = bench.answer_to(router, request, caller);
    // 501: this node has no API server whose version and schemas there are.
    let expected: &[u16] = match (asked.who, *method, asked.shape) {
        (Who::Foreign, ..) => &[403],
        (Who::Nobody, ..) => &[401],
        // What it may ask for is answered to it.
        (Who::Stranger, ..) => &[200, 401],
        (Who::Scraper, "GET" | "HEAD", _) => &[200, 404],
        (Who::Root, "GET" | "HEAD", Shape::Read) => &[200, 400, 406, 410, 422, 501, 504],
        (Who::Root, "GET" | "HEAD", Shape::Path) => &[200, 400, 403, 404, 405, 406, 410, 422, 501, 504],
        (Who::Root, "POST", Shape::Review) => &[201, 400, 415, 422],
        (Who::Root, "POST", _) => &[400, 405, 415],
        _ => &[405],
    };
    let code = code.as_u16();
    assert!(expected.contains(&code), "{method} {target} of {:?}, {:?}: {code}", asked.who, asked.accept);
    if let Some(status) = status {
        assert_eq!(status.code, Some(code.into()), "{method} {target}: {status:?}");
        let is_told = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        assert!(is_told(&status.message) && is_told(&status.reason), "{method} {target}: {status:?}");
    }
}

/// Sends these bytes over a connection, or requests or HTTP/2 frames that are made of them. Checks each answer, and that the
/// connection ends.
///
/// # Panics
///
/// If an answer is not what it must be, a task panics, or the connection does not end.
pub fn connection(data: &[u8]) {
    static BENCH: OnceLock<Mutex<Bench>> = OnceLock::new();
    let Ok(sent) = input::conversation(&mut Unstructured::new(data)) else { return };
    // Only this thread drives this runtime meanwhile, so that the panics of its tasks are counted here.
    let bench = BENCH.get_or_init(|| Mutex::new(Bench::new())).lock();
    let panics = panics();
    let problems: Arc<Mutex<Vec<String>>> = Arc::default();
    let answered = bench.runtime.block_on(converse(&bench, sent, Arc::clone(&problems)));
    assert_eq!(self::panics(), panics, "a task panicked");
    assert!(problems.lock().is_empty(), "{:#?}", problems.lock());
    assert!(!answered.starts_with(b"HTTP/1.1 500"), "{}", String::from_utf8_lossy(&answered));
}

/// Serves a connection on which the client sends these bytes, and returns what it is answered.
async fn converse(bench: &Bench, sent: Vec<u8>, problems: Arc<Mutex<Vec<String>>>) -> Vec<u8> {
    let check = middleware::from_fn(move |request: Request, next: Next| {
        let problems = Arc::clone(&problems);
        async move {
            let asked = format!("{} {}", request.method(), request.uri());
            let (response, problem) = checked(next.run(request).await).await;
            problems.lock().extend(problem.map(|problem| format!("{asked}: {problem}")));
            response
        }
    });
    let limits = Limits::default();
    let usages = Usages::new(&limits, bench.app.metrics.refused.clone());
    let client = Client {
        router: bench.local.clone().layer(check),
        head_timeout: limits.head_timeout,
        stall_timeout: limits.stall_timeout,
        drain_timeout: limits.drain_timeout,
        most_requests: usize::MAX,
        http2_streams: Some(limits.http2_streams),
        usage: Identity::of(&root()).map(|identity| usages.of(&identity)),
        caller: root(),
    };
    let (theirs, ours) = tokio::io::duplex(64 << 10);
    let (tasks, token) = (TaskTracker::new(), CancellationToken::new());
    let served = tokio::spawn(connection::serve(ours, client, Activity::new(), tasks.clone(), token));
    let (mut reads, mut writes) = tokio::io::split(theirs);
    let mut answered = Vec::new();
    // The client reads until nothing more comes. Then it goes away, also from a watch.
    let read = async {
        while let Ok(Ok(1..)) = tokio::time::timeout(PAUSE, reads.read_buf(&mut answered)).await {
            if answered.len() > MOST_ANSWERS {
                break;
            }
        }
    };
    let exchange = async {
        // larder may have closed the connection.
        let _ = writes.write_all(&sent).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = read => {}
        () = exchange => {}
    }
    drop((reads, writes));
    let ended = tokio::time::timeout(LIMIT, served).await;
    // The library says what is wrong with a message of the client, which is no fault of larder.
    assert!(matches!(ended, Ok(Ok(_))), "the connection does not end, or panics: {ended:?}");
    tasks.close();
    assert!(tokio::time::timeout(LIMIT, tasks.wait()).await.is_ok(), "the requests do not end with their connection");
    answered
}

/// The answer, and what is wrong with it.
async fn checked(response: Response) -> (Response, Option<String>) {
    if response.status().is_success() {
        return (response, None);
    }
    let (head, body) = response.into_parts();
    let body = match axum::body::to_bytes(body, usize::MAX).await {
        Ok(body) => body,
        Err(error) => return (Response::new(Body::empty()), Some(error.to_string())),
    };
    let is_status = serde_json::from_slice::<serde_json::Value>(&body).is_ok_and(|status| {
        status.get("kind").is_some_and(|kind| kind == "Status")
            && status.get("code").is_some_and(|code| *code == head.status.as_u16())
    });
    let problem = (head.status.as_u16() == 500 || !is_status)
        .then(|| format!("{} with {:?}", head.status, String::from_utf8_lossy(&body)));
    (Response::from_parts(head, Body::from(body)), problem)
}

/// Reads these bytes as a label selector, and as a field selector of each kind.
///
/// # Panics
///
/// If a selector panics.
pub fn selectors(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(labels) = text.parse::<LabelSelector>() {
        // An object that has no label, and one that has each.
        labels.matches(|_| None);
        labels.matches(|_| Some("a"));
    }
    for kind in Kind::ALL {
        if let Ok(fields) = FieldSelector::parse(&text, kind) {
            fields.may_match("shop", "web");
            assert!(!fields.is_empty() || fields.may_match("", ""), "{text:?} is empty and excludes objects");
        }
    }
}

thread_local! {
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

/// How many panics there were on this thread. A panic in a task of tokio is not seen otherwise.
fn panics() -> usize {
    static COUNT: Once = Once::new();
    COUNT.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.with(|panics| panics.set(panics.get() + 1));
            before(panic);
        }));
    });
    PANICS.with(Cell::get)
}

#[cfg(test)]
mod tests;
