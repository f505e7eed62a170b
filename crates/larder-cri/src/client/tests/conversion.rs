//! What a runtime's messages become, odd ones too.

use crate::client::event_of;
use crate::client::lists::{Listing, group};
use crate::client::status::{are_addresses, container_status, sandbox_status};
use crate::labels::{self, Map};
use crate::labels::{CONTAINER_NAME, HASH, POD_NAME, POD_NAMESPACE, POD_UID, RESTART_COUNT};
use crate::proto;
use larder_pleg::{
    ContainerEvent, ContainerEventKind, ContainerId, ContainerState, ContainerStatus, PodMetadata, RuntimeContainer,
    SandboxState, SandboxStatus,
};

fn map(pairs: &[(&str, &str)]) -> Map {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn sandbox(id: &str, uid: &str, attempt: u32, created_at: i64) -> proto::PodSandbox {
    let metadata =
        proto::PodSandboxMetadata { name: format!("name-{uid}"), uid: uid.into(), namespace: "ns".into(), attempt };
    proto::PodSandbox { id: id.into(), metadata: Some(metadata), created_at, ..Default::default() }
}

fn container(id: &str, uid: &str, created_at: i64) -> proto::Container {
    proto::Container {
        id: id.into(),
        metadata: Some(proto::ContainerMetadata { name: "app".into(), attempt: 0 }),
        image: Some(proto::ImageSpec { image: "busybox".into(), ..Default::default() }),
        created_at,
        labels: map(&[(POD_UID, uid), (POD_NAMESPACE, "label-ns"), (POD_NAME, "label-name")]),
        ..Default::default()
    }
}

/// What remains: pods with the identifiers of their sandboxes and containers.
type Shape<'a> = Vec<(String, Vec<&'a str>, Vec<&'a str>)>;

fn shape(listing: &Listing) -> Shape<'_> {
    fn ids(of: &[RuntimeContainer]) -> Vec<&str> {
        of.iter().map(|one| one.id.as_str()).collect()
    }
    listing.pods.iter().map(|pod| (pod.uid.to_string(), ids(&pod.sandboxes), ids(&pod.containers))).collect()
}

#[test]
fn sandboxes_are_grouped_by_pod_with_the_highest_attempt_first() {
    let listing = group(
        vec![
            sandbox("old", "a", 0, 50),
            sandbox("b1", "b", 0, 30),
            // A clock that went back does not make an older attempt newer.
            sandbox("new", "a", 2, 10),
            sandbox("mid", "a", 1, 20),
            // Of the same attempt, the newest, and then by identifier.
            sandbox("b3", "b", 0, 40),
            sandbox("b2", "b", 0, 40),
        ],
        vec![],
    );
    assert_eq!(
        shape(&listing),
        [("a".to_owned(), vec!["new", "mid", "old"], vec![]), ("b".to_owned(), vec!["b2", "b3", "b1"], vec![])]
    );
    // The pods by the creation of what is last in them, the newest first.
    assert_eq!(listing.pods.iter().map(|pod| pod.created_at).collect::<Vec<_>>(), [50, 30]);
    assert_eq!((listing.pods[0].namespace.as_str(), listing.pods[0].name.as_str()), ("ns", "name-a"));
    assert_eq!(listing.pods[0].sandboxes[0].attempt, 2);
    assert_eq!(listing.pods[0].sandboxes[0].sandbox_id, "new");
}

#[test]
fn containers_join_their_pod_with_the_newest_first() {
    let listing = group(
        vec![sandbox("s", "a", 0, 1)],
        vec![container("c1", "a", 10), container("c3", "a", 20), container("c2", "a", 20), container("c4", "b", 0)],
    );
    assert_eq!(
        shape(&listing),
        [("a".to_owned(), vec!["s"], vec!["c2", "c3", "c1"]), ("b".to_owned(), vec![], vec!["c4"])]
    );
    // Without a sandbox, the labels say which pod it is.
    let bare = &listing.pods[1];
    assert_eq!((bare.namespace.as_str(), bare.name.as_str(), bare.created_at), ("label-ns", "label-name", 0));
}

#[test]
fn what_does_not_say_which_pod_it_is_of_is_left_out_and_counted() {
    let without_metadata = proto::PodSandbox { metadata: None, ..sandbox("s2", "a", 0, 1) };
    let sandboxes = vec![
        sandbox("s", "a", 0, 1),
        without_metadata,
        sandbox("s3", "", 0, 1),
        sandbox("", "a", 0, 1),
        // Listed twice.
        sandbox("s", "a", 0, 1),
        proto::PodSandbox::default(),
    ];
    let containers = vec![
        container("c", "a", 1),
        proto::Container { metadata: None, ..container("c2", "a", 1) },
        proto::Container { image: None, ..container("c3", "a", 1) },
        proto::Container { labels: map(&[(POD_NAME, "x")]), ..container("c4", "a", 1) },
        container("c5", "", 1),
        container("", "a", 1),
        container("c", "a", 2),
        proto::Container::default(),
    ];
    let listing = group(sandboxes, containers);
    assert_eq!(shape(&listing), [("a".to_owned(), vec!["s"], vec!["c"])]);
    assert_eq!((listing.skipped_sandboxes, listing.skipped_containers), (5, 7));
    assert_eq!(listing.pods[0].containers[0].created_at, 2, "of two of the same identifier, the newer");
    assert_eq!(group(vec![], vec![]), Listing::default());
}

#[test]
fn states_that_are_listed() {
    use ContainerState::{Created, Exited, Running, Unknown};
    for (state, expected) in
        [(0, Created), (1, Running), (2, Exited), (3, Unknown), (4, Unknown), (-1, Unknown), (i32::MAX, Unknown)]
    {
        let listing = group(vec![], vec![proto::Container { state, ..container("c", "a", 1) }]);
        assert_eq!(listing.pods[0].containers[0].state, expected, "container {state}");
    }
    for (state, expected) in [(0, Running), (1, Exited), (2, Unknown), (-1, Unknown)] {
        let listing = group(vec![proto::PodSandbox { state, ..sandbox("s", "a", 0, 1) }], vec![]);
        assert_eq!(listing.pods[0].sandboxes[0].state, expected, "sandbox {state}");
    }
}

#[test]
fn a_listed_container_has_its_name_and_sandbox() {
    let listed = proto::Container { pod_sandbox_id: "s".into(), ..container("c", "a", 1) };
    let container = group(vec![], vec![listed]).pods.remove(0).containers.remove(0);
    assert_eq!((container.name.as_str(), container.sandbox_id.as_str()), ("app", "s"));
}

fn full_status(state: i32) -> proto::ContainerStatus {
    proto::ContainerStatus {
        id: "c".into(),
        metadata: Some(proto::ContainerMetadata { name: "meta".into(), attempt: 2 }),
        state,
        created_at: 1,
        started_at: 2,
        finished_at: 3,
        exit_code: 137,
        image: Some(proto::ImageSpec { image: "busybox".into(), runtime_handler: "kata".into(), ..Default::default() }),
        image_ref: "busybox@sha256:2".into(),
        image_id: "sha256:1".into(),
        reason: "OOMKilled".into(),
        message: "out of memory".into(),
        labels: map(&[(CONTAINER_NAME, "app")]),
        annotations: map(&[(RESTART_COUNT, "4"), (HASH, "1a")]),
        log_path: "/var/log/pods/x/app/4.log".into(),
        ..Default::default()
    }
}

#[test]
fn the_status_of_a_container_says_of_its_end_only_what_has_happened() {
    let base = ContainerStatus {
        id: ContainerId::new("containerd", "c"),
        name: "app".into(),
        sandbox_id: "s".into(),
        created_at: 1,
        image: "busybox".into(),
        image_id: "sha256:1".into(),
        image_ref: "busybox@sha256:2".into(),
        image_runtime_handler: "kata".into(),
        restart_count: 4,
        hash: 0x1a,
        log_path: "/var/log/pods/x/app/4.log".into(),
        ..ContainerStatus::default()
    };
    let created = ContainerStatus { state: ContainerState::Created, ..base.clone() };
    let running = ContainerStatus { state: ContainerState::Running, started_at: 2, ..base.clone() };
    let unknown = ContainerStatus { state: ContainerState::Unknown, started_at: 2, ..base.clone() };
    let exited = ContainerStatus {
        state: ContainerState::Exited,
        started_at: 2,
        finished_at: 3,
        exit_code: 137,
        reason: "OOMKilled".into(),
        message: "out of memory".into(),
        ..base
    };
    for (state, expected) in [(0, created), (1, running), (2, exited), (3, unknown.clone()), (77, unknown)] {
        assert_eq!(container_status("containerd", "s", full_status(state)), expected, "{state}");
    }
}

#[test]
fn the_image_of_a_runtime_older_than_its_id_is_told_by_its_reference() {
    let status = proto::ContainerStatus { image_id: String::new(), ..full_status(1) };
    assert_eq!(container_status("r", "s", status).image_id, "busybox@sha256:2");
}

#[test]
fn an_empty_status_of_a_container_is_one_of_which_nothing_is_known() {
    let status = container_status("", "", proto::ContainerStatus::default());
    assert_eq!(status, ContainerStatus { state: ContainerState::Created, ..ContainerStatus::default() });
}

#[test]
fn a_container_without_the_label_of_its_name_has_that_of_its_metadata() {
    let status = proto::ContainerStatus { labels: Map::new(), ..full_status(1) };
    assert_eq!(container_status("r", "s", status).name, "meta");
}

#[test]
fn annotations_that_are_no_numbers_count_as_zero() {
    for (text, expected) in
        [("0", 0), ("12", 12), ("", 0), ("x", 0), ("-1", 0), ("4294967295", u32::MAX), ("4294967296", 0)]
    {
        assert_eq!(labels::restart_count(&map(&[(RESTART_COUNT, text)])), expected, "{text:?}");
    }
    for (text, expected) in
        [("0", 0), ("dEaD", 0xdead), ("ffffffffffffffff", u64::MAX), ("10000000000000000", 0), ("+1", 0), ("0x1", 0)]
    {
        assert_eq!(labels::hash(&map(&[(HASH, text)])), expected, "{text:?}");
    }
    assert_eq!((labels::restart_count(&Map::new()), labels::hash(&Map::new())), (0, 0));
}

#[test]
fn the_status_of_a_sandbox() {
    let network = |ip: &str, more: &[&str]| proto::PodSandboxNetworkStatus {
        ip: ip.into(),
        additional_ips: more.iter().map(|&ip| proto::PodIp { ip: ip.into() }).collect(),
    };
    let namespaces = |network| proto::LinuxPodSandboxStatus {
        namespaces: Some(proto::Namespace { options: Some(proto::NamespaceOption { network, ..Default::default() }) }),
    };
    let status = proto::PodSandboxStatus {
        id: "s".into(),
        metadata: sandbox("s", "a", 3, 0).metadata,
        state: 0,
        created_at: 9,
        network: Some(network("10.0.0.1", &["fd00::1"])),
        linux: Some(namespaces(0)),
        runtime_handler: "kata".into(),
        ..Default::default()
    };
    let expected = SandboxStatus {
        id: "s".into(),
        attempt: 3,
        state: SandboxState::Ready,
        created_at: 9,
        ips: vec!["10.0.0.1".into(), "fd00::1".into()],
        host_network: false,
        runtime_handler: "kata".into(),
        static_pod: None,
    };
    assert_eq!(sandbox_status(status.clone()), expected);

    // On the host's network, the runtime gives no address.
    let on_host = proto::PodSandboxStatus {
        network: Some(network("", &[])),
        linux: Some(namespaces(2)),
        state: 1,
        ..status.clone()
    };
    let expected = SandboxStatus { ips: vec![], host_network: true, state: SandboxState::NotReady, ..expected };
    assert_eq!(sandbox_status(on_host), expected);

    let bare = proto::PodSandboxStatus { state: 5, ..Default::default() };
    assert_eq!(sandbox_status(bare), SandboxStatus::default());
}

#[test]
fn the_labels_and_annotations_of_a_static_pod_stay() {
    let of = |source: &str| proto::PodSandboxStatus {
        labels: map(&[("app", "etcd"), (labels::POD_NAME, "etcd-edge-1"), (labels::POD_UID, "u")]),
        annotations: map(&[(labels::SOURCE, source), ("a", "b")]),
        ..Default::default()
    };
    let texts = |entries: &[(&str, &str)]| map(entries).into_iter().collect();
    for source in ["file", "http"] {
        let metadata = PodMetadata {
            labels: texts(&[("app", "etcd")]),
            annotations: texts(&[(labels::SOURCE, source), ("a", "b")]),
        };
        assert_eq!(sandbox_status(of(source)).static_pod, Some(metadata.into()));
    }
    assert_eq!(sandbox_status(of("api")).static_pod, None);
    assert_eq!(sandbox_status(proto::PodSandboxStatus { annotations: Map::new(), ..of("file") }).static_pod, None);
}

#[test]
fn what_counts_as_an_address() {
    for text in ["10.0.0.1", "010.000.0.001", "fd00::1", "::ffff:10.0.0.1", "0.0.0.0"] {
        assert!(are_addresses(&[text.to_owned()]), "{text}");
    }
    for text in ["", "10.0.0", "10.0.0.1.2", "256.0.0.1", "10.0.0.1/24", "fe80::1%eth0", "host", "10.0.0.-1", "10..0.1"]
    {
        assert!(!are_addresses(&[text.to_owned()]), "{text}");
    }
}

#[test]
fn an_event_tells_its_pod_by_the_sandbox_or_else_by_the_container_or_not_at_all() {
    let sandbox = |metadata| Some(proto::PodSandboxStatus { metadata, ..proto::PodSandboxStatus::default() });
    let uid = |uid: &str| Some(proto::PodSandboxMetadata { uid: uid.into(), ..proto::PodSandboxMetadata::default() });
    let container = |id: &str, uid: &str| proto::ContainerStatus {
        id: id.into(),
        labels: [(labels::POD_UID.to_owned(), uid.to_owned())].into(),
        ..proto::ContainerStatus::default()
    };
    let others = vec![container("other", "w"), container("c", "v")];
    for (status, containers, pod) in [
        (sandbox(uid("u")), others.clone(), Some("u")),
        (sandbox(uid("")), others.clone(), Some("v")),
        (sandbox(None), others.clone(), Some("v")),
        (None, others.clone(), Some("v")),
        (None, others[..1].to_vec(), None),
        (sandbox(None), vec![container("c", "")], None),
        (None, vec![], None),
    ] {
        let event = event_of(proto::ContainerEventResponse {
            container_id: "c".into(),
            container_event_type: 2,
            created_at: 5,
            pod_sandbox_status: status,
            containers_statuses: containers,
        });
        let expected = ContainerEvent {
            kind: ContainerEventKind::Stopped,
            container_id: "c".into(),
            pod: pod.map(Into::into),
            created_at: 5,
        };
        assert_eq!(event, expected);
    }
}

#[test]
fn a_kind_of_event_that_is_not_known_is_an_event_all_the_same() {
    for (kind, expected) in
        [(0, "created"), (1, "started"), (2, "stopped"), (3, "deleted"), (4, "unknown"), (-1, "unknown")]
    {
        let event = proto::ContainerEventResponse { container_event_type: kind, ..Default::default() };
        assert_eq!(event_of(event).kind.as_str(), expected);
    }
}
