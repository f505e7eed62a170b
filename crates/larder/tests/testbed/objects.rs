//! What pods refer to is served, refreshed, fetched for a new pod, and refused otherwise.

use crate::cluster::{Cluster, NAMESPACE, container, data};
use crate::daemon::Daemon;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use larder_testbed::audit::Request;
use larder_testbed::poll::until;
use larder_testbed::{Options, Testbed};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// How long larder may take to see what happened at the API server.
const LIMIT: Duration = Duration::from_mins(1);

/// Long enough that nothing expires during a test.
const NEVER: Option<u32> = Some(3600);

fn secret_path(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/secrets/{name}")
}

fn config_map_path(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{name}")
}

/// Waits until larder holds the pod with its references.
async fn wait_for_pod(daemon: &Daemon, name: &str) {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}");
    let held = until("larder holds the pod", LIMIT, async || {
        let answer = daemon.get(&path).await;
        if answer.status == 200 { Ok(()) } else { Err(format!("{answer:?}")) }
    });
    held.await.expect("the pod is held");
}

/// Waits until larder answers for an object with a status, and gives that answer's body.
async fn wait_for_status(daemon: &Daemon, path: &str, status: u16) -> Value {
    let answered = until("larder's answer", LIMIT, async || {
        let answer = daemon.get(path).await;
        if answer.status == status { Ok(answer.body) } else { Err(format!("{path}: {answer:?}")) }
    });
    answered.await.expect("the answer")
}

/// The reads of an object that the node made.
fn reads_of(testbed: &Testbed, resource: &str, name: &str) -> Vec<Request> {
    let node = format!("system:node:{}", testbed.node_name());
    let requests = testbed.requests().expect("audit log");
    let is_read = |request: &Request| {
        request.user == node && request.resource == resource && request.name == name && request.code == 200
    };
    requests.into_iter().filter(is_read).collect()
}

#[tokio::test]
async fn each_way_to_refer_to_an_object_is_served() {
    let testbed = Testbed::start(Options::default()).await.expect("testbed");
    let cluster = Cluster::new(&testbed).await;
    let secrets = [
        cluster.create_secret("by-volume", "one").await,
        cluster.create_secret("by-env", "two").await,
        cluster.create_secret("by-env-from", "three").await,
        cluster.create_pull_secret("by-pull").await,
    ];
    let config_maps = [
        cluster.create_config_map("map-by-volume", "four").await,
        cluster.create_config_map("map-by-env-from", "five").await,
    ];
    cluster.create_secret("unreferenced", "nobody's").await;

    let volumes = json!([
        { "name": "s", "secret": { "secretName": "by-volume" } },
        { "name": "c", "configMap": { "name": "map-by-volume" } },
    ]);
    cluster.create_pod("mounts", json!({ "volumes": volumes })).await;
    let mut with_env = container("main", "sleep 100000");
    with_env["env"] = json!([{ "name": "K", "valueFrom": { "secretKeyRef": { "name": "by-env", "key": "key" } } }]);
    cluster.create_pod("reads-env", json!({ "containers": [with_env] })).await;
    let mut with_env_from = container("main", "sleep 100000");
    with_env_from["envFrom"] =
        json!([{ "secretRef": { "name": "by-env-from" } }, { "configMapRef": { "name": "map-by-env-from" } }]);
    let pulls = json!([{ "name": "by-pull" }]);
    cluster.create_pod("pulls", json!({ "containers": [with_env_from], "imagePullSecrets": pulls })).await;

    let daemon = Daemon::start(&testbed).await;
    for pod in ["mounts", "reads-env", "pulls"] {
        wait_for_pod(&daemon, pod).await;
    }
    for secret in &secrets {
        let name = secret.metadata.name.as_deref().expect("name");
        let body = wait_for_status(&daemon, &secret_path(name), 200).await;
        // As the API server gave it, to the byte of every value.
        let served: Secret = serde_json::from_value(body).expect("a Secret");
        assert_eq!((&served.data, &served.metadata.uid), (&secret.data, &secret.metadata.uid), "{name}");
        assert_eq!(served.metadata.resource_version, secret.metadata.resource_version, "{name}");
        let shown = daemon.larder(&["get", "secret", name, "-n", NAMESPACE, "-o", "json"]).await.json();
        assert_eq!(shown["data"], data(secret), "{name}");
    }
    for map in &config_maps {
        let name = map.metadata.name.as_deref().expect("name");
        let served: ConfigMap =
            serde_json::from_value(wait_for_status(&daemon, &config_map_path(name), 200).await).expect("a ConfigMap");
        assert_eq!((&served.data, &served.metadata.uid), (&map.data, &map.metadata.uid), "{name}");
    }

    // A table names what is held, and shows no value: neither as text nor as base64.
    let table = daemon.larder(&["get", "secrets", "-n", NAMESPACE]).await.ok();
    for secret in &secrets {
        assert!(table.contains(secret.metadata.name.as_deref().expect("name")), "{table}");
    }
    assert!(!table.contains("unreferenced"), "{table}");
    for value in ["one", "b25l", "dTpw"] {
        let appears = table.split_whitespace().any(|word| word == value);
        assert!(!appears && !daemon.log().contains(value), "{value} appears in:\n{table}\n{}", daemon.log());
    }

    // What no pod of this node refers to is refused by name, without asking the API server.
    let refused = daemon.get(&secret_path("unreferenced")).await;
    assert_eq!((refused.status, refused.body["reason"].as_str()), (403, Some("Forbidden")), "{refused:?}");
    let output = daemon.larder(&["get", "secret", "unreferenced", "-n", NAMESPACE]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(output.stderr.contains("unreferenced") && output.stderr.contains("Forbidden"), "{output:?}");
    assert!(
        testbed
            .requests()
            .expect("audit log")
            .iter()
            .all(|request| { request.name != "unreferenced" || !request.user.starts_with("system:node:") })
    );
}

#[tokio::test]
async fn an_update_shows_within_the_ttl_and_costs_one_read_a_ttl() {
    const TTL: Duration = Duration::from_secs(2);
    let testbed = Testbed::start(Options { node_ttl: Some(2), ..Options::default() }).await.expect("testbed");
    let cluster = Cluster::new(&testbed).await;
    let before = cluster.create_secret("password", "before").await;
    cluster.create_pod_with_secret("web", "password").await;
    let daemon = Daemon::start(&testbed).await;
    wait_for_pod(&daemon, "web").await;
    let path = secret_path("password");
    assert_eq!(wait_for_status(&daemon, &path, 200).await["data"], data(&before));
    // The annotation is known once the node is; before that the TTL is a minute.
    wait_for_status(&daemon, &format!("/api/v1/nodes/{}", testbed.node_name()), 200).await;

    let first_read = Instant::now();
    let after = cluster.update_secret("password", "after").await;
    let updated = Instant::now();
    let mut reads = 0_u32;
    let shown = until("the update shows", LIMIT, async || {
        let began = Instant::now();
        let answer = daemon.get(&path).await;
        reads += 1;
        assert!(!answer.is_stale(), "{answer:?}");
        if answer.body["data"] == data(&after) {
            return Ok(());
        }
        assert_eq!(answer.body["data"], data(&before));
        // A refresh may be answered by the API server's cache, which learns of an update a moment after it.
        let late = began.saturating_duration_since(updated + TTL + Duration::from_millis(500));
        assert!(late.is_zero(), "a read {late:?} after the TTL showed the old value");
        Err("still the old value")
    });
    shown.await.expect("the update");
    let elapsed = first_read.elapsed().as_secs();
    let fetches = reads_of(&testbed, "secrets", "password").len() as u64;
    // The first one; the one when the pod's reference was seen; then one a TTL, begun at any point of it.
    let at_most = 3 + elapsed / TTL.as_secs();
    assert!(fetches <= at_most, "{fetches} reads at the API server for {reads} reads in {elapsed} s");
}

#[tokio::test]
async fn a_new_pod_makes_the_next_read_fetch() {
    let testbed = Testbed::start(Options { node_ttl: NEVER, ..Options::default() }).await.expect("testbed");
    let cluster = Cluster::new(&testbed).await;
    let before = cluster.create_secret("password", "before").await;
    cluster.create_pod_with_secret("first", "password").await;
    let daemon = Daemon::start(&testbed).await;
    wait_for_pod(&daemon, "first").await;
    let path = secret_path("password");
    assert_eq!(wait_for_status(&daemon, &path, 200).await["data"], data(&before));

    let after = cluster.update_secret("password", "after").await;
    let held = daemon.get(&path).await;
    assert_eq!(held.body["data"], data(&before), "fresh for an hour");
    assert!(held.cache_status().starts_with("larder; hit"), "{held:?}");
    let fetched_before = reads_of(&testbed, "secrets", "password").len();

    cluster.create_pod_with_secret("second", "password").await;
    wait_for_pod(&daemon, "second").await;
    let next = wait_for_status(&daemon, &path, 200).await;
    assert_eq!(next["data"], data(&after), "a new pod never sees the object from before it");
    let reads = reads_of(&testbed, "secrets", "password");
    assert!(reads.len() > fetched_before, "{reads:?}");
    assert!(reads[fetched_before..].iter().all(|read| !read.is_from_cache()), "the reads are consistent: {reads:?}");
}

#[tokio::test]
async fn a_deleted_pods_objects_are_no_longer_served() {
    let testbed = Testbed::start(Options { node_ttl: NEVER, ..Options::default() }).await.expect("testbed");
    let cluster = Cluster::new(&testbed).await;
    cluster.create_secret("shared", "one").await;
    cluster.create_secret("own", "two").await;
    let volumes = json!([
        { "name": "a", "secret": { "secretName": "shared" } },
        { "name": "b", "secret": { "secretName": "own" } },
    ]);
    cluster.create_pod("leaves", json!({ "volumes": volumes })).await;
    cluster.create_pod_with_secret("stays", "shared").await;
    let daemon = Daemon::start(&testbed).await;
    for pod in ["leaves", "stays"] {
        wait_for_pod(&daemon, pod).await;
    }
    for secret in ["shared", "own"] {
        wait_for_status(&daemon, &secret_path(secret), 200).await;
    }

    cluster.delete_pod("leaves").await;
    wait_for_status(&daemon, &secret_path("own"), 403).await;
    let output = daemon.larder(&["get", "secret", "own", "-n", NAMESPACE]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("own"), "{output:?}");
    let gone = daemon.larder(&["get", "pod", "leaves", "-n", NAMESPACE]).await;
    assert_eq!(gone.code, Some(1), "{gone:?}");
    assert!(gone.stderr.contains("not found"), "{gone:?}");
    assert_eq!(daemon.get(&secret_path("shared")).await.status, 200, "the other pod refers to it");

    cluster.delete_pod("stays").await;
    wait_for_status(&daemon, &secret_path("shared"), 403).await;
}
