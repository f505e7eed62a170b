//! What stands behind the simulated API server: objects under one revision counter, a history of changes, and a watch
//! cache that can be made to lag.
//!
//! # Guarantees
//!
//! - Revisions are one counter for all kinds, as etcd's, and only [`restore`](ObjectStore::restore) moves it back.
//! - A change is in the history, and so in every watch, as soon as the call that made it has returned.
//!
//! # Limits
//!
//! The history is bounded ([`HISTORY`] changes); what falls out of it is compacted, as by
//! [`compact`](ObjectStore::compact). Finalizers, owner references and graceful deletion are not acted upon: a pod that
//! is to be seen terminating gets its `deletionTimestamp` with [`modify`](ObjectStore::modify).
//!
//! # Locks
//!
//! One mutex around all of it, held for no longer than a call and never over an `.await`.
//!
//! # Example
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use larder_testkit::api_server::{Kind, ObjectStore};
//! use larder_testkit::objects::config_map;
//!
//! let store = ObjectStore::new();
//! let made = store.create(config_map("shop", "settings", &[("colour", "green")]))?;
//! assert_eq!(made.metadata.resource_version.as_deref(), Some("2"));
//! store.modify("shop", "settings", |settings: &mut ConfigMap| {
//!     settings.data.get_or_insert_default().insert("colour".into(), "red".into());
//! })?;
//! assert_eq!(store.get::<ConfigMap>("shop", "settings")?.data.unwrap_or_default()["colour"], "red");
//! store.delete(Kind::ConfigMap, "shop", "settings")?;
//! # Ok::<(), larder_testkit::api_server::StoreError>(())
//! ```

mod state;
mod watchers;

pub(crate) use state::{Change, Listed};
pub(crate) use watchers::Changes;

use super::object::{ApiObject, Key, Kind, Record};
use super::selector::Filter;
use larder_clock::{Clock, TokioClock};
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Map, Value};
use state::{Cache, SNAPSHOTS, Snapshot, State, Write, select};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use watchers::Watchers;

/// How many changes the history holds before the oldest are compacted away.
pub const HISTORY: usize = 20_000;

/// Why a change to the simulated store was refused. The messages are an API server's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// An object of that name exists.
    #[error("{} {name:?} already exists", kind.plural())]
    AlreadyExists {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
    },
    /// No object of that name exists.
    #[error("{} {name:?} not found", kind.plural())]
    NotFound {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
    },
    /// The object was changed since the version that the caller had.
    #[error("operation cannot be fulfilled on {} {name:?}: the object has been modified", kind.plural())]
    Conflict {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
    },
    /// The data of an immutable Secret or `ConfigMap` would have changed.
    #[error("{kind} {name:?} is invalid: data: field is immutable when `immutable` is set")]
    Immutable {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
    },
    /// The object has no name, no namespace, or a namespace where there is none.
    #[error("{kind} is invalid: {why}")]
    Invalid {
        /// Its kind.
        kind: Kind,
        /// What is missing.
        why: &'static str,
    },
    /// The stored JSON is not an object of the type that was asked for.
    #[error("{kind} {name:?} does not read as one: {source}")]
    Unreadable {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// What the reader says.
        source: serde_json::Error,
    },
}

impl StoreError {
    /// Whether the object was not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

/// How far the watch cache, which serves reads with `resourceVersion=0` and lists not older than a version, is behind the
/// store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheLag {
    /// It is up to date.
    #[default]
    None,
    /// It stays as it is, whatever changes.
    Frozen,
    /// It sees a change only that long after it was made.
    By(Duration),
}

/// The state of the store at one moment, for [`ObjectStore::restore`].
#[derive(Clone)]
pub struct Backup {
    revision: u64,
    objects: BTreeMap<(Kind, Key), Arc<Record>>,
}

impl Backup {
    /// The revision that the store had.
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

/// The store behind a simulated API server; clones share it.
///
/// All kinds are under one revision counter, as in etcd; only [`restore`](Self::restore) moves it back. A change is in every
/// watch as soon as the call that made it has returned. The history that watches resume from is bounded ([`HISTORY`]).
///
/// Finalizers, owner references and graceful deletion are not acted upon: a pod that is to be seen terminating gets its
/// `deletionTimestamp` with [`modify`](Self::modify).
#[derive(Clone)]
pub struct ObjectStore {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    /// Told of changes, so that a watch knows that there is something to look at.
    watchers: Watchers,
    clock: TokioClock,
}

/// Why the history cannot be read on from a revision.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HistoryError {
    /// It was compacted; the oldest revision that can be begun after.
    Compacted(u64),
    /// The store was restored from a backup.
    Restored,
}

impl Default for ObjectStore {
    fn default() -> Self {
        Self::new()
    }
}

// Objects are handed over, as to a server; tests read better without a borrow of what they have just made.
#[expect(clippy::needless_pass_by_value)]
impl ObjectStore {
    /// An empty store at revision 1.
    pub fn new() -> Self {
        Self::with_seed(0)
    }

    /// The same, with UIDs drawn from a seed.
    pub fn with_seed(seed: u64) -> Self {
        let state = State {
            revision: 1,
            compacted: 0,
            epoch: 0,
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            cache: Cache { lag: CacheLag::None, revision: 1, objects: BTreeMap::new(), pending: VecDeque::new() },
            snapshots: VecDeque::new(),
            rng: StdRng::seed_from_u64(seed),
        };
        let (state, watchers) = (Mutex::new(state), Watchers::new());
        Self { inner: Arc::new(Inner { state, watchers, clock: TokioClock::new() }) }
    }

    /// Creates an object: UID, creation time and resourceVersion are set, a UID only where the object has none.
    ///
    /// # Errors
    ///
    /// It exists already, or lacks a name or namespace.
    pub fn create<T: ApiObject>(&self, object: T) -> Result<T, StoreError> {
        let json = to_json(&object)?;
        let record = self.write(T::OBJECT_KIND, json, Write::Create)?;
        parse(&record)
    }

    /// Creates an object from JSON, for fields that the typed objects do not know and for broken ones.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    ///
    /// ```
    /// use larder_testkit::api_server::{Kind, ObjectStore};
    /// let store = ObjectStore::new();
    /// store.create_json(Kind::Pod, serde_json::json!({
    ///     "metadata": {"namespace": "shop", "name": "web-0"}, "spec": {"fieldOfTheFuture": true},
    /// }))?;
    /// assert_eq!(store.revision(), 2);
    /// # Ok::<(), larder_testkit::api_server::StoreError>(())
    /// ```
    pub fn create_json(&self, kind: Kind, json: Value) -> Result<(), StoreError> {
        let Value::Object(json) = json else {
            return Err(StoreError::Invalid { kind, why: "not a JSON object" });
        };
        self.write(kind, json, Write::Create).map(drop)
    }

    /// Replaces an object. If it carries a resourceVersion, that must be the stored one's.
    ///
    /// # Errors
    ///
    /// It does not exist, has been modified meanwhile, or is immutable and its data would change.
    pub fn update<T: ApiObject>(&self, object: T) -> Result<T, StoreError> {
        let json = to_json(&object)?;
        let record = self.write(T::OBJECT_KIND, json, Write::Update)?;
        parse(&record)
    }

    /// Creates the object, or replaces the one that there is, whatever its resourceVersion.
    ///
    /// # Errors
    ///
    /// It is immutable and its data would change, or it lacks a name or namespace.
    pub fn apply<T: ApiObject>(&self, mut object: T) -> Result<T, StoreError> {
        object.metadata_mut().resource_version = None;
        let json = to_json(&object)?;
        let record = self.write(T::OBJECT_KIND, json, Write::Apply)?;
        parse(&record)
    }

    /// Reads an object, changes it, and writes it back as one step. `change` must not use the store: it is locked.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
    pub fn modify<T: ApiObject>(
        &self,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut T),
    ) -> Result<T, StoreError> {
        let mut state = self.inner.state.lock();
        let mut object: T = parse(state.record(T::OBJECT_KIND, namespace, name)?)?;
        change(&mut object);
        let record =
            state.write(T::OBJECT_KIND, to_json(&object)?, Write::Update, self.inner.clock.now().as_nanos())?;
        drop(state);
        self.announce(&record);
        parse(&record)
    }

    /// Deletes an object at once.
    ///
    /// # Errors
    ///
    /// It does not exist.
    pub fn delete(&self, kind: Kind, namespace: &str, name: &str) -> Result<(), StoreError> {
        let mut state = self.inner.state.lock();
        let before = Arc::clone(state.record(kind, namespace, name)?);
        let key = before.key.clone();
        state.objects.remove(&(kind, key.clone()));
        state.record_change(kind, key.clone(), Some(before), None);
        let revision = state.revision;
        drop(state);
        self.inner.watchers.changed(kind, &key, revision);
        Ok(())
    }

    /// An object as it is now.
    ///
    /// # Errors
    ///
    /// It does not exist, or does not read as a `T`.
    pub fn get<T: ApiObject>(&self, namespace: &str, name: &str) -> Result<T, StoreError> {
        let record = Arc::clone(self.inner.state.lock().record(T::OBJECT_KIND, namespace, name)?);
        parse(&record)
    }

    /// All objects of a kind, ordered by namespace and name; of all namespaces if `namespace` is empty. Those that do not
    /// read as a `T` are left out.
    pub fn list<T: ApiObject>(&self, namespace: &str) -> Vec<T> {
        let filter = Filter::namespace(namespace);
        let listed = self.list_records(T::OBJECT_KIND, &filter);
        listed.records.iter().filter_map(|record| record.parse().ok()).collect()
    }

    /// The revision of the last change.
    pub fn revision(&self) -> u64 {
        self.inner.state.lock().revision
    }

    /// Moves the revision forward without a change, as the writes of other kinds do in a real cluster.
    pub fn skip_revisions(&self, by: u64) {
        let mut state = self.inner.state.lock();
        state.revision = state.revision.saturating_add(by);
        drop(state);
        self.inner.watchers.all_changed();
    }

    /// Forgets the history: a watch that resumes from before now is told 410 Gone, and so is one that has not yet sent all
    /// of it. Lists that are being read in pages expire.
    pub fn compact(&self) {
        let mut state = self.inner.state.lock();
        state.history.clear();
        state.snapshots.clear();
        state.compacted = state.revision;
        drop(state);
        self.inner.watchers.all_changed();
    }

    /// Sets how far the watch cache is behind. A list that is not to be older than what it has is refused at once (504).
    /// Watches are not affected: think of an API server beside this
    /// one.
    pub fn set_cache_lag(&self, lag: CacheLag) {
        let mut state = self.inner.state.lock();
        // What it has seen until now, it has seen.
        state.catch_up();
        state.cache.lag = lag;
    }

    /// The state as it is, to be restored later.
    pub fn backup(&self) -> Backup {
        let state = self.inner.state.lock();
        Backup { revision: state.revision, objects: state.objects.clone() }
    }

    /// Puts a backup in place, as when etcd is restored: revisions go back to the backup's, the history is gone, and open
    /// watches end without a word.
    pub fn restore(&self, backup: &Backup) {
        let mut state = self.inner.state.lock();
        state.revision = backup.revision;
        state.compacted = backup.revision;
        state.epoch += 1;
        state.objects = backup.objects.clone();
        state.history.clear();
        state.snapshots.clear();
        state.cache.pending.clear();
        state.cache.revision = backup.revision;
        state.cache.objects = backup.objects.clone();
        drop(state);
        self.inner.watchers.all_changed();
    }

    /// Resolves at the next change, restore or compaction after it was subscribed; for one object, at its next change.
    pub(crate) fn subscribe(&self, only: Option<(Kind, Key)>) -> Changes {
        self.inner.watchers.subscribe(only, self.revision())
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.inner.state.lock().epoch
    }

    /// The record as it is now, or as the watch cache has it; with the revision that the answer is true for.
    pub(crate) fn record(&self, kind: Kind, key: &Key, from_cache: bool) -> (u64, Option<Arc<Record>>) {
        let mut state = self.inner.state.lock();
        let id = (kind, key.clone());
        if from_cache {
            state.catch_up();
            (state.cache.revision, state.cache.objects.get(&id).cloned())
        } else {
            (state.revision, state.objects.get(&id).cloned())
        }
    }

    pub(crate) fn list_records(&self, kind: Kind, filter: &Filter) -> Listed {
        let state = self.inner.state.lock();
        Listed { revision: state.revision, records: select(&state.objects, kind, filter) }
    }

    pub(crate) fn list_cached(&self, kind: Kind, filter: &Filter) -> Listed {
        let mut state = self.inner.state.lock();
        state.catch_up();
        Listed { revision: state.cache.revision, records: select(&state.cache.objects, kind, filter) }
    }

    /// Whether any record of a kind in a namespace is such.
    pub(crate) fn any_record(&self, kind: Kind, namespace: &str, is_such: impl FnMut(&Arc<Record>) -> bool) -> bool {
        let state = self.inner.state.lock();
        let first = (kind, Key::new(namespace, ""));
        let here = state.objects.range(first..).take_while(|((k, key), _)| *k == kind && key.namespace == namespace);
        here.map(|(_, record)| record).any(is_such)
    }

    /// Remembers the state of a kind, so that the pages of a list are of one revision.
    pub(crate) fn take_snapshot(&self, kind: Kind) -> u64 {
        let mut state = self.inner.state.lock();
        let revision = state.revision;
        if !state.snapshots.iter().any(|s| s.revision == revision && s.kind == kind) {
            let records = Arc::new(select(&state.objects, kind, &Filter::default()));
            if state.snapshots.len() == SNAPSHOTS {
                state.snapshots.pop_front();
            }
            state.snapshots.push_back(Snapshot { revision, kind, records });
        }
        revision
    }

    /// All records of a kind at the revision of a snapshot; `None` once it has expired.
    pub(crate) fn snapshot(&self, kind: Kind, revision: u64) -> Option<Arc<Vec<Arc<Record>>>> {
        let state = self.inner.state.lock();
        let snapshot = state.snapshots.iter().find(|s| s.revision == revision && s.kind == kind)?;
        Some(Arc::clone(&snapshot.records))
    }

    /// The changes of a kind after a revision, and the revision up to which these are all.
    pub(crate) fn changes_after(
        &self,
        kind: Kind,
        revision: u64,
        epoch: u64,
    ) -> Result<(u64, Vec<Arc<Change>>), HistoryError> {
        let state = self.inner.state.lock();
        if state.epoch != epoch {
            return Err(HistoryError::Restored);
        }
        if revision < state.compacted {
            return Err(HistoryError::Compacted(state.compacted));
        }
        let first = state.history.partition_point(|change| change.revision <= revision);
        let changes = state.history.range(first..).filter(|change| change.kind == kind).cloned().collect();
        Ok((state.revision.max(revision), changes))
    }

    fn write(&self, kind: Kind, json: Map<String, Value>, write: Write) -> Result<Arc<Record>, StoreError> {
        let now = self.inner.clock.now().as_nanos();
        let written = self.inner.state.lock().write(kind, json, write, now)?;
        self.announce(&written);
        Ok(written)
    }

    fn announce(&self, written: &Record) {
        self.inner.watchers.changed(written.kind, &written.key, written.revision);
    }
}

fn to_json<T: ApiObject>(object: &T) -> Result<Map<String, Value>, StoreError> {
    let name = || object.metadata().name.clone().unwrap_or_default();
    let unreadable = |source| StoreError::Unreadable { kind: T::OBJECT_KIND, name: name(), source };
    match serde_json::to_value(object).map_err(unreadable)? {
        Value::Object(json) => Ok(json),
        _ => Err(StoreError::Invalid { kind: T::OBJECT_KIND, why: "not a JSON object" }),
    }
}

fn parse<T: ApiObject>(record: &Record) -> Result<T, StoreError> {
    let unreadable = |source| StoreError::Unreadable { kind: T::OBJECT_KIND, name: record.key.name.clone(), source };
    record.parse().map_err(unreadable)
}

#[cfg(test)]
mod tests;
