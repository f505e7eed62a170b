//! What stands in for them where shuttle decides what runs when.

use crate::PodUid;
use shuttle::sync;
use std::collections::HashMap;
use std::sync::PoisonError;

pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A map under a lock: each call is one step that the scheduler can put before or after any other.
pub(crate) struct StatusMap<V>(Mutex<HashMap<PodUid, V, foldhash::fast::FixedState>>);

impl<V> StatusMap<V> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(HashMap::default()))
    }

    pub(crate) fn pin(&self) -> Pin<'_, V> {
        Pin(self)
    }
}

pub(crate) struct Pin<'m, V>(&'m StatusMap<V>);

/// Nothing to do, but as with the ordinary one it matters when that is.
impl<V> Drop for Pin<'_, V> {
    fn drop(&mut self) {}
}

impl<V> Pin<'_, V> {
    pub(crate) fn read<T>(&self, uid: &PodUid, read: impl FnOnce(Option<&V>) -> T) -> T {
        read(self.0.0.lock().get(uid))
    }

    pub(crate) fn insert(&self, uid: PodUid, value: V) {
        self.0.0.lock().insert(uid, value);
    }

    pub(crate) fn remove(&self, uid: &PodUid) {
        self.0.0.lock().remove(uid);
    }

    pub(crate) fn uids(&self) -> Vec<PodUid> {
        self.0.0.lock().keys().cloned().collect()
    }
}
