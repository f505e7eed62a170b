//! Whether the API server is available, and the pauses that end when it is available again.
//!
//! Without this, each list-watch would wait out its own backoff after an outage, up to half a minute after the server has
//! answered another request. Here the first success ends the pauses of all, spread over a second.
//!
//! # Guarantees
//!
//! - *Every kind of outage*: the server is unavailable while it cannot be reached, fails (5xx), refuses larder's credentials
//!   (401), asks for patience (429) or redirects (3xx). A refusal of one object (403, 404) is no outage.
//! - *`Retry-After` stands*: no pause ends before the time that the server asked for.
//! - *No loop*: a server may fail one request for ever and serve all others. If a pause was ended early and the request
//!   failed again, the next pause is ended later, until a whole pause is waited out ([`Backoff::cut_short`]).

use crate::backoff::Backoff;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

#[derive(Default)]
pub(crate) struct Availability {
    lost: AtomicBool,
    returns: AtomicU32,
    back: Notify,
}

impl Availability {
    /// A request failed for a reason that concerns every request.
    pub(crate) fn lost(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// A request succeeded.
    pub(crate) fn answered(&self) {
        if self.lost.load(Ordering::Relaxed) && self.lost.swap(false, Ordering::AcqRel) {
            self.mended();
        }
    }

    /// The reason why every request failed may be gone: all may try again.
    pub(crate) fn mended(&self) {
        self.returns.fetch_add(1, Ordering::AcqRel);
        self.back.notify_waiters();
    }

    /// How often the server has come back so far.
    pub(crate) fn returns(&self) -> u32 {
        self.returns.load(Ordering::Acquire)
    }

    /// Waits out a pause of `backoff`. Ends it early when the server has come back more than `returns` times and the time that
    /// the server `asked` for has passed.
    ///
    /// Cancel safe.
    pub(crate) async fn pause(&self, backoff: &mut Backoff, pause: Duration, asked: Option<Duration>, returns: u32) {
        let begun = Instant::now();
        let end = begun + pause;
        // Registered before the count is read, so that no return between the two is missed.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_clock::Jitter;
    use std::sync::Arc;
    use tokio::time::sleep;

    const LONG: Duration = Duration::from_secs(30);

    fn backoff() -> Backoff {
        Backoff::new(Duration::from_millis(500), LONG, &Jitter::default())
    }

    /// Whether it has taken so many seconds, and at most one more.
    fn took(begun: Instant, seconds: u64) -> bool {
        let took = begun.elapsed();
        took >= Duration::from_secs(seconds) && took <= Duration::from_millis(seconds * 1000 + 1010)
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_answer_ends_the_pauses_of_all() {
        let availability = Arc::new(Availability::default());
        availability.lost();
        let returns = availability.returns();
        let begun = Instant::now();
        let waiting: Vec<_> = (0..20)
            .map(|_| {
                let availability = Arc::clone(&availability);
                tokio::spawn(async move { availability.pause(&mut backoff(), LONG, None, returns).await })
            })
            .collect();
        sleep(Duration::from_secs(3)).await;
        availability.answered();
        for task in waiting {
            task.await.expect("a pause only waits");
        }
        assert!(took(begun, 3), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_return_before_the_pause_began_counts_and_an_answer_without_a_loss_does_not() {
        let availability = Availability::default();
        let returns = availability.returns();
        availability.lost();
        availability.answered();
        let begun = Instant::now();
        availability.pause(&mut backoff(), LONG, None, returns).await;
        assert!(took(begun, 0), "{:?}", begun.elapsed());

        let (returns, begun) = (availability.returns(), Instant::now());
        availability.answered();
        availability.pause(&mut backoff(), LONG, None, returns).await;
        assert!(took(begun, 30), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn no_return_shortens_the_time_that_the_server_has_asked_for() {
        let availability = Availability::default();
        for asked in [7, 30, 40] {
            let returns = availability.returns();
            availability.lost();
            availability.answered();
            let begun = Instant::now();
            availability
                .pause(&mut backoff(), LONG.max(Duration::from_secs(asked)), Some(Duration::from_secs(asked)), returns)
                .await;
            assert!(took(begun, asked), "{:?} of {asked} s", begun.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn cuts_that_do_not_help_come_later_each_time() {
        let (availability, mut backoff, begun) = (Availability::default(), backoff(), Instant::now());
        for round in 0..100 {
            let returns = availability.returns();
            availability.lost();
            availability.answered();
            availability.pause(&mut backoff, LONG, None, returns).await;
            assert!(round > 0 || took(begun, 0), "{:?}", begun.elapsed());
        }
        assert!(begun.elapsed() >= LONG * 95, "{:?}", begun.elapsed());
    }
}
