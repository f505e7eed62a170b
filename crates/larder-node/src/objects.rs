//! The object cache of one kind: a store of larder-objects, and around it deadlines, backoff, and pods that are deleted while a
//! read for them is in flight.
//!
//! The store decides which strategy applies, what is held, and how fresh it is; [`StrategyOptions`] has its options. Nothing
//! here asks which strategy the store has. `inventory` has what concerns all objects: lists, prefetches and idle watches.
//! `pod_reads` has reads for one pod, and `view` what watches of the Kubernetes API see.
//!
//! # Guarantees
//!
//! - *One trip*: a read asks the store once, and returns the store's answer. There are two exceptions: the object is in
//!   backoff, or the deadline comes first. Then the answer is the object that the store [holds](larder_objects::Store::held).
//! - *Backoff*: after a failed fetch, the object is not fetched again for a while. Readers do not wait for the backoff.
//! - *Deadline*: a read ends at its deadline. Its fetch continues without it, as one of at most 64, and the next read gets the
//!   result where the strategy keeps results.
//! - *Held for a pod*: a read for a pod keeps the pod's references until it is answered.
//!
//! # Cancel safety
//!
//! A read may be dropped before its deadline. If other readers wait for the fetch that it drove, one of them takes the fetch over;
//! otherwise the fetch is dropped too.
//!
//! # Locks
//!
//! The lock of the [`FetchLog`], never over an `.await`. `pod_reads` is locked before [`PodObjects`] and the store.

use crate::answer::Answer;
use crate::config::Policy;
use crate::error::ReadError;
use crate::fetch_log::{Backoff, Failure, FetchLog, LoggedFetch, SourceFetch, SourceReflectors};
use crate::metrics::ObjectMetrics;
use crate::reflector_log::{LoggedReflectors, Told};
use crate::strategy::Strategy;
use k8s_openapi::api::core::v1::{Pod, Volume, VolumeProjection};
use larder_clock::{Clock, Timestamp};
use larder_objects::{
    AutoOptions, Effects, Fetch, FreshState, Freshness, GetError, ObjectKey, Outcome, PodIdentity, PodObjects, Read,
    Reference, References, Source, StaleReason, Store as _, StoreTtl, StrategyOptions, StrategyStore, WentBack,
};
use larder_resource::{Kind, KubeObject, Node, ObjectKind, SourceReader};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use view::Visible;

mod inventory;
mod pod_reads;
mod view;

pub(crate) use view::View;

/// When a client may retry, if the source did not say when.
const RETRY: Duration = Duration::from_secs(1);
/// The most fetches that continue after their readers' deadline. A source that hangs must not collect more of them.
const MAX_DETACHED: usize = 64;

/// The references of a pod to objects of one of the kinds. Pods refer to no object of the other kinds.
#[derive(Clone, Copy, Debug)]
struct ReferencesOf(Kind);

impl References<Pod> for ReferencesOf {
    fn identity<'p>(&self, pod: &'p Pod) -> PodIdentity<'p> {
        larder_objects::references::Secrets.identity(pod)
    }

    fn visit<'p>(&self, pod: &'p Pod, visit: impl FnMut(Reference<'p>)) {
        match self.0.object_kind() {
            Some(ObjectKind::Secret) => larder_objects::references::Secrets.visit(pod, visit),
            Some(ObjectKind::ConfigMap) => larder_objects::references::ConfigMaps.visit(pod, visit),
            None => {}
        }
    }
}

/// The names of the objects in a pod's volumes. The kubelet reads them again and again while the pod runs.
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

/// The store of the configured strategy. Its fetches and reflectors are logged, and have the same type of error.
type ObjectStore<F, R, C> =
    StrategyStore<LoggedFetch<F, C>, LoggedReflectors<R, C, <F as Fetch>::Error>, C, SourceReader<Node>>;
type Objects<F, R, C> = PodObjects<ObjectStore<F, R, C>, ReferencesOf>;

/// The objects of one kind that this node's pods refer to, or that are held otherwise ([`ObjectCache::hold`]).
pub(crate) struct ObjectCache<F, R, C>
where
    F: SourceFetch,
    R: SourceReflectors<F::Error>,
    C: Clock + Clone,
{
    kind: Kind,
    node: Arc<str>,
    clock: C,
    source: Option<Source>,
    objects: Arc<Objects<F, R, C>>,
    log: Arc<FetchLog>,
    pod_reads: Mutex<pod_reads::PodReads>,
    /// The objects whose fetch continues after the deadline of its reader.
    detached: Arc<Mutex<HashSet<ObjectKey>>>,
    token: CancellationToken,
    tasks: TaskTracker,
    view: Arc<View>,
    /// Wakes the prefetch, because there are objects to fetch.
    new_references: Notify,
    metrics: Arc<ObjectMetrics>,
}

/// What an [`ObjectCache`] is started with.
pub(crate) struct ObjectCacheConfig<F, R, C> {
    pub(crate) kind: Kind,
    pub(crate) node: Arc<str>,
    pub(crate) strategy: Strategy,
    pub(crate) fetch: F,
    pub(crate) reflectors: R,
    pub(crate) watch: AutoOptions,
    pub(crate) clock: C,
    /// The TTL of the node's annotation, or the default of the settings.
    pub(crate) ttl: StoreTtl<SourceReader<Node>>,
    /// The source that answers name, if it is not the API server.
    pub(crate) source: Option<Source>,
    pub(crate) policy: Policy,
    /// Ends the fetches that continue after their readers' deadline.
    pub(crate) token: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) metrics: Arc<ObjectMetrics>,
}

/// The result of reading all objects.
#[derive(Debug)]
#[non_exhaustive]
pub struct ObjectList {
    /// The objects that exist.
    pub items: Vec<Answer<KubeObject>>,
    /// The objects that are known to be absent, and how fresh that is.
    pub absent: Vec<(ObjectKey, Freshness)>,
    /// The objects that are not known yet, and why.
    pub unknown: Vec<(ObjectKey, ReadError)>,
}

impl<F, R, C> ObjectCache<F, R, C>
where
    F: SourceFetch,
    R: SourceReflectors<F::Error>,
    C: Clock + Clone,
{
    pub(crate) fn new(config: ObjectCacheConfig<F, R, C>) -> Self {
        let policy = config.policy;
        let backoff = Backoff { initial: policy.fetch_backoff_initial, max: policy.fetch_backoff_max };
        let log = Arc::new(FetchLog::new(backoff));
        let view = View::new(config.kind);
        let fetch = LoggedFetch {
            fetch: config.fetch,
            clock: config.clock.clone(),
            log: Arc::clone(&log),
            metrics: Arc::clone(&config.metrics),
        };
        let clock = config.clock.clone();
        let told = Told { kind: config.kind, clock, log: Arc::clone(&log), view: Arc::clone(&view) };
        let reflectors = LoggedReflectors { reflectors: config.reflectors, told: Arc::new(told), error: PhantomData };
        let mut options = StrategyOptions::default();
        options.auto = config.watch;
        options.negative_entries = policy.serve_absences;
        options.keep_last_known = policy.keep_last_known;
        options.went_back = policy.accept_older_versions.then(|| went_back(config.kind, Arc::clone(&config.metrics)));
        let (clock, ttl) = (config.clock.clone(), config.ttl);
        let store = ObjectStore::new(config.strategy, fetch, reflectors, clock, ttl, options);
        let objects = Arc::new(PodObjects::new(store, ReferencesOf(config.kind)));
        let store: Arc<dyn Visible> = Arc::<Objects<F, R, C>>::clone(&objects);
        view.set_store(Arc::downgrade(&store));
        Self {
            kind: config.kind,
            node: config.node,
            clock: config.clock,
            source: config.source,
            objects,
            view,
            log,
            pod_reads: Mutex::default(),
            detached: Arc::default(),
            token: config.token,
            tasks: config.tasks,
            new_references: Notify::new(),
            metrics: config.metrics,
        }
    }

    /// Registers a pod that is new or has changed.
    pub(crate) fn register_pod(&self, pod: &Pod) {
        let references = ReferencesOf(self.kind);
        let identity = references.identity(pod);
        self.cancel_unregister(identity);
        let is_new = !self.objects.is_registered(identity);
        let before = self.references_of(identity);
        self.objects.register_pod(pod);
        let after = self.references_of(identity);
        for key in before.difference(&after) {
            self.release(key);
        }
        for key in after.iter().filter(|key| is_new || !before.contains(*key)) {
            self.log.retry_now(key);
            // A watch of the namespace may hold it already.
            self.view.observe(key, None);
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        for name in self.kind.object_kind().into_iter().flat_map(|kind| mounted(kind, pod)) {
            self.objects.store().set_mounted(namespace, name);
        }
        self.new_references.notify_one();
    }

    /// Holds an object that no pod has to refer to, until [`unhold`](Self::unhold). To be called once for an object. The caller
    /// runs the effects, where it holds no lock.
    pub(crate) fn hold(&self, key: &ObjectKey) -> Effects<'_> {
        self.objects.store().add_references(key.namespace(), &[key.name()], "")
    }

    /// Ends a [`hold`](Self::hold). The caller runs the effects, where it holds no lock.
    pub(crate) fn unhold(&self, key: &ObjectKey) -> Effects<'_> {
        let effects = self.objects.store().delete_references(key.namespace(), &[key.name()], "");
        self.release(key);
        effects
    }

    /// The caller runs the effects after it has released the lock of `pod_reads`.
    fn unregister_now(&self, pod: PodIdentity<'_>) -> Effects<'_> {
        let before = self.references_of(pod);
        let effects = self.objects.unregister_locked(pod);
        for key in &before {
            self.release(key);
        }
        effects
    }

    /// The namespace and name of each registered pod, and its UID.
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

    /// Forgets the failures of an object if no pod refers to it any more. Watches see that it went.
    fn release(&self, key: &ObjectKey) {
        if self.objects.references(key.namespace(), key.name()) == 0 {
            self.view.observe(key, None);
            self.log.forget_failure(key);
        }
    }

    /// Whether the objects come from manifests, so that every read looks into them.
    pub(crate) fn is_of_manifests(&self) -> bool {
        self.source == Some(Source::Manifest)
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
    /// [`ReadError`] says why there is no object.
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
        if let Some(failure) = self.log.failure(key).filter(|failure| failure.retry_at > began) {
            return self.answer_held(key, &failure, Outcome::Held);
        }
        let mut get = get(Arc::clone(&self.objects), Arc::clone(&self.view), key.clone());
        let Ok(result) = tokio::time::timeout(deadline, &mut get).await else {
            self.detach(key, get);
            let why = format!("no answer within {deadline:?}");
            let since = self.log.failure(key).map_or(began, |earlier| earlier.since);
            let failure = Failure::no_answer(since, self.clock.now() + RETRY, why.into());
            return self.answer_held(key, &failure, Outcome::FetchFailed);
        };
        match result {
            Ok(read) => Ok(self.answer(key, read)),
            Err(GetError::NotFound { freshness, .. }) => Err(self.not_found(key, freshness)),
            Err(GetError::Fetch { source, .. }) => {
                let no_answer = || Failure::no_answer(began, self.clock.now() + RETRY, source.to_string().into());
                Err(self.unknown(key, &self.log.failure(key).unwrap_or_else(no_answer)))
            }
            Err(_) => Err(self.not_referenced(key)),
        }
    }

    /// Continues a fetch whose reader has reached its deadline.
    fn detach(&self, key: &ObjectKey, get: impl Future<Output: Send> + Send + 'static) {
        let mut all = self.detached.lock();
        if all.len() >= MAX_DETACHED || !all.insert(key.clone()) {
            return;
        }
        drop(all);
        let (key, detached, token) = (key.clone(), Arc::clone(&self.detached), self.token.clone());
        self.tasks.spawn(async move {
            // The source's own deadline bounds it.
            let _ = token.run_until_cancelled(get).await;
            detached.lock().remove(&key);
        });
    }

    fn answer(&self, key: &ObjectKey, read: Read<KubeObject>) -> Answer<KubeObject> {
        let Read { object, freshness, outcome, .. } = read;
        // The manifests are in this process, so looking into them is no fetch.
        let outcome = if freshness.is_fresh() && self.source.is_some() { Outcome::Held } else { outcome };
        let why = match freshness.state {
            FreshState::Fresh => None,
            FreshState::Stale { reason, .. } => {
                let failure = self.log.failure(key);
                Some(failure.map_or_else(|| reason.to_string(), |failure| failure.why.to_string()))
            }
        };
        Answer { object, freshness, outcome, why }
    }

    /// The answer if the store is not asked or did not answer in time: the object that it holds, or an error.
    fn answer_held(
        &self,
        key: &ObjectKey,
        failure: &Failure,
        outcome: Outcome,
    ) -> Result<Answer<KubeObject>, ReadError> {
        let Some(held) = self.objects.store().held(key.namespace(), key.name()) else {
            let is_referenced = self.objects.references(key.namespace(), key.name()) > 0;
            return Err(if is_referenced { self.unknown(key, failure) } else { self.not_referenced(key) });
        };
        let (mut freshness, mut why) = (held.freshness, None);
        if let FreshState::Stale { since, .. } = freshness.state {
            let reason = StaleReason::FetchFailed { class: failure.class };
            freshness = freshness.with_state(FreshState::Stale { since, reason });
            why = Some(failure.why.to_string());
        }
        let Some(object) = held.object else { return Err(self.not_found(key, freshness)) };
        let outcome = if freshness.is_fresh() { Outcome::Held } else { outcome };
        Ok(Answer { object, freshness, outcome, why })
    }

    fn unknown(&self, key: &ObjectKey, failure: &Failure) -> ReadError {
        ReadError::Unknown {
            what: format!("{} \"{key}\"", self.kind.singular()),
            why: failure.why.to_string(),
            retry_after: failure.retry_at.saturating_duration_since(self.clock.now()),
        }
    }

    /// The error of a read of an object to which no pod refers.
    pub(crate) fn not_referenced(&self, key: &ObjectKey) -> ReadError {
        ReadError::NotReferenced {
            kind: self.kind,
            key: key.clone(),
            node: self.node.to_string(),
            from_manifests: self.source == Some(Source::Manifest),
        }
    }

    fn not_found(&self, key: &ObjectKey, freshness: Freshness) -> ReadError {
        ReadError::NotFound {
            kind: self.kind,
            key: key.clone(),
            age: freshness.age(self.clock.now()),
            freshness: Box::new(freshness),
        }
    }
}

#[expect(clippy::type_complexity, reason = "an alias would be generic in as many words")]
/// A read of the store that owns everything it needs, so that it can continue without its reader.
fn get<F, R, C>(
    objects: Arc<Objects<F, R, C>>,
    view: Arc<View>,
    key: ObjectKey,
) -> Pin<Box<dyn Future<Output = Result<Read<KubeObject>, GetError<F::Error>>> + Send>>
where
    F: SourceFetch,
    R: SourceReflectors<F::Error>,
    C: Clock + Clone,
{
    Box::pin(async move {
        let result = objects.store().get(key.namespace(), key.name()).await;
        if !result.as_ref().is_ok_and(|read| read.outcome == Outcome::Held) {
            view.observe(&key, None);
        }
        result
    })
}

impl<F, R, C> Visible for Objects<F, R, C>
where
    F: SourceFetch,
    R: SourceReflectors<F::Error>,
    C: Clock + Clone,
{
    fn held(&self, key: &ObjectKey) -> Option<Arc<KubeObject>> {
        let is_referenced = self.references(key.namespace(), key.name()) > 0;
        if is_referenced { self.store().held(key.namespace(), key.name())?.object } else { None }
    }

    fn keys(&self, namespace: Option<&str>) -> Vec<ObjectKey> {
        let keys = self.store().snapshot().into_iter().map(|status| status.key);
        keys.filter(|key| namespace.is_none_or(|namespace| namespace == key.namespace())).collect()
    }
}

/// Logs and counts an object whose version went back.
fn went_back(kind: Kind, metrics: Arc<ObjectMetrics>) -> WentBack<KubeObject> {
    Arc::new(move |key, before, after| {
        let (before, after) = (before.resource_version(), after.resource_version());
        tracing::warn!(
            kind = kind.resource(), object = %key, before, after,
            "resourceVersion went back: was the API server's etcd restored from a backup?"
        );
        metrics.version_went_back();
    })
}

#[cfg(test)]
mod tests;
