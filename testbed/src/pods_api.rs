//! The kubelet's Pods gRPC API (KEP-4188, `v1alpha1.Pods`): what the kubelet itself says of its pods.

use anyhow::{Context as _, Result};
pub use k8s_pb::api::core::v1::Pod;
use prost::Message as _;
pub use proto::WatchPodsEvent;
use proto::pods_client::PodsClient;
use std::path::Path;
use tonic::codec::Streaming;
use tonic::transport::{Channel, Endpoint};

/// The messages and the client, compiled from the vendored definition (`proto/pods/v1alpha1/api.proto`).
pub mod proto {
    #![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
    tonic::include_proto!("v1alpha1");
}

/// A client on a connection that is kept open.
#[derive(Clone, Debug)]
pub struct Client(PodsClient<Channel>);

impl Client {
    /// Connects to the kubelet at that socket.
    ///
    /// # Errors
    ///
    /// When nobody listens.
    pub async fn connect(socket: &Path) -> Result<Self> {
        let channel = Endpoint::from_shared(format!("unix://{}", socket.display()))?.connect().await?;
        Ok(Self(PodsClient::new(channel)))
    }

    /// All pods, each as the kubelet encodes it.
    ///
    /// # Errors
    ///
    /// When the kubelet does not answer, or refuses the call.
    pub async fn list_encoded(&self) -> Result<Vec<Vec<u8>>> {
        let answer = self.0.clone().list_pods(proto::ListPodsRequest {}).await;
        Ok(answer.context("list the kubelet's pods")?.into_inner().pods)
    }

    /// All pods.
    ///
    /// # Errors
    ///
    /// As [`list_encoded`](Self::list_encoded), and when a pod cannot be read.
    pub async fn list(&self) -> Result<Vec<Pod>> {
        self.list_encoded().await?.iter().map(|pod| decode(pod)).collect()
    }
}

/// All pods of the kubelet at that socket.
///
/// # Errors
///
/// When nobody listens, or what does refuses the call.
pub async fn list(socket: &Path) -> Result<Vec<Pod>> {
    Client::connect(socket).await?.list().await
}

/// Follows the pods of the kubelet at that socket.
///
/// # Errors
///
/// When nobody listens, or what does refuses the call.
pub async fn watch(socket: &Path) -> Result<Streaming<WatchPodsEvent>> {
    let answer = Client::connect(socket).await?.0.watch_pods(proto::WatchPodsRequest {}).await;
    Ok(answer.context("watch the kubelet's pods")?.into_inner())
}

/// The pod of an event; none for the one that says that the first state is complete.
///
/// # Errors
///
/// When it cannot be read.
pub fn pod_of(event: &WatchPodsEvent) -> Result<Option<Pod>> {
    if event.pod.is_empty() { Ok(None) } else { decode(&event.pod).map(Some) }
}

fn decode(pod: &[u8]) -> Result<Pod> {
    Pod::decode(pod).context("read a pod of the kubelet's")
}

/// A pod's UID.
pub fn uid(pod: &Pod) -> &str {
    pod.metadata.as_ref().map_or("", |metadata| metadata.uid())
}

/// A pod's namespace and name, with a slash in between.
pub fn namespace_and_name(pod: &Pod) -> String {
    pod.metadata.as_ref().map_or_else(String::new, |metadata| format!("{}/{}", metadata.namespace(), metadata.name()))
}

/// The IDs of a pod's containers that run, with the runtime's name in front.
pub fn running(pod: &Pod) -> impl Iterator<Item = &str> {
    let statuses = pod.status.iter().flat_map(|status| &status.container_statuses);
    let running = statuses.filter(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()));
    running.map(k8s_pb::api::core::v1::ContainerStatus::container_id)
}

/// The names of a pod's containers that have ended.
pub fn ended(pod: &Pod) -> impl Iterator<Item = &str> {
    let statuses = pod.status.iter().flat_map(|status| &status.container_statuses);
    let ended = statuses.filter(|status| status.state.as_ref().is_some_and(|state| state.terminated.is_some()));
    ended.map(k8s_pb::api::core::v1::ContainerStatus::name)
}
