//! How a difference is found and shrunk.

use super::*;
use larder_sim::{GoDuration, Header, ObjectsOp, Op};

/// An original that is larder itself, so that it agrees with a right replay by construction.
struct Same;

impl Original for Same {
    fn answer(&mut self, traces: &[Trace]) -> Result<Vec<Vec<String>>> {
        Ok(traces.iter().map(larder).collect())
    }
}

/// A replay that takes an object for fresh one nanosecond too long.
fn wrong(trace: &Trace) -> Vec<String> {
    let mut wrong = trace.clone();
    if let Header::Objects { default_ttl } = &mut wrong.header {
        *default_ttl = GoDuration::from_nanos(default_ttl.nanos().saturating_add(1));
    }
    larder(&wrong)
}

fn plan(traces: u64, jobs: usize) -> Plan {
    Plan { traces, seed: 1, kind: None, jobs }
}

#[test]
fn a_right_replay_shows_no_difference_in_all_traces() {
    let findings = run(&plan(600, 2), &larder, || Ok(Same), &Bar::hidden()).expect("compared");
    assert!(findings.differences.is_empty());
    assert_eq!(findings.traces, 600);
    assert!(findings.operations > 6_000, "{}", findings.operations);
}

#[test]
fn a_wrong_replay_is_found_and_shrunk() {
    let findings = run(&plan(2_000, 2), &wrong, || Ok(Same), &Bar::hidden()).expect("compared");
    assert!(findings.differences.len() >= ENOUGH);
    for difference in &findings.differences {
        assert!(difference.trace.ops.len() <= 5, "{}", difference.trace);
        assert!(!agree(&difference.original, &difference.larder));
        assert_eq!(difference.original, larder(&difference.trace));
        // The seed finds the trace again.
        let again = Plan { traces: 1, seed: difference.seed, kind: None, jobs: 1 };
        let found = run(&again, &wrong, || Ok(Same), &Bar::hidden()).expect("compared");
        assert_eq!(found.differences[0].trace, difference.trace);
    }
}

#[test]
fn both_kinds_come_in_turn_unless_one_is_asked_for() {
    let kinds = |kind| -> Vec<Kind> { (0..4).map(|index| Plan { kind, ..plan(4, 1) }.kind_of(index)).collect() };
    assert_eq!(kinds(None), [Kind::Objects, Kind::PodStatus, Kind::Objects, Kind::PodStatus]);
    assert_eq!(kinds(Some(Kind::Objects)), [Kind::Objects; 4]);
}

#[test]
fn an_original_that_fails_ends_the_comparison() {
    struct Broken;
    impl Original for Broken {
        fn answer(&mut self, _: &[Trace]) -> Result<Vec<Vec<String>>> {
            anyhow::bail!("gone")
        }
    }
    let error = run(&plan(10, 1), &larder, || Ok(Broken), &Bar::hidden()).err().expect("an error");
    assert_eq!(error.to_string(), "gone");
}

#[test]
fn results_are_compared_as_values_and_line_by_line() {
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let one = lines(&[r#"{"a":1,"b":[{}]}"#, "{}"]);
    assert!(agree(&one, &lines(&[r#"{ "b": [ {} ], "a": 1 }"#, "{}"])));
    assert!(!agree(&one, &lines(&[r#"{"a":1,"b":[]}"#, "{}"])));
    assert!(!agree(&one, &lines(&[r#"{"a":1,"b":[{}]}"#])));
    assert!(!agree(&lines(&["nonsense"]), &lines(&["other nonsense"])));
}

#[test]
fn a_trace_that_larder_refuses_differs_from_one_that_it_runs() {
    let trace = Trace { header: Header::PodStatus { evented: false }, ops: vec![Op::Objects(ObjectsOp::NodeFail)] };
    let lines = larder(&trace);
    assert_eq!(lines, ["error: line 2: unknown operation \"node_fail\" in a trace of kind \"pod-status\""]);
}
