//! The least part of a trace that still shows a difference.

use crate::trace::{Header, Trace};
use crate::{GoDuration, ObjectsOp, Op};

/// Takes out of a trace whatever `differs` can do without, and returns what is left.
///
/// `differs` says whether a trace still shows what the given one does; a trace that it cannot run does not. First halves,
/// then ever smaller runs of operations are left out, until no single one can be; steps of the clock that follow one another
/// are joined; then the header is made as plain as it can be. Calls `differs` O(n²) times at worst, and about n log n times as a rule.
///
/// ```
/// use larder_sim::{Header, Kind, Op, PodStatusOp, generate, shrink};
///
/// let get = Op::PodStatus(PodStatusOp::Get { uid: "u1".into() });
/// let mut trace = generate(Kind::PodStatus, 1);
/// trace.ops.push(get.clone());
/// let least = shrink(trace, |trace| trace.ops.contains(&get));
/// assert_eq!(least.ops, [get]);
/// assert_eq!(least.header, Header::PodStatus { evented: false });
/// ```
pub fn shrink(trace: Trace, mut differs: impl FnMut(&Trace) -> bool) -> Trace {
    let mut least = trace;
    loop {
        let before = least.ops.len();
        least = without_runs(least, &mut differs);
        least = with_joined_steps(least, &mut differs);
        // What was needed by something that is gone by now may go as well.
        if least.ops.len() == before {
            break;
        }
    }
    plain_header(least, &mut differs)
}

/// Leaves out runs of operations, the long ones first.
fn without_runs(mut least: Trace, differs: &mut impl FnMut(&Trace) -> bool) -> Trace {
    let mut run = least.ops.len().div_ceil(2).max(1);
    loop {
        // From the end: what comes after a difference goes at the first try.
        let mut end = least.ops.len();
        while end > 0 {
            let start = end.saturating_sub(run);
            let (head, tail) = (&least.ops[..start], &least.ops[end..]);
            let ops: Vec<Op> = head.iter().chain(tail).cloned().collect();
            let candidate = Trace { header: least.header.clone(), ops };
            if differs(&candidate) {
                least = candidate;
            }
            end = start;
        }
        if run == 1 {
            return least;
        }
        run /= 2;
    }
}

/// Makes one step of the clock of two that follow one another.
fn with_joined_steps(mut least: Trace, differs: &mut impl FnMut(&Trace) -> bool) -> Trace {
    let mut at = 0;
    while at + 1 < least.ops.len() {
        if let (Op::Objects(ObjectsOp::Advance { by: first }), Op::Objects(ObjectsOp::Advance { by: second })) =
            (&least.ops[at], &least.ops[at + 1])
            && let Some(nanos) = first.nanos().checked_add(second.nanos())
        {
            let mut candidate = least.clone();
            candidate.ops[at] = Op::Objects(ObjectsOp::Advance { by: GoDuration::from_nanos(nanos) });
            candidate.ops.remove(at + 1);
            if differs(&candidate) {
                least = candidate;
                continue;
            }
        }
        at += 1;
    }
    least
}

fn plain_header(least: Trace, differs: &mut impl FnMut(&Trace) -> bool) -> Trace {
    let plain = match &least.header {
        Header::PodStatus { .. } => Header::PodStatus { evented: false },
        Header::Objects { .. } => match "60s".parse::<GoDuration>() {
            Ok(default_ttl) => Header::Objects { default_ttl },
            Err(_) => return least,
        },
    };
    let candidate = Trace { header: plain, ops: least.ops.clone() };
    if differs(&candidate) { candidate } else { least }
}

#[cfg(test)]
mod tests;
