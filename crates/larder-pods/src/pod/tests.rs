//! The rule, line by line. `cargo xtask differential` compares what follows from it with the kubelet.

use super::*;
use larder_pleg::{ContainerId, ContainerStatus};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// 2026-01-02T03:04:05Z, at which the container started that the API server names.
const START: i64 = 1_767_323_045 * 1_000_000_000;
const SECOND: i64 = 1_000_000_000;

fn life(id: &str, state: ContainerState) -> ContainerStatus {
    ContainerStatus {
        id: ContainerId::new("containerd", id),
        name: "app".into(),
        state,
        created_at: START - SECOND,
        started_at: START,
        finished_at: START + 60 * SECOND,
        exit_code: 3,
        ..ContainerStatus::default()
    }
}

fn newer_life(id: &str, state: ContainerState, restart_count: u32, created_at: i64) -> ContainerStatus {
    ContainerStatus { created_at, restart_count, ..life(id, state) }
}

/// The status of the container `a` while it runs, unless another state is given.
fn api(state: &Value) -> Value {
    json!({"name": "app", "ready": true, "started": true, "restartCount": 0, "image": "app:1", "imageID": "app@1", "lastState": {},
        "containerID": "containerd://a", "state": state, "resources": {"requests": {"cpu": "1"}}})
}

fn running() -> Value {
    json!({"running": {"startedAt": "2026-01-02T03:04:05Z"}})
}

fn pod(container_statuses: &Value) -> Value {
    json!({"metadata": {"name": "web", "uid": "u", "generation": 2},
        "spec": {"containers": [{"name": "app", "image": "app"}], "restartPolicy": "Always"},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": container_statuses, "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:06Z"},
            {"type": "ContainersReady", "status": "True", "lastTransitionTime": "2026-01-02T03:04:06Z"},
            {"type": "PodScheduled", "status": "True"}]}})
}

fn seen(containers: Vec<ContainerStatus>) -> PodStatus {
    let mut status = PodStatus::new("u".into(), "", "web");
    status.containers = containers;
    status
}

fn brought(pod: &Value, status: &PodStatus, as_of: i64) -> (Option<Value>, bool) {
    let brought = bring_up_to_date(pod.to_string().as_bytes(), &Seen { status: Some(status), as_of }).unwrap();
    (brought.json.map(|json| serde_json::from_slice(&json).unwrap()), brought.is_undecided)
}

/// What an API server's status of the container, and the lives that the runtime has, come to: whether the pod is ready, and its
/// container's ID; `None` where the API server's pod stands.
fn check(api: &Value, lives: &[ContainerStatus], as_of: i64, expected: Option<(&str, &str)>) {
    let (now, is_undecided) = brought(&pod(&json!([api])), &seen(lives.to_vec()), as_of);
    let told = now.as_ref().map(|now| {
        let ready = now["status"]["conditions"][0]["status"].as_str().unwrap();
        (ready, now["status"]["containerStatuses"][0]["containerID"].as_str().unwrap_or_default())
    });
    assert_eq!(told, expected, "{api} {lives:?}");
    assert!(!is_undecided, "{api} {lives:?}");
}

#[test]
fn of_one_life_the_further_state_is_the_newer() {
    use ContainerState::{Created, Exited, Running, Unknown};
    let later = START + 3600 * SECOND;
    for (state, runtime, expected) in [
        (running(), Created, None),
        (running(), Running, None),
        (running(), Exited, Some(("False", "containerd://a"))),
        (running(), Unknown, Some(("False", "containerd://a"))),
        (json!({"waiting": {}}), Created, None),
        (json!({"waiting": {}}), Running, Some(("True", "containerd://a"))),
        (json!({"waiting": {}}), Unknown, None),
        (json!({"terminated": {"exitCode": 3}}), Running, None),
        (json!({"terminated": {"exitCode": 3}}), Exited, None),
    ] {
        check(&api(&state), &[life("a", runtime)], later, expected);
    }
    let mut backing_off = api(&json!({"waiting": {"reason": "CrashLoopBackOff"}}));
    backing_off["lastState"] = json!({"terminated": {"exitCode": 3, "containerID": "containerd://a"}});
    check(&backing_off, &[life("a", Exited)], later, None);
}

#[test]
fn a_newer_life_counts() {
    use ContainerState::{Exited, Running};
    let later = START + 3600 * SECOND;
    let newer = newer_life("b", Running, 1, START + 90 * SECOND);
    check(&api(&running()), &[newer.clone(), life("a", Exited)], later, Some(("True", "containerd://b")));
    // The runtime has removed the life that the API server names.
    check(&api(&running()), std::slice::from_ref(&newer), later, Some(("True", "containerd://b")));
    check(&api(&running()), std::slice::from_ref(&newer), START, Some(("True", "containerd://b")));
    check(
        &api(&json!({"terminated": {"finishedAt": "2026-01-02T03:04:05Z"}})),
        &[newer],
        later,
        Some(("True", "containerd://b")),
    );
    let same_count = newer_life("b", Running, 0, START + SECOND);
    check(&api(&running()), &[same_count], START, Some(("True", "containerd://b")));
    let mut unnamed = api(&json!({"waiting": {"reason": "ContainerCreating"}}));
    unnamed["containerID"] = "".into();
    check(&unnamed, &[life("a", Running)], later, Some(("True", "containerd://a")));
    check(&unnamed, &[], later, None);
}

#[test]
fn a_container_that_is_gone_is_not_ready() {
    let later = START + SECOND;
    check(&api(&running()), &[], later, Some(("False", "")));
    // An older life is no sign of it.
    let older = newer_life("z", ContainerState::Exited, 0, START - 90 * SECOND);
    check(&api(&running()), std::slice::from_ref(&older), later, Some(("False", "containerd://z")));
    check(&api(&json!({"terminated": {"finishedAt": "2026-01-02T03:04:05Z"}})), &[], later, None);
    check(&api(&json!({"terminated": {"finishedAt": "2026-01-02T03:04:05Z"}})), &[older], later, None);
    let gone =
        bring_up_to_date(pod(&json!([api(&running())])).to_string().as_bytes(), &Seen { status: None, as_of: later });
    assert!(gone.unwrap().json.is_some());
}

#[test]
fn a_container_that_may_be_too_new_is_looked_at_again() {
    for lives in [vec![], vec![newer_life("z", ContainerState::Exited, 0, START - 90 * SECOND)]] {
        let (now, is_undecided) = brought(&pod(&json!([api(&running())])), &seen(lives), START + SECOND - 1);
        assert_eq!((now, is_undecided), (None, true));
    }
}

#[test]
fn a_new_life_with_a_probe_is_not_ready_before_the_api_server_says_so() {
    let probe = json!({"tcpSocket": {"port": 80}});
    for (field, started) in [("readinessProbe", true), ("startupProbe", false)] {
        let mut pod = pod(&json!([]));
        pod["spec"]["containers"][0][field] = probe.clone();
        let (now, _) = brought(&pod, &seen(vec![life("a", ContainerState::Running)]), START);
        let status = &now.unwrap()["status"];
        let container = &status["containerStatuses"][0];
        assert_eq!((&container["ready"], &container["started"]), (&json!(false), &json!(started)), "{field}");
        assert_eq!(status["conditions"][0]["message"], "containers with unready status: [app]");
    }
}

#[test]
fn what_is_not_newer_stays_byte_for_byte() {
    let text = concat!(
        r#"{ "status": {"phase":"Running" , "unknown": {"a": 1e3},"containerStatuses":[{"x":[ ],"name":"app","state":{"running":"#,
        r#"{"startedAt":"2026-01-02T03:04:05Z"}},"containerID":"containerd://a","ready":true},{"name":"other", "ready":true}],"#,
        r#""conditions":[{"type":"Own" ,"status":"True"}]},"#,
        r#""metadata":{"name":"web","n":1.0},"spec":{"containers":[{"name":"app"}],"restartPolicy":"Never" }, "more": null}"#
    );
    let status = seen(vec![life("a", ContainerState::Exited)]);
    let now = bring_up_to_date(text.as_bytes(), &Seen { status: Some(&status), as_of: START }).unwrap().json.unwrap();
    let terminated = r#""terminated":{"exitCode":3,"startedAt":"2026-01-02T03:04:05Z","finishedAt":"2026-01-02T03:05:05Z","containerID":"containerd://a"}"#;
    let failed = |name: &str| {
        format!(
            r#"{{"type":"{name}","status":"False","lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:05:05Z","reason":"PodFailed"}}"#
        )
    };
    let initialized =
        r#"{"type":"Initialized","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:05:05Z"}"#;
    let expected = [
        r#"{"status":{"phase":"Failed","unknown":{"a": 1e3},"containerStatuses":[{"x":[ ],"name":"app","state":{"#,
        terminated,
        r#"},"containerID":"containerd://a","ready":false,"lastState":{},"restartCount":0,"image":"","imageID":"","started":false},"#,
        r#"{"name":"other", "ready":true}],"conditions":[{"type":"Own" ,"status":"True"},"#,
        initialized,
        ",",
        &failed("Ready"),
        ",",
        &failed("ContainersReady"),
        r#"]},"metadata":{"name":"web","n":1.0},"spec":{"containers":[{"name":"app"}],"restartPolicy":"Never" },"more":null}"#,
    ];
    assert_eq!(String::from_utf8(now).unwrap(), expected.concat());
}

#[test]
fn addresses_come_from_the_runtime_if_the_api_server_has_none() {
    let mut pod = pod(&json!([api(&running())]));
    let mut status = seen(vec![life("a", ContainerState::Running)]);
    status.ips = ["10.0.0.9", "10.0.0.8", "fd00::9"].map(str::to_owned).into();
    assert_eq!(brought(&pod, &status, START).0, None);
    pod["status"]["podIP"] = Value::Null;
    let now = brought(&pod, &status, START).0.unwrap();
    assert_eq!(now["status"]["podIP"], "10.0.0.9");
    assert_eq!(now["status"]["podIPs"], json!([{"ip": "10.0.0.9"}, {"ip": "fd00::9"}]));
    pod["spec"]["hostNetwork"] = true.into();
    assert_eq!(brought(&pod, &status, START).0, None);
}

#[test]
fn a_last_phase_stays() {
    let mut ended = pod(&json!([api(&running())]));
    ended["status"]["phase"] = "Failed".into();
    ended["status"]["reason"] = "Evicted".into();
    let now = brought(&ended, &seen(vec![newer_life("b", ContainerState::Running, 1, START + 90 * SECOND)]), START)
        .0
        .unwrap();
    assert_eq!((&now["status"]["phase"], &now["status"]["reason"]), (&json!("Failed"), &json!("Evicted")));
    assert_eq!(now["status"]["conditions"][0]["status"], "False");
}

#[test]
fn bytes_that_are_no_pod_are_an_error() {
    for json in [
        "",
        "[]",
        "{",
        r#"{"status": []}"#,
        r#"{"spec": {"containers": {}}}"#,
        r#"{"status": {"containerStatuses": [1]}}"#,
    ] {
        assert!(bring_up_to_date(json.as_bytes(), &Seen { status: None, as_of: 0 }).is_err(), "{json}");
    }
    for json in ["{}", r#"{"metadata": null, "spec": null, "status": null}"#, r#"{"spec": {"containers": null}}"#] {
        let brought = bring_up_to_date(json.as_bytes(), &Seen { status: None, as_of: 0 }).unwrap();
        assert_eq!(brought, Brought { json: None, is_undecided: false }, "{json}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// No pod is ready that has a container which the runtime says has ended, and a pod that was brought up to date stays as it is.
    #[test]
    fn never_ready_against_the_runtime(
        lives in proptest::collection::vec((select(&["a", "b", "c"][..]), select(&[
            ContainerState::Created, ContainerState::Running, ContainerState::Exited, ContainerState::Unknown,
        ][..]), 0..3u32, -5..5i64), 0..3),
        state in select(vec![running(), json!({"waiting": {}}), json!({"terminated": {"exitCode": 0}}), json!({})]),
        id in select(&["containerd://a", "containerd://b", ""][..]),
        as_of in -5..10i64,
        ready in any::<bool>(),
    ) {
        let mut lives: Vec<_> = lives.into_iter()
            .map(|(id, state, restarts, at)| newer_life(id, state, restarts, START + at * SECOND)).collect();
        lives.sort_by_key(|life| std::cmp::Reverse(life.created_at));
        let mut api = api(&state);
        // The API server's own status is never ready against itself.
        (api["containerID"], api["ready"]) = (id.into(), (ready && state["running"].is_object()).into());
        let pod = pod(&json!([api]));
        let status = seen(lives.clone());
        let (now, is_undecided) = brought(&pod, &status, START + as_of * SECOND);
        if let Some(now) = now {
            let shown = &now["status"]["containerStatuses"][0];
            let newest = lives.first();
            let runs = newest.is_some_and(|life| life.state == ContainerState::Running);
            prop_assert!(runs || shown["ready"] == false, "{shown}");
            prop_assert_eq!(shown["ready"] == true, now["status"]["conditions"][0]["status"] == "True");
            let (again, _) = brought(&now, &status, START + as_of * SECOND);
            prop_assert_eq!(again, None);
        } else if let Some(same) = lives.first().filter(|life| life.id.to_string() == id) {
            let has_ended = matches!(same.state, ContainerState::Exited);
            prop_assert!(!has_ended || api["ready"] == false, "{same:?}");
        } else if api["ready"] == true && id.is_empty() && !lives.is_empty() {
            prop_assert!(false, "the runtime has a container, and the API server names none");
        } else if api["ready"] == true && !id.is_empty() {
            prop_assert!(is_undecided, "{lives:?}");
        }
    }
}
