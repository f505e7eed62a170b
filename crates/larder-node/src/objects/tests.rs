//! The daemon's policies over a real store, against a server of one map that fails and hangs on command.

use super::*;
use crate::fetch_log::SourceError;
use larder_clock::TokioClock;
use larder_objects::{Fetch, FetchError, ObjectState, ReadKind, ReflectorSink, Reflectors, Scope};
use larder_resource::Kind;
use serde_json::json;
use std::collections::HashMap;
use std::future::{pending, ready};
use tokio::sync::watch;

mod strategies;

const TTL: Duration = Duration::from_mins(1);
const DEADLINE: Duration = Duration::from_secs(10);
const LONGEST_BACKOFF: Duration = Duration::from_secs(8);

/// What the server answers with.
#[derive(Clone, Debug, PartialEq)]
enum Says {
    Object { version: u64 },
    Absent,
    Fails(&'static str),
    Hangs,
}

#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
struct ServerError(&'static str);

impl FetchError for ServerError {
    fn is_not_found(&self) -> bool {
        self.0 == "absent"
    }

    fn class(&self) -> &'static str {
        "server"
    }
}

impl SourceError for ServerError {
    fn is_unavailable(&self) -> bool {
        self.0 == "unavailable"
    }

    fn is_unreached(&self) -> bool {
        self.0 == "unavailable"
    }

    fn retry_after(&self) -> Option<Duration> {
        None
    }
}

#[derive(Debug)]
struct Server {
    says: watch::Sender<HashMap<String, Says>>,
    fetches: Mutex<Vec<(String, ReadKind)>>,
    /// The watches that run, by the object's name.
    watches: Mutex<HashMap<String, ReflectorSink<KubeObject, ServerError>>>,
}

impl Server {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            says: watch::Sender::new(HashMap::new()),
            fetches: Mutex::default(),
            watches: Mutex::default(),
        })
    }

    fn set(&self, name: &str, says: Says) {
        self.says.send_modify(|all| {
            all.insert(name.to_owned(), says);
        });
    }

    fn fetches(&self) -> usize {
        self.fetches.lock().len()
    }

    /// Where the watch of that object tells what it sees.
    fn watch(&self, name: &str) -> ReflectorSink<KubeObject, ServerError> {
        self.watches.lock()[name].clone()
    }

    fn watches(&self) -> usize {
        self.watches.lock().len()
    }
}

/// Watches that tell what a test has them tell.
struct ReflectorsFrom(Arc<Server>);

struct FakeReflector(Arc<Server>, String);

impl Drop for FakeReflector {
    fn drop(&mut self) {
        self.0.watches.lock().remove(&self.1);
    }
}

impl Reflectors for ReflectorsFrom {
    type Object = KubeObject;
    type Error = ServerError;
    type Reflector = FakeReflector;

    fn start(&self, scope: &Scope, _: Option<String>, sink: ReflectorSink<KubeObject, ServerError>) -> FakeReflector {
        let Scope::Object(key) = scope else { panic!("no namespace may be watched") };
        self.0.watches.lock().insert(key.name().to_owned(), sink);
        FakeReflector(Arc::clone(&self.0), key.name().to_owned())
    }

    fn may_watch(&self, _: &str) -> impl Future<Output = bool> + Send + 'static {
        ready(false)
    }

    fn count(&self, _: &str) -> impl Future<Output = Result<u64, ServerError>> + Send + 'static {
        ready(Err(ServerError("not counted")))
    }
}

struct FetchFrom(Arc<Server>);

impl Fetch for FetchFrom {
    type Object = KubeObject;
    type Error = ServerError;

    fn fetch(
        &self,
        key: &ObjectKey,
        read: ReadKind,
    ) -> impl Future<Output = Result<Arc<KubeObject>, ServerError>> + Send + 'static {
        let (key, mut says) = (key.clone(), self.0.says.subscribe());
        self.0.fetches.lock().push((key.name().to_owned(), read));
        async move {
            let answers = |all: &HashMap<String, Says>| all.get(key.name()) != Some(&Says::Hangs);
            let Ok(all) = says.wait_for(answers).await else { return pending().await };
            match all.get(key.name()).cloned().unwrap_or(Says::Absent) {
                Says::Object { version } => Ok(Arc::new(object(&key, version))),
                Says::Fails(why) => Err(ServerError(why)),
                Says::Absent | Says::Hangs => Err(ServerError("absent")),
            }
        }
    }

    fn source(&self, read: ReadKind) -> Source {
        read.source()
    }
}

fn object(key: &ObjectKey, version: u64) -> KubeObject {
    let json = json!({
        "kind": "Secret", "apiVersion": "v1",
        "metadata": {"namespace": key.namespace(), "name": key.name(), "uid": "u", "resourceVersion": version.to_string()},
    });
    KubeObject::from_json(Kind::Secret, json.to_string().as_bytes()).unwrap()
}

fn pod(uid: &str, secrets: &[&str]) -> Pod {
    let volumes: Vec<_> = secrets.iter().map(|name| json!({"name": name, "secret": {"secretName": name}})).collect();
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": uid, "uid": uid},
        "spec": {"containers": [], "volumes": volumes},
    }))
    .unwrap()
}

fn identity(uid: &str) -> PodIdentity<'_> {
    PodIdentity { namespace: "shop", name: uid, uid }
}

const POLICY: Policy = Policy {
    keep_last_known: true,
    fetch_on_reference: true,
    serve_absences: true,
    first_read_as_new_as_pod: true,
    hold_immutable: true,
    watch_namespaces: true,
    release_ended_pods: true,
    fetch_backoff_initial: Duration::from_secs(1),
    fetch_backoff_max: LONGEST_BACKOFF,
    accept_older_versions: true,
};

type Cache = Arc<ObjectCache<FetchFrom, ReflectorsFrom, TokioClock>>;

fn cache_with(server: &Arc<Server>, policy: Policy) -> Cache {
    cache_of(Strategy::Ttl, server, policy)
}

fn cache_of(strategy: Strategy, server: &Arc<Server>, policy: Policy) -> Cache {
    cache_from(None, strategy, TTL, server, policy)
}

fn cache_from(
    source: Option<Source>,
    strategy: Strategy,
    default_ttl: Duration,
    server: &Arc<Server>,
    policy: Policy,
) -> Cache {
    Arc::new(ObjectCache::new(ObjectCacheConfig {
        kind: Kind::Secret,
        node: "node-1".into(),
        strategy,
        reflectors: ReflectorsFrom(Arc::clone(server)),
        watch: AutoOptions::default(),
        fetch: FetchFrom(Arc::clone(server)),
        clock: TokioClock::new(),
        ttl: StoreTtl::new(larder_resource::source::new(Source::Watch, TokioClock::new()).1, default_ttl),
        source,
        policy,
        token: CancellationToken::new(),
        tasks: TaskTracker::new(),
        metrics: Arc::new(crate::metrics::Metrics::new().of(Kind::Secret)),
    }))
}

/// A cache with a pod `web` that refers to `db`, which was read once.
async fn with_db_read(policy: Policy) -> (Arc<Server>, Cache) {
    let server = Server::new();
    server.set("db", Says::Object { version: 7 });
    let cache = cache_with(&server, policy);
    cache.register_pod(&pod("web", &["db"]));
    let answer = cache.read("shop", "db", DEADLINE).await.unwrap();
    assert_eq!((answer.outcome, answer.freshness.is_fresh(), answer.why), (Outcome::Fetched, true, None));
    (server, cache)
}

fn version(answer: &Answer<KubeObject>) -> &str {
    answer.object.resource_version()
}

async fn advance(by: Duration) {
    tokio::time::advance(by).await;
}

#[tokio::test(start_paused = true)]
async fn a_read_is_held_then_refreshed_after_its_ttl() {
    let (server, cache) = with_db_read(POLICY).await;
    advance(TTL / 2).await;
    let held = cache.read("shop", "db", DEADLINE).await.unwrap();
    assert_eq!((held.outcome, held.age(cache.clock.now())), (Outcome::Held, TTL / 2));
    advance(TTL).await;
    let refreshed = cache.read("shop", "db", DEADLINE).await.unwrap();
    assert_eq!((refreshed.outcome, refreshed.age(cache.clock.now())), (Outcome::Refreshed, Duration::ZERO));
    assert_eq!(server.fetches(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_no_pod_refers_to_is_refused_by_name_without_a_fetch() {
    let (server, cache) = with_db_read(POLICY).await;
    let error = cache.read("shop", "other", DEADLINE).await.unwrap_err();
    assert!(error.is_not_referenced());
    assert!(error.to_string().contains("shop/other") && error.to_string().contains("node-1"), "{error}");
    assert_eq!(server.fetches(), 1);
}

#[tokio::test(start_paused = true)]
async fn last_known_survives_a_new_reference_while_its_fetch_fails() {
    let (server, cache) = with_db_read(POLICY).await;
    server.set("db", Says::Fails("unavailable"));
    cache.register_pod(&pod("web-2", &["db"]));
    advance(Duration::from_secs(5)).await;
    let answer = cache.read("shop", "db", DEADLINE).await.unwrap();
    assert_eq!((version(&answer), answer.outcome), ("7", Outcome::FetchFailed));
    assert!(!answer.freshness.is_fresh());
    assert_eq!(answer.age(cache.clock.now()), Duration::from_secs(5));
    assert_eq!(answer.why.as_deref(), Some("unavailable"));
}

#[tokio::test(start_paused = true)]
async fn without_that_policy_nothing_is_known_after_a_new_reference() {
    let (server, cache) = with_db_read(Policy { keep_last_known: false, ..POLICY }).await;
    server.set("db", Says::Fails("unavailable"));
    cache.register_pod(&pod("web-2", &["db"]));
    let error = cache.read("shop", "db", DEADLINE).await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    assert!(error.to_string().contains("unavailable"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_serves_last_known_and_the_fetch_goes_on() {
    let (server, cache) = with_db_read(POLICY).await;
    advance(TTL).await;
    server.set("db", Says::Hangs);
    let began = cache.clock.now();
    let answer = cache.read("shop", "db", Duration::from_millis(200)).await.unwrap();
    let took = cache.clock.now().saturating_duration_since(began);
    // Tokio's timers have a resolution of a millisecond.
    assert!(took >= Duration::from_millis(200) && took < Duration::from_millis(205), "{took:?}");
    assert_eq!((version(&answer), answer.outcome), ("7", Outcome::FetchFailed));
    assert!(answer.why.unwrap().contains("200ms"));

    server.set("db", Says::Object { version: 8 });
    let fresh = cache.read("shop", "db", DEADLINE).await.unwrap();
    assert_eq!((version(&fresh), fresh.freshness.is_fresh()), ("8", true));
    assert_eq!(server.fetches(), 2, "the fetch that was given up by its reader is the one that answered");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_before_anything_is_known_says_so() {
    let server = Server::new();
    server.set("db", Says::Hangs);
    let cache = cache_with(&server, POLICY);
    cache.register_pod(&pod("web", &["db"]));
    let error = cache.read("shop", "db", Duration::from_millis(200)).await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_fails_is_left_alone_for_longer_and_longer() {
    let (server, cache) = with_db_read(POLICY).await;
    advance(TTL).await;
    server.set("db", Says::Fails("broken"));
    for (pause, expected) in [(0, 2), (0, 2), (1, 3), (1, 3), (1, 4), (3, 4), (1, 5), (8, 6), (8, 7)] {
        advance(Duration::from_secs(pause)).await;
        let answer = cache.read("shop", "db", DEADLINE).await.unwrap();
        assert_eq!((version(&answer), answer.why.as_deref()), ("7", Some("broken")));
        assert_eq!(server.fetches(), expected, "after {pause} s more");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_backoff_every_read_asks_as_in_kubelet() {
    let (server, cache) = with_db_read(Policy { fetch_backoff_initial: Duration::ZERO, ..POLICY }).await;
    advance(TTL).await;
    server.set("db", Says::Fails("broken"));
    for _ in 0..3 {
        cache.read("shop", "db", DEADLINE).await.unwrap();
    }
    assert_eq!(server.fetches(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_new_reference_asks_at_once_whatever_the_backoff() {
    let (server, cache) = with_db_read(POLICY).await;
    advance(TTL).await;
    server.set("db", Says::Fails("broken"));
    cache.read("shop", "db", DEADLINE).await.unwrap();
    server.set("db", Says::Object { version: 9 });
    assert_eq!(version(&cache.read("shop", "db", DEADLINE).await.unwrap()), "7", "left alone");
    cache.register_pod(&pod("web-2", &["db"]));
    assert_eq!(version(&cache.read("shop", "db", DEADLINE).await.unwrap()), "9");
}

#[tokio::test(start_paused = true)]
async fn an_absence_is_last_known_only_until_a_new_reference_puts_it_in_doubt() {
    let server = Server::new();
    let cache = cache_with(&server, Policy { serve_absences: false, ..POLICY });
    cache.register_pod(&pod("web", &["db"]));
    assert!(cache.read("shop", "db", DEADLINE).await.unwrap_err().is_not_found());
    server.set("db", Says::Fails("unavailable"));
    let stale = cache.read("shop", "db", DEADLINE).await.unwrap_err();
    assert!(matches!(&stale, ReadError::NotFound { freshness, .. } if !freshness.is_fresh()), "{stale:?}");
    let left_alone = cache.read("shop", "db", DEADLINE).await.unwrap_err();
    assert!(left_alone.is_not_found(), "{left_alone}");
    cache.register_pod(&pod("web-2", &["db"]));
    assert!(cache.read("shop", "db", DEADLINE).await.unwrap_err().is_unknown());
}

#[tokio::test(start_paused = true)]
async fn a_version_that_went_back_is_taken() {
    let (server, cache) = with_db_read(POLICY).await;
    advance(TTL).await;
    server.set("db", Says::Object { version: 3 });
    let answer = cache.read("shop", "db", DEADLINE).await.unwrap();
    assert_eq!((version(&answer), answer.freshness.is_fresh()), ("3", true));
    let reads: Vec<_> = server.fetches.lock().iter().map(|(_, read)| *read).collect();
    // The refresh may have met a server's cache that lags; the last word is a consistent read's.
    assert_eq!(reads.last(), Some(&ReadKind::Consistent), "{reads:?}");
}

#[tokio::test(start_paused = true)]
async fn without_that_policy_the_higher_version_stays() {
    let (server, cache) = with_db_read(Policy { accept_older_versions: false, ..POLICY }).await;
    advance(TTL).await;
    server.set("db", Says::Object { version: 3 });
    let answer = cache.read("shop", "db", DEADLINE).await.unwrap();
    assert_eq!((version(&answer), answer.freshness.is_fresh()), ("7", false));
}

#[tokio::test(start_paused = true)]
async fn with_its_last_pod_an_object_is_forgotten() {
    let (server, cache) = with_db_read(POLICY).await;
    advance(TTL).await;
    server.set("db", Says::Fails("unavailable"));
    cache.read("shop", "db", DEADLINE).await.unwrap();
    cache.unregister_pod(identity("web"));
    assert!(cache.read("shop", "db", DEADLINE).await.unwrap_err().is_not_referenced());
    assert!(cache.held_bytes() == 0 && cache.log.failure(&ObjectKey::new("shop", "db")).is_none());
    cache.register_pod(&pod("web", &["db"]));
    assert!(cache.read("shop", "db", DEADLINE).await.unwrap_err().is_unknown(), "nothing of before is left");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_changes_releases_what_it_refers_to_no_more() {
    let (_server, cache) = with_db_read(POLICY).await;
    cache.register_pod(&pod("web", &["tls"]));
    assert!(cache.read("shop", "db", DEADLINE).await.unwrap_err().is_not_referenced());
    assert!(cache.read("shop", "tls", DEADLINE).await.unwrap_err().is_not_found());
}

/// In whatever order they come, with the slowest in time or at its deadline, found or absent.
#[tokio::test(start_paused = true)]
async fn a_list_calls_nothing_fresh_whose_ttl_passed_while_it_was_made() {
    for slow in ["a", "m", "z"] {
        for answers_in_time in [true, false] {
            let server = Server::new();
            server.set("db", Says::Object { version: 7 });
            server.set("env", Says::Object { version: 8 });
            server.set(slow, Says::Hangs);
            let cache = cache_with(&server, POLICY);
            cache.register_pod(&pod("web", &["db", "env", "gone", slow]));
            for name in ["db", "gone"] {
                let _ = cache.read("shop", name, DEADLINE).await;
            }
            // `db` and the absence have a second left, `env` has all its time.
            advance(TTL / 60 * 59).await;
            let list = tokio::spawn({
                let cache = Arc::clone(&cache);
                async move { cache.list(|_| true, DEADLINE).await }
            });
            tokio::time::sleep(Duration::from_secs(5)).await;
            if answers_in_time {
                server.set(slow, Says::Object { version: 9 });
            }
            let list = list.await.unwrap();
            let told = list.items.iter().map(|answer| (version(answer), answer.freshness.is_fresh()));
            let told: Vec<_> = told.filter(|(version, _)| *version != "9").collect();
            assert_eq!(told, [("7", false), ("8", true)], "{slow}");
            let old = list.items.iter().find(|answer| version(answer) == "7").unwrap();
            let since = old.freshness.expires_at().unwrap();
            assert_eq!(old.freshness.state, FreshState::Stale { since, reason: StaleReason::Expired });
            assert_eq!(old.why.as_deref(), Some("expired"));
            assert!(list.absent.iter().all(|(key, freshness)| key.name() == "gone" && !freshness.is_fresh()));
            assert_eq!((list.absent.len(), list.unknown.len()), (1, usize::from(!answers_in_time)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_tells_what_is_there_absent_and_unknown_within_one_deadline() {
    let server = Server::new();
    let cache = cache_with(&server, POLICY);
    let hanging: Vec<String> = (0..40).map(|n| format!("hangs-{n:02}")).collect();
    let mut names: Vec<&str> = hanging.iter().map(String::as_str).collect();
    names.extend(["db", "gone"]);
    server.set("db", Says::Object { version: 1 });
    for name in &hanging {
        server.set(name, Says::Hangs);
    }
    cache.register_pod(&pod("web", &names));
    let began = cache.clock.now();
    let list = cache.list(|_| true, DEADLINE).await;
    let took = cache.clock.now().saturating_duration_since(began);
    assert!(took < DEADLINE + Duration::from_secs(1), "{took:?}");
    assert_eq!((list.items.len(), list.absent.len(), list.unknown.len()), (1, 1, 40));
    assert_eq!(list.absent[0].0.name(), "gone");
    let chosen = cache.list(|key| key.name() == "db", DEADLINE).await;
    assert_eq!((chosen.items.len(), chosen.unknown.len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_referred_to_is_fetched_before_anyone_reads_it_and_again_until_it_is_known() {
    let server = Server::new();
    server.set("db", Says::Fails("unavailable"));
    let cache = cache_with(&server, POLICY);
    let token = CancellationToken::new();
    let keeper = tokio::spawn({
        let (cache, token) = (Arc::clone(&cache), token.clone());
        async move { cache.prefetch(Duration::from_secs(5), DEADLINE, token).await }
    });
    cache.register_pod(&pod("web", &["db"]));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.fetches(), 1);
    server.set("db", Says::Object { version: 1 });
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(server.fetches(), 2);
    server.set("db", Says::Fails("unavailable"));
    let held = cache.read("shop", "db", DEADLINE).await.unwrap();
    assert_eq!((version(&held), held.outcome), ("1", Outcome::Held));
    token.cancel();
    keeper.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_counts_what_a_new_reference_dropped_as_held() {
    let (server, cache) = with_db_read(POLICY).await;
    server.set("db", Says::Fails("unavailable"));
    cache.register_pod(&pod("web-2", &["db", "new"]));
    let states: HashMap<_, _> =
        cache.snapshot().into_iter().map(|status| (status.key.name().to_owned(), status.state)).collect();
    assert!(matches!(states["db"], ObjectState::Present(freshness) if !freshness.is_fresh()));
    assert!(matches!(states["new"], ObjectState::NotFetched));
}

#[tokio::test(start_paused = true)]
async fn what_every_read_asks_for_is_not_fresh_by_itself_unless_it_is_in_this_process() {
    for (source, strategy, is_fresh) in
        [(None, Strategy::Ttl, false), (None, Strategy::Direct, false), (Some(Source::Manifest), Strategy::Ttl, true)]
    {
        let server = Server::new();
        server.set("db", Says::Object { version: 7 });
        let cache = cache_from(source, strategy, Duration::ZERO, &server, POLICY);
        cache.register_pod(&pod("web", &["db", "absent"]));
        for fetches in 1..3 {
            let answer = cache.read("shop", "db", DEADLINE).await.unwrap();
            assert_eq!(
                (answer.freshness.is_fresh(), answer.freshness.expires_at(), server.fetches()),
                (true, None, fetches)
            );
        }
        cache.read("shop", "absent", DEADLINE).await.unwrap_err();
        let confirmed_at = cache.clock.now();
        advance(TTL).await;
        for status in cache.snapshot() {
            match status.state {
                ObjectState::Present(freshness) if status.key.name() == "db" => {
                    assert_eq!((freshness.is_fresh(), freshness.confirmed_at), (is_fresh, confirmed_at), "{strategy}");
                }
                ObjectState::Absent(_) if status.key.name() == "absent" => {}
                state => panic!("{strategy}: {} is {state:?}", status.key),
            }
        }
    }
}
