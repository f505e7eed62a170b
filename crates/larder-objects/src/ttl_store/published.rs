//! The objects that reads find without a lock.
//!
//! A lock-free map beside the registry, which decides what stands in it. In a test that explores interleavings it is a
//! table under a lock, which shuttle sees.

use super::known::Confirmed;
use crate::{ObjectKey, Source};
use larder_clock::Timestamp;
use std::sync::Arc;

pub(super) use map::{Published, View};

/// What is published of an object.
pub(super) struct Value<O> {
    pub(super) object: Arc<O>,
    // The two parts of a `Confirmed`, which would be padded to twice their size.
    at: Timestamp,
    source: Source,
}

impl<O> Value<O> {
    fn new(object: Arc<O>, confirmed: Confirmed) -> Self {
        Self { object, at: confirmed.at, source: confirmed.source }
    }

    #[inline]
    pub(super) fn confirmed(&self) -> Confirmed {
        Confirmed { at: self.at, source: self.source }
    }
}

#[cfg(not(shuttle))]
mod map {
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

        pub(in crate::ttl_store) fn set(
            &self,
            key: &ObjectKey,
            object: Arc<O>,
            confirmed: Confirmed,
        ) -> Option<Arc<O>> {
            let map = self.map.pin();
            map.insert(key.clone(), Value::new(object, confirmed)).map(|value| Arc::clone(&value.object))
        }

        pub(in crate::ttl_store) fn remove(&self, namespace: &str, name: &str) -> Option<Arc<O>> {
            let map = self.map.pin();
            map.remove(&Wanted { namespace, name }).map(|value| Arc::clone(&value.object))
        }
    }
}

#[cfg(shuttle)]
mod map {
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

        pub(in crate::ttl_store) fn set(
            &self,
            key: &ObjectKey,
            object: Arc<O>,
            confirmed: Confirmed,
        ) -> Option<Arc<O>> {
            let old = self.map.write().insert(key.clone(), Value::new(object, confirmed));
            old.map(|value| value.object)
        }

        pub(in crate::ttl_store) fn remove(&self, namespace: &str, name: &str) -> Option<Arc<O>> {
            self.map.write().remove(&ObjectKey::new(namespace, name)).map(|value| value.object)
        }
    }
}
