//! Secrets and ConfigMaps of the manifests, for the stores.

use crate::error::ManifestError;
use crate::source::ManifestReader;
use larder_objects::{Fetch, ObjectKey, ReadKind, Source};
use larder_resource::{KubeObject, ObjectKind};
use std::sync::Arc;

/// Reads of Secrets, or of ConfigMaps, from [`ManifestReader::fetcher`]. A read is a look into a map: it is answered at
/// once, and with a TTL of 0 a store always has what the files last had. While the folder cannot be read, reads fail, and so do
/// those of an object whose manifest was broken since; that an object is in no manifest is said only while all can be read.
#[derive(Clone, Debug)]
pub struct ManifestFetch {
    reader: ManifestReader,
    kind: ObjectKind,
}

impl ManifestFetch {
    pub(crate) fn new(reader: ManifestReader, kind: ObjectKind) -> Self {
        Self { reader, kind }
    }

    fn read(&self, key: &ObjectKey) -> Result<Arc<KubeObject>, ManifestError> {
        let (kind, key, folder) = (self.kind.into(), key.clone(), self.reader.folder().to_owned());
        let status = self.reader.pods().status();
        // A look into memory confirms nothing while the files cannot be read: the store serves what it has, as stale.
        if status.synced && !status.connected {
            return Err(ManifestError::Lost { kind, key, folder });
        }
        let (objects, wanted) = (self.reader.objects_now(), (kind, key.clone()));
        if let Some(problem) = objects.kept.get(&wanted) {
            return Err(ManifestError::Broken { kind, key, problem: problem.clone() });
        }
        if let Some(object) = objects.served.get(&wanted) {
            return Ok(Arc::clone(object));
        }
        if let Some(problem) = objects.hidden.as_ref().filter(|_| status.synced) {
            return Err(ManifestError::Hidden { kind, key, problem: problem.clone() });
        }
        // Absence counts only once everything has been read.
        if status.synced {
            Err(ManifestError::NotFound { kind, key, folder })
        } else {
            Err(ManifestError::NotRead { kind, key, folder })
        }
    }
}

impl Fetch for ManifestFetch {
    type Object = KubeObject;
    type Error = ManifestError;

    fn fetch(
        &self,
        key: &ObjectKey,
        _: ReadKind,
    ) -> impl Future<Output = Result<Arc<KubeObject>, ManifestError>> + Send + 'static {
        std::future::ready(self.read(key))
    }

    fn source(&self, _: ReadKind) -> Source {
        Source::Manifest
    }
}
