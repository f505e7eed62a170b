//! The loop in which every pod is brought up to date on its own.
//!
//! Listings come one after the other; the inspections that they call for go on beside them. What an inspection gives
//! carries the time at which its listing began. When it has ended, the pod is compared with its latest listing: the same,
//! and it is known as of that one; different, and it is inspected once more.
//!
//! The container of an event is asked for as soon as the event arrives, beside whatever lists are under way. If the container
//! has moved on, its state is put into the pod's entry at once ([`ahead`](super::ahead)).
//!
//! The inspection of a pod that has gone is aborted: nobody waits for what it would say, and the global time is not to wait
//! for it. The pod counts as being inspected until the inspection has been dropped, so that it is never inspected twice at
//! once, though another of its UID may come.

use super::ahead::Ahead;
use super::{EarlyStatus, Pleg};
use crate::error::RuntimeError;
use crate::pod::RuntimePod;
use crate::queue::{Asked, Hint, Request};
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

/// How much later than the question for an event's container the list of its pod is asked for, if that is not answered before, so
/// that the two need not share the runtime's processors.
const HEAD_START: Duration = Duration::from_millis(5);

/// The pod that was inspected, and what came of it; nothing, where it was aborted.
type Outcome = (PodUid, Option<(Inspection, Result<PodStatus, RuntimeError>)>);

/// A listing that has been answered.
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

/// What is under way. Every map and set here has at most one entry for each pod that there is or is being inspected.
#[derive(Default)]
pub(super) struct Work<'p> {
    inspections: FuturesUnordered<BoxFuture<'p, Outcome>>,
    /// The pods that these are of, and how to abort them.
    busy: HashMap<PodUid, AbortHandle>,
    /// The containers that are being asked for because of an event; at most as many as pods may wait for a relist.
    pub(super) asking: FuturesUnordered<BoxFuture<'p, (Hint, Option<ContainerStatus>)>>,
    /// The latest of these for each pod that has not been inspected since, and when its event arrived.
    pub(super) early: HashMap<PodUid, (Timestamp, EarlyStatus<'p>)>,
    /// The containers whose state is in their pod's entry ahead of a list that confirms it.
    pub(super) ahead: HashMap<PodUid, Vec<Ahead>>,
    /// The pods whose last inspection failed.
    failures: HashMap<PodUid, Failure>,
    /// Those of them that have been listed since, and are not to be tried again yet.
    held: HashSet<PodUid>,
    /// The earliest event of each pod that is not up to date with it yet.
    asked: HashMap<PodUid, Timestamp>,
    /// What the cache's global time was last set to.
    global: Option<Timestamp>,
}

struct Failure {
    times: u32,
    retry_at: Instant,
    /// The pod as it was listed then: if it shows something else, waiting has no sense.
    pod: Arc<RuntimePod>,
}

impl Work<'_> {
    /// Whether it is of use to inspect the pod now.
    fn may_inspect(&self, inspection: &Inspection) -> bool {
        self.failures
            .get(&inspection.pod.uid)
            .is_none_or(|failure| failure.retry_at <= Instant::now() || !is_alike(&failure.pod, &inspection.pod))
    }

    pub(super) fn is_behind(&self, uid: &PodUid) -> bool {
        self.busy.contains_key(uid) || self.held.contains(uid)
    }

    /// What was asked for before a list began is of no use to an inspection that a later one calls for.
    fn forget_early(&mut self, uid: &PodUid, began: Timestamp) {
        if self.early.get(uid).is_some_and(|(at, _)| *at <= began) {
            self.early.remove(uid);
        }
    }

    fn is_any_behind(&self) -> bool {
        !(self.busy.is_empty() && self.held.is_empty())
    }

    fn forget(&mut self, uid: &PodUid) {
        self.failures.remove(uid);
        self.held.remove(uid);
        self.early.remove(uid);
        self.ahead.remove(uid);
        if let Some(inspection) = self.busy.get(uid) {
            inspection.abort();
        }
    }
}

impl<R: Runtime, C: Clock> Pleg<R, C> {
    /// As [`run`](Self::run), with [`independent_pods`](crate::PlegOptions::independent_pods).
    pub(super) async fn run_apart(&self, cancel: CancellationToken) {
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
                Some((hint, Some(status))) = work.asking.next(), if !work.asking.is_empty() => {
                    self.write_ahead(&mut work, &hint, &status);
                }
                hint = self.queue.next_hint(), if work.asking.len() < most_asking => self.ask_early(&mut work, hint),
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
            // Whether it has come or not, the list follows.
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
                self.check_ahead_of_all(work, &pods, began);
                let plan = self.records.lock().list(pods, began);
                work.held.clear();
                self.begin(work, places, plan, began);
                work.early.retain(|_, (at, _)| *at > began);
                // Else the global time says it, of all pods at once.
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
                let is_answered = work.is_answered_ahead(&uid, &asked);
                self.check_ahead(work, &uid, pod.as_ref(), began);
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

    /// Does what a listing calls for, as far as it is not being done already.
    fn begin<'p>(&'p self, work: &mut Work<'p>, places: &Arc<Semaphore>, plan: Plan, began: Timestamp) {
        for removal in plan.removals {
            let uid = removal.pod.uid.clone();
            work.forget(&uid);
            self.remove(&removal, began);
            // That it is gone is known as well as anything; who waits for it need not wait for the global time.
            self.writer.set_observed_time(&uid, began);
            self.answer_event(work, &uid);
        }
        for inspection in plan.inspections {
            self.inspect_apart(work, places, inspection);
        }
    }

    fn inspect_apart<'p>(&'p self, work: &mut Work<'p>, places: &Arc<Semaphore>, inspection: Inspection) {
        let uid = inspection.pod.uid.clone();
        if work.busy.contains_key(&uid) {
            // It is looked at again when that inspection has ended.
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

    /// Inspects a pod when there is a place for it, which is given up when it takes too long.
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

    /// An inspection has ended, or has been aborted because its pod was gone.
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
            Standing::Due(next) => self.inspect_apart(work, places, next),
        }
        self.move_global_time(work);
    }

    /// The last listing of all pods is what all of them are known as of, unless one is behind.
    fn move_global_time(&self, work: &mut Work<'_>) {
        let listed = self.last.lock().completed;
        if let Some(at) = listed.filter(|_| !work.is_any_behind())
            && work.global < Some(at)
        {
            self.writer.update_time(at);
            work.global = Some(at);
        }
    }

    /// The listing that an event asked for is there: its pod is up to date, or will be after an inspection.
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
