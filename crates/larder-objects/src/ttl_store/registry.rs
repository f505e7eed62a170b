//! Which objects are referenced, and what is known of each.

use super::flight::{Flight, Queue, Ticket};
use super::known::Known;
use super::published::Published;
use crate::effects::Panics;
use crate::key::hash_parts;
use crate::shared_map::{SharedMap, View};
use crate::sync::{Mutex, MutexGuard};
use crate::{Effects, Object, ObjectKey};
use foldhash::fast::{FoldHasher, RandomState};
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
    hasher: RandomState,
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

/// What a change pushed out, for the caller to drop where no lock is held: the last of an object may be wiped as it is
/// dropped.
pub(super) struct Displaced<O, E> {
    pub(super) object: Option<Published<O>>,
    pub(super) flight: Option<Arc<Flight<O, E>>>,
}

fn drop_later<'s, O: 's, E: 's>(displaced: Vec<Displaced<O, E>>) -> Effects<'s> {
    if displaced.is_empty() {
        return Effects::none();
    }
    Effects::new(move || {
        let mut panics = Panics::default();
        for Displaced { object, flight } in displaced {
            panics.drop_each(object);
            panics.drop_each(flight);
        }
        panics.resume();
    })
}

impl<O: Object, E: 'static> Registry<O, E> {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(HashTable::new())).collect();
        Self { hasher: RandomState::default(), shards, published: SharedMap::new() }
    }

    /// The objects as they were last confirmed in their current generations.
    #[inline]
    pub(super) fn published(&self) -> View<'_, Published<O>> {
        self.published.pin()
    }

    /// One more reference to each, and a new generation.
    pub(super) fn add_references(&self, namespace: &str, names: &[&str]) -> Effects<'_> {
        let of = self.hash_namespace(namespace);
        let (mut displaced, mut buffer) = (Vec::new(), String::new());
        let mut shard = self.lock(&of);
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
                    displaced.extend(self.displace(entry));
                }
            }
        }
        drop(shard);
        drop_later(displaced)
    }

    /// One reference less to each; the last one takes the object with it.
    pub(super) fn delete_references(&self, namespace: &str, names: &[&str]) -> Effects<'_> {
        let of = self.hash_namespace(namespace);
        let mut displaced = Vec::new();
        let mut shard = self.lock(&of);
        for name in names {
            let Ok(mut found) = shard.find_entry(of.name(name), |entry| entry.key.is(namespace, name)) else {
                continue;
            };
            let entry = found.get_mut();
            entry.references -= 1;
            if entry.references == 0 {
                displaced.extend(self.displace(entry));
                found.remove();
            }
        }
        drop(shard);
        drop_later(displaced)
    }

    /// A new generation of the object, if it is referenced.
    pub(super) fn forget(&self, namespace: &str, name: &str) -> Effects<'_> {
        let of = self.hash_namespace(namespace);
        let mut shard = self.lock(&of);
        let entry = shard.find_mut(of.name(name), |entry| entry.key.is(namespace, name));
        let displaced = Vec::from_iter(entry.and_then(|entry| self.displace(entry)));
        drop(shard);
        drop_later(displaced)
    }

    pub(super) fn references(&self, namespace: &str, name: &str) -> usize {
        let of = self.hash_namespace(namespace);
        let shard = self.lock(&of);
        shard.find(of.name(name), |entry| entry.key.is(namespace, name)).map_or(0, Entry::count)
    }

    /// Lines up in the flight of the object's current generation; `None` if it is not referenced.
    pub(super) fn enter(&self, namespace: &str, name: &str) -> Option<(Arc<Flight<O, E>>, Ticket)> {
        let of = self.hash_namespace(namespace);
        let mut shard = self.lock(&of);
        let entry = shard.find_mut(of.name(name), |entry| entry.key.is(namespace, name))?;
        let (key, superseded) = (&entry.key, entry.superseded);
        let flight =
            entry.flight.get_or_insert_with(|| Arc::new(Flight::new(key.clone(), self.at_rest(key), superseded)));
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
        let (of, hash) = self.hash_key(&flight.key);
        let mut shard = self.lock(&of);
        let mut queue = flight.queue.lock();
        let result = change(&mut queue);
        let is_current = |entry: &Entry<O, E>| entry.flight.as_ref().is_some_and(|it| Arc::ptr_eq(it, flight));
        let changed = queue.take_changed();
        let Some(entry) = shard.find_mut(hash, is_current) else {
            return (result, Displaced { object: None, flight: None });
        };
        entry.superseded &= !changed;
        let object = match &queue.known {
            _ if !changed => None,
            Known::Object { object, confirmed } => {
                entry.published = true;
                self.published.insert(&entry.key, Published::new(Arc::clone(object), *confirmed))
            }
            Known::Absent(_) | Known::Nothing => self.withdraw(entry),
        };
        let retired = queue.is_idle() && !matches!(queue.known, Known::Absent(_));
        (result, Displaced { object, flight: if retired { entry.flight.take() } else { None } })
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
        match self.published.pin().get(key.namespace(), key.name()) {
            Some(value) => Known::Object { object: Arc::clone(&value.object), confirmed: value.confirmed() },
            None => Known::Nothing,
        }
    }

    fn withdraw(&self, entry: &mut Entry<O, E>) -> Option<Published<O>> {
        if !std::mem::take(&mut entry.published) {
            return None;
        }
        self.published.remove(&entry.key)
    }

    /// Takes from an entry what is known and who reads it, if there is anything.
    fn displace(&self, entry: &mut Entry<O, E>) -> Option<Displaced<O, E>> {
        let (object, flight) = (self.withdraw(entry), entry.flight.take());
        (object.is_some() || flight.is_some()).then_some(Displaced { object, flight })
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

impl<O, E> Entry<O, E> {
    fn count(&self) -> usize {
        usize::try_from(self.references).unwrap_or(usize::MAX)
    }
}
