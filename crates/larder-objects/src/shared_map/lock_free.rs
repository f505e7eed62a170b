//! The map as it is built for use.

use crate::ObjectKey;
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

/// A view of the map: what is found stays for as long as the view does, so hold it for a moment only.
pub(crate) struct View<'m, V> {
    map: HashMapRef<'m, ObjectKey, V, RandomState, LocalGuard<'m>>,
}

impl<V> View<'_, V> {
    /// Reads the value of a key, if it has one. It may be withdrawn meanwhile.
    #[inline]
    pub(crate) fn read<R>(&self, namespace: &str, name: &str, read: impl FnOnce(&V) -> R) -> Option<R> {
        self.map.get(&Wanted { namespace, name }).map(read)
    }

    /// Sets the value of a key.
    pub(crate) fn insert(&self, key: &ObjectKey, value: V) {
        self.map.insert(key.clone(), value);
    }

    /// Withdraws the value of a key.
    pub(crate) fn remove(&self, key: &ObjectKey) {
        self.map.remove(&Wanted { namespace: key.namespace(), name: key.name() });
    }
}

pub(crate) struct SharedMap<V> {
    map: HashMap<ObjectKey, V, RandomState>,
}

impl<V> SharedMap<V> {
    pub(crate) fn new() -> Self {
        // A batch of one: what is withdrawn is freed at once, but for readers that are just looking at it.
        let map = HashMap::builder()
            .hasher(RandomState::default())
            .collector(Collector::new().batch_size(1))
            .resize_mode(ResizeMode::Blocking)
            .build();
        Self { map }
    }

    #[inline]
    pub(crate) fn pin(&self) -> View<'_, V> {
        View { map: self.map.pin() }
    }
}
