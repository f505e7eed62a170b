//! The local API as a client of HTTP sees it.

use crate::harness::{Daemon, request, request_over_http2};
use crate::watch::{Watch, request_to};
use flate2::read::GzDecoder;
use http_body_util::BodyExt as _;
use serde_json::json;
use std::io::Read as _;
use tokio::net::UnixStream;

const FILES: [(&str, &str); 1] = [(
    "all.yaml",
    "\
{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: a, image: i, envFrom: [{secretRef: {name: db}}]}]}}
---
{apiVersion: v1, kind: Secret, metadata: {name: db}, stringData: {a: b}}
",
)];

#[tokio::test]
async fn an_object_comes_with_its_age_and_how_it_was_cached() {
    let daemon = Daemon::with_manifests(&FILES).await;
    for path in
        ["/api/v1/namespaces/default/secrets/db", "/api/v1/secrets", "/api/v1/pods", "/larder/v1/objects/secrets"]
    {
        let answer = daemon.get(path).await;
        assert_eq!(answer.code, 200, "{answer:?}");
        assert_eq!(answer.header("content-type"), "application/json");
        assert!(answer.age() < 60, "{answer:?}");
        assert!(answer.header("cache-status").starts_with("larder; hit"), "{answer:?}");
        assert!(answer.header("cache-status").ends_with("detail=manifest"), "{answer:?}");
    }
    let none = daemon.get("/api/v1/configmaps").await;
    assert!(none.age() < 60 && none.header("cache-status").ends_with("detail=manifest"), "{none:?}");
    let list = daemon.get("/api/v1/namespaces/default/secrets").await.json();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("SecretList"), &json!("v1")));
    assert_eq!(list["items"][0]["kind"], "Secret");
}

#[tokio::test]
async fn a_path_may_end_with_a_slash_as_at_the_api_server() {
    let daemon = Daemon::with_manifests(&FILES).await;
    let socket = || async { UnixStream::connect(daemon.socket()).await.unwrap() };
    for path in
        ["/api", "/apis", "/api/v1", "/apis/authorization.k8s.io", "/apis/authorization.k8s.io/v1", "/api/v1/pods"]
    {
        let (with, without) = (daemon.get(&format!("{path}/")).await, daemon.get(path).await);
        assert_eq!((with.code, with.text), (200, without.text), "{path}");
        let over_http2 = request_over_http2(socket().await, &format!("{path}/?limit=5")).await;
        assert_eq!(over_http2.code, 200, "{path}");
    }
    assert_eq!(daemon.get("/nothing/").await.code, 404);
}

#[tokio::test]
async fn of_a_parameter_that_is_given_twice_the_first_counts_as_at_the_api_server() {
    let daemon = Daemon::with_manifests(&FILES).await;
    for (query, expected) in [("labelSelector=app%3Dx&labelSelector=", 0), ("labelSelector=&labelSelector=app%3Dx", 1)]
    {
        let list = daemon.get(&format!("/api/v1/pods?{query}")).await.json();
        assert_eq!(list["items"].as_array().unwrap().len(), expected, "{query}");
    }
}

/// The coding of an answer, and its body without the coding.
async fn coded(daemon: &Daemon, path: &str, accepts: &[&str]) -> (Option<String>, Vec<u8>) {
    let mut request = request_to(false, "GET", path);
    for accepts in accepts {
        request = request.header("accept-encoding", *accepts);
    }
    let answer = Watch::on(UnixStream::connect(daemon.socket()).await.unwrap(), false, request).await;
    assert_eq!(answer.code, 200);
    let coding = answer.headers.get("content-encoding").map(|coding| coding.to_str().unwrap().to_owned());
    let sent = answer.body.collect().await.unwrap().to_bytes();
    if coding.is_none() {
        return (None, sent.to_vec());
    }
    let mut body = Vec::new();
    GzDecoder::new(&sent[..]).read_to_end(&mut body).unwrap();
    assert!(sent.len() < body.len() / 10, "{} of {} bytes", sent.len(), body.len());
    (coding, body)
}

#[tokio::test]
async fn a_large_answer_is_compressed_for_who_takes_that_and_a_small_one_or_a_watch_never() {
    const GZIP: Option<&str> = Some("gzip");
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: a, image: i, envFrom: [{configMapRef: {name: c}}]}]}}";
    let value = "x".repeat(128 << 10);
    let map = format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c}}, data: {{a: {value}}}}}");
    let daemon = Daemon::with_manifests(&[("pod.yaml", pod), ("c.yaml", &map)]).await;
    for (path, accepts, expected) in [
        ("/api/v1/configmaps", &["gzip"][..], GZIP),
        ("/api/v1/configmaps", &["br, gzip;q=0.5"], GZIP),
        ("/api/v1/configmaps", &["br", "gzip"], GZIP),
        ("/api/v1/namespaces/default/configmaps/c", &["gzip"], GZIP),
        ("/api/v1/configmaps", &[], None),
        ("/api/v1/configmaps", &["identity"], None),
        ("/api/v1/configmaps", &["gzip;q=0"], None),
        // Nothing is left that the client takes; the API server does not ask for that.
        ("/api/v1/configmaps", &["identity;q=0"], None),
        ("/api/v1/configmaps", &["*;q=0"], None),
        ("/api/v1/configmaps", &["gzip", "identity;q=0"], GZIP),
        ("/api/v1/pods", &["gzip"], None),
    ] {
        let (coding, body) = coded(&daemon, path, accepts).await;
        assert_eq!(coding.as_deref(), expected, "{path} {accepts:?}");
        assert_eq!(body, daemon.get(path).await.text.as_bytes(), "{path} {accepts:?}");
    }
    let request = request_to(false, "GET", "/api/v1/configmaps?watch=1").header("accept-encoding", "gzip");
    let mut watch = Watch::on(UnixStream::connect(daemon.socket()).await.unwrap(), false, request).await;
    assert!(!watch.headers.contains_key("content-encoding"), "{:?}", watch.headers);
    assert_eq!(watch.next().await.unwrap()["object"]["data"]["a"], value);
}

#[tokio::test]
async fn what_is_known_without_the_data_says_so() {
    let daemon = Daemon::with_manifests(&FILES).await;
    let entry = daemon.get("/larder/v1/objects/secrets/default/db").await;
    assert_eq!(entry.json()["object"]["data"], 1);
    assert_eq!(entry.json()["freshness"]["state"], "fresh");
    assert_eq!(entry.json()["freshness"]["source"], "manifest");
    assert!(!entry.text.contains("Yg=="), "{entry:?}");
}

#[tokio::test]
async fn a_wrong_parameter_is_named() {
    let daemon = Daemon::with_manifests(&FILES).await;
    let secret = "/api/v1/namespaces/default/secrets/db";
    for (path, parameter) in [
        (format!("{secret}?timeout=soon"), "timeout"),
        (format!("{secret}?timeout=0s"), "timeout"),
        ("/api/v1/secrets?labelSelector=a%20b".to_owned(), "labelSelector"),
        ("/api/v1/pods?fieldSelector=status.hostIP%3Dx".to_owned(), "fieldSelector"),
        ("/api/v1/secrets?fieldSelector=spec.nodeName%3Dx".to_owned(), "fieldSelector"),
        ("/larder/v1/pods/u/status?newerThan=yesterday".to_owned(), "newerThan"),
        ("/larder/v1/pods/u/status?newerThan=2026-01-01T00:00:00Z&timeout=1d".to_owned(), "timeout"),
        // One object is read for a pod, not a list.
        ("/api/v1/namespaces/default/secrets?pod=u".to_owned(), "pod"),
        // Misspelt: they would change nothing, and nobody would notice.
        ("/larder/v1/pods/u/status?newerthan=2026-01-01T00:00:00Z".to_owned(), "newerthan"),
        ("/larder/v1/pods?ns=default".to_owned(), "ns"),
        ("/larder/v1/events?follow=true".to_owned(), "follow"),
        ("/larder/v1/status?object".to_owned(), "object"),
        ("/larder/v1/objects/secrets?selector=a".to_owned(), "selector"),
        ("/larder/v1/objects/secrets/default/db?namespace=a".to_owned(), "namespace"),
    ] {
        let answer = daemon.get(&path).await;
        let status = answer.json();
        assert_eq!((answer.code, &status["reason"]), (400, &json!("BadRequest")), "{path}: {answer:?}");
        assert_eq!(status["details"]["causes"][0]["field"], parameter, "{path}: {answer:?}");
        assert!(status["message"].as_str().unwrap().contains(parameter), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn absent_refused_unserved_and_unknown_are_different_answers() {
    let daemon = Daemon::with_manifests(&FILES).await;
    for (path, code, reason) in [
        ("/api/v1/namespaces/default/pods/none", 404, "NotFound"),
        ("/api/v1/nodes/node-1", 404, "NotFound"),
        ("/api/v1/namespaces/default/secrets/other", 403, "Forbidden"),
        ("/larder/v1/pods", 501, "NotImplemented"),
        ("/larder/v1/pods/u/status", 501, "NotImplemented"),
        ("/api/v1/services", 404, "NotFound"),
        ("/", 404, "NotFound"),
        ("/api/v1/namespaces//secrets", 404, "NotFound"),
        ("/api/v1/namespaces//secrets/db", 404, "NotFound"),
        ("/api/v1/pods?watch=true&resourceVersionMatch=NotOlderThan", 422, "Invalid"),
        ("/api/v1/pods?continue=abc", 400, "BadRequest"),
        // A token of the API server.
        ("/api/v1/pods?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Nywic3RhcnQiOiJhIn0", 410, "Expired"),
        ("/api/v1/pods?resourceVersion=99999999999999999", 504, "Timeout"),
        ("/version", 501, "NotImplemented"),
    ] {
        let answer = daemon.get(path).await;
        assert_eq!((answer.code, &answer.json()["reason"]), (code, &json!(reason)), "{path}: {answer:?}");
        assert_eq!(answer.json()["kind"], "Status");
    }
    let absent = daemon.get("/api/v1/namespaces/default/pods/none").await;
    assert!(
        absent.age() < 60 && absent.header("cache-status").contains("detail=\"absent from this node\""),
        "{absent:?}"
    );
    assert!(daemon.get("/").await.text.contains("PathNotServed"));
}

#[tokio::test]
async fn nothing_can_be_written() {
    let daemon = Daemon::with_manifests(&FILES).await;
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        for path in ["/api/v1/namespaces/default/secrets/db", "/livez", "/anything"] {
            let stream = UnixStream::connect(daemon.socket()).await.unwrap();
            let answer = request(stream, method, path, "*/*").await.unwrap();
            assert_eq!((answer.code, answer.header("allow")), (405, "GET, HEAD"), "{method} {path}: {answer:?}");
            let told = format!("larder only reads, and does not answer {method} here: ask the API server");
            assert_eq!(answer.json()["message"], told);
        }
    }
    let review = daemon.get("/apis/authentication.k8s.io/v1/selfsubjectreviews").await;
    assert_eq!((review.code, review.header("allow")), (405, "POST"), "{review:?}");
    let stream = UnixStream::connect(daemon.socket()).await.unwrap();
    let head = request(stream, "HEAD", "/api/v1/namespaces/default/secrets/db", "*/*").await.unwrap();
    assert_eq!((head.code, head.text.as_str()), (200, ""));
}

#[tokio::test]
async fn health_is_told_in_a_word_or_check_by_check() {
    let daemon = Daemon::with_manifests(&FILES).await;
    for path in ["/livez", "/readyz"] {
        assert_eq!(daemon.get(path).await.text, "ok");
        let verbose = daemon.get(&format!("{path}?verbose")).await.text;
        assert!(verbose.contains("[+]tasks ok\n") && verbose.ends_with("check passed\n"), "{verbose}");
    }
    assert!(daemon.get("/readyz?verbose").await.text.contains("[+]pods ok\n"));
}

#[tokio::test]
async fn http1_and_http2_give_the_same_answers() {
    let daemon = Daemon::with_manifests(&FILES).await;
    for (path, code) in [
        ("/api/v1/namespaces/default/secrets/db", 200),
        ("/api/v1/secrets", 200),
        ("/api/v1/pods", 200),
        ("/api/v1/namespaces/default/secrets/other", 403),
        ("/larder/v1/pods", 501),
        ("/livez", 200),
    ] {
        let (one, two) = (daemon.get(path).await, UnixStream::connect(daemon.socket()).await.unwrap());
        let two = request_over_http2(two, path).await;
        assert_eq!((one.code, two.code), (code, code), "{path}");
        assert_eq!(one.text, two.text, "{path}");
        for header in ["content-type", "content-length", "cache-status", "cache-control"] {
            assert_eq!(one.header(header), two.header(header), "{header} of {path}");
        }
    }
}
