//! One shard of a store: which objects are referenced, and the published ones among them, which reads find without an
//! exclusive lock.

use super::flight::{Flight, Queue};
use super::known::{Confirmed, Known};
use crate::sync::{Mutex, RwLock};
use crate::{Object, ObjectKey};
use hashbrown::HashTable;
use std::sync::Arc;

pub(super) struct Shard<O, E> {
    registry: Mutex<HashTable<Entry<O, E>>>,
    /// Changed only with the registry locked.
    published: RwLock<HashTable<Published<O>>>,
}

/// A referenced object.
struct Entry<O, E> {
    key: ObjectKey,
    references: u32,
    /// Whether the object stands in `published`.
    published: bool,
    /// The current generation, while it has readers or is known to be absent. Where there is none, all that is known is
    /// what is published.
    flight: Option<Arc<Flight<O, E>>>,
}

/// An object of the current generation, for reads.
struct Published<O> {
    key: ObjectKey,
    object: Arc<O>,
    confirmed: Confirmed,
}

/// What a change pushed out, for the caller to drop where no lock is held: the last of an object may be wiped.
pub(super) struct Displaced<O, E> {
    _published: Option<Published<O>>,
    _flight: Option<Arc<Flight<O, E>>>,
}

impl<O: Object, E> Shard<O, E> {
    pub(super) fn new() -> Self {
        Self { registry: Mutex::new(HashTable::new()), published: RwLock::new(HashTable::new()) }
    }

    /// The object as it was last confirmed in this generation.
    pub(super) fn published(&self, hash: u64, namespace: &str, name: &str) -> Option<(Arc<O>, Confirmed)> {
        let published = self.published.read();
        let found = published.find(hash, |entry| entry.key.is(namespace, name))?;
        Some((Arc::clone(&found.object), found.confirmed))
    }

    /// One more reference, and a new generation.
    pub(super) fn add_reference(&self, hash: u64, namespace: &str, name: &str, rehash: impl Fn(&ObjectKey) -> u64) {
        let mut registry = self.registry.lock();
        let Some(entry) = registry.find_mut(hash, |entry| entry.key.is(namespace, name)) else {
            let entry = Entry { key: ObjectKey::new(namespace, name), references: 1, published: false, flight: None };
            registry.insert_unique(hash, entry, |entry| rehash(&entry.key));
            return;
        };
        entry.references = entry.references.saturating_add(1);
        let flight = entry.flight.take();
        let object = if std::mem::take(&mut entry.published) { self.withdraw(hash, namespace, name) } else { None };
        drop(registry);
        // The last of an object may be wiped as it is dropped: not under a lock.
        drop((flight, object));
    }

    /// One reference less; the last one takes the object with it.
    pub(super) fn delete_reference(&self, hash: u64, namespace: &str, name: &str) {
        let mut registry = self.registry.lock();
        let Ok(mut found) = registry.find_entry(hash, |entry| entry.key.is(namespace, name)) else { return };
        found.get_mut().references -= 1;
        if found.get().references > 0 {
            return;
        }
        let (entry, _) = found.remove();
        let object = if entry.published { self.withdraw(hash, namespace, name) } else { None };
        drop(registry);
        drop((entry, object));
    }

    pub(super) fn references(&self, hash: u64, namespace: &str, name: &str) -> usize {
        let registry = self.registry.lock();
        let entry = registry.find(hash, |entry| entry.key.is(namespace, name));
        entry.map_or(0, |entry| usize::try_from(entry.references).unwrap_or(usize::MAX))
    }

    /// The flight of the object's current generation, with a ticket for it.
    pub(super) fn enter(&self, hash: u64, namespace: &str, name: &str) -> Option<(Arc<Flight<O, E>>, u64)> {
        let mut registry = self.registry.lock();
        let entry = registry.find_mut(hash, |entry| entry.key.is(namespace, name))?;
        let flight = entry.flight.get_or_insert_with(|| {
            let known = match self.published(hash, namespace, name) {
                Some((object, confirmed)) => Known::Object { object, confirmed },
                None => Known::Nothing,
            };
            Arc::new(Flight::new(entry.key.clone(), known))
        });
        // With the registry locked, so that the flight cannot be retired in between.
        let ticket = flight.queue.lock().enter();
        Some((Arc::clone(flight), ticket))
    }

    /// Runs `change` on the flight's queue with the registry locked. If what it knows has changed by it and the flight is
    /// the current generation's, publishes that; if nobody is left in it, retires it.
    ///
    /// Returns what `change` does and what is to be dropped.
    pub(super) fn settle<R>(
        &self,
        hash: u64,
        flight: &Arc<Flight<O, E>>,
        rehash: impl Fn(&ObjectKey) -> u64,
        change: impl FnOnce(&mut Queue<O, E>) -> R,
    ) -> (R, Displaced<O, E>) {
        let mut registry = self.registry.lock();
        let mut queue = flight.queue.lock();
        let result = change(&mut queue);
        let current =
            registry.find_mut(hash, |entry| entry.flight.as_ref().is_some_and(|current| Arc::ptr_eq(current, flight)));
        let Some(entry) = current else {
            return (result, Displaced { _published: None, _flight: None });
        };
        let withdrawn = match &queue.known {
            Known::Object { object, confirmed } => {
                entry.published = true;
                let new = Published { key: entry.key.clone(), object: Arc::clone(object), confirmed: *confirmed };
                self.publish(hash, new, rehash)
            }
            Known::Absent(_) | Known::Nothing if std::mem::take(&mut entry.published) => {
                self.withdraw(hash, entry.key.namespace(), entry.key.name())
            }
            Known::Absent(_) | Known::Nothing => None,
        };
        let retired =
            if queue.is_idle() && !matches!(queue.known, Known::Absent(_)) { entry.flight.take() } else { None };
        (result, Displaced { _published: withdrawn, _flight: retired })
    }

    fn publish(&self, hash: u64, new: Published<O>, rehash: impl Fn(&ObjectKey) -> u64) -> Option<Published<O>> {
        let mut published = self.published.write();
        let same = |entry: &Published<O>| entry.key == new.key;
        if let Some(old) = published.find_mut(hash, same) {
            return Some(std::mem::replace(old, new));
        }
        published.insert_unique(hash, new, |entry| rehash(&entry.key));
        None
    }

    fn withdraw(&self, hash: u64, namespace: &str, name: &str) -> Option<Published<O>> {
        let mut published = self.published.write();
        let found = published.find_entry(hash, |entry| entry.key.is(namespace, name)).ok()?;
        Some(found.remove().0)
    }

    /// Calls `visit` with each object's key, references, whether it is being fetched, and what is known.
    pub(super) fn for_each(
        &self,
        mut visit: impl FnMut(&ObjectKey, usize, bool, &Known<O>),
        rehash: impl Fn(&ObjectKey) -> u64,
    ) {
        let registry = self.registry.lock();
        for entry in registry.iter() {
            let references = usize::try_from(entry.references).unwrap_or(usize::MAX);
            if let Some(flight) = &entry.flight {
                let queue = flight.queue.lock();
                visit(&entry.key, references, !queue.is_idle(), &queue.known);
                continue;
            }
            let known = match self.published(rehash(&entry.key), entry.key.namespace(), entry.key.name()) {
                Some((object, confirmed)) => Known::Object { object, confirmed },
                None => Known::Nothing,
            };
            visit(&entry.key, references, false, &known);
        }
    }
}
