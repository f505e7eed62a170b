//! A map from objects to values, read without a lock.
//!
//! Values are reached through a [`View`]. What is replaced or removed is dropped with the last view that may see it, which is
//! foreign code: a view ends where no lock is held.
//!
//! In a test that explores interleavings it is a table under a lock, which shuttle sees.

use crate::ObjectKey;

#[cfg(shuttle)]
mod explored;
#[cfg(not(shuttle))]
mod lock_free;

#[cfg(shuttle)]
pub(crate) use explored::{SharedMap, View};
#[cfg(not(shuttle))]
pub(crate) use lock_free::{SharedMap, View};

/// Changes of a map, in a view that begins with the first of them. The values that they displace are dropped with it.
pub(crate) struct Changes<'m, V> {
    map: &'m SharedMap<V>,
    view: Option<View<'m, V>>,
}

impl<'m, V> Changes<'m, V> {
    pub(crate) const fn new(map: &'m SharedMap<V>) -> Self {
        Self { map, view: None }
    }

    pub(crate) fn insert(&mut self, key: &ObjectKey, value: V) {
        self.view().insert(key, value);
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        self.view().remove(key);
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.view.is_none()
    }

    fn view(&mut self) -> &View<'m, V> {
        self.view.get_or_insert_with(|| self.map.pin())
    }
}
