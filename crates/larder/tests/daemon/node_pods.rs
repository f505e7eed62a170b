//! Pods as their node knows them, with a simulated API server and runtime.

use crate::harness::{Answer, Daemon, request, until};
use crate::watch::{Watch, request_to};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::Pod;
use larder_testkit::api_server::{ApiServer, Kind, User};
use larder_testkit::cri_runtime::{CriServer, SandboxSpec};
use larder_testkit::objects::{node, pod};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixStream;

const NODE: &str = "node-1";
const WEB: &str = "/api/v1/namespaces/shop/pods/web";

/// A pod `web` whose container runs, as the API server knows it too.
struct Place {
    api: ApiServer,
    cri: CriServer,
    daemon: Daemon,
    arguments: Vec<String>,
    container: String,
    sandbox: String,
    _outside: TempDir,
}

impl Place {
    async fn start() -> Self {
        let outside = tempfile::tempdir().unwrap();
        let (api, cri) =
            (ApiServer::start().await.unwrap(), CriServer::start(&outside.path().join("cri.sock")).await.unwrap());
        let sandbox = cri.containers().run_sandbox(&SandboxSpec::new("shop", "web", "uid-web"));
        let container = cri.containers().create_container(&sandbox, "app", "shop/web:1").unwrap();
        cri.containers().start_container(&container).unwrap();
        api.store().create(node(NODE)).unwrap();
        let mut web = pod("shop", "web").uid("uid-web").node(NODE).container("app", "shop/web:1").build();
        web.status = serde_json::from_value(status(&container)).unwrap();
        api.store().create(web).unwrap();
        let kubeconfig = outside.path().join("kubeconfig");
        api.write_kubeconfig(&kubeconfig, &api.add_user(User::node(NODE))).unwrap();
        let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--runtime-endpoint", &cri.endpoint()];
        let arguments: Vec<String> = arguments.map(str::to_owned).into();
        let daemon = Self::daemon(&arguments).await;
        Self { api, cri, daemon, arguments, container, sandbox, _outside: outside }
    }

    async fn daemon(arguments: &[String]) -> Daemon {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let daemon = Daemon::spawn(tempfile::tempdir().unwrap(), &arguments);
        daemon.ready().await;
        until("the runtime was listed", async || {
            daemon.try_get("/larder/v1/pods/uid-web/status").await.filter(|answer| answer.code == 200)
        })
        .await;
        daemon
    }

    /// The list of `/pods`, its code and its tag.
    async fn pods(&self, tag: &str) -> (u16, String, Value) {
        let stream = UnixStream::connect(self.daemon.socket()).await.unwrap();
        let request = request_to(false, "GET", "/pods").header("if-none-match", tag);
        let answer = Watch::on(stream, false, request).await;
        let header = |name: &str| answer.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
        assert!(!header("age").is_empty() && header("cache-status").starts_with("larder; "), "{:?}", answer.headers);
        let (code, tag) = (answer.code, header("etag"));
        let text = answer.body.collect().await.unwrap().to_bytes();
        (code, tag, if text.is_empty() { Value::Null } else { serde_json::from_slice(&text).unwrap() })
    }
}

/// The status of a pod whose container runs and is ready.
fn status(container: &str) -> Value {
    let condition = |name: &str| json!({"type": name, "status": "True", "lastTransitionTime": "2026-01-02T03:04:06Z"});
    json!({"phase": "Running", "podIP": "10.0.0.1", "conditions": [condition("Ready"), condition("ContainersReady")],
        "containerStatuses": [{"name": "app", "image": "shop/web:1", "imageID": "", "lastState": {}, "ready": true, "started": true,
            "restartCount": 0, "containerID": format!("containerd://{container}"), "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}}]})
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

#[tokio::test]
async fn an_exit_shows_before_the_api_server_knows_of_it() {
    let place = Place::start().await;
    let own = place.daemon.get(WEB).await;
    let before = place.daemon.get(&format!("/node{WEB}")).await;
    assert_eq!(before.json()["status"], own.json()["status"], "the runtime has nothing newer");
    let (code, tag, list) = place.pods("\"other\"").await;
    assert_eq!((code, &list["kind"], &list["items"].as_array().unwrap().len()), (200, &json!("PodList"), &1));
    for same in [tag.clone(), format!("\"x\", W/{tag}"), "*".to_owned()] {
        assert_eq!(place.pods(&same).await, (304, tag.clone(), Value::Null), "{same}");
    }
    let list = place.daemon.get("/node/api/v1/pods").await.json();
    let from = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut watch = Watch::open(&place.daemon, &format!("/node/api/v1/pods?watch=1&resourceVersion={from}")).await;
    assert_eq!(watch.code, 200);

    place.cri.containers().exit_container(&place.container, 3).unwrap();
    let event = watch.next().await.unwrap();
    let now = &event["object"];
    assert_eq!(event["type"], "MODIFIED");
    assert!(!is_ready(now) && now["status"]["phase"] == "Running", "{now}");
    let container = &now["status"]["containerStatuses"][0];
    assert_eq!((&container["ready"], &container["state"]["terminated"]["exitCode"]), (&json!(false), &json!(3)));
    let version = |pod: &Value| pod["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(version(now), from.parse::<u64>().unwrap() + 1, "larder's own versions");
    assert_eq!(place.daemon.get(&format!("/node{WEB}")).await.json(), *now);
    assert_eq!(place.daemon.get(WEB).await.text, own.text, "the API server's pod stays as it is");
    let (code, changed, list) = place.pods(&tag).await;
    assert_eq!((code, &list["items"][0]["status"]), (200, &now["status"]));
    assert_ne!(changed, tag);
    let table = place.daemon.larder("get pods -n shop").await.ok();
    assert!(table.contains("0/1") && table.contains("Error"), "{table}");

    // A new life is ready again, as the kubelet would say.
    let again = place.cri.containers().create_container(&place.sandbox, "app", "shop/web:1").unwrap();
    place.cri.containers().start_container(&again).unwrap();
    let restarted = async {
        loop {
            let event = watch.next().await.unwrap();
            if is_ready(&event["object"]) {
                return event["object"].clone();
            }
        }
    };
    let restarted = restarted.await;
    let container = &restarted["status"]["containerStatuses"][0];
    assert_eq!(container["containerID"], format!("containerd://{again}"));
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 3);
}

#[tokio::test]
async fn a_watch_resumes_within_a_run_and_never_after_a_restart() {
    let mut place = Place::start().await;
    let path = "/node/api/v1/namespaces/shop/pods";
    let list = place.daemon.get(path).await.json();
    let from = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    place.api.store().delete(Kind::Pod, "shop", "web").unwrap();
    let resume = format!("{path}?watch=1&resourceVersion={from}");
    let deleted = Watch::open(&place.daemon, &resume).await.next().await.unwrap();
    assert_eq!((&deleted["type"], &deleted["object"]["metadata"]["name"]), (&json!("DELETED"), &json!("web")));
    let end = deleted["object"]["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let absent = place.daemon.get(&format!("/node{WEB}")).await;
    assert_eq!(absent.code, 404);

    place.daemon.kill();
    place.daemon = Place::daemon(&place.arguments).await;
    for version in [from, end] {
        let mut watch = Watch::open(&place.daemon, &format!("{path}?watch=1&resourceVersion={version}")).await;
        let refused = watch.next().await.unwrap();
        assert_eq!((&refused["type"], &refused["object"]["code"]), (&json!("ERROR"), &json!(410)), "{refused}");
    }
}

#[tokio::test]
async fn a_static_pod_that_the_api_server_does_not_have_is_the_runtimes() {
    let place = Place::start().await;
    let list = place.daemon.get("/node/api/v1/pods").await.json();
    let from = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = Watch::open(&place.daemon, &format!("/node/api/v1/pods?watch=1&resourceVersion={from}")).await;
    let spec = SandboxSpec::new("kube-system", "etcd-node-1", "5f0c")
        .label("tier", "control-plane")
        .annotation("kubernetes.io/config.source", "file");
    let sandbox = place.cri.containers().run_sandbox(&spec);
    let container = place.cri.containers().create_container(&sandbox, "etcd", "etcd:3").unwrap();
    place.cri.containers().start_container(&container).unwrap();
    let shown = async {
        loop {
            let event = watch.next().await.unwrap();
            if event["object"]["status"]["phase"] == "Running" {
                return event["object"].clone();
            }
        }
    };
    let etcd = shown.await;
    assert_eq!(etcd["metadata"]["uid"], "5f0c");
    assert_eq!(etcd["metadata"]["labels"], json!({"tier": "control-plane"}));
    let path = "/api/v1/namespaces/kube-system/pods/etcd-node-1";
    assert_eq!(place.daemon.get(&format!("/node{path}")).await.json(), etcd);
    assert_eq!(place.daemon.get(path).await.code, 404, "the API server does not have it");
    let selected = place.daemon.get("/node/api/v1/pods?labelSelector=tier").await.json();
    assert_eq!(selected["items"], json!([etcd]));
    let table = place.daemon.larder("get pods -A").await.ok();
    let line = table.lines().find(|line| line.contains("etcd-node-1")).unwrap_or_else(|| panic!("{table}"));
    assert!(line.contains("0/1") && line.contains("Running"), "nobody knows whether it is ready: {line}");
    let (_, _, list) = place.pods("").await;
    assert_eq!(list["items"].as_array().unwrap().len(), 2);

    // Its mirror in the API server takes its place, with what the API server knows.
    let mirror = pod("kube-system", "etcd-node-1").uid("uid-mirror").node(NODE).container("etcd", "etcd:3");
    place.api.store().create(mirror.annotation("kubernetes.io/config.mirror", "5f0c").build()).unwrap();
    let mirror = async {
        loop {
            let event = watch.next().await.unwrap();
            if event["object"]["metadata"]["uid"] == "uid-mirror" {
                return event["object"].clone();
            }
        }
    };
    let mirror = mirror.await;
    assert!(mirror["status"]["phase"] == "Running" && is_ready(&mirror), "{mirror}");
    place.api.store().delete(Kind::Pod, "kube-system", "etcd-node-1").unwrap();
    place.cri.containers().remove_sandbox(&sandbox).unwrap();
    until("it is gone", async || {
        place.daemon.try_get(&format!("/node{path}")).await.filter(|answer| answer.code == 404)
    })
    .await;
}

#[tokio::test]
async fn a_pod_that_claims_the_uid_of_another_one_gets_nothing_of_its_status() {
    let place = Place::start().await;
    let thief = pod("bank", "thief").uid("uid-thief").node(NODE).container("app", "shop/web:1");
    place.api.store().create(thief.annotation("kubernetes.io/config.mirror", "uid-web").build()).unwrap();
    let path = "/api/v1/namespaces/bank/pods/thief";
    let own = until("it is there", async || place.daemon.try_get(path).await.filter(|answer| answer.code == 200)).await;
    place.cri.containers().exit_container(&place.container, 3).unwrap();
    until("the exit shows", async || {
        let web = place.daemon.get(&format!("/node{WEB}")).await.json();
        (!is_ready(&web)).then_some(())
    })
    .await;
    let shown = place.daemon.get(&format!("/node{path}")).await.json();
    assert_eq!(shown["status"], own.json()["status"]);
    let (_, _, list) = place.pods("").await;
    assert_eq!(list["items"][0]["status"], own.json()["status"]);
}

#[tokio::test]
async fn the_path_of_the_nodes_pods_is_read_only_and_has_all_other_kinds() {
    let place = Place::start().await;
    let ask = async |method: &str, path: &str| {
        let stream = UnixStream::connect(place.daemon.socket()).await.unwrap();
        request(stream, method, path, "application/json").await.unwrap()
    };
    for path in ["/node/api/v1/namespaces/shop/pods", "/pods"] {
        let refused = ask("POST", path).await;
        assert_eq!((refused.code, &refused.json()["reason"]), (405, &json!("MethodNotAllowed")), "{path}");
    }
    for path in ["/node", "/node/pods", "/node/larder/v1/pods", "/node/api/v1/endpoints", "/pods/web"] {
        let unknown = ask("GET", path).await;
        assert_eq!((unknown.code, &unknown.json()["reason"]), (404, &json!("NotFound")), "{path}");
    }
    for path in ["/api/v1/nodes/node-1", "/api/v1", "/apis"] {
        let (below, own) = (ask("GET", &format!("/node{path}")).await, ask("GET", path).await);
        assert_eq!((below.code, below.text), (200, own.text), "{path}");
    }
}

#[tokio::test]
async fn the_answers_are_stale_while_the_runtime_is_away() {
    let place = Place::start().await;
    assert!(!place.daemon.get("/node/api/v1/pods").await.is_stale());
    place.cri.outage().await;
    for path in ["/node/api/v1/pods", &format!("/node{WEB}"), "/pods"] {
        until("it is stale", async || place.daemon.try_get(path).await.filter(Answer::is_stale)).await;
    }
    assert!(!place.daemon.get("/api/v1/pods").await.is_stale(), "the API server answers");
    // What the API server says is shown all the same.
    let changed = place.api.store().modify("shop", "web", |web: &mut Pod| {
        web.metadata.labels.get_or_insert_default().insert("app".to_owned(), "web".to_owned());
    });
    changed.unwrap();
    until("it has the label", async || {
        let pod = place.daemon.get(&format!("/node{WEB}")).await.json();
        (pod["metadata"]["labels"]["app"] == "web").then_some(())
    })
    .await;
}
