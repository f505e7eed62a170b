//! What random traces cover, and that a seed gives the same one again.

use super::*;
use crate::{Header, ObjectsOp, Op, PodStatusOp, replay};
use std::collections::{HashMap, HashSet};

fn traces(kind: Kind) -> impl Iterator<Item = Trace> {
    (0..1_500).map(move |seed| generate(kind, seed))
}

/// What each operation of the traces gave, with the operation.
fn answers(kind: Kind) -> Vec<(Op, String)> {
    traces(kind)
        .flat_map(|trace| {
            let mut results = Vec::new();
            replay(trace.to_string().as_bytes(), &mut results).unwrap_or_else(|error| panic!("{error}\n{trace}"));
            let results = String::from_utf8(results).expect("UTF-8");
            let lines: Vec<String> = results.lines().map(str::to_owned).collect();
            assert_eq!(lines.len(), trace.ops.len() + 1);
            trace.ops.into_iter().zip(lines)
        })
        .collect()
}

fn count(answers: &[(Op, String)], is: impl Fn(&Op, &str) -> bool) -> usize {
    answers.iter().filter(|(op, answer)| is(op, answer)).count()
}

#[test]
fn a_seed_gives_one_trace_and_another_seed_another() {
    for kind in Kind::ALL {
        assert_eq!(generate(kind, 11), generate(kind, 11));
        let different: HashSet<String> = (0..500).map(|seed| generate(kind, seed).to_string()).collect();
        assert!(different.len() > 490, "{}", different.len());
    }
}

#[test]
fn what_is_generated_is_read_back() {
    for kind in Kind::ALL {
        for trace in traces(kind).take(500) {
            assert_eq!(Trace::parse(trace.to_string().as_bytes()).expect("a good trace"), trace);
        }
    }
}

#[test]
fn every_answer_of_the_pod_status_cache_occurs() {
    let answers = answers(Kind::PodStatus);
    let named: Vec<String> = answers.iter().map(|(op, _)| op.to_string()).collect();
    let table: [(&str, &str); 14] = [
        ("get", "{\"empty\":true}"),
        ("get", "{\"status\":null}"),
        ("get", "{\"status\":\"s"),
        ("get", "{\"error\":\"e"),
        ("set", "{\"updated\":true}"),
        ("set", "{\"updated\":false}"),
        ("set", "{\"updated\":true,\"woken\":["),
        ("observed", "{\"woken\":["),
        ("update_time", "{\"woken\":["),
        ("newer", "{\"pending\":true}"),
        ("newer", "{\"empty\":true}"),
        ("newer", "{\"status\":"),
        ("cancel", "{}"),
        ("delete", "{}"),
    ];
    for (name, beginning) in table {
        let name = format!("\"op\":\"{name}\"");
        let of_that_name = named.iter().zip(&answers).filter(|(op, _)| op.contains(&name));
        let found = of_that_name.filter(|(_, (_, answer))| answer.starts_with(beginning)).count();
        assert!(found > 20, "{name} with {beginning}: {found}");
    }
    let many = count(&answers, |_, answer| answer.matches("\"id\":").count() > 2);
    assert!(many > 20, "three waits at once: {many}");
}

#[test]
fn every_answer_of_the_objects_occurs() {
    let answers = answers(Kind::Objects);
    let table = [
        "{\"error\":\"not_registered\",\"fetches\":[]}",
        "{\"error\":\"not_found\",\"fetches\":[{\"from_cache\":false}]}",
        "{\"error\":\"not_found\",\"fetches\":[{\"from_cache\":true}]}",
        "{\"error\":\"status_503\",\"fetches\":[{\"from_cache\":false}]}",
        "{\"data\":\"v1\",\"fetches\":[]",
        "{\"data\":\"v1\",\"fetches\":[{\"from_cache\":false}]",
        "{\"data\":\"v1\",\"fetches\":[{\"from_cache\":true}]",
    ];
    for beginning in table {
        let found = count(&answers, |op, answer| {
            matches!(op, Op::Objects(ObjectsOp::Get { .. })) && answer.starts_with(beginning)
        });
        assert!(found > 20, "{beginning}: {found}");
    }
    let statuses: HashSet<&str> =
        answers.iter().filter_map(|(_, answer)| answer.split("\"status_").nth(1)?.get(..3)).collect();
    assert!(statuses.len() > 100, "{}", statuses.len());
}

#[test]
fn every_operation_occurs_and_meets_another_of_its_kind() {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let (mut reused, mut registered_again, mut evented) = (0, 0, 0);
    for trace in Kind::ALL.into_iter().flat_map(traces) {
        evented += usize::from(trace.header == Header::PodStatus { evented: true });
        let (mut ids, mut pods) = (HashSet::new(), HashMap::new());
        for op in &trace.ops {
            let text: serde_json::Value = serde_json::from_str(&op.to_string()).expect("JSON");
            *seen.entry(text["op"].as_str().expect("a name").to_owned()).or_default() += 1;
            match op {
                Op::PodStatus(PodStatusOp::Newer { id, .. }) => reused += usize::from(!ids.insert(*id)),
                Op::Objects(ObjectsOp::Register { ns, name, uid, refs }) => {
                    let before = pods.insert((ns, name, uid), refs);
                    registered_again += usize::from(before.is_some_and(|before| before != refs));
                }
                _ => {}
            }
        }
    }
    assert_eq!(seen.len(), 18, "{seen:?}");
    assert!(seen.values().all(|count| *count > 250), "{seen:?}");
    assert!(reused > 50 && registered_again > 250 && evented > 500, "{reused} {registered_again} {evented}");
}
