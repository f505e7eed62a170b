//! What is known of an object, and the rules by which a fetch changes it: all of the TTL store's judgement, without its
//! concurrency.

use crate::fetched::Fetched;
use crate::order::{Order, Relation, order};
use crate::{
    FetchError, FreshState, Freshness, GetError, Held, Object, ObjectKey, ObjectTtl, Outcome, Read, ReadKind, Source,
    StaleReason,
};
use larder_clock::Timestamp;
use std::sync::Arc;

/// When and by what something was last confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Confirmed {
    pub(super) at: Timestamp,
    pub(super) source: Source,
}

impl Confirmed {
    /// As the answer of the fetch that confirmed it, or within its TTL.
    #[inline]
    pub(super) fn fresh(self, ttl: ObjectTtl) -> Freshness {
        Freshness::new(self.at, self.source, FreshState::Fresh).with_ttl(ttl)
    }

    pub(super) fn stale(self, ttl: ObjectTtl, reason: StaleReason) -> Freshness {
        let state = FreshState::Stale { since: ttl.stale_since(self.at), reason };
        Freshness::new(self.at, self.source, state)
    }

    /// As it stands, without a fetch.
    pub(super) fn at_rest(self, now: Timestamp, ttl: ObjectTtl) -> Freshness {
        if ttl.is_fresh(self.at, now) { self.fresh(ttl) } else { self.stale(ttl, StaleReason::Expired) }
    }
}

/// What is known of an object in one generation.
pub(super) enum Known<O> {
    /// Nothing was fetched yet, or every fetch failed.
    Nothing,
    /// It exists.
    Object { object: Arc<O>, confirmed: Confirmed },
    /// The source said that it does not.
    Absent(Confirmed),
}

/// What came of a fetch.
pub(super) enum Settled<E> {
    /// What is known is what the source said.
    Confirmed,
    /// The source's answer was older than what is known, which stays.
    Older,
    /// The source could not say; what is known stays.
    Failed(Arc<E>),
}

impl<O: Object> Known<O> {
    /// How the next fetch has to read.
    pub(super) fn next_read(&self) -> ReadKind {
        match self {
            // A mere refresh: spare the API server's store, a lower version is recognised.
            Self::Object { .. } => ReadKind::ApiServerCache,
            Self::Nothing | Self::Absent(_) => ReadKind::Consistent,
        }
    }

    /// Takes in what a fetch brought, completed at `confirmed.at`; returns what it displaced, for the caller to drop
    /// where no lock is held.
    pub(super) fn take_in<E>(&mut self, fetched: Fetched<O, E>, confirmed: Confirmed) -> (Settled<E>, Self) {
        let next = match fetched {
            Fetched::Object(object) if self.is_newer_than(&object) => {
                return (Settled::Older, Self::Object { object, confirmed });
            }
            Fetched::Object(object) => Self::Object { object, confirmed },
            Fetched::Absent => Self::Absent(confirmed),
            Fetched::Failed(error) => return (Settled::Failed(error), Self::Nothing),
        };
        (Settled::Confirmed, std::mem::replace(self, next))
    }

    /// Fetches of one generation run one after another, and a refresh may lag. The kubelet replaces whatever it does not
    /// know to be newer, an object by an absence too.
    fn is_newer_than(&self, fetched: &O) -> bool {
        match self {
            Self::Object { object, .. } => order(Some(&**object), Some(fetched), Relation::Lags) == Order::Older,
            Self::Nothing | Self::Absent(_) => false,
        }
    }

    /// The answer for the reader that made the fetch; `outcome` is what it is called if the source answered.
    pub(super) fn answer<E>(
        &self,
        key: &ObjectKey,
        settled: &Settled<E>,
        ttl: ObjectTtl,
        outcome: Outcome,
    ) -> Result<Read<O>, GetError<E>>
    where
        E: FetchError,
    {
        let reason = match settled {
            Settled::Confirmed => None,
            Settled::Older => Some(StaleReason::OlderVersion),
            Settled::Failed(error) => Some(StaleReason::FetchFailed { class: error.class() }),
        };
        let held =
            self.held(|confirmed| reason.map_or_else(|| confirmed.fresh(ttl), |reason| confirmed.stale(ttl, reason)));
        match (held, settled) {
            (Some(held), _) => held.into_answer(key, if reason.is_none() { outcome } else { Outcome::FetchFailed }),
            (None, Settled::Failed(error)) => Err(GetError::Fetch { key: key.clone(), source: Arc::clone(error) }),
            // A fetch that did not fail leaves something known.
            (None, Settled::Confirmed | Settled::Older) => Err(GetError::NotRegistered { key: key.clone() }),
        }
    }
}

impl<O> Known<O> {
    pub(super) const fn is_object(&self) -> bool {
        matches!(self, Self::Object { .. })
    }

    /// What is held, as fresh as `freshness` says; `None` if nothing is.
    pub(super) fn held(&self, freshness: impl FnOnce(Confirmed) -> Freshness) -> Option<Held<O>> {
        match self {
            Self::Nothing => None,
            Self::Object { object, confirmed } => Some(Held::new(Some(Arc::clone(object)), freshness(*confirmed))),
            Self::Absent(confirmed) => Some(Held::new(None, freshness(*confirmed))),
        }
    }
}

impl<O> Clone for Known<O> {
    fn clone(&self) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::Object { object, confirmed } => Self::Object { object: Arc::clone(object), confirmed: *confirmed },
            Self::Absent(confirmed) => Self::Absent(*confirmed),
        }
    }
}
