//! Namespaces are read when somebody asks for them, and a refusal by the API server concerns nothing else.

use crate::machine::{InMemory, Laptop};
use larder_clock::MonotonicClock;
use larder_node::{Cluster, Config, Node, ReadError, RuntimeEndpoint};
use larder_objects::ObjectKey;
use larder_resource::Kind as ResourceKind;
use larder_resource::journal::{EventType, Follower};
use larder_testkit::api_server::{ApiServer, ApiServerOptions, Grant, Kind, User, Verb};
use larder_testkit::objects::{namespace, node, pod};
use larder_testkit::poll_until;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const DEADLINE: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_mins(10);

/// A node with a pod in each of `shop` and `web`, at a server that has a namespace `other` too.
struct World {
    server: Arc<ApiServer>,
    node: Arc<Node<&'static Laptop>>,
    _folder: TempDir,
}

impl World {
    async fn start(user: User) -> Self {
        let server = Arc::new(ApiServer::start_with(ApiServerOptions::default()).await.unwrap());
        let store = server.store();
        store.create(node("n1")).unwrap();
        for name in ["shop", "web", "other"] {
            store.create(namespace(name)).unwrap();
        }
        for name in ["shop", "web"] {
            store.create(pod(name, "a").node("n1").container("a", "a:1").build()).unwrap();
        }
        let folder = TempDir::new().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        server.write_kubeconfig(&kubeconfig, &server.add_user(user)).unwrap();
        let mut config = Config::new("n1", Cluster::Kubeconfig { path: kubeconfig, context: None });
        config.runtime = RuntimeEndpoint::None;
        config.kube.connector = Some(Arc::new(InMemory(Arc::clone(&server))));
        let clock = MonotonicClock::of(Laptop::leaked());
        let node = Node::start_with_clock(config, clock, CancellationToken::new()).await.unwrap();
        tokio::time::pause();
        node.settled().await;
        poll_until(LIMIT, async || node.list_pods().is_ok().then_some(())).await.unwrap();
        Self { server, node, _folder: folder }
    }

    fn gets(&self) -> u64 {
        self.server.counts().of(Verb::Get, Kind::Namespace)
    }

    async fn get(&self, name: &str) -> Result<String, ReadError> {
        let answer = self.node.get_namespace(name, DEADLINE).await?;
        Ok(String::from_utf8(answer.object.json().to_vec()).unwrap())
    }

    /// The names that a list has, and those that it lacks.
    async fn list(&self) -> (Vec<String>, Vec<String>) {
        let list = self.node.list_namespaces(|_| true, DEADLINE).await.unwrap();
        let names = |keys: Vec<ObjectKey>| keys.iter().map(ToString::to_string).collect();
        (
            names(list.items.iter().map(|answer| answer.object.key()).collect()),
            names(list.unknown.into_iter().map(|(key, _)| key).collect()),
        )
    }

    /// Waits until a read gives that.
    async fn until(&self, name: &str, fits: impl Fn(&Result<String, ReadError>) -> bool) {
        poll_until(LIMIT, async || fits(&self.get(name).await).then_some(())).await.unwrap();
    }
}

fn reader_of_namespaces() -> User {
    User::node("n1").allow(Grant::everywhere(Kind::Namespace).verbs(&[Verb::Get]))
}

#[tokio::test]
async fn a_namespace_is_read_once_in_its_ttl_and_only_if_somebody_asks() {
    let world = World::start(reader_of_namespaces()).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(world.gets(), 0, "nobody has asked");
    let mut expected = None;
    for _ in 0..3 {
        let json = world.get("shop").await.unwrap();
        assert!(json.contains("\"phase\":\"Active\"") && json.contains("\"kind\":\"Namespace\""), "{json}");
        assert_eq!(expected.get_or_insert(json.clone()), &json);
    }
    assert_eq!(world.gets(), 1);
    assert_eq!(world.list().await, (vec!["shop".to_owned(), "web".to_owned()], Vec::new()));
    assert_eq!(world.gets(), 2, "the other one");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(world.gets(), 2, "what nobody asks for is not read again");
    world.get("shop").await.unwrap();
    assert_eq!(world.gets(), 3);
    world.node.stop().await;
}

#[tokio::test]
async fn a_namespace_without_a_pod_of_the_node_is_refused_and_comes_and_goes_with_its_pods() {
    let world = World::start(reader_of_namespaces()).await;
    let error = world.get("other").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "namespace \"other\" is not held: no pod of node \"n1\" is in it; read it from the API server"
    );
    assert!(error.is_not_referenced() && world.gets() == 0);
    world.server.store().create(pod("other", "b").node("n1").container("a", "a:1").build()).unwrap();
    world.until("other", Result::is_ok).await;
    world.server.store().delete(Kind::Pod, "other", "b").unwrap();
    world.until("other", |read| read.as_ref().is_err_and(ReadError::is_not_referenced)).await;
    // A namespace of a pod that the API server does not have is known to be absent.
    world.server.store().create(pod("gone", "c").node("n1").container("a", "a:1").build()).unwrap();
    world.until("gone", |read| read.as_ref().is_err_and(ReadError::is_not_found)).await;
    world.node.stop().await;
}

#[tokio::test]
async fn a_refusal_names_the_rule_and_is_not_asked_for_again_at_once() {
    let world = World::start(User::node("n1")).await;
    let error = world.get("shop").await.unwrap_err();
    assert!(error.is_not_permitted(), "{error:?}");
    let text = error.to_string();
    for part in ["ClusterRole", "\"get\"", "\"namespaces\"", "system:node:n1", "namespace \"shop\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A client that polls every 100 ms for an hour.
    for _ in 0..36_000 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(world.get("shop").await.unwrap_err().is_not_permitted());
    }
    assert!((60..=70).contains(&world.gets()), "{} requests", world.gets());
    let (items, unknown) = world.list().await;
    assert_eq!((items.len(), unknown.len()), (0, 2));

    let report = world.node.report();
    assert!(report.degraded.is_empty(), "{:?}", report.degraded);
    assert!(world.node.readiness().iter().all(|check| check.failure.is_none()));
    assert!(world.node.get_pod("shop", "a").unwrap().freshness.is_fresh());
    world.node.stop().await;
}

#[tokio::test]
async fn what_was_read_before_an_outage_stays_readable_and_is_fresh_again_after_it() {
    let world = World::start(reader_of_namespaces()).await;
    world.get("shop").await.unwrap();
    world.server.outage().await;
    let is_fresh = async |expected: bool| {
        let looks = async || {
            let answer = world.node.get_namespace("shop", DEADLINE).await.unwrap();
            (answer.freshness.is_fresh() == expected).then_some(answer)
        };
        poll_until(LIMIT, looks).await.unwrap()
    };
    let stale = is_fresh(false).await;
    assert!(stale.why.is_some(), "{stale:?}");
    world.server.restore().await.unwrap();
    is_fresh(true).await;
    world.node.stop().await;
}

/// The next change, in words.
async fn next(follower: &mut Follower) -> String {
    let entries = tokio::time::timeout(LIMIT, follower.next()).await.expect("a change").unwrap();
    entries.iter().map(|entry| format!("{} {}", entry.event.as_str(), entry.key)).collect::<Vec<_>>().join(", ")
}

#[tokio::test]
async fn those_who_watch_see_namespaces_change_come_and_go() {
    let world = World::start(reader_of_namespaces()).await;
    let journal = world.node.journal(ResourceKind::Namespace).unwrap();
    assert_eq!(world.list().await.0, ["shop", "web"]);
    let (snapshot, mut follower) = journal.follow();
    assert_eq!(snapshot.objects.len(), 2);
    let mut changed = namespace("shop");
    changed.metadata.labels = Some([("tier".to_owned(), "front".to_owned())].into());
    world.server.store().apply(changed).unwrap();
    assert_eq!(next(&mut follower).await, "MODIFIED shop");
    world.server.store().create(pod("other", "b").node("n1").container("a", "a:1").build()).unwrap();
    assert_eq!(next(&mut follower).await, "ADDED other");
    world.server.store().delete(Kind::Pod, "web", "a").unwrap();
    assert_eq!(next(&mut follower).await, format!("{} web", EventType::Deleted.as_str()));
    // Nobody watches any more.
    drop(follower);
    let before = world.gets();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(world.gets(), before);
    world.node.stop().await;
}
