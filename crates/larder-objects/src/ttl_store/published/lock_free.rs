//! The map as it is built for use.

use super::{Arc, Confirmed, ObjectKey, Value};
use foldhash::fast::RandomState;
use papaya::{Equivalent, HashMap, HashMapRef, LocalGuard, ResizeMode};
use seize::Collector;
use std::hash::{Hash, Hasher};

/// A namespace and a name that is looked for.
struct Wanted<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl Hash for Wanted<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        crate::key::hash_parts([self.namespace, self.name], state);
    }
}

impl Equivalent<ObjectKey> for Wanted<'_> {
    #[inline]
    fn equivalent(&self, key: &ObjectKey) -> bool {
        key.is(self.namespace, self.name)
    }
}

pub(in crate::ttl_store) struct Published<O> {
    map: HashMap<ObjectKey, Value<O>, RandomState>,
}

pub(in crate::ttl_store) struct View<'m, O> {
    map: HashMapRef<'m, ObjectKey, Value<O>, RandomState, LocalGuard<'m>>,
}

impl<O> View<'_, O> {
    /// What is published of an object.
    #[inline]
    pub(in crate::ttl_store) fn get(&self, namespace: &str, name: &str) -> Option<&Value<O>> {
        self.map.get(&Wanted { namespace, name })
    }
}

impl<O> Published<O> {
    pub(in crate::ttl_store) fn new() -> Self {
        // A batch of one: what is withdrawn is freed at once, but for readers that are just looking at it.
        let map = HashMap::builder()
            .hasher(RandomState::default())
            .collector(Collector::new().batch_size(1))
            .resize_mode(ResizeMode::Blocking)
            .build();
        Self { map }
    }

    /// A view in which what is found stays for as long as the view is held; hold it for a moment only.
    #[inline]
    pub(in crate::ttl_store) fn pin(&self) -> View<'_, O> {
        View { map: self.map.pin() }
    }

    pub(in crate::ttl_store) fn set(&self, key: &ObjectKey, object: Arc<O>, confirmed: Confirmed) -> Option<Arc<O>> {
        let map = self.map.pin();
        map.insert(key.clone(), Value::new(object, confirmed)).map(|value| Arc::clone(&value.object))
    }

    pub(in crate::ttl_store) fn remove(&self, namespace: &str, name: &str) -> Option<Arc<O>> {
        let map = self.map.pin();
        map.remove(&Wanted { namespace, name }).map(|value| Arc::clone(&value.object))
    }
}
