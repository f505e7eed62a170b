//! What the TTL store publishes of an object, for reads that take no lock.

use super::known::Confirmed;
use crate::Source;
use larder_clock::Timestamp;
use std::sync::Arc;

/// What is published of an object.
pub(super) struct Published<O> {
    pub(super) object: Arc<O>,
    // The two parts of a `Confirmed`, which would be padded to twice their size.
    at: Timestamp,
    source: Source,
}

impl<O> Published<O> {
    pub(super) fn new(object: Arc<O>, confirmed: Confirmed) -> Self {
        Self { object, at: confirmed.at, source: confirmed.source }
    }

    #[inline]
    pub(super) fn confirmed(&self) -> Confirmed {
        Confirmed { at: self.at, source: self.source }
    }
}
