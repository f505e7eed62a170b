//! The container runtime of this node: discovered, relisted, and read through the pod status cache.
//!
//! larder-cri finds the runtime's socket. larder-pleg decides when to list and inspect pods, and writes the pod status cache of
//! larder-pod-status. Reads and waits ask that cache; this module adds how fresh the answer is, and why it is stale.
//!
//! # Guarantees
//!
//! - A runtime that is absent at the start does not end larder. Every relist tries again.
//! - While the runtime does not answer, every read says so, with the time of the last relist.
//!
//! # Cancel safety
//!
//! Every future here can be dropped. A dropped wait leaves nothing behind.

use crate::metrics::{Observers, RuntimeMetrics};
use crate::report::{ContainerCounts, SourceReport, SourceState};
use larder_clock::{Clock as _, MachineClocks, MonotonicClock, Timestamp};
use larder_cri::{CriOptions, CriRuntime, Endpoint};
use larder_objects::{FreshState, Freshness, Source, StaleReason};
use larder_pleg::{
    ContainerState, ContainerStatus, EventReceiver, Pleg, PlegObserver, PlegOptions, PlegStats, PodLifecycleEvent,
    PodStatus, RuntimeError, WriteReceiver,
};
use larder_pod_status::{Entry, EntryTimes, Options, PodStatusReader, PodUid, pod_status_cache};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How much later than its period a relist may succeed before the pod statuses are stale.
const LATENESS: Duration = Duration::from_secs(10);

/// The status of a pod in the container runtime.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PodStatusRead {
    /// The UID that the runtime knows the pod by.
    pub uid: PodUid,
    /// The status; `None` if no inspection of the pod has succeeded, or if the runtime does not have the pod.
    pub status: Option<Arc<PodStatus>>,
    /// Why the last inspection of the pod failed, if it did.
    pub error: Option<Arc<RuntimeError>>,
    /// Whether the runtime has the pod at all.
    pub is_there: bool,
    /// When the status was written.
    pub modified: Option<Timestamp>,
    /// The status is as new as this time; `None` before the first relist.
    pub as_of: Option<Timestamp>,
    /// How fresh the status is; `None` before the first relist.
    pub freshness: Option<Freshness>,
    /// Why the status is stale, for a person; `None` if it is fresh.
    pub why: Option<String>,
}

/// Why a wait for a newer status ended without one.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The deadline came first.
    #[error("pod {uid}: no newer status came in time: {why}", uid = last_known.uid)]
    DeadlineExceeded {
        /// The cause, if it is known: the runtime's error, or that no relist was due.
        why: String,
        /// The last known status.
        last_known: Box<PodStatusRead>,
    },
    /// The daemon is ending.
    #[error("pod {uid}: larder is ending", uid = last_known.uid)]
    Ending {
        /// The last known status.
        last_known: Box<PodStatusRead>,
    },
}

impl WaitError {
    /// The last known status.
    pub fn last_known(&self) -> &PodStatusRead {
        match self {
            Self::DeadlineExceeded { last_known, .. } | Self::Ending { last_known } => last_known,
        }
    }
}

/// Which container runtime to ask.
pub(crate) enum RuntimeChoice {
    /// The one at this endpoint.
    At(Endpoint),
    /// The first of these where one answers.
    FirstOf(Vec<Endpoint>),
}

/// The container runtime, its PLEG, and the reader of the pod status cache.
pub(crate) struct RuntimeSide<M: MachineClocks> {
    clock: MonotonicClock<M>,
    runtime: Arc<CriRuntime>,
    pleg: Pleg<CriRuntime, MonotonicClock<M>>,
    reader: PodStatusReader<PodStatus, RuntimeError>,
    relist_period: Duration,
    /// Whether the runtime's events are followed.
    events: bool,
    metrics: Arc<RuntimeMetrics>,
    attempts: Arc<RelistAttempts<M>>,
    /// Open waits for a change. The cache counts the waits for something newer. Relaxed, because nothing else depends on the
    /// count.
    waits_for_change: AtomicUsize,
}

/// Notes when the last relist ended, with or without success, and passes every measurement on.
struct RelistAttempts<M> {
    clock: MonotonicClock<M>,
    ended_at: Mutex<Option<Timestamp>>,
    next: Observers,
}

impl<M: MachineClocks> PlegObserver for RelistAttempts<M> {
    fn relist_duration(&self, duration: Duration) {
        *self.ended_at.lock() = Some(self.clock.now());
        self.next.relist_duration(duration);
    }

    fn relist_interval(&self, interval: Duration) {
        self.next.relist_interval(interval);
    }

    fn pod_relist_duration(&self, duration: Duration) {
        self.next.pod_relist_duration(duration);
    }

    fn inspection_duration(&self, duration: Duration, succeeded: bool) {
        self.next.inspection_duration(duration, succeeded);
    }

    fn event_answered(&self, duration: Duration) {
        self.next.event_answered(duration);
    }
}

/// Counts a wait for as long as it is open.
struct OpenWait<'a>(&'a AtomicUsize);

impl<'a> OpenWait<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for OpenWait<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<M: MachineClocks> RuntimeSide<M> {
    /// Nothing is connected before [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// A message that names the setting that cannot be used.
    pub(crate) fn new(
        runtime: RuntimeChoice,
        options: PlegOptions,
        events: bool,
        cri: CriOptions,
        clock: MonotonicClock<M>,
        observer: Arc<dyn PlegObserver>,
    ) -> Result<Self, String> {
        let metrics = Arc::new(RuntimeMetrics::new(clock));
        let runtime = match runtime {
            RuntimeChoice::At(endpoint) => CriRuntime::with_observer(endpoint, cri, Arc::clone(&metrics) as _),
            RuntimeChoice::FirstOf(sockets) => CriRuntime::discover(sockets, cri, Arc::clone(&metrics) as _),
        };
        let runtime = Arc::new(runtime.map_err(|error| error.to_string())?);
        let (writer, reader) = pod_status_cache(Options::default());
        let relist_period = options.relist_period;
        let pleg = Pleg::new(Arc::clone(&runtime), clock, writer, options).map_err(|error| error.to_string())?;
        let next = Observers { pleg: observer, runtime: Arc::clone(&metrics) };
        let attempts = Arc::new(RelistAttempts { clock, ended_at: Mutex::default(), next });
        let pleg = pleg.with_observer(Arc::clone(&attempts) as _);
        let waits_for_change = AtomicUsize::new(0);
        Ok(Self { clock, runtime, pleg, reader, relist_period, events, metrics, attempts, waits_for_change })
    }

    pub(crate) fn metrics(&self) -> &RuntimeMetrics {
        &self.metrics
    }

    /// Relists, and follows the runtime's events, until the token is cancelled.
    pub(crate) async fn run(&self, token: CancellationToken) {
        let search = token.run_until_cancelled(self.runtime.search(|| self.pleg.request_relist_of_all()));
        // Boxed, so that the task stays small.
        let search = Box::pin(search);
        let events = async {
            if self.events && token.run_until_cancelled(self.runtime.until_found()).await.is_some() {
                self.pleg.watch_events(&*self.runtime, token.clone()).await;
            }
        };
        tokio::join!(self.pleg.run(token.clone()), Box::pin(events), search);
    }

    pub(crate) fn read(&self, uid: &PodUid) -> PodStatusRead {
        let (entry, times) = self.reader.get_with_times(uid);
        self.complete(&entry, times)
    }

    /// The status of every pod that the runtime has.
    pub(crate) fn read_all(&self) -> Vec<PodStatusRead> {
        let mut all: Vec<_> =
            self.reader.uids().iter().map(|uid| self.read(uid)).filter(|read| read.is_there).collect();
        all.sort_by(|a, b| a.order().cmp(&b.order()));
        all
    }

    /// The pod of that namespace and name, the newest one if there are several.
    pub(crate) fn find(&self, namespace: &str, name: &str) -> Option<PodUid> {
        let is_it = |read: &PodStatusRead| {
            read.status.as_ref().is_some_and(|status| status.namespace == namespace && status.name == name)
        };
        let age = |read: &PodStatusRead| {
            let newest = |status: &Arc<PodStatus>| status.sandboxes.iter().map(|sandbox| sandbox.created_at).max();
            read.status.as_ref().and_then(newest)
        };
        self.read_all().into_iter().filter(is_it).max_by_key(age).map(|read| read.uid)
    }

    /// Waits for a status newer than `min`.
    pub(crate) async fn newer_than(
        &self,
        uid: &PodUid,
        min: Timestamp,
        deadline: Duration,
    ) -> Result<PodStatusRead, WaitError> {
        let sleep = tokio::time::sleep(deadline);
        match self.reader.get_newer_than_or(uid.clone(), min, sleep).await {
            Ok(entry) => {
                self.metrics.wait_ended("answered");
                Ok(self.complete(&entry, self.reader.times(uid)))
            }
            Err(error) => {
                let is_over = error.is_writer_gone();
                self.metrics.wait_ended(if is_over { "ending" } else { "deadline" });
                let last_known = Box::new(self.complete(error.last_known(), self.reader.times(uid)));
                if is_over {
                    return Err(WaitError::Ending { last_known });
                }
                let why =
                    last_known.why.clone().unwrap_or_else(|| "the runtime has not been relisted since".to_owned());
                Err(WaitError::DeadlineExceeded { why, last_known })
            }
        }
    }

    /// Waits until the pod's status has been written after `min`, or the pod is gone.
    pub(crate) async fn changed_after(
        &self,
        uid: &PodUid,
        min: Timestamp,
        deadline: Duration,
    ) -> Result<PodStatusRead, WaitError> {
        let _open = OpenWait::new(&self.waits_for_change);
        // Before the first look, so that no write is missed.
        let mut writes = self.pleg.watch_writes();
        let first = self.read(uid);
        if first.modified.is_some_and(|modified| modified > min) {
            self.metrics.wait_ended("answered");
            return Ok(first);
        }
        let changed = async {
            while writes.written(uid).await {
                let read = self.read(uid);
                if !read.is_there || read.modified.is_some_and(|modified| modified > min) {
                    return Some(read);
                }
            }
            None
        };
        let last_known = || Box::new(self.read(uid));
        match tokio::time::timeout(deadline, changed).await {
            Ok(Some(read)) => {
                self.metrics.wait_ended("answered");
                Ok(read)
            }
            Ok(None) => {
                self.metrics.wait_ended("ending");
                Err(WaitError::Ending { last_known: last_known() })
            }
            Err(_) => {
                self.metrics.wait_ended("deadline");
                let last_known = last_known();
                let why = last_known.why.clone().unwrap_or_else(|| "nothing has changed".to_owned());
                Err(WaitError::DeadlineExceeded { why, last_known })
            }
        }
    }

    /// The container of this ID in the pod, unless it has ended or the runtime does not have it.
    pub(crate) fn live_container(&self, uid: &PodUid, id: &str) -> Option<ContainerStatus> {
        let entry = self.reader.get(uid);
        let container = entry.status()?.containers.iter().find(|container| container.id.id == id)?;
        (container.state != ContainerState::Exited).then(|| container.clone())
    }

    /// Waits until the runtime says that the container of this ID has ended, or no longer has the container. While the runtime does not
    /// answer, the last status counts. Never returns once larder is ending.
    pub(crate) async fn container_ended(&self, uid: &PodUid, id: &str) {
        // Before the first look, so that no write is missed.
        let mut writes = self.pleg.watch_writes();
        while self.may_live(uid, id) {
            if !writes.written(uid).await {
                return std::future::pending().await;
            }
        }
    }

    fn may_live(&self, uid: &PodUid, id: &str) -> bool {
        let entry = self.reader.get(uid);
        match entry.status() {
            Some(status) => status
                .containers
                .iter()
                .any(|container| container.id.id == id && container.state != ContainerState::Exited),
            // A pod whose inspection failed is there, and before the first list any pod may be.
            None => !entry.is_empty() || !self.has_relisted(),
        }
    }

    /// The names of the pod's containers that have not ended; `None` if that is not known.
    pub(crate) fn live_containers(&self, uid: &PodUid) -> Option<BTreeSet<String>> {
        let entry = self.reader.get(uid);
        let Some(status) = entry.status() else {
            // A pod whose inspection failed is there, and before the first list any pod may be.
            return (entry.is_empty() && self.has_relisted()).then(BTreeSet::new);
        };
        let live = status.containers.iter().filter(|container| container.state != ContainerState::Exited);
        Some(live.map(|container| container.name.clone()).collect())
    }

    /// Waits until others are known to live than those. Never returns once larder is ending.
    pub(crate) async fn live_containers_changed(&self, uid: &PodUid, live: &BTreeSet<String>) {
        // Before the first look, so that no write is missed.
        let mut writes = self.pleg.watch_writes();
        while self.live_containers(uid).is_none_or(|now| now == *live) {
            if !writes.written(uid).await {
                return std::future::pending().await;
            }
        }
    }

    /// Looks until there is something, at every write of a pod's status; `None` once the deadline has come. The first look that finds
    /// nothing has the runtime listed.
    pub(crate) async fn find_in_time<T>(
        &self,
        mut look: impl FnMut(&Self) -> Option<T>,
        deadline: Duration,
    ) -> Option<T> {
        // Before the first look, so that no write is missed.
        let mut writes = self.pleg.watch_writes();
        if let Some(found) = look(self) {
            return Some(found);
        }
        let _open = OpenWait::new(&self.waits_for_change);
        self.pleg.request_relist_of_all();
        let found = async {
            while writes.any_written().await {
                if let Some(found) = look(self) {
                    return Some(found);
                }
            }
            None
        };
        let found = tokio::time::timeout(deadline, found).await.ok().flatten();
        self.metrics.wait_ended(if found.is_some() { "answered" } else { "deadline" });
        found
    }

    /// The latest lifecycle events, and a stream of those that follow.
    pub(crate) fn events(&self) -> (Vec<Arc<PodLifecycleEvent>>, EventReceiver) {
        self.pleg.subscribe_with_recent()
    }

    /// A stream of the pods whose status is written from now on.
    pub(crate) fn watch_writes(&self) -> WriteReceiver {
        self.pleg.watch_writes()
    }

    /// The status of each pod that the runtime has, in no particular order.
    pub(crate) fn statuses(&self) -> Vec<Arc<PodStatus>> {
        self.reader.uids().iter().filter_map(|uid| self.reader.get(uid).status().cloned()).collect()
    }

    fn complete(&self, entry: &Entry<PodStatus, RuntimeError>, times: EntryTimes) -> PodStatusRead {
        let (state, why) = self.state(entry, times);
        let as_of = times.latest();
        // After a failed inspection, only the last good inspection confirms the status. The relists since then do not.
        let confirmed_at = if entry.error().is_some() { times.modified } else { as_of };
        PodStatusRead {
            uid: entry.uid().clone(),
            status: entry.status().cloned(),
            error: entry.error().cloned(),
            is_there: !entry.is_empty(),
            modified: times.modified.filter(|_| !entry.is_empty()),
            as_of,
            freshness: confirmed_at.map(|confirmed_at| Freshness::new(confirmed_at, Source::Runtime, state)),
            why,
        }
    }

    fn state(&self, entry: &Entry<PodStatus, RuntimeError>, times: EntryTimes) -> (FreshState, Option<String>) {
        let stale = |since, class| FreshState::Stale { since, reason: StaleReason::FetchFailed { class } };
        let now = self.clock.now();
        let (relisted, failed) = self.pleg.last_relist();
        let since = relisted.unwrap_or(now);
        // The pod itself may have been relisted since the last attempt to list all pods.
        let attempted = *self.attempts.ended_at.lock();
        let known_alone = times.latest().filter(|at| Some(*at) > attempted && !self.is_late(*at));
        if let (Some(error), None) = (failed, known_alone) {
            return (stale(since, error.kind()), Some(error.to_string()));
        }
        if let Some(error) = entry.error() {
            return (stale(times.modified.unwrap_or(since), error.kind()), Some(error.to_string()));
        }
        if let (Some(overdue), None) = (self.overdue(), known_alone) {
            return (stale(since, "timeout"), Some(overdue));
        }
        (FreshState::Fresh, None)
    }

    /// The reason why the statuses are stale, if a relist should have ended by now and has not.
    fn overdue(&self) -> Option<String> {
        let last = self.pleg.last_relist().0.filter(|last| self.is_late(*last))?;
        let ago = self.clock.now().saturating_duration_since(last).as_secs();
        Some(format!("the container runtime's answer is overdue: the last one was {ago} s ago"))
    }

    /// Whether a relist later than this time should have ended by now.
    fn is_late(&self, at: Timestamp) -> bool {
        self.clock.now().saturating_duration_since(at) > self.relist_period + LATENESS
    }

    /// Whether all pods have been listed at least once.
    pub(crate) fn has_relisted(&self) -> bool {
        self.pleg.last_relist().0.is_some()
    }

    /// Why the last relist failed, if it did.
    pub(crate) fn failure(&self) -> Option<Arc<RuntimeError>> {
        self.pleg.last_relist().1
    }

    pub(crate) fn health(&self) -> Result<(), String> {
        self.pleg.health().map_err(|error| error.to_string())
    }

    pub(crate) fn stats(&self) -> PlegStats {
        self.pleg.stats()
    }

    /// The open waits, for something newer and for a change.
    pub(crate) fn open_waits(&self) -> usize {
        self.reader.open_waits() + self.waits_for_change.load(Ordering::Relaxed)
    }

    pub(crate) fn report(&self) -> SourceReport {
        let (relisted, failed) = self.pleg.last_relist();
        let now = self.clock.now();
        let overdue = self.overdue();
        let events = self.event_stream_problem();
        let state = match (&relisted, &failed) {
            (_, Some(_)) => SourceState::Failing,
            (None, None) => SourceState::Starting,
            (Some(_), None) if overdue.is_some() => SourceState::Failing,
            (Some(_), None) => SourceState::Ok,
        };
        SourceReport {
            name: "runtime".to_owned(),
            from: self.runtime.place(),
            state,
            last_contact: relisted.and_then(|at| crate::wall_time(&self.clock, at)),
            age_seconds: relisted.map(|at| now.saturating_duration_since(at).as_secs_f64()),
            last_error: failed.map(|error| error.to_string()).or(overdue).or(events),
            last_error_at: None,
        }
    }

    /// What is wrong with the runtime's event stream. The lists go on without it, so that pods stay fresh.
    pub(crate) fn event_stream_problem(&self) -> Option<String> {
        let reason = self.pleg.event_stream_failure()?;
        let period = self.relist_period;
        Some(format!(
            "the event stream fails, so changes to containers show only with the list every {period:?}: {reason}"
        ))
    }

    /// Facts that an operator should know, although nothing is wrong.
    pub(crate) fn notes(&self) -> Vec<String> {
        let no_events = self.pleg.stats().event_stream_unsupported.then(|| {
            format!(
                "the container runtime sends no events: what happens to containers is seen by a list every {:?}; containerd \
                 has events from 1.7 on, CRI-O with enable_pod_events",
                self.relist_period
            )
        });
        self.runtime.note().into_iter().chain(no_events).collect()
    }

    pub(crate) fn container_counts(&self) -> ContainerCounts {
        let mut counts = ContainerCounts::default();
        for uid in self.reader.uids() {
            let entry = self.reader.get(&uid);
            for container in entry.status().iter().flat_map(|status| &status.containers) {
                let count = match container.state {
                    ContainerState::Running => &mut counts.running,
                    ContainerState::Exited => &mut counts.exited,
                    ContainerState::Created => &mut counts.created,
                    ContainerState::Unknown => &mut counts.unknown,
                };
                *count += 1;
            }
        }
        counts
    }
}

impl PodStatusRead {
    fn order(&self) -> (&str, &str, String) {
        let status = self.status.as_deref();
        let namespace = status.map_or("", |status| status.namespace.as_str());
        let name = status.map_or("", |status| status.name.as_str());
        (namespace, name, self.uid.to_string())
    }
}
