//! The answers of the local API under `/larder/v1/`, for servers and clients.
//!
//! Names are in camel case, times in RFC 3339, ages and TTLs in seconds. A client ignores fields that it does not know.
//! `/larder/v1/status` answers with a [`Report`](larder_node::Report). A pod's status from the runtime is a [`PodStatus`].

use crate::access::NodeClock;
use jiff::Timestamp;
use larder_node::{Answer, SourceState};
use larder_objects::{FreshState, Source};
use larder_pleg::{ContainerStatus, PodStatus};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How fresh an answer is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Freshness {
    /// Whether it is fresh, stale, known to be absent, or not known yet.
    pub state: FreshnessState,
    /// When it was last confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_at: Option<Timestamp>,
    /// How long ago that was, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
    /// The source that confirmed it: `live-read`, `api-server-cache`, `watch`, `manifest` or `runtime`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The rest of its TTL in seconds, negative after the TTL has expired; none if it has no TTL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<f64>,
    /// Since when it is stale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_since: Option<Timestamp>,
    /// Why it is stale, or not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The state of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum FreshnessState {
    /// It was confirmed within its TTL, or a watch keeps it.
    Fresh,
    /// It is the last known state.
    Stale,
    /// Its source says that it does not exist.
    Absent,
    /// It is not known yet.
    Unknown,
}

/// The name of a source in an answer: a token of RFC 9651.
pub(crate) fn source_name(source: Source) -> &'static str {
    match source {
        Source::LiveRead => "live-read",
        Source::ApiServerCache => "api-server-cache",
        Source::Watch => "watch",
        Source::Manifest => "manifest",
        Source::Runtime => "runtime",
    }
}

impl Freshness {
    /// Of an object that is not known yet.
    pub(crate) fn unknown(reason: String) -> Self {
        Self {
            state: FreshnessState::Unknown,
            confirmed_at: None,
            age_seconds: None,
            source: None,
            ttl_seconds: None,
            stale_since: None,
            reason: Some(reason),
        }
    }

    /// The freshness from the caches, in wall time.
    pub(crate) fn of(clock: NodeClock<'_>, freshness: &larder_objects::Freshness, why: Option<&str>) -> Self {
        let (state, stale_since, reason) = match &freshness.state {
            FreshState::Fresh => (FreshnessState::Fresh, None, None),
            FreshState::Stale { since, reason } => (
                FreshnessState::Stale,
                clock.wall_time(*since),
                Some(why.map_or_else(|| reason.to_string(), str::to_owned)),
            ),
        };
        Self {
            state,
            confirmed_at: clock.wall_time(freshness.confirmed_at),
            age_seconds: Some(freshness.age(clock.now()).as_secs_f64()),
            source: Some(source_name(freshness.source).to_owned()),
            ttl_seconds: freshness.expires_at().map(|at| seconds_until(clock, at)),
            stale_since,
            reason,
        }
    }

    pub(crate) fn of_answer<T>(clock: NodeClock<'_>, answer: &Answer<T>) -> Self {
        Self::of(clock, &answer.freshness, answer.why.as_deref())
    }
}

/// Seconds from now to a time, negative if the time has passed.
pub(crate) fn seconds_until(clock: NodeClock<'_>, until: larder_clock::Timestamp) -> f64 {
    let now = clock.now();
    if until >= now {
        until.saturating_duration_since(now).as_secs_f64()
    } else {
        -now.saturating_duration_since(until).as_secs_f64()
    }
}

/// `/larder/v1/objects/{kind}`: the state of each object of a kind, without its data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ObjectEntries {
    /// The kind, in the plural of paths.
    pub kind: String,
    /// The objects, ordered by namespace and name.
    pub items: Vec<ObjectEntry>,
}

/// The state of an object, without its data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ObjectEntry {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its metadata; none if it is absent or not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectMeta>,
    /// How fresh this is.
    pub freshness: Freshness,
}

/// An object's metadata, and the shape of its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ObjectMeta {
    /// Its UID.
    pub uid: String,
    /// Its resourceVersion.
    pub resource_version: String,
    /// A Secret's type; empty for a ConfigMap.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub type_: String,
    /// How many entries its data has.
    pub data: u32,
    /// Whether it is immutable.
    #[serde(default)]
    pub immutable: bool,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// When it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
}

impl ObjectMeta {
    pub(crate) fn of(object: &larder_resource::KubeObject) -> Self {
        Self {
            uid: object.uid().to_owned(),
            resource_version: object.resource_version().to_owned(),
            type_: object.type_().to_owned(),
            data: object.entries(),
            immutable: object.is_immutable(),
            labels: object.labels().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            created_at: object.created_at().and_then(|seconds| Timestamp::from_second(seconds).ok()),
        }
    }
}

/// `/larder/v1/pods/{uid}/status`: a pod, as the container runtime reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PodStatusAnswer {
    /// The pod's UID in the runtime.
    pub uid: String,
    /// The pod's namespace, if it is known.
    #[serde(default)]
    pub namespace: String,
    /// The pod's name, if it is known.
    #[serde(default)]
    pub name: String,
    /// The status; none if no inspection of the pod has succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<PodStatus>,
    /// Why the last inspection of the pod failed, if it did. The status is older than the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the status was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_at: Option<Timestamp>,
    /// The status is at least as new as this time. It ends every wait for an older time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Timestamp>,
    /// How fresh it is.
    pub freshness: Freshness,
    /// The state of the runtime.
    pub runtime: RuntimeState,
}

/// The state of the runtime.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RuntimeState {
    /// Its state.
    pub state: SourceState,
    /// When larder last listed all its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_relist: Option<Timestamp>,
    /// How long ago that was, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
    /// Why the last attempt failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `/larder/v1/pods`: every pod, as the container runtime reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PodStatusAnswers {
    /// The pods, ordered by namespace and name.
    pub items: Vec<PodStatusAnswer>,
    /// The state of the runtime.
    pub runtime: RuntimeState,
}

/// `/larder/v1/whois`: whose a process, a container's ID or a cgroup is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WhoisAnswer {
    /// Where it runs.
    pub scope: WhoisScope,
    /// The ID of the container or sandbox, without the runtime's name in front; none on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The container as the runtime has it; none on the host and for a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerStatus>,
    /// The pod; none on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<WhoisPod>,
    /// How fresh the runtime's part of this is; none on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freshness: Option<Freshness>,
}

/// Where a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum WhoisScope {
    /// In a container of a pod.
    Container,
    /// In the sandbox of a pod, beside its containers.
    Sandbox,
    /// On the host, in no pod.
    Host,
}

/// The pod that a process belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct WhoisPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID in the API; the runtime's if the source of the pods does not have the pod.
    pub uid: String,
    /// The UID that the runtime has, if that is another one: the pod is static.
    #[serde(rename = "runtimeUID", skip_serializing_if = "Option::is_none")]
    pub runtime_uid: Option<String>,
    /// Its service account; empty if the source of the pods does not have the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_account_name: String,
    /// What manages it: the owner reference with `controller: true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
}

/// The object that manages a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Owner {
    /// Its group and version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// A line of `/larder/v1/events`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
#[non_exhaustive]
pub enum EventLine {
    /// Something happened.
    Event {
        /// What.
        #[serde(flatten)]
        event: LifecycleEvent,
    },
    /// The client was too slow and missed events. The state of every pod follows, and then [`Synced`](Self::Synced).
    Gap {
        /// How many.
        missed: u64,
    },
    /// The state of a pod, after a gap, or at the beginning if the client asked for it (`sync=true`).
    Pod {
        /// The pod.
        pod: Box<PodStatusAnswer>,
    },
    /// All pods have been sent, and events follow. A pod that was not among them is gone.
    Synced,
    /// A line that this version does not know.
    #[serde(other)]
    Unknown,
}

/// What happened to a container or a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LifecycleEvent {
    /// What happened, as the kubelet calls it: `ContainerStarted`, `ContainerDied`, `ContainerRemoved`, `PodSync`.
    pub kind: String,
    /// When the list began that showed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The pod's UID in the runtime.
    pub uid: String,
    /// The pod's namespace.
    #[serde(default)]
    pub namespace: String,
    /// The pod's name.
    #[serde(default)]
    pub name: String,
    /// The ID of the container or sandbox in the runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_id: Option<String>,
    /// The container's name; none for a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Its exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

impl LifecycleEvent {
    pub(crate) fn of(event: &larder_pleg::PodLifecycleEvent, at: Option<Timestamp>) -> Self {
        Self {
            kind: event.kind.as_str().to_owned(),
            at,
            uid: event.uid.to_string(),
            namespace: event.namespace.clone(),
            name: event.name.clone(),
            container_id: event.container_id.clone(),
            container: event.container_name.clone().filter(|name| !name.is_empty()),
            exit_code: event.exit_code,
        }
    }
}
