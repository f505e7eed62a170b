//! For how long a 403 is retried instead of believed.
//!
//! The Node authorizer allows a node to read the objects that its pods refer to. It learns of a new pod a moment later than the
//! node does, and of all pods a moment after its own start. Until then it answers 403. So a 403 is retried for a while in a
//! namespace in which a pod has just arrived, and everywhere from an outage until the pods are watched again.

use crate::backoff::Backoff;
use larder_clock::Jitter;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The backoff of the retries: from 100 ms to 1 s.
pub(crate) fn backoff(jitter: &Jitter) -> Backoff {
    Backoff::new(Duration::from_millis(100), Duration::from_secs(1), jitter)
}

/// When a pod last arrived, by namespace. Each arrival drops the entries that are older than the grace, so the map has no more
/// entries than namespaces with an arrival within the grace.
pub(crate) struct ForbiddenGrace {
    grace: Duration,
    latest: Mutex<HashMap<Box<str>, Instant>>,
    /// Relaxed: it orders no other access.
    unavailable: AtomicBool,
}

impl ForbiddenGrace {
    pub(crate) fn new(grace: Duration) -> Self {
        Self { grace, latest: Mutex::default(), unavailable: AtomicBool::new(false) }
    }

    pub(crate) fn note(&self, namespace: &str) {
        let now = Instant::now();
        let mut latest = self.latest.lock();
        latest.retain(|_, at| now.duration_since(*at) < self.grace);
        if !self.grace.is_zero() {
            latest.insert(namespace.into(), now);
        }
    }

    /// Says whether the server is away. A server that comes back has yet to learn of all pods.
    pub(crate) fn set_unavailable(&self, unavailable: bool) {
        self.unavailable.store(unavailable, Ordering::Relaxed);
    }

    /// Whether a 403 for an object of this namespace is to be retried.
    pub(crate) fn doubts(&self, namespace: &str) -> bool {
        if self.grace.is_zero() {
            return false;
        }
        self.unavailable.load(Ordering::Relaxed)
            || self.latest.lock().get(namespace).is_some_and(|at| at.elapsed() < self.grace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn each_arrival_drops_what_is_older_than_the_grace_and_nothing_else() {
        let second = Duration::from_secs(1);
        let grace = ForbiddenGrace::new(second * 10);
        grace.note("one");
        advance(second * 9).await;
        grace.note("two");
        assert!(grace.doubts("one") && grace.doubts("two") && !grace.doubts("three"));
        advance(second).await;
        grace.note("three");
        assert!(!grace.doubts("one") && grace.doubts("two") && grace.doubts("three"));
        assert_eq!(grace.latest.lock().len(), 2, "an entry that is as old as the grace is dropped");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_grace_nothing_is_kept_and_nothing_doubted() {
        let grace = ForbiddenGrace::new(Duration::ZERO);
        grace.note("one");
        grace.set_unavailable(true);
        assert!(!grace.doubts("one") && grace.latest.lock().is_empty());
    }
}
