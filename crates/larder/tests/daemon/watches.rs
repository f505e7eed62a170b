//! Lists and watches of the Kubernetes API, as their clients see them. The testbed's tests show the same with clients that others wrote.

use crate::harness::{Daemon, until};
use crate::watch::{Watch, in_words};
use larder_testkit::api_server::{ApiServer, Kind, User};
use larder_testkit::objects::{node, pod, secret};
use serde_json::{Value, json};
use tempfile::TempDir;

const NODE: &str = "node-1";
const SECRETS: &str = "/api/v1/namespaces/shop/secrets";

/// An API server with Secrets `db` and `tls`, a pod that mounts `db`, and a daemon.
struct Shop {
    api: ApiServer,
    daemon: Daemon,
    outside: TempDir,
}

impl Shop {
    async fn start(strategy: &str) -> Self {
        let api = ApiServer::start().await.unwrap();
        api.store().create(node(NODE)).unwrap();
        api.store().create(secret("shop", "tls", &[("key", "old")])).unwrap();
        api.store().create(secret("shop", "db", &[("password", "one")])).unwrap();
        api.store().create(pod("shop", "web").uid("uid-web").node(NODE).secret_volume("db").build()).unwrap();
        let outside = tempfile::tempdir().unwrap();
        let kubeconfig = outside.path().join("kubeconfig");
        api.write_kubeconfig(&kubeconfig, &api.add_user(User::node(NODE))).unwrap();
        let kubeconfig = kubeconfig.display().to_string();
        let arguments = ["--kubeconfig", &kubeconfig, "--runtime-endpoint", "none", "--change-detection", strategy];
        let daemon = Daemon::spawn(tempfile::tempdir().unwrap(), &arguments);
        daemon.ready().await;
        Self { api, daemon, outside }
    }

    fn set(&self, name: &str, value: &str) {
        self.api.store().apply(secret("shop", name, &[("password", value)])).unwrap();
    }

    /// The version of an object at the API server.
    async fn version(&self, name: &str) -> String {
        self.daemon.get(&format!("{SECRETS}/{name}")).await.json()["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

/// A list of Secrets that has so many items.
async fn listed(daemon: &Daemon, count: usize) -> Value {
    until("all are listed", async || {
        let list = daemon.try_get(SECRETS).await?.json();
        (list["items"].as_array()?.len() == count).then_some(list)
    })
    .await
}

#[tokio::test]
async fn a_watch_goes_on_where_a_list_ended_and_each_version_comes_once() {
    for strategy in ["watch", "auto"] {
        let shop = Shop::start(strategy).await;
        let list = listed(&shop.daemon, 1).await;
        // A Secret that comes into view late has a position after its version. Once the cluster has gone on, the two are the same.
        shop.api.store().create(secret("shop", "unrelated", &[])).unwrap();
        let from = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let path = format!("{SECRETS}?watch=1&resourceVersion={from}");
        let (mut first, mut second) = (Watch::open(&shop.daemon, &path).await, Watch::open(&shop.daemon, &path).await);
        let mut seen = Vec::new();
        for n in 0..10 {
            shop.set("db", &format!("value {n}"));
            seen.extend(first.told(1).await);
            seen.dedup();
            assert!(seen[n].starts_with("MODIFIED db "), "{strategy}: {seen:?}");
        }
        assert_eq!(second.told(10).await, seen, "{strategy}");
        // Its connection is cut, and it goes on after what it has.
        let fifth = seen[9].rsplit(' ').next().unwrap().to_owned();
        drop(second);
        shop.set("db", "once more");
        let path = format!("{SECRETS}?watch=1&resourceVersion={fifth}");
        let expected = first.told(1).await;
        let event = Watch::open(&shop.daemon, &path).await.next().await.unwrap();
        assert_eq!(in_words(&event), expected[0], "{strategy}: {event}");
        assert_eq!(expected[0], format!("MODIFIED db {}", shop.version("db").await));
    }
}

#[tokio::test]
async fn what_a_pod_brings_into_view_is_added_and_what_leaves_with_it_is_deleted_without_values() {
    let shop = Shop::start("watch").await;
    listed(&shop.daemon, 1).await;
    let streaming =
        format!("{SECRETS}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let mut watch = Watch::open(&shop.daemon, &streaming).await;
    assert!(watch.told(1).await[0].starts_with("ADDED db "));
    let end = watch.next().await.unwrap();
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(end["object"]["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    // `tls` is older than `db`: its version moves the client back, and a bookmark moves it forward.
    shop.api.store().create(pod("shop", "edge").uid("uid-edge").node(NODE).secret_volume("tls").build()).unwrap();
    let added = watch.next().await.unwrap();
    assert_eq!((&added["type"], &added["object"]["data"]["key"]), (&json!("ADDED"), &json!("b2xk")));
    let bookmark = watch.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    let version =
        |event: &Value| event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(version(&added) < version(&end) && version(&end) < version(&bookmark), "{added} {end} {bookmark}");
    // From the version of the object alone, nobody can tell what the client has.
    let ambiguous = shop.daemon.get(&format!("{SECRETS}?watch=1&resourceVersion={}", version(&added))).await;
    // As the API server says it, in an event: kube's watcher does not list again after a code.
    let event = ambiguous.json();
    assert_eq!((ambiguous.code, &event["type"]), (200, &json!("ERROR")));
    assert_eq!((&event["object"]["code"], &event["object"]["reason"]), (&json!(410), &json!("Expired")));

    shop.api.store().delete(Kind::Pod, "shop", "edge").unwrap();
    let deleted = watch.next().await.unwrap();
    assert_eq!((&deleted["type"], &deleted["object"]["metadata"]["name"]), (&json!("DELETED"), &json!("tls")));
    assert_eq!(deleted["object"]["data"], Value::Null, "{deleted}");
    assert_eq!(watch.next().await.unwrap()["type"], "BOOKMARK");
    let path = format!("{SECRETS}?watch=1&resourceVersion={}", version(&bookmark));
    assert!(Watch::open(&shop.daemon, &path).await.told(1).await[0].starts_with("DELETED tls "));
}

#[tokio::test]
async fn each_strategy_shows_a_change_to_those_who_watch() {
    for strategy in ["watch", "auto", "ttl"] {
        let shop = Shop::start(strategy).await;
        listed(&shop.daemon, 1).await;
        let mut watch = Watch::open(&shop.daemon, &format!("{SECRETS}?watch=1")).await;
        assert!(watch.told(1).await[0].starts_with("ADDED db "), "{strategy}");
        shop.set("db", "two");
        if strategy == "ttl" {
            // A read finds the change once the TTL has passed, and a new pod makes the next read ask.
            shop.api
                .store()
                .create(pod("shop", "more").uid("uid-more").node(NODE).secret_volume("db").build())
                .unwrap();
        }
        assert_eq!(watch.told(1).await, [format!("MODIFIED db {}", shop.version("db").await)], "{strategy}");
        shop.api.store().delete(Kind::Secret, "shop", "db").unwrap();
        if strategy != "ttl" {
            assert!(watch.told(1).await[0].starts_with("DELETED db "), "{strategy}");
        }
    }
}

#[tokio::test]
async fn a_version_of_another_run_is_never_taken_for_one_of_this_run() {
    let shop = Shop::start("watch").await;
    let list = listed(&shop.daemon, 1).await;
    assert_ne!(list["metadata"]["resourceVersion"], "");
    let kubeconfig = shop.outside.path().join("kubeconfig").display().to_string();
    let arguments = ["--kubeconfig", &kubeconfig, "--runtime-endpoint", "none"];
    let second = Daemon::spawn(tempfile::tempdir().unwrap(), &arguments);
    // The same objects, but what happened in between is not known. Lists are asked for from the start, before anything is known.
    listed(&second, 1).await;
    let version = shop.version("db").await;
    let resumed = second.get(&format!("{SECRETS}?watch=1&resourceVersion={version}")).await;
    assert_eq!((resumed.code, &resumed.json()["object"]["code"]), (200, &json!(410)), "{resumed:?}");
    // Those of pods are the API server's, which has one meaning for each.
    let pods = second.get("/api/v1/pods").await.json();
    let version = pods["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut watch = Watch::open(&second, &format!("/api/v1/pods?watch=1&resourceVersion={version}")).await;
    assert_eq!(watch.code, 200);
    shop.api.store().create(pod("shop", "late").uid("uid-late").node(NODE).build()).unwrap();
    assert!(watch.told(1).await[0].starts_with("ADDED late "));
}

#[tokio::test]
async fn a_watch_from_the_future_is_open_and_silent_until_its_version() {
    let shop = Shop::start("watch").await;
    let (first, last) = (shop.api.store().revision() + 2, 1_000_000);
    let path = |version: u64| format!("/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion={version}");
    let mut watch = Watch::open(&shop.daemon, &path(first)).await;
    let mut never = Watch::open(&shop.daemon, &format!("{}&timeoutSeconds=1", path(last))).await;
    let ended = Watch::open(&shop.daemon, &path(last)).await;
    assert_eq!((watch.code, never.code, ended.code), (200, 200, 200));
    for name in ["one", "two", "three"] {
        shop.api.store().create(pod("shop", name).uid(name).node(NODE).build()).unwrap();
    }
    // The client has the first two from the API server.
    assert_eq!(watch.told(1).await, [format!("ADDED three {}", first + 1)]);
    assert!(never.next().await.is_none(), "it lasts as long as the client says");
    // A list of that version is refused, as is a watch that begins with one.
    let streaming = format!("{}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", path(last));
    assert_eq!(shop.daemon.get(&streaming).await.code, 504);
    // After a restore, nobody knows what the version means.
    let backup = shop.api.store().backup();
    shop.api.store().create(pod("shop", "four").uid("four").node(NODE).build()).unwrap();
    assert_eq!(watch.told(1).await, [format!("ADDED four {}", first + 2)]);
    shop.api.store().restore(&backup);
    shop.api.outage().await;
    shop.api.restore().await.unwrap();
    for mut watch in [watch, ended] {
        let event = watch.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)), "{event}");
    }
    let mut stopped = Watch::open(&shop.daemon, &path(last)).await;
    shop.daemon.signal(rustix::process::Signal::TERM);
    assert!(stopped.next().await.is_none(), "the daemon's end ends it in good order");
}

#[tokio::test]
async fn a_read_of_one_object_is_not_older_than_the_version_that_it_names() {
    let shop = Shop::start("watch").await;
    let daemon = &shop.daemon;
    listed(daemon, 1).await;
    let (web, db) = ("/api/v1/namespaces/shop/pods/web", "/api/v1/namespaces/shop/secrets/db");
    let late = async |path: &str| {
        let answer = daemon.get(&format!("{path}?resourceVersion=1000000")).await;
        assert_eq!((answer.code, &answer.json()["reason"]), (504, &json!("Timeout")), "{path}: {answer:?}");
        let cause = &answer.json()["details"]["causes"][0]["reason"];
        assert_eq!(cause, "ResourceVersionTooLarge", "{path}: {answer:?}");
    };
    let (for_pod, status) = (format!("{db}?pod=web&"), format!("{web}/status"));
    tokio::join!(
        late(web),
        late(&status),
        late("/api/v1/namespaces/shop/pods/none"),
        late("/api/v1/nodes/node-1"),
        late(db),
    );
    assert_eq!(daemon.get(&format!("{for_pod}resourceVersion=1000000")).await.code, 504);
    for (path, code) in
        [(web, 200), (db, 200), ("/api/v1/nodes/node-1", 200), ("/api/v1/namespaces/shop/pods/none", 404)]
    {
        for version in ["", "0", "1"] {
            assert_eq!(daemon.get(&format!("{path}?resourceVersion={version}")).await.code, code, "{path} {version}");
        }
        assert_eq!(daemon.get(&format!("{path}?resourceVersion=x")).await.code, 400, "{path}");
    }
    // No wait helps one that may not be read.
    assert_eq!(daemon.get(&format!("{SECRETS}/tls?resourceVersion=1000000")).await.code, 403);
    let next = shop.api.store().revision() + 1;
    let path = format!("{db}?resourceVersion={next}");
    let (read, ()) = tokio::join!(daemon.get(&path), async { shop.set("db", "two") });
    assert_eq!((read.code, &read.json()["data"]["password"]), (200, &json!("dHdv")), "{read:?}");
    let path = format!("/api/v1/namespaces/shop/pods/new?resourceVersion={}", next + 1);
    let (read, _) = tokio::join!(daemon.get(&path), async {
        shop.api.store().create(pod("shop", "new").uid("uid-new").node(NODE).build()).unwrap()
    });
    assert_eq!(read.code, 200, "{read:?}");
}

#[tokio::test]
async fn selectors_turn_changes_into_additions_and_deletions() {
    let shop = Shop::start("watch").await;
    let labelled = |value: &str| {
        let mut object = pod("shop", "web").uid("uid-web").node(NODE).secret_volume("db").build();
        object.metadata.labels = Some([("tier".to_owned(), value.to_owned())].into());
        object
    };
    let mut watch = Watch::open(&shop.daemon, "/api/v1/pods?watch=1&labelSelector=tier%3Dfront").await;
    for tier in ["back", "front", "front", "back", "front"] {
        shop.api.store().apply(labelled(tier)).unwrap();
    }
    shop.api.store().delete(Kind::Pod, "shop", "web").unwrap();
    let told = watch.told(5).await;
    let types: Vec<_> = told.iter().map(|event| event.split(' ').next().unwrap()).collect();
    assert_eq!(types, ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"], "{told:?}");
}

#[tokio::test]
async fn tables_and_metadata_come_in_watches_too_and_show_no_value() {
    let shop = Shop::start("watch").await;
    listed(&shop.daemon, 1).await;
    let path = format!("{SECRETS}?watch=1&includeObject=None");
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let (mut tables, mut metas) =
        (Watch::open_as(&shop.daemon, &path, table).await, Watch::open_as(&shop.daemon, &path, metadata).await);
    shop.set("db", "two");
    let (first, second) = (tables.next().await.unwrap(), tables.next().await.unwrap());
    assert_eq!((&first["object"]["kind"], &first["object"]["rows"][0]["cells"][0]), (&json!("Table"), &json!("db")));
    assert!(first["object"]["columnDefinitions"].is_array() && second["object"]["columnDefinitions"].is_null());
    for _ in 0..2 {
        let meta = metas.next().await.unwrap();
        assert_eq!(meta["object"]["kind"], "PartialObjectMetadata");
        assert_eq!((&meta["object"]["metadata"]["name"], &meta["object"]["data"]), (&json!("db"), &Value::Null));
    }
}

#[tokio::test]
async fn a_watch_of_manifests_follows_the_files() {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: a, image: i, envFrom: [{configMapRef: {name: c}}]}]}}";
    let config_map =
        |value: &str| format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c}}, data: {{a: '{value}'}}}}");
    let daemon = Daemon::with_manifests(&[("pod.yaml", pod), ("c.yaml", &config_map("1"))]).await;
    let mut watch = Watch::open(&daemon, "/api/v1/configmaps?watch=1&allowWatchBookmarks=true").await;
    let added = watch.next().await.unwrap();
    assert_eq!((&added["type"], &added["object"]["data"]["a"]), (&json!("ADDED"), &json!("1")));
    daemon.write("c.yaml", &config_map("2"));
    let modified = watch.next().await.unwrap();
    assert_eq!((&modified["type"], &modified["object"]["data"]["a"]), (&json!("MODIFIED"), &json!("2")));
    let after = |event: &Value| {
        let version = event["object"]["metadata"]["resourceVersion"].as_str().unwrap();
        format!("/api/v1/configmaps?watch=1&resourceVersion={version}")
    };
    // Each event's own version is a position, so no bookmark follows.
    let mut resumed = Watch::open(&daemon, &after(&added)).await;
    assert_eq!(resumed.next().await.unwrap(), modified);
    let mut resumed = Watch::open(&daemon, &after(&modified)).await;
    daemon.write("c.yaml", &config_map("3"));
    let third = watch.next().await.unwrap();
    assert_eq!((&resumed.next().await.unwrap(), &third["object"]["data"]["a"]), (&third, &json!("3")));
    // What goes has no version of its own, and moves no later change.
    daemon.write("pod.yaml", &pod.replace("name: c}", "name: d}"));
    assert_eq!(watch.next().await.unwrap()["type"], "DELETED");
    assert_eq!(watch.next().await.unwrap()["type"], "BOOKMARK");
    daemon.write("pod.yaml", pod);
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
    assert_eq!(watch.next().await.unwrap()["type"], "BOOKMARK");
    daemon.write("c.yaml", &config_map("4"));
    let fourth = watch.next().await.unwrap();
    let mut resumed = Watch::open(&daemon, &after(&fourth)).await;
    daemon.write("c.yaml", &config_map("5"));
    assert_eq!(resumed.next().await.unwrap()["object"]["data"]["a"], "5");
    // Lists have versions of the same scale.
    let list = daemon.get("/api/v1/configmaps").await.json();
    assert_eq!(list["metadata"]["resourceVersion"], list["items"][0]["metadata"]["resourceVersion"]);
    // Another run reads the same files, and refuses versions of this one.
    let again = Daemon::with_manifests(&[("pod.yaml", pod), ("c.yaml", &config_map("5"))]).await;
    for event in [&added, &fourth, &json!({"object": list})] {
        let refused = again.get(&after(event)).await;
        assert_eq!((refused.code, &refused.json()["object"]["code"]), (200, &json!(410)), "{refused:?}");
    }
}
