//! What a store holds, and how it gets it.

use crate::{ObjectKey, Source};
use std::sync::Arc;

/// An object that a store can hold.
///
/// ```
/// use larder_objects::Object;
///
/// struct ConfigMap {
///     resource_version: String,
/// }
/// impl Object for ConfigMap {
///     fn resource_version(&self) -> &str {
///         &self.resource_version
///     }
///     fn uid(&self) -> &str {
///         ""
///     }
///     fn is_immutable(&self) -> bool {
///         false
///     }
/// }
/// assert!(!ConfigMap { resource_version: "1".into() }.is_immutable());
/// ```
pub trait Object: Send + Sync + 'static {
    /// `metadata.resourceVersion`, empty if there is none; compared by [`resource_version_order`](crate::resource_version_order).
    fn resource_version(&self) -> &str;

    /// `metadata.uid`: tells an object from one that was created under its name after it was deleted. Without it, the stores
    /// that watch order the two by their versions alone. Empty only where the source has none.
    fn uid(&self) -> &str;

    /// Whether the object's contents can no longer change (`immutable: true`).
    fn is_immutable(&self) -> bool;
}

/// How current a read of the source has to be.
///
/// ```
/// use larder_objects::{ReadKind, Source};
/// assert_eq!(ReadKind::Consistent.resource_version(), None);
/// assert_eq!(ReadKind::ApiServerCache.resource_version(), Some("0"));
/// assert_eq!(ReadKind::ApiServerCache.source(), Source::ApiServerCache);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadKind {
    /// The most recent state: no `resourceVersion` in the request.
    Consistent,
    /// What the API server's watch cache has, which may lag: `resourceVersion=0`.
    ApiServerCache,
}

impl ReadKind {
    /// The `resourceVersion` parameter of such a request; `None` means to send none.
    pub const fn resource_version(self) -> Option<&'static str> {
        match self {
            Self::Consistent => None,
            Self::ApiServerCache => Some("0"),
        }
    }

    /// What such a read of the API server confirms an object by.
    pub const fn source(self) -> Source {
        match self {
            Self::Consistent => Source::LiveRead,
            Self::ApiServerCache => Source::ApiServerCache,
        }
    }
}

/// Why a fetch failed, as far as a store needs to know.
///
/// A store shows the error only through [`GetError`](crate::GetError); its text must not hold an object's contents.
///
/// ```
/// use larder_objects::FetchError;
///
/// #[derive(Debug, thiserror::Error)]
/// enum ReadError {
///     #[error("not found")]
///     NotFound,
///     #[error("the API server does not answer")]
///     Unavailable,
/// }
/// impl FetchError for ReadError {
///     fn is_not_found(&self) -> bool {
///         matches!(self, Self::NotFound)
///     }
///     fn class(&self) -> &'static str {
///         if self.is_not_found() { "not_found" } else { "unavailable" }
///     }
/// }
/// assert_eq!(ReadError::Unavailable.class(), "unavailable");
/// assert!(ReadError::NotFound.is_not_found());
/// ```
pub trait FetchError: std::error::Error + Send + Sync + 'static {
    /// Whether the source answered that there is no such object. Everything else counts as 'not known'.
    fn is_not_found(&self) -> bool;

    /// A short name for the kind of failure, from a fixed set: it labels stale answers and metrics.
    fn class(&self) -> &'static str;
}

/// Reads one object from its source.
///
/// ```
/// use larder_objects::{Fetch, FetchError, Object, ObjectKey, ReadKind, Source};
/// use std::sync::Arc;
///
/// struct Secret(String);
/// impl Object for Secret {
///     fn resource_version(&self) -> &str {
///         &self.0
///     }
///     fn uid(&self) -> &str {
///         ""
///     }
///     fn is_immutable(&self) -> bool {
///         false
///     }
/// }
/// #[derive(Debug, thiserror::Error)]
/// #[error("the API server does not answer")]
/// struct Unavailable;
/// impl FetchError for Unavailable {
///     fn is_not_found(&self) -> bool {
///         false
///     }
///     fn class(&self) -> &'static str {
///         "failed"
///     }
/// }
///
/// struct ApiServer {
///     down: bool,
/// }
/// impl Fetch for ApiServer {
///     type Object = Secret;
///     type Error = Unavailable;
///     fn fetch(
///         &self,
///         key: &ObjectKey,
///         read: ReadKind,
///     ) -> impl Future<Output = Result<Arc<Secret>, Unavailable>> + Send + 'static {
///         let (down, request) = (self.down, format!("{key}?resourceVersion={:?}", read.resource_version()));
///         async move { if down { Err(Unavailable) } else { Ok(Arc::new(Secret(request))) } }
///     }
///     fn source(&self, read: ReadKind) -> Source {
///         read.source()
///     }
/// }
/// assert_eq!(ApiServer { down: false }.source(ReadKind::Consistent), Source::LiveRead);
/// ```
pub trait Fetch: Send + Sync + 'static {
    /// What is fetched.
    type Object: Object;
    /// Why it could not be.
    type Error: FetchError;

    /// Begins a read of the object. The future is polled by the readers that need it, by one after another if one goes
    /// away, and is dropped when none is left; it needs a deadline of its own, and must be safe to drop at any time.
    fn fetch(
        &self,
        key: &ObjectKey,
        read: ReadKind,
    ) -> impl Future<Output = Result<Arc<Self::Object>, Self::Error>> + Send + 'static;

    /// What a fetch of that kind confirms an object by, for the answer's freshness: [`ReadKind::source`] if the API server
    /// is read.
    fn source(&self, read: ReadKind) -> Source;
}

/// A [`Fetch`] that is a function, as [`fetch_fn`] makes it.
///
/// ```
/// use larder_clock::MonotonicClock;
/// use larder_objects::{DirectStore, Fetch, FetchFn, Source, ReadKind, fetch_fn};
/// use std::sync::Arc;
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
/// #         "unavailable"
/// #     }
/// # }
///
/// /// Whatever fetches with a function.
/// fn store<F>(fetch: FetchFn<F>) -> DirectStore<FetchFn<F>, MonotonicClock>
/// where
///     FetchFn<F>: Fetch,
/// {
///     DirectStore::new(fetch, MonotonicClock::new())
/// }
/// let store = store(fetch_fn(|_, _| async { Ok::<_, Unavailable>(Arc::new(Secret)) }));
/// assert_eq!(store.fetcher().source(ReadKind::Consistent), Source::LiveRead);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FetchFn<F> {
    fetch: F,
}

/// Fetches from the API server with a function of the key and of how current the read has to be.
///
/// The [crate's example](crate#example) fetches with one.
pub const fn fetch_fn<F, R, O, E>(fetch: F) -> FetchFn<F>
where
    F: Fn(&ObjectKey, ReadKind) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Arc<O>, E>> + Send + 'static,
{
    FetchFn { fetch }
}

impl<F, R, O, E> Fetch for FetchFn<F>
where
    F: Fn(&ObjectKey, ReadKind) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Arc<O>, E>> + Send + 'static,
    O: Object,
    E: FetchError,
{
    type Object = O;
    type Error = E;

    fn fetch(&self, key: &ObjectKey, read: ReadKind) -> impl Future<Output = Result<Arc<O>, E>> + Send + 'static {
        (self.fetch)(key, read)
    }

    fn source(&self, read: ReadKind) -> Source {
        read.source()
    }
}

impl<F: Fetch> Fetch for Arc<F> {
    type Object = F::Object;
    type Error = F::Error;

    fn fetch(
        &self,
        key: &ObjectKey,
        read: ReadKind,
    ) -> impl Future<Output = Result<Arc<Self::Object>, Self::Error>> + Send + 'static {
        (**self).fetch(key, read)
    }

    fn source(&self, read: ReadKind) -> Source {
        (**self).source(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::ready;
    use std::task::{Context, Poll, Waker};

    struct Plain;

    impl Object for Plain {
        fn resource_version(&self) -> &'static str {
            "1"
        }

        fn uid(&self) -> &'static str {
            ""
        }

        fn is_immutable(&self) -> bool {
            false
        }
    }

    #[derive(Debug, PartialEq, Eq, thiserror::Error)]
    #[error("absent")]
    struct Absent;

    impl FetchError for Absent {
        fn is_not_found(&self) -> bool {
            true
        }

        fn class(&self) -> &'static str {
            "failed"
        }
    }

    /// A source of its own, as manifests are.
    struct Files;

    impl Fetch for Files {
        type Object = Plain;
        type Error = Absent;

        fn fetch(
            &self,
            _: &ObjectKey,
            _: ReadKind,
        ) -> impl Future<Output = Result<Arc<Plain>, Absent>> + Send + 'static {
            ready(Err(Absent))
        }

        fn source(&self, _: ReadKind) -> Source {
            Source::Manifest
        }
    }

    fn at_once<F: Fetch>(fetch: &F, read: ReadKind) -> Result<Arc<F::Object>, F::Error> {
        let mut future = Box::pin(fetch.fetch(&ObjectKey::new("a", "x"), read));
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => panic!("it is ready at once"),
        }
    }

    #[test]
    fn a_function_and_a_shared_source_fetch() {
        let server = Arc::new(fetch_fn(|key: &ObjectKey, read| {
            ready(if key.is("a", "x") && read == ReadKind::Consistent { Ok(Arc::new(Plain)) } else { Err(Absent) })
        }));
        assert!(at_once(&server, ReadKind::Consistent).is_ok());
        assert_eq!(at_once(&server, ReadKind::ApiServerCache).err(), Some(Absent));
        assert_eq!(server.source(ReadKind::Consistent), Source::LiveRead);
        assert_eq!(server.source(ReadKind::ApiServerCache), Source::ApiServerCache);
        let files = Arc::new(Files);
        assert_eq!(Fetch::source(&files, ReadKind::Consistent), Source::Manifest);
        assert_eq!(at_once(&files, ReadKind::Consistent).err(), Some(Absent));
    }

    #[test]
    fn a_read_of_the_servers_cache_asks_for_version_0() {
        assert_eq!(ReadKind::Consistent.resource_version(), None);
        assert_eq!(ReadKind::ApiServerCache.resource_version(), Some("0"));
    }
}
