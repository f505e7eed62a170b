//! The state of a connection: its requests in flight, and how long larder has waited for its client.
//!
//! One rule holds for HTTP/1.1 and HTTP/2. A connection is *idle* while it has no request in flight. Its client is *slow* while the socket
//! is blocked, or while the client takes no part of an answer that it was offered. The second case is HTTP/2: a client that does not read
//! closes its window, and the socket is not blocked.
//!
//! # Locks
//!
//! One for each connection. No other lock is taken under it.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// The time in which a client takes a part of an answer, unless it is slow.
const PROMPT: Duration = Duration::from_secs(1);

/// The state of a connection.
#[derive(Debug)]
pub(crate) struct Activity {
    state: Mutex<State>,
    /// Notified when the last request in flight has ended.
    idle: Notify,
    /// Cancelled when the connection is to make room.
    pub(crate) evicted: CancellationToken,
}

#[derive(Debug)]
struct State {
    /// Requests in flight.
    requests: usize,
    /// Requests in flight whose client has not yet taken the offered part of the answer.
    untaken: usize,
    /// Whether the socket is blocked.
    is_blocked: bool,
    /// When the client last made progress, or larder began to wait for it.
    since: Instant,
}

/// Why larder has waited too long for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// The client has sent no request, or only a part of its head.
    Idle,
    /// The client does not read its answers.
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
    /// The state of a new connection.
    pub(crate) fn new() -> Arc<Self> {
        let state = State { requests: 0, untaken: 0, is_blocked: false, since: Instant::now() };
        Arc::new(Self { state: Mutex::new(state), idle: Notify::new(), evicted: CancellationToken::new() })
    }

    /// Notes that the socket is blocked.
    pub(crate) fn blocked(&self) {
        let mut state = self.state.lock();
        (state.is_blocked, state.since) = (true, Instant::now());
    }

    /// Notes that the socket takes data again.
    pub(crate) fn unblocked(&self) {
        let mut state = self.state.lock();
        (state.is_blocked, state.since) = (false, Instant::now());
    }

    /// Since when larder only waits for the client of this connection; `None` if larder has work for it.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        // A client takes most parts in an instant. Such a connection has work, and larder never cuts off work.
        let is_slow = || state.requests == state.untaken && state.since.elapsed() >= PROMPT;
        (state.is_blocked || state.requests == 0 || is_slow()).then_some(state.since)
    }

    /// Ends when larder has waited too long for the client.
    pub(crate) async fn overdue(&self, head_timeout: Duration, stall_timeout: Duration) -> Overdue {
        // A wait that begins during this sleep is due no earlier than the end of the sleep.
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

    /// Ends when there has been no request in flight for that long.
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

/// A request that is in flight until this is dropped.
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

    /// Notes that the client is offered a part of the answer.
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

    /// Notes that the client has taken that part.
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
