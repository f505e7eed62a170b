//! What the calls add up to.

use super::server::{SOON, State, connected};
use crate::labels::{CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID, RESTART_COUNT};
use crate::proto;
use larder_clock::MonotonicClock;
use larder_pleg::{
    ContainerId, ContainerState, ContainerStatus, Pleg, PlegOptions, PodStatus, Runtime, RuntimeError, SandboxState,
    SandboxStatus,
};
use larder_pod_status::{Options, pod_status_cache};
use std::sync::Arc;
use tonic::Code;

fn labels(uid: &str, more: &[(&str, &str)]) -> std::collections::HashMap<String, String> {
    let all = [(POD_UID, uid), (POD_NAMESPACE, "ns"), (POD_NAME, "web")];
    all.iter().chain(more).map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn metadata(uid: &str, attempt: u32) -> proto::PodSandboxMetadata {
    proto::PodSandboxMetadata { name: "web".into(), uid: uid.into(), namespace: "ns".into(), attempt }
}

impl State {
    fn add_sandbox(&mut self, uid: &str, id: &str, attempt: u32, state: proto::PodSandboxState, ip: &str) {
        let metadata = metadata(uid, attempt);
        self.sandboxes.push(proto::PodSandbox {
            id: id.into(),
            metadata: Some(metadata.clone()),
            state: state.into(),
            created_at: i64::from(attempt) + 1,
            labels: labels(uid, &[]),
            ..Default::default()
        });
        let status = proto::PodSandboxStatus {
            id: id.into(),
            metadata: Some(metadata),
            state: state.into(),
            created_at: i64::from(attempt) + 1,
            network: Some(proto::PodSandboxNetworkStatus { ip: ip.into(), additional_ips: vec![] }),
            ..Default::default()
        };
        let answer = proto::PodSandboxStatusResponse { status: Some(status), ..Default::default() };
        self.sandbox_statuses.insert(id.into(), answer);
    }

    fn add_container(&mut self, uid: &str, id: &str, sandbox: &str, created_at: i64, restarts: &str, exit_code: i32) {
        let image = Some(proto::ImageSpec { image: "busybox".into(), ..Default::default() });
        let metadata = Some(proto::ContainerMetadata { name: "app".into(), attempt: 0 });
        let state = proto::ContainerState::ContainerExited.into();
        self.containers.push(proto::Container {
            id: id.into(),
            pod_sandbox_id: sandbox.into(),
            metadata: metadata.clone(),
            image: image.clone(),
            state,
            created_at,
            labels: labels(uid, &[(CONTAINER_NAME, "app")]),
            ..Default::default()
        });
        let status = proto::ContainerStatus {
            id: id.into(),
            metadata,
            state,
            created_at,
            started_at: created_at + 1,
            finished_at: created_at + 2,
            exit_code,
            image,
            labels: labels(uid, &[(CONTAINER_NAME, "app")]),
            annotations: [(RESTART_COUNT.to_owned(), restarts.to_owned())].into(),
            ..Default::default()
        };
        let answer = proto::ContainerStatusResponse { status: Some(status), ..Default::default() };
        self.container_statuses.insert(id.into(), answer);
    }

    /// One pod of two sandboxes, the newer one ready, with a container that was restarted in it and one in the older.
    fn add_pod(&mut self) {
        use proto::PodSandboxState::{SandboxNotready, SandboxReady};
        self.add_sandbox("u", "s0", 0, SandboxNotready, "10.0.0.1");
        self.add_sandbox("u", "s1", 1, SandboxReady, "10.0.0.2");
        self.add_container("u", "c0", "s0", 100, "0", 1);
        self.add_container("u", "c1", "s1", 200, "1", 2);
        self.add_container("u", "c2", "s1", 300, "2", 3);
    }
}

fn container_status(id: &str, sandbox: &str, created_at: i64, restart_count: u32, exit_code: i32) -> ContainerStatus {
    ContainerStatus {
        id: ContainerId::new("fake", id),
        name: "app".into(),
        sandbox_id: sandbox.into(),
        state: ContainerState::Exited,
        created_at,
        started_at: created_at + 1,
        finished_at: created_at + 2,
        exit_code,
        restart_count,
        image: "busybox".into(),
        ..ContainerStatus::default()
    }
}

fn expected_status() -> PodStatus {
    let sandbox = |id: &str, attempt: u32, state, ip: &str| SandboxStatus {
        id: id.into(),
        attempt,
        state,
        created_at: i64::from(attempt) + 1,
        ips: vec![ip.into()],
        ..SandboxStatus::default()
    };
    PodStatus {
        ips: vec!["10.0.0.2".into()],
        active_sandbox_id: Some("s1".into()),
        sandboxes: vec![
            sandbox("s1", 1, SandboxState::Ready, "10.0.0.2"),
            sandbox("s0", 0, SandboxState::NotReady, "10.0.0.1"),
        ],
        containers: vec![
            container_status("c2", "s1", 300, 2, 3),
            container_status("c1", "s1", 200, 1, 2),
            container_status("c0", "s0", 100, 0, 1),
        ],
        ..PodStatus::new("u".into(), "ns", "web")
    }
}

#[tokio::test]
async fn pods_and_their_status_are_as_the_runtime_says() {
    let (_place, server, client) = connected().await;
    server.told.state.lock().add_pod();
    let pods = client.pods().await.unwrap();
    assert_eq!(server.told.take_called(), ["ListPodSandbox", "ListContainers"]);
    let [pod] = &pods[..] else { panic!("{pods:?}") };
    let status = client.pod_status(pod, None).await.unwrap();
    assert_eq!(status, expected_status());
    assert_eq!(status.active_containers().count(), 2);
    // They are asked side by side, in no order.
    let mut called = server.told.take_called();
    called.sort();
    let calls = ["ContainerStatus", "ContainerStatus", "ContainerStatus", "PodSandboxStatus", "PodSandboxStatus"];
    assert_eq!(called, calls);
}

#[tokio::test]
async fn only_the_newest_sandbox_gives_addresses_and_only_if_it_is_ready() {
    use proto::PodSandboxState::{SandboxNotready, SandboxReady};
    for (newest, older, ip, gone, expected) in [
        (SandboxReady, SandboxReady, "10.0.0.2", false, Some("10.0.0.2")),
        (SandboxNotready, SandboxReady, "10.0.0.2", false, None),
        (SandboxReady, SandboxReady, "", false, None),
        (SandboxReady, SandboxReady, "nonsense", false, None),
        (SandboxReady, SandboxReady, "10.0.0.2", true, None),
    ] {
        let (_place, server, client) = connected().await;
        {
            let mut state = server.told.state.lock();
            state.add_sandbox("u", "s0", 0, older, "10.0.0.1");
            state.add_sandbox("u", "s1", 1, newest, ip);
            if gone {
                state.sandbox_statuses.remove("s1");
            }
        }
        let pods = client.pods().await.unwrap();
        let status = client.pod_status(&pods[0], None).await.unwrap();
        let case = format!("{newest:?} {older:?} {ip:?} {gone}");
        assert_eq!(status.ips, expected.map(str::to_owned).into_iter().collect::<Vec<_>>(), "{case}");
        let active = newest == SandboxReady && !gone;
        assert_eq!(status.active_sandbox_id.as_deref(), active.then_some("s1"), "{case}");
    }
}

#[tokio::test]
async fn what_vanishes_between_list_and_status_is_left_out() {
    let (_place, server, client) = connected().await;
    server.told.state.lock().add_pod();
    let pods = client.pods().await.unwrap();
    {
        let mut state = server.told.state.lock();
        state.sandbox_statuses.remove("s0");
        state.container_statuses.remove("c2");
    }
    let status = client.pod_status(&pods[0], None).await.unwrap();
    let mut expected = expected_status();
    expected.sandboxes.remove(1);
    expected.containers.remove(0);
    assert_eq!(status, expected);
}

#[tokio::test]
async fn any_other_failure_of_a_status_fails_the_inspection_and_says_what_of() {
    for (method, object) in [("PodSandboxStatus", "s1"), ("ContainerStatus", "c2")] {
        let (_place, server, client) = connected().await;
        server.told.state.lock().add_pod();
        let pods = client.pods().await.unwrap();
        server.told.state.lock().fail.insert(method, (Code::Internal, "it is broken"));
        let error = client.pod_status(&pods[0], None).await.unwrap_err();
        let expected =
            format!("{method} of {object} in pod ns/web (u): the container runtime answered Internal: it is broken");
        assert_eq!(error.to_string(), expected);
        assert!(matches!(error, RuntimeError::Failed { .. }));

        server.told.state.lock().fail.clear();
        server.told.state.lock().sandbox_statuses.get_mut("s1").unwrap().status = None;
        let error = client.pod_status(&pods[0], None).await.unwrap_err();
        assert!(matches!(&error, RuntimeError::BadResponse { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn one_pod_is_found_by_its_label_and_gone_only_when_the_whole_list_has_none() {
    let (_place, server, client) = connected().await;
    server.told.state.lock().add_pod();
    server.told.state.lock().add_sandbox("v", "s9", 0, proto::PodSandboxState::SandboxReady, "");
    // The lists of one pod are asked for at the same time.
    let one_pod = || {
        let mut called = server.told.take_called();
        let of_all = called.split_off(2);
        called.sort();
        (called, of_all)
    };
    let (by_label, whole) = (["ListContainers", "ListPodSandbox"], ["ListPodSandbox", "ListContainers"]);
    let all = client.pods().await.unwrap();
    server.told.take_called();
    let find = |uid: &str| all.iter().find(|pod| pod.uid == uid.into()).cloned();
    assert_eq!(client.pod(&"u".into()).await.unwrap(), find("u"));
    assert_eq!(one_pod(), (by_label.map(str::to_owned).to_vec(), vec![]));

    // A sandbox without the label is of the pod that its metadata names.
    server.told.state.lock().sandboxes[2].labels.clear();
    assert_eq!(client.pod(&"v".into()).await.unwrap(), find("v"));
    assert_eq!(one_pod(), (by_label.map(str::to_owned).to_vec(), whole.map(str::to_owned).to_vec()));

    assert_eq!(client.pod(&"w".into()).await.unwrap(), None);
    server.told.state.lock().fail.insert("ListContainers", (Code::Internal, "it is broken"));
    let error = client.pod(&"u".into()).await.unwrap_err();
    assert!(error.to_string().starts_with("ListContainers of pod u: "), "{error}");
}

#[tokio::test]
async fn what_is_left_out_is_counted_for_the_last_list() {
    let (_place, server, client) = connected().await;
    server.told.state.lock().add_pod();
    server.told.state.lock().sandboxes.push(proto::PodSandbox::default());
    server.told.state.lock().containers.extend([proto::Container::default(), proto::Container::default()]);
    for _ in 0..2 {
        client.pods().await.unwrap();
        assert_eq!((client.stats().skipped_sandboxes, client.stats().skipped_containers), (1, 2));
    }
    server.told.state.lock().containers.clear();
    client.pods().await.unwrap();
    assert_eq!((client.stats().skipped_sandboxes, client.stats().skipped_containers), (1, 0));
}

#[tokio::test]
async fn a_pleg_keeps_its_cache_true_to_the_runtime() {
    let (_place, server, client) = connected().await;
    server.told.state.lock().add_pod();
    let (writer, cache) = pod_status_cache(Options::default());
    let pleg = Pleg::new(Arc::new(client), MonotonicClock::new(), writer, PlegOptions::default()).unwrap();
    pleg.relist().await;
    assert_eq!(**cache.get(&"u".into()).status().unwrap(), expected_status());
    server.told.state.lock().sandboxes.clear();
    server.told.state.lock().containers.clear();
    pleg.relist().await;
    assert!(cache.get(&"u".into()).is_empty());
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_at_the_runtime() {
    let (_place, server, client) = connected().await;
    server.told.state.lock().hang.insert("ListPodSandbox");
    let call = tokio::spawn(async move { client.pods().await });
    while server.told.take_called().is_empty() {
        tokio::task::yield_now().await;
    }
    call.abort();
    tokio::time::timeout(SOON, server.told.given_up.notified()).await.expect("the runtime is told");
}
