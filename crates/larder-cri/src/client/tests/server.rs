//! A runtime on a Unix socket that answers as it is told.

use crate::labels::Map;
use crate::{CriOptions, CriRuntime, Endpoint, parse_endpoint, proto};
use larder_pleg::Runtime as _;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::future::{Future, pending};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::Service;

/// How long a test waits for what is to happen soon.
pub(super) const SOON: Duration = Duration::from_secs(20);

#[derive(Default)]
pub(super) struct State {
    /// What it says that it is called. By default, `fake`.
    pub(super) name: Option<String>,
    pub(super) sandboxes: Vec<proto::PodSandbox>,
    pub(super) containers: Vec<proto::Container>,
    pub(super) sandbox_statuses: HashMap<String, proto::PodSandboxStatusResponse>,
    pub(super) container_statuses: HashMap<String, proto::ContainerStatusResponse>,
    /// Calls that are never answered.
    pub(super) hang: HashSet<&'static str>,
    /// Calls that fail.
    pub(super) fail: HashMap<&'static str, (Code, &'static str)>,
    /// The calls since they were last taken.
    pub(super) called: Vec<String>,
}

/// What is shared with a server, and outlives it.
#[derive(Clone, Default)]
pub(super) struct Told {
    pub(super) state: Arc<Mutex<State>>,
    /// A call that hung has been given up by its caller.
    pub(super) given_up: Arc<Notify>,
}

impl Told {
    pub(super) fn take_called(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().called)
    }

    fn answer(&self, method: &'static str) -> Result<(), Status> {
        let state = self.state.lock();
        match state.fail.get(method) {
            Some((code, message)) => Err(Status::new(*code, *message)),
            None => Ok(()),
        }
    }

    fn version(&self) -> proto::VersionResponse {
        proto::VersionResponse {
            version: "0.1.0".into(),
            runtime_name: self.state.lock().name.clone().unwrap_or_else(|| "fake".into()),
            runtime_version: "1.2.3".into(),
            runtime_api_version: "v1".into(),
        }
    }

    fn list_sandboxes(&self, request: proto::ListPodSandboxRequest) -> proto::ListPodSandboxResponse {
        let wanted = request.filter.unwrap_or_default().label_selector;
        let mut items = self.state.lock().sandboxes.clone();
        items.retain(|sandbox| selects(&wanted, &sandbox.labels));
        proto::ListPodSandboxResponse { items }
    }

    fn list_containers(&self, request: proto::ListContainersRequest) -> proto::ListContainersResponse {
        let wanted = request.filter.unwrap_or_default().label_selector;
        let mut containers = self.state.lock().containers.clone();
        containers.retain(|container| selects(&wanted, &container.labels));
        proto::ListContainersResponse { containers }
    }

    fn sandbox_status(
        &self,
        request: &proto::PodSandboxStatusRequest,
    ) -> Result<proto::PodSandboxStatusResponse, Status> {
        let status = self.state.lock().sandbox_statuses.get(&request.pod_sandbox_id).cloned();
        status.ok_or_else(|| Status::not_found("no such sandbox"))
    }

    fn container_status(
        &self,
        request: &proto::ContainerStatusRequest,
    ) -> Result<proto::ContainerStatusResponse, Status> {
        let status = self.state.lock().container_statuses.get(&request.container_id).cloned();
        status.ok_or_else(|| Status::not_found("no such container"))
    }
}

fn selects(wanted: &Map, labels: &Map) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// The service as HTTP requests reach it.
#[derive(Clone)]
struct Cri(Told);

impl NamedService for Cri {
    const NAME: &'static str = "runtime.v1.RuntimeService";
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Service<http::Request<Body>> for Cri {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let told = self.0.clone();
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            let method = path.rsplit('/').next().unwrap_or_default().to_owned();
            told.state.lock().called.push(method.clone());
            Ok(match method.as_str() {
                "Version" => serve(told, "Version", |told, _: proto::VersionRequest| Ok(told.version()), request).await,
                "ListPodSandbox" => {
                    serve(told, "ListPodSandbox", |told, request| Ok(told.list_sandboxes(request)), request).await
                }
                "ListContainers" => {
                    serve(told, "ListContainers", |told, request| Ok(told.list_containers(request)), request).await
                }
                "PodSandboxStatus" => {
                    serve(told, "PodSandboxStatus", |told, request| told.sandbox_status(&request), request).await
                }
                "ContainerStatus" => {
                    serve(told, "ContainerStatus", |told, request| told.container_status(&request), request).await
                }
                _ => Status::unimplemented(path).into_http(),
            })
        })
    }
}

struct Method<F> {
    told: Told,
    name: &'static str,
    answer: F,
}

impl<A, B, F> UnaryService<A> for Method<F>
where
    A: Send + 'static,
    F: Fn(&Told, A) -> Result<B, Status> + Copy + Send + 'static,
{
    type Response = B;
    type Future = BoxFuture<Result<Response<B>, Status>>;

    fn call(&mut self, request: Request<A>) -> Self::Future {
        struct Hanging(Arc<Notify>);
        impl Drop for Hanging {
            fn drop(&mut self) {
                self.0.notify_one();
            }
        }
        let (told, name, answer) = (self.told.clone(), self.name, self.answer);
        Box::pin(async move {
            if told.state.lock().hang.contains(name) {
                let _hanging = Hanging(Arc::clone(&told.given_up));
                pending::<()>().await;
            }
            told.answer(name)?;
            answer(&told, request.into_inner()).map(Response::new)
        })
    }
}

async fn serve<A, B, F>(told: Told, name: &'static str, answer: F, request: http::Request<Body>) -> http::Response<Body>
where
    A: prost::Message + Default + Send + 'static,
    B: prost::Message + Send + 'static,
    F: Fn(&Told, A) -> Result<B, Status> + Copy + Send + 'static,
{
    let mut grpc = Grpc::new(ProstCodec::<B, A>::default());
    grpc.unary(Method { told, name, answer }, request).await
}

/// A running server; gone, with its connections, once it is dropped.
pub(super) struct FakeCri {
    pub(super) told: Told,
    /// Of its own, as tonic's connections outlive their server.
    tokio: Option<Runtime>,
}

impl FakeCri {
    pub(super) fn start(path: &Path, told: Told) -> Self {
        let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let tokio = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let cri = Cri(told.clone());
        tokio.spawn(async move {
            let incoming = UnixListenerStream::new(UnixListener::from_std(listener).unwrap());
            Server::builder().add_service(cri).serve_with_incoming(incoming).await.unwrap();
        });
        Self { told, tokio: Some(tokio) }
    }
}

impl Drop for FakeCri {
    fn drop(&mut self) {
        if let Some(tokio) = self.tokio.take() {
            tokio.shutdown_background();
        }
    }
}

/// A place for a socket, and a server on it.
pub(super) struct Place {
    pub(super) path: PathBuf,
    _dir: TempDir,
}

impl Place {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { path: dir.path().join("cri.sock"), _dir: dir }
    }

    pub(super) fn endpoint(&self) -> Endpoint {
        parse_endpoint(self.path.to_str().unwrap()).unwrap()
    }

    pub(super) fn client(&self, options: CriOptions) -> CriRuntime {
        CriRuntime::new(self.endpoint(), options).unwrap()
    }
}

/// A server, and a client of it.
pub(super) async fn connected() -> (Place, FakeCri, CriRuntime) {
    let place = Place::new();
    let told = Told::default();
    let server = FakeCri::start(&place.path, told);
    let client = CriRuntime::connect(place.endpoint(), CriOptions::default()).await.unwrap();
    // It has no streaming lists, which is known from here on.
    client.pods().await.unwrap();
    server.told.take_called();
    (place, server, client)
}
