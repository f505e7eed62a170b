//! The headers that say how fresh an answer is: `Age` and `Cache-Status`.

use crate::access::NodeClock;
use crate::cache_status::{self, CacheStatus};
use crate::wire::{seconds_until, source_name};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use larder_clock::Timestamp;
use larder_node::{Answer, Outcome};
use larder_objects::{FreshState, Freshness};

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// How fresh an answer is: one object, or a whole list.
#[derive(Clone, Debug)]
pub(crate) struct AnswerFreshness {
    freshness: Freshness,
    expires_at: Option<Timestamp>,
    outcome: Outcome,
    why: Option<String>,
}

impl AnswerFreshness {
    pub(crate) fn of<T>(answer: &Answer<T>) -> Self {
        Self {
            freshness: answer.freshness,
            expires_at: answer.freshness.expires_at(),
            outcome: answer.outcome,
            why: answer.why.clone(),
        }
    }

    /// Of an answer from a source whose objects are all equally fresh.
    pub(crate) fn held(freshness: Freshness, why: Option<String>) -> Self {
        Self { freshness, expires_at: freshness.expires_at(), outcome: Outcome::Held, why }
    }

    /// Of a list: the freshness of its worst item. `None` if the list is empty.
    pub(crate) fn of_all<T>(answers: &[Answer<T>]) -> Option<Self> {
        let rank = |answer: &&Answer<T>| match answer.outcome {
            Outcome::FetchFailed => 3,
            _ if !answer.freshness.is_fresh() => 2,
            Outcome::Fetched | Outcome::Refreshed => 1,
            Outcome::Held => 0,
        };
        let mut worst = Self::of(answers.iter().max_by_key(rank)?);
        worst.freshness.confirmed_at = answers.iter().map(|answer| answer.freshness.confirmed_at).min()?;
        worst.expires_at = answers.iter().filter_map(|answer| answer.freshness.expires_at()).min();
        Some(worst)
    }

    /// The headers: `Age` in whole seconds, `Cache-Status`, and `Cache-Control: no-store`, so that no other cache keeps the answer.
    pub(crate) fn headers(&self, clock: NodeClock<'_>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AGE, HeaderValue::from(self.freshness.age(clock.now()).as_secs()));
        if let Ok(value) = HeaderValue::from_str(&self.cache_status(clock).to_string()) {
            headers.insert(CACHE_STATUS, value);
        }
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers
    }

    fn cache_status(&self, clock: NodeClock<'_>) -> CacheStatus {
        let outcome = match self.outcome {
            Outcome::Fetched => cache_status::Outcome::Fetched,
            Outcome::Refreshed => cache_status::Outcome::Refreshed,
            Outcome::FetchFailed => cache_status::Outcome::FetchFailed,
            Outcome::Held => cache_status::Outcome::Hit,
        };
        let detail = match &self.freshness.state {
            FreshState::Fresh => source_name(self.freshness.source).to_owned(),
            FreshState::Stale { reason, .. } => {
                format!("stale: {}", self.why.clone().unwrap_or_else(|| reason.to_string()))
            }
        };
        #[expect(clippy::cast_possible_truncation, reason = "seconds within the range of an i64, and it saturates")]
        let ttl = self.expires_at.map(|at| seconds_until(clock, at).floor() as i64);
        CacheStatus { outcome, ttl, detail: Some(detail) }
    }
}
