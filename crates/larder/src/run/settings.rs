//! What `larder run` is set to: the defaults, then the file of `--config`, then the flags.
//!
//! The file is YAML, each name in camel case; a name that is unknown and a value that cannot be used are refused with file,
//! line, column and what is allowed there. Every part of it can be left out. `larder run --print-config` prints all of it,
//! as it is after the flags.

mod duration;
mod sections;

use super::{Args, LogFormat};
use crate::client::DEFAULT_SOCKET;
use crate::output;
use anyhow::Context as _;
use larder_kube::ProxyEnvironment;
use larder_node::{ChangeDetection, Cluster, Config, RuntimeEndpoint};
use larder_server::{Limits, ServeOptions};
use sections::{ChangeDetectionSection, KubeSection, LimitsSection, PlegSection, PolicySection};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A file of settings is far smaller; one that is not is something else.
const LARGEST_FILE: u64 = 1 << 20;

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
    pub(super) log_level: String,
    pub(super) log_format: LogFormat,
    policy: PolicySection,
    kube: KubeSection,
    pleg: PlegSection,
    limits: LimitsSection,
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
            pleg: PlegSection::of(config.pleg),
            limits: LimitsSection::default(),
        }
    }
}

impl Settings {
    /// The file, if one is named, with the flags over it.
    pub(super) fn of(args: Args) -> anyhow::Result<Self> {
        let mut settings = args.config.as_deref().map_or_else(|| Ok(Self::default()), read)?;
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

    /// All of it, as a file of `--config` would have it.
    pub(super) fn to_yaml(&self) -> anyhow::Result<Vec<u8>> {
        output::yaml_of(self).context("cannot write the settings as YAML")
    }

    /// As the daemon takes them, checked.
    pub(super) fn into_options(self) -> anyhow::Result<(Config, ServeOptions)> {
        let node_name = match self.node_name {
            Some(name) => name,
            None => super::host_name()?,
        };
        let cluster = match (self.manifests, self.kubeconfig) {
            (Some(_), Some(_)) => {
                anyhow::bail!("settings kubeconfig and manifests: only one of them can be the source of pods")
            }
            (None, Some(path)) => Cluster::Kubeconfig { path, context: self.context },
            (_, None) if self.context.is_some() => {
                anyhow::bail!("setting context: it is a kubeconfig's: name that too, with --kubeconfig or in the file")
            }
            (Some(dir), None) => Cluster::Manifests(dir),
            (None, None) if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => Cluster::InCluster,
            (None, None) => anyhow::bail!(
                "no source of pods: name a kubeconfig with --kubeconfig, or a directory of manifests with --manifests (in a \
                 pod, its service account is used without either)"
            ),
        };
        let mut config = Config::new(node_name, cluster);
        config.change_detection = self.change_detection.into();
        config.sync_period = self.sync_period;
        config.min_idle = self.min_idle;
        config.default_ttl = self.default_ttl;
        config.runtime_events = self.runtime_events;
        config.runtime = match self.runtime_endpoint.as_deref() {
            None => RuntimeEndpoint::WellKnown,
            Some("none") => RuntimeEndpoint::None,
            Some(endpoint) => RuntimeEndpoint::At(endpoint.to_owned()),
        };
        self.policy.apply(&mut config.policy);
        self.kube.apply(&mut config.kube);
        config.kube.proxies = ProxyEnvironment::of_process();
        self.pleg.apply(&mut config.pleg);
        config.validate()?;
        let mut limits = Limits::default();
        self.limits.apply(&mut limits);
        limits.validate()?;
        Ok((config, ServeOptions { socket: self.socket, metrics_address: self.metrics_address, limits }))
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

/// Reads a file of settings.
fn read(path: &Path) -> anyhow::Result<Settings> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path).and_then(|file| file.take(LARGEST_FILE + 1).read_to_string(&mut text));
    file.with_context(|| format!("cannot read the settings in {} (--config)", path.display()))?;
    anyhow::ensure!(
        text.len() as u64 <= LARGEST_FILE,
        "{}: larger than a file of settings can be (--config)",
        path.display()
    );
    parse(&text).map_err(|problem| anyhow::anyhow!("{}{problem}", path.display()))
}

/// Reads the text of a file of settings. What is wrong with it begins with its place: `:12:3: unknown setting …`.
fn parse(text: &str) -> Result<Settings, String> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Settings::default());
    }
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| describe(error.without_snippet()))
}

fn describe(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error;
    let mut problem = String::new();
    if let Some(place) = error.location() {
        // Writing to a string cannot fail.
        let _ = write!(problem, ":{}:{}", place.line(), place.column());
    }
    let allowed = |expected: &[&str]| expected.join(", ");
    let what = match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            format!("unknown setting \"{field}\"; there are {}", allowed(expected))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            format!("\"{variant}\" is not one of {}", allowed(expected))
        }
        Error::SerdeInvalidType { unexpected, expected, .. }
        | Error::SerdeInvalidValue { unexpected, expected, .. } => {
            format!("{unexpected} where {expected} is to be")
        }
        Error::Message { msg, .. } => msg.clone(),
        other => other.to_string(),
    };
    format!("{problem}: {what}")
}

#[cfg(test)]
mod tests;
