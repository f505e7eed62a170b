//! A machine that sleeps: its monotonic clock and its ticks stand still, and larder's time goes on.

use larder_clock::{Clock as _, ClockOffsets, MachineClocks, MonotonicClock, Timestamp};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// How far the kernel's last tick is behind.
const TICK: i128 = 4_000_000;
/// The wall time at which the machine started.
const WALL: i128 = 1_800_000_000_000_000_000;

const HOUR: Duration = Duration::from_hours(1);

/// The clocks of a machine that runs and sleeps when the test says so.
#[derive(Debug, Default)]
struct Laptop {
    awake: AtomicI64,
    asleep: AtomicI64,
    offsets: ClockOffsets,
}

impl Laptop {
    /// A machine that has been on for a day.
    fn leaked() -> &'static Self {
        let laptop = Box::leak(Box::new(Self::default()));
        laptop.run(24 * HOUR);
        laptop
    }

    fn run(&self, time: Duration) {
        self.awake.fetch_add(i64::try_from(time.as_nanos()).unwrap(), Ordering::SeqCst);
    }

    fn sleep(&self, time: Duration) {
        self.asleep.fetch_add(i64::try_from(time.as_nanos()).unwrap(), Ordering::SeqCst);
    }
}

impl MachineClocks for &'static Laptop {
    fn since_boot(&self) -> i128 {
        self.awake() + i128::from(self.asleep.load(Ordering::SeqCst))
    }

    fn awake(&self) -> i128 {
        self.awake.load(Ordering::SeqCst).into()
    }

    fn awake_at_tick(&self) -> i128 {
        self.awake() - TICK
    }

    fn wall(&self) -> i128 {
        WALL + self.since_boot()
    }

    fn offsets(&self) -> &ClockOffsets {
        &self.offsets
    }
}

#[test]
fn the_time_goes_on_while_the_machine_sleeps() {
    let laptop = Laptop::leaked();
    let clock = MonotonicClock::of(laptop);
    let before = clock.now();
    laptop.sleep(HOUR);
    assert_eq!(clock.now().saturating_duration_since(before), HOUR, "without a note");
    laptop.run(HOUR);
    assert_eq!(clock.now().saturating_duration_since(before), 2 * HOUR);
}

#[test]
fn a_time_that_passed_in_sleep_has_come_once_the_sleep_is_noted() {
    let laptop = Laptop::leaked();
    let clock = MonotonicClock::of(laptop);
    let expiry = clock.now() + HOUR;
    assert!(clock.is_before(expiry));
    laptop.sleep(2 * HOUR);
    assert_eq!(clock.note_sleep(), 2 * HOUR);
    assert!(!clock.is_before(expiry));
    assert_eq!(clock.note_sleep(), Duration::ZERO, "a sleep is told once");
}

#[test]
fn is_before_is_exact_after_any_number_of_sleeps() {
    let laptop = Laptop::leaked();
    let clock = MonotonicClock::of(laptop);
    for sleep in [Duration::from_nanos(1), Duration::from_micros(999), Duration::from_secs(1), 100 * HOUR] {
        laptop.sleep(sleep);
        clock.note_sleep();
        for ahead in [-1_000_000_000, -1, 0, 1, 99_999_999, 100_000_001, 1_000_000_000_i128] {
            let at = Timestamp::from_nanos(clock.now().as_nanos() + ahead);
            assert_eq!(clock.is_before(at), ahead > 0, "{ahead} after {sleep:?}");
        }
    }
}

#[test]
fn a_clock_that_is_made_after_a_sleep_knows_of_it() {
    let laptop = Laptop::leaked();
    laptop.sleep(HOUR);
    let clock = MonotonicClock::of(laptop);
    assert!(!clock.is_before(clock.now()));
    assert!(clock.is_before(clock.now() + HOUR));
    assert_eq!(clock.note_sleep(), Duration::ZERO);
}

#[test]
fn wall_times_from_before_a_sleep_stay_as_they_were() {
    let laptop = Laptop::leaked();
    let clock = MonotonicClock::of(laptop);
    let at = clock.now();
    let wall = clock.wall_time(at);
    assert_eq!(wall, laptop.wall());
    laptop.sleep(HOUR);
    assert_eq!(clock.wall_time(at), wall);
    assert_eq!(clock.from_wall_time(wall), at);
    assert_eq!(clock.wall_time(clock.now()), laptop.wall());
}
