//! An API server that only the proxy of the environment leads to.

use crate::harness::{Daemon, larder, run};
use larder_testkit::api_server::{ApiServer, ApiServerOptions, User};
use larder_testkit::cri_runtime::CriServer;
use larder_testkit::objects::{node, pod, secret};
use larder_testkit::proxy::{Behaviour, Proxy, Speaks};
use std::fs;

/// The server's name in its certificate, which is nowhere else.
const SERVER: &str = "https://kubernetes.default.svc:6443";

#[tokio::test]
async fn a_daemon_reaches_its_api_server_through_the_proxy_of_its_environment_and_its_runtime_without() {
    let api = ApiServer::start_with(ApiServerOptions { tls: true, ..Default::default() }).await.unwrap();
    api.store().create(node("node-1")).unwrap();
    api.store().create(secret("shop", "tls", &[("key", "k")])).unwrap();
    api.store()
        .create(pod("shop", "web-0").node("node-1").container("web", "web:1").secret_volume("tls").build())
        .unwrap();
    let proxy = Proxy::start(&api, Speaks::Http).await.unwrap();
    proxy.set(Behaviour::Demand("edge".to_owned(), "hush".to_owned()));
    let folder = tempfile::tempdir().unwrap();
    let cri = CriServer::start(&folder.path().join("cri.sock")).await.unwrap();
    let kubeconfig = api.kubeconfig(&api.add_user(User::node("node-1"))).replace(api.url(), SERVER);
    fs::write(folder.path().join("kubeconfig"), kubeconfig).unwrap();
    let endpoint = cri.endpoint();
    let arguments = ["--kubeconfig", "kubeconfig", "--runtime-endpoint", &endpoint, "--log-level", "trace"];

    let daemon = Daemon::spawn_where("HTTPS_PROXY", &proxy.url_for("edge:hush@"), folder, &arguments);
    daemon.ready().await;
    assert!(daemon.larder("get secret tls -n shop").await.ok().contains("tls"));
    let status = daemon.larder("status -o json").await.ok();
    assert!(status.contains(&format!("{SERVER} through the proxy {}", proxy.url())), "{status}");
    let asked = proxy.asked();
    assert!(!asked.is_empty() && asked.iter().all(|asked| asked.server == "kubernetes.default.svc:6443"), "{asked:?}");
    // "edge:hush" in base64, too.
    for text in [daemon.log(), daemon.printed(), status, daemon.get("/metrics").await.text] {
        assert!(!text.contains("hush") && !text.contains("ZWRnZTpodXNo"), "{text}");
    }
}

#[tokio::test]
async fn a_proxy_that_cannot_be_one_is_told_before_anything_starts() {
    let api = ApiServer::start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kubeconfig"), api.kubeconfig("").replace(api.url(), SERVER)).unwrap();
    let mut command = larder();
    command.args(["run", "--kubeconfig", "kubeconfig", "--node-name", "n", "--runtime-endpoint", "none"]);
    command.env("https_proxy", "ftp://edge:hush@proxy").current_dir(folder.path());
    let told = run(command).await.failed();
    assert!(told.contains("environment variable https_proxy: it is not the URL of a proxy"), "{told}");
    assert!(!told.contains("hush"), "{told}");
}
