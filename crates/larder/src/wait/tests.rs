//! What can be waited for.

use super::*;
use serde_json::json;

fn answer(containers: &[(&str, &str)]) -> PodStatusAnswer {
    let containers: Vec<_> =
        containers.iter().map(|(name, state)| json!({"name": name, "state": state, "exitCode": 3})).collect();
    serde_json::from_value(json!({
        "uid": "u", "freshness": {"state": "fresh"}, "runtime": {"state": "ok"},
        "status": {"uid": "u", "namespace": "shop", "name": "web", "containers": containers},
    }))
    .unwrap()
}

/// The runtime has nothing of it.
fn absent() -> PodStatusAnswer {
    let mut answer = answer(&[]);
    answer.status = None;
    answer.as_of = Some(Timestamp::UNIX_EPOCH);
    answer
}

#[test]
fn conditions_are_read() {
    for (text, expected) in [
        ("state=exited", Condition::State(ContainerState::Exited)),
        ("exited", Condition::State(ContainerState::Exited)),
        ("running", Condition::State(ContainerState::Running)),
        ("state=created", Condition::State(ContainerState::Created)),
        ("delete", Condition::Delete),
        ("newer-than=1970-01-01T00:00:00.000000001Z", Condition::NewerThan(Timestamp::from_nanosecond(1).unwrap())),
    ] {
        assert_eq!(text.parse(), Ok(expected), "{text}");
    }
}

#[test]
fn a_state_is_that_of_the_newest_life_of_every_container() {
    let exited = Condition::State(ContainerState::Exited);
    for (containers, only, expected) in [
        (&[("app", "exited")][..], None, true),
        (&[("app", "running"), ("app", "exited")], None, false),
        (&[("app", "exited"), ("app", "running")], None, true),
        (&[("app", "exited"), ("side", "running")], None, false),
        (&[("app", "exited"), ("side", "running")], Some("app"), true),
        (&[("app", "exited")], Some("other"), false),
        (&[], None, false),
    ] {
        assert_eq!(is_met(&exited, only, &answer(containers)), expected, "{containers:?} {only:?}");
    }
}

#[test]
fn deleted_is_what_the_runtime_has_nothing_of() {
    assert!(is_met(&Condition::Delete, None, &absent()));
    assert!(!is_met(&Condition::Delete, None, &answer(&[])));
    let mut failing = absent();
    failing.error = Some("cannot be inspected".to_owned());
    assert!(!is_met(&Condition::Delete, None, &failing), "not known is not gone");
    let mut never_asked = absent();
    never_asked.as_of = None;
    assert!(!is_met(&Condition::Delete, None, &never_asked), "nor is what nobody has asked for");
}

#[test]
fn whoever_waited_in_vain_is_told_what_was_last_known() {
    assert_eq!(
        describe(None, &answer(&[("app", "exited"), ("side", "running")])),
        "app exited with 3, side is running"
    );
    assert_eq!(describe(Some("x"), &answer(&[("app", "exited")])), "the pod has no container \"x\"");
    assert_eq!(describe(None, &absent()), "the pod has no containers");
}
