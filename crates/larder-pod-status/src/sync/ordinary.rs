//! The ordinary lock and map.

use crate::PodUid;
use foldhash::fast::RandomState;
pub(crate) use parking_lot::Mutex;

/// Values by pod, read without waiting whatever a writer does.
pub(crate) struct StatusMap<V>(papaya::HashMap<PodUid, V, RandomState>);

impl<V> StatusMap<V> {
    pub(crate) fn new() -> Self {
        // Those who write have a lock of their own, so nobody waits for a resize. One that was spread over later writes
        // would have readers look into two tables until these come.
        let resize_mode = papaya::ResizeMode::Blocking;
        let map = papaya::HashMap::builder().hasher(RandomState::default()).resize_mode(resize_mode);
        Self(map.build())
    }

    /// Pins the map: what the calls on it replace or remove is dropped at the earliest when the pin is.
    #[inline]
    pub(crate) fn pin(&self) -> Pin<'_, V> {
        Pin(self.0.pin())
    }
}

pub(crate) struct Pin<'m, V>(papaya::HashMapRef<'m, PodUid, V, RandomState, papaya::LocalGuard<'m>>);

impl<V> Pin<'_, V> {
    #[inline]
    pub(crate) fn read<T>(&self, uid: &PodUid, read: impl FnOnce(Option<&V>) -> T) -> T {
        read(self.0.get(uid))
    }

    pub(crate) fn insert(&self, uid: PodUid, value: V) {
        self.0.insert(uid, value);
    }

    pub(crate) fn remove(&self, uid: &PodUid) {
        self.0.remove(uid);
    }

    pub(crate) fn uids(&self) -> Vec<PodUid> {
        self.0.keys().cloned().collect()
    }
}
