#![doc(test(attr(deny(warnings))))]
//! The pod lifecycle event generator: relists the container runtime, keeps the pod status cache true to it, and tells
//! subscribers what changed.

mod error;
mod event;
mod health;
mod observe;
mod options;
mod pleg;
mod pod;
mod queue;
mod records;
mod runtime;
mod status;
mod wire;

pub use error::{PodName, RuntimeCall, RuntimeError};
pub use event::{Delivery, EventKind, EventReceiver, PodLifecycleEvent};
pub use health::Unhealthy;
pub use observe::{PlegObserver, PlegStats};
pub use options::{InvalidOption, PlegOptions};
pub use pleg::Pleg;
pub use pod::{ContainerState, RuntimeContainer, RuntimePod};
pub use runtime::Runtime;
pub use status::{ContainerId, ContainerStatus, PodStatus, SandboxState, SandboxStatus};
