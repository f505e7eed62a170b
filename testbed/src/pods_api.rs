//! The kubelet's Pods gRPC API (KEP-4188, `v1alpha1.Pods`), as far as tests read it: the stream of pods, and which of their
//! containers have ended.

use anyhow::{Context as _, Result};
use prost::Message;
use std::path::Path;
use tonic::codec::Streaming;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

/// An event of the stream.
#[derive(Clone, PartialEq, Message)]
pub struct WatchPodsEvent {
    /// Added 1, modified 2, deleted 3, the first state is complete 4.
    #[prost(int32, tag = "1")]
    pub r#type: i32,
    /// The pod, in the protobuf form of the Kubernetes API.
    #[prost(bytes = "vec", tag = "2")]
    pub pod: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct WatchPodsRequest {}

/// A pod, with what is read here of it.
#[derive(Clone, PartialEq, Message)]
pub struct Pod {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "3")]
    status: Option<PodStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct ObjectMeta {
    #[prost(string, tag = "5")]
    uid: String,
}

#[derive(Clone, PartialEq, Message)]
struct PodStatus {
    #[prost(message, repeated, tag = "8")]
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct ContainerStatus {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    state: Option<ContainerState>,
}

#[derive(Clone, PartialEq, Message)]
struct ContainerState {
    #[prost(message, optional, tag = "3")]
    terminated: Option<Terminated>,
}

#[derive(Clone, PartialEq, Message)]
struct Terminated {
    #[prost(int32, tag = "1")]
    exit_code: i32,
}

impl WatchPodsEvent {
    /// The pod, if the event has one.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn pod(&self) -> Result<Option<Pod>> {
        if self.pod.is_empty() {
            return Ok(None);
        }
        Pod::decode(&*self.pod).map(Some).context("read a pod of the kubelet's")
    }
}

impl Pod {
    /// Its UID.
    pub fn uid(&self) -> &str {
        self.metadata.as_ref().map_or("", |metadata| &metadata.uid)
    }

    /// The names of the containers that have ended.
    pub fn ended(&self) -> impl Iterator<Item = &str> {
        let statuses = self.status.iter().flat_map(|status| &status.container_statuses);
        let ended = statuses.filter(|status| status.state.as_ref().is_some_and(|state| state.terminated.is_some()));
        ended.map(|status| status.name.as_str())
    }
}

/// Follows the pods of the kubelet at that socket.
///
/// # Errors
///
/// When nobody listens, or what does refuses the call.
pub async fn watch(socket: &Path) -> Result<Streaming<WatchPodsEvent>> {
    let channel = Endpoint::from_shared(format!("unix://{}", socket.display()))?.connect().await?;
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await?;
    let path = http::uri::PathAndQuery::from_static("/v1alpha1.Pods/WatchPods");
    let codec: ProstCodec<WatchPodsRequest, WatchPodsEvent> = ProstCodec::default();
    let answer = client.server_streaming(tonic::Request::new(WatchPodsRequest {}), path, codec).await;
    Ok(answer.context("watch the kubelet's pods")?.into_inner())
}
