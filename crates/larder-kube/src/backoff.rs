//! Pauses that grow, and differ from one node to the next.

use std::time::Duration;

/// The pauses after failures in a row, in milliseconds: each reflector has some, so they are small.
pub(crate) struct Backoff {
    initial: u32,
    max: u32,
    next: u32,
    /// The longest of the last pause that was cut short; zero before the first.
    cut: u32,
}

/// Over how long those whose pauses are cut short for the first time come back, so that they do not come at once.
const SPREAD: u32 = 1000;

impl Backoff {
    pub(crate) fn new(initial: Duration, max: Duration) -> Self {
        let millis = |pause: Duration| u32::try_from(pause.as_millis()).unwrap_or(u32::MAX);
        let initial = millis(initial).max(1);
        Self { initial, max: millis(max), next: initial, cut: 0 }
    }

    pub(crate) fn reset(&mut self) {
        (self.next, self.cut) = (self.initial, 0);
    }

    /// The next pause: between half and the whole of the step, the steps doubling up to the limit.
    pub(crate) fn pause(&mut self) -> Duration {
        let step = self.next.min(self.max);
        self.next = step.saturating_mul(2);
        Duration::from_millis(step.into()).mul_f64(rand::random_range(0.5..=1.0))
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
        let from = self.cut;
        self.cut = from.saturating_mul(2).max(SPREAD).min(self.max);
        Duration::from_millis(rand::random_range(from..=self.cut).into())
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
