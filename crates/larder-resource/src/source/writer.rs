//! The writing end of a source.

use super::{Change, Fault, Shared, SourceObject, SourceStatus, State, Synced};
use crate::kind::Kind;
use larder_clock::{Clock, Timestamp};
use larder_objects::{FreshState, Freshness, ObjectKey, Source, StaleReason, resource_version_order};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, watch};

/// The one writer of a source. When it is dropped, readers keep what was last known and followers end.
pub struct SourceWriter<T> {
    shared: Arc<Shared<T>>,
    changes: broadcast::Sender<Change<T>>,
    synced: watch::Sender<Synced>,
    clock: Arc<dyn Clock>,
}

impl<T: SourceObject> SourceWriter<T> {
    pub(super) fn new(
        shared: Arc<Shared<T>>,
        changes: broadcast::Sender<Change<T>>,
        synced: watch::Sender<Synced>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { shared, changes, synced, clock }
    }

    /// A complete list has arrived: what is not in it is gone, and the source has synced. `version` is that of the list, empty
    /// for none.
    ///
    /// Versions that are held already are not told to the followers again.
    pub fn replace(&self, all: impl IntoIterator<Item = Arc<T>>, version: &str) {
        let mut state = self.shared.state.write();
        self.put_all(&mut state, all, version);
        let now = self.clock.now();
        state.status.synced = true;
        self.heard(&mut state.status, now);
        // Under the lock, so that nobody who sees it synced finds the map from before.
        self.synced.send_replace(Synced::Yes);
    }

    /// A complete list has arrived that may be old: what is in it is served as stale, and a source that has not synced still
    /// has not. The next [`confirm`](Self::confirm) ends both.
    ///
    /// `class` and `error` say why, as for [`failed`](Self::failed): nobody sees the list without the reason.
    pub fn replace_unconfirmed(
        &self,
        all: impl IntoIterator<Item = Arc<T>>,
        version: &str,
        class: &'static str,
        error: Arc<dyn Error + Send + Sync>,
    ) {
        let mut state = self.shared.state.write();
        self.put_all(&mut state, all, version);
        let now = self.clock.now();
        state.status.last_contact.get_or_insert(now);
        fail(&mut state.status, Fault { at: now, class, error });
        self.synced.send_if_modified(|synced| std::mem::replace(synced, (*synced).max(Synced::Listed)) == Synced::No);
    }

    /// An object is new or has changed.
    pub fn set(&self, object: Arc<T>) {
        let mut state = self.shared.state.write();
        self.changed(&mut state.status);
        state.reached(object.object().resource_version());
        self.put(&mut state, object.object().key(), Arc::clone(&object));
        if let Some(journal) = &state.journal {
            journal.set(object);
        }
    }

    /// An object is gone. `last` is its last state, with the version at which it went. Without effect where it is not held.
    pub fn remove(&self, last: Arc<T>) {
        let key = last.object().key();
        let mut state = self.shared.state.write();
        self.changed(&mut state.status);
        state.reached(last.object().resource_version());
        self.take_out(&mut state, &key);
        if let Some(journal) = &state.journal {
            journal.remove(&key, Some(last));
        }
    }

    /// A bookmark: the source has told all changes up to this version, and what it holds is current.
    pub fn bookmark(&self, version: &str) {
        let mut state = self.shared.state.write();
        state.reached(version);
        if let Some(journal) = &state.journal {
            journal.progress(state.version);
        }
        drop(state);
        self.confirm(Duration::ZERO);
    }

    /// The source has shown, so long ago, that what it holds is current; after a complete list, that the source has synced.
    pub fn confirm(&self, ago: Duration) {
        let now = self.clock.now();
        let mut state = self.shared.state.write();
        let ago = i128::try_from(ago.as_nanos()).unwrap_or(i128::MAX);
        self.heard(&mut state.status, Timestamp::from_nanos(now.as_nanos().saturating_sub(ago)));
        state.status.synced = true;
        self.synced.send_if_modified(|synced| std::mem::replace(synced, Synced::Yes) != Synced::Yes);
    }

    /// A watch is open. What it has yet to bring is not known.
    pub fn watch_begun(&self) {
        self.shared.state.write().status.watches += 1;
    }

    /// The source is being watched from now on, and what it holds is current.
    pub fn watching(&self) {
        let now = self.clock.now();
        let mut state = self.shared.state.write();
        state.status.watches += 1;
        self.heard(&mut state.status, now);
    }

    /// The source cannot be followed, or cannot be trusted; what it holds is stale from now on.
    ///
    /// `class` is a short name for the kind of failure, from a fixed set.
    pub fn failed(&self, class: &'static str, error: Arc<dyn Error + Send + Sync>) {
        let now = self.clock.now();
        fail(&mut self.shared.state.write().status, Fault { at: now, class, error });
    }

    /// What is held was current then.
    fn heard(&self, status: &mut SourceStatus, at: Timestamp) {
        status.last_contact = status.last_contact.max(Some(at));
        status.failures = 0;
        connect(status, self.clock.now());
    }

    /// A change says nothing about what else is held, where that is stale.
    fn changed(&self, status: &mut SourceStatus) {
        if status.connected {
            status.last_contact = Some(self.clock.now());
        }
    }

    fn put_all(&self, state: &mut State<T>, all: impl IntoIterator<Item = Arc<T>>, version: &str) {
        let all: BTreeMap<_, _> = all.into_iter().map(|object| (object.object().key(), object)).collect();
        let gone: Vec<_> = state.objects.keys().filter(|key| !all.contains_key(*key)).cloned().collect();
        for key in gone {
            self.take_out(state, &key);
        }
        for (key, object) in all {
            self.put(state, key, object);
        }
        state.status.lists += 1;
        // A lower one is that of a restored etcd.
        state.version = resource_version_order(version);
        if let Some(journal) = &state.journal {
            journal.replace(state.resources(), state.version);
        }
    }

    fn put(&self, state: &mut State<T>, key: ObjectKey, object: Arc<T>) {
        if let Some(held) = state.objects.get(&key) {
            let (old, new) = (held.object(), object.object());
            if old.uid() != new.uid() || held.runtime_uid() != object.runtime_uid() {
                self.take_out(state, &key);
            } else if !new.resource_version().is_empty() && old.resource_version() == new.resource_version() {
                return;
            }
        }
        if let Some(uid) = object.runtime_uid() {
            let keys = state.by_runtime_uid.entry(uid.into()).or_insert_with(|| Vec::with_capacity(1));
            if !keys.contains(&key) {
                keys.push(key.clone());
            }
        }
        if T::KIND == Kind::Node {
            self.shared.ttl.set_annotation(object.ttl_annotation());
        }
        let old = state.objects.insert(key, Arc::clone(&object));
        state.status.changes += 1;
        // An error means that nobody follows.
        let _ = self.changes.send(Change::Set { new: object, old });
    }

    fn take_out(&self, state: &mut State<T>, key: &ObjectKey) {
        let Some(old) = state.objects.remove(key) else { return };
        state.status.changes += 1;
        if let Some(uid) = old.runtime_uid()
            && let Some(keys) = state.by_runtime_uid.get_mut(uid)
        {
            keys.retain(|held| held != key);
            if keys.is_empty() {
                state.by_runtime_uid.remove(uid);
            }
        }
        if T::KIND == Kind::Node {
            self.shared.ttl.set_annotation(None);
        }
        let _ = self.changes.send(Change::Removed(old));
    }
}

impl<T> State<T> {
    fn reached(&mut self, version: &str) {
        self.version = self.version.max(resource_version_order(version));
    }
}

impl<T: SourceObject> fmt::Debug for SourceWriter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceWriter").field("kind", &T::KIND).finish_non_exhaustive()
    }
}

impl<T> Drop for SourceWriter<T> {
    fn drop(&mut self) {
        // Nobody follows the source any more: what is held ages from here on.
        let now = self.clock.now();
        disconnect(&mut self.shared.state.write().status, now);
    }
}

fn fail(status: &mut SourceStatus, fault: Fault) {
    status.failures = status.failures.saturating_add(1);
    disconnect(status, fault.at);
    status.last_fault = Some(fault);
}

fn connect(status: &mut SourceStatus, now: Timestamp) {
    if !status.connected {
        status.connected = true;
        status.since = now;
    }
}

fn disconnect(status: &mut SourceStatus, now: Timestamp) {
    if status.connected {
        status.connected = false;
        status.since = now;
    }
}

/// How fresh what a source of this status holds is.
pub(super) fn freshness(status: &SourceStatus, source: Source) -> Option<Freshness> {
    let confirmed_at = status.last_contact?;
    let state = if status.connected {
        FreshState::Fresh
    } else {
        let class = status.last_fault.as_ref().map_or("stopped", |fault| fault.class);
        FreshState::Stale { since: status.since, reason: StaleReason::FetchFailed { class } }
    };
    Some(Freshness::new(confirmed_at, source, state))
}
