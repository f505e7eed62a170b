//! The watch store: a reflector for each object, from its first reference to its last.
//!
//! # Guarantees
//!
//! - **Synced before answered**: what a reader gets as fresh was told by a reflector that has listed the object, or by a
//!   consistent read. 'Not found' is only said by either of them; it flips as soon as the watch tells of the object.
//! - **As new as the reference**: after a new reference to an object that is watched, or held, already, the next read is
//!   at least as new as the registration: a consistent read of its own ([`WatchStats::verifying_reads`]), unless a list
//!   that began later has come first. Its readers share it ([`WatchOptions::first_read_at_least_as_new`]).
//! - **Nothing for ever**: an object that was deleted and created again is another object, immutable or not; a version
//!   lower than the one held is believed where a list or a consistent read that began later brings it.
//! - **What is known outlives failures**: while the reflector fails, readers get what is held, marked as stale since
//!   then; where nothing is held, all of them get the same failure, at once.
//! - **Few watches**: an immutable object is watched no more once it has been read, and one that nobody has read for
//!   [`WatchOptions::max_idle`] is not watched until the next read; neither loses what is held.
//!
//! # Limits
//!
//! The store spawns nothing and waits for no time of its own: reflectors are the implementor's of [`Reflectors`], fetches
//! are polled by their readers, and [`stop_idle`](WatchStore::stop_idle) is called by the owner. A watch that is silent
//! counts as good until its reflector says that it failed. A fetch that panics makes the others that wait for it panic, and
//! the waker of one that waits for a fetch must not own another that waits for the same.
//! Memory grows with the referenced objects and the readers that wait, and with nothing else.
//!
//! # Cancel safety
//!
//! A reader may be dropped at any time. Its fetch goes on with the next one that waits for it, or is dropped.
//!
//! # Locks
//!
//! One, chosen by the object's namespace; reads of synced objects take none. None is held while foreign code runs, but for
//! the clock, the version of an object and the class of an error.
//!
//! # Differs from kubelet
//!
//! (`pkg/kubelet/util/manager/watch_based_manager.go`)
//!
//! - A reader waits for the first list as long as it likes, instead of one second, and may go away.
//! - While a reflector fails, answers say so.
//! - A new reference makes the next read ask.
//! - A held immutable object is looked at again when a new pod refers to it.
//! - Taking back a reference that a pod does not have changes nothing.

use crate::reflector_store::Rules;
use crate::{Fetch, HashSeed, ObjectTtl, ReflectorStore, Reflectors};
use larder_clock::Clock;
use std::sync::Arc;
use std::time::Duration;

/// What a [`WatchStore`] does beyond watching.
///
/// ```
/// use larder_objects::WatchOptions;
/// use std::time::Duration;
///
/// let sync_period = Duration::from_secs(10);
/// let options = WatchOptions::default().with_max_idle(5 * sync_period);
/// // Raised to a minute when it is used.
/// assert!(options.max_idle < options.min_idle);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchOptions {
    /// How long nobody has to read an object until its watch is stopped. The kubelet's is 5 sync periods, so that only
    /// what is not mounted is stopped; the default is 5 minutes, after its default sync period.
    pub max_idle: Duration,
    /// What `max_idle` is raised to if it is shorter: a minute, as in the kubelet. Tests shorten it.
    pub min_idle: Duration,
    /// Whether an immutable object is held without a watch once it has been read, as in the kubelet: true. Its contents
    /// cannot change; that it was deleted is seen when a pod refers to it anew.
    pub hold_immutable: bool,
    /// Whether a new reference to an object that is kept already makes the next read at least as new, by a consistent
    /// read: true. The kubelet's watch strategy does without, and starts new pods with what its watch has not yet brought.
    pub first_read_at_least_as_new: bool,
    /// What the store's hash tables are seeded with: at random by default.
    pub hash_seed: HashSeed,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            max_idle: Duration::from_mins(5),
            min_idle: Duration::from_mins(1),
            hold_immutable: true,
            first_read_at_least_as_new: true,
            hash_seed: HashSeed::default(),
        }
    }
}

impl WatchOptions {
    /// Sets [`max_idle`](Self::max_idle).
    #[must_use]
    pub const fn with_max_idle(mut self, max_idle: Duration) -> Self {
        self.max_idle = max_idle;
        self
    }

    /// Sets [`min_idle`](Self::min_idle).
    #[must_use]
    pub const fn with_min_idle(mut self, min_idle: Duration) -> Self {
        self.min_idle = min_idle;
        self
    }

    /// Sets [`hold_immutable`](Self::hold_immutable).
    #[must_use]
    pub const fn with_hold_immutable(mut self, hold_immutable: bool) -> Self {
        self.hold_immutable = hold_immutable;
        self
    }

    /// Sets [`first_read_at_least_as_new`](Self::first_read_at_least_as_new).
    #[must_use]
    pub const fn with_first_read_at_least_as_new(mut self, first_read_at_least_as_new: bool) -> Self {
        self.first_read_at_least_as_new = first_read_at_least_as_new;
        self
    }

    /// Sets [`hash_seed`](Self::hash_seed).
    #[must_use]
    pub const fn with_hash_seed(mut self, hash_seed: HashSeed) -> Self {
        self.hash_seed = hash_seed;
        self
    }
}

/// What a store that watches has done, and holds: for metrics.
///
/// ```
/// assert_eq!(larder_objects::WatchStats::default().watching, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchStats {
    /// Reflectors of single objects that run.
    pub watching: usize,
    /// Reflectors of namespaces that run.
    pub watching_namespaces: usize,
    /// Objects that are kept by the reflector of their namespace.
    pub in_namespaces: usize,
    /// Objects that are polled.
    pub polled: usize,
    /// Objects whose watch is stopped because nobody reads them.
    pub idle: usize,
    /// Immutable objects that are held without a watch.
    pub held: usize,
    /// Reflectors that were started, of both kinds.
    pub started: u64,
    /// Watches that were stopped because nobody read their object.
    pub stopped_idle: u64,
    /// Consistent reads for a new reference, or because the order of a fetch and a watch could not be told.
    pub verifying_reads: u64,
    /// Fetches by TTL, or in the place of a watch that failed.
    pub polls: u64,
    /// Resource versions that went back.
    pub versions_went_back: u64,
}

/// Each object has a reflector: nothing is polled, and no namespace is watched as a whole.
pub struct WatchAll;

impl Rules for WatchAll {
    const POLLS: bool = false;

    fn polling(&self) -> Option<ObjectTtl> {
        None
    }

    fn namespaces_from(&self) -> Option<usize> {
        None
    }
}

/// A store that keeps a reflector for each referenced object: the kubelet's `Watch` strategy.
///
/// `F` makes the consistent reads that a new reference asks for.
///
/// ```
/// use larder_clock::MonotonicClock;
/// use larder_objects::{ReadKind, ReflectorSink, Reflectors, Scope};
/// use larder_objects::{Store, WatchOptions, WatchStore, fetch_fn};
/// use std::sync::Arc;
/// # struct Secret(&'static str);
/// # impl larder_objects::Object for Secret {
/// #     fn resource_version(&self) -> &str {
/// #         self.0
/// #     }
/// #     fn uid(&self) -> &str {
/// #         ""
/// #     }
/// #     fn is_immutable(&self) -> bool {
/// #         false
/// #     }
/// # }
/// # #[derive(Debug, thiserror::Error)]
/// # #[error("unavailable")]
/// # struct Unavailable;
/// # impl larder_objects::FetchError for Unavailable {
/// #     fn is_not_found(&self) -> bool {
/// #         false
/// #     }
/// #     fn class(&self) -> &'static str {
/// #         "failed"
/// #     }
/// # }
///
/// /// A source in which every object is there, in version 1.
/// struct Constant;
/// impl Reflectors for Constant {
///     type Object = Secret;
///     type Error = Unavailable;
///     type Reflector = ();
///     fn start(&self, _: &Scope, _: Option<String>, sink: ReflectorSink<Secret, Unavailable>) {
///         sink.replace(vec![("db".to_owned(), Arc::new(Secret("1")))], ReadKind::Consistent);
///     }
/// #     fn may_watch(&self, _: &str) -> impl Future<Output = bool> + Send + 'static {
/// #         std::future::ready(false)
/// #     }
/// #     fn count(&self, _: &str) -> impl Future<Output = Result<u64, Unavailable>> + Send + 'static {
/// #         std::future::ready(Err(Unavailable))
/// #     }
/// }
///
/// let fetch = fetch_fn(|_, _| async { Ok::<_, Unavailable>(Arc::new(Secret("2"))) });
/// let store = WatchStore::new(fetch, Constant, MonotonicClock::new(), WatchOptions::default());
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// store.add_references("shop", &["db"], "0b5c").run();
/// assert_eq!((store.watching(), store.get("shop", "db").await.unwrap().object.0), (1, "1"));
/// // What a new pod reads is at least as new as the pod.
/// store.add_references("shop", &["db"], "77aa").run();
/// assert_eq!(store.get("shop", "db").await.unwrap().object.0, "2");
/// # });
/// ```
pub type WatchStore<F, R, C> = ReflectorStore<F, R, C, WatchAll>;

impl<F, R, C> WatchStore<F, R, C>
where
    F: Fetch,
    R: Reflectors<Object = F::Object, Error = F::Error>,
    C: Clock,
{
    /// An empty store.
    pub fn new(fetch: F, reflectors: R, clock: C, options: WatchOptions) -> Arc<Self> {
        Self::with_rules(fetch, reflectors, clock, WatchAll, options)
    }

    /// The number of reflectors that run.
    pub fn watching(&self) -> usize {
        self.stats().watching
    }
}
