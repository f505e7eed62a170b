//! The simulated server over streams in memory, in paused time: TLS, HTTP/2 and its PINGs, frozen peers, cut connections.

use crate::fake::{until, within};
use crate::pool::{read, watch};
use http::uri::Authority;
use larder_clock::{Clock as _, TokioClock};
use larder_kube::{ByteStream, Connecting, Connector, KubeClient, KubeOptions, NodeSource, PodSource};
use larder_objects::{FreshState, Freshness, StaleReason};
use larder_testkit::api_server::{ApiServer, ApiServerOptions, Fault};
use larder_testkit::objects::{node, secret};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Connects to a simulated server, whatever host is asked for.
pub(crate) struct InMemory {
    pub(crate) server: Arc<ApiServer>,
    /// Whether connecting takes for ever.
    pub(crate) unreachable: AtomicBool,
    pub(crate) attempts: AtomicU64,
}

impl InMemory {
    /// A connector to a server that speaks TLS and has the Secret `shop/tls`.
    pub(crate) async fn start() -> Arc<Self> {
        let server = ApiServer::start_with(ApiServerOptions { tls: true, ..Default::default() }).await.unwrap();
        server.store().create(secret("shop", "tls", &[])).unwrap();
        Arc::new(Self { server: Arc::new(server), unreachable: AtomicBool::default(), attempts: AtomicU64::default() })
    }

    /// A client whose connections all come from here.
    pub(crate) async fn client(self: &Arc<Self>, mut options: KubeOptions) -> KubeClient {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("kubeconfig");
        self.server.write_kubeconfig(&path, self.server.admin_token()).unwrap();
        options.connector = Some(Arc::clone(self) as Arc<dyn Connector>);
        KubeClient::from_kubeconfig(&path, None, options).await.unwrap()
    }
}

impl Connector for InMemory {
    fn connect(&self, _: &Authority) -> Connecting {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        let (server, unreachable) = (Arc::clone(&self.server), self.unreachable.load(Ordering::Relaxed));
        Box::pin(async move {
            if unreachable {
                std::future::pending::<io::Result<()>>().await?;
            }
            Ok(Box::new(server.connect_in_memory()?) as Box<dyn ByteStream>)
        })
    }
}

impl fmt::Debug for InMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InMemory")
    }
}

#[tokio::test]
async fn requests_share_a_connection_of_tls_and_http2_without_a_socket() {
    let memory = InMemory::start().await;
    let client = memory.client(KubeOptions::default()).await;
    tokio::time::pause();
    for _ in 0..3 {
        read(&client, "tls").await.unwrap();
    }
    assert!(memory.server.requests().iter().all(|request| request.http2));
    assert_eq!((client.stats().connections_open, memory.attempts.load(Ordering::Relaxed)), (1, 1));
}

/// With the defaults: a PING after 5 s of silence, and 25 s for its answer.
#[tokio::test]
async fn a_frozen_server_is_given_up_after_the_time_for_a_dead_link() {
    let memory = InMemory::start().await;
    let client = memory.client(KubeOptions::default()).await;
    tokio::time::pause();
    let watched = watch(&client, "n1");
    until(|| watched.reader.status().watches == 1).await;
    let begun = Instant::now();
    memory.server.stall_connections(true);
    until(|| client.stats().pings_lost == 1).await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(25) && took <= Duration::from_secs(31), "{took:?}");
    memory.server.store().create(node("n1")).unwrap();
    until(|| watched.reader.node().is_some()).await;
    assert_eq!(memory.server.counts().connections_accepted, 2);
}

#[tokio::test]
async fn a_quiet_connection_that_answers_pings_lasts() {
    let memory = InMemory::start().await;
    let client = memory.client(KubeOptions::default()).await;
    tokio::time::pause();
    let watched = watch(&client, "n1");
    until(|| watched.reader.status().watches == 1).await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    let stats = client.stats();
    assert_eq!((stats.pings_lost, stats.connections_opened), (0, 1), "{stats:?}");
}

#[tokio::test]
async fn all_waiting_reads_fail_when_the_connect_timeout_passes() {
    let memory = InMemory::start().await;
    let mut options = KubeOptions::default();
    options.connect_timeout = Duration::from_secs(3);
    let client = memory.client(options).await;
    tokio::time::pause();
    memory.unreachable.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    let reads = futures_util::future::join_all((0..50).map(|_| read(&client, "tls")));
    for read in within(reads).await {
        let told = read.unwrap_err().to_string();
        assert!(told.ends_with("no connection within 3s"), "{told}");
    }
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(memory.attempts.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_cut_connection_fails_what_is_under_way_and_the_next_read_has_another() {
    let memory = InMemory::start().await;
    let client = memory.client(KubeOptions::default()).await;
    tokio::time::pause();
    memory.server.inject(Fault::hang().times(1));
    let hanging = tokio::spawn({
        let client = client.clone();
        async move { read(&client, "tls").await }
    });
    until(|| client.stats().streams_open == 1).await;
    memory.server.cut_connections();
    assert!(within(hanging).await.unwrap().unwrap_err().is_unreached());
    read(&client, "tls").await.unwrap();
    assert_eq!(client.stats().connections_opened, 2);
}

/// With the defaults, over an hour in which nothing happens: what holds for Secrets holds for pods and the node.
#[tokio::test]
async fn pods_and_node_do_not_age_while_their_connection_answers_and_are_stale_within_10_s_when_it_does_not() {
    let memory = InMemory::start().await;
    memory.server.store().create(node("n1")).unwrap();
    let client = memory.client(KubeOptions::default()).await;
    tokio::time::pause();
    let clock = TokioClock::new();
    let pods = PodSource::new(client.clone(), "n1", clock).unwrap();
    let own = NodeSource::new(client, "n1", clock).unwrap();
    let (pod_reader, node_reader) = (pods.reader(), own.reader());
    let _pods = AbortOnDropHandle::new(tokio::spawn(pods.run(CancellationToken::new())));
    let _own = AbortOnDropHandle::new(tokio::spawn(own.run(CancellationToken::new())));
    let all = || [pod_reader.freshness().unwrap(), node_reader.freshness().unwrap()];
    until(|| pod_reader.status().connected && node_reader.status().connected).await;
    for _ in 0..3600 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        for freshness in all() {
            // 5 s until the PING, and half of that until its answer is looked at.
            let age = freshness.age(clock.now());
            assert!(freshness.is_fresh() && age <= Duration::from_secs(8), "{freshness:?} at an age of {age:?}");
        }
    }
    for pause in [12, 600] {
        memory.server.freeze(true);
        let frozen = Instant::now();
        until(|| all().iter().all(|freshness| !freshness.is_fresh())).await;
        let took = frozen.elapsed();
        assert!(took <= Duration::from_millis(10_100), "{took:?}");
        for freshness in all() {
            let why = StaleReason::FetchFailed { class: "timeout" };
            assert!(matches!(freshness.state, FreshState::Stale { reason, .. } if reason == why), "{freshness:?}");
        }
        // They stay so, whether or not the connection is given up and others are tried.
        while frozen.elapsed() < Duration::from_secs(pause) {
            tokio::time::sleep(Duration::from_secs(1)).await;
            for freshness in all() {
                let age = freshness.age(clock.now());
                assert!(!freshness.is_fresh() && age >= frozen.elapsed(), "{freshness:?} at an age of {age:?}");
            }
        }
        memory.server.freeze(false);
        let thawed = Instant::now();
        until(|| all().iter().all(Freshness::is_fresh)).await;
        let took = thawed.elapsed();
        assert!(took <= Duration::from_secs(45), "{took:?} after {pause} s");
    }
    let lists = [pod_reader.status().lists, node_reader.status().lists];
    assert_eq!(lists, [1, 1], "they went on where they were");
}

/// tokio's time stands still while the machine sleeps, and so do the times between PINGs.
#[tokio::test]
async fn after_a_sleep_pods_and_node_are_stale_at_once_and_fresh_as_soon_as_their_connection_answers() {
    let memory = InMemory::start().await;
    memory.server.store().create(node("n1")).unwrap();
    let client = memory.client(KubeOptions::default()).await;
    tokio::time::pause();
    let clock = TokioClock::new();
    let pods = PodSource::new(client.clone(), "n1", clock).unwrap();
    let own = NodeSource::new(client.clone(), "n1", clock).unwrap();
    let (pod_reader, node_reader) = (pods.reader(), own.reader());
    let _pods = AbortOnDropHandle::new(tokio::spawn(pods.run(CancellationToken::new())));
    let _own = AbortOnDropHandle::new(tokio::spawn(own.run(CancellationToken::new())));
    let all = || [pod_reader.freshness().unwrap(), node_reader.freshness().unwrap()];
    until(|| pod_reader.status().connected && node_reader.status().connected).await;
    for (slept, is_forgotten) in [(1, false), (7, false), (3600, true), (60, true)] {
        until(|| all().iter().all(Freshness::is_fresh)).await;
        // Whatever was heard before the sleep has been told.
        tokio::time::sleep(Duration::from_secs(20)).await;
        client.note_sleep(Duration::from_secs(slept));
        let woken = Instant::now();
        tokio::time::sleep(Duration::from_millis(1)).await;
        for freshness in all() {
            assert_eq!(freshness.is_fresh(), !is_forgotten, "{freshness:?} after {slept} s");
            if is_forgotten {
                let why = StaleReason::FetchFailed { class: "timeout" };
                assert!(matches!(freshness.state, FreshState::Stale { reason, .. } if reason == why), "{freshness:?}");
            }
        }
        if is_forgotten {
            let fault = pod_reader.status().last_fault.unwrap().error.to_string();
            assert!(fault.contains("no answer from the API server"), "{fault}");
        }
        until(|| all().iter().all(Freshness::is_fresh)).await;
        assert!(woken.elapsed() <= Duration::from_secs(8), "{:?}", woken.elapsed());
    }
    let lists = [pod_reader.status().lists, node_reader.status().lists];
    assert_eq!((lists, client.stats().connections_opened), ([1, 1], 1), "they went on where they were");
}
