//! The map for tests that explore interleavings.

use crate::ObjectKey;
use crate::sync::RwLock;
use std::collections::HashMap;

pub(crate) struct SharedMap<V> {
    map: RwLock<HashMap<ObjectKey, V>>,
}

impl<V: Clone> SharedMap<V> {
    pub(crate) fn new() -> Self {
        Self { map: RwLock::new(HashMap::new()) }
    }

    pub(crate) fn read<T>(&self, namespace: &str, name: &str, read: impl FnOnce(&V) -> T) -> Option<T> {
        self.map.read().get(&ObjectKey::new(namespace, name)).map(read)
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
