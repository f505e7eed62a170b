//! The TTL store: an object is fetched when it is read, and again once its TTL has passed.
//!
//! # Guarantees
//!
//! - **As new as the reference**: [`add_references`](TtlStore::add_references) begins a new *generation* of the object. What
//!   was cached is dropped, and a fetch under way belongs to the old generation: it answers the readers that wait for it,
//!   and no read that begins later.
//! - **One fetch at a time** for an object and generation. Readers take turns, first come, first served; each judges
//!   afresh at its turn, and leaves as soon as it finds the object fresh.
//! - **Consistent reads** but for one case: an object that was fetched before, and not since found absent, is refreshed
//!   from the API server's watch cache.
//! - **Versions do not go back**: a lower `resourceVersion` neither replaces a higher one nor renews its age.
//! - **Absent is not forgotten and not believed**: 'not found' replaces what was cached, and every later read asks again,
//!   unless the owner wants [negative entries](TtlStore::with_negative_entries).
//! - **What is known outlives failures**: any other failure returns what is cached, marked stale; with nothing cached, the
//!   failure itself, which is not kept.
//!
//! # Limits
//!
//! The store spawns nothing: the reader whose turn it is polls the fetch. One that is neither polled nor dropped holds up
//! its generation. Memory grows with the referenced objects and the readers that wait, and with nothing else. An object
//! that is replaced or dropped is freed at once, unless other threads are reading at that very moment: then the thread that
//! withdrew it may keep it, and no more objects than there are such readers, until it withdraws another one.
//!
//! # Cancel safety
//!
//! A reader may be dropped at any time. If it was fetching and others wait, the next of them goes on with the same fetch;
//! if none waits, the fetch is dropped.
//!
//! # Locks
//!
//! One of the registry's (an object's is chosen by its namespace), then a flight's queue. Neither is held while a fetch
//! is begun, polled or dropped, nor while a waker is cloned, called or dropped. What is known of an object that nobody
//! fetches stands in a lock-free map beside the registry, changed only under its lock; a read that finds the object fresh
//! there takes no lock at all. What is asked under these locks must not call the store: the clock, the [`Ttl`], the
//! version of an object and the class of an error.
//!
//! # Differs from kubelet
//!
//! - A reader may go away while it waits or fetches.
//! - A reader that finds the object fresh never waits, even while a fetch runs for one that judged it stale before (the
//!   TTL was raised meanwhile).
//! - Answers carry their freshness.

mod flight;
mod known;
mod published;
mod reader;
mod registry;

use crate::{
    Effects, Fetch, Freshness, GetError, HashSeed, Held, Kept, ObjectState, ObjectStatus, ObjectTtl, Read, Store,
    StoreTtl, Ttl,
};
use known::{Confirmed, Known};
use larder_clock::{Clock, Timestamp};
use reader::Get;
use registry::Registry;
use std::fmt;
// Not shuttle's: a count is no place to switch threads.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A store that fetches an object when it is read and its TTL has passed: the kubelet's `Cache` strategy.
///
/// See the [crate's documentation](crate) for an example.
pub struct TtlStore<F: Fetch, C, T> {
    fetch: F,
    clock: C,
    ttl: StoreTtl<T>,
    negative_entries: bool,
    registry: Registry<F::Object, F::Error>,
    new_reference_fetches: AtomicU64,
}

impl<F: Fetch, C: Clock, T: Ttl> TtlStore<F, C, T> {
    /// An empty store.
    ///
    /// See the [crate's documentation](crate) for an example.
    pub fn new(fetch: F, clock: C, ttl: StoreTtl<T>) -> Self {
        let (registry, new_reference_fetches) = (Registry::new(HashSeed::default()), AtomicU64::new(0));
        Self { fetch, clock, ttl, negative_entries: false, registry, new_reference_fetches }
    }

    /// Has an absence be an answer until its TTL has passed, as an object is (a negative entry, as in RFC 2308). Off by
    /// default, as in the kubelet, which asks again at every read.
    #[must_use]
    pub fn with_negative_entries(mut self, on: bool) -> Self {
        self.negative_entries = on;
        self
    }

    /// Has the store's hash tables seeded with that. To be called before anything is referenced.
    #[must_use]
    pub fn with_hash_seed(mut self, seed: HashSeed) -> Self {
        self.registry = Registry::new(seed);
        self
    }

    /// Where the store fetches from.
    pub fn fetcher(&self) -> &F {
        &self.fetch
    }

    /// How many fetches were begun for the sake of a new reference to an object that was cached until then.
    pub fn new_reference_fetches(&self) -> u64 {
        self.new_reference_fetches.load(Relaxed)
    }

    /// The TTL within which what was confirmed then is now, if it is. Reads the clock, so call it after the confirmation was
    /// read: a time from before it would pass for fresh with a TTL of 0.
    #[inline]
    fn ttl_if_fresh(&self, confirmed: Confirmed) -> Option<ObjectTtl> {
        let ttl = self.ttl.now();
        self.clock.is_before(ttl.expiry(confirmed.at)).then_some(ttl)
    }

    /// How fresh what was confirmed then is now, if it is. Reads the clock, as [`ttl_if_fresh`](Self::ttl_if_fresh) does.
    fn fresh(&self, confirmed: Confirmed) -> Option<Freshness> {
        self.ttl_if_fresh(confirmed).map(|ttl| confirmed.fresh(ttl))
    }

    /// What is known, if a read may be answered with it.
    fn fresh_known(&self, known: &Known<F::Object>) -> Option<Held<F::Object>> {
        let confirmed = match known {
            Known::Object { confirmed, .. } => *confirmed,
            Known::Absent(confirmed) if self.negative_entries => *confirmed,
            Known::Absent(_) | Known::Nothing => return None,
        };
        let freshness = self.fresh(confirmed)?;
        known.held(|_| freshness)
    }

    fn state_of(&self, known: &Known<F::Object>, now: Timestamp) -> ObjectState {
        match known {
            Known::Nothing => ObjectState::NotFetched,
            Known::Object { confirmed, .. } => ObjectState::Present(confirmed.at_rest(now, self.ttl.now())),
            Known::Absent(confirmed) => ObjectState::Absent(confirmed.fresh(self.ttl.now())),
        }
    }
}

impl<F: Fetch, C: Clock, T: Ttl> Store for TtlStore<F, C, T> {
    type Object = F::Object;
    type Error = F::Error;

    fn add_references(&self, namespace: &str, names: &[&str], _uid: &str) -> Effects<'_> {
        self.registry.add_references(namespace, names)
    }

    fn delete_references(&self, namespace: &str, names: &[&str], _uid: &str) -> Effects<'_> {
        self.registry.delete_references(namespace, names)
    }

    #[inline]
    fn get(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Read<Self::Object>, GetError<Self::Error>>> + Send {
        Get::new(self, namespace, name)
    }

    fn references(&self, namespace: &str, name: &str) -> usize {
        self.registry.references(namespace, name)
    }

    fn held(&self, namespace: &str, name: &str) -> Option<Held<Self::Object>> {
        let (known, now) = (self.registry.known(namespace, name), self.clock.now());
        // An absence that every read asks for again is never fresh.
        let ttl = if known.is_object() || self.negative_entries { self.ttl.now() } else { ObjectTtl::default() };
        known.held(|confirmed| confirmed.at_rest(now, ttl))
    }

    fn forget(&self, namespace: &str, name: &str) -> Effects<'_> {
        self.registry.forget(namespace, name)
    }

    fn snapshot(&self) -> Vec<ObjectStatus> {
        let now = self.clock.now();
        let mut all = Vec::new();
        self.registry.for_each(|key, references, fetching, known| {
            let (key, state) = (key.clone(), self.state_of(known, now));
            all.push(ObjectStatus { key, references, fetching, kept: Kept::Polled, state });
        });
        all
    }
}

impl<F: Fetch, C, T> fmt::Debug for TtlStore<F, C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TtlStore").field("default_ttl", &self.ttl.default).finish_non_exhaustive()
    }
}
