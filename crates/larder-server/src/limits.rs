//! The limits of clients: connections, requests and time.

use std::time::Duration;

/// The most connections that a setting may allow: more than a process may have files.
const MOST_CONNECTIONS: usize = 1 << 20;
/// The least bytes that a setting may allow: a few answers fit.
const LEAST_BYTES: usize = 64 << 10;
/// The most bytes that a setting may allow: more than a node has.
const MOST_BYTES: usize = 1 << 40;
/// The longest time that a setting may allow.
const LONGEST: Duration = Duration::from_hours(24);

/// An invalid limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting limits.{field}: {problem}")]
#[non_exhaustive]
pub struct LimitError {
    /// The field of [`Limits`].
    pub field: &'static str,
    /// What is wrong with it, and which values are valid.
    pub problem: String,
}

/// The limits of clients, so that one that hangs or floods harms nobody else.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Open connections of the host's root and the daemon's own user together. Default: 512. For one more, larder closes the connection that
    /// has waited longest for its client: an idle one, a slow sender, or a slow reader. If larder is busy for every client, it answers
    /// the new one with 503.
    pub connections: usize,
    /// Open connections of one pod: of its containers to the socket, and over TLS from the first good token of the pod on. Default: 16, counted
    /// for each pod, so that no pod takes a connection from another or from admins. One more is treated as above. A user of the host, or a
    /// client with a certificate, to whom a rule of the policy file shows something may have as many.
    pub pod_connections: usize,
    /// Open connections of all pods and of such users together. Default: 2048, which no node of 110 pods reaches. For one more, larder closes one
    /// of the pod that has the most, so that a pod gets one whatever others do.
    pub pods_connections: usize,
    /// Requests in flight of one pod, or of such a user or client, watches and waits among them. Default: 100. One more is answered with 429.
    pub pod_requests: usize,
    /// Open watches of one pod, or of such a user or client. Default: 64: an informer has one for each kind. One more is answered with 429.
    pub pod_watches: usize,
    /// Bytes of answers that one pod, or such a user or client, has not taken yet. Default: 32 MiB: the list of 110 pods has about one. An
    /// answer beyond that is refused with 429; an identity that holds nothing may have one of any size.
    pub pod_bytes: usize,
    /// The same of all pods and such users and clients together. Default: 256 MiB. Beyond that, each may still have an equal share.
    pub pods_bytes: usize,
    /// Open connections of other callers, who get only a 403. Default: 32, counted separately, so that they take no connection from
    /// root. As many may be of processes in containers that the container runtime has not told of yet. One more is treated as above.
    pub foreign_connections: usize,
    /// Requests that one connection over HTTP/2 may have under way at once. Default: 100, as the API server's.
    pub http2_streams: usize,
    /// Requests in flight of root, and of each other admin, watches among them. Default: 2048. One more is answered with 429.
    pub admin_requests: usize,
    /// Bytes of answers that root, or another admin, has not taken yet. Default: 1 GiB: some hundred agents may list at once. An answer
    /// beyond that is refused with 429.
    pub admin_bytes: usize,
    /// Open connections of clients that may read, to the TLS listener. Default: 512. One more is treated as above.
    pub listen_connections: usize,
    /// Connections to the TLS listener in their handshake, and of clients that may not read or have not shown a token yet. Default: 128, counted separately, so that
    /// they take no connection from clients that may read. As many may be of clients that larder does not know, and whose requests are passed on.
    /// One more is treated as above.
    pub listen_foreign_connections: usize,
    /// Open connections to the metrics' address. Default: 32. One more is treated as above.
    pub metrics_connections: usize,
    /// Requests on one connection to the metrics' address. larder closes the connection after the last. Default: 1000.
    pub metrics_requests_per_connection: usize,
    /// How long a client may take to send the head of a request; also how long larder keeps an idle connection. Default: 30 s.
    pub head_timeout: Duration,
    /// How long a client may leave its answer untaken; over HTTP/2, how long it may take for 16 KiB of its answers. A client of
    /// HTTP/2 from which nothing comes for as long is sent a ping, and has that long to answer it. Default: 30 s.
    pub stall_timeout: Duration,
    /// How long a TLS handshake may take. Default: 10 s.
    pub handshake_timeout: Duration,
    /// The same as `head_timeout`, on the metrics' address. Default: 5 s.
    pub metrics_head_timeout: Duration,
    /// The same as `stall_timeout`, on the metrics' address. Default: 5 s.
    pub metrics_stall_timeout: Duration,
    /// How long requests in flight may take when the daemon ends. Default: 5 s.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            pod_connections: 16,
            pods_connections: 2048,
            pod_requests: 100,
            pod_watches: 64,
            pod_bytes: 32 << 20,
            pods_bytes: 256 << 20,
            foreign_connections: 32,
            http2_streams: 100,
            admin_requests: 2048,
            admin_bytes: 1 << 30,
            listen_connections: 512,
            listen_foreign_connections: 128,
            metrics_connections: 32,
            metrics_requests_per_connection: 1000,
            head_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(10),
            metrics_head_timeout: Duration::from_secs(5),
            metrics_stall_timeout: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// Checks every limit.
    ///
    /// ```
    /// use larder_server::Limits;
    /// let mut limits = Limits::default();
    /// limits.connections = 0;
    /// assert_eq!(limits.validate().unwrap_err().to_string(), "setting limits.connections: must be from 1 to 1048576");
    /// ```
    ///
    /// # Errors
    ///
    /// The first limit that is invalid: a count of 0 or above 2^20, bytes below 64 KiB or above 1 TiB, or a time of 0 or above a day.
    pub fn validate(&self) -> Result<(), LimitError> {
        for (field, count) in [
            ("connections", self.connections),
            ("pod_connections", self.pod_connections),
            ("pods_connections", self.pods_connections),
            ("pod_requests", self.pod_requests),
            ("pod_watches", self.pod_watches),
            ("foreign_connections", self.foreign_connections),
            ("http2_streams", self.http2_streams),
            ("admin_requests", self.admin_requests),
            ("listen_connections", self.listen_connections),
            ("listen_foreign_connections", self.listen_foreign_connections),
            ("metrics_connections", self.metrics_connections),
            ("metrics_requests_per_connection", self.metrics_requests_per_connection),
        ] {
            if !(1..=MOST_CONNECTIONS).contains(&count) {
                return Err(LimitError { field, problem: format!("must be from 1 to {MOST_CONNECTIONS}") });
            }
        }
        for (field, bytes) in
            [("pod_bytes", self.pod_bytes), ("pods_bytes", self.pods_bytes), ("admin_bytes", self.admin_bytes)]
        {
            if !(LEAST_BYTES..=MOST_BYTES).contains(&bytes) {
                return Err(LimitError { field, problem: format!("must be from {LEAST_BYTES} to {MOST_BYTES} bytes") });
            }
        }
        for (field, time) in [
            ("head_timeout", self.head_timeout),
            ("stall_timeout", self.stall_timeout),
            ("handshake_timeout", self.handshake_timeout),
            ("metrics_head_timeout", self.metrics_head_timeout),
            ("metrics_stall_timeout", self.metrics_stall_timeout),
            ("drain_timeout", self.drain_timeout),
        ] {
            if time.is_zero() || time > LONGEST {
                return Err(LimitError { field, problem: "must be longer than nothing and at most 24h".to_owned() });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_cannot_be_used_is_named() {
        Limits::default().validate().unwrap();
        let check = |field, change: &dyn Fn(&mut Limits)| {
            let mut limits = Limits::default();
            change(&mut limits);
            assert_eq!(limits.validate().unwrap_err().field, field);
        };
        check("connections", &|limits| limits.connections = 0);
        check("connections", &|limits| limits.connections = usize::MAX);
        check("pod_connections", &|limits| limits.pod_connections = 0);
        check("foreign_connections", &|limits| limits.foreign_connections = usize::MAX);
        check("http2_streams", &|limits| limits.http2_streams = 0);
        check("admin_requests", &|limits| limits.admin_requests = usize::MAX);
        check("pods_connections", &|limits| limits.pods_connections = 0);
        check("pod_requests", &|limits| limits.pod_requests = 0);
        check("pod_watches", &|limits| limits.pod_watches = 0);
        check("pod_bytes", &|limits| limits.pod_bytes = 1);
        check("pods_bytes", &|limits| limits.pods_bytes = usize::MAX);
        check("admin_bytes", &|limits| limits.admin_bytes = 0);
        check("listen_connections", &|limits| limits.listen_connections = 0);
        check("listen_foreign_connections", &|limits| limits.listen_foreign_connections = 0);
        check("handshake_timeout", &|limits| limits.handshake_timeout = Duration::ZERO);
        check("metrics_connections", &|limits| limits.metrics_connections = 0);
        check("metrics_requests_per_connection", &|limits| limits.metrics_requests_per_connection = 0);
        check("metrics_head_timeout", &|limits| limits.metrics_head_timeout = Duration::ZERO);
        check("metrics_stall_timeout", &|limits| limits.metrics_stall_timeout = Duration::MAX);
        check("head_timeout", &|limits| limits.head_timeout = Duration::ZERO);
        check("stall_timeout", &|limits| limits.stall_timeout = Duration::MAX);
        check("drain_timeout", &|limits| limits.drain_timeout = Duration::ZERO);
    }
}
