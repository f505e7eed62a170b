//! The state that the two handles of a cache share: the entries, the global time, and the open waits.

mod reader;
mod writer;

use crate::entry::Set;
use crate::sync::{Mutex, Pin, StatusMap};
use crate::table::{End, Id, WaitTable};
use crate::{Entry, NewerThan, PodUid, WaitError};
use larder_clock::Timestamp;
pub use reader::PodStatusReader;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};
pub use writer::PodStatusWriter;

/// Settings of a pod status cache.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
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
    (PodStatusWriter::new(Arc::clone(&shared)), PodStatusReader::new(shared))
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

#[inline]
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
