//! What a read of a [`Node`](crate::Node) gives: the object, how fresh it is, and how the answer came about.

use larder_clock::Timestamp;
use larder_objects::{Freshness, Outcome};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// An object, with all that is known of its freshness.
#[non_exhaustive]
pub struct Answer<T> {
    /// The object.
    pub object: Arc<T>,
    /// When it was last confirmed, by what, and whether it is stale.
    pub freshness: Freshness,
    /// Whether it was held, or asked for.
    pub outcome: Outcome,
    /// Why it is stale, for a person; `None` for a fresh one.
    pub why: Option<String>,
}

impl<T> Answer<T> {
    /// How long ago it was last confirmed.
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
