//! Servers, certificates and credentials that change, over streams in memory and in paused time.

use crate::fake::{until, within};
use crate::pool::{read, watch};
use http::uri::Authority;
use larder_kube::{ByteStream, Connecting, Connector, KubeClient, KubeError, KubeOptions};
use larder_testkit::api_server::{ApiServer, ApiServerOptions, ObjectStore, User, write_private};
use larder_testkit::objects::{node, secret};
use parking_lot::Mutex;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// How soon all is fresh again once both sides have changed.
const SOON: Duration = Duration::from_secs(15);

/// Simulated servers by their port, and a folder with a kubeconfig.
struct World {
    servers: Arc<Mutex<HashMap<u16, Arc<ApiServer>>>>,
    folder: TempDir,
    store: ObjectStore,
}

impl World {
    fn new() -> Self {
        let store = ObjectStore::new();
        store.create(secret("shop", "tls", &[])).unwrap();
        Self { servers: Arc::default(), folder: TempDir::new().unwrap(), store }
    }

    /// A server with the objects of all, at this port.
    async fn server(&self, port: u16) -> Arc<ApiServer> {
        let options = ApiServerOptions { tls: true, store: self.store.clone(), ..Default::default() };
        let server = Arc::new(ApiServer::start_with(options).await.unwrap());
        self.servers.lock().insert(port, Arc::clone(&server));
        server
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        write_private(&self.path(name), text).unwrap();
    }

    /// Writes the kubeconfig.
    fn configure(&self, port: u16, server: &ApiServer, user: &Value) {
        let mut config: Value = serde_json::from_str(&server.kubeconfig("")).unwrap();
        config["clusters"][0]["cluster"]["server"] = json!(format!("https://127.0.0.1:{port}"));
        config["users"][0]["user"] = user.clone();
        self.write("kubeconfig", &config.to_string());
    }

    /// The same, with the certificate authority in a file of its own.
    fn configure_with_ca_file(&self, port: u16, server: &ApiServer, user: &Value) {
        self.configure(port, server, user);
        let mut config: Value =
            serde_json::from_str(&std::fs::read_to_string(self.path("kubeconfig")).unwrap()).unwrap();
        let cluster = config["clusters"][0]["cluster"].as_object_mut().unwrap();
        cluster.remove("certificate-authority-data");
        cluster.insert("certificate-authority".to_owned(), json!("ca.crt"));
        self.write("kubeconfig", &config.to_string());
        self.write("ca.crt", &server.ca_pem().unwrap());
    }

    async fn client(&self) -> KubeClient {
        let connector = Arc::new(Ports(Arc::clone(&self.servers)));
        let mut options = KubeOptions::default();
        options.connector = Some(connector);
        KubeClient::from_kubeconfig(self.path("kubeconfig"), None, options).await.unwrap()
    }

    /// Pauses the time, sees that a watch and a read work, changes something, and sees that both work again soon after; also
    /// where nobody reads meanwhile.
    async fn heals(&self, what: &str, client: &KubeClient, change: impl AsyncFnOnce()) {
        tokio::time::pause();
        let watched = watch(client, "n1");
        until(|| watched.reader.status().watches == 1).await;
        read(client, "tls").await.unwrap();
        change().await;
        let changed = Instant::now();
        let reads = client.stats().configuration_reads;
        self.store.apply(node("n1")).unwrap();
        until(|| watched.reader.node().is_some()).await;
        assert!(changed.elapsed() <= SOON, "{what}: the watch is up to date after {:?}", changed.elapsed());
        until_read(client).await;
        assert!(changed.elapsed() <= SOON, "{what}: reads succeed after {:?}", changed.elapsed());
        assert_eq!(client.credentials_problem(), None, "{what}");
        let reads = client.stats().configuration_reads - reads;
        assert!(reads <= 8, "{what}: {reads} reads");
        // Nothing is read without end once all is well.
        let before = client.stats().configuration_reads;
        sleep(Duration::from_mins(10)).await;
        let reads = client.stats().configuration_reads - before;
        assert!((55..=62).contains(&reads), "{what}: {reads} reads in ten minutes");
        tokio::time::resume();
    }
}

async fn until_read(client: &KubeClient) {
    within(async {
        while read(client, "tls").await.is_err() {
            sleep(Duration::from_millis(200)).await;
        }
    })
    .await;
}

/// Leads to the server of a port.
struct Ports(Arc<Mutex<HashMap<u16, Arc<ApiServer>>>>);

impl Connector for Ports {
    fn connect(&self, host: &Authority) -> Connecting {
        let server = host.port_u16().and_then(|port| self.0.lock().get(&port).cloned());
        Box::pin(async move {
            let server = server.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionRefused))?;
            Ok(Box::new(server.connect_in_memory()?) as Box<dyn ByteStream>)
        })
    }
}

impl fmt::Debug for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ports")
    }
}

#[tokio::test]
async fn another_certificate_authority_takes_effect_whichever_side_changes_first() {
    for (what, in_file, server_first) in [
        ("inline, server first", false, true),
        ("inline, kubeconfig first", false, false),
        ("file, server first", true, true),
        ("file, kubeconfig first", true, false),
    ] {
        let world = World::new();
        let server = world.server(6443).await;
        let user = json!({"token": server.admin_token()});
        let configure = |server: &ApiServer| {
            if in_file {
                world.configure_with_ca_file(6443, server, &user);
            } else {
                world.configure(6443, server, &user);
            }
        };
        configure(&server);
        let client = world.client().await;
        world
            .heals(what, &client, async || {
                server.rotate_tls().unwrap();
                if server_first {
                    server.cut_connections();
                    sleep(Duration::from_secs(47)).await;
                    let told = read(&client, "tls").await.unwrap_err().to_string();
                    assert!(
                        told.contains("was not issued by the certificate authority of the configuration"),
                        "{told}"
                    );
                    configure(&server);
                } else {
                    configure(&server);
                    sleep(Duration::from_secs(47)).await;
                    // Connections that work are not given up for a server that cannot be reached.
                    server.cut_connections();
                }
            })
            .await;
    }
}

#[tokio::test]
async fn another_address_takes_effect_whether_or_not_the_old_server_is_gone() {
    for (what, is_gone) in [("gone", true), ("still there", false)] {
        let world = World::new();
        let old = world.server(6443).await;
        world.configure(6443, &old, &json!({"token": old.admin_token()}));
        let client = world.client().await;
        let new = world.server(7443).await;
        world
            .heals(what, &client, async || {
                if is_gone {
                    old.outage().await;
                    sleep(Duration::from_secs(47)).await;
                }
                world.configure(7443, &new, &json!({"token": new.admin_token()}));
                let changed = Instant::now();
                until(|| &*client.server() == "https://127.0.0.1:7443").await;
                assert!(changed.elapsed() <= SOON, "{what}: {:?}", changed.elapsed());
            })
            .await;
        assert_eq!(old.counts().connections_open, 0, "{what}: the old connections are closed");
    }
}

/// Nothing answers at the old address, and nothing refuses either.
#[tokio::test]
async fn another_address_takes_effect_where_the_old_server_is_frozen() {
    let world = World::new();
    let old = world.server(6443).await;
    world.configure(6443, &old, &json!({"token": old.admin_token()}));
    let client = world.client().await;
    let new = world.server(7443).await;
    world
        .heals("frozen", &client, async || {
            old.stall_connections(true);
            world.configure(7443, &new, &json!({"token": new.admin_token()}));
        })
        .await;
}

#[tokio::test]
async fn another_client_certificate_takes_effect_on_new_connections() {
    let world = World::new();
    let server = world.server(6443).await;
    let user = json!({"client-certificate": "client.crt", "client-key": "client.key"});
    let old = server.add_certificate(User::admin()).unwrap();
    let new = server.add_certificate(User::admin()).unwrap();
    world.write("client.crt", &old.certificate_pem);
    world.write("client.key", &old.key_pem);
    world.configure(6443, &server, &user);
    let client = world.client().await;
    world
        .heals("client certificate", &client, async || {
            world.write("client.crt", &new.certificate_pem);
            // Between the two writes the pair does not fit.
            sleep(Duration::from_secs(12)).await;
            let problem = client.credentials_problem().unwrap();
            assert!(problem.contains("does not belong to the client key of"), "{problem}");
            read(&client, "tls").await.unwrap();
            world.write("client.key", &new.key_pem);
            assert!(server.expire_certificate(&old));
        })
        .await;
    assert_eq!(client.stats().connections_open, 1);
}

#[tokio::test]
async fn another_token_takes_effect_and_leaves_connections_where_they_are() {
    let world = World::new();
    let server = world.server(6443).await;
    let (old, new) = (server.add_user(User::admin()), server.add_user(User::admin()));
    world.write("token", &old);
    world.configure(6443, &server, &json!({"tokenFile": "token"}));
    let client = world.client().await;
    world
        .heals("token", &client, async || {
            server.expire_token(&old);
            sleep(Duration::from_secs(47)).await;
            assert!(read(&client, "tls").await.unwrap_err().is_unauthorized());
            assert!(client.credentials_problem().unwrap().contains("401"));
            world.write("token", &new);
        })
        .await;
    assert_eq!(client.stats().connections_opened, 1);
}

#[tokio::test]
async fn what_cannot_be_read_is_told_and_what_was_read_before_is_used() {
    let world = World::new();
    let server = world.server(6443).await;
    world.configure(6443, &server, &json!({"token": server.admin_token()}));
    let client = world.client().await;
    tokio::time::pause();
    for (text, says) in [("{", "not a valid kubeconfig"), ("{}", "current-context")] {
        world.write("kubeconfig", text);
        until(|| client.credentials_problem().is_some_and(|problem| problem.contains(says))).await;
        read(&client, "tls").await.unwrap();
    }
    world.configure(6443, &server, &json!({"token": server.admin_token()}));
    until(|| client.credentials_problem().is_none()).await;
    assert_eq!(client.stats().connections_opened, 1);
}

/// A FIFO has no writer, so that a read that opened it would never end.
#[tokio::test]
async fn a_fifo_in_place_of_a_file_is_told_and_a_file_takes_effect_again() {
    let world = World::new();
    let server = world.server(6443).await;
    world.write("token", server.admin_token());
    world.configure_with_ca_file(6443, &server, &json!({"tokenFile": "token"}));
    let client = world.client().await;
    tokio::time::pause();
    for name in ["kubeconfig", "ca.crt", "token"] {
        let path = world.path(name);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let says = format!("{}: it is a FIFO; put a regular file in its place", path.display());
        until(|| client.credentials_problem().is_some_and(|problem| problem.contains(&says))).await;
        read(&client, "tls").await.unwrap();
        std::fs::remove_file(&path).unwrap();
        world.write(name, &text);
        until(|| client.credentials_problem().is_none()).await;
    }
}

/// A server that has refused the old token, and a token file with a new one that is read when the test says so.
struct Renewal {
    server: Arc<ApiServer>,
    client: KubeClient,
    /// Holds the only thread that reads files.
    reads: std::sync::mpsc::Sender<()>,
    _world: World,
}

impl Renewal {
    /// Runs a test on a runtime with one thread for what blocks.
    fn test(test: impl AsyncFnOnce(Self)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
        runtime.unwrap().block_on(async { test(Self::new().await).await });
    }

    async fn new() -> Self {
        let world = World::new();
        let server = world.server(6443).await;
        let (old, new) = (server.add_user(User::admin()), server.add_user(User::admin()));
        world.write("token", &old);
        world.configure(6443, &server, &json!({"tokenFile": "token"}));
        let client = world.client().await;
        read(&client, "tls").await.unwrap();
        let (reads, held) = std::sync::mpsc::channel();
        tokio::task::spawn_blocking(move || held.recv());
        server.expire_token(&old);
        world.write("token", &new);
        server.clear_requests();
        Self { server, client, reads, _world: world }
    }

    /// A caller; it meets a 401.
    fn read(&self) -> tokio::task::JoinHandle<Result<String, KubeError>> {
        let client = self.client.clone();
        tokio::spawn(async move { read(&client, "tls").await })
    }

    async fn until_refused(&self, times: usize) {
        let is_refused =
            || self.server.requests().iter().filter(|request| request.status == Some(401)).count() >= times;
        crate::server::until(is_refused).await;
    }

    /// Lets the token be read.
    fn release(&self) {
        self.reads.send(()).unwrap();
    }
}

#[test]
fn callers_that_meet_a_401_while_the_token_is_read_all_succeed_with_it() {
    Renewal::test(async |renewal| {
        let callers: Vec<_> = (0..20).map(|_| renewal.read()).collect();
        renewal.until_refused(20).await;
        assert!(callers.iter().all(|caller| !caller.is_finished()), "they wait");
        renewal.release();
        for caller in callers {
            within(caller).await.unwrap().unwrap();
        }
        let stats = renewal.client.stats();
        assert_eq!((stats.configuration_reads, stats.configuration_changes), (2, 1), "{stats:?}");
    });
}

#[test]
fn a_caller_that_is_dropped_while_it_waits_for_the_token_holds_up_nobody() {
    Renewal::test(async |renewal| {
        let leader = renewal.read();
        renewal.until_refused(1).await;
        let second = renewal.read();
        renewal.until_refused(2).await;
        leader.abort();
        assert!(leader.await.unwrap_err().is_cancelled());
        let third = renewal.read();
        renewal.until_refused(3).await;
        renewal.release();
        second.await.unwrap().unwrap();
        third.await.unwrap().unwrap();
        // One that comes later finds the new token.
        read(&renewal.client, "tls").await.unwrap();
    });
}

#[test]
fn callers_wait_for_a_token_that_is_not_read_until_their_own_deadlines() {
    Renewal::test(async |renewal| {
        let caller = renewal.read();
        renewal.until_refused(1).await;
        // A read that blocks keeps the time from passing by itself.
        tokio::time::pause();
        let begun = Instant::now();
        tokio::time::advance(Duration::from_secs(11)).await;
        let error = caller.await.unwrap().unwrap_err();
        assert!(error.is_unauthorized() && begun.elapsed() < Duration::from_secs(12), "{error}");
        renewal.release();
        until_read(&renewal.client).await;
    });
}

/// Every ten seconds the configuration is read, and the plugin is not run for that.
#[test]
fn callers_that_meet_a_401_while_the_configuration_is_looked_at_succeed_with_what_the_plugin_gives_then() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        let world = World::new();
        let server = world.server(6443).await;
        let print = |token: &str| {
            let credential = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                "status": {"token": token}});
            world.write("credential", &credential.to_string());
        };
        let (old, new) = (server.add_user(User::admin()), server.add_user(User::admin()));
        print(&old);
        let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "cat",
            "args": [world.path("credential")], "interactiveMode": "Never"});
        world.configure(6443, &server, &json!({"exec": exec}));
        let client = world.client().await;
        read(&client, "tls").await.unwrap();

        // The only thread that reads files is held while a look is under way.
        let (release, held) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || held.recv());
        let looks = client.stats().configuration_reads;
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(11)).await;
        tokio::time::resume();
        crate::server::until(|| client.stats().configuration_reads > looks).await;
        server.expire_token(&old);
        print(&new);
        server.clear_requests();
        let callers: Vec<_> = (0..20)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { read(&client, "tls").await })
            })
            .collect();
        crate::server::until(|| server.requests().iter().filter(|request| request.status == Some(401)).count() == 20)
            .await;
        release.send(()).unwrap();
        for caller in callers {
            within(caller).await.unwrap().unwrap();
        }
        assert_eq!(client.stats().plugin_runs, 2);
    });
}

/// Both before there are any credentials and after a 401: a plugin prints what a pipe brings.
#[tokio::test]
async fn a_plugin_is_run_once_for_all_who_wait() {
    let world = World::new();
    let server = world.server(6443).await;
    let pipe = world.path("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "cat", "args": [pipe],
        "interactiveMode": "Never"});
    world.configure(6443, &server, &json!({"exec": exec}));
    let client = world.client().await;
    let print = |token: &str| {
        let credential = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": {"token": token}});
        let pipe = pipe.clone();
        tokio::task::spawn_blocking(move || std::fs::write(pipe, credential.to_string()))
    };
    let mut old = String::new();
    for runs in 1..=2 {
        server.expire_token(&old);
        server.clear_requests();
        let callers = (0..20).map(|_| read(&client, "tls"));
        let waiting = futures_util::future::join_all(callers);
        old = server.add_user(User::admin());
        let refused = || server.requests().iter().filter(|request| request.status == Some(401)).count();
        let printed = async {
            crate::server::until(|| client.stats().plugin_runs == runs && (runs == 1 || refused() == 20)).await;
            print(&old).await.unwrap().unwrap();
        };
        let (read, ()) = tokio::join!(waiting, printed);
        assert!(read.iter().all(Result::is_ok), "{read:?}");
        assert_eq!(client.stats().plugin_runs, runs);
        // None follows.
        tokio::time::pause();
        sleep(Duration::from_mins(1)).await;
        tokio::time::resume();
        assert_eq!(client.stats().plugin_runs, runs);
    }
}
