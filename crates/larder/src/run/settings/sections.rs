//! The sections of the file of settings. Their fields are documented where the settings themselves are.

use super::duration;
use larder_cri::CriOptions;
use larder_kube::KubeOptions;
use larder_node::{ChangeDetection, Cluster, Config, Policy, Strategy};
use larder_pleg::PlegOptions;
use larder_server::Limits;
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;
use std::time::Duration;

/// How objects of each kind are kept up to date.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ChangeDetectionSection {
    secrets: StrategyWord,
    config_maps: StrategyWord,
}

/// [`Strategy`] by its name.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StrategyWord {
    Direct,
    Ttl,
    Watch,
    Auto,
}

impl From<Strategy> for StrategyWord {
    fn from(strategy: Strategy) -> Self {
        match strategy {
            Strategy::Direct => Self::Direct,
            Strategy::Ttl => Self::Ttl,
            Strategy::Watch => Self::Watch,
            Strategy::Auto => Self::Auto,
        }
    }
}

impl From<StrategyWord> for Strategy {
    fn from(word: StrategyWord) -> Self {
        match word {
            StrategyWord::Direct => Self::Direct,
            StrategyWord::Ttl => Self::Ttl,
            StrategyWord::Watch => Self::Watch,
            StrategyWord::Auto => Self::Auto,
        }
    }
}

impl From<ChangeDetection> for ChangeDetectionSection {
    fn from(detection: ChangeDetection) -> Self {
        Self { secrets: detection.secrets.into(), config_maps: detection.config_maps.into() }
    }
}

impl From<ChangeDetectionSection> for ChangeDetection {
    fn from(section: ChangeDetectionSection) -> Self {
        let mut detection = Self::default();
        detection.secrets = section.secrets.into();
        detection.config_maps = section.config_maps.into();
        detection
    }
}

impl Default for ChangeDetectionSection {
    fn default() -> Self {
        ChangeDetection::default().into()
    }
}

/// [`Policy`], all of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PolicySection {
    pub(super) keep_last_known: bool,
    fetch_on_reference: bool,
    pub(super) serve_absences: bool,
    first_read_as_new_as_pod: bool,
    hold_immutable: bool,
    watch_namespaces: bool,
    release_ended_pods: bool,
    #[serde(with = "duration")]
    fetch_backoff_initial: Duration,
    #[serde(with = "duration")]
    fetch_backoff_max: Duration,
    accept_older_versions: bool,
}

/// [`Limits`], all of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct LimitsSection {
    connections: usize,
    foreign_connections: usize,
    metrics_connections: usize,
    metrics_requests_per_connection: usize,
    #[serde(with = "duration")]
    head_timeout: Duration,
    #[serde(with = "duration")]
    stall_timeout: Duration,
    #[serde(with = "duration")]
    metrics_head_timeout: Duration,
    #[serde(with = "duration")]
    metrics_stall_timeout: Duration,
    #[serde(with = "duration")]
    drain_timeout: Duration,
}

/// Those of [`KubeOptions`] that depend on a cluster and the way to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct KubeSection {
    #[serde(with = "duration")]
    connect_timeout: Duration,
    #[serde(with = "duration")]
    plugin_deadline: Duration,
    #[serde(with = "duration")]
    dead_link_timeout: Duration,
    #[serde(with = "duration")]
    ping_interval: Duration,
    #[serde(with = "duration")]
    fetch_deadline: Duration,
    #[serde(with = "duration")]
    list_deadline: Duration,
    #[serde(with = "duration")]
    watch_deadline: Duration,
    #[serde(with = "duration")]
    watch_timeout: Duration,
    #[serde(with = "duration")]
    idle_timeout: Duration,
    #[serde(with = "duration")]
    backoff_initial: Duration,
    #[serde(with = "duration")]
    backoff_max: Duration,
    #[serde(with = "duration")]
    retry_after_max: Duration,
    #[serde(with = "duration")]
    forbidden_grace: Duration,
    page_size: u32,
    streams_per_connection: u32,
    max_connections: u32,
    http1_connections: u32,
    starts_in_flight: u32,
    max_object_bytes: usize,
    max_page_bytes: usize,
}

/// Those of [`CriOptions`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct CriSection {
    #[serde(with = "duration")]
    connect_timeout: Duration,
    #[serde(with = "duration")]
    list_timeout: Duration,
    #[serde(with = "duration")]
    status_timeout: Duration,
    max_message_bytes: usize,
}

/// Those of [`PlegOptions`] that depend on a node and its runtime.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PlegSection {
    #[serde(with = "duration")]
    relist_period: Duration,
    #[serde(with = "duration")]
    relist_threshold: Duration,
    #[serde(with = "duration")]
    relist_pause: Duration,
    inspection_concurrency: NonZeroUsize,
    #[serde(with = "duration::or_none")]
    inspection_deadline: Option<Duration>,
    #[serde(with = "duration")]
    inspection_backoff_initial: Duration,
    #[serde(with = "duration")]
    inspection_backoff_max: Duration,
}

/// Copies settings between a section and the options that it is of, both ways, and gives the section a daemon's defaults.
macro_rules! section {
    ($section:ident of $options:ident from $default:expr; $($field:ident,)*) => {
        impl $section {
            pub(super) fn of(options: $options) -> Self {
                Self { $($field: options.$field),* }
            }

            pub(super) fn apply(self, options: &mut $options) {
                $(options.$field = self.$field;)*
            }
        }

        impl Default for $section {
            fn default() -> Self {
                Self::of($default)
            }
        }
    };
}

section! {
    PolicySection of Policy from Policy::default();
    keep_last_known,
    fetch_on_reference,
    serve_absences,
    first_read_as_new_as_pod,
    hold_immutable,
    watch_namespaces,
    release_ended_pods,
    fetch_backoff_initial,
    fetch_backoff_max,
    accept_older_versions,
}

section! {
    LimitsSection of Limits from Limits::default();
    connections,
    foreign_connections,
    metrics_connections,
    metrics_requests_per_connection,
    head_timeout,
    stall_timeout,
    metrics_head_timeout,
    metrics_stall_timeout,
    drain_timeout,
}

section! {
    KubeSection of KubeOptions from Config::new("node", Cluster::InCluster).kube;
    connect_timeout,
    plugin_deadline,
    dead_link_timeout,
    ping_interval,
    fetch_deadline,
    list_deadline,
    watch_deadline,
    watch_timeout,
    idle_timeout,
    backoff_initial,
    backoff_max,
    retry_after_max,
    forbidden_grace,
    page_size,
    streams_per_connection,
    max_connections,
    http1_connections,
    starts_in_flight,
    max_object_bytes,
    max_page_bytes,
}

section! {
    CriSection of CriOptions from Config::new("node", Cluster::InCluster).cri;
    connect_timeout,
    list_timeout,
    status_timeout,
    max_message_bytes,
}

section! {
    PlegSection of PlegOptions from Config::new("node", Cluster::InCluster).pleg;
    relist_period,
    relist_threshold,
    relist_pause,
    inspection_concurrency,
    inspection_deadline,
    inspection_backoff_initial,
    inspection_backoff_max,
}
