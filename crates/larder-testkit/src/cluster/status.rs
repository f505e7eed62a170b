//! The status of a pod, as a kubelet writes it into the API from what the runtime says.

use crate::cri_runtime::Containers;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, HostIP,
    Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use larder_cri::proto;

/// What a kubelet knows of a container besides what the runtime says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// The ID of the newest container of that name.
    pub(crate) id: Option<String>,
    /// The ID of the one before, for `lastState`.
    pub(crate) previous: Option<String>,
    pub(crate) restarts: u32,
    /// Whether it waits to be started again.
    pub(crate) waits_for_restart: bool,
}

pub(crate) const HOST_IP: &str = "192.0.2.10";

fn time(nanos: i64) -> Option<Time> {
    (nanos > 0).then(|| Timestamp::from_nanosecond(nanos.into()).map(Time).ok()).flatten()
}

/// The status that the API is to have.
pub(crate) fn of_pod(
    pod: &Pod,
    phase: &str,
    sandbox: Option<&proto::PodSandboxStatus>,
    known: &[(String, Known)],
    containers: &Containers,
) -> PodStatus {
    let statuses: Vec<ContainerStatus> =
        known.iter().map(|(name, known)| of_container(pod, name, known, containers)).collect();
    let ready = !statuses.is_empty() && statuses.iter().all(|status| status.ready);
    let before = pod.status.clone().unwrap_or_default();
    let network = sandbox.and_then(|sandbox| sandbox.network.as_ref());
    let ips: Vec<String> = network
        .into_iter()
        .flat_map(|network| std::iter::once(&network.ip).chain(network.additional_ips.iter().map(|ip| &ip.ip)))
        .filter(|ip| !ip.is_empty())
        .cloned()
        .collect();
    // A pod that has ended keeps the IPs that it had.
    let pod_ips = if ips.is_empty() { before.pod_ips } else { Some(ips.into_iter().map(|ip| PodIP { ip }).collect()) };
    let conditions =
        [("PodScheduled", true), ("Initialized", sandbox.is_some()), ("ContainersReady", ready), ("Ready", ready)];
    PodStatus {
        phase: Some(phase.to_owned()),
        conditions: Some(
            conditions
                .map(|(kind, is)| PodCondition {
                    type_: kind.into(),
                    status: if is { "True" } else { "False" }.into(),
                    ..PodCondition::default()
                })
                .into(),
        ),
        host_ip: Some(HOST_IP.into()),
        host_ips: Some(vec![HostIP { ip: HOST_IP.into() }]),
        pod_ip: pod_ips.as_ref().and_then(|ips| ips.first()).map(|ip| ip.ip.clone()),
        pod_ips,
        start_time: before.start_time.or_else(|| sandbox.and_then(|sandbox| time(sandbox.created_at))),
        container_statuses: Some(statuses),
        qos_class: Some("BestEffort".into()),
        ..PodStatus::default()
    }
}

fn of_container(pod: &Pod, name: &str, known: &Known, containers: &Containers) -> ContainerStatus {
    let image = pod.spec.iter().flat_map(|spec| &spec.containers).find(|container| container.name == name);
    let image = image.and_then(|container| container.image.clone()).unwrap_or_default();
    let Some(newest) = known.id.as_deref().and_then(|id| containers.container(id)) else {
        return ContainerStatus {
            name: name.to_owned(),
            image,
            state: Some(waiting("ContainerCreating", "")),
            ..ContainerStatus::default()
        };
    };
    let state = state_of(&newest);
    let running = newest.state() == proto::ContainerState::ContainerRunning;
    let (state, last_state) = if known.waits_for_restart {
        let message = format!("back-off restarting failed container={name}");
        (waiting("CrashLoopBackOff", &message), Some(state))
    } else {
        let previous = known.previous.as_deref().and_then(|id| containers.container(id));
        (state, previous.as_ref().map(state_of))
    };
    ContainerStatus {
        name: name.to_owned(),
        container_id: Some(format!("containerd://{}", newest.id)),
        image,
        image_id: newest.image_ref.clone(),
        ready: running,
        started: Some(running),
        restart_count: known.restarts.try_into().unwrap_or(i32::MAX),
        state: Some(state),
        last_state,
        ..ContainerStatus::default()
    }
}

fn waiting(reason: &str, message: &str) -> ContainerState {
    let message = (!message.is_empty()).then(|| message.to_owned());
    ContainerState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message }),
        ..ContainerState::default()
    }
}

fn state_of(status: &proto::ContainerStatus) -> ContainerState {
    match status.state() {
        proto::ContainerState::ContainerRunning => ContainerState {
            running: Some(ContainerStateRunning { started_at: time(status.started_at) }),
            ..ContainerState::default()
        },
        proto::ContainerState::ContainerExited => ContainerState {
            terminated: Some(ContainerStateTerminated {
                container_id: Some(format!("containerd://{}", status.id)),
                exit_code: status.exit_code,
                reason: Some(status.reason.clone()),
                message: (!status.message.is_empty()).then(|| status.message.clone()),
                started_at: time(status.started_at),
                finished_at: time(status.finished_at),
                signal: None,
            }),
            ..ContainerState::default()
        },
        _ => waiting("ContainerCreating", ""),
    }
}
