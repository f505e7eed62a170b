//! What is held of one object, and the rules by which lists, watches and fetches change it: all judgement about order,
//! without its concurrency.
//!
//! Two sources tell of an object: its reflector, and fetches of its own (for a new reference, or while no reflector runs
//! or one fails). Neither waits for the other, so either may bring what the other has already left behind. Every event
//! of a store gets a *stamp*, a number that grows; rules compare stamps to tell what can have seen what, and versions
//! where both sources have an object. Where the order cannot be told, the reflector is believed, whose later events lead
//! to the truth, and the copy becomes *doubtful*: the next read asks by a consistent fetch that begins after both.

use crate::fetched::Fetched;
use crate::{Object, ReadKind, Source, resource_version_order};
use larder_clock::Timestamp;
use std::sync::Arc;

/// A number that grows with each event of a store.
pub(super) type Stamp = u64;

/// What is known of an object.
pub(super) enum Known<O> {
    Nothing,
    /// It does not exist.
    Absent,
    Object(Arc<O>),
}

impl<O> From<Option<Arc<O>>> for Known<O> {
    fn from(object: Option<Arc<O>>) -> Self {
        object.map_or(Self::Absent, Self::Object)
    }
}

impl<O> Known<O> {
    fn into_object(self) -> Option<Arc<O>> {
        match self {
            Self::Object(object) => Some(object),
            Self::Nothing | Self::Absent => None,
        }
    }
}

/// What is held of an object.
pub(super) struct Copy<O> {
    known: Known<O>,
    /// When and by what that was last confirmed, but for the reflector's pulse.
    at: Timestamp,
    source: Source,
    /// When a fetch brought what is held, as long as the reflector may not have come as far.
    ahead: Option<Stamp>,
    /// When the reflector last changed it.
    changed: Stamp,
    /// What is held may be older than this: it was referenced again, or the order of events could not be told.
    doubted: Stamp,
    doubted_at: Timestamp,
    /// What is held is at least as new as this.
    verified: Stamp,
}

/// The stamp and the time of an event.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) stamp: Stamp,
    pub(super) at: Timestamp,
}

/// What came of a fetch.
#[derive(Debug)]
pub(super) enum Settled<E> {
    /// What is held is as new as the fetch.
    Done {
        /// A consistent read brought a lower version than was held when it began.
        went_back: bool,
    },
    /// The API server's cache lags behind what is held.
    Older,
    /// The source could not say.
    Failed(Arc<E>),
    /// The reflector said something else meanwhile: readers look again.
    Again,
}

impl<E> Clone for Settled<E> {
    fn clone(&self) -> Self {
        match self {
            Self::Done { went_back } => Self::Done { went_back: *went_back },
            Self::Older => Self::Older,
            Self::Failed(error) => Self::Failed(Arc::clone(error)),
            Self::Again => Self::Again,
        }
    }
}

impl<O: Object> Copy<O> {
    pub(super) fn new() -> Self {
        Self {
            known: Known::Nothing,
            at: Timestamp::ZERO,
            source: Source::Watch,
            ahead: None,
            changed: 0,
            doubted: 0,
            doubted_at: Timestamp::ZERO,
            verified: 0,
        }
    }

    pub(super) const fn known(&self) -> &Known<O> {
        &self.known
    }

    pub(super) const fn is_known(&self) -> bool {
        !matches!(self.known, Known::Nothing)
    }

    pub(super) const fn object(&self) -> Option<&Arc<O>> {
        match &self.known {
            Known::Object(object) => Some(object),
            Known::Nothing | Known::Absent => None,
        }
    }

    pub(super) const fn at(&self) -> Timestamp {
        self.at
    }

    pub(super) const fn source(&self) -> Source {
        self.source
    }

    pub(super) const fn is_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    pub(super) const fn is_doubtful(&self) -> bool {
        self.doubted > self.verified
    }

    pub(super) const fn doubted(&self) -> Stamp {
        self.doubted
    }

    pub(super) const fn doubted_at(&self) -> Timestamp {
        self.doubted_at
    }

    /// How a fetch has to read.
    pub(super) fn next_read(&self) -> ReadKind {
        if self.is_doubtful() || self.object().is_none() { ReadKind::Consistent } else { ReadKind::ApiServerCache }
    }

    /// From now on, only what is as new as this moment will do.
    pub(super) fn doubt(&mut self, moment: Moment) {
        if !self.is_doubtful() {
            self.doubted_at = moment.at;
        }
        self.doubted = moment.stamp;
    }

    /// The watch has delivered every event up to that version. Nothing shows how far a read that found nothing was.
    pub(super) fn reached(&mut self, order: u64) {
        if self.object().is_some_and(|held| version(held) <= order) {
            self.ahead = None;
        }
    }

    /// Versions are known to have gone back: what the reflector says next counts.
    pub(super) const fn went_back(&mut self) {
        self.ahead = None;
    }

    /// It was current at that time.
    pub(super) fn pulse(&mut self, at: Timestamp) {
        if self.is_known() && at > self.at {
            (self.at, self.source) = (at, Source::Watch);
        }
    }

    /// A consistent list that began after `listed`, or one that may lag. Returns what it displaced, for the caller to drop
    /// where no lock is held.
    pub(super) fn replace(&mut self, object: Option<Arc<O>>, listed: Option<Stamp>, moment: Moment) -> Option<Arc<O>> {
        let listed = listed.unwrap_or(0);
        if listed > self.doubted {
            self.verified = self.verified.max(listed);
        }
        let fetched_since = self.ahead.is_some_and(|fetched| fetched > listed);
        if fetched_since {
            match (self.object(), &object) {
                (None, None) => {}
                (Some(held), Some(new)) if version(new) >= version(held) => {}
                (Some(_), Some(_)) => {
                    // Older than what was fetched, unless versions went back; the next read will tell.
                    self.doubt(moment);
                    return object;
                }
                _ => self.doubt(moment),
            }
        }
        self.take(object, Source::Watch, moment)
    }

    /// An event of the watch: the object as it is now, or none. Returns what it displaced.
    pub(super) fn set(&mut self, object: Option<Arc<O>>, moment: Moment) -> Option<Arc<O>> {
        if self.ahead.is_some() {
            match (self.object(), &object) {
                // The watch is not yet where the fetch was.
                (None, None) => return None,
                (Some(held), Some(new)) if version(new) < version(held) => return object,
                (Some(_), Some(_)) => {}
                _ => self.doubt(moment),
            }
        }
        self.take(object, Source::Watch, moment)
    }

    fn take(&mut self, object: Option<Arc<O>>, source: Source, moment: Moment) -> Option<Arc<O>> {
        self.ahead = None;
        self.changed = moment.stamp;
        (self.at, self.source) = (moment.at, source);
        std::mem::replace(&mut self.known, object.into()).into_object()
    }

    /// A fetch that began at `began` has ended. Returns what came of it, and what it displaced.
    pub(super) fn fetched<E>(
        &mut self,
        fetched: impl Into<Fetched<O, E>>,
        read: (ReadKind, Source),
        began: Stamp,
        moment: Moment,
    ) -> (Settled<E>, Option<Arc<O>>) {
        let (kind, source) = read;
        let object = match fetched.into() {
            Fetched::Object(object) => Some(object),
            Fetched::Absent => None,
            Fetched::Failed(error) => return (Settled::Failed(error), None),
        };
        let consistent = kind == ReadKind::Consistent;
        let undisturbed = self.changed < began;
        let lower = match (self.object(), &object) {
            (Some(held), Some(new)) => version(new) < version(held),
            _ => false,
        };
        if undisturbed && lower && !consistent {
            // The next read asks for the truth.
            self.doubt(moment);
            return (Settled::Older, object);
        }
        if undisturbed || matches!((self.object(), &object), (Some(held), Some(new)) if version(new) > version(held)) {
            let changed = self.changed;
            let displaced = self.take(object, source, moment);
            (self.changed, self.ahead) = (changed, Some(moment.stamp));
            self.verify(consistent, began);
            return (Settled::Done { went_back: lower && undisturbed }, displaced);
        }
        let same = match (self.object(), &object) {
            (Some(held), Some(new)) => version(new) == version(held),
            (held, new) => held.is_none() && new.is_none(),
        };
        if self.object().is_some() == object.is_some() {
            // The reflector has brought what is at least as new.
            self.verify(consistent, began);
        } else if consistent {
            self.doubt(moment);
        }
        if same {
            (self.at, self.source) = (moment.at, source);
            return (Settled::Done { went_back: false }, object);
        }
        (Settled::Again, object)
    }

    fn verify(&mut self, consistent: bool, began: Stamp) {
        if consistent {
            self.verified = self.verified.max(began);
        }
    }

    /// Forgets all; returns what was held.
    pub(super) fn clear(&mut self) -> Option<Arc<O>> {
        std::mem::replace(&mut self.known, Known::Nothing).into_object()
    }
}

fn version<O: Object>(object: &Arc<O>) -> u64 {
    resource_version_order(object.resource_version())
}

#[cfg(test)]
pub(super) mod tests;
