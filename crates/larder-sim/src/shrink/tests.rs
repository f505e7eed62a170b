//! How far a trace is shrunk.

use super::*;
use crate::{Kind, ObjectsOp, PodStatusOp, generate, replay};

fn get(uid: usize) -> Op {
    Op::PodStatus(PodStatusOp::Get { uid: uid.to_string() })
}

#[test]
fn what_is_needed_stays_in_order() {
    for (length, needed) in
        [(1, vec![0]), (2, vec![1]), (100, vec![3, 50, 99]), (97, vec![0, 96]), (64, (10..30).collect())]
    {
        let trace = Trace { header: Header::PodStatus { evented: true }, ops: (0..length).map(get).collect() };
        let needed: Vec<Op> = needed.into_iter().map(get).collect();
        let mut calls = 0;
        let least = shrink(trace, |trace| {
            calls += 1;
            needed.iter().all(|op| trace.ops.contains(op))
        });
        assert_eq!(least, Trace { header: Header::PodStatus { evented: false }, ops: needed });
        assert!(calls < 1_000, "{calls} calls for {length} operations");
    }
}

#[test]
fn what_the_header_says_stays_if_it_is_needed() {
    let trace = Trace { header: Header::PodStatus { evented: true }, ops: vec![] };
    assert_eq!(shrink(trace.clone(), |candidate| candidate.header == trace.header), trace);
}

#[test]
fn pairs_that_need_each_other_go_together() {
    // Neither of a pair can go alone: runs of two do it.
    let trace = Trace { header: Header::PodStatus { evented: false }, ops: (0..40).map(get).collect() };
    let least = shrink(trace, |trace| {
        let has = |uid| trace.ops.contains(&get(uid));
        has(7) && (0..20).all(|pair| has(2 * pair) == has(2 * pair + 1) || pair == 3)
    });
    assert!(least.ops.contains(&get(7)) && least.ops.len() <= 4, "{least}");
}

#[test]
fn steps_of_the_clock_are_joined() {
    let step = |nanos| Op::Objects(ObjectsOp::Advance { by: GoDuration::from_nanos(nanos) });
    let total = |trace: &Trace| {
        let nanos = trace.ops.iter().map(|op| match op {
            Op::Objects(ObjectsOp::Advance { by }) => i128::from(by.nanos()),
            _ => 0,
        });
        nanos.sum::<i128>()
    };
    let header = Header::Objects { default_ttl: GoDuration::from_nanos(1) };
    let trace = Trace { header, ops: vec![step(5), step(-2), Op::Objects(ObjectsOp::NodeFail), step(4), step(1)] };
    assert_eq!(shrink(trace.clone(), |trace| total(trace) == 8).ops, [step(8)]);
    // A sum beyond 64 bits stays two steps.
    let far = Trace { ops: vec![step(i64::MAX), step(1)], ..trace };
    assert_eq!(shrink(far.clone(), |trace| total(trace) > i64::MAX.into()).ops, far.ops);
}

/// A replay that takes an object for fresh one nanosecond too long, as `<=` instead of `<` would.
fn with_a_longer_ttl(trace: &Trace) -> Vec<u8> {
    let mut trace = trace.clone();
    if let Header::Objects { default_ttl } = &mut trace.header {
        *default_ttl = GoDuration::from_nanos(default_ttl.nanos().saturating_add(1));
    }
    results(&trace)
}

fn results(trace: &Trace) -> Vec<u8> {
    let mut results = Vec::new();
    replay(trace.to_string().as_bytes(), &mut results).expect("a good trace");
    results
}

#[test]
fn a_wrong_replay_is_found_and_shown_with_the_fewest_operations() {
    let differs = |trace: &Trace| results(trace) != with_a_longer_ttl(trace);
    let found = (0..500).map(|seed| generate(Kind::Objects, seed)).find(|trace| differs(trace)).expect("a difference");
    let least = shrink(found, differs);
    assert!(differs(&least));
    // A reference, a read, the step to the very expiry (unless the TTL is 0) and a read.
    assert!(least.ops.len() <= 5, "{least}");
    let gets = least.ops.iter().filter(|op| matches!(op, Op::Objects(ObjectsOp::Get { .. }))).count();
    assert_eq!(gets, 2, "{least}");
}
