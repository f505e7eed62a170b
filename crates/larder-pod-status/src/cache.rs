//! The cache itself, and its two handles.

use crate::entry::Set;
use crate::sync::{Mutex, Pin, StatusMap};
use crate::table::{End, Id, WaitTable};
use crate::{Entry, EntryRef, EntryTimes, NewerThan, PodUid, WaitError};
use larder_clock::Timestamp;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

/// Settings of a pod status cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether [`set`](PodStatusWriter::set) refuses a status that is older than the cached one. Default: no.
    ///
    /// The kubelet does so with its feature gate `EventedPLEG`, where statuses can arrive out of order.
    pub evented_ordering: bool,
}

/// An empty pod status cache: the handle that fills it, and one that reads it.
///
/// `S` is the status of a pod, `E` the error of an inspection that failed.
///
/// ```
/// use larder_clock::Timestamp;
/// use larder_pod_status::{Options, PodUid, pod_status_cache};
///
/// let (writer, reader) = pod_status_cache::<String, std::io::Error>(Options::default());
/// let uid = PodUid::from("a");
/// writer.set(&uid, Some("running".to_owned().into()), None, Timestamp::from_nanos(1));
/// assert_eq!(reader.get(&uid).status().map(|status| status.as_str()), Some("running"));
/// ```
pub fn pod_status_cache<S, E>(options: Options) -> (PodStatusWriter<S, E>, PodStatusReader<S, E>) {
    let Options { evented_ordering } = options;
    let shared = Arc::new(Shared {
        pods: StatusMap::new(),
        state: Mutex::new(State { global: None, writer_gone: false, waits: WaitTable::new() }),
        on_wait: OnceLock::new(),
        evented_ordering,
    });
    (PodStatusWriter { shared: Arc::clone(&shared) }, PodStatusReader { shared })
}

/// What the handles and the waits of a cache share.
pub(crate) struct Shared<S, E> {
    pods: StatusMap<Record<S, E>>,
    state: Mutex<State<S, E>>,
    on_wait: OnceLock<OnWait>,
    evented_ordering: bool,
}

type OnWait = Box<dyn Fn(&PodUid, Timestamp) + Send + Sync>;

/// What is guarded by the lock. Every change of `pods` is made under it, too, so that whoever holds it sees the pods,
/// the global time and the waits as of one moment.
struct State<S, E> {
    global: Option<Timestamp>,
    writer_gone: bool,
    waits: WaitTable<S, E>,
}

/// A cached pod.
struct Record<S, E> {
    set: Set<S, E>,
    modified: Timestamp,
    observed: Timestamp,
}

fn entry<S, E>(pods: &Pin<'_, Record<S, E>>, uid: &PodUid) -> Entry<S, E> {
    pods.read(uid, |record| Entry::new(uid.clone(), record.map(|record| record.set.clone())))
}

impl<S, E> Shared<S, E> {
    fn newer_than(self: &Arc<Self>, uid: &PodUid, min: Timestamp) -> NewerThan<S, E> {
        let pods = self.pods.pin();
        let wait = {
            let mut state = self.state.lock();
            let all = state.global.is_some_and(|global| global > min);
            let is_newer = |record: &Record<S, E>| record.modified > min || record.observed > min;
            if all || pods.read(uid, |record| record.is_some_and(is_newer)) {
                return NewerThan::ready(entry(&pods, uid));
            }
            let id = if state.writer_gone {
                state.waits.insert_ended(End::WriterGone, entry(&pods, uid))
            } else {
                state.waits.begin(uid, min)
            };
            NewerThan::waiting(Arc::clone(self), id)
        };
        drop(pods);
        if let Some(on_wait) = self.on_wait.get() {
            on_wait(uid, min);
        }
        wait
    }

    /// The answer of a wait, or else its waker is noted.
    pub(crate) fn poll(&self, id: Id, waker: &Waker) -> Poll<Result<Entry<S, E>, WaitError<S, E>>> {
        {
            let mut state = self.state.lock();
            if let Some((end, entry)) = state.waits.take(id) {
                return Poll::Ready(result(end, entry));
            }
            if let Some(Some(noted)) = state.waits.waker(id)
                && noted.will_wake(waker)
            {
                return Poll::Pending;
            }
        }
        // To clone or drop a waker can run code of others, such as the drop of another wait: not under the lock.
        let mut noted = Some(waker.clone());
        let mut state = self.state.lock();
        let ended = state.waits.take(id);
        if let Some(slot) = state.waits.waker(id) {
            std::mem::swap(slot, &mut noted);
        }
        drop(state);
        ended.map_or(Poll::Pending, |(end, entry)| Poll::Ready(result(end, entry)))
    }

    /// Ends a wait: with its answer if it has one, else with what is known. `None` if there is no such wait.
    pub(crate) fn give_up(&self, id: Id) -> Option<Result<Entry<S, E>, WaitError<S, E>>> {
        let pods = self.pods.pin();
        let mut state = self.state.lock();
        let last_known = state.waits.uid(id).map(|uid| entry(&pods, uid));
        let removed = state.waits.remove(id);
        drop(state);
        match last_known {
            Some(last_known) => Some(Err(WaitError::DeadlineExceeded { last_known })),
            None => removed?.ended().map(|(end, entry)| result(end, entry)),
        }
    }

    /// Ends a wait whose future is dropped.
    pub(crate) fn end(&self, id: Id) {
        let removed = self.state.lock().waits.remove(id);
        // Not under the lock: it may hold the last of a waker or of a status.
        drop(removed);
    }
}

fn result<S, E>(end: End, entry: Entry<S, E>) -> Result<Entry<S, E>, WaitError<S, E>> {
    match end {
        End::Answered => Ok(entry),
        End::WriterGone => Err(WaitError::WriterGone { last_known: entry }),
    }
}

/// The handle that fills the cache; there is one for each cache.
///
/// Its methods never wait for a reader. When it is dropped, the open waits end with [`WaitError::WriterGone`], and so does
/// each that begins later and is not answered at once; what is cached stays readable.
pub struct PodStatusWriter<S, E> {
    shared: Arc<Shared<S, E>>,
}

impl<S, E> PodStatusWriter<S, E> {
    /// Caches what an inspection of the pod at the time `at` gave, and answers the pod's waits for `at` and before.
    ///
    /// Sets the pod's modified and observed time. A status of `None` is another thing than a pod that is not cached.
    /// With [`evented_ordering`](Options::evented_ordering), a pod that was modified after `at` is left as it is, nobody
    /// is woken, and the result is `false`.
    ///
    /// ```
    /// use larder_clock::Timestamp;
    /// use larder_pod_status::{Options, PodUid, pod_status_cache};
    ///
    /// let (writer, _) = pod_status_cache::<&str, &str>(Options { evented_ordering: true });
    /// let uid = PodUid::from("a");
    /// assert!(writer.set(&uid, Some("running".into()), None, Timestamp::from_nanos(2)));
    /// assert!(!writer.set(&uid, Some("starting".into()), None, Timestamp::from_nanos(1)));
    /// ```
    pub fn set(&self, uid: &PodUid, status: Option<Arc<S>>, error: Option<Arc<E>>, at: Timestamp) -> bool {
        let shared = &*self.shared;
        // What is replaced is dropped with the pin at the earliest, and so after the lock is released.
        let pods = shared.pods.pin();
        let wakers = {
            let mut state = shared.state.lock();
            if shared.evented_ordering && pods.read(uid, |record| record.is_some_and(|record| record.modified > at)) {
                return false;
            }
            pods.insert(uid.clone(), Record { set: Set { status, error }, modified: at, observed: at });
            state.waits.answer_pod(uid, at, |uid| entry(&pods, uid))
        };
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
            state.waits.answer_pod(uid, at, |uid| entry(&pods, uid))
        };
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
        // Pinned only where it is needed; dropped after the lock is released, as everywhere.
        let pods;
        let wakers = {
            let mut state = self.shared.state.lock();
            state.global = Some(at);
            if !state.waits.any_due(at) {
                return;
            }
            pods = self.shared.pods.pin();
            state.waits.end_all(at, End::Answered, |uid| entry(&pods, uid))
        };
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
        PodStatusReader { shared: Arc::clone(&self.shared) }
    }
}

impl<S, E> Drop for PodStatusWriter<S, E> {
    fn drop(&mut self) {
        let pods = self.shared.pods.pin();
        let wakers = {
            let mut state = self.shared.state.lock();
            state.writer_gone = true;
            state.waits.end_all(Timestamp::from_nanos(i128::MAX), End::WriterGone, |uid| entry(&pods, uid))
        };
        drop(wakers);
    }
}

impl<S, E> fmt::Debug for PodStatusWriter<S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodStatusWriter").finish_non_exhaustive()
    }
}

/// A handle that reads the cache; clones read the same one.
pub struct PodStatusReader<S, E> {
    shared: Arc<Shared<S, E>>,
}

impl<S, E> PodStatusReader<S, E> {
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
    pub fn get(&self, uid: &PodUid) -> Entry<S, E> {
        entry(&self.shared.pods.pin(), uid)
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
    pub fn peek<T>(&self, uid: &PodUid, look: impl FnOnce(EntryRef<'_, S, E>) -> T) -> T {
        let pods = self.shared.pods.pin();
        pods.read(uid, |record| look(EntryRef::new(record.map(|record| &record.set))))
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
            let entry = Entry::new(uid.clone(), record.map(|record| record.set.clone()));
            (entry, EntryTimes { modified, observed, global: state.global })
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
