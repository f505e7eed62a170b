//! The headers that say how fresh an answer is: `Age` and `Cache-Status`.

use crate::cache_status::{self, CacheStatus};
use crate::wire::{seconds_until, source_name};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use larder_clock::Timestamp;
use larder_node::{Answer, Node, Outcome};
use larder_objects::{FreshState, Freshness};

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// How fresh an answer is, one object's or a whole list's.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    freshness: Freshness,
    expires_at: Option<Timestamp>,
    outcome: Outcome,
    why: Option<String>,
}

impl Told {
    pub(crate) fn of<T>(answer: &Answer<T>) -> Self {
        Self {
            freshness: answer.freshness,
            expires_at: answer.freshness.expires_at(),
            outcome: answer.outcome,
            why: answer.why.clone(),
        }
    }

    /// Of what a watch holds, or a source whose freshness is that of all its objects.
    pub(crate) fn held(freshness: Freshness, why: Option<String>) -> Self {
        Self { freshness, expires_at: freshness.expires_at(), outcome: Outcome::Held, why }
    }

    /// Of a list: that of its worst part. None for an empty one.
    pub(crate) fn of_all<T>(answers: &[Answer<T>]) -> Option<Self> {
        let rank = |answer: &&Answer<T>| match answer.outcome {
            Outcome::FetchFailed => 3,
            _ if !answer.freshness.is_fresh() => 2,
            Outcome::Fetched | Outcome::Refreshed => 1,
            Outcome::Held => 0,
        };
        let mut told = Self::of(answers.iter().max_by_key(rank)?);
        told.freshness.confirmed_at = answers.iter().map(|answer| answer.freshness.confirmed_at).min()?;
        told.expires_at = answers.iter().filter_map(|answer| answer.freshness.expires_at()).min();
        Some(told)
    }

    /// The headers: `Age` in whole seconds, `Cache-Status`, and that no cache behind this one is to keep the answer.
    pub(crate) fn headers(&self, node: &Node) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AGE, HeaderValue::from(self.freshness.age(node.now()).as_secs()));
        if let Ok(value) = HeaderValue::from_str(&self.cache_status(node).to_string()) {
            headers.insert(CACHE_STATUS, value);
        }
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers
    }

    fn cache_status(&self, node: &Node) -> CacheStatus {
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
        let ttl = self.expires_at.map(|at| seconds_until(node, at).floor() as i64);
        CacheStatus { outcome, ttl, detail: Some(detail) }
    }
}
