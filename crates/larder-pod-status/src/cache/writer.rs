//! The handle that fills the cache.

use super::Shared;
use crate::entry::{Record, Set};
use crate::table::End;
use crate::{Entry, PodStatusReader, PodUid};
use larder_clock::Timestamp;
use std::fmt;
use std::sync::Arc;

/// The handle that fills the cache; there is one for each cache.
///
/// Its methods never wait for a reader. When it is dropped, the open waits end with
/// [`WaitError::WriterGone`](crate::WaitError::WriterGone), and so does each that begins later and is not answered at once;
/// what is cached stays readable.
pub struct PodStatusWriter<S, E> {
    shared: Arc<Shared<S, E>>,
}

impl<S, E> PodStatusWriter<S, E> {
    pub(super) fn new(shared: Arc<Shared<S, E>>) -> Self {
        Self { shared }
    }

    /// Caches what an inspection of the pod at the time `at` gave, and answers the pod's waits for `at` and before.
    ///
    /// Sets the pod's modified and observed time. A status of `None` is another thing than a pod that is not cached.
    /// With [`evented_ordering`](crate::Options::evented_ordering), a pod that was modified after `at` is left as it is, nobody
    /// is woken, and the result is `false`.
    ///
    /// ```
    /// use larder_clock::Timestamp;
    /// use larder_pod_status::{Options, PodUid, pod_status_cache};
    ///
    /// let mut options = Options::default();
    /// options.evented_ordering = true;
    /// let (writer, _) = pod_status_cache::<&str, &str>(options);
    /// let uid = PodUid::from("a");
    /// assert!(writer.set(&uid, Some("running".into()), None, Timestamp::from_nanos(2)));
    /// assert!(!writer.set(&uid, Some("starting".into()), None, Timestamp::from_nanos(1)));
    /// ```
    pub fn set(&self, uid: &PodUid, status: Option<Arc<S>>, error: Option<Arc<E>>, at: Timestamp) -> bool {
        let shared = &*self.shared;
        // The lock is released first. A replaced status is dropped with the pin at the earliest, and wakers come last, even if
        // that drop panics.
        let pods = shared.pods.pin();
        let wakers = {
            let mut state = shared.state.lock();
            if shared.evented_ordering && pods.read(uid, |record| record.is_some_and(|record| record.modified > at)) {
                return false;
            }
            pods.insert(uid.clone(), Record { set: Set { status, error }, modified: at, observed: at });
            state.waits.answer_pod(uid, at, |uid| pods.read(uid, |record| Entry::new(uid, record)))
        };
        drop(pods);
        drop(wakers);
        true
    }

    /// Notes that the pod's entry was found still true at the time `at`, and answers the pod's waits for `at` and before.
    ///
    /// Overwrites the pod's observed time, backwards too. Of a pod that is not cached nothing is noted, but its waits are
    /// answered all the same, with the empty entry.
    ///
    /// ```
    /// use larder_clock::Timestamp;
    /// use larder_pod_status::{Options, PodUid, pod_status_cache};
    ///
    /// let (writer, reader) = pod_status_cache::<&str, &str>(Options::default());
    /// let uid = PodUid::from("a");
    /// writer.set(&uid, Some("running".into()), None, Timestamp::from_nanos(1));
    /// writer.set_observed_time(&uid, Timestamp::from_nanos(2));
    /// assert_eq!(reader.times(&uid).observed, Some(Timestamp::from_nanos(2)));
    /// ```
    pub fn set_observed_time(&self, uid: &PodUid, at: Timestamp) {
        let shared = &*self.shared;
        let pods = shared.pods.pin();
        let wakers = {
            let mut state = shared.state.lock();
            let observed = pods.read(uid, |record| {
                record.map(|Record { set, modified, .. }| Record {
                    set: set.clone(),
                    modified: *modified,
                    observed: at,
                })
            });
            if let Some(record) = observed {
                pods.insert(uid.clone(), record);
            }
            state.waits.answer_pod(uid, at, |uid| pods.read(uid, |record| Entry::new(uid, record)))
        };
        drop(pods);
        drop(wakers);
    }

    /// Removes a pod that the runtime no longer knows. Wakes nobody: a later time answers with the empty entry.
    ///
    /// ```
    /// use larder_clock::Timestamp;
    /// use larder_pod_status::{Options, PodUid, pod_status_cache};
    ///
    /// let (writer, reader) = pod_status_cache::<&str, &str>(Options::default());
    /// let uid = PodUid::from("a");
    /// writer.set(&uid, Some("running".into()), None, Timestamp::ZERO);
    /// writer.delete(&uid);
    /// assert!(reader.get(&uid).is_empty());
    /// ```
    pub fn delete(&self, uid: &PodUid) {
        let pods = self.shared.pods.pin();
        let state = self.shared.state.lock();
        pods.remove(uid);
        drop(state);
    }

    /// Notes that every entry was found true at the time `at`, and answers all waits for `at` and before.
    ///
    /// Overwrites the global time, backwards too. Costs O(1) where no wait is due.
    ///
    /// ```
    /// use larder_clock::Timestamp;
    /// use larder_pod_status::{Options, PodUid, pod_status_cache};
    ///
    /// let (writer, reader) = pod_status_cache::<&str, &str>(Options::default());
    /// writer.update_time(Timestamp::from_nanos(2));
    /// assert_eq!(reader.times(&PodUid::from("a")).global, Some(Timestamp::from_nanos(2)));
    /// ```
    pub fn update_time(&self, at: Timestamp) {
        // Most often no wait is due and no pin is needed. It is dropped after the lock is released all the same.
        let pods;
        let wakers = {
            let mut state = self.shared.state.lock();
            state.global = Some(at);
            if !state.waits.any_due(at) {
                return;
            }
            pods = self.shared.pods.pin();
            state.waits.end_all(at, End::Answered, |uid| pods.read(uid, |record| Entry::new(uid, record)))
        };
        drop(pods);
        drop(wakers);
    }

    /// Has `call` called for each wait that is not answered at once, with its pod and the time it waits for, so that the
    /// pod can be looked at sooner.
    ///
    /// It is called when the wait has begun, in the thread that began it and with no lock held, so it may use the cache;
    /// it should return soon, such as by putting the pod into a queue. It can be set once: `false` says that it was set
    /// before, and `call` is dropped. Waits that began earlier are found with
    /// [`waited_for`](PodStatusReader::waited_for).
    ///
    /// ```
    /// use larder_clock::Timestamp;
    /// use larder_pod_status::{Options, PodUid, pod_status_cache};
    /// use std::sync::mpsc;
    ///
    /// let (writer, reader) = pod_status_cache::<&str, &str>(Options::default());
    /// let (to_relist, queue) = mpsc::channel();
    /// writer.on_wait(move |uid, _min| drop(to_relist.send(uid.clone())));
    /// let wait = reader.get_newer_than(PodUid::from("a"), Timestamp::ZERO);
    /// assert_eq!(queue.try_recv(), Ok(PodUid::from("a")));
    /// # drop(wait);
    /// ```
    pub fn on_wait(&self, call: impl Fn(&PodUid, Timestamp) + Send + Sync + 'static) -> bool {
        self.shared.on_wait.set(Box::new(call)).is_ok()
    }

    /// A handle that reads the cache.
    pub fn reader(&self) -> PodStatusReader<S, E> {
        PodStatusReader::new(Arc::clone(&self.shared))
    }
}

impl<S, E> Drop for PodStatusWriter<S, E> {
    fn drop(&mut self) {
        let pods = self.shared.pods.pin();
        let wakers = {
            let mut state = self.shared.state.lock();
            state.writer_gone = true;
            state.waits.end_all(Timestamp::from_nanos(i128::MAX), End::WriterGone, |uid| {
                pods.read(uid, |record| Entry::new(uid, record))
            })
        };
        drop(pods);
        drop(wakers);
    }
}

impl<S, E> fmt::Debug for PodStatusWriter<S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodStatusWriter").finish_non_exhaustive()
    }
}
