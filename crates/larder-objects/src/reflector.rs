//! How a store learns of changes: the reflectors that it starts and stops, and the sinks that they write to.
//!
//! # Guarantees
//!
//! - *Generations*: each reflector has a sink of its own. A sink that outlives its reflector does nothing.
//! - *Order by what was read*: each list says how current its read was, and each bookmark how far the watch has come. A sign
//!   of life ([`confirm`](ReflectorSink::confirm)) says neither, and makes no object newer.
//! - *No waiting*: a sink's methods never wait for I/O or for readers. Any thread may call them, also while the reflector is
//!   being started. One reflector calls them one after another, in the order of what happened.
//!
//! # Limits
//!
//! [`Reflectors::start`] may call the sink. The drop of a reflector must not wait for a call of its sink.

use crate::{FetchError, Object, ObjectKey, ReadKind};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What a reflector keeps up to date.
///
/// ```
/// use larder_objects::{ObjectKey, Scope};
/// let object = Scope::Object(ObjectKey::new("shop", "db"));
/// assert_eq!((object.namespace(), &*object.to_string()), ("shop", "shop/db"));
/// assert_eq!(Scope::Namespace("shop".into()).to_string(), "shop/*");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One object.
    Object(ObjectKey),
    /// All objects of a namespace.
    Namespace(Box<str>),
}

impl Scope {
    /// The namespace of the object or objects.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Object(key) => key.namespace(),
            Self::Namespace(namespace) => namespace,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(key) => key.fmt(f),
            Self::Namespace(namespace) => write!(f, "{namespace}/*"),
        }
    }
}

/// Starts reflectors: a list and a watch each, of one object or of a whole namespace.
///
/// ```
/// use larder_objects::{FetchError, Object, ObjectKey, ReadKind, ReflectorSink, Reflectors, Scope};
/// use std::sync::Arc;
///
/// # struct Secret;
/// # impl Object for Secret {
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
/// # impl FetchError for Unavailable {
/// #     fn is_not_found(&self) -> bool {
/// #         false
/// #     }
/// #     fn class(&self) -> &'static str {
/// #         "failed"
/// #     }
/// # }
/// /// A source in which each namespace has one object, `db`, which never changes.
/// struct Constant;
/// impl Reflectors for Constant {
///     type Object = Secret;
///     type Error = Unavailable;
///     type Reflector = ();
///     fn start(&self, _: &Scope, _: Option<String>, sink: ReflectorSink<Secret, Unavailable>) {
///         sink.replace(vec![("db".to_owned(), Arc::new(Secret))], ReadKind::Consistent);
///     }
///     fn may_watch(&self, _: &str) -> impl Future<Output = bool> + Send + 'static {
///         std::future::ready(true)
///     }
///     fn count(&self, _: &str) -> impl Future<Output = Result<u64, Unavailable>> + Send + 'static {
///         std::future::ready(Ok(1))
///     }
/// }
/// # let (sink, events) = ReflectorSink::channel();
/// # Constant.start(&Scope::Object(ObjectKey::new("shop", "db")), None, sink);
/// # assert!(events.try_recv().is_ok());
/// ```
pub trait Reflectors: Send + Sync + 'static {
    /// What is kept.
    type Object: Object;
    /// Why a list or a watch failed.
    type Error: FetchError;
    /// A list-watch that runs. Dropping it stops it, without waiting; the implementor spreads the teardown of many.
    type Reflector: Send + Sync + 'static;

    /// Starts a reflector, without waiting. A store starts one of a namespace only where it [may](Self::may_watch).
    ///
    /// `resume` is the resource version that was last seen of the object, if a reflector of it was stopped because nobody
    /// read the object. A list that is not consistent must not be older (`resourceVersionMatch=NotOlderThan`), and says so
    /// by its [`ReadKind`]. A watch that is opened from `resume` says nothing of the present until it has delivered what
    /// has happened since.
    fn start(
        &self,
        scope: &Scope,
        resume: Option<String>,
        sink: ReflectorSink<Self::Object, Self::Error>,
    ) -> Self::Reflector;

    /// Whether the objects of the namespace may be listed and watched (a `SelfSubjectAccessReview`). A review that fails
    /// counts as 'no'. The store asks at most once in ten minutes.
    ///
    /// Like a [fetch](crate::Fetch::fetch), the future is polled by readers, may be dropped at any time, and needs a
    /// deadline of its own.
    fn may_watch(&self, namespace: &str) -> impl Future<Output = bool> + Send + 'static;

    /// How many objects the namespace has, at little cost (a list of the metadata with `limit=1`).
    fn count(&self, namespace: &str) -> impl Future<Output = Result<u64, Self::Error>> + Send + 'static;
}

impl<R: Reflectors> Reflectors for Arc<R> {
    type Object = R::Object;
    type Error = R::Error;
    type Reflector = R::Reflector;

    fn start(
        &self,
        scope: &Scope,
        resume: Option<String>,
        sink: ReflectorSink<Self::Object, Self::Error>,
    ) -> Self::Reflector {
        (**self).start(scope, resume, sink)
    }

    fn may_watch(&self, namespace: &str) -> impl Future<Output = bool> + Send + 'static {
        (**self).may_watch(namespace)
    }

    fn count(&self, namespace: &str) -> impl Future<Output = Result<u64, Self::Error>> + Send + 'static {
        (**self).count(namespace)
    }
}

/// A call of [`ReflectorSink`]'s method of that name. Exhaustive, so that a wrapper that forgets one does not compile.
pub enum ReflectorEvent<O, E> {
    /// [`ReflectorSink::listing`].
    Listing,
    /// [`ReflectorSink::replace`].
    Replace(Vec<(String, Arc<O>)>, ReadKind),
    /// [`ReflectorSink::set`].
    Set(String, Arc<O>),
    /// [`ReflectorSink::delete`].
    Delete(String, Option<Arc<O>>),
    /// [`ReflectorSink::confirm_as_of`], and how long ago that was.
    Confirm(Duration),
    /// [`ReflectorSink::bookmark`].
    Bookmark {
        /// The watch has delivered every event up to this version.
        version: String,
    },
    /// [`ReflectorSink::failed`].
    Failed(Arc<E>),
    /// [`ReflectorSink::went_back`].
    WentBack {
        /// The version from before.
        before: String,
        /// The lower one that came after it.
        after: String,
    },
}

impl<O, E: fmt::Debug> fmt::Debug for ReflectorEvent<O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the objects themselves, which may be Secrets.
        match self {
            Self::Listing => f.write_str("Listing"),
            Self::Replace(objects, read) => write!(f, "Replace({} objects, {read:?})", objects.len()),
            Self::Set(name, _) => write!(f, "Set({name})"),
            Self::Delete(name, _) => write!(f, "Delete({name})"),
            Self::Confirm(ago) => f.debug_tuple("Confirm").field(ago).finish(),
            Self::Bookmark { version } => write!(f, "Bookmark({version})"),
            Self::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
            Self::WentBack { before, after } => write!(f, "WentBack({before} to {after})"),
        }
    }
}

/// Where a reflector writes what it learns of the objects in its [`Scope`]. Clones write to the same store.
///
/// ```
/// use larder_objects::{ReflectorEvent, ReflectorSink};
/// # use larder_objects::{FetchError, Object};
/// # struct Secret;
/// # impl Object for Secret {
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
/// # impl FetchError for Unavailable {
/// #     fn is_not_found(&self) -> bool {
/// #         false
/// #     }
/// #     fn class(&self) -> &'static str {
/// #         "failed"
/// #     }
/// # }
///
/// // A store makes sinks. A test of a reflector alone can make one, too.
/// let (sink, events) = ReflectorSink::<Secret, Unavailable>::channel();
/// sink.listing();
/// sink.delete("db", None);
/// assert!(matches!(events.recv(), Ok(ReflectorEvent::Listing)));
/// assert!(matches!(events.recv(), Ok(ReflectorEvent::Delete(name, _)) if name == "db"));
/// ```
pub struct ReflectorSink<O, E> {
    tell: Arc<dyn Fn(ReflectorEvent<O, E>) + Send + Sync>,
}

impl<O: Object, E: FetchError> ReflectorSink<O, E> {
    /// A sink that calls `tell` with each event, for wrappers, for tests of a reflector and for stores of another kind.
    pub fn from_fn(tell: impl Fn(ReflectorEvent<O, E>) + Send + Sync + 'static) -> Self {
        Self { tell: Arc::new(tell) }
    }

    /// A sink for tests of a reflector, and the other end.
    pub fn channel() -> (Self, std::sync::mpsc::Receiver<ReflectorEvent<O, E>>) {
        let (sender, receiver) = std::sync::mpsc::channel();
        let tell = move |event| {
            // The test is over when nobody listens any more.
            let _ = sender.send(event);
        };
        (Self::from_fn(tell), receiver)
    }

    /// A list is about to be asked for. If the next [`replace`](Self::replace) is consistent, it is at least as new as this
    /// moment. Optional; it spares reads of pods that registered while the reflector was starting, or relisted.
    pub fn listing(&self) {
        (self.tell)(ReflectorEvent::Listing);
    }

    /// A complete list: all objects of the scope, by name. An object that it lacks does not exist. The scope is synced from
    /// here on.
    ///
    /// `read` says how current the list is. A [consistent](ReadKind::Consistent) one is as new as the moment it was asked
    /// for. One from the [API server's cache](ReadKind::ApiServerCache) (`resourceVersion=0`, or `NotOlderThan` a version)
    /// may lag: it counts as an event of a watch that lags does, and proves nothing to a reader who needs the present.
    pub fn replace(&self, objects: Vec<(String, Arc<O>)>, read: ReadKind) {
        (self.tell)(ReflectorEvent::Replace(objects, read));
    }

    /// The object of that name was added or modified. One with another UID is another object.
    pub fn set(&self, name: &str, object: Arc<O>) {
        (self.tell)(ReflectorEvent::Set(name.to_owned(), object));
    }

    /// The object of that name was deleted. `last` is its last state with the version of the deletion, if the source told it.
    pub fn delete(&self, name: &str, last: Option<Arc<O>>) {
        (self.tell)(ReflectorEvent::Delete(name.to_owned(), last));
    }

    /// A sign of life: a watch was opened again so soon after the last one ended well that it missed nothing for long; or
    /// the connection that carries the watch has just shown that it is alive (HTTP/2: a PING was acknowledged). What the
    /// watch has delivered is current as of now. Cheap: takes no lock as a rule, so it may be called every few seconds.
    ///
    /// It carries no version: a watch that lags behind a read is not believed over that read. A bookmark is a
    /// [`bookmark`](Self::bookmark).
    ///
    /// A watch that was opened from an old version after an outage confirms nothing yet: wait for its first event or
    /// bookmark, or better list again.
    pub fn confirm(&self) {
        self.confirm_as_of(Duration::ZERO);
    }

    /// As [`confirm`](Self::confirm), where what shows it was that long ago: an answer's age counts from then.
    pub fn confirm_as_of(&self, ago: Duration) {
        (self.tell)(ReflectorEvent::Confirm(ago));
    }

    /// A bookmark: the watch has delivered every event up to `version`, and is current as of now.
    pub fn bookmark(&self, version: &str) {
        (self.tell)(ReflectorEvent::Bookmark { version: version.to_owned() });
    }

    /// A list or watch failed, or its connection is silent: what is held counts as stale from now until the next
    /// `confirm`, `bookmark`, `set`, `delete` or `replace`; where nothing is known, all who read get this error. Not for a watch that
    /// the server ended in good order.
    pub fn failed(&self, error: Arc<E>) {
        (self.tell)(ReflectorEvent::Failed(error));
    }

    /// The resource version went from `before` back to a lower one, `after`: etcd was restored from a backup. A list
    /// follows, whose versions are believed.
    pub fn went_back(&self, before: &str, after: &str) {
        (self.tell)(ReflectorEvent::WentBack { before: before.to_owned(), after: after.to_owned() });
    }
}

impl<O, E> Clone for ReflectorSink<O, E> {
    fn clone(&self) -> Self {
        Self { tell: Arc::clone(&self.tell) }
    }
}

impl<O, E> fmt::Debug for ReflectorSink<O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectorSink").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
