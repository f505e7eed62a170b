//! The lists of sandboxes and containers: of all pods as a stream where the runtime has that, of one pod as one answer.

use super::{Call, Client, Peer};
use crate::convert::{self, Listing};
use crate::{labels, proto};
use larder_pleg::RuntimeError;
use larder_pod_status::PodUid;
use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::Ordering;
use tonic::{Response, Status, Streaming};
use tracing::info;

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
    /// Lists the sandboxes, then the containers: what is created in between shows without its sandbox rather than not at
    /// all.
    pub(super) async fn list_all(&self, peer: &Peer) -> Result<Listing, RuntimeError> {
        let sandboxes = self.all_sandboxes(peer).await?;
        Ok(convert::group(sandboxes, self.all_containers(peer).await?))
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
    pub(super) async fn list_one(&self, uid: &PodUid) -> Result<Listing, RuntimeError> {
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
        Ok(convert::group(sandboxes.items, containers.containers))
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
