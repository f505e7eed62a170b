//! The fetches and watches of one kind of object: when the source last answered, which objects fail, and the end of their
//! backoff.
//!
//! [`LoggedFetch`] wraps the fetches of the store, and `reflector_log` wraps its reflectors; both write this log. `objects`
//! looks at it before each read, and the report reads the [health](FetchLog::health) of the source.
//!
//! # Limits
//!
//! There is a record for each object whose fetch fails, until a fetch succeeds or the record is [forgotten](FetchLog::forget_failure)
//! with the object's last reference. There is a record for each watch that fails, until it continues or [ends](FetchLog::watch_ended).
//!
//! # Locks
//!
//! One, held for a lookup or a change, never over an `.await`.

use crate::metrics::ObjectMetrics;
use larder_clock::{Clock, Timestamp};
use larder_objects::{Fetch, FetchError, ObjectKey, ReadKind, Reflectors, Scope, Source};
use larder_resource::KubeObject;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// An error of a source of objects: what retries need to know of it.
pub(crate) trait SourceError: FetchError {
    /// Whether the source itself does not answer, so that the fetches of all other objects fail, too.
    fn is_unavailable(&self) -> bool;

    /// Whether the source was not reached at all, so that any later answer of the source ends the failure.
    fn is_unreached(&self) -> bool;

    /// The pause that the source asks for before a retry.
    fn retry_after(&self) -> Option<Duration>;
}

/// Fetches of a source of objects.
pub(crate) trait SourceFetch: Fetch<Object = KubeObject, Error: SourceError> {}

impl<F: Fetch<Object = KubeObject, Error: SourceError>> SourceFetch for F {}

/// Reflectors of a source, whose errors convert to those of its fetches.
pub(crate) trait SourceReflectors<E>:
    Reflectors<Object = KubeObject, Error: SourceError + Clone + Into<E>>
{
}

impl<R: Reflectors<Object = KubeObject, Error: SourceError + Clone + Into<E>>, E> SourceReflectors<E> for R {}

/// The current failure of an object's fetches, or of a watch.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// When the first fetch failed.
    pub(crate) since: Timestamp,
    /// How many fetches in a row failed.
    pub(crate) count: u32,
    /// When the backoff ends: no fetch starts before.
    pub(crate) retry_at: Timestamp,
    /// Why the last one failed.
    pub(crate) why: Arc<str>,
    /// The error's class, for metrics.
    pub(crate) class: &'static str,
    unavailable: bool,
    unreached: bool,
}

impl Failure {
    fn new(since: Timestamp, why: &Arc<str>) -> Self {
        Self { since, count: 0, retry_at: since, why: Arc::clone(why), class: "", unavailable: false, unreached: false }
    }

    fn record<E: SourceError>(&mut self, error: &E, why: Arc<str>) {
        self.count = self.count.saturating_add(1);
        self.why = why;
        self.class = error.class();
        self.unavailable = error.is_unavailable();
        self.unreached = error.is_unreached();
    }

    /// A failure that no fetch reported: there was no answer in time.
    pub(crate) fn no_answer(since: Timestamp, retry_at: Timestamp, why: Arc<str>) -> Self {
        Self { since, count: 0, retry_at, why, class: "no_answer", unavailable: false, unreached: false }
    }
}

/// The health of a source of objects, from the results of its fetches and watches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    /// When it last answered, with an object or with 'not found'.
    pub(crate) last_answer: Option<Timestamp>,
    /// When it last failed, and why.
    pub(crate) last_failure: Option<(Timestamp, Arc<str>)>,
    /// Whether the last fetch that ended failed because the source does not answer.
    pub(crate) is_failing: bool,
    /// Whether it failed because the source was not reached.
    is_unreached: bool,
}

/// The backoff between fetches of an object that fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    pub(crate) initial: Duration,
    pub(crate) max: Duration,
}

impl Backoff {
    /// The pause after this many failures in a row.
    fn pause(self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.initial.saturating_mul(1 << doublings).min(self.max)
    }
}

/// The results of the fetches and watches of one kind of object.
#[derive(Debug)]
pub(crate) struct FetchLog {
    backoff: Backoff,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: HashMap<ObjectKey, Failure>,
    /// Failures of watches. The reflectors retry, so these delay no read.
    watches: HashMap<Scope, Failure>,
    health: Health,
}

impl FetchLog {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self { backoff, state: Mutex::default() }
    }

    /// The current failure of the object's fetches, or of its watch.
    pub(crate) fn failure(&self, key: &ObjectKey) -> Option<Failure> {
        let state = self.state.lock();
        if let Some(failure) = state.failures.get(key) {
            return Some(failure.clone());
        }
        // Most of the time, nothing fails.
        if state.watches.is_empty() {
            return None;
        }
        let of_namespace = || state.watches.get(&Scope::Namespace(key.namespace().into()));
        state.watches.get(&Scope::Object(key.clone())).or_else(of_namespace).cloned()
    }

    pub(crate) fn health(&self) -> Health {
        self.state.lock().health.clone()
    }

    /// The source answered another request at this time, so a failure to reach it before has ended.
    pub(crate) fn source_answered(&self, at: Timestamp) {
        let mut state = self.state.lock();
        let failed = state.health.last_failure.as_ref().map(|(failed, _)| *failed);
        if state.health.is_failing && state.health.is_unreached && failed.is_some_and(|failed| failed < at) {
            state.health.is_failing = false;
            state.source_recovered();
        }
    }

    /// Ends the backoff of the object, because a new pod refers to it. The failure stays on record.
    pub(crate) fn retry_now(&self, key: &ObjectKey) {
        if let Some(failure) = self.state.lock().failures.get_mut(key) {
            failure.retry_at = failure.since;
        }
    }

    /// Forgets the failure of an object that no pod refers to.
    pub(crate) fn forget_failure(&self, key: &ObjectKey) {
        self.state.lock().failures.remove(key);
    }

    fn answered(&self, key: &ObjectKey, at: Timestamp) {
        let mut state = self.state.lock();
        state.failures.remove(key);
        state.answered(at);
    }

    /// A watch continues. If it has sent an object, that object is known now, even if its fetches failed.
    pub(crate) fn watch_observed(&self, scope: &Scope, key: Option<&ObjectKey>, at: Timestamp) {
        let mut state = self.state.lock();
        state.watches.remove(scope);
        if let Some(key) = key {
            state.failures.remove(key);
        }
        state.answered(at);
    }

    /// A list or watch failed. Its reflector retries.
    pub(crate) fn watch_failed<E: SourceError>(&self, scope: &Scope, at: Timestamp, error: &E) {
        let why: Arc<str> = error.to_string().into();
        let mut state = self.state.lock();
        state.failing(at, &why, error);
        let failure = state.watches.entry(scope.clone()).or_insert_with(|| Failure::new(at, &why));
        failure.record(error, why);
    }

    /// The watch has ended, so its failure does not matter any more.
    pub(crate) fn watch_ended(&self, scope: &Scope) {
        self.state.lock().watches.remove(scope);
    }

    fn failed<E: SourceError>(&self, key: &ObjectKey, at: Timestamp, error: &E) {
        let why: Arc<str> = error.to_string().into();
        let mut state = self.state.lock();
        state.failing(at, &why, error);
        let failure = state.failures.entry(key.clone()).or_insert_with(|| Failure::new(at, &why));
        failure.record(error, why);
        let asked_for = error.retry_after().unwrap_or_default().min(self.backoff.max);
        failure.retry_at = at + self.backoff.pause(failure.count).max(asked_for);
    }
}

impl State {
    fn answered(&mut self, at: Timestamp) {
        self.health.last_answer = Some(at);
        if self.health.is_failing {
            self.health.is_failing = false;
            self.source_recovered();
        }
    }

    fn failing<E: SourceError>(&mut self, at: Timestamp, why: &Arc<str>, error: &E) {
        self.health.last_failure = Some((at, Arc::clone(why)));
        if error.is_unavailable() {
            (self.health.is_failing, self.health.is_unreached) = (true, error.is_unreached());
        }
    }

    /// The source answers again. Failures to reach it have ended. An object that failed because the source did not answer may
    /// be fetched at once.
    fn source_recovered(&mut self) {
        self.failures.retain(|_, failure| !failure.unreached);
        for failure in self.failures.values_mut().filter(|failure| failure.unavailable) {
            failure.retry_at = failure.since;
        }
    }
}

/// Fetches, counts the results, and writes the log.
pub(crate) struct LoggedFetch<F, C> {
    pub(crate) fetch: F,
    pub(crate) clock: C,
    pub(crate) log: Arc<FetchLog>,
    pub(crate) metrics: Arc<ObjectMetrics>,
}

impl<F, C> Fetch for LoggedFetch<F, C>
where
    F: SourceFetch,
    C: Clock + Clone,
{
    type Object = KubeObject;
    type Error = F::Error;

    fn fetch(
        &self,
        key: &ObjectKey,
        read: ReadKind,
    ) -> impl Future<Output = Result<Arc<KubeObject>, F::Error>> + Send + 'static {
        let fetch = self.fetch.fetch(key, read);
        let (key, clock, log) = (key.clone(), self.clock.clone(), Arc::clone(&self.log));
        let metrics = Arc::clone(&self.metrics);
        async move {
            let began = clock.now();
            let result = fetch.await;
            let at = clock.now();
            let took = at.saturating_duration_since(began);
            match &result {
                Ok(_) => {
                    log.answered(&key, at);
                    metrics.fetched(read, "ok", took);
                }
                Err(error) if error.is_not_found() => {
                    log.answered(&key, at);
                    metrics.fetched(read, "not_found", took);
                }
                Err(error) => {
                    log.failed(&key, at, error);
                    metrics.fetched(read, error.class(), took);
                }
            }
            result
        }
    }

    fn source(&self, read: ReadKind) -> Source {
        self.fetch.source(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, thiserror::Error)]
    #[error("broken")]
    struct Broken {
        unavailable: bool,
        unreached: bool,
        retry_after: Option<Duration>,
    }

    impl FetchError for Broken {
        fn is_not_found(&self) -> bool {
            false
        }

        fn class(&self) -> &'static str {
            "failed"
        }
    }

    impl SourceError for Broken {
        fn is_unavailable(&self) -> bool {
            self.unavailable
        }

        fn is_unreached(&self) -> bool {
            self.unreached
        }

        fn retry_after(&self) -> Option<Duration> {
            self.retry_after
        }
    }

    const BACKOFF: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(10) };

    fn at(seconds: i128) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("ns", name)
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses: Vec<_> = [1, 2, 3, 4, 5, 60].map(|count| BACKOFF.pause(count).as_secs()).into();
        assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn a_failure_lasts_until_an_answer() {
        let log = FetchLog::new(BACKOFF);
        let broken = Broken { unavailable: false, unreached: false, retry_after: None };
        log.failed(&key("a"), at(0), &broken);
        log.failed(&key("a"), at(1), &broken);
        let failure = log.failure(&key("a")).unwrap();
        assert_eq!((failure.since, failure.count, failure.retry_at), (at(0), 2, at(3)));
        log.answered(&key("a"), at(4));
        assert!(log.failure(&key("a")).is_none());
        assert_eq!(log.health().last_answer, Some(at(4)));
    }

    #[test]
    fn a_watch_that_fails_is_told_until_it_goes_on_and_holds_up_no_read() {
        let log = FetchLog::new(BACKOFF);
        let broken = Broken { unavailable: true, unreached: false, retry_after: None };
        for (scope, of, other) in [
            (Scope::Object(key("a")), key("a"), key("b")),
            (Scope::Namespace("ns".into()), key("b"), ObjectKey::new("other", "b")),
        ] {
            log.watch_failed(&scope, at(1), &broken);
            log.watch_failed(&scope, at(2), &broken);
            let failure = log.failure(&of).unwrap();
            assert_eq!((failure.since, failure.count, failure.retry_at, &*failure.why), (at(1), 2, at(1), "broken"));
            assert!(log.failure(&other).is_none() && log.health().is_failing);
            log.watch_observed(&scope, None, at(3));
            assert!(log.failure(&of).is_none() && !log.health().is_failing);
            log.watch_failed(&scope, at(4), &broken);
            log.watch_ended(&scope);
            assert!(log.failure(&of).is_none());
        }
    }

    #[test]
    fn what_a_watch_has_told_of_is_known_whatever_came_of_its_fetches() {
        let log = FetchLog::new(BACKOFF);
        log.failed(&key("a"), at(0), &Broken { unavailable: false, unreached: false, retry_after: None });
        log.watch_observed(&Scope::Object(key("a")), None, at(1));
        assert!(log.failure(&key("a")).is_some(), "a bookmark says nothing of the object");
        log.watch_observed(&Scope::Object(key("a")), Some(&key("a")), at(1));
        assert!(log.failure(&key("a")).is_none());
    }

    #[test]
    fn the_source_may_ask_for_a_longer_pause() {
        let log = FetchLog::new(BACKOFF);
        log.failed(
            &key("a"),
            at(0),
            &Broken { unavailable: true, unreached: false, retry_after: Some(Duration::from_secs(5)) },
        );
        log.failed(
            &key("b"),
            at(0),
            &Broken { unavailable: true, unreached: false, retry_after: Some(Duration::from_secs(99)) },
        );
        assert_eq!(log.failure(&key("a")).unwrap().retry_at, at(5));
        assert_eq!(log.failure(&key("b")).unwrap().retry_at, at(10));
    }

    #[test]
    fn one_answer_of_a_source_that_was_away_lets_all_its_objects_be_asked_for() {
        let log = FetchLog::new(BACKOFF);
        log.failed(&key("a"), at(0), &Broken { unavailable: true, unreached: false, retry_after: None });
        log.failed(&key("b"), at(0), &Broken { unavailable: false, unreached: false, retry_after: None });
        assert!(log.health().is_failing);
        log.answered(&key("c"), at(0));
        assert!(!log.health().is_failing);
        assert_eq!(log.failure(&key("a")).unwrap().retry_at, at(0), "was away, and is back");
        assert_eq!(log.failure(&key("b")).unwrap().retry_at, at(1), "fails for a reason of its own");
    }
    #[test]
    fn that_a_source_was_not_reached_is_over_once_it_has_answered_anyone() {
        let away = Broken { unavailable: true, unreached: true, retry_after: None };
        let log = FetchLog::new(BACKOFF);
        log.failed(&key("a"), at(1), &away);
        log.answered(&key("c"), at(2));
        assert!(log.failure(&key("a")).is_none() && !log.health().is_failing);

        // So it is where the answer was to somebody else, and came after the failure.
        log.failed(&key("a"), at(3), &away);
        log.source_answered(at(3));
        assert!(log.failure(&key("a")).is_some() && log.health().is_failing);
        log.source_answered(at(4));
        assert!(log.failure(&key("a")).is_none() && !log.health().is_failing);

        // An error that the source answered with is one until that object is answered.
        log.failed(&key("a"), at(5), &Broken { unavailable: true, unreached: false, retry_after: None });
        log.source_answered(at(6));
        assert!(log.failure(&key("a")).is_some() && log.health().is_failing);
    }
}
