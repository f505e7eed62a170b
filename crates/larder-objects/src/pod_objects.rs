//! The objects of the registered pods: turns pods that come, change and go into references.
//!
//! # Guarantees
//!
//! - **What changed, and no more.** The first registration of a pod adds a reference to each object; a later one adds and
//!   drops only what changed, new ones first, so that an unchanged pod costs no fetch.
//! - **What was registered goes.** Unregistering drops what the pod referred to when it was last registered, whatever the
//!   caller passes.
//! - **Idempotent.** Registering or unregistering again changes nothing.
//!
//! A pod is told from another by namespace, name *and* UID.
//!
//! # Limits
//!
//! Keeps the names that a pod refers to, not the pod. Never waits for a fetch.
//!
//! # Locks
//!
//! One of this module, then the store's: of one pod, registrations and removals happen one after another. Foreign code runs
//! under neither: what the store returns as [`Effects`] runs once both are released, and `visit` is called with copies.

mod record;

use crate::key::hash_parts;
use crate::sync::Mutex;
use crate::{Effects, GetError, HashSeed, PodIdentity, Read, Reference, References, Store};
use foldhash::fast::SeedableRandomState;
use hashbrown::HashTable;
use record::{Record, References as Registered};
use std::fmt;
use std::hash::{BuildHasher, Hasher};

#[cfg(not(shuttle))]
const SHARDS: u64 = 16;
#[cfg(shuttle)]
const SHARDS: u64 = 2;
const SHARD_SHIFT: u32 = 40;

/// The objects of one kind that the registered pods refer to.
///
/// ```
/// use larder_clock::MonotonicClock;
/// use larder_objects::{DefaultTtl, PodIdentity, PodObjects, Reference, References, StoreTtl, TtlStore, fetch_fn};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// // A pod, for this example, is a UID and the name of its one secret.
/// struct OneSecret;
/// impl References<(&str, &str)> for OneSecret {
///     fn identity<'p>(&self, pod: &'p (&str, &str)) -> PodIdentity<'p> {
///         PodIdentity { namespace: "shop", name: "web-0", uid: pod.0 }
///     }
///     fn visit<'p>(&self, pod: &'p (&str, &str), mut visit: impl FnMut(Reference<'p>)) {
///         visit(Reference { name: pod.1, optional: false });
///     }
/// }
///
/// # struct Secret;
/// # impl larder_objects::Object for Secret {
/// #     fn resource_version(&self) -> &str {
/// #         "1"
/// #     }
/// #     fn uid(&self) -> &str {
/// #         ""
/// #     }
/// #     fn is_immutable(&self) -> bool {
/// #         false
/// #     }
/// # }
/// # #[derive(Debug, thiserror::Error)]
/// # #[error("unavailable")]
/// # struct Unavailable;
/// # impl larder_objects::FetchError for Unavailable {
/// #     fn is_not_found(&self) -> bool {
/// #         false
/// #     }
/// #     fn class(&self) -> &'static str {
/// #         "failed"
/// #     }
/// # }
/// # let server = fetch_fn(|_, _| async { Ok::<_, Unavailable>(Arc::new(Secret)) });
/// let ttl = StoreTtl::new(DefaultTtl, Duration::from_mins(1));
/// let store = TtlStore::new(server, MonotonicClock::new(), ttl);
/// let pods = PodObjects::new(store, OneSecret);
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// pods.register_pod(&("0b5c", "db-password"));
/// assert!(pods.get_object("shop", "db-password").await.is_ok());
///
/// // The pod changes; then it goes, whatever it looks like by then.
/// pods.register_pod(&("0b5c", "db-login"));
/// assert!(pods.get_object("shop", "db-password").await.unwrap_err().is_not_registered());
/// pods.unregister_pod(&("0b5c", "something-else"));
/// assert!(pods.get_object("shop", "db-login").await.unwrap_err().is_not_registered());
/// # });
/// ```
pub struct PodObjects<S, R> {
    store: S,
    references: R,
    hasher: SeedableRandomState,
    shards: Box<[Mutex<HashTable<Record>>]>,
}

impl<S: Store, R> PodObjects<S, R> {
    /// No pod is registered. `references` finds the objects that a pod refers to.
    pub fn new(store: S, references: R) -> Self {
        Self::with_hash_seed(store, references, HashSeed::default())
    }

    /// As [`new`](Self::new), with hash tables that are seeded with that.
    pub fn with_hash_seed(store: S, references: R, seed: HashSeed) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(HashTable::new())).collect();
        Self { store, references, hasher: seed.state(), shards }
    }

    /// The store behind.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// References the objects that a pod refers to; if it was registered before, only what changed.
    pub fn register_pod<P: ?Sized>(&self, pod: &P)
    where
        R: References<P>,
    {
        let identity = self.references.identity(pod);
        let mut names = Registered::new();
        self.references.visit(pod, |reference| names.push(reference));
        record::normalize(&mut names);

        let new = Record::new(identity, &names);
        let hash = self.hash(identity);
        let mut pods = self.shard(hash).lock();
        let effects = match pods.find_mut(hash, |record| record.is(identity)) {
            Some(record) if *record == new => Effects::none(),
            Some(record) => {
                let before = std::mem::replace(record, new);
                let added = self.add(identity, record::missing(names.iter().copied(), before.references()));
                added.and(self.delete(identity, record::missing(before.references(), names.iter().copied())))
            }
            None => {
                pods.insert_unique(hash, new, |record| self.hash(record.identity()));
                self.add(identity, names.iter().copied())
            }
        };
        drop(pods);
        effects.run();
    }

    /// Drops the references of a pod, as it was last registered.
    pub fn unregister_pod<P: ?Sized>(&self, pod: &P)
    where
        R: References<P>,
    {
        self.unregister(self.references.identity(pod));
    }

    /// Drops the references of a pod of which only the identity is at hand.
    pub fn unregister(&self, pod: PodIdentity<'_>) {
        self.unregister_locked(pod).run();
    }

    /// As [`unregister`](Self::unregister), for a caller that holds a lock of its own: it runs the effects once it holds none.
    pub fn unregister_locked(&self, pod: PodIdentity<'_>) -> Effects<'_> {
        let hash = self.hash(pod);
        let mut pods = self.shard(hash).lock();
        let Ok(found) = pods.find_entry(hash, |record| record.is(pod)) else { return Effects::none() };
        let (record, _) = found.remove();
        self.delete(pod, record.references())
    }

    /// Reads an object that a registered pod refers to.
    ///
    /// # Errors
    ///
    /// [`GetError`]: no registered pod refers to the object, it is known to be absent, or it could not be fetched.
    ///
    /// # Cancel safety
    ///
    /// As [`Store::get`].
    #[inline]
    pub fn get_object(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Read<S::Object>, GetError<S::Error>>> + Send {
        self.store.get(namespace, name)
    }

    /// The number of registered pods that refer to an object, if nobody else references it in the store.
    pub fn references(&self, namespace: &str, name: &str) -> usize {
        self.store.references(namespace, name)
    }

    /// Whether the pod is registered.
    pub fn is_registered(&self, pod: PodIdentity<'_>) -> bool {
        let hash = self.hash(pod);
        self.shard(hash).lock().find(hash, |record| record.is(pod)).is_some()
    }

    /// Calls `visit` with each name that a registered pod refers to, in the order of names; not at all if it is not
    /// registered. A name is optional here if every reference of the pod to it is.
    pub fn for_each_reference(&self, pod: PodIdentity<'_>, visit: impl FnMut(Reference<'_>)) {
        let hash = self.hash(pod);
        let found = self.shard(hash).lock().find(hash, |record| record.is(pod)).cloned();
        if let Some(record) = found {
            record.references().for_each(visit);
        }
    }

    /// Calls `visit` with each registered pod, in no particular order.
    pub fn for_each_pod(&self, mut visit: impl FnMut(PodIdentity<'_>)) {
        for shard in &self.shards {
            let pods: Vec<Record> = shard.lock().iter().cloned().collect();
            for record in &pods {
                visit(record.identity());
            }
        }
    }

    fn add<'r>(&self, pod: PodIdentity<'_>, references: impl Iterator<Item = Reference<'r>>) -> Effects<'_> {
        self.store.add_references(pod.namespace, &record::names(references), pod.uid)
    }

    fn delete<'r>(&self, pod: PodIdentity<'_>, references: impl Iterator<Item = Reference<'r>>) -> Effects<'_> {
        self.store.delete_references(pod.namespace, &record::names(references), pod.uid)
    }

    fn hash(&self, pod: PodIdentity<'_>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hash_parts([pod.namespace, pod.name, pod.uid], &mut hasher);
        hasher.finish()
    }

    fn shard(&self, hash: u64) -> &Mutex<HashTable<Record>> {
        // Below `SHARDS`, which is a small number.
        &self.shards[usize::try_from((hash >> SHARD_SHIFT) % SHARDS).unwrap_or_default()]
    }
}

impl<S, R> fmt::Debug for PodObjects<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodObjects").finish_non_exhaustive()
    }
}
