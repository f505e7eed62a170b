//! How many connections are open, and which one makes room for a new one.
//!
//! # Guarantees
//!
//! - No more connections are served than the limit.
//! - A full listener closes the connection that has waited longest for its client, and takes the new one: clients that hang,
//!   send slowly or do not read their answers keep nobody out.
//! - A connection that larder works for, or that waits for something to happen (a newer-than wait, a watch of events), is not
//!   closed. If there are only such connections, the new one is turned away.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio_util::sync::CancellationToken;

/// Not waiting, as a turn.
const NOT: u64 = 0;

/// The connections of one listener, owned by the task that accepts them.
#[derive(Debug)]
pub(crate) struct Admission {
    most: usize,
    /// Those that have ended are taken out when there is no room.
    open: Vec<Arc<Activity>>,
    /// Orders what the connections do, for there is no need for a time.
    turns: Arc<AtomicU64>,
}

/// How a new connection is received.
#[derive(Debug)]
pub(crate) enum Admitted {
    /// There was room.
    Free(Arc<Activity>),
    /// Another connection is being closed for it.
    InPlaceOfAnother(Arc<Activity>),
    /// Every connection is busy.
    No,
}

impl Admission {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, open: Vec::new(), turns: Arc::new(AtomicU64::new(NOT)) }
    }

    /// Takes one more connection. The connection counts as open for as long as somebody holds what is returned.
    pub(crate) fn admit(&mut self) -> Admitted {
        if self.open.len() >= self.most {
            self.open.retain(|activity| Arc::strong_count(activity) > 1);
        }
        let is_full = self.open.len() >= self.most;
        if is_full {
            let waiting = self.open.iter().enumerate().filter_map(|(at, one)| Some((one.waiting_since()?, at)));
            let Some((_, at)) = waiting.min() else { return Admitted::No };
            self.open.swap_remove(at).evicted.cancel();
        }
        let activity = Arc::new(Activity {
            idle_since: AtomicU64::new(NOT),
            stalled_since: AtomicU64::new(NOT),
            turns: Arc::clone(&self.turns),
            evicted: CancellationToken::new(),
        });
        activity.idles();
        self.open.push(Arc::clone(&activity));
        if is_full { Admitted::InPlaceOfAnother(activity) } else { Admitted::Free(activity) }
    }
}

/// What a connection does right now.
///
/// All atomics are relaxed: they choose the connection to close, and any choice among those that wait is safe.
#[derive(Debug)]
pub(crate) struct Activity {
    /// The turn since which no request is being answered: none has come, or not wholly.
    idle_since: AtomicU64,
    /// The turn since which the client does not take what is sent to it.
    stalled_since: AtomicU64,
    turns: Arc<AtomicU64>,
    /// Cancelled when the connection is to make room.
    pub(crate) evicted: CancellationToken,
}

impl Activity {
    fn turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The next request is waited for.
    pub(crate) fn idles(&self) {
        self.idle_since.store(self.turn(), Ordering::Relaxed);
    }

    /// A request is being answered.
    pub(crate) fn works(&self) {
        self.idle_since.store(NOT, Ordering::Relaxed);
    }

    /// The client takes nothing.
    pub(crate) fn stalls(&self) {
        self.stalled_since.store(self.turn(), Ordering::Relaxed);
    }

    /// The client takes what is sent.
    pub(crate) fn moves(&self) {
        self.stalled_since.store(NOT, Ordering::Relaxed);
    }

    /// The turn since which the client is waited for.
    fn waiting_since(&self) -> Option<u64> {
        let turns = [self.stalled_since.load(Ordering::Relaxed), self.idle_since.load(Ordering::Relaxed)];
        turns.into_iter().find(|turn| *turn != NOT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(admission: &mut Admission) -> Option<Arc<Activity>> {
        match admission.admit() {
            Admitted::Free(activity) | Admitted::InPlaceOfAnother(activity) => Some(activity),
            Admitted::No => None,
        }
    }

    #[test]
    fn the_connection_that_waits_longest_for_its_client_makes_room() {
        let mut admission = Admission::new(3);
        let [first, second, third] = [(); 3].map(|()| admitted(&mut admission).unwrap());
        first.works();
        first.idles();
        second.works();
        let fourth = admission.admit();
        assert!(matches!(fourth, Admitted::InPlaceOfAnother(_)), "{fourth:?}");
        let evicted = |of: &Activity| of.evicted.is_cancelled();
        assert_eq!((evicted(&first), evicted(&second), evicted(&third)), (false, false, true));
    }

    #[test]
    fn a_client_that_does_not_take_its_answer_makes_room() {
        let mut admission = Admission::new(2);
        let [first, second] = [(); 2].map(|()| admitted(&mut admission).unwrap());
        first.works();
        second.works();
        assert!(admitted(&mut admission).is_none(), "both are being answered");
        second.stalls();
        second.moves();
        assert!(admitted(&mut admission).is_none(), "it takes its answer again");
        second.stalls();
        let _third = admitted(&mut admission).unwrap();
        assert!(second.evicted.is_cancelled() && !first.evicted.is_cancelled());
    }

    #[test]
    fn connections_that_have_ended_leave_room() {
        let mut admission = Admission::new(2);
        for _ in 0..10 {
            let (one, other) = (admission.admit(), admission.admit());
            assert!(matches!((&one, &other), (Admitted::Free(_), Admitted::Free(_))), "{one:?}, {other:?}");
        }
        assert!(admission.open.len() <= 2);
    }
}
