//! A wait for a status newer than a time: how it begins, is answered, and ends.

use super::Shared;
use crate::entry::Record;
use crate::table::{End, Id};
use crate::{Entry, PodUid, WaitError};
use larder_clock::Timestamp;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A wait for a pod's entry to be newer than a time; made by [`get_newer_than`](crate::PodStatusReader::get_newer_than).
///
/// The wait has begun when this is made, not when it is first polled. It gives the entry as it was when the wait was
/// answered, however long after that it is polled.
///
/// # Cancel safety
///
/// Dropping it ends the wait and leaves nothing behind; an answer that it has not given yet is dropped with it. Once it has
/// given its answer it stays pending for ever.
#[must_use = "a wait ends when it is dropped"]
pub struct NewerThan<S, E>(State<S, E>);

enum State<S, E> {
    /// Answered when it began.
    ///
    /// Boxed, because many waits are held while they wait, and few that were answered at once.
    Ready(Box<Entry<S, E>>),
    /// In the table of waits, whether still open or not.
    Waiting(Arc<Shared<S, E>>, Id),
    Done,
}

impl<S, E> NewerThan<S, E> {
    fn ready(entry: Entry<S, E>) -> Self {
        Self(State::Ready(Box::new(entry)))
    }

    fn waiting(shared: Arc<Shared<S, E>>, id: Id) -> Self {
        Self(State::Waiting(shared, id))
    }

    /// Ends the wait at its deadline: with its answer if there is one by now, else with the last known entry.
    ///
    /// `None` if it has given its answer already.
    pub(super) fn give_up(&mut self) -> Option<Result<Entry<S, E>, WaitError<S, E>>> {
        match std::mem::replace(&mut self.0, State::Done) {
            State::Ready(entry) => Some(Ok(*entry)),
            State::Waiting(shared, id) => shared.give_up(id),
            State::Done => None,
        }
    }
}

impl<S, E> Future for NewerThan<S, E> {
    type Output = Result<Entry<S, E>, WaitError<S, E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match std::mem::replace(&mut self.0, State::Done) {
            State::Ready(entry) => Poll::Ready(Ok(*entry)),
            State::Waiting(shared, id) => {
                let answer = shared.poll(id, cx.waker());
                if answer.is_pending() {
                    self.0 = State::Waiting(shared, id);
                }
                answer
            }
            State::Done => Poll::Pending,
        }
    }
}

impl<S, E> Drop for NewerThan<S, E> {
    fn drop(&mut self) {
        if let State::Waiting(shared, id) = &self.0 {
            shared.end(*id);
        }
    }
}

// Nothing in it is pinned.
impl<S, E> Unpin for NewerThan<S, E> {}

impl<S, E> fmt::Debug for NewerThan<S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            State::Ready(..) => "NewerThan(ready)",
            State::Waiting(..) => "NewerThan(waiting)",
            State::Done => "NewerThan(done)",
        })
    }
}

impl<S, E> Shared<S, E> {
    /// Begins a wait.
    pub(super) fn newer_than(self: &Arc<Self>, uid: &PodUid, min: Timestamp) -> NewerThan<S, E> {
        let pods = self.pods.pin();
        let wait = {
            let mut state = self.state.lock();
            let all = state.global.is_some_and(|global| global > min);
            let is_newer = |record: &Record<S, E>| record.modified > min || record.observed > min;
            if all || pods.read(uid, |record| record.is_some_and(is_newer)) {
                return NewerThan::ready(pods.read(uid, |record| Entry::new(uid, record)));
            }
            let id = if state.writer_gone {
                state.waits.insert_ended(End::WriterGone, pods.read(uid, |record| Entry::new(uid, record)))
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
    fn poll(&self, id: Id, waker: &Waker) -> Poll<Result<Entry<S, E>, WaitError<S, E>>> {
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
    fn give_up(&self, id: Id) -> Option<Result<Entry<S, E>, WaitError<S, E>>> {
        let pods = self.pods.pin();
        let mut state = self.state.lock();
        let last_known = state.waits.uid(id).map(|uid| pods.read(uid, |record| Entry::new(uid, record)));
        let removed = state.waits.remove(id);
        drop(state);
        match last_known {
            Some(last_known) => Some(Err(WaitError::DeadlineExceeded { last_known })),
            None => removed?.ended().map(|(end, entry)| result(end, entry)),
        }
    }

    /// Ends a wait whose future is dropped.
    fn end(&self, id: Id) {
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
