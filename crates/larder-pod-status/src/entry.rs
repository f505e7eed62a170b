//! A pod as the cache holds it, and the result of a read: the entry of the pod, and its times.

use crate::PodUid;
use larder_clock::Timestamp;
use std::fmt;
use std::sync::Arc;

/// What the cache holds for a pod: a status, an error of the inspection, both, or neither.
///
/// A pod that the cache does not have gives the *empty* entry, not an error: the container runtime knows nothing of that
/// pod. That is another thing than an entry that was set without a status.
///
/// ```
/// use larder_clock::Timestamp;
/// use larder_pod_status::{Options, PodUid, pod_status_cache};
///
/// let (writer, reader) = pod_status_cache::<&str, &str>(Options::default());
/// let uid = PodUid::from("a");
/// assert!(reader.get(&uid).is_empty());
///
/// writer.set(&uid, None, Some("no answer".into()), Timestamp::ZERO);
/// let entry = reader.get(&uid);
/// assert!(!entry.is_empty());
/// assert_eq!(entry.status(), None);
/// assert_eq!(entry.error().map(|error| **error), Some("no answer"));
/// ```
pub struct Entry<S, E> {
    uid: PodUid,
    set: Option<Set<S, E>>,
}

/// A pod as the cache holds it.
pub(crate) struct Record<S, E> {
    pub(crate) set: Set<S, E>,
    pub(crate) modified: Timestamp,
    pub(crate) observed: Timestamp,
}

/// What was set for a pod.
pub(crate) struct Set<S, E> {
    pub(crate) status: Option<Arc<S>>,
    pub(crate) error: Option<Arc<E>>,
}

impl<S, E> Clone for Set<S, E> {
    #[inline]
    fn clone(&self) -> Self {
        Self { status: self.status.clone(), error: self.error.clone() }
    }
}

impl<S, E> Entry<S, E> {
    /// The entry of a pod that the cache holds as `record`.
    #[inline]
    pub(crate) fn new(uid: &PodUid, record: Option<&Record<S, E>>) -> Self {
        Self { uid: uid.clone(), set: record.map(|record| record.set.clone()) }
    }

    /// The pod.
    pub fn uid(&self) -> &PodUid {
        &self.uid
    }

    /// The status that was set, if one was.
    #[inline]
    pub fn status(&self) -> Option<&Arc<S>> {
        self.set.as_ref()?.status.as_ref()
    }

    /// The error that was set with or instead of the status, if one was.
    pub fn error(&self) -> Option<&Arc<E>> {
        self.set.as_ref()?.error.as_ref()
    }

    /// Whether the cache has no entry for the pod: the empty status of a miss.
    pub fn is_empty(&self) -> bool {
        self.set.is_none()
    }
}

impl<S, E> Clone for Entry<S, E> {
    fn clone(&self) -> Self {
        Self { uid: self.uid.clone(), set: self.set.clone() }
    }
}

impl<S: fmt::Debug, E: fmt::Debug> fmt::Debug for Entry<S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f.debug_struct("Entry").field("uid", &self.uid), self.set.as_ref())
    }
}

fn show<S: fmt::Debug, E: fmt::Debug>(out: &mut fmt::DebugStruct<'_, '_>, set: Option<&Set<S, E>>) -> fmt::Result {
    match set {
        None => out.field("empty", &true),
        Some(Set { status, error }) => out.field("status", status).field("error", error),
    }
    .finish()
}

/// What the cache holds for a pod, seen in place: an [`Entry`] that is borrowed for the time of a
/// [`peek`](crate::PodStatusReader::peek).
///
/// ```
/// use larder_clock::Timestamp;
/// use larder_pod_status::{Options, PodUid, pod_status_cache};
///
/// let (writer, reader) = pod_status_cache::<&str, &str>(Options::default());
/// let uid = PodUid::from("a");
/// assert!(reader.peek(&uid, |entry| entry.is_empty()));
/// writer.set(&uid, Some("running".into()), None, Timestamp::ZERO);
/// assert_eq!(reader.peek(&uid, |entry| entry.status().map(|status| status.len())), Some(7));
/// ```
pub struct EntryRef<'c, S, E> {
    set: Option<&'c Set<S, E>>,
}

impl<'c, S, E> EntryRef<'c, S, E> {
    pub(crate) fn new(record: Option<&'c Record<S, E>>) -> Self {
        Self { set: record.map(|record| &record.set) }
    }

    /// The status that was set, if one was.
    #[inline]
    pub fn status(&self) -> Option<&'c Arc<S>> {
        self.set?.status.as_ref()
    }

    /// The error that was set with or instead of the status, if one was.
    pub fn error(&self) -> Option<&'c Arc<E>> {
        self.set?.error.as_ref()
    }

    /// Whether the cache has no entry for the pod.
    pub fn is_empty(&self) -> bool {
        self.set.is_none()
    }
}

impl<S, E> Clone for EntryRef<'_, S, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, E> Copy for EntryRef<'_, S, E> {}

impl<S: fmt::Debug, E: fmt::Debug> fmt::Debug for EntryRef<'_, S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(&mut f.debug_struct("EntryRef"), self.set)
    }
}

/// The times that tell how fresh a pod's entry is.
///
/// An entry is known to have been true at the latest of the three.
///
/// ```
/// use larder_clock::Timestamp;
/// use larder_pod_status::{Options, PodUid, pod_status_cache};
///
/// let (writer, reader) = pod_status_cache::<&str, &str>(Options::default());
/// let uid = PodUid::from("a");
/// writer.set(&uid, Some("running".into()), None, Timestamp::from_nanos(3));
/// writer.update_time(Timestamp::from_nanos(5));
/// let times = reader.times(&uid);
/// assert_eq!(times.modified, Some(Timestamp::from_nanos(3)));
/// assert_eq!(times.latest(), Some(Timestamp::from_nanos(5)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryTimes {
    /// When the entry was last set; `None` where the pod is not cached.
    pub modified: Option<Timestamp>,
    /// When the pod was last seen by itself, changed or not; `None` where the pod is not cached.
    pub observed: Option<Timestamp>,
    /// When all pods were last seen together; `None` before the first time.
    pub global: Option<Timestamp>,
}

impl EntryTimes {
    /// The latest of the three, if there is any.
    ///
    /// ```
    /// assert_eq!(larder_pod_status::EntryTimes::default().latest(), None);
    /// ```
    pub fn latest(&self) -> Option<Timestamp> {
        self.modified.max(self.observed).max(self.global)
    }
}
