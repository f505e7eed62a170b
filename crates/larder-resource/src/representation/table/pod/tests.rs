//! A pod's cells. `cargo xtask differential --tables N` compares many more with upstream's.

use super::*;
use serde_json::{Value, json};

/// READY, STATUS and RESTARTS of a pod of two containers and two init containers, one of which is a sidecar.
#[track_caller]
fn check(expected: [&str; 3], status: &Value) {
    check_with(expected, &json!({"name": "web"}), status);
}

#[track_caller]
fn check_with(expected: [&str; 3], metadata: &Value, status: &Value) {
    let spec = json!({
        "containers": [{"name": "a"}, {"name": "b"}],
        "initContainers": [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}],
    });
    let pod = json!({"metadata": metadata, "spec": spec, "status": status}).to_string();
    let row = row(pod.as_bytes(), "2026-01-02T00:00:00Z".parse().unwrap()).unwrap();
    assert_eq!(row.cells[1..4], expected, "{pod}");
}

fn running() -> Value {
    json!({"name": "a", "ready": true, "state": {"running": {}}})
}

fn ended(exit_code: i32, reason: &str) -> Value {
    json!({"name": "b", "state": {"terminated": {"exitCode": exit_code, "reason": reason}}})
}

#[test]
fn the_status_is_the_phase_or_what_keeps_the_pod_from_it() {
    check(["0/3", "", "0"], &json!({}));
    check(["0/3", "Pending", "0"], &json!({"phase": "Pending"}));
    check(["0/3", "Evicted", "0"], &json!({"phase": "Failed", "reason": "Evicted"}));
    let gated = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]});
    check(["0/3", "SchedulingGated", "0"], &gated);
    let conditions = json!([{"type": "Ready", "status": "True"}]);
    for (expected, containers) in [
        (["2/3", "Running", "0"], json!([running(), running()])),
        (
            ["0/3", "CrashLoopBackOff", "4"],
            json!([{"restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]),
        ),
        (["0/3", "Running", "0"], json!([{"state": {"waiting": {}}}])),
        (["0/3", "Completed", "0"], json!([ended(0, "Completed")])),
        (["0/3", "ExitCode:3", "0"], json!([ended(3, "")])),
        (["0/3", "Signal:9", "0"], json!([{"state": {"terminated": {"exitCode": 137, "signal": 9}}}])),
        // The first container that does not run says why.
        (["0/3", "Error", "0"], json!([ended(1, "Error"), ended(0, "Completed")])),
        (["0/3", "Error", "0"], json!([ended(0, "Completed"), ended(1, "Error")])),
        (["1/3", "NotReady", "0"], json!([running(), ended(0, "Completed")])),
        (["1/3", "Error", "0"], json!([ended(0, "Completed"), ended(1, "Error"), running()])),
    ] {
        let mut status = json!({"phase": "Running", "containerStatuses": containers});
        check(expected, &status);
        status["conditions"] = conditions.clone();
        let is_mixed = expected[1] == "NotReady" || expected[0] == "1/3";
        check(if is_mixed { [expected[0], "Running", expected[2]] } else { expected }, &status);
    }
}

#[test]
fn init_containers_come_first_until_they_have_ended_well() {
    let waiting = |reason: &str| json!({"name": "setup", "state": {"waiting": {"reason": reason}}});
    let proxy = |ready, started| json!({"name": "proxy", "ready": ready, "started": started, "state": {"running": {}}});
    let done = json!({"name": "setup", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
    for (expected, init) in [
        (["0/3", "Init:0/2", "0"], json!([waiting("PodInitializing"), proxy(false, false)])),
        (["0/3", "Init:ImagePullBackOff", "0"], json!([waiting("ImagePullBackOff")])),
        (["0/3", "Init:Error", "0"], json!([ended(1, "Error")])),
        (["0/3", "Init:ExitCode:2", "0"], json!([ended(2, "")])),
        (["0/3", "Init:Signal:9", "0"], json!([{"state": {"terminated": {"exitCode": 1, "signal": 9}}}])),
        (["0/3", "Init:1/2", "0"], json!([done, proxy(true, false)])),
        // A sidecar that has started counts with the containers.
        (["1/3", "Running", "0"], json!([done, proxy(true, true)])),
        (["0/3", "Running", "0"], json!([done, proxy(false, true)])),
    ] {
        let containers = json!([{"state": {"waiting": {"reason": ""}}}]);
        check(expected, &json!({"phase": "Running", "initContainerStatuses": init, "containerStatuses": containers}));
    }
    // A pod that was initialized once shows its containers, whatever its init containers do now.
    let status = json!({"initContainerStatuses": [ended(1, "Error")], "containerStatuses": [running()],
        "conditions": [{"type": "Initialized", "status": "True"}]});
    check(["1/3", "Init:Error", "0"], &status);
}

#[test]
fn restarts_say_when_the_last_container_ended() {
    let with = |name: &str, count: u32, end: &str| {
        json!({"name": name, "restartCount": count, "lastState": {"terminated": {"finishedAt": end}}, "state": {"running": {}},
            "started": true})
    };
    let containers = json!([with("a", 2, "2026-01-01T23:00:00Z"), with("b", 1, "2026-01-01T23:50:00Z")]);
    check(["0/3", "", "3 (10m ago)"], &json!({"containerStatuses": containers}));
    check(["0/3", "", "0"], &json!({"containerStatuses": [with("a", 0, "2026-01-01T23:00:00Z")]}));
    check(["0/3", "", "2"], &json!({"containerStatuses": [with("a", 2, "0001-01-01T00:00:00Z")]}));
    // While the pod initializes, all init containers count; then, the sidecars alone.
    let init = json!([with("setup", 4, "2026-01-01T23:59:00Z"), with("proxy", 8, "2026-01-01T23:58:00Z")]);
    check(["0/3", "Init:0/2", "4 (60s ago)"], &json!({"initContainerStatuses": init}));
    let conditions = json!([{"type": "Initialized", "status": "True"}]);
    let init = json!([init[1], init[0]]);
    let status = json!({"initContainerStatuses": init, "containerStatuses": containers, "conditions": conditions});
    check(["0/3", "Init:1/2", "11 (2m ago)"], &status);
    let most = json!([{"restartCount": i32::MAX}, {"restartCount": i32::MAX}]);
    check(["0/3", "", "4294967294"], &json!({"containerStatuses": most}));
}

#[test]
fn a_pod_that_is_deleted_terminates_until_it_has_ended() {
    let deleted = || json!({"name": "web", "deletionTimestamp": "2026-01-01T00:00:00Z"});
    check_with(["0/3", "Terminating", "0"], &deleted(), &json!({"phase": "Running"}));
    check_with(["0/3", "Succeeded", "0"], &deleted(), &json!({"phase": "Succeeded"}));
    check_with(["0/3", "Unknown", "0"], &deleted(), &json!({"phase": "Running", "reason": "NodeLost"}));
    check_with(["0/3", "NodeLost", "0"], &json!({}), &json!({"phase": "Running", "reason": "NodeLost"}));
}

#[test]
fn wide_cells_say_where_the_pod_is() {
    let wide = |spec: Value, status: Value| {
        let pod = json!({"spec": spec, "status": status}).to_string();
        let row = row(pod.as_bytes(), Timestamp::UNIX_EPOCH).unwrap();
        row.cells[5..].iter().map(|cell| cell.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(wide(json!({}), json!({})), ["<none>"; 4]);
    let gates = json!([{"conditionType": "a"}, {"conditionType": "b"}, null]);
    let conditions = json!([{"type": "a", "status": "True"}, {"type": "a", "status": "False"}, {"type": "b", "status": "False"},
        {"type": "b", "status": "True"}]);
    assert_eq!(
        wide(
            json!({"nodeName": "n1", "readinessGates": gates}),
            json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "nominatedNodeName": "n2", "conditions": conditions})
        ),
        ["10.0.0.1", "n1", "n2", "1/3"]
    );
    // The API server holds the older field for the right one.
    let both = json!({"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.1"}]});
    assert_eq!(wide(json!({}), both)[0], "10.0.0.2");
}

#[test]
fn a_pod_that_has_ended_says_so_beside_its_cells() {
    for (phase, reason) in [("Succeeded", Some("Succeeded")), ("Failed", Some("Failed")), ("Running", None)] {
        let pod = json!({"status": {"phase": phase}}).to_string();
        let row = row(pod.as_bytes(), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(row.conditions.first().map(|condition| condition.reason), reason);
    }
}
