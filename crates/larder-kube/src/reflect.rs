//! Keeps single objects, or those of a namespace, up to date: a list and a watch for each.
//!
//! # Guarantees
//!
//! - *Consistent start*: the first thing that a reflector tells is a consistent list, so what it lacks does not exist. It
//!   is asked for as the beginning of the watch (a streaming list, KEP-3157), in one request; where the server refuses
//!   that, as with an older etcd behind it, as a list and a watch. The refusal is remembered, and tried again by one
//!   reflector after the server was away.
//! - *No gap*: a watch that ended, in good order or with its connection, goes on from the version that was told last. Where
//!   the server no longer has that version (410), where something cannot be read, and after a long silence, everything is
//!   listed again.
//! - *No false freshness*: what is held counts as current while its watch is open and its connection brings signs of life,
//!   which is told every few seconds ([`ReflectorSink::confirm`]); over HTTP/1.1, when a bookmark comes. It counts as stale
//!   from when the watch fails or its connection has been silent for one and a half times
//!   [`KubeOptions::ping_interval`](crate::KubeOptions::ping_interval), which is noticed within twice that: 10 s. A watch that goes on after an outage confirms nothing until it has brought something, or has been open and
//!   quiet for a second, in which it brings what has happened meanwhile.
//! - *Versions that go back are noticed*, as after a restore of etcd: by an event or bookmark older than the one before,
//!   and by the version that the server is at, for which one reflector asks after an outage before any goes on from an old
//!   version. All is listed again then, and [`ReflectorSink::went_back`] told.
//! - *Patience*: after a failure it waits, longer each time up to
//!   [`KubeOptions::backoff_max`](crate::KubeOptions::backoff_max), at random, and as long as `Retry-After` asks. The first
//!   success of any request to a server that was away or refused larder ends the wait, but for what `Retry-After` asks. At most
//!   [`KubeOptions::starts_in_flight`](crate::KubeOptions::starts_in_flight) reflectors list or begin a watch at a time. When
//!   many are stopped at once, their watches are closed over some seconds, about a hundred a second.
//! - *A 403 for what a new pod refers to* is asked again for a moment, not told; see
//!   [`KubeOptions::forbidden_grace`](crate::KubeOptions::forbidden_grace).
//!
//! # Limits
//!
//! After an idle stop it lists again instead of going on from the version that it is given: a watch that is opened from an
//! old version does not say when it has caught up. The costs are the same, one request.
//!
//! # Cancel safety
//!
//! Dropping a reflector ends its task; its watch is closed soon. [`KubeReflect::stop`] may be dropped and called again.
//!
//! # Locks
//!
//! One over the reflectors that are confirmed by their connections, held while they are told; a store's locks come after
//! it.
//!
//! # Differs from kubelet
//!
//! The kubelet's reflectors (client-go) go on from an old version after an outage without asking where the server is, and
//! confirm nothing: what they hold always counts as current.

use crate::client::{KubeClient, segment};
use crate::error::{DecodeProblem, KubeError, Target};
use crate::listwatch::{Scope, encode};
use crate::object::{Kind, KubeObject, ObjectKind};
use bytes::Bytes;
use futures_util::FutureExt;
use http::Method;
use larder_objects::{NamespaceSink, ObjectKey, Reflect, ReflectNamespace, ReflectorSink};
use pulse::Pulse;
use revision::Revision;
use run::{Position, Run, Sink};
use serde::Deserialize;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use streaming::Streaming;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

mod pulse;
mod revision;
mod run;
mod streaming;

/// A list of which only the metadata are wanted; a server that cannot do that gives the whole objects.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Many reflectors that end at once leave one after another, this far apart, but all within the longest time.
const TEARDOWN_STEP: Duration = Duration::from_millis(10);
const TEARDOWN_MAX: Duration = Duration::from_secs(10);

/// Reflectors of Secrets, or of ConfigMaps, from [`KubeClient::reflector`]. Clones share everything.
///
/// The last clone that is dropped ends all tasks; [`stop`](Self::stop) ends them and waits until they have ended.
///
/// ```no_run
/// # let _ = async {
/// use larder_kube::{KubeClient, KubeError, KubeObject, KubeOptions, ObjectKind};
/// use larder_objects::{ObjectKey, Reflect, ReflectorEvent, ReflectorSink};
///
/// let client = KubeClient::from_kubeconfig("/etc/kubernetes/kubelet.conf", None, KubeOptions::default()).await?;
/// let reflect = client.reflector(ObjectKind::Secret);
/// let sink = ReflectorSink::from_fn(|event: ReflectorEvent<KubeObject, KubeError>| {
///     if let ReflectorEvent::Set(secret) = event {
///         println!("{} is at version {} now", secret.name(), secret.resource_version());
///     }
/// });
/// let reflector = reflect.reflect(&ObjectKey::new("web", "tls"), None, sink);
/// // It runs until it is dropped.
/// drop(reflector);
/// reflect.stop().await;
/// # Ok::<(), larder_kube::KubeError>(())
/// # };
/// ```
#[derive(Clone)]
pub struct KubeReflect {
    /// Dropped with the last clone, which ends the tasks; these have `shared` alone.
    owner: Arc<Owner>,
}

struct Owner {
    shared: Arc<Shared>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

/// What the reflectors of a kind share.
struct Shared {
    client: KubeClient,
    kind: ObjectKind,
    runtime: Handle,
    tasks: TaskTracker,
    stop: CancellationToken,
    starts: Semaphore,
    streaming: Streaming,
    revision: Revision,
    pulse: Pulse,
    /// Reflectors that have been dropped and whose watches are not closed yet. Relaxed: it only spreads them in time.
    leaving: AtomicU32,
    /// Whether the last request failed because the server cannot be reached; for the log alone.
    away: AtomicBool,
}

/// A list-watch that runs until this is dropped.
#[derive(Debug)]
pub struct KubeReflector {
    _running: oneshot::Sender<()>,
}

impl KubeClient {
    /// Reflectors of Secrets or ConfigMaps, for a store of `larder-objects`.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, on which its tasks run.
    pub fn reflector(&self, kind: ObjectKind) -> KubeReflect {
        let starts = usize::try_from(self.options().starts_in_flight).unwrap_or(Semaphore::MAX_PERMITS);
        let shared = Arc::new(Shared {
            client: self.clone(),
            kind,
            runtime: Handle::current(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            starts: Semaphore::new(starts),
            streaming: Streaming::default(),
            revision: Revision::default(),
            pulse: Pulse::new(self.options().ping_interval),
            leaving: AtomicU32::new(0),
            away: AtomicBool::new(false),
        });
        let beating = Arc::clone(&shared);
        let beat = async move { beating.pulse.beat(&beating.client).await };
        shared.spawn(shared.stop.clone().run_until_cancelled_owned(beat));
        KubeReflect { owner: Arc::new(Owner { shared }) }
    }
}

impl KubeReflect {
    /// The kind that it reflects.
    pub fn kind(&self) -> ObjectKind {
        self.owner.shared.kind
    }

    /// Ends all its reflectors and waits until their tasks have ended. What is started afterwards ends at once.
    ///
    /// Cancel safe.
    pub async fn stop(&self) {
        let shared = &self.owner.shared;
        shared.stop.cancel();
        shared.tasks.close();
        shared.tasks.wait().await;
    }

    fn start(&self, of: Of, known: String, sink: Sink) -> KubeReflector {
        let shared = &self.owner.shared;
        let (running, dropped) = oneshot::channel();
        if of.scope(shared.kind).is_some() {
            let run = Run { shared: Arc::clone(shared), of, sink };
            shared.spawn(run.until(dropped, Position::start(known)));
        } else {
            sink.failed(Arc::new(KubeError::InvalidName { target: of.target(shared.kind) }));
        }
        KubeReflector { _running: running }
    }
}

impl Shared {
    fn spawn(&self, future: impl Future + Send + 'static) {
        // An async block around it would have room for it twice.
        self.tasks.spawn_on(future.map(drop), &self.runtime);
    }

    /// Waits as long as a reflector that has ended keeps its watch.
    async fn leave(&self) {
        let leaving = self.leaving.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let longest = TEARDOWN_STEP.saturating_mul(leaving).min(TEARDOWN_MAX);
        let pause = tokio::time::sleep(longest.mul_f64(rand::random_range(0.0..1.0)));
        self.stop.run_until_cancelled(pause).await;
        self.leaving.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a reflector reflects.
#[derive(Clone)]
enum Of {
    Object(ObjectKey),
    Namespace(Arc<str>),
}

impl Of {
    fn target(&self, kind: ObjectKind) -> Target {
        match self {
            Self::Object(key) => Target::Object(kind.into(), key.clone()),
            Self::Namespace(namespace) => Target::Namespace(kind.into(), Arc::clone(namespace)),
        }
    }

    fn namespace(&self) -> &str {
        match self {
            Self::Object(key) => key.namespace(),
            Self::Namespace(namespace) => namespace,
        }
    }

    /// None where a name would be another path or selector than what it stands for. Made anew for each request, which
    /// spares memory while watches are open.
    fn scope(&self, kind: ObjectKind) -> Option<Scope> {
        let resource = Kind::from(kind).resource();
        let path = format!("/api/v1/namespaces/{}/{resource}", segment(self.namespace())?);
        let field_selector = match self {
            Self::Object(key) => {
                segment(key.name()).filter(|_| !key.name().contains([',', '=', '!', '\\']))?;
                encode(&format!("metadata.name={}", key.name()))
            }
            Self::Namespace(_) => String::new(),
        };
        Some(Scope { kind: kind.into(), path, field_selector, target: self.target(kind) })
    }

    /// Whether an object is one of these; a server that passes over selectors shall not confuse anyone.
    fn has(&self, object: &KubeObject) -> bool {
        match self {
            Self::Object(key) => object.name() == key.name() && object.namespace() == key.namespace(),
            Self::Namespace(namespace) => object.namespace() == &**namespace,
        }
    }
}

impl Reflect for KubeReflect {
    type Object = KubeObject;
    type Error = KubeError;
    type Reflector = KubeReflector;

    fn reflect(
        &self,
        key: &ObjectKey,
        resume: Option<String>,
        sink: ReflectorSink<KubeObject, KubeError>,
    ) -> KubeReflector {
        self.start(Of::Object(key.clone()), resume.unwrap_or_default(), Sink::Object(sink))
    }
}

impl ReflectNamespace for KubeReflect {
    /// Whether larder's identity may list and watch all objects of the kind there.
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
        let (client, kind, of) = (self.owner.shared.client.clone(), self.kind(), Of::Namespace(namespace.into()));
        async move {
            let target = of.target(kind);
            let scope = of.scope(kind).ok_or_else(|| KubeError::InvalidName { target: target.clone() })?;
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

    fn reflect_namespace(&self, namespace: &str, sink: NamespaceSink<KubeObject, KubeError>) -> KubeReflector {
        self.start(Of::Namespace(namespace.into()), String::new(), Sink::Namespace(sink))
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
            "namespace": namespace, "verb": verb, "version": "v1", "resource": Kind::from(kind).resource(),
        }},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let deadline = Instant::now() + client.options().fetch_deadline;
    let response = client.send(&target, &Method::POST, path, &Bytes::from(review.to_string()), deadline).await?;
    let body = client.collect(&target, response, deadline, client.options().max_object_bytes).await?;
    let bad = |error: serde_json::Error| KubeError::decode(target, DecodeProblem::from(error));
    let review: Review = serde_json::from_slice(&body).map_err(bad)?;
    Ok(review.status.allowed)
}

impl fmt::Debug for KubeReflect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeReflect").field("kind", &self.kind()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
