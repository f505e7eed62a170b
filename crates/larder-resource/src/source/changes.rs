//! Following a source without a buffer that grows.

use super::{Shared, SourceObject, Synced};
use std::fmt;
use std::sync::Arc;
use tokio::sync::broadcast::{self, error::RecvError};

/// What a follower of a source is told.
pub enum Change<T> {
    /// All that the source holds: at the beginning, and whenever changes were missed. What is not in it is gone.
    Resync(Vec<Arc<T>>),
    /// An object is new, or another version of it has arrived. An object of the same name and another UID is told as
    /// the removal of the old and a new one.
    Set {
        /// The object now.
        new: Arc<T>,
        /// The version before; none for a new object.
        old: Option<Arc<T>>,
    },
    /// An object is gone; its last known version.
    Removed(Arc<T>),
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Resync(all) => Self::Resync(all.clone()),
            Self::Set { new, old } => Self::Set { new: Arc::clone(new), old: old.clone() },
            Self::Removed(old) => Self::Removed(Arc::clone(old)),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Change<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resync(all) => f.debug_tuple("Resync").field(all).finish(),
            Self::Set { new, .. } => f.debug_tuple("Set").field(new).finish(),
            Self::Removed(old) => f.debug_tuple("Removed").field(old).finish(),
        }
    }
}

/// A follower of a source, from [`SourceReader::changes`](super::SourceReader::changes).
pub struct Changes<T> {
    shared: Arc<Shared<T>>,
    /// None while the whole map is due.
    receiver: Option<broadcast::Receiver<Change<T>>>,
    resyncs: u64,
}

impl<T: SourceObject> Changes<T> {
    pub(super) fn new(shared: Arc<Shared<T>>) -> Self {
        Self { shared, receiver: None, resyncs: 0 }
    }

    /// The next change; none when the source's writer is gone.
    ///
    /// Cancel safe: a change that was not returned is returned by the next call.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use larder_clock::VirtualClock;
    /// use larder_resource::{Change, Pod, source};
    /// let (writer, reader) = source::new::<Pod>(larder_objects::Source::Watch, VirtualClock::default());
    /// let mut changes = reader.changes();
    /// writer.replace([], "");
    /// assert!(matches!(changes.next().await, Some(Change::Resync(all)) if all.is_empty()));
    /// let pod = Pod::from_json(br#"{"metadata":{"namespace":"web","name":"p"}}"#)?;
    /// writer.set(pod.into());
    /// assert!(matches!(changes.next().await, Some(Change::Set { new, old: None }) if new.name() == "p"));
    /// drop(writer);
    /// assert!(changes.next().await.is_none());
    /// # Ok::<(), larder_resource::DecodeError>(()) }).unwrap();
    /// ```
    pub async fn next(&mut self) -> Option<Change<T>> {
        if let Some(receiver) = &mut self.receiver {
            match receiver.recv().await {
                Ok(change) => return Some(change),
                Err(RecvError::Closed) => return None,
                Err(RecvError::Lagged(_)) => self.receiver = None,
            }
        }
        self.shared.synced.clone().wait_for(|synced| *synced != Synced::No).await.ok()?;
        let state = self.shared.state.read();
        // Under the lock: what is in the map is not sent, and what is sent is not in the map.
        self.receiver = Some(self.shared.changes.upgrade()?.subscribe());
        self.resyncs += 1;
        Some(Change::Resync(state.objects.values().cloned().collect()))
    }

    /// How often this follower was too slow and got the whole map again.
    pub fn gaps(&self) -> u64 {
        self.resyncs.saturating_sub(1)
    }
}

impl<T: SourceObject> fmt::Debug for Changes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("kind", &T::KIND).field("gaps", &self.gaps()).finish_non_exhaustive()
    }
}
