//! What a connection does right now, and how long larder has waited for its client.
//!
//! One rule for HTTP/1.1 and HTTP/2. A connection is *idle* while no request is being answered. Its client is *slow* while the
//! socket takes nothing more, or while it takes no part of any answer that it was offered: over HTTP/2, a client that does not
//! read closes its window, and the socket takes all that is written.
//!
//! # Locks
//!
//! One for each connection; nothing else is locked under it.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// A client that has been offered a part of an answer takes it within this time, unless it is slow.
const PROMPT: Duration = Duration::from_secs(1);

/// What a connection does right now.
#[derive(Debug)]
pub(crate) struct Activity {
    state: Mutex<State>,
    /// Notified when no request is being answered any more.
    idle: Notify,
    /// Cancelled when the connection is to make room.
    pub(crate) evicted: CancellationToken,
}

#[derive(Debug)]
struct State {
    /// Requests that are being answered.
    requests: usize,
    /// Those of them whose client has yet to take the part of the answer that it was offered.
    untaken: usize,
    /// Whether the socket takes nothing more.
    is_blocked: bool,
    /// When the client last made progress, or larder began to wait for it.
    since: Instant,
}

/// Why a client has been waited for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// It has sent no request, or not the whole head of one.
    Idle,
    /// It does not take its answers.
    Slow,
}

impl State {
    fn due(&self, head_timeout: Duration, stall_timeout: Duration) -> Option<(Instant, Overdue)> {
        if self.is_blocked || self.untaken > 0 {
            Some((self.since + stall_timeout, Overdue::Slow))
        } else if self.requests == 0 {
            Some((self.since + head_timeout, Overdue::Idle))
        } else {
            None
        }
    }
}

impl Activity {
    /// Of a connection that has just been made.
    pub(crate) fn new() -> Arc<Self> {
        let state = State { requests: 0, untaken: 0, is_blocked: false, since: Instant::now() };
        Arc::new(Self { state: Mutex::new(state), idle: Notify::new(), evicted: CancellationToken::new() })
    }

    /// The socket takes nothing more.
    pub(crate) fn blocked(&self) {
        let mut state = self.state.lock();
        (state.is_blocked, state.since) = (true, Instant::now());
    }

    /// The socket takes what is sent again.
    pub(crate) fn unblocked(&self) {
        let mut state = self.state.lock();
        (state.is_blocked, state.since) = (false, Instant::now());
    }

    /// Since when larder has nothing to do on this connection but to wait for its client.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        // What was offered this instant may be taken in the next: that is work, which is never cut off.
        let is_slow = || state.requests == state.untaken && state.since.elapsed() >= PROMPT;
        (state.is_blocked || state.requests == 0 || is_slow()).then_some(state.since)
    }

    /// Waits until the client has been waited for too long.
    pub(crate) async fn overdue(&self, head_timeout: Duration, stall_timeout: Duration) -> Overdue {
        // Whatever begins while this sleeps is due no earlier than it wakes.
        let pause = head_timeout.min(stall_timeout);
        loop {
            let now = Instant::now();
            let due = self.state.lock().due(head_timeout, stall_timeout);
            match due {
                Some((at, why)) if at <= now => return why,
                Some((at, _)) => sleep_until(at.min(now + pause)).await,
                None => sleep(pause).await,
            }
        }
    }

    /// Waits until no request has been answered for that long.
    pub(crate) async fn idle_for(&self, time: Duration) {
        loop {
            let idle = self.idle.notified();
            if self.is_idle() {
                sleep(time).await;
                if self.is_idle() {
                    return;
                }
            } else {
                idle.await;
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.state.lock().requests == 0
    }
}

/// A request that is being answered, until this is dropped.
#[derive(Debug)]
pub(crate) struct Exchange {
    activity: Arc<Activity>,
    is_untaken: bool,
}

impl Exchange {
    pub(crate) fn begin(activity: Arc<Activity>) -> Self {
        activity.state.lock().requests += 1;
        Self { activity, is_untaken: false }
    }

    /// The client is offered a part of the answer.
    pub(crate) fn offered(&mut self) {
        if !self.is_untaken {
            self.is_untaken = true;
            let mut state = self.activity.state.lock();
            if state.untaken == 0 {
                state.since = Instant::now();
            }
            state.untaken += 1;
        }
    }

    /// The client has taken that part.
    pub(crate) fn taken(&mut self) {
        if self.is_untaken {
            self.is_untaken = false;
            let mut state = self.activity.state.lock();
            state.untaken -= 1;
            state.since = Instant::now();
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.taken();
        let mut state = self.activity.state.lock();
        state.requests -= 1;
        if state.requests == 0 {
            state.since = Instant::now();
            drop(state);
            self.activity.idle.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    const HEAD: Duration = Duration::from_secs(30);
    const STALL: Duration = Duration::from_secs(20);

    /// How long it takes from now until the client has been waited for too long.
    async fn overdue(activity: &Activity) -> (u64, Overdue) {
        let begun = Instant::now();
        let why = activity.overdue(HEAD, STALL).await;
        (begun.elapsed().as_secs(), why)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_has_each_time_limit_from_its_last_progress_on() {
        let activity = Activity::new();
        assert_eq!(overdue(&activity).await, (30, Overdue::Idle));
        let exchange = Exchange::begin(Arc::clone(&activity));
        advance(HEAD).await;
        drop(exchange);
        advance(HEAD / 2).await;
        assert_eq!(overdue(&activity).await, (15, Overdue::Idle));

        let mut exchange = Exchange::begin(Arc::clone(&activity));
        exchange.offered();
        advance(STALL / 2).await;
        exchange.taken();
        exchange.offered();
        assert_eq!(overdue(&activity).await, (20, Overdue::Slow));
        exchange.taken();
        activity.blocked();
        advance(STALL / 2).await;
        assert_eq!(overdue(&activity).await, (10, Overdue::Slow));
        activity.unblocked();
        let waits = activity.overdue(HEAD, STALL);
        assert!(tokio::time::timeout(HEAD * 100, waits).await.is_err(), "larder works, and the client waits");
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_limit_that_begins_meanwhile_is_kept() {
        let activity = Activity::new();
        let begun = Instant::now();
        let overdue = async { (activity.overdue(HEAD, STALL).await, begun.elapsed()) };
        let (overdue, ()) = tokio::join!(overdue, async {
            sleep(HEAD / 2).await;
            let mut exchange = Exchange::begin(Arc::clone(&activity));
            exchange.offered();
            sleep(HEAD).await;
        });
        assert_eq!(overdue, (Overdue::Slow, HEAD / 2 + STALL));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_work_does_not_wait_for_its_client() {
        let activity = Activity::new();
        assert!(activity.waiting_since().is_some());
        let mut slow = Exchange::begin(Arc::clone(&activity));
        slow.offered();
        assert!(activity.waiting_since().is_none(), "it may be taken in an instant");
        advance(PROMPT).await;
        assert!(activity.waiting_since().is_some());
        let works = Exchange::begin(Arc::clone(&activity));
        assert!(activity.waiting_since().is_none(), "one answer is not taken, and another is made");
        activity.blocked();
        assert!(activity.waiting_since().is_some());
        drop((slow, works));
        activity.unblocked();
        assert!(activity.waiting_since().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_last_request_is_waited_for() {
        let activity = Activity::new();
        let (first, second) = (Exchange::begin(Arc::clone(&activity)), Exchange::begin(Arc::clone(&activity)));
        let begun = Instant::now();
        tokio::join!(activity.idle_for(HEAD), async {
            drop(first);
            sleep(STALL).await;
            drop(second);
            // One more in the meantime.
            sleep(STALL).await;
            let third = Exchange::begin(Arc::clone(&activity));
            sleep(HEAD).await;
            drop(third);
        });
        assert_eq!(begun.elapsed(), STALL * 2 + HEAD * 2);
    }
}
