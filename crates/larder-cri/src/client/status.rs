//! The status of a pod: the calls for its sandboxes and containers, and what their answers mean.
//!
//! Whatever a runtime answers, this gives something: a value that is not known reads as unknown, a time of zero as not set.

use super::{Call, Client};
use crate::labels::{self, Map};
use crate::proto;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use larder_pleg::{
    ContainerId, ContainerState, ContainerStatus, KnownPod, PodStatus, RuntimeContainer, RuntimeError, RuntimePod,
    SandboxState, SandboxStatus,
};
use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::Arc;
use tracing::info;

/// How many sandboxes, and how many containers, of one pod are asked for side by side.
const CALLS_AT_A_TIME: usize = 4;

impl Client {
    /// Containers that run or have ended, and are listed as they were, have not changed, nor has a ready sandbox with its
    /// addresses; the others are asked for.
    pub(super) async fn pod_status(
        &self,
        pod: &RuntimePod,
        known: Option<KnownPod<'_>>,
    ) -> Result<PodStatus, RuntimeError> {
        let Some(KnownPod { pod: before, status }) = known else {
            return self.inspect(pod, |_| None, |_| None).await;
        };
        let known = |container: &RuntimeContainer| {
            let is_as_before = before.containers.contains(container);
            let status = status.containers.iter().find(|status| status.id.id == container.id);
            status.filter(|status| is_as_before && status.state == container.state && is_complete(status)).cloned()
        };
        let known_sandbox = |sandbox: &RuntimeContainer| {
            let is_as_before = before.sandboxes.contains(sandbox) && sandbox.state == ContainerState::Running;
            let status = status.sandboxes.iter().find(|status| status.id == sandbox.id);
            status.filter(|status| is_as_before && is_set_up(status)).cloned()
        };
        self.inspect(pod, known, known_sandbox).await
    }

    /// The status of a container of a pod; none if it is gone.
    pub(super) async fn container_status(
        &self,
        pod: &RuntimePod,
        container: &RuntimeContainer,
    ) -> Result<Option<ContainerStatus>, RuntimeError> {
        let version = self.version().await?;
        let answer = self.ask_container(pod, &container.id).await?;
        Ok(answer.map(|answer| container_status(&version.name, &container.sandbox_id, answer)))
    }

    /// Asks the runtime for each sandbox and container of a pod that is not known yet.
    async fn inspect(
        &self,
        pod: &RuntimePod,
        known: impl Fn(&RuntimeContainer) -> Option<ContainerStatus>,
        known_sandbox: impl Fn(&RuntimeContainer) -> Option<SandboxStatus>,
    ) -> Result<PodStatus, RuntimeError> {
        let version = self.version().await?;
        let mut status = PodStatus::new(pod.uid.clone(), pod.namespace.clone(), pod.name.clone());
        let mut sandboxes: Vec<Option<SandboxStatus>> = pod.sandboxes.iter().map(known_sandbox).collect();
        let asked_sandboxes: Vec<usize> = (0..sandboxes.len()).filter(|at| sandboxes[*at].is_none()).collect();
        let sandbox_answers: Vec<_> =
            asked_sandboxes.iter().map(|at| self.ask_sandbox(pod, &pod.sandboxes[*at].id)).collect();
        let mut asked = Vec::new();
        // Kept for as long as nothing changes, so without room for more.
        status.containers.reserve_exact(pod.containers.len());
        status.sandboxes.reserve_exact(pod.sandboxes.len());
        for container in &pod.containers {
            match known(container) {
                Some(known) => status.containers.push(known),
                None => asked.push(container),
            }
        }
        let containers: Vec<_> = asked.iter().map(|container| self.ask_container(pod, &container.id)).collect();
        let (sandbox_answers, containers): (Vec<_>, Vec<_>) = tokio::try_join!(
            stream::iter(sandbox_answers).buffered(CALLS_AT_A_TIME).try_collect(),
            stream::iter(containers).buffered(CALLS_AT_A_TIME).try_collect(),
        )?;
        for (at, answer) in asked_sandboxes.into_iter().zip(sandbox_answers) {
            sandboxes[at] = answer.map(sandbox_status);
        }
        for (at, sandbox) in sandboxes.into_iter().enumerate() {
            let Some(sandbox) = sandbox else { continue };
            // Only the newest sandbox has a say; if that is gone, none has.
            if at == 0 && sandbox.state == SandboxState::Ready {
                status.active_sandbox_id = Some(sandbox.id.clone());
                if are_addresses(&sandbox.ips) {
                    status.ips.clone_from(&sandbox.ips);
                } else {
                    info!(pod.uid = %pod.uid, sandbox = sandbox.id, ips = ?sandbox.ips, "the sandbox has something else than addresses");
                }
            }
            status.sandboxes.push(sandbox);
        }
        for (container, answer) in asked.iter().zip(containers) {
            let Some(answer) = answer else { continue };
            status.containers.push(container_status(&version.name, &container.sandbox_id, answer));
        }
        status.containers.sort_by_key(|container: &ContainerStatus| Reverse(container.created_at));
        Ok(status)
    }

    /// The status of a sandbox; none if it is gone.
    async fn ask_sandbox(&self, pod: &RuntimePod, id: &str) -> Result<Option<proto::PodSandboxStatus>, RuntimeError> {
        let call = Call::of("PodSandboxStatus", pod, id);
        let request = proto::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
        let mut calls = self.calls.clone();
        let answer = self.call(call, self.options.status_timeout, calls.pod_sandbox_status(request)).await;
        unless_gone(call, answer.map(|answer| answer.status))
    }

    /// The status of a container; none if it is gone.
    async fn ask_container(&self, pod: &RuntimePod, id: &str) -> Result<Option<proto::ContainerStatus>, RuntimeError> {
        let call = Call::of("ContainerStatus", pod, id);
        let request = proto::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        let mut calls = self.calls.clone();
        let answer = self.call(call, self.options.status_timeout, calls.container_status(request)).await;
        unless_gone(call, answer.map(|answer| answer.status))
    }
}

/// Whether nothing that a runtime says of a container in its state can be missing yet.
fn is_complete(status: &ContainerStatus) -> bool {
    match status.state {
        ContainerState::Running => status.started_at != 0,
        ContainerState::Exited => status.finished_at != 0,
        _ => false,
    }
}

/// Whether a sandbox is ready and has all that it will ever have.
fn is_set_up(status: &SandboxStatus) -> bool {
    status.state == SandboxState::Ready && (status.host_network || !status.ips.is_empty())
}

/// A sandbox or container that was listed and is not found now was removed meanwhile. That is no failure. An answer without a
/// status is one.
fn unless_gone<S>(call: Call<'_>, answer: Result<Option<S>, RuntimeError>) -> Result<Option<S>, RuntimeError> {
    match answer {
        Ok(None) => Err(RuntimeError::BadResponse { call: Arc::new(call.name()), reason: "it has no status".into() }),
        Err(error) if error.is_not_found() => Ok(None),
        answer => answer,
    }
}

pub(super) fn sandbox_state(state: i32) -> SandboxState {
    match proto::PodSandboxState::try_from(state) {
        Ok(proto::PodSandboxState::SandboxReady) => SandboxState::Ready,
        Ok(proto::PodSandboxState::SandboxNotready) => SandboxState::NotReady,
        Err(_) => SandboxState::Unknown,
    }
}

/// The status of a sandbox.
pub(super) fn sandbox_status(status: proto::PodSandboxStatus) -> SandboxStatus {
    let host = i32::from(proto::NamespaceMode::Node);
    let options = status.linux.and_then(|linux| linux.namespaces).and_then(|namespaces| namespaces.options);
    SandboxStatus {
        id: status.id,
        attempt: status.metadata.map_or(0, |metadata| metadata.attempt),
        state: sandbox_state(status.state),
        created_at: status.created_at,
        ips: status.network.map(addresses).unwrap_or_default(),
        host_network: options.is_some_and(|options| options.network == host),
        runtime_handler: status.runtime_handler,
        static_pod: labels::static_pod(status.labels, status.annotations).map(Box::new),
    }
}

/// The primary address, if the runtime has given one, and the further ones.
fn addresses(network: proto::PodSandboxNetworkStatus) -> Vec<String> {
    let primary = Some(network.ip).filter(|ip| !ip.is_empty());
    primary.into_iter().chain(network.additional_ips.into_iter().map(|ip| ip.ip)).collect()
}

/// Whether all of these are addresses. The kubelet reports none for a pod one of whose addresses is not.
pub(super) fn are_addresses(ips: &[String]) -> bool {
    ips.iter().all(|ip| is_address(ip))
}

/// Like the kubelet's own check: octets may have leading zeros.
fn is_address(text: &str) -> bool {
    let is_octet = |part: &str| {
        let significant = part.trim_start_matches('0');
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (significant.is_empty() || significant.parse::<u8>().is_ok())
    };
    text.parse::<IpAddr>().is_ok() || (text.split('.').count() == 4 && text.split('.').all(is_octet))
}

/// The status of a container of a sandbox.
pub(super) fn container_status(runtime: &str, sandbox_id: &str, status: proto::ContainerStatus) -> ContainerStatus {
    let state = container_state(status.state);
    let (image, image_runtime_handler) =
        status.image.map(|image| (image.image, image.runtime_handler)).unwrap_or_default();
    let mut converted = ContainerStatus {
        id: ContainerId::new(runtime, status.id),
        name: container_name(&status.labels, status.metadata),
        sandbox_id: sandbox_id.to_owned(),
        state,
        created_at: status.created_at,
        image,
        image_id: image_id(status.image_id, &status.image_ref),
        image_ref: status.image_ref,
        image_runtime_handler,
        restart_count: labels::restart_count(&status.annotations),
        hash: labels::hash(&status.annotations),
        log_path: status.log_path,
        ..ContainerStatus::default()
    };
    // Some runtimes give an end of a container that has not ended. It is ignored.
    if state != ContainerState::Created {
        converted.started_at = status.started_at;
    }
    if state == ContainerState::Exited {
        converted.finished_at = status.finished_at;
        converted.exit_code = status.exit_code;
        converted.reason = status.reason;
        converted.message = status.message;
    }
    converted
}

fn container_name(labels: &Map, metadata: Option<proto::ContainerMetadata>) -> String {
    labels.get(labels::CONTAINER_NAME).cloned().or(metadata.map(|metadata| metadata.name)).unwrap_or_default()
}

/// Runtimes older than the field have the identifier in the reference.
fn image_id(id: String, reference: &str) -> String {
    if id.is_empty() { reference.to_owned() } else { id }
}

pub(super) fn container_state(state: i32) -> ContainerState {
    match proto::ContainerState::try_from(state) {
        Ok(proto::ContainerState::ContainerCreated) => ContainerState::Created,
        Ok(proto::ContainerState::ContainerRunning) => ContainerState::Running,
        Ok(proto::ContainerState::ContainerExited) => ContainerState::Exited,
        Ok(proto::ContainerState::ContainerUnknown) | Err(_) => ContainerState::Unknown,
    }
}
