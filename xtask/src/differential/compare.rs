//! The comparison itself: batches of random traces on both sides, and what is done with a difference.

use super::progress::Bar;
use anyhow::{Result, anyhow};
use larder_sim::{Kind, Trace, generate, replay, shrink};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Traces that are compared at once: enough that neither side waits for the other all the time.
const BATCH: u64 = 250;

/// Differences after which the rest is not looked at.
const ENOUGH: usize = 3;

/// What is right by definition.
pub(super) trait Original {
    /// The result lines of each trace.
    fn answer(&mut self, traces: &[Trace]) -> Result<Vec<Vec<String>>>;
}

/// Which traces to compare.
pub(super) struct Plan {
    pub(super) traces: u64,
    pub(super) seed: u64,
    /// Both in turn if there is none.
    pub(super) kind: Option<Kind>,
    pub(super) jobs: usize,
}

impl Plan {
    fn trace(&self, index: u64) -> Trace {
        generate(self.kind_of(index), self.seed_of(index))
    }

    fn seed_of(&self, index: u64) -> u64 {
        self.seed.wrapping_add(index)
    }

    fn kind_of(&self, index: u64) -> Kind {
        // By the seed, so that a single trace is found again by its seed alone.
        self.kind.unwrap_or(if self.seed_of(index).is_multiple_of(2) { Kind::PodStatus } else { Kind::Objects })
    }
}

/// What came of it.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) traces: u64,
    pub(super) operations: u64,
    pub(super) differences: Vec<Difference>,
}

/// A trace on which the two disagree, as short as it could be made.
pub(super) struct Difference {
    pub(super) seed: u64,
    pub(super) trace: Trace,
    pub(super) original: Vec<String>,
    pub(super) larder: Vec<String>,
}

/// The result lines of larder's replay; an error is the last of them.
pub(super) fn larder(trace: &Trace) -> Vec<String> {
    let mut results = Vec::new();
    let error = replay(trace.to_string().as_bytes(), &mut results).err();
    let mut lines: Vec<String> = String::from_utf8_lossy(&results).lines().map(str::to_owned).collect();
    lines.extend(error.map(|error| format!("error: {error}")));
    lines
}

/// Whether two results are the same, line by line as JSON values.
pub(super) fn agree(one: &[String], other: &[String]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same_value(one, other))
}

fn same_value(one: &str, other: &str) -> bool {
    let parse = |text| serde_json::from_str::<serde_json::Value>(text).ok();
    one == other || parse(one).is_some_and(|one| parse(other) == Some(one))
}

/// Compares the plan's traces; stops early once there are enough differences.
pub(super) fn run<O: Original>(
    plan: &Plan,
    subject: &(impl Fn(&Trace) -> Vec<String> + Sync),
    start: impl Fn() -> Result<O> + Sync,
    progress: &Bar,
) -> Result<Findings> {
    let next = AtomicU64::new(0);
    let findings = Mutex::new(Findings::default());
    let lock = || findings.lock().map_err(|_| anyhow!("a worker panicked"));
    let work = || -> Result<()> {
        let mut original = start()?;
        loop {
            // Each batch is taken once; nothing else depends on the order.
            let first = next.fetch_add(BATCH, Ordering::Relaxed);
            if first >= plan.traces || lock()?.differences.len() >= ENOUGH {
                return Ok(());
            }
            let last = plan.traces.min(first.saturating_add(BATCH));
            let traces: Vec<Trace> = (first..last).map(|index| plan.trace(index)).collect();
            let right = original.answer(&traces)?;
            for ((index, trace), right) in (first..).zip(&traces).zip(&right) {
                if !agree(right, &subject(trace)) {
                    let difference = least(plan.seed_of(index), trace.clone(), subject, &mut original)?;
                    progress.found();
                    lock()?.differences.push(difference);
                }
            }
            let mut findings = lock()?;
            findings.traces += last - first;
            findings.operations += traces.iter().map(|trace| trace.ops.len() as u64).sum::<u64>();
            progress.at(findings.traces);
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow!("a worker panicked"))?)
    })?;
    progress.done();
    findings.into_inner().map_err(|_| anyhow!("a worker panicked"))
}

/// Shrinks a trace on which the two disagree.
fn least(
    seed: u64,
    trace: Trace,
    subject: &impl Fn(&Trace) -> Vec<String>,
    original: &mut impl Original,
) -> Result<Difference> {
    let mut failure = None;
    let least = shrink(trace, |candidate| {
        if failure.is_some() {
            return false;
        }
        match original.answer(std::slice::from_ref(candidate)) {
            // A part that is no trace by itself, such as one in which a wait's id is taken, shows nothing.
            Ok(answers) => answers.iter().all(|right| is_whole(right) && !agree(right, &subject(candidate))),
            Err(error) => {
                failure = Some(error);
                false
            }
        }
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    let right = original.answer(std::slice::from_ref(&least))?.pop().unwrap_or_default();
    Ok(Difference { seed, larder: subject(&least), original: right, trace: least })
}

fn is_whole(results: &[String]) -> bool {
    results.last().is_some_and(|line| line.contains("\"end\":true"))
}

#[cfg(test)]
mod tests;
