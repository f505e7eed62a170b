//! Tokens that the API server vouches for (`TokenReview`), where larder may not read its keys.
//!
//! # Guarantees
//!
//! - *Remembered*: a verdict holds for its token while the API server does not answer, until the token expires. After [`REFRESH`], the next
//!   use of the token has the API server asked again, and does not wait.
//! - *Bounded*: [`MOST`] verdicts are remembered, [`AT_ONCE`] reviews are under way, and of one pod [`OF_A_POD`] wait or are under way. A review
//!   that fails holds back, for [`PAUSE`], the reviews of tokens that have no verdict yet.
//! - *No token is kept*: a verdict is remembered by the hash of its token.
//!
//! # Cancel safety
//!
//! A dropped wait leaves the review to the task that does it.
//!
//! # Locks
//!
//! One, over the verdicts. It is not held during a review.

use super::TokenCheckError;
use crate::report::TokenReviewsReport;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use jiff::Timestamp as WallTime;
use larder_clock::{Clock, Timestamp};
use larder_kube::{KubeClient, KubeError, TokenUser};
use larder_token::{Bound, TokenError, TokenHash};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

/// The age of a verdict at which the API server is asked again.
const REFRESH: Duration = Duration::from_mins(5);
/// How long a token that was refused is refused again without a request.
const REFUSED: Duration = Duration::from_secs(10);
/// The pause after a review that failed.
const PAUSE: Duration = Duration::from_secs(2);
/// How long a token waits for its first verdict.
const WAIT: Duration = Duration::from_secs(5);
/// The most verdicts.
const MOST: usize = 1024;
/// The most reviews under way.
const AT_ONCE: usize = 4;
/// The most reviews that wait.
const WAITING: usize = 64;
/// The most reviews of tokens of one pod, waiting or under way.
const OF_A_POD: usize = 2;

/// Asks whose a token is.
pub(super) trait Reviewer: Send + Sync + 'static {
    /// As [`KubeClient::review_token`].
    fn review(
        &self,
        token: &str,
        audiences: &[String],
    ) -> impl Future<Output = Result<Option<TokenUser>, KubeError>> + Send;
}

impl Reviewer for KubeClient {
    async fn review(&self, token: &str, audiences: &[String]) -> Result<Option<TokenUser>, KubeError> {
        self.review_token(token, audiences).await
    }
}

/// The verdicts of the API server on tokens.
pub(super) struct TokenReviews<R = KubeClient> {
    reviewer: R,
    /// The audiences to ask for; none for the API server's own.
    audiences: Vec<String>,
    state: Mutex<State>,
    wanted: mpsc::Sender<Wanted>,
    /// Taken by the task.
    jobs: Mutex<Option<mpsc::Receiver<Wanted>>>,
    /// Tells when a review has ended.
    ended: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    verdicts: HashMap<TokenHash, Verdict>,
    /// The tokens whose reviews wait or are under way, with the UIDs of their pods.
    asked: HashMap<TokenHash, String>,
    /// The last failure.
    failure: Option<(String, Timestamp)>,
    /// When a review last had a verdict.
    last_verdict: Option<Timestamp>,
}

#[derive(Clone, Copy)]
struct Verdict {
    is_good: bool,
    at: Timestamp,
    /// Before this time, the API server is not asked again.
    fresh_until: Timestamp,
}

/// A review that somebody wants.
struct Wanted {
    hash: TokenHash,
    token: Zeroizing<String>,
    bound: Bound,
}

impl<R: Reviewer> TokenReviews<R> {
    pub(super) fn new(reviewer: R, audiences: Vec<String>) -> Self {
        let (wanted, jobs) = mpsc::channel(WAITING);
        let (state, ended) = (Mutex::default(), watch::Sender::new(()));
        Self { reviewer, audiences, state, wanted, jobs: Mutex::new(Some(jobs)), ended }
    }

    /// Whether the API server has vouched for the token. Asks it again in the background once the verdict is old.
    pub(super) fn remembers(&self, token: &str, bound: &Bound, now: Timestamp) -> bool {
        let hash = TokenHash::of(token);
        let mut state = self.state.lock();
        let Some(verdict) = state.verdicts.get(&hash).copied().filter(|verdict| verdict.is_good) else { return false };
        if verdict.fresh_until <= now {
            // If there is no room, the next use asks.
            let _ = self.want(&mut state, hash, token, bound);
        }
        true
    }

    /// Asks whether the API server vouches for the token whose claims these are, unless its verdict is remembered.
    pub(super) async fn verify(&self, token: &str, bound: &Bound, clock: &impl Clock) -> Result<(), TokenCheckError> {
        let now = clock.now();
        if self.remembers(token, bound, now) {
            return Ok(());
        }
        let hash = TokenHash::of(token);
        // Before the review can end.
        let mut ended = self.ended.subscribe();
        {
            let mut state = self.state.lock();
            if let Some(verdict) = state.verdicts.get(&hash)
                && now < verdict.fresh_until
            {
                return verdict.result();
            }
            let pause = state.failure.as_ref().filter(|(_, at)| now.saturating_duration_since(*at) < PAUSE);
            if let Some((why, _)) = pause
                && !state.asked.contains_key(&hash)
            {
                return Err(TokenCheckError::NoKeys { why: why.clone() });
            }
            self.want(&mut state, hash, token, bound)?;
        }
        let asked = async { while self.state.lock().asked.contains_key(&hash) && ended.changed().await.is_ok() {} };
        // Either way the state says what is known then.
        let _ = tokio::time::timeout(WAIT, asked).await;
        let state = self.state.lock();
        match state.verdicts.get(&hash) {
            Some(verdict) => verdict.result(),
            None => Err(TokenCheckError::NoKeys {
                why: state
                    .failure
                    .as_ref()
                    .map_or_else(|| "a TokenReview is under way".to_owned(), |(why, _)| why.clone()),
            }),
        }
    }

    fn want(&self, state: &mut State, hash: TokenHash, token: &str, bound: &Bound) -> Result<(), TokenCheckError> {
        if state.asked.contains_key(&hash) {
            return Ok(());
        }
        let full = || TokenCheckError::NoKeys { why: "too many TokenReviews are under way".to_owned() };
        if state.asked.values().filter(|pod| **pod == bound.pod.uid).count() >= OF_A_POD {
            return Err(full());
        }
        let wanted = Wanted { hash, token: Zeroizing::new(token.to_owned()), bound: bound.clone() };
        self.wanted.try_send(wanted).map_err(|_| full())?;
        state.asked.insert(hash, bound.pod.uid.clone());
        Ok(())
    }

    /// Asks the API server, until the token is cancelled.
    pub(super) async fn run(&self, clock: impl Clock, token: CancellationToken) {
        let Some(mut jobs) = self.jobs.lock().take() else { return };
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                () = token.cancelled() => return,
                Some(wanted) = jobs.recv(), if running.len() < AT_ONCE => running.push(self.review(wanted, &clock)),
                Some(()) = running.next(), if !running.is_empty() => {}
            }
        }
    }

    async fn review(&self, wanted: Wanted, clock: &impl Clock) {
        let Wanted { hash, token, bound } = wanted;
        let answer = self.reviewer.review(&token, &self.audiences).await;
        let now = clock.now();
        {
            let mut state = self.state.lock();
            state.asked.remove(&hash);
            match answer {
                Ok(user) => {
                    let is_good = user.is_some_and(|user| {
                        user.username == bound.username() && user.pod_uid.as_deref() == Some(&*bound.pod.uid)
                    });
                    let fresh_until = now + if is_good { REFRESH } else { REFUSED };
                    state.remember(hash, Verdict { is_good, at: now, fresh_until });
                    state.last_verdict = Some(now);
                }
                Err(error) => {
                    let why = told(&error);
                    if state.failure.as_ref().is_none_or(|(last, _)| *last != why) {
                        tracing::warn!(why, "cannot ask the API server whose the tokens of pods are");
                    }
                    state.failure = Some((why, now));
                    if let Some(verdict) = state.verdicts.get_mut(&hash) {
                        verdict.fresh_until = now + PAUSE;
                    }
                }
            }
        }
        self.ended.send_replace(());
    }

    /// Why the last review failed, if no later one had a verdict.
    pub(super) fn failure(&self) -> Option<String> {
        let state = self.state.lock();
        let (why, at) = state.failure.as_ref()?;
        state.last_verdict.is_none_or(|last| last < *at).then(|| why.clone())
    }

    /// Whether a review has had a verdict, and no later one has failed.
    pub(super) fn works(&self) -> bool {
        let has_verdict = self.state.lock().last_verdict.is_some();
        has_verdict && self.failure().is_none()
    }

    pub(super) fn report(&self, wall: impl Fn(Timestamp) -> Option<WallTime>) -> TokenReviewsReport {
        let state = self.state.lock();
        let good = state.verdicts.values().filter(|verdict| verdict.is_good).count();
        let failure = state.failure.as_ref();
        TokenReviewsReport {
            remembered: u64::try_from(good).unwrap_or(u64::MAX),
            last_error: failure.map(|(why, _)| why.clone()),
            last_error_at: failure.and_then(|(_, at)| wall(*at)),
        }
    }
}

impl Verdict {
    fn result(&self) -> Result<(), TokenCheckError> {
        if self.is_good { Ok(()) } else { Err(TokenError::NotAuthenticated.into()) }
    }
}

impl State {
    fn remember(&mut self, hash: TokenHash, verdict: Verdict) {
        if self.verdicts.len() >= MOST && !self.verdicts.contains_key(&hash) {
            // A refused one first, then the oldest.
            let least = self.verdicts.iter().min_by_key(|(_, verdict)| (verdict.is_good, verdict.at));
            if let Some(least) = least.map(|(hash, _)| *hash) {
                self.verdicts.remove(&least);
            }
        }
        self.verdicts.insert(hash, verdict);
    }
}

fn told(error: &KubeError) -> String {
    let advice =
        if error.is_forbidden() { "; bind the ClusterRole system:auth-delegator to larder's identity" } else { "" };
    format!("{error}{advice}")
}

#[cfg(test)]
mod tests;
