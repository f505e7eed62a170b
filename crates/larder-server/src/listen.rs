//! The TLS listener: its socket, its certificates, and the task that keeps the certificates up to date.
//!
//! # Guarantees
//!
//! - The serving certificate is for the node's name, `localhost`, the loopback addresses, the listener's own address, and the addresses
//!   of the node's object once the node is known. larder renews it when these change.
//! - A new serving certificate closes no connection. New authorities of clients close all: larder may no longer trust their clients.
//!
//! # Locks
//!
//! One for the node whose addresses were read last, and one for the generation of connections. No other lock is taken under either.

use crate::serve::ServeError;
use larder_node::{ListenReport, Node, Report};
use larder_resource::Node as NodeObject;
use larder_tls::{ListenerTls, Refreshed, TlsOptions};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// How often the files and the addresses of the node are looked at.
const REFRESH: Duration = Duration::from_secs(5);
/// The most names and addresses that are taken from the node's object.
const MOST_NAMES: usize = 32;
/// The longest DNS name.
const LONGEST_NAME: usize = 253;

/// The state of the TLS listener.
#[derive(Debug)]
pub(crate) struct Listen {
    pub(crate) tls: Arc<ListenerTls>,
    address: SocketAddr,
    /// The names and addresses that are known without the node's object.
    fixed: BTreeSet<String>,
    /// The node's object of the last look, with its names and addresses.
    node: Mutex<Option<(Arc<NodeObject>, Vec<String>)>>,
    /// Cancelled when the authorities of clients change.
    generation: Mutex<CancellationToken>,
}

impl Listen {
    /// Listens, and reads or makes the certificates.
    pub(crate) async fn bind(
        address: SocketAddr,
        mut options: TlsOptions,
        node: &Node,
    ) -> Result<(TcpListener, Arc<Self>), ServeError> {
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        // With the real port in place of port 0.
        let address = listener.local_addr().map_err(failed)?;
        let mut fixed = BTreeSet::from(["localhost".to_owned()]);
        fixed.extend([IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()].map(|ip| ip.to_string()));
        fixed.extend(name(node.name()));
        if !address.ip().is_unspecified() {
            fixed.insert(address.ip().to_string());
        }
        // `larder kubeconfig` may run in another folder. Without a current folder, opening a relative path fails with a better error.
        options.directory = std::path::absolute(&options.directory).unwrap_or(options.directory);
        let tls = Arc::new(ListenerTls::open(options, node.name(), &fixed, wall_time(node))?);
        let (last, generation) = (Mutex::default(), Mutex::default());
        Ok((listener, Arc::new(Self { tls, address, fixed, node: last, generation })))
    }

    /// The address, with the real port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends when clients that have connected by now are to connect again.
    pub(crate) fn generation(&self) -> CancellationToken {
        self.generation.lock().clone()
    }

    /// Keeps the certificates up to date until the token is cancelled.
    pub(crate) async fn keep_up_to_date(&self, node: &Node, token: &CancellationToken) {
        let mut problems = Vec::new();
        let mut ticks = tokio::time::interval(REFRESH);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while token.run_until_cancelled(ticks.tick()).await.is_some() {
            let (tls, names, now) = (Arc::clone(&self.tls), self.names(node), wall_time(node));
            let refresh = tokio::task::spawn_blocking(move || tls.refresh(&names, now));
            // A file system that does not answer holds the thread, and not the end of the daemon.
            let Some(Ok(Refreshed { serving, clients })) = token.run_until_cancelled(refresh).await else { continue };
            if clients {
                tracing::info!("the authorities of clients have changed: clients of --listen have to connect again");
                std::mem::take(&mut *self.generation.lock()).cancel();
            }
            let state = self.tls.state(now);
            if serving {
                tracing::info!(until = %state.not_after, "new connections to --listen get a new serving certificate");
            }
            for problem in state.problems.iter().filter(|problem| !problems.contains(*problem)) {
                tracing::warn!(%problem, "a certificate of --listen needs care");
            }
            problems = state.problems;
        }
    }

    /// The names and addresses that the serving certificate is to have.
    fn names(&self, node: &Node) -> BTreeSet<String> {
        match self.names_of_node(node) {
            Some(of_node) => self.fixed.iter().cloned().chain(of_node).collect(),
            // The node may have the addresses that it had before.
            None => self.tls.names().union(&self.fixed).cloned().collect(),
        }
    }

    /// The names and addresses of the node's object; `None` while it is not known.
    fn names_of_node(&self, node: &Node) -> Option<Vec<String>> {
        let object = node.get_node(node.name()).ok()?.object;
        let mut last = self.node.lock();
        if let Some((known, names)) = &*last
            && Arc::ptr_eq(known, &object)
        {
            return Some(names.clone());
        }
        let addresses = object.typed().ok()?.status.and_then(|status| status.addresses).unwrap_or_default();
        let names: Vec<_> = addresses.iter().filter_map(|address| name(&address.address)).take(MOST_NAMES).collect();
        *last = Some((object, names.clone()));
        Some(names)
    }

    /// Where clients reach the listener.
    fn url(&self, node: &Node) -> String {
        let host = if self.address.ip().is_unspecified() {
            let of_node = self.names_of_node(node).unwrap_or_default();
            let address = of_node.iter().find_map(|name| name.parse::<IpAddr>().ok());
            address.unwrap_or(Ipv4Addr::LOCALHOST.into())
        } else {
            self.address.ip()
        };
        format!("https://{}", SocketAddr::new(host, self.address.port()))
    }

    /// Registers the metrics of the listener.
    pub(crate) fn register_metrics(self: &Arc<Self>, registry: &mut Registry) {
        registry.register_collector(Box::new(Gauges(Arc::clone(self))));
    }

    /// Adds the listener to a report.
    pub(crate) fn report(&self, node: &Node, report: &mut Report) {
        let state = self.tls.state(wall_time(node));
        report.degraded.extend(state.problems.iter().map(|problem| format!("listen: {problem}")));
        let mut listen = ListenReport::default();
        listen.url = self.url(node);
        listen.names = state.names.into_iter().collect();
        listen.not_after = state.not_after;
        (listen.cert_file, listen.directory) = (state.cert_file, state.directory);
        listen.admin_group = state.admin_group;
        listen.tokens = node.token_keys_report();
        report.degraded.extend(node.token_keys_failure().map(|why| format!("keys of tokens: {why}")));
        report.listen = Some(listen);
    }
}

/// The metrics of the listener, as of each scrape.
#[derive(Debug)]
struct Gauges(Arc<Listen>);

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let metric = encoder.encode_descriptor(
            "larder_serving_certificate_expiration_timestamp",
            "When the serving certificate of --listen expires, in seconds since 1970",
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        ConstGauge::new(self.0.tls.not_after().as_second()).encode(metric)
    }
}

/// The wall time of this node.
pub(crate) fn wall_time(node: &Node) -> jiff::Timestamp {
    node.wall_time(node.now()).unwrap_or_default()
}

/// A name or an address as a certificate has it; `None` if it is neither.
fn name(text: &str) -> Option<String> {
    let text = text.trim();
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.to_string());
    }
    let is_part = |part: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=63).contains(&part.len()) && part.bytes().all(is_allowed) && !part.starts_with('-')
    };
    (text.len() <= LONGEST_NAME && text.split('.').all(is_part)).then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_and_addresses_stand_in_a_certificate() {
        for (text, expected) in [
            ("node-1", Some("node-1")),
            (" Node-1.Example.org ", Some("node-1.example.org")),
            ("10.0.0.7", Some("10.0.0.7")),
            ("FE80::1", Some("fe80::1")),
            ("", None),
            ("a..b", None),
            ("a_b", None),
            ("-a", None),
            ("*.example.org", None),
            ("äpfel", None),
            ("a b", None),
        ] {
            assert_eq!(name(text).as_deref(), expected, "{text:?}");
        }
        assert_eq!(name(&"a".repeat(64)), None);
        assert_eq!(name(&"a.".repeat(127)), None);
    }
}
