//! The simulated API server, over TLS and HTTP/2, and clients of it.

use larder_kube::{KubeClient, KubeOptions};
use larder_testkit::api_server::{ApiServer, ApiServerOptions};
use std::future::ready;
use std::time::Duration;
use tempfile::TempDir;

/// Longer than anything here takes on a busy machine.
const SOON: Duration = Duration::from_mins(1);

pub(crate) async fn start() -> ApiServer {
    start_with(ApiServerOptions::default()).await
}

pub(crate) async fn start_with(options: ApiServerOptions) -> ApiServer {
    ApiServer::start_with(ApiServerOptions { tls: true, ..options }).await.expect("a free port")
}

/// A client with the token of a user who may read all.
pub(crate) async fn connect(server: &ApiServer, options: KubeOptions) -> KubeClient {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("kubeconfig");
    server.write_kubeconfig(&path, server.admin_token()).expect("written");
    KubeClient::from_kubeconfig(&path, None, options).await.expect("a good kubeconfig")
}

/// Waits for a condition, in real time.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    let met = larder_testkit::poll_until(SOON, || ready(condition().then_some(()))).await;
    met.expect("it comes to be");
}
