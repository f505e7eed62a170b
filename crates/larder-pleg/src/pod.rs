//! A pod as a listing of the container runtime shows it: its identity, and the state of each container and sandbox.

use larder_pod_status::PodUid;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A pod as the runtime lists it, with everything that is left of it, exited containers and sandboxes too.
///
/// This is what one relist compares with the next; what is served to readers is the [`PodStatus`](crate::PodStatus)
/// that an inspection of it gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimePod {
    /// The UID that the runtime knows the pod by. For a static pod that is the hash of its manifest, not the UID of its
    /// mirror pod.
    pub uid: PodUid,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// When its oldest sandbox was created, in nanoseconds since the Unix epoch; 0 if no sandbox is left.
    pub created_at: i64,
    /// Its containers, newest first.
    pub containers: Vec<RuntimeContainer>,
    /// Its sandboxes, the one of the highest attempt first.
    pub sandboxes: Vec<RuntimeContainer>,
}

impl RuntimePod {
    /// A pod of which nothing but its identity is known.
    ///
    /// ```
    /// use larder_pleg::RuntimePod;
    /// let pod = RuntimePod::new("uid-1".into(), "default", "web");
    /// assert!(pod.containers.is_empty() && pod.sandboxes.is_empty());
    /// ```
    pub fn new(uid: PodUid, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            uid,
            namespace: namespace.into(),
            name: name.into(),
            created_at: 0,
            containers: Vec::new(),
            sandboxes: Vec::new(),
        }
    }
}

/// A container or a sandbox as the runtime lists it: what two listings are compared by, and no more, for it is kept until the next.
/// The image and the rest are in the [`ContainerStatus`](crate::ContainerStatus).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeContainer {
    /// The runtime's own identifier, without the runtime's name in front.
    pub id: String,
    /// The container's name in its pod; empty for a sandbox.
    pub name: String,
    /// What it was doing when it was listed. A sandbox that is ready counts as running, one that is not as exited.
    pub state: ContainerState,
    /// The sandbox that it belongs to; for a sandbox, its own identifier.
    pub sandbox_id: String,
    /// How many attempts at creating it came before, as the runtime counts.
    pub attempt: u32,
    /// When it was created, in nanoseconds since the Unix epoch; 0 if the runtime does not say.
    pub created_at: i64,
}

/// What a container is doing.
///
/// A state that this version does not know reads as [`Unknown`](Self::Unknown).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContainerState {
    /// Created, not started yet.
    Created,
    /// Running.
    Running,
    /// Ran, and ended; or could not be started.
    Exited,
    /// None of the others, or the runtime does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

impl ContainerState {
    /// Every state, in the order of a container's life.
    pub const ALL: [Self; 4] = [Self::Created, Self::Running, Self::Exited, Self::Unknown];

    /// The state's name as metrics and the wire have it.
    ///
    /// ```
    /// assert_eq!(larder_pleg::ContainerState::Running.as_str(), "running");
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Exited => "exited",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for ContainerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
