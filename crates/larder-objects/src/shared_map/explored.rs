//! The map for tests that explore interleavings.

use crate::ObjectKey;
use crate::sync::RwLock;
use std::collections::HashMap;

pub(crate) struct View<'m, V> {
    map: &'m RwLock<HashMap<ObjectKey, V>>,
}

impl<V> View<'_, V> {
    pub(crate) fn read<R>(&self, namespace: &str, name: &str, read: impl FnOnce(&V) -> R) -> Option<R> {
        self.map.read().get(&ObjectKey::new(namespace, name)).map(read)
    }

    pub(crate) fn insert(&self, key: &ObjectKey, value: V) {
        let replaced = self.map.write().insert(key.clone(), value);
        drop(replaced);
    }

    pub(crate) fn remove(&self, key: &ObjectKey) {
        let removed = self.map.write().remove(key);
        drop(removed);
    }
}

pub(crate) struct SharedMap<V> {
    map: RwLock<HashMap<ObjectKey, V>>,
}

impl<V> SharedMap<V> {
    pub(crate) fn new() -> Self {
        Self { map: RwLock::new(HashMap::new()) }
    }

    pub(crate) fn pin(&self) -> View<'_, V> {
        View { map: &self.map }
    }
}
