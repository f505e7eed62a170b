//! One generation of an object while it is being fetched: what is known, whose turn it is, and who waits.

use super::known::{Confirmed, Known, Settled};
use crate::fetched::Fetched;
use crate::sync::Mutex;
use crate::{Object, ObjectKey, ReadKind};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;

/// A fetch under way.
pub(super) struct Running<O, E> {
    pub(super) read: ReadKind,
    pub(super) future: Pin<Box<dyn Future<Output = Result<Arc<O>, E>> + Send>>,
}

/// Where a reader stands in a flight's queue: lower numbers came earlier.
pub(super) type Ticket = u64;

/// The meeting place of one generation's readers. The registry holds it while it has readers, or while the object is
/// known to be absent; readers of an old generation hold it alone.
pub(super) struct Flight<O, E> {
    pub(super) key: ObjectKey,
    pub(super) queue: Mutex<Queue<O, E>>,
}

/// Invariant: where nobody has the turn, nobody waits and no fetch is left over.
pub(super) struct Queue<O, E> {
    pub(super) known: Known<O>,
    /// Whether `known` has changed since it was last published.
    changed: bool,
    /// Whether an object was known in the generation before.
    supersedes: bool,
    turn: Option<Ticket>,
    next: Ticket,
    /// Those who wait, with their wakers; none where one was called, or has not been left yet.
    waiting: BTreeMap<Ticket, Option<Waker>>,
    /// The fetch of a reader that went away, for whoever has the turn now.
    left: Option<Running<O, E>>,
}

impl<O, E> Flight<O, E> {
    pub(super) fn new(key: ObjectKey, known: Known<O>, supersedes: bool) -> Self {
        let waiting = BTreeMap::new();
        let queue = Queue { known, changed: false, supersedes, turn: None, next: 0, waiting, left: None };
        Self { key, queue: Mutex::new(queue) }
    }
}

impl<O, E> Queue<O, E> {
    /// Lines up; has the turn at once if nobody is before.
    pub(super) fn enter(&mut self) -> Ticket {
        let ticket = self.next;
        self.next += 1;
        if self.turn.is_none() {
            self.turn = Some(ticket);
        } else {
            self.waiting.insert(ticket, None);
        }
        ticket
    }

    /// Takes in what a fetch brought; returns what came of it, and what it displaced.
    pub(super) fn take_in(&mut self, fetched: Fetched<O, E>, confirmed: Confirmed) -> (Settled<E>, Known<O>)
    where
        O: Object,
    {
        let (settled, displaced) = self.known.take_in(fetched, confirmed);
        self.changed |= matches!(settled, Settled::Confirmed);
        (settled, displaced)
    }

    /// Whether there is something to publish, which the caller then does.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Whether a fetch that begins now is one for the sake of a new reference: what was known before it was dropped for it.
    pub(super) fn is_superseding(&self) -> bool {
        self.supersedes && matches!(self.known, Known::Nothing)
    }

    pub(super) fn has_turn(&self, ticket: Ticket) -> bool {
        self.turn == Some(ticket)
    }

    /// Whether nobody is here.
    pub(super) fn is_idle(&self) -> bool {
        self.turn.is_none()
    }

    /// The fetch that the one before left, if any. Only for the one whose turn it is.
    pub(super) fn take_left(&mut self) -> Option<Running<O, E>> {
        self.left.take()
    }

    /// Leaves a waker to be called when there is something to see; returns the one before it.
    ///
    /// To drop a waker can be to drop a task that holds another reader, so the caller does that without the lock.
    #[must_use = "to be dropped without the lock"]
    pub(super) fn wait(&mut self, ticket: Ticket, waker: Waker) -> Option<Waker> {
        match self.waiting.get_mut(&ticket) {
            Some(slot) => slot.replace(waker),
            None => Some(waker),
        }
    }

    /// A waiter leaves the queue; returns its waker, to be dropped as in [`wait`](Self::wait).
    #[must_use = "to be dropped without the lock"]
    pub(super) fn leave(&mut self, ticket: Ticket) -> Option<Waker> {
        self.waiting.remove(&ticket).flatten()
    }

    /// The one whose turn it was leaves, perhaps in the middle of a fetch. Returns the waker of the next, and the fetch if
    /// nobody is left to go on with it.
    pub(super) fn pass_on(&mut self, running: Option<Running<O, E>>) -> (Option<Waker>, Option<Running<O, E>>) {
        // One that leaves before it ran has not yet taken what the one before left.
        let running = running.or_else(|| self.left.take());
        let Some((ticket, waker)) = self.waiting.pop_first() else {
            self.turn = None;
            return (None, running);
        };
        self.turn = Some(ticket);
        self.left = running;
        (waker, None)
    }

    /// The wakers of all who wait, who stay in the queue until they have seen for themselves.
    pub(super) fn wake_all(&mut self) -> Vec<Waker> {
        self.waiting.values_mut().filter_map(Option::take).collect()
    }
}
