//! Secrets and ConfigMaps of the manifests, for the stores.

use crate::error::ManifestError;
use crate::source::ManifestReader;
use larder_kube::{KubeObject, ObjectKind};
use larder_objects::{Fetch, ObjectKey, ReadKind};
use std::sync::Arc;

/// Reads of Secrets, or of ConfigMaps, from [`ManifestReader::fetcher`]. A read is a look into a map: it is answered at
/// once, and with a TTL of 0 a store always has what the files last had. While the folder cannot be read, reads fail.
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
        if let Some(object) = self.reader.object(self.kind, key.namespace(), key.name()) {
            return Ok(object);
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
}
