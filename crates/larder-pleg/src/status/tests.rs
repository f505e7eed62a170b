//! A status as it is written and read.

use super::*;
use serde_json::json;

fn full() -> PodStatus {
    PodStatus {
        ips: vec!["10.0.0.7".into(), "fd00::7".into()],
        active_sandbox_id: Some("s1".into()),
        sandboxes: vec![SandboxStatus {
            id: "s1".into(),
            attempt: 1,
            state: SandboxState::Ready,
            created_at: -1,
            ips: vec!["10.0.0.7".into()],
            host_network: false,
            runtime_handler: "kata".into(),
            static_pod: None,
        }],
        containers: vec![ContainerStatus {
            id: ContainerId::new("containerd", "c1"),
            name: "app".into(),
            sandbox_id: "s1".into(),
            state: ContainerState::Exited,
            created_at: i64::MIN,
            started_at: i64::MAX,
            finished_at: 1_700_000_000_120_000_000,
            exit_code: -3,
            reason: "Error".into(),
            message: "it broke".into(),
            restart_count: 7,
            image: "busybox".into(),
            image_id: "sha256:1".into(),
            image_ref: "busybox@sha256:2".into(),
            image_runtime_handler: String::new(),
            hash: u64::MAX,
            log_path: "/var/log/pods/x/0.log".into(),
        }],
        ..PodStatus::new("uid-1".into(), "default", "web")
    }
}

#[test]
fn a_status_survives_the_wire() {
    let text = serde_json::to_string(&full()).unwrap();
    assert_eq!(serde_json::from_str::<PodStatus>(&text).unwrap(), full());
}

#[test]
fn the_wire_form_is_camel_case_with_times_to_the_nanosecond() {
    let json = serde_json::to_value(full()).unwrap();
    assert_eq!(json["activeSandboxId"], "s1");
    assert_eq!(json["sandboxes"][0]["createdAt"], "1969-12-31T23:59:59.999999999Z");
    let container = &json["containers"][0];
    assert_eq!(container["finishedAt"], "2023-11-14T22:13:20.120000000Z");
    assert_eq!(container["startedAt"], "2262-04-11T23:47:16.854775807Z");
    assert_eq!(container["state"], "exited");
    assert_eq!(container["restartCount"], 7);
    assert_eq!(container["hash"], "ffffffffffffffff");
    assert_eq!(container["imageRef"], "busybox@sha256:2");
    assert!(container.get("imageRuntimeHandler").is_none());
}

#[test]
fn what_is_missing_or_not_known_reads_as_not_set() {
    let status: PodStatus = serde_json::from_value(json!({
        "uid": "u", "namespace": "n", "name": "p", "of": "tomorrow",
        "sandboxes": [{"state": "hibernating"}],
        "containers": [{"state": "paused", "startedAt": null}, {}],
    }))
    .unwrap();
    assert_eq!(status.sandboxes, [SandboxStatus::default()]);
    assert_eq!(status.containers, [ContainerStatus::default(), ContainerStatus::default()]);
}

#[test]
fn a_time_or_hash_that_is_none_is_refused() {
    for (field, value) in [("startedAt", "yesterday"), ("startedAt", "9999-01-01T00:00:00Z"), ("hash", "xyz")] {
        let container = json!({ field: value });
        assert!(serde_json::from_value::<ContainerStatus>(container).is_err(), "{field}: {value}");
    }
}
