//! The counters and gauges of a client.

use std::sync::atomic::{AtomicU64, Ordering};

/// The gauges and counters of a [`KubeClient`](crate::KubeClient) and everything made from it.
///
/// ```
/// let client = larder_kube::KubeClient::without_credentials("http://example", Default::default())?;
/// let stats = client.stats();
/// assert_eq!((stats.connections_open, stats.watches_open), (0, 0));
/// # Ok::<(), larder_kube::KubeError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KubeStats {
    /// Open HTTP/2 connections. HTTP/1.1 connections, one for each watch, are not counted.
    pub connections_open: u64,
    /// HTTP/2 connections opened.
    pub connections_opened: u64,
    /// Connections that could not be opened.
    pub connections_failed: u64,
    /// Connections closed after an unanswered PING.
    pub pings_lost: u64,
    /// Requests in flight on HTTP/2 connections, watches included.
    pub streams_open: u64,
    /// Open watches on all connections.
    pub watches_open: u64,
    /// Watches started, resumed ones and streaming lists included.
    pub watches_begun: u64,
    /// Running reflectors of objects and namespaces.
    pub reflectors: u64,
    /// Streaming lists, as the start of a watch.
    pub streaming_lists: u64,
    /// Lists in requests of their own; pages are not counted.
    pub lists: u64,
    /// Streaming lists that the server refused.
    pub streaming_refused: u64,
    /// New lists after an expired version (410).
    pub relists_expired: u64,
    /// New lists after versions went back, as after a restore of etcd.
    pub relists_went_back: u64,
    /// New lists after an unreadable event or object.
    pub relists_unreadable: u64,
    /// New lists after a watch was silent for too long.
    pub relists_silent: u64,
    /// New lists after a watch kept failing at its version.
    pub relists_failing: u64,
    /// Lists and watches that failed.
    pub failures: u64,
    /// Reads of the configuration and its files.
    pub configuration_reads: u64,
    /// Changes of the configuration or the plugin's credentials that took effect.
    pub configuration_changes: u64,
    /// Failures to read or use the configuration, or of the plugin.
    pub configuration_failures: u64,
    /// Runs of the credential plugin.
    pub plugin_runs: u64,
}

macro_rules! counters {
    ($($field:ident),* $(,)?) => {
        /// The counters behind [`KubeStats`]. Relaxed: each is independent.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $($field: AtomicU64,)*
        }

        impl Counters {
            pub(crate) fn stats(&self) -> KubeStats {
                KubeStats { $($field: self.$field.load(Ordering::Relaxed),)* }
            }
        }
    };
}
counters!(
    connections_open,
    connections_opened,
    connections_failed,
    pings_lost,
    streams_open,
    watches_open,
    watches_begun,
    reflectors,
    streaming_lists,
    lists,
    streaming_refused,
    relists_expired,
    relists_went_back,
    relists_unreadable,
    relists_silent,
    relists_failing,
    failures,
    configuration_reads,
    configuration_changes,
    configuration_failures,
    plugin_runs,
);

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn sub(counter: &AtomicU64) {
    counter.fetch_sub(1, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn connection_opened(&self) {
        add(&self.connections_open);
        add(&self.connections_opened);
    }

    pub(crate) fn connection_closed(&self) {
        sub(&self.connections_open);
    }

    pub(crate) fn connection_failed(&self) {
        add(&self.connections_failed);
    }

    pub(crate) fn ping_lost(&self) {
        add(&self.pings_lost);
    }

    pub(crate) fn stream_opened(&self) {
        add(&self.streams_open);
    }

    pub(crate) fn stream_closed(&self) {
        sub(&self.streams_open);
    }

    pub(crate) fn watch_opened(&self) {
        add(&self.watches_open);
        add(&self.watches_begun);
    }

    pub(crate) fn watch_closed(&self) {
        sub(&self.watches_open);
    }

    pub(crate) fn reflector_started(&self) {
        add(&self.reflectors);
    }

    pub(crate) fn reflector_ended(&self) {
        sub(&self.reflectors);
    }

    pub(crate) fn listed(&self) {
        add(&self.lists);
    }

    pub(crate) fn listed_streaming(&self) {
        add(&self.streaming_lists);
    }

    pub(crate) fn refused_streaming(&self) {
        add(&self.streaming_refused);
    }

    pub(crate) fn relisted_expired(&self) {
        add(&self.relists_expired);
    }

    pub(crate) fn relisted_went_back(&self) {
        add(&self.relists_went_back);
    }

    pub(crate) fn relisted_unreadable(&self) {
        add(&self.relists_unreadable);
    }

    pub(crate) fn relisted_silent(&self) {
        add(&self.relists_silent);
    }

    pub(crate) fn relisted_failing(&self) {
        add(&self.relists_failing);
    }

    pub(crate) fn failed(&self) {
        add(&self.failures);
    }

    pub(crate) fn session_read(&self) {
        add(&self.configuration_reads);
    }

    pub(crate) fn session_changed(&self) {
        add(&self.configuration_changes);
    }

    pub(crate) fn session_failed(&self) {
        add(&self.configuration_failures);
    }

    pub(crate) fn plugin_run(&self) {
        add(&self.plugin_runs);
    }
}
