//! Where objects come from, whichever it is: the API server, or a directory of manifests.

use crate::fetch_log::SourceError;
use futures_util::future::Either;
use larder_kube::{KubeError, KubeFetch, KubeObject};
use larder_manifests::{ManifestError, ManifestFetch};
use larder_objects::{Fetch, FetchError, ObjectKey, ReadKind};
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
            Self::Kube(fetch) => Either::Left(fetch.fetch(key, read)),
            Self::Manifests(fetch) => Either::Right(fetch.fetch(key, read)),
        };
        async move {
            match fetch {
                Either::Left(fetch) => fetch.await.map_err(ObjectSourceError::Kube),
                Either::Right(fetch) => fetch.await.map_err(ObjectSourceError::Manifests),
            }
        }
    }
}
