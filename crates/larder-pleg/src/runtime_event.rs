//! The events of the container runtime: a container or sandbox was created, started, stopped or removed.
//!
//! An event says which pod to look at. Its content is never used as the state of the pod.

use crate::error::RuntimeError;
use futures_util::Stream;
use larder_pod_status::PodUid;
use std::fmt;
use std::future::Future;

/// An event of the runtime. Its content is not believed; it only has its pod relisted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerEvent {
    /// What happened.
    pub kind: ContainerEventKind,
    /// The container or sandbox that it happened to, as the runtime names it.
    pub container_id: String,
    /// The pod, where the event says it.
    pub pod: Option<PodUid>,
    /// When it happened, as the runtime says, in nanoseconds since the Unix epoch; 0 if not set.
    pub created_at: i64,
}

/// What happened to a container or sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContainerEventKind {
    /// It was created.
    Created,
    /// It was started.
    Started,
    /// It ended.
    Stopped,
    /// It was removed.
    Deleted,
    /// Something that this version does not know.
    #[default]
    Unknown,
}

impl ContainerEventKind {
    /// The kind in a word.
    ///
    /// ```
    /// assert_eq!(larder_pleg::ContainerEventKind::Stopped.as_str(), "stopped");
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Started => "started",
            Self::Stopped => "stopped",
            Self::Deleted => "deleted",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for ContainerEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Where a runtime's events come from.
///
/// No method has a default, so that a source that wraps another hands on each of them.
pub trait EventSource: Send + Sync + 'static {
    /// A stream of the events from now on. It is opened with its first poll, and ends with its first error, or without
    /// one where the runtime ends it. It may take for ever until the first event; dropping the stream closes it.
    fn events(&self) -> impl Stream<Item = Result<ContainerEvent, RuntimeError>> + Send + '_;

    /// Ends when there is a new connection to the runtime, which may be another runtime by then, or another version of it. May
    /// never end.
    fn replaced(&self) -> impl Future<Output = ()> + Send;
}
