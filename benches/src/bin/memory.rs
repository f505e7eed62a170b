//! Prints the bytes of one wait or object in larder's caches.
//!
//! What the allocator was asked for, and 16 bytes for each block: the C library keeps 8 bytes with a block, and rounds it up
//! by 8 bytes on the average. Go's figures have the rounding in them, too.
//!
//! With `LARDER_HEAP_PROFILE=FILE` the heap is profiled instead, for dhat's viewer.

use anyhow::Result;
use larder_bench::command::{Operation, run};
use larder_bench::objects::{self, SECRETS_PER_POD};
use larder_bench::pod_status;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const OPERATIONS: &[Operation] = &[
    ("wait-memory", wait),
    ("wait-memory-in-task", wait_in_task),
    ("object-memory-registered", registered),
    ("object-memory-fetched", fetched),
];

/// Bytes that a block costs beside what was asked for.
const PER_BLOCK: usize = 16;

fn main() -> Result<()> {
    run(OPERATIONS)
}

/// What `build` leaves alive, for each of so many.
#[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
fn bytes_per<T>(count: usize, build: impl FnOnce() -> Result<T>) -> Result<f64> {
    let profile = std::env::var_os("LARDER_HEAP_PROFILE");
    let builder = dhat::Profiler::builder();
    if let Some(file) = profile {
        let profiler = builder.file_name(file).build();
        let kept = build()?;
        drop(profiler);
        drop(kept);
        return Ok(0.0);
    }
    let _profiler = builder.testing().build();
    let kept = build()?;
    let held = dhat::HeapStats::get();
    drop(kept);
    Ok((held.curr_bytes + held.curr_blocks * PER_BLOCK) as f64 / count as f64)
}

fn wait(waits: usize) -> Result<f64> {
    let uids = pod_status::pods(waits);
    bytes_per(waits, || Ok(pod_status::waits_alone(&uids)))
}

fn wait_in_task(waits: usize) -> Result<f64> {
    let uids = pod_status::pods(waits);
    bytes_per(waits, || pod_status::waits_in_tasks(&uids))
}

fn registered(pods: usize) -> Result<f64> {
    let all = objects::pods(pods)?;
    bytes_per(pods * SECRETS_PER_POD, || Ok(objects::registered(&all)))
}

fn fetched(pods: usize) -> Result<f64> {
    let all = objects::pods(pods)?;
    bytes_per(pods * SECRETS_PER_POD, || {
        let objects = objects::registered(&all);
        objects::fetch_all(&objects, pods)?;
        Ok(objects)
    })
}
