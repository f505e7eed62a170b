//! How old an answer is, where it came from, and whether it can still be relied upon.

use crate::ObjectTtl;
use larder_clock::Timestamp;
use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

/// Where an object was last confirmed.
///
/// ```
/// assert_eq!(larder_objects::Source::LiveRead.to_string(), "live read");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A consistent read of the API server.
    LiveRead,
    /// The API server's watch cache (`resourceVersion=0`).
    ApiServerCache,
    /// A watch.
    Watch,
    /// A manifest file of this node.
    Manifest,
    /// The container runtime.
    Runtime,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LiveRead => "live read",
            Self::ApiServerCache => "API server cache",
            Self::Watch => "watch",
            Self::Manifest => "manifest",
            Self::Runtime => "runtime",
        })
    }
}

/// Why an answer is stale. Never holds anything of an object's contents.
///
/// ```
/// use larder_objects::StaleReason;
/// assert_eq!(StaleReason::FetchFailed { class: "timeout" }.to_string(), "fetch failed: timeout");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StaleReason {
    /// Its TTL has passed, and it has not been read again since.
    Expired,
    /// Its TTL has passed, and the fetch that followed failed.
    FetchFailed {
        /// The failure's [`class`](crate::FetchError::class).
        class: &'static str,
    },
    /// Its TTL has passed, and the fetch that followed brought a lower `resourceVersion`, which never replaces a higher one.
    OlderVersion,
}

impl fmt::Display for StaleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("expired"),
            Self::FetchFailed { class } => write!(f, "fetch failed: {class}"),
            Self::OlderVersion => f.write_str("the source answered with an older version"),
        }
    }
}

/// Whether an answer is within its time.
///
/// ```
/// use larder_clock::Timestamp;
/// use larder_objects::{FreshState, StaleReason};
/// let stale = FreshState::Stale { since: Timestamp::ZERO, reason: StaleReason::OlderVersion };
/// assert_ne!(stale, FreshState::Fresh);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreshState {
    /// Confirmed within the TTL, or by the very fetch that this answer waited for.
    Fresh,
    /// Not confirmed since its TTL passed.
    Stale {
        /// When it ceased to be fresh, by the TTL as it was when the answer was given.
        since: Timestamp,
        /// Why it could not be confirmed.
        reason: StaleReason,
    },
}

/// How old an answer is and how far it can be relied upon.
///
/// ```
/// use larder_clock::Timestamp;
/// use larder_objects::{FreshState, Freshness, Source};
/// use std::time::Duration;
///
/// let freshness = Freshness::new(Timestamp::ZERO, Source::LiveRead, FreshState::Fresh);
/// assert!(freshness.is_fresh());
/// assert_eq!(freshness.age(Timestamp::ZERO + Duration::from_secs(3)), Duration::from_secs(3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Freshness {
    /// When the fetch that last confirmed it was completed, by the store's clock.
    pub confirmed_at: Timestamp,
    /// What confirmed it.
    pub source: Source,
    /// Whether that still holds.
    pub state: FreshState,
    /// See [`fresh_for`](Self::fresh_for). In nanoseconds, for reads are many and few of them ask for it.
    fresh_for: Option<NonZeroU64>,
}

impl Freshness {
    /// What an answer of that source, confirmed then, is.
    pub const fn new(confirmed_at: Timestamp, source: Source, state: FreshState) -> Self {
        Self { confirmed_at, source, state, fresh_for: None }
    }

    /// The same, in another state.
    #[must_use]
    pub const fn with_state(mut self, state: FreshState) -> Self {
        self.state = state;
        self
    }

    /// The same, from another source.
    #[must_use]
    pub const fn with_source(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// The same, fresh for so long after it was confirmed; `None` where no time ends that.
    #[must_use]
    pub fn with_fresh_for(mut self, time: Option<Duration>) -> Self {
        self.fresh_for = time.and_then(|time| NonZeroU64::new(time.as_nanos().try_into().unwrap_or(u64::MAX)));
        self
    }

    /// The same, fresh for that TTL; with one of 0 or less, every read asks.
    #[inline]
    pub(crate) fn with_ttl(mut self, ttl: ObjectTtl) -> Self {
        self.fresh_for = ttl.fresh_for();
        self
    }

    /// For how long after `confirmed_at` a fresh answer stays fresh if nothing confirms it before; `None` where no time ends
    /// that: a watch keeps the object, it cannot change, or every read asks.
    pub fn fresh_for(&self) -> Option<Duration> {
        self.fresh_for.map(|nanos| Duration::from_nanos(nanos.get()))
    }

    /// When a fresh answer stops being fresh by time alone, or when a stale one stopped. What a header, a table and a metric
    /// say of a TTL comes from here.
    ///
    /// ```
    /// use larder_clock::Timestamp;
    /// use larder_objects::{FreshState, Freshness, Source, StaleReason};
    /// use std::time::Duration;
    ///
    /// let (at, ttl) = (Timestamp::from_nanos, Duration::from_nanos(4));
    /// let fresh = Freshness::new(at(1), Source::LiveRead, FreshState::Fresh).with_fresh_for(Some(ttl));
    /// assert_eq!(fresh.expires_at(), Some(at(5)));
    /// let stale = fresh.with_state(FreshState::Stale { since: at(3), reason: StaleReason::Expired });
    /// assert_eq!(stale.expires_at(), Some(at(3)));
    /// ```
    pub fn expires_at(&self) -> Option<Timestamp> {
        match self.state {
            FreshState::Fresh => self.fresh_for.map(|nanos| self.confirmed_at.saturating_add_nanos(nanos.get().into())),
            FreshState::Stale { since, .. } => Some(since),
        }
    }

    /// The same answer at a later time: one that was fresh until then has expired.
    ///
    /// ```
    /// use larder_clock::Timestamp;
    /// use larder_objects::{FreshState, Freshness, Source};
    /// use std::time::Duration;
    ///
    /// let (at, ttl) = (Timestamp::from_nanos, Duration::from_nanos(4));
    /// let answer = Freshness::new(at(1), Source::LiveRead, FreshState::Fresh).with_fresh_for(Some(ttl));
    /// assert!(answer.at(at(4)).is_fresh() && !answer.at(at(5)).is_fresh());
    /// ```
    #[must_use]
    pub fn at(self, now: Timestamp) -> Self {
        match self.expires_at() {
            Some(since) if self.is_fresh() && now >= since => {
                self.with_state(FreshState::Stale { since, reason: StaleReason::Expired })
            }
            _ => self,
        }
    }

    /// Whether the answer is within its time.
    pub const fn is_fresh(&self) -> bool {
        matches!(self.state, FreshState::Fresh)
    }

    /// How long ago the answer was confirmed, at that time of the store's clock.
    pub fn age(&self, now: Timestamp) -> Duration {
        now.saturating_duration_since(self.confirmed_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_reasons_have_names() {
        let sources = [
            (Source::LiveRead, "live read"),
            (Source::ApiServerCache, "API server cache"),
            (Source::Watch, "watch"),
            (Source::Manifest, "manifest"),
            (Source::Runtime, "runtime"),
        ];
        for (source, name) in sources {
            assert_eq!(source.to_string(), name);
        }
        let reasons = [
            (StaleReason::Expired, "expired"),
            (StaleReason::FetchFailed { class: "timeout" }, "fetch failed: timeout"),
            (StaleReason::OlderVersion, "the source answered with an older version"),
        ];
        for (reason, name) in reasons {
            assert_eq!(reason.to_string(), name);
        }
    }

    #[test]
    fn a_fresh_answer_expires_with_its_ttl_and_a_stale_one_has() {
        let at = Timestamp::from_nanos;
        let fresh = Freshness::new(at(5), Source::Watch, FreshState::Fresh);
        let within = fresh.with_fresh_for(Some(Duration::from_nanos(4)));
        let stale = within.with_state(FreshState::Stale { since: at(7), reason: StaleReason::OlderVersion });
        assert_eq!([fresh, within, stale].map(|one| one.expires_at()), [None, Some(at(9)), Some(at(7))]);
        let expired = within.with_state(FreshState::Stale { since: at(9), reason: StaleReason::Expired });
        for (answer, now, then) in [(fresh, 100, fresh), (within, 8, within), (within, 9, expired), (stale, 100, stale)]
        {
            assert_eq!(answer.at(at(now)), then, "{answer:?} at {now}");
        }
        assert_eq!(fresh.with_fresh_for(Some(Duration::MAX)).fresh_for(), Some(Duration::from_nanos(u64::MAX)));
        assert_eq!(fresh.with_fresh_for(Some(Duration::ZERO)).fresh_for(), None);
    }

    #[test]
    fn an_answer_tells_its_age_and_whether_it_is_fresh() {
        let at = Timestamp::from_nanos(5);
        let fresh = Freshness::new(at, Source::Watch, FreshState::Fresh);
        let state = FreshState::Stale { since: at, reason: StaleReason::Expired };
        assert!(fresh.is_fresh() && !Freshness { state, ..fresh }.is_fresh());
        assert_eq!(fresh.age(Timestamp::from_nanos(12)), Duration::from_nanos(7));
        assert_eq!(fresh.age(Timestamp::ZERO), Duration::ZERO);
    }
}
