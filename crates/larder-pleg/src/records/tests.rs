//! The diff of one listing from the next.

use super::*;
use ContainerState::{Created, Exited, Running, Unknown};
use EventKind::{ContainerChanged, ContainerDied, ContainerRemoved, ContainerStarted};

fn pod(uid: &str, containers: &[(&str, ContainerState)]) -> RuntimePod {
    let mut pod = RuntimePod::new(uid.into(), "ns", uid);
    pod.containers = containers
        .iter()
        .map(|&(id, state)| RuntimeContainer {
            id: id.into(),
            name: format!("name-{id}"),
            state,
            ..RuntimeContainer::default()
        })
        .collect();
    pod
}

fn at(nanos: i128) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn kinds(changes: &[Change]) -> Vec<(EventKind, &str)> {
    changes.iter().map(|change| (change.kind, change.container_id.as_str())).collect()
}

#[test]
fn every_transition_of_a_container() {
    let gone = || vec![ContainerDied, ContainerRemoved];
    let cases: Vec<(Option<ContainerState>, Option<ContainerState>, Vec<EventKind>)> = vec![
        (None, Some(Created), vec![ContainerChanged]),
        (None, Some(Running), vec![ContainerStarted]),
        (None, Some(Exited), vec![ContainerDied]),
        (None, Some(Unknown), vec![ContainerChanged]),
        (Some(Created), Some(Created), vec![]),
        (Some(Created), Some(Running), vec![ContainerStarted]),
        (Some(Created), Some(Exited), vec![ContainerDied]),
        (Some(Created), Some(Unknown), vec![ContainerChanged]),
        (Some(Created), None, gone()),
        (Some(Running), Some(Created), vec![ContainerChanged]),
        (Some(Running), Some(Running), vec![]),
        (Some(Running), Some(Exited), vec![ContainerDied]),
        (Some(Running), Some(Unknown), vec![ContainerChanged]),
        (Some(Running), None, gone()),
        (Some(Exited), Some(Running), vec![ContainerStarted]),
        (Some(Exited), Some(Exited), vec![]),
        (Some(Exited), Some(Unknown), vec![ContainerChanged]),
        // That it died was reported before.
        (Some(Exited), None, vec![ContainerRemoved]),
        (Some(Unknown), Some(Running), vec![ContainerStarted]),
        (Some(Unknown), Some(Exited), vec![ContainerDied]),
        (Some(Unknown), Some(Created), vec![ContainerChanged]),
        (Some(Unknown), Some(Unknown), vec![]),
        (Some(Unknown), None, gone()),
    ];
    for as_sandbox in [false, true] {
        for (old, new, expected) in &cases {
            let listed = |state: &Option<ContainerState>| {
                let mut pod = pod("u", &state.map(|state| ("c", state)).into_iter().collect::<Vec<_>>());
                if as_sandbox {
                    std::mem::swap(&mut pod.containers, &mut pod.sandboxes);
                }
                pod
            };
            let changes = compare(Some(&listed(old)), Some(&listed(new)));
            let found: Vec<_> = changes.iter().map(|change| change.kind).collect();
            assert_eq!(&found, expected, "{old:?} to {new:?}, sandbox: {as_sandbox}");
            assert!(changes.iter().all(|change| change.container_name == "name-c"));
        }
    }
}

#[test]
fn a_listing_in_another_order_is_the_same() {
    let old = pod("u", &[("a", Running), ("b", Exited)]);
    assert_eq!(compare(Some(&old), Some(&pod("u", &[("b", Exited), ("a", Running)]))), []);
}

#[test]
fn an_identifier_that_occurs_twice_counts_once_as_its_first() {
    let twice = pod("u", &[("a", Running), ("a", Exited)]);
    assert_eq!(kinds(&compare(None, Some(&twice))), [(ContainerStarted, "a")]);
    assert_eq!(kinds(&compare(Some(&twice), None)), [(ContainerDied, "a"), (ContainerRemoved, "a")]);
}

#[test]
fn a_pod_stays_as_it_was_until_its_inspection_succeeds() {
    let mut records = Records::default();
    let listing = || vec![pod("u", &[("a", Running)])];
    let first = records.list(listing(), at(1));
    assert_eq!(kinds(&first.inspections[0].changes), [(ContainerStarted, "a")]);
    // Nobody came back with it.
    let again = records.list(listing(), at(1));
    assert_eq!(again, first);
    records.failed(&again.inspections[0]);
    let third = records.list(listing(), at(1));
    assert_eq!(third.inspections[0].changes, first.inspections[0].changes);
    records.inspected(&third.inspections[0]);
    assert_eq!(records.list(listing(), at(1)), Plan::default());
}

#[test]
fn a_request_during_an_inspection_is_not_served_by_it() {
    let mut records = Records::default();
    let uid = PodUid::from("u");
    let listing = || vec![pod("u", &[("a", Running)])];
    let mut plan = records.list(listing(), at(1));
    records.request(&uid);
    records.inspected(&plan.inspections[0]);
    plan = records.list(listing(), at(1));
    assert_eq!(plan.inspections.len(), 1);
    records.inspected(&plan.inspections[0]);
    assert_eq!(records.list(listing(), at(1)), Plan::default());
}

#[test]
fn a_request_for_a_pod_without_a_record_leaves_nothing_behind() {
    let mut records = Records::default();
    records.request(&"nobody".into());
    assert_eq!((records.len(), records.is_requested(&"nobody".into())), (0, false));
}

#[test]
fn a_pod_that_is_gone_leaves_no_record() {
    let mut records = Records::default();
    let plan =
        records.list(vec![pod("u", &[("a", Running)]), pod("v", &[("b", Exited)]), pod("w", &[("c", Running)])], at(1));
    for inspection in &plan.inspections[..2] {
        records.inspected(inspection);
    }
    let mut plan = records.list(vec![pod("v", &[("b", Exited)])], at(1));
    plan.removals.sort_by(|a, b| a.pod.uid.cmp(&b.pod.uid));
    assert_eq!(plan.removals.len(), 2);
    assert_eq!(kinds(&plan.removals[0].changes), [(ContainerDied, "a"), (ContainerRemoved, "a")]);
    // Never inspected, so nobody was told that it was there.
    assert_eq!((plan.removals[1].pod.name.as_str(), plan.removals[1].changes.len()), ("w", 0));
    assert_eq!(records.len(), 1);

    let plan = records.list_one(&"v".into(), None, at(1));
    assert_eq!(kinds(&plan.removals[0].changes), [(ContainerRemoved, "b")]);
    assert_eq!(records.list_one(&"v".into(), None, at(1)), Plan::default());
    assert_eq!(records.len(), 0);
}

#[test]
fn a_listing_of_one_pod_touches_no_other() {
    let mut records = Records::default();
    for inspection in &records.list(vec![pod("u", &[("a", Running)]), pod("v", &[("b", Running)])], at(1)).inspections {
        records.inspected(inspection);
    }
    let plan = records.list_one(&"u".into(), Some(pod("u", &[("a", Exited)])), at(1));
    assert_eq!((plan.removals.len(), plan.inspections.len()), (0, 1));
    assert_eq!(kinds(&plan.inspections[0].changes), [(ContainerDied, "a")]);
    assert_eq!(records.len(), 2);
}
