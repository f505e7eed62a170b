//! The API server or the container runtime is gone, and comes back.

use crate::cluster::{Cluster, NAMESPACE, container, data};
use crate::daemon::Daemon;
use k8s_openapi::api::core::v1::Secret;
use larder_testbed::poll::until;
use larder_testbed::{Options, Testbed};
use serde_json::{Value, json};
use std::time::Duration;

const LIMIT: Duration = Duration::from_mins(1);

/// Looks at larder's status until the report fits.
async fn wait_for_report(daemon: &Daemon, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let reported = until(what, LIMIT, async || {
        let report = daemon.get("/larder/v1/status").await.body;
        if fits(&report) { Ok(report) } else { Err(report.to_string()) }
    });
    reported.await.expect(what)
}

/// The state that a report gives for a source.
fn state<'a>(report: &'a Value, source: &str) -> &'a str {
    let sources = report["sources"].as_array().expect("sources");
    let found = sources.iter().find(|entry| entry["name"] == source);
    found.and_then(|entry| entry["state"].as_str()).unwrap_or_else(|| panic!("no state of {source} in {report}"))
}

fn is_healthy(report: &Value) -> bool {
    report["degraded"].as_array().is_some_and(Vec::is_empty)
}

#[tokio::test]
async fn without_the_api_server_all_that_is_held_is_served_with_its_age() {
    let testbed = Testbed::start(Options { node_ttl: Some(2), ..Options::default() }).await.expect("testbed");
    let cluster = Cluster::new(&testbed).await;
    let mut secrets = vec![];
    for name in ["one", "two", "three"] {
        secrets.push(cluster.create_secret(name, &format!("value of {name}")).await);
        cluster.create_pod_with_secret(&format!("uses-{name}"), name).await;
    }
    cluster.create_config_map("settings", "of all").await;
    let mut with_env = container("main", "sleep 100000");
    with_env["envFrom"] = json!([{ "configMapRef": { "name": "settings" } }]);
    cluster.create_pod("configured", json!({ "containers": [with_env] })).await;
    let daemon = Daemon::start(&testbed).await;
    let mut paths: Vec<String> = Vec::new();
    for secret in &secrets {
        paths
            .push(format!("/api/v1/namespaces/{NAMESPACE}/secrets/{}", secret.metadata.name.as_deref().expect("name")));
    }
    paths.push(format!("/api/v1/namespaces/{NAMESPACE}/configmaps/settings"));
    paths.push(format!("/api/v1/namespaces/{NAMESPACE}/pods/configured"));
    paths.push(format!("/api/v1/nodes/{}", testbed.node_name()));
    for path in &paths {
        let fresh = until("it is fresh", LIMIT, async || {
            let answer = daemon.get(path).await;
            if answer.status == 200 && !answer.is_stale() { Ok(()) } else { Err(format!("{path}: {answer:?}")) }
        });
        fresh.await.expect("fresh");
    }

    testbed.api_server().kill().expect("killed");
    let mut last_ages = vec![0; paths.len()];
    for (path, last_age) in paths.iter().zip(&mut last_ages) {
        // Fresh as long as its TTL says so, stale from then on, and never missing.
        let stale = until("it is stale", LIMIT, async || {
            let answer = daemon.get(path).await;
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            assert!(answer.is_stale() || answer.age() <= 2 || !path.contains("/secrets/"), "{path}: {answer:?}");
            *last_age = answer.age();
            if answer.is_stale() { Ok(answer) } else { Err(format!("{path}: {answer:?}")) }
        });
        let answer = stale.await.expect("stale");
        if path.contains("/secrets/") {
            assert!(answer.age() >= 2, "{path}: {answer:?}");
        }
    }
    for secret in &secrets {
        let name = secret.metadata.name.as_deref().expect("name");
        let shown = daemon.larder(&["get", "secret", name, "-n", NAMESPACE, "-o", "json"]).await.json();
        assert_eq!(shown["data"], data(secret), "the last known value is served");
    }
    let report = wait_for_report(&daemon, "larder says that it is degraded", |report| !is_healthy(report)).await;
    assert_eq!(state(&report, "pods"), "failing", "{report}");
    let status = daemon.larder(&["status"]).await;
    assert!(status.stdout.contains("failing"), "{status:?}");
    // Ages grow as long as nothing confirms what is held.
    for (path, last_age) in paths.iter().zip(&last_ages) {
        let older = until("it grows older", LIMIT, async || {
            let answer = daemon.get(path).await;
            if answer.age() > *last_age { Ok(()) } else { Err(format!("{path}: {answer:?}")) }
        });
        older.await.expect("older");
    }

    testbed.api_server().start().expect("started");
    testbed.wait_for_api_server().await.expect("API server");
    let updated: Secret = cluster.update_secret("one", "after the outage").await;
    for path in &paths {
        let fresh = until("it is fresh again", LIMIT, async || {
            let answer = daemon.get(path).await;
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            if answer.is_stale() { Err(format!("{path}: {answer:?}")) } else { Ok(()) }
        });
        fresh.await.expect("fresh again");
    }
    let shows = until("what changed shows", LIMIT, async || {
        let answer = daemon.get(&paths[0]).await;
        if answer.body["data"] == data(&updated) { Ok(()) } else { Err(format!("{answer:?}")) }
    });
    shows.await.expect("the update");
    wait_for_report(&daemon, "larder says that all is well", is_healthy).await;
}

/// Frozen by SIGSTOP, it holds its connections open and answers nothing.
#[tokio::test]
async fn while_the_api_server_is_frozen_pods_node_and_secrets_are_stale_and_say_why() {
    let testbed = Testbed::start(Options { node_ttl: Some(2), ..Options::default() }).await.expect("testbed");
    let cluster = Cluster::new(&testbed).await;
    cluster.create_secret("one", "value").await;
    cluster.create_pod_with_secret("web", "one").await;
    let daemon = Daemon::start(&testbed).await;
    let paths = [
        format!("/api/v1/namespaces/{NAMESPACE}/secrets/one"),
        format!("/api/v1/namespaces/{NAMESPACE}/pods/web"),
        format!("/api/v1/nodes/{}", testbed.node_name()),
    ];
    let all = async |what: &str, is_stale: bool| {
        for path in &paths {
            let fits = until(what, LIMIT, async || {
                let answer = daemon.get(path).await;
                let fits = answer.status == 200 && answer.is_stale() == is_stale;
                if fits { Ok(answer) } else { Err(format!("{path}: {answer:?}")) }
            });
            fits.await.expect(what);
        }
    };
    all("it is fresh", false).await;
    testbed.api_server().pause().expect("paused");
    all("it is stale", true).await;
    for source in ["pods", "node"] {
        wait_for_report(&daemon, "it fails", |report| state(report, source) == "failing").await;
    }
    testbed.api_server().resume().expect("resumed");
    testbed.wait_for_api_server().await.expect("API server");
    all("it is fresh again", false).await;
    wait_for_report(&daemon, "larder says that all is well", is_healthy).await;
}

#[tokio::test]
async fn without_the_runtime_status_reads_say_so_and_waits_end_at_their_deadline() {
    let testbed = Testbed::start(Options::default()).await.expect("testbed");
    let cluster = Cluster::new(&testbed).await;
    let pod = cluster.create_pod("web", json!({})).await;
    testbed.pods().run(&pod).await.expect("runs");
    let uid = pod.metadata.uid.as_deref().expect("uid");
    let daemon = Daemon::start(&testbed).await;
    let path = format!("/larder/v1/pods/{uid}/status");
    let known = until("the pod's status is known", LIMIT, async || {
        let answer = daemon.get(&path).await;
        if answer.body["status"].is_object() { Ok(answer.body) } else { Err(format!("{answer:?}")) }
    });
    let known = known.await.expect("known");
    assert_eq!(known["runtime"]["state"], "ok", "{known}");

    // Paused, it takes connections and answers nothing; killed, it refuses them.
    for how in ["paused", "killed"] {
        if how == "paused" {
            testbed.containerd().pause().expect("paused");
        } else {
            testbed.containerd().kill().expect("killed");
        }
        let report =
            wait_for_report(&daemon, "the runtime fails", |report| state(report, "runtime") == "failing").await;
        assert!(!is_healthy(&report), "{report}");
        // The pod may have been looked at after the last list of all, by a moment.
        let stale = until("the pod's status is stale", LIMIT, async || {
            let answer = daemon.get(&path).await;
            if answer.is_stale() { Ok(answer) } else { Err(format!("{answer:?}")) }
        });
        let answer = stale.await.expect("stale");
        assert_eq!(answer.body["status"], known["status"], "{how}: the last known status is served");
        assert_eq!(answer.body["runtime"]["state"], "failing", "{how}: {answer:?}");
        assert!(answer.body["runtime"]["ageSeconds"].as_f64().is_some_and(|age| age > 0.0), "{how}: {answer:?}");
        assert!(answer.body["freshness"]["reason"].is_string(), "{how}: {answer:?}");
        assert!(answer.headers.contains_key("age"), "{how}: {answer:?}");
        let status = daemon.larder(&["status"]).await;
        assert!(status.stdout.contains("runtime") && status.stdout.contains("failing"), "{how}: {status:?}");

        // Nothing is newer than now while nobody lists.
        let as_of = answer.body["asOf"].as_str().expect("a time");
        let timed_out = daemon.get(&format!("{path}?newerThan={as_of}&timeout=1s")).await;
        if timed_out.status == 200 {
            // The relist that was under way has ended since.
            assert_ne!(timed_out.body["asOf"].as_str(), Some(as_of), "{how}: {timed_out:?}");
        } else {
            assert_eq!((timed_out.status, timed_out.body["reason"].as_str()), (504, Some("Timeout")), "{timed_out:?}");
            assert_eq!(timed_out.body["lastKnown"]["status"], known["status"], "{how}: {timed_out:?}");
        }
        let wait =
            daemon.larder(&["wait", "pod", "web", "-n", NAMESPACE, "--for=newer-than=now", "--timeout=1s"]).await;
        assert_eq!(wait.code, Some(1), "{how}: {wait:?}");
        assert!(wait.stderr.contains("timed out"), "{how}: {wait:?}");

        if how == "paused" {
            testbed.containerd().resume().expect("resumed");
        } else {
            testbed.containerd().start().expect("started");
        }
        testbed.wait_for_runtime().await.expect("containerd");
        wait_for_report(&daemon, "the runtime is well again", |report| state(report, "runtime") == "ok").await;
        let newer = daemon.get(&format!("{path}?newerThan={as_of}&timeout=30s")).await;
        assert_eq!(newer.status, 200, "{how}: {newer:?}");
        assert_eq!(newer.body["status"]["containers"], known["status"]["containers"], "{how}: the containers went on");
    }
}
