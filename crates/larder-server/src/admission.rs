//! How many connections are open, and which one makes room for a new one.
//!
//! # Guarantees
//!
//! - No more connections are served than the limit.
//! - A full listener closes the connection that has waited longest for its client, and takes the new one. Clients that hang, send
//!   slowly or do not read their answers keep nobody out.
//! - A listener never closes a connection with work in progress, or with a wait in progress (a newer-than wait, a watch of events).
//!   If there are only such connections, it turns the new one away.

use crate::activity::Activity;
use std::sync::Arc;
use tokio::time::Instant;

/// The connections of one kind of client.
#[derive(Debug)]
pub(crate) struct Admission {
    most: usize,
    /// Includes connections that have ended: they are removed when there is no room.
    open: Vec<Arc<Activity>>,
}

/// What happens to a new connection.
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
        Self { most, open: Vec::new() }
    }

    /// Takes one more connection. The connection counts as open while somebody holds the returned activity.
    pub(crate) fn admit(&mut self) -> Admitted {
        self.admit_as(Activity::new())
    }

    /// Takes a connection that has an activity already, and no longer counts elsewhere.
    pub(crate) fn admit_as(&mut self, activity: Arc<Activity>) -> Admitted {
        if self.open.len() >= self.most {
            self.open.retain(|activity| Arc::strong_count(activity) > 1);
        }
        if self.open.len() >= self.most {
            return self.admit_in_place_of_another(activity);
        }
        self.open.push(Arc::clone(&activity));
        Admitted::Free(activity)
    }

    /// Takes a connection in the place of one that waits for its client, or refuses it.
    pub(crate) fn admit_in_place_of_another(&mut self, activity: Arc<Activity>) -> Admitted {
        let Some((_, at)) = self.longest_waiting() else { return Admitted::No };
        self.evict(at);
        self.open.push(Arc::clone(&activity));
        Admitted::InPlaceOfAnother(activity)
    }

    /// How many connections are open.
    pub(crate) fn len(&mut self) -> usize {
        self.open.retain(|activity| Arc::strong_count(activity) > 1);
        self.open.len()
    }

    /// How many connections count, also if they have ended.
    pub(crate) fn counted(&self) -> usize {
        self.open.len()
    }

    /// Closes the newest connection, also if larder has work for it. Whether there was one.
    pub(crate) fn evict_newest(&mut self) -> bool {
        let newest = self.open.pop();
        newest.is_some_and(|activity| {
            activity.evicted.cancel();
            true
        })
    }

    /// Counts a connection no longer.
    pub(crate) fn release(&mut self, activity: &Arc<Activity>) {
        self.open.retain(|one| !Arc::ptr_eq(one, activity));
    }

    /// Whether no connection is open.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.len() == 0
    }

    /// Since when larder has waited longest for a client, and for [`evict`](Self::evict) the place of its connection.
    pub(crate) fn longest_waiting(&mut self) -> Option<(Instant, usize)> {
        self.open.retain(|activity| Arc::strong_count(activity) > 1);
        self.open.iter().enumerate().filter_map(|(at, one)| Some((one.waiting_since()?, at))).min()
    }

    /// Closes the connection at that place.
    pub(crate) fn evict(&mut self, at: usize) {
        self.open.swap_remove(at).evicted.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::Exchange;
    use std::time::Duration;
    use tokio::time::advance;

    fn admitted(admission: &mut Admission) -> Option<Arc<Activity>> {
        match admission.admit() {
            Admitted::Free(activity) | Admitted::InPlaceOfAnother(activity) => Some(activity),
            Admitted::No => None,
        }
    }

    fn request(on: &Arc<Activity>) -> Exchange {
        Exchange::begin(Arc::clone(on))
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_waits_longest_for_its_client_makes_room() {
        let mut admission = Admission::new(3);
        let [first, second, third] = [(); 3].map(|()| admitted(&mut admission).unwrap());
        advance(Duration::from_secs(1)).await;
        drop(request(&first));
        let _works = request(&second);
        let fourth = admission.admit();
        assert!(matches!(fourth, Admitted::InPlaceOfAnother(_)), "{fourth:?}");
        let evicted = |of: &Activity| of.evicted.is_cancelled();
        assert_eq!((evicted(&first), evicted(&second), evicted(&third)), (false, false, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_take_its_answer_makes_room() {
        let mut admission = Admission::new(2);
        let [first, second] = [(); 2].map(|()| admitted(&mut admission).unwrap());
        let _works = [request(&first), request(&second)];
        assert!(admitted(&mut admission).is_none(), "both are being answered");
        second.blocked();
        second.unblocked();
        assert!(admitted(&mut admission).is_none(), "it takes its answer again");
        second.blocked();
        let _third = admitted(&mut admission).unwrap();
        assert!(second.evicted.is_cancelled() && !first.evicted.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_have_ended_leave_room() {
        let mut admission = Admission::new(2);
        for _ in 0..10 {
            let (one, other) = (admission.admit(), admission.admit());
            assert!(matches!((&one, &other), (Admitted::Free(_), Admitted::Free(_))), "{one:?}, {other:?}");
        }
        assert!(admission.open.len() <= 2);
    }
}
