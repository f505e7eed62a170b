//! Reads one object by its name. Besides the client's retry after a renewal of credentials, only a 403 that comes soon after a
//! pod's arrival is retried. After another failure, the next read fetches again.

use crate::client::{KubeClient, segment};
use crate::error::{KubeError, Target};
use crate::forbidden_grace;
use larder_objects::{Fetch, ObjectKey, ReadKind, Source};
use larder_resource::{DecodeError, Kind, KubeObject};
use std::sync::Arc;
use tokio::time::Instant;

/// Reads objects of a kind; made by [`KubeClient::fetcher`].
///
/// # Guarantees
///
/// - *One attempt* for a fetch, within [`KubeOptions::fetch_deadline`](crate::KubeOptions::fetch_deadline), with two exceptions.
///   The client asks once more after it has renewed its credentials. A consistent read retries a 403 if a pod has just arrived in
///   the object's namespace or the server was just unavailable, with a backoff from 100 ms to 1 s, until the grace or the deadline
///   is over: the Node authorizer learns of a pod a moment later than the node, and of all pods a moment after its own start.
/// - *The requested object*: a response of another kind, name or namespace is an error, and so is a truncated one.
///
/// # Cancel safety
///
/// Dropping a fetch cancels its request.
#[derive(Clone, Debug)]
pub struct KubeFetch {
    client: KubeClient,
    kind: Kind,
}

impl KubeFetch {
    pub(crate) fn new(client: KubeClient, kind: Kind) -> Self {
        Self { client, kind }
    }

    /// The kind of the objects.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    async fn read(&self, key: &ObjectKey, read: ReadKind) -> Result<KubeObject, KubeError> {
        let target = Target::Object(self.kind, key.clone());
        let path = path_of(self.kind, key, read).ok_or_else(|| KubeError::InvalidName { target: target.clone() })?;
        let deadline = Instant::now() + self.client.options().fetch_deadline;
        let mut doubts = forbidden_grace::backoff(&self.client.options().jitter);
        loop {
            let error = match self.client.get(&target, &path, deadline, self.client.options().max_object_bytes).await {
                Ok(body) => return self.checked(key, &target, &body),
                Err(error) => error,
            };
            let doubted =
                error.is_forbidden() && read == ReadKind::Consistent && self.client.doubts_forbidden(key.namespace());
            let again = Instant::now() + doubts.pause();
            if !doubted || again >= deadline {
                return Err(error);
            }
            tokio::time::sleep_until(again).await;
        }
    }

    fn checked(&self, key: &ObjectKey, target: &Target, body: &[u8]) -> Result<KubeObject, KubeError> {
        let object =
            KubeObject::from_json(self.kind, body).map_err(|problem| KubeError::decode(target.clone(), problem))?;
        for (field, same) in [
            ("metadata.name", object.name() == key.name()),
            ("metadata.namespace", object.namespace() == key.namespace()),
        ] {
            if !same {
                return Err(KubeError::decode(target.clone(), DecodeError::AnotherObject { field }));
            }
        }
        Ok(object)
    }
}

impl Fetch for KubeFetch {
    type Object = KubeObject;
    type Error = KubeError;

    fn fetch(
        &self,
        key: &ObjectKey,
        read: ReadKind,
    ) -> impl Future<Output = Result<Arc<KubeObject>, KubeError>> + Send + 'static {
        let (this, key) = (self.clone(), key.clone());
        async move { this.read(&key, read).await.map(Arc::new) }
    }

    fn source(&self, read: ReadKind) -> Source {
        read.source()
    }
}

fn path_of(kind: Kind, key: &ObjectKey, read: ReadKind) -> Option<String> {
    let (resource, name) = (kind.resource(), segment(key.name())?);
    let mut path = if kind.is_namespaced() {
        format!("/api/v1/namespaces/{}/{resource}/{name}", segment(key.namespace())?)
    } else {
        format!("/api/v1/{resource}/{name}")
    };
    if let Some(version) = read.resource_version() {
        path.push_str("?resourceVersion=");
        path.push_str(version);
    }
    Some(path)
}
