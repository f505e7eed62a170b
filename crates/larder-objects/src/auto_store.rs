//! The adaptive store: polls what is read rarely, watches what is read often, holds what cannot change.
//!
//! # The rules
//!
//! 1. An **immutable** object, once read, is held: it is neither polled nor watched.
//! 2. An object starts **polled**: it is fetched when it is read and its TTL has passed. One that would be polled again
//!    within four TTLs of its last poll (or of 10 s, if that is longer) is **watched** instead; so is one that is not there,
//!    when it is asked for again, and one that is [mounted](AutoStore::set_mounted), at its first read. A watched object
//!    that nobody has read for [`WatchOptions::max_idle`] goes back to being polled.
//! 3. Where larder may watch the **namespace** (asked once in ten minutes), more than half of the namespace's objects are
//!    referenced and these are at least [`AutoOptions::namespaces_from`], one watch keeps them all; until fewer than a
//!    quarter are, nobody has read any for `max_idle`, or it has failed for as long.
//! 4. No answer that is called fresh is **staler than max(TTL, 10 s)**: a watch that has been silent for longer is backed
//!    by a fetch at the read; so is one that fails, once the TTL has passed since what it held was last confirmed, and one
//!    that has not synced within 10 s.
//!
//! # Guarantees
//!
//! Those of the [watch store](crate::WatchStore), and rule 4. What is held of an immutable object counts as fresh: that
//! the object was deleted is seen when a pod refers to it anew.
//!
//! # Limits, cancel safety, locks
//!
//! As the watch store's. The questions of rule 3 are asked by readers, who share them, and who wait for the answer
//! before they cause a request of their own.
//!
//! # Differs from kubelet
//!
//! The kubelet has no such strategy; `ObjectStatus::kept` tells what was chosen for each object.

use crate::reflector_store::Rules;
use crate::{Fetch, ObjectTtl, ReflectorStore, Reflectors, StoreTtl, Ttl, WatchOptions};
use larder_clock::Clock;
use std::sync::Arc;

/// How an [`AutoStore`] chooses.
///
/// ```
/// use larder_objects::AutoOptions;
/// // Never a namespace as a whole.
/// let options = AutoOptions::default().with_namespaces_from(None);
/// assert!(options.watch.hold_immutable);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AutoOptions {
    /// How watches are kept.
    pub watch: WatchOptions,
    /// How many objects of a namespace have to be referenced until a watch of the whole namespace is considered, 3 by
    /// default: to ask costs two requests. None: never.
    pub namespaces_from: Option<usize>,
}

impl Default for AutoOptions {
    fn default() -> Self {
        Self { watch: WatchOptions::default(), namespaces_from: Some(3) }
    }
}

impl AutoOptions {
    /// Sets [`watch`](Self::watch).
    #[must_use]
    pub const fn with_watch(mut self, watch: WatchOptions) -> Self {
        self.watch = watch;
        self
    }

    /// Sets [`namespaces_from`](Self::namespaces_from).
    #[must_use]
    pub const fn with_namespaces_from(mut self, namespaces_from: Option<usize>) -> Self {
        self.namespaces_from = namespaces_from;
        self
    }
}

/// Objects are polled by the TTL until a watch is worth it.
pub struct ByTtl<T> {
    ttl: StoreTtl<T>,
    namespaces_from: Option<usize>,
}

impl<T: Ttl> Rules for ByTtl<T> {
    const POLLS: bool = true;

    fn polling(&self) -> Option<ObjectTtl> {
        Some(self.ttl.now())
    }

    fn namespaces_from(&self) -> Option<usize> {
        self.namespaces_from
    }
}

/// A store that chooses for each object how to keep it, for the fewest requests and watches.
///
/// ```
/// use larder_clock::{Timestamp, VirtualClock};
/// use larder_objects::{AutoOptions, AutoStore, DefaultTtl, Kept, Store, StoreTtl, fetch_fn};
/// use larder_objects::{ReadKind, ReflectorSink, Reflectors, Scope};
/// use std::sync::Arc;
/// use std::time::Duration;
/// # struct Secret;
/// # impl larder_objects::Object for Secret {
/// #     fn resource_version(&self) -> &str {
/// #         "1"
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
/// /// A source in which every object is there, and no namespace may be watched.
/// struct Constant;
/// impl Reflectors for Constant {
///     type Object = Secret;
///     type Error = Unavailable;
///     type Reflector = ();
///     fn start(&self, _: &Scope, _: Option<String>, sink: ReflectorSink<Secret, Unavailable>) {
///         sink.replace(vec![("db".to_owned(), Arc::new(Secret))], ReadKind::Consistent);
///     }
///     fn may_watch(&self, _: &str) -> impl Future<Output = bool> + Send + 'static {
///         std::future::ready(false)
///     }
///     fn count(&self, _: &str) -> impl Future<Output = Result<u64, Unavailable>> + Send + 'static {
///         std::future::ready(Err(Unavailable))
///     }
/// }
///
/// let fetch = fetch_fn(|_, _| async { Ok::<_, Unavailable>(Arc::new(Secret)) });
/// let clock = VirtualClock::new(Timestamp::ZERO);
/// let ttl = StoreTtl::new(DefaultTtl, Duration::from_mins(1));
/// let store = AutoStore::new(fetch, Constant, clock.clone(), ttl, AutoOptions::default());
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// store.add_references("shop", &["db"], "0b5c").run();
/// store.get("shop", "db").await.unwrap();
/// assert_eq!(store.snapshot()[0].kept, Kept::Polled);
/// // It is read again and again.
/// clock.advance(Duration::from_secs(90));
/// store.get("shop", "db").await.unwrap();
/// assert_eq!(store.snapshot()[0].kept, Kept::Watched);
/// # });
/// ```
pub type AutoStore<F, R, C, T> = ReflectorStore<F, R, C, ByTtl<T>>;

impl<F: Fetch, R: Reflectors<Object = F::Object, Error = F::Error>, C: Clock, T: Ttl> AutoStore<F, R, C, T> {
    /// An empty store.
    pub fn new(fetch: F, reflectors: R, clock: C, ttl: StoreTtl<T>, options: AutoOptions) -> Arc<Self> {
        let AutoOptions { watch, namespaces_from } = options;
        let rules = ByTtl { ttl, namespaces_from };
        Self::with_rules(fetch, reflectors, clock, rules, watch)
    }
}
