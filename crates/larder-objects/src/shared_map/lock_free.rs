//! The map as it is built for use.

use crate::ObjectKey;
use foldhash::fast::RandomState;
use papaya::{Equivalent, HashMap, ResizeMode};
use seize::Collector;
use std::hash::{Hash, Hasher};

/// A namespace and a name that is looked for.
struct Wanted<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl Hash for Wanted<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        crate::key::hash_parts([self.namespace, self.name], state);
    }
}

impl Equivalent<ObjectKey> for Wanted<'_> {
    fn equivalent(&self, key: &ObjectKey) -> bool {
        key.is(self.namespace, self.name)
    }
}

pub(crate) struct SharedMap<V> {
    map: HashMap<ObjectKey, V, RandomState>,
}

impl<V: Clone> SharedMap<V> {
    pub(crate) fn new() -> Self {
        // A batch of one: what is withdrawn is freed at once, but for readers that are just looking at it.
        let map = HashMap::builder()
            .hasher(RandomState::default())
            .collector(Collector::new().batch_size(1))
            .resize_mode(ResizeMode::Blocking)
            .build();
        Self { map }
    }

    /// Reads the value of a key, if it has one. What `read` is shown may be withdrawn at any time, but stays until it
    /// returns.
    #[inline]
    pub(crate) fn read<T>(&self, namespace: &str, name: &str, read: impl FnOnce(&V) -> T) -> Option<T> {
        self.map.pin().get(&Wanted { namespace, name }).map(read)
    }

    /// Sets the value of a key; returns a copy of the one before, so that its parts are not dropped in here.
    #[must_use = "to be dropped without a lock"]
    pub(crate) fn insert(&self, key: &ObjectKey, value: V) -> Option<V> {
        self.map.pin().insert(key.clone(), value).cloned()
    }

    /// Withdraws the value of a key; returns a copy, as [`insert`](Self::insert) does.
    #[must_use = "to be dropped without a lock"]
    pub(crate) fn remove(&self, key: &ObjectKey) -> Option<V> {
        let wanted = Wanted { namespace: key.namespace(), name: key.name() };
        self.map.pin().remove(&wanted).cloned()
    }
}
