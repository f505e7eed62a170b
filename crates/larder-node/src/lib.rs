#![doc(test(attr(deny(warnings))))]
//! One node's larder: sources, caches and policy wired together.
//!
//! ```text
//! API server or manifests ──► pods ──► registrar ──► object caches ──┐
//!                        └──► node (TTL) ─────────────►              ├──► Node ──► larder-server
//! container runtime ──► PLEG ──► pod status cache ───────────────────┘
//! ```
//!
//! # Where to change what
//!
//! | | |
//! | --- | --- |
//! | a setting, and the check of it | `config` |
//! | what is started, and what reads of a node give | `node`; `answer` and `error` for what they are |
//! | whether a read asks, waits, or gets what is held | `objects`; `fetch_log` and `reflector_log` for failures and their backoff |
//! | how long an object is fresh, and what is last known of it | `larder-objects`, whose store `objects` asks |
//! | when a pod's objects are held | `registrar` for pods, `objects/pod_reads` for reads |
//! | API server or manifests | `source` |
//! | container status | `runtime`, which `runtime/search` finds |
//! | status, probes and metrics | `report`, `node/status`, `node/gauges`, `metrics` |
//!
//! # Guarantees
//!
//! - *Only what is referenced*: an object that no pod of this node refers to is refused, by name.
//! - *Absent is not unknown*: [`ReadError::NotFound`] is the source's word; as long as there is none, it is
//!   [`ReadError::Unknown`].
//! - *Outage*: what was read once stays readable, with its age and why it is stale; nothing ends because a source does.
//! - *Owned*: every task ends with [`Node::stop`], which waits for it; one that ends before is reported.
//!
//! # Limits
//!
//! Nothing is kept on disk: a restart begins with nothing.
//!
//! # Cancel safety
//!
//! Every read can be dropped at any time.
//!
//! # Locks
//!
//! Each module's own, none held over an `.await`, and none taken while another module's is held.

mod answer;
mod config;
mod error;
mod fetch_log;
mod metrics;
mod node;
mod objects;
mod reflector_log;
mod registrar;
mod report;
mod runtime;
mod source;
mod strategy;
mod tasks;

use larder_clock::{MachineClocks, MonotonicClock, Timestamp};

pub use answer::Answer;
pub use config::{Cluster, Config, ConfigError, Policy, RuntimeEndpoint};
pub use error::{ReadError, StartError};
pub use larder_objects::Outcome;
pub use larder_resource::{ObjectKind, PerKind};
pub use node::{Node, PodList};
pub use objects::ObjectList;
pub use report::{
    ApiServerReport, Check, ContainerCounts, Counts, Keeping, ObjectCounts, ObjectReport, Report, SourceReport,
    SourceState,
};
pub use runtime::{PodStatusRead, WaitError};
pub use strategy::{ChangeDetection, Strategy, UnknownStrategy};

/// The wall time of a timestamp; `None` where a calendar cannot hold it.
fn wall_time(clock: &MonotonicClock<impl MachineClocks>, at: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_nanosecond(clock.wall_time(at)).ok()
}
