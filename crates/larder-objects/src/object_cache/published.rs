//! What reads find without a lock: what is known of each object that is good as it is.

use super::item::{Pulse, offset, silence_bound};
use crate::sync::{AtomicI64, Ordering};
use crate::{FreshState, Freshness, ObjectTtl, Source};
use larder_clock::Timestamp;
use std::sync::Arc;

/// How long what is published is good.
#[derive(Clone)]
pub(super) enum Good {
    /// As long as the reflector is, and, where a store polls, no longer than that has been silent.
    Watched(Arc<Pulse>),
    /// For the TTL.
    Polled,
    /// For ever.
    Held,
}

/// What is published of an object.
pub(super) struct Record<O> {
    /// None: it does not exist.
    pub(super) object: Option<Arc<O>>,
    pub(super) at: Timestamp,
    pub(super) source: Source,
    pub(super) good: Good,
    pub(super) accessed: Arc<AtomicI64>,
}

impl<O> Clone for Record<O> {
    fn clone(&self) -> Self {
        Self {
            object: self.object.clone(),
            at: self.at,
            source: self.source,
            good: self.good.clone(),
            accessed: Arc::clone(&self.accessed),
        }
    }
}

impl<O> Record<O> {
    /// How fresh it is now; `None` if it is not, or if that takes more than a look.
    pub(super) fn freshness(&self, polling: Option<ObjectTtl>, now: Timestamp, base: Timestamp) -> Option<Freshness> {
        let mut ttl = ObjectTtl::default();
        let (confirmed_at, source) = match &self.good {
            Good::Held => (self.at, self.source),
            Good::Polled => {
                ttl = polling.filter(|ttl| ttl.is_fresh(self.at, now))?;
                (self.at, self.source)
            }
            Good::Watched(pulse) => {
                if pulse.is_broken() {
                    return None;
                }
                let confirmed = match pulse.at(base) {
                    Some(at) if at > self.at => (at, Source::Watch),
                    _ => (self.at, self.source),
                };
                if polling.is_some_and(|ttl| !silence_bound(ttl).is_fresh(confirmed.0, now)) {
                    return None;
                }
                confirmed
            }
        };
        Some(Freshness::new(confirmed_at, source, FreshState::Fresh).with_ttl(ttl))
    }

    pub(super) fn access(&self, base: Timestamp, now: Timestamp) {
        // Only the time itself matters; it may be lost to another reader's of the same moment.
        self.accessed.store(offset(base, now), Ordering::Relaxed);
    }
}

// Atomics outside of a run of shuttle are none.
#[cfg(all(test, not(shuttle)))]
mod tests;
