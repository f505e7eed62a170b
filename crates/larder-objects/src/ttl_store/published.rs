//! The objects that reads find without a lock.
//!
//! A lock-free map beside the registry, which decides what stands in it. In a test that explores interleavings it is a
//! table under a lock, which shuttle sees.

use super::known::Confirmed;
use crate::{ObjectKey, Source};
use larder_clock::Timestamp;
use std::sync::Arc;

#[cfg(shuttle)]
mod explored;
#[cfg(not(shuttle))]
mod lock_free;

#[cfg(shuttle)]
pub(super) use explored::{Published, View};
#[cfg(not(shuttle))]
pub(super) use lock_free::{Published, View};

/// What is published of an object.
pub(super) struct Value<O> {
    pub(super) object: Arc<O>,
    // The two parts of a `Confirmed`, which would be padded to twice their size.
    at: Timestamp,
    source: Source,
}

impl<O> Value<O> {
    fn new(object: Arc<O>, confirmed: Confirmed) -> Self {
        Self { object, at: confirmed.at, source: confirmed.source }
    }

    #[inline]
    pub(super) fn confirmed(&self) -> Confirmed {
        Confirmed { at: self.at, source: self.source }
    }
}
