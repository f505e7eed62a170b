//! How much of the daemon a client may take.

use std::time::Duration;

/// How much of the daemon clients may take, so that one that hangs or floods harms nobody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections that root and the daemon's own user may have open, all together. Default: 512. One more is answered
    /// with 503 and closed.
    pub connections: usize,
    /// Connections of other users, which get nothing but a 403. Default: 32, apart from the others, so that nobody takes
    /// root's.
    pub foreign_connections: usize,
    /// Connections to the metrics' address. Default: 32.
    pub metrics_connections: usize,
    /// How long a client may take to send a request's head; also how long an idle connection is kept. Default: 30 s.
    pub head_timeout: Duration,
    /// How long a client may leave its answer untaken. Default: 30 s.
    pub stall_timeout: Duration,
    /// How long requests that are being answered may take when the daemon ends. Default: 5 s.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            foreign_connections: 32,
            metrics_connections: 32,
            head_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(5),
        }
    }
}
