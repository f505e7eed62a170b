//! The loop of [`PlegOptions::independent_pods`](crate::PlegOptions::independent_pods): a pod that cannot be inspected delays
//! no other.
//!
//! Lists run one after the other, and the inspections that they call for run beside them. The result of an inspection has the
//! time at which its list began. When an inspection ends, the pod is compared with its latest list. If they agree, the pod is
//! known as of that list; else it is inspected once more.
//!
//! If a pod is gone, its inspection is aborted, because nobody needs the result and the global time must not wait for it. The
//! pod counts as busy until the inspection has been dropped. So no pod is inspected twice at once, even if another pod with its
//! UID appears.
//!
//! # Early writes
//!
//! The container of an event is asked for as soon as the event arrives, whatever lists are in flight and however long they
//! take. If its state has advanced, its status goes into the pod's entry. The entry keeps the time as of which the whole pod is
//! known. So a wait for a change ends, and a wait for something newer waits for the list.
//!
//! - *Only forward.* A container is created, runs and exits, and never goes back. The state that is written is later in this
//!   order than the one in the entry, whenever the runtime was asked.
//! - *Nothing is written that an inspection would take back.* While the pod is being inspected, or its entry has an error, only
//!   the inspection writes.
//! - *A list confirms it.* If a list that began after the write shows another state, the whole pod is inspected. If a list that
//!   began before the write does, the pod is listed again.

use super::{EarlyStatus, Pleg};
use crate::error::RuntimeError;
use crate::pod::{ContainerState, RuntimePod};
use crate::queue::{Asked, EventTarget, Request};
use crate::records::{Inspection, Plan, Standing, is_alike};
use crate::runtime::Runtime;
use crate::status::{ContainerStatus, PodStatus};
use futures_util::future::{AbortHandle, Abortable, BoxFuture, FutureExt, OptionFuture};
use futures_util::stream::{FuturesUnordered, StreamExt};
use larder_clock::{Clock, Timestamp};
use larder_pod_status::PodUid;
use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::trace;

/// How long the list of an event's pod waits for the answer about the event's container, so that the two calls do not share the
/// runtime's processors.
const HEAD_START: Duration = Duration::from_millis(5);

/// The pod that was inspected, and the result; `None` if the inspection was aborted.
type Outcome = (PodUid, Option<(Inspection, Result<PodStatus, RuntimeError>)>);

/// A list that the runtime has answered.
enum Listed {
    All(Timestamp, Result<Vec<RuntimePod>, RuntimeError>),
    Pod(Box<ListedPod>),
}

struct ListedPod {
    uid: PodUid,
    asked: Asked,
    began: Timestamp,
    answer: Result<Option<RuntimePod>, RuntimeError>,
}

/// The calls in flight, and the pods that are not up to date. Every map and set has at most one entry for each pod that exists
/// or is being inspected.
#[derive(Default)]
struct Work<'p> {
    inspections: FuturesUnordered<BoxFuture<'p, Outcome>>,
    /// The pods of these inspections, with the handles that abort them.
    busy: HashMap<PodUid, AbortHandle>,
    /// The calls for the containers of events; at most as many as pods may wait for a relist.
    asking: FuturesUnordered<BoxFuture<'p, (EventTarget, Option<ContainerStatus>)>>,
    /// The latest of these for each pod that has not been inspected since, and when its event arrived.
    early: HashMap<PodUid, (Timestamp, EarlyStatus<'p>)>,
    /// The early writes that no list has confirmed yet.
    early_writes: HashMap<PodUid, Vec<EarlyWrite>>,
    /// The pods whose last inspection failed.
    failures: HashMap<PodUid, Failure>,
    /// The pods in backoff after a failed inspection that were listed since.
    held: HashSet<PodUid>,
    /// The earliest event of each pod that is not up to date with it yet.
    asked: HashMap<PodUid, Timestamp>,
    /// What the cache's global time was last set to.
    global: Option<Timestamp>,
}

/// A container whose status was written into its pod's entry before a list showed it.
struct EarlyWrite {
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

struct Failure {
    times: u32,
    retry_at: Instant,
    /// The pod as it was listed then. If a list shows a change, the backoff ends.
    pod: Arc<RuntimePod>,
}

impl Work<'_> {
    /// Whether the pod is not in backoff.
    fn may_inspect(&self, inspection: &Inspection) -> bool {
        self.failures
            .get(&inspection.pod.uid)
            .is_none_or(|failure| failure.retry_at <= Instant::now() || !is_alike(&failure.pod, &inspection.pod))
    }

    fn is_behind(&self, uid: &PodUid) -> bool {
        self.busy.contains_key(uid) || self.held.contains(uid)
    }

    /// Drops an answer that is older than a list: an inspection after this list must not use it.
    fn forget_early(&mut self, uid: &PodUid, began: Timestamp) {
        if self.early.get(uid).is_some_and(|(at, _)| *at <= began) {
            self.early.remove(uid);
        }
    }

    /// Whether the only request for the pod came from one event whose container was written early.
    fn is_answered_early(&self, uid: &PodUid, asked: &Asked) -> bool {
        asked.event == Some(asked.last)
            && self.early_writes.get(uid).is_some_and(|all| all.iter().any(|write| write.event == asked.last))
    }

    fn is_any_behind(&self) -> bool {
        !(self.busy.is_empty() && self.held.is_empty())
    }

    fn forget(&mut self, uid: &PodUid) {
        self.failures.remove(uid);
        self.held.remove(uid);
        self.early.remove(uid);
        self.early_writes.remove(uid);
        if let Some(inspection) = self.busy.get(uid) {
            inspection.abort();
        }
    }
}

impl<R: Runtime, C: Clock> Pleg<R, C> {
    /// As [`run`](Self::run), with [`independent_pods`](crate::PlegOptions::independent_pods).
    pub(super) async fn run_independent(&self, cancel: CancellationToken) {
        let places = Arc::new(Semaphore::new(self.options.inspection_concurrency.get()));
        let mut work = Work::default();
        let mut listing: Option<BoxFuture<'_, Listed>> = None;
        let most_asking = self.options.relist_queue.get();
        let mut due = Instant::now();
        let mut earliest = due;
        loop {
            self.counters.inspections_open.store(count(work.busy.len()), Ordering::Relaxed);
            self.counters.inspections_held.store(count(work.held.len()), Ordering::Relaxed);
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                Some((uid, outcome)) = work.inspections.next(), if !work.inspections.is_empty() => {
                    self.settle(&mut work, &places, &uid, outcome);
                }
                Some((event, Some(status))) = work.asking.next(), if !work.asking.is_empty() => {
                    self.write_early(&mut work, &event, &status);
                }
                event = self.queue.next_target(), if work.asking.len() < most_asking => self.ask_early(&mut work, event),
                Some(listed) = OptionFuture::from(listing.as_mut()), if listing.is_some() => {
                    listing = None;
                    if matches!(listed, Listed::All(..)) {
                        due = Instant::now() + self.options.relist_period;
                        earliest = Instant::now() + self.options.relist_pause;
                    }
                    self.take_listing(&mut work, &places, listed);
                }
                () = tokio::time::sleep_until(due), if listing.is_none() => listing = Some(self.list_all().boxed()),
                request = self.queue.next(), if listing.is_none() => match request {
                    Request::All(asked) => if !self.serves(asked) { due = due.min(earliest) },
                    Request::Pod(uid, asked) if self.serves(asked.last) => {
                        trace!(pod.uid = %uid, "listed since it was asked for");
                        self.counters.pod_relists_skipped.add();
                        self.note_event(&mut work, &uid, &asked);
                    }
                    Request::Pod(uid, asked) => {
                        let early = work.early.get(&uid).map(|(_, early)| early.clone());
                        listing = Some(self.list_pod(uid, asked, early).boxed());
                    }
                },
            }
        }
        self.counters.inspections_open.store(0, Ordering::Relaxed);
        self.counters.inspections_held.store(0, Ordering::Relaxed);
    }

    async fn list_all(&self) -> Listed {
        // Never closed; were it, nothing but the order of two relists would be lost.
        let _turn = self.turn.acquire().await;
        let previous = self.last.lock().succeeded;
        let began = self.clock.now();
        if let Some(previous) = previous {
            self.observer.relist_interval(began.saturating_duration_since(previous));
        }
        let answer = self.runtime.pods().await;
        self.observer.relist_duration(self.clock.now().saturating_duration_since(began));
        Listed::All(began, answer)
    }

    async fn list_pod(&self, uid: PodUid, asked: Asked, early: Option<EarlyStatus<'_>>) -> Listed {
        if let Some(early) = early {
            // With or without an answer, the list follows.
            let _ = tokio::time::timeout(HEAD_START, early).await;
        }
        let _turn = self.turn.acquire().await;
        let began = self.clock.now();
        let answer = self.runtime.pod(&uid).await;
        self.observer.pod_relist_duration(self.clock.now().saturating_duration_since(began));
        Listed::Pod(Box::new(ListedPod { uid, asked, began, answer }))
    }

    fn take_listing<'p>(&'p self, work: &mut Work<'p>, places: &Arc<Semaphore>, listed: Listed) {
        match listed {
            Listed::All(began, Ok(pods)) => {
                self.note_listing(&pods, began);
                self.check_all_early_writes(work, &pods, began);
                let plan = self.records.lock().list(pods, began);
                work.held.clear();
                self.begin(work, places, plan, began);
                work.early.retain(|_, (at, _)| *at > began);
                // If no pod is behind, the global time says so of all pods at once.
                if work.is_any_behind() {
                    let uids = self.records.lock().uids();
                    for uid in uids.iter().filter(|uid| !work.is_behind(uid)) {
                        self.writer.set_observed_time(uid, began);
                    }
                }
                self.last.lock().completed = Some(began);
                self.move_global_time(work);
            }
            Listed::All(_, Err(error)) => self.note_failed_listing(error),
            Listed::Pod(listed) => self.take_pod(work, places, *listed),
        }
    }

    fn take_pod<'p>(&'p self, work: &mut Work<'p>, places: &Arc<Semaphore>, listed: ListedPod) {
        let ListedPod { uid, asked, began, answer } = listed;
        match answer {
            Ok(pod) => {
                self.counters.pod_relists.add();
                let is_answered = work.is_answered_early(&uid, &asked);
                self.check_early_writes(work, &uid, pod.as_ref(), began);
                let plan = self.records.lock().list_one(&uid, pod, began);
                work.held.remove(&uid);
                self.begin(work, places, plan, began);
                work.forget_early(&uid, began);
                if !work.is_behind(&uid) {
                    self.writer.set_observed_time(&uid, began);
                }
                if !is_answered {
                    self.note_event(work, &uid, &asked);
                }
            }
            Err(error) => {
                self.note_failed_pod(&uid, &error);
                self.counters.pod_relists_failed.add();
            }
        }
    }

    /// Asks for the status of the container that an event says has changed, if it is one of the pod's.
    fn ask_early<'p>(&'p self, work: &mut Work<'p>, event: EventTarget) {
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
    fn write_early(&self, work: &mut Work<'_>, event: &EventTarget, early: &ContainerStatus) {
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
    fn check_early_writes(&self, work: &mut Work<'_>, uid: &PodUid, pod: Option<&RuntimePod>, began: Timestamp) {
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
    fn check_all_early_writes(&self, work: &mut Work<'_>, pods: &[RuntimePod], began: Timestamp) {
        if work.early_writes.is_empty() {
            return;
        }
        let uids: Vec<PodUid> = work.early_writes.keys().cloned().collect();
        for uid in uids {
            self.check_early_writes(work, &uid, pods.iter().find(|pod| pod.uid == uid), began);
        }
    }

    /// Carries out the plan of a list, except for pods that are being inspected already.
    fn begin<'p>(&'p self, work: &mut Work<'p>, places: &Arc<Semaphore>, plan: Plan, began: Timestamp) {
        for removal in plan.removals {
            let uid = removal.pod.uid.clone();
            work.forget(&uid);
            self.remove(&removal, began);
            // A wait for a pod that is gone need not wait for the global time.
            self.writer.set_observed_time(&uid, began);
            self.answer_event(work, &uid);
        }
        for inspection in plan.inspections {
            self.start_inspection(work, places, inspection);
        }
    }

    fn start_inspection<'p>(&'p self, work: &mut Work<'p>, places: &Arc<Semaphore>, inspection: Inspection) {
        let uid = inspection.pod.uid.clone();
        if work.busy.contains_key(&uid) {
            // The end of that inspection compares the pod again.
        } else if work.may_inspect(&inspection) {
            let early = work.early.remove(&uid).map(|(_, early)| early);
            let (handle, registration) = AbortHandle::new_pair();
            let inspecting = Abortable::new(self.inspect_in_place(inspection, early, Arc::clone(places)), registration);
            work.busy.insert(uid.clone(), handle);
            work.inspections.push(inspecting.map(|outcome| (uid, outcome.ok())).boxed());
        } else {
            work.held.insert(uid);
        }
    }

    /// Inspects a pod when a place is free. An inspection that takes too long gives its place up.
    async fn inspect_in_place(
        &self,
        inspection: Inspection,
        early: Option<EarlyStatus<'_>>,
        places: Arc<Semaphore>,
    ) -> (Inspection, Result<PodStatus, RuntimeError>) {
        // Never closed; without a place it would only be one too many.
        let place = places.acquire_owned().await;
        let mut outcome = pin!(self.inspect(inspection, early));
        if let Ok(outcome) = tokio::time::timeout(self.options.inspection_patience, &mut outcome).await {
            return outcome;
        }
        drop(place);
        outcome.await
    }

    /// Handles the end of an inspection, also if it was aborted because its pod was gone.
    fn settle<'p>(
        &'p self,
        work: &mut Work<'p>,
        places: &Arc<Semaphore>,
        uid: &PodUid,
        outcome: Option<(Inspection, Result<PodStatus, RuntimeError>)>,
    ) {
        work.busy.remove(uid);
        // When the listing began as of which the pod is known now, and whether that is by a failure.
        let mut applied = None;
        if let Some((inspection, result)) = outcome
            && self.records.lock().is_current(&inspection)
        {
            let failed = result.is_err();
            if failed {
                let times = work.failures.get(uid).map_or(1, |failure| failure.times.saturating_add(1));
                let pause = self.options.inspection_backoff_initial.saturating_mul(1 << (times - 1).min(16));
                let retry_at = Instant::now() + pause.min(self.options.inspection_backoff_max);
                work.failures.insert(uid.clone(), Failure { times, retry_at, pod: Arc::clone(&inspection.pod) });
            } else {
                work.failures.remove(uid);
            }
            applied = Some((inspection.at, failed));
            self.apply_inspection(&inspection, result);
        } else {
            trace!(pod.uid = %uid, "inspected in vain: the pod has gone or changed since");
        }
        let standing = self.records.lock().standing(uid);
        match standing {
            Standing::Gone => {
                work.forget(uid);
                self.answer_event(work, uid);
            }
            Standing::Known(at) => {
                if applied.is_none_or(|(applied, _)| at > applied) {
                    self.writer.set_observed_time(uid, at);
                }
                self.answer_event(work, uid);
            }
            // That it cannot be inspected is what is known as of its latest listing.
            Standing::Due(next) if applied.is_some_and(|(applied, failed)| failed && next.at <= applied) => {
                self.answer_event(work, uid);
            }
            Standing::Due(next) => self.start_inspection(work, places, next),
        }
        self.move_global_time(work);
    }

    /// Sets the global time to the last list of all pods, unless a pod is behind.
    fn move_global_time(&self, work: &mut Work<'_>) {
        let listed = self.last.lock().completed;
        if let Some(at) = listed.filter(|_| !work.is_any_behind())
            && work.global < Some(at)
        {
            self.writer.update_time(at);
            work.global = Some(at);
        }
    }

    /// The list that an event asked for is there. Its pod is up to date now, or will be after its inspection.
    fn note_event(&self, work: &mut Work<'_>, uid: &PodUid, asked: &Asked) {
        let Some(event) = asked.event.filter(|_| !work.held.contains(uid)) else { return };
        if work.busy.contains_key(uid) {
            let earliest = work.asked.entry(uid.clone()).or_insert(event);
            *earliest = event.min(*earliest);
        } else {
            self.observer.event_answered(self.clock.now().saturating_duration_since(event));
        }
    }

    fn answer_event(&self, work: &mut Work<'_>, uid: &PodUid) {
        if let Some(event) = work.asked.remove(uid) {
            self.observer.event_answered(self.clock.now().saturating_duration_since(event));
        }
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// Whether a container that was in the one state can be in the other later on.
fn comes_after(state: ContainerState, before: ContainerState) -> bool {
    match before {
        ContainerState::Created => matches!(state, ContainerState::Running | ContainerState::Exited),
        ContainerState::Running => state == ContainerState::Exited,
        ContainerState::Exited | ContainerState::Unknown => false,
    }
}
