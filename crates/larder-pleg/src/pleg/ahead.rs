//! The state of a container in its pod's entry before the pod has been listed.
//!
//! The container of an event is asked for as soon as the event arrives, whatever lists are under way and however long they
//! take. If it has moved on, its status is put into the pod's entry. The entry keeps the time as of which all of the pod is
//! known: a wait for a change ends, a wait for something newer waits for the list.
//!
//! # Guarantees
//!
//! - *Only forward.* A container is created, runs and exits, and does not come back: what is written is later in that order
//!   than what the entry says, whenever the runtime was asked.
//! - *Nothing is written that an inspection would take back.* While the pod is being inspected, or has an error, the
//!   inspection tells.
//! - *A list confirms it.* A list that began after the write and says something else has all of the pod inspected. One that
//!   began before says nothing against it, and the pod is listed again.

use super::Pleg;
use super::apart::Work;
use crate::pod::{ContainerState, RuntimePod};
use crate::queue::{Asked, Hint};
use crate::runtime::Runtime;
use crate::status::{ContainerStatus, PodStatus};
use futures_util::future::FutureExt;
use larder_clock::{Clock, Timestamp};
use larder_pod_status::PodUid;
use std::sync::Arc;

/// A container whose status is in its pod's entry ahead of the list.
pub(super) struct Ahead {
    id: String,
    state: ContainerState,
    /// When it was written.
    at: Timestamp,
    /// When the event arrived that it answers.
    event: Timestamp,
}

impl Ahead {
    fn is_confirmed_by(&self, pod: Option<&RuntimePod>) -> bool {
        pod.is_some_and(|pod| {
            pod.containers.iter().any(|container| container.id == self.id && container.state == self.state)
        })
    }
}

impl Work<'_> {
    /// Whether all that was asked of the pod was one event, whose container is in the entry already.
    pub(super) fn is_answered_ahead(&self, uid: &PodUid, asked: &Asked) -> bool {
        asked.event == Some(asked.last)
            && self.ahead.get(uid).is_some_and(|all| all.iter().any(|ahead| ahead.event == asked.last))
    }
}

impl<R: Runtime, C: Clock> Pleg<R, C> {
    /// Asks for the status of the container that an event says has changed, if it is one of the pod's.
    pub(super) fn ask_early<'p>(&'p self, work: &mut Work<'p>, hint: Hint) {
        let Some(pod) = self.records.lock().listed(&hint.pod) else { return };
        let Some(container) = pod.containers.iter().find(|container| container.id == hint.container).cloned() else {
            return;
        };
        // If it cannot be had, the inspection will tell.
        let early = async move { self.runtime.container_status(&pod, &container).await.ok().flatten() };
        let early = early.boxed().shared();
        work.early.insert(hint.pod.clone(), (hint.at, early.clone()));
        work.asking.push(early.map(|status| (hint, status)).boxed());
    }

    /// Puts the status of a container into its pod's entry, if it is news. The entry is then as of the time that all of the
    /// pod was known at last, and no newer.
    pub(super) fn write_ahead(&self, work: &mut Work<'_>, hint: &Hint, early: &ContainerStatus) {
        let uid = &hint.pod;
        // What is to come of an inspection may be older than the container's status.
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
        self.observer.event_answered(now.saturating_duration_since(hint.at));
        let ahead = Ahead { id: early.id.id.clone(), state: early.state, at: now, event: hint.at };
        work.ahead.entry(uid.clone()).or_default().push(ahead);
    }

    /// Compares what is ahead of the list of a pod with that list, which began then.
    pub(super) fn check_ahead(&self, work: &mut Work<'_>, uid: &PodUid, pod: Option<&RuntimePod>, began: Timestamp) {
        let Some(all) = work.ahead.remove(uid) else { return };
        let open: Vec<_> = all.into_iter().filter(|ahead| !ahead.is_confirmed_by(pod)).collect();
        if open.iter().any(|ahead| ahead.at <= began) {
            // Whichever is true is found out by looking at all of the pod.
            self.records.lock().request(uid);
        } else if !open.is_empty() {
            // The list may have been made before the container changed.
            self.queue.push(uid.clone(), self.clock.now());
            work.ahead.insert(uid.clone(), open);
        }
    }

    /// The same with a list of all pods.
    pub(super) fn check_ahead_of_all(&self, work: &mut Work<'_>, pods: &[RuntimePod], began: Timestamp) {
        if work.ahead.is_empty() {
            return;
        }
        let uids: Vec<PodUid> = work.ahead.keys().cloned().collect();
        for uid in uids {
            self.check_ahead(work, &uid, pods.iter().find(|pod| pod.uid == uid), began);
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
