//! Which namespaces have had a pod arrive a moment ago, and whether the API server was just away.
//!
//! The Node authorizer allows a node to read what its pods refer to, and learns of a new pod (and, after its own start,
//! of all pods) a moment later than the node does. Until then it answers 403, which is to be asked again, not believed.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// When a pod last arrived, by namespace. Entries older than the grace are dropped at every arrival, so there are never
/// more than namespaces with an arrival within it.
pub(crate) struct Arrivals {
    grace: Duration,
    latest: Mutex<HashMap<Box<str>, Instant>>,
    /// Relaxed: it is a hint on its own, and orders nothing else.
    away: AtomicBool,
}

impl Arrivals {
    pub(crate) fn new(grace: Duration) -> Self {
        Self { grace, latest: Mutex::default(), away: AtomicBool::new(false) }
    }

    pub(crate) fn note(&self, namespace: &str) {
        let now = Instant::now();
        let mut latest = self.latest.lock();
        latest.retain(|_, at| now.duration_since(*at) < self.grace);
        if !self.grace.is_zero() {
            latest.insert(namespace.into(), now);
        }
    }

    /// Whether the server is away; when it comes back it has yet to learn of all pods.
    pub(crate) fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::Relaxed);
    }

    /// Whether a 403 for an object of this namespace is still to be doubted.
    pub(crate) fn doubts(&self, namespace: &str) -> bool {
        if self.grace.is_zero() {
            return false;
        }
        self.away.load(Ordering::Relaxed)
            || self.latest.lock().get(namespace).is_some_and(|at| at.elapsed() < self.grace)
    }
}
