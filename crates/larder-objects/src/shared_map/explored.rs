//! The map for tests that explore interleavings.

use crate::ObjectKey;
use crate::sync::{RwLock, RwLockReadGuard};
use std::collections::HashMap;

pub(crate) struct View<'m, V> {
    map: RwLockReadGuard<'m, HashMap<ObjectKey, V>>,
}

impl<V> View<'_, V> {
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&V> {
        self.map.get(&ObjectKey::new(namespace, name))
    }
}

pub(crate) struct SharedMap<V> {
    map: RwLock<HashMap<ObjectKey, V>>,
}

impl<V: Clone> SharedMap<V> {
    pub(crate) fn new() -> Self {
        Self { map: RwLock::new(HashMap::new()) }
    }

    pub(crate) fn pin(&self) -> View<'_, V> {
        View { map: self.map.read() }
    }

    #[must_use = "to be dropped without a lock"]
    pub(crate) fn insert(&self, key: &ObjectKey, value: V) -> Option<V> {
        self.map.write().insert(key.clone(), value)
    }

    #[must_use = "to be dropped without a lock"]
    pub(crate) fn remove(&self, key: &ObjectKey) -> Option<V> {
        self.map.write().remove(key)
    }
}
