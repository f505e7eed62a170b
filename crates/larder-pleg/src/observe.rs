//! What the PLEG counts ([`PlegStats`]) and measures ([`PlegObserver`]), for a caller that exports metrics.

use crate::pod::{ContainerState, RuntimePod};
use crate::queue::RelistQueue;
use larder_clock::Timestamp;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Receives each measurement as it is made. Its methods are called between calls to the runtime, and are not to wait.
///
/// No method has a default, so that an observer that wraps another hands on each measurement.
pub trait PlegObserver: Send + Sync + 'static {
    /// A relist of all pods ended, with or without success (`pleg_relist_duration_seconds`).
    fn relist_duration(&self, duration: Duration);

    /// A relist began so long after the last successful one did (`pleg_relist_interval_seconds`).
    fn relist_interval(&self, interval: Duration);

    /// A relist of a single pod ended, with or without success (`pleg_pod_relist_duration_seconds`).
    fn pod_relist_duration(&self, duration: Duration);

    /// The inspection of a pod ended.
    fn inspection_duration(&self, duration: Duration, succeeded: bool);

    /// A pod is up to date, and its waits are answered, so long after the runtime's event arrived that asked for it.
    fn event_answered(&self, duration: Duration);
}

/// Observes nothing.
impl PlegObserver for () {
    fn relist_duration(&self, _: Duration) {}

    fn relist_interval(&self, _: Duration) {}

    fn pod_relist_duration(&self, _: Duration) {}

    fn inspection_duration(&self, _: Duration, _: bool) {}

    fn event_answered(&self, _: Duration) {}
}

/// Counts since the PLEG was made, and what its last listing had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlegStats {
    /// Relists of all pods whose listing succeeded.
    pub relists: u64,
    /// Relists of all pods whose listing failed.
    pub relists_failed: u64,
    /// Relists of a single pod that the runtime answered.
    pub pod_relists: u64,
    /// Relists of a single pod that failed.
    pub pod_relists_failed: u64,
    /// Requests for a single pod that a relist of all pods had served by their turn.
    pub pod_relists_skipped: u64,
    /// Requests for a single pod that found the queue full, and so asked for a relist of all.
    pub queue_overflows: u64,
    /// Pods that wait for a relist of their own.
    pub queue_depth: usize,
    /// Inspections that succeeded.
    pub inspections: u64,
    /// Inspections that failed.
    pub inspections_failed: u64,
    /// Events that subscribers missed, as far as they have noticed.
    pub events_discarded: u64,
    /// Events of the runtime that arrived.
    pub runtime_events: u64,
    /// Of those, the ones that did not say which pod they are of; its pod was looked up, or all pods were relisted.
    pub runtime_events_without_pod: u64,
    /// Times that the runtime's event stream was opened.
    pub event_streams_opened: u64,
    /// Times that it was lost, each of which asked for a relist of all pods: a gap.
    pub event_streams_lost: u64,
    /// Whether the runtime's event stream is open.
    pub event_stream_open: bool,
    /// Whether the runtime was last found to send no events, so that its changes are seen by relists only.
    pub event_stream_unsupported: bool,
    /// Pods that wait for their inspection or are being inspected, with
    /// [`independent_pods`](crate::PlegOptions::independent_pods).
    pub inspections_open: u64,
    /// Pods whose inspection failed and is tried again after a pause.
    pub inspections_held: u64,
    /// When the last successful relist of all pods began, on the PLEG's clock.
    pub last_seen: Option<Timestamp>,
    /// Pods with a running sandbox.
    pub running_pods: u64,
    containers: [u64; ContainerState::ALL.len()],
}

impl PlegStats {
    /// Containers in that state, sandboxes not counted.
    ///
    /// ```
    /// # use larder_pleg::{ContainerState, PlegStats};
    /// assert_eq!(PlegStats::default().containers(ContainerState::Running), 0);
    /// ```
    pub fn containers(&self, state: ContainerState) -> u64 {
        self.containers[index(state)]
    }
}

const fn index(state: ContainerState) -> usize {
    match state {
        ContainerState::Created => 0,
        ContainerState::Running => 1,
        ContainerState::Exited => 2,
        ContainerState::Unknown => 3,
    }
}

/// Plain counts: relaxed throughout, as nothing is read on the strength of them.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) relists: Count,
    pub(crate) relists_failed: Count,
    pub(crate) pod_relists: Count,
    pub(crate) pod_relists_failed: Count,
    pub(crate) pod_relists_skipped: Count,
    pub(crate) inspections: Count,
    pub(crate) inspections_failed: Count,
    pub(crate) runtime_events: Count,
    pub(crate) runtime_events_without_pod: Count,
    pub(crate) event_streams_opened: Count,
    pub(crate) event_streams_lost: Count,
    pub(crate) event_stream_open: AtomicBool,
    pub(crate) event_stream_unsupported: AtomicBool,
    pub(crate) inspections_open: AtomicU64,
    pub(crate) inspections_held: AtomicU64,
    /// Shared with the subscribers, who notice what they missed.
    pub(crate) events_discarded: Arc<AtomicU64>,
    running_pods: AtomicU64,
    containers: [AtomicU64; ContainerState::ALL.len()],
}

#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl Counters {
    /// Counts what a listing of all pods has. A state that no container is in any more goes back to 0.
    pub(crate) fn listed(&self, pods: &[RuntimePod]) {
        let mut containers = [0; ContainerState::ALL.len()];
        let mut running_pods = 0;
        for pod in pods {
            for container in &pod.containers {
                containers[index(container.state)] += 1;
            }
            running_pods += u64::from(pod.sandboxes.iter().any(|sandbox| sandbox.state == ContainerState::Running));
        }
        self.running_pods.store(running_pods, Ordering::Relaxed);
        for (gauge, count) in self.containers.iter().zip(containers) {
            gauge.store(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn snapshot(&self, last_seen: Option<Timestamp>, queue: &RelistQueue) -> PlegStats {
        PlegStats {
            relists: self.relists.get(),
            relists_failed: self.relists_failed.get(),
            pod_relists: self.pod_relists.get(),
            pod_relists_failed: self.pod_relists_failed.get(),
            pod_relists_skipped: self.pod_relists_skipped.get(),
            queue_overflows: queue.overflows(),
            queue_depth: queue.len(),
            inspections: self.inspections.get(),
            inspections_failed: self.inspections_failed.get(),
            events_discarded: self.events_discarded.load(Ordering::Relaxed),
            runtime_events: self.runtime_events.get(),
            runtime_events_without_pod: self.runtime_events_without_pod.get(),
            event_streams_opened: self.event_streams_opened.get(),
            event_streams_lost: self.event_streams_lost.get(),
            event_stream_open: self.event_stream_open.load(Ordering::Relaxed),
            event_stream_unsupported: self.event_stream_unsupported.load(Ordering::Relaxed)
                && !self.event_stream_open.load(Ordering::Relaxed),
            inspections_open: self.inspections_open.load(Ordering::Relaxed),
            inspections_held: self.inspections_held.load(Ordering::Relaxed),
            last_seen,
            running_pods: self.running_pods.load(Ordering::Relaxed),
            containers: std::array::from_fn(|at| self.containers[at].load(Ordering::Relaxed)),
        }
    }
}
