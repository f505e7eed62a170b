//! The sources of a node's larder, opened as the settings say: API server or manifests, and the container runtime.
//!
//! [`Node`](super::Node) opens them before it starts a task, and then runs them.

use crate::config::{Cluster, Config, RuntimeEndpoint};
use crate::error::StartError;
use crate::metrics::Metrics;
use crate::runtime::{RuntimeChoice, RuntimeSide};
use crate::source::{ObjectReflectors, ObjectSource};
use larder_clock::{Clock, MachineClocks, MonotonicClock};
use larder_kube::{KubeClient, KubeReflectors, NodeSource, PodSource};
use larder_manifests::{ManifestOptions, ManifestSource};
use larder_objects::Source;
use larder_resource::{Kind, PerKind, Pod, SourceReader, SourceWriter, source};
use std::path::Path;
use std::sync::Arc;

/// Where pods, the node and objects come from, for reports.
pub(super) enum Origin {
    Kube(KubeClient, PerKind<KubeReflectors>),
    Manifests {
        reader: larder_manifests::ManifestReader,
        /// Says that there is no node. It lives as long as the node, because its answer is stale once it is dropped.
        _no_node: SourceWriter<larder_resource::Node>,
    },
}

/// The sources, before they run.
pub(super) struct Sources {
    pub(super) origin: Origin,
    pub(super) pods: SourceReader<Pod>,
    pub(super) node: SourceReader<larder_resource::Node>,
    pub(super) objects: PerKind<(ObjectSource, ObjectReflectors)>,
    /// Fetches of namespaces, which only an API server has.
    pub(super) namespaces: Option<ObjectSource>,
    pub(super) run: RunSources,
    pub(super) source: Option<Source>,
}

pub(super) enum RunSources {
    Kube(PodSource, NodeSource),
    Manifests(ManifestSource),
}

impl Sources {
    pub(super) async fn open(config: &Config, clock: impl Clock + Copy) -> Result<Self, StartError> {
        let kube = |error| StartError::Kube(Arc::new(error));
        let client = match &config.cluster {
            Cluster::Kubeconfig { path, context } => {
                KubeClient::from_kubeconfig(path, context.as_deref(), config.kube.clone()).await.map_err(kube)?
            }
            Cluster::InCluster => KubeClient::in_cluster(config.kube.clone()).await.map_err(kube)?,
            Cluster::Manifests(folder) => return Self::manifests(folder, config, clock),
        };
        let pods = PodSource::new(client.clone(), &config.node_name, clock).map_err(kube)?;
        let node = NodeSource::new(client.clone(), &config.node_name, clock).map_err(kube)?;
        let reflectors = PerKind::from_fn(|kind| client.reflectors(kind));
        let objects = PerKind::from_fn(|kind| {
            (ObjectSource::Kube(client.fetcher(kind)), ObjectReflectors::Kube(reflectors.of(kind).clone()))
        });
        Ok(Self {
            pods: pods.reader(),
            node: node.reader(),
            objects,
            namespaces: Some(ObjectSource::Kube(client.fetcher(Kind::Namespace))),
            run: RunSources::Kube(pods, node),
            source: None,
            origin: Origin::Kube(client, reflectors),
        })
    }

    fn manifests(folder: &Path, config: &Config, clock: impl Clock + Copy) -> Result<Self, StartError> {
        let manifests = ManifestSource::new(folder, &config.node_name, clock, ManifestOptions::default())
            .map_err(StartError::Manifests)?;
        let reader = manifests.reader();
        // There is no node without a cluster, and that is known.
        let (writer, node) = source::new(Source::Manifest, clock);
        writer.replace([], "");
        writer.watching();
        let objects = PerKind::from_fn(|kind| (ObjectSource::Manifests(reader.fetcher(kind)), ObjectReflectors::None));
        Ok(Self {
            pods: reader.pods().clone(),
            node,
            objects,
            namespaces: None,
            run: RunSources::Manifests(manifests),
            source: Some(Source::Manifest),
            origin: Origin::Manifests { reader, _no_node: writer },
        })
    }
}

pub(super) fn runtime_side<M: MachineClocks>(
    config: &Config,
    clock: MonotonicClock<M>,
    metrics: &Metrics,
) -> Result<Option<RuntimeSide<M>>, StartError> {
    let parse =
        |text: &String| larder_cri::parse_endpoint(text).map_err(|error| StartError::Runtime(error.to_string()));
    let wanted = match &config.runtime {
        RuntimeEndpoint::None => return Ok(None),
        RuntimeEndpoint::Search => {
            RuntimeChoice::FirstOf(config.runtime_sockets.iter().map(parse).collect::<Result<_, _>>()?)
        }
        RuntimeEndpoint::At(endpoint) => RuntimeChoice::At(parse(endpoint)?),
    };
    let (pleg, cri) = (config.pleg.clone(), config.cri.clone());
    let side = RuntimeSide::new(wanted, pleg, config.runtime_events, cri, clock, metrics.of_pleg());
    side.map(Some).map_err(StartError::Runtime)
}
