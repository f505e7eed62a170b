//! Why a wait ended without a newer status.

use crate::{Entry, PodUid};
use std::fmt;

/// A newer-than wait ended without a status that is newer.
///
/// Each carries what the cache held for the pod when the wait ended, so that a caller can serve the last known.
#[non_exhaustive]
#[derive(thiserror::Error)]
pub enum WaitError<S, E> {
    /// The deadline passed first.
    #[error(
        "pod {uid}: no status newer than the time asked for came before the deadline; use the last known one, or look at \
         the container runtime if this goes on",
        uid = last_known.uid()
    )]
    DeadlineExceeded {
        /// The pod's entry when the deadline passed.
        last_known: Entry<S, E>,
    },
    /// The writer of the cache was dropped, so nothing newer will ever come.
    #[error("pod {uid}: no newer status will come, for what fills the cache has ended; use the last known one", uid = last_known.uid())]
    WriterGone {
        /// The pod's entry when the writer was dropped, or when a later wait began.
        last_known: Entry<S, E>,
    },
}

impl<S, E> WaitError<S, E> {
    /// The pod that was waited for.
    pub fn uid(&self) -> &PodUid {
        self.last_known().uid()
    }

    /// What the cache held for the pod when the wait ended.
    pub fn last_known(&self) -> &Entry<S, E> {
        match self {
            Self::DeadlineExceeded { last_known } | Self::WriterGone { last_known } => last_known,
        }
    }

    /// What the cache held for the pod when the wait ended.
    pub fn into_last_known(self) -> Entry<S, E> {
        match self {
            Self::DeadlineExceeded { last_known } | Self::WriterGone { last_known } => last_known,
        }
    }

    /// Whether the deadline passed first.
    pub fn is_deadline_exceeded(&self) -> bool {
        matches!(self, Self::DeadlineExceeded { .. })
    }

    /// Whether the cache's writer is gone.
    pub fn is_writer_gone(&self) -> bool {
        matches!(self, Self::WriterGone { .. })
    }
}

/// Names the variant and the pod; a status may be large.
impl<S, E> fmt::Debug for WaitError<S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::DeadlineExceeded { .. } => "DeadlineExceeded",
            Self::WriterGone { .. } => "WriterGone",
        };
        f.debug_struct(name).field("uid", self.uid()).finish_non_exhaustive()
    }
}
