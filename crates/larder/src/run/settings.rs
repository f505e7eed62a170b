//! What `larder run` is set to: the defaults, then the file of `--config`, then the flags.
//!
//! The file is YAML, each name in camel case; a name that is unknown and a value that cannot be used are refused with file,
//! line, column, the name as it stands there, and what is allowed. A value that a flag has set is refused by the flag's name.
//! Every part of the file can be left out. `larder run --print-config` prints all of it, as it is after the flags, once it
//! has passed the same checks.

mod duration;
mod file;
mod origins;
mod places;
mod sections;

use super::{Args, LogFormat, log_filter};
use crate::client::DEFAULT_SOCKET;
use crate::output;
use anyhow::Context as _;
use larder_kube::ProxyEnvironment;
use larder_node::{ChangeDetection, Cluster, Config, RuntimeEndpoint};
use larder_server::ServeOptions;
use origins::Origins;
use places::Places;
use sections::{ChangeDetectionSection, CriSection, KubeSection, LimitsSection, PlegSection, PolicySection};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tracing_subscriber::EnvFilter;

/// All settings, by the names of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Settings {
    #[serde(skip_serializing_if = "Option::is_none")]
    kubeconfig: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    manifests: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runtime_endpoint: Option<String>,
    runtime_sockets: Vec<String>,
    runtime_events: bool,
    socket: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics_address: Option<SocketAddr>,
    change_detection: ChangeDetectionSection,
    #[serde(with = "duration")]
    sync_period: Duration,
    #[serde(with = "duration")]
    min_idle: Duration,
    #[serde(with = "duration")]
    default_ttl: Duration,
    log_level: String,
    pub(super) log_format: LogFormat,
    policy: PolicySection,
    kube: KubeSection,
    cri: CriSection,
    pleg: PlegSection,
    limits: LimitsSection,
    #[serde(skip)]
    origins: Origins,
}

impl Default for Settings {
    fn default() -> Self {
        // What a node's larder does by itself, whichever node and cluster it is.
        let config = Config::new("node", Cluster::InCluster);
        Self {
            kubeconfig: None,
            context: None,
            manifests: None,
            node_name: None,
            runtime_endpoint: None,
            runtime_sockets: config.runtime_sockets,
            runtime_events: config.runtime_events,
            socket: DEFAULT_SOCKET.into(),
            metrics_address: None,
            change_detection: config.change_detection.into(),
            sync_period: config.sync_period,
            min_idle: config.min_idle,
            default_ttl: config.default_ttl,
            log_level: "info".to_owned(),
            log_format: LogFormat::default(),
            policy: PolicySection::of(config.policy),
            kube: KubeSection::of(config.kube),
            cri: CriSection::of(config.cri),
            pleg: PlegSection::of(config.pleg),
            limits: LimitsSection::default(),
            origins: Origins::default(),
        }
    }
}

impl Settings {
    /// The file, if one is named, with the flags over it.
    pub(super) fn of(args: Args) -> anyhow::Result<Self> {
        let (mut settings, places) = match &args.config {
            Some(path) => file::read(path)?,
            None => (Self::default(), Places::default()),
        };
        settings.origins = Origins::of(&args, places);
        settings.apply(args);
        Ok(settings)
    }

    fn apply(&mut self, args: Args) {
        // A source that a flag names takes the place of the file's, whichever that is.
        if args.manifests.is_some() || args.kubeconfig.is_some() {
            (self.manifests, self.kubeconfig, self.context) = (args.manifests, args.kubeconfig, None);
        }
        replace_some(&mut self.context, args.context);
        replace_some(&mut self.node_name, args.node_name);
        replace_some(&mut self.runtime_endpoint, args.runtime_endpoint);
        replace(&mut self.runtime_events, on(args.events.as_deref()));
        replace(&mut self.socket, args.socket);
        replace_some(&mut self.metrics_address, args.metrics_address);
        replace(&mut self.change_detection, args.change_detection.map(|one| ChangeDetection::both(one).into()));
        replace(&mut self.sync_period, args.sync_period);
        replace(&mut self.default_ttl, args.default_ttl);
        replace(&mut self.policy.keep_last_known, on(args.keep_last_known.as_deref()));
        replace(&mut self.policy.serve_absences, on(args.serve_absences.as_deref()));
        replace(&mut self.log_level, args.log_level);
        replace(&mut self.log_format, args.log_format);
    }

    /// The values by their keys, as a file has them.
    fn values(&self) -> serde_json::Value {
        // Texts, numbers and maps with texts for keys: nothing that JSON has not.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// All of it, as a file of `--config` would have it.
    pub(super) fn to_yaml(&self) -> anyhow::Result<Vec<u8>> {
        output::yaml_of(self).context("cannot write the settings as YAML")
    }

    /// What to log.
    ///
    /// # Errors
    ///
    /// That cannot be what is logged.
    pub(super) fn log_filter(&self) -> anyhow::Result<EnvFilter> {
        log_filter(&self.log_level).map_err(|problem| self.origins.refuse("logLevel", &problem))
    }

    /// Checks them as a start does. What depends on the machine and not on them is left out: which files, sockets and servers
    /// there are, and whether this is a pod, whose service account would be the source that they do not name.
    ///
    /// # Errors
    ///
    /// The first one that cannot be used.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.log_filter()?;
        let cluster = self.cluster()?.unwrap_or(Cluster::InCluster);
        self.clone().into_options_of(cluster).map(drop)
    }

    /// As the daemon takes them, checked.
    ///
    /// # Errors
    ///
    /// The first one that cannot be used.
    pub(super) fn into_options(self) -> anyhow::Result<(Config, ServeOptions)> {
        let cluster = match self.cluster()? {
            Some(cluster) => cluster,
            None if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => Cluster::InCluster,
            None => anyhow::bail!(
                "no source of pods: name a kubeconfig with --kubeconfig, or a directory of manifests with --manifests (in a \
                 pod, its service account is used without either)"
            ),
        };
        self.into_options_of(cluster)
    }

    /// The source that they name.
    fn cluster(&self) -> anyhow::Result<Option<Cluster>> {
        match (&self.manifests, &self.kubeconfig) {
            (Some(_), Some(_)) => {
                let problem = "kubeconfig is set too, and only one of them can be the source of pods";
                Err(self.origins.refuse("manifests", problem))
            }
            (_, None) if self.context.is_some() => {
                let problem = "it is a kubeconfig's: name that too, with --kubeconfig or in the file";
                Err(self.origins.refuse("context", problem))
            }
            (None, Some(path)) => Ok(Some(Cluster::Kubeconfig { path: path.clone(), context: self.context.clone() })),
            (Some(dir), None) => Ok(Some(Cluster::Manifests(dir.clone()))),
            (None, None) => Ok(None),
        }
    }

    fn into_options_of(self, cluster: Cluster) -> anyhow::Result<(Config, ServeOptions)> {
        let node_name = super::node_name(self.node_name.as_deref())?;
        let mut config = Config::new(node_name, cluster);
        config.change_detection = self.change_detection.into();
        config.sync_period = self.sync_period;
        config.min_idle = self.min_idle;
        config.default_ttl = self.default_ttl;
        config.runtime_events = self.runtime_events;
        config.runtime = match self.runtime_endpoint.as_deref() {
            None => RuntimeEndpoint::Search,
            Some("none") => RuntimeEndpoint::None,
            Some(endpoint) => RuntimeEndpoint::At(endpoint.to_owned()),
        };
        config.runtime_sockets.clone_from(&self.runtime_sockets);
        self.policy.clone().apply(&mut config.policy);
        self.kube.clone().apply(&mut config.kube);
        config.kube.proxies = ProxyEnvironment::of_process();
        self.cri.clone().apply(&mut config.cri);
        self.pleg.clone().apply(&mut config.pleg);
        config.validate().map_err(|error| self.origins.refuse_config(&self, &error))?;
        let mut serve = ServeOptions::new(&self.socket);
        serve.metrics_address = self.metrics_address;
        self.limits.clone().apply(&mut serve.limits);
        serve.validate().map_err(|error| self.origins.refuse_serving(&error))?;
        Ok((config, serve))
    }
}

fn on(flag: Option<&str>) -> Option<bool> {
    flag.map(|word| word == "on")
}

fn replace<T>(setting: &mut T, flag: Option<T>) {
    if let Some(value) = flag {
        *setting = value;
    }
}

fn replace_some<T>(setting: &mut Option<T>, flag: Option<T>) {
    if flag.is_some() {
        *setting = flag;
    }
}

#[cfg(test)]
mod tests;
