//! The sections of the file of settings. Their fields are documented where the settings themselves are.

use super::duration;
use larder_kube::KubeOptions;
use larder_node::{Cluster, Config, Policy};
use larder_pleg::PlegOptions;
use larder_server::Limits;
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;
use std::time::Duration;

/// [`Policy`], all of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PolicySection {
    keep_last_known: bool,
    fetch_on_reference: bool,
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
    #[serde(with = "duration")]
    head_timeout: Duration,
    #[serde(with = "duration")]
    stall_timeout: Duration,
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
    dead_link_timeout: Duration,
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
    max_object_bytes: usize,
    max_page_bytes: usize,
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
/// Without the dots, a field that the options have and the section has not is refused.
macro_rules! section {
    ($section:ident of $options:ident from $default:expr; $($field:ident,)* $(..$($rest:tt)?)?) => {
        impl $section {
            pub(super) fn of(options: $options) -> Self {
                let $options { $($field,)* $(..$($rest)?)? } = options;
                Self { $($field),* }
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
    head_timeout,
    stall_timeout,
    drain_timeout,
}

section! {
    KubeSection of KubeOptions from Config::new("node", Cluster::InCluster).kube;
    connect_timeout,
    dead_link_timeout,
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
    max_object_bytes,
    max_page_bytes,
    ..
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
    ..
}
