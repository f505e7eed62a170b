//! What every strategy offers: reference counts, and reads of what is referenced.

use crate::{Effects, FetchError, Freshness, GetError, Held, Object, ObjectKey, Read};
use std::fmt;
use std::sync::Arc;

/// A cache of the objects that are referenced.
///
/// References are counted per namespace and name; what a strategy does with them is its own.
///
/// ```
/// use larder_clock::MonotonicClock;
/// use larder_objects::{DefaultTtl, Store, StoreTtl, TtlStore};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// /// What runs with any strategy.
/// async fn is_there(store: &impl Store, name: &str) -> bool {
///     store.get("shop", name).await.is_ok()
/// }
///
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
/// # let server = larder_objects::fetch_fn(|_, _| async { Ok::<_, Unavailable>(Arc::new(Secret)) });
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let ttl = StoreTtl::new(DefaultTtl, Duration::from_mins(1));
/// let store = TtlStore::new(server, MonotonicClock::new(), ttl);
/// store.add_references("shop", &["db-password"], "0b5c").run();
/// assert!(is_there(&store, "db-password").await);
/// assert_eq!(store.references("shop", "db-password"), 1);
/// assert!(!is_there(&store, "db-login").await);
/// # });
/// ```
pub trait Store: Send + Sync + 'static {
    /// What is cached.
    type Object: Object;
    /// Why a fetch of it failed.
    type Error: FetchError;

    /// Counts one more reference to each of these objects of a namespace, from the pod with that UID. Never waits for a
    /// fetch.
    ///
    /// Reads see the references when this returns. The caller runs the [`Effects`], where it holds no lock.
    fn add_references(&self, namespace: &str, names: &[&str], uid: &str) -> Effects<'_>;

    /// Takes back one reference to each of these objects; with its last one an object is dropped. Without effect where
    /// there is none.
    ///
    /// Reads see this when it returns. The caller runs the [`Effects`], where it holds no lock.
    fn delete_references(&self, namespace: &str, names: &[&str], uid: &str) -> Effects<'_>;

    /// Reads an object.
    ///
    /// # Errors
    ///
    /// [`GetError`]: the object is not referenced, is known to be absent, or could not be fetched.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any time: nothing of it stays behind, and no other reader is held up or loses a
    /// fetch that it waits for.
    fn get(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Read<Self::Object>, GetError<Self::Error>>> + Send;

    /// The number of references to an object, 0 if it is not registered.
    fn references(&self, namespace: &str, name: &str) -> usize;

    /// What is held of an object, with its freshness as it stands. Asks nobody, and does not count as a read. `None` if
    /// nothing is held, or only an absence that is in doubt.
    fn held(&self, namespace: &str, name: &str) -> Option<Held<Self::Object>>;

    /// Puts what is held of an object in doubt, as a new reference does: the next read asks the source. Without effect on
    /// an object that is not referenced. The caller runs the [`Effects`], where it holds no lock.
    fn forget(&self, namespace: &str, name: &str) -> Effects<'_>;

    /// Every registered object and what is known of it, in no particular order. Fetches nothing.
    fn snapshot(&self) -> Vec<ObjectStatus>;
}

impl<S: Store> Store for Arc<S> {
    type Object = S::Object;
    type Error = S::Error;

    fn add_references(&self, namespace: &str, names: &[&str], uid: &str) -> Effects<'_> {
        (**self).add_references(namespace, names, uid)
    }

    fn delete_references(&self, namespace: &str, names: &[&str], uid: &str) -> Effects<'_> {
        (**self).delete_references(namespace, names, uid)
    }

    fn get(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Read<Self::Object>, GetError<Self::Error>>> + Send {
        (**self).get(namespace, name)
    }

    fn references(&self, namespace: &str, name: &str) -> usize {
        (**self).references(namespace, name)
    }

    fn held(&self, namespace: &str, name: &str) -> Option<Held<Self::Object>> {
        (**self).held(namespace, name)
    }

    fn forget(&self, namespace: &str, name: &str) -> Effects<'_> {
        (**self).forget(namespace, name)
    }

    fn snapshot(&self) -> Vec<ObjectStatus> {
        (**self).snapshot()
    }
}

/// What a store knows of an object, for status pages; nothing of its contents.
///
/// ```
/// use larder_objects::{Kept, ObjectKey, ObjectState, ObjectStatus};
/// let status = ObjectStatus::new(ObjectKey::new("shop", "db"), 2, Kept::Polled, ObjectState::NotFetched);
/// assert!(!status.fetching);
/// assert_eq!(status.state.freshness(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectStatus {
    /// Which object.
    pub key: ObjectKey,
    /// The number of references to it.
    pub references: usize,
    /// Whether a fetch of it is under way, or the first list of its reflector.
    pub fetching: bool,
    /// How it is kept up to date.
    pub kept: Kept,
    /// What is known.
    pub state: ObjectState,
}

impl ObjectStatus {
    /// The status of an object that is not being fetched.
    pub const fn new(key: ObjectKey, references: usize, kept: Kept, state: ObjectState) -> Self {
        Self { key, references, fetching: false, kept, state }
    }
}

/// How an object is kept up to date.
///
/// ```
/// assert_eq!(larder_objects::Kept::NamespaceWatched.to_string(), "namespace watch");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kept {
    /// Not at all: each read asks the source.
    Direct,
    /// It is fetched again when it is read and its TTL has passed.
    Polled,
    /// By a watch of its own.
    Watched,
    /// By a watch of its own, which is stopped while nobody reads the object, and resumes with the next read.
    Idle,
    /// It is immutable, and held as it was read.
    Held,
    /// By a watch of its whole namespace.
    NamespaceWatched,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Polled => "polled",
            Self::Watched => "watched",
            Self::Idle => "idle",
            Self::Held => "held (immutable)",
            Self::NamespaceWatched => "namespace watch",
        })
    }
}

/// What is known of an object.
///
/// ```
/// use larder_objects::ObjectState;
/// assert!(ObjectState::NotFetched.freshness().is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectState {
    /// Nothing: it has not been fetched since the last reference was added.
    NotFetched,
    /// It exists.
    Present(Freshness),
    /// The source said that it does not exist.
    Absent(Freshness),
}

impl ObjectState {
    /// When and by what this was last confirmed; `None` if nothing is known.
    pub const fn freshness(&self) -> Option<Freshness> {
        match self {
            Self::NotFetched => None,
            Self::Present(freshness) | Self::Absent(freshness) => Some(*freshness),
        }
    }
}
