//! Pauses that grow with each failure in a row, with jitter.

use larder_clock::Jitter;
use std::time::Duration;

/// The pauses after failures in a row. Each reflector has two of these, so they count in milliseconds and bytes.
pub(crate) struct Backoff {
    initial: u32,
    max: u32,
    /// How often the step was doubled.
    doubled: u8,
    /// How many pauses were cut short.
    cuts: u8,
    jitter: Jitter,
}

/// The longest pause of the few that [knock](Backoff::knock).
const KNOCK: Duration = Duration::from_secs(5);

/// The longest rest of a pause that is cut short for the first time, in milliseconds: it spreads the requests of all.
const SPREAD: u32 = 1000;

impl Backoff {
    pub(crate) fn new(initial: Duration, max: Duration, jitter: &Jitter) -> Self {
        let millis = |pause: Duration| u32::try_from(pause.as_millis()).unwrap_or(u32::MAX);
        let initial = millis(initial).max(1);
        Self { initial, max: millis(max), doubled: 0, cuts: 0, jitter: jitter.clone() }
    }

    pub(crate) fn reset(&mut self) {
        (self.doubled, self.cuts) = (0, 0);
    }

    /// The next pause: between half and the whole of the step, the steps doubling up to the limit.
    pub(crate) fn pause(&mut self) -> Duration {
        let step = self.limit(self.initial, self.doubled);
        self.doubled = self.doubled.saturating_add(1);
        self.jitter.scale(Duration::from_millis(step.into()), 0.5..=1.0)
    }

    /// `first`, doubled so often, but no more than the longest pause.
    fn limit(&self, first: u32, doubled: u8) -> u32 {
        first.saturating_mul(2_u32.saturating_pow(doubled.into())).min(self.max)
    }

    /// The next pause. Where the server asks for one, it is at least as long, and up to a quarter longer: clients that the
    /// server sends away together do not return together.
    pub(crate) fn pause_after(&mut self, asked: Option<Duration>) -> Duration {
        let own = self.pause();
        asked.map_or(own, |asked| own.max(self.jitter.scale(asked, 1.0..=1.25)))
    }

    /// The rest of a pause that is cut short: up to a second the first time, and from then on between the last limit and
    /// twice that limit. A request that fails each time the server is back is so retried no more often than without cuts.
    pub(crate) fn cut_short(&mut self) -> Duration {
        let from = self.cuts.checked_sub(1).map_or(0, |before| self.limit(SPREAD, before));
        let to = self.limit(SPREAD, self.cuts);
        self.cuts = self.cuts.saturating_add(1);
        self.jitter.between(Duration::from_millis(from.into())..=Duration::from_millis(to.into()))
    }

    /// `pause`, but at most some seconds: for a list-watch that tries whether an unreachable server is back, so that its success
    /// ends the pauses of all, and for one that tries whether its watch finds room.
    pub(crate) fn knock(&self, pause: Duration) -> Duration {
        pause.min(self.jitter.scale(KNOCK, 0.5..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit_and_are_jittered_downwards() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, second * 4, &Jitter::default());
        for step in [1, 2, 4, 4, 4] {
            let pause = backoff.pause();
            assert!(pause >= second * step / 2 && pause <= second * step, "{pause:?} of step {step} s");
        }
        backoff.reset();
        assert!(backoff.pause() <= second);
    }

    #[test]
    fn pauses_that_are_cut_short_in_vain_grow_to_the_limit_too() {
        let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(6), &Jitter::default());
        for (from, to) in [(0, 1), (1, 2), (2, 4), (4, 6), (6, 6)] {
            let left = backoff.cut_short();
            assert!(
                left >= Duration::from_secs(from) && left <= Duration::from_secs(to),
                "{left:?} of {from} to {to} s"
            );
        }
        backoff.reset();
        assert!(backoff.cut_short() <= Duration::from_secs(1));
        let mut short = Backoff::new(Duration::from_millis(10), Duration::from_millis(100), &Jitter::default());
        assert!((0..5).all(|_| short.cut_short() <= Duration::from_millis(100)), "no limit is passed");
    }

    #[test]
    fn a_server_that_asks_for_patience_gets_it() {
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(1), &Jitter::default());
        for asked in [3, 7] {
            let pause = backoff.pause_after(Some(Duration::from_secs(asked)));
            assert!(pause >= Duration::from_secs(asked) && pause <= Duration::from_secs(asked).mul_f64(1.25));
        }
        assert!(backoff.pause_after(None) <= Duration::from_millis(40));
    }

    #[test]
    fn a_knock_comes_every_few_seconds() {
        let backoff = Backoff::new(Duration::from_secs(30), Duration::from_secs(30), &Jitter::default());
        assert_eq!(backoff.knock(Duration::from_millis(10)), Duration::from_millis(10));
        assert!((KNOCK / 2..=KNOCK).contains(&backoff.knock(Duration::from_secs(30))));
    }
}
