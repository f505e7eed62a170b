//! The loop in which every pod is brought up to date on its own.
//!
//! Listings come one after the other; the inspections that they call for go on beside them. What an inspection gives
//! carries the time at which its listing began. When it has ended, the pod is compared with its latest listing: the same,
//! and it is known as of that one; different, and it is inspected once more.
//!
//! The container that an event is of is asked for beside the list of its pod. If its status is there first, it is put into
//! the pod's entry at once, which stays as old as the whole pod is known: who waits for the change has it, who waits for
//! something newer waits for the list.

use super::{EarlyStatus, Pleg, name_of};
use crate::error::RuntimeError;
use crate::pod::{ContainerState, RuntimePod};
use crate::queue::{Asked, Request};
use crate::records::{Inspection, Plan, Standing, is_alike};
use crate::runtime::Runtime;
use crate::status::{ContainerStatus, PodStatus};
use futures_util::future::{BoxFuture, Either, FutureExt, OptionFuture, ready, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use larder_clock::{Clock, Timestamp};
use larder_pod_status::PodUid;
use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::trace;

type Outcome = (Inspection, Result<PodStatus, RuntimeError>);

/// A listing that has been answered.
enum Listed<'p> {
    All(Timestamp, Result<Vec<RuntimePod>, RuntimeError>),
    Pod(Box<ListedPod<'p>>),
}

struct ListedPod<'p> {
    uid: PodUid,
    asked: Asked,
    began: Timestamp,
    answer: Result<Option<RuntimePod>, RuntimeError>,
    early: Option<EarlyStatus<'p>>,
    /// What is in the pod's entry ahead of the list.
    ahead: Option<Ahead>,
}

/// A container whose status was written before the list of its pod was there.
struct Ahead {
    id: String,
    state: ContainerState,
}

impl Ahead {
    fn is_confirmed_by(&self, pod: &RuntimePod) -> bool {
        pod.containers.iter().any(|container| container.id == self.id && container.state == self.state)
    }
}

/// What is under way. Every map and set here has at most one entry for each pod that there is or is being inspected.
#[derive(Default)]
struct Work<'p> {
    inspections: FuturesUnordered<BoxFuture<'p, Outcome>>,
    /// The pods that these are of.
    busy: HashSet<PodUid>,
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

    fn is_behind(&self, uid: &PodUid) -> bool {
        self.busy.contains(uid) || self.held.contains(uid)
    }

    fn forget(&mut self, uid: &PodUid) {
        self.failures.remove(uid);
        self.held.remove(uid);
    }
}

impl<R: Runtime, C: Clock> Pleg<R, C> {
    /// As [`run`](Self::run), with [`independent_pods`](crate::PlegOptions::independent_pods).
    pub(super) async fn run_apart(&self, cancel: CancellationToken) {
        let places = Arc::new(Semaphore::new(self.options.inspection_concurrency.get()));
        let mut work = Work::default();
        let mut listing: Option<BoxFuture<'_, Listed<'_>>> = None;
        let mut due = Instant::now();
        let mut earliest = due;
        loop {
            self.counters.inspections_open.store(count(work.busy.len()), Ordering::Relaxed);
            self.counters.inspections_held.store(count(work.held.len()), Ordering::Relaxed);
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                Some((inspection, result)) = work.inspections.next(), if !work.inspections.is_empty() => {
                    self.settle(&mut work, &places, &inspection, result);
                }
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
                        // What is to come of an inspection may be older than the container's status.
                        let may_write = !work.is_behind(&uid);
                        listing = Some(self.list_pod(uid, asked, may_write).boxed());
                    }
                },
            }
        }
        self.counters.inspections_open.store(0, Ordering::Relaxed);
        self.counters.inspections_held.store(0, Ordering::Relaxed);
    }

    async fn list_all(&self) -> Listed<'_> {
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

    async fn list_pod(&self, uid: PodUid, mut asked: Asked, may_write: bool) -> Listed<'_> {
        let _turn = self.turn.acquire().await;
        let began = self.clock.now();
        let (answer, early, ahead) = {
            let listing = pin!(self.runtime.pod(&uid));
            match self.early_status(&uid, &asked) {
                None => (listing.await, None, None),
                // The list does not wait for it; the inspection that the list calls for does.
                Some(early) => match select(listing, early).await {
                    Either::Left((answer, early)) => (answer, Some(early), None),
                    Either::Right((status, listing)) => {
                        let ahead =
                            status.as_ref().filter(|_| may_write).and_then(|status| self.write_ahead(&uid, status));
                        // Where more was asked for than this, the list answers.
                        let last = asked.last;
                        if let Some(event) = asked.event.take_if(|event| ahead.is_some() && *event == last) {
                            self.observer.event_answered(self.clock.now().saturating_duration_since(event));
                        }
                        (listing.await, Some(ready(status).boxed()), ahead)
                    }
                },
            }
        };
        self.observer.pod_relist_duration(self.clock.now().saturating_duration_since(began));
        Listed::Pod(Box::new(ListedPod { uid, asked, began, answer, early, ahead }))
    }

    /// Puts the status of a container that has changed into its pod's entry, before the pod has been listed. The entry is
    /// then as of the time that all of the pod was known at last, and no newer.
    fn write_ahead(&self, uid: &PodUid, early: &ContainerStatus) -> Option<Ahead> {
        let (entry, times) = self.reader.get_with_times(uid);
        let status = entry.status().filter(|_| entry.error().is_none())?;
        let at = status.containers.iter().position(|known| known.id == early.id)?;
        if status.containers[at].state == early.state {
            return None;
        }
        // The runtime was asked after the time of a listing was read: that much newer is what it said.
        let known = times.modified?.saturating_add_nanos(1).max(times.latest()?);
        let mut status = PodStatus::clone(status);
        status.containers[at] = early.clone();
        self.writer.set(uid, Some(Arc::new(status)), None, known);
        // Fails only when nobody watches.
        let _ = self.writes.send(uid.clone());
        Some(Ahead { id: early.id.id.clone(), state: early.state })
    }

    /// Asks for the status of the container that an event says has changed, if it is one of the pod's.
    fn early_status(&self, uid: &PodUid, asked: &Asked) -> Option<EarlyStatus<'_>> {
        let id = asked.container.as_deref().filter(|_| self.options.keep_unchanged)?;
        let pod = self.records.lock().listed(uid)?;
        let container = pod.containers.iter().find(|container| container.id == id)?.clone();
        // If it cannot be had, the inspection will tell.
        Some(async move { self.runtime.container_status(&pod, &container).await.ok().flatten() }.boxed())
    }

    fn take_listing<'p>(&'p self, work: &mut Work<'p>, places: &Arc<Semaphore>, listed: Listed<'p>) {
        match listed {
            Listed::All(began, Ok(pods)) => {
                self.note_listing(&pods, began);
                let plan = self.records.lock().list(pods, began);
                work.held.clear();
                self.begin(work, places, plan, began, None);
                // Else the global time says it, of all pods at once.
                if !(work.busy.is_empty() && work.held.is_empty()) {
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

    fn take_pod<'p>(&'p self, work: &mut Work<'p>, places: &Arc<Semaphore>, listed: ListedPod<'p>) {
        let ListedPod { uid, asked, began, answer, early, ahead } = listed;
        let is_confirmed = |ahead: &Ahead| {
            let pod = answer.as_ref().ok().and_then(Option::as_ref);
            pod.is_some_and(|pod| ahead.is_confirmed_by(pod))
        };
        if ahead.as_ref().is_some_and(|ahead| !is_confirmed(ahead)) {
            // The list tells of another state, or of none: whichever is true is found out by looking at all of the pod.
            self.records.lock().request(&uid);
        }
        match answer {
            Ok(pod) => {
                self.counters.pod_relists.add();
                let plan = self.records.lock().list_one(&uid, pod, began);
                work.held.remove(&uid);
                self.begin(work, places, plan, began, early);
                if !work.is_behind(&uid) {
                    self.writer.set_observed_time(&uid, began);
                }
                self.note_event(work, &uid, &asked);
            }
            Err(error) => {
                self.note_failed_pod(&uid, &error);
                self.counters.pod_relists_failed.add();
            }
        }
    }

    /// Does what a listing calls for, as far as it is not being done already.
    fn begin<'p>(
        &'p self,
        work: &mut Work<'p>,
        places: &Arc<Semaphore>,
        plan: Plan,
        began: Timestamp,
        mut early: Option<EarlyStatus<'p>>,
    ) {
        for removal in plan.removals {
            let uid = removal.pod.uid.clone();
            work.forget(&uid);
            self.remove(&removal, began);
            // That it is gone is known as well as anything; who waits for it need not wait for the global time.
            self.writer.set_observed_time(&uid, began);
            self.answer_event(work, &uid);
        }
        for inspection in plan.inspections {
            self.inspect_apart(work, places, inspection, early.take());
        }
    }

    fn inspect_apart<'p>(
        &'p self,
        work: &mut Work<'p>,
        places: &Arc<Semaphore>,
        inspection: Inspection,
        early: Option<EarlyStatus<'p>>,
    ) {
        let uid = &inspection.pod.uid;
        if work.busy.contains(uid) {
            // It is looked at again when that inspection has ended.
        } else if work.may_inspect(&inspection) {
            work.busy.insert(uid.clone());
            work.inspections.push(self.inspect_in_place(inspection, early, Arc::clone(places)).boxed());
        } else {
            work.held.insert(uid.clone());
        }
    }

    /// Inspects a pod when there is a place for it, which is given up when it takes too long.
    async fn inspect_in_place(
        &self,
        inspection: Inspection,
        early: Option<EarlyStatus<'_>>,
        places: Arc<Semaphore>,
    ) -> Outcome {
        // Never closed; without a place it would only be one too many.
        let place = places.acquire_owned().await;
        let mut outcome = pin!(self.inspect(inspection, early));
        if let Ok(outcome) = tokio::time::timeout(self.options.inspection_patience, &mut outcome).await {
            return outcome;
        }
        drop(place);
        outcome.await
    }

    /// An inspection has ended.
    fn settle<'p>(
        &'p self,
        work: &mut Work<'p>,
        places: &Arc<Semaphore>,
        inspection: &Inspection,
        result: Result<PodStatus, RuntimeError>,
    ) {
        let uid = &inspection.pod.uid;
        work.busy.remove(uid);
        let is_current = self.records.lock().is_current(inspection);
        let failed = result.is_err();
        if is_current {
            if failed {
                let times = work.failures.get(uid).map_or(1, |failure| failure.times.saturating_add(1));
                let pause = self.options.inspection_backoff_initial.saturating_mul(1 << (times - 1).min(16));
                let retry_at = Instant::now() + pause.min(self.options.inspection_backoff_max);
                work.failures.insert(uid.clone(), Failure { times, retry_at, pod: Arc::clone(&inspection.pod) });
            } else {
                work.failures.remove(uid);
            }
            self.apply_inspection(inspection, result);
        } else {
            trace!(pod.uid = %uid, pod = %name_of(&inspection.pod), "inspected in vain: it has gone or changed since");
        }
        let standing = self.records.lock().standing(uid);
        match standing {
            Standing::Gone => {
                work.forget(uid);
                self.answer_event(work, uid);
            }
            Standing::Known(at) => {
                if at > inspection.at || !is_current {
                    self.writer.set_observed_time(uid, at);
                }
                self.answer_event(work, uid);
            }
            // That it cannot be inspected is what is known as of its latest listing.
            Standing::Due(next) if is_current && failed && next.at <= inspection.at => self.answer_event(work, uid),
            Standing::Due(next) => self.inspect_apart(work, places, next, None),
        }
        self.move_global_time(work);
    }

    /// The last listing of all pods is what all of them are known as of, unless one is behind.
    fn move_global_time(&self, work: &mut Work<'_>) {
        let listed = self.last.lock().completed;
        if let Some(at) = listed.filter(|_| work.busy.is_empty() && work.held.is_empty())
            && work.global < Some(at)
        {
            self.writer.update_time(at);
            work.global = Some(at);
        }
    }

    /// The listing that an event asked for is there: its pod is up to date, or will be after an inspection.
    fn note_event(&self, work: &mut Work<'_>, uid: &PodUid, asked: &Asked) {
        let Some(event) = asked.event.filter(|_| !work.held.contains(uid)) else { return };
        if work.busy.contains(uid) {
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
