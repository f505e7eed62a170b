//! What reads find without a lock: what is known of each object that is good as it is, and for how long.

use super::item::{Pulse, Watch, offset};
use super::read::Answer;
use super::{AfterOf, ItemOf, LinkOf, ReflectorStore, Rules};
use crate::sync::{AtomicI64, Ordering};
use crate::{Fetch, FreshState, Freshness, GetError, Object, ObjectKey, ObjectTtl, Read, Reflectors, Source};
use larder_clock::{Clock, Timestamp};
use std::sync::Arc;

/// How long what is published is good.
#[derive(Clone)]
enum Good {
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
    good: Good,
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
                if polling.is_some_and(|ttl| !ttl.silence_bound().is_fresh(confirmed.0, now)) {
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

impl<F: Fetch, R: Reflectors<Object = F::Object, Error = F::Error>, C: Clock, P: Rules> ReflectorStore<F, R, C, P> {
    /// Publishes what reads may be answered with without a lock, or withdraws it. `link` is the reflector that keeps the
    /// object.
    pub(super) fn publish(
        &self,
        key: &ObjectKey,
        item: &ItemOf<F, R>,
        link: Option<&LinkOf<F, R>>,
        after: &mut AfterOf<F, R>,
    ) {
        match self.good(item, link) {
            Some((object, good)) => {
                let (at, source, accessed) = (item.observed.at(), item.observed.source(), Arc::clone(&item.accessed));
                after.published.insert(key, Record { object, at, source, good, accessed });
            }
            None => after.published.remove(key),
        }
    }

    /// What of an object is good as it is, and for how long.
    fn good(&self, item: &ItemOf<F, R>, link: Option<&LinkOf<F, R>>) -> Option<(Option<Arc<F::Object>>, Good)> {
        if item.observed.is_doubtful() || !item.observed.is_known() {
            return None;
        }
        let object = item.observed.object().cloned();
        // The first read of an immutable object sees to it that it is held.
        let to_be_held = self.options.hold_immutable && object.as_ref().is_some_and(|object| object.is_immutable());
        let good = match (&item.watch, link) {
            (Watch::Held, _) => Good::Held,
            (Watch::Namespace, Some(link)) if link.is_healthy() => Good::Watched(Arc::clone(&link.pulse)),
            (Watch::Own(_), Some(link)) if link.is_healthy() && !to_be_held => Good::Watched(Arc::clone(&link.pulse)),
            (Watch::Off, _) if P::POLLS && object.is_some() && !to_be_held => Good::Polled,
            _ => return None,
        };
        Some((object, good))
    }

    /// The answer, if what is published is good: takes no lock.
    #[inline]
    pub(super) fn get_published(&self, namespace: &str, name: &str) -> Option<Answer<F>> {
        let polling = self.rules.polling();
        let look = |record: &Record<F::Object>| {
            // After the record was found: a time from before it would pass for fresh with a TTL of 0.
            let now = self.clock.now();
            let freshness = record.freshness(polling, now, self.base)?;
            record.access(self.base, now);
            Some((record.object.clone(), freshness))
        };
        let (object, freshness) = self.published.pin().read(namespace, name, look).flatten()?;
        Some(match object {
            Some(object) => Ok(Read::new(object, freshness)),
            None => Err(GetError::NotFound { key: ObjectKey::new(namespace, name), freshness }),
        })
    }
}

// Atomics outside of a run of shuttle are none.
#[cfg(all(test, not(shuttle)))]
mod tests;
