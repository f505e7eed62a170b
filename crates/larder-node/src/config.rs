//! What a node's larder is started with; checked before anything starts.

use crate::strategy::ChangeDetection;
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
    /// The sockets where a runtime is looked for, in that order. Default: [`larder_cri::well_known_sockets`].
    pub runtime_sockets: Vec<String>,
    /// Deadlines and limits of the calls to the runtime. Default: [`CriOptions::default`].
    pub cri: CriOptions,
    /// Follow the runtime's event stream, so that a change is seen at once and not at the next relist. Default: true; a
    /// runtime without one is relisted all the same.
    pub runtime_events: bool,
    /// How the objects of each kind are kept up to date. Default: all are watched, as by the kubelet. Manifests are looked at
    /// with every read, whatever stands here.
    pub change_detection: ChangeDetection,
    /// How often those who read an object again and again do that: an object that nobody has read for five times as long
    /// is not watched until it is read again. Default: 1 minute, the kubelet's `syncFrequency`.
    pub sync_period: Duration,
    /// What those five sync periods are raised to where they are less. Default: 1 minute, as the kubelet's; shorter ones are
    /// for tests.
    pub min_idle: Duration,
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
    /// The first of [`Config::runtime_sockets`] where a runtime has answered as CRI v1; they are asked again as long as none
    /// has.
    #[default]
    Search,
    /// The socket at this endpoint, such as `unix:///run/containerd/containerd.sock`.
    At(String),
    /// Do without one: no status of containers.
    None,
}

/// What the daemon does beyond the kubelet's caches, each of it for a reason that the caches alone serve badly.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// Keep what was last read also with [`Strategy::Direct`](crate::Strategy::Direct) and
    /// [`Strategy::Ttl`](crate::Strategy::Ttl), whose stores do not keep it, and serve it, marked as stale, where fetching it
    /// fails or outlasts the reader's deadline. Default: true. The kubelet has nothing to give after a new reference, and a container cannot
    /// restart while the API server is away.
    ///
    /// It does not keep a store from serving what it holds, as stale: with the strategies that watch always, with
    /// [`Strategy::Ttl`](crate::Strategy::Ttl) until a new reference, to a read whose own fetch fails.
    pub keep_last_known: bool,
    /// Fetch an object as soon as a pod refers to it, not only when it is first read. Default: true, so that an outage
    /// that begins before the first read finds it there. Costs no fetch more than that first read would have. With
    /// [`Strategy::Direct`](crate::Strategy::Direct) nothing is fetched before it is read.
    pub fetch_on_reference: bool,
    /// Answer that an object is absent until its TTL has passed, as one that is there; a new reference has it asked for
    /// again. Default: true. The kubelet asks for a missing optional object at every sync. Where objects are watched, this
    /// is not needed: the watch tells of the object.
    pub serve_absences: bool,
    /// Have a watched object that a new pod refers to read anew before it is given out, so that the pod sees nothing from
    /// before it was there. Default: true. The kubelet's watch may be behind.
    pub first_read_as_new_as_pod: bool,
    /// Hold an immutable object as it was read, without a watch. Default: true, as the kubelet does; a new reference has it
    /// looked at again, which the kubelet does not.
    pub hold_immutable: bool,
    /// With [`Strategy::Auto`](crate::Strategy::Auto), watch a namespace as a whole where larder's identity may do that and
    /// most of its objects are referenced. Default: true.
    pub watch_namespaces: bool,
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
    /// The field that it does not go with, after `problem`: "must not be shorter than".
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
    /// How watches of objects are kept.
    pub(crate) fn watch_options(&self) -> AutoOptions {
        // Bounded by `validate` to five years. The kubelet finds an idle watch up to a minute late, by when it happens to
        // look; a larder on the same node must not have ended it before that.
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

    /// How often to look for watches that nobody needs: once a minute, as the kubelet does, or more often where one is
    /// idle sooner.
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
            assert_eq!(config.watch_options().watch.max_idle, Duration::from_secs(latest));
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
