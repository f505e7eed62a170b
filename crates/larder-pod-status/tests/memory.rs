//! What waits hold on the heap, to the byte: a program of its own, because it counts all allocations.
#![cfg(not(shuttle))]

use larder_clock::Timestamp;
use larder_pod_status::{NewerThan, Options, PodStatusReader, PodUid, pod_status_cache};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const WAITS: usize = 100_000;

fn held() -> usize {
    dhat::HeapStats::get().curr_bytes
}

fn uid(n: usize) -> PodUid {
    PodUid::from(format!("{n:08x}-0000-4000-8000-000000000000"))
}

type Reader = PodStatusReader<u32, u32>;

/// Waits for different times, as many for each pod. The futures are held in a vector, and counted with it.
fn open(reader: &Reader, pods: &[PodUid], count: usize) -> Vec<NewerThan<u32, u32>> {
    let mut waits = Vec::with_capacity(count);
    for (n, uid) in pods.iter().cycle().take(count).enumerate() {
        let min = i128::try_from(n * 7919 % count).expect("it is small");
        waits.push(reader.get_newer_than(uid.clone(), Timestamp::from_nanos(min + 1)));
    }
    waits
}

/// Bytes for each of so many waits.
fn alone(reader: &Reader, pods: &[PodUid], count: usize) -> usize {
    let before = held();
    let waits = open(reader, pods, count);
    let bytes = (held() - before).div_ceil(count);
    drop(waits);
    bytes
}

/// Bytes for each of so many waits, with a task that waits.
fn with_task(reader: &Reader, pods: &[PodUid], count: usize) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers");
    let before = held();
    for wait in open(reader, pods, count) {
        // The handle is dropped: the task lives by itself.
        drop(runtime.spawn(async move { drop(wait.await) }));
    }
    // Each of them is polled once, and so has its waker noted.
    runtime.block_on(async {
        for _ in 0..count {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(reader.open_waits(), count);
    (held() - before).div_ceil(count)
}

/// One test, because whatever else runs would be counted too.
#[test]
fn a_wait_is_small_and_leaves_nothing_behind() {
    let pods: Vec<PodUid> = (0..WAITS).map(uid).collect();
    let _profiler = dhat::Profiler::builder().testing().build();
    let (writer, reader) = pod_status_cache::<u32, u32>(Options::default());
    // What everything keeps once it has been used at all.
    println!("bytes for each of {WAITS} waits");
    alone(&reader, &pods, 10);
    with_task(&reader, &pods, 10);
    let idle = held();
    for count in [1, 1_000, WAITS] {
        let bytes = alone(&reader, &pods[..count], WAITS);
        println!("{bytes} for {count} pods");
        assert!(bytes <= 145, "{bytes} bytes for a wait, with {count} pods");
        assert!(held() <= idle, "{} bytes are left behind", held() - idle);
    }
    let bytes = with_task(&reader, &pods, WAITS);
    println!("{bytes} for {WAITS} pods, with tasks");
    assert!(bytes <= 580, "{bytes} bytes for a task that waits");
    assert!(held() <= idle, "{} bytes are left behind", held() - idle);
    // Waits that are answered, and have given their answers.
    let mut waits = open(&reader, &pods[..1_000], WAITS);
    writer.update_time(Timestamp::from_nanos(1 << 40));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waits.iter_mut().all(|wait| Pin::new(wait).poll(&mut cx).is_ready()));
    drop(waits);
    assert!(held() <= idle, "{} bytes are left behind", held() - idle);
    // With the last of the handles all of it goes.
    let status = Arc::new(1);
    writer.set(&pods[0], Some(Arc::clone(&status)), None, Timestamp::ZERO);
    drop((writer, reader));
    assert_eq!(Arc::strong_count(&status), 1);
}
