//! The container runtime, asked by a bare gRPC client.

use crate::client::SOON;
use hyper_util::rt::TokioIo;
use larder_cri::proto::runtime_service_client::RuntimeServiceClient;
use larder_cri::proto::{
    ContainerEventResponse, ContainerEventType, ContainerState, ContainerStatusRequest, GetEventsRequest,
    ListContainersRequest, ListPodSandboxRequest, PodSandboxFilter, PodSandboxStatusRequest, VersionRequest,
};
use larder_testkit::cri_runtime::{
    Call, CallFault, CriServer, CriServerOptions, EventFaults, EventStream, SandboxSpec,
};
use larder_testkit::poll_until;
use std::pin::pin;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Streaming};

struct Fixture {
    server: CriServer,
    client: RuntimeServiceClient<Channel>,
    _folder: TempDir,
}

async fn start_with(options: CriServerOptions) -> Fixture {
    let folder = tempfile::tempdir().expect("a folder");
    let server = CriServer::start_with(&folder.path().join("cri.sock"), options).await.expect("a socket");
    let socket = server.socket().to_owned();
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://cri").connect_with_connector_lazy(connector);
    Fixture { server, client: RuntimeServiceClient::new(channel), _folder: folder }
}

async fn start() -> Fixture {
    start_with(CriServerOptions::default()).await
}

impl Fixture {
    fn sandbox(&self, name: &str) -> String {
        self.server.containers().run_sandbox(&SandboxSpec::new("shop", name, &format!("uid-of-{name}")))
    }

    fn container(&self, sandbox: &str, name: &str) -> String {
        self.server.containers().create_container(sandbox, name, "shop/web:2").expect("created")
    }

    async fn events(&self) -> Streaming<ContainerEventResponse> {
        let events = self.client.clone().get_container_events(GetEventsRequest {}).await.expect("subscribed");
        events.into_inner()
    }
}

async fn next(events: &mut Streaming<ContainerEventResponse>) -> ContainerEventResponse {
    let event = tokio::time::timeout(SOON, events.message()).await.expect("soon");
    event.expect("a good event").expect("not the end")
}

#[tokio::test]
async fn lists_and_statuses_tell_the_life_of_a_container() {
    let Fixture { server, mut client, _folder } = start().await;
    let containers = server.containers();
    let sandbox = containers.run_sandbox(&SandboxSpec::new("shop", "web-0", "u1").ips(&["10.0.0.1", "fd00::1"]));
    let web = containers.create_container(&sandbox, "web", "shop/web:2").expect("created");
    let status = async |client: &mut RuntimeServiceClient<Channel>, id: &str| {
        let request = ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        client.container_status(request).await.expect("answered").into_inner().status.expect("a status")
    };
    assert_eq!(status(&mut client, &web).await.state(), ContainerState::ContainerCreated);
    containers.start_container(&web).expect("started");
    containers.exit_container(&web, 3).expect("exited");
    let exited = status(&mut client, &web).await;
    assert_eq!(
        (exited.state(), exited.exit_code, exited.reason.as_str()),
        (ContainerState::ContainerExited, 3, "Error")
    );
    assert!(0 < exited.created_at && exited.created_at <= exited.started_at && exited.started_at <= exited.finished_at);
    assert!(
        web.len() == 64 && exited.image_id.starts_with("sha256:") && exited.image_ref.starts_with("shop/web@sha256:")
    );

    let again = containers.create_container(&sandbox, "web", "shop/web:2").expect("created");
    let again = status(&mut client, &again).await;
    assert_eq!(again.metadata.expect("metadata").attempt, 1);
    assert_eq!(again.annotations["io.kubernetes.container.restartCount"], "1");
    assert_eq!(again.labels["io.kubernetes.pod.uid"], "u1");
    assert_eq!(again.image_id, exited.image_id);

    let listed = client.list_containers(ListContainersRequest::default()).await.expect("listed").into_inner();
    assert_eq!(listed.containers.len(), 2);
    assert!(listed.containers.iter().all(|container| container.pod_sandbox_id == sandbox));

    let request = PodSandboxStatusRequest { pod_sandbox_id: sandbox.clone(), verbose: false };
    let network = client.pod_sandbox_status(request.clone()).await.expect("answered").into_inner().status;
    let network = network.and_then(|status| status.network).expect("a network");
    assert_eq!((network.ip.as_str(), network.additional_ips[0].ip.as_str()), ("10.0.0.1", "fd00::1"));
    containers.remove_sandbox(&sandbox).expect("removed");
    assert_eq!(client.pod_sandbox_status(request).await.expect_err("gone").code(), Code::NotFound);
    let listed = client.list_containers(ListContainersRequest::default()).await.expect("listed").into_inner();
    assert!(listed.containers.is_empty());
}

#[tokio::test]
async fn lists_are_filtered() {
    let mut fixture = start().await;
    let (web, api) = (fixture.sandbox("web"), fixture.sandbox("api"));
    fixture.container(&web, "c");
    fixture.server.containers().stop_sandbox(&api).expect("stopped");
    let mut list = async |filter: PodSandboxFilter| -> Vec<String> {
        let request = ListPodSandboxRequest { filter: Some(filter) };
        let listed = fixture.client.list_pod_sandbox(request).await.expect("listed").into_inner();
        listed.items.into_iter().map(|sandbox| sandbox.id).collect()
    };
    let by_label = [("io.kubernetes.pod.uid".to_owned(), "uid-of-web".to_owned())].into();
    assert_eq!(list(PodSandboxFilter { label_selector: by_label, ..Default::default() }).await, [web.as_str()]);
    assert_eq!(list(PodSandboxFilter { id: api.clone(), ..Default::default() }).await, [api.as_str()]);
    let not_ready = larder_cri::proto::PodSandboxStateValue { state: 1 };
    assert_eq!(list(PodSandboxFilter { state: Some(not_ready), ..Default::default() }).await, [api]);
    let request = ListContainersRequest {
        filter: Some(larder_cri::proto::ContainerFilter { pod_sandbox_id: web, ..Default::default() }),
    };
    let listed = fixture.client.list_containers(request).await.expect("listed").into_inner();
    assert_eq!(listed.containers.len(), 1);
}

#[tokio::test]
async fn events_follow_the_changes_in_order() {
    let fixture = start().await;
    let mut events = fixture.events().await;
    let sandbox = fixture.sandbox("web");
    let web = fixture.container(&sandbox, "web");
    let containers = fixture.server.containers();
    containers.start_container(&web).expect("started");
    containers.exit_container(&web, 0).expect("exited");
    containers.remove_container(&web).expect("removed");
    for (id, kind) in [
        (&sandbox, ContainerEventType::ContainerCreatedEvent),
        (&sandbox, ContainerEventType::ContainerStartedEvent),
        (&web, ContainerEventType::ContainerCreatedEvent),
        (&web, ContainerEventType::ContainerStartedEvent),
        (&web, ContainerEventType::ContainerStoppedEvent),
        (&web, ContainerEventType::ContainerDeletedEvent),
    ] {
        let event = next(&mut events).await;
        assert_eq!((&event.container_id, event.container_event_type()), (id, kind));
        assert_eq!(event.pod_sandbox_status.expect("a sandbox").id, sandbox);
    }
    assert_eq!(fixture.server.event_streams(), 1);
    drop(events);
    poll_until(SOON, async || (fixture.server.event_streams() == 0).then_some(())).await.expect("released");
}

#[tokio::test]
async fn events_are_spoilt_on_command() {
    let fixture = start().await;
    let mut events = fixture.events().await;
    let server = &fixture.server;
    server.set_event_faults(EventFaults { dropped: true, ..EventFaults::default() });
    let sandbox = fixture.sandbox("web");
    let late = Duration::from_millis(20);
    let faults = EventFaults { repeated: 1, late, without_sandbox: true, unknown_type: true, ..EventFaults::default() };
    server.set_event_faults(faults);
    let asked = tokio::time::Instant::now();
    let web = fixture.container(&sandbox, "web");
    for _ in 0..2 {
        let event = next(&mut events).await;
        assert_eq!((&event.container_id, event.container_event_type, event.pod_sandbox_status), (&web, 77, None));
    }
    assert!(asked.elapsed() >= late);
    server.cut_events();
    let broken = tokio::time::timeout(SOON, events.message()).await.expect("soon").expect_err("cut");
    assert_eq!(broken.code(), Code::Unavailable);

    let without =
        start_with(CriServerOptions { events: EventStream::Unimplemented, ..CriServerOptions::default() }).await;
    let refused = without.client.clone().get_container_events(GetEventsRequest {}).await.expect_err("none");
    assert_eq!(refused.code(), Code::Unimplemented);
}

#[tokio::test]
async fn calls_hang_fail_and_answer_nothing_on_command() {
    let Fixture { server, mut client, _folder } = start().await;
    let sandbox = server.containers().run_sandbox(&SandboxSpec::new("shop", "web", "u1"));
    let other = server.containers().run_sandbox(&SandboxSpec::new("shop", "api", "u2"));
    let request = |id: &str| PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
    let hang = server.inject(CallFault::hang().call(Call::PodSandboxStatus).id(&sandbox));
    let mut second = client.clone();
    let mut hanging = pin!(second.pod_sandbox_status(request(&sandbox)));
    tokio::select! {
        answer = &mut hanging => panic!("answered: {answer:?}"),
        answer = client.pod_sandbox_status(request(&other)) => drop(answer.expect("the other is answered")),
    }
    assert_eq!((server.calls(Call::PodSandboxStatus).open, server.calls(Call::PodSandboxStatus).peak), (1, 2));
    assert!(server.remove_fault(hang));
    tokio::time::timeout(SOON, hanging).await.expect("soon").expect("answered after all");

    server.inject(CallFault::empty().call(Call::PodSandboxStatus).times(1));
    assert_eq!(client.pod_sandbox_status(request(&sandbox)).await.expect("answered").into_inner().status, None);
    server.inject(CallFault::fail(Code::Internal, "no space left on device").times(1));
    let failed = client.version(VersionRequest::default()).await.expect_err("failed");
    assert_eq!((failed.code(), failed.message()), (Code::Internal, "no space left on device"));
    assert_eq!(client.version(VersionRequest::default()).await.expect("well").into_inner().runtime_name, "containerd");

    let latency = Duration::from_millis(20);
    server.set_latency(Call::Version, latency..=latency);
    let asked = tokio::time::Instant::now();
    client.version(VersionRequest::default()).await.expect("well");
    assert!(asked.elapsed() >= latency);
}

#[tokio::test]
async fn what_is_said_of_a_container_can_be_a_lie() {
    let mut fixture = start().await;
    let sandbox = fixture.sandbox("web");
    let web = fixture.container(&sandbox, "web");
    let containers = fixture.server.containers();
    containers
        .edit_container(&web, |status| {
            status.metadata = None;
            status.state = 42;
            status.created_at = 0;
        })
        .expect("edited");
    containers.edit_sandbox(&sandbox, |status| status.metadata = None).expect("edited");
    let listed = fixture.client.list_containers(ListContainersRequest::default()).await.expect("listed").into_inner();
    let listed = &listed.containers[0];
    assert_eq!((&listed.metadata, listed.state, listed.created_at), (&None, 42, 0));
    let listed = fixture.client.list_pod_sandbox(ListPodSandboxRequest::default()).await.expect("listed").into_inner();
    assert_eq!(listed.items[0].metadata, None);
}

#[tokio::test]
async fn a_runtime_that_is_away_comes_back_on_its_socket() {
    let fixture = start().await;
    let mut client = fixture.client.clone();
    let mut events = fixture.events().await;
    client.version(VersionRequest::default()).await.expect("answered");
    fixture.server.outage().await;
    assert!(events.message().await.is_err(), "the stream is cut");
    client.version(VersionRequest::default()).await.expect_err("nothing listens");
    assert!(!fixture.server.socket().exists());
    let sandbox = fixture.sandbox("meanwhile");
    fixture.server.restore().await.expect("listens again");
    let listed = client.list_pod_sandbox(ListPodSandboxRequest::default()).await.expect("listed").into_inner();
    assert_eq!(listed.items[0].id, sandbox);
}
