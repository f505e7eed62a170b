//! From the CRI's messages to a pod and its status, as the kubelet does it.
//!
//! Whatever a runtime answers, this gives something: what does not say which pod it is of is left out and counted, a value
//! that is not known reads as unknown, a time of zero as not set.

use crate::labels::{self, Map};
use crate::proto;
use larder_pleg::{ContainerEvent, ContainerEventKind};
use larder_pleg::{ContainerId, ContainerState, ContainerStatus, RuntimeContainer, RuntimePod};
use larder_pleg::{SandboxState, SandboxStatus};
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// What a runtime listed, by pod.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Listing {
    /// The pods, the one whose oldest sandbox is the newest first.
    pub(crate) pods: Vec<RuntimePod>,
    /// Sandboxes that do not say which pod they are of, have no identifier, or have one that another has.
    pub(crate) skipped_sandboxes: u64,
    /// Containers of which the same is true.
    pub(crate) skipped_containers: u64,
}

/// Groups sandboxes and containers by pod.
pub(crate) fn group(sandboxes: Vec<proto::PodSandbox>, containers: Vec<proto::Container>) -> Listing {
    let mut listing = Listing::default();
    let mut by_uid: HashMap<String, usize> = HashMap::new();
    let mut seen: HashSet<String> = HashSet::new();

    let all = sandboxes.len();
    let mut sandboxes: Vec<_> = sandboxes
        .into_iter()
        .filter_map(|sandbox| {
            Some((
                sandbox.metadata.filter(|metadata| !metadata.uid.is_empty())?,
                sandbox.id,
                sandbox.state,
                sandbox.created_at,
            ))
        })
        .filter(|(_, id, ..)| !id.is_empty())
        .collect();
    // The highest attempt first; a runtime that does not count them has the newest first.
    sandboxes.sort_by(|(a, a_id, _, a_created), (b, b_id, _, b_created)| {
        (Reverse(a.attempt), Reverse(a_created), a_id).cmp(&(Reverse(b.attempt), Reverse(b_created), b_id))
    });
    for (metadata, id, state, created_at) in sandboxes {
        if !seen.insert(id.clone()) {
            continue;
        }
        let pod = pod_of(&mut listing.pods, &mut by_uid, metadata.uid, || (metadata.namespace, metadata.name));
        // In the end, that of the last: the oldest.
        pod.created_at = created_at;
        for_one(&mut pod.sandboxes);
        pod.sandboxes.push(RuntimeContainer {
            sandbox_id: id.clone(),
            id,
            state: sandbox_as_container(state),
            attempt: metadata.attempt,
            created_at,
            ..RuntimeContainer::default()
        });
    }
    listing.skipped_sandboxes = count(all - seen.len());

    seen.clear();
    let all = containers.len();
    let mut containers: Vec<_> = containers
        .into_iter()
        .filter_map(|mut container| {
            let metadata = container.metadata.take()?;
            let image = container.image.take()?;
            let uid = container.labels.remove(labels::POD_UID).filter(|uid| !uid.is_empty())?;
            (!container.id.is_empty()).then_some((uid, metadata, image, container))
        })
        .collect();
    containers.sort_by(|(.., a), (.., b)| (Reverse(a.created_at), &a.id).cmp(&(Reverse(b.created_at), &b.id)));
    for (uid, metadata, image, container) in containers {
        if !seen.insert(container.id.clone()) {
            continue;
        }
        let name = || {
            (labels::text(&container.labels, labels::POD_NAMESPACE), labels::text(&container.labels, labels::POD_NAME))
        };
        let pod = pod_of(&mut listing.pods, &mut by_uid, uid, name);
        for_one(&mut pod.containers);
        pod.containers.push(RuntimeContainer {
            name: metadata.name,
            state: container_state(container.state),
            sandbox_id: container.pod_sandbox_id,
            attempt: metadata.attempt,
            created_at: container.created_at,
            image: image.image,
            image_id: image_id(container.image_id, &container.image_ref),
            image_ref: container.image_ref,
            hash: labels::hash(&container.annotations),
            id: container.id,
        });
    }
    listing.skipped_containers = count(all - seen.len());

    listing.pods.sort_by_key(|pod| Reverse(pod.created_at));
    listing
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// Room for one to begin with, which is what most pods have; by itself a vector makes room for four. They are kept as long as
/// the pod.
fn for_one(containers: &mut Vec<RuntimeContainer>) {
    if containers.is_empty() {
        containers.reserve_exact(1);
    }
}

fn pod_of<'a>(
    pods: &'a mut Vec<RuntimePod>,
    by_uid: &mut HashMap<String, usize>,
    uid: String,
    name: impl FnOnce() -> (String, String),
) -> &'a mut RuntimePod {
    let at = match by_uid.entry(uid) {
        Entry::Occupied(at) => *at.get(),
        Entry::Vacant(vacant) => {
            let (namespace, name) = name();
            pods.push(RuntimePod::new(vacant.key().as_str().into(), namespace, name));
            *vacant.insert(pods.len() - 1)
        }
    };
    &mut pods[at]
}

/// Runtimes older than the field have the identifier in the reference.
fn image_id(id: String, reference: &str) -> String {
    if id.is_empty() { reference.to_owned() } else { id }
}

fn container_state(state: i32) -> ContainerState {
    match proto::ContainerState::try_from(state) {
        Ok(proto::ContainerState::ContainerCreated) => ContainerState::Created,
        Ok(proto::ContainerState::ContainerRunning) => ContainerState::Running,
        Ok(proto::ContainerState::ContainerExited) => ContainerState::Exited,
        Ok(proto::ContainerState::ContainerUnknown) | Err(_) => ContainerState::Unknown,
    }
}

fn sandbox_as_container(state: i32) -> ContainerState {
    match sandbox_state(state) {
        SandboxState::Ready => ContainerState::Running,
        SandboxState::NotReady => ContainerState::Exited,
        SandboxState::Unknown => ContainerState::Unknown,
    }
}

fn sandbox_state(state: i32) -> SandboxState {
    match proto::PodSandboxState::try_from(state) {
        Ok(proto::PodSandboxState::SandboxReady) => SandboxState::Ready,
        Ok(proto::PodSandboxState::SandboxNotready) => SandboxState::NotReady,
        Err(_) => SandboxState::Unknown,
    }
}

/// The status of a sandbox.
pub(crate) fn sandbox_status(status: proto::PodSandboxStatus) -> SandboxStatus {
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
    }
}

/// The primary address, if the runtime has given one, and the further ones.
fn addresses(network: proto::PodSandboxNetworkStatus) -> Vec<String> {
    let primary = Some(network.ip).filter(|ip| !ip.is_empty());
    primary.into_iter().chain(network.additional_ips.into_iter().map(|ip| ip.ip)).collect()
}

/// Whether all of these are addresses. The kubelet reports none for a pod one of whose addresses is not.
pub(crate) fn are_addresses(ips: &[String]) -> bool {
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
pub(crate) fn container_status(runtime: &str, sandbox_id: &str, status: proto::ContainerStatus) -> ContainerStatus {
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
    // What a runtime says of the end of a container that has not ended is not to be believed.
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

/// An event. Which pod it is of stands in the sandbox's status, or else with the container that it is about.
pub(crate) fn event(event: proto::ContainerEventResponse) -> ContainerEvent {
    use proto::ContainerEventType as Type;
    let kind = match Type::try_from(event.container_event_type) {
        Ok(Type::ContainerCreatedEvent) => ContainerEventKind::Created,
        Ok(Type::ContainerStartedEvent) => ContainerEventKind::Started,
        Ok(Type::ContainerStoppedEvent) => ContainerEventKind::Stopped,
        Ok(Type::ContainerDeletedEvent) => ContainerEventKind::Deleted,
        Err(_) => ContainerEventKind::Unknown,
    };
    let of_sandbox = event.pod_sandbox_status.and_then(|sandbox| sandbox.metadata).map(|metadata| metadata.uid);
    let of_container = || {
        let mut statuses = event.containers_statuses.iter();
        statuses.find(|status| status.id == event.container_id)?.labels.get(labels::POD_UID).cloned()
    };
    let uid = of_sandbox.filter(|uid| !uid.is_empty()).or_else(of_container).filter(|uid| !uid.is_empty());
    ContainerEvent {
        kind,
        pod: uid.map(|uid| uid.as_str().into()),
        container_id: event.container_id,
        created_at: event.created_at,
    }
}

fn container_name(labels: &Map, metadata: Option<proto::ContainerMetadata>) -> String {
    labels.get(labels::CONTAINER_NAME).cloned().or(metadata.map(|metadata| metadata.name)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
