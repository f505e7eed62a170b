#![doc(test(attr(deny(warnings))))]
//! One node's larder: it connects the sources to the caches, and applies the daemon's policies.
//!
//! ```text
//! API server or manifests ──► pods ──► registrar ──────┐
//!        │           └─────► node ──► TTL of objects ────┤
//!        └─ Secrets, ConfigMaps, namespaces ──► object caches ──┐
//! container runtime ──► PLEG ──► pod status cache ──────────────┴──► `Node` ──► larder-server
//! ```
//!
//! A [`Node`] starts the sources and the tasks, and owns them. larder-server reads through it. Pods flow from their source to
//! the registrar, which registers each pod with the object cache of each kind. A read of an object goes from the [`Node`] to
//! the cache of its kind. That cache asks its store, and the store fetches from the API server or from the manifests, or
//! watches there.
//!
//! larder-objects decides which objects may be read, how long they are fresh, and what to keep of them. larder-pleg decides when
//! to ask the container runtime. This crate decides the rest of what a daemon does: deadlines, the backoff of fetches, and reads in
//! flight for pods that are deleted. Objects from manifests have a TTL of 0: each read looks into the manifests, which are in memory.
//!
//! # Where to change what
//!
//! | | |
//! | --- | --- |
//! | a setting, and its check | `config` |
//! | which sources and tasks run, and what a read of the node returns | `node`; `answer` and `error` are its results |
//! | whether a read asks the store, and until when it waits | `objects`; `fetch_log` records the failures of fetches and computes their backoff, `reflector_log` records the failures of watches |
//! | which namespaces are read, and when | `namespaces` |
//! | how long an object is fresh, and what is last known of it | larder-objects, whose store `objects` asks |
//! | how long a pod's objects are held | `registrar` follows the pods; `objects/pod_reads` holds the objects of a deleted pod until the reads for it are answered |
//! | lists of all objects, prefetches, watches that nobody needs | `objects/inventory` |
//! | what watches of the Kubernetes API see | `objects/view` |
//! | the API server's version and schemas | `documents` |
//! | the choice between API server and manifests | `node/sources` opens the one of the settings; `source` passes calls on to it |
//! | requests of others to the API server | `node/pass_through`; larder-kube has the connections |
//! | whose a process or cgroup is | `whois`; larder-identity reads cgroups |
//! | pods as this node knows them, and their journal | `pods`, `node/node_pods`; larder-pods decides what is newer |
//! | container status | `runtime`; larder-cri finds the runtime's socket |
//! | how tasks end, and which are reported | `tasks` |
//! | status, probes and metrics | `report`, `node/status`, `node/gauges`, `metrics` |
//!
//! # Guarantees
//!
//! - *Only what is referenced*: a read of an object that no pod of this node refers to is an error that names the object.
//! - *Absent is not unknown*: [`ReadError::NotFound`] means that the source says so. Until the source has answered, a read is
//!   [`ReadError::Unknown`].
//! - *Outage*: an object that was read once stays readable, with its age and the reason why it is stale, unless the policy
//!   `keep_last_known` is off. No task ends because a
//!   source fails.
//! - *Owned*: every task ends with [`Node::stop`], which waits for it. A task that ends earlier is reported.
//!
//! # Limits
//!
//! Nothing is kept on disk: larder starts empty.
//!
//! # Cancel safety
//!
//! Every read can be dropped at any time.
//!
//! # Locks
//!
//! None is held over an `.await`. The order is: the pod reads of `objects`, then the fetch log or the locks of larder-objects.
//! larder-kube reports signs of life and failures under a lock of its own, which comes before the fetch log.

mod answer;
mod config;
mod documents;
mod error;
mod fetch_log;
mod metrics;
mod namespaces;
mod node;
mod objects;
mod pods;
mod reflector_log;
mod registrar;
mod report;
mod runtime;
mod source;
mod strategy;
mod tasks;
mod tokens;
mod whois;

use larder_clock::{MachineClocks, MonotonicClock, Timestamp};

pub use answer::Answer;
pub use config::{Cluster, Config, ConfigError, Policy, RuntimeEndpoint};
pub use documents::{FetchedDocument, ServerDocument};
pub use error::{ReadError, StartError};
pub use larder_identity::ProcessError;
pub use larder_kube::{PassError, PassThrough, PassedAnswer};
pub use larder_objects::Outcome;
pub use larder_resource::{ObjectKind, PerKind};
pub use node::{Node, PodList};
pub use objects::ObjectList;
pub use report::{
    ApiServerReport, Check, ContainerCounts, Counts, EveryName, Keeping, ListenReport, ObjectCounts, ObjectReport,
    PassThroughReport, PolicyReport, Report, ReportedNames, SourceReport, SourceState, TokenKeysReport,
    TokenReviewsReport,
};
pub use runtime::{PodStatusRead, WaitError};
pub use strategy::{ChangeDetection, Strategy, UnknownStrategy};
pub use tokens::{TokenCheckError, TokenOptions};
pub use whois::{Whois, WhoisError, WhoisPod, WhoisTarget};

/// The wall time of a timestamp; `None` if it is outside the calendar's range.
fn wall_time(clock: &MonotonicClock<impl MachineClocks>, at: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_nanosecond(clock.wall_time(at)).ok()
}
