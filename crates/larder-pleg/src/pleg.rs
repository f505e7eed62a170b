//! The relist: list the runtime, compare with the last listing, inspect the pods that differ, write the cache, deliver events.
//!
//! This file has the relist as the kubelet does it. `independent_pods` has the loop for [`PlegOptions::independent_pods`], and
//! `evented` reads the events of the runtime.

use crate::error::{PodName, RuntimeCall, RuntimeError};
use crate::event::{EventKind, EventReceiver, PodLifecycleEvent, WriteReceiver};
use crate::health::Unhealthy;
use crate::observe::{Counters, PlegObserver, PlegStats};
use crate::options::{InvalidOption, PlegOptions};
use crate::pod::RuntimePod;
use crate::queue::{RelistQueue, Request};
use crate::records::{Change, Inspection, Records, Removal};
use crate::runtime::{KnownPod, Runtime};
use crate::status::{ContainerStatus, PodStatus, SandboxState};
use futures_util::future::{BoxFuture, OptionFuture, Shared};
use futures_util::stream::{FuturesUnordered, StreamExt};
use larder_clock::{Clock, Timestamp};
use larder_pod_status::{PodStatusReader, PodStatusWriter, PodUid};
use last_relist::LastRelist;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Semaphore, broadcast};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, trace, warn};

mod evented;
mod independent_pods;
mod last_relist;

/// The status of a container that was asked for because of an event; none if it could not be had.
type EarlyStatus<'p> = Shared<BoxFuture<'p, Option<ContainerStatus>>>;

/// The pod lifecycle event generator. See the [crate's documentation](crate) for what it promises.
pub struct Pleg<R, C> {
    runtime: Arc<R>,
    clock: Arc<C>,
    options: PlegOptions,
    writer: PodStatusWriter<PodStatus, RuntimeError>,
    reader: PodStatusReader<PodStatus, RuntimeError>,
    observer: Arc<dyn PlegObserver>,
    events: broadcast::Sender<Arc<PodLifecycleEvent>>,
    /// The latest events, for whoever comes later; as many as are kept for subscribers. Sent to these under its lock.
    recent: Mutex<VecDeque<Arc<PodLifecycleEvent>>>,
    /// The pods whose entries have been written, as they are.
    writes: broadcast::Sender<PodUid>,
    counters: Counters,
    queue: Arc<RelistQueue>,
    /// One relist at a time, of all pods or of one. Not a lock over data: that is `records`, held for each step of it.
    turn: Semaphore,
    records: Mutex<Records>,
    last: Mutex<LastRelist>,
    event_stream_failure: Mutex<Option<Arc<str>>>,
    running: AtomicBool,
}

impl<R: Runtime, C: Clock> Pleg<R, C> {
    /// A PLEG that fills the cache of `writer` from `runtime`. It does nothing until it is [run](Self::run), or told to
    /// [relist](Self::relist).
    ///
    /// # Errors
    ///
    /// If an option cannot work; see [`PlegOptions::validate`].
    pub fn new(
        runtime: Arc<R>,
        clock: C,
        writer: PodStatusWriter<PodStatus, RuntimeError>,
        options: PlegOptions,
    ) -> Result<Self, InvalidOption> {
        options.validate()?;
        let clock = Arc::new(clock);
        let queue = Arc::new(RelistQueue::new(options.relist_queue));
        if options.relist_on_wait {
            let (clock, queue) = (Arc::clone(&clock), Arc::clone(&queue));
            // Set once, by the only one who ever has the writer.
            writer.on_wait(move |uid, min| {
                let now = clock.now();
                // What is to be newer than a time to come cannot be had now.
                if min <= now {
                    queue.push(uid.clone(), now);
                }
            });
        }
        Ok(Self {
            runtime,
            clock,
            reader: writer.reader(),
            writer,
            observer: Arc::new(()),
            events: broadcast::Sender::new(options.event_capacity.get()),
            recent: Mutex::default(),
            writes: broadcast::Sender::new(options.event_capacity.get()),
            counters: Counters::default(),
            queue,
            turn: Semaphore::new(1),
            records: Mutex::default(),
            last: Mutex::default(),
            event_stream_failure: Mutex::default(),
            running: AtomicBool::new(false),
            options,
        })
    }

    /// The same PLEG, with its measurements going to `observer`.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn PlegObserver>) -> Self {
        self.observer = observer;
        self
    }

    /// Relists at once and then once every period, and serves the requests for single pods in between, until `cancel` is
    /// cancelled. A second call while one is running returns at once.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time; that, or cancelling, ends it at once, in the middle of a call to the runtime too. What a
    /// relist that is cut short has not inspected is found by the next one.
    pub async fn run(&self, cancel: CancellationToken) {
        if self.running.swap(true, Ordering::AcqRel) {
            warn!("the pod lifecycle event generator is running already");
            return;
        }
        let _running = scopeguard(&self.running);
        if self.options.independent_pods {
            return self.run_independent(cancel).await;
        }
        let mut due = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                () = self.step(&mut due) => {}
            }
        }
    }

    /// Waits for the next thing to do, and does it. A relist of all pods that is due goes before requests for single ones.
    async fn step(&self, due: &mut Instant) {
        let all = tokio::select! {
            biased;
            () = tokio::time::sleep_until(*due) => true,
            request = self.queue.next() => match request {
                Request::All(asked) if self.serves(asked) => false,
                Request::All(_) => true,
                Request::Pod(uid, asked) if self.serves(asked.last) => {
                    trace!(pod.uid = %uid, "relisted since it was asked for");
                    self.counters.pod_relists_skipped.add();
                    false
                }
                Request::Pod(uid, asked) => {
                    self.relist_pod(&uid).await;
                    if let Some(event) = asked.event {
                        self.observer.event_answered(self.clock.now().saturating_duration_since(event));
                    }
                    false
                }
            },
        };
        if all {
            self.relist().await;
            *due = Instant::now() + self.options.relist_period;
        }
    }

    /// Whether the last relist of all pods serves a request made at that time.
    fn serves(&self, asked: Timestamp) -> bool {
        self.last.lock().completed.is_some_and(|began| asked <= began)
    }

    /// Relists all pods now. If the runtime cannot be listed, nothing changes but what [`last_relist`](Self::last_relist)
    /// says.
    ///
    /// # Cancel safety
    ///
    /// Dropped half way, it leaves the pods that it has inspected updated, the others for the next relist, and the cache's
    /// global time where it was.
    pub async fn relist(&self) {
        // Never closed.
        let Ok(_turn) = self.turn.acquire().await else { return };
        let previous = self.last.lock().succeeded;
        // Before the first call: whatever the runtime answers is at least that new.
        let began = self.clock.now();
        if let Some(previous) = previous {
            self.observer.relist_interval(began.saturating_duration_since(previous));
        }
        match self.runtime.pods().await {
            Ok(pods) => self.apply_listing(pods, began).await,
            Err(error) => self.note_failed_listing(error),
        }
        self.observer.relist_duration(self.clock.now().saturating_duration_since(began));
    }

    fn note_failed_listing(&self, error: RuntimeError) {
        let error = Arc::new(error);
        let is_news = self.last.lock().fail(Arc::clone(&error));
        if is_news {
            warn!(%error, "the container runtime cannot be listed");
        } else {
            debug!(%error, "the container runtime still cannot be listed");
        }
        self.counters.relists_failed.add();
    }

    /// The next relist of all pods will find out; that it cannot be had either was told already.
    fn note_failed_pod(&self, uid: &PodUid, error: &RuntimeError) {
        if self.last.lock().failed.is_some() {
            debug!(pod.uid = %uid, %error, "the container runtime does not answer for a pod");
        } else {
            warn!(pod.uid = %uid, %error, "the container runtime does not answer for a pod");
        }
    }

    fn note_listing(&self, pods: &[RuntimePod], began: Timestamp) {
        let is_back = self.last.lock().succeed(began);
        if is_back {
            info!("the container runtime can be listed again");
        }
        self.counters.relists.add();
        self.counters.listed(pods);
    }

    async fn apply_listing(&self, pods: Vec<RuntimePod>, began: Timestamp) {
        self.note_listing(&pods, began);
        let plan = self.records.lock().list(pods, began);
        for removal in plan.removals {
            self.remove(&removal, began);
        }
        self.inspect_all(plan.inspections).await;
        // After all pods: from here on, an entry that is older than this is known to be true still.
        self.writer.update_time(began);
        self.last.lock().completed = Some(began);
    }

    /// Relists one pod. A pod that is gone is as well known as one that is there, so its waits are answered too.
    async fn relist_pod(&self, uid: &PodUid) {
        // Never closed.
        let Ok(_turn) = self.turn.acquire().await else { return };
        let began = self.clock.now();
        match self.runtime.pod(uid).await {
            Ok(pod) => {
                self.counters.pod_relists.add();
                let plan = self.records.lock().list_one(uid, pod, began);
                for removal in plan.removals {
                    self.remove(&removal, began);
                }
                self.inspect_all(plan.inspections).await;
                self.writer.set_observed_time(uid, began);
            }
            Err(error) => {
                self.note_failed_pod(uid, &error);
                self.counters.pod_relists_failed.add();
            }
        }
        self.observer.pod_relist_duration(self.clock.now().saturating_duration_since(began));
    }

    fn remove(&self, removal: &Removal, began: Timestamp) {
        debug!(pod.uid = %removal.pod.uid, pod = %name_of(&removal.pod), "pod is gone from the container runtime");
        self.writer.delete(&removal.pod.uid);
        // Fails only when nobody watches.
        let _ = self.writes.send(removal.pod.uid.clone());
        self.deliver(&removal.pod, &removal.changes, None, began);
    }

    /// Inspects pods, as many side by side as the options allow, and applies each result as it comes.
    async fn inspect_all(&self, inspections: Vec<Inspection>) {
        let mut todo = inspections.into_iter();
        let mut open = FuturesUnordered::new();
        open.extend(todo.by_ref().take(self.options.inspection_concurrency.get()).map(|next| self.inspect(next, None)));
        while let Some((inspection, result)) = open.next().await {
            open.extend(todo.next().map(|next| self.inspect(next, None)));
            self.apply_inspection(&inspection, result);
        }
    }

    async fn inspect(
        &self,
        inspection: Inspection,
        early: Option<EarlyStatus<'_>>,
    ) -> (Inspection, Result<PodStatus, RuntimeError>) {
        let pod = &inspection.pod;
        let began = self.clock.now();
        let known = inspection.before.as_deref().filter(|_| self.options.keep_unchanged).and_then(|before| {
            let entry = self.reader.get(&pod.uid);
            Some((before, entry.status().filter(|_| entry.error().is_none()).cloned()?))
        });
        let status = async {
            let Some((before, status)) = &known else { return self.runtime.pod_status(pod, None).await };
            let early = OptionFuture::from(early).await.flatten();
            let forward = early.and_then(|early| bring_forward(pod, before, status, early));
            let known = match &forward {
                Some((before, status)) => KnownPod { pod: before, status },
                None => KnownPod { pod: before, status },
            };
            self.runtime.pod_status(pod, Some(known)).await
        };
        let result = match self.options.inspection_deadline {
            None => status.await,
            Some(after) => tokio::time::timeout(after, status).await.unwrap_or_else(|_| {
                let call = Arc::new(RuntimeCall::new("inspection").in_pod(name_of(pod)));
                Err(RuntimeError::TimedOut { call, after })
            }),
        };
        let took = self.clock.now().saturating_duration_since(began);
        self.observer.inspection_duration(took, result.is_ok());
        (inspection, result)
    }

    fn apply_inspection(&self, inspection: &Inspection, result: Result<PodStatus, RuntimeError>) {
        let (uid, began) = (&inspection.pod.uid, inspection.at);
        let mut status = match result {
            Ok(status) => status,
            Err(error) => {
                warn!(pod.uid = %uid, pod = %name_of(&inspection.pod), %error, "the pod cannot be inspected");
                self.counters.inspections_failed.add();
                let last = if self.options.keep_last_status { self.reader.get(uid).status().cloned() } else { None };
                self.writer.set(uid, last, Some(Arc::new(error)), began);
                let _ = self.writes.send(uid.clone());
                self.records.lock().failed(inspection);
                return;
            }
        };
        self.counters.inspections.add();
        self.keep_ips(uid, &mut status);
        let status = Arc::new(status);
        self.writer.set(uid, Some(Arc::clone(&status)), None, began);
        let _ = self.writes.send(uid.clone());
        self.records.lock().inspected(inspection);
        self.deliver(&inspection.pod, &inspection.changes, Some(&status), began);
    }

    /// Keeps the addresses of before for a pod whose sandboxes have all stopped: the network may have been taken down before
    /// the status was read, and a pod that has completed is still asked for its address.
    fn keep_ips(&self, uid: &PodUid, status: &mut PodStatus) {
        let ready = |status: &PodStatus| status.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready);
        if !status.ips.is_empty() || ready(status) {
            return;
        }
        let entry = self.reader.get(uid);
        if entry.error().is_some() && !self.options.keep_last_status {
            return;
        }
        if let Some(last) = entry.status() {
            status.ips.clone_from(&last.ips);
        }
    }

    fn deliver(&self, pod: &RuntimePod, changes: &[Change], status: Option<&PodStatus>, at: Timestamp) {
        if changes.is_empty() {
            self.send(pod, EventKind::PodSync, None, None, at);
        }
        for change in changes {
            // Reported by nothing but the inspection that it caused.
            if change.kind == EventKind::ContainerChanged {
                continue;
            }
            let exit_code = status.filter(|_| change.kind == EventKind::ContainerDied).and_then(|status| {
                let found = status.containers.iter().find(|container| container.id.id == change.container_id)?;
                Some(found.exit_code)
            });
            self.send(pod, change.kind, Some(change), exit_code, at);
        }
    }

    fn send(&self, pod: &RuntimePod, kind: EventKind, change: Option<&Change>, exit_code: Option<i32>, at: Timestamp) {
        let (container_id, container_name) = change
            .map_or((None, None), |change| (Some(change.container_id.clone()), Some(change.container_name.clone())));
        debug!(pod.uid = %pod.uid, pod = %name_of(pod), event = %kind, container = container_id, exit_code, "pod event");
        let event = PodLifecycleEvent {
            uid: pod.uid.clone(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            kind,
            container_id,
            container_name,
            exit_code,
            at,
        };
        let event = Arc::new(event);
        let mut recent = self.recent.lock();
        if recent.len() == self.options.event_capacity.get() {
            recent.pop_front();
        }
        recent.push_back(Arc::clone(&event));
        // Fails only when nobody has subscribed.
        let _ = self.events.send(event);
    }

    /// A stream of the events from now on.
    pub fn subscribe(&self) -> EventReceiver {
        EventReceiver::new(self.events.subscribe(), Arc::clone(&self.counters.events_discarded))
    }

    /// The latest events, oldest first, as many as are kept for subscribers, and a stream of those that follow them.
    pub fn subscribe_with_recent(&self) -> (Vec<Arc<PodLifecycleEvent>>, EventReceiver) {
        let recent = self.recent.lock();
        (recent.iter().cloned().collect(), self.subscribe())
    }

    /// A stream of the pods whose entries in the cache are written from now on, for whoever waits for a pod to change.
    pub fn watch_writes(&self) -> WriteReceiver {
        WriteReceiver::new(self.writes.subscribe())
    }

    /// Has the pod inspected at the next relist that lists it, whether or not it differs; its success is delivered as
    /// [`EventKind::PodSync`] if there is nothing else to say.
    pub fn request_reinspect(&self, uid: &PodUid) {
        self.records.lock().request(uid);
    }

    /// Has the pod relisted on its own as soon as may be, unless a relist that begins after this call comes first. Takes no
    /// time and never fails: where too many pods wait already, all of them are relisted at once. Served by
    /// [`run`](Self::run) only.
    pub fn request_relist(&self, uid: PodUid) {
        self.queue.push(uid, self.clock.now());
    }

    /// Has all pods relisted as soon as may be, unless a relist that begins after this call comes first.
    pub fn request_relist_of_all(&self) {
        self.queue.push_all(self.clock.now());
    }

    /// Whether the runtime was listed recently enough.
    ///
    /// # Errors
    ///
    /// If no relist has succeeded yet, or the last one that did began longer than
    /// [`relist_threshold`](PlegOptions::relist_threshold) ago.
    pub fn health(&self) -> Result<(), Unhealthy> {
        let (succeeded, error) = self.last_relist();
        let Some(succeeded) = succeeded else { return Err(Unhealthy::NeverRelisted { error }) };
        let ago = self.clock.now().saturating_duration_since(succeeded);
        let threshold = self.options.relist_threshold;
        if ago > threshold { Err(Unhealthy::Stalled { ago, threshold, error }) } else { Ok(()) }
    }

    /// When the last successful relist of all pods began, and why the latest one failed if none has succeeded since.
    pub fn last_relist(&self) -> (Option<Timestamp>, Option<Arc<RuntimeError>>) {
        let last = self.last.lock();
        (last.succeeded, last.failed.clone())
    }

    /// Why the runtime's event stream was lost, if it was lost more than once in a row. `None` once a stream works again, and
    /// for a runtime without events.
    pub fn event_stream_failure(&self) -> Option<Arc<str>> {
        self.event_stream_failure.lock().clone()
    }

    /// What has been counted so far.
    pub fn stats(&self) -> PlegStats {
        let succeeded = self.last.lock().succeeded;
        self.counters.snapshot(succeeded, &self.queue)
    }
}

impl<R, C> fmt::Debug for Pleg<R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pleg").field("options", &self.options).field("counters", &self.counters).finish_non_exhaustive()
    }
}

/// A pod as it was known, but for one of its containers, which is as it has been listed since; none if it was listed as
/// something else than its status says.
fn bring_forward(
    listed: &RuntimePod,
    before: &RuntimePod,
    status: &PodStatus,
    early: ContainerStatus,
) -> Option<(RuntimePod, PodStatus)> {
    let container = listed.containers.iter().find(|container| container.id == early.id.id)?;
    if container.state != early.state {
        return None;
    }
    let (mut before, mut status) = (before.clone(), status.clone());
    *before.containers.iter_mut().find(|known| known.id == container.id)? = container.clone();
    let at = status.containers.iter().position(|known| known.id == early.id)?;
    status.containers[at] = early;
    Some((before, status))
}

fn name_of(pod: &RuntimePod) -> PodName {
    PodName { uid: pod.uid.clone(), namespace: pod.namespace.clone(), name: pod.name.clone() }
}

/// Sets the flag to false when it is dropped.
fn scopeguard(flag: &AtomicBool) -> impl Drop + '_ {
    struct Guard<'a>(&'a AtomicBool);
    impl Drop for Guard<'_> {
        fn drop(&mut self) {
            // Whoever sees it may run in turn, with all that this run has left.
            self.0.store(false, Ordering::Release);
        }
    }
    Guard(flag)
}

#[cfg(test)]
mod tests;
