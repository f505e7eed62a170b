//! The journal of a kind: what became visible, changed and went, in order, for any number of watches.
//!
//! A journal has the objects as they are, and a bounded log of how they became so. A list of the Kubernetes API is a
//! [`Snapshot`] of it. A watch is a [`Follower`], which begins at a snapshot or [resumes](Journal::resume) after a version.
//!
//! # Versions
//!
//! A position in the log has a version: a client that holds this version has seen the log up to the position. Journals
//! differ in where versions come from ([`Order`]):
//!
//! - The changes of the node's pods come from one watch of the API server, in the order of its versions. The version of a
//!   position is that of the last change, or of a later bookmark.
//! - The set of Secrets that pods refer to changes in no order of versions: an old Secret comes into view when a pod
//!   arrives. A position after such a change has a version one above the position before it. The client learns of it by a
//!   bookmark. All other positions have the version of the object that changed.
//! - Manifests get their versions from this run of larder, so no version is of an earlier run. All else is as with Secrets.
//!
//! # Guarantees
//!
//! - *Exact*: a follower gets each change after its position once, in order. A resume is exact or refused ([`ResumeError`]): where
//!   the log does not reach back so far, where a version is not that of one position alone, and where the log no longer has
//!   an object.
//! - *From the future*: a resume from a version that a journal of [`Order::OfServer`] has yet to reach gets nothing until then, and
//!   is exact from there. It ends as [`Ended::Expired`] where the log cannot tell.
//! - *One order*: a snapshot and its version are of the same moment, and a follower from that version continues there.
//! - *Old values of Secrets go*: the log keeps the version of a Secret that was replaced or removed. Its bytes go when the
//!   last connected follower has been given them.
//! - *Bounded*: the log has at most [`ENTRIES`] changes, and objects that are no longer current of at most [`OLD_BYTES`]
//!   together. A follower that needs more is [`Ended::TooSlow`]. No other follower notices.
//!
//! # Limits
//!
//! Nothing is kept beyond the process. Versions that are no numbers count as 0.
//!
//! # Cancel safety
//!
//! [`Follower::next`] may be dropped: the next call returns what it had not returned.
//!
//! # Locks
//!
//! One lock guards objects and log. [`Journal::observe`] reads the cache under it, so a cache's locks come after it. It is
//! never held over an `.await`.
//!
//! # Example
//!
//! ```
//! use larder_resource::journal::{EventType, Journal, Order};
//! use larder_resource::{Kind, KubeObject};
//! use std::sync::Arc;
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let journal = Journal::new(Kind::ConfigMap, Order::AsSeen);
//! let (snapshot, mut follower) = journal.follow();
//! assert!(snapshot.objects.is_empty());
//!
//! let json = br#"{"metadata":{"namespace":"web","name":"site","resourceVersion":"7"}}"#;
//! journal.set(Arc::new(KubeObject::from_json(Kind::ConfigMap, json)?));
//! let entries = follower.next().await.unwrap();
//! assert_eq!((entries[0].event, entries[0].version()), (EventType::Added, 7));
//! assert_eq!(follower.version(), Some(7));
//! # Ok::<(), larder_resource::DecodeError>(()) }).unwrap();
//! ```

use crate::kind::Kind;
use crate::object::KubeObject;
use crate::selector::Selectable;
use bytes::Bytes;
use larder_objects::{ObjectKey, resource_version_order};
use log::Log;
use parking_lot::Mutex;
use std::fmt;
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;

mod log;

/// How many changes a journal keeps for those who resume.
pub const ENTRIES: usize = 1024;
/// How many bytes the objects in the log have at most that are no longer current.
pub const OLD_BYTES: usize = 2 << 20;
/// How many changes a follower gets at once.
const AT_ONCE: usize = 64;

/// An object of any kind, as a journal holds it.
pub type Resource = dyn AsRef<KubeObject> + Send + Sync;

/// Where the versions of a journal come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// One watch of the API server, whose versions order all changes: any version since the beginning can be resumed from.
    OfServer,
    /// Many watches and reads. Only versions that the journal gave can be resumed from.
    AsSeen,
    /// As [`AsSeen`](Self::AsSeen), but no earlier run of larder gave a version that an object has.
    OfThisRun,
}

/// What happened to an object, as in an event of a watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventType {
    /// It came into view.
    Added,
    /// Another version of it arrived.
    Modified,
    /// It went: deleted, or no longer in view.
    Deleted,
}

impl EventType {
    /// As it stands in an event, such as `ADDED`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change in the log.
pub struct Entry {
    /// What happened.
    pub event: EventType,
    /// Of which object.
    pub key: ObjectKey,
    /// What selectors see of the object now; of one that went, at the end.
    pub selectable: Arc<Selectable>,
    /// What selectors saw of it before; `None` for one that was not in view.
    pub before: Option<Arc<Selectable>>,
    /// The object now, or the last state of one that went. `None` once the log has dropped it.
    object: Option<Arc<Resource>>,
    version: u64,
    position: u64,
    encodings: [OnceLock<Bytes>; ENCODINGS],
}

/// How many encodings of an entry can be shared.
pub const ENCODINGS: usize = 4;

impl Entry {
    /// The object now, or the last state of one that went.
    pub fn object(&self) -> Option<&Arc<Resource>> {
        self.object.as_ref()
    }

    /// The version of the object. A client that gets the entry resumes from this version, unless a bookmark follows.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether the position after this entry has another version than the object, so that a client needs a bookmark.
    pub fn needs_bookmark(&self) -> bool {
        self.version != self.position
    }

    /// An encoding of this entry that all followers share: the first to ask makes it. `which` is below [`ENCODINGS`].
    ///
    /// # Errors
    ///
    /// Those of `encode`. The next to ask makes it anew then.
    pub fn try_encoding<E>(&self, which: usize, encode: impl FnOnce() -> Result<Bytes, E>) -> Result<Bytes, E> {
        let shared = self.encodings.get(which);
        if let Some(made) = shared.and_then(OnceLock::get) {
            return Ok(made.clone());
        }
        let made = encode()?;
        // Another follower may have been quicker, with the same bytes.
        Ok(shared.map_or(made.clone(), |shared| shared.get_or_init(|| made).clone()))
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The object may be a Secret.
        f.debug_struct("Entry")
            .field("event", &self.event)
            .field("key", &self.key)
            .field("version", &self.version)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

/// All objects of a journal at one moment.
#[derive(Clone)]
pub struct Snapshot {
    /// The objects, ordered by namespace and name, with what selectors see of them.
    pub objects: Vec<(Arc<Resource>, Arc<Selectable>)>,
    /// The version of the moment.
    pub version: u64,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({} objects at {})", self.objects.len(), self.version)
    }
}

/// Why a resume is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ResumeError {
    /// The log begins after that version.
    #[error("too old resource version: {asked}: larder knows the changes since {oldest} alone; list again")]
    Expired {
        /// The version from which to resume.
        asked: u64,
        /// The oldest one that the log has.
        oldest: u64,
    },
    /// The version is that of a position, and that of an object that has another position.
    #[error("resource version {asked} has two meanings here: list again, and ask for bookmarks in the next watch")]
    Ambiguous {
        /// The version from which to resume.
        asked: u64,
    },
    /// The version is that of no position.
    #[error("unknown resource version: {asked}: larder has not given it since its start; list again")]
    Unknown {
        /// The version from which to resume.
        asked: u64,
    },
    /// A Secret was replaced after that version, and the log no longer has its value.
    #[error(
        "too old resource version: {asked}: larder does not keep the values that Secrets have had since; list again"
    )]
    ValueDropped {
        /// The version from which to resume.
        asked: u64,
    },
}

/// Why a follower ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Ended {
    /// It was too slow: the log has dropped changes that it had not been given.
    #[error("the watch was too slow: list again")]
    TooSlow,
    /// The journal began anew, because versions went back.
    #[error("resource versions went back, as after a restore of etcd: list again")]
    BeganAnew,
    /// It resumed from a version in the future, and the log does not reach back so far, or cannot tell where the version was.
    #[error(transparent)]
    Expired(#[from] ResumeError),
}

/// The journal of one kind; see the [module](self). Clones share it.
#[derive(Clone)]
pub struct Journal {
    shared: Arc<Shared>,
}

struct Shared {
    kind: Kind,
    log: Mutex<Log>,
    /// Changes with every entry, and with every new beginning.
    changed: watch::Sender<()>,
    /// Changes with every version, those of bookmarks too, which followers do not wait for.
    version: watch::Sender<u64>,
}

impl Journal {
    /// An empty journal at version 0.
    pub fn new(kind: Kind, order: Order) -> Self {
        let ((changed, _), (version, _)) = (watch::channel(()), watch::channel(0));
        Self { shared: Arc::new(Shared { kind, log: Mutex::new(Log::new(kind, order)), changed, version }) }
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.shared.kind
    }

    /// Begins at a version, with the objects that are in the journal: a resume from before is refused.
    ///
    /// A journal of [`Order::AsSeen`] begins above the versions of its objects, and one of [`Order::OfThisRun`] at the highest
    /// of these, if it has objects. To be called before anybody follows it.
    pub fn begin(&self, version: u64) {
        self.change(|log| log.begin(version));
    }

    /// Forgets all: followers are [`Ended::BeganAnew`].
    pub fn reset(&self) {
        self.change(Log::reset);
    }

    /// An object is new, or another version of it has arrived. Without effect for the version that is there.
    pub fn set(&self, object: Arc<Resource>) {
        self.change(|log| log.set(object));
    }

    /// An object went. `last` is its last state, with the version at which it went, where the source told it.
    pub fn remove(&self, key: &ObjectKey, last: Option<Arc<Resource>>) {
        self.change(|log| log.remove(key, last));
    }

    /// Takes in what a cache holds of an object: `read` is called under the journal's lock, so what two threads observe is in
    /// one order. `None` means that the object is absent, or not in view. `last` is as in [`remove`](Self::remove).
    pub fn observe(&self, key: &ObjectKey, last: Option<Arc<Resource>>, read: impl FnOnce() -> Option<Arc<Resource>>) {
        self.change(|log| match read() {
            Some(object) => log.set_after(last, object),
            None => log.remove(key, last),
        });
    }

    /// A complete list: what is not in it went. `version` is that of the list, 0 for none.
    pub fn replace(&self, objects: Vec<Arc<Resource>>, version: u64) {
        self.change(|log| log.replace(objects, version));
    }

    /// A bookmark: all changes up to this version are in the journal.
    pub fn progress(&self, version: u64) {
        // Wakes no follower: it changes what the next bookmark of each says.
        let mut log = self.shared.log.lock();
        log.progress(version);
        self.shared.version.send_replace(log.version());
    }

    fn change(&self, change: impl FnOnce(&mut Log)) {
        let mut log = self.shared.log.lock();
        let before = log.end();
        change(&mut log);
        let dropped = log.trim();
        let is_changed = log.end() != before;
        self.shared.version.send_replace(log.version());
        drop(log);
        drop(dropped);
        if is_changed {
            self.shared.changed.send_replace(());
        }
    }

    /// All objects, with the version of the moment.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.log.lock().snapshot()
    }

    /// The version of the last position.
    pub fn version(&self) -> u64 {
        self.shared.log.lock().version()
    }

    /// How many followers there are.
    pub fn followers(&self) -> usize {
        self.shared.log.lock().followers()
    }

    /// All objects, and a follower from that moment.
    pub fn follow(&self) -> (Snapshot, Follower) {
        let mut log = self.shared.log.lock();
        let at = log.end();
        (log.snapshot(), self.follower(&mut log, at))
    }

    /// A follower that gets what happened after a version. In a journal of [`Order::OfServer`], the version may lie in the future.
    ///
    /// # Errors
    ///
    /// [`ResumeError`] where the log cannot tell that exactly.
    pub fn resume(&self, version: u64) -> Result<Follower, ResumeError> {
        let mut log = self.shared.log.lock();
        if log.is_future(version) {
            let end = log.end();
            let mut follower = self.follower(&mut log, end);
            follower.future = Some(version);
            return Ok(follower);
        }
        let at = log.position(version)?;
        Ok(self.follower(&mut log, at))
    }

    /// Waits until the journal has reached a version. To be bounded by the caller: the version may never come.
    ///
    /// Cancel safe.
    pub async fn reached(&self, version: u64) {
        // The sender lives as long as this journal, so there is no error.
        let _ = self.shared.version.subscribe().wait_for(|reached| *reached >= version).await;
    }

    fn follower(&self, log: &mut Log, at: u64) -> Follower {
        let epoch = log.epoch();
        log.enter(at);
        Follower { journal: self.clone(), changed: self.shared.changed.subscribe(), at, epoch, future: None }
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("kind", &self.shared.kind)
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}

/// Follows a journal; see [`Journal::follow`] and [`Journal::resume`].
pub struct Follower {
    journal: Journal,
    changed: watch::Receiver<()>,
    /// The next entry that it gets.
    at: u64,
    epoch: u64,
    /// The version after which it begins, while the journal has yet to reach this version.
    future: Option<u64>,
}

impl Follower {
    /// The next changes, one at least, in order.
    ///
    /// # Errors
    ///
    /// [`Ended`]; it gets nothing more then.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: changes that were not returned are returned by the next call.
    pub async fn next(&mut self) -> Result<Vec<Arc<Entry>>, Ended> {
        loop {
            self.changed.mark_unchanged();
            let entries = self.take()?;
            if !entries.is_empty() {
                return Ok(entries);
            }
            // The sender lives as long as the journal of this follower.
            if self.changed.changed().await.is_err() {
                return Err(Ended::BeganAnew);
            }
        }
    }

    fn take(&mut self) -> Result<Vec<Arc<Entry>>, Ended> {
        let mut log = self.journal.shared.log.lock();
        if log.epoch() != self.epoch {
            return Err(Ended::BeganAnew);
        }
        let (from, most) = match self.future {
            // Nothing before the version is for this follower.
            Some(version) if log.is_future(version) => (log.end(), 0),
            Some(version) => (log.position(version)?, AT_ONCE),
            None => (self.at, AT_ONCE),
        };
        let entries = log.after(from, most).ok_or(Ended::TooSlow)?;
        if most > 0 {
            self.future = None;
        }
        let next = from.saturating_add(u64::try_from(entries.len()).unwrap_or(u64::MAX));
        log.leave(self.at);
        log.enter(next);
        let dropped = log.trim();
        drop(log);
        drop(dropped);
        self.at = next;
        Ok(entries)
    }

    /// The version up to which it has been given everything, for a bookmark. `None` while there is more to get, and before the
    /// version from which it resumes.
    pub fn version(&self) -> Option<u64> {
        let log = self.journal.shared.log.lock();
        let has_begun = self.future.is_none_or(|version| !log.is_future(version));
        (has_begun && log.epoch() == self.epoch && log.end() == self.at).then(|| log.version())
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut log = self.journal.shared.log.lock();
        if log.epoch() == self.epoch {
            log.leave(self.at);
            let dropped = log.trim();
            drop(log);
            drop(dropped);
        }
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").field("journal", &self.journal).field("at", &self.at).finish_non_exhaustive()
    }
}

fn version_of(object: &Resource) -> u64 {
    resource_version_order(object.as_ref().resource_version())
}

#[cfg(test)]
mod tests;
