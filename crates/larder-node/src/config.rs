//! What a node's larder is started with; checked before anything starts.

use larder_kube::KubeOptions;
use larder_pleg::PlegOptions;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// The settings of a [`Node`](crate::Node).
///
/// ```
/// use larder_node::{Cluster, Config, RuntimeEndpoint};
///
/// let mut config = Config::new("edge-1", Cluster::Manifests("/etc/larder/manifests".into()));
/// config.runtime = RuntimeEndpoint::None;
/// config.validate().unwrap();
///
/// config.default_ttl = std::time::Duration::MAX;
/// assert_eq!(config.validate().unwrap_err().field, "default_ttl");
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// The name of this node: its pods are those whose `spec.nodeName` it is. No default.
    pub node_name: String,
    /// Where pods, the node, Secrets and ConfigMaps come from. No default.
    pub cluster: Cluster,
    /// The container runtime. Default: the first of the well-known sockets that is there.
    pub runtime: RuntimeEndpoint,
    /// Follow the runtime's event stream, so that a change is seen at once and not at the next relist. Default: true; a
    /// runtime without one is relisted all the same.
    pub runtime_events: bool,
    /// How long an object is fresh after it was fetched, where the node's annotation `node.alpha.kubernetes.io/ttl` says
    /// nothing. Default: 1 minute, as the kubelet's.
    pub default_ttl: Duration,
    /// Deadlines, retries and limits of the API server's client. Default: [`KubeOptions::default`].
    pub kube: KubeOptions,
    /// The settings of the PLEG. Default: [`PlegOptions::default`] with each pod on its own, inspections side by side and
    /// each with a deadline, so that one pod that hangs does not hold back the others.
    pub pleg: PlegOptions,
    /// What the daemon does beyond the kubelet's caches.
    pub policy: Policy,
}

/// Where pods, the node, Secrets and ConfigMaps come from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cluster {
    /// The API server of a kubeconfig's context; of its current one, if none is named.
    Kubeconfig {
        /// The kubeconfig's path.
        path: PathBuf,
        /// The context's name.
        context: Option<String>,
    },
    /// The API server that the pod's service account is for.
    InCluster,
    /// A directory of manifests: pods, Secrets and ConfigMaps as YAML or JSON.
    Manifests(PathBuf),
}

/// Which container runtime to ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeEndpoint {
    /// The first of the well-known sockets that is there; looked for again as long as there is none.
    #[default]
    WellKnown,
    /// The socket at this endpoint, such as `unix:///run/containerd/containerd.sock`.
    At(String),
    /// Do without one: no status of containers.
    None,
}

/// What the daemon does beyond the kubelet's caches, each of it for a reason that the caches alone serve badly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Keep an object that a new reference drops from the cache as last known, and serve it, marked as stale, where
    /// fetching it fails or outlasts the reader's deadline. Default: true. The kubelet has nothing to give then, and a
    /// container cannot restart while the API server is away.
    pub keep_last_known: bool,
    /// Fetch an object as soon as a pod refers to it, not only when it is first read. Default: true, so that an outage
    /// that begins before the first read finds it there. Costs no fetch more than that first read would have.
    pub fetch_on_reference: bool,
    /// Let a pod that has succeeded or failed go of its objects, though its own object is still there. Default: true; the
    /// kubelet keeps them until the pod is deleted, which for a finished job may be never.
    pub release_ended_pods: bool,
    /// The pause after an object's first failed fetch, doubled with each one that follows. Until it has passed, reads of
    /// the object are answered with what is held. Default: 500 ms. Zero asks at every read, as the kubelet does.
    pub fetch_backoff_initial: Duration,
    /// The longest of those pauses. Default: 10 s.
    pub fetch_backoff_max: Duration,
    /// Take the API server's word when a consistent read gives a lower resourceVersion than the one held: its etcd was
    /// restored from a backup. Default: true. The kubelet serves the higher one until it is deleted.
    pub accept_older_versions: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            keep_last_known: true,
            fetch_on_reference: true,
            release_ended_pods: true,
            fetch_backoff_initial: Duration::from_millis(500),
            fetch_backoff_max: Duration::from_secs(10),
            accept_older_versions: true,
        }
    }
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting {field}: {problem}")]
#[non_exhaustive]
pub struct ConfigError {
    /// The field of [`Config`], such as `default_ttl` or `policy.fetch_backoff_max`.
    pub field: &'static str,
    /// What is wrong with it, and what to do.
    pub problem: String,
}

impl ConfigError {
    /// An error about the field.
    pub(crate) fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field, problem: problem.into() }
    }
}

/// Longer than any use, shorter than what could overflow.
const LONGEST: Duration = Duration::from_hours(366 * 24);

impl Config {
    /// The settings with every default.
    pub fn new(node_name: impl Into<String>, cluster: Cluster) -> Self {
        let mut pleg = PlegOptions::default();
        pleg.inspection_concurrency = pleg.inspection_concurrency.saturating_add(7);
        pleg.inspection_deadline = Some(Duration::from_secs(10));
        pleg.keep_last_status = true;
        pleg.independent_pods = true;
        pleg.keep_unchanged = true;
        pleg.relist_on_wait = true;
        // A burst of changes of more pods than that is cheaper to list at once.
        pleg.relist_queue = const { NonZeroUsize::new(32).unwrap() };
        Self {
            node_name: node_name.into(),
            cluster,
            runtime: RuntimeEndpoint::default(),
            runtime_events: true,
            default_ttl: Duration::from_mins(1),
            kube: KubeOptions::default(),
            pleg,
            policy: Policy::default(),
        }
    }

    /// Checks every field; nothing is opened or connected for it.
    ///
    /// # Errors
    ///
    /// The first field that cannot be used.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_node_name(&self.node_name)?;
        if let Cluster::Manifests(dir) = &self.cluster
            && dir.as_os_str().is_empty()
        {
            return Err(ConfigError::new("cluster", "the manifests' directory is empty: name one"));
        }
        for (field, duration) in [
            ("default_ttl", self.default_ttl),
            ("policy.fetch_backoff_initial", self.policy.fetch_backoff_initial),
            ("policy.fetch_backoff_max", self.policy.fetch_backoff_max),
        ] {
            if duration > LONGEST {
                return Err(ConfigError::new(field, "must not be longer than a year"));
            }
        }
        if self.policy.fetch_backoff_max < self.policy.fetch_backoff_initial {
            let problem = "must not be shorter than policy.fetch_backoff_initial";
            return Err(ConfigError::new("policy.fetch_backoff_max", problem));
        }
        self.kube.validate().map_err(|error| ConfigError::new("kube", error.to_string()))?;
        self.pleg.validate().map_err(|error| ConfigError::new("pleg", error.to_string()))
    }
}

/// A node's name is a DNS subdomain.
fn check_node_name(name: &str) -> Result<(), ConfigError> {
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let edge = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
        edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner)
    };
    if name.is_empty() {
        return Err(ConfigError::new("node_name", "is empty: give the name that `kubectl get nodes` shows"));
    }
    if name.len() > 253 || !name.split('.').all(is_label) {
        let problem = format!("\"{name}\" is not a node's name: lower-case letters, digits, '-' and '.' only");
        return Err(ConfigError::new("node_name", problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config::new("node-1", Cluster::InCluster)
    }

    fn check(field: &str, change: impl FnOnce(&mut Config)) {
        let mut config = config();
        change(&mut config);
        let error = config.validate().unwrap_err();
        assert_eq!(error.field, field, "{error}");
    }

    #[test]
    fn defaults_are_valid() {
        config().validate().unwrap();
    }

    #[test]
    fn the_field_that_is_wrong_is_named() {
        check("node_name", |config| config.node_name.clear());
        check("node_name", |config| config.node_name = "Node_1".to_owned());
        check("node_name", |config| config.node_name = "a..b".to_owned());
        check("cluster", |config| config.cluster = Cluster::Manifests(PathBuf::new()));
        check("default_ttl", |config| config.default_ttl = Duration::MAX);
        check("policy.fetch_backoff_max", |config| config.policy.fetch_backoff_max = Duration::ZERO);
        check("pleg", |config| config.pleg.relist_period = Duration::ZERO);
        check("kube", |config| config.kube.page_size = 0);
    }
}
