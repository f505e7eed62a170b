//! Which objects are referenced, and what is known of each.

use super::flight::{Flight, Queue, Ticket};
use super::known::Known;
use super::published::Published;
use crate::effects::Panics;
use crate::key::hash_parts;
use crate::shared_map::{Changes, SharedMap, View};
use crate::sync::{Mutex, MutexGuard};
use crate::{Effects, HashSeed, Object, ObjectKey};
use foldhash::fast::{FoldHasher, SeedableRandomState};
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

/// Shards of a registry. Each is locked by itself, so that threads seldom meet.
#[cfg(not(shuttle))]
const SHARDS: u64 = 64;
/// Threads do meet where a test explores how.
#[cfg(shuttle)]
const SHARDS: u64 = 2;

/// The referenced objects of a store.
pub(super) struct Registry<O, E> {
    hasher: SeedableRandomState,
    shards: Box<[Mutex<Shard<O, E>>]>,
    /// The objects of current generations, for reads. That of an object is changed only with its shard locked.
    published: SharedMap<Published<O>>,
}

type Shard<O, E> = HashTable<Entry<O, E>>;

/// A referenced object.
struct Entry<O, E> {
    key: ObjectKey,
    references: u32,
    /// Whether the object is published.
    published: bool,
    /// Whether a new reference has dropped the object, and nothing has been fetched since.
    superseded: bool,
    /// The current generation, while it has readers or is known to be absent. Where there is none, all that is known is
    /// what is published.
    flight: Option<Arc<Flight<O, E>>>,
}

/// What a change pushed out: foreign code, which is dropped where no lock is held.
pub(super) struct Displaced<'m, O, E> {
    published: Changes<'m, Published<O>>,
    flights: Vec<Arc<Flight<O, E>>>,
}

impl<'m, O, E> Displaced<'m, O, E> {
    pub(super) fn drop_in(self, panics: &mut Panics) {
        panics.catch(|| drop(self.published));
        panics.drop_each(self.flights);
    }

    fn later(self) -> Effects<'m>
    where
        E: 'm,
    {
        if self.published.is_empty() && self.flights.is_empty() {
            return Effects::none();
        }
        Effects::new(move || {
            let mut panics = Panics::default();
            self.drop_in(&mut panics);
            panics.resume();
        })
    }
}

impl<O: Object, E: 'static> Registry<O, E> {
    pub(super) fn new(seed: HashSeed) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(HashTable::new())).collect();
        Self { hasher: seed.state(), shards, published: SharedMap::new() }
    }

    /// The objects as they were last confirmed in their current generations.
    #[inline]
    pub(super) fn published(&self) -> View<'_, Published<O>> {
        self.published.pin()
    }

    /// One more reference to each, and a new generation.
    pub(super) fn add_references(&self, namespace: &str, names: &[&str]) -> Effects<'_> {
        let of = self.hash_namespace(namespace);
        let mut buffer = String::new();
        self.change(&of, |shard, displaced| {
            for name in names {
                let is = |entry: &Entry<O, E>| entry.key.is(namespace, name);
                match shard.entry(of.name(name), is, |entry| self.hash_key(&entry.key).1) {
                    hashbrown::hash_table::Entry::Vacant(vacant) => {
                        let key = ObjectKey::new_in(namespace, name, &mut buffer);
                        vacant.insert(Entry { key, references: 1, published: false, superseded: false, flight: None });
                    }
                    hashbrown::hash_table::Entry::Occupied(mut found) => {
                        let entry = found.get_mut();
                        entry.references = entry.references.saturating_add(1);
                        entry.superseded |= entry.published;
                        entry.clear(displaced);
                    }
                }
            }
        })
    }

    /// One reference less to each; the last one takes the object with it.
    pub(super) fn delete_references(&self, namespace: &str, names: &[&str]) -> Effects<'_> {
        let of = self.hash_namespace(namespace);
        self.change(&of, |shard, displaced| {
            for name in names {
                let Ok(mut found) = shard.find_entry(of.name(name), |entry| entry.key.is(namespace, name)) else {
                    continue;
                };
                let entry = found.get_mut();
                entry.references -= 1;
                if entry.references == 0 {
                    entry.clear(displaced);
                    found.remove();
                }
            }
        })
    }

    /// A new generation of the object, if it is referenced.
    pub(super) fn forget(&self, namespace: &str, name: &str) -> Effects<'_> {
        let of = self.hash_namespace(namespace);
        self.change(&of, |shard, displaced| {
            if let Some(entry) = shard.find_mut(of.name(name), |entry| entry.key.is(namespace, name)) {
                entry.clear(displaced);
            }
        })
    }

    fn displaced(&self) -> Displaced<'_, O, E> {
        Displaced { published: Changes::new(&self.published), flights: Vec::new() }
    }

    /// Changes a shard under its lock, and leaves to the caller when to drop what that displaces.
    fn change<'m>(
        &'m self,
        of: &NamespaceHash<'_>,
        change: impl FnOnce(&mut Shard<O, E>, &mut Displaced<'m, O, E>),
    ) -> Effects<'m> {
        let mut displaced = self.displaced();
        change(&mut self.lock(of), &mut displaced);
        displaced.later()
    }

    pub(super) fn references(&self, namespace: &str, name: &str) -> usize {
        let of = self.hash_namespace(namespace);
        let shard = self.lock(&of);
        shard.find(of.name(name), |entry| entry.key.is(namespace, name)).map_or(0, Entry::count)
    }

    /// What is known of an object.
    pub(super) fn known(&self, namespace: &str, name: &str) -> Known<O> {
        let of = self.hash_namespace(namespace);
        // Ends after the locks are released.
        let published = self.published.pin();
        let shard = self.lock(&of);
        let entry = shard.find(of.name(name), |entry| entry.key.is(namespace, name));
        entry.map_or(Known::Nothing, |entry| entry.known(&published))
    }

    /// Lines up in the flight of the object's current generation; `None` if it is not referenced.
    pub(super) fn enter(&self, namespace: &str, name: &str) -> Option<(Arc<Flight<O, E>>, Ticket)> {
        let of = self.hash_namespace(namespace);
        // Ends after the lock is released.
        let mut published = None;
        let mut shard = self.lock(&of);
        let entry = shard.find_mut(of.name(name), |entry| entry.key.is(namespace, name))?;
        let (key, superseded) = (&entry.key, entry.superseded);
        let flight = entry.flight.get_or_insert_with(|| {
            let known = at_rest(published.insert(self.published.pin()), key);
            Arc::new(Flight::new(key.clone(), known, superseded))
        });
        // With the shard locked, so that the flight is not retired in between.
        let ticket = flight.queue.lock().enter();
        Some((Arc::clone(flight), ticket))
    }

    /// Changes the flight's queue. If the flight is that of the object's current generation, publishes what it knows
    /// then, and retires it if nobody is left in it.
    ///
    /// Returns what `change` does, and what is to be dropped.
    pub(super) fn settle<R>(
        &self,
        flight: &Arc<Flight<O, E>>,
        change: impl FnOnce(&mut Queue<O, E>) -> R,
    ) -> (R, Displaced<'_, O, E>) {
        let (of, hash) = self.hash_key(&flight.key);
        let mut displaced = self.displaced();
        let mut shard = self.lock(&of);
        let mut queue = flight.queue.lock();
        let result = change(&mut queue);
        let is_current = |entry: &Entry<O, E>| entry.flight.as_ref().is_some_and(|it| Arc::ptr_eq(it, flight));
        let changed = queue.take_changed();
        let Some(entry) = shard.find_mut(hash, is_current) else { return (result, displaced) };
        entry.superseded &= !changed;
        match &queue.known {
            _ if !changed => {}
            Known::Object { object, confirmed } => {
                entry.published = true;
                displaced.published.insert(&entry.key, Published::new(Arc::clone(object), *confirmed));
            }
            Known::Absent(_) | Known::Nothing => entry.withdraw(&mut displaced),
        }
        if queue.is_idle() && !matches!(queue.known, Known::Absent(_)) {
            displaced.flights.extend(entry.flight.take());
        }
        (result, displaced)
    }

    /// Calls `visit` with each object's key, references, whether it is being fetched, and what is known.
    pub(super) fn for_each(&self, mut visit: impl FnMut(&ObjectKey, usize, bool, &Known<O>)) {
        for shard in &self.shards {
            // Ends after the locks are released.
            let published = self.published.pin();
            for entry in shard.lock().iter() {
                if let Some(flight) = &entry.flight {
                    let queue = flight.queue.lock();
                    visit(&entry.key, entry.count(), !queue.is_idle(), &queue.known);
                } else {
                    visit(&entry.key, entry.count(), false, &at_rest(&published, &entry.key));
                }
            }
        }
    }

    fn hash_namespace(&self, namespace: &str) -> NamespaceHash<'_> {
        let mut hasher = self.hasher.build_hasher();
        hash_parts([namespace], &mut hasher);
        NamespaceHash(hasher)
    }

    fn hash_key(&self, key: &ObjectKey) -> (NamespaceHash<'_>, u64) {
        let of = self.hash_namespace(key.namespace());
        let hash = of.name(key.name());
        (of, hash)
    }

    /// The objects of a namespace stand in one shard, so that those of a pod take one lock.
    fn lock(&self, of: &NamespaceHash<'_>) -> MutexGuard<'_, Shard<O, E>> {
        // Below `SHARDS`, which fits.
        self.shards[usize::try_from(of.0.finish() % SHARDS).unwrap_or_default()].lock()
    }
}

/// The hash of a namespace, to which that of a name is added.
struct NamespaceHash<'s>(FoldHasher<'s>);

impl NamespaceHash<'_> {
    fn name(&self, name: &str) -> u64 {
        let mut hasher = self.0.clone();
        hash_parts([name], &mut hasher);
        hasher.finish()
    }
}

/// What is known of an object that has no flight.
fn at_rest<O>(published: &View<'_, Published<O>>, key: &ObjectKey) -> Known<O> {
    let known =
        |value: &Published<O>| Known::Object { object: Arc::clone(&value.object), confirmed: value.confirmed() };
    published.read(key.namespace(), key.name(), known).unwrap_or(Known::Nothing)
}

impl<O, E> Entry<O, E> {
    fn count(&self) -> usize {
        usize::try_from(self.references).unwrap_or(usize::MAX)
    }

    fn known(&self, published: &View<'_, Published<O>>) -> Known<O> {
        match &self.flight {
            Some(flight) => flight.queue.lock().known.clone(),
            None => at_rest(published, &self.key),
        }
    }

    fn withdraw(&mut self, displaced: &mut Displaced<'_, O, E>) {
        if std::mem::take(&mut self.published) {
            displaced.published.remove(&self.key);
        }
    }

    /// Takes what is known and who reads it.
    fn clear(&mut self, displaced: &mut Displaced<'_, O, E>) {
        self.withdraw(displaced);
        displaced.flights.extend(self.flight.take());
    }
}
