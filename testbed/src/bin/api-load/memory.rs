//! What a thousand watches cost the API server, and how many connections they take.

use crate::agent::{Agent, Programs, Running};
use crate::server::{self, Memory};
use crate::workload::{OBJECTS_OF_A_POD, Object, Workload, namespace};
use anyhow::{Context as _, Result, ensure};
use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use larder_testbed::poll::until;
use larder_testbed::proxy::Proxy;
use larder_testbed::{Options, Testbed};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Duration;
use tokio::task::JoinSet;

/// How many watches.
pub(crate) const WATCHES: u64 = 1_000;
const PODS: usize = 250;
const _: () = assert!(PODS * OBJECTS_OF_A_POD == 1_000);
/// How long all watches may take to be open.
const LIMIT: Duration = Duration::from_mins(2);

/// Who holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// kube's client as it is made by default.
    Kube,
    /// An agent with the strategy `watch`.
    Agent(Agent),
}

impl Holder {
    pub(crate) const ALL: [Self; 3] =
        [Self::Kube, Self::Agent(Agent::Kubelet("watch")), Self::Agent(Agent::Larder("watch"))];

    pub(crate) fn is_larder(self) -> bool {
        matches!(self, Self::Agent(agent) if agent.is_larder())
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Kube => "kube's default client, HTTP/1.1".to_owned(),
            Self::Agent(agent) => agent.name(),
        }
    }
}

/// What they cost.
#[derive(Debug)]
pub(crate) struct Cost {
    pub(crate) holder: Holder,
    /// Connections that were open at a time, at most; for an agent with those by which it follows the node and its pods.
    pub(crate) connections: u64,
    /// Bytes a watch.
    pub(crate) live: u64,
    pub(crate) resident: u64,
}

/// Measures one holder on a testbed of its own.
pub(crate) async fn measure(programs: &Programs, holder: Holder) -> Result<Cost> {
    let testbed = Testbed::start(Options { node_ttl: Some(3600), ..Options::default() }).await?;
    let client = testbed.client().await?;
    let _workload = Workload::create(&testbed, PODS).await?;
    let others = server::open_watches(&server::metrics(&client).await?)?;
    let before = server::memory(&client).await?;
    let (after, connections) = match holder {
        Holder::Kube => with_kube(&testbed, &client, others).await?,
        Holder::Agent(agent) => {
            let running = Running::start(programs, agent, &testbed, Duration::from_hours(1)).await?;
            let after =
                once_open(&client, others).await.with_context(|| format!("its log ends:\n{}", running.log_tail()))?;
            let connections = running.proxy.traffic().most_open;
            running.stop()?;
            (after, connections)
        }
    };
    let each = |before: u64, after: u64| after.saturating_sub(before) / WATCHES;
    Ok(Cost {
        holder,
        connections,
        live: each(before.live, after.live),
        resident: each(before.resident, after.resident),
    })
}

/// The API server's memory when all watches are open, beside those of others.
async fn once_open(client: &Client, others: u64) -> Result<Memory> {
    until("all watches are open", LIMIT, async || {
        let open = server::open_watches(&server::metrics(client).await?)?;
        ensure!(open == WATCHES + others, "{open} of {WATCHES} are, with {others} of others");
        Ok(())
    })
    .await?;
    server::memory(client).await
}

async fn with_kube(testbed: &Testbed, client: &Client, others: u64) -> Result<(Memory, u64)> {
    let port = testbed.api_server_url().rsplit(':').next().context("a port")?.parse()?;
    let proxy = Proxy::start(port).await?;
    let kubeconfig = Kubeconfig::read_from(testbed.admin_kubeconfig())?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.cluster_url = format!("https://{}", proxy.address()).parse()?;
    let holder = Client::try_from(config)?;
    // Ended when it is dropped.
    let mut watches = JoinSet::new();
    for object in (0..PODS).flat_map(Object::of_pod) {
        let (namespace, name) = (namespace(object.pod), object.name());
        match object.kind {
            crate::workload::Kind::Secret => {
                watches.spawn(hold(Api::<Secret>::namespaced(holder.clone(), &namespace), name));
            }
            crate::workload::Kind::ConfigMap => {
                watches.spawn(hold(Api::<ConfigMap>::namespaced(holder.clone(), &namespace), name));
            }
        }
    }
    let after = tokio::select! {
        after = once_open(client, others) => after?,
        Some(ended) = watches.join_next() => anyhow::bail!("a watch has ended: {ended:?}"),
    };
    Ok((after, proxy.traffic().most_open))
}

/// Holds a watch of one object.
async fn hold<K>(api: Api<K>, name: String) -> Result<()>
where
    K: Clone + Debug + DeserializeOwned + Send + 'static,
{
    let parameters = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(290);
    let mut events = api.watch(&parameters, "0").await?.boxed();
    while let Some(event) = events.next().await {
        if let WatchEvent::Error(status) = event? {
            anyhow::bail!("{status:?}");
        }
    }
    Ok(())
}
