//! When a credential plugin is run again, and what becomes of the connections; judged by client-go's exec authenticator.
//!
//! Time is paused where no plugin is to run. Plugins are real processes, so they run in real time.

use crate::pool::{Watched, read, watch};
use crate::server::until;
use larder_kube::{ByteStream, Connecting, Connector, KubeClient, KubeOptions};
use larder_testkit::api_server::{ApiServer, ApiServerOptions, ClientCertificate, User, write_private};
use larder_testkit::objects::{node, secret};
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{Instant, advance, pause, resume, sleep};

/// A server, and a client whose plugin prints what is in a file.
struct World {
    server: Arc<ApiServer>,
    client: KubeClient,
    folder: TempDir,
}

impl World {
    /// The plugin's first credentials.
    async fn new(status: impl FnOnce(&ApiServer) -> Value) -> Self {
        let server = ApiServer::start_with(ApiServerOptions { tls: true, ..Default::default() }).await.unwrap();
        server.store().create(secret("shop", "tls", &[])).unwrap();
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("kubeconfig");
        let mut config: Value = serde_json::from_str(&server.kubeconfig("")).unwrap();
        config["users"][0]["user"] = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "cat",
            "args": [folder.path().join("credential")], "interactiveMode": "Never"}});
        write_private(&path, &config.to_string()).unwrap();
        let server = Arc::new(server);
        print(&folder, &status(&server));
        let mut options = KubeOptions::default();
        options.connector = Some(Arc::new(InMemory(Arc::clone(&server))));
        let client = KubeClient::from_kubeconfig(&path, None, options).await.unwrap();
        let world = Self { server, client, folder };
        world.read().await;
        assert_eq!(world.runs(), 1);
        world
    }

    fn print(&self, status: &Value) {
        print(&self.folder, status);
    }

    async fn read(&self) {
        read(&self.client, "tls").await.unwrap();
    }

    /// A watch, for whose sake the connection stays.
    async fn watch(&self) -> Watched {
        let watched = watch(&self.client, "n1");
        until(|| watched.reader.status().watches == 1).await;
        watched
    }

    fn runs(&self) -> u64 {
        self.client.stats().plugin_runs
    }

    fn connections(&self) -> (u64, u64) {
        let stats = self.client.stats();
        (stats.connections_opened, stats.connections_open)
    }
}

fn print(folder: &TempDir, status: &Value) {
    let credential =
        json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status});
    write_private(&folder.path().join("credential"), &credential.to_string()).unwrap();
}

/// Leads to one server.
struct InMemory(Arc<ApiServer>);

impl Connector for InMemory {
    fn connect(&self, _: &http::uri::Authority) -> Connecting {
        let server = Arc::clone(&self.0);
        Box::pin(async move { Ok(Box::new(server.connect_in_memory()?) as Box<dyn ByteStream>) })
    }
}

impl fmt::Debug for InMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InMemory")
    }
}

/// A time of the wall so many seconds from now, as plugins print it. The wall's time does not follow the paused one.
fn in_seconds(seconds: i64) -> String {
    (jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds)).to_string()
}

fn token(server: &ApiServer) -> String {
    server.add_user(User::admin())
}

fn certificate(certificate: &ClientCertificate, expires: &str) -> Value {
    json!({"clientCertificateData": certificate.certificate_pem, "clientKeyData": certificate.key_pem,
        "expirationTimestamp": expires})
}

/// Lets ten minutes and a second pass, and sees that no plugin was run before the ten minutes had.
async fn ten_minutes(world: &World) {
    let runs = world.runs();
    pause();
    sleep(Duration::from_secs(590)).await;
    world.read().await;
    assert_eq!(world.runs(), runs, "the credentials have not expired");
    advance(Duration::from_secs(11)).await;
    resume();
}

#[tokio::test]
async fn a_plugin_whose_credentials_do_not_expire_is_run_once() {
    for expiry in [json!({}), json!({"expirationTimestamp": null})] {
        let world = World::new(|server| {
            let mut status = expiry;
            status["token"] = token(server).into();
            status
        })
        .await;
        pause();
        sleep(Duration::from_hours(1)).await;
        world.read().await;
        assert_eq!(world.runs(), 1);
        resume();
    }
}

#[tokio::test]
async fn a_plugin_is_run_again_once_its_credentials_have_expired_and_not_before() {
    let world = World::new(|server| json!({"token": token(server), "expirationTimestamp": in_seconds(600)})).await;
    let _watched = world.watch().await;
    let new = token(&world.server);
    world.print(&json!({"token": new, "expirationTimestamp": in_seconds(600)}));
    ten_minutes(&world).await;
    world.server.clear_requests();
    world.read().await;
    assert_eq!(world.runs(), 2, "whoever reads waits for the new credentials");
    assert!(world.server.requests().iter().all(|request| request.status == Some(200)));
    ten_minutes(&world).await;
    until(|| world.runs() == 3).await;
    // Another token closes no connection.
    assert_eq!(world.connections(), (1, 1));
}

#[tokio::test]
async fn credentials_that_have_expired_when_they_are_printed_are_used_and_the_plugin_is_not_run_in_a_loop() {
    let begun = Instant::now();
    let world = World::new(|server| json!({"token": token(server), "expirationTimestamp": in_seconds(-3600)})).await;
    let mut reads = 0;
    while world.runs() < 3 {
        world.read().await;
        reads += 1;
        // The shortest pause after a run is a second.
        let most = 2 + begun.elapsed().as_secs();
        assert!(world.runs() <= most, "{} runs of at most {most}", world.runs());
    }
    assert!(reads > 10, "{reads} reads");
}

#[tokio::test]
async fn another_certificate_of_a_plugin_is_used_on_new_connections_and_the_old_ones_are_closed() {
    let mut old = None;
    let world = World::new(|server| {
        let first = server.add_certificate(User::admin()).unwrap();
        let status = certificate(&first, &in_seconds(600));
        old = Some(first);
        status
    })
    .await;
    let watched = world.watch().await;
    assert_eq!(world.connections(), (1, 1));

    let new = world.server.add_certificate(User::admin()).unwrap();
    world.print(&certificate(&new, &in_seconds(600)));
    ten_minutes(&world).await;
    world.server.clear_requests();
    world.read().await;
    assert_eq!((world.runs(), world.client.stats().connections_opened), (2, 2));
    // The watch goes on over the new connection, where the old certificate is worth nothing.
    until(|| world.server.counts().connections_open == 1).await;
    assert!(world.server.expire_certificate(&old.unwrap()));
    world.server.store().apply(node("n1")).unwrap();
    until(|| watched.reader.node().is_some()).await;
    let requests = world.server.requests();
    assert!(requests.iter().all(|request| request.status.is_none_or(|status| status == 200)), "{requests:?}");
    assert_eq!(world.connections(), (2, 1));
    assert_eq!(world.client.credentials_problem(), None);
}

#[tokio::test]
async fn the_same_certificate_printed_again_leaves_connections_where_they_are() {
    let mut first = None;
    let world = World::new(|server| {
        let issued = server.add_certificate(User::admin()).unwrap();
        let status = certificate(&issued, &in_seconds(600));
        first = Some(issued);
        status
    })
    .await;
    let _watched = world.watch().await;
    world.print(&certificate(&first.unwrap(), &in_seconds(600)));
    ten_minutes(&world).await;
    world.read().await;
    assert_eq!((world.runs(), world.connections()), (2, (1, 1)));
}
