//! The namespaces of the node's pods, with the rights of a node, and with the one right that they need.

use crate::harness::{Answer, Daemon, request, until};
use crate::objects::may;
use crate::watch::Watch;
use larder_testkit::api_server::{ApiServer, Grant, Kind, User, Verb};
use larder_testkit::objects::{namespace, node, pod};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixStream;

const NODE: &str = "node-1";
const NAMESPACES: &str = "/api/v1/namespaces";

/// An API server with namespaces `shop` and `web`, which have a pod of the node, and `other`; and a daemon.
struct World {
    api: ApiServer,
    daemon: Daemon,
    _outside: TempDir,
}

impl World {
    async fn start(user: User) -> Self {
        let api = ApiServer::start().await.unwrap();
        let mut node = node(NODE);
        let annotations = node.metadata.annotations.get_or_insert_default();
        annotations.insert("node.alpha.kubernetes.io/ttl".to_owned(), "1".to_owned());
        api.store().create(node).unwrap();
        for (name, tier) in [("shop", "front"), ("web", "back"), ("other", "back")] {
            let mut namespace = namespace(name);
            namespace.metadata.labels = Some([("tier".to_owned(), tier.to_owned())].into());
            api.store().create(namespace).unwrap();
        }
        for name in ["shop", "web"] {
            api.store().create(pod(name, "a").node(NODE).build()).unwrap();
        }
        let outside = tempfile::tempdir().unwrap();
        let kubeconfig = outside.path().join("kubeconfig");
        api.write_kubeconfig(&kubeconfig, &api.add_user(user)).unwrap();
        let kubeconfig = kubeconfig.display().to_string();
        let arguments = ["--kubeconfig", &kubeconfig, "--runtime-endpoint", "none"];
        let daemon = Daemon::spawn(tempfile::tempdir().unwrap(), &arguments);
        daemon.ready().await;
        Self { api, daemon, _outside: outside }
    }

    async fn with_the_right() -> Self {
        Self::start(User::node(NODE).allow(Grant::everywhere(Kind::Namespace).verbs(&[Verb::Get]))).await
    }

    async fn get_as(&self, path: &str, accept: &str) -> Answer {
        request(UnixStream::connect(self.daemon.socket()).await.unwrap(), "GET", path, accept).await.unwrap()
    }

    /// The names of a list.
    async fn names(&self, query: &str) -> Vec<String> {
        let answer = self.daemon.get(&format!("{NAMESPACES}{query}")).await;
        let list = answer.json();
        assert_eq!((answer.code, &list["kind"]), (200, &json!("NamespaceList")), "{query}: {answer:?}");
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test]
async fn the_namespaces_of_the_pods_are_served_as_the_api_server_has_them() {
    let world = World::with_the_right().await;
    assert_eq!(world.api.counts().of(Verb::Get, Kind::Namespace), 0, "nobody has asked");
    for path in ["/api/v1/namespaces/shop", "/api/v1/namespaces/shop/status"] {
        let answer = world.daemon.get(path).await;
        assert_eq!(answer.code, 200, "{answer:?}");
        assert!(answer.age() < 60 && answer.header("cache-status").starts_with("larder; "), "{answer:?}");
        let object = answer.json();
        let late = world.daemon.get(&format!("{path}?resourceVersion=1000000")).await;
        assert_eq!((late.code, &late.json()["reason"]), (504, &json!("Timeout")), "{late:?}");
        assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("Namespace"), &json!("v1")));
        assert_eq!((&object["metadata"]["name"], &object["status"]["phase"]), (&json!("shop"), &json!("Active")));
        assert!(object["metadata"]["resourceVersion"].is_string() && object["spec"]["finalizers"].is_array());
    }
    for (query, expected) in [
        ("", vec!["shop", "web"]),
        ("?fieldSelector=metadata.name%3Dweb", vec!["web"]),
        ("?fieldSelector=status.phase%3DActive,metadata.name!%3Dweb", vec!["shop"]),
        ("?fieldSelector=status.phase%3DTerminating", vec![]),
        ("?labelSelector=tier%3Dback", vec!["web"]),
    ] {
        assert_eq!(world.names(query).await, expected, "{query}");
    }
    let table = world.get_as(NAMESPACES, "application/json;as=Table;v=v1;g=meta.k8s.io").await.json();
    let columns: Vec<_> = table["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
    assert_eq!(columns, ["Name", "Status", "Age"]);
    assert_eq!(table["rows"][1]["cells"].as_array().unwrap()[..2], [json!("web"), json!("Active")]);
    let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let metadata = world.get_as("/api/v1/namespaces/web", metadata).await.json();
    assert_eq!((&metadata["kind"], &metadata["status"]), (&json!("PartialObjectMetadata"), &Value::Null));
    assert_eq!(metadata["metadata"]["labels"]["tier"], "back");

    let listed = world.daemon.larder("get ns").await.ok();
    let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().take(2).collect()).collect();
    assert_eq!(rows, [["NAME", "STATUS"], ["shop", "Active"], ["web", "Active"]]);
    assert!(world.daemon.larder("get namespace shop -o yaml").await.ok().contains("kind: Namespace"));
}

#[tokio::test]
async fn other_namespaces_are_refused_and_nothing_is_written() {
    let world = World::with_the_right().await;
    let refused = world.daemon.get("/api/v1/namespaces/other").await;
    let status = refused.json();
    assert_eq!((refused.code, &status["reason"]), (403, &json!("Forbidden")), "{refused:?}");
    assert_eq!((&status["details"]["kind"], &status["details"]["name"]), (&json!("namespaces"), &json!("other")));
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("no pod of node \"node-1\" is in it; read it from the API server"), "{message}");
    for (method, path) in [
        ("POST", NAMESPACES),
        ("PUT", "/api/v1/namespaces/shop"),
        ("PATCH", "/api/v1/namespaces/shop/status"),
        ("DELETE", "/api/v1/namespaces/shop"),
    ] {
        let answer = request(UnixStream::connect(world.daemon.socket()).await.unwrap(), method, path, "*/*").await;
        assert_eq!(answer.unwrap().code, 405, "{method} {path}");
    }
    for (path, code) in [
        ("/api/v1/namespaces/", 200),
        ("/api/v1/namespaces/shop/finalize", 404),
        ("/api/v1/namespaces/shop/resourcequotas?limit=500", 404),
        ("/api/v1/namespaces/shop/limitranges", 404),
        ("/api/v1/namespaces?fieldSelector=metadata.namespace%3Dx", 400),
    ] {
        assert_eq!(world.daemon.get(path).await.code, code, "{path}");
    }
    let core = world.daemon.get("/api/v1").await.json();
    let found: Vec<_> = core["resources"].as_array().unwrap().iter().filter(|one| one["kind"] == "Namespace").collect();
    assert_eq!(found.len(), 2, "{core}");
    assert_eq!((&found[0]["shortNames"], &found[0]["namespaced"]), (&json!(["ns"]), &json!(false)));
}

#[tokio::test]
async fn without_the_right_the_answer_names_the_rule_and_nothing_else_is_affected() {
    let world = World::start(User::node(NODE)).await;
    for path in [NAMESPACES, "/api/v1/namespaces?watch=1", "/api/v1/namespaces/shop", "/api/v1/namespaces/shop/status"]
    {
        let answer = world.daemon.get(path).await;
        let status = answer.json();
        assert_eq!((answer.code, &status["reason"]), (403, &json!("Forbidden")), "{path}: {answer:?}");
        let message = status["message"].as_str().unwrap();
        for part in ["ClusterRole", "\"get\"", "\"namespaces\"", "User \"system:node:node-1\""] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
    let told = world.daemon.larder("get namespaces").await.failed();
    assert!(told.contains("ClusterRole"), "{told}");
    let refused = world.daemon.get("/api/v1/namespaces/shop").await.json();
    let review = may(&world.daemon, json!({"verb": "get", "resource": "namespaces", "name": "shop"})).await;
    assert_eq!(review, json!({"allowed": false, "reason": refused["message"]}));
    assert_eq!(world.daemon.get("/readyz").await.code, 200);
    let report = world.daemon.get("/larder/v1/status").await.json();
    assert_eq!(report["degraded"], json!([]), "{report}");
    for path in ["/api/v1/pods", "/api/v1/nodes", "/api/v1/secrets"] {
        let answer = world.daemon.get(path).await;
        assert!(answer.code == 200 && !answer.is_stale(), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn an_outage_makes_namespaces_stale_until_it_ends() {
    let world = World::with_the_right().await;
    assert_eq!(world.names("").await, ["shop", "web"]);
    world.api.outage().await;
    let stale =
        until("it is stale", async || world.daemon.try_get("/api/v1/namespaces/shop").await.filter(Answer::is_stale))
            .await;
    assert_eq!((stale.code, &stale.json()["metadata"]["name"]), (200, &json!("shop")));
    assert_eq!(world.names("").await, ["shop", "web"]);
    let told = world.daemon.larder("get ns").await;
    assert!(told.stderr.contains("Warning: namespaces are stale") && told.stdout.contains("shop"), "{told:?}");
    world.api.restore().await.unwrap();
    until("it is fresh again", async || {
        world.daemon.try_get("/api/v1/namespaces/shop").await.filter(|answer| !answer.is_stale())
    })
    .await;
}

#[tokio::test]
async fn a_watch_shows_namespaces_that_change_come_and_go() {
    let world = World::with_the_right().await;
    let streaming = "?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = Watch::open(&world.daemon, &format!("{NAMESPACES}{streaming}")).await;
    let mut told = async |expected: &str| {
        loop {
            let event = watch.next().await.unwrap();
            let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
            let seen = format!("{} {}", text(&event["type"]), text(&event["object"]["metadata"]["name"]));
            // A bookmark follows where the client needs one.
            if seen != "BOOKMARK -" || expected == seen {
                assert_eq!(seen, expected, "{event}");
                return event;
            }
        }
    };
    told("ADDED shop").await;
    told("ADDED web").await;
    told("BOOKMARK -").await;
    let mut ending = namespace("shop");
    ending.status.get_or_insert_default().phase = Some("Terminating".to_owned());
    world.api.store().apply(ending).unwrap();
    assert_eq!(told("MODIFIED shop").await["object"]["status"]["phase"], "Terminating");
    world.api.store().create(pod("other", "b").node(NODE).build()).unwrap();
    told("ADDED other").await;
    world.api.store().delete(Kind::Pod, "web", "a").unwrap();
    told("DELETED web").await;
}

#[tokio::test]
async fn without_an_api_server_there_are_no_namespaces() {
    let daemon = Daemon::with_manifests(&[]).await;
    for path in [NAMESPACES, "/api/v1/namespaces?watch=1", "/api/v1/namespaces/default"] {
        let answer = daemon.get(path).await;
        assert_eq!((answer.code, &answer.json()["reason"]), (501, &json!("NotImplemented")), "{path}: {answer:?}");
        assert!(answer.text.contains("--manifests"), "{answer:?}");
    }
    let kinds = daemon.get("/api/v1").await.json();
    assert!(kinds["resources"].as_array().unwrap().iter().all(|kind| kind["kind"] != "Namespace"), "{kinds}");
    for verb in ["get", "list", "watch"] {
        let review = may(&daemon, json!({"verb": verb, "resource": "namespaces"})).await;
        let reason = "namespaces: this larder runs without an API server (--manifests)";
        assert_eq!(review, json!({"allowed": false, "reason": reason}), "{verb}");
    }
}
