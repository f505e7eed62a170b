//! What is known of an object, and the rules by which a fetch changes it: all of the TTL store's judgement, without its
//! concurrency.

use crate::fetched::Fetched;
use crate::order::{Order, Relation, order};
use crate::{
    FetchError, FreshState, Freshness, GetError, Object, ObjectKey, ObjectTtl, Read, ReadKind, Source, StaleReason,
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
pub(super) enum Outcome<E> {
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
    pub(super) fn take_in<E>(&mut self, fetched: Fetched<O, E>, confirmed: Confirmed) -> (Outcome<E>, Self) {
        let next = match fetched {
            Fetched::Object(object) if self.is_newer_than(&object) => {
                return (Outcome::Older, Self::Object { object, confirmed });
            }
            Fetched::Object(object) => Self::Object { object, confirmed },
            Fetched::Absent => Self::Absent(confirmed),
            Fetched::Failed(error) => return (Outcome::Failed(error), Self::Nothing),
        };
        (Outcome::Confirmed, std::mem::replace(self, next))
    }

    /// Fetches of one generation run one after another, and a refresh may lag. The kubelet replaces whatever it does not
    /// know to be newer, an object by an absence too.
    fn is_newer_than(&self, fetched: &O) -> bool {
        match self {
            Self::Object { object, .. } => order(Some(&**object), Some(fetched), Relation::Lags) == Order::Older,
            Self::Nothing | Self::Absent(_) => false,
        }
    }

    /// The answer for the reader that made the fetch.
    pub(super) fn answer<E>(
        &self,
        key: &ObjectKey,
        outcome: &Outcome<E>,
        ttl: ObjectTtl,
    ) -> Result<Read<O>, GetError<E>>
    where
        E: FetchError,
    {
        let reason = match outcome {
            Outcome::Confirmed => None,
            Outcome::Older => Some(StaleReason::OlderVersion),
            Outcome::Failed(error) => Some(StaleReason::FetchFailed { class: error.class() }),
        };
        let freshness =
            |confirmed: Confirmed| reason.map_or_else(|| confirmed.fresh(ttl), |reason| confirmed.stale(ttl, reason));
        match (self, outcome) {
            (Self::Object { object, confirmed }, _) => {
                Ok(Read { object: Arc::clone(object), freshness: freshness(*confirmed) })
            }
            (Self::Absent(confirmed), _) => {
                Err(GetError::NotFound { key: key.clone(), freshness: freshness(*confirmed) })
            }
            (Self::Nothing, Outcome::Failed(error)) => {
                Err(GetError::Fetch { key: key.clone(), source: Arc::clone(error) })
            }
            // A fetch that did not fail leaves something known.
            (Self::Nothing, Outcome::Confirmed | Outcome::Older) => Err(GetError::NotRegistered { key: key.clone() }),
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
