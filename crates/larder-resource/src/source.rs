//! What a source knows, shared with everyone who asks: the objects, how fresh they are, and what changes.
//!
//! One [`SourceWriter`] (the reflector of the API server, or a folder of manifests) fills it; any number of
//! [`SourceReader`]s read it and follow its [`Changes`].
//!
//! # Guarantees
//!
//! - *No false absence*: until [`SourceStatus::synced`], a missing object says nothing; afterwards the map is what the
//!   source last had. A list that may be old fills the map, stale, and syncs nothing.
//! - *No gap unseen*: [`Changes`] begins with the whole map and goes on with every change in order. A follower that is
//!   too slow for the buffer gets the whole map again, instead of the changes that it missed.
//! - *Outage*: a source that cannot be reached keeps its map; [`SourceReader::freshness`] says since when it is stale.
//!
//! # Limits
//!
//! The buffer of changes holds [`CHANGES`] of them, shared by all followers; what all have read is dropped.
//!
//! # Cancel safety
//!
//! Every future here can be dropped at any time; nothing is lost or left behind.
//!
//! # Locks
//!
//! One lock guards map and status. It is held for a lookup or a change, never over an `.await`; a change is sent to the
//! followers under it, so that a follower that begins sees the map and exactly the changes after it.

use crate::journal::{Journal, Order, Resource};
use crate::kind::Kind;
use crate::object::{ApiObject, KubeObject};
use larder_clock::{Clock, Timestamp};
use larder_objects::{Freshness, NodeTtl, ObjectKey, ObjectTtl, Source, Ttl};
use parking_lot::RwLock;
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use tokio::sync::{broadcast, watch};

mod changes;
mod writer;

pub use changes::{Change, Changes};
pub use writer::SourceWriter;

/// How many changes wait for a slow follower before it gets the whole map instead.
pub const CHANGES: usize = 256;

/// What a source can hold: [`Pod`](crate::Pod) and [`Node`](crate::Node).
pub trait SourceObject: ApiObject + AsRef<KubeObject> {
    /// The kind that these are.
    const KIND: Kind;

    /// The UID that the container runtime knows it by, for pods.
    fn runtime_uid(&self) -> Option<&str>;

    /// The value of its annotation [`TTL_ANNOTATION`](larder_objects::TTL_ANNOTATION), for nodes.
    fn ttl_annotation(&self) -> Option<&str>;
}

/// The last thing that went wrong with a source.
#[derive(Clone, Debug)]
pub struct Fault {
    /// When.
    pub at: Timestamp,
    /// A short name for the kind of failure, from a fixed set.
    pub class: &'static str,
    /// What, with what to do about it.
    pub error: Arc<dyn Error + Send + Sync>,
}

/// How a source is doing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SourceStatus {
    /// Whether a complete list has arrived that is known to be current: from then on absence means absence.
    pub synced: bool,
    /// Whether the source is being followed right now, and shows signs of life; if not, what it holds is stale.
    pub connected: bool,
    /// Since when it is connected, or not.
    pub since: Timestamp,
    /// When the source last showed that what it holds is current: a list, a change, or a sign of life.
    pub last_contact: Option<Timestamp>,
    /// The last thing that went wrong; kept when all is well again.
    pub last_fault: Option<Fault>,
    /// Failures since all was last well.
    pub failures: u32,
    /// Complete lists so far.
    pub lists: u64,
    /// Watches begun so far.
    pub watches: u64,
    /// Objects held.
    pub objects: usize,
    /// Changes of the map so far: a follower that is told of all of them has seen the map as it is.
    pub changes: u64,
}

struct State<T> {
    objects: BTreeMap<ObjectKey, Arc<T>>,
    /// Only objects with a runtime UID are in here.
    /// Several objects have one if an annotation claims it that anybody may have written (see [`runtime_uid`](crate::runtime_uid)).
    by_runtime_uid: HashMap<Box<str>, Vec<ObjectKey>>,
    status: SourceStatus,
    /// The version that the source has reached; 0 for none.
    version: u64,
    /// Set once somebody has asked for it.
    journal: Option<Journal>,
}

/// How complete a source is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Synced {
    No,
    /// A complete list has arrived, which may be old.
    Listed,
    Yes,
}

impl<T: SourceObject> State<T> {
    fn resources(&self) -> Vec<Arc<Resource>> {
        self.objects.values().map(|object| Arc::clone(object) as Arc<Resource>).collect()
    }
}

struct Shared<T> {
    state: RwLock<State<T>>,
    /// Weak, so that followers end when the writer is gone.
    changes: broadcast::WeakSender<Change<T>>,
    synced: watch::Receiver<Synced>,
    source: Source,
    /// Set only where these are nodes.
    ttl: NodeTtl,
}

/// Makes a source: the writer's end, and a reader to clone.
///
/// `kind` of source is what [`Freshness::source`] will say, such as [`Source::Watch`].
///
/// ```
/// use larder_clock::VirtualClock;
/// use larder_resource::{Pod, source};
/// use std::sync::Arc;
///
/// let (writer, reader) = source::new::<Pod>(larder_objects::Source::Manifest, VirtualClock::default());
/// assert!(!reader.status().synced);
/// let pod = Pod::from_json(br#"{"metadata":{"namespace":"web","name":"p","uid":"u1"}}"#)?;
/// writer.replace([Arc::new(pod)], "7");
/// assert!(reader.status().synced);
/// assert_eq!(reader.version(), 7);
/// assert_eq!(reader.get("web", "p").unwrap().runtime_uid(), "u1");
/// # Ok::<(), larder_resource::DecodeError>(())
/// ```
pub fn new<T: SourceObject>(kind: Source, clock: impl Clock) -> (SourceWriter<T>, SourceReader<T>) {
    let clock: Arc<dyn Clock> = Arc::new(clock);
    let (changes, _) = broadcast::channel(CHANGES);
    let (synced_sender, synced) = watch::channel(Synced::No);
    let status = SourceStatus {
        synced: false,
        connected: false,
        since: clock.now(),
        last_contact: None,
        last_fault: None,
        failures: 0,
        lists: 0,
        watches: 0,
        objects: 0,
        changes: 0,
    };
    let state = State { objects: BTreeMap::new(), by_runtime_uid: HashMap::new(), status, version: 0, journal: None };
    let shared = Arc::new(Shared {
        state: RwLock::new(state),
        changes: changes.downgrade(),
        synced,
        source: kind,
        ttl: NodeTtl::new(),
    });
    (SourceWriter::new(Arc::clone(&shared), changes, synced_sender, clock), SourceReader { shared })
}

/// The reading end of a source. Clones share it; it outlives the writer, with what was last known.
pub struct SourceReader<T> {
    shared: Arc<Shared<T>>,
}

impl<T: SourceObject> SourceReader<T> {
    /// All objects, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.shared.state.read().objects.values().cloned().collect()
    }

    /// One object. None means absent only once the source has [synced](SourceStatus::synced).
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        let key = ObjectKey::new(namespace, name);
        self.shared.state.read().objects.get(&key).cloned()
    }

    /// The object that the container runtime knows by this UID (see [`runtime_uid`](crate::runtime_uid)). Of several, it is the one whose
    /// own UID it is, or else the first that came. Where the runtime tells a namespace and name, [`get`](Self::get) the object of these instead.
    pub fn get_by_runtime_uid(&self, uid: &str) -> Option<Arc<T>> {
        let state = self.shared.state.read();
        let all = || state.by_runtime_uid.get(uid).into_iter().flatten().filter_map(|key| state.objects.get(key));
        all().find(|object| object.object().uid() == uid).or_else(|| all().next()).cloned()
    }

    /// How the source is doing.
    pub fn status(&self) -> SourceStatus {
        let state = self.shared.state.read();
        SourceStatus { objects: state.objects.len(), ..state.status.clone() }
    }

    /// How fresh the whole map is. None as long as the source has said nothing.
    ///
    /// It is confirmed by the source's last sign of life, and stale since the connection was lost.
    pub fn freshness(&self) -> Option<Freshness> {
        let state = self.shared.state.read();
        writer::freshness(&state.status, self.shared.source)
    }

    /// Waits until the source has synced; false if it was given up before that.
    ///
    /// Cancel safe.
    pub async fn synced(&self) -> bool {
        self.shared.synced.clone().wait_for(|synced| *synced == Synced::Yes).await.is_ok()
    }

    /// Follows the source: first the whole map, once there is a complete list, then every change. The first map may be old
    /// while the source has not [synced](SourceStatus::synced).
    pub fn changes(&self) -> Changes<T> {
        Changes::new(Arc::clone(&self.shared))
    }

    /// The version that the source has reached: that of its last list, change or bookmark. 0 before, and for a source without
    /// versions.
    pub fn version(&self) -> u64 {
        self.shared.state.read().version
    }

    /// The [journal](crate::journal) of the source, which the first call begins. Its versions are those of the API server. The
    /// journal of manifests begins with the versions of its objects, or at `base` if there are none.
    pub fn journal(&self, base: u64) -> Journal {
        let mut state = self.shared.state.write();
        if let Some(journal) = &state.journal {
            return journal.clone();
        }
        let (order, version) = match self.shared.source {
            Source::Manifest => (Order::OfThisRun, base),
            _ => (Order::OfServer, state.version),
        };
        let journal = Journal::new(T::KIND, order);
        journal.replace(state.resources(), version);
        journal.begin(version);
        state.journal.insert(journal).clone()
    }

    pub(crate) fn annotated_ttl(&self) -> Option<ObjectTtl> {
        self.shared.ttl.object_ttl()
    }
}

impl<T> Clone for SourceReader<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T: SourceObject> fmt::Debug for SourceReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceReader").field("kind", &T::KIND).field("status", &self.status()).finish()
    }
}
