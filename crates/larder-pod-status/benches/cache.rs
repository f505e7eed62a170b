//! What the cache's operations cost: `cargo bench -p larder-pod-status`.
//!
//! The figures for several threads are per operation of one thread; wall time over all threads' operations is that divided
//! by the number of threads, as long as there are as many cores.
#![allow(missing_docs, reason = "the benches are read by name")]

use divan::{Bencher, black_box};
use larder_clock::Timestamp;
use larder_pod_status::{NewerThan, Options, PodStatusReader, PodStatusWriter, PodUid, pod_status_cache};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Writer = PodStatusWriter<String, String>;
type Reader = PodStatusReader<String, String>;
type Wait = NewerThan<String, String>;

/// Pods of a large node, several times over.
const PODS: usize = 1_000;

fn main() {
    divan::main();
}

fn at(nanos: usize) -> Timestamp {
    Timestamp::from_nanos(i128::try_from(nanos).unwrap_or(i128::MAX))
}

/// UUIDs as the API server makes them, always the same.
fn uids(count: usize) -> Vec<PodUid> {
    let mut state: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let mut next = || {
        state = state.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(1);
        state ^ (state >> 64)
    };
    let text = |id: u128| {
        let hex = format!("{id:032x}");
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    };
    (0..count).map(|_| PodUid::from(text(next()).as_str())).collect()
}

fn filled(uids: &[PodUid]) -> (Writer, Reader) {
    let (writer, reader) = pod_status_cache(Options::default());
    for uid in uids {
        writer.set(uid, Some("running".to_owned().into()), None, Timestamp::ZERO);
    }
    (writer, reader)
}

/// Waits for one future time and another, none of which is due before 2^40, spread over the pods.
fn open(reader: &Reader, uids: &[PodUid], count: usize) -> Vec<Wait> {
    let mut waits = Vec::with_capacity(count);
    waits.extend((0..count).map(|n| reader.get_newer_than(uids[n % uids.len()].clone(), at((1 << 40) + n))));
    waits
}

/// Calls with the keys in an order without a pattern.
fn keys<'u>(uids: &'u [PodUid]) -> impl Fn() -> &'u PodUid + Sync {
    thread_local!(static AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) });
    move || {
        AT.with(|at| {
            at.set(at.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
            &uids[(at.get() >> 33) % uids.len()]
        })
    }
}

#[divan::bench(threads = [1, 2], sample_size = 100_000)]
fn get(bencher: Bencher) {
    let uids = uids(PODS);
    let (_writer, reader) = filled(&uids);
    let key = keys(&uids);
    bencher.bench(|| black_box(reader.get(key())));
}

#[divan::bench(threads = [1, 2], sample_size = 100_000)]
fn peek(bencher: Bencher) {
    let uids = uids(PODS);
    let (_writer, reader) = filled(&uids);
    let key = keys(&uids);
    bencher.bench(|| reader.peek(key(), |entry| entry.status().map(|status| status.len())));
}

#[divan::bench(threads = [2], sample_size = 100_000)]
fn get_beside_a_writer(bencher: Bencher) {
    beside_a_writer(bencher, |reader, uid| drop(black_box(reader.get(uid))));
}

#[divan::bench(threads = [2], sample_size = 100_000)]
fn peek_beside_a_writer(bencher: Bencher) {
    beside_a_writer(bencher, |reader, uid| {
        black_box(reader.peek(uid, |entry| entry.status().map(|status| status.len())));
    });
}

/// The writer never rests.
fn beside_a_writer(bencher: Bencher, read: impl Fn(&Reader, &PodUid) + Sync) {
    let uids = uids(PODS);
    let (writer, reader) = filled(&uids);
    let done = AtomicBool::new(false);
    let status = Arc::new("running".to_owned());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for uid in uids.iter().cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
                writer.set(uid, Some(Arc::clone(&status)), None, Timestamp::ZERO);
            }
        });
        let key = keys(&uids);
        bencher.bench(|| read(&reader, key()));
        done.store(true, Ordering::Relaxed);
    });
}

#[divan::bench(sample_size = 10_000)]
fn set(bencher: Bencher) {
    let uids = uids(PODS);
    let (writer, _reader) = filled(&uids);
    let key = keys(&uids);
    let status = Arc::new("running".to_owned());
    bencher.bench(|| writer.set(key(), Some(Arc::clone(&status)), None, Timestamp::ZERO));
}

#[divan::bench(sample_size = 10_000)]
fn set_observed_time(bencher: Bencher) {
    let uids = uids(PODS);
    let (writer, _reader) = filled(&uids);
    let key = keys(&uids);
    bencher.bench(|| writer.set_observed_time(key(), Timestamp::ZERO));
}

/// The wait's time is the latest, the earliest, and one among those of the others.
#[divan::bench(args = ["latest", "earliest", "between"], consts = [1_000, 1_000_000], sample_size = 1_000)]
fn begin_and_drop_among_a_million<const PODS: usize>(bencher: Bencher, which: &str) {
    const OPEN: usize = 1_000_000;
    let uids = uids(PODS);
    let (_writer, reader) = pod_status_cache(Options::default());
    let waits = open(&reader, &uids, OPEN);
    let key = keys(&uids);
    let random = AtomicUsize::new(1);
    let min = || match which {
        "latest" => at(1 << 41),
        "earliest" => at(1),
        _ => at((1 << 40) + random.fetch_add(0x9e37_79b9, Ordering::Relaxed) % OPEN),
    };
    bencher.bench(|| drop(black_box(reader.get_newer_than(key().clone(), min()))));
    drop(waits);
}

#[divan::bench(args = [100, 1_000, 10_000, 100_000, 1_000_000], sample_size = 10_000)]
fn update_time_that_wakes_nobody(bencher: Bencher, open_waits: usize) {
    let uids = uids(open_waits);
    let (writer, reader) = pod_status_cache(Options::default());
    let waits = open(&reader, &uids, open_waits);
    bencher.bench(|| writer.update_time(at(1)));
    drop(waits);
}

/// With a waker that does nothing: what the cache itself does for 10,000 waits of as many pods.
#[divan::bench(args = [10_000, 1_000_000])]
fn update_time_that_ends_10_000(bencher: Bencher, open_waits: usize) {
    const DUE: usize = 10_000;
    let uids = uids(open_waits);
    let (writer, reader) = pod_status_cache(Options::default());
    let waits = open(&reader, &uids, open_waits - DUE);
    bencher
        .with_inputs(|| uids.iter().rev().take(DUE).map(|uid| reader.get_newer_than(uid.clone(), at(1))).collect())
        .bench_refs(|_: &mut Vec<Wait>| writer.update_time(at(1)));
    drop(waits);
}

/// Until all of 10,000 tasks have run, on two threads.
#[divan::bench(sample_count = 20)]
fn update_time_that_wakes_10_000_tasks(bencher: Bencher) {
    const DUE: usize = 10_000;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let uids = uids(PODS);
    let (writer, reader) = filled(&uids);
    let now = AtomicUsize::new(1);
    bencher
        .with_inputs(|| {
            let min = at(now.fetch_add(1, Ordering::Relaxed) + 1);
            let started = Arc::new(tokio::sync::Semaphore::new(0));
            let (ended, all_ended) = std::sync::mpsc::channel();
            for n in 0..DUE {
                let (mut wait, ended) = (reader.get_newer_than(uids[n % PODS].clone(), min), ended.clone());
                let started = Arc::clone(&started);
                runtime.spawn(async move {
                    // Its first poll comes before it counts as started.
                    let begun = async {
                        started.add_permits(1);
                        std::future::pending::<()>().await;
                    };
                    tokio::select! { biased; _ = &mut wait => drop(ended), () = begun => {} }
                });
            }
            let all = u32::try_from(DUE).unwrap_or(u32::MAX);
            runtime.block_on(async { started.acquire_many(all).await.map(tokio::sync::SemaphorePermit::forget) }).ok();
            (min, all_ended)
        })
        .bench_refs(|(min, all_ended): &mut (Timestamp, std::sync::mpsc::Receiver<()>)| {
            writer.update_time(*min);
            // The last of the tasks drops the last of the senders.
            all_ended.recv().is_err()
        });
}
