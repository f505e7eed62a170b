//! What `larder run` is set to: the defaults, then the file of `--config`, then the flags.
//!
//! Each setting is declared once, in [`table`]; its key, its flag, its help and the place that an error names follow from there.
//! What cannot be used is refused by the name that it was set by, and with its place in the file: `--sync-period: …`,
//! `larder.yaml:3:13: kube.pageSize: …`. `larder run --print-config` prints what is in effect as a file of settings, once it has
//! passed the same checks.

mod file;
mod setting;
mod table;

use super::{LogFormat, log_filter};
use crate::client::DEFAULT_SOCKET;
use clap::ArgMatches;
use larder_kube::ProxyEnvironment;
use larder_node::{Cluster, Config, RuntimeEndpoint};
use larder_server::{AuditError, ServeError, ServeOptions};
use larder_tls::TlsError;
use setting::Setting;
pub(crate) use setting::duration;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use table::SETTINGS;
use tracing_subscriber::filter::Targets;

/// The options that the [`table`] sets, and what it sets that is not an option as it stands.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    config: Config,
    serve: ServeOptions,
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    manifests: Option<PathBuf>,
    node_name: Option<String>,
    runtime_endpoint: Option<String>,
    log_level: String,
    pub(super) log_format: LogFormat,
    /// What has set each key that is not at its default.
    origins: HashMap<String, Origin>,
}

/// What has set a setting.
#[derive(Clone, Debug)]
enum Origin {
    Flag(&'static str),
    /// The file's path, the line and the column.
    File(String),
}

/// The flags of all settings that have one.
#[derive(Debug)]
pub(super) struct Flags(ArgMatches);

impl clap::Args for Flags {
    fn augment_args(command: clap::Command) -> clap::Command {
        let defaults = Settings::default();
        SETTINGS.iter().filter_map(|setting| setting.arg(&defaults)).fold(command, |command, arg| {
            // A flag that sets several settings has the help of the first.
            let is_there = command.get_arguments().any(|other| other.get_id() == arg.get_id());
            if is_there { command } else { command.arg(arg) }
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.clone_from(matches);
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // The node and the cluster are put in once they are known.
            config: Config::new("node", Cluster::InCluster),
            serve: ServeOptions::new(DEFAULT_SOCKET),
            kubeconfig: None,
            context: None,
            manifests: None,
            node_name: None,
            runtime_endpoint: None,
            log_level: "info".to_owned(),
            log_format: LogFormat::default(),
            origins: HashMap::new(),
        }
    }
}

impl Settings {
    /// The file, if one is named, with the flags over it.
    pub(super) fn of(file: Option<&Path>, flags: &Flags) -> anyhow::Result<Self> {
        let mut settings = Self::default();
        if let Some(path) = file {
            file::read(&mut settings, path)?;
        }
        settings.apply(flags);
        Ok(settings)
    }

    fn apply(&mut self, Flags(matches): &Flags) {
        // A source that a flag names takes the place of the file's, whichever that is.
        if matches.contains_id("manifests") || matches.contains_id("kubeconfig") {
            (self.manifests, self.kubeconfig, self.context) = (None, None, None);
        }
        for setting in SETTINGS {
            if let Some(flag) = setting.flag_name()
                && setting.take(self, matches)
            {
                self.origins.insert(setting.key(), Origin::Flag(flag));
            }
        }
    }

    /// All of it, as a file of `--config` would have it.
    pub(super) fn to_yaml(&self) -> anyhow::Result<Vec<u8>> {
        file::write(self)
    }

    /// What to log.
    ///
    /// # Errors
    ///
    /// That cannot be what is logged.
    pub(super) fn log_filter(&self) -> anyhow::Result<Targets> {
        log_filter(&self.log_level).map_err(|problem| self.refuse("log_level", &problem, None))
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
        self.options_of(cluster).map(drop)
    }

    /// As the daemon takes them, checked.
    ///
    /// # Errors
    ///
    /// The first one that cannot be used.
    pub(super) fn options(&self) -> anyhow::Result<(Config, ServeOptions)> {
        let cluster = match self.cluster()? {
            Some(cluster) => cluster,
            None if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => Cluster::InCluster,
            None => anyhow::bail!(
                "no source of pods: give a kubeconfig with --kubeconfig, or a directory of manifests with --manifests (in a \
                 pod, larder uses the pod's service account without either)"
            ),
        };
        self.options_of(cluster)
    }

    /// The source that they name.
    fn cluster(&self) -> anyhow::Result<Option<Cluster>> {
        match (&self.manifests, &self.kubeconfig) {
            (Some(_), Some(_)) => {
                let problem = "kubeconfig is also set, and larder takes pods from only one of the two: remove one";
                Err(self.refuse("cluster", problem, None))
            }
            (_, None) if self.context.is_some() => {
                let problem = "a context needs a kubeconfig: set kubeconfig in the file, or --kubeconfig";
                Err(self.refuse("context", problem, None))
            }
            (None, Some(path)) => Ok(Some(Cluster::Kubeconfig { path: path.clone(), context: self.context.clone() })),
            (Some(dir), None) => Ok(Some(Cluster::Manifests(dir.clone()))),
            (None, None) => Ok(None),
        }
    }

    fn options_of(&self, cluster: Cluster) -> anyhow::Result<(Config, ServeOptions)> {
        let mut config = self.config.clone();
        config.node_name = super::node_name(self.node_name.as_deref())?;
        config.cluster = cluster;
        config.runtime = match self.runtime_endpoint.as_deref() {
            None => RuntimeEndpoint::Search,
            Some("none") => RuntimeEndpoint::None,
            Some(endpoint) => RuntimeEndpoint::At(endpoint.to_owned()),
        };
        config.kube.proxies = ProxyEnvironment::of_process();
        let of_config = config.validate();
        let checked = of_config.map_err(|error| self.refuse(&error.field, &error.problem, error.other.as_deref()));
        let checked = checked.and_then(|()| {
            let refuse =
                |error| self.refused(&error).unwrap_or_else(|| self.refuse("socket", &error.to_string(), None));
            self.serve.validate().map_err(refuse)
        });
        checked.map(|()| (config, self.serve.clone()))
    }

    /// What is told of a setting of the server that cannot be used, which may show only at the start; `None` for another error.
    pub(super) fn refused(&self, error: &ServeError) -> Option<anyhow::Error> {
        let (field, problem) = match error {
            ServeError::Limit(limit) => (format!("limits.{}", limit.field), &limit.problem),
            ServeError::Access(access) => (format!("access.{}", access.field), &access.problem),
            ServeError::Audit(AuditError::Option { field, problem }) => (format!("audit.{field}"), problem),
            ServeError::Tls(TlsError::Option { field, problem }) => (format!("tls.{field}"), problem),
            ServeError::PassThrough(option) => (format!("pass_through.{}", option.field), &option.problem),
            _ => return None,
        };
        Some(self.refuse(&field, problem, None))
    }

    /// What is told of a setting that cannot be used: by its flag or with its place in the file, and why not. If the setting
    /// does not go with another and only that one is set, it is told with that one's place.
    fn refuse(&self, field: &str, problem: &str, other: Option<&str>) -> anyhow::Error {
        let setting = |field: &str| SETTINGS.iter().find(|setting| setting.checked_name() == field);
        let Some(key) = setting(field).map(Setting::key) else {
            return anyhow::anyhow!("setting {field}: {problem}");
        };
        let with_value = |setting: &Setting| match setting.value(self) {
            Some(value) => format!("{} ({})", setting.key(), setting::plain(&value)),
            None => setting.key(),
        };
        let (name, problem, other) = match other.and_then(setting).zip(setting(field)) {
            Some((other, this)) => {
                (with_value(this), format!("{problem} {}", with_value(other)), self.origins.get(&other.key()))
            }
            None => (key.clone(), problem.to_owned(), None),
        };
        match (self.origins.get(&key), other) {
            (Some(Origin::Flag(flag)), _) => anyhow::anyhow!("--{flag}: {problem}"),
            (Some(Origin::File(place)), _) | (None, Some(Origin::File(place))) => {
                anyhow::anyhow!("{place}: {name}: {problem}")
            }
            (None, _) => anyhow::anyhow!("setting {name}: {problem}"),
        }
    }
}

#[cfg(test)]
mod tests;
