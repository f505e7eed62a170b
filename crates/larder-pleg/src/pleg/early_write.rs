//! Writes the state of an event's container into its pod's entry before the pod has been listed.
//!
//! The container of an event is asked for as soon as the event arrives, whatever lists are in flight and however long they
//! take. If its state has advanced, its status goes into the pod's entry. The entry keeps the time as of which the whole pod is
//! known. So a wait for a change ends, and a wait for something newer waits for the list.
//!
//! # Guarantees
//!
//! - *Only forward.* A container is created, runs and exits, and never goes back. The state that is written is later in this
//!   order than the one in the entry, whenever the runtime was asked.
//! - *Nothing is written that an inspection would take back.* While the pod is being inspected, or its entry has an error, only
//!   the inspection writes.
//! - *A list confirms it.* If a list that began after the write shows another state, the whole pod is inspected. If a list that
//!   began before the write does, the pod is listed again.

use super::Pleg;
use super::independent_pods::Work;
use crate::pod::{ContainerState, RuntimePod};
use crate::queue::{Asked, EventTarget};
use crate::runtime::Runtime;
use crate::status::{ContainerStatus, PodStatus};
use futures_util::future::FutureExt;
use larder_clock::{Clock, Timestamp};
use larder_pod_status::PodUid;
use std::sync::Arc;

/// A container whose status was written into its pod's entry before a list showed it.
pub(super) struct EarlyWrite {
    id: String,
    state: ContainerState,
    /// When it was written.
    at: Timestamp,
    /// When the event arrived that it answers.
    event: Timestamp,
}

impl EarlyWrite {
    fn is_confirmed_by(&self, pod: Option<&RuntimePod>) -> bool {
        pod.is_some_and(|pod| {
            pod.containers.iter().any(|container| container.id == self.id && container.state == self.state)
        })
    }
}

impl Work<'_> {
    /// Whether the only request for the pod came from one event whose container was written early.
    pub(super) fn is_answered_early(&self, uid: &PodUid, asked: &Asked) -> bool {
        asked.event == Some(asked.last)
            && self.early_writes.get(uid).is_some_and(|all| all.iter().any(|write| write.event == asked.last))
    }
}

impl<R: Runtime, C: Clock> Pleg<R, C> {
    /// Asks for the status of the container that an event says has changed, if it is one of the pod's.
    pub(super) fn ask_early<'p>(&'p self, work: &mut Work<'p>, event: EventTarget) {
        let Some(pod) = self.records.lock().listed(&event.pod) else { return };
        let Some(container) = pod.containers.iter().find(|container| container.id == event.container).cloned() else {
            return;
        };
        // If the call fails, the inspection will show the state.
        let early = async move { self.runtime.container_status(&pod, &container).await.ok().flatten() };
        let early = early.boxed().shared();
        work.early.insert(event.pod.clone(), (event.at, early.clone()));
        work.asking.push(early.map(|status| (event, status)).boxed());
    }

    /// Puts the status of a container into its pod's entry, if it is news. The entry is then as of the time that all of the
    /// pod was known at last, and no newer.
    pub(super) fn write_early(&self, work: &mut Work<'_>, event: &EventTarget, early: &ContainerStatus) {
        let uid = &event.pod;
        // The inspection may have seen an older state of the container, and would take the write back.
        if work.is_behind(uid) {
            return;
        }
        let (entry, times) = self.reader.get_with_times(uid);
        let Some(status) = entry.status().filter(|_| entry.error().is_none()) else { return };
        let Some(at) = status.containers.iter().position(|known| known.id == early.id) else { return };
        if !comes_after(early.state, status.containers[at].state) {
            return;
        }
        let (Some(modified), Some(latest)) = (times.modified, times.latest()) else { return };
        let mut status = PodStatus::clone(status);
        status.containers[at] = early.clone();
        // The event came after that time: so much newer is what the runtime has said.
        self.writer.set(uid, Some(Arc::new(status)), None, modified.saturating_add_nanos(1).max(latest));
        // Fails only when nobody watches.
        let _ = self.writes.send(uid.clone());
        let now = self.clock.now();
        self.observer.event_answered(now.saturating_duration_since(event.at));
        let write = EarlyWrite { id: early.id.id.clone(), state: early.state, at: now, event: event.at };
        work.early_writes.entry(uid.clone()).or_default().push(write);
    }

    /// Compares the early writes of a pod with a list of the pod that began at `began`.
    pub(super) fn check_early_writes(
        &self,
        work: &mut Work<'_>,
        uid: &PodUid,
        pod: Option<&RuntimePod>,
        began: Timestamp,
    ) {
        let Some(all) = work.early_writes.remove(uid) else { return };
        let open: Vec<_> = all.into_iter().filter(|write| !write.is_confirmed_by(pod)).collect();
        if open.iter().any(|write| write.at <= began) {
            // An inspection of the whole pod decides which is true.
            self.records.lock().request(uid);
        } else if !open.is_empty() {
            // The runtime may have made the list before the container changed.
            self.queue.push(uid.clone(), self.clock.now());
            work.early_writes.insert(uid.clone(), open);
        }
    }

    /// Compares the early writes of all pods with a list of all pods.
    pub(super) fn check_all_early_writes(&self, work: &mut Work<'_>, pods: &[RuntimePod], began: Timestamp) {
        if work.early_writes.is_empty() {
            return;
        }
        let uids: Vec<PodUid> = work.early_writes.keys().cloned().collect();
        for uid in uids {
            self.check_early_writes(work, &uid, pods.iter().find(|pod| pod.uid == uid), began);
        }
    }
}

/// Whether a container that was in the one state can be in the other later on.
fn comes_after(state: ContainerState, before: ContainerState) -> bool {
    match before {
        ContainerState::Created => matches!(state, ContainerState::Running | ContainerState::Exited),
        ContainerState::Running => state == ContainerState::Exited,
        ContainerState::Exited | ContainerState::Unknown => false,
    }
}
