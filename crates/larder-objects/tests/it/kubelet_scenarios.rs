//! The scenarios of the kubelet's `cache_based_manager_test.go`, told anew: a server that answers every read and counts
//! them, and pods of the API.

use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVar, EnvVarSource, LocalObjectReference, Pod, PodSpec, SecretEnvSource,
    SecretKeySelector,
};
use larder_clock::{Clock, MonotonicClock, Timestamp, VirtualClock};
use larder_objects::{
    DefaultTtl, Fetch, FetchError, NodeTtl, Object, ObjectKey, ObjectTtl, PodObjects, ReadKind, References, Source,
    Store, StoreTtl, Ttl, TtlStore, references::Secrets,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;

#[derive(Debug, Default)]
struct Secret {
    version: &'static str,
}

impl Object for Secret {
    fn resource_version(&self) -> &str {
        self.version
    }

    fn uid(&self) -> &'static str {
        ""
    }

    fn is_immutable(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy, Debug, thiserror::Error)]
enum ReadError {
    #[error("not found")]
    NotFound,
    #[error("the requested version is too old")]
    Expired,
}

impl FetchError for ReadError {
    fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound)
    }

    fn class(&self) -> &'static str {
        "failed"
    }
}

/// Answers every read alike, each after a pause in which other tasks run, and counts them.
#[derive(Clone)]
struct Server {
    state: Arc<Mutex<(Result<&'static str, ReadError>, usize)>>,
}

impl Server {
    fn new() -> Self {
        Self { state: Arc::new(Mutex::new((Ok("1"), 0))) }
    }

    fn answer(&self, answer: Result<&'static str, ReadError>) {
        self.state.lock().unwrap().0 = answer;
    }

    /// The reads since this was last asked.
    fn take_reads(&self) -> usize {
        std::mem::take(&mut self.state.lock().unwrap().1)
    }
}

impl Fetch for Server {
    type Object = Secret;
    type Error = ReadError;

    fn fetch(
        &self,
        _key: &ObjectKey,
        _read: ReadKind,
    ) -> impl Future<Output = Result<Arc<Secret>, ReadError>> + Send + 'static {
        let state = Arc::clone(&self.state);
        async move {
            tokio::task::yield_now().await;
            let mut state = state.lock().unwrap();
            state.1 += 1;
            state.0.map(|version| Arc::new(Secret { version }))
        }
    }

    fn source(&self, read: ReadKind) -> Source {
        read.source()
    }
}

fn clock() -> VirtualClock {
    VirtualClock::new(Timestamp::from_nanos(1_700_000_000_000_000_000))
}

fn secret_store<C: Clock, T: Ttl>(server: &Server, clock: C, ttl: T, default_ttl: i64) -> Arc<TtlStore<Server, C, T>> {
    Arc::new(TtlStore::new(server.clone(), clock, StoreTtl::new(ttl, ObjectTtl::from_nanos(default_ttl))))
}

/// Whether the object is registered; reads it.
async fn is_registered<S: Store<Error = ReadError>>(store: &S, namespace: &str, name: &str) -> bool {
    match store.get(namespace, name).await {
        Ok(_) => true,
        Err(error) => {
            assert!(error.is_not_registered(), "{error}");
            assert!(error.to_string().contains(&format!("object {namespace}/{name} is not registered")));
            false
        }
    }
}

/// What a pod of these scenarios refers to.
#[derive(Clone, Copy, Default)]
struct Refs {
    pull: &'static [&'static str],
    /// For each container, the secrets of its variables and those that it takes whole.
    containers: &'static [(&'static [&'static str], &'static [&'static str])],
}

fn pod(namespace: &str, name: &str, refs: Refs) -> Pod {
    pod_with_uid(namespace, name, &format!("{namespace}/{name}"), refs)
}

fn pod_with_uid(namespace: &str, name: &str, uid: &str, refs: Refs) -> Pod {
    let variable = |name: &&str| EnvVar {
        name: "VARIABLE".to_owned(),
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector { name: (*name).to_owned(), ..SecretKeySelector::default() }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    };
    let whole = |name: &&str| EnvFromSource {
        secret_ref: Some(SecretEnvSource { name: (*name).to_owned(), optional: None }),
        ..EnvFromSource::default()
    };
    let containers = refs.containers.iter().map(|(variables, wholes)| Container {
        env: Some(variables.iter().map(variable).collect()),
        env_from: Some(wholes.iter().map(whole).collect()),
        ..Container::default()
    });
    let pull = refs.pull.iter().map(|name| LocalObjectReference { name: (*name).to_owned() });
    let mut pod = Pod {
        spec: Some(PodSpec {
            containers: containers.collect(),
            image_pull_secrets: Some(pull.collect()),
            ..PodSpec::default()
        }),
        ..Pod::default()
    };
    pod.metadata.namespace = Some(namespace.to_owned());
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.uid = Some(uid.to_owned());
    pod
}

type Manager<C, T> = PodObjects<Arc<TtlStore<Server, C, T>>, Secrets>;

fn manager(server: &Server, clock: VirtualClock, ttl: i64) -> Manager<VirtualClock, DefaultTtl> {
    PodObjects::new(secret_store(server, clock, DefaultTtl, ttl), Secrets)
}

#[tokio::test]
async fn references_are_counted_and_adding_one_fetches_nothing() {
    let server = Server::new();
    let store = secret_store(&server, MonotonicClock::new(), DefaultTtl, 0);
    store.add_references("ns1", &["name1"], "pod1").run();
    store.add_references("ns2", &["name2"], "pod2").run();
    store.add_references("ns1", &["name1"], "pod3").run();
    store.add_references("ns1", &["name1"], "pod4").run();
    store.delete_references("ns1", &["name1"], "pod1").run();
    store.delete_references("ns2", &["name2"], "pod2").run();
    store.add_references("ns3", &["name3"], "pod5").run();
    assert_eq!(server.take_reads(), 0);

    assert!(is_registered(&store, "ns1", "name1").await);
    assert!(!is_registered(&store, "ns2", "name2").await);
    assert!(is_registered(&store, "ns3", "name3").await);
    assert_eq!(server.take_reads(), 2);
    assert!(!is_registered(&store, "ns4", "name4").await);
}

#[tokio::test]
async fn a_deleted_secret_is_not_found_once_it_is_read_again() {
    let server = Server::new();
    let store = secret_store(&server, MonotonicClock::new(), DefaultTtl, 0);
    store.add_references("ns", &["name"], "pod").run();
    server.answer(Ok("10"));
    assert_eq!(store.get("ns", "name").await.unwrap().object.version, "10");
    server.answer(Err(ReadError::NotFound));
    assert!(store.get("ns", "name").await.unwrap_err().is_not_found());
}

/// A hundred readers of ten objects, on several threads.
async fn hundred_readers(ttl: i64) -> usize {
    let server = Server::new();
    let store = secret_store(&server, clock(), DefaultTtl, ttl);
    for at in 0..10 {
        store.add_references(&format!("ns-{at}"), &[&format!("name-{at}")], &format!("pod-{at}")).run();
    }
    let mut readers = tokio::task::JoinSet::new();
    for at in 0..100 {
        let store = Arc::clone(&store);
        readers.spawn(async move {
            let (namespace, name) = (format!("ns-{}", at % 10), format!("name-{}", at % 10));
            store.get(&namespace, &name).await.is_ok()
        });
    }
    assert!(readers.join_all().await.into_iter().all(|found| found));
    server.take_reads()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_a_ttl_every_read_fetches() {
    assert_eq!(hundred_readers(0).await, 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn within_the_ttl_only_the_first_read_of_an_object_fetches() {
    assert_eq!(hundred_readers(MINUTE).await, 10);
}

#[tokio::test]
async fn the_nodes_ttl_takes_the_place_of_the_default() {
    let (server, clock, ttl) = (Server::new(), clock(), Arc::new(NodeTtl::new()));
    let store = secret_store(&server, clock.clone(), Arc::clone(&ttl), MINUTE);
    store.add_references("ns", &["name"], "pod").run();
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let steps = [
        // (the annotation, the clock's step, reads of the server)
        (None, Duration::ZERO, 1),
        (Some("0"), Duration::ZERO, 1),
        (Some("300"), Duration::ZERO, 0),
        (Some("300"), minutes(4), 0),
        (Some("300"), minutes(1), 1),
        (None, Duration::from_secs(55), 0),
        (None, Duration::from_secs(5), 1),
    ];
    for (annotation, step, reads) in steps {
        ttl.set_annotation(annotation);
        clock.advance(step);
        store.get("ns", "name").await.unwrap();
        assert_eq!(server.take_reads(), reads, "with {annotation:?}, {step:?} later");
    }
}

#[test]
fn the_nodes_annotation_is_a_ttl_if_it_is_an_integer() {
    // No node, no annotations and no such annotation are one case here: there is no value.
    for (value, ttl) in [(None, None), (Some("bad"), None), (Some("0"), Some(0)), (Some("60"), Some(MINUTE))] {
        let node = NodeTtl::new();
        node.set_annotation(value);
        assert_eq!(node.object_ttl().map(ObjectTtl::as_nanos), ttl, "{value:?}");
    }
}

#[tokio::test]
async fn a_new_or_changed_pod_makes_the_reads_of_its_new_objects_fetch() {
    let server = Server::new();
    let manager = manager(&server, clock(), MINUTE);
    let read = async |names: &[&str]| {
        for name in names {
            manager.get_object("ns1", name).await.unwrap();
        }
        server.take_reads()
    };
    let first = Refs { pull: &["s1"], containers: &[(&["s1"], &["s10"]), (&["s2"], &[])] };
    manager.register_pod(&pod("ns1", "name1", first));
    assert_eq!(read(&["s1", "s10", "s2"]).await, 3);

    // The pod changes: only what is new to it is fetched.
    let changed = Refs { pull: &["s1"], containers: &[(&["s1"], &[]), (&["s2"], &["s20"]), (&["s3"], &[])] };
    manager.register_pod(&pod("ns1", "name1", changed));
    assert_eq!(read(&["s1", "s2", "s20", "s3"]).await, 2);

    // Another pod comes: what it refers to is fetched again.
    manager.register_pod(&pod("ns1", "name2", first));
    assert_eq!(read(&["s1", "s10", "s2", "s20", "s3"]).await, 3);
}

#[tokio::test]
async fn an_expired_version_is_a_failure_like_any_other() {
    let server = Server::new();
    let manager = manager(&server, clock(), MINUTE);
    manager.register_pod(&pod("dummy-ns", "dummy-name", Refs { pull: &["s1"], ..Refs::default() }));
    server.answer(Err(ReadError::Expired));
    assert!(manager.get_object("dummy-ns", "s1").await.unwrap_err().is_fetch_failed());
}

#[test]
fn registering_and_unregistering_again_changes_nothing() {
    let manager = manager(&Server::new(), clock(), MINUTE);
    let refs = Refs { pull: &["s1"], ..Refs::default() };
    let count = || manager.references("ns1", "s1");
    manager.register_pod(&pod("ns1", "name1", refs));
    assert_eq!(count(), 1);
    manager.register_pod(&pod("ns1", "name1", refs));
    assert_eq!(count(), 1);
    manager.register_pod(&pod("ns1", "name2", refs));
    assert_eq!(count(), 2);
    manager.unregister_pod(&pod("ns1", "name1", refs));
    assert_eq!(count(), 1);
    manager.unregister_pod(&pod("ns1", "name1", refs));
    assert_eq!(count(), 1);
    manager.unregister_pod(&pod("ns1", "name2", refs));
    assert_eq!(count(), 0);
}

#[test]
fn references_are_counted_over_pods_that_come_change_and_go() {
    let manager = manager(&Server::new(), clock(), MINUTE);
    let (register, unregister) = (
        |name: &str, refs| manager.register_pod(&pod("ns1", name, refs)),
        |name: &str, refs| manager.unregister_pod(&pod("ns1", name, refs)),
    );
    let s1 = Refs { pull: &["s1"], containers: &[(&["s1"], &["s10"]), (&["s2"], &[]), (&["s3"], &[])] };
    let s2 = Refs { pull: &["s2"], containers: &[(&["s4"], &[]), (&["s5"], &["s50"])] };
    let s3 = Refs { pull: &["s1"], containers: &[(&["s3"], &["s30"]), (&["s5"], &[])] };
    let s4 = Refs { pull: &["s3"], containers: &[(&["s6"], &[]), (&[], &["s60"])] };
    let s5 = Refs { pull: &[], containers: &[(&["s7"], &[]), (&[], &["s70"])] };
    register("name1", s1);
    register("name2", s1);
    register("name2", s2);
    register("name3", s2);
    register("name4", s2);
    unregister("name3", s2);
    register("name5", s3);
    register("name6", s3);
    register("name7", s4);
    unregister("name7", s4);
    // One that comes, changes and goes.
    register("other-name", s1);
    register("other-name", s2);
    unregister("other-name", s2);
    // One that is registered again unchanged.
    register("noop-pod", s5);
    register("noop-pod", s5);

    let expected = [
        ("s1", 3),
        ("s10", 1),
        ("s2", 3),
        ("s3", 3),
        ("s30", 2),
        ("s4", 2),
        ("s5", 4),
        ("s50", 2),
        ("s6", 0),
        ("s60", 0),
        ("s7", 1),
        ("s70", 1),
    ];
    for (name, count) in expected {
        assert_eq!(manager.references("ns1", name), count, "{name}");
    }
}

#[test]
fn pods_of_one_name_and_two_uids_keep_their_references_apart() {
    let manager = manager(&Server::new(), clock(), MINUTE);
    let counts = || (manager.references("ns", "secret1"), manager.references("ns", "secret2"));
    let (one, two) = (
        Refs { pull: &[], containers: &[(&["secret1"], &[])] },
        Refs { pull: &[], containers: &[(&["secret2"], &[])] },
    );
    assert_eq!(counts(), (0, 0));
    manager.register_pod(&pod_with_uid("ns", "pod", "poduid1", one));
    assert_eq!(counts(), (1, 0));
    manager.register_pod(&pod_with_uid("ns", "pod", "poduid2", two));
    assert_eq!(counts(), (1, 1));
    manager.unregister_pod(&pod_with_uid("ns", "pod", "poduid1", Refs::default()));
    assert_eq!(counts(), (0, 1));
    manager.unregister_pod(&pod_with_uid("ns", "pod", "poduid2", Refs::default()));
    assert_eq!(counts(), (0, 0));
}

#[tokio::test]
async fn only_what_pods_refer_to_now_can_be_read() {
    let server = Server::new();
    let manager = PodObjects::new(secret_store(&server, MonotonicClock::new(), DefaultTtl, 0), Secrets);
    let first = Refs { pull: &["s1"], containers: &[(&["s1"], &[]), (&["s2"], &[]), (&[], &["s20"])] };
    manager.register_pod(&pod("ns1", "name1", first));
    let changed = Refs { pull: &["s1"], containers: &[(&["s3"], &[]), (&["s4"], &[]), (&[], &["s40"])] };
    manager.register_pod(&pod("ns1", "name1", changed));
    // The same names in another namespace.
    manager.register_pod(&pod("ns2", "name2", changed));
    // One that comes and goes.
    let gone = Refs { pull: &["s5"], containers: &[(&["s6"], &[]), (&[], &["s60"])] };
    manager.register_pod(&pod("ns3", "name", gone));
    manager.unregister_pod(&pod("ns3", "name", gone));

    for namespace in ["ns1", "ns2", "ns3"] {
        for name in ["s1", "s2", "s3", "s4", "s5", "s6", "s20", "s40", "s50"] {
            let expected = namespace != "ns3" && ["s1", "s3", "s4", "s40"].contains(&name);
            assert_eq!(is_registered(manager.store(), namespace, name).await, expected, "{namespace}/{name}");
        }
    }
}

#[test]
fn the_pods_of_these_scenarios_refer_to_what_they_say() {
    let refs = Refs { pull: &["s1"], containers: &[(&["s2"], &["s20"]), (&["s3"], &[])] };
    let mut names = Vec::new();
    Secrets.visit(&pod("ns", "pod", refs), |reference| names.push(reference.name.to_owned()));
    assert_eq!(names, ["s1", "s20", "s2", "s3"]);
}
