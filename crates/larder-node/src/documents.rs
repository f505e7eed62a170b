//! Documents of the API server that are the same for all: its version, and the `OpenAPI` schemas of what larder serves.
//!
//! Each is fetched when it is first asked for, kept compressed, and fetched again after [`REFRESH`]. If that fails, the kept
//! one is served.
//!
//! # Cancel safety
//!
//! A dropped read ends its request, unless others wait for it: one of them repeats it.
//!
//! # Locks
//!
//! One for each document, over what is kept of it. It is not held during a fetch.

use crate::error::ReadError;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use larder_clock::{Clock, Timestamp};
use larder_kube::KubeClient;
use larder_objects::Outcome;
use parking_lot::Mutex;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;

/// How long a document is kept before it is fetched again.
const REFRESH: Duration = Duration::from_mins(10);
/// When a client may retry.
const RETRY: Duration = Duration::from_secs(1);

/// A document of the API server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerDocument {
    /// `/version`
    Version,
    /// `/openapi/v3`: where the schemas are.
    OpenApi,
    /// `/openapi/v3/api/v1`
    OpenApiCore,
    /// `/openapi/v3/apis/authentication.k8s.io/v1`
    OpenApiAuthentication,
    /// `/openapi/v3/apis/authorization.k8s.io/v1`
    OpenApiAuthorization,
}

impl ServerDocument {
    /// Every document.
    pub const ALL: [Self; 5] =
        [Self::Version, Self::OpenApi, Self::OpenApiCore, Self::OpenApiAuthentication, Self::OpenApiAuthorization];

    /// Its path, at the API server and here.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Version => "/version",
            Self::OpenApi => "/openapi/v3",
            Self::OpenApiCore => "/openapi/v3/api/v1",
            Self::OpenApiAuthentication => "/openapi/v3/apis/authentication.k8s.io/v1",
            Self::OpenApiAuthorization => "/openapi/v3/apis/authorization.k8s.io/v1",
        }
    }
}

/// A document that was fetched.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FetchedDocument {
    /// Its JSON, compressed by gzip.
    pub gzip: Bytes,
    /// When it was fetched.
    pub at: Timestamp,
    /// Whether this read fetched it.
    pub outcome: Outcome,
}

impl FetchedDocument {
    /// When larder asks for it again.
    pub fn expires_at(&self) -> Timestamp {
        self.at + REFRESH
    }
}

type Fetch = OnceCell<FetchedDocument>;

#[derive(Default)]
pub(crate) struct Documents {
    kept: [Mutex<Kept>; ServerDocument::ALL.len()],
}

#[derive(Default)]
struct Kept {
    last: Option<FetchedDocument>,
    /// The fetch for which all who ask wait.
    fetch: Arc<Fetch>,
}

impl Documents {
    pub(crate) async fn get(
        &self,
        client: &KubeClient,
        clock: &impl Clock,
        document: ServerDocument,
    ) -> Result<FetchedDocument, ReadError> {
        let place = ServerDocument::ALL.iter().position(|one| *one == document).and_then(|at| self.kept.get(at));
        let Some(place) = place else { return Err(unknown(document, "it is not one that larder fetches")) };
        let (last, fetch) = {
            let kept = place.lock();
            (kept.last.clone(), Arc::clone(&kept.fetch))
        };
        if let Some(last) = &last
            && clock.now() < last.expires_at()
        {
            return Ok(last.clone());
        }
        let outcome = if last.is_some() { Outcome::Refreshed } else { Outcome::Fetched };
        let fetched = fetch
            .get_or_try_init(|| async {
                let at = clock.now();
                let json =
                    client.document(document.path()).await.map_err(|error| unknown(document, &error.to_string()))?;
                let gzip = compressed(&json).map_err(|error| unknown(document, &error.to_string()))?;
                Ok(FetchedDocument { gzip, at, outcome: Outcome::Held })
            })
            .await;
        match (fetched, last) {
            (Ok(fetched), _) => {
                let mut kept = place.lock();
                // The first of those who waited ends the fetch.
                if Arc::ptr_eq(&kept.fetch, &fetch) {
                    kept.fetch = Arc::default();
                    kept.last = Some(fetched.clone());
                }
                Ok(FetchedDocument { outcome, ..fetched.clone() })
            }
            (Err(_), Some(last)) => Ok(FetchedDocument { outcome: Outcome::FetchFailed, ..last }),
            (Err(error), None) => Err(error),
        }
    }
}

fn unknown(document: ServerDocument, why: &str) -> ReadError {
    ReadError::Unknown {
        what: format!("{} of the API server", document.path()),
        why: why.to_owned(),
        retry_after: RETRY,
    }
}

fn compressed(json: &[u8]) -> std::io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(json)?;
    Ok(encoder.finish()?.into())
}
