//! What has been observed of one object, and how lists, watches and fetches change it: all judgement about order, without its
//! concurrency. What may replace what is [`order`](crate::order)'s to say.
//!
//! Two sources tell of an object: its reflector, and fetches of its own (for a new reference, or while no reflector runs
//! or one fails). Neither waits for the other, nor one fetch for another, so any may bring what another has already left
//! behind. Where the order is unknown, a watch is believed, whose later events show the present state, and of two fetches the one
//! that began later; and what was observed becomes *doubtful*: the next read asks by a consistent fetch that begins after both.
//!
//! A fetch is *ahead* of a watch that may not have come as far. That ends with an event or bookmark at or above the version
//! that was fetched, with a list that began later, or with versions that are known to have gone back; for an absence, which
//! has no version, with a list alone. A sign of life carries no version and ends nothing.

use crate::fetched::Fetched;
use crate::order::{self, Order, Relation};
use crate::{Object, ReadKind, Source};
use larder_clock::Timestamp;
use std::sync::Arc;

pub(super) use crate::order::Stamp;

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

/// What has been observed of an object.
pub(super) struct Observed<O> {
    known: Known<O>,
    /// When and by what that was last confirmed, but for the reflector's pulse.
    at: Timestamp,
    source: Source,
    /// When that state had first arrived: a look that began later follows it.
    arrived: Stamp,
    /// When the fetch that brought it began; 0 if a watch told it.
    began: Stamp,
    /// The reflector that runs told it, or has come as far since.
    followed: bool,
    /// Versions went back then.
    restored: Stamp,
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
        /// A consistent read that followed brought a lower version than was held.
        went_back: bool,
        /// When it ended.
        at: Stamp,
    },
    /// The API server's cache lags behind what is held.
    Older,
    /// The source could not say.
    Failed(Arc<E>),
    /// Something else arrived meanwhile: readers look again.
    Again,
}

impl<E> Clone for Settled<E> {
    fn clone(&self) -> Self {
        match self {
            Self::Done { went_back, at } => Self::Done { went_back: *went_back, at: *at },
            Self::Older => Self::Older,
            Self::Failed(error) => Self::Failed(Arc::clone(error)),
            Self::Again => Self::Again,
        }
    }
}

impl<O: Object> Observed<O> {
    pub(super) fn new() -> Self {
        Self {
            known: Known::Nothing,
            at: Timestamp::ZERO,
            source: Source::Watch,
            arrived: 0,
            began: 0,
            followed: false,
            restored: 0,
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

    /// Whether the reflector may not have come as far as what is held.
    pub(super) const fn is_ahead(&self) -> bool {
        self.is_known() && !self.followed
    }

    pub(super) const fn arrived(&self) -> Stamp {
        self.arrived
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

    /// What was known before anything was told: whatever a source says next counts.
    pub(super) fn restore(&mut self, object: Arc<O>, at: Timestamp, source: Source, moment: Moment) {
        (self.known, self.at, self.source) = (Known::Object(object), at, source);
        self.doubt(moment);
    }

    /// From now on, only what is as new as this moment will do.
    pub(super) fn doubt(&mut self, moment: Moment) {
        if !self.is_doubtful() {
            self.doubted_at = moment.at;
        }
        self.doubted = moment.stamp;
    }

    /// From now on, only what is as new as this moment will do, unless what is held is known to be as new as that stamp.
    pub(super) fn doubt_before(&mut self, stamp: Stamp, moment: Moment) {
        if self.verified < stamp {
            self.doubt(moment);
        }
    }

    /// The watch has delivered every event up to that version. Nothing shows how far a read that found nothing was.
    pub(super) fn reached(&mut self, version: u64) {
        self.followed |= self.object().is_some_and(|held| order::version(&**held) <= version);
    }

    /// Its reflector runs no more: the next one may begin further back.
    pub(super) const fn unfollow(&mut self) {
        self.followed = false;
    }

    /// Versions are known to have gone back: what the reflector says next counts, and what was asked for before does not.
    pub(super) const fn went_back(&mut self, moment: Moment) {
        (self.followed, self.restored) = (true, moment.stamp);
    }

    /// It was current at that time.
    pub(super) fn pulse(&mut self, at: Timestamp) {
        if self.is_known() && at > self.at {
            (self.at, self.source) = (at, Source::Watch);
        }
    }

    /// A consistent list that began then, or one that may lag. Returns what it displaced, for the caller to drop where no
    /// lock is held.
    pub(super) fn replace(&mut self, object: Option<Arc<O>>, began: Option<Stamp>, moment: Moment) -> Option<Arc<O>> {
        if let Some(began) = began {
            self.verified = self.verified.max(began);
        }
        let relation = match began {
            // A reflector tells one thing after another.
            Some(_) if self.followed => Relation::Follows,
            Some(began) => self.relation(began, true),
            None => Relation::Lags,
        };
        match self.order(object.as_ref(), relation) {
            Order::Newer { went_back } => {
                if went_back {
                    self.restored = moment.stamp;
                }
            }
            // One absence is like another: the watch goes on from this one, which may be from before an object that came and
            // went by the time of the held one.
            Order::Same if object.is_none() => {
                self.followed = false;
                if began.is_some() {
                    self.arrived = moment.stamp;
                    (self.at, self.source) = (moment.at, Source::Watch);
                }
                return None;
            }
            Order::Same => {}
            Order::Older => {
                // Unless versions went back; the next read will tell.
                self.doubt(moment);
                self.followed = false;
                return object;
            }
            Order::Unknown => self.doubt(moment),
        }
        self.follow(object, moment)
    }

    /// An event of the watch: the object as it is now, or none. Returns what it displaced.
    pub(super) fn set(&mut self, object: Option<Arc<O>>, moment: Moment) -> Option<Arc<O>> {
        let relation = if self.followed { Relation::Follows } else { Relation::Lags };
        match self.order(object.as_ref(), relation) {
            Order::Newer { .. } => {}
            // The watch is not yet where the fetch was.
            Order::Same | Order::Older => return object,
            Order::Unknown => self.doubt(moment),
        }
        self.follow(object, moment)
    }

    /// How a look that began then stands to what is held.
    const fn relation(&self, began: Stamp, consistent: bool) -> Relation {
        if began <= self.restored {
            Relation::Outdated
        } else if began <= self.arrived {
            Relation::Overlaps
        } else if consistent {
            Relation::Follows
        } else {
            Relation::Lags
        }
    }

    fn order(&self, new: Option<&Arc<O>>, relation: Relation) -> Order {
        if !self.is_known() {
            return Order::Newer { went_back: false };
        }
        order::order(self.object().map(|held| &**held), new.map(|new| &**new), relation)
    }

    fn follow(&mut self, object: Option<Arc<O>>, moment: Moment) -> Option<Arc<O>> {
        (self.followed, self.began) = (true, 0);
        self.take(object, Source::Watch, moment)
    }

    fn is_same_state(&self, new: Option<&Arc<O>>) -> bool {
        matches!((self.object(), new), (Some(held), Some(new)) if order::is_same_state(&**held, &**new))
    }

    fn take(&mut self, object: Option<Arc<O>>, source: Source, moment: Moment) -> Option<Arc<O>> {
        if !self.is_same_state(object.as_ref()) {
            self.arrived = moment.stamp;
        }
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
        let relation = self.relation(began, consistent);
        match self.order(object.as_ref(), relation) {
            Order::Newer { went_back } => {
                if went_back {
                    self.restored = moment.stamp;
                }
                // The watch told that very state, if it did, and goes on from there.
                self.followed &= self.is_same_state(object.as_ref());
                self.began = began;
                let displaced = self.take(object, source, moment);
                self.verify(consistent, began);
                (Settled::Done { went_back, at: moment.stamp }, displaced)
            }
            Order::Same => {
                // One absence is like another: it may have been there between the two, and a watch that lags tells of that yet.
                if object.is_none() {
                    self.arrived = moment.stamp;
                    self.followed &= !consistent;
                }
                (self.at, self.source) = (moment.at, source);
                self.verify(consistent, began);
                (Settled::Done { went_back: false, at: moment.stamp }, object)
            }
            Order::Older if relation == Relation::Lags => {
                // The next read asks, consistently.
                self.doubt(moment);
                (Settled::Older, object)
            }
            Order::Older => {
                // What is held came after what this saw.
                self.verify(consistent, began);
                (Settled::Again, object)
            }
            Order::Unknown => {
                if consistent || relation == Relation::Lags {
                    self.doubt(moment);
                }
                let began_later = consistent && relation == Relation::Overlaps && !self.followed && began > self.began;
                if !began_later {
                    return (Settled::Again, object);
                }
                self.began = began;
                (Settled::Again, self.take(object, source, moment))
            }
        }
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

#[cfg(test)]
pub(super) mod tests;
