//! An API server with a client of the `kube` crate.

use kube::config::{KubeConfigOptions, Kubeconfig};
use larder_testkit::api_server::{ApiServer, ApiServerOptions};
use std::time::Duration;

/// Longer than anything here takes on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(10);

pub(crate) async fn start() -> (ApiServer, kube::Client) {
    start_with(ApiServerOptions::default()).await
}

pub(crate) async fn start_with(options: ApiServerOptions) -> (ApiServer, kube::Client) {
    let server = ApiServer::start_with(options).await.expect("a free port");
    let client = client(&server.kubeconfig(server.admin_token())).await;
    (server, client)
}

/// A client without retries, as a kubeconfig has it.
pub(crate) async fn client(kubeconfig: &str) -> kube::Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.expect("a configuration");
    config.default_retry = false;
    kube::Client::try_from(config).expect("a client")
}

/// The HTTP code and reason of an error that the server answered with.
pub(crate) fn status<T>(result: kube::Result<T>) -> (u16, String) {
    match result {
        Ok(_) => (200, String::new()),
        Err(kube::Error::Api(status)) => (status.code, status.reason),
        Err(other) => (0, other.to_string()),
    }
}
