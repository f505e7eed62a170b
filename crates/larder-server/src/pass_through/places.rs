//! How many requests are passed on at once: in total, and for each caller.
//!
//! # Guarantees
//!
//! - One caller takes no more than its share. Callers without a verified pod take no more than half of all.
//! - A caller is counted as long as it has a request under way, so there are at most as many as there are requests.
//!
//! # Locks
//!
//! One, over the callers. No other lock is taken under it.

use super::options::PassThroughOptions;
use larder_pod_status::PodUid;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Whom a request counts to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Identity {
    /// A pod of this node, by its verified token.
    Pod(PodUid),
    /// Whoever has a token that larder does not verify, by the address of the client.
    Address(IpAddr),
}

/// What a place is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Request,
    Upgrade,
}

/// The places of requests that are passed on.
#[derive(Debug)]
pub(super) struct Places {
    options: PassThroughOptions,
    requests: Arc<Semaphore>,
    upgrades: Arc<Semaphore>,
    /// Those of callers without a verified pod, among all.
    of_addresses: Arc<Semaphore>,
    callers: Mutex<HashMap<Identity, Arc<CallerPlaces>>>,
}

#[derive(Debug)]
struct CallerPlaces {
    requests: Arc<Semaphore>,
    upgrades: Arc<Semaphore>,
}

/// The place of a request, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _permits: [Option<OwnedSemaphorePermit>; 3],
    /// Keeps the caller counted.
    _caller: Arc<CallerPlaces>,
}

impl Places {
    pub(super) fn new(options: &PassThroughOptions) -> Self {
        let semaphore = |places| Arc::new(Semaphore::new(places));
        let [requests, upgrades] = [options.requests, options.upgrades].map(semaphore);
        let of_addresses = semaphore((options.requests + options.upgrades).div_ceil(2));
        Self { options: options.clone(), requests, upgrades, of_addresses, callers: Mutex::default() }
    }

    /// A place for one more; `None` if the caller, or all callers, have as many as they may have.
    pub(super) fn enter(&self, identity: &Identity, to_use: Use) -> Option<Place> {
        let caller = self.caller(identity);
        let of_caller = match to_use {
            Use::Request => &caller.requests,
            Use::Upgrade => &caller.upgrades,
        };
        let all = match to_use {
            Use::Request => &self.requests,
            Use::Upgrade => &self.upgrades,
        };
        let take = |places: &Arc<Semaphore>| Arc::clone(places).try_acquire_owned().ok();
        let (of_caller, all) = (take(of_caller)?, take(all)?);
        let of_addresses = match identity {
            Identity::Pod(_) => None,
            Identity::Address(_) => Some(take(&self.of_addresses)?),
        };
        Some(Place { _permits: [Some(of_caller), Some(all), of_addresses], _caller: caller })
    }

    fn caller(&self, identity: &Identity) -> Arc<CallerPlaces> {
        let mut callers = self.callers.lock();
        if let Some(caller) = callers.get(identity) {
            return Arc::clone(caller);
        }
        // Those without a request under way are forgotten.
        callers.retain(|_, caller| Arc::strong_count(caller) > 1);
        let semaphore = |places| Arc::new(Semaphore::new(places));
        let [requests, upgrades] = [self.options.caller_requests, self.options.caller_upgrades].map(semaphore);
        let caller = Arc::new(CallerPlaces { requests, upgrades });
        callers.insert(identity.clone(), Arc::clone(&caller));
        caller
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str) -> Identity {
        Identity::Pod(PodUid::from(uid))
    }

    fn address(last: u8) -> Identity {
        Identity::Address(IpAddr::from([10, 0, 0, last]))
    }

    fn options(requests: usize, caller_requests: usize) -> PassThroughOptions {
        PassThroughOptions {
            requests,
            caller_requests,
            upgrades: 2,
            caller_upgrades: 1,
            ..PassThroughOptions::default()
        }
    }

    #[test]
    fn a_caller_has_its_share_and_leaves_the_rest_to_others() {
        let places = Places::new(&options(5, 2));
        let enter = |identity: &Identity| places.enter(identity, Use::Request);
        let greedy = [enter(&pod("greedy")), enter(&pod("greedy")), enter(&pod("greedy"))];
        assert_eq!(greedy.each_ref().map(Option::is_some), [true, true, false]);
        let other = enter(&pod("other"));
        assert!(other.is_some());
        let upgrade = |identity: &Identity| places.enter(identity, Use::Upgrade);
        let upgrades =
            [upgrade(&pod("greedy")), upgrade(&pod("greedy")), upgrade(&pod("other")), upgrade(&pod("third"))];
        assert_eq!(upgrades.each_ref().map(Option::is_some), [true, false, true, false], "of its own, and of all");
        drop(greedy);
        assert!(enter(&pod("greedy")).is_some(), "a place is free again");
    }

    #[test]
    fn callers_without_a_verified_pod_leave_half_to_pods() {
        let places = Places::new(&options(4, 4));
        let of_addresses: Vec<_> = (0..4).map(|last| places.enter(&address(last), Use::Request)).collect();
        assert_eq!(of_addresses.iter().filter(|place| place.is_some()).count(), 3);
        assert!(places.enter(&pod("a"), Use::Request).is_some());
    }

    #[test]
    fn callers_without_requests_are_forgotten() {
        let places = Places::new(&options(4, 4));
        for last in 0..100 {
            drop(places.enter(&address(last), Use::Request).unwrap());
        }
        assert!(places.callers.lock().len() <= 2);
    }
}
