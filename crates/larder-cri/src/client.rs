//! The client: CRI calls, each with its deadline, put together to what the PLEG asks for.
//!
//! `lists` asks which pods there are, and `status` asks for the status of one. Each has the calls, and turns the runtime's
//! messages into what larder-pleg knows. This file has the connection, the runtime's version and its events.

use crate::channel::{Connections, channel, explain};
use crate::discovery::Discovery;
use crate::endpoint::Endpoint;
use crate::error::CriError;
use crate::observe::{CriObserver, CriStats};
use crate::options::CriOptions;
use crate::proto::runtime_service_client::RuntimeServiceClient;
use crate::{labels, proto};
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use larder_pleg::{
    ContainerEvent, ContainerEventKind, ContainerStatus, EventSource, KnownPod, PodName, PodStatus, Runtime,
    RuntimeCall, RuntimeContainer, RuntimeError, RuntimePod,
};
use larder_pod_status::PodUid;
use parking_lot::Mutex;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Response, Status};
use tracing::info;

mod lists;
mod status;

pub(crate) use lists::is_optional;

/// The call that opens the event stream.
const EVENTS: &str = "GetContainerEvents";

/// A container runtime that speaks CRI v1 over a Unix socket. See the [crate's documentation](crate) for what it promises.
///
/// A clone shares the connection and the counts.
#[derive(Clone)]
pub struct CriRuntime {
    discovery: Arc<Discovery>,
}

/// The client of the runtime at one endpoint.
pub(crate) struct Client {
    pub(crate) endpoint: Endpoint,
    options: CriOptions,
    calls: RuntimeServiceClient<Channel>,
    observer: Arc<dyn CriObserver>,
    connections: Connections,
    /// A connection of its own for the event stream, made when that is first asked for: however large a list is, events do
    /// not wait behind it.
    events: RuntimeServiceClient<Channel>,
    event_connections: Connections,
    skipped_sandboxes: AtomicU64,
    skipped_containers: AtomicU64,
    /// What is known of the runtime at the other end of the connection.
    peer: Mutex<Option<Arc<Peer>>>,
}

/// A runtime, for as long as the connection to it lasts: after another one, it may be another runtime.
pub(crate) struct Peer {
    /// How many connections had been made by then.
    connection: u64,
    version: Arc<RuntimeVersion>,
    /// Whether it has the streaming lists, as far as it has been asked. A plain flag: relaxed.
    has_streaming_lists: AtomicBool,
}

/// What a runtime says it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeVersion {
    /// Its name, such as `containerd`: what stands in front of its container identifiers.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The version of the CRI that it speaks, such as `v1`.
    pub api_version: String,
}

impl CriRuntime {
    /// A client that connects when it is first used, for a runtime that need not be there yet. To be called within a tokio
    /// runtime.
    ///
    /// # Errors
    ///
    /// If an option cannot work; see [`CriOptions::validate`].
    pub fn new(endpoint: Endpoint, options: CriOptions) -> Result<Self, CriError> {
        Self::with_observer(endpoint, options, Arc::new(()))
    }

    /// As [`new`](Self::new), with its measurements going to `observer`.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_observer(
        endpoint: Endpoint,
        options: CriOptions,
        observer: Arc<dyn CriObserver>,
    ) -> Result<Self, CriError> {
        let client = Client::new(endpoint, &options, Arc::clone(&observer))?;
        Ok(Self { discovery: Arc::new(Discovery::at(client, options, observer)) })
    }

    /// The first of these sockets where a runtime answers. Calls fail as unavailable until a [`search`](Self::search) has found
    /// one. To be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// ```
    /// use larder_cri::{CriOptions, CriRuntime, parse_endpoint};
    /// use std::sync::Arc;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let sockets = vec![parse_endpoint("/run/no-runtime-here/containerd.sock").unwrap()];
    /// let runtime = CriRuntime::discover(sockets, CriOptions::default(), Arc::new(())).unwrap();
    /// assert_eq!(runtime.place(), "one of /run/no-runtime-here/containerd.sock");
    /// # });
    /// ```
    pub fn discover(
        sockets: Vec<Endpoint>,
        options: CriOptions,
        observer: Arc<dyn CriObserver>,
    ) -> Result<Self, CriError> {
        options.validate()?;
        Ok(Self { discovery: Arc::new(Discovery::among(sockets, options, observer)) })
    }

    /// A client of a runtime that is there: connects, and asks what it is.
    ///
    /// # Errors
    ///
    /// If an option cannot work, or the runtime does not answer, or what answers is no runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it closes the connection.
    pub async fn connect(endpoint: Endpoint, options: CriOptions) -> Result<Self, CriError> {
        let runtime = Self::new(endpoint, options)?;
        let version = runtime.version().await?;
        info!(endpoint = %runtime.place(), runtime = version.name, version = version.version, "connected to the container runtime");
        Ok(runtime)
    }

    /// Where the runtime listens; `None` until it is found.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.found().map(|client| &client.endpoint)
    }

    /// Where the runtime listens, or where it is looked for, for a person.
    pub fn place(&self) -> String {
        self.discovery.place()
    }

    /// A warning, for a person, if another runtime answers at one of the sockets, too.
    pub fn note(&self) -> Option<String> {
        self.discovery.note()
    }

    /// Looks for a runtime until one is found, then calls `tell`, and looks for other runtimes from then on. Returns at once if
    /// the endpoint was named, and never otherwise.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it closes its connections. Another call goes on.
    pub async fn search(&self, tell: impl FnOnce()) {
        self.discovery.search(tell).await;
    }

    /// Returns once there is a runtime.
    ///
    /// # Cancel safety
    ///
    /// It only waits.
    pub async fn until_found(&self) {
        self.discovery.until_found().await;
    }

    pub(crate) fn found(&self) -> Option<&Arc<Client>> {
        self.discovery.found()
    }

    /// What the runtime says it is; asked once for each connection.
    ///
    /// # Errors
    ///
    /// If the runtime does not answer, or is none.
    pub async fn version(&self) -> Result<Arc<RuntimeVersion>, RuntimeError> {
        self.discovery.client("Version").await?.version().await
    }

    /// What has been counted so far.
    pub fn stats(&self) -> CriStats {
        self.found().map(|client| client.stats()).unwrap_or_default()
    }
}

impl fmt::Debug for CriRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CriRuntime").field("place", &self.place()).finish_non_exhaustive()
    }
}

impl Runtime for CriRuntime {
    async fn pods(&self) -> Result<Vec<RuntimePod>, RuntimeError> {
        self.discovery.client("ListPodSandbox").await?.pods().await
    }

    async fn pod(&self, uid: &PodUid) -> Result<Option<RuntimePod>, RuntimeError> {
        self.discovery.client("ListPodSandbox").await?.pod(uid).await
    }

    async fn pod_status(&self, pod: &RuntimePod, known: Option<KnownPod<'_>>) -> Result<PodStatus, RuntimeError> {
        self.discovery.client("PodSandboxStatus").await?.pod_status(pod, known).await
    }

    async fn container_status(
        &self,
        pod: &RuntimePod,
        container: &RuntimeContainer,
    ) -> Result<Option<ContainerStatus>, RuntimeError> {
        self.discovery.client("ContainerStatus").await?.container_status(pod, container).await
    }
}

impl EventSource for CriRuntime {
    /// The stream of `GetContainerEvents`, over a connection of its own. A runtime that does not have that call ends it with
    /// [`RuntimeError::Unsupported`].
    fn events(&self) -> impl Stream<Item = Result<ContainerEvent, RuntimeError>> + Send + '_ {
        let open = async move {
            let client = self.discovery.client(EVENTS).await?;
            let mut calls = client.events.clone();
            // No deadline: runtimes answer with the first event, whenever that comes.
            let answer = match calls.get_container_events(proto::GetEventsRequest {}).await {
                Ok(answer) => answer.into_inner(),
                Err(status) => return Err(client.explain_event(status).await),
            };
            let events = answer.then(move |event| async move {
                match event {
                    Ok(event) => Ok(event_of(event)),
                    Err(status) => Err(client.explain_event(status).await),
                }
            });
            Ok(events.inspect_ok(|event| client.observer.event(event)))
        };
        stream::once(open).try_flatten()
    }

    async fn replaced(&self) {
        self.until_found().await;
        if let Some(client) = self.found() {
            client.connections.another().await;
        }
    }
}

/// An event. Which pod it is of stands in the sandbox's status, or else with the container that it is about.
fn event_of(event: proto::ContainerEventResponse) -> ContainerEvent {
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

impl Client {
    /// Connects when it is first used.
    fn new(endpoint: Endpoint, options: &CriOptions, observer: Arc<dyn CriObserver>) -> Result<Self, CriError> {
        options.validate()?;
        let (connections, event_connections) = (Connections::default(), Connections::default());
        let calls_over = |connections| {
            RuntimeServiceClient::new(channel(&endpoint, options, connections))
                .max_decoding_message_size(options.max_message_bytes)
        };
        let (calls, events) = (calls_over(&connections), calls_over(&event_connections));
        Ok(Self {
            endpoint,
            options: options.clone(),
            calls,
            observer,
            connections,
            events,
            event_connections,
            skipped_sandboxes: AtomicU64::new(0),
            skipped_containers: AtomicU64::new(0),
            peer: Mutex::new(None),
        })
    }

    pub(crate) async fn version(&self) -> Result<Arc<RuntimeVersion>, RuntimeError> {
        Ok(Arc::clone(&self.peer().await?.version))
    }

    /// Plain counts.
    fn stats(&self) -> CriStats {
        CriStats {
            connections: self.connections.count(),
            event_connections: self.event_connections.count(),
            skipped_sandboxes: self.skipped_sandboxes.load(Ordering::Relaxed),
            skipped_containers: self.skipped_containers.load(Ordering::Relaxed),
        }
    }

    async fn explain_event(&self, status: Status) -> RuntimeError {
        explain(status, RuntimeCall::new(EVENTS), &self.endpoint).await
    }

    /// The runtime at the other end of the connection, asked what it is once for each connection.
    async fn peer(&self) -> Result<Arc<Peer>, RuntimeError> {
        // A connection that is counted too late for this call is noticed by the next.
        let connection = self.connections.count();
        let known = self.peer.lock().clone();
        if let Some(peer) = known.filter(|peer| peer.connection == connection) {
            return Ok(peer);
        }
        let request = proto::VersionRequest { version: "v1".into() };
        let mut calls = self.calls.clone();
        let call = Call { method: "Version", pod: None, object: None };
        let answer = self.call(call, self.options.status_timeout, calls.version(request)).await?;
        // As the kubelet has it: an identifier of a container begins with the name.
        let fields = [&answer.version, &answer.runtime_name, &answer.runtime_version, &answer.runtime_api_version];
        if fields.into_iter().any(String::is_empty) {
            let reason = "not all of its fields are set; it is not the version of a container runtime".into();
            return Err(RuntimeError::BadResponse { call: Arc::new(call.name()), reason });
        }
        let version = RuntimeVersion {
            name: answer.runtime_name,
            version: answer.runtime_version,
            api_version: answer.runtime_api_version,
        };
        let peer = Arc::new(Peer {
            connection: self.connections.count(),
            version: Arc::new(version),
            has_streaming_lists: AtomicBool::new(true),
        });
        *self.peer.lock() = Some(Arc::clone(&peer));
        Ok(peer)
    }

    /// Waits for the answer to a call, no longer than `timeout`.
    async fn call<T>(
        &self,
        call: Call<'_>,
        timeout: Duration,
        answer: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, RuntimeError> {
        let began = Instant::now();
        let result = match tokio::time::timeout(timeout, answer).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(explain(status, call.name(), &self.endpoint).await),
            Err(_) => Err(RuntimeError::TimedOut { call: Arc::new(call.name()), after: timeout }),
        };
        self.observer.call(call.method, result.as_ref().map_or_else(RuntimeError::kind, |_| "ok"), began.elapsed());
        result
    }
}

/// Which call, and of what: what an error is told if there is one.
#[derive(Clone, Copy)]
struct Call<'a> {
    method: &'static str,
    /// UID, namespace and name.
    pod: Option<(&'a PodUid, &'a str, &'a str)>,
    object: Option<&'a str>,
}

impl<'a> Call<'a> {
    fn of(method: &'static str, pod: &'a RuntimePod, object: &'a str) -> Self {
        Self { method, pod: Some((&pod.uid, &pod.namespace, &pod.name)), object: Some(object) }
    }

    fn name(self) -> RuntimeCall {
        let mut call = RuntimeCall::new(self.method);
        if let Some((uid, namespace, name)) = self.pod {
            call = call.in_pod(PodName { uid: uid.clone(), namespace: namespace.into(), name: name.into() });
        }
        if let Some(object) = self.object {
            call = call.of(object);
        }
        call
    }
}

#[cfg(test)]
mod tests;
