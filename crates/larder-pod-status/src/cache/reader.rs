//! The handle that reads the cache.

use super::Shared;
use crate::{Entry, EntryRef, EntryTimes, NewerThan, PodUid, WaitError};
use larder_clock::Timestamp;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// A handle that reads the cache; clones read the same one.
pub struct PodStatusReader<S, E> {
    shared: Arc<Shared<S, E>>,
}

impl<S, E> PodStatusReader<S, E> {
    pub(super) fn new(shared: Arc<Shared<S, E>>) -> Self {
        Self { shared }
    }

    /// What the cache holds for the pod now; the [empty](Entry::is_empty) entry where it does not have it.
    ///
    /// Takes no lock and never waits, whatever a writer does.
    ///
    /// ```
    /// use larder_pod_status::{Options, PodUid, pod_status_cache};
    ///
    /// let (_writer, reader) = pod_status_cache::<&str, &str>(Options::default());
    /// assert!(reader.get(&PodUid::from("a")).is_empty());
    /// ```
    #[inline]
    pub fn get(&self, uid: &PodUid) -> Entry<S, E> {
        self.shared.pods.pin().read(uid, |record| Entry::new(uid, record))
    }

    /// Calls `look` with what the cache holds for the pod now, without taking a share of it.
    ///
    /// As [`get`](Self::get), and about half as long: the counts of the status are left alone. What is replaced or deleted
    /// anywhere in the cache meanwhile stays in memory until `look` returns, so it should not take long.
    ///
    /// ```
    /// use larder_pod_status::{Options, PodUid, pod_status_cache};
    ///
    /// let (_writer, reader) = pod_status_cache::<&str, &str>(Options::default());
    /// assert!(reader.peek(&PodUid::from("a"), |entry| entry.status().is_none()));
    /// ```
    #[inline]
    pub fn peek<T>(&self, uid: &PodUid, look: impl FnOnce(EntryRef<'_, S, E>) -> T) -> T {
        let pods = self.shared.pods.pin();
        pods.read(uid, |record| look(EntryRef::new(record)))
    }

    /// Begins a wait for the pod's entry to be newer than `min`.
    ///
    /// It is answered at once, with what is cached, where the pod's modified time, its observed time or the global time is
    /// *after* `min`; else by the first of them that is set to `min` *or later*. The two comparisons differ on purpose, as
    /// they do in the kubelet: a wait that begins after the entry of exactly that time has come waits for the next one.
    ///
    /// The wait begins with this call, not when the future is first polled.
    ///
    /// # Errors
    ///
    /// [`WaitError::WriterGone`] if the writer is dropped before the answer.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time and leaves nothing behind. By itself it has no deadline:
    /// [`get_newer_than_or`](Self::get_newer_than_or) has.
    ///
    /// ```
    /// use larder_clock::Timestamp;
    /// use larder_pod_status::{Options, PodUid, pod_status_cache};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let (writer, reader) = pod_status_cache::<&str, &str>(Options::default());
    /// let uid = PodUid::from("a");
    /// let wait = reader.get_newer_than(uid.clone(), Timestamp::from_nanos(5));
    /// writer.set(&uid, Some("running".into()), None, Timestamp::from_nanos(5));
    /// writer.delete(&uid);
    /// // The entry is that of the moment at which it became new enough.
    /// assert_eq!(wait.await.unwrap().status().map(|status| **status), Some("running"));
    /// # });
    /// ```
    // The future outlives the UID that it is asked for, and by value tells so.
    #[allow(clippy::needless_pass_by_value)]
    pub fn get_newer_than(&self, uid: PodUid, min: Timestamp) -> NewerThan<S, E> {
        self.shared.newer_than(&uid, min)
    }

    /// As [`get_newer_than`](Self::get_newer_than), but ends when `deadline` does, if that is first.
    ///
    /// The deadline is any future, such as `tokio::time::sleep`. An answer that has come by the time the deadline is seen to
    /// have passed is given all the same. The wait begins with this call.
    ///
    /// # Errors
    ///
    /// [`WaitError::DeadlineExceeded`] at the deadline and [`WaitError::WriterGone`] if the writer is dropped, each with
    /// the last known entry.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time and leaves nothing behind.
    ///
    /// ```
    /// use larder_clock::Timestamp;
    /// use larder_pod_status::{Options, PodUid, pod_status_cache};
    /// use std::time::Duration;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
    /// let (writer, reader) = pod_status_cache::<&str, &str>(Options::default());
    /// let uid = PodUid::from("a");
    /// writer.set(&uid, Some("running".into()), None, Timestamp::ZERO);
    /// let deadline = tokio::time::sleep(Duration::from_secs(30));
    /// let error = reader.get_newer_than_or(uid, Timestamp::from_nanos(1), deadline).await.unwrap_err();
    /// assert!(error.is_deadline_exceeded());
    /// assert_eq!(error.last_known().status().map(|status| **status), Some("running"));
    /// # });
    /// ```
    pub fn get_newer_than_or<D: Future<Output = ()>>(
        &self,
        uid: PodUid,
        min: Timestamp,
        deadline: D,
    ) -> impl Future<Output = Result<Entry<S, E>, WaitError<S, E>>> + use<S, E, D> {
        let mut wait = self.get_newer_than(uid, min);
        async move {
            let mut deadline = pin!(deadline);
            poll_fn(|cx| {
                if let Poll::Ready(answer) = std::pin::Pin::new(&mut wait).poll(cx) {
                    return Poll::Ready(answer);
                }
                match deadline.as_mut().poll(cx) {
                    Poll::Ready(()) => wait.give_up().map_or(Poll::Pending, Poll::Ready),
                    Poll::Pending => Poll::Pending,
                }
            })
            .await
        }
    }

    /// The times of the pod's entry and the global time, as of one moment.
    ///
    /// ```
    /// use larder_pod_status::{EntryTimes, Options, PodUid, pod_status_cache};
    ///
    /// let (_writer, reader) = pod_status_cache::<&str, &str>(Options::default());
    /// assert_eq!(reader.times(&PodUid::from("a")), EntryTimes::default());
    /// ```
    pub fn times(&self, uid: &PodUid) -> EntryTimes {
        self.get_with_times(uid).1
    }

    /// What the cache holds for the pod, with its times, as of one moment.
    ///
    /// ```
    /// use larder_clock::Timestamp;
    /// use larder_pod_status::{Options, PodUid, pod_status_cache};
    ///
    /// let (writer, reader) = pod_status_cache::<&str, &str>(Options::default());
    /// let uid = PodUid::from("a");
    /// writer.set(&uid, Some("running".into()), None, Timestamp::from_nanos(3));
    /// let (entry, times) = reader.get_with_times(&uid);
    /// assert!(!entry.is_empty());
    /// assert_eq!(times.latest(), Some(Timestamp::from_nanos(3)));
    /// ```
    pub fn get_with_times(&self, uid: &PodUid) -> (Entry<S, E>, EntryTimes) {
        let pods = self.shared.pods.pin();
        let state = self.shared.state.lock();
        pods.read(uid, |record| {
            let (modified, observed) = record.map(|record| (record.modified, record.observed)).unzip();
            (Entry::new(uid, record), EntryTimes { modified, observed, global: state.global })
        })
    }

    /// The pods that are cached, in no particular order. One that is set or deleted meanwhile may be among them or not.
    ///
    /// ```
    /// use larder_clock::Timestamp;
    /// use larder_pod_status::{Options, PodUid, pod_status_cache};
    ///
    /// let (writer, reader) = pod_status_cache::<&str, &str>(Options::default());
    /// writer.set(&PodUid::from("a"), Some("running".into()), None, Timestamp::ZERO);
    /// assert_eq!(reader.uids(), [PodUid::from("a")]);
    /// ```
    pub fn uids(&self) -> Vec<PodUid> {
        self.shared.pods.pin().uids()
    }

    /// The number of waits that are open: neither answered nor dropped.
    ///
    /// ```
    /// use larder_clock::Timestamp;
    /// use larder_pod_status::{Options, PodUid, pod_status_cache};
    ///
    /// let (_writer, reader) = pod_status_cache::<&str, &str>(Options::default());
    /// let wait = reader.get_newer_than(PodUid::from("a"), Timestamp::ZERO);
    /// assert_eq!(reader.open_waits(), 1);
    /// drop(wait);
    /// assert_eq!(reader.open_waits(), 0);
    /// ```
    pub fn open_waits(&self) -> usize {
        self.shared.state.lock().waits.open()
    }

    /// The pods that open waits are for, each once and in no particular order.
    ///
    /// ```
    /// use larder_clock::Timestamp;
    /// use larder_pod_status::{Options, PodUid, pod_status_cache};
    ///
    /// let (_writer, reader) = pod_status_cache::<&str, &str>(Options::default());
    /// let wait = reader.get_newer_than(PodUid::from("a"), Timestamp::ZERO);
    /// assert_eq!(reader.waited_for(), [PodUid::from("a")]);
    /// # drop(wait);
    /// ```
    pub fn waited_for(&self) -> Vec<PodUid> {
        self.shared.state.lock().waits.uids()
    }

    /// Whether the writer is gone, so that nothing newer will come.
    ///
    /// ```
    /// use larder_pod_status::{Options, pod_status_cache};
    ///
    /// let (writer, reader) = pod_status_cache::<&str, &str>(Options::default());
    /// assert!(!reader.is_writer_gone());
    /// drop(writer);
    /// assert!(reader.is_writer_gone());
    /// ```
    pub fn is_writer_gone(&self) -> bool {
        self.shared.state.lock().writer_gone
    }
}

impl<S, E> Clone for PodStatusReader<S, E> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<S, E> fmt::Debug for PodStatusReader<S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodStatusReader").finish_non_exhaustive()
    }
}
