//! Connections of several identities that share a number of places.
//!
//! # Guarantees
//!
//! - No more connections are open than there are places, nor more of one identity than it may have.
//! - *Nobody starves*: while all places are taken, an identity gets one from another that has at least two more. Idle connections and those of slow
//!   clients go first. If there is none, the newest one of the identity that has most is closed, also with a request in flight.
//! - Otherwise an identity makes room with its own idle or slow connections alone, as by [`Admission`].

use crate::activity::Activity;
use crate::admission::{Admission, Admitted};
use crate::usage::Identity;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// The places of several identities.
pub(super) struct Shares {
    most: usize,
    held: HashMap<Identity, Admission>,
}

impl Shares {
    pub(super) fn new(most: usize) -> Self {
        Self { most, held: HashMap::new() }
    }

    /// The connections of each identity.
    pub(super) fn admissions(&mut self) -> impl Iterator<Item = &mut Admission> {
        self.held.values_mut()
    }

    /// Takes one more connection of an identity, which may have `each`. The connection counts as open while somebody else holds the activity.
    pub(super) fn admit(&mut self, of: &Identity, each: usize, activity: Arc<Activity>) -> Admitted {
        if self.is_full() || !self.held.contains_key(of) {
            // So there are at most as many identities as there are connections, and one.
            self.held.retain(|_, one| !one.is_empty());
        }
        let own = self.held.get_mut(of).map_or(0, Admission::len);
        if !self.is_full() || own >= each {
            return self.of(of, each).admit_as(activity);
        }
        if self.take_from_another(own) {
            let admitted = self.of(of, each).admit_as(activity);
            return match admitted {
                Admitted::Free(activity) => Admitted::InPlaceOfAnother(activity),
                other => other,
            };
        }
        self.of(of, each).admit_in_place_of_another(activity)
    }

    fn of(&mut self, of: &Identity, each: usize) -> &mut Admission {
        self.held.entry(of.clone()).or_insert_with(|| Admission::new(each))
    }

    /// Whether all places are taken, by connections that are open or were.
    fn is_full(&self) -> bool {
        self.held.values().map(Admission::counted).sum::<usize>() >= self.most
    }

    /// Closes a connection of an identity that has more than `own`.
    fn take_from_another(&mut self, own: usize) -> bool {
        let larger = self.held.values_mut().filter(|one| one.counted() > own);
        let waiting = larger.filter_map(|one| Some((Reverse(one.counted()), one.longest_waiting()?, one)));
        if let Some((_, (_, at), one)) = waiting.min_by_key(|(count, since, _)| (*count, *since)) {
            one.evict(at);
            return true;
        }
        let largest = self.held.values_mut().max_by_key(|one| one.counted());
        largest.filter(|one| one.counted() >= own + 2).is_some_and(Admission::evict_newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::Exchange;
    use larder_pod_status::PodUid;
    use std::time::Duration;
    use tokio::time::advance;

    struct Open {
        activity: Arc<Activity>,
        _work: Option<Exchange>,
    }

    impl Open {
        fn is_closed(&self) -> bool {
            self.activity.evicted.is_cancelled()
        }
    }

    fn pod(name: &str) -> Identity {
        Identity::Pod(PodUid::from(name))
    }

    /// A new connection, with a request in flight or without.
    fn connect(shares: &mut Shares, name: &str, is_busy: bool) -> Option<Open> {
        match shares.admit(&pod(name), 4, Activity::new()) {
            Admitted::Free(activity) | Admitted::InPlaceOfAnother(activity) => {
                let work = is_busy.then(|| Exchange::begin(Arc::clone(&activity)));
                Some(Open { activity, _work: work })
            }
            Admitted::No => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_number_of_greedy_pods_keeps_another_one_out() {
        let mut shares = Shares::new(8);
        let mut greedy: Vec<_> =
            ["a", "a", "a", "a", "b", "b", "b", "b"].map(|name| connect(&mut shares, name, true).unwrap()).into();
        assert!(connect(&mut shares, "a", true).is_none(), "it has as many as it may have");
        let own: Vec<_> = (0..2).map(|_| connect(&mut shares, "c", true).unwrap()).collect();
        assert_eq!(greedy.iter().filter(|open| open.is_closed()).count(), 2);
        greedy.retain(|open| !open.is_closed());
        // Each has nearly the same now, and takes nothing from another.
        for name in ["a", "b", "c"] {
            assert!(connect(&mut shares, name, true).is_none(), "{name}");
        }
        assert!(own.iter().all(|open| !open.is_closed()));
        drop(greedy);
        assert!(connect(&mut shares, "c", true).is_some(), "there is room again");
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_of_who_has_more_make_room_first() {
        let mut shares = Shares::new(4);
        let busy = [(); 2].map(|()| connect(&mut shares, "a", true).unwrap());
        let idle = connect(&mut shares, "a", false).unwrap();
        let other = connect(&mut shares, "b", false).unwrap();
        advance(Duration::from_secs(2)).await;
        let third = connect(&mut shares, "c", true).unwrap();
        assert!(idle.is_closed() && !other.is_closed() && busy.iter().all(|open| !open.is_closed()));
        drop(idle);
        // Nobody has two more than `b`, which gives up its own idle one.
        let again = connect(&mut shares, "b", true).unwrap();
        assert!(other.is_closed() && !third.is_closed() && !again.is_closed());
    }

    #[tokio::test(start_paused = true)]
    async fn identities_that_have_gone_are_forgotten() {
        let mut shares = Shares::new(4);
        for name in 0..100 {
            assert!(connect(&mut shares, &name.to_string(), true).is_some());
        }
        assert!(shares.held.len() <= 5, "{}", shares.held.len());
    }
}
