//! The future of a wait for a status newer than a time.

use crate::cache::Shared;
use crate::table::Id;
use crate::{Entry, WaitError};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

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
    pub(crate) fn ready(entry: Entry<S, E>) -> Self {
        Self(State::Ready(Box::new(entry)))
    }

    pub(crate) fn waiting(shared: Arc<Shared<S, E>>, id: Id) -> Self {
        Self(State::Waiting(shared, id))
    }

    /// Ends the wait at its deadline: with its answer if there is one by now, else with the last known entry.
    ///
    /// `None` if it has given its answer already.
    pub(crate) fn give_up(&mut self) -> Option<Result<Entry<S, E>, WaitError<S, E>>> {
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
