//! With a simulated API server and a simulated runtime that go away and come back.

use crate::harness::{Answer, Daemon, until};
use larder_testkit::api_server::{ApiServer, ApiServerOptions, CacheLag, Fault, Kind, StreamingLists, User, Verb};
use larder_testkit::cri_runtime::{CriServer, SandboxSpec};
use larder_testkit::objects::{node, pod, secret};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const NODE: &str = "node-1";
const SECRET: &str = "/api/v1/namespaces/shop/secrets/db";

/// What a daemon of a cluster is started between.
struct Cluster {
    api: ApiServer,
    cri: CriServer,
    kubeconfig: String,
    endpoint: String,
}

impl Cluster {
    /// A node with a TTL of `ttl` seconds, and a pod `web` that refers to the Secret `db` and runs.
    async fn start(folder: &Path, ttl: u32) -> Self {
        Self::start_with(folder, ttl, ApiServerOptions::default()).await
    }

    async fn start_with(folder: &Path, ttl: u32, options: ApiServerOptions) -> Self {
        let api = ApiServer::start_with(options).await.unwrap();
        let mut node = node(NODE);
        let annotations = node.metadata.annotations.get_or_insert_default();
        annotations.insert("node.alpha.kubernetes.io/ttl".to_owned(), ttl.to_string());
        api.store().create(node).unwrap();
        api.store().create(secret("shop", "db", &[("password", "one")])).unwrap();
        api.store().create(pod("shop", "web").uid("uid-web").node(NODE).secret_volume("db").build()).unwrap();
        let kubeconfig = folder.join("kubeconfig");
        let token = api.add_user(User::node(NODE));
        api.write_kubeconfig(&kubeconfig, &token).unwrap();
        let cri = CriServer::start(&folder.join("cri.sock")).await.unwrap();
        let endpoint = cri.endpoint();
        Self { api, cri, kubeconfig: kubeconfig.display().to_string(), endpoint }
    }

    fn daemon(&self, folder: TempDir) -> Daemon {
        // What these tests are about comes with a TTL; `objects` has the strategies.
        let arguments =
            ["--kubeconfig", &self.kubeconfig, "--runtime-endpoint", &self.endpoint, "--change-detection", "ttl"];
        Daemon::spawn(folder, &arguments)
    }

    fn run_web(&self) -> String {
        let sandbox = self.cri.containers().run_sandbox(&SandboxSpec::new("shop", "web", "uid-web"));
        let container = self.cri.containers().create_container(&sandbox, "app", "shop/web:1").unwrap();
        self.cri.containers().start_container(&container).unwrap();
        container
    }

    fn set_password(&self, value: &str) {
        self.api.store().apply(secret("shop", "db", &[("password", value)])).unwrap();
    }

    fn fetches(&self) -> u64 {
        self.api.counts().of(Verb::Get, Kind::Secret)
    }
}

/// A cluster, and a daemon in it that is ready.
async fn cluster_and_daemon(ttl: u32) -> (Cluster, Daemon, TempDir) {
    let outside = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(outside.path(), ttl).await;
    let daemon = cluster.daemon(tempfile::tempdir().unwrap());
    daemon.ready().await;
    (cluster, daemon, outside)
}

async fn until_answer(daemon: &Daemon, path: &str, what: &str, fits: impl Fn(&Answer) -> bool) -> Answer {
    until(what, async || daemon.try_get(path).await.filter(&fits)).await
}

async fn until_degraded(daemon: &Daemon, degraded: bool) -> Value {
    until("the report says so", async || {
        let report = daemon.get("/larder/v1/status").await.json();
        (report["degraded"].as_array().unwrap().is_empty() != degraded).then_some(report)
    })
    .await
}

fn base64_of(value: &str) -> Value {
    serde_json::to_value(k8s_openapi::ByteString(value.as_bytes().to_vec())).unwrap()
}

#[tokio::test]
async fn with_a_ttl_of_nothing_an_answer_is_fresh_and_what_is_held_is_due() {
    let (cluster, daemon, _outside) = cluster_and_daemon(0).await;
    for _ in 0..2 {
        let before = cluster.fetches();
        let answer = until_answer(&daemon, SECRET, "it is there", |answer| answer.code == 200).await;
        assert!(cluster.fetches() > before, "every read asks");
        assert!(answer.header("cache-status").contains("; stored; detail="), "{answer:?}");
        let report = daemon.get("/larder/v1/status?objects=true").await.json();
        assert_eq!((&report["objects"][0]["name"], &report["objects"][0]["state"]), (&json!("db"), &json!("due")));
        assert_eq!(report["counts"]["secrets"]["due"], 1, "{report}");
    }
    cluster.api.outage().await;
    until_answer(&daemon, SECRET, "it is stale", Answer::is_stale).await;
    let report = daemon.get("/larder/v1/status?objects=true").await.json();
    assert_eq!(report["objects"][0]["state"], "stale", "{report}");
}

#[tokio::test]
async fn an_outage_of_the_api_server_is_told_with_every_answer_and_ends_by_itself() {
    let (cluster, daemon, _outside) = cluster_and_daemon(1).await;
    let fresh = until_answer(&daemon, SECRET, "it is there", |answer| answer.code == 200).await;
    assert_eq!(fresh.json()["data"]["password"], base64_of("one"));

    cluster.api.outage().await;
    let stale = until_answer(&daemon, SECRET, "it is stale", Answer::is_stale).await;
    assert_eq!((stale.code, &stale.json()["data"]["password"]), (200, &base64_of("one")));
    let pods = until_answer(&daemon, "/api/v1/pods", "the pods are stale", Answer::is_stale).await;
    assert_eq!(pods.json()["items"][0]["metadata"]["name"], "web");
    let report = until_degraded(&daemon, true).await;
    let pods = report["sources"].as_array().unwrap().iter().find(|source| source["name"] == "pods").unwrap();
    assert_eq!(pods["state"], "failing", "{report}");
    let table = daemon.larder("get secrets -n shop -o wide").await;
    assert!(
        table.stdout.contains("stale ") && table.stderr.contains("Warning: secret \"shop/db\" is stale"),
        "{table:?}"
    );
    let unknown = daemon.get("/api/v1/namespaces/shop/secrets/other").await;
    assert_eq!(unknown.code, 403, "no pod refers to it, outage or not");

    cluster.set_password("two");
    cluster.api.restore().await.unwrap();
    let again = until_answer(&daemon, SECRET, "it is fresh again", |answer| !answer.is_stale()).await;
    assert_eq!(again.json()["data"]["password"], base64_of("two"));
    until_answer(&daemon, "/api/v1/pods", "the pods are fresh again", |answer| !answer.is_stale()).await;
    until_degraded(&daemon, false).await;
}

fn source<'a>(report: &'a Value, name: &str) -> &'a Value {
    report["sources"].as_array().unwrap().iter().find(|source| source["name"] == name).unwrap()
}

/// As by SIGSTOP: its connections stay open, and answer nothing.
#[tokio::test]
async fn in_an_outage_each_answer_names_its_own_object() {
    let outside = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(outside.path(), 60).await;
    let names = ["a", "b", "c", "d"];
    let mut many = pod("shop", "many").uid("uid-many").node(NODE);
    for name in names {
        cluster.api.store().create(secret("shop", name, &[])).unwrap();
        many = many.secret_volume(name);
    }
    cluster.api.store().create(many.build()).unwrap();
    let daemon = Daemon::spawn(
        tempfile::tempdir().unwrap(),
        &["--kubeconfig", &cluster.kubeconfig, "--runtime-endpoint", "none", "--change-detection", "watch"],
    );
    daemon.ready().await;
    for name in names {
        let path = format!("/api/v1/namespaces/shop/secrets/{name}");
        until_answer(&daemon, &path, "it is watched", |answer| answer.header("cache-status").ends_with("detail=watch"))
            .await;
    }
    cluster.api.outage().await;
    // One request asks where the server is, for all that lost it. Each tells the failure.
    until("all have failed some times", async || {
        let metrics = daemon.get("/metrics").await.text;
        let failed = metrics
            .lines()
            .find_map(|line| line.strip_prefix("larder_api_server_list_watch_failures_total ")?.parse::<u64>().ok());
        failed.filter(|failed| *failed >= 21)
    })
    .await;
    for name in names {
        let answer = daemon.get(&format!("/api/v1/namespaces/shop/secrets/{name}")).await;
        let detail = format!("detail=\"stale: secret shop/{name}: cannot reach the API server");
        assert!(answer.header("cache-status").contains(&detail), "{name}: {answer:?}");
    }
}

#[tokio::test]
async fn while_the_api_server_is_frozen_pods_node_and_secrets_are_stale_and_say_why() {
    // Without bookmarks: what confirms what is quiet is its connection.
    let bookmark_interval = Duration::from_hours(1);
    let options = ApiServerOptions { tls: true, bookmark_interval, ..ApiServerOptions::default() };
    let outside = tempfile::tempdir().unwrap();
    let cluster = Cluster::start_with(outside.path(), 60, options).await;
    let settings = outside.path().join("settings.yaml");
    std::fs::write(&settings, "kube: {pingInterval: 1s, deadLinkTimeout: 10m}\n").unwrap();
    let arguments = [
        "--kubeconfig",
        &cluster.kubeconfig,
        "--runtime-endpoint",
        "none",
        "--change-detection",
        "watch",
        "--config",
        &settings.display().to_string(),
    ];
    let daemon = Daemon::spawn(tempfile::tempdir().unwrap(), &arguments);
    daemon.ready().await;
    let paths = [SECRET, "/api/v1/pods", "/api/v1/namespaces/shop/pods/web", "/api/v1/nodes/node-1"];
    for path in paths {
        until_answer(&daemon, path, "it is fresh", |answer| answer.code == 200 && !answer.is_stale()).await;
    }
    for name in ["pods", "node"] {
        let contact = async || {
            let report = daemon.get("/larder/v1/status").await.json();
            source(&report, name)["lastContact"].to_string()
        };
        for _ in 0..4 {
            let before = contact().await;
            until("it is confirmed again", async || (contact().await != before).then_some(())).await;
        }
    }

    cluster.api.freeze(true);
    for path in paths {
        let stale = until_answer(&daemon, path, "it is stale", Answer::is_stale).await;
        assert_eq!(stale.code, 200, "{stale:?}");
        assert!(stale.header("cache-status").contains("no answer from the API server"), "{path}: {stale:?}");
    }
    let report = until_degraded(&daemon, true).await;
    for name in ["pods", "node"] {
        let source = source(&report, name);
        assert_eq!(source["state"], "failing", "{report}");
        assert!(source["lastError"].as_str().unwrap().contains("no answer from the API server"), "{report}");
    }
    let table = daemon.larder("status").await.stdout;
    let failing = |name: &str| table.lines().any(|line| line.starts_with(name) && line.contains("failing"));
    assert!(failing("pods") && failing("node"), "{table}");

    cluster.api.freeze(false);
    for path in paths {
        until_answer(&daemon, path, "it is fresh again", |answer| !answer.is_stale()).await;
    }
    until_degraded(&daemon, false).await;
}

/// As of a server that shuts down in good order behind a proxy that then hangs. Signs of life of the connection are no proof.
#[tokio::test]
async fn when_watches_end_in_good_order_and_no_other_opens_everything_is_stale_and_says_why() {
    let outside = tempfile::tempdir().unwrap();
    let options = ApiServerOptions { tls: true, ..ApiServerOptions::default() };
    let cluster = Cluster::start_with(outside.path(), 60, options).await;
    let settings = outside.path().join("settings.yaml");
    std::fs::write(&settings, "kube: {pingInterval: 1s}\n").unwrap();
    let settings = settings.display().to_string();
    let arguments = ["--kubeconfig", &cluster.kubeconfig, "--runtime-endpoint", "none", "--config", &settings];
    let daemon = Daemon::spawn(tempfile::tempdir().unwrap(), &arguments);
    daemon.ready().await;
    let paths = [SECRET, "/api/v1/pods", "/api/v1/nodes/node-1"];
    for path in paths {
        until_answer(&daemon, path, "it is fresh", |answer| answer.code == 200 && !answer.is_stale()).await;
    }

    cluster.api.inject(Fault::hang());
    cluster.api.end_watches();
    for path in paths {
        let stale = until_answer(&daemon, path, "it is stale", Answer::is_stale).await;
        assert_eq!(stale.code, 200, "{stale:?}");
        assert!(stale.header("cache-status").contains("has not been opened again"), "{path}: {stale:?}");
    }
    until_degraded(&daemon, true).await;

    cluster.api.clear_faults();
    for path in paths {
        until_answer(&daemon, path, "it is fresh again", |answer| !answer.is_stale()).await;
    }
    until_degraded(&daemon, false).await;
}

/// As of a server without streaming lists on an old etcd: its watch cache is behind, and it cannot say how far.
#[tokio::test]
async fn pods_that_an_old_watch_cache_has_are_served_as_stale_and_others_are_not_known_until_it_has_caught_up() {
    let (bookmark_interval, streaming_lists) = (Duration::from_hours(1), StreamingLists::Forbidden);
    let options = ApiServerOptions { bookmark_interval, streaming_lists, ..ApiServerOptions::default() };
    let outside = tempfile::tempdir().unwrap();
    let cluster = Cluster::start_with(outside.path(), 60, options).await;
    cluster.api.store().set_cache_lag(CacheLag::Frozen);
    cluster.set_password("two");
    let daemon = cluster.daemon(tempfile::tempdir().unwrap());
    let web = "/api/v1/namespaces/shop/pods/web";
    let stale = until_answer(&daemon, web, "it is there", |answer| answer.code == 200).await;
    assert!(stale.is_stale() && stale.header("cache-status").contains("the API server's cache"), "{stale:?}");
    let secret = until_answer(&daemon, SECRET, "what it refers to is served", |answer| answer.code == 200).await;
    assert_eq!(secret.json()["data"]["password"], base64_of("two"));
    for path in ["/api/v1/pods", "/api/v1/namespaces/shop/pods/none", "/readyz"] {
        let answer = daemon.get(path).await;
        assert_eq!(answer.code, 503, "{path}: {answer:?}");
    }
    let asked: Vec<_> = cluster.api.requests().into_iter().filter(|request| request.kind == Some(Kind::Pod)).collect();
    let lists = asked.iter().filter(|request| request.verb == Verb::List && request.name.is_empty());
    assert!(
        lists.clone().count() > 0 && lists.clone().all(|list| list.query.contains("resourceVersion=")),
        "{asked:?}"
    );

    cluster.api.store().create(pod("shop", "web-2").node(NODE).build()).unwrap();
    daemon.ready().await;
    let fresh = until_answer(&daemon, web, "it is fresh", |answer| !answer.is_stale()).await;
    assert_eq!(fresh.code, 200, "{fresh:?}");
    assert_eq!(daemon.get("/api/v1/namespaces/shop/pods/none").await.code, 404);
    until_degraded(&daemon, false).await;
}

#[tokio::test]
async fn a_hanging_api_server_is_waited_for_no_longer_than_the_reader_says() {
    let (cluster, daemon, _outside) = cluster_and_daemon(0).await;
    until_answer(&daemon, SECRET, "it is there", |answer| answer.code == 200).await;
    cluster.api.inject(Fault::hang().verb(Verb::Get).kind(Kind::Secret));
    let stale = daemon.get(&format!("{SECRET}?timeout=200ms")).await;
    assert_eq!(stale.code, 200);
    assert!(stale.is_stale() && stale.header("cache-status").contains("within 200ms"), "{stale:?}");
    assert!(stale.header("cache-status").starts_with("larder; fwd=stale"), "{stale:?}");
}

#[tokio::test]
async fn a_new_pod_makes_the_next_read_fetch_and_a_failure_then_serves_last_known() {
    let (cluster, daemon, _outside) = cluster_and_daemon(3600).await;
    until_answer(&daemon, SECRET, "it is there", |answer| answer.code == 200).await;
    cluster.set_password("two");
    let held = daemon.get(SECRET).await;
    assert!(held.header("cache-status").starts_with("larder; hit"), "{held:?}");
    assert_eq!(held.json()["data"]["password"], base64_of("one"), "fresh for an hour");

    let fault = cluster.api.inject(Fault::status(500).verb(Verb::Get).kind(Kind::Secret));
    cluster.api.store().create(pod("shop", "web-2").node(NODE).secret_volume("db").build()).unwrap();
    until_answer(&daemon, "/api/v1/namespaces/shop/pods/web-2", "it is known", |answer| answer.code == 200).await;
    let stale = daemon.get(SECRET).await;
    assert!(stale.is_stale(), "{stale:?}");
    assert_eq!(stale.json()["data"]["password"], base64_of("one"));

    cluster.api.remove_fault(fault);
    let fresh = until_answer(&daemon, SECRET, "it is fresh", |answer| !answer.is_stale()).await;
    assert_eq!(fresh.json()["data"]["password"], base64_of("two"));
}

#[tokio::test]
async fn a_pod_that_ends_or_goes_releases_its_objects() {
    let (cluster, daemon, _outside) = cluster_and_daemon(3600).await;
    until_answer(&daemon, SECRET, "it is there", |answer| answer.code == 200).await;
    let end = |pod: &mut k8s_openapi::api::core::v1::Pod| {
        pod.status.get_or_insert_default().phase = Some("Succeeded".to_owned());
    };
    cluster.api.store().modify("shop", "web", end).unwrap();
    let refused = until_answer(&daemon, SECRET, "it is released", |answer| answer.code != 200).await;
    assert_eq!(refused.code, 403, "{refused:?}");
    assert_eq!(daemon.get("/api/v1/namespaces/shop/pods/web").await.code, 200, "the pod itself is still there");
}

#[tokio::test]
async fn everything_may_be_absent_at_the_start() {
    let outside = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(outside.path(), 60).await;
    cluster.run_web();
    cluster.api.outage().await;
    cluster.cri.outage().await;
    let daemon = cluster.daemon(tempfile::tempdir().unwrap());
    until("it answers", async || daemon.try_get("/livez").await.filter(|answer| answer.code == 200)).await;
    for path in [SECRET, "/api/v1/pods", "/api/v1/secrets", "/api/v1/nodes/node-1", "/larder/v1/pods"] {
        let answer = daemon.get(path).await;
        assert_eq!((answer.code, &answer.json()["reason"]), (503, &json!("ServiceUnavailable")), "{path}: {answer:?}");
        assert!(answer.header("retry-after").parse::<u32>().unwrap() >= 1, "{path}: {answer:?}");
    }
    assert_eq!(daemon.get("/readyz").await.code, 503);
    let told = daemon.larder("get pods -A").await.failed();
    assert!(told.starts_with("Error from server (ServiceUnavailable): pods not known yet"), "{told}");

    cluster.api.restore().await.unwrap();
    cluster.cri.restore().await.unwrap();
    daemon.ready().await;
    until_answer(&daemon, SECRET, "it is there", |answer| answer.code == 200).await;
    assert!(daemon.larder("ps").await.ok().contains("Running"));
}

#[tokio::test]
async fn a_list_that_lacks_what_is_not_known_is_refused_or_comes_with_warnings() {
    let outside = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(outside.path(), 60).await;
    cluster.api.store().create(secret("shop", "tls", &[("key", "k")])).unwrap();
    cluster.api.store().create(pod("shop", "tls").node(NODE).secret_volume("tls").build()).unwrap();
    let fault = cluster.api.inject(Fault::status(500).verb(Verb::Get).kind(Kind::Secret).name("db"));
    let daemon = cluster.daemon(tempfile::tempdir().unwrap());
    daemon.ready().await;
    let refused = daemon.get("/api/v1/secrets").await;
    assert_eq!(refused.code, 503, "{refused:?}");
    assert!(!refused.header("retry-after").is_empty(), "{refused:?}");
    assert_eq!(refused.json()["details"]["causes"][0]["field"], "shop/db", "{refused:?}");
    let partial = daemon.get("/api/v1/secrets?partial=true").await;
    assert_eq!((partial.code, partial.json()["items"].as_array().unwrap().len()), (200, 1), "{partial:?}");
    assert!(
        partial.header("warning").starts_with("299 - ") && partial.header("warning").contains("shop/db"),
        "{partial:?}"
    );
    for line in ["get secrets -n shop -o name", "get secrets -n shop -o json"] {
        let output = daemon.larder(line).await;
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stdout.contains("tls") && !output.stdout.contains("\"db\""), "{output:?}");
        assert!(output.stderr.starts_with("Warning: secret \"shop/db\" "), "{output:?}");
    }
    let report = until_degraded(&daemon, true).await.to_string();
    assert!(report.contains("secret shop/db"), "{report}");
    cluster.api.remove_fault(fault);
    until_answer(&daemon, "/api/v1/secrets", "it is whole", |answer| answer.code == 200).await;
    until_degraded(&daemon, false).await;
}

#[tokio::test]
async fn a_wrong_node_name_is_told_with_whose_credentials_these_are_and_serves_nothing() {
    let outside = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(outside.path(), 60).await;
    let arguments = ["--kubeconfig", &cluster.kubeconfig, "--runtime-endpoint", "none", "--node-name", "another"];
    let daemon = Daemon::spawn(tempfile::tempdir().unwrap(), &arguments);
    until("it answers", async || daemon.try_get("/livez").await).await;
    let report = until("it is told", async || {
        let report = daemon.get("/larder/v1/status").await.json()["degraded"].to_string();
        report.contains("--node-name").then_some(report)
    })
    .await;
    assert!(report.contains("another"), "{report}");
    assert_eq!(daemon.get("/readyz").await.code, 503);
    daemon.larder("get pods -A").await.failed();
    daemon.logged("another").await;
}

#[tokio::test]
async fn what_is_referred_to_is_fetched_without_a_reader() {
    let (cluster, daemon, _outside) = cluster_and_daemon(3600).await;
    until("it was fetched", async || (cluster.fetches() > 0).then_some(())).await;
    cluster.api.outage().await;
    let held = daemon.get(SECRET).await;
    assert_eq!((held.code, &held.json()["data"]["password"]), (200, &base64_of("one")));
}

#[tokio::test]
async fn an_exit_ends_a_wait_and_shows_in_ps() {
    let (cluster, daemon, _outside) = cluster_and_daemon(60).await;
    let container = cluster.run_web();
    daemon.larder("wait pod web -n shop --for=state=running").await.ok();
    let wait = daemon.larder("wait pod/web -n shop -c app --for=state=exited --timeout=60s");
    let exit = async { cluster.cri.containers().exit_container(&container, 3).unwrap() };
    let (wait, ()) = tokio::join!(wait, exit);
    assert_eq!(wait.ok(), "pod/web condition met\n");
    let table = daemon.larder("ps").await.ok();
    let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((row[3], row[4], row[6], row[7], row[8]), ("Exited", "3", "app", "web", "shop"), "{table}");
    let filtered = daemon.larder("ps --state running").await.ok();
    assert_eq!(filtered.lines().count(), 1, "{filtered}");
}

#[tokio::test]
async fn an_outage_of_the_runtime_is_told_and_waits_end_at_their_deadline_with_its_error() {
    let (cluster, daemon, _outside) = cluster_and_daemon(60).await;
    cluster.run_web();
    daemon.larder("wait pod web -n shop --for=state=running").await.ok();
    cluster.cri.outage().await;
    let path = "/larder/v1/pods/uid-web/status";
    let stale =
        until_answer(&daemon, path, "it says so", |answer| answer.json()["runtime"]["state"] == "failing").await;
    assert_eq!(stale.json()["status"]["containers"][0]["state"], "running", "the last known");
    assert!(stale.is_stale() && stale.json()["runtime"]["error"].is_string(), "{stale:?}");

    let as_of = stale.json()["asOf"].as_str().unwrap().to_owned();
    let timed_out = daemon.get(&format!("{path}?newerThan={as_of}&timeout=300ms")).await;
    assert_eq!((timed_out.code, &timed_out.json()["reason"]), (504, &json!("Timeout")), "{timed_out:?}");
    assert_eq!(timed_out.json()["lastKnown"]["status"], stale.json()["status"]);
    assert!(timed_out.json()["message"].as_str().unwrap().contains("cri.sock"), "{timed_out:?}");
    let told = daemon.larder("wait pod web -n shop --for=newer-than=now --timeout=300ms").await.failed();
    assert!(told.starts_with("error: timed out waiting for the condition on pods/web: "), "{told}");
    let ps = daemon.larder("ps").await;
    assert!(ps.stderr.starts_with("Warning: stale: the runtime was last listed "), "{ps:?}");

    cluster.cri.restore().await.unwrap();
    let newer = daemon.get(&format!("{path}?newerThan={as_of}&timeout=60s")).await;
    assert_eq!(newer.code, 200, "{newer:?}");
    assert!(!newer.is_stale(), "{newer:?}");
}

#[tokio::test]
async fn a_wait_in_flight_is_answered_when_the_daemon_ends() {
    let (cluster, mut daemon, _outside) = cluster_and_daemon(60).await;
    cluster.run_web();
    daemon.larder("wait pod web -n shop --for=state=running").await.ok();
    let wait = daemon.larder("wait pod web -n shop --for=state=exited --timeout=60s");
    let end = async {
        until("it waits", async || {
            let report = daemon.get("/larder/v1/status").await.json();
            (report["counts"]["openWaits"] != 0).then_some(())
        })
        .await;
        daemon.signal(rustix::process::Signal::TERM);
    };
    let (wait, ()) = tokio::join!(wait, end);
    assert_eq!(wait.code, Some(1), "{wait:?}");
    assert_eq!(daemon.ended().await.code(), Some(0));
}

#[tokio::test]
async fn a_pod_that_the_runtime_does_not_have_yet_is_no_absent_pod() {
    let (cluster, daemon, _outside) = cluster_and_daemon(60).await;
    let by_name = "/larder/v1/namespaces/shop/pods/web/status";
    let known = daemon.get(by_name).await;
    assert_eq!((known.code, &known.json()["freshness"]["state"]), (200, &json!("absent")), "{known:?}");
    assert_eq!(known.json()["uid"], "uid-web");
    let none = daemon.get("/larder/v1/pods/uid-none/status").await;
    assert_eq!((none.code, &none.json()["reason"]), (404, &json!("NotFound")), "{none:?}");
    let told = daemon.larder("wait pod none -n shop --for=running").await.failed();
    assert_eq!(told, "Error from server (NotFound): pods \"none\" not found\n");
    let wait = daemon.larder("wait pod web -n shop --for=running --timeout=60s");
    let run = async { drop(cluster.run_web()) };
    let (wait, ()) = tokio::join!(wait, run);
    wait.ok();
    let gone = daemon.larder("wait pod web -n shop --for=delete --timeout=200ms").await.failed();
    assert!(gone.contains("timed out") && gone.contains("app is running"), "{gone}");
}
