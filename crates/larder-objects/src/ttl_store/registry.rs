//! Which objects are referenced, and what is known of each.

use super::flight::{Flight, Queue, Ticket};
use super::known::{Confirmed, Known};
use super::published::Published;
use crate::key::hash_parts;
use crate::sync::{Mutex, MutexGuard};
use crate::{Object, ObjectKey};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

/// Shards of a registry. Each is locked by itself, so that threads seldom meet.
#[cfg(not(shuttle))]
const SHARDS: u64 = 64;
/// Threads do meet where a test explores how.
#[cfg(shuttle)]
const SHARDS: u64 = 1;

/// The shard is chosen by bits of the hash that the tables within it do not look at.
const SHARD_SHIFT: u32 = 40;

/// The referenced objects of a store.
pub(super) struct Registry<O, E> {
    hasher: RandomState,
    shards: Box<[Mutex<Shard<O, E>>]>,
    /// The objects of current generations, for reads. That of an object is changed only with its shard locked.
    published: Published<O>,
}

type Shard<O, E> = HashTable<Entry<O, E>>;

/// A referenced object.
struct Entry<O, E> {
    key: ObjectKey,
    references: u32,
    /// Whether the object is published.
    published: bool,
    /// The current generation, while it has readers or is known to be absent. Where there is none, all that is known is
    /// what is published.
    flight: Option<Arc<Flight<O, E>>>,
}

/// What a change pushed out, for the caller to drop where no lock is held: the last of an object may be wiped as it is
/// dropped.
pub(super) struct Displaced<O, E> {
    _object: Option<Arc<O>>,
    _flight: Option<Arc<Flight<O, E>>>,
}

impl<O: Object, E> Registry<O, E> {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(HashTable::new())).collect();
        Self { hasher: RandomState::default(), shards, published: Published::new() }
    }

    /// The object as it was last confirmed in its current generation.
    #[inline]
    pub(super) fn published(&self, namespace: &str, name: &str) -> Option<(Arc<O>, Confirmed)> {
        self.published.get(namespace, name)
    }

    /// One more reference, and a new generation.
    pub(super) fn add_reference(&self, namespace: &str, name: &str) {
        let hash = self.hash(namespace, name);
        let mut shard = self.lock(hash);
        let Some(entry) = shard.find_mut(hash, |entry| entry.key.is(namespace, name)) else {
            let entry = Entry { key: ObjectKey::new(namespace, name), references: 1, published: false, flight: None };
            shard.insert_unique(hash, entry, |entry| self.hash_key(&entry.key));
            return;
        };
        entry.references = entry.references.saturating_add(1);
        let displaced = Displaced { _object: self.withdraw(entry), _flight: entry.flight.take() };
        drop(shard);
        drop(displaced);
    }

    /// One reference less; the last one takes the object with it.
    pub(super) fn delete_reference(&self, namespace: &str, name: &str) {
        let hash = self.hash(namespace, name);
        let mut shard = self.lock(hash);
        let Ok(mut found) = shard.find_entry(hash, |entry| entry.key.is(namespace, name)) else { return };
        let entry = found.get_mut();
        entry.references -= 1;
        if entry.references > 0 {
            return;
        }
        let displaced = self.withdraw(entry);
        let (entry, _) = found.remove();
        drop(shard);
        drop((displaced, entry));
    }

    pub(super) fn references(&self, namespace: &str, name: &str) -> usize {
        let hash = self.hash(namespace, name);
        let shard = self.lock(hash);
        shard.find(hash, |entry| entry.key.is(namespace, name)).map_or(0, Entry::count)
    }

    /// Lines up in the flight of the object's current generation; `None` if it is not referenced.
    pub(super) fn enter(&self, namespace: &str, name: &str) -> Option<(Arc<Flight<O, E>>, Ticket)> {
        let hash = self.hash(namespace, name);
        let mut shard = self.lock(hash);
        let entry = shard.find_mut(hash, |entry| entry.key.is(namespace, name))?;
        let flight = match &entry.flight {
            Some(flight) => flight,
            None => entry.flight.insert(Arc::new(Flight::new(entry.key.clone(), self.at_rest(&entry.key)))),
        };
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
    ) -> (R, Displaced<O, E>) {
        let hash = self.hash_key(&flight.key);
        let mut shard = self.lock(hash);
        let mut queue = flight.queue.lock();
        let result = change(&mut queue);
        let is_current = |entry: &Entry<O, E>| entry.flight.as_ref().is_some_and(|it| Arc::ptr_eq(it, flight));
        let changed = queue.take_changed();
        let Some(entry) = shard.find_mut(hash, is_current) else {
            return (result, Displaced { _object: None, _flight: None });
        };
        let object = match &queue.known {
            _ if !changed => None,
            Known::Object { object, confirmed } => {
                entry.published = true;
                self.published.set(&entry.key, Arc::clone(object), *confirmed)
            }
            Known::Absent(_) | Known::Nothing => self.withdraw(entry),
        };
        let retired = queue.is_idle() && !matches!(queue.known, Known::Absent(_));
        (result, Displaced { _object: object, _flight: if retired { entry.flight.take() } else { None } })
    }

    /// Calls `visit` with each object's key, references, whether it is being fetched, and what is known.
    pub(super) fn for_each(&self, mut visit: impl FnMut(&ObjectKey, usize, bool, &Known<O>)) {
        for shard in &self.shards {
            for entry in shard.lock().iter() {
                if let Some(flight) = &entry.flight {
                    let queue = flight.queue.lock();
                    visit(&entry.key, entry.count(), !queue.is_idle(), &queue.known);
                } else {
                    visit(&entry.key, entry.count(), false, &self.at_rest(&entry.key));
                }
            }
        }
    }

    /// What is known of an object that has no flight.
    fn at_rest(&self, key: &ObjectKey) -> Known<O> {
        match self.published.get(key.namespace(), key.name()) {
            Some((object, confirmed)) => Known::Object { object, confirmed },
            None => Known::Nothing,
        }
    }

    fn withdraw(&self, entry: &mut Entry<O, E>) -> Option<Arc<O>> {
        if !std::mem::take(&mut entry.published) {
            return None;
        }
        self.published.remove(entry.key.namespace(), entry.key.name())
    }

    fn hash(&self, namespace: &str, name: &str) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hash_parts([namespace, name], &mut hasher);
        hasher.finish()
    }

    fn hash_key(&self, key: &ObjectKey) -> u64 {
        self.hash(key.namespace(), key.name())
    }

    fn lock(&self, hash: u64) -> MutexGuard<'_, Shard<O, E>> {
        // Below `SHARDS`, which fits.
        self.shards[usize::try_from((hash >> SHARD_SHIFT) % SHARDS).unwrap_or_default()].lock()
    }
}

impl<O, E> Entry<O, E> {
    fn count(&self) -> usize {
        usize::try_from(self.references).unwrap_or(usize::MAX)
    }
}
