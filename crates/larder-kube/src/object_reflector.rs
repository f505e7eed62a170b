//! Keeps Secrets and `ConfigMap`s up to date for a store: one [list-watch](crate::list_watch) for each object or namespace.
//!
//! # Guarantees
//!
//! Besides the guarantees of [`list_watch`](crate::list_watch) on freshness and backoff:
//!
//! - *Consistent start*: a reflector first reports a consistent list. An object that the list lacks does not exist.
//! - *Spread ends*: when many reflectors stop at once, their watches close over some seconds, about a hundred a second.
//!
//! # Limits
//!
//! A reflector that is started again for an object that nobody had read for a while lists again. The version that the store passes
//! only shows whether versions went back: a watch from an old version does not say when it has caught up, and costs one request too.
//!
//! # Cancel safety
//!
//! Dropping a reflector ends its task, and its watch soon after. [`KubeReflectors::stop`] may be dropped and called again.
//!
//! # Differs from kubelet
//!
//! The kubelet's reflectors (client-go) resume from an old version after an outage without asking for the server's version. They
//! confirm nothing: their objects always count as current.

use crate::client::KubeClient;
use crate::error::{KubeError, Target};
use crate::list_watch::{ListWatch, Listing, Selection, Shared, Sink};
use crate::stats::Counters;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{AbortHandle, AbortRegistration, Abortable, Aborted};
use http::Method;
use larder_clock::Jitter;
use larder_objects::{ReadKind, ReflectorSink, Reflectors, Scope};
use larder_resource::{DecodeError, KubeObject, ObjectKind};
use parking_lot::Mutex;
use serde::Deserialize;
use slab::Slab;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Asks for metadata only; a server that cannot do that sends the whole objects.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// The interval between the closing watches of reflectors that stop together, and the longest total time.
const TEARDOWN_STEP: Duration = Duration::from_millis(10);
const TEARDOWN_MAX: Duration = Duration::from_secs(10);

/// Starts reflectors of Secrets or ConfigMaps; made by [`KubeClient::reflectors`]. Clones share the tasks.
///
/// Dropping the last clone ends all tasks; [`stop`](Self::stop) ends them and waits for their end.
///
/// ```no_run
/// # let _ = async {
/// use larder_kube::{KubeClient, KubeError, KubeOptions};
/// use larder_resource::{KubeObject, ObjectKind};
/// use larder_objects::{ObjectKey, ReflectorEvent, ReflectorSink, Reflectors, Scope};
///
/// let client = KubeClient::from_kubeconfig("/etc/kubernetes/kubelet.conf", None, KubeOptions::default()).await?;
/// let reflectors = client.reflectors(ObjectKind::Secret);
/// let sink = ReflectorSink::from_fn(|event: ReflectorEvent<KubeObject, KubeError>| {
///     if let ReflectorEvent::Set(name, secret) = event {
///         println!("{name} is at version {} now", secret.resource_version());
///     }
/// });
/// let reflector = reflectors.start(&Scope::Object(ObjectKey::new("web", "tls")), None, sink);
/// // It runs until it is dropped.
/// drop(reflector);
/// reflectors.stop().await;
/// # Ok::<(), larder_kube::KubeError>(())
/// # };
/// ```
#[derive(Clone)]
pub struct KubeReflectors {
    /// Dropping the last clone drops this, which ends the tasks. The tasks hold only the fields of this, not this.
    owner: Arc<Owner>,
}

struct Owner {
    tasks: Arc<Tasks>,
    shared: Arc<Shared<ReflectorSink<KubeObject, KubeError>>>,
    kind: ObjectKind,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.tasks.stop();
    }
}

/// The tasks of the reflectors of a kind.
struct Tasks {
    runtime: Handle,
    tracker: TaskTracker,
    stop: CancellationToken,
    /// What ends each reflector that runs. A token in its place would take 80 bytes in each of thousands of tasks.
    running: Mutex<Slab<AbortHandle>>,
    /// Dropped reflectors whose watches are still open. Relaxed: the number only spreads the closing.
    leaving: AtomicU32,
    jitter: Jitter,
    counters: Arc<Counters>,
}

/// Runs a list-watch until dropped.
#[derive(Debug)]
pub struct KubeReflector {
    list_watch: AbortHandle,
}

impl Drop for KubeReflector {
    fn drop(&mut self) {
        self.list_watch.abort();
    }
}

/// A reflector among those that run, until this is dropped.
struct Running {
    id: usize,
    tasks: Arc<Tasks>,
    /// Whether its watch is open: only the end of that is worth spreading.
    is_open: AtomicBool,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.tasks.running.lock().try_remove(self.id));
        self.tasks.counters.reflector_ended();
    }
}

impl KubeClient {
    /// Reflectors of Secrets or ConfigMaps, for a store of `larder-objects`.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, on which its tasks run.
    pub fn reflectors(&self, kind: ObjectKind) -> KubeReflectors {
        let shared = Arc::new(Shared::new(self.clone()));
        let tasks = Arc::new(Tasks {
            runtime: Handle::current(),
            tracker: TaskTracker::new(),
            stop: CancellationToken::new(),
            running: Mutex::default(),
            leaving: AtomicU32::new(0),
            jitter: self.options().jitter.clone(),
            counters: Arc::clone(self.counters()),
        });
        let confirmed = Arc::clone(&shared);
        let confirm = async move { confirmed.confirm_list_watches().await };
        tasks.spawn(tasks.stop.clone().run_until_cancelled_owned(confirm));
        KubeReflectors { owner: Arc::new(Owner { tasks, shared, kind }) }
    }
}

impl KubeReflectors {
    /// The kind of the objects.
    pub fn kind(&self) -> ObjectKind {
        self.owner.kind
    }

    /// Ends all reflectors and waits until their tasks have ended. A reflector that starts later ends at once.
    ///
    /// Cancel safe.
    pub async fn stop(&self) {
        let tasks = &self.owner.tasks;
        tasks.stop();
        tasks.tracker.close();
        tasks.tracker.wait().await;
    }

    fn spawn(&self, selection: Selection, known: String, sink: &ReflectorSink<KubeObject, KubeError>) -> KubeReflector {
        let (list_watch, registration) = AbortHandle::new_pair();
        match ListWatch::new(Arc::clone(&self.owner.shared), selection, sink.clone(), known) {
            Ok(new) => {
                let tasks = &self.owner.tasks;
                tasks.spawn(run(new, registration, Arc::clone(tasks).enter(&list_watch)));
            }
            Err(error) => sink.failed(Arc::new(error)),
        }
        KubeReflector { list_watch }
    }
}

/// Runs a list-watch until its reflector is dropped, or all are stopped.
// Not an `async fn`, which would store its arguments twice: each object has such a task.
#[allow(clippy::manual_async_fn, reason = "see above")]
fn run(
    mut list_watch: ListWatch<ReflectorSink<KubeObject, KubeError>>,
    registration: AbortRegistration,
    running: Running,
) -> impl Future<Output = ()> + Send {
    async move {
        // It stays where it is after its end, with its watch open.
        let mut list_watch = pin!(Abortable::new(list_watch.run(&running.is_open), registration));
        match list_watch.as_mut().await {
            Ok(never) => match never {},
            Err(Aborted) if running.is_open.load(Ordering::Relaxed) => Box::pin(running.tasks.leave()).await,
            Err(Aborted) => {}
        }
    }
}

impl Tasks {
    fn spawn(&self, future: impl Future + Send + 'static) {
        // An async block would store the future twice.
        self.tracker.spawn_on(future.map(drop), &self.runtime);
    }

    /// Counts a reflector among those that run. After [`stop`](Self::stop) its list-watch ends at once.
    fn enter(self: Arc<Self>, list_watch: &AbortHandle) -> Running {
        let id = {
            let mut running = self.running.lock();
            if self.stop.is_cancelled() {
                list_watch.abort();
            }
            running.insert(list_watch.clone())
        };
        self.counters.reflector_started();
        Running { id, tasks: self, is_open: AtomicBool::new(false) }
    }

    /// Ends all reflectors, those too that start later.
    fn stop(&self) {
        self.stop.cancel();
        let running: Vec<_> = self.running.lock().iter().map(|(_, list_watch)| list_watch.clone()).collect();
        running.iter().for_each(AbortHandle::abort);
    }

    /// Waits before a dropped reflector closes its watch.
    async fn leave(&self) {
        let leaving = self.leaving.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let longest = TEARDOWN_STEP.saturating_mul(leaving).min(TEARDOWN_MAX);
        let pause = tokio::time::sleep(self.jitter.between(Duration::ZERO..=longest));
        self.stop.run_until_cancelled(pause).await;
        self.leaving.fetch_sub(1, Ordering::Relaxed);
    }
}

fn by_name(objects: Listing<KubeObject>) -> Vec<(String, Arc<KubeObject>)> {
    objects.into_iter().map(|((_, name), object)| (name, object)).collect()
}

// The methods that it calls are the sink's own.
impl Sink for ReflectorSink<KubeObject, KubeError> {
    type Object = KubeObject;

    fn listing(&self) {
        self.listing();
    }

    fn replace(&self, objects: Listing<KubeObject>, _: &str) {
        self.replace(by_name(objects), ReadKind::Consistent);
    }

    fn replace_unconfirmed(&self, objects: Listing<KubeObject>, _: &str, error: Arc<KubeError>) {
        self.replace(by_name(objects), ReadKind::ApiServerCache);
        self.failed(error);
    }

    fn watching(&self) {}

    fn set(&self, object: Arc<KubeObject>) {
        let name = object.name().to_owned();
        self.set(&name, object);
    }

    fn delete(&self, object: Arc<KubeObject>) {
        let name = object.name().to_owned();
        self.delete(&name, Some(object));
    }

    fn leave(&self, _: Arc<KubeObject>) {}

    fn bookmark(&self, version: &str) {
        self.bookmark(version);
    }

    fn confirm(&self, ago: Duration) {
        self.confirm_as_of(ago);
    }

    fn failed(&self, error: Arc<KubeError>) {
        self.failed(error);
    }

    fn went_back(&self, before: &str, after: &str) {
        self.went_back(before, after);
    }
}

impl Reflectors for KubeReflectors {
    type Object = KubeObject;
    type Error = KubeError;
    type Reflector = KubeReflector;

    fn start(
        &self,
        scope: &Scope,
        resume: Option<String>,
        sink: ReflectorSink<KubeObject, KubeError>,
    ) -> KubeReflector {
        let selection = match scope {
            Scope::Object(key) => Selection::Object(self.kind(), key.clone()),
            Scope::Namespace(namespace) => Selection::Namespace(self.kind(), (**namespace).into()),
        };
        self.spawn(selection, resume.unwrap_or_default(), &sink)
    }

    /// Whether larder may list and watch all objects of the kind in the namespace.
    fn may_watch(&self, namespace: &str) -> impl Future<Output = bool> + Send + 'static {
        let (client, kind, namespace) = (self.owner.shared.client.clone(), self.kind(), namespace.to_owned());
        async move {
            for verb in ["list", "watch"] {
                match may(&client, kind, &namespace, verb).await {
                    Ok(true) => {}
                    Ok(false) => return false,
                    Err(error) => {
                        tracing::debug!(%error, "cannot ask whether a namespace may be watched");
                        return false;
                    }
                }
            }
            true
        }
    }

    fn count(&self, namespace: &str) -> impl Future<Output = Result<u64, KubeError>> + Send + 'static {
        let (client, selection) =
            (self.owner.shared.client.clone(), Selection::Namespace(self.kind(), namespace.into()));
        async move {
            selection.validate()?;
            let (target, scope) = (selection.target(), selection.scope());
            let options = client.options();
            let deadline = Instant::now() + options.fetch_deadline;
            let path = format!("{}?limit=1", scope.path);
            let body = client.get_as(&target, &path, METADATA, deadline, options.max_page_bytes).await?;
            let bad = |error: serde_json::Error| KubeError::decode(target.clone(), error.into());
            let counted: Counted = serde_json::from_slice(&body).map_err(bad)?;
            let listed = u64::try_from(counted.items.unwrap_or_default().len()).unwrap_or(u64::MAX);
            Ok(listed.saturating_add(counted.metadata.remaining_item_count.unwrap_or_default()))
        }
    }
}

#[derive(Deserialize)]
struct Counted {
    metadata: CountedMeta,
    items: Option<Vec<serde::de::IgnoredAny>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CountedMeta {
    remaining_item_count: Option<u64>,
}

async fn may(client: &KubeClient, kind: ObjectKind, namespace: &str, verb: &str) -> Result<bool, KubeError> {
    #[derive(Deserialize)]
    struct Review {
        status: Status,
    }
    #[derive(Deserialize)]
    struct Status {
        allowed: bool,
    }
    let target = Target::Namespace(kind.into(), namespace.into());
    let review = serde_json::json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "namespace": namespace, "verb": verb, "version": "v1", "resource": kind.resource(),
        }},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let deadline = Instant::now() + client.options().fetch_deadline;
    let response = client.send(&target, &Method::POST, path, &Bytes::from(review.to_string()), deadline).await?;
    let body = client.collect(&target, response, deadline, client.options().max_object_bytes).await?;
    let bad = |error: serde_json::Error| KubeError::decode(target, DecodeError::from(error));
    let review: Review = serde_json::from_slice(&body).map_err(bad)?;
    Ok(review.status.allowed)
}

impl fmt::Debug for KubeReflectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeReflectors").field("kind", &self.kind()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
