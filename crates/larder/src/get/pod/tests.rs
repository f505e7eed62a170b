//! A pod's line, as kubectl prints it.

#![allow(clippy::needless_pass_by_value, reason = "`json!` in place reads best")]

use super::*;
use serde_json::json;

fn pod(spec: Value, status: Value, metadata: Value) -> Value {
    let mut metadata = metadata;
    metadata["name"] = json!("web");
    metadata["namespace"] = json!("shop");
    metadata["creationTimestamp"] = json!("2026-01-01T23:00:00Z");
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
}

fn now() -> Timestamp {
    "2026-01-02T00:00:00Z".parse().unwrap()
}

fn check(expected: [&str; 3], spec: Value, status: Value) {
    check_with(expected, spec, status, json!({}));
}

/// READY, STATUS and RESTARTS.
fn check_with(expected: [&str; 3], spec: Value, status: Value, metadata: Value) {
    let row = row(&pod(spec.clone(), status.clone(), metadata), now());
    assert_eq!(row.narrow[..3], expected, "{spec} {status}");
    assert_eq!(row.narrow[3], "60m");
}

fn one() -> Value {
    json!({"containers": [{"name": "a"}]})
}

#[test]
fn a_pod_is_put_in_a_word_as_kubectl_puts_it() {
    let running =
        json!({"name": "a", "ready": true, "restartCount": 0, "image": "", "imageID": "", "state": {"running": {}}});
    let status = |phase: &str, containers: Value| json!({"phase": phase, "containerStatuses": containers});
    let with = |state: Value, restarts: u32| json!({"name": "a", "ready": false, "restartCount": restarts, "image": "", "imageID": "", "state": state});
    check(["0/1", "Pending", "0"], one(), json!({"phase": "Pending"}));
    check(["0/1", "Unknown", "0"], one(), json!({}));
    check(["1/1", "Running", "0"], one(), status("Running", json!([running])));
    let waiting = with(json!({"waiting": {"reason": "CrashLoopBackOff"}}), 4);
    check(["0/1", "CrashLoopBackOff", "4"], one(), status("Running", json!([waiting])));
    let completed = with(json!({"terminated": {"exitCode": 0, "reason": "Completed"}}), 0);
    check(["0/1", "Completed", "0"], one(), status("Succeeded", json!([completed])));
    let killed = with(json!({"terminated": {"exitCode": 137, "signal": 9}}), 0);
    check(["0/1", "Signal:9", "0"], one(), status("Failed", json!([killed])));
    let failed = with(json!({"terminated": {"exitCode": 3}}), 0);
    check(["0/1", "ExitCode:3", "0"], one(), status("Failed", json!([failed])));
    check(["0/1", "Evicted", "0"], one(), json!({"phase": "Failed", "reason": "Evicted"}));
    let two = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    let mut half = status("Running", json!([completed, running]));
    check(["1/2", "NotReady", "0"], two.clone(), half.clone());
    half["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    check(["1/2", "Running", "0"], two, half);
}

#[test]
fn init_containers_come_first() {
    let spec = json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j"}]});
    let init = |state: Value| json!({"name": "i", "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": state});
    let status = |states: Value| json!({"phase": "Pending", "initContainerStatuses": states});
    let well = init(json!({"terminated": {"exitCode": 0}}));
    check(["0/1", "Init:0/2", "0"], spec.clone(), status(json!([init(json!({"running": {}}))])));
    check(
        ["0/1", "Init:1/2", "0"],
        spec.clone(),
        status(json!([well, init(json!({"waiting": {"reason": "PodInitializing"}}))])),
    );
    check(
        ["0/1", "Init:ErrImagePull", "0"],
        spec.clone(),
        status(json!([init(json!({"waiting": {"reason": "ErrImagePull"}}))])),
    );
    let error = init(json!({"terminated": {"exitCode": 1, "reason": "Error"}}));
    check(["0/1", "Init:Error", "0"], spec, status(json!([error])));
}

#[test]
fn a_sidecar_counts_among_the_containers_once_it_has_started() {
    let spec = json!({"containers": [{"name": "a"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]});
    let state = json!({"running": {}});
    let sidecar = json!({"name": "s", "ready": true, "started": true, "restartCount": 0, "image": "", "imageID": "", "state": state});
    let main = json!({"name": "a", "ready": true, "restartCount": 0, "image": "", "imageID": "", "state": state});
    let status = json!({"phase": "Running", "initContainerStatuses": [sidecar], "containerStatuses": [main]});
    check(["2/2", "Running", "0"], spec, status);
}

#[test]
fn a_pod_that_is_being_deleted_says_so() {
    let deleted = json!({"deletionTimestamp": "2026-01-01T23:59:00Z"});
    check_with(["0/1", "Terminating", "0"], one(), json!({"phase": "Running"}), deleted.clone());
    check_with(["0/1", "Unknown", "0"], one(), json!({"phase": "Running", "reason": "NodeLost"}), deleted.clone());
    check_with(["0/1", "Succeeded", "0"], one(), json!({"phase": "Succeeded"}), deleted);
}

#[test]
fn the_last_restart_has_its_age() {
    let container = json!({
        "name": "a", "ready": true, "restartCount": 2, "image": "", "imageID": "", "state": {"running": {}},
        "lastState": {"terminated": {"exitCode": 3, "finishedAt": "2026-01-01T23:55:00Z"}},
    });
    check(["1/1", "Running", "2 (5m ago)"], one(), json!({"phase": "Running", "containerStatuses": [container]}));
}

#[test]
fn a_wide_row_has_address_and_node() {
    let pod = pod(json!({"containers": [], "nodeName": "edge-1"}), json!({"podIP": "10.0.0.7"}), json!({}));
    assert_eq!(row(&pod, now()).wide, ["10.0.0.7", "edge-1"]);
}

#[test]
fn a_pod_that_cannot_be_read_has_a_row_without_a_word_of_it() {
    let broken = json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": {"containers": "hunter2"}});
    let row = row(&broken, now());
    assert_eq!((row.namespace.as_str(), row.name.as_str()), ("shop", "web"));
    assert_eq!((row.narrow[1].as_str(), row.narrow.len(), row.wide.len()), ("Unreadable", 4, 2));
    assert!(!format!("{row:?}").contains("hunter2"));
}
