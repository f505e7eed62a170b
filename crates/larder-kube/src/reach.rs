//! Whether the server serves larder, and those who wait until it does again.
//!
//! After an outage everybody would wait out a pause of its own, up to half a minute after the server has answered someone
//! else. Here the first success ends the pauses of all, spread over a second.
//!
//! # Guarantees
//!
//! - *Whatever it was*: the server was away, failed (5xx), refused larder's credentials (401), asked for patience (429) or sent it
//!   elsewhere (3xx). A refusal of one thing alone (403, 404) is no outage.
//! - *`Retry-After` stands*: no pause ends before the time that the server has asked for.
//! - *No loop*: a server may fail one request for ever and serve all others. Each pause that was ended early in vain has the next
//!   one end later, until it is waited out ([`Backoff::cut_short`]).

use crate::backoff::Backoff;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The longest pause of those few that knock for all.
const KNOCK: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct Reach {
    lost: AtomicBool,
    returns: AtomicU64,
    back: Notify,
}

impl Reach {
    /// A request has failed as every other one may.
    pub(crate) fn lost(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// A request has succeeded.
    pub(crate) fn answered(&self) {
        if self.lost.load(Ordering::Relaxed) && self.lost.swap(false, Ordering::AcqRel) {
            self.mended();
        }
    }

    /// What every request failed by may be mended, so that all may try again.
    pub(crate) fn mended(&self) {
        self.returns.fetch_add(1, Ordering::AcqRel);
        self.back.notify_waiters();
    }

    /// How often the server has come back so far.
    pub(crate) fn returns(&self) -> u64 {
        self.returns.load(Ordering::Acquire)
    }

    /// Waits a pause of `backoff` out, but not for much longer than until the server has come back once more than `returns`
    /// times and the time has passed for which it `asked`.
    ///
    /// Cancel safe.
    pub(crate) async fn pause(&self, backoff: &mut Backoff, pause: Duration, asked: Option<Duration>, returns: u64) {
        let begun = Instant::now();
        let end = begun + pause;
        // Made before the count is looked at: what comes back between the two is noticed.
        let back = self.back.notified();
        if self.returns() == returns {
            tokio::select! {
                () = sleep_until(end) => return,
                () = back => {}
            }
        }
        let due = Instant::now().max(begun + asked.unwrap_or_default());
        if due < end {
            sleep_until(end.min(due + backoff.cut_short())).await;
        } else {
            sleep_until(end).await;
        }
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
    use tokio::time::sleep;

    const LONG: Duration = Duration::from_secs(30);

    fn backoff() -> Backoff {
        Backoff::new(Duration::from_millis(500), LONG)
    }

    /// Whether it has taken so many seconds, and at most one more.
    fn took(begun: Instant, seconds: u64) -> bool {
        let took = begun.elapsed();
        took >= Duration::from_secs(seconds) && took <= Duration::from_millis(seconds * 1000 + 1010)
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_answer_ends_the_pauses_of_all() {
        let reach = Arc::new(Reach::default());
        reach.lost();
        let returns = reach.returns();
        let begun = Instant::now();
        let waiting: Vec<_> = (0..20)
            .map(|_| {
                let reach = Arc::clone(&reach);
                tokio::spawn(async move { reach.pause(&mut backoff(), LONG, None, returns).await })
            })
            .collect();
        sleep(Duration::from_secs(3)).await;
        reach.answered();
        for task in waiting {
            task.await.expect("a pause only waits");
        }
        assert!(took(begun, 3), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_return_before_the_pause_began_counts_and_an_answer_without_a_loss_does_not() {
        let reach = Reach::default();
        let returns = reach.returns();
        reach.lost();
        reach.answered();
        let begun = Instant::now();
        reach.pause(&mut backoff(), LONG, None, returns).await;
        assert!(took(begun, 0), "{:?}", begun.elapsed());

        let (returns, begun) = (reach.returns(), Instant::now());
        reach.answered();
        reach.pause(&mut backoff(), LONG, None, returns).await;
        assert!(took(begun, 30), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn no_return_shortens_the_time_that_the_server_has_asked_for() {
        let reach = Reach::default();
        for asked in [7, 30, 40] {
            let returns = reach.returns();
            reach.lost();
            reach.answered();
            let begun = Instant::now();
            reach
                .pause(&mut backoff(), LONG.max(Duration::from_secs(asked)), Some(Duration::from_secs(asked)), returns)
                .await;
            assert!(took(begun, asked), "{:?} of {asked} s", begun.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_called_back_in_vain_waits_longer_each_time() {
        let (reach, mut backoff, begun) = (Reach::default(), backoff(), Instant::now());
        for round in 0..100 {
            let returns = reach.returns();
            reach.lost();
            reach.answered();
            reach.pause(&mut backoff, LONG, None, returns).await;
            assert!(round > 0 || took(begun, 0), "{:?}", begun.elapsed());
        }
        assert!(begun.elapsed() >= LONG * 95, "{:?}", begun.elapsed());
    }

    #[test]
    fn who_knocks_for_all_does_so_every_few_seconds() {
        assert_eq!(Reach::knock(Duration::from_millis(10)), Duration::from_millis(10));
        let pause = Reach::knock(LONG);
        assert!(pause >= KNOCK / 2 && pause <= KNOCK);
    }
}
