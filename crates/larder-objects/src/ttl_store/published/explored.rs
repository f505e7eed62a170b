//! The map for tests that explore interleavings: under a lock that shuttle sees.

use super::{Arc, Confirmed, ObjectKey, Value};
use crate::sync::{RwLock, RwLockReadGuard};
use std::collections::HashMap;

pub(in crate::ttl_store) struct Published<O> {
    map: RwLock<HashMap<ObjectKey, Value<O>>>,
}

pub(in crate::ttl_store) struct View<'m, O> {
    map: RwLockReadGuard<'m, HashMap<ObjectKey, Value<O>>>,
}

impl<O> View<'_, O> {
    pub(in crate::ttl_store) fn get(&self, namespace: &str, name: &str) -> Option<&Value<O>> {
        self.map.get(&ObjectKey::new(namespace, name))
    }
}

impl<O> Published<O> {
    pub(in crate::ttl_store) fn new() -> Self {
        Self { map: RwLock::new(HashMap::new()) }
    }

    pub(in crate::ttl_store) fn pin(&self) -> View<'_, O> {
        View { map: self.map.read() }
    }

    pub(in crate::ttl_store) fn set(&self, key: &ObjectKey, object: Arc<O>, confirmed: Confirmed) -> Option<Arc<O>> {
        let old = self.map.write().insert(key.clone(), Value::new(object, confirmed));
        old.map(|value| value.object)
    }

    pub(in crate::ttl_store) fn remove(&self, namespace: &str, name: &str) -> Option<Arc<O>> {
        self.map.write().remove(&ObjectKey::new(namespace, name)).map(|value| value.object)
    }
}
