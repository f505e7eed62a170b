//! The objects that reads find without a lock.
//!
//! A lock-free map beside the registry, which decides what stands in it. In a test that explores interleavings it is a
//! table under a lock, which shuttle sees.

use super::known::Confirmed;
use crate::{ObjectKey, Source};
use larder_clock::Timestamp;
use std::sync::Arc;

pub(super) use map::Published;

/// What is published of an object.
struct Value<O> {
    object: Arc<O>,
    // The two parts of a `Confirmed`, which would be padded to twice their size.
    at: Timestamp,
    source: Source,
}

impl<O> Value<O> {
    fn new(object: Arc<O>, confirmed: Confirmed) -> Self {
        Self { object, at: confirmed.at, source: confirmed.source }
    }

    #[cfg(not(shuttle))]
    fn object(&self) -> Arc<O> {
        Arc::clone(&self.object)
    }

    fn read(&self) -> (Arc<O>, Confirmed) {
        (Arc::clone(&self.object), Confirmed { at: self.at, source: self.source })
    }
}

#[cfg(not(shuttle))]
mod map {
    use super::{Arc, Confirmed, ObjectKey, Value};
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

    pub(in crate::ttl_store) struct Published<O> {
        map: HashMap<ObjectKey, Value<O>, RandomState>,
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

        #[inline]
        pub(in crate::ttl_store) fn get(&self, namespace: &str, name: &str) -> Option<(Arc<O>, Confirmed)> {
            let map = self.map.pin();
            map.get(&Wanted { namespace, name }).map(Value::read)
        }

        pub(in crate::ttl_store) fn set(
            &self,
            key: &ObjectKey,
            object: Arc<O>,
            confirmed: Confirmed,
        ) -> Option<Arc<O>> {
            let map = self.map.pin();
            map.insert(key.clone(), Value::new(object, confirmed)).map(Value::object)
        }

        pub(in crate::ttl_store) fn remove(&self, namespace: &str, name: &str) -> Option<Arc<O>> {
            let map = self.map.pin();
            map.remove(&Wanted { namespace, name }).map(Value::object)
        }
    }
}

#[cfg(shuttle)]
mod map {
    use super::{Arc, Confirmed, ObjectKey, Value};
    use crate::sync::RwLock;
    use std::collections::HashMap;

    pub(in crate::ttl_store) struct Published<O> {
        map: RwLock<HashMap<ObjectKey, Value<O>>>,
    }

    impl<O> Published<O> {
        pub(in crate::ttl_store) fn new() -> Self {
            Self { map: RwLock::new(HashMap::new()) }
        }

        pub(in crate::ttl_store) fn get(&self, namespace: &str, name: &str) -> Option<(Arc<O>, Confirmed)> {
            self.map.read().get(&ObjectKey::new(namespace, name)).map(Value::read)
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
