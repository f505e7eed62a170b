//! Who is told that the store has changed.
//!
//! A watch of one object by its name is told of that object's changes alone, as API servers do it: on a node with many of
//! them, each change would wake all otherwise.

use super::super::object::{Key, Kind};
use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::sync::watch;

/// Senders, which are told after each change, with no lock held but the one below.
pub(super) struct Watchers {
    /// Counts the changes.
    all: watch::Sender<u64>,
    singles: Mutex<Singles>,
}

#[derive(Default)]
struct Singles {
    /// The revision of the last change, or that of the store when the first watch of the object began.
    last_change: HashMap<(Kind, Key), watch::Sender<u64>>,
    /// Those that nobody listens to any more are dropped when there are so many.
    sweep_at: usize,
}

/// Tells a watch that there is something to look at.
pub(crate) struct Changes {
    changed: watch::Receiver<u64>,
    is_single: bool,
}

impl Watchers {
    pub(super) fn new() -> Self {
        Self { all: watch::channel(0).0, singles: Mutex::default() }
    }

    /// For a watch of all objects, or of one, that begins at this revision of the store or looks back from it.
    pub(super) fn subscribe(&self, only: Option<(Kind, Key)>, revision: u64) -> Changes {
        let Some(id) = only else { return Changes { changed: self.all.subscribe(), is_single: false } };
        let mut singles = self.singles.lock();
        let Singles { last_change, sweep_at } = &mut *singles;
        if last_change.len() >= *sweep_at {
            last_change.retain(|_, sender| sender.receiver_count() > 0);
            *sweep_at = (2 * last_change.len()).max(64);
        }
        let sender = last_change.entry(id).or_insert_with(|| watch::channel(revision).0);
        Changes { changed: sender.subscribe(), is_single: true }
    }

    /// After a change of one object.
    pub(super) fn changed(&self, kind: Kind, key: &Key, revision: u64) {
        if let Some(sender) = self.singles.lock().last_change.get(&(kind, key.clone())) {
            // Two writers may be told of in another order than they wrote.
            sender.send_modify(|last| *last = revision.max(*last));
        }
        self.all.send_modify(|changes| *changes += 1);
    }

    /// After anything else.
    pub(super) fn all_changed(&self) {
        for sender in self.singles.lock().last_change.values() {
            sender.send_modify(|_| {});
        }
        self.all.send_modify(|changes| *changes += 1);
    }
}

impl Changes {
    /// Resolves at the next change; false where there can be none, for the store is gone.
    ///
    /// Cancel safe.
    pub(crate) async fn changed(&mut self) -> bool {
        self.changed.changed().await.is_ok()
    }

    /// What has changed until now is not to be told.
    pub(crate) fn mark_unchanged(&mut self) {
        self.changed.mark_unchanged();
    }

    /// Whether it is certain that nothing that it tells of has changed after a revision.
    pub(crate) fn none_since(&self, revision: u64) -> bool {
        self.is_single && *self.changed.borrow() <= revision
    }
}
