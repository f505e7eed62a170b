//! A whole simulated cluster with one node: an API server, a container runtime, and something that plays the kubelet.
//!
//! Pods that are created in the API server and bound to the node are "run" in the runtime: sandbox, containers, exits
//! as their [`Behaviour`] says, restarts with backoff; their status is written back into the API. All random times are
//! drawn from a seed, and all of it is on tokio's time.
//!
//! # Guarantees
//!
//! - With the same seed and the same calls, the same happens after the same times.
//! - While the API server is away, what runs goes on, and crashes and restarts, as on a real node; the statuses in the API
//!   are caught up on afterwards.
//!
//! # Limits
//!
//! No init containers, probes, images, volumes or networks; nothing is executed. The kubelet keeps no state of its own
//! apart from the runtime's, and is not restarted.
//!
//! # Cancel safety
//!
//! Dropping a [`Cluster`] ends its tasks soon; [`shutdown`](Cluster::shutdown) waits until they have ended.
//!
//! # Example
//!
//! ```
//! use larder_testkit::cluster::{Behaviour, Cluster, ClusterOptions, What};
//! use larder_testkit::objects::pod;
//! use std::time::Duration;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let folder = tempfile::tempdir()?;
//! let cluster = Cluster::start(folder.path(), ClusterOptions::default()).await?;
//! let mut happenings = cluster.happenings();
//!
//! let soon = Duration::from_millis(5)..=Duration::from_millis(20);
//! let job = pod("shop", "job").node(cluster.node()).container("job", "shop/job:1").restart_policy("Never");
//! let job = job.annotation(&Behaviour::annotation("job"), &Behaviour::exits(0, soon).to_string());
//! cluster.api().store().create(job.build())?;
//! while happenings.recv().await?.what != What::Succeeded {}
//! cluster.shutdown().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! # Ok::<(), std::io::Error>(())
//! ```

mod behaviour;
mod kubelet;
mod narration;
mod status;

pub use behaviour::{Behaviour, BehaviourError};
pub use kubelet::KubeletOptions;
pub use narration::{Happening, What};

use crate::api_server::{ApiServer, ApiServerOptions, Kind, StoreError, User};
use crate::cri_runtime::{ContainersError, CriServer, CriServerOptions};
use crate::objects;
use k8s_openapi::api::core::v1::{
    Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeStatus, NodeSystemInfo, Pod,
};
use kubelet::Kubelet;
use larder_cri::proto::ContainerState;
use std::io;
use std::path::{Path, PathBuf};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How many happenings a listener may be behind before it loses some.
const HAPPENINGS: usize = 1024;

/// How a simulated cluster is set up.
#[derive(Clone, Default)]
pub struct ClusterOptions {
    /// The API server.
    pub api: ApiServerOptions,
    /// The container runtime.
    pub cri: CriServerOptions,
    /// The kubelet and its node.
    pub kubelet: KubeletOptions,
    /// Seconds, for the node's annotation `node.alpha.kubernetes.io/ttl`. Default: none.
    pub object_ttl_seconds: Option<i64>,
}

/// A simulated cluster with one node. See the [module](self).
pub struct Cluster {
    api: ApiServer,
    cri: CriServer,
    node: String,
    kubeconfig: PathBuf,
    reachable: watch::Sender<bool>,
    happenings: broadcast::Sender<Happening>,
    stop: CancellationToken,
    kubelet: Option<JoinHandle<()>>,
}

/// Why something could not be done in a simulated cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The API server's store refused it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The runtime refused it.
    #[error(transparent)]
    Containers(#[from] ContainersError),
    /// The pod has no container that runs.
    #[error("pod {namespace}/{pod} has no container that runs")]
    NothingRuns {
        /// The pod's namespace.
        namespace: String,
        /// The pod's name.
        pod: String,
    },
}

impl Cluster {
    /// Starts one. In the folder it puts `kubeconfig` (of the node's identity, mode 0600) and `cri.sock`.
    ///
    /// # Errors
    ///
    /// The folder cannot be written to, or no port of loopback be bound.
    pub async fn start(folder: &Path, options: ClusterOptions) -> io::Result<Self> {
        let node = options.kubelet.node.clone();
        let api = ApiServer::start_with(options.api).await?;
        let cri = CriServer::start_with(&folder.join("cri.sock"), options.cri).await?;
        let kubeconfig = folder.join("kubeconfig");
        api.write_kubeconfig(&kubeconfig, &api.add_user(User::node(&node)))?;
        let this = new_node(&node, options.object_ttl_seconds, &api);
        api.store().apply(this).map_err(io::Error::other)?;
        let (reachable, sees) = watch::channel(true);
        let (happenings, _) = broadcast::channel(HAPPENINGS);
        let stop = CancellationToken::new();
        let (store, containers) = (api.store().clone(), cri.containers().clone());
        let kubelet = Kubelet::new(options.kubelet, store, containers, sees, happenings.clone());
        let kubelet = Some(tokio::spawn(kubelet.run(stop.clone())));
        Ok(Self { api, cri, node, kubeconfig, reachable, happenings, stop, kubelet })
    }

    /// The API server. For an outage that the kubelet sees, use [`outage`](Self::outage).
    pub fn api(&self) -> &ApiServer {
        &self.api
    }

    /// The container runtime.
    pub fn cri(&self) -> &CriServer {
        &self.cri
    }

    /// The name of the node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The path of a kubeconfig with the node's identity.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// What happens from now on.
    pub fn happenings(&self) -> broadcast::Receiver<Happening> {
        self.happenings.subscribe()
    }

    /// Takes the API server away, from larder and from the kubelet.
    pub async fn outage(&self) {
        self.reachable.send_replace(false);
        self.api.outage().await;
    }

    /// Ends an [`outage`](Self::outage).
    ///
    /// # Errors
    ///
    /// The port cannot be listened on.
    pub async fn restore(&self) -> io::Result<()> {
        self.api.restore().await?;
        self.reachable.send_replace(true);
        Ok(())
    }

    /// Lets the first container of a pod that runs exit with a code.
    ///
    /// # Errors
    ///
    /// There is no such pod in the runtime, or none of its containers runs.
    pub fn crash(&self, namespace: &str, pod: &str, code: i32) -> Result<(), ClusterError> {
        let containers = self.cri.containers();
        let sandboxes = containers.sandboxes();
        let of_pod = sandboxes.iter().filter(|sandbox| {
            sandbox.metadata.as_ref().is_some_and(|metadata| metadata.namespace == namespace && metadata.name == pod)
        });
        let running = of_pod
            .flat_map(|sandbox| containers.containers_of(&sandbox.id))
            .find(|container| container.state() == ContainerState::ContainerRunning);
        let nothing = || ClusterError::NothingRuns { namespace: namespace.to_owned(), pod: pod.to_owned() };
        containers.exit_container(&running.ok_or_else(nothing)?.id, code)?;
        Ok(())
    }

    /// Deletes a pod gracefully: it is marked, its containers stop, and then it is gone.
    ///
    /// # Errors
    ///
    /// There is no such pod.
    pub fn delete_pod(&self, namespace: &str, pod: &str) -> Result<(), ClusterError> {
        let now = self.cri.containers().now();
        let now = jiff::Timestamp::from_nanosecond(now.into()).unwrap_or_default();
        self.api.store().modify(namespace, pod, |pod: &mut Pod| {
            pod.metadata.deletion_timestamp = Some(now.into());
            pod.metadata.deletion_grace_period_seconds = Some(30);
        })?;
        Ok(())
    }

    /// Deletes an object at once.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn delete(&self, kind: Kind, namespace: &str, name: &str) -> Result<(), ClusterError> {
        Ok(self.api.store().delete(kind, namespace, name)?)
    }

    /// Ends it, and waits until all its tasks have ended.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        if let Some(kubelet) = self.kubelet.take() {
            // A panic in it has been reported by tokio.
            let _ = kubelet.await;
        }
        self.api.outage().await;
        self.cri.outage().await;
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn new_node(name: &str, ttl: Option<i64>, api: &ApiServer) -> Node {
    let mut node = objects::node(name);
    let labels = [("kubernetes.io/hostname", name), ("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "amd64")];
    node.metadata.labels = Some(labels.map(|(label, value)| (label.to_owned(), value.to_owned())).into());
    let ttl = ttl.map(|seconds| ("node.alpha.kubernetes.io/ttl".to_owned(), seconds.to_string()));
    node.metadata.annotations = ttl.map(|ttl| [ttl].into());
    let address = |kind: &str, address: &str| NodeAddress { type_: kind.to_owned(), address: address.to_owned() };
    let ready = NodeCondition {
        type_: "Ready".into(),
        status: "True".into(),
        reason: Some("KubeletReady".into()),
        message: Some("simulated".into()),
        ..NodeCondition::default()
    };
    node.status = Some(NodeStatus {
        addresses: Some(vec![address("InternalIP", status::HOST_IP), address("Hostname", name)]),
        conditions: Some(vec![ready]),
        daemon_endpoints: Some(NodeDaemonEndpoints::default()),
        node_info: Some(NodeSystemInfo {
            architecture: "amd64".into(),
            operating_system: "linux".into(),
            os_image: format!("simulated, API server at {}", api.url()),
            container_runtime_version: "containerd://2.4.2".into(),
            kubelet_version: "v1.37.2-simulated".into(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    });
    node
}

#[cfg(test)]
mod tests;
