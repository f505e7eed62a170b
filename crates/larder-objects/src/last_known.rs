//! The last known: what a store reads once stays at hand, and stands in where the source fails ('stale-if-error', as in
//! RFC 5861).
//!
//! A store that watches keeps what it was told by itself. The [direct store](crate::DirectStore) keeps nothing, and the
//! [TTL store](crate::TtlStore) drops an object at a new reference, as the kubelet does; [`LastKnown`] keeps it for them.
//!
//! # Guarantees
//!
//! - **Last known**: an object that was read once is [held](Store::held), stale, until its last reference goes; also after a
//!   new reference. A read whose own fetch fails is answered with it.
//! - **Honest absence**: an absence is last known until a new reference puts it in doubt; nothing is held then.
//! - **Restored**: where there is somebody to tell of it ([`WentBack`]), a source that answers with a lower version than the store
//!   holds is asked once more, consistently, and its word counts: its etcd was restored from a backup.
//! - **Off, it is not there**: without both, reads are answered as by the store alone, and nothing is held.
//!
//! # Limits
//!
//! An object is kept here only while the store itself holds nothing of it, so at most once.
//!
//! # Cancel safety
//!
//! As the store's. What a dropped read would have brought is not kept.
//!
//! # Locks
//!
//! One, before the store's own; not taken by a read of what the store holds.

use crate::sync::Mutex;
use crate::{
    Effects, FetchError, FreshState, Freshness, GetError, Held, ObjectKey, ObjectState, ObjectStatus, Outcome, Read,
    StaleReason, Store,
};
use larder_clock::Clock;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// What is called with the key of an object whose version went back, the object that was held, and the lower one that
/// replaced it.
pub type WentBack<O> = Arc<dyn Fn(&ObjectKey, &O, &O) + Send + Sync>;

/// A store that keeps what another one reads and does not keep, or drops.
///
/// ```
/// use larder_clock::{Timestamp, VirtualClock};
/// use larder_objects::{DirectStore, LastKnown, Outcome, Store, fetch_fn};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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
///
/// static IS_AWAY: AtomicBool = AtomicBool::new(false);
/// let server = fetch_fn(|_, _| async { if IS_AWAY.load(Relaxed) { Err(Unavailable) } else { Ok(Arc::new(Secret)) } });
/// let clock = VirtualClock::new(Timestamp::ZERO);
/// let direct = DirectStore::new(server, clock.clone());
/// let store = LastKnown::new(direct, clock, true, None);
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// store.add_references("shop", &["db"], "0b5c").run();
/// assert!(store.get("shop", "db").await.unwrap().freshness.is_fresh());
/// IS_AWAY.store(true, Relaxed);
/// let read = store.get("shop", "db").await.unwrap();
/// assert!(!read.freshness.is_fresh() && read.outcome == Outcome::FetchFailed);
/// # });
/// ```
pub struct LastKnown<S: Store, C> {
    store: S,
    clock: C,
    /// Whether anything is kept.
    keep: bool,
    went_back: Option<WentBack<S::Object>>,
    /// What the store holds nothing of. Looked up and never walked through.
    kept: Mutex<HashMap<ObjectKey, Held<S::Object>>>,
}

impl<S: Store, C: Clock> LastKnown<S, C> {
    /// Nothing is known yet. `clock` is the store's; `keep` says whether the last known is kept and served, and
    /// `went_back`, if there is one, has lower versions believed.
    pub fn new(store: S, clock: C, keep: bool, went_back: Option<WentBack<S::Object>>) -> Self {
        Self { store, clock, keep, went_back, kept: Mutex::new(HashMap::new()) }
    }

    /// The store behind.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Hands in what was known of an object before this store was there, as [`WatchStore::restore`](crate::WatchStore::restore)
    /// says. Without effect, too, where nothing is kept.
    pub fn restore(&self, namespace: &str, name: &str, before: Read<S::Object>) {
        // Dropped after the lock is released.
        let Read { object, freshness, .. } = before;
        if self.keep && self.held(namespace, name).is_none() {
            drop(self.take_in(ObjectKey::new(namespace, name), Some(&object), freshness));
        }
    }

    /// Has the store drop what it holds of objects, and keeps that: an object, but not an absence.
    fn keep_dropped<'s>(
        &'s self,
        namespace: &str,
        names: &[&str],
        drop_held: impl FnOnce(&'s S) -> Effects<'s>,
    ) -> Effects<'s> {
        let mut displaced = Vec::new();
        // Held meanwhile, so that what a fetch brings just now is either seen here or taken in after.
        let mut kept = self.kept.lock();
        for name in names.iter().filter(|_| self.keep) {
            let key = ObjectKey::new(namespace, name);
            let before = kept.remove(&key);
            let held = self.store.held(namespace, name).or_else(|| before.clone());
            displaced.extend(before);
            if let Some(held) = held.filter(|held| held.object.is_some()) {
                kept.insert(key, held.into_stale(self.clock.now(), StaleReason::Expired));
            }
        }
        let effects = drop_held(&self.store);
        drop(kept);
        effects.and(drop_later(displaced))
    }

    /// Takes in what the source has just said, unless the store holds it. Returns what was kept until now.
    fn take_in(
        &self,
        key: ObjectKey,
        object: Option<&Arc<S::Object>>,
        freshness: Freshness,
    ) -> Option<Held<S::Object>> {
        // Dropped after the lock is released.
        let held;
        let mut kept = self.kept.lock();
        let before = kept.remove(&key);
        let (namespace, name) = (key.namespace(), key.name());
        held = self.store.held(namespace, name);
        if held.is_none() && self.store.references(namespace, name) > 0 {
            // The store would ask again: by itself, this is no fresher than past its TTL.
            kept.insert(
                key,
                Held::new(object.cloned(), freshness).into_stale(freshness.confirmed_at, StaleReason::Expired),
            );
        }
        before
    }

    /// Asks again, consistently, where the source has answered with a lower version than the store holds.
    async fn ask_again(
        &self,
        key: &ObjectKey,
        refused: Read<S::Object>,
        went_back: &WentBack<S::Object>,
    ) -> Result<Read<S::Object>, GetError<S::Error>> {
        self.forget(key.namespace(), key.name()).run();
        let result = self.store.get(key.namespace(), key.name()).await;
        if let Ok(read) = &result
            && version(&read.object) < version(&refused.object)
        {
            went_back(key, &refused.object, &read.object);
        }
        result
    }
}

fn version<O: crate::Object>(object: &Arc<O>) -> u64 {
    crate::order::version(&**object)
}

impl<S: Store, C: Clock> Store for LastKnown<S, C> {
    type Object = S::Object;
    type Error = S::Error;

    fn add_references(&self, namespace: &str, names: &[&str], uid: &str) -> Effects<'_> {
        self.keep_dropped(namespace, names, |store| store.add_references(namespace, names, uid))
    }

    fn delete_references(&self, namespace: &str, names: &[&str], uid: &str) -> Effects<'_> {
        let effects = self.store.delete_references(namespace, names, uid);
        let mut kept = self.kept.lock();
        // Under the lock, as in `take_in`: a read that ends now finds that there are none.
        let released = names.iter().filter(|name| self.store.references(namespace, name) == 0);
        let displaced = released.filter_map(|name| kept.remove(&ObjectKey::new(namespace, name))).collect();
        drop(kept);
        effects.and(drop_later(displaced))
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Read<S::Object>, GetError<S::Error>> {
        let mut result = self.store.get(namespace, name).await;
        if matches!(&result, Ok(read) if read.outcome == Outcome::Held) {
            return result;
        }
        let key = ObjectKey::new(namespace, name);
        if let Some(went_back) = &self.went_back {
            result = match result {
                Ok(read) if is_older(&read) => self.ask_again(&key, read, went_back).await,
                other => other,
            };
        }
        if !self.keep {
            return result;
        }
        match result {
            Ok(read) if read.freshness.is_fresh() => {
                let before = self.take_in(key, Some(&read.object), read.freshness);
                let was_held = before.is_some_and(|held| held.object.is_some());
                let is_first = read.outcome == Outcome::Fetched && !was_held;
                Ok(read.with_outcome(Outcome::of_asking(!is_first)))
            }
            Err(GetError::NotFound { freshness, .. }) if freshness.is_fresh() => {
                drop(self.take_in(key, None, freshness));
                result
            }
            Err(GetError::Fetch { source, .. }) => {
                let kept = self.kept.lock().get(&key).cloned();
                let Some(kept) = kept else { return Err(GetError::Fetch { key, source }) };
                let reason = StaleReason::FetchFailed { class: source.class() };
                kept.into_stale(self.clock.now(), reason).into_answer(&key, Outcome::FetchFailed)
            }
            other => other,
        }
    }

    fn references(&self, namespace: &str, name: &str) -> usize {
        self.store.references(namespace, name)
    }

    fn held(&self, namespace: &str, name: &str) -> Option<Held<S::Object>> {
        if !self.keep {
            return None;
        }
        let held = self.store.held(namespace, name);
        held.or_else(|| self.kept.lock().get(&ObjectKey::new(namespace, name)).cloned())
    }

    fn forget(&self, namespace: &str, name: &str) -> Effects<'_> {
        self.keep_dropped(namespace, &[name], |store| store.forget(namespace, name))
    }

    fn snapshot(&self) -> Vec<ObjectStatus> {
        let mut all = self.store.snapshot();
        let kept = self.kept.lock();
        for status in all.iter_mut().filter(|status| status.state == ObjectState::NotFetched) {
            match kept.get(&status.key) {
                Some(Held { object: Some(_), freshness }) => status.state = ObjectState::Present(*freshness),
                Some(Held { object: None, freshness }) => status.state = ObjectState::Absent(*freshness),
                None => {}
            }
        }
        all
    }
}

fn is_older<O>(read: &Read<O>) -> bool {
    matches!(read.freshness.state, FreshState::Stale { reason: StaleReason::OlderVersion, .. })
}

fn drop_later<'s, T: 's>(displaced: Vec<T>) -> Effects<'s> {
    if displaced.is_empty() { Effects::none() } else { Effects::new(move || drop(displaced)) }
}

impl<S: Store, C> fmt::Debug for LastKnown<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastKnown").field("keep", &self.keep).finish_non_exhaustive()
    }
}
