//! The source of objects behind an object cache: the API server, or a directory of manifests.
//!
//! [`ObjectSource`] fetches and [`ObjectReflectors`] watches. Both only pass calls on to larder-kube or larder-manifests.

use crate::fetch_log::SourceError;
use futures_util::future::Either;
use larder_kube::{KubeError, KubeFetch, KubeReflector, KubeReflectors};
use larder_manifests::{ManifestError, ManifestFetch};
use larder_objects::{Fetch, FetchError, ObjectKey, ReadKind, ReflectorSink, Reflectors, Scope, Source};
use larder_resource::KubeObject;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

/// Fetches of objects of one kind.
#[derive(Debug)]
pub(crate) enum ObjectSource {
    Kube(KubeFetch),
    Manifests(ManifestFetch),
}

/// Why an object could not be fetched.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ObjectSourceError {
    #[error(transparent)]
    Kube(KubeError),
    #[error(transparent)]
    Manifests(ManifestError),
}

impl From<KubeError> for ObjectSourceError {
    fn from(error: KubeError) -> Self {
        Self::Kube(error)
    }
}

impl SourceError for KubeError {
    fn is_unavailable(&self) -> bool {
        Self::is_unavailable(self)
    }

    fn is_unreached(&self) -> bool {
        Self::is_unreached(self)
    }

    fn retry_after(&self) -> Option<Duration> {
        Self::retry_after(self)
    }
}

impl FetchError for ObjectSourceError {
    fn is_not_found(&self) -> bool {
        match self {
            Self::Kube(error) => FetchError::is_not_found(error),
            Self::Manifests(error) => FetchError::is_not_found(error),
        }
    }

    fn class(&self) -> &'static str {
        match self {
            Self::Kube(error) => error.class(),
            Self::Manifests(error) => error.class(),
        }
    }
}

impl SourceError for ObjectSourceError {
    fn is_unavailable(&self) -> bool {
        match self {
            Self::Kube(error) => error.is_unavailable(),
            Self::Manifests(_) => true,
        }
    }

    fn is_unreached(&self) -> bool {
        match self {
            Self::Kube(error) => error.is_unreached(),
            Self::Manifests(_) => true,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Kube(error) => error.retry_after(),
            Self::Manifests(_) => None,
        }
    }
}

impl Fetch for ObjectSource {
    type Object = KubeObject;
    type Error = ObjectSourceError;

    fn fetch(
        &self,
        key: &ObjectKey,
        read: ReadKind,
    ) -> impl Future<Output = Result<Arc<KubeObject>, ObjectSourceError>> + Send + 'static {
        let fetch = match self {
            // A request takes 14 KB, for which every read would make room though few fetch.
            Self::Kube(fetch) => Either::Left(Box::pin(fetch.fetch(key, read))),
            Self::Manifests(fetch) => Either::Right(fetch.fetch(key, read)),
        };
        async move {
            match fetch {
                Either::Left(fetch) => fetch.await.map_err(ObjectSourceError::Kube),
                Either::Right(fetch) => fetch.await.map_err(ObjectSourceError::Manifests),
            }
        }
    }

    fn source(&self, read: ReadKind) -> Source {
        match self {
            Self::Kube(fetch) => fetch.source(read),
            Self::Manifests(fetch) => fetch.source(read),
        }
    }
}

/// Watches of objects of one kind.
pub(crate) enum ObjectReflectors {
    Kube(KubeReflectors),
    /// Nothing is watched.
    None,
}

impl Reflectors for ObjectReflectors {
    type Object = KubeObject;
    type Error = KubeError;
    type Reflector = Option<KubeReflector>;

    fn start(
        &self,
        scope: &Scope,
        resume: Option<String>,
        sink: ReflectorSink<KubeObject, KubeError>,
    ) -> Option<KubeReflector> {
        match self {
            Self::Kube(reflectors) => Some(reflectors.start(scope, resume, sink)),
            Self::None => None,
        }
    }

    fn may_watch(&self, namespace: &str) -> impl Future<Output = bool> + Send + 'static {
        match self {
            Self::Kube(reflectors) => Either::Left(reflectors.may_watch(namespace)),
            Self::None => Either::Right(ready(false)),
        }
    }

    fn count(&self, namespace: &str) -> impl Future<Output = Result<u64, KubeError>> + Send + 'static {
        match self {
            Self::Kube(reflectors) => Either::Left(reflectors.count(namespace)),
            Self::None => Either::Right(ready(Ok(0))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_clock::MonotonicClock;
    use larder_manifests::{ManifestOptions, ManifestSource};
    use larder_resource::ObjectKind;

    /// A future has room for each source, whichever it asks, and each read makes one.
    #[test]
    fn a_read_makes_no_room_for_a_request() {
        let folder = tempfile::tempdir().unwrap();
        let (clock, options) = (MonotonicClock::new(), ManifestOptions::default());
        let manifests = ManifestSource::new(folder.path(), "node", clock, options).unwrap();
        let source = ObjectSource::Manifests(manifests.reader().fetcher(ObjectKind::Secret));
        let fetch = source.fetch(&ObjectKey::new("shop", "db"), ReadKind::Consistent);
        assert!(size_of_val(&fetch) <= 512, "{} bytes", size_of_val(&fetch));
    }
}
