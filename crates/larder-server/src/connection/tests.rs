//! Connections over streams in memory, with a client of HTTP/2 that can do what no decent one does.

use super::*;
use crate::limits::Limits;
use crate::metrics::Refused;
use crate::usage::{Identity, Limit, Usages};
use axum::extract::State;
use axum::routing::get;
use bytes::Bytes;
use h2::client::{Connection, SendRequest};
use h2::{Reason, RecvStream};
use http::StatusCode;
use larder_pod_status::PodUid;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

const HEAD: Duration = Duration::from_secs(30);
const STALL: Duration = Duration::from_secs(20);
const DRAIN: Duration = Duration::from_secs(5);
/// No test takes longer.
const LIMIT: Duration = Duration::from_hours(1);

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What the handlers share with the tests.
#[derive(Clone, Debug)]
struct Handlers {
    /// Each permit lets one request to `/wait` be answered.
    answers: Arc<Semaphore>,
    begun: Arc<AtomicUsize>,
    running: Arc<AtomicUsize>,
}

/// Counts a request that is being handled.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Handlers {
    async fn wait(State(handlers): State<Self>) -> &'static str {
        handlers.begun.fetch_add(1, Ordering::Relaxed);
        handlers.running.fetch_add(1, Ordering::Relaxed);
        let _running = Running(Arc::clone(&handlers.running));
        handlers.answers.acquire().await.unwrap().forget();
        "answered"
    }
}

/// A listener in memory.
struct Listener {
    client: Client,
    requests: usize,
    handlers: Handlers,
    tasks: TaskTracker,
    token: CancellationToken,
}

/// The task that serves a connection, which says how it ended and when.
type Served = JoinHandle<(Result<(), String>, Instant)>;

impl Listener {
    fn new(streams: usize, requests: usize) -> Self {
        let handlers = Handlers {
            answers: Arc::new(Semaphore::new(0)),
            begun: Arc::new(AtomicUsize::new(0)),
            running: Arc::new(AtomicUsize::new(0)),
        };
        let router = Router::new()
            .route("/ok", get(|| async { "ok" }))
            .route("/large", get(|| async { large() }))
            .route("/wait", get(Handlers::wait))
            .with_state(handlers.clone());
        let client = Client {
            router,
            head_timeout: HEAD,
            stall_timeout: STALL,
            drain_timeout: DRAIN,
            most_requests: usize::MAX,
            http2_streams: Some(streams),
            usage: Some(usage(|limits| limits.pod_requests = requests)),
            caller: Caller::Anonymous,
        };
        Self { client, requests, handlers, tasks: TaskTracker::new(), token: CancellationToken::new() }
    }

    fn connect(&self) -> (DuplexStream, Served) {
        let (near, far) = tokio::io::duplex(16 << 10);
        let (tasks, token) = (self.tasks.clone(), self.token.clone());
        let serving = serve(far, self.client.clone(), Activity::new(), tasks, token);
        let served = async { (serving.await.map_err(|error| error.to_string()), Instant::now()) };
        (near, tokio::spawn(served))
    }

    /// A client of HTTP/2 that knows the server's limits.
    async fn connect_http2(&self) -> (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>, Served) {
        let (stream, served) = self.connect();
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        let driver = tokio::spawn(connection);
        settled().await;
        (requests, driver, served)
    }

    fn running(&self) -> usize {
        self.handlers.running.load(Ordering::Relaxed)
    }

    fn places(&self) -> usize {
        self.requests - self.client.usage.as_ref().unwrap().used(Limit::Requests)
    }
}

/// What a pod uses, with other limits than the defaults.
fn usage(change: impl FnOnce(&mut Limits)) -> Usage {
    let mut limits = Limits::default();
    change(&mut limits);
    Usages::new(&limits, Refused::default()).of(&Identity::Pod(PodUid::from("uid-web")))
}

fn large() -> Bytes {
    (0..1 << 20).map(|at: u32| u8::try_from(at % 251).unwrap()).collect()
}

/// Waits until every task waits: time stands still until then.
async fn settled() {
    sleep(Duration::from_millis(1)).await;
}

async fn within_limit<T>(what: impl Future<Output = T>) -> T {
    timeout(LIMIT, what).await.expect("it ends")
}

fn request(path: &str) -> http::Request<()> {
    http::Request::get(format!("http://larder{path}")).body(()).unwrap()
}

/// The answer to a request, whose body is not read.
async fn ask(requests: &SendRequest<Bytes>, path: &str) -> Result<http::Response<RecvStream>, h2::Error> {
    let (answer, _) = requests.clone().ready().await?.send_request(request(path), true)?;
    answer.await
}

/// The whole body, with a pause after each [`PART`].
async fn read(mut body: RecvStream, pause: Duration) -> Result<Vec<u8>, h2::Error> {
    let mut got = Vec::new();
    while let Some(data) = body.data().await {
        let (data, parts) = (data?, got.len() / PART);
        got.extend_from_slice(&data);
        if got.len() / PART > parts {
            sleep(pause).await;
        }
        body.flow_control().release_capacity(data.len())?;
    }
    Ok(got)
}

#[tokio::test(start_paused = true)]
async fn many_requests_of_one_connection_are_answered_at_once_up_to_its_limit() {
    let listener = Listener::new(10, 100);
    let (requests, ..) = listener.connect_http2().await;
    let asking: Vec<_> = (0..50)
        .map(|_| {
            let requests = requests.clone();
            tokio::spawn(async move { ask(&requests, "/wait").await.unwrap().status() })
        })
        .collect();
    settled().await;
    assert_eq!((listener.running(), listener.places()), (10, 90));
    for left in (0..50_usize).rev() {
        listener.handlers.answers.add_permits(1);
        settled().await;
        assert_eq!(listener.running(), left.min(10));
    }
    for asked in asking {
        assert_eq!(within_limit(asked).await.unwrap(), StatusCode::OK);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_too_many_on_all_connections_is_refused_with_when_to_ask_again() {
    let listener = Listener::new(10, 2);
    let (one, ..) = listener.connect_http2().await;
    let (other, ..) = listener.connect_http2().await;
    let asking: Vec<_> = [&one, &other]
        .map(|requests| {
            let requests = requests.clone();
            tokio::spawn(async move { ask(&requests, "/wait").await.unwrap().into_body() })
        })
        .into();
    settled().await;
    for requests in [&one, &other] {
        let refused = ask(requests, "/ok").await.unwrap();
        assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &HeaderValue::from(1)));
        let status: serde_json::Value =
            serde_json::from_slice(&read(refused.into_body(), Duration::ZERO).await.unwrap()).unwrap();
        assert_eq!((&status["kind"], &status["reason"]), (&"Status".into(), &"TooManyRequests".into()));
    }
    listener.handlers.answers.add_permits(1);
    settled().await;
    assert_eq!(ask(&one, "/ok").await.unwrap().status(), StatusCode::OK, "there is a place again");
    listener.handlers.answers.add_permits(1);
    for asked in asking {
        assert_eq!(read(within_limit(asked).await.unwrap(), Duration::ZERO).await.unwrap(), b"answered");
    }
    settled().await;
    assert_eq!(listener.places(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_loses_its_connection_and_a_slow_one_is_served() {
    let listener = Listener::new(10, 10);
    let (requests, _, served) = listener.connect_http2().await;
    let body = ask(&requests, "/large").await.unwrap().into_body();
    let began = Instant::now();
    // Longer altogether than any time limit, and never as long at a time.
    assert!(read(body, STALL / 4).await.unwrap() == large());
    assert!(began.elapsed() > STALL * 4, "{:?}", began.elapsed());

    let _untaken = ask(&requests, "/large").await.unwrap();
    let began = Instant::now();
    let (ended, at) = within_limit(served).await.unwrap();
    assert!(ended.as_ref().is_err_and(|error| error.contains("does not read")), "{ended:?}");
    assert_eq!((at - began).as_secs(), STALL.as_secs());
    settled().await;
    assert_eq!(listener.places(), 10);
}

#[tokio::test(start_paused = true)]
async fn one_answer_that_is_not_taken_holds_up_no_other() {
    let listener = Listener::new(10, 10);
    // The window of the connection has room when that of one answer has none.
    let (stream, served) = listener.connect();
    let mut builder = h2::client::Builder::new();
    builder.initial_connection_window_size(1 << 20).initial_window_size(64 << 10);
    let (requests, connection) = builder.handshake::<_, Bytes>(stream).await.unwrap();
    tokio::spawn(connection);
    let _untaken = ask(&requests, "/large").await.unwrap();
    for _ in 0..10 {
        let body = ask(&requests, "/large").await.unwrap().into_body();
        assert!(read(body, Duration::from_millis(500)).await.unwrap() == large());
    }
    assert!(!served.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_reset_is_dropped_at_once() {
    let listener = Listener::new(10, 10);
    let (mut requests, ..) = listener.connect_http2().await;
    for _ in 0..200 {
        requests = requests.ready().await.unwrap();
        let (_answer, mut stream) = requests.send_request(request("/wait"), false).unwrap();
        settled().await;
        assert_eq!((listener.running(), listener.places()), (1, 9));
        stream.send_reset(Reason::CANCEL);
        settled().await;
        assert_eq!((listener.running(), listener.places()), (0, 10));
    }
    assert_eq!(ask(&requests, "/ok").await.unwrap().status(), StatusCode::OK);
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `GET / HTTP/2`, whole, on that stream.
fn get_frame(stream: u32) -> Vec<u8> {
    frame(1, 0x5, stream, &[0x82, 0x86, 0x84])
}

#[tokio::test(start_paused = true)]
async fn a_client_that_resets_rapidly_loses_its_connection_and_no_other_is_held_up() {
    let listener = Listener::new(10, 10);
    let (decent, ..) = listener.connect_http2().await;
    let (mut stream, served) = listener.connect();
    let mut bytes = [PREFACE, &frame(4, 0, 0, &[])].concat();
    for id in (1..2_000).step_by(2) {
        bytes.extend(get_frame(id));
        bytes.extend(frame(3, 0, id, &8_u32.to_be_bytes()));
    }
    // The server stops reading in the middle of it.
    let _ = within_limit(stream.write_all(&bytes)).await;
    let mut got = Vec::new();
    let _ = within_limit(stream.read_to_end(&mut got)).await;
    let go_away = frame(7, 0, 0, &[]);
    let calm = got.windows(go_away.len()).position(|window| window[3..] == go_away[3..]);
    let calm = calm.expect("it is told");
    let reason = &got[calm + go_away.len() + 4..][..4];
    assert_eq!(reason, u32::from(Reason::ENHANCE_YOUR_CALM).to_be_bytes());
    let (ended, at) = within_limit(served).await.unwrap();
    assert!(ended.is_err() && at.elapsed() < HEAD, "{ended:?}");
    assert_eq!(ask(&decent, "/ok").await.unwrap().status(), StatusCode::OK);
    assert_eq!((listener.running(), listener.places()), (0, 10));
}

#[tokio::test(start_paused = true)]
async fn at_the_end_what_is_in_flight_is_answered_and_no_more_is_taken() {
    let listener = Listener::new(10, 10);
    let (requests, driver, served) = listener.connect_http2().await;
    let asking = tokio::spawn({
        let requests = requests.clone();
        async move { read(ask(&requests, "/wait").await?.into_body(), Duration::ZERO).await }
    });
    settled().await;
    listener.token.cancel();
    settled().await;
    let refused = ask(&requests, "/ok").await.unwrap_err();
    assert!(refused.is_go_away() && refused.reason() == Some(Reason::NO_ERROR), "{refused:?}");
    listener.handlers.answers.add_permits(1);
    assert_eq!(within_limit(asking).await.unwrap().unwrap(), b"answered");
    let began = Instant::now();
    let (ended, at) = within_limit(served).await.unwrap();
    assert!(ended.is_ok() && at - began <= FLUSH, "{ended:?}");
    within_limit(driver).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn at_the_end_a_request_that_takes_too_long_is_dropped() {
    let listener = Listener::new(10, 10);
    let (requests, _, served) = listener.connect_http2().await;
    let asking = tokio::spawn(async move { ask(&requests, "/wait").await.map(|_| ()) });
    settled().await;
    listener.token.cancel();
    let cancelled = Instant::now();
    let (_, at) = within_limit(served).await.unwrap();
    assert_eq!((at - cancelled).as_secs(), DRAIN.as_secs());
    within_limit(asking).await.unwrap().unwrap_err();
    listener.tasks.close();
    within_limit(listener.tasks.wait()).await;
    assert_eq!(listener.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_of_http2_that_is_idle_is_told_to_go() {
    let listener = Listener::new(10, 10);
    let began = Instant::now();
    let (requests, driver, served) = listener.connect_http2().await;
    sleep(HEAD / 2).await;
    assert_eq!(ask(&requests, "/ok").await.unwrap().status(), StatusCode::OK);
    within_limit(driver).await.unwrap().expect("a GOAWAY without an error");
    let (_, at) = within_limit(served).await.unwrap();
    assert_eq!((at - began).as_secs(), (HEAD / 2 + HEAD).as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_no_whole_request_loses_its_connection() {
    let settings = [PREFACE, &frame(4, 0, 0, &[])].concat();
    // The head of a request, which goes on in a frame that never comes.
    let half = [settings.clone(), frame(1, 0, 1, &[0x82])].concat();
    for sent in [b"".as_slice(), &PREFACE[..9], &settings, &half, b"GET /ok HTTP/1.1\r\nhost:", b"GET /ok "] {
        let listener = Listener::new(10, 10);
        let (mut stream, served) = listener.connect();
        stream.write_all(sent).await.unwrap();
        let began = Instant::now();
        let (_, at) = within_limit(served).await.unwrap();
        let took = at - began;
        assert!((HEAD..=HEAD + FLUSH).contains(&took), "{took:?} after {:?}", sent.escape_ascii().to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn over_http1_too_an_idle_client_and_one_that_does_not_read_lose_their_connections() {
    let listener = Listener::new(10, 10);
    let (mut idle, served) = listener.connect();
    idle.write_all(b"GET /ok HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let began = Instant::now();
    let mut got = String::new();
    within_limit(idle.read_to_string(&mut got)).await.unwrap();
    assert!(got.starts_with("HTTP/1.1 200 OK\r\n") && got.ends_with("\r\n\r\nok"), "{got}");
    assert_eq!((within_limit(served).await.unwrap().1 - began).as_secs(), HEAD.as_secs());

    let (mut slow, served) = listener.connect();
    slow.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let began = Instant::now();
    // It reads for a while, each time a little and in time, and then no more.
    let mut buffer = [0; 1 << 10];
    for _ in 0..10 {
        slow.read_exact(&mut buffer).await.unwrap();
        sleep(STALL / 2).await;
    }
    assert!(!served.is_finished());
    let (ended, at) = within_limit(served).await.unwrap();
    assert!(ended.is_err(), "{ended:?}");
    assert_eq!((at - began).as_secs(), (STALL * 11 / 2).as_secs());
}

/// Runs a connection until nothing is left to do; who does not run it is frozen.
async fn driven(connection: &mut Connection<DuplexStream>) {
    let _ = timeout(Duration::from_millis(1), connection).await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_client_that_waits_for_an_answer_loses_its_connection() {
    let listener = Listener::new(10, 10);
    let (stream, served) = listener.connect();
    let (mut requests, mut connection) = h2::client::handshake(stream).await.unwrap();
    let (_answer, _) = requests.send_request(request("/wait"), true).unwrap();
    driven(&mut connection).await;
    // One that answers pings may wait for as long as it likes.
    let _ = timeout(STALL * 10, &mut connection).await;
    assert!(!served.is_finished() && listener.running() == 1);
    let frozen = Instant::now();
    let (_, at) = within_limit(served).await.unwrap();
    assert!(at - frozen <= STALL * 2, "{:?}", at - frozen);
    settled().await;
    assert_eq!((listener.running(), listener.places()), (0, 10));
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_too_large_is_refused() {
    let listener = Listener::new(10, 10);
    let (requests, ..) = listener.connect_http2().await;
    for (length, code) in [(32 << 10, 200), (65 << 10, 431)] {
        let mut large = request("/ok");
        large.headers_mut().insert("x-large", HeaderValue::from_str(&"x".repeat(length)).unwrap());
        let (answer, _) = requests.clone().ready().await.unwrap().send_request(large, true).unwrap();
        assert_eq!(answer.await.unwrap().status().as_u16(), code, "{length}");
    }
}

#[tokio::test(start_paused = true)]
async fn where_http2_is_not_spoken_its_preface_is_refused() {
    let mut listener = Listener::new(1, 1);
    listener.client.http2_streams = None;
    let (mut stream, served) = listener.connect();
    stream.write_all(PREFACE).await.unwrap();
    let mut got = Vec::new();
    within_limit(stream.read_to_end(&mut got)).await.unwrap();
    assert!(got.starts_with(b"HTTP/1.1 400") || got.is_empty(), "{}", got.escape_ascii());
    assert!(within_limit(served).await.unwrap().0.is_err());
}

/// What the server sends until it waits for the client, or closes the connection.
async fn sent(stream: &mut DuplexStream) -> (String, bool) {
    let mut got = Vec::new();
    loop {
        match timeout(Duration::from_secs(3), stream.read_buf(&mut got)).await {
            Ok(Ok(1..)) => {}
            ended => return (String::from_utf8(got).unwrap(), ended.is_ok()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_nobody_reads_does_not_end_the_connection() {
    let listener = Listener::new(10, 10);
    for (headers, body) in [("Content-Length: 5", "hello"), ("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n")] {
        let (mut stream, _) = listener.connect();
        for _ in 0..3 {
            stream.write_all(format!("POST /ok HTTP/1.1\r\nHost: l\r\n{headers}\r\n\r\n").as_bytes()).await.unwrap();
            // As clients do that send the body in a second write.
            settled().await;
            stream.write_all(body.as_bytes()).await.unwrap();
            let (answer, is_closed) = sent(&mut stream).await;
            assert!(answer.starts_with("HTTP/1.1 405 ") && !answer.contains("close"), "{answer}");
            assert!(!is_closed, "{headers}");
        }
        stream.write_all(b"GET /ok HTTP/1.1\r\nHost: l\r\n\r\n").await.unwrap();
        assert!(sent(&mut stream).await.0.ends_with("ok"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_before_the_end_of_the_body_says_that_the_connection_ends() {
    let listener = Listener::new(10, 10);
    for (headers, body) in [
        // It never comes.
        ("Content-Length: 5", ""),
        // The client waits for a word.
        ("Content-Length: 5\r\nExpect: 100-continue", ""),
        // Too much of it.
        ("Content-Length: 99999999", "hello"),
        // It is not what the headers say.
        ("Transfer-Encoding: chunked", "hello"),
    ] {
        let (mut stream, _) = listener.connect();
        let head = format!("POST /ok HTTP/1.1\r\nHost: l\r\n{headers}\r\n\r\n{body}");
        stream.write_all(head.as_bytes()).await.unwrap();
        let (answer, is_closed) = sent(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 405 ") || answer.starts_with("HTTP/1.1 400 "), "{headers}: {answer}");
        assert!(answer.contains("connection: close") && is_closed, "{headers}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_client_does_not_take_is_held_for_it_until_it_goes_over_either_protocol() {
    let listener = Listener::new(10, 10);
    let held = || listener.client.usage.as_ref().unwrap().used(Limit::Bytes);
    let (requests, _, served) = listener.connect_http2().await;
    let untaken = ask(&requests, "/large").await.unwrap();
    settled().await;
    assert!(held() > 0, "the connection has a part of it");
    assert_eq!(read(untaken.into_body(), Duration::ZERO).await.unwrap().len(), large().len());
    settled().await;
    assert_eq!(held(), 0, "it was taken");
    drop(requests);
    let _ = within_limit(served).await;

    let (mut stream, served) = listener.connect();
    stream.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    settled().await;
    let before = held();
    assert!(before > large().len() / 2, "the connection has all of it: {before}");
    let mut half = vec![0; large().len() / 2];
    within_limit(stream.read_exact(&mut half)).await.unwrap();
    settled().await;
    assert!(held() < before, "{before} {}", held());
    drop(stream);
    let _ = within_limit(served).await;
    settled().await;
    assert_eq!((held(), listener.places()), (0, 10), "the client has gone");
}

#[tokio::test(start_paused = true)]
async fn a_request_too_many_over_http1_is_refused_too() {
    let listener = Listener::new(10, 1);
    let (mut one, _one) = listener.connect();
    one.write_all(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    settled().await;
    let (mut other, _other) = listener.connect();
    other.write_all(b"GET /ok HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let (refused, is_closed) = sent(&mut other).await;
    assert!(refused.starts_with("HTTP/1.1 429 ") && refused.contains("retry-after: 1"), "{refused}");
    assert!(!is_closed && refused.contains("as many requests in flight as it may (1)"), "{refused}");
    listener.handlers.answers.add_permits(1);
    assert!(sent(&mut one).await.0.ends_with("answered"));
    other.write_all(b"GET /ok HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert!(sent(&mut other).await.0.ends_with("ok"));
}
