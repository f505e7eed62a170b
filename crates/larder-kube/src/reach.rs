//! Whether the server can be reached, and those who wait for it to come back.
//!
//! After an outage everybody would wait out a pause of its own, up to half a minute after the server has answered someone
//! else. Here the first answer ends the pauses of all, spread over a second.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

/// Over how long those who waited come back, so that they do not come at once.
const SPREAD: Duration = Duration::from_secs(1);

/// The longest pause of those few that knock for all.
const KNOCK: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct Reach {
    lost: AtomicBool,
    returns: AtomicU64,
    back: Notify,
}

impl Reach {
    /// A request did not get there, or no answer back.
    pub(crate) fn lost(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// A request was answered.
    pub(crate) fn answered(&self) {
        if self.lost.load(Ordering::Relaxed) && self.lost.swap(false, Ordering::AcqRel) {
            self.returns.fetch_add(1, Ordering::AcqRel);
            self.back.notify_waiters();
        }
    }

    /// How often the server has come back so far.
    pub(crate) fn returns(&self) -> u64 {
        self.returns.load(Ordering::Acquire)
    }

    /// Waits the pause out, but not for longer than until the server has come back once more than `returns` times.
    ///
    /// Cancel safe.
    pub(crate) async fn pause(&self, pause: Duration, returns: u64) {
        let end = Instant::now() + pause;
        // Made before the count is looked at: what comes back between the two is noticed.
        let back = self.back.notified();
        if self.returns() == returns {
            tokio::select! {
                () = sleep_until(end) => return,
                () = back => {}
            }
        }
        let left = end.saturating_duration_since(Instant::now());
        sleep(left.min(SPREAD).mul_f64(rand::random_range(0.0..=1.0))).await;
    }

    /// The pause of one that knocks for all: no longer than some seconds.
    pub(crate) fn knock(pause: Duration) -> Duration {
        pause.min(KNOCK.mul_f64(rand::random_range(0.5..=1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn the_first_answer_ends_the_pauses_of_all() {
        let reach = Arc::new(Reach::default());
        reach.lost();
        let returns = reach.returns();
        let begun = Instant::now();
        let waiting: Vec<_> = (0..20)
            .map(|_| {
                let reach = Arc::clone(&reach);
                tokio::spawn(async move { reach.pause(LONG, returns).await })
            })
            .collect();
        sleep(Duration::from_secs(3)).await;
        reach.answered();
        for task in waiting {
            task.await.expect("a pause only waits");
        }
        let took = begun.elapsed();
        assert!(
            took >= Duration::from_secs(3) && took <= Duration::from_secs(4) + Duration::from_millis(10),
            "{took:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_return_before_the_pause_began_counts_and_an_answer_without_a_loss_does_not() {
        let reach = Reach::default();
        let returns = reach.returns();
        reach.lost();
        reach.answered();
        let begun = Instant::now();
        reach.pause(LONG, returns).await;
        assert!(begun.elapsed() <= SPREAD + Duration::from_millis(10));

        let (returns, begun) = (reach.returns(), Instant::now());
        reach.answered();
        reach.pause(LONG, returns).await;
        assert!(begun.elapsed() >= LONG);
    }

    #[test]
    fn who_knocks_for_all_does_so_every_few_seconds() {
        assert_eq!(Reach::knock(Duration::from_millis(10)), Duration::from_millis(10));
        let pause = Reach::knock(LONG);
        assert!(pause >= KNOCK / 2 && pause <= KNOCK);
    }
}
