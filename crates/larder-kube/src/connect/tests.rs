//! The cluster information for a plugin, and the service account of a pod, whose files the kubelet replaces.

use super::*;
use crate::connector::{ByteStream, Connecting};
use crate::{KubeClient, NodeSource};
use http::uri::Authority;
use larder_clock::TokioClock;
use larder_objects::{Fetch as _, ObjectKey, ReadKind};
use larder_resource::ObjectKind;
use larder_testkit::api_server::{ApiServer, ApiServerOptions, User};
use larder_testkit::objects::{node, secret};
use serde_json::json;
use std::fmt;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// How soon all is fresh again once both sides have changed.
const SOON: Duration = Duration::from_secs(15);

/// The files of a service account, as the kubelet writes them: a link leads to their folder, and is replaced as a whole.
struct ServiceAccount {
    folder: TempDir,
    versions: u32,
}

impl ServiceAccount {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        for name in ["ca.crt", "token"] {
            symlink(Path::new("..data").join(name), folder.path().join(name)).unwrap();
        }
        Self { folder, versions: 0 }
    }

    fn write(&mut self, server: &ApiServer, token: &str) {
        self.versions += 1;
        let path = |name: &str| self.folder.path().join(name);
        let version = format!("..{}", self.versions);
        fs::create_dir(path(&version)).unwrap();
        fs::write(path(&version).join("ca.crt"), server.ca_pem().unwrap()).unwrap();
        fs::write(path(&version).join("token"), token).unwrap();
        symlink(&version, path("..data_tmp")).unwrap();
        fs::rename(path("..data_tmp"), path("..data")).unwrap();
    }

    fn origin(&self) -> Origin {
        Origin::ServiceAccount { server: "https://127.0.0.1:6443".to_owned(), folder: self.folder.path().to_owned() }
    }
}

/// Leads to one server.
struct InMemory(Arc<ApiServer>);

impl Connector for InMemory {
    fn connect(&self, _: &Authority) -> Connecting {
        let server = Arc::clone(&self.0);
        Box::pin(async move { Ok(Box::new(server.connect_in_memory()?) as Box<dyn ByteStream>) })
    }
}

impl fmt::Debug for InMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InMemory")
    }
}

fn in_memory(server: &Arc<ApiServer>) -> KubeOptions {
    KubeOptions { connector: Some(Arc::new(InMemory(Arc::clone(server)))), ..KubeOptions::default() }
}

async fn read(client: &KubeClient) -> Result<(), KubeError> {
    client.fetcher(ObjectKind::Secret).fetch(&ObjectKey::new("shop", "tls"), ReadKind::Consistent).await.map(drop)
}

/// Waits for a condition, an hour of paused time at most.
async fn until(mut condition: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !condition().await {
            sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(Duration::from_hours(1), waiting).await.expect("it comes within the hour");
}

#[tokio::test]
async fn another_token_and_authority_of_the_service_account_take_effect_without_a_restart() {
    for (what, new_token, new_authority) in [("token", true, false), ("authority", false, true), ("both", true, true)] {
        let server = ApiServer::start_with(ApiServerOptions { tls: true, ..Default::default() }).await.unwrap();
        let server = Arc::new(server);
        server.store().create(secret("shop", "tls", &[])).unwrap();
        let old = server.add_user(User::admin());
        let mut account = ServiceAccount::new();
        account.write(&server, &old);
        let options = in_memory(&server);
        let client = KubeClient::connect(account.origin(), options).await.unwrap();
        tokio::time::pause();
        let source = NodeSource::new(client.clone(), "n1", TokioClock::new()).unwrap();
        let reader = source.reader();
        let _watching = AbortOnDropHandle::new(tokio::spawn(source.run(CancellationToken::new())));
        until(async || reader.status().watches == 1).await;
        read(&client).await.unwrap();

        let token = if new_token { server.add_user(User::admin()) } else { old.clone() };
        if new_token {
            server.expire_token(&old);
        }
        if new_authority {
            server.rotate_tls().unwrap();
        }
        server.cut_connections();
        // Until the kubelet has written the new files, nothing helps.
        sleep(Duration::from_secs(47)).await;
        let error = read(&client).await.unwrap_err();
        let says = "was not issued by the certificate authority of the configuration";
        assert_eq!(error.is_unauthorized(), !new_authority, "{what}: {error}");
        assert_eq!(error.to_string().contains(says), new_authority, "{what}: {error}");

        account.write(&server, &token);
        let written = Instant::now();
        server.store().apply(node("n1")).unwrap();
        until(async || reader.node().is_some() && read(&client).await.is_ok()).await;
        assert!(written.elapsed() <= SOON, "{what}: fresh after {:?}", written.elapsed());
        assert!(reader.freshness().is_some_and(|freshness| freshness.is_fresh()), "{what}");
        assert_eq!(client.credentials_problem(), None, "{what}");
        tokio::time::resume();
    }
}

/// A new token alone is found by the look every ten seconds, before the old one is refused.
#[tokio::test]
async fn another_token_of_the_service_account_is_used_before_the_old_one_is_refused() {
    let server = ApiServer::start_with(ApiServerOptions { tls: true, ..Default::default() }).await.unwrap();
    let server = Arc::new(server);
    server.store().create(secret("shop", "tls", &[])).unwrap();
    let (old, new) = (server.add_user(User::admin()), server.add_user(User::admin()));
    let mut account = ServiceAccount::new();
    account.write(&server, &old);
    let options = in_memory(&server);
    let client = KubeClient::connect(account.origin(), options).await.unwrap();
    tokio::time::pause();
    read(&client).await.unwrap();
    account.write(&server, &new);
    until(async || client.stats().configuration_changes == 1).await;
    server.expire_token(&old);
    server.clear_requests();
    read(&client).await.unwrap();
    let codes: Vec<_> = server.requests().iter().map(|request| request.status).collect();
    assert_eq!(codes, [Some(200)], "the old token was not shown again");
    assert_eq!(client.stats().connections_opened, 1, "the connection stays");
}

/// Each expected value is the one that client-go passes to an exec plugin for the same kubeconfig.
#[test]
fn a_plugin_is_told_all_that_the_kubeconfig_says_of_the_cluster() {
    let certificate = rcgen::generate_simple_self_signed(vec!["server.example".to_owned()]).unwrap().cert.pem();
    let data = base64(certificate.clone().into_bytes());
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("ca.crt"), certificate).unwrap();
    let told = |cluster: serde_json::Value, provide: bool| {
        let exec = json!({"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "p",
            "provideClusterInfo": provide});
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": cluster}], "users": [{"name": "u", "user": {"exec": exec}}]});
        let path = folder.path().join("kubeconfig");
        fs::write(&path, config.to_string()).unwrap();
        let found =
            Origin::Kubeconfig { path, context: None }.read(&KubeOptions::default(), &Files::default()).unwrap();
        found.plugin.unwrap().info()
    };
    let info = |spec: serde_json::Value| json!({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1", "spec": spec});
    let extension = json!({"audience": "x", "ports": [1, 2.5], "on": true, "none": null});
    let cluster = json!({
        "server": "https://server.example:6443/k8s/c-1",
        "tls-server-name": "other.example",
        "certificate-authority": "ca.crt",
        "proxy-url": "http://proxy.example:3128",
        "disable-compression": true,
        "extensions": [
            {"name": "other", "extension": {"not": "for it"}},
            {"name": "client.authentication.k8s.io/exec", "extension": extension},
        ],
    });
    assert_eq!(told(cluster.clone(), false), info(json!({"interactive": false})));
    let expected = json!({
        "server": "https://server.example:6443/k8s/c-1",
        "tls-server-name": "other.example",
        "certificate-authority-data": data,
        "proxy-url": "http://proxy.example:3128",
        "disable-compression": true,
        "config": extension,
    });
    assert_eq!(told(cluster, true), info(json!({"interactive": false, "cluster": expected})));
    let cluster = json!({"server": "https://server.example", "insecure-skip-tls-verify": true});
    let expected = json!({"server": "https://server.example", "insecure-skip-tls-verify": true, "config": null});
    assert_eq!(told(cluster, true), info(json!({"interactive": false, "cluster": expected})));
}
