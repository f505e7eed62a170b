//! Pauses that grow, and differ from one node to the next.

use std::time::Duration;

/// The pauses after failures in a row, in milliseconds: each reflector has some, so they are small.
pub(crate) struct Backoff {
    initial: u32,
    max: u32,
    /// How often the step was doubled.
    doubled: u8,
    /// How many pauses were cut short.
    cuts: u8,
}

/// Over how long those whose pauses are cut short for the first time come back, so that they do not come at once.
const SPREAD: u32 = 1000;

impl Backoff {
    pub(crate) fn new(initial: Duration, max: Duration) -> Self {
        let millis = |pause: Duration| u32::try_from(pause.as_millis()).unwrap_or(u32::MAX);
        let initial = millis(initial).max(1);
        Self { initial, max: millis(max), doubled: 0, cuts: 0 }
    }

    pub(crate) fn reset(&mut self) {
        (self.doubled, self.cuts) = (0, 0);
    }

    /// The next pause: between half and the whole of the step, the steps doubling up to the limit.
    pub(crate) fn pause(&mut self) -> Duration {
        let step = self.limit(self.initial, self.doubled);
        self.doubled = self.doubled.saturating_add(1);
        Duration::from_millis(step.into()).mul_f64(rand::random_range(0.5..=1.0))
    }

    /// `first`, doubled so often, but no more than the longest pause.
    fn limit(&self, first: u32, doubled: u8) -> u32 {
        first.saturating_mul(2_u32.saturating_pow(doubled.into())).min(self.max)
    }

    /// The next pause where the server has asked for one: not shorter than that, and up to a quarter longer, so that those
    /// who were sent away together do not return together.
    pub(crate) fn pause_after(&mut self, asked: Option<Duration>) -> Duration {
        let own = self.pause();
        asked.map_or(own, |asked| own.max(asked.mul_f64(rand::random_range(1.0..=1.25))))
    }

    /// What is left of a pause that is cut short: up to a second the first time, and from then on between the last limit and
    /// twice that. So whoever is called back again and again in vain comes no more often than by its own pauses.
    pub(crate) fn cut_short(&mut self) -> Duration {
        let from = self.cuts.checked_sub(1).map_or(0, |before| self.limit(SPREAD, before));
        let to = self.limit(SPREAD, self.cuts);
        self.cuts = self.cuts.saturating_add(1);
        Duration::from_millis(rand::random_range(from..=to).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit_and_are_jittered_downwards() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, second * 4);
        for step in [1, 2, 4, 4, 4] {
            let pause = backoff.pause();
            assert!(pause >= second * step / 2 && pause <= second * step, "{pause:?} of step {step} s");
        }
        backoff.reset();
        assert!(backoff.pause() <= second);
    }

    #[test]
    fn pauses_that_are_cut_short_in_vain_grow_to_the_limit_too() {
        let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(6));
        for (from, to) in [(0, 1), (1, 2), (2, 4), (4, 6), (6, 6)] {
            let left = backoff.cut_short();
            assert!(
                left >= Duration::from_secs(from) && left <= Duration::from_secs(to),
                "{left:?} of {from} to {to} s"
            );
        }
        backoff.reset();
        assert!(backoff.cut_short() <= Duration::from_secs(1));
        let mut short = Backoff::new(Duration::from_millis(10), Duration::from_millis(100));
        assert!((0..5).all(|_| short.cut_short() <= Duration::from_millis(100)), "no limit is passed");
    }

    #[test]
    fn a_server_that_asks_for_patience_gets_it() {
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));
        for asked in [3, 7] {
            let pause = backoff.pause_after(Some(Duration::from_secs(asked)));
            assert!(pause >= Duration::from_secs(asked) && pause <= Duration::from_secs(asked).mul_f64(1.25));
        }
        assert!(backoff.pause_after(None) <= Duration::from_millis(40));
    }
}
