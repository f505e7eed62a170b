//! The limit of open files: each connection is one.

use larder_node::{Cluster, Config};
use larder_server::{Limits, ServeOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files besides connections of clients and of the API server: sockets, timers, folders, configuration, the runtime.
const OTHER_FILES: u64 = 64;
/// The files of a connection whose process is being identified: the connection, the process, and one that is read.
const UNIDENTIFIED: u64 = 3;

/// Raises the soft limit of open files as far as larder may, and returns the limit of before. If the settings allow more connections than
/// that, lowers their limits, so that larder keeps files for its own work.
pub(super) fn raise_limit(config: &Config, serve: &mut ServeOptions) -> Option<u64> {
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
    if let Some(limit) = limit
        && let Some(needed) = fit(limit, config, serve)
    {
        let Limits { connections, pods_connections, foreign_connections, .. } = serve.limits;
        tracing::warn!(
            limit,
            needed,
            connections,
            pods_connections,
            foreign_connections,
            "the limit of open files is below what the settings may need, so larder takes fewer connections: raise it (LimitNOFILE= of systemd, \
             ulimit -Hn), or lower limits.connections, limits.podsConnections, kube.maxConnections and kube.http1Connections"
        );
    }
    current
}

/// A limit of connections, and how many files each has.
type Files<'a> = (&'a mut usize, u64);

/// The limits of the connections of clients.
fn of_clients(serve: &mut ServeOptions) -> Vec<Files<'_>> {
    let (has_metrics, has_listen) = (serve.metrics_address.is_some(), serve.listen.is_some());
    let (limits, passing) = (&mut serve.limits, &mut serve.pass_through);
    let mut files = vec![
        (&mut limits.connections, 1),
        (&mut limits.pods_connections, 1),
        // As many again may be of processes that are being identified.
        (&mut limits.foreign_connections, 1 + UNIDENTIFIED),
    ];
    if has_metrics {
        files.push((&mut limits.metrics_connections, 1));
    }
    if has_listen {
        files.push((&mut limits.listen_connections, 1));
        // As many again may be of clients that larder does not know, and whose requests are passed on.
        files.push((&mut limits.listen_foreign_connections, if passing.enabled { 2 } else { 1 }));
    }
    if passing.enabled {
        // Over HTTP/1.1, each request is a connection.
        files.push((&mut passing.requests, 1));
        files.push((&mut passing.upgrades, 1));
    }
    files
}

/// Lowers the limits of clients in proportion until they fit, and returns how many files the settings need if they do not.
fn fit(limit: u64, config: &Config, serve: &mut ServeOptions) -> Option<u64> {
    let of_api_server = match config.cluster {
        Cluster::Manifests(_) => 0,
        // Over HTTP/2 or HTTP/1.1, as the server offers.
        _ => config.kube.max_connections.max(config.kube.http1_connections),
    };
    let own = OTHER_FILES.saturating_add(u64::from(of_api_server));
    let mut limits = of_clients(serve);
    let files = |(count, each): &Files<'_>| u64::try_from(**count).unwrap_or(u64::MAX).saturating_mul(*each);
    let of_clients = limits.iter().map(files).fold(0, u64::saturating_add);
    let needed = own.saturating_add(of_clients);
    if needed <= limit {
        return None;
    }
    // Clients get a quarter at the least, since larder seldom has all the connections that it may.
    let room = limit.saturating_sub(own).max(limit / 4);
    for (count, _) in &mut limits {
        let part =
            u128::try_from(**count).unwrap_or(u128::MAX).saturating_mul(room.into()) / u128::from(of_clients.max(1));
        **count = usize::try_from(part).unwrap_or(usize::MAX).clamp(1, **count);
    }
    Some(needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> (Config, ServeOptions) {
        let mut serve = ServeOptions::new("l.sock");
        serve.listen = Some("127.0.0.1:0".parse().unwrap());
        (Config::new("n", Cluster::Manifests("m".into())), serve)
    }

    #[test]
    fn limits_that_fit_stay() {
        let (config, mut serve) = options();
        // 64 of its own, 512 + 2048 + 4 * 32 on the socket, 512 + 128 to listen.
        assert_eq!(fit(3392, &config, &mut serve), None);
        assert_eq!(serve.limits, Limits::default());
        assert_eq!(fit(3391, &config, &mut serve), Some(3392));
        assert_ne!(serve.limits, Limits::default());
    }

    #[test]
    fn limits_that_do_not_fit_leave_larder_files_to_work_with() {
        for limit in [10, 48, 256, 1024, 3000] {
            let (mut config, mut serve) = options();
            assert_eq!(fit(limit, &config, &mut serve), Some(3392), "{limit}");
            let taken: u64 =
                of_clients(&mut serve).iter().map(|(count, each)| u64::try_from(**count).unwrap() * each).sum();
            // Each kind of client has a connection at the least.
            let room = limit.saturating_sub(OTHER_FILES).max(limit / 4) + 8;
            assert!(taken <= room, "{limit}: {taken}");
            serve.validate().unwrap();
            config.cluster = Cluster::InCluster;
            let (_, mut beside_a_server) = options();
            beside_a_server.pass_through.enabled = true;
            fit(limit, &config, &mut beside_a_server);
            assert!(beside_a_server.limits.pods_connections <= serve.limits.pods_connections, "{limit}");
        }
        let (config, mut serve) = options();
        fit(1024, &config, &mut serve);
        let Limits { connections, pods_connections, .. } = serve.limits;
        assert!(connections > 100 && pods_connections > 500, "{connections} {pods_connections}");
    }
}
