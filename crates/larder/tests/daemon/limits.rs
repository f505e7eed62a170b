//! What one pod or user may use at once, and that it takes nothing from others.

use crate::access::{Container, Place, answer};
use crate::harness::{request_over_http2, run, until};
use larder_testkit::objects::secret;
use std::fs;
use std::process::Stdio;
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

const DB: &str = "/api/v1/namespaces/shop/secrets/db";
const TLS: &str = "/api/v1/namespaces/shop/secrets/tls";
const WATCH: &str = "/api/v1/secrets?watch=true";
const WATCH_ONCE: &str = "/api/v1/secrets?watch=true&timeoutSeconds=1";

/// A place with these limits.
async fn place(limits: &str) -> (Place, NamedTempFile) {
    let config = NamedTempFile::new().unwrap();
    fs::write(config.path(), format!("limits: {{{limits}}}\n")).unwrap();
    (Place::start(&["--config", config.path().to_str().unwrap()]).await, config)
}

/// Asserts that root and the other pod get their answers.
async fn others_are_answered(place: &Place, other: &Container) {
    assert_eq!(place.ask(other, 0, TLS).await.0, 200);
    assert_eq!(place.daemon.get(TLS).await.code, 200);
    let socket = UnixStream::connect(place.daemon.socket()).await.unwrap();
    assert_eq!(request_over_http2(socket, TLS).await.code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_with_all_its_watches_or_requests_takes_none_from_others() {
    let (place, _config) = place("podWatches: 2, podRequests: 3").await;
    let (app, other) = (place.run("app"), place.run_other("app"));
    let mut watches = Vec::new();
    for path in [WATCH, "/larder/v1/events?watch=true"] {
        let mut watch = place.watch(&app, path);
        watch.event().await;
        watches.push(watch);
    }
    for path in [WATCH, "/larder/v1/events?watch=true"] {
        let (code, text) = place.ask(&app, 0, path).await;
        assert!(code == 429 && text.contains("as many watches open as it may (2)"), "{path}: {code} {text}");
    }
    assert_eq!(place.ask(&app, 0, DB).await.0, 200, "it may still read");
    others_are_answered(&place, &other).await;
    // A wait is a request in flight.
    let wait = "/larder/v1/pods/uid-web/status?newerThan=2099-01-01T00:00:00Z&timeout=5m";
    let mut waiting = tokio::process::Command::from(place.curl(&app, 0, wait));
    let waiting = waiting.stdout(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    until("it waits", async || {
        place.daemon.get("/metrics").await.text.contains("larder_pod_status_open_waits 1\n").then_some(())
    })
    .await;
    let mut curl = place.curl(&app, 0, DB);
    curl.arg("--include");
    let (code, text) = answer(run(curl).await);
    let text = text.to_lowercase();
    assert!(code == 429 && text.contains("retry-after: 1"), "{code} {text}");
    assert!(text.contains("\nage: 0\r\n") && text.contains("\ncache-status: larder\r\n"), "{text}");
    assert!(text.contains("as many requests in flight as it may (3)") && text.contains("toomanyrequests"), "{text}");
    others_are_answered(&place, &other).await;
    let metrics = place.daemon.get("/metrics").await.text;
    assert!(metrics.contains("larder_http_requests_refused_total{limit=\"watches\"} 2"), "{metrics}");
    drop((watches, waiting));
    until("there is room again", async || (place.ask(&app, 0, WATCH_ONCE).await.0 == 200).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_does_not_take_its_answers_gets_no_more_of_them_and_others_do() {
    let (place, _config) = place("podBytes: 65536, stallTimeout: 1h").await;
    let (app, other) = (place.run("app"), place.run_other("app"));
    let large = "x".repeat(700_000);
    place.api.store().apply(secret("shop", "db", &[("password", &large), ("root", "two")])).unwrap();
    until("it is known", async || (place.ask(&app, 0, DB).await.1.len() > 700_000).then_some(())).await;
    // It reads the beginning of an answer, and no more.
    let mut slow = tokio::process::Command::from(place.curl(&app, 0, DB));
    let mut slow = slow.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut answered = [0; 15];
    slow.stdout.as_mut().unwrap().read_exact(&mut answered).await.unwrap();
    assert_eq!(&answered, br#"{"kind":"Secret"#);
    let (code, text) = place.ask(&app, 0, DB).await;
    assert!(code == 429 && text.contains("as many bytes of answers for this client as it may"), "{code} {text}");
    let (code, text) = place.ask(&app, 0, WATCH_ONCE).await;
    assert!(code == 429, "neither does a watch begin with more: {code} {text}");
    others_are_answered(&place, &other).await;
    assert_eq!(place.daemon.get(DB).await.code, 200, "root reads what the pod may not have twice");
    drop(slow);
    until("it is answered again", async || (place.ask(&app, 0, DB).await.0 == 200).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn root_has_a_bound_of_its_own_and_takes_nothing_from_pods() {
    let (place, _config) = place("adminBytes: 65536, stallTimeout: 1h").await;
    let app = place.run("app");
    let large = "x".repeat(700_000);
    place.api.store().apply(secret("shop", "tls", &[("key", &large)])).unwrap();
    until("it is known", async || (place.daemon.get(TLS).await.text.len() > 700_000).then_some(())).await;
    let mut stream = UnixStream::connect(place.daemon.socket()).await.unwrap();
    stream.write_all(format!("GET {TLS} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    stream.read_exact(&mut [0; 15]).await.unwrap();
    let refused = place.daemon.get(TLS).await;
    assert_eq!((refused.code, refused.header("retry-after")), (429, "1"), "{refused:?}");
    assert_eq!(place.ask(&app, 0, DB).await.0, 200);
    drop(stream);
    until("it is answered again", async || (place.daemon.get(TLS).await.code == 200).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_all_connections_of_pods_are_taken_the_pod_with_most_gives_one_up() {
    let (place, _config) = place("podConnections: 4, podsConnections: 4").await;
    let (app, other) = (place.run("app"), place.run_other("app"));
    let mut watches = Vec::new();
    for _ in 0..4 {
        let mut watch = place.watch(&app, WATCH);
        watch.event().await;
        watches.push(watch);
    }
    let mut curl = place.curl(&app, 0, DB);
    curl.arg("--include");
    let (code, text) = answer(run(curl).await);
    assert!(code == 503 && text.contains("too many connections"), "{code} {text}");
    let text = text.to_lowercase();
    assert!(text.contains("\nage: 0\r\n") && text.contains("\ncache-status: larder\r\n"), "{text}");
    others_are_answered(&place, &other).await;
    let mut newest = watches.pop().unwrap();
    while newest.next().await.is_some() {}
    let metrics = place.daemon.get("/metrics").await.text;
    assert!(metrics.contains("larder_http_connections_evicted_total{listener=\"socket\"} 1"), "{metrics}");
    // The others go on.
    place.api.store().apply(secret("shop", "db", &[("password", "seven"), ("root", "two")])).unwrap();
    for watch in &mut watches {
        assert_eq!(watch.event().await["type"], "MODIFIED");
    }
}
