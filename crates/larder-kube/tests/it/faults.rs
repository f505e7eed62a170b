//! Reflectors against the simulated server, over TLS and HTTP/2, through everything that goes wrong.

use crate::server::{connect, start, start_with, until};
use larder_clock::TokioClock;
use larder_kube::{KubeClient, KubeError, KubeOptions, KubeReflector, KubeReflectors, NodeSource, PodSource};
use larder_objects::{
    Fetch, FetchError, FreshState, ObjectKey, ReadKind, ReflectorEvent, ReflectorSink, Reflectors, Scope, StaleReason,
};
use larder_resource::{KubeObject, Node, ObjectKind, Pod, SourceReader};
use larder_testkit::api_server::{ApiServer, ApiServerOptions, Fault, Kind, StreamingLists, User, Verb, write_private};
use larder_testkit::objects::{config_map, node, pod};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// What is there, as far as has been told.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
enum There {
    /// There was no complete list yet.
    #[default]
    Unknown,
    Nothing,
    Version(String),
}

/// What a store would know of an object.
#[derive(Clone, Default, Debug)]
struct Known {
    there: There,
    fresh: bool,
    confirms: u32,
    failed: Vec<&'static str>,
    went_back: u32,
}

struct Follower {
    known: Arc<Mutex<Known>>,
    _reflector: KubeReflector,
}

impl Follower {
    fn of(reflectors: &KubeReflectors, name: &str) -> Self {
        let known = Arc::new(Mutex::new(Known::default()));
        let told = Arc::clone(&known);
        let sink = ReflectorSink::from_fn(move |event: ReflectorEvent<KubeObject, KubeError>| {
            let mut known = told.lock();
            match event {
                ReflectorEvent::Replace(objects, _) => {
                    known.there = objects
                        .first()
                        .map_or(There::Nothing, |(_, object)| There::Version(object.resource_version().to_owned()));
                    known.fresh = true;
                }
                ReflectorEvent::Set(_, object) => {
                    known.there = There::Version(object.resource_version().to_owned());
                    known.fresh = true;
                }
                ReflectorEvent::Delete(..) => (known.there, known.fresh) = (There::Nothing, true),
                ReflectorEvent::Confirm(_) | ReflectorEvent::Bookmark { .. } => {
                    known.fresh = true;
                    known.confirms += 1;
                }
                ReflectorEvent::Failed(error) => {
                    known.fresh = false;
                    known.failed.push(error.class());
                }
                ReflectorEvent::WentBack { .. } => known.went_back += 1,
                ReflectorEvent::Listing => {}
            }
        });
        Self { known, _reflector: reflectors.start(&Scope::Object(ObjectKey::new("shop", name)), None, sink) }
    }

    fn known(&self) -> Known {
        self.known.lock().clone()
    }

    /// Until it has the object as the server has it, and says that this is so.
    async fn up_to_date(&self, server: &ApiServer, name: &str) {
        until(|| {
            let known = self.known();
            known.fresh && known.there == There::Version(version(server, name))
        })
        .await;
    }
}

fn version(server: &ApiServer, name: &str) -> String {
    let map: k8s_openapi::api::core::v1::ConfigMap = server.store().get("shop", name).expect("it is there");
    map.metadata.resource_version.expect("a version")
}

fn change(server: &ApiServer, name: &str, value: &str) {
    server.store().apply(config_map("shop", name, &[("key", value)])).expect("applied");
}

/// Short ones, since this is in real time.
fn options() -> KubeOptions {
    let mut options = KubeOptions::default();
    options.dead_link_timeout = Duration::from_secs(2);
    options.ping_interval = Duration::from_millis(300);
    options.fetch_deadline = Duration::from_secs(1);
    options.list_deadline = Duration::from_secs(1);
    options.watch_deadline = Duration::from_secs(1);
    options.backoff_initial = Duration::from_millis(20);
    options.backoff_max = Duration::from_millis(500);
    options
}

async fn follow(server: &ApiServer, options: KubeOptions) -> (KubeClient, KubeReflectors, Follower) {
    change(server, "env", "first");
    let client = connect(server, options).await;
    let reflectors = client.reflectors(ObjectKind::ConfigMap);
    let follower = Follower::of(&reflectors, "env");
    follower.up_to_date(server, "env").await;
    (client, reflectors, follower)
}

/// One request an object, 90 watches a connection, and nothing left behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_reflectors_share_12_connections_and_send_one_request_each() {
    let server = start().await;
    let client = connect(&server, KubeOptions::default()).await;
    let reflectors = client.reflectors(ObjectKind::ConfigMap);
    let all: Vec<Follower> = (0..1000).map(|index| Follower::of(&reflectors, &format!("c{index}"))).collect();
    until(|| all.iter().all(|one| one.known().there == There::Nothing)).await;
    let counts = server.counts();
    assert!(counts.connections_open <= 12, "{counts:?}");
    assert_eq!((counts.watches_open, counts.total()), (1000, 1000));
    for index in 0..1000 {
        change(&server, &format!("c{index}"), "value");
    }
    until(|| all.iter().all(|one| matches!(one.known().there, There::Version(_)))).await;
    let stats = client.stats();
    assert_eq!((stats.reflectors, stats.watches_open, stats.streaming_lists), (1000, 1000, 1000));
    reflectors.stop().await;
    until(|| server.counts().watches_open == 0).await;
    assert_eq!(client.stats().reflectors, 0);
}

#[tokio::test]
async fn whatever_the_server_answers_all_is_fresh_again_soon() {
    let faults = [
        ("500", Fault::status(500)),
        ("503", Fault::status(503)),
        ("504", Fault::status(504)),
        ("429", Fault::status(429).retry_after(Duration::from_secs(1))),
        ("403", Fault::status(403)),
        ("401", Fault::status(401)),
        ("410", Fault::status(410)),
        ("truncated", Fault::truncate()),
        ("garbage", Fault::garbage()),
        ("wrong shape", Fault::wrong_shape()),
        ("cut", Fault::cut()),
        ("hanging", Fault::hang()),
        ("slow", Fault::slow(Duration::from_millis(300))),
    ];
    for (name, fault) in faults {
        let server = start().await;
        let (_client, _reflect, follower) = follow(&server, options()).await;
        server.inject(fault.verb(Verb::Watch).times(2));
        server.cut_connections();
        until(|| !follower.known().failed.is_empty()).await;
        change(&server, "env", "second");
        follower.up_to_date(&server, "env").await;
        assert_eq!(follower.known().went_back, 0, "{name}");
    }
}

#[tokio::test]
async fn an_outage_makes_stale_what_is_known_and_ends_with_all_fresh() {
    let server = start().await;
    let (client, _reflect, follower) = follow(&server, options()).await;
    server.outage().await;
    until(|| follower.known().failed.len() >= 3).await;
    let known = follower.known();
    assert!(!known.fresh && known.there == There::Version(version(&server, "env")), "{known:?}");
    change(&server, "env", "second");
    server.restore().await.unwrap();
    follower.up_to_date(&server, "env").await;
    // It went on where it was.
    assert_eq!(client.stats().streaming_lists, 1);
}

#[tokio::test]
async fn a_compaction_leads_to_a_new_list() {
    let server = start().await;
    let (client, _reflect, follower) = follow(&server, options()).await;
    change(&server, "other", "value");
    server.store().skip_revisions(10);
    server.store().compact();
    server.cut_connections();
    change(&server, "env", "second");
    follower.up_to_date(&server, "env").await;
    server.expire_watches();
    change(&server, "env", "third");
    follower.up_to_date(&server, "env").await;
    assert!(client.stats().relists_expired >= 1, "{:?}", client.stats());
    server.end_watches();
    change(&server, "env", "fourth");
    follower.up_to_date(&server, "env").await;
}

#[tokio::test]
async fn an_older_etcd_that_refuses_streaming_lists_is_listed_and_watched() {
    for refused in [StreamingLists::ErrorEvent, StreamingLists::Forbidden] {
        let server = start_with(ApiServerOptions { streaming_lists: refused, ..Default::default() }).await;
        let (client, reflectors, follower) = follow(&server, options()).await;
        change(&server, "env", "second");
        follower.up_to_date(&server, "env").await;
        change(&server, "other", "first");
        let other = Follower::of(&reflectors, "other");
        other.up_to_date(&server, "other").await;
        let stats = client.stats();
        assert_eq!((stats.streaming_refused, stats.streaming_lists, stats.lists), (1, 0, 2), "{stats:?}");
        // After its upgrade it is asked again.
        server.outage().await;
        until(|| !follower.known().failed.is_empty()).await;
        server.set_streaming_lists(StreamingLists::Served);
        server.restore().await.unwrap();
        follower.up_to_date(&server, "env").await;
        change(&server, "third", "first");
        let third = Follower::of(&reflectors, "third");
        third.up_to_date(&server, "third").await;
        assert_eq!(client.stats().streaming_lists, 1);
    }
}

#[tokio::test]
async fn a_restore_of_etcd_is_noticed_though_the_server_is_silent_about_it() {
    let server = start().await;
    let (client, _reflect, follower) = follow(&server, options()).await;
    let backup = server.store().backup();
    for value in ["second", "third", "fourth"] {
        change(&server, "env", value);
    }
    follower.up_to_date(&server, "env").await;
    server.store().restore(&backup);
    follower.up_to_date(&server, "env").await;
    assert_eq!((follower.known().went_back, client.stats().relists_went_back), (1, 1));
}

/// With the node's own credentials, which may not list just any pod.
#[tokio::test]
async fn pods_and_node_notice_a_restore_of_etcd_as_soon_as_the_server_is_back() {
    let server =
        start_with(ApiServerOptions { bookmark_interval: Duration::from_hours(1), ..Default::default() }).await;
    let (pod_reader, node_reader, _runs) = sources(&server, options()).await;
    until(|| pod_reader.status().connected && node_reader.status().connected).await;
    let backup = server.store().backup();
    server.store().create(pod("shop", "web").node("n1").build()).unwrap();
    let version = || node_reader.node().map(|node| node.resource_version().to_owned());
    let before = version();
    let mut changed = node("n1");
    changed.metadata.labels.get_or_insert_default().insert("is".to_owned(), "changed".to_owned());
    server.store().apply(changed).unwrap();
    until(|| pod_reader.get("shop", "web").is_some() && version() != before).await;
    server.outage().await;
    until(|| !pod_reader.status().connected && !node_reader.status().connected).await;
    server.store().restore(&backup);
    server.restore().await.unwrap();
    until(|| pod_reader.get("shop", "web").is_none() && version() == before).await;
}

/// A source of pods and one of the node, with the node's own credentials.
async fn sources(
    server: &ApiServer,
    options: KubeOptions,
) -> (SourceReader<Pod>, SourceReader<Node>, Vec<AbortOnDropHandle<()>>) {
    server.store().apply(node("n1")).unwrap();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("kubeconfig");
    server.write_kubeconfig(&path, &server.add_user(User::node("n1"))).unwrap();
    let client = KubeClient::from_kubeconfig(&path, None, options).await.unwrap();
    let pods = PodSource::new(client.clone(), "n1", TokioClock::new()).unwrap();
    let nodes = NodeSource::new(client, "n1", TokioClock::new()).unwrap();
    let (pod_reader, node_reader) = (pods.reader(), nodes.reader());
    let runs = vec![
        AbortOnDropHandle::new(tokio::spawn(pods.run(CancellationToken::new()))),
        AbortOnDropHandle::new(tokio::spawn(nodes.run(CancellationToken::new()))),
    ];
    (pod_reader, node_reader, runs)
}

/// As Secrets and `ConfigMap`s are: see the test above.
#[tokio::test]
async fn pods_and_node_are_confirmed_by_their_connection_and_stale_while_the_server_is_frozen() {
    let mut options = options();
    options.dead_link_timeout = Duration::from_mins(1);
    let server = start().await;
    let (pods, own, _runs) = sources(&server, options).await;
    let all = || [pods.status(), own.status()];
    until(|| all().iter().all(|status| status.connected)).await;
    // Nothing happens to them, and yet they do not age.
    for _ in 0..3 {
        let before = all().map(|status| status.last_contact);
        until(|| all().map(|status| status.last_contact).iter().zip(before).all(|(now, before)| *now > before)).await;
    }
    server.freeze(true);
    until(|| all().iter().all(|status| !status.connected)).await;
    for (status, freshness) in all().iter().zip([pods.freshness(), own.freshness()]) {
        let fault = status.last_fault.as_ref().unwrap();
        assert_eq!((fault.class, status.failures, status.watches), ("timeout", 1, 1));
        assert!(fault.error.to_string().contains("no answer from the API server"), "{}", fault.error);
        let reason = StaleReason::FetchFailed { class: "timeout" };
        assert!(matches!(freshness.unwrap().state, FreshState::Stale { reason: why, .. } if why == reason));
    }
    server.freeze(false);
    until(|| all().iter().all(|status| status.connected && status.failures == 0)).await;
    assert!(all().iter().all(|status| (status.watches, status.lists) == (1, 1)));
}

/// Where there are no PINGs, a bookmark confirms, and nothing else does.
#[tokio::test]
async fn over_http_1_a_bookmark_confirms_pods_and_node() {
    let bookmark_interval = Duration::from_millis(100);
    let server = ApiServer::start_with(ApiServerOptions { bookmark_interval, ..Default::default() }).await.unwrap();
    let (pods, own, _runs) = sources(&server, options()).await;
    let all = || [pods.status(), own.status()];
    until(|| all().iter().all(|status| status.connected)).await;
    let before = all().map(|status| status.last_contact);
    until(|| all().map(|status| status.last_contact).iter().zip(before).all(|(now, before)| *now > before)).await;
}

/// Pods of an API server without streaming lists are never read from etcd.
#[tokio::test]
async fn pods_are_listed_from_the_watch_cache_where_streaming_lists_are_refused() {
    let streaming_lists = StreamingLists::Forbidden;
    let server = start_with(ApiServerOptions { streaming_lists, ..Default::default() }).await;
    server.store().create(pod("shop", "web").node("n1").build()).unwrap();
    let (pods, _own, _runs) = sources(&server, options()).await;
    until(|| pods.get("shop", "web").is_some() && pods.freshness().is_some_and(|freshness| freshness.is_fresh())).await;
    until(|| server.counts().watches_open == 2).await;
    server.store().create(pod("shop", "second").node("n1").build()).unwrap();
    server.expire_watches();
    until(|| pods.status().lists == 2 && pods.get("shop", "second").is_some()).await;
    assert!(pods.status().synced);
}

#[tokio::test]
async fn a_connection_that_stalls_is_replaced_and_its_reflectors_lose_no_event() {
    let server = start().await;
    let (client, reflectors, follower) = follow(&server, options()).await;
    let mut others = Vec::new();
    for index in 0..120 {
        change(&server, &format!("c{index}"), "first");
        others.push(Follower::of(&reflectors, &format!("c{index}")));
    }
    for (index, other) in others.iter().enumerate() {
        other.up_to_date(&server, &format!("c{index}")).await;
    }
    let requests = server.counts().total();
    server.stall_connections(true);
    change(&server, "env", "second");
    for index in 0..120 {
        change(&server, &format!("c{index}"), "second");
    }
    follower.up_to_date(&server, "env").await;
    for (index, other) in others.iter().enumerate() {
        other.up_to_date(&server, &format!("c{index}")).await;
    }
    let stats = client.stats();
    assert_eq!((stats.pings_lost, stats.streaming_lists), (2, 121), "{stats:?}");
    // One asked where the server is, and each went on once, but for those that failed again on the other stuck connection.
    let asked = server.counts().total() - requests;
    assert!((122..=250).contains(&asked), "{asked} requests");
}

#[tokio::test]
async fn a_quiet_watch_is_confirmed_by_its_connection_and_stale_when_that_is_silent() {
    let mut options = options();
    options.dead_link_timeout = Duration::from_mins(1);
    let server = start().await;
    let (_client, _reflect, follower) = follow(&server, options).await;
    until(|| follower.known().confirms >= 3).await;
    server.stall_connections(true);
    until(|| !follower.known().fresh).await;
    assert_eq!(follower.known().failed, ["timeout"]);
    server.stall_connections(false);
    follower.up_to_date(&server, "env").await;
    assert_eq!(follower.known().failed.len(), 1);
}

#[tokio::test]
async fn a_rotated_token_takes_effect_without_a_restart() {
    let server = start().await;
    change(&server, "env", "first");
    let folder = TempDir::new().unwrap();
    let (token, path) = (folder.path().join("token"), folder.path().join("kubeconfig"));
    let old = server.add_user(User::admin());
    write_private(&token, &old).unwrap();
    write_private(&path, &server.kubeconfig_with_token_file(&token)).unwrap();
    let client = KubeClient::from_kubeconfig(&path, None, options()).await.unwrap();
    let reflectors = client.reflectors(ObjectKind::ConfigMap);
    let follower = Follower::of(&reflectors, "env");
    follower.up_to_date(&server, "env").await;
    let new = server.add_user(User::admin());
    write_private(&token, &new).unwrap();
    assert!(server.expire_token(&old));
    let key = ObjectKey::new("shop", "env");
    client.fetcher(ObjectKind::ConfigMap).fetch(&key, ReadKind::Consistent).await.unwrap();
    server.cut_connections();
    change(&server, "env", "second");
    follower.up_to_date(&server, "env").await;
}

#[tokio::test]
async fn a_renewed_token_leaves_watches_and_connections_where_they_are() {
    let server = start().await;
    change(&server, "env", "first");
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("kubeconfig");
    let old = server.add_user(User::admin());
    server.write_kubeconfig(&path, &old).unwrap();
    let client = KubeClient::from_kubeconfig(&path, None, options()).await.unwrap();
    let reflectors = client.reflectors(ObjectKind::ConfigMap);
    let follower = Follower::of(&reflectors, "env");
    follower.up_to_date(&server, "env").await;
    server.write_kubeconfig(&path, &server.add_user(User::admin())).unwrap();
    assert!(server.expire_token(&old));
    let key = ObjectKey::new("shop", "env");
    client.fetcher(ObjectKind::ConfigMap).fetch(&key, ReadKind::Consistent).await.unwrap();
    change(&server, "env", "second");
    follower.up_to_date(&server, "env").await;
    let stats = client.stats();
    assert_eq!((stats.connections_opened, stats.watches_begun, stats.failures), (1, 1, 0), "{stats:?}");
}

#[tokio::test]
async fn a_namespace_is_counted_asked_for_and_followed() {
    let server = start().await;
    let client = connect(&server, options()).await;
    let reflectors = client.reflectors(ObjectKind::ConfigMap);
    for name in ["a", "b", "c"] {
        change(&server, name, "first");
    }
    assert_eq!(reflectors.count("shop").await.unwrap(), 3);
    assert_eq!(reflectors.count("empty").await.unwrap(), 0);
    assert!(reflectors.may_watch("shop").await);
    let names: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let told = Arc::clone(&names);
    let sink = ReflectorSink::from_fn(move |event: ReflectorEvent<KubeObject, KubeError>| {
        let mut names = told.lock();
        match event {
            ReflectorEvent::Replace(all, _) => *names = all.into_iter().map(|(name, _)| name).collect(),
            ReflectorEvent::Set(name, _) => drop(names.insert(name)),
            ReflectorEvent::Delete(name, _) => drop(names.remove(&name)),
            _ => {}
        }
    });
    let _reflector = reflectors.start(&Scope::Namespace("shop".into()), None, sink);
    let has = |expected: &[&str]| names.lock().iter().eq(expected);
    until(|| has(&["a", "b", "c"])).await;
    server.store().delete(Kind::ConfigMap, "shop", "b").unwrap();
    change(&server, "d", "first");
    until(|| has(&["a", "c", "d"])).await;
    server.cut_connections();
    server.store().delete(Kind::ConfigMap, "shop", "a").unwrap();
    until(|| has(&["c", "d"])).await;

    // A node may not.
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("kubeconfig");
    server.write_kubeconfig(&path, &server.add_user(User::node("n1"))).unwrap();
    let node = KubeClient::from_kubeconfig(&path, None, options()).await.unwrap().reflectors(ObjectKind::ConfigMap);
    assert!(!node.may_watch("shop").await && node.count("shop").await.unwrap_err().is_forbidden());
}

#[tokio::test]
async fn as_a_node_it_reflects_what_its_pods_refer_to_from_their_arrival() {
    let lag = Duration::from_millis(300);
    let server = start_with(ApiServerOptions { authorizer_lag: lag, ..Default::default() }).await;
    change(&server, "env", "first");
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("kubeconfig");
    server.write_kubeconfig(&path, &server.add_user(User::node("n1"))).unwrap();
    let client = KubeClient::from_kubeconfig(&path, None, options()).await.unwrap();
    server
        .store()
        .create(pod("shop", "web").node("n1").container("web", "web:1").config_map_volume("env").build())
        .unwrap();
    client.note_pod("shop");
    let reflectors = client.reflectors(ObjectKind::ConfigMap);
    let follower = Follower::of(&reflectors, "env");
    follower.up_to_date(&server, "env").await;
    assert!(follower.known().failed.is_empty(), "{:?}", follower.known());
    assert!(server.counts().of(Verb::Watch, Kind::ConfigMap) >= 2, "it was refused at first");
}
