//! The pod status cache.

use crate::measure::{Sequence, TARGET, cycle, nanos_per_operation, per, shuffled, uids};
use anyhow::{Context as _, Result};
use larder_clock::{Clock as _, MonotonicClock, Timestamp};
use larder_pod_status::{NewerThan, Options, PodStatusReader, PodStatusWriter, PodUid, pod_status_cache};
use std::future::poll_fn;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

/// What the runtime says of a pod; what it is does not matter here.
type Status = String;
type Reader = PodStatusReader<Status, Status>;
type Writer = PodStatusWriter<Status, Status>;
type Wait = NewerThan<Status, Status>;

/// Those of a large node, several times over.
const PODS: usize = 1_000;
/// A time that no operation reaches.
const LATER: usize = 1 << 50;

fn at(nanos: usize) -> Timestamp {
    Timestamp::from_nanos(i128::try_from(nanos).unwrap_or(i128::MAX))
}

/// So many pods' UIDs.
pub fn pods(count: usize) -> Vec<PodUid> {
    uids(count).map(|uid| PodUid::from(uid.as_str())).collect()
}

/// A cache that has a status for each pod.
fn filled(uids: &[PodUid]) -> (Writer, Reader) {
    let (writer, reader) = pod_status_cache(Options::default());
    for uid in uids {
        writer.set(uid, Some(Arc::new(uid.to_string())), None, at(0));
    }
    (writer, reader)
}

fn get_all<'u>(reader: &Reader, keys: impl Iterator<Item = &'u PodUid>, operations: usize) {
    for uid in keys.take(operations) {
        let entry = reader.get(uid);
        assert!(black_box(&entry).status().is_some(), "a status is gone");
    }
}

/// Reads on so many threads.
///
/// # Errors
///
/// None.
pub fn get(threads: usize) -> Result<f64> {
    let uids = pods(PODS);
    let (_writer, reader) = filled(&uids);
    let keys = shuffled(uids);
    Ok(nanos_per_operation(threads, |thread, operations| {
        get_all(&reader, cycle(&keys, thread, threads), operations);
    }))
}

/// Reads on so many threads, while another one sets without a rest.
///
/// # Errors
///
/// None.
pub fn get_while_set(readers: usize) -> Result<f64> {
    let uids = pods(PODS);
    let (writer, reader) = filled(&uids);
    let keys = shuffled(uids);
    let stop = AtomicBool::new(false);
    Ok(std::thread::scope(|scope| {
        scope.spawn(|| {
            let status = Arc::new(Status::new());
            for (n, uid) in cycle(&keys, 0, 1).enumerate().take_while(|_| !stop.load(Ordering::Relaxed)) {
                writer.set(uid, Some(Arc::clone(&status)), None, at(n));
            }
        });
        let nanos = nanos_per_operation(readers, |thread, operations| {
            get_all(&reader, cycle(&keys, thread, readers), operations);
        });
        stop.store(true, Ordering::Relaxed);
        nanos
    }))
}

/// Sets, with nobody waiting.
///
/// # Errors
///
/// None.
pub fn set(threads: usize) -> Result<f64> {
    let uids = pods(PODS);
    let (writer, _reader) = filled(&uids);
    let keys = shuffled(uids);
    Ok(nanos_per_operation(threads, |thread, operations| {
        let status = Arc::new(Status::new());
        for (n, uid) in cycle(&keys, thread, threads).take(operations).enumerate() {
            writer.set(uid, Some(Arc::clone(&status)), None, at(n));
        }
    }))
}

/// So many waits that are not due, spread over the pods.
pub fn begin(reader: &Reader, uids: &[PodUid], count: usize) -> Vec<Wait> {
    let mut waits = Vec::with_capacity(count);
    let uids = uids.iter().cycle().take(count).enumerate();
    waits.extend(uids.map(|(n, uid)| reader.get_newer_than(uid.clone(), at(LATER + n))));
    waits
}

/// Begins a wait and drops it, among so many open ones of 1,000 pods, for a time that is among theirs.
///
/// # Errors
///
/// None.
pub fn begin_and_drop(open: usize) -> Result<f64> {
    Ok(begin_and_drop_of(PODS, open))
}

/// As [`begin_and_drop`], where each of the open waits is for another pod.
///
/// # Errors
///
/// None.
pub fn begin_and_drop_of_many_pods(open: usize) -> Result<f64> {
    Ok(begin_and_drop_of(open, open))
}

fn begin_and_drop_of(count: usize, open: usize) -> f64 {
    let uids = pods(count);
    let (_writer, reader) = pod_status_cache(Options::default());
    let waits = begin(&reader, &uids, open);
    let keys = shuffled(uids);
    let nanos = nanos_per_operation(1, |_, operations| {
        let span = u64::try_from(open).unwrap_or(u64::MAX);
        for (uid, number) in cycle(&keys, 0, 1).zip(Sequence::new(3)).take(operations) {
            let min = at(LATER + usize::try_from((number >> 33) % span).unwrap_or_default());
            drop(black_box(reader.get_newer_than(uid.clone(), min)));
        }
    });
    drop(waits);
    nanos
}

/// Updates of the global time, with so many waits open and none due.
///
/// # Errors
///
/// None.
pub fn update_time_none_due(open: usize) -> Result<f64> {
    let uids = pods(open);
    let (writer, reader) = pod_status_cache(Options::default());
    let waits = begin(&reader, &uids, open);
    let nanos = nanos_per_operation(1, |_, operations| (0..operations).for_each(|n| writer.update_time(at(n))));
    drop(waits);
    Ok(nanos)
}

fn runtime(workers: usize) -> Result<Runtime> {
    Builder::new_multi_thread().worker_threads(workers).build().context("start a runtime")
}

/// One update that wakes so many tasks, until all have run: from a task, as the PLEG's update is, on as many threads as
/// there are cores.
///
/// # Errors
///
/// There is no runtime.
pub fn update_time_all_woken(waits: usize) -> Result<f64> {
    let uids = pods(waits);
    let (writer, reader) = filled(&uids);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = runtime(cores)?;
    runtime.block_on(async {
        tokio::spawn(async move {
            let clock = MonotonicClock::new();
            let (mut total, mut rounds) = (Duration::ZERO, 0);
            while total < TARGET || rounds < 10 {
                rounds += 1;
                let now = at(rounds);
                let all = Arc::new(Tally::new(waits));
                for uid in &uids {
                    drop(tokio::spawn(all.clone().counted(reader.get_newer_than(uid.clone(), now))));
                }
                all.until_begun().await;
                let start = clock.now();
                writer.update_time(now);
                all.until_ended().await;
                total += clock.now().saturating_duration_since(start);
            }
            per(total, rounds)
        })
        .await
        .context("the measuring task")
    })
}

/// Counts tasks that have begun to wait and that have ended.
struct Tally {
    waiting: AtomicUsize,
    running: AtomicUsize,
    ended: Notify,
}

impl Tally {
    fn new(tasks: usize) -> Self {
        Self { waiting: AtomicUsize::new(tasks), running: AtomicUsize::new(tasks), ended: Notify::new() }
    }

    async fn counted(self: Arc<Self>, mut wait: Wait) {
        let mut begun = false;
        let answer = poll_fn(|context| {
            let polled = Pin::new(&mut wait).poll(context);
            if polled.is_pending() && !std::mem::replace(&mut begun, true) {
                self.waiting.fetch_sub(1, Ordering::Release);
            }
            polled
        });
        drop(black_box(answer.await));
        // The count is all that is shared; what the last task sees of it is enough to tell that it is the last.
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.ended.notify_one();
        }
    }

    async fn until_begun(&self) {
        while self.waiting.load(Ordering::Acquire) > 0 {
            tokio::task::yield_now().await;
        }
    }

    async fn until_ended(&self) {
        self.ended.notified().await;
    }
}

/// So many waits by themselves, none due, and the cache that they are of; one for each pod.
pub fn waits_alone(uids: &[PodUid]) -> impl Sized + use<> {
    let (writer, reader) = pod_status_cache(Options::default());
    let waits = begin(&reader, uids, uids.len());
    (writer, reader, waits)
}

/// So many tasks that wait, none due, and the cache that they wait for; one for each pod.
///
/// # Errors
///
/// There is no runtime.
pub fn waits_in_tasks(uids: &[PodUid]) -> Result<impl Sized + use<>> {
    let (writer, reader): (Writer, Reader) = pod_status_cache(Options::default());
    let runtime = Builder::new_current_thread().build().context("start a runtime")?;
    for (n, uid) in uids.iter().enumerate() {
        let wait = reader.get_newer_than(uid.clone(), at(LATER + n));
        drop(runtime.spawn(async move { drop(black_box(wait.await)) }));
    }
    // Each task is polled once, so that its waker is noted.
    runtime.block_on(async {
        for _ in 0..uids.len() {
            tokio::task::yield_now().await;
        }
    });
    Ok((writer, reader, runtime))
}
