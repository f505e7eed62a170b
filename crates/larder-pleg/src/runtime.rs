//! What the PLEG asks of a container runtime.

use crate::error::RuntimeError;
use crate::pod::{RuntimeContainer, RuntimePod};
use crate::status::{ContainerStatus, PodStatus};
use larder_pod_status::PodUid;
use std::future::Future;

/// A container runtime, as far as its pods are read.
///
/// Every future that these methods give can be dropped at any point, and then leaves nothing behind. Each is to end within
/// a deadline of the implementation's own: the PLEG waits for it as long as it takes.
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

    /// The status of a pod as it was listed, the containers and sandboxes that have gone since left out.
    ///
    /// # Errors
    ///
    /// If the status of a container or a sandbox that is still there cannot be had.
    fn pod_status(&self, pod: &RuntimePod) -> impl Future<Output = Result<PodStatus, RuntimeError>> + Send;

    /// As [`pod_status`](Self::pod_status), for whoever knows the status that the pod had when it was listed as `before`:
    /// what cannot have changed since need not be asked for again. By default, all of it is asked for.
    ///
    /// # Errors
    ///
    /// As [`pod_status`](Self::pod_status).
    fn pod_status_since(
        &self,
        pod: &RuntimePod,
        before: &RuntimePod,
        status: &PodStatus,
    ) -> impl Future<Output = Result<PodStatus, RuntimeError>> + Send {
        let _ = (before, status);
        self.pod_status(pod)
    }

    /// The status of one container of a pod, or `None` if it is gone, or cannot be had on its own, which is the default.
    ///
    /// The PLEG asks for it beside the list of a pod of which the runtime says that this container has changed, so that a
    /// [`pod_status_since`](Self::pod_status_since) after the list need not.
    ///
    /// # Errors
    ///
    /// As [`pod_status`](Self::pod_status).
    fn container_status(
        &self,
        pod: &RuntimePod,
        container: &RuntimeContainer,
    ) -> impl Future<Output = Result<Option<ContainerStatus>, RuntimeError>> + Send {
        let _ = (pod, container);
        std::future::ready(Ok(None))
    }
}
