//! The lists of sandboxes and containers: of all pods as a stream where the runtime has that, of one pod as one answer. What was
//! listed is grouped by pod, as the kubelet does it.
//!
//! Whatever a runtime answers, this gives something: what does not say which pod it is of is left out and counted.

use super::status::{container_state, sandbox_state};
use super::{Call, Client, Peer};
use crate::{labels, proto};
use larder_pleg::{ContainerState, RuntimeContainer, RuntimeError, RuntimePod, SandboxState};
use larder_pod_status::PodUid;
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::atomic::Ordering;
use tonic::{Response, Status, Streaming};
use tracing::{debug, info};

/// The list of sandboxes in parts.
const STREAM_SANDBOXES: &str = "StreamPodSandboxes";
/// The list of containers in parts.
const STREAM_CONTAINERS: &str = "StreamContainers";

/// Whether a runtime that speaks CRI v1 need not have the call.
pub(crate) fn is_optional(call: &str) -> bool {
    matches!(call, super::EVENTS | STREAM_SANDBOXES | STREAM_CONTAINERS)
}

fn of_all(method: &'static str) -> Call<'static> {
    Call { method, pod: None, object: None }
}

impl Client {
    /// All pods.
    pub(super) async fn pods(&self) -> Result<Vec<RuntimePod>, RuntimeError> {
        let listing = self.list_all(&*self.peer().await?).await?;
        Ok(self.count_skipped(listing).pods)
    }

    /// One pod; none if the runtime has nothing left of it.
    pub(super) async fn pod(&self, uid: &PodUid) -> Result<Option<RuntimePod>, RuntimeError> {
        let peer = self.peer().await?;
        let of_pod = |listing: Listing| listing.pods.into_iter().find(|pod| pod.uid == *uid);
        if let Some(pod) = of_pod(self.list_one(uid).await?).filter(has_its_sandboxes) {
            return Ok(Some(pod));
        }
        // A sandbox belongs to the pod that its metadata names, with or without the label. Only the whole list shows that a pod
        // has no sandbox, so that the list of one pod and the list of all pods never contradict each other.
        let listing = self.list_all(&peer).await?;
        Ok(of_pod(self.count_skipped(listing)))
    }

    fn count_skipped(&self, listing: Listing) -> Listing {
        let before = self.skipped_sandboxes.swap(listing.skipped_sandboxes, Ordering::Relaxed)
            + self.skipped_containers.swap(listing.skipped_containers, Ordering::Relaxed);
        let now = listing.skipped_sandboxes + listing.skipped_containers;
        if now != before {
            debug!(
                sandboxes = listing.skipped_sandboxes,
                containers = listing.skipped_containers,
                "left out what does not say which pod it is of"
            );
        }
        listing
    }

    /// Lists the sandboxes, then the containers: what is created in between shows without its sandbox rather than not at
    /// all.
    async fn list_all(&self, peer: &Peer) -> Result<Listing, RuntimeError> {
        let sandboxes = self.all_sandboxes(peer).await?;
        Ok(group(sandboxes, self.all_containers(peer).await?))
    }

    async fn all_sandboxes(&self, peer: &Peer) -> Result<Vec<proto::PodSandbox>, RuntimeError> {
        let mut calls = self.calls.clone();
        let streamed = async {
            let opening = calls.stream_pod_sandboxes(proto::StreamPodSandboxesRequest { filter: None });
            self.collect(STREAM_SANDBOXES, opening, |part| part.pod_sandboxes).await
        };
        if let Some(listed) = unless_unsupported(peer, streamed).await {
            return listed;
        }
        let mut calls = self.calls.clone();
        let answer = calls.list_pod_sandbox(proto::ListPodSandboxRequest { filter: None });
        Ok(self.call(of_all("ListPodSandbox"), self.options.list_timeout, answer).await?.items)
    }

    async fn all_containers(&self, peer: &Peer) -> Result<Vec<proto::Container>, RuntimeError> {
        let mut calls = self.calls.clone();
        let streamed = async {
            let opening = calls.stream_containers(proto::StreamContainersRequest { filter: None });
            self.collect(STREAM_CONTAINERS, opening, |part| part.containers).await
        };
        if let Some(listed) = unless_unsupported(peer, streamed).await {
            return listed;
        }
        let mut calls = self.calls.clone();
        let answer = calls.list_containers(proto::ListContainersRequest { filter: None });
        Ok(self.call(of_all("ListContainers"), self.options.list_timeout, answer).await?.containers)
    }

    /// All parts of a streamed list, within the deadline of a list. A stream that breaks gives an error and no part.
    async fn collect<M, T>(
        &self,
        method: &'static str,
        opening: impl Future<Output = Result<Response<Streaming<M>>, Status>>,
        items: impl Fn(M) -> Vec<T>,
    ) -> Result<Vec<T>, RuntimeError> {
        let all = async {
            let mut parts = opening.await?.into_inner();
            let mut all = Vec::new();
            while let Some(part) = parts.message().await? {
                all.extend(items(part));
            }
            Ok(Response::new(all))
        };
        self.call(of_all(method), self.options.list_timeout, all).await
    }

    /// Lists the sandboxes and containers of one pod, both at once: whoever asks for one pod waits for it. A container without
    /// its sandbox is noticed by the caller.
    async fn list_one(&self, uid: &PodUid) -> Result<Listing, RuntimeError> {
        let timeout = self.options.list_timeout;
        let call = |method| Call { method, pod: Some((uid, "", "")), object: None };
        let labels = HashMap::from([(labels::POD_UID.to_owned(), uid.to_string())]);

        let filter = proto::PodSandboxFilter { label_selector: labels.clone(), ..Default::default() };
        let mut calls = self.calls.clone();
        let sandboxes = calls.list_pod_sandbox(proto::ListPodSandboxRequest { filter: Some(filter) });
        let filter = proto::ContainerFilter { label_selector: labels, ..Default::default() };
        let mut calls = self.calls.clone();
        let containers = calls.list_containers(proto::ListContainersRequest { filter: Some(filter) });
        let (sandboxes, containers) = tokio::try_join!(
            self.call(call("ListPodSandbox"), timeout, sandboxes),
            self.call(call("ListContainers"), timeout, containers),
        )?;
        Ok(group(sandboxes.items, containers.containers))
    }
}

/// The list as the runtime streams it; none if the runtime is known not to do that, or is found not to. It is asked again with
/// the next connection.
async fn unless_unsupported<T>(
    peer: &Peer,
    streamed: impl Future<Output = Result<T, RuntimeError>>,
) -> Option<Result<T, RuntimeError>> {
    if !peer.has_streaming_lists.load(Ordering::Relaxed) {
        return None;
    }
    match streamed.await {
        Err(error) if error.is_unsupported() => {
            info!(%error, "the container runtime has no streaming lists: each list is one answer");
            peer.has_streaming_lists.store(false, Ordering::Relaxed);
            None
        }
        listed => Some(listed),
    }
}

/// What a runtime listed, by pod.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Listing {
    /// The pods, the one whose oldest sandbox is the newest first.
    pub(super) pods: Vec<RuntimePod>,
    /// Sandboxes that do not say which pod they are of, have no identifier, or have one that another has.
    pub(super) skipped_sandboxes: u64,
    /// Containers of which the same is true.
    pub(super) skipped_containers: u64,
}

/// Groups sandboxes and containers by pod.
pub(super) fn group(sandboxes: Vec<proto::PodSandbox>, containers: Vec<proto::Container>) -> Listing {
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
            let uid = container.labels.remove(labels::POD_UID).filter(|uid| !uid.is_empty())?;
            (container.image.is_some() && !container.id.is_empty()).then_some((uid, metadata, container))
        })
        .collect();
    containers.sort_by(|(.., a), (.., b)| (Reverse(a.created_at), &a.id).cmp(&(Reverse(b.created_at), &b.id)));
    for (uid, metadata, container) in containers {
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

fn sandbox_as_container(state: i32) -> ContainerState {
    match sandbox_state(state) {
        SandboxState::Ready => ContainerState::Running,
        SandboxState::NotReady => ContainerState::Exited,
        SandboxState::Unknown => ContainerState::Unknown,
    }
}

/// Whether the sandboxes that the pod's containers are in are there, too.
fn has_its_sandboxes(pod: &RuntimePod) -> bool {
    let is_there = |id: &str| pod.sandboxes.iter().any(|sandbox| sandbox.id == id);
    pod.containers.iter().all(|container| is_there(&container.sandbox_id))
}
