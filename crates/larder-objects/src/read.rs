//! What a store gives: the object that was read, or what it holds without asking anybody, each with its freshness.

use crate::{FreshState, Freshness, GetError, ObjectKey, StaleReason};
use larder_clock::Timestamp;
use std::fmt;
use std::sync::Arc;

/// An object, and how fresh it is.
///
/// ```
/// use larder_clock::Timestamp;
/// use larder_objects::{FreshState, Freshness, Read, Source};
/// use std::sync::Arc;
///
/// let freshness = Freshness::new(Timestamp::ZERO, Source::Manifest, FreshState::Fresh);
/// let read = Read::new(Arc::new("contents"), freshness);
/// // What it holds may be a Secret: it is not printed.
/// assert!(!format!("{read:?}").contains("contents"));
/// ```
#[non_exhaustive]
pub struct Read<O> {
    /// The object, shared with the store.
    pub object: Arc<O>,
    /// How fresh it is.
    pub freshness: Freshness,
    /// Whether it was held, or asked for.
    pub outcome: Outcome,
}

impl<O> Read<O> {
    /// An object that was held, and how fresh it is.
    #[inline]
    pub const fn new(object: Arc<O>, freshness: Freshness) -> Self {
        Self { object, freshness, outcome: Outcome::Held }
    }

    /// The same, with another outcome.
    #[must_use]
    pub const fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = outcome;
        self
    }
}

impl<O> Clone for Read<O> {
    fn clone(&self) -> Self {
        Self { object: Arc::clone(&self.object), ..*self }
    }
}

impl<O> fmt::Debug for Read<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Read")
            .field("freshness", &self.freshness)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

/// How an answer came about.
///
/// ```
/// use larder_clock::Timestamp;
/// use larder_objects::{FreshState, Freshness, Outcome, Read, Source};
/// use std::sync::Arc;
///
/// let freshness = Freshness::new(Timestamp::ZERO, Source::LiveRead, FreshState::Fresh);
/// assert_eq!(Read::new(Arc::new(()), freshness).outcome, Outcome::Held);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was held; nothing was asked.
    Held,
    /// It was not held, and was fetched for this read.
    Fetched,
    /// It was held and stale, and was confirmed or replaced for this read.
    Refreshed,
    /// It was held and stale; asking for it again failed or took too long.
    FetchFailed,
}

impl Outcome {
    /// The outcome of a read that asks for an object, if the source answers.
    pub(crate) const fn of_asking(is_held: bool) -> Self {
        if is_held { Self::Refreshed } else { Self::Fetched }
    }
}

/// What is held of an object: the object, or that it does not exist.
///
/// ```
/// use larder_clock::Timestamp;
/// use larder_objects::{FreshState, Freshness, Held, Source};
/// use std::sync::Arc;
///
/// let freshness = Freshness::new(Timestamp::ZERO, Source::LiveRead, FreshState::Fresh);
/// let held = Held::new(Some(Arc::new("contents")), freshness);
/// assert!(held.object.is_some());
/// // It may be a Secret: it is not printed.
/// assert!(!format!("{held:?}").contains("contents"));
/// ```
#[non_exhaustive]
pub struct Held<O> {
    /// The object, shared with the store; `None` if it is known to be absent.
    pub object: Option<Arc<O>>,
    /// How fresh that is, as it stands.
    pub freshness: Freshness,
}

impl<O> Held<O> {
    /// What is held, and how fresh it is.
    pub const fn new(object: Option<Arc<O>>, freshness: Freshness) -> Self {
        Self { object, freshness }
    }

    /// The same, stale for that reason: since it was, or from then on.
    pub(crate) const fn into_stale(mut self, from: Timestamp, reason: StaleReason) -> Self {
        let since = match self.freshness.state {
            FreshState::Fresh => from,
            FreshState::Stale { since, .. } => since,
        };
        self.freshness.state = FreshState::Stale { since, reason };
        self
    }

    /// The answer of a read.
    pub(crate) fn into_answer<E>(self, key: &ObjectKey, outcome: Outcome) -> Result<Read<O>, GetError<E>> {
        let Self { object, freshness } = self;
        match object {
            Some(object) => Ok(Read { object, freshness, outcome }),
            None => Err(GetError::NotFound { key: key.clone(), freshness }),
        }
    }
}

impl<O> Clone for Held<O> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), freshness: self.freshness }
    }
}

impl<O> fmt::Debug for Held<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("is_there", &self.object.is_some())
            .field("freshness", &self.freshness)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;

    #[test]
    fn a_read_is_printed_without_its_object() {
        let freshness = Freshness::new(Timestamp::from_nanos(5), Source::Watch, FreshState::Fresh);
        let read = Read::new(Arc::new("hunter2"), freshness).with_outcome(Outcome::Fetched);
        assert_eq!(
            format!("{read:?}"),
            "Read { freshness: Freshness { confirmed_at: 5ns, source: Watch, state: Fresh, fresh_for: None }, outcome: Fetched, .. }"
        );
        let copy = read.clone();
        assert!(Arc::ptr_eq(&copy.object, &read.object) && copy.freshness == read.freshness);
        assert_eq!(copy.outcome, Outcome::Fetched);
        for (object, printed) in [(None, "Held { is_there: false"), (Some(read.object), "Held { is_there: true")] {
            let held = Held::new(object, freshness);
            let text = format!("{:?}", held.clone());
            assert!(text.starts_with(printed) && !text.contains("hunter2"), "{text}");
            assert_eq!((held.clone().object.is_some(), held.clone().freshness), (held.object.is_some(), freshness));
        }
    }
}
