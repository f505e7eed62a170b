//! How time is measured, and what both sides' keys are made of.

use larder_clock::{Clock as _, MonotonicClock, Timestamp};
use std::sync::Barrier;
use std::time::Duration;

/// How long the operations of one measurement take at least.
pub const TARGET: Duration = Duration::from_millis(200);

/// Calls `run` with a thread's number and a number of operations on so many threads, with more and more operations until
/// they take long enough: wall time in nanoseconds over all threads' operations.
pub fn nanos_per_operation(threads: usize, run: impl Fn(usize, usize) + Sync) -> f64 {
    let mut operations = 1;
    loop {
        let elapsed = together(threads, operations, &run);
        if elapsed >= TARGET {
            return per(elapsed, operations * threads);
        }
        let factor = TARGET.as_secs_f64() * 1.2 / elapsed.as_secs_f64().max(1e-6);
        operations = scaled(operations, factor.clamp(1.5, 100.0));
    }
}

/// Nanoseconds for each of so many.
#[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
pub fn per(elapsed: Duration, count: usize) -> f64 {
    elapsed.as_secs_f64() * 1e9 / count as f64
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn scaled(operations: usize, factor: f64) -> usize {
    (operations as f64 * factor) as usize
}

/// Runs on all threads at once: the time from the first one's start to the last one's end.
fn together(threads: usize, operations: usize, run: &(impl Fn(usize, usize) + Sync)) -> Duration {
    let clock = MonotonicClock::new();
    let ready = Barrier::new(threads);
    let times: Vec<(Timestamp, Timestamp)> = std::thread::scope(|scope| {
        let thread = |thread| {
            let ready = &ready;
            scope.spawn(move || {
                ready.wait();
                let start = clock.now();
                run(thread, operations);
                (start, clock.now())
            })
        };
        let running: Vec<_> = (0..threads).map(thread).collect();
        running.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    assert_eq!(times.len(), threads, "a thread panicked");
    let first = times.iter().map(|times| times.0).min().unwrap_or_default();
    let last = times.iter().map(|times| times.1).max().unwrap_or_default();
    last.saturating_duration_since(first)
}

/// Numbers without a pattern, the same ones each time and on both sides.
pub struct Sequence(u64);

impl Sequence {
    /// Starts anywhere.
    pub const fn new(start: u64) -> Self {
        Self(start)
    }
}

impl Iterator for Sequence {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some(self.0)
    }
}

/// UUIDs as the API server makes them.
pub fn uids(count: usize) -> impl Iterator<Item = String> {
    let mut numbers = Sequence::new(1);
    let mut next = move || numbers.next().unwrap_or_default();
    (0..count).map(move |_| {
        let (a, b) = (next(), next());
        let (c, d) = (a >> 16 & 0xffff, a & 0xffff);
        format!("{:08x}-{c:04x}-{d:04x}-{:04x}-{:012x}", a >> 32, b >> 48, b & 0xffff_ffff_ffff)
    })
}

/// The same in another order.
pub fn shuffled<T>(mut all: Vec<T>) -> Vec<T> {
    let mut numbers = Sequence::new(2);
    for n in (1..all.len()).rev() {
        let below = u64::try_from(n + 1).unwrap_or(u64::MAX);
        let other = (numbers.next().unwrap_or_default() >> 33) % below;
        all.swap(n, usize::try_from(other).unwrap_or_default());
    }
    all
}

/// Goes around a slice, from the thread's own beginning.
pub fn cycle<T>(all: &[T], thread: usize, threads: usize) -> impl Iterator<Item = &T> {
    let (head, tail) = all.split_at(all.len() * thread / threads);
    tail.iter().chain(head).cycle()
}
