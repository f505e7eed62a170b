//! Many watches and reads over few HTTP/2 connections.

use crate::server::{connect, start, start_with, until};
use larder_clock::TokioClock;
use larder_kube::{KubeClient, KubeError, KubeOptions, NodeSource};
use larder_objects::{Fetch, ObjectKey, ReadKind};
use larder_resource::{Node, ObjectKind, SourceReader};
use larder_testkit::api_server::{ApiServer, ApiServerOptions, Fault, Kind, Verb};
use larder_testkit::objects::{node, secret};
use larder_testkit::poll_until;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub(crate) async fn read(client: &KubeClient, name: &str) -> Result<String, KubeError> {
    let fetch = client.fetcher(ObjectKind::Secret).fetch(&ObjectKey::new("shop", name), ReadKind::Consistent);
    fetch.await.map(|secret| secret.resource_version().to_owned())
}

/// A watch of a node.
pub(crate) struct Watched {
    pub(crate) reader: SourceReader<Node>,
    _run: AbortOnDropHandle<()>,
}

pub(crate) fn watch(client: &KubeClient, name: &str) -> Watched {
    let source = NodeSource::new(client.clone(), name, TokioClock::new()).expect("a node's name");
    let reader = source.reader();
    Watched { reader, _run: AbortOnDropHandle::new(tokio::spawn(source.run(CancellationToken::new()))) }
}

fn connections_of(server: &ApiServer, verb: Verb) -> BTreeSet<u64> {
    server.requests().iter().filter(|request| request.verb == verb).map(|request| request.connection).collect()
}

#[tokio::test]
async fn parallel_reads_share_a_connection() {
    let server = start().await;
    server.store().create(secret("shop", "tls", &[])).unwrap();
    let client = connect(&server, KubeOptions::default()).await;
    let mut reads = JoinSet::new();
    for _ in 0..80 {
        let client = client.clone();
        reads.spawn(async move { read(&client, "tls").await });
    }
    assert!(reads.join_all().await.iter().all(Result::is_ok));
    assert_eq!((server.counts().connections_accepted, client.stats().connections_open), (1, 1));
    assert!(server.requests().iter().all(|request| request.http2));
    until(|| client.stats().streams_open == 0).await;
}

/// 90 watches a connection: 12 connections. Reads find room beside them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_watches_need_at_most_12_connections() {
    let server = start().await;
    server.store().create(secret("shop", "tls", &[])).unwrap();
    let client = connect(&server, KubeOptions::default()).await;
    let watches: Vec<Watched> = (0..1000).map(|index| watch(&client, &format!("n{index}"))).collect();
    until(|| server.counts().watches_open == 1000).await;
    for _ in 0..20 {
        read(&client, "tls").await.unwrap();
    }
    let counts = server.counts();
    assert!(counts.connections_open <= 12, "{counts:?}");
    assert_eq!(client.stats().connections_open, counts.connections_open);
    // Each of them gets its events.
    server.store().create(node("n777")).unwrap();
    until(|| watches[777].reader.node().is_some()).await;
    drop(watches);
    until(|| server.counts().watches_open == 0 && client.stats().streams_open == 0).await;
    // What the client leaves behind: nothing.
    drop(client);
    until(|| server.counts().connections_open == 0).await;
}

#[tokio::test]
async fn a_servers_own_limit_of_streams_is_kept() {
    let server = start_with(ApiServerOptions { max_concurrent_streams: 3, ..Default::default() }).await;
    server.store().create(secret("shop", "tls", &[])).unwrap();
    let client = connect(&server, KubeOptions::default()).await;
    let _watches: Vec<Watched> = (0..9).map(|index| watch(&client, &format!("n{index}"))).collect();
    until(|| server.counts().watches_open == 9).await;
    // Every stream of theirs is taken by now, or else this finds room beside them.
    read(&client, "tls").await.unwrap();
    let open = server.counts().connections_open;
    assert!((3..=4).contains(&open), "{open}");
}

#[tokio::test]
async fn connections_are_bounded_and_watches_without_room_are_polled() {
    let mut options = KubeOptions::default();
    options.streams_per_connection = 2;
    options.max_connections = 2;
    // So that a list without a watch is stale after some three seconds.
    options.ping_interval = Duration::from_millis(500);
    let server = start().await;
    let client = connect(&server, options).await;
    let mut watches: Vec<Watched> = Vec::new();
    for index in 0..4 {
        watches.push(watch(&client, &format!("n{index}")));
        until(|| server.counts().watches_open == index + 1).await;
    }
    let fifth = watch(&client, "n5");
    // A read finds room beside the watches.
    assert!(read(&client, "none").await.unwrap_err().is_not_found());
    assert_eq!((server.counts().watches_open, server.counts().connections_open), (4, 2));
    // A list is current for a while, in which a watch may find room.
    until(|| fifth.reader.status().synced).await;
    drop(watches.pop());
    until(|| fifth.reader.status().watches == 1).await;
    assert!(fifth.reader.status().last_fault.is_none());
    // After that it is stale and says why, and is listed again and again.
    let sixth = watch(&client, "n6");
    let lists = client.stats().lists;
    let fault = || sixth.reader.status().last_fault.filter(|fault| fault.class == "no_room");
    until(|| fault().is_some() && client.stats().lists >= lists + 2).await;
    let error = fault().expect("it was waited for").error.to_string();
    assert!(error.contains("KubeOptions::max_connections"), "{error}");
    assert_eq!(sixth.reader.status().watches, 0);
    drop(watches.pop());
    until(|| sixth.reader.status().watches == 1).await;
    assert_eq!(server.counts().connections_accepted, 2);
}

#[tokio::test]
async fn over_http_1_too_connections_are_bounded_and_a_read_finds_room_beside_watches() {
    let mut options = KubeOptions::default();
    options.http1_connections = 10;
    let server = ApiServer::start().await.unwrap();
    server.store().create(secret("shop", "tls", &[])).unwrap();
    let client = connect(&server, options).await;
    let mut watches: Vec<Watched> = (0..12).map(|index| watch(&client, &format!("n{index}"))).collect();
    until(|| server.counts().watches_open == 9).await;
    read(&client, "tls").await.unwrap();
    let counts = server.counts();
    // Four more may be kept without a request.
    assert!(counts.watches_open == 9 && counts.connections_open <= 14, "{counts:?}");
    // Each watch that ends makes room for one that waits.
    watches.drain(..9);
    until(|| watches.iter().all(|watched| watched.reader.status().watches == 1)).await;
    assert_eq!(server.counts().watches_open, 3);
}

#[tokio::test]
async fn a_connection_that_stalls_without_closing_is_replaced_and_its_watches_lose_no_event() {
    let mut options = KubeOptions::default();
    options.dead_link_timeout = Duration::from_secs(3);
    options.ping_interval = Duration::from_millis(500);
    options.backoff_initial = Duration::from_millis(100);
    let server = start().await;
    let client = connect(&server, options).await;
    let watches: Vec<Watched> = (0..100).map(|index| watch(&client, &format!("n{index}"))).collect();
    until(|| watches.iter().all(|watched| watched.reader.status().watches == 1)).await;
    assert_eq!(client.stats().connections_open, 2);
    server.stall_connections(true);
    for index in 0..100 {
        server.store().create(node(&format!("n{index}"))).unwrap();
    }
    until(|| watches.iter().all(|watched| watched.reader.node().is_some())).await;
    let stats = client.stats();
    assert_eq!((stats.pings_lost, stats.connections_open), (2, 2), "{stats:?}");
    // None of them began anew: each asked once where the server is, and went on.
    assert_eq!(server.counts().of(Verb::List, Kind::Node), 100);
    until(|| watches.iter().all(|watched| watched.reader.status().connected)).await;
    assert!(watches.iter().all(|watched| watched.reader.status().lists == 1));
}

#[tokio::test]
async fn only_the_first_read_pays_for_a_connection_that_is_stuck() {
    let mut options = KubeOptions::default();
    options.fetch_deadline = Duration::from_millis(1500);
    let server = start().await;
    server.store().create(secret("shop", "tls", &[])).unwrap();
    let client = connect(&server, options).await;
    read(&client, "tls").await.unwrap();
    server.stall_connections(true);
    assert!(read(&client, "tls").await.unwrap_err().is_timeout());
    for _ in 0..3 {
        read(&client, "tls").await.unwrap();
    }
    assert_eq!(connections_of(&server, Verb::Get), BTreeSet::from([1, 2]));
    // Once it brings something again it is trusted again.
    server.stall_connections(false);
}

#[tokio::test]
async fn a_slow_read_does_not_make_its_connection_doubted() {
    let mut options = KubeOptions::default();
    options.fetch_deadline = Duration::from_millis(1500);
    let server = start().await;
    for name in ["slow", "other"] {
        server.store().create(secret("shop", name, &[])).unwrap();
    }
    let client = connect(&server, options).await;
    server.inject(Fault::hang().name("slow"));
    let others = async {
        loop {
            read(&client, "other").await.unwrap();
        }
    };
    let slow = tokio::select! {
        slow = read(&client, "slow") => slow,
        () = others => unreachable!("they are read for as long as it takes"),
    };
    assert!(slow.unwrap_err().is_timeout());
    read(&client, "other").await.unwrap();
    assert_eq!(server.counts().connections_accepted, 1);
}

#[tokio::test]
async fn the_pool_reconnects_after_an_outage() {
    let server = start().await;
    server.store().create(secret("shop", "tls", &[])).unwrap();
    let client = connect(&server, KubeOptions::default()).await;
    read(&client, "tls").await.unwrap();
    server.outage().await;
    // Those who wait for one connection share its failure.
    let failed = tokio::join!(read(&client, "tls"), read(&client, "tls"), read(&client, "tls"));
    for error in [failed.0, failed.1, failed.2].map(Result::unwrap_err) {
        assert!(error.is_unavailable() && error.to_string().contains("https://127.0.0.1"), "{error}");
    }
    assert_eq!(client.stats().connections_failed, 1);
    server.restore().await.unwrap();
    let answered = poll_until(Duration::from_mins(1), || async { read(&client, "tls").await.ok() }).await;
    answered.expect("it is connected to again");
    assert_eq!(client.stats().connections_open, 1);
}

/// GOAWAY, as before an API server's end.
#[tokio::test]
async fn a_connection_after_goaway_keeps_its_watches_and_gets_no_new_requests() {
    let server = start().await;
    server.store().create(secret("shop", "tls", &[])).unwrap();
    let client = connect(&server, KubeOptions::default()).await;
    let watched = watch(&client, "n1");
    until(|| watched.reader.status().watches == 1).await;
    server.drain_connections();
    // How soon it is known of is the network's affair; no read fails meanwhile.
    let moved = poll_until(Duration::from_mins(1), || async {
        read(&client, "tls").await.expect("no read fails");
        (server.counts().connections_accepted == 2).then_some(())
    });
    moved.await.expect("reads go to another connection");
    server.store().create(node("n1")).unwrap();
    until(|| watched.reader.node().is_some()).await;
    let status = watched.reader.status();
    assert_eq!((status.watches, status.failures), (1, 0));
}

/// However many ask.
#[tokio::test]
async fn reads_share_the_failure_to_connect() {
    let server = start().await;
    let client = connect(&server, KubeOptions::default()).await;
    server.outage().await;
    for _ in 0..200 {
        assert!(read(&client, "tls").await.unwrap_err().is_unavailable());
    }
    let failed = client.stats().connections_failed;
    assert!((1..100).contains(&failed), "{failed}");
}

#[tokio::test]
async fn a_read_that_is_dropped_gives_its_place_back() {
    let server = start().await;
    let client = connect(&server, KubeOptions::default()).await;
    server.inject(Fault::hang());
    let hanging = tokio::spawn({
        let client = client.clone();
        async move { read(&client, "tls").await }
    });
    until(|| server.counts().of(Verb::Get, Kind::Secret) == 1).await;
    assert_eq!(client.stats().streams_open, 1);
    hanging.abort();
    until(|| client.stats().streams_open == 0).await;
}
