//! The store behind the [watch store](crate::WatchStore) and the [adaptive store](crate::AutoStore): the referenced objects, the
//! reflectors and fetches that keep them up to date, and the readers that wait. The two differ in their [`Rules`]: whether they
//! poll, and watch namespaces.
//!
//! - `observed`: what has been observed of one object, and what may replace it;
//! - `item`: one object with its references, its reflector and its waiters, and how a read of it is answered;
//! - `read`: reads, and the fetches that they share;
//! - `events`: what reflectors tell; `namespaces`: when one reflector keeps a whole namespace;
//! - `published`: what reads find without a lock, and when.
//!
//! # Locks
//!
//! One, chosen by the object's namespace. It is not held while a reflector is started or dropped, a fetch is begun, polled
//! or dropped, nor while a waker is cloned, called or dropped, or an object or error that was displaced is dropped: those run
//! [after](After) it is released. What is good as it is stands in a lock-free map beside it, changed only under the lock. What
//! is asked under the lock must not call the store: the clock, the TTL, the version of an object, the class of an error.

mod events;
mod item;
mod namespaces;
mod observed;
mod published;
mod read;

use crate::effects::Panics;
use crate::fetched::Fetched;
use crate::shared_map::{Changes, SharedMap};
use crate::sync::Mutex;
use crate::{
    Effects, Fetch, GetError, Held, Kept, ObjectKey, ObjectState, ObjectStatus, ObjectTtl, Read, Reflectors, Scope,
    Store, WatchOptions, WatchStats,
};
use foldhash::fast::SeedableRandomState;
use item::{Item, Link, Watch};
use larder_clock::{Clock, Timestamp};
use namespaces::Namespace;
use observed::{Known, Moment, Stamp};
use published::Record;
use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Arc, Weak};
use std::task::Waker;

#[cfg(not(shuttle))]
const SHARDS: u64 = 64;
#[cfg(shuttle)]
const SHARDS: u64 = 2;

/// What tells the two stores apart.
pub trait Rules: Send + Sync + 'static {
    /// The TTL by which objects are polled; `None` in a store that watches all. Asked under a lock.
    fn polling(&self) -> Option<ObjectTtl>;

    /// How many objects of a namespace have to be referenced until its watch is considered; `None` for never.
    fn namespaces_from(&self) -> Option<usize>;

    /// Whether there is polling at all.
    const POLLS: bool;
}

/// A store whose objects are kept up to date by reflectors, by rules: a [`WatchStore`](crate::WatchStore) or an
/// [`AutoStore`](crate::AutoStore), which have examples.
pub struct ReflectorStore<F: Fetch, R: Reflectors<Object = F::Object, Error = F::Error>, C, P> {
    /// Itself, for what outlives a call.
    this: Weak<Self>,
    fetch: F,
    reflectors: R,
    clock: C,
    rules: P,
    options: WatchOptions,
    /// What times in atomics count from.
    base: Timestamp,
    hasher: SeedableRandomState,
    shards: Box<[Mutex<ShardOf<F, R>>]>,
    published: SharedMap<Record<F::Object>>,
    counts: Counts,
}

type ShardOf<F, R> = Shard<<F as Fetch>::Object, <F as Fetch>::Error, <R as Reflectors>::Reflector>;
type AfterOf<'m, F, R> = After<'m, <F as Fetch>::Object, <F as Fetch>::Error, <R as Reflectors>::Reflector>;

/// Objects by their keys; in boxes, for a table has room for up to twice as many as are in it.
type Items<O, E, H> = HashMap<ObjectKey, Box<Item<O, E, H>>, SeedableRandomState>;

/// The objects of some namespaces.
struct Shard<O, E, H> {
    items: Items<O, E, H>,
    namespaces: HashMap<Box<str>, Namespace<E, H>, SeedableRandomState>,
    stamp: Stamp,
}

impl<O, E, H> Shard<O, E, H> {
    fn next_stamp(&mut self) -> Stamp {
        self.stamp += 1;
        self.stamp
    }
}

/// What has happened, for metrics; each is counted in one place.
#[derive(Default)]
struct Counts {
    started: AtomicU64,
    stopped_idle: AtomicU64,
    verified: AtomicU64,
    polled: AtomicU64,
    went_back: AtomicU64,
}

// Not shuttle's: a count is no place to switch threads.
use std::sync::atomic::AtomicU64;

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
}

fn counted(counter: &AtomicU64) -> u64 {
    counter.load(std::sync::atomic::Ordering::Relaxed)
}

/// A reflector that is to be started.
struct Start {
    scope: Scope,
    generation: Stamp,
    resume: Option<String>,
    pulse: Arc<item::Pulse>,
}

/// What is to be done once the lock is released: all that runs foreign code.
struct After<'m, O, E, H> {
    published: Changes<'m, Record<O>>,
    objects: Vec<Arc<O>>,
    errors: Vec<Arc<E>>,
    handles: Vec<H>,
    wakers: Vec<Waker>,
    dropped_wakers: Vec<Waker>,
    starts: Vec<Start>,
}

impl<'m, O, E, H> After<'m, O, E, H> {
    const fn new(published: &'m SharedMap<Record<O>>) -> Self {
        Self {
            published: Changes::new(published),
            objects: Vec::new(),
            errors: Vec::new(),
            handles: Vec::new(),
            wakers: Vec::new(),
            dropped_wakers: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// Drops what a fetch brought for nothing.
    fn discard(&mut self, fetched: Fetched<O, E>) {
        match fetched {
            Fetched::Object(object) => self.objects.push(object),
            Fetched::Failed(error) => self.errors.push(error),
            Fetched::Absent => {}
        }
    }

    const fn is_empty(&self) -> bool {
        let Self { published, objects, errors, handles, wakers, dropped_wakers, starts } = self;
        published.is_empty()
            && objects.is_empty()
            && errors.is_empty()
            && handles.is_empty()
            && wakers.is_empty()
            && dropped_wakers.is_empty()
            && starts.is_empty()
    }
}

impl<F: Fetch, R: Reflectors<Object = F::Object, Error = F::Error>, C: Clock, P: Rules> ReflectorStore<F, R, C, P> {
    pub(crate) fn with_rules(fetch: F, reflectors: R, clock: C, rules: P, options: WatchOptions) -> Arc<Self> {
        let seed = options.hash_seed;
        let shard = |_| {
            Mutex::new(Shard {
                items: HashMap::with_hasher(seed.state()),
                namespaces: HashMap::with_hasher(seed.state()),
                stamp: 0,
            })
        };
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            fetch,
            reflectors,
            base: clock.now(),
            clock,
            rules,
            options,
            hasher: seed.state(),
            shards: (0..SHARDS).map(shard).collect(),
            published: SharedMap::new(),
            counts: Counts::default(),
        })
    }

    /// Where the store fetches from.
    pub fn fetcher(&self) -> &F {
        &self.fetch
    }

    /// What starts the store's reflectors.
    pub fn reflectors(&self) -> &R {
        &self.reflectors
    }

    fn shard(&self, namespace: &str) -> &Mutex<ShardOf<F, R>> {
        // Below `SHARDS`, which is a small number.
        &self.shards[usize::try_from(self.hasher.hash_one(namespace) % SHARDS).unwrap_or_default()]
    }

    /// Changes the objects of a namespace under its lock, and does what follows from it without.
    fn change<T>(&self, namespace: &str, change: impl FnOnce(&mut ShardOf<F, R>, &mut AfterOf<F, R>) -> T) -> T {
        let mut after = After::new(&self.published);
        let result = change(&mut self.shard(namespace).lock(), &mut after);
        self.finish(after);
        result
    }

    /// As [`change`](Self::change), and leaves to the caller when to do what follows.
    fn change_references(
        &self,
        namespace: &str,
        change: impl FnOnce(&mut ShardOf<F, R>, &mut AfterOf<F, R>),
    ) -> Effects<'_> {
        let mut after = After::new(&self.published);
        change(&mut self.shard(namespace).lock(), &mut after);
        if after.is_empty() { Effects::none() } else { Effects::new(move || self.finish(after)) }
    }

    fn finish(&self, after: AfterOf<F, R>) {
        let After { published, objects, errors, handles, wakers, dropped_wakers, starts } = after;
        let mut panics = Panics::default();
        panics.catch(|| drop(published));
        panics.drop_each(objects);
        panics.drop_each(errors);
        panics.drop_each(handles);
        panics.drop_each(dropped_wakers);
        panics.wake_each(wakers);
        for start in starts {
            panics.catch(|| self.start(start));
        }
        panics.resume();
    }

    fn moment(&self, shard: &mut ShardOf<F, R>) -> Moment {
        Moment { stamp: shard.next_stamp(), at: self.clock.now() }
    }

    fn add_reference(&self, shard: &mut ShardOf<F, R>, after: &mut AfterOf<F, R>, key: ObjectKey, uid: &Arc<str>) {
        let moment = self.moment(shard);
        let Shard { items, namespaces, .. } = shard;
        if let Some(item) = items.get_mut(&key) {
            item.add_reference(uid);
            if self.options.first_read_at_least_as_new {
                item.observed.doubt(moment);
                after.published.remove(&key);
            }
            return;
        }
        let mut item = Item::new(moment.stamp);
        item.add_reference(uid);
        let in_namespace = P::POLLS && Namespace::take_in(namespaces, key.namespace());
        if in_namespace {
            item.watch = Watch::Namespace;
            item.observed.doubt(moment);
        } else if !P::POLLS {
            self.link(&key, &mut item, moment, after);
        }
        items.insert(key, Box::new(item));
    }

    /// Has a reflector started for an object, once the lock is released.
    fn link(&self, key: &ObjectKey, item: &mut ItemOf<F, R>, moment: Moment, after: &mut AfterOf<F, R>) {
        let link = Link::new(moment);
        count(&self.counts.started);
        after.starts.push(Start {
            scope: Scope::Object(key.clone()),
            generation: link.generation,
            resume: item.resume(),
            pulse: Arc::clone(&link.pulse),
        });
        item.unlink(Watch::Own(link), self.base, after);
        after.published.remove(key);
    }

    /// Hands in what was known of an object before this store existed, for instance from a disk. The object is held, stale
    /// and with its age, until the source says something. A read waits for the source as before. Without effect on an
    /// object that is not referenced, or of which something is known.
    pub fn restore(&self, namespace: &str, name: &str, before: Read<F::Object>) {
        let (key, Read { object, freshness, .. }) = (ObjectKey::new(namespace, name), before);
        self.change(namespace, |shard, after| {
            let moment = self.moment(shard);
            match shard.items.get_mut(&key) {
                Some(item) if !item.observed.is_known() => {
                    // The first list or fetch since the object is referenced will do.
                    let moment = Moment { stamp: item.born, ..moment };
                    item.observed.restore(object, freshness.confirmed_at, freshness.source, moment);
                }
                _ => after.objects.push(object),
            }
        });
    }

    /// Says that an object is mounted, and so read once a sync period: a store that polls watches it from its first read on,
    /// which saves the first fetch. Counts until the last reference to the object is gone; without effect on one that has none.
    pub fn set_mounted(&self, namespace: &str, name: &str) {
        if let Some(item) = self.shard(namespace).lock().items.get_mut(&ObjectKey::new(namespace, name)) {
            item.mounted = true;
        }
    }

    /// Stops the watches of objects that nobody has read for [`max_idle`](crate::WatchOptions::max_idle), but for those that
    /// have not synced yet; and the watches of namespaces that are no longer worth it. The owner of the store calls this
    /// once a minute.
    pub fn stop_idle(&self) {
        let max_idle = self.options.max_idle.max(self.options.min_idle);
        for shard in &self.shards {
            let mut after = After::new(&self.published);
            let mut locked = shard.lock();
            let now = self.clock.now();
            let Shard { items, namespaces, .. } = &mut *locked;
            for (key, item) in items {
                // The store has no timer: this is when readers that wait alone for a silent reflector look again.
                if P::POLLS && link_of(&item.watch, namespaces, key.namespace()).is_some_and(|link| link.is_late(now)) {
                    after.wakers.extend(item.wake_all());
                }
                // One that has not synced is left alone: the list that is under way would be lost, and asked for again.
                let Watch::Own(link) = &item.watch else { continue };
                if !link.synced || !item.is_idle(self.base, now, max_idle) {
                    continue;
                }
                let watch = if P::POLLS { Watch::Off } else { Watch::Idle(now) };
                item.unlink(watch, self.base, &mut after);
                item.polled = None;
                self.publish(key, item, None, &mut after);
                count(&self.counts.stopped_idle);
            }
            if P::POLLS {
                self.stop_namespaces(&mut locked, now, &mut after);
            }
            drop(locked);
            self.finish(after);
        }
    }

    /// What the store has done, and holds.
    pub fn stats(&self) -> WatchStats {
        let mut stats = WatchStats {
            started: counted(&self.counts.started),
            stopped_idle: counted(&self.counts.stopped_idle),
            verifying_reads: counted(&self.counts.verified),
            polls: counted(&self.counts.polled),
            versions_went_back: counted(&self.counts.went_back),
            ..WatchStats::default()
        };
        for shard in &self.shards {
            let shard = shard.lock();
            for item in shard.items.values() {
                match item.kept(P::POLLS) {
                    Kept::Watched => stats.watching += 1,
                    Kept::Held => stats.held += 1,
                    Kept::Idle => stats.idle += 1,
                    Kept::Polled => stats.polled += 1,
                    Kept::NamespaceWatched => stats.in_namespaces += 1,
                    Kept::Direct => {}
                }
            }
            stats.watching_namespaces += shard.namespaces.values().filter(|namespace| namespace.is_watched()).count();
        }
        stats
    }
}

impl<F: Fetch, R: Reflectors<Object = F::Object, Error = F::Error>, C: Clock, P: Rules> Store
    for ReflectorStore<F, R, C, P>
{
    type Object = F::Object;
    type Error = F::Error;

    fn add_references(&self, namespace: &str, names: &[&str], uid: &str) -> Effects<'_> {
        // The pod's objects share its UID.
        let uid = Arc::from(uid);
        self.change_references(namespace, |shard, after| {
            for name in names {
                self.add_reference(shard, after, ObjectKey::new(namespace, name), &uid);
            }
        })
    }

    fn delete_references(&self, namespace: &str, names: &[&str], uid: &str) -> Effects<'_> {
        self.change_references(namespace, |shard, after| {
            for name in names {
                let key = ObjectKey::new(namespace, name);
                if !shard.items.get_mut(&key).is_some_and(|item| item.delete_reference(uid)) {
                    continue;
                }
                let Some(mut item) = shard.items.remove(&key) else { continue };
                after.published.remove(&key);
                after.objects.extend(item.observed.clear());
                item.unlink(Watch::Off, self.base, after);
                after.wakers.extend(item.wake_all());
                if P::POLLS {
                    Namespace::let_go(&mut shard.namespaces, namespace, after);
                }
            }
        })
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Read<Self::Object>, GetError<Self::Error>> {
        if let Some(answer) = self.get_published(namespace, name) {
            return answer;
        }
        if let Some(considering) = self.consider(namespace) {
            considering.await;
        }
        self.get_unpublished(namespace, name).await
    }

    fn references(&self, namespace: &str, name: &str) -> usize {
        let key = ObjectKey::new(namespace, name);
        self.shard(namespace).lock().items.get(&key).map_or(0, |item| item.references())
    }

    fn held(&self, namespace: &str, name: &str) -> Option<Held<F::Object>> {
        let key = ObjectKey::new(namespace, name);
        let shard = self.shard(namespace).lock();
        let item = shard.items.get(&key)?;
        let object = match item.observed.known() {
            Known::Object(object) => Some(Arc::clone(object)),
            Known::Absent if !item.observed.is_doubtful() => None,
            Known::Absent | Known::Nothing => return None,
        };
        let link = link_of(&item.watch, &shard.namespaces, namespace);
        let freshness = item.at_rest(link, self.rules.polling(), self.clock.now(), self.base);
        Some(Held::new(object, freshness))
    }

    fn forget(&self, namespace: &str, name: &str) -> Effects<'_> {
        let key = ObjectKey::new(namespace, name);
        self.change_references(namespace, |shard, after| {
            let moment = self.moment(shard);
            if let Some(item) = shard.items.get_mut(&key) {
                item.observed.doubt(moment);
                after.published.remove(&key);
            }
        })
    }

    fn snapshot(&self) -> Vec<ObjectStatus> {
        let mut all = Vec::new();
        for shard in &self.shards {
            // Dropped after the lock is released: each may be the last share of its fetch.
            let mut fetches = Vec::new();
            let shard = shard.lock();
            let now = self.clock.now();
            for (key, item) in &shard.items {
                let link = link_of(&item.watch, &shard.namespaces, key.namespace());
                let fetch = item.flight.as_ref().and_then(|flight| flight.fetch.upgrade());
                let fetching = fetch.is_some() || link.is_some_and(|link| !link.synced);
                fetches.extend(fetch);
                let freshness = || item.at_rest(link, self.rules.polling(), now, self.base);
                let state = match item.observed.known() {
                    Known::Nothing => ObjectState::NotFetched,
                    Known::Object(_) => ObjectState::Present(freshness()),
                    Known::Absent => ObjectState::Absent(freshness()),
                };
                let kept = item.kept(P::POLLS);
                all.push(ObjectStatus { key: key.clone(), references: item.references(), fetching, kept, state });
            }
        }
        all
    }
}

impl<F, R, C, P> fmt::Debug for ReflectorStore<F, R, C, P>
where
    F: Fetch,
    R: Reflectors<Object = F::Object, Error = F::Error>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectorStore").finish_non_exhaustive()
    }
}

type ItemOf<F, R> = Item<<F as Fetch>::Object, <F as Fetch>::Error, <R as Reflectors>::Reflector>;
type LinkOf<F, R> = Link<<F as Fetch>::Error, <R as Reflectors>::Reflector>;

/// The reflector that keeps an object.
fn link_of<'l, E, H>(
    watch: &'l Watch<E, H>,
    namespaces: &'l HashMap<Box<str>, Namespace<E, H>, SeedableRandomState>,
    namespace: &str,
) -> Option<&'l Link<E, H>> {
    match watch {
        Watch::Own(link) => Some(link),
        Watch::Namespace => namespaces.get(namespace)?.link(),
        Watch::Off | Watch::Idle(_) | Watch::Held => None,
    }
}

// Locks outside of a run of shuttle are none.
#[cfg(all(test, not(shuttle)))]
mod tests;
