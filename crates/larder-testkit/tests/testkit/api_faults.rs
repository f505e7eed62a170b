//! Faults of the simulated API server.

use crate::client::{SOON, start, start_with, status};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use larder_testkit::api_server::{ApiServer, ApiServerOptions, Fault, Kind, Verb};
use larder_testkit::objects::{config_map, secret};
use larder_testkit::poll_until;
use std::pin::pin;
use std::time::Duration;

async fn with_a_secret() -> (ApiServer, Api<Secret>) {
    let (server, client) = start().await;
    server.store().create(secret("shop", "tls", &[("k", "v")])).expect("created");
    (server, Api::namespaced(client, "shop"))
}

/// Asks for the health over a connection of its own; the status.
async fn readyz(server: &ApiServer) -> u16 {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let uri = format!("{}/readyz", server.url()).parse().expect("a URI");
    client.get(uri).await.expect("answered").status().as_u16()
}

#[tokio::test]
async fn an_outage_refuses_and_ends_on_the_same_port() {
    let (server, secrets) = with_a_secret().await;
    let mut events = pin!(secrets.watch(&WatchParams::default(), "2").await.expect("watched"));
    server.outage().await;
    assert!(!server.is_up());
    assert!(!matches!(events.next().await, Some(Ok(_))), "the watch is cut");
    assert_eq!(status(secrets.get("tls").await).0, 0, "no answer of any kind");
    let refused = tokio::net::TcpStream::connect(server.address()).await.expect_err("nothing listens");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let address = server.address();
    server.restore().await.expect("the same port");
    assert_eq!(server.address(), address);
    secrets.get("tls").await.expect("as before");
    assert_eq!(server.counts().watches_open, 0);
}

#[tokio::test]
async fn statuses_come_as_often_as_told_with_retry_after() {
    let (server, secrets) = with_a_secret().await;
    server.inject(
        Fault::status(429).retry_after(Duration::from_millis(1500)).verb(Verb::Get).kind(Kind::Secret).times(2),
    );
    server.inject(Fault::status(503).verb(Verb::List));
    assert_eq!(status(secrets.get("tls").await), (429, "TooManyRequests".into()));
    assert_eq!(status(secrets.get("tls").await).0, 429);
    secrets.get("tls").await.expect("the third is answered");
    assert_eq!(status(secrets.list(&ListParams::default()).await), (503, "ServiceUnavailable".into()));
    server.clear_faults();
    secrets.list(&ListParams::default()).await.expect("answered");

    server.inject(Fault::status(429).retry_after(Duration::from_millis(1500)));
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let response = client.get(format!("{}/readyz", server.url()).parse().expect("a URI")).await.expect("answered");
    assert_eq!((response.status().as_u16(), response.headers()["retry-after"].as_bytes()), (429, &b"2"[..]));
}

#[tokio::test]
async fn a_hang_lasts_until_it_is_taken_back_and_hits_only_its_object() {
    let (server, secrets) = with_a_secret().await;
    server.store().create(secret("shop", "other", &[])).expect("created");
    let hang = server.inject(Fault::hang().namespace("shop").name("tls"));
    let mut read = pin!(secrets.get("tls"));
    tokio::select! {
        answer = &mut read => panic!("answered: {answer:?}"),
        other = secrets.get("other") => drop(other.expect("the other is answered")),
    }
    assert!(server.remove_fault(hang));
    tokio::time::timeout(SOON, read).await.expect("answered now").expect("and well");
}

#[tokio::test]
async fn a_slow_answer_comes_late() {
    let (server, secrets) = with_a_secret().await;
    let by = Duration::from_millis(30);
    server.inject(Fault::slow(by).verb(Verb::Get));
    let asked = tokio::time::Instant::now();
    secrets.get("tls").await.expect("answered");
    assert!(asked.elapsed() >= by);
}

#[tokio::test]
async fn spoilt_answers_are_errors_to_a_client() {
    let (server, secrets) = with_a_secret().await;
    for fault in [Fault::truncate(), Fault::garbage(), Fault::wrong_shape(), Fault::cut()] {
        server.inject(fault.clone().times(2));
        for answer in [secrets.get("tls").await.map(drop), secrets.list(&ListParams::default()).await.map(drop)] {
            assert_eq!(status(answer).0, 0, "{fault:?}");
        }
        secrets.get("tls").await.expect("the next is well");
    }
}

#[tokio::test]
async fn half_of_a_truncated_answer_arrives() {
    let (server, _) = with_a_secret().await;
    for http2 in [false, true] {
        server.inject(Fault::truncate().times(1));
        let client = Client::builder(TokioExecutor::new()).http2_only(http2).build_http::<Empty<Bytes>>();
        let request = http::Request::get(format!("{}/api/v1/namespaces/shop/secrets/tls", server.url()))
            .header("authorization", format!("Bearer {}", server.admin_token()));
        let mut response = client.request(request.body(Empty::new()).expect("a request")).await.expect("answered");
        let half = response.frame().await.expect("a frame").expect("a good one").into_data().expect("data");
        assert!(half.starts_with(br#"{"kind":"Secret""#) && !half.ends_with(b"}"), "HTTP/2 {http2}: {half:?}");
        response.frame().await.expect("an end").expect_err("a bad one");
    }
}

#[tokio::test]
async fn a_spoilt_watch_breaks_off() {
    let (server, secrets) = with_a_secret().await;
    for fault in [Fault::truncate(), Fault::garbage(), Fault::wrong_shape()] {
        server.inject(fault.clone().verb(Verb::Watch).times(1));
        let events = secrets.watch(&WatchParams::default(), "1").await.expect("watched");
        let all: Vec<_> = tokio::time::timeout(SOON, events.collect()).await.expect("it ends");
        assert!(all.iter().all(Result::is_err), "{fault:?}: {all:?}");
    }
}

#[tokio::test]
async fn a_stalled_watch_says_nothing_and_then_all() {
    let (server, client) = start().await;
    let maps = Api::<ConfigMap>::namespaced(client, "shop");
    let mut events = pin!(maps.watch(&WatchParams::default(), "1").await.expect("watched"));
    server.stall_watches(true);
    let sent = server.counts().body_bytes;
    server.store().create(config_map("shop", "a", &[])).expect("created");
    assert_eq!(readyz(&server).await, 200);
    assert_eq!(server.counts().body_bytes, sent + "ok".len() as u64, "no event, though its watch was woken");
    server.stall_watches(false);
    let event = tokio::time::timeout(SOON, events.try_next()).await.expect("soon").expect("good");
    assert!(matches!(event, Some(WatchEvent::Added(_))));
}

#[tokio::test]
async fn a_stalled_connection_is_silent_while_new_ones_are_not() {
    let (server, secrets) = with_a_secret().await;
    secrets.get("tls").await.expect("answered");
    server.stall_connections(true);
    let mut read = pin!(secrets.get("tls"));
    assert!(futures_util::poll!(&mut read).is_pending());
    let fresh = crate::client::client(&server.kubeconfig(server.admin_token())).await;
    Api::<Secret>::namespaced(fresh, "shop").get("tls").await.expect("a new connection works");
    assert!(futures_util::poll!(&mut read).is_pending());
    assert_eq!(server.counts().of(Verb::Get, Kind::Secret), 2, "the stalled request has not come through");
    server.stall_connections(false);
    tokio::time::timeout(SOON, read).await.expect("it goes on").expect("and well");
    assert_eq!(server.counts().of(Verb::Get, Kind::Secret), 3);
}

#[tokio::test]
async fn http2_is_spoken_with_streams_up_to_the_limit() {
    let (server, _) = start_with(ApiServerOptions { max_concurrent_streams: 3, ..Default::default() }).await;
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http::<Empty<Bytes>>();
    let get = |path: &str| {
        let request = http::Request::get(format!("{}{path}", server.url()))
            .header("authorization", format!("Bearer {}", server.admin_token()));
        client.request(request.body(Empty::new()).expect("a request"))
    };
    let mut watches = Vec::new();
    for _ in 0..3 {
        watches.push(get("/api/v1/pods?watch=true&resourceVersion=1").await.expect("watched"));
    }
    assert_eq!((server.counts().connections_accepted, server.counts().watches_open), (1, 3));
    let mut fourth = pin!(get("/api/v1/nodes"));
    assert!(futures_util::poll!(&mut fourth).is_pending());
    assert_eq!(readyz(&server).await, 200);
    assert_eq!(server.counts().of(Verb::List, Kind::Node), 0, "no stream is free for the fourth");
    drop(watches.pop());
    let listed = tokio::time::timeout(SOON, fourth).await.expect("a stream is free").expect("answered");
    let body = listed.into_body().collect().await.expect("a body").to_bytes();
    assert!(body.starts_with(br#"{"kind":"NodeList""#));
    assert!(server.requests().iter().all(|request| request.http2 == request.kind.is_some()));
    server.cut_connections();
    poll_until(SOON, async || (server.counts().connections_open == 0).then_some(())).await.expect("cut");
    assert!(watches[0].frame().await.is_none_or(|frame| frame.is_err()), "its watches are cut with it");
}
