//! The settings of a node's larder. [`Node::start`](crate::Node::start) checks them before anything starts.

use crate::strategy::ChangeDetection;
use crate::tokens::TokenOptions;
use larder_cri::{CriError, CriOptions};
use larder_kube::{KubeError, KubeOptions};
use larder_objects::{AutoOptions, WatchOptions};
use larder_pleg::PlegOptions;
use std::borrow::Cow;
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
#[non_exhaustive]
pub struct Config {
    /// The name of this node: its pods are those whose `spec.nodeName` it is. No default.
    pub node_name: String,
    /// Where pods, the node, Secrets and ConfigMaps come from. No default.
    pub cluster: Cluster,
    /// The container runtime. Default: [`RuntimeEndpoint::Search`].
    pub runtime: RuntimeEndpoint,
    /// The sockets where larder looks for a runtime, in this order. Default: [`larder_cri::well_known_sockets`].
    pub runtime_sockets: Vec<String>,
    /// Deadlines and limits of the calls to the runtime. Default: [`CriOptions::default`].
    pub cri: CriOptions,
    /// Follow the runtime's event stream, so that a change is seen at once and not at the next relist. Default: true. A
    /// runtime without events is relisted only.
    pub runtime_events: bool,
    /// The strategy of each kind of object. Default: watch, as the kubelet's. It has no effect on manifests: every read looks
    /// into them.
    pub change_detection: ChangeDetection,
    /// How often readers poll an object. A watch stops when nobody has read its object for five sync periods, and restarts at
    /// the next read. Default: 1 minute, the kubelet's `syncFrequency`.
    pub sync_period: Duration,
    /// The least time without a read after which a watch stops. Default: 1 minute, as the kubelet's. Tests use less.
    pub min_idle: Duration,
    /// How long an object is fresh after a fetch, if the node has no annotation `node.alpha.kubernetes.io/ttl`. Default: 1
    /// minute, as the kubelet's.
    pub default_ttl: Duration,
    /// Deadlines, retries and limits of the API server's client. Default: [`KubeOptions::default`].
    pub kube: KubeOptions,
    /// The settings of the PLEG. Default: [`PlegOptions::default`], but pods are independent, and inspections are concurrent
    /// with a deadline each, so that one pod that hangs does not delay the others.
    pub pleg: PlegOptions,
    /// The rules that the daemon adds to the kubelet's caches.
    pub policy: Policy,
    /// How service-account tokens of pods are verified. Default: with the API server's keys.
    pub tokens: TokenOptions,
}

/// Where pods, the node, Secrets and ConfigMaps come from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cluster {
    /// The API server of a context of a kubeconfig; of the current context if none is named.
    Kubeconfig {
        /// The kubeconfig's path.
        path: PathBuf,
        /// The context's name.
        context: Option<String>,
    },
    /// The API server of the pod's service account.
    InCluster,
    /// A directory of manifests: pods, Secrets and ConfigMaps as YAML or JSON.
    Manifests(PathBuf),
}

/// Which container runtime to ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeEndpoint {
    /// The first of [`Config::runtime_sockets`] where a runtime answers as CRI v1. larder repeats the search until one does.
    #[default]
    Search,
    /// The socket at this endpoint, such as `unix:///run/containerd/containerd.sock`.
    At(String),
    /// No container runtime, and no status of containers.
    None,
}

/// The rules that the daemon adds to the kubelet's caches. Each field says why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// Keep the last known object also with [`Strategy::Direct`](crate::Strategy::Direct) and
    /// [`Strategy::Ttl`](crate::Strategy::Ttl), whose stores do not keep it. If a fetch fails or outlasts the reader's
    /// deadline, the last known object is served, marked as stale. Default: true. The kubelet has no object after a new
    /// reference, so a container cannot restart while the API server is away.
    ///
    /// If false, a store still serves what it holds, as stale, when a fetch fails: the strategies that watch always, and
    /// [`Strategy::Ttl`](crate::Strategy::Ttl) until a new reference.
    pub keep_last_known: bool,
    /// Fetch an object as soon as a pod refers to it, not only at its first read. Default: true, so that the object is there if
    /// an outage begins before the first read. It costs no additional fetch, because the first read does not fetch again. With
    /// [`Strategy::Direct`](crate::Strategy::Direct), only reads fetch.
    pub fetch_on_reference: bool,
    /// Remember that an object is absent until its TTL expires. A new reference fetches it again. Default: true. The kubelet
    /// asks for a missing optional object at every sync. The strategies that watch do not need it, because the watch reports
    /// the object.
    pub serve_absences: bool,
    /// After a new pod refers to a watched object, fetch the object at its next read, so that the pod sees no state from before
    /// its own creation. Default: true. The kubelet's watch may lag.
    pub first_read_as_new_as_pod: bool,
    /// Hold an immutable object without a watch. Default: true, as the kubelet does. A new reference fetches it again, which
    /// the kubelet does not do.
    pub hold_immutable: bool,
    /// With [`Strategy::Auto`](crate::Strategy::Auto), watch a whole namespace if larder's identity may do that and pods refer
    /// to most of its objects. Default: true.
    pub watch_namespaces: bool,
    /// Release the objects of a pod that has succeeded or failed, although the pod still exists. Default: true. The kubelet
    /// keeps them until the pod is deleted, and a finished job's pod may never be.
    pub release_ended_pods: bool,
    /// The backoff after an object's first failed fetch; each further failure doubles it. Until it ends, reads of the object
    /// get what is held. Default: 500 ms. With zero, every read fetches, as in the kubelet.
    pub fetch_backoff_initial: Duration,
    /// The longest backoff. Default: 10 s.
    pub fetch_backoff_max: Duration,
    /// Accept a lower resourceVersion than the one held if a consistent read returns it: the API server's etcd was restored
    /// from a backup. Default: true. The kubelet serves the higher one until the object is deleted.
    pub accept_older_versions: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            keep_last_known: true,
            fetch_on_reference: true,
            serve_absences: true,
            first_read_as_new_as_pod: true,
            hold_immutable: true,
            watch_namespaces: true,
            release_ended_pods: true,
            fetch_backoff_initial: Duration::from_millis(500),
            fetch_backoff_max: Duration::from_secs(10),
            accept_older_versions: true,
        }
    }
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting {field}: {problem}{}", other.as_ref().map(|other| format!(" {other}")).unwrap_or_default())]
#[non_exhaustive]
pub struct ConfigError {
    /// The field of [`Config`], such as `default_ttl` or `kube.page_size`.
    pub field: Cow<'static, str>,
    /// What is wrong with it, and what to do.
    pub problem: String,
    /// The other field that `problem` is about, such as after "must not be shorter than".
    pub other: Option<Cow<'static, str>>,
}

impl ConfigError {
    /// An error about the field.
    pub(crate) fn new(field: impl Into<Cow<'static, str>>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into(), other: None }
    }

    /// An error about a field of a section, which may not go with another one of it.
    fn in_section(section: &str, field: &str, problem: impl Into<String>, other: Option<&str>) -> Self {
        let other = other.map(|other| format!("{section}.{other}").into());
        Self { other, ..Self::new(format!("{section}.{field}"), problem) }
    }
}

/// Longer than anybody needs, and so short that no sum overflows.
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
        // If more pods than this change at once, one list of all pods is cheaper.
        pleg.relist_queue = const { NonZeroUsize::new(32).unwrap() };
        Self {
            node_name: node_name.into(),
            cluster,
            runtime: RuntimeEndpoint::default(),
            runtime_sockets: larder_cri::well_known_sockets().map(|socket| socket.to_string()).into(),
            cri: CriOptions::default(),
            runtime_events: true,
            change_detection: ChangeDetection::default(),
            sync_period: Duration::from_mins(1),
            min_idle: Duration::from_mins(1),
            default_ttl: Duration::from_mins(1),
            kube: KubeOptions::default(),
            pleg,
            policy: Policy::default(),
            tokens: TokenOptions::default(),
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
        for (field, duration) in [("sync_period", self.sync_period), ("min_idle", self.min_idle)] {
            if duration.is_zero() {
                return Err(ConfigError::new(field, "must be longer than nothing"));
            }
        }
        for (field, duration) in [
            ("sync_period", self.sync_period),
            ("min_idle", self.min_idle),
            ("default_ttl", self.default_ttl),
            ("policy.fetch_backoff_initial", self.policy.fetch_backoff_initial),
            ("policy.fetch_backoff_max", self.policy.fetch_backoff_max),
        ] {
            if duration > LONGEST {
                return Err(ConfigError::new(field, "must not be longer than a year"));
            }
        }
        if self.policy.fetch_backoff_max < self.policy.fetch_backoff_initial {
            let (problem, other) = ("must not be shorter than", Some("fetch_backoff_initial"));
            return Err(ConfigError::in_section("policy", "fetch_backoff_max", problem, other));
        }
        self.tokens.validate()?;
        if let RuntimeEndpoint::At(endpoint) = &self.runtime {
            larder_cri::parse_endpoint(endpoint).map_err(|error| ConfigError::new("runtime", error.to_string()))?;
        }
        if self.runtime == RuntimeEndpoint::Search && self.runtime_sockets.is_empty() {
            let problem = "names no socket: name one, or do without a runtime with the endpoint \"none\"";
            return Err(ConfigError::new("runtime_sockets", problem));
        }
        for socket in &self.runtime_sockets {
            let parsed = larder_cri::parse_endpoint(socket);
            parsed.map_err(|error| ConfigError::new("runtime_sockets", error.to_string()))?;
        }
        self.cri.validate().map_err(|error| match error {
            CriError::InvalidOption { field, reason } => ConfigError::in_section("cri", field, reason, None),
            other => ConfigError::new("cri", other.to_string()),
        })?;
        self.kube.validate().map_err(|error| match error {
            KubeError::InvalidOption { field, problem, other } => {
                ConfigError::in_section("kube", field, problem, other)
            }
            other => ConfigError::new("kube", other.to_string()),
        })?;
        let of_pleg = self.pleg.validate();
        of_pleg.map_err(|error| ConfigError::in_section("pleg", error.field, error.reason, error.other))
    }
}

impl Config {
    /// The options of the stores that watch; those of the adaptive store have them all.
    pub(crate) fn auto_options(&self) -> AutoOptions {
        // `validate` bounds it to five years. The kubelet looks for idle watches once a minute, so it may stop one a minute
        // late. larder must not stop a watch earlier than the kubelet on the same node.
        let max_idle = self.sync_period.saturating_mul(5).max(self.min_idle) + self.idle_check();
        let watch = WatchOptions::default()
            .with_max_idle(max_idle)
            .with_min_idle(self.min_idle)
            .with_hold_immutable(self.policy.hold_immutable)
            .with_first_read_at_least_as_new(self.policy.first_read_as_new_as_pod);
        let defaults = AutoOptions::default().with_watch(watch);
        let namespaces_from = defaults.namespaces_from.filter(|_| self.policy.watch_namespaces);
        defaults.with_namespaces_from(namespaces_from)
    }

    /// How often to look for idle watches: once a minute, as the kubelet does, or more often if `min_idle` is less.
    pub(crate) fn idle_check(&self) -> Duration {
        self.min_idle.clamp(Duration::from_millis(100), Duration::from_mins(1))
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
    if name.len() > 253 {
        return Err(ConfigError::new(
            "node_name",
            "has more than 253 characters: give the name that `kubectl get nodes` shows",
        ));
    }
    if !name.split('.').all(is_label) {
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

    #[test]
    fn no_watch_is_idle_before_the_kubelet_would_have_ended_it() {
        // The kubelet: five sync periods and at least a minute, seen by who looks once a minute.
        for (sync_period, latest) in [(10, 60 + 60), (12, 60 + 60), (60, 5 * 60 + 60), (120, 10 * 60 + 60)] {
            let mut config = config();
            config.sync_period = Duration::from_secs(sync_period);
            assert_eq!(config.auto_options().watch.max_idle, Duration::from_secs(latest));
            assert_eq!(config.idle_check(), Duration::from_mins(1));
        }
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
        check("node_name", |config| config.node_name = "a".repeat(254));
        check("cluster", |config| config.cluster = Cluster::Manifests(PathBuf::new()));
        check("default_ttl", |config| config.default_ttl = Duration::MAX);
        check("sync_period", |config| config.sync_period = Duration::ZERO);
        check("sync_period", |config| config.sync_period = Duration::MAX);
        check("min_idle", |config| config.min_idle = Duration::ZERO);
        check("policy.fetch_backoff_max", |config| config.policy.fetch_backoff_max = Duration::ZERO);
        check("runtime", |config| config.runtime = RuntimeEndpoint::At("tcp://127.0.0.1:1".to_owned()));
        check("runtime_sockets", |config| config.runtime_sockets.clear());
        check("runtime_sockets", |config| config.runtime_sockets = vec!["tcp://127.0.0.1:1".to_owned()]);
        check("cri.max_message_bytes", |config| config.cri.max_message_bytes = 0);
        check("pleg.relist_period", |config| config.pleg.relist_period = Duration::ZERO);
        check("kube.page_size", |config| config.kube.page_size = 0);
    }
}
