//! The objects of one kind that this node's pods refer to, with the daemon's own policies over the exact caches.
//!
//! The cache below (the store of the [`Strategy`] that was chosen, under [`PodObjects`]) does what the kubelet's does. Over it:
//!
//! # Guarantees
//!
//! - *Last known*: an object that was read once stays readable as long as a pod refers to it, marked as stale where
//!   fetching it fails or outlasts the reader's deadline; also after a new reference has dropped it from the cache.
//! - *Honest absence*: an absence that a new reference has dropped is not served as last known; nothing is known then.
//! - *Backoff*: an object whose fetches fail is left alone for a while, which readers do not wait for.
//! - *Deadline*: a read ends at its deadline. The fetch that it waited for goes on, for the next one to find.
//! - *Restored*: a consistent read that gives a lower resourceVersion than the held one replaces it, and is counted.
//! - *Negative entries*: where objects are fetched by their TTL, an absence is an answer until the TTL too; a new reference
//!   puts it in doubt. A store that watches sees the object the moment it is there, and does without.
//! - *Held for a pod*: a read that is made for a pod keeps the pod's references until it is answered.
//!
//! # Cancel safety
//!
//! A dropped read leaves nothing behind; a fetch that it led is taken over by those who wait for it, or given up.
//!
//! # Locks
//!
//! `known` and that of the [`FetchLog`], never both, never over an `.await`; `holds` before those of [`PodObjects`] and of
//! the store.

use crate::answer::{Answer, Outcome};
use crate::error::{ReadError, singular};
use crate::fetch_log::{Backoff, Failure, FetchLog, FetchObserver, Logged, SourceFetch, SourceReflect};
use crate::metrics::ObjectMetrics;
use crate::reflect_log::LoggedReflect;
use crate::strategy::Strategy;
use k8s_openapi::api::core::v1::{Pod, Volume, VolumeProjection};
use larder_clock::{Clock, Timestamp};
use larder_objects::{
    AutoOptions, Effects, Fetch, FreshState, Freshness, GetError, ObjectKey, ObjectTtl, PodIdentity, PodObjects, Read,
    Reference, References, Source, StaleReason, StrategyStore, Ttl,
};
use larder_resource::{Kind, KubeObject, ObjectKind};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

mod hold;
mod inventory;

/// When asking again may help where the source did not say.
const RETRY: Duration = Duration::from_secs(1);
/// Fetches that may go on after their readers' deadline, at most: a source that hangs is not to collect more of them.
const MOST_GOING_ON: usize = 64;

/// The references of a pod to objects of one of the kinds.
#[derive(Clone, Copy, Debug)]
struct ReferencesOf(ObjectKind);

impl References<Pod> for ReferencesOf {
    fn identity<'p>(&self, pod: &'p Pod) -> PodIdentity<'p> {
        larder_objects::references::Secrets.identity(pod)
    }

    fn visit<'p>(&self, pod: &'p Pod, visit: impl FnMut(Reference<'p>)) {
        match self.0 {
            ObjectKind::Secret => larder_objects::references::Secrets.visit(pod, visit),
            ObjectKind::ConfigMap => larder_objects::references::ConfigMaps.visit(pod, visit),
        }
    }
}

/// The names of the objects that a pod's volumes are made of: they are read again and again, for as long as it runs.
fn mounted(kind: ObjectKind, pod: &Pod) -> impl Iterator<Item = &str> {
    fn alone(kind: ObjectKind, volume: &Volume) -> Option<&str> {
        match kind {
            ObjectKind::Secret => volume.secret.as_ref()?.secret_name.as_deref(),
            ObjectKind::ConfigMap => volume.config_map.as_ref().map(|source| source.name.as_str()),
        }
    }
    fn projected(kind: ObjectKind, source: &VolumeProjection) -> Option<&str> {
        match kind {
            ObjectKind::Secret => source.secret.as_ref().map(|source| source.name.as_str()),
            ObjectKind::ConfigMap => source.config_map.as_ref().map(|source| source.name.as_str()),
        }
    }
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.flat_map(move |volume| {
        let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        alone(kind, volume).into_iter().chain(sources.filter_map(move |source| projected(kind, source)))
    })
}

/// The policies, each of [`Policy`](crate::Policy).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectPolicy {
    pub(crate) keep_last_known: bool,
    pub(crate) serve_absences: bool,
    pub(crate) accept_older_versions: bool,
    pub(crate) backoff: Backoff,
}

/// What was last known of an object.
#[derive(Clone)]
struct Known {
    /// None if it was absent.
    object: Option<Arc<KubeObject>>,
    confirmed: Freshness,
}

/// What was last known of each object that a pod refers to.
#[derive(Default)]
struct LastKnown(HashMap<ObjectKey, Known>);

impl LastKnown {
    /// Forgets an absence, which a new reference puts in doubt, and keeps an object.
    fn retain_present(&mut self, key: &ObjectKey) {
        if self.0.get(key).is_some_and(|known| known.object.is_none()) {
            self.0.remove(key);
        }
    }
}

/// The TTL that the node's annotation sets, whatever the node's source is.
#[derive(Clone)]
pub(crate) struct NodeTtl(pub(crate) Arc<dyn Ttl>);

impl Ttl for NodeTtl {
    fn object_ttl(&self) -> Option<ObjectTtl> {
        self.0.object_ttl()
    }
}

/// The store of the strategy that was chosen, whose reflectors' errors are those of its fetches.
type ObjectStore<F, R, C> = StrategyStore<Logged<F, C>, LoggedReflect<R, C, <F as Fetch>::Error>, C, NodeTtl>;
type Objects<F, R, C> = PodObjects<ObjectStore<F, R, C>, ReferencesOf>;

/// The objects of one kind that this node's pods refer to.
pub(crate) struct ObjectCache<F, R, C>
where
    F: SourceFetch,
    R: SourceReflect<F::Error>,
    C: Clock + Clone,
{
    kind: ObjectKind,
    node: Arc<str>,
    clock: C,
    source: Option<Source>,
    policy: ObjectPolicy,
    objects: Arc<Objects<F, R, C>>,
    log: Arc<FetchLog>,
    /// Empty where the store itself keeps what is known.
    known: Mutex<LastKnown>,
    holds: Mutex<hold::Holds>,
    /// Fetches that went on after their readers' deadline, one an object.
    going_on: Arc<Mutex<HashSet<ObjectKey>>>,
    token: CancellationToken,
    tasks: TaskTracker,
    /// Wakes the keeper: there are objects to fetch.
    wanted: Notify,
    metrics: Arc<ObjectMetrics>,
}

/// What an [`ObjectCache`] is made of.
pub(crate) struct Parts<F, R, C> {
    pub(crate) kind: ObjectKind,
    pub(crate) node: Arc<str>,
    pub(crate) strategy: Strategy,
    pub(crate) fetch: F,
    pub(crate) reflect: R,
    pub(crate) watch: AutoOptions,
    pub(crate) clock: C,
    pub(crate) ttl: NodeTtl,
    pub(crate) default_ttl: Duration,
    /// What answers say that they come from, where that is not the API server.
    pub(crate) source: Option<Source>,
    pub(crate) policy: ObjectPolicy,
    /// Ends the fetches that go on after their readers' deadline.
    pub(crate) token: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) metrics: Arc<ObjectMetrics>,
}

/// The objects of a list.
#[derive(Debug)]
#[non_exhaustive]
pub struct ObjectList {
    /// Those that are there.
    pub items: Vec<Answer<KubeObject>>,
    /// Those that are known to be absent, and how fresh that is.
    pub absent: Vec<(ObjectKey, Freshness)>,
    /// Those of which nothing is known yet, and why.
    pub unknown: Vec<(ObjectKey, ReadError)>,
}

impl<F, R, C> ObjectCache<F, R, C>
where
    F: SourceFetch,
    R: SourceReflect<F::Error>,
    C: Clock + Clone,
{
    pub(crate) fn new(parts: Parts<F, R, C>) -> Self {
        let log = Arc::new(FetchLog::new(parts.policy.backoff));
        let observer: Arc<dyn FetchObserver> = Arc::clone(&parts.metrics) as _;
        let fetch = Logged { fetch: parts.fetch, clock: parts.clock.clone(), log: Arc::clone(&log), observer };
        let default_ttl = ObjectTtl::from(parts.default_ttl);
        let reflect = LoggedReflect {
            kind: parts.kind,
            reflect: parts.reflect,
            clock: parts.clock.clone(),
            log: Arc::clone(&log),
            error: PhantomData,
        };
        let (ttl, watch) = (parts.ttl, parts.watch);
        let store = ObjectStore::new(parts.strategy, fetch, reflect, parts.clock.clone(), ttl, default_ttl, watch);
        Self {
            kind: parts.kind,
            node: parts.node,
            clock: parts.clock,
            source: parts.source,
            policy: parts.policy,
            objects: Arc::new(PodObjects::new(store, ReferencesOf(parts.kind))),
            log,
            known: Mutex::default(),
            holds: Mutex::default(),
            going_on: Arc::default(),
            token: parts.token,
            tasks: parts.tasks,
            wanted: Notify::new(),
            metrics: parts.metrics,
        }
    }

    /// A pod has come, or has changed.
    pub(crate) fn register_pod(&self, pod: &Pod) {
        let references = ReferencesOf(self.kind);
        let identity = references.identity(pod);
        self.stays(identity);
        let is_new = !self.objects.is_registered(identity);
        let before = self.references_of(identity);
        self.objects.register_pod(pod);
        let after = self.references_of(identity);
        for key in before.difference(&after) {
            self.release(key);
        }
        for key in after.iter().filter(|key| is_new || !before.contains(*key)) {
            self.log.retry_now(key);
            self.known.lock().retain_present(key);
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        for name in mounted(self.kind, pod) {
            self.objects.store().set_mounted(namespace, name);
        }
        self.wanted.notify_one();
    }

    /// The caller runs the effects once it has released the lock of the holds.
    fn unregister_now(&self, pod: PodIdentity<'_>) -> Effects<'_> {
        let before = self.references_of(pod);
        let effects = self.objects.unregister_locked(pod);
        for key in &before {
            self.release(key);
        }
        effects
    }

    /// Calls with the UID of each registered pod, and its namespace and name.
    pub(crate) fn registered_pods(&self) -> Vec<(ObjectKey, String)> {
        let mut pods = Vec::new();
        self.objects.for_each_pod(|pod| pods.push((ObjectKey::new(pod.namespace, pod.name), pod.uid.to_owned())));
        pods
    }

    fn references_of(&self, pod: PodIdentity<'_>) -> HashSet<ObjectKey> {
        let mut keys = HashSet::new();
        self.objects.for_each_reference(pod, |reference| {
            keys.insert(ObjectKey::new(pod.namespace, reference.name));
        });
        keys
    }

    /// Forgets what is known of an object that no pod refers to any more.
    fn release(&self, key: &ObjectKey) {
        let mut known = self.known.lock();
        // Under the lock: a read that ends now looks at the references under it too before it remembers.
        if self.objects.references(key.namespace(), key.name()) == 0 {
            known.0.remove(key);
            drop(known);
            self.log.forget(key);
        }
    }

    /// Whether the store itself keeps what it was told, so that nothing has to be remembered beside it.
    fn watches(&self) -> bool {
        self.strategy().watches()
    }

    /// Whether every read looks at what the manifests have.
    pub(crate) fn is_of_manifests(&self) -> bool {
        self.source == Some(Source::Manifest)
    }

    fn remember(&self, key: &ObjectKey, object: Option<&Arc<KubeObject>>, confirmed: Freshness) {
        let is_wanted = self.policy.keep_last_known || (object.is_none() && self.policy.serve_absences);
        if !is_wanted || self.watches() {
            return;
        }
        let mut known = self.known.lock();
        if self.objects.references(key.namespace(), key.name()) > 0 {
            known.0.insert(key.clone(), Known { object: object.cloned(), confirmed });
        }
    }

    fn last_known(&self, key: &ObjectKey) -> Option<Known> {
        if let Some(read) = self.objects.store().held(key.namespace(), key.name()) {
            return Some(Known { object: Some(read.object), confirmed: read.freshness });
        }
        self.known.lock().0.get(key).cloned()
    }

    /// How the objects are kept up to date.
    pub(crate) fn strategy(&self) -> Strategy {
        self.objects.store().strategy()
    }

    /// How many pods refer to the object.
    pub(crate) fn references(&self, namespace: &str, name: &str) -> usize {
        self.objects.references(namespace, name)
    }

    /// Reads an object, for at most `deadline`.
    ///
    /// # Errors
    ///
    /// As [`ReadError`] says; without a deadline of its own for those that are not known.
    pub(crate) async fn read(
        &self,
        namespace: &str,
        name: &str,
        deadline: Duration,
    ) -> Result<Answer<KubeObject>, ReadError> {
        let began = self.clock.now();
        let result = self.read_inner(&ObjectKey::new(namespace, name), began, deadline).await;
        self.metrics.read(&result, began);
        result
    }

    async fn read_inner(
        &self,
        key: &ObjectKey,
        began: Timestamp,
        deadline: Duration,
    ) -> Result<Answer<KubeObject>, ReadError> {
        if self.objects.references(key.namespace(), key.name()) == 0 {
            return Err(self.not_referenced(key));
        }
        if let Some(failure) = self.log.failure(key).filter(|failure| failure.retry_at > began) {
            return self.answer_from_memory(key, &failure, Outcome::Held);
        }
        if let Some(absence) = self.negative_entry(key, began) {
            return Err(self.not_found(key, absence));
        }
        let was_held = self.last_known(key).is_some_and(|known| known.object.is_some());
        let mut get = get(Arc::clone(&self.objects), key.clone());
        let Ok(mut result) = tokio::time::timeout(deadline, &mut get).await else {
            self.go_on(key, get);
            let why = format!("no answer within {deadline:?}");
            let since = self.log.failure(key).map_or(began, |earlier| earlier.since);
            let failure = Failure::unreported(since, self.clock.now() + RETRY, why.into());
            return self.answer_from_memory(key, &failure, Outcome::FetchFailed);
        };
        // A store that watches sees to that by itself.
        if self.policy.accept_older_versions && !self.watches() && is_older_version(&result) {
            result = self.accept_older(key, deadline, result).await;
        }
        match result {
            Ok(read) => {
                self.remember(key, Some(&read.object), read.freshness);
                Ok(self.answer(key, read, began, was_held))
            }
            Err(GetError::NotFound { freshness, .. }) => {
                self.remember(key, None, freshness);
                Err(self.not_found(key, freshness))
            }
            Err(GetError::Fetch { source, .. }) => {
                let unreported = || Failure::unreported(began, self.clock.now() + RETRY, source.to_string().into());
                let failure = self.log.failure(key).unwrap_or_else(unreported);
                self.answer_from_memory(key, &failure, Outcome::FetchFailed)
            }
            Err(_) => Err(self.not_referenced(key)),
        }
    }

    /// The absence of an object that is fetched by its TTL, as long as that has not passed.
    fn negative_entry(&self, key: &ObjectKey, now: Timestamp) -> Option<Freshness> {
        if !self.policy.serve_absences || self.strategy() != Strategy::Ttl {
            return None;
        }
        let known = self.known.lock();
        let absent = known.0.get(key).filter(|known| known.object.is_none())?;
        absent.confirmed.expires_at().is_some_and(|until| now < until).then_some(absent.confirmed)
    }

    /// Drops what is cached, as a new reference would, and reads again: the API server's word counts, not the number.
    async fn accept_older(
        &self,
        key: &ObjectKey,
        deadline: Duration,
        refused: Result<Read<KubeObject>, GetError<F::Error>>,
    ) -> Result<Read<KubeObject>, GetError<F::Error>> {
        self.objects.store().forget(key.namespace(), key.name());
        let get = get(Arc::clone(&self.objects), key.clone());
        let Ok(result) = tokio::time::timeout(deadline, get).await else { return refused };
        if let (Ok(before), Ok(after)) = (&refused, &result) {
            let (before, after) = (before.object.resource_version(), after.object.resource_version());
            let order = larder_objects::resource_version_order;
            if order(after) < order(before) {
                tracing::warn!(
                    kind = self.kind_name(), object = %key, before, after,
                    "resourceVersion went back: was the API server's etcd restored from a backup?"
                );
                self.metrics.version_went_back();
            }
        }
        result
    }

    /// Lets a fetch go on that its reader does not wait for any more.
    fn go_on(&self, key: &ObjectKey, get: impl Future<Output: Send> + Send + 'static) {
        let mut all = self.going_on.lock();
        if all.len() >= MOST_GOING_ON || !all.insert(key.clone()) {
            return;
        }
        drop(all);
        let (key, going_on, token) = (key.clone(), Arc::clone(&self.going_on), self.token.clone());
        self.tasks.spawn(async move {
            // The source's own deadline bounds it.
            let _ = token.run_until_cancelled(get).await;
            going_on.lock().remove(&key);
        });
    }

    fn answer(&self, key: &ObjectKey, read: Read<KubeObject>, began: Timestamp, was_held: bool) -> Answer<KubeObject> {
        // A watch confirms without being asked: what matters is whether there was something to give.
        let by_watch = read.freshness.source == Source::Watch;
        let confirmed_now = if by_watch { !was_held } else { read.freshness.confirmed_at >= began };
        let outcome = match read.freshness.state {
            // A watch fails by itself: nothing was asked for this read.
            FreshState::Stale { .. } if self.watches() && !self.log.fetch_fails(key) => Outcome::Held,
            FreshState::Stale { .. } => Outcome::FetchFailed,
            // What is in this process is not asked for anywhere.
            FreshState::Fresh if !confirmed_now || self.source.is_some() => Outcome::Held,
            FreshState::Fresh if was_held => Outcome::Refreshed,
            FreshState::Fresh => Outcome::Fetched,
        };
        let why = match read.freshness.state {
            FreshState::Fresh => None,
            FreshState::Stale { reason, .. } => {
                let failure = self.log.failure(key);
                Some(failure.map_or_else(|| reason.to_string(), |failure| failure.why.to_string()))
            }
        };
        Answer { object: read.object, freshness: read.freshness, outcome, why }
    }

    /// The last known object, marked as stale; or that nothing is known.
    fn answer_from_memory(
        &self,
        key: &ObjectKey,
        failure: &Failure,
        outcome: Outcome,
    ) -> Result<Answer<KubeObject>, ReadError> {
        let Some(Known { object, confirmed }) = self.last_known(key) else {
            return Err(ReadError::Unknown {
                what: format!("{} \"{key}\"", singular(self.kind.into())),
                why: failure.why.to_string(),
                retry_after: failure.retry_at.saturating_duration_since(self.clock.now()),
            });
        };
        let since = match confirmed.state {
            // By the store that watches it: its word counts.
            FreshState::Fresh if self.watches() => None,
            FreshState::Stale { since, .. } if self.watches() => Some(since),
            // Without a TTL, every read asks.
            _ => Some(confirmed.expires_at().unwrap_or(confirmed.confirmed_at).min(failure.since)),
        };
        let reason = StaleReason::FetchFailed { class: failure.class };
        let state = since.map_or(FreshState::Fresh, |since| FreshState::Stale { since, reason });
        let freshness = confirmed.with_state(state);
        let Some(object) = object else { return Err(self.not_found(key, freshness)) };
        let why = (!freshness.is_fresh()).then(|| failure.why.to_string());
        let outcome = if freshness.is_fresh() { Outcome::Held } else { outcome };
        Ok(Answer { object, freshness, outcome, why })
    }

    fn not_referenced(&self, key: &ObjectKey) -> ReadError {
        ReadError::NotReferenced {
            kind: self.kind.into(),
            key: key.clone(),
            node: self.node.to_string(),
            from_manifests: self.source == Some(Source::Manifest),
        }
    }

    fn not_found(&self, key: &ObjectKey, freshness: Freshness) -> ReadError {
        ReadError::NotFound {
            kind: self.kind.into(),
            key: key.clone(),
            age: freshness.age(self.clock.now()),
            freshness: Box::new(freshness),
        }
    }

    fn kind_name(&self) -> &'static str {
        Kind::from(self.kind).resource()
    }
}

#[expect(clippy::type_complexity, reason = "an alias would be generic in as many words")]
/// A read of the cache that owns all that it needs, so that it can go on without its reader.
fn get<F, R, C>(
    objects: Arc<Objects<F, R, C>>,
    key: ObjectKey,
) -> Pin<Box<dyn Future<Output = Result<Read<KubeObject>, GetError<F::Error>>> + Send>>
where
    F: SourceFetch,
    R: SourceReflect<F::Error>,
    C: Clock + Clone,
{
    Box::pin(async move { objects.get_object(key.namespace(), key.name()).await })
}

fn is_older_version<E>(result: &Result<Read<KubeObject>, GetError<E>>) -> bool {
    let stale = |read: &Read<KubeObject>| {
        matches!(read.freshness.state, FreshState::Stale { reason: StaleReason::OlderVersion, .. })
    };
    result.as_ref().is_ok_and(stale)
}

#[cfg(test)]
mod tests;
