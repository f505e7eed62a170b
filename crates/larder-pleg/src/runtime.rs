//! The calls that the PLEG makes to a container runtime.

use crate::error::RuntimeError;
use crate::pod::{RuntimeContainer, RuntimePod};
use crate::status::{ContainerStatus, PodStatus};
use larder_pod_status::PodUid;
use std::future::Future;

/// A container runtime, as far as its pods are read.
///
/// Every future that these methods give can be dropped at any point, and then leaves nothing behind. Each is to end within
/// a deadline of the implementation's own: the PLEG waits for it as long as it takes.
///
/// No method has a default, so that a runtime that wraps another hands on each of them.
pub trait Runtime: Send + Sync + 'static {
    /// All pods of which the runtime has anything left, exited ones included, the newest first.
    ///
    /// # Errors
    ///
    /// If the runtime could not be asked or did not answer; then nothing is known, rather than that there are no pods.
    fn pods(&self) -> impl Future<Output = Result<Vec<RuntimePod>, RuntimeError>> + Send;

    /// One pod, or `None` if the runtime has nothing left of it.
    ///
    /// # Errors
    ///
    /// As [`pods`](Self::pods).
    fn pod(&self, uid: &PodUid) -> impl Future<Output = Result<Option<RuntimePod>, RuntimeError>> + Send;

    /// The status of a pod as it was listed, without the containers and sandboxes that have gone since.
    ///
    /// With `known`, the runtime need not be asked again for what cannot have changed since that listing.
    ///
    /// # Errors
    ///
    /// If the status of a container or a sandbox that is still there cannot be had.
    fn pod_status(
        &self,
        pod: &RuntimePod,
        known: Option<KnownPod<'_>>,
    ) -> impl Future<Output = Result<PodStatus, RuntimeError>> + Send;

    /// The status of one container of a pod, or `None` if it is gone, or if the runtime cannot be asked for it alone.
    ///
    /// The PLEG asks for it when an event says that the container has changed, beside the list of its pod.
    ///
    /// # Errors
    ///
    /// As [`pod_status`](Self::pod_status).
    fn container_status(
        &self,
        pod: &RuntimePod,
        container: &RuntimeContainer,
    ) -> impl Future<Output = Result<Option<ContainerStatus>, RuntimeError>> + Send;
}

/// A pod as it was listed before, and the status that it had then.
#[derive(Clone, Copy, Debug)]
pub struct KnownPod<'a> {
    /// The pod as it was listed.
    pub pod: &'a RuntimePod,
    /// Its status at that listing.
    pub status: &'a PodStatus,
}
