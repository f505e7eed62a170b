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

/// A view of the map.
pub(crate) struct View<'m, V> {
    map: HashMapRef<'m, ObjectKey, V, RandomState, LocalGuard<'m>>,
}

impl<V> View<'_, V> {
    /// The value of a key, if it has one. It may be withdrawn at any time, but stays for as long as the view does.
    #[inline]
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&V> {
        self.map.get(&Wanted { namespace, name })
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

    /// A view in which what is found stays for as long as the view is held; hold it for a moment only.
    #[inline]
    pub(crate) fn pin(&self) -> View<'_, V> {
        View { map: self.map.pin() }
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
