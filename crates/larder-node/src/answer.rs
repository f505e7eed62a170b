//! The result of a successful read of a [`Node`](crate::Node): the object, its freshness, and the outcome of the read.

use larder_clock::Timestamp;
use larder_objects::{Freshness, Outcome};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// An object with its freshness.
#[non_exhaustive]
pub struct Answer<T> {
    /// The object.
    pub object: Arc<T>,
    /// When the object was last confirmed, by which source, and whether it is stale.
    pub freshness: Freshness,
    /// Whether the object was held or fetched.
    pub outcome: Outcome,
    /// Why the object is stale, for a person; `None` if it is fresh.
    pub why: Option<String>,
}

impl<T> Answer<T> {
    /// How long ago the object was last confirmed.
    pub fn age(&self, now: Timestamp) -> Duration {
        self.freshness.age(now)
    }
}

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Self {
        Self { object: Arc::clone(&self.object), why: self.why.clone(), ..*self }
    }
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The object may be a Secret.
        f.debug_struct("Answer")
            .field("freshness", &self.freshness)
            .field("outcome", &self.outcome)
            .field("why", &self.why)
            .finish_non_exhaustive()
    }
}
