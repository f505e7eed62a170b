//! Deadlines, backoff and limits of all requests to the API server.

use crate::connector::Connector;
use crate::error::KubeError;
use crate::proxy::ProxyEnvironment;
use larder_clock::Jitter;
use std::sync::Arc;
use std::time::Duration;

/// Settings of a [`KubeClient`](crate::KubeClient) and of all that reads through it.
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
    /// What opens the streams to servers and proxies. None for TCP; a test can have a server in its own process.
    pub connector: Option<Arc<dyn Connector>>,
    /// The proxies that lead to servers whose kubeconfig names none. None; a program that is to heed its own environment, as
    /// Go's do, takes [`ProxyEnvironment::of_process`].
    pub proxies: ProxyEnvironment,
    /// The longest that a connection may take, with the tunnel through a proxy and the TLS handshake. 10 s: a server that is there answers in far less.
    pub connect_timeout: Duration,
    /// The longest that a credential plugin may run before it is killed. 30 s: one asks its own server, which may be slow.
    pub plugin_deadline: Duration,
    /// The longest that data may go unacknowledged, or an idle connection's probes unanswered, before the kernel gives
    /// the connection up; and the longest that an HTTP/2 connection may bring nothing, PINGs not answered. 30 s, about what
    /// the kubelet's health checks of its connections take.
    pub dead_link_timeout: Duration,
    /// After how long in which an HTTP/2 connection has brought nothing it is asked for a sign of life (PING). 5 s: what a
    /// quiet watch has brought is then confirmed at least every 10 s. It must be at least a millisecond, and shorter
    /// than `dead_link_timeout`, in whose rest the answer must come.
    pub ping_interval: Duration,
    /// The longest that a read of one Secret or ConfigMap may take. 10 s: longer than a server takes under load, short
    /// enough that a pod's start gets an answer.
    pub fetch_deadline: Duration,
    /// The longest that one page of a list may take. 60 s, as an API server allows itself.
    pub list_deadline: Duration,
    /// The longest that a server may take to begin a watch. 30 s, of which it may spend some in its queue.
    pub watch_deadline: Duration,
    /// How long a watch is asked to last at least; each asks for a random time between this and twice this, so that many
    /// nodes do not come back at once. 30 min: a server ends it sooner if it wants to.
    pub watch_timeout: Duration,
    /// The longest that a watch may say nothing before it is begun anew where it stood. 150 s: an API server sends a
    /// bookmark about once a minute, so two have been missed by then.
    pub idle_timeout: Duration,
    /// The first pause after a failure of a list or watch; doubled at each further one, and cut by up to half at random.
    /// 500 ms.
    pub backoff_initial: Duration,
    /// The longest pause between attempts of a list or watch. 30 s. While the server cannot be reached at all, pods and node
    /// are tried at least every 5 s, and the first success of any request ends the pauses of all, so that after an outage
    /// everything is fresh within some seconds. So it is after a 5xx, 401, 429 or 3xx, but no pause ends before the time that
    /// a `Retry-After` asks for, and what goes on failing while others succeed is left alone for longer and longer.
    pub backoff_max: Duration,
    /// The longest pause that a server can ask for with `Retry-After`. 2 min: a mistaken header does not blind a node.
    pub retry_after_max: Duration,
    /// For how long after a pod's arrival a 403 for an object of its namespace is asked again instead of believed, since
    /// the Node authorizer learns of a pod a moment later than its node does. 10 s; zero believes at once.
    pub forbidden_grace: Duration,
    /// How many objects a page of a list has at most. 250: a node's pods in one page, and a bound on memory for a huge one.
    pub page_size: u32,
    /// How many watches share an HTTP/2 connection at most, nine tenths of what the server allows being the other limit.
    /// 90: API servers allow 100 requests, and reads need room beside watches.
    pub streams_per_connection: u32,
    /// How many HTTP/2 connections are open at most. Objects whose watches do not fit are listed again and again instead. 128: 11,520 watches, many
    /// times what a full node refers to, and few enough that a mistake cannot use up a server's sockets.
    pub max_connections: u32,
    /// How many requests are in flight at most over HTTP/1.1, where each takes a connection. Further reads wait. Watches
    /// take at most nine tenths, so that reads find room; objects whose watches do not fit are listed again and again instead. 512: half of the files that a process may have open by default.
    pub http1_connections: u32,
    /// How many lists and beginnings of watches of single objects are under way at most. 16: a node that starts with
    /// hundreds of objects has them within a second, and a server that restarts is not overrun by each of its nodes.
    pub starts_in_flight: u32,
    /// Where pauses and the lengths of watches take their random parts from. The default is random; a simulation passes one
    /// from a seed.
    pub jitter: Jitter,
    /// The largest object that is taken, in bytes of JSON. 8 MiB: etcd stores 1.5 MiB, and JSON can be several times that.
    pub max_object_bytes: usize,
    /// The largest page of a list that is taken, in bytes. 64 MiB: a page of pods at 256 KiB each.
    pub max_page_bytes: usize,
}

impl Default for KubeOptions {
    fn default() -> Self {
        Self {
            connector: None,
            proxies: ProxyEnvironment::default(),
            connect_timeout: Duration::from_secs(10),
            plugin_deadline: Duration::from_secs(30),
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
    /// [`KubeError::InvalidOption`] with the first field that makes no sense.
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
