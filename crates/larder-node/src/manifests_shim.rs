#![allow(missing_docs, dead_code)]
use larder_kube::KubeObject;
use larder_objects::{Fetch, FetchError, ObjectKey, ReadKind};
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
#[derive(Debug)]
pub(crate) struct ManifestSource;
impl ManifestSource { pub(crate) async fn run(self, _: CancellationToken) {} }
#[derive(Debug)]
pub(crate) struct ManifestFetch;
#[derive(Clone, Debug)]
pub(crate) struct ManifestReader;
impl ManifestReader { pub(crate) fn dir(&self) -> &Path { Path::new("") } pub(crate) fn problems(&self) -> Vec<String> { Vec::new() } }
#[derive(Clone, Debug, thiserror::Error)]
#[error("x")]
pub(crate) struct ManifestError;
impl FetchError for ManifestError { fn is_not_found(&self) -> bool { false } }
impl Fetch for ManifestFetch { type Object = KubeObject; type Error = ManifestError;
 fn fetch(&self, _: &ObjectKey, _: ReadKind) -> impl Future<Output = Result<Arc<KubeObject>, ManifestError>> + Send + 'static { std::future::ready(Err(ManifestError)) } }
