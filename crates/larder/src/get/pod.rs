//! A pod as a row: ready containers, a status in a word, restarts, age.

use super::{Row, time};
use crate::output::age;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus};
use serde::Deserialize as _;
use serde_json::Value;

/// The row of a pod in JSON. One that cannot be read has one all the same, and takes nothing from the others.
pub(super) fn row(pod: &Value, now: Timestamp) -> Row {
    let Ok(pod) = Pod::deserialize(pod) else { return unreadable(pod) };
    let spec = pod.spec.clone().unwrap_or_default();
    let status = pod.status.clone().unwrap_or_default();
    let sidecars = spec.init_containers.iter().flatten().filter(|container| is_sidecar(container));
    let total = spec.containers.len() + sidecars.count();
    let ready = ready(&pod, &status);
    let none = || "<none>".to_owned();
    Row {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        narrow: vec![
            format!("{ready}/{total}"),
            word(&pod, &status),
            restarts(&status, now),
            age::since(time(pod.metadata.creation_timestamp.as_ref()), now),
        ],
        wide: vec![status.pod_ip.unwrap_or_else(none), spec.node_name.unwrap_or_else(none)],
    }
}

/// What is wrong with it is not said here: the words for it would quote the pod.
fn unreadable(pod: &Value) -> Row {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
    let unknown = || "<unknown>".to_owned();
    Row {
        namespace: text("namespace"),
        name: text("name"),
        narrow: vec![unknown(), "Unreadable".to_owned(), unknown(), unknown()],
        wide: vec![unknown(), unknown()],
    }
}

fn is_sidecar(container: &k8s_openapi::api::core::v1::Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn sidecar_names(pod: &Pod) -> impl Iterator<Item = &str> {
    let containers = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    containers.filter(|container| is_sidecar(container)).map(|container| container.name.as_str())
}

fn ready(pod: &Pod, status: &PodStatus) -> usize {
    let containers = status.container_statuses.iter().flatten();
    let sidecars = status.init_container_statuses.iter().flatten();
    let sidecars = sidecars.filter(|status| sidecar_names(pod).any(|name| name == status.name));
    containers.chain(sidecars).filter(|status| status.ready).count()
}

/// The status in a word: the phase, or what keeps the pod from it.
fn word(pod: &Pod, status: &PodStatus) -> String {
    let reason = status.reason.clone().filter(|reason| !reason.is_empty());
    let phase = status.phase.clone().filter(|phase| !phase.is_empty());
    let is_terminal = matches!(phase.as_deref(), Some("Succeeded" | "Failed"));
    let mut word = initializing(pod, status).unwrap_or_else(|| {
        let base = reason.clone().or(phase).unwrap_or_else(|| "Unknown".to_owned());
        of_containers(status, base)
    });
    if pod.metadata.deletion_timestamp.is_some() {
        word = match reason.as_deref() {
            Some("NodeLost") => "Unknown".to_owned(),
            _ if is_terminal => word,
            _ => "Terminating".to_owned(),
        };
    }
    word
}

/// What the first init container that has not ended well is at; `None` once all have.
fn initializing(pod: &Pod, status: &PodStatus) -> Option<String> {
    let total = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten()).count();
    for (at, container) in status.init_container_statuses.iter().flatten().enumerate() {
        let state = container.state.clone().unwrap_or_default();
        let is_started_sidecar =
            container.started == Some(true) && sidecar_names(pod).any(|name| name == container.name);
        let ended_well = state.terminated.as_ref().is_some_and(|terminated| terminated.exit_code == 0);
        if ended_well || is_started_sidecar {
            continue;
        }
        let waits = state.waiting.and_then(|waiting| waiting.reason);
        let why = match (&state.terminated, waits) {
            (Some(terminated), _) => terminated_word(terminated),
            (None, Some(reason)) if !reason.is_empty() && reason != "PodInitializing" => reason,
            _ => format!("{at}/{total}"),
        };
        return Some(format!("Init:{why}"));
    }
    None
}

/// What the first container that does not run says; `base` if all run.
fn of_containers(status: &PodStatus, base: String) -> String {
    let containers: Vec<&ContainerStatus> = status.container_statuses.iter().flatten().collect();
    let runs = |container: &&ContainerStatus| {
        container.ready && container.state.as_ref().is_some_and(|state| state.running.is_some())
    };
    let word = containers.iter().find_map(|container| state_word(container.state.as_ref()?)).unwrap_or(base);
    if word == "Completed" && containers.iter().any(runs) {
        let is_ready = status
            .conditions
            .iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True");
        return if is_ready { "Running" } else { "NotReady" }.to_owned();
    }
    word
}

fn state_word(state: &ContainerState) -> Option<String> {
    let waits = state.waiting.as_ref().and_then(|waiting| waiting.reason.clone()).filter(|reason| !reason.is_empty());
    waits.or_else(|| state.terminated.as_ref().map(terminated_word))
}

fn terminated_word(terminated: &ContainerStateTerminated) -> String {
    match (&terminated.reason, terminated.signal) {
        (Some(reason), _) if !reason.is_empty() => reason.clone(),
        (_, Some(signal)) if signal != 0 => format!("Signal:{signal}"),
        _ => format!("ExitCode:{}", terminated.exit_code),
    }
}

/// Restarts of all containers, and how long ago the last one was.
fn restarts(status: &PodStatus, now: Timestamp) -> String {
    let containers = || status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let count: i32 = containers().map(|container| container.restart_count).fold(0, i32::saturating_add);
    let ends = containers().filter_map(|container| {
        let last = container.last_state.as_ref()?.terminated.as_ref()?;
        time(last.finished_at.as_ref())
    });
    match ends.max() {
        Some(last) if count > 0 => format!("{count} ({} ago)", age::since(Some(last), now)),
        _ => count.to_string(),
    }
}

#[cfg(test)]
mod tests;
