//! Deadlines, backoff and limits of all requests to the API server.

use crate::connector::Connector;
use crate::error::KubeError;
use crate::proxy::ProxyEnvironment;
use larder_clock::Jitter;
use std::sync::Arc;
use std::time::Duration;

/// Settings of a [`KubeClient`](crate::KubeClient) and of everything made from it.
///
/// ```
/// use larder_kube::KubeOptions;
/// use std::time::Duration;
/// let mut options = KubeOptions::default();
/// options.fetch_deadline = Duration::ZERO;
/// assert_eq!(options.validate().unwrap_err().to_string(), "setting fetch_deadline: must be longer than nothing");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KubeOptions {
    /// Opens the streams to servers and proxies. None for TCP; a test can connect to a server in its own process.
    pub connector: Option<Arc<dyn Connector>>,
    /// The proxies of servers whose kubeconfig names none. Default: none; pass [`ProxyEnvironment::of_process`] to respect the
    /// environment, as Go's programs do.
    pub proxies: ProxyEnvironment,
    /// The time limit of a new connection, with the proxy's tunnel and the TLS handshake. 10 s: a live server needs far less.
    pub connect_timeout: Duration,
    /// The time limit of a credential plugin, which is killed then. 30 s: a plugin may ask a slow server.
    pub plugin_deadline: Duration,
    /// The soft limit of open files of a credential plugin. None: the limit of this process. A program that raises its own limit
    /// passes the limit of before, because a plugin may use `select(2)`, which knows 1,024 files.
    pub plugin_open_files: Option<u64>,
    /// Close a connection whose data or probes are unacknowledged for this long, and an HTTP/2 connection that receives nothing
    /// for this long, PING replies included. 30 s, about as the kubelet's health checks.
    pub dead_link_timeout: Duration,
    /// Send a PING on an HTTP/2 connection that has been silent for this long. 5 s: a quiet watch is then confirmed at least
    /// every 10 s. At least a millisecond, and shorter than `dead_link_timeout`, within which the reply must come.
    pub ping_interval: Duration,
    /// The time limit of a read of one Secret or ConfigMap. 10 s: enough for a loaded server, and short enough for a pod's
    /// start.
    pub fetch_deadline: Duration,
    /// The time limit of a page of a list. 60 s, the API server's own limit.
    pub list_deadline: Duration,
    /// The time limit of the start of a watch. 30 s, because the server may queue the request.
    pub watch_deadline: Duration,
    /// The shortest time for which larder asks the server to keep a watch; each watch asks for a random time up to twice this,
    /// so that nodes do not reconnect together. 30 min; the server may close earlier.
    pub watch_timeout: Duration,
    /// Restart a watch that has been silent for this long. 150 s: an API server sends a bookmark about once a minute, so two
    /// are missing.
    pub idle_timeout: Duration,
    /// The pause after the first failure of a list or watch; it doubles with each failure, less a random part of up to half.
    /// 500 ms.
    pub backoff_initial: Duration,
    /// The longest pause between attempts of a list or watch. 30 s. While the server is unreachable, pods and node are tried at
    /// least every 5 s. After an outage (unreachable, 5xx, 401, 429 or 3xx) the first success of any request ends the pauses of
    /// all, but not before a `Retry-After`. A request that keeps failing while others succeed backs off further.
    pub backoff_max: Duration,
    /// The longest `Retry-After` that larder respects. 2 min: a wrong header must not blind a node.
    pub retry_after_max: Duration,
    /// How long after a pod's arrival a 403 for an object of its namespace is retried, because the Node authorizer learns of
    /// the pod later than the node. A single fetch gives up at `fetch_deadline`. Until the pods are watched again after an outage, a
    /// 403 is retried in every namespace. 10 s; zero never retries.
    pub forbidden_grace: Duration,
    /// The most objects of a page. 250: a node's pods fit one page, and memory is bounded.
    pub page_size: u32,
    /// The most watches on an HTTP/2 connection; nine tenths of the server's limit if that is lower. 90: API servers allow 100
    /// requests, and reads need room.
    pub streams_per_connection: u32,
    /// The most open HTTP/2 connections. Objects whose watches do not fit are polled. 128: 11,520 watches, many times a full
    /// node's, without using up a server's sockets.
    pub max_connections: u32,
    /// The most requests in flight over HTTP/1.1, each on its own connection; further reads wait. Watches take at most nine
    /// tenths; objects whose watches do not fit are polled. 512: half of the default limit of open files.
    pub http1_connections: u32,
    /// The most lists and watches of single objects that start at a time. 16: hundreds of objects are read within a second, and
    /// a restarted server is not overrun by all its nodes.
    pub starts_in_flight: u32,
    /// The random part of pauses and watch lengths. Random by default; a simulation passes a seed.
    pub jitter: Jitter,
    /// The largest object, in bytes of JSON. 8 MiB: etcd stores 1.5 MiB, and JSON can be several times that.
    pub max_object_bytes: usize,
    /// The largest page of a list, in bytes. 64 MiB: a page of pods at 256 KiB each.
    pub max_page_bytes: usize,
}

impl Default for KubeOptions {
    fn default() -> Self {
        Self {
            connector: None,
            proxies: ProxyEnvironment::default(),
            connect_timeout: Duration::from_secs(10),
            plugin_deadline: Duration::from_secs(30),
            plugin_open_files: None,
            dead_link_timeout: Duration::from_secs(30),
            ping_interval: Duration::from_secs(5),
            fetch_deadline: Duration::from_secs(10),
            list_deadline: Duration::from_mins(1),
            watch_deadline: Duration::from_secs(30),
            watch_timeout: Duration::from_mins(30),
            idle_timeout: Duration::from_secs(150),
            backoff_initial: Duration::from_millis(500),
            backoff_max: Duration::from_secs(30),
            retry_after_max: Duration::from_mins(2),
            forbidden_grace: Duration::from_secs(10),
            page_size: 250,
            streams_per_connection: 90,
            max_connections: 128,
            http1_connections: 512,
            starts_in_flight: 16,
            jitter: Jitter::default(),
            max_object_bytes: 8 << 20,
            max_page_bytes: 64 << 20,
        }
    }
}

/// The most of anything that is counted: a machine has fewer ports towards a server.
const MOST: u32 = 1 << 16;

impl KubeOptions {
    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// [`KubeError::InvalidOption`] with the first invalid field.
    pub fn validate(&self) -> Result<(), KubeError> {
        let refuse =
            |field, problem: &str, other| Err(KubeError::InvalidOption { field, problem: problem.to_owned(), other });
        let invalid = |field, problem: &str| refuse(field, problem, None);
        for (field, duration) in [
            ("connect_timeout", self.connect_timeout),
            ("plugin_deadline", self.plugin_deadline),
            ("dead_link_timeout", self.dead_link_timeout),
            ("ping_interval", self.ping_interval),
            ("fetch_deadline", self.fetch_deadline),
            ("list_deadline", self.list_deadline),
            ("watch_deadline", self.watch_deadline),
            ("watch_timeout", self.watch_timeout),
            ("idle_timeout", self.idle_timeout),
            ("backoff_initial", self.backoff_initial),
            ("backoff_max", self.backoff_max),
        ] {
            if duration.is_zero() {
                return invalid(field, "must be longer than nothing");
            }
            if duration > Duration::from_hours(7 * 24) {
                return invalid(field, "must not be longer than a week");
            }
        }
        if self.watch_timeout < Duration::from_secs(1) {
            return invalid("watch_timeout", "must be at least a second, the unit in which servers take it");
        }
        if self.ping_interval < Duration::from_millis(1) {
            return invalid("ping_interval", "must be at least a millisecond");
        }
        if self.ping_interval >= self.dead_link_timeout {
            return refuse("ping_interval", "must be shorter than", Some("dead_link_timeout"));
        }
        if self.backoff_max < self.backoff_initial {
            return refuse("backoff_max", "must not be shorter than", Some("backoff_initial"));
        }
        for (field, number) in [
            ("page_size", self.page_size),
            ("streams_per_connection", self.streams_per_connection),
            ("max_connections", self.max_connections),
            ("starts_in_flight", self.starts_in_flight),
        ] {
            if !(1..=MOST).contains(&number) {
                return invalid(field, "must be from 1 to 65536");
            }
        }
        if !(2..=MOST).contains(&self.http1_connections) {
            return invalid("http1_connections", "must be from 2 to 65536: one for watches, and one for reads");
        }
        for (field, bytes) in [("max_object_bytes", self.max_object_bytes), ("max_page_bytes", self.max_page_bytes)] {
            if bytes == 0 || u32::try_from(bytes).is_err() {
                return invalid(field, "must be at least 1 byte and less than 4 GiB");
            }
        }
        Ok(())
    }
}
