//! The limit of open files: each connection is one.

use larder_node::{Cluster, Config};
use larder_server::ServeOptions;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files besides connections of clients and of the API server: sockets, timers, folders, configuration, the runtime.
const OTHER_FILES: u64 = 64;

/// Raises the soft limit of open files as far as larder may, and returns the limit of before. Warns if the settings allow more
/// connections than that.
pub(super) fn raise_limit(config: &Config, serve: &ServeOptions) -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // `None` is no limit.
    let limit = if current == maximum {
        current
    } else {
        match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
            Ok(()) => maximum,
            Err(error) => {
                tracing::warn!(%error, "cannot raise the limit of open files");
                current
            }
        }
    };
    let needed = needed(config, serve);
    if let Some(limit) = limit.filter(|limit| *limit < needed) {
        tracing::warn!(
            limit,
            needed,
            "the limit of open files is below what the settings may need: raise it (LimitNOFILE= of systemd, ulimit -Hn), or lower \
             limits.connections, kube.maxConnections and kube.http1Connections"
        );
    }
    current
}

/// The most files that these settings let larder have open.
fn needed(config: &Config, serve: &ServeOptions) -> u64 {
    let limits = &serve.limits;
    let metrics = serve.metrics_address.map_or(0, |_| limits.metrics_connections);
    let listen =
        serve.listen.map_or(0, |_| limits.listen_connections.saturating_add(limits.listen_foreign_connections));
    let passing = &serve.pass_through;
    // Over HTTP/1.1, each request is a connection. Clients that larder does not know have connections of their own.
    let to_server = passing.requests.saturating_add(passing.upgrades);
    let passed = if passing.enabled { to_server.saturating_add(limits.listen_foreign_connections) } else { 0 };
    let clients = [limits.connections, limits.foreign_connections, metrics, listen, passed];
    let api_server = match config.cluster {
        Cluster::Manifests(_) => 0,
        // Over HTTP/2 or HTTP/1.1, as the server offers.
        _ => config.kube.max_connections.max(config.kube.http1_connections),
    };
    let clients = clients.map(|files| u64::try_from(files).unwrap_or(u64::MAX));
    clients.into_iter().fold(OTHER_FILES + u64::from(api_server), u64::saturating_add)
}
