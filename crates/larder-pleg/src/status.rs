//! The status of a pod as an inspection of the runtime gives it, and its form on the wire.
//!
//! On the wire, names are in camel case, times are RFC 3339 with nanoseconds in UTC (left out where not set), container
//! identifiers have the runtime's name in front (`containerd://…`), and hashes are in hexadecimal. A reader ignores what
//! it does not know and takes what is missing as not set.
//!
//! # Example
//!
//! ```
//! use larder_pleg::{ContainerId, ContainerState, ContainerStatus, PodStatus};
//!
//! let mut status = PodStatus::new("uid-1".into(), "default", "web");
//! status.containers.push(ContainerStatus {
//!     id: ContainerId::new("containerd", "4f5e"),
//!     name: "app".into(),
//!     state: ContainerState::Exited,
//!     finished_at: 1_700_000_000_000_000_001,
//!     exit_code: 3,
//!     ..ContainerStatus::default()
//! });
//! let json = serde_json::to_value(&status).unwrap();
//! assert_eq!(json["containers"][0]["id"], "containerd://4f5e");
//! assert_eq!(json["containers"][0]["finishedAt"], "2023-11-14T22:13:20.000000001Z");
//! assert_eq!(serde_json::from_value::<PodStatus>(json).unwrap(), status);
//! ```

use crate::pod::ContainerState;
use crate::wire;
use larder_pod_status::PodUid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What the runtime says of a pod: its addresses, its sandboxes and its containers, exited ones included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// The UID that the runtime knows the pod by.
    pub uid: PodUid,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's addresses, the primary one first: those of its newest sandbox if that is ready, or the last known ones
    /// if no sandbox is ready any more. None for a pod on the host's network.
    #[serde(default)]
    pub ips: Vec<String>,
    /// The newest sandbox, if it is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_sandbox_id: Option<String>,
    /// Its sandboxes, the one of the highest attempt first.
    #[serde(default)]
    pub sandboxes: Vec<SandboxStatus>,
    /// Its containers, newest first: a container that was restarted is here once for each of its lives that the runtime
    /// still keeps.
    #[serde(default)]
    pub containers: Vec<ContainerStatus>,
}

impl PodStatus {
    /// The status of a pod without sandboxes and containers.
    ///
    /// ```
    /// let status = larder_pleg::PodStatus::new("uid-1".into(), "default", "web");
    /// assert!(status.containers.is_empty());
    /// ```
    pub fn new(uid: PodUid, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            uid,
            namespace: namespace.into(),
            name: name.into(),
            ips: Vec::new(),
            active_sandbox_id: None,
            sandboxes: Vec::new(),
            containers: Vec::new(),
        }
    }

    /// The containers of the sandbox that is in use; none if no sandbox is ready.
    ///
    /// ```
    /// # use larder_pleg::{ContainerStatus, PodStatus};
    /// let mut status = PodStatus::new("uid-1".into(), "default", "web");
    /// status.active_sandbox_id = Some("s2".into());
    /// for sandbox_id in ["s2", "s1"] {
    ///     status.containers.push(ContainerStatus { sandbox_id: sandbox_id.into(), ..Default::default() });
    /// }
    /// assert_eq!(status.active_containers().count(), 1);
    /// ```
    pub fn active_containers(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.containers.iter().filter(|container| Some(&container.sandbox_id) == self.active_sandbox_id.as_ref())
    }

    /// The newest life of the container of that name.
    ///
    /// ```
    /// # use larder_pleg::{ContainerStatus, PodStatus};
    /// let mut status = PodStatus::new("uid-1".into(), "default", "web");
    /// for restart_count in [1, 0] {
    ///     status.containers.push(ContainerStatus { name: "app".into(), restart_count, ..Default::default() });
    /// }
    /// assert_eq!(status.container("app").unwrap().restart_count, 1);
    /// ```
    pub fn container(&self, name: &str) -> Option<&ContainerStatus> {
        self.containers.iter().find(|container| container.name == name)
    }
}

/// What the runtime says of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// The runtime's name and its identifier of the container.
    pub id: ContainerId,
    /// The container's name in its pod.
    pub name: String,
    /// The sandbox that it belongs to.
    pub sandbox_id: String,
    /// What it is doing.
    pub state: ContainerState,
    /// When it was created, in nanoseconds since the Unix epoch; 0 if not set.
    #[serde(with = "wire::time", skip_serializing_if = "wire::time::is_unset")]
    pub created_at: i64,
    /// When it was started, in nanoseconds since the Unix epoch; 0 if it was not.
    #[serde(with = "wire::time", skip_serializing_if = "wire::time::is_unset")]
    pub started_at: i64,
    /// When it ended, in nanoseconds since the Unix epoch; 0 if it has not.
    #[serde(with = "wire::time", skip_serializing_if = "wire::time::is_unset")]
    pub finished_at: i64,
    /// What it exited with; 0 while it has not.
    pub exit_code: i32,
    /// Why it is in that state, in a word (`OOMKilled`, `Error`, `Completed`); only of one that has exited.
    pub reason: String,
    /// The runtime's message about it; only of one that has exited. What the container itself left in its termination
    /// message file is not in it.
    pub message: String,
    /// How many times it has been restarted, as the kubelet counted when it created it.
    pub restart_count: u32,
    /// The image as the pod asked for it.
    pub image: String,
    /// The runtime's identifier of the image.
    pub image_id: String,
    /// The image's reference with its digest: the `imageID` of a pod's status in the Kubernetes API.
    pub image_ref: String,
    /// The handler that the image was pulled for, if it is not the runtime's default.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image_runtime_handler: String,
    /// The hash of the container's specification that the kubelet left with it; 0 if there is none.
    #[serde(with = "wire::hash", skip_serializing_if = "wire::hash::is_unset")]
    pub hash: u64,
    /// The file on the node that its output goes to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub log_path: String,
}

/// What the runtime says of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxStatus {
    /// The runtime's identifier of the sandbox, without the runtime's name in front.
    pub id: String,
    /// How many sandboxes the pod had before.
    pub attempt: u32,
    /// Whether it is ready.
    pub state: SandboxState,
    /// When it was created, in nanoseconds since the Unix epoch; 0 if not set.
    #[serde(with = "wire::time", skip_serializing_if = "wire::time::is_unset")]
    pub created_at: i64,
    /// Its addresses as the runtime gives them, the primary one first; none on the host's network.
    pub ips: Vec<String>,
    /// Whether it is on the host's network.
    pub host_network: bool,
    /// The runtime handler that it runs under, if it is not the runtime's default.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runtime_handler: String,
    /// The labels and annotations of a static pod, which the API server may not have. Not set for other pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub static_pod: Option<Box<PodMetadata>>,
}

/// The labels and annotations of a pod, as the kubelet left them with its sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodMetadata {
    /// The labels, without those of the kubelet.
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
}

/// Whether a sandbox is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SandboxState {
    /// Ready: containers run in it.
    Ready,
    /// Not ready: stopped, or not started.
    NotReady,
    /// The runtime gives a state that this version does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

impl SandboxState {
    /// The state's name on the wire.
    ///
    /// ```
    /// assert_eq!(larder_pleg::SandboxState::NotReady.as_str(), "notReady");
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::NotReady => "notReady",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for SandboxState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A container's identifier with the name of the runtime that it is of, written `containerd://4f5e…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerId {
    /// The runtime's name, as it gives it itself (`containerd`, `cri-o`); empty if not known.
    pub runtime: String,
    /// The runtime's own identifier.
    pub id: String,
}

impl ContainerId {
    /// The identifier of a container of a runtime.
    ///
    /// ```
    /// assert_eq!(larder_pleg::ContainerId::new("cri-o", "ab").to_string(), "cri-o://ab");
    /// ```
    pub fn new(runtime: impl Into<String>, id: impl Into<String>) -> Self {
        Self { runtime: runtime.into(), id: id.into() }
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.runtime.is_empty() { f.write_str(&self.id) } else { write!(f, "{}://{}", self.runtime, self.id) }
    }
}

impl From<&str> for ContainerId {
    /// Reads what [`Display`](fmt::Display) writes; without `://`, all of it is the identifier.
    ///
    /// ```
    /// use larder_pleg::ContainerId;
    /// assert_eq!(ContainerId::from("containerd://4f5e"), ContainerId::new("containerd", "4f5e"));
    /// assert_eq!(ContainerId::from("4f5e"), ContainerId::new("", "4f5e"));
    /// ```
    fn from(text: &str) -> Self {
        match text.split_once("://") {
            Some((runtime, id)) => Self::new(runtime, id),
            None => Self::new("", text),
        }
    }
}

impl Serialize for ContainerId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ContainerId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Ok(Self::from(&*text))
    }
}

#[cfg(test)]
mod tests;
