//! The counters and gauges of a client.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a [`KubeClient`](crate::KubeClient) and everything made from it has open and has counted since it was made.
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
    /// HTTP/2 connections that are open. Those of HTTP/1.1, of which each watch has one, are not counted.
    pub connections_open: u64,
    /// HTTP/2 connections that were opened.
    pub connections_opened: u64,
    /// Connections that could not be opened.
    pub connections_failed: u64,
    /// Connections that were given up because a PING was not answered.
    pub pings_lost: u64,
    /// Requests that have a place on an HTTP/2 connection, watches included.
    pub streams_open: u64,
    /// Watches that are open, on whatever connection.
    pub watches_open: u64,
    /// Watches that were begun, resumed ones and streaming lists included.
    pub watches_begun: u64,
    /// Reflectors of objects and namespaces that run.
    pub reflectors: u64,
    /// Lists that came as the beginning of a watch.
    pub streaming_lists: u64,
    /// Lists that were requests of their own, pages not counted.
    pub lists: u64,
    /// Streaming lists that the server refused.
    pub streaming_refused: u64,
    /// Lists made again because the version to go on from was too old (410).
    pub relists_expired: u64,
    /// Lists made again because versions went back, as after a restore of etcd.
    pub relists_went_back: u64,
    /// Lists made again because something could not be read.
    pub relists_unreadable: u64,
    /// Lists made again because a watch said nothing for too long.
    pub relists_silent: u64,
    /// Lists made again because a watch kept failing at its version.
    pub relists_failing: u64,
    /// Lists and watches that failed.
    pub failures: u64,
    /// Times that the configuration and its files were read.
    pub configuration_reads: u64,
    /// Times that they, or a plugin's credentials, had changed and took effect.
    pub configuration_changes: u64,
    /// Times that they could not be read or used, or that the plugin failed.
    pub configuration_failures: u64,
    /// Runs of the credential plugin.
    pub plugin_runs: u64,
}

macro_rules! counters {
    ($($field:ident),* $(,)?) => {
        /// The counters behind [`KubeStats`]. Relaxed throughout: each stands for itself.
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

    /// Counts a reflector for as long as the answer lives.
    pub(crate) fn reflector(&self) -> impl Sized {
        add(&self.reflectors);
        Counted(&self.reflectors)
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

/// A gauge that is one less when this goes.
struct Counted<'a>(&'a AtomicU64);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        sub(self.0);
    }
}
