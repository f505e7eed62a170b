//! The headers that say how fresh an answer is: `Age` and `Cache-Status`.

use crate::access::NodeClock;
use crate::cache_status::{self, CacheStatus};
use crate::pass_through::PassedBack;
use crate::wire::{seconds_until, source_name};
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use larder_clock::Timestamp;
use larder_node::{Answer, FetchedDocument, Outcome};
use larder_objects::{FreshState, Freshness, Source};

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
        let outcome = outcome(self.outcome);
        let detail = match &self.freshness.state {
            FreshState::Fresh => source_name(self.freshness.source).to_owned(),
            FreshState::Stale { reason, .. } => {
                format!("stale: {}", self.why.clone().unwrap_or_else(|| reason.to_string()))
            }
        };
        let ttl = self.expires_at.map(|at| whole_seconds_until(clock, at));
        CacheStatus { outcome, ttl, detail: Some(detail) }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "seconds within the range of an i64, and it saturates")]
fn whole_seconds_until(clock: NodeClock<'_>, at: Timestamp) -> i64 {
    seconds_until(clock, at).floor() as i64
}

fn outcome(outcome: Outcome) -> cache_status::Outcome {
    match outcome {
        Outcome::Fetched => cache_status::Outcome::Fetched,
        Outcome::Refreshed => cache_status::Outcome::Refreshed,
        Outcome::FetchFailed => cache_status::Outcome::FetchFailed,
        Outcome::Held => cache_status::Outcome::Hit,
    }
}

/// The headers of a document of the API server.
pub(crate) fn of_document(document: &FetchedDocument, clock: NodeClock<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut status = CacheStatus::new(outcome(document.outcome));
    status.ttl = Some(whole_seconds_until(clock, document.expires_at()));
    status.detail = Some(source_name(Source::LiveRead).to_owned());
    headers.insert(header::AGE, HeaderValue::from(clock.now().saturating_duration_since(document.at).as_secs()));
    if let Ok(value) = HeaderValue::from_str(&status.to_string()) {
        headers.insert(CACHE_STATUS, value);
    }
    headers
}

/// Says of an answer that has no source, such as discovery or a refusal, that larder has just made it. Leaves any other one as it is.
pub(crate) async fn generated(mut response: Response) -> Response {
    if response.extensions().get::<PassedBack>().is_some() {
        return response;
    }
    let headers = response.headers_mut();
    headers.entry(header::AGE).or_insert(HeaderValue::from_static("0"));
    if let Ok(value) = HeaderValue::from_str(&CacheStatus::new(cache_status::Outcome::Generated).to_string()) {
        headers.entry(CACHE_STATUS).or_insert(value);
    }
    response
}
