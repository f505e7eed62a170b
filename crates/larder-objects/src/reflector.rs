//! How a store is told of changes: reflectors, which it starts and stops, and the ends that they write to.
//!
//! # Guarantees
//!
//! - *Generations*: each reflector has a sink of its own. One that outlives its reflector, because the object was
//!   released or the reflector stopped, does nothing.
//! - *Order by what was read*: each list says how current the read behind it was, and each bookmark how far the watch has
//!   come. A sign of life ([`confirm`](ReflectorSink::confirm)) says neither: it makes nothing newer than it was told.
//! - *No waiting*: a sink's methods never block on I/O or on readers. They may be called from any thread, while a
//!   reflector is being started too; of one reflector, one after another, in the order of what happened.
//!
//! # Limits
//!
//! [`Reflectors::start`] may call the sink. The drop of a reflector must not wait for a call of its sink.

use crate::{FetchError, Object, ObjectKey, ReadKind};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Starts reflectors of single objects: a list and a watch each. [`NamespaceReflectors`] starts those of whole namespaces.
///
/// ```
/// use larder_objects::{FetchError, Object, ObjectKey, ReadKind, Reflectors, ReflectorSink};
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
/// /// A source in which every object is there, and never changes.
/// struct Constant;
/// impl Reflectors for Constant {
///     type Object = Secret;
///     type Error = Unavailable;
///     type Reflector = ();
///     fn start(&self, _: &ObjectKey, _: Option<String>, sink: ReflectorSink<Secret, Unavailable>) {
///         sink.replace(Some(Arc::new(Secret)), ReadKind::Consistent);
///     }
/// }
/// # let (sink, events) = ReflectorSink::channel();
/// # Constant.start(&ObjectKey::new("shop", "db"), None, sink);
/// # assert!(events.try_recv().is_ok());
/// ```
pub trait Reflectors: Send + Sync + 'static {
    /// What is kept.
    type Object: Object;
    /// Why a list or a watch failed.
    type Error: FetchError;
    /// A list-watch that runs. Dropping it stops it, without waiting; the implementor spreads the teardown of many.
    type Reflector: Send + Sync + 'static;

    /// Starts the reflector of an object, without waiting.
    ///
    /// `resume` is the resource version last seen of the object, when it was reflected before and stopped because nobody
    /// read it. A list that is not consistent must not be older (`resourceVersionMatch=NotOlderThan`), and says so by its
    /// [`ReadKind`]. A watch opened from `resume` says nothing of the present until it has delivered what has happened
    /// since.
    fn start(
        &self,
        key: &ObjectKey,
        resume: Option<String>,
        sink: ReflectorSink<Self::Object, Self::Error>,
    ) -> Self::Reflector;
}

/// Reflects the objects of a whole namespace with one watch, where larder's identity may do that.
///
/// [`AutoStore`](crate::AutoStore) shows one, and says when it asks.
pub trait NamespaceReflectors: Reflectors {
    /// Whether the objects of the namespace may be listed and watched (a `SelfSubjectAccessReview`). A review that fails
    /// counts as 'no'. The store asks at most once in ten minutes.
    ///
    /// Like a [fetch](crate::Fetch::fetch), the future is polled by readers, may be dropped at any time, and needs a
    /// deadline of its own.
    fn may_watch(&self, namespace: &str) -> impl Future<Output = bool> + Send + 'static;

    /// How many objects the namespace has, at little cost (a list of the metadata with `limit=1`).
    fn count(&self, namespace: &str) -> impl Future<Output = Result<u64, Self::Error>> + Send + 'static;

    /// Starts the reflector of a namespace, without waiting.
    fn start_namespace(&self, namespace: &str, sink: NamespaceSink<Self::Object, Self::Error>) -> Self::Reflector;
}

impl<R: Reflectors> Reflectors for Arc<R> {
    type Object = R::Object;
    type Error = R::Error;
    type Reflector = R::Reflector;

    fn start(
        &self,
        key: &ObjectKey,
        resume: Option<String>,
        sink: ReflectorSink<Self::Object, Self::Error>,
    ) -> Self::Reflector {
        (**self).start(key, resume, sink)
    }
}

impl<R: NamespaceReflectors> NamespaceReflectors for Arc<R> {
    fn may_watch(&self, namespace: &str) -> impl Future<Output = bool> + Send + 'static {
        (**self).may_watch(namespace)
    }

    fn count(&self, namespace: &str) -> impl Future<Output = Result<u64, Self::Error>> + Send + 'static {
        (**self).count(namespace)
    }

    fn start_namespace(&self, namespace: &str, sink: NamespaceSink<Self::Object, Self::Error>) -> Self::Reflector {
        (**self).start_namespace(namespace, sink)
    }
}

/// What the reflector of one object tells, as [`ReflectorSink`]'s methods of these names. Exhaustive, so that a wrapper
/// that forgets one does not compile.
pub enum ReflectorEvent<O, E> {
    /// [`ReflectorSink::listing`].
    Listing,
    /// [`ReflectorSink::replace`].
    Replace(Option<Arc<O>>, ReadKind),
    /// [`ReflectorSink::set`].
    Set(Arc<O>),
    /// [`ReflectorSink::delete`].
    Delete,
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
            Self::Replace(object, read) => {
                write!(f, "Replace({}, {read:?})", if object.is_some() { "an object" } else { "nothing" })
            }
            Self::Set(_) => f.write_str("Set"),
            Self::Delete => f.write_str("Delete"),
            Self::Confirm(ago) => f.debug_tuple("Confirm").field(ago).finish(),
            Self::Bookmark { version } => write!(f, "Bookmark({version})"),
            Self::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
            Self::WentBack { before, after } => write!(f, "WentBack({before} to {after})"),
        }
    }
}

/// The writing end that a reflector has of one object. Clones write to the same.
///
/// ```
/// use larder_objects::{ReadKind, ReflectorEvent, ReflectorSink};
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
/// // A store makes sinks; to test a reflector alone, one can be made that passes on what it is told.
/// let (sink, events) = ReflectorSink::<Secret, Unavailable>::channel();
/// sink.listing();
/// sink.replace(None, ReadKind::Consistent);
/// assert!(matches!(events.recv(), Ok(ReflectorEvent::Listing)));
/// assert!(matches!(events.recv(), Ok(ReflectorEvent::Replace(None, ReadKind::Consistent))));
/// ```
pub struct ReflectorSink<O, E> {
    tell: Arc<dyn Fn(ReflectorEvent<O, E>) + Send + Sync>,
}

impl<O: Object, E: FetchError> ReflectorSink<O, E> {
    /// A sink that calls `tell` with everything, for tests of a reflector and for stores of another kind.
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

    /// A complete list: the object, or that there is none. The object is synced from here on.
    ///
    /// `read` says how current the list is. A [consistent](ReadKind::Consistent) one is as new as the moment it was asked
    /// for. One from the [API server's cache](ReadKind::ApiServerCache) (`resourceVersion=0`, or `NotOlderThan` a version)
    /// may lag: it counts as an event of a watch that lags does, and proves nothing to a reader who needs the present.
    pub fn replace(&self, object: Option<Arc<O>>, read: ReadKind) {
        (self.tell)(ReflectorEvent::Replace(object, read));
    }

    /// The object was added or modified. One with another UID is another object.
    pub fn set(&self, object: Arc<O>) {
        (self.tell)(ReflectorEvent::Set(object));
    }

    /// The object was deleted.
    pub fn delete(&self) {
        (self.tell)(ReflectorEvent::Delete);
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

/// What the reflector of a namespace tells, as [`NamespaceSink`]'s methods of these names. Exhaustive, as
/// [`ReflectorEvent`] is.
pub enum NamespaceEvent<O, E> {
    /// [`NamespaceSink::listing`].
    Listing,
    /// [`NamespaceSink::replace`].
    Replace(Vec<(String, Arc<O>)>, ReadKind),
    /// [`NamespaceSink::set`].
    Set(String, Arc<O>),
    /// [`NamespaceSink::delete`].
    Delete(String),
    /// [`NamespaceSink::confirm_as_of`], and how long ago that was.
    Confirm(Duration),
    /// [`NamespaceSink::bookmark`].
    Bookmark {
        /// The watch has delivered every event up to this version.
        version: String,
    },
    /// [`NamespaceSink::failed`].
    Failed(Arc<E>),
    /// [`NamespaceSink::went_back`].
    WentBack {
        /// The version from before.
        before: String,
        /// The lower one that came after it.
        after: String,
    },
}

impl<O, E: fmt::Debug> fmt::Debug for NamespaceEvent<O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listing => f.write_str("Listing"),
            Self::Replace(objects, read) => write!(f, "Replace({} objects, {read:?})", objects.len()),
            Self::Set(name, _) => write!(f, "Set({name})"),
            Self::Delete(name) => write!(f, "Delete({name})"),
            Self::Confirm(ago) => f.debug_tuple("Confirm").field(ago).finish(),
            Self::Bookmark { version } => write!(f, "Bookmark({version})"),
            Self::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
            Self::WentBack { before, after } => write!(f, "WentBack({before} to {after})"),
        }
    }
}

/// The writing end that a reflector has of a namespace: [`ReflectorSink`] with names.
///
/// ```
/// use larder_objects::{NamespaceEvent, NamespaceSink};
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
/// let (sink, events) = NamespaceSink::<Secret, Unavailable>::channel();
/// sink.delete("db");
/// assert!(matches!(events.recv(), Ok(NamespaceEvent::Delete(name)) if name == "db"));
/// ```
pub struct NamespaceSink<O, E> {
    tell: Arc<dyn Fn(NamespaceEvent<O, E>) + Send + Sync>,
}

impl<O: Object, E: FetchError> NamespaceSink<O, E> {
    /// As [`ReflectorSink::from_fn`].
    pub fn from_fn(tell: impl Fn(NamespaceEvent<O, E>) + Send + Sync + 'static) -> Self {
        Self { tell: Arc::new(tell) }
    }

    /// As [`ReflectorSink::channel`].
    pub fn channel() -> (Self, std::sync::mpsc::Receiver<NamespaceEvent<O, E>>) {
        let (sender, receiver) = std::sync::mpsc::channel();
        let tell = move |event| {
            // The test is over when nobody listens any more.
            let _ = sender.send(event);
        };
        (Self::from_fn(tell), receiver)
    }

    /// As [`ReflectorSink::listing`].
    pub fn listing(&self) {
        (self.tell)(NamespaceEvent::Listing);
    }

    /// A complete list: every object of the namespace, by name. `read` is as in [`ReflectorSink::replace`].
    pub fn replace(&self, objects: Vec<(String, Arc<O>)>, read: ReadKind) {
        (self.tell)(NamespaceEvent::Replace(objects, read));
    }

    /// An object was added or modified.
    pub fn set(&self, name: &str, object: Arc<O>) {
        (self.tell)(NamespaceEvent::Set(name.to_owned(), object));
    }

    /// An object was deleted.
    pub fn delete(&self, name: &str) {
        (self.tell)(NamespaceEvent::Delete(name.to_owned()));
    }

    /// As [`ReflectorSink::confirm`], for all objects of the namespace.
    pub fn confirm(&self) {
        self.confirm_as_of(Duration::ZERO);
    }

    /// As [`ReflectorSink::confirm_as_of`], for all objects of the namespace.
    pub fn confirm_as_of(&self, ago: Duration) {
        (self.tell)(NamespaceEvent::Confirm(ago));
    }

    /// As [`ReflectorSink::bookmark`], for all objects of the namespace.
    pub fn bookmark(&self, version: &str) {
        (self.tell)(NamespaceEvent::Bookmark { version: version.to_owned() });
    }

    /// As [`ReflectorSink::failed`], for all objects of the namespace.
    pub fn failed(&self, error: Arc<E>) {
        (self.tell)(NamespaceEvent::Failed(error));
    }

    /// As [`ReflectorSink::went_back`].
    pub fn went_back(&self, before: &str, after: &str) {
        (self.tell)(NamespaceEvent::WentBack { before: before.to_owned(), after: after.to_owned() });
    }
}

impl<O, E> Clone for NamespaceSink<O, E> {
    fn clone(&self) -> Self {
        Self { tell: Arc::clone(&self.tell) }
    }
}

impl<O, E> fmt::Debug for NamespaceSink<O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamespaceSink").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
