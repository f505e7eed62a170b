//! The clock trait, and the clocks for a daemon, a test and a simulation.

// This module is the one place that reads the machine's clocks.
#![allow(clippy::disallowed_methods)]

use crate::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Where a cache takes the time from.
///
/// ```
/// use larder_clock::{Clock, MonotonicClock};
///
/// fn age_of<C: Clock>(clock: &C, fetched: larder_clock::Timestamp) -> std::time::Duration {
///     clock.now().saturating_duration_since(fetched)
/// }
/// let clock = MonotonicClock::new();
/// assert!(age_of(&clock, clock.now()) < std::time::Duration::from_secs(60));
/// ```
pub trait Clock: Send + Sync + 'static {
    /// The time now, since this clock's epoch.
    fn now(&self) -> Timestamp;

    /// Whether the time now is before this one. A clock may tell that with less effort than what the time is.
    ///
    /// ```
    /// use larder_clock::{Clock, Timestamp, VirtualClock};
    /// let clock = VirtualClock::new(Timestamp::from_nanos(9));
    /// assert!(clock.is_before(Timestamp::from_nanos(10)) && !clock.is_before(Timestamp::from_nanos(9)));
    /// ```
    #[inline]
    fn is_before(&self, at: Timestamp) -> bool {
        self.now() < at
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn is_before(&self, at: Timestamp) -> bool {
        (**self).is_before(at)
    }
}

/// Nanoseconds of a duration that a clock of this machine measured.
fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

/// Nanoseconds from the Unix epoch to a wall time, negative before it.
fn unix_nanos(wall: SystemTime) -> i128 {
    match wall.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => nanos(after),
        Err(before) => -nanos(before.duration()),
    }
}

/// The machine's monotonic clock, counted from the wall time at which it was made.
///
/// Its epoch is the Unix epoch as the wall clock had it then. A step of the wall clock does not move it, so ages and
/// waits stay right; [`wall_time`](Self::wall_time) and [`from_wall_time`](Self::from_wall_time) convert with the offset
/// of the moment, so that what a person reads or asks for follows the wall clock.
///
/// The offset of the moment is kept for as long as it is within a millisecond of what the two clocks show: readings of two
/// clocks are some hundred nanoseconds apart, and one timestamp is to have one wall time.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    /// What the machine's clock is behind this one, in nanoseconds.
    ahead: i128,
}

/// What the wall clock is ahead of the machine's monotonic clock, in nanoseconds, as it was last noted; one for all clocks of
/// the process, which have the same two clocks below. Relaxed: it stands for itself.
static WALL_AHEAD: AtomicI64 = AtomicI64::new(i64::MIN);

/// By how much the noted offset may differ from what the clocks show.
const SAME_OFFSET: i128 = 1_000_000;

/// What the wall clock is ahead of the monotonic clock, as the two show it.
fn measured_ahead() -> i128 {
    unix_nanos(SystemTime::now()) - monotonic_nanos()
}

/// The same, as it is gone by.
fn wall_ahead() -> i128 {
    noted(&WALL_AHEAD, measured_ahead())
}

/// The offset to go by, given the one that has just been measured.
fn noted(note: &AtomicI64, measured: i128) -> i128 {
    let last = i128::from(note.load(Ordering::Relaxed));
    if (measured - last).abs() <= SAME_OFFSET {
        return last;
    }
    // Fits for some centuries to come; beyond, every call goes by its own.
    note.store(i64::try_from(measured).unwrap_or(i64::MIN), Ordering::Relaxed);
    measured
}

/// Nanoseconds of the machine's monotonic clock, since some moment.
///
/// The same clock as that of `std::time::Instant`, which would have each reading checked and split twice over: a cache
/// reads it at every read.
#[inline]
fn monotonic_nanos() -> i128 {
    nanos_of(ClockId::Monotonic)
}

/// The same as of the kernel's last tick, 1 to 10 ms ago; a fifth of the effort, for no counter is read.
#[inline]
fn monotonic_nanos_at_tick() -> i128 {
    nanos_of(ClockId::MonotonicCoarse)
}

#[inline]
fn nanos_of(clock: ClockId) -> i128 {
    let now = clock_gettime(clock);
    i128::from(now.tv_sec) * NANOS_PER_SECOND + i128::from(now.tv_nsec)
}

/// More than the time since the kernel's last tick, in nanoseconds: ten ticks of the slowest kernels.
const LONGER_THAN_TICKS: i128 = 100_000_000;

const NANOS_PER_SECOND: i128 = 1_000_000_000;

impl MonotonicClock {
    /// A clock that starts at the wall time of now.
    ///
    /// ```
    /// use larder_clock::{Clock, MonotonicClock};
    /// let clock = MonotonicClock::new();
    /// assert!(clock.now() <= clock.now());
    /// ```
    pub fn new() -> Self {
        Self { ahead: unix_nanos(SystemTime::now()) - monotonic_nanos() }
    }

    /// The wall time of a timestamp of this clock, in nanoseconds since the Unix epoch.
    ///
    /// ```
    /// use larder_clock::{Clock, MonotonicClock};
    /// let clock = MonotonicClock::new();
    /// assert!(clock.wall_time(clock.now()) > 0);
    /// ```
    pub fn wall_time(&self, at: Timestamp) -> i128 {
        at.as_nanos().saturating_add(wall_ahead() - self.ahead)
    }

    /// The timestamp of this clock for a wall time in nanoseconds since the Unix epoch.
    ///
    /// ```
    /// use larder_clock::{Clock, MonotonicClock};
    /// let clock = MonotonicClock::new();
    /// assert!(clock.from_wall_time(0) < clock.now());
    /// ```
    pub fn from_wall_time(&self, unix_nanoseconds: i128) -> Timestamp {
        Timestamp::from_nanos(unix_nanoseconds.saturating_sub(wall_ahead() - self.ahead))
    }

    /// The same for a wall time that another program has read, and after which something is to have happened: by what the
    /// clocks show at this moment, where that is later.
    ///
    /// ```
    /// use larder_clock::MonotonicClock;
    /// let clock = MonotonicClock::new();
    /// assert!(clock.from_wall_time(0) <= clock.from_wall_time_read_elsewhere(0));
    /// ```
    pub fn from_wall_time_read_elsewhere(&self, unix_nanoseconds: i128) -> Timestamp {
        let measured = measured_ahead();
        let ahead = noted(&WALL_AHEAD, measured).min(measured);
        Timestamp::from_nanos(unix_nanoseconds.saturating_sub(ahead - self.ahead))
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Timestamp {
        // A few centuries at most, in a type that has room for many ages of the universe.
        Timestamp::from_nanos(self.ahead + monotonic_nanos())
    }

    /// A time that is further away than a few of the kernel's ticks is told by the time of the last one.
    #[inline]
    fn is_before(&self, at: Timestamp) -> bool {
        let left = at.as_nanos().saturating_sub(self.ahead + monotonic_nanos_at_tick());
        left > LONGER_THAN_TICKS || self.now() < at
    }
}

/// A clock on tokio's time: the monotonic clock, but for tests that pause and advance it.
///
/// ```
/// use larder_clock::{Clock, TokioClock};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let clock = TokioClock::new();
/// let before = clock.now();
/// tokio::time::advance(Duration::from_secs(60)).await;
/// assert_eq!(clock.now().saturating_duration_since(before), Duration::from_secs(60));
/// # });
/// ```
#[cfg(feature = "tokio")]
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    origin: tokio::time::Instant,
    origin_nanos: i128,
}

#[cfg(feature = "tokio")]
impl TokioClock {
    /// A clock that starts at the wall time of now.
    pub fn new() -> Self {
        Self { origin: tokio::time::Instant::now(), origin_nanos: unix_nanos(SystemTime::now()) }
    }
}

#[cfg(feature = "tokio")]
impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(feature = "tokio")]
impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.origin_nanos.saturating_add(nanos(self.origin.elapsed())))
    }
}

/// A clock that moves only when it is told to; clones share the time.
///
/// ```
/// use larder_clock::{Clock, Timestamp, VirtualClock};
/// let clock = VirtualClock::new(Timestamp::ZERO);
/// let shared = clock.clone();
/// clock.set(Timestamp::from_nanos(9));
/// assert_eq!(shared.now(), Timestamp::from_nanos(9));
/// ```
#[derive(Clone, Debug, Default)]
pub struct VirtualClock {
    now: Arc<Mutex<Timestamp>>,
}

impl VirtualClock {
    /// A clock that stands at `start`.
    pub fn new(start: Timestamp) -> Self {
        Self { now: Arc::new(Mutex::new(start)) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.update(|now| now + by);
    }

    /// Sets the clock, backwards too.
    pub fn set(&self, to: Timestamp) {
        self.update(|_| to);
    }

    fn update(&self, change: impl FnOnce(Timestamp) -> Timestamp) {
        // A panic while the lock is held cannot leave half a timestamp behind.
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now = change(*now);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_has_one_wall_time_until_the_clocks_part() {
        let clock = MonotonicClock::new();
        let at = clock.now();
        let wall_time = clock.wall_time(at);
        // Unless the machine's clock is being set right now, by more than a millisecond.
        assert!((0..1_000).all(|_| clock.wall_time(at) == wall_time));
        assert_eq!(clock.from_wall_time(wall_time), at);

        let note = AtomicI64::new(i64::MIN);
        let table = [
            (5_000_000, 5_000_000),
            (5_000_700, 5_000_000),
            (6_000_000, 5_000_000),
            (4_000_000, 5_000_000),
            (6_000_001, 6_000_001),
            (-3_600_000_000_000, -3_600_000_000_000),
            (i128::from(i64::MAX) * 4, i128::from(i64::MAX) * 4),
            (7, 7),
        ];
        for (measured, expected) in table {
            assert_eq!(noted(&note, measured), expected, "{measured}");
        }
    }

    #[test]
    fn the_monotonic_clock_is_the_machines() {
        let reading = || nanos(Duration::try_from(clock_gettime(ClockId::Monotonic)).expect("it is not negative"));
        let (before, ours, after) = (reading(), monotonic_nanos(), reading());
        assert!(before <= ours && ours <= after, "{before}, {ours}, {after}");
    }

    #[test]
    fn whether_a_time_has_come_is_told_to_the_nanosecond() {
        let clock = MonotonicClock::new();
        for ahead in [-LONGER_THAN_TICKS, -1, 0, 1, LONGER_THAN_TICKS / 2, LONGER_THAN_TICKS, 2 * LONGER_THAN_TICKS] {
            let at = Timestamp::from_nanos(clock.now().as_nanos() + ahead);
            let (before, told, after) = (clock.now() < at, clock.is_before(at), clock.now() < at);
            // It is what the full clock says, which may pass the time in between.
            assert!(before >= told && told >= after, "{ahead}: {before}, {told}, {after}");
        }
        assert!(
            clock.is_before(Timestamp::from_nanos(i128::MAX)) && !clock.is_before(Timestamp::from_nanos(i128::MIN))
        );
    }

    #[test]
    fn the_kernels_last_tick_is_not_long_ago() {
        let (before, tick, after) = (monotonic_nanos(), monotonic_nanos_at_tick(), monotonic_nanos());
        assert!(tick <= after, "{tick}, {after}");
        assert!(before - tick <= LONGER_THAN_TICKS, "the tick was {} ns ago", before - tick);
    }

    #[test]
    fn the_monotonic_clock_begins_at_the_wall_time() {
        let wall = || unix_nanos(SystemTime::now());
        let (before, clock) = (wall(), MonotonicClock::new());
        let (now, after) = (clock.now().as_nanos(), wall());
        // The wall clock may run a little slower than the other.
        assert!(before <= now && now <= after + NANOS_PER_SECOND, "{before}, {now}, {after}");
    }
}
