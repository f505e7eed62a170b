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
    fn is_before(&self, at: Timestamp) -> bool;
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

/// The clocks of a machine below a [`MonotonicClock`], each in nanoseconds.
///
/// [`ThisMachine`] has the real ones. A test has its own, and puts the machine to sleep.
pub trait MachineClocks: Copy + Send + Sync + 'static {
    /// The time since the machine started, sleep included, as of now (`CLOCK_BOOTTIME`).
    fn since_boot(&self) -> i128;

    /// The time since the machine started, without sleep, as of now (`CLOCK_MONOTONIC`).
    fn awake(&self) -> i128;

    /// The same as of the kernel's last tick, 1 to 10 ms ago (`CLOCK_MONOTONIC_COARSE`): a fifth of the effort, for no
    /// counter is read.
    fn awake_at_tick(&self) -> i128;

    /// The wall time since the Unix epoch, negative before it (`CLOCK_REALTIME`).
    fn wall(&self) -> i128;

    /// The offsets between these clocks that were noted last.
    fn offsets(&self) -> &ClockOffsets;
}

/// The offsets between the clocks of one machine, as they were noted last.
///
/// All atomics are relaxed: each offset stands for itself.
#[derive(Debug)]
pub struct ClockOffsets {
    /// The wall clock less the time since the start, in nanoseconds.
    wall: AtomicI64,
    /// The time that the machine has slept since its start, in nanoseconds.
    asleep: AtomicI64,
}

impl ClockOffsets {
    /// Offsets that are noted at the first use.
    pub const fn new() -> Self {
        Self { wall: AtomicI64::new(i64::MIN), asleep: AtomicI64::new(i64::MIN) }
    }
}

impl Default for ClockOffsets {
    fn default() -> Self {
        Self::new()
    }
}

/// The clocks of the machine that this process runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisMachine;

impl MachineClocks for ThisMachine {
    /// As cheap as `std::time::Instant`, which would check and split each reading twice over: a cache reads it at each read.
    #[inline]
    fn since_boot(&self) -> i128 {
        nanos_of(ClockId::Boottime)
    }

    #[inline]
    fn awake(&self) -> i128 {
        nanos_of(ClockId::Monotonic)
    }

    #[inline]
    fn awake_at_tick(&self) -> i128 {
        nanos_of(ClockId::MonotonicCoarse)
    }

    fn wall(&self) -> i128 {
        unix_nanos(SystemTime::now())
    }

    #[inline]
    fn offsets(&self) -> &ClockOffsets {
        /// All clocks of the process have the same machine.
        static OFFSETS: ClockOffsets = ClockOffsets::new();
        &OFFSETS
    }
}

#[inline]
fn nanos_of(clock: ClockId) -> i128 {
    let now = clock_gettime(clock);
    i128::from(now.tv_sec) * NANOS_PER_SECOND + i128::from(now.tv_nsec)
}

/// A clock that never goes back and goes on while the machine sleeps, counted from the wall time at which it was made.
///
/// Its epoch is the Unix epoch as the wall clock had it then. A step of the wall clock does not move it, so ages and
/// waits stay right; [`wall_time`](Self::wall_time) and [`from_wall_time`](Self::from_wall_time) convert with the offset
/// of the moment, so that what a person reads or asks for follows the wall clock.
///
/// The offset of the moment is kept for as long as it is within a millisecond of what the two clocks show: readings of two
/// clocks are some hundred nanoseconds apart, and one timestamp is to have one wall time.
///
/// # Sleep
///
/// [`now`](Clock::now) counts the time that the machine sleeps (suspend to RAM or disk) without help.
/// [`is_before`](Clock::is_before) goes by the kernel's tick, which stands still meanwhile, and adds the sleep that was
/// noted last: whoever runs on a machine that sleeps calls [`note_sleep`](Self::note_sleep) after each resume, as the daemon
/// does. Until that call, `is_before` judges as before the sleep.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock<M = ThisMachine> {
    /// What the time since the start of the machine is behind this clock, in nanoseconds.
    ahead: i128,
    machine: M,
}

/// By how much a noted offset may differ from what the clocks show.
const SAME_OFFSET: i128 = 1_000_000;

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

/// More than the time since the kernel's last tick, in nanoseconds: ten ticks of the slowest kernels.
const LONGER_THAN_TICKS: i128 = 100_000_000;

const NANOS_PER_SECOND: i128 = 1_000_000_000;

impl MonotonicClock {
    /// A clock of this machine that starts at the wall time of now.
    ///
    /// ```
    /// use larder_clock::{Clock, MonotonicClock};
    /// let clock = MonotonicClock::new();
    /// assert!(clock.now() <= clock.now());
    /// ```
    pub fn new() -> Self {
        Self::of(ThisMachine)
    }
}

impl<M: MachineClocks> MonotonicClock<M> {
    /// A clock of that machine that starts at the wall time of now.
    ///
    /// ```
    /// use larder_clock::{Clock, MonotonicClock, ThisMachine};
    /// let clock = MonotonicClock::of(ThisMachine);
    /// assert!(clock.now() <= clock.now());
    /// ```
    pub fn of(machine: M) -> Self {
        let clock = Self { ahead: machine.wall() - machine.since_boot(), machine };
        clock.note_sleep();
        clock
    }

    /// Notes how long the machine has slept since its start, for [`is_before`](Clock::is_before). Returns how much longer
    /// that is than at the last note: zero, but after a sleep.
    ///
    /// ```
    /// use larder_clock::MonotonicClock;
    /// let clock = MonotonicClock::new();
    /// // Unless the machine slept between these two lines.
    /// assert!(clock.note_sleep() < std::time::Duration::from_secs(1));
    /// ```
    pub fn note_sleep(&self) -> Duration {
        let note = &self.machine.offsets().asleep;
        let last = note.load(Ordering::Relaxed);
        // Read in this order, an interruption makes the sleep too long, never too short: what has passed is not fresh.
        let awake = self.machine.awake();
        let asleep = noted(note, self.machine.since_boot() - awake);
        let longer = if last == i64::MIN { 0 } else { asleep - i128::from(last) };
        u64::try_from(longer).map_or(Duration::ZERO, Duration::from_nanos)
    }

    /// What the wall clock is ahead of the time since the start, as the two show it.
    fn measured_wall(&self) -> i128 {
        self.machine.wall() - self.machine.since_boot()
    }

    /// By how much wall times are ahead of timestamps.
    fn wall_ahead(&self) -> i128 {
        noted(&self.machine.offsets().wall, self.measured_wall()) - self.ahead
    }

    /// The wall time of a timestamp of this clock, in nanoseconds since the Unix epoch.
    ///
    /// ```
    /// use larder_clock::{Clock, MonotonicClock};
    /// let clock = MonotonicClock::new();
    /// assert!(clock.wall_time(clock.now()) > 0);
    /// ```
    pub fn wall_time(&self, at: Timestamp) -> i128 {
        at.as_nanos().saturating_add(self.wall_ahead())
    }

    /// The timestamp of this clock for a wall time in nanoseconds since the Unix epoch.
    ///
    /// ```
    /// use larder_clock::{Clock, MonotonicClock};
    /// let clock = MonotonicClock::new();
    /// assert!(clock.from_wall_time(0) < clock.now());
    /// ```
    pub fn from_wall_time(&self, unix_nanoseconds: i128) -> Timestamp {
        Timestamp::from_nanos(unix_nanoseconds.saturating_sub(self.wall_ahead()))
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
        let measured = self.measured_wall();
        let ahead = noted(&self.machine.offsets().wall, measured).min(measured);
        Timestamp::from_nanos(unix_nanoseconds.saturating_sub(ahead - self.ahead))
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: MachineClocks> Clock for MonotonicClock<M> {
    #[inline]
    fn now(&self) -> Timestamp {
        // A few centuries at most, in a type that has room for many ages of the universe.
        Timestamp::from_nanos(self.ahead + self.machine.since_boot())
    }

    /// A time that is further away than a few of the kernel's ticks is told by the time of the last one and the sleep that
    /// was noted.
    #[inline]
    fn is_before(&self, at: Timestamp) -> bool {
        let asleep = i128::from(self.machine.offsets().asleep.load(Ordering::Relaxed));
        let left = at.as_nanos().saturating_sub(self.ahead + self.machine.awake_at_tick() + asleep);
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

    fn is_before(&self, at: Timestamp) -> bool {
        self.now() < at
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

    fn is_before(&self, at: Timestamp) -> bool {
        self.now() < at
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
    fn the_monotonic_clock_is_the_machines_with_its_sleep() {
        let reading = || nanos(Duration::try_from(clock_gettime(ClockId::Boottime)).expect("it is not negative"));
        let (before, ours, after) = (reading(), ThisMachine.since_boot(), reading());
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
        let (before, tick, after) = (ThisMachine.awake(), ThisMachine.awake_at_tick(), ThisMachine.awake());
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
