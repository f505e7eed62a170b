//! One object: who refers to it, what is held of it, how it is kept up to date, and who waits.

use super::After;
use super::observed::{Known, Moment, Observed, Settled, Stamp};
use crate::sync::{AtomicBool, AtomicI64, Ordering};
use crate::{FetchError, FreshState, Freshness, Kept, Object, ObjectTtl, ReadKind, Source, StaleReason};
use futures_util::future::{Shared, WeakShared};
use larder_clock::Timestamp;
use smallvec::SmallVec;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// For how long readers wait for a reflector that says nothing before it is backed by fetches, where it may be.
const PATIENCE: Duration = ObjectTtl::LEAST_BOUND.duration();

/// A fetch that its readers share: the outcome is taken in once, by whoever polls it to its end.
pub(super) type SharedFetch<E> = Shared<Pin<Box<dyn Future<Output = Settled<E>> + Send>>>;

/// A fetch under way. Its readers hold it; with the last of them it is dropped.
pub(super) struct Flight<E> {
    pub(super) kind: ReadKind,
    pub(super) began: Stamp,
    pub(super) fetch: WeakShared<Pin<Box<dyn Future<Output = Settled<E>> + Send>>>,
}

/// What readers see of a reflector without a lock.
pub(super) struct Pulse {
    /// When the reflector last showed that it is current, as [`offset`].
    at: AtomicI64,
    /// The reflector fails, or has not synced.
    broken: AtomicBool,
    /// Nothing but the time is to be noted when the reflector confirms.
    quiet: AtomicBool,
}

/// A time before another.
pub(super) fn before(at: Timestamp, ago: Duration) -> Timestamp {
    at.saturating_add_nanos(i128::try_from(ago.as_nanos()).map_or(i128::MIN, |nanos| -nanos))
}

/// A time as nanoseconds after `base`, in 64 bits: within 292 years of it, and at those limits beyond.
pub(super) fn offset(base: Timestamp, at: Timestamp) -> i64 {
    let nanos = at.as_nanos().saturating_sub(base.as_nanos());
    i64::try_from(nanos).unwrap_or(if nanos.is_negative() { i64::MIN } else { i64::MAX })
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self { at: AtomicI64::new(i64::MIN), broken: AtomicBool::new(true), quiet: AtomicBool::new(false) }
    }

    pub(super) fn beat(&self, base: Timestamp, at: Timestamp) {
        // The time stands for itself. What a reader finds published was published before it can find it, by the map.
        self.at.fetch_max(offset(base, at), Ordering::Relaxed);
    }

    pub(super) fn at(&self, base: Timestamp) -> Option<Timestamp> {
        match self.at.load(Ordering::Relaxed) {
            i64::MIN => None,
            nanos => Some(base.saturating_add_nanos(nanos.into())),
        }
    }

    pub(super) fn is_broken(&self) -> bool {
        // A reader that misses a failure of this very moment read before it.
        self.broken.load(Ordering::Relaxed)
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }
}

/// A reflector that runs.
pub(super) struct Link<E, H> {
    /// Which one: those before it have other numbers.
    pub(super) generation: Stamp,
    /// None while it is being started.
    pub(super) handle: Option<H>,
    pub(super) started: Timestamp,
    pub(super) synced: bool,
    /// In a box, because most reflectors never fail.
    pub(super) failing: Option<Box<Failing<E>>>,
    /// When its last list began, as far as it said so.
    pub(super) listed: Stamp,
    pub(super) pulse: Arc<Pulse>,
}

/// Why and since when a reflector fails.
pub(super) struct Failing<E> {
    pub(super) since: Timestamp,
    pub(super) error: Arc<E>,
}

impl<E, H> Link<E, H> {
    pub(super) fn new(moment: Moment) -> Self {
        Self {
            generation: moment.stamp,
            handle: None,
            started: moment.at,
            synced: false,
            failing: None,
            listed: moment.stamp,
            pulse: Arc::new(Pulse::new()),
        }
    }

    pub(super) fn is_healthy(&self) -> bool {
        self.synced && self.failing.is_none()
    }

    /// A list or watch failed.
    pub(super) fn fail<O>(&mut self, error: Arc<E>, at: Timestamp, after: &mut After<O, E, H>) {
        let since = self.failing.as_ref().map_or(at, |failing| failing.since);
        self.recover(after);
        self.failing = Some(Box::new(Failing { since, error }));
    }

    /// It fails no more.
    pub(super) fn recover<O>(&mut self, after: &mut After<O, E, H>) {
        after.errors.extend(self.failing.take().map(|failing| failing.error));
    }

    /// It is stopped, once the lock is released.
    pub(super) fn end<O>(mut self, after: &mut After<O, E, H>) {
        self.recover(after);
        after.handles.extend(self.handle);
    }

    /// Whether it has been silent since its start for longer than readers wait for it.
    pub(super) fn is_late(&self, now: Timestamp) -> bool {
        !self.synced && now >= self.started + PATIENCE
    }

    /// Whether it has failed for longer than that.
    pub(super) fn fails_for_longer_than(&self, time: Duration, now: Timestamp) -> bool {
        self.failing.as_ref().is_some_and(|failing| now > failing.since + time)
    }

    /// Tells readers and the sink how it stands; `ahead` if a fetch is ahead of it somewhere.
    pub(super) fn show(&self, ahead: bool) {
        let healthy = self.is_healthy();
        self.pulse.broken.store(!healthy, Ordering::Relaxed);
        self.pulse.quiet.store(healthy && !ahead, Ordering::Relaxed);
    }
}

/// How an object is kept up to date.
pub(super) enum Watch<E, H> {
    /// Not at all, or by polls.
    Off,
    /// By a reflector that was stopped then because nobody read the object.
    Idle(Timestamp),
    /// By a reflector of its own.
    Own(Link<E, H>),
    /// By the reflector of its namespace.
    Namespace,
    /// It cannot change.
    Held,
}

/// How a read is to be answered.
pub(super) enum Verdict<E> {
    /// With what is held, which is fresh.
    Fresh,
    /// With what is held.
    Stale(StaleReason),
    /// With a failure, since nothing is held.
    Fail(Arc<E>),
    /// By a fetch.
    Fetch(ReadKind),
    /// Once a reflector has been started.
    Start,
    /// Once the reflector has said something.
    Wait,
}

/// A referenced object.
pub(super) struct Item<O, E, H> {
    /// How often each pod refers to it; most objects have one pod.
    references: SmallVec<[(Arc<str>, u32); 1]>,
    /// When it was first referenced.
    pub(super) born: Stamp,
    pub(super) observed: Observed<O>,
    pub(super) watch: Watch<E, H>,
    /// It is read again and again, as a volume is.
    pub(super) mounted: bool,
    /// When a poll of it last began.
    pub(super) polled: Option<Timestamp>,
    /// In a box, because most of the time there is none.
    pub(super) flight: Option<Box<Flight<E>>>,
    /// When it was last read, as [`offset`]; readers set it without a lock.
    pub(super) accessed: Arc<AtomicI64>,
    waiting: Vec<(u64, Waker)>,
}

impl<O: Object, E: FetchError, H> Item<O, E, H> {
    pub(super) fn new(born: Stamp) -> Self {
        Self {
            references: SmallVec::new(),
            born,
            observed: Observed::new(),
            watch: Watch::Off,
            mounted: false,
            polled: None,
            flight: None,
            accessed: Arc::new(AtomicI64::new(i64::MIN)),
            waiting: Vec::new(),
        }
    }

    pub(super) fn add_reference(&mut self, uid: &Arc<str>) {
        match self.references.iter_mut().find(|(of, _)| of == uid) {
            Some((_, count)) => *count = count.saturating_add(1),
            None => self.references.push((Arc::clone(uid), 1)),
        }
    }

    /// Whether none is left. Without effect where that pod has none.
    pub(super) fn delete_reference(&mut self, uid: &str) -> bool {
        if let Some(at) = self.references.iter().position(|(of, _)| **of == *uid) {
            self.references[at].1 -= 1;
            if self.references[at].1 == 0 {
                self.references.swap_remove(at);
            }
        }
        self.references.is_empty()
    }

    pub(super) fn references(&self) -> usize {
        self.references.iter().map(|(_, count)| usize::try_from(*count).unwrap_or(usize::MAX)).sum()
    }

    /// Whether it was read after that long ago. One that nobody has read yet was not.
    pub(super) fn is_idle(&self, base: Timestamp, now: Timestamp, max_idle: Duration) -> bool {
        match self.accessed.load(Ordering::Relaxed) {
            i64::MIN => true,
            nanos => now > base.saturating_add_nanos(nanos.into()) + max_idle,
        }
    }

    pub(super) fn access(&self, base: Timestamp, now: Timestamp) {
        self.accessed.store(offset(base, now), Ordering::Relaxed);
    }

    /// Takes the waker, to be called when there is something to see.
    pub(super) fn wait(&mut self, ticket: u64, waker: &mut Option<Waker>) {
        self.waiting.extend(waker.take().map(|waker| (ticket, waker)));
    }

    #[must_use = "to be dropped without the lock"]
    pub(super) fn leave(&mut self, ticket: u64) -> Option<Waker> {
        let at = self.waiting.iter().position(|(of, _)| *of == ticket)?;
        Some(self.waiting.swap_remove(at).1)
    }

    pub(super) fn wake_all(&mut self) -> impl Iterator<Item = Waker> {
        std::mem::take(&mut self.waiting).into_iter().map(|(_, waker)| waker)
    }

    /// The version from which its reflector may resume.
    pub(super) fn resume(&self) -> Option<String> {
        let version = self.observed.object()?.resource_version();
        (!version.is_empty()).then(|| version.to_owned())
    }

    /// When what is held was last confirmed, and by what. `link` is the reflector that keeps it.
    pub(super) fn confirmed(&self, link: Option<&Link<E, H>>, base: Timestamp) -> (Timestamp, Source) {
        let pulse = link.filter(|link| link.synced).and_then(|link| link.pulse.at(base));
        match pulse {
            Some(at) if at > self.observed.at() => (at, Source::Watch),
            _ => (self.observed.at(), self.observed.source()),
        }
    }

    /// How a read now is to be answered.
    pub(super) fn judge(
        &self,
        link: Option<&Link<E, H>>,
        polling: Option<ObjectTtl>,
        now: Timestamp,
        base: Timestamp,
    ) -> Verdict<E> {
        let observed = &self.observed;
        let Some(link) = link else {
            return match (&self.watch, polling) {
                (Watch::Held, _) if observed.is_doubtful() => Verdict::Fetch(ReadKind::Consistent),
                (Watch::Held, _) => Verdict::Fresh,
                (_, None) => Verdict::Start,
                (_, Some(ttl)) => self.judge_polled(ttl, now),
            };
        };
        let (confirmed, _) = self.confirmed(Some(link), base);
        let known = observed.is_known() && !observed.is_doubtful();
        match (&link.failing, polling) {
            (Some(_), Some(ttl)) if known && ttl.is_fresh(confirmed, now) => Verdict::Fresh,
            (Some(_), Some(_)) => Verdict::Fetch(observed.next_read()),
            (Some(failing), None) if !observed.is_known() => Verdict::Fail(Arc::clone(&failing.error)),
            (Some(_), None) if link.synced && observed.is_doubtful() => Verdict::Fetch(ReadKind::Consistent),
            (Some(failing), None) => Verdict::Stale(StaleReason::FetchFailed { class: failing.error.class() }),
            // As polled, until the reflector has said more; an absence is asked for again, as there.
            (None, Some(ttl))
                if !link.synced && known && observed.object().is_some() && ttl.is_fresh(confirmed, now) =>
            {
                Verdict::Fresh
            }
            (None, Some(_)) if link.is_late(now) => Verdict::Fetch(observed.next_read()),
            (None, _) if !link.synced => Verdict::Wait,
            (None, _) if !known => Verdict::Fetch(ReadKind::Consistent),
            (None, Some(ttl)) if !ttl.silence_bound().is_fresh(confirmed, now) => Verdict::Fetch(observed.next_read()),
            (None, _) => Verdict::Fresh,
        }
    }

    /// The rules for an object that nothing watches yet.
    fn judge_polled(&self, ttl: ObjectTtl, now: Timestamp) -> Verdict<E> {
        let observed = &self.observed;
        let known = if observed.is_doubtful() { &Known::Nothing } else { observed.known() };
        let window = ttl.watch_window();
        match known {
            // Asked for again though it is not there: it is seen at once when it is created.
            Known::Absent => Verdict::Start,
            Known::Object(_) if ttl.is_fresh(observed.at(), now) => Verdict::Fresh,
            _ if self.mounted => Verdict::Start,
            Known::Object(_) if self.polled.is_some_and(|at| window.is_fresh(at, now)) => Verdict::Start,
            _ => Verdict::Fetch(observed.next_read()),
        }
    }

    /// For how long after it was confirmed what is held is good if nothing confirms it: for its TTL, unless a reflector that
    /// is well keeps it or it is held for good; 0 then.
    pub(super) fn fresh_for(&self, link: Option<&Link<E, H>>, polling: Option<ObjectTtl>) -> ObjectTtl {
        let is_kept = matches!(self.watch, Watch::Held) || link.is_some_and(Link::is_healthy);
        polling.filter(|_| !is_kept).unwrap_or_default()
    }

    /// What is held was good until then, by the rules that it is kept by.
    pub(super) fn stale_since(
        &self,
        link: Option<&Link<E, H>>,
        polling: Option<ObjectTtl>,
        base: Timestamp,
    ) -> Timestamp {
        let (confirmed, _) = self.confirmed(link, base);
        let by_time = match (&self.watch, link, polling) {
            (Watch::Idle(since), ..) => *since,
            (Watch::Held, ..) => Timestamp::from_nanos(i128::MAX),
            (_, Some(link), Some(ttl)) => match &link.failing {
                Some(failing) => ttl.stale_since(confirmed).max(failing.since),
                None if link.synced => ttl.silence_bound().stale_since(confirmed),
                None => ttl.stale_since(confirmed),
            },
            (_, Some(link), None) => match &link.failing {
                Some(failing) => failing.since,
                None if link.synced => Timestamp::from_nanos(i128::MAX),
                None => link.started,
            },
            (_, None, Some(ttl)) => ttl.stale_since(confirmed),
            (_, None, None) => confirmed,
        };
        let doubted = if self.observed.is_doubtful() { self.observed.doubted_at() } else { by_time };
        doubted.min(by_time).max(confirmed)
    }

    /// How fresh what is held is, unless `reason` says why it is not.
    pub(super) fn freshness(
        &self,
        link: Option<&Link<E, H>>,
        polling: Option<ObjectTtl>,
        (now, base): (Timestamp, Timestamp),
        reason: Option<StaleReason>,
    ) -> Freshness {
        let (confirmed_at, source) = self.confirmed(link, base);
        let since = || self.stale_since(link, polling, base).min(now).max(confirmed_at);
        let state = reason.map_or(FreshState::Fresh, |reason| FreshState::Stale { since: since(), reason });
        Freshness::new(confirmed_at, source, state).with_ttl(self.fresh_for(link, polling))
    }

    /// How fresh what is held is as it stands: what a read that may ask nobody would be answered. An absence that a read asks
    /// for again counts for its TTL.
    pub(super) fn at_rest(
        &self,
        link: Option<&Link<E, H>>,
        polling: Option<ObjectTtl>,
        now: Timestamp,
        base: Timestamp,
    ) -> Freshness {
        let failing = link.and_then(|link| link.failing.as_ref());
        let reason = match self.judge(link, polling, now, base) {
            Verdict::Fresh => None,
            Verdict::Stale(reason) => Some(reason),
            Verdict::Fail(error) => Some(StaleReason::FetchFailed { class: error.class() }),
            Verdict::Fetch(_) | Verdict::Start | Verdict::Wait => match failing {
                Some(failing) => Some(StaleReason::FetchFailed { class: failing.error.class() }),
                None if self.observed.object().is_none() && now < self.stale_since(link, polling, base) => None,
                None => Some(StaleReason::Expired),
            },
        };
        self.freshness(link, polling, (now, base), reason)
    }

    pub(super) const fn kept(&self, polls: bool) -> Kept {
        match self.watch {
            Watch::Own(_) => Kept::Watched,
            Watch::Namespace => Kept::NamespaceWatched,
            Watch::Held => Kept::Held,
            Watch::Off if polls => Kept::Polled,
            Watch::Idle(_) | Watch::Off => Kept::Idle,
        }
    }

    /// What is held is kept by its reflector no more; it is as current as that was.
    pub(super) fn unlink(&mut self, watch: Watch<E, H>, base: Timestamp, after: &mut After<O, E, H>) {
        if let Watch::Own(link) = std::mem::replace(&mut self.watch, watch) {
            if link.synced
                && let Some(at) = link.pulse.at(base)
            {
                self.observed.pulse(at);
            }
            self.observed.unfollow();
            link.end(after);
        }
    }
}

// Atomics outside of a run of shuttle are none.
#[cfg(all(test, not(shuttle)))]
mod tests;
