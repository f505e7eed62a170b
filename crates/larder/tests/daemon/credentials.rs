//! Certificates, addresses and tokens that change on both sides, and credential plugins that hang and fail.

use crate::harness::{Daemon, until};
use larder_testkit::api_server::{ApiServer, ApiServerOptions, Fault, ObjectStore, User, write_private};
use larder_testkit::objects::{node, pod, secret};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;

const NODE: &str = "node-1";
const SECRET: &str = "/api/v1/namespaces/shop/secrets/db";

/// How soon all is fresh again once both sides have changed.
const SOON: Duration = Duration::from_secs(15);

/// Objects that servers share, and a folder with a kubeconfig.
struct World {
    store: ObjectStore,
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let store = ObjectStore::new();
        store.create(node(NODE)).unwrap();
        store.create(secret("shop", "db", &[("password", "one")])).unwrap();
        store.create(pod("shop", "web").uid("uid-web").node(NODE).secret_volume("db").build()).unwrap();
        Self { store, folder: tempfile::tempdir().unwrap() }
    }

    async fn server(&self) -> ApiServer {
        let options = ApiServerOptions { tls: true, store: self.store.clone(), ..Default::default() };
        ApiServer::start_with(options).await.unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn configure(&self, server: &ApiServer, user: &Value) {
        let mut config: Value = serde_json::from_str(&server.kubeconfig("")).unwrap();
        config["users"][0]["user"] = user.clone();
        write_private(&self.path("kubeconfig"), &config.to_string()).unwrap();
    }

    fn daemon(&self, arguments: &[&str]) -> Daemon {
        let kubeconfig = self.path("kubeconfig").display().to_string();
        let all = [&["--kubeconfig", &kubeconfig, "--runtime-endpoint", "none"], arguments].concat();
        Daemon::spawn(tempfile::tempdir().unwrap(), &all)
    }

    /// Changes the Secret and the pod, and waits until the daemon has both fresh as they are.
    async fn heals(&self, daemon: &Daemon, what: &str) {
        let changed = Instant::now();
        self.store.apply(secret("shop", "db", &[("password", what)])).unwrap();
        let label = |pod: &mut k8s_openapi::api::core::v1::Pod| {
            pod.metadata.labels.get_or_insert_default().insert("changed".to_owned(), "yes".to_owned());
        };
        self.store.modify("shop", "web", label).unwrap();
        until(what, async || {
            let (secret, pods) = (daemon.try_get(SECRET).await?, daemon.try_get("/api/v1/pods").await?);
            let is_fresh = secret.code == 200 && !secret.is_stale() && pods.code == 200 && !pods.is_stale();
            let is_new = || {
                secret.json()["data"]["password"] == base64_of(what)
                    && pods.json()["items"][0]["metadata"]["labels"]["changed"] == "yes"
            };
            (is_fresh && is_new()).then_some(())
        })
        .await;
        assert!(changed.elapsed() <= SOON, "{what}: fresh after {:?}", changed.elapsed());
        until("the report has nothing to say", async || degraded(daemon).await?.is_empty().then_some(())).await;
        let reads = metric(daemon, "larder_api_server_configuration_reads_total").await;
        assert!(reads <= 30, "{what}: {reads} reads");
    }
}

fn base64_of(value: &str) -> Value {
    serde_json::to_value(k8s_openapi::ByteString(value.as_bytes().to_vec())).unwrap()
}

/// What the report complains of; none while the daemon does not answer yet.
async fn degraded(daemon: &Daemon) -> Option<Vec<String>> {
    let report = daemon.try_get("/larder/v1/status").await?.json();
    Some(report["degraded"].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect())
}

async fn until_degraded(daemon: &Daemon, says: &str) -> String {
    until(says, async || degraded(daemon).await?.into_iter().find(|line| line.contains(says))).await
}

async fn metric(daemon: &Daemon, name: &str) -> u64 {
    let text = daemon.get("/metrics").await.text;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    line.trim().parse().unwrap()
}

#[tokio::test]
async fn another_certificate_authority_and_certificate_take_effect_without_a_restart() {
    let world = World::new();
    let server = world.server().await;
    let user = json!({"token": server.add_user(User::node(NODE))});
    world.configure(&server, &user);
    let daemon = world.daemon(&[]);
    daemon.ready().await;
    server.outage().await;
    server.rotate_tls().unwrap();
    server.restore().await.unwrap();
    until_degraded(&daemon, "was not issued by the certificate authority of the configuration").await;
    world.configure(&server, &user);
    world.heals(&daemon, "ca").await;
}

#[tokio::test]
async fn another_address_takes_effect_without_a_restart() {
    let world = World::new();
    let old = world.server().await;
    world.configure(&old, &json!({"token": old.add_user(User::node(NODE))}));
    let daemon = world.daemon(&[]);
    daemon.ready().await;
    let new = world.server().await;
    old.outage().await;
    until_degraded(&daemon, old.url()).await;
    world.configure(&new, &json!({"token": new.add_user(User::node(NODE))}));
    world.heals(&daemon, "address").await;
    let report = daemon.get("/larder/v1/status").await.json();
    assert_eq!(report["sources"][0]["from"], new.url(), "{report}");
}

#[tokio::test]
async fn another_client_certificate_takes_effect_without_a_restart() {
    let world = World::new();
    let server = world.server().await;
    let write = |certificate: &larder_testkit::api_server::ClientCertificate| {
        write_private(&world.path("client.crt"), &certificate.certificate_pem).unwrap();
        write_private(&world.path("client.key"), &certificate.key_pem).unwrap();
    };
    let old = server.add_certificate(User::node(NODE)).unwrap();
    write(&old);
    world.configure(&server, &json!({"client-certificate": "client.crt", "client-key": "client.key"}));
    let daemon = world.daemon(&[]);
    daemon.ready().await;
    server.expire_certificate(&old);
    server.cut_connections();
    until_degraded(&daemon, "401").await;
    write(&server.add_certificate(User::node(NODE)).unwrap());
    world.heals(&daemon, "client certificate").await;
}

#[tokio::test]
async fn another_token_takes_effect_without_a_restart() {
    let world = World::new();
    let server = world.server().await;
    let old = server.add_user(User::node(NODE));
    write_private(&world.path("token"), &old).unwrap();
    world.configure(&server, &json!({"tokenFile": "token"}));
    let daemon = world.daemon(&[]);
    daemon.ready().await;
    server.expire_token(&old);
    server.cut_connections();
    until_degraded(&daemon, "401").await;
    write_private(&world.path("token"), &server.add_user(User::node(NODE))).unwrap();
    world.heals(&daemon, "token").await;
}

/// Writes the files of a service account as the kubelet does: a link leads to their folder, and is replaced as a whole.
fn write_service_account(account: &Path, version: &str, server: &ApiServer, token: &str) {
    fs::create_dir_all(account.join(version)).unwrap();
    fs::write(account.join(version).join("ca.crt"), server.ca_pem().unwrap()).unwrap();
    fs::write(account.join(version).join("token"), token).unwrap();
    symlink(version, account.join("..data_tmp")).unwrap();
    fs::rename(account.join("..data_tmp"), account.join("..data")).unwrap();
    for name in ["ca.crt", "token"] {
        if !account.join(name).exists() {
            symlink(Path::new("..data").join(name), account.join(name)).unwrap();
        }
    }
}

#[tokio::test]
async fn another_token_and_authority_of_the_service_account_take_effect_without_a_restart() {
    let world = World::new();
    let server = world.server().await;
    let (old, new) = (server.add_user(User::node(NODE)), server.add_user(User::node(NODE)));
    let account = world.path("serviceaccount");
    write_service_account(&account, "..1", &server, &old);
    let arguments = ["--runtime-endpoint", "none"];
    let daemon = Daemon::spawn_in_pod(server.address(), &account, tempfile::tempdir().unwrap(), &arguments);
    daemon.ready().await;

    server.expire_token(&old);
    server.cut_connections();
    until_degraded(&daemon, "401").await;
    write_service_account(&account, "..2", &server, &new);
    world.heals(&daemon, "token").await;

    server.outage().await;
    server.rotate_tls().unwrap();
    server.restore().await.unwrap();
    until_degraded(&daemon, "was not issued by the certificate authority of the configuration").await;
    write_service_account(&account, "..3", &server, &new);
    world.heals(&daemon, "ca").await;
}

/// A user whose plugin is this script; it may name the folder as F.
fn plugin(folder: &Path, script: &str) -> Value {
    json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": ["-c", script.replace("F/", &format!("{}/", folder.display()))],
        "interactiveMode": "Never",
    }})
}

/// Notes each run, and prints what is in the file `credential`.
const PRINTS: &str = "echo run >> F/runs; cat F/credential";

fn credential(token: &str, more: &str) -> String {
    format!(
        r#"{{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {{"token": "{token}"{more}}}}}"#
    )
}

fn runs(world: &World) -> usize {
    fs::read_to_string(world.path("runs")).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn a_plugin_is_run_once_for_all_requests() {
    let world = World::new();
    let server = world.server().await;
    write_private(&world.path("credential"), &credential(&server.add_user(User::node(NODE)), "")).unwrap();
    world.configure(&server, &plugin(world.folder.path(), PRINTS));
    let daemon = world.daemon(&[]);
    daemon.ready().await;
    world.heals(&daemon, "plugin").await;
    server.cut_connections();
    world.heals(&daemon, "new connections").await;
    assert_eq!((runs(&world), metric(&daemon, "larder_api_server_plugin_runs_total").await), (1, 1));
}

#[tokio::test]
async fn a_plugin_gets_the_limit_of_open_files_that_larder_was_started_with() {
    // The limit is lowered just after the start of the plugin.
    let waits = format!("until [ \"$(ulimit -Sn)\" = 200 ]; do :; done\nulimit -Hn >F/hard\n{PRINTS}");
    let world = World::new();
    let server = world.server().await;
    write_private(&world.path("credential"), &credential(&server.add_user(User::node(NODE)), "")).unwrap();
    world.configure(&server, &plugin(world.folder.path(), &waits));
    let kubeconfig = world.path("kubeconfig").display().to_string();
    let arguments = ["--kubeconfig", &kubeconfig, "--runtime-endpoint", "none"];
    let limits = "ulimit -Sn 200 && ulimit -Hn 700";
    let daemon = Daemon::spawn_with_limits(limits, tempfile::tempdir().unwrap(), &arguments);
    daemon.ready().await;
    assert_eq!(fs::read_to_string(world.path("hard")).unwrap(), "700\n");
}

#[tokio::test]
async fn a_plugin_whose_token_is_refused_is_run_again_and_a_failing_one_shows_in_the_status_of_direct() {
    let world = World::new();
    let server = world.server().await;
    let old = server.add_user(User::node(NODE));
    write_private(&world.path("credential"), &credential(&old, "")).unwrap();
    world.configure(&server, &plugin(world.folder.path(), PRINTS));
    let daemon = world.daemon(&["--change-detection", "direct"]);
    daemon.ready().await;
    until("it is read", async || daemon.try_get(SECRET).await.filter(|answer| answer.code == 200)).await;
    // Watches go on with an old token, so pods and node stay well.
    write_private(&world.path("credential"), "sentinel").unwrap();
    server.expire_token(&old);
    daemon.get(SECRET).await;
    let told = until_degraded(&daemon, "credential plugin").await;
    assert!(
        told.starts_with("credentials: the credential plugin \"sh\" did not print an ExecCredential in JSON"),
        "{told}"
    );
    let table = daemon.larder("status").await.stdout;
    assert!(table.contains("the credential plugin \"sh\" did not print"), "{table}");
    assert!(!told.contains("sentinel") && !daemon.log().contains("sentinel"), "{told}");
    assert_eq!(metric(&daemon, "larder_degraded").await, 1);
    assert!(metric(&daemon, "larder_api_server_configuration_failures_total").await >= 1);
    write_private(&world.path("credential"), &credential(&server.add_user(User::node(NODE)), "")).unwrap();
    world.heals(&daemon, "plugin").await;
    assert!(runs(&world) <= 20, "{} runs", runs(&world));
}

/// It starts a child, and both would stay for ever.
const HANGS: &str = "echo $$ >> F/pids; sleep 100000 & echo $! >> F/pids; wait";

fn pids(world: &World) -> Vec<String> {
    fs::read_to_string(world.path("pids")).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn is_running(pid: &String) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn a_plugin_that_hangs_holds_up_no_socket_shows_in_the_status_and_is_killed() {
    let world = World::new();
    let server = world.server().await;
    world.configure(&server, &plugin(world.folder.path(), HANGS));
    fs::write(world.path("settings.yaml"), "kube: {pluginDeadline: 5s}\n").unwrap();
    let settings = world.path("settings.yaml").display().to_string();
    let mut daemon = world.daemon(&["--config", &settings]);
    let begun = Instant::now();
    until("it answers", async || daemon.try_get("/livez").await.filter(|answer| answer.code == 200)).await;
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "the socket is served while the plugin runs: {:?}",
        begun.elapsed()
    );
    let reading = daemon.get("/api/v1/pods").await;
    assert_eq!(reading.code, 503, "{reading:?}");
    until_degraded(&daemon, "the credential plugin \"sh\" has been running for").await;
    until_degraded(&daemon, "the credential plugin \"sh\" has not ended within 5s and was killed").await;
    // One at a time, whatever asks: the plugin and its child.
    until("it is run again", async || (pids(&world).len() >= 6).then_some(())).await;
    assert!(pids(&world).iter().filter(|pid| is_running(pid)).count() <= 2, "{:?}", pids(&world));
    let children = fs::read_dir(format!("/proc/{}/task", daemon.id())).unwrap().count();
    assert!(children <= 12, "{children} threads");
    daemon.signal(rustix::process::Signal::TERM);
    assert!(daemon.ended().await.success());
    until("nothing is left", async || (!pids(&world).iter().any(is_running)).then_some(())).await;
}

#[tokio::test]
async fn a_plugin_that_ends_at_last_makes_all_fresh() {
    let world = World::new();
    let server = world.server().await;
    world.configure(&server, &plugin(world.folder.path(), HANGS));
    fs::write(world.path("settings.yaml"), "kube: {pluginDeadline: 2s}\n").unwrap();
    let settings = world.path("settings.yaml").display().to_string();
    let daemon = world.daemon(&["--config", &settings]);
    until_degraded(&daemon, "has not ended within 2s").await;
    write_private(&world.path("credential"), &credential(&server.add_user(User::node(NODE)), "")).unwrap();
    world.configure(&server, &plugin(world.folder.path(), PRINTS));
    world.heals(&daemon, "plugin").await;
    assert_eq!(runs(&world), 1);
    assert!(!pids(&world).iter().any(is_running), "{:?}", pids(&world));
}

/// A server that answers every request with a 403 whose message repeats the credentials, in the header's form and in clear.
async fn repeats_credentials(listener: tokio::net::TcpListener, clear: &str) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = vec![0; 16 << 10];
        let length = stream.read(&mut head).await.unwrap_or_default();
        let head = String::from_utf8_lossy(&head[..length]).into_owned();
        let sent = head.lines().find(|line| line.to_lowercase().starts_with("authorization:")).unwrap_or_default();
        let message = format!("who sent {sent} ({clear})?");
        let body = json!({"kind": "Status", "reason": "Forbidden", "message": message, "code": 403}).to_string();
        let head = "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\nconnection: close";
        // The client may have gone.
        let _ = stream.write_all(format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await;
    }
}

#[tokio::test]
async fn credentials_that_a_server_repeats_are_told_to_nobody() {
    for (user, secrets) in [
        (json!({"token": "open-sesame-token"}), ["open-sesame-token", "open-sesame-token"]),
        (
            json!({"username": "bob", "password": "hunter2-password"}),
            ["hunter2-password", "Ym9iOmh1bnRlcjItcGFzc3dvcmQ="],
        ),
    ] {
        let world = World::new();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": user}],
        });
        write_private(&world.path("kubeconfig"), &config.to_string()).unwrap();
        let mut daemon = world.daemon(&["--log-level", "debug"]);
        tokio::select! {
            () = repeats_credentials(listener, secrets[0]) => unreachable!(),
            told = until("the refusal is told", async || {
                let mut told = daemon.log();
                for path in ["/larder/v1/status?objects=true", "/metrics", SECRET] {
                    told.push_str(&daemon.try_get(path).await.map(|answer| answer.text).unwrap_or_default());
                }
                told.contains("[credentials]").then_some(told)
            }) => for secret in secrets {
                assert!(!told.contains(secret), "{secret} in {told}");
            },
        }
        daemon.kill();
    }
}

#[tokio::test]
async fn tokens_that_a_server_repeats_to_a_healthy_daemon_are_told_to_nobody() {
    const BEFORE: &str = "open-sesame-before-the-renewal-0123456789";
    const AFTER: &str = "open-sesame-after-the-renewal-9876543210";
    let world = World::new();
    let server = world.server().await;
    server.set_token(BEFORE, User::node(NODE));
    world.configure(&server, &json!({"token": BEFORE}));
    let daemon = world.daemon(&["--log-level", "debug"]);
    daemon.ready().await;
    until("it has the Secret", async || (daemon.get(SECRET).await.code == 200).then_some(())).await;

    // An error event in each watch, then refusals that repeat the tokens of before and after the renewal. The longest message
    // that larder keeps ends within the last token.
    let repeats = |what: &str, tokens: &[&str]| {
        let (start, last) = (format!("{what} {} ", tokens.join(" ")), tokens[tokens.len() - 1]);
        format!("{start}{}{last}", "x".repeat(1024 - 15 - start.len()))
    };
    server.fail_watches(403, &repeats("event", &[BEFORE]));
    daemon.logged("event [credentials]").await;
    server.set_token(AFTER, User::node(NODE));
    world.configure(&server, &json!({"token": AFTER}));
    server.inject(Fault::status(401).message(&repeats("unauthorized", &[BEFORE, BEFORE])).times(4));
    server.inject(Fault::status(403).message(&repeats("forbidden", &[BEFORE, AFTER])));
    server.end_watches();
    daemon.logged("unauthorized [credentials] [credentials]").await;
    let told = until("all is told", async || {
        let mut answers = Vec::new();
        for path in ["/larder/v1/status?objects=true", "/metrics", SECRET, "/api/v1/pods"] {
            answers.push(daemon.get(path).await);
        }
        let outputs = [daemon.larder("status -o wide").await, daemon.larder("get secret db -n shop").await];
        let told = format!("{answers:?} {outputs:?}");
        told.contains("forbidden [credentials] [credentials]").then_some(told)
    })
    .await;
    for (place, text) in [("the log", daemon.log()), ("the answers", told)] {
        assert!(!text.contains("open-sesame"), "{place}: {text}");
    }
}
