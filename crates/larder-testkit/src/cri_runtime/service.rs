//! The CRI services over the simulated containers.

use super::EventStream;
use super::containers::Containers;
use super::events::Item;
use super::fault::{Call, Calls};
use futures_util::stream::{self, BoxStream};
use larder_cri::proto;
use larder_cri::proto::image_service_server::ImageService;
use larder_cri::proto::runtime_service_server::RuntimeService;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::broadcast::error::RecvError;
use tokio_stream::Empty;
use tonic::{Request, Response, Status};

/// Answers the calls of CRI.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) containers: Containers,
    pub(crate) calls: Arc<Calls>,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) events: EventStream,
    pub(crate) streaming_lists: bool,
    pub(crate) statuses_with_containers: bool,
}

type Answer<T> = Result<Response<T>, Status>;
type Parts<T> = BoxStream<'static, Result<T, Status>>;
type Events = Parts<proto::ContainerEventResponse>;

/// Items in one part of a streamed list. containerd has 5,000.
const PART: usize = 100;

/// A service with the calls that it answers, and those that it refuses as a runtime that does not know them.
macro_rules! service {
    (
        $service:ident, types { $($stream:ident = $item:ty;)* }
        answered { $($answered:tt)* }
        refused { $($call:ident($request:ident) -> $response:ty;)* }
    ) => {
        #[tonic::async_trait]
        impl $service for Service {
            $(type $stream = $item;)*
            $($answered)*
            $(async fn $call(&self, _: Request<proto::$request>) -> Answer<$response> {
                Err(Status::unimplemented(concat!("the simulated runtime has no ", stringify!($call))))
            })*
        }
    };
}

service! {
    RuntimeService,
    types {
        StreamPodSandboxesStream = Parts<proto::StreamPodSandboxesResponse>;
        StreamContainersStream = Parts<proto::StreamContainersResponse>;
        StreamContainerStatsStream = Empty<Result<proto::StreamContainerStatsResponse, Status>>;
        StreamPodSandboxStatsStream = Empty<Result<proto::StreamPodSandboxStatsResponse, Status>>;
        StreamPodSandboxMetricsStream = Empty<Result<proto::StreamPodSandboxMetricsResponse, Status>>;
        GetContainerEventsStream = Events;
    }
    answered {
        async fn version(&self, request: Request<proto::VersionRequest>) -> Answer<proto::VersionResponse> {
            let asked = request.into_inner().version;
            let answer = self.calls.serve(Call::Version, "", || Ok(proto::VersionResponse {
                version: if asked.is_empty() { "0.1.0".into() } else { asked },
                runtime_name: self.name.clone(),
                runtime_version: self.version.clone(),
                runtime_api_version: "v1".into(),
            }));
            answer.await.map(Response::new)
        }

        async fn status(&self, _: Request<proto::StatusRequest>) -> Answer<proto::StatusResponse> {
            let answer = self.calls.serve(Call::Status, "", || {
                let conditions = ["RuntimeReady", "NetworkReady"].map(|kind| proto::RuntimeCondition {
                    r#type: kind.into(),
                    status: true,
                    ..proto::RuntimeCondition::default()
                });
                let status = proto::RuntimeStatus { conditions: conditions.into() };
                Ok(proto::StatusResponse { status: Some(status), ..proto::StatusResponse::default() })
            });
            answer.await.map(Response::new)
        }

        async fn list_pod_sandbox(
            &self,
            request: Request<proto::ListPodSandboxRequest>,
        ) -> Answer<proto::ListPodSandboxResponse> {
            let items = self.list_sandboxes(request.into_inner().filter.unwrap_or_default()).await?;
            Ok(Response::new(proto::ListPodSandboxResponse { items }))
        }

        async fn list_containers(
            &self,
            request: Request<proto::ListContainersRequest>,
        ) -> Answer<proto::ListContainersResponse> {
            let containers = self.list_containers_of(request.into_inner().filter.unwrap_or_default()).await?;
            Ok(Response::new(proto::ListContainersResponse { containers }))
        }

        async fn stream_pod_sandboxes(
            &self,
            request: Request<proto::StreamPodSandboxesRequest>,
        ) -> Answer<Self::StreamPodSandboxesStream> {
            self.refuse_streams()?;
            let items = self.list_sandboxes(request.into_inner().filter.unwrap_or_default()).await?;
            Ok(in_parts(items, |pod_sandboxes| proto::StreamPodSandboxesResponse { pod_sandboxes }))
        }

        async fn stream_containers(
            &self,
            request: Request<proto::StreamContainersRequest>,
        ) -> Answer<Self::StreamContainersStream> {
            self.refuse_streams()?;
            let items = self.list_containers_of(request.into_inner().filter.unwrap_or_default()).await?;
            Ok(in_parts(items, |containers| proto::StreamContainersResponse { containers }))
        }

        async fn pod_sandbox_status(
            &self,
            request: Request<proto::PodSandboxStatusRequest>,
        ) -> Answer<proto::PodSandboxStatusResponse> {
            let id = request.into_inner().pod_sandbox_id;
            let answer = self.calls.serve(Call::PodSandboxStatus, &id, || {
                let status = self.containers.sandbox(&id).ok_or_else(|| not_found("sandbox", &id))?;
                let with_containers = self.statuses_with_containers;
                Ok(proto::PodSandboxStatusResponse {
                    status: Some(status),
                    containers_statuses: if with_containers { self.containers.containers_of(&id) } else { Vec::new() },
                    timestamp: if with_containers { self.containers.now() } else { 0 },
                    ..proto::PodSandboxStatusResponse::default()
                })
            });
            answer.await.map(Response::new)
        }

        async fn container_status(
            &self,
            request: Request<proto::ContainerStatusRequest>,
        ) -> Answer<proto::ContainerStatusResponse> {
            let id = request.into_inner().container_id;
            let answer = self.calls.serve(Call::ContainerStatus, &id, || {
                let status = self.containers.container(&id).ok_or_else(|| not_found("container", &id))?;
                Ok(proto::ContainerStatusResponse { status: Some(status), info: HashMap::new() })
            });
            answer.await.map(Response::new)
        }

        async fn get_container_events(&self, _: Request<proto::GetEventsRequest>) -> Answer<Events> {
            self.calls.serve(Call::GetContainerEvents, "", || Ok(())).await?;
            match self.events {
                EventStream::Open => {}
                EventStream::Unimplemented => {
                    return Err(Status::unimplemented("unknown method GetContainerEvents"));
                }
                EventStream::EndsAtOnce => return Ok(Response::new(Box::pin(stream::empty()))),
            }
            let receiver = self.containers.events().subscribe();
            let events = stream::unfold(Some(receiver), |receiver| async move {
                let mut receiver = receiver?;
                match receiver.recv().await {
                    Ok(Item::Event { event, due }) => {
                        tokio::time::sleep_until(due).await;
                        Some((Ok(*event), Some(receiver)))
                    }
                    Ok(Item::Cut) => Some((Err(Status::unavailable("the event stream was cut on command")), None)),
                    Err(RecvError::Lagged(lost)) => {
                        Some((Err(Status::data_loss(format!("the reader is too slow: {lost} events lost"))), None))
                    }
                    Err(RecvError::Closed) => None,
                }
            });
            Ok(Response::new(Box::pin(events)))
        }
    }
    refused {
        run_pod_sandbox(RunPodSandboxRequest) -> proto::RunPodSandboxResponse;
        stop_pod_sandbox(StopPodSandboxRequest) -> proto::StopPodSandboxResponse;
        remove_pod_sandbox(RemovePodSandboxRequest) -> proto::RemovePodSandboxResponse;
        create_container(CreateContainerRequest) -> proto::CreateContainerResponse;
        start_container(StartContainerRequest) -> proto::StartContainerResponse;
        stop_container(StopContainerRequest) -> proto::StopContainerResponse;
        remove_container(RemoveContainerRequest) -> proto::RemoveContainerResponse;
        update_container_resources(UpdateContainerResourcesRequest) -> proto::UpdateContainerResourcesResponse;
        reopen_container_log(ReopenContainerLogRequest) -> proto::ReopenContainerLogResponse;
        exec_sync(ExecSyncRequest) -> proto::ExecSyncResponse;
        exec(ExecRequest) -> proto::ExecResponse;
        attach(AttachRequest) -> proto::AttachResponse;
        port_forward(PortForwardRequest) -> proto::PortForwardResponse;
        container_stats(ContainerStatsRequest) -> proto::ContainerStatsResponse;
        list_container_stats(ListContainerStatsRequest) -> proto::ListContainerStatsResponse;
        stream_container_stats(StreamContainerStatsRequest) -> Self::StreamContainerStatsStream;
        pod_sandbox_stats(PodSandboxStatsRequest) -> proto::PodSandboxStatsResponse;
        list_pod_sandbox_stats(ListPodSandboxStatsRequest) -> proto::ListPodSandboxStatsResponse;
        stream_pod_sandbox_stats(StreamPodSandboxStatsRequest) -> Self::StreamPodSandboxStatsStream;
        update_runtime_config(UpdateRuntimeConfigRequest) -> proto::UpdateRuntimeConfigResponse;
        checkpoint_container(CheckpointContainerRequest) -> proto::CheckpointContainerResponse;
        checkpoint_pod(CheckpointPodRequest) -> proto::CheckpointPodResponse;
        restore_pod(RestorePodRequest) -> proto::RestorePodResponse;
        list_metric_descriptors(ListMetricDescriptorsRequest) -> proto::ListMetricDescriptorsResponse;
        list_pod_sandbox_metrics(ListPodSandboxMetricsRequest) -> proto::ListPodSandboxMetricsResponse;
        stream_pod_sandbox_metrics(StreamPodSandboxMetricsRequest) -> Self::StreamPodSandboxMetricsStream;
        runtime_config(RuntimeConfigRequest) -> proto::RuntimeConfigResponse;
        update_pod_sandbox_resources(UpdatePodSandboxResourcesRequest) -> proto::UpdatePodSandboxResourcesResponse;
    }
}

service! {
    ImageService,
    types {
        StreamImagesStream = Empty<Result<proto::StreamImagesResponse, Status>>;
    }
    answered {
        async fn list_images(&self, _: Request<proto::ListImagesRequest>) -> Answer<proto::ListImagesResponse> {
            let answer = self.calls.serve(Call::Images, "", || Ok(proto::ListImagesResponse { images: self.images() }));
            answer.await.map(Response::new)
        }

        async fn image_status(
            &self,
            request: Request<proto::ImageStatusRequest>,
        ) -> Answer<proto::ImageStatusResponse> {
            let name = request.into_inner().image.unwrap_or_default().image;
            let answer = self.calls.serve(Call::Images, &name, || {
                let image = self.images().into_iter().find(|image| image.id == name || image.repo_tags.contains(&name));
                Ok(proto::ImageStatusResponse { image, info: HashMap::new() })
            });
            answer.await.map(Response::new)
        }
    }
    refused {
        stream_images(StreamImagesRequest) -> Self::StreamImagesStream;
        pull_image(PullImageRequest) -> proto::PullImageResponse;
        remove_image(RemoveImageRequest) -> proto::RemoveImageResponse;
        image_fs_info(ImageFsInfoRequest) -> proto::ImageFsInfoResponse;
    }
}

impl Service {
    async fn list_sandboxes(&self, filter: proto::PodSandboxFilter) -> Result<Vec<proto::PodSandbox>, Status> {
        let answer = self.calls.serve(Call::ListPodSandbox, &filter.id, || {
            let mut items = self.containers.listed_sandboxes();
            items.retain(|sandbox| {
                is_of(&filter.id, &sandbox.id)
                    && filter.state.as_ref().is_none_or(|state| state.state == sandbox.state)
                    && has_labels(&sandbox.labels, &filter.label_selector)
            });
            Ok(items)
        });
        answer.await
    }

    async fn list_containers_of(&self, filter: proto::ContainerFilter) -> Result<Vec<proto::Container>, Status> {
        let answer = self.calls.serve(Call::ListContainers, &filter.id, || {
            let mut containers = self.containers.listed_containers();
            containers.retain(|container| {
                is_of(&filter.id, &container.id)
                    && is_of(&filter.pod_sandbox_id, &container.pod_sandbox_id)
                    && filter.state.as_ref().is_none_or(|state| state.state == container.state)
                    && has_labels(&container.labels, &filter.label_selector)
            });
            Ok(containers)
        });
        answer.await
    }

    fn refuse_streams(&self) -> Result<(), Status> {
        if self.streaming_lists { Ok(()) } else { Err(Status::unimplemented("unknown method of a streaming list")) }
    }

    /// The images that the containers were made from.
    fn images(&self) -> Vec<proto::Image> {
        let mut images: Vec<proto::Image> = Vec::new();
        for container in self.containers.listed_containers() {
            if images.iter().any(|image| image.id == container.image_id) {
                continue;
            }
            images.push(proto::Image {
                id: container.image_id,
                repo_tags: container.image.map(|image| image.image).into_iter().collect(),
                repo_digests: vec![container.image_ref],
                size: 4 << 20,
                ..proto::Image::default()
            });
        }
        images
    }
}

/// A streamed list, as containerd gives it: an empty one has no part.
fn in_parts<T: Send + 'static, M: Send + 'static>(
    items: Vec<T>,
    part: impl Fn(Vec<T>) -> M + Send + 'static,
) -> Response<Parts<M>> {
    let parts = stream::unfold(items.into_iter(), move |mut items| {
        let next: Vec<T> = items.by_ref().take(PART).collect();
        let next = (!next.is_empty()).then(|| (Ok(part(next)), items));
        std::future::ready(next)
    });
    Response::new(Box::pin(parts))
}

fn not_found(what: &str, id: &str) -> Status {
    Status::not_found(format!("an error occurred when try to find {what} {id:?}: not found"))
}

/// Whether an ID is the one asked for, in full or by its beginning, as containerd takes it; empty asks for all.
fn is_of(asked: &str, id: &str) -> bool {
    id.starts_with(asked)
}

fn has_labels(labels: &HashMap<String, String>, asked: &HashMap<String, String>) -> bool {
    asked.iter().all(|(name, value)| labels.get(name) == Some(value))
}
