//! Traces of the pod status cache.

use crate::answer::{Answer, Nullable, Pending};
use crate::error::LineError;
use crate::trace::PodStatusOp;
use larder_clock::Timestamp;
use larder_pod_status::{Entry, NewerThan, Options, PodStatusReader, PodStatusWriter, PodUid, pod_status_cache};
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A status or an error: to the cache it is any type, to a trace a string.
type Text = Arc<str>;

/// The cache, and the waits that are neither answered nor cancelled.
pub(super) struct PodStatuses {
    writer: PodStatusWriter<Text, Text>,
    reader: PodStatusReader<Text, Text>,
    open: BTreeMap<i64, NewerThan<Text, Text>>,
    woken: Arc<Woken>,
}

/// The numbers of the waits whose wakers were called. A wait is polled only then, so that an operation costs what it
/// answers, not what is open.
#[derive(Default)]
struct Woken(Mutex<Vec<i64>>);

impl Woken {
    fn take(&self) -> Vec<i64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct WaitWaker {
    id: i64,
    woken: Arc<Woken>,
}

impl Wake for WaitWaker {
    fn wake(self: Arc<Self>) {
        self.woken.0.lock().unwrap_or_else(PoisonError::into_inner).push(self.id);
    }
}

impl PodStatuses {
    pub(super) fn new(evented: bool) -> Self {
        let mut options = Options::default();
        options.evented_ordering = evented;
        let (writer, reader) = pod_status_cache(options);
        Self { writer, reader, open: BTreeMap::new(), woken: Arc::default() }
    }

    pub(super) fn run(&mut self, op: PodStatusOp) -> Result<Answer, LineError> {
        match op {
            PodStatusOp::Get { uid } => Ok(answer(&self.reader.get(&uid.into()))),
            PodStatusOp::Set { uid, status, error, at } => {
                let [status, error] = [status, error].map(|text| text.map(|text| Arc::new(text.into())));
                let updated = self.writer.set(&uid.into(), status, error, time(at));
                Ok(self.with_woken(Answer { updated: Some(updated), ..Answer::default() }))
            }
            PodStatusOp::Observed { uid, at } => {
                self.writer.set_observed_time(&uid.into(), time(at));
                Ok(self.with_woken(Answer::default()))
            }
            PodStatusOp::Delete { uid } => {
                self.writer.delete(&uid.into());
                Ok(self.with_woken(Answer::default()))
            }
            PodStatusOp::UpdateTime { at } => {
                self.writer.update_time(time(at));
                Ok(self.with_woken(Answer::default()))
            }
            PodStatusOp::Newer { id, uid, min } => self.begin_wait(id, uid.into(), min),
            PodStatusOp::Cancel { id } => {
                self.open.remove(&id);
                Ok(Answer::default())
            }
        }
    }

    pub(super) fn open_ids(&self) -> Vec<i64> {
        self.open.keys().copied().collect()
    }

    fn begin_wait(&mut self, id: i64, uid: PodUid, min: i64) -> Result<Answer, LineError> {
        if self.open.contains_key(&id) {
            return Err(LineError::OpenWait { id });
        }
        let mut wait = self.reader.get_newer_than(uid, time(min));
        if let Poll::Ready(entry) = self.poll(id, &mut wait) {
            return Ok(answer(&entry));
        }
        self.open.insert(id, wait);
        Ok(Answer { pending: Some(Pending::Yes), ..Answer::default() })
    }

    /// Adds the waits that the operation just done has answered.
    fn with_woken(&mut self, mut result: Answer) -> Answer {
        for id in self.woken.take() {
            // A wait that was cancelled, or answered by now, may have been woken before.
            let Some(mut wait) = self.open.remove(&id) else { continue };
            match self.poll(id, &mut wait) {
                Poll::Ready(entry) => result.woken.push(Answer { id: Some(id), ..answer(&entry) }),
                Poll::Pending => {
                    self.open.insert(id, wait);
                }
            }
        }
        result.woken.sort_unstable_by_key(|answer| answer.id);
        result
    }

    fn poll(&self, id: i64, wait: &mut NewerThan<Text, Text>) -> Poll<Entry<Text, Text>> {
        let waker = Waker::from(Arc::new(WaitWaker { id, woken: Arc::clone(&self.woken) }));
        Pin::new(wait).poll(&mut Context::from_waker(&waker)).map(|result| match result {
            Ok(entry) => entry,
            // The writer lives as long as the waits do, so this does not occur; the entry is the right one all the same.
            Err(ended) => ended.into_last_known(),
        })
    }
}

impl fmt::Debug for PodStatuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodStatuses").field("open", &self.open.len()).finish_non_exhaustive()
    }
}

fn time(nanos: i64) -> Timestamp {
    Timestamp::from_nanos(nanos.into())
}

fn answer(entry: &Entry<Text, Text>) -> Answer {
    if entry.is_empty() {
        return Answer { empty: true, ..Answer::default() };
    }
    Answer {
        status: Some(Nullable(entry.status().map(|status| Text::clone(status)))),
        error: entry.error().map(|error| Text::clone(error)),
        ..Answer::default()
    }
}
