//! What a container gets of a node with objects of other pods: each object has random texts in every place, of which the container may see a few.

use super::*;
use crate::app;
use crate::fuzz::bench::root;
use axum::Router;
use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1;
use larder_node::{Cluster, Config, RuntimeEndpoint};
use larder_testkit::api_server::{ApiServer, Kind as Stored, User};
use larder_testkit::cri_runtime::{CriServer, SandboxSpec};
use larder_testkit::poll_until;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

const LIMIT: Duration = Duration::from_secs(30);

/// Random texts, and whether the container may see them.
#[derive(Default)]
struct Texts {
    seen: Vec<String>,
    hidden: Vec<String>,
}

impl Texts {
    fn new_text() -> String {
        // It is base64, too, as the values of a Secret are.
        format!("t{:015x}", RandomState::new().hash_one(0) >> 4)
    }

    fn seen(&mut self) -> String {
        self.seen.push(Self::new_text());
        self.seen.last().cloned().unwrap()
    }

    fn hidden(&mut self) -> String {
        self.hidden.push(Self::new_text());
        self.hidden.last().cloned().unwrap()
    }
}

/// A node with three pods, and the router of its socket.
struct Place {
    server: ApiServer,
    cri: CriServer,
    router: Router,
    /// The container that asks.
    own: Arc<Container>,
    /// A pod of its namespace, with a name, a Secret and a container of random names.
    other: Other,
    texts: Texts,
    _folder: TempDir,
}

struct Other {
    pod: String,
    secret: String,
    container: String,
}

fn secret(namespace: &str, name: &str, labels: &Value, annotation: &str, data: &[(&str, &str)]) -> Value {
    let data: BTreeMap<_, _> = data.iter().copied().collect();
    json!({
        "kind": "Secret", "apiVersion": "v1",
        "metadata": {"namespace": namespace, "name": name, "labels": labels, "annotations": {"note": annotation}},
        "type": "Opaque", "data": data,
    })
}

fn config_map(namespace: &str, name: &str, annotation: &str, data: &Value) -> Value {
    json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"namespace": namespace, "name": name, "annotations": {"note": annotation}}, "data": data,
    })
}

fn pod([namespace, name, uid]: [&str; 3], text: &str, containers: &Value) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"namespace": namespace, "name": name, "uid": uid, "labels": {"text": text}, "annotations": {"note": text}},
        "spec": {
            "nodeName": "n1", "serviceAccountName": "seller", "containers": containers,
            "volumes": [{"name": "flags", "configMap": {"name": "flags"}}],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.7"},
    })
}

fn env(secret: &str, key: &str) -> Value {
    json!({"name": "A", "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}})
}

impl Place {
    async fn start() -> Self {
        let mut texts = Texts::default();
        let (server, folder) = (ApiServer::start().await.unwrap(), tempfile::tempdir().unwrap());
        let other = Other { pod: texts.hidden(), secret: texts.hidden(), container: texts.hidden() };
        let store = server.store();
        let create = |kind, object: Value| store.create_json(kind, object).unwrap();
        create(
            Stored::Node,
            json!({
                "kind": "Node", "apiVersion": "v1",
                "metadata": {
                    "name": "n1", "annotations": {"note": texts.hidden()},
                    "labels": {"kubernetes.io/hostname": texts.seen(), "team": texts.hidden()},
                },
                "spec": {"providerID": texts.hidden(), "unschedulable": true},
                "status": {"addresses": [{"type": "InternalIP", "address": texts.hidden()}]},
            }),
        );
        for name in ["shop", "bank"] {
            let labels = json!({"text": texts.hidden()});
            let metadata = json!({"name": name, "labels": labels});
            create(Stored::Namespace, json!({"kind": "Namespace", "apiVersion": "v1", "metadata": metadata}));
        }
        let labels = json!({"text": texts.seen()});
        let keys = [("password", &*texts.seen()), ("root", &*texts.hidden())].map(|(key, text)| (key, text.to_owned()));
        let keys = keys.each_ref().map(|(key, text)| (*key, &**text));
        create(Stored::Secret, secret("shop", "db", &labels, &texts.hidden(), &keys));
        for (namespace, name) in [("shop", "side"), ("shop", &*other.secret), ("bank", "db")] {
            let labels = json!({"text": texts.hidden()});
            let object = secret(namespace, name, &labels, &texts.hidden(), &[("password", &texts.hidden())]);
            create(Stored::Secret, object);
        }
        let data = json!({"beta": texts.seen(), "gamma": texts.hidden()});
        create(Stored::ConfigMap, config_map("shop", "flags", &texts.hidden(), &data));
        let data = json!({"beta": texts.hidden(), texts.hidden(): "x"});
        create(Stored::ConfigMap, config_map("bank", "flags", &texts.hidden(), &data));

        let beta = json!([{"name": "flags", "mountPath": "/beta", "subPath": "beta"}]);
        let own = json!([
            {"name": "app", "image": texts.seen(), "env": [env("db", "password")], "volumeMounts": beta},
            {"name": "side", "image": "i", "env": [env("side", "password")]},
        ]);
        create(Stored::Pod, pod(["shop", "web", "uid-web"], &texts.seen(), &own));
        let mounts = json!([{"name": "flags", "mountPath": "/flags"}]);
        let of_other = json!([{
            "name": other.container, "image": texts.hidden(), "env": [env(&other.secret, "password")], "volumeMounts": mounts,
        }]);
        create(Stored::Pod, pod(["shop", &other.pod, "uid-other"], &texts.hidden(), &of_other));
        let of_bank =
            json!([{"name": "app", "image": texts.hidden(), "env": [env("db", "password")], "volumeMounts": mounts}]);
        create(Stored::Pod, pod(["bank", "web", "uid-bank"], &texts.hidden(), &of_bank));

        let cri = CriServer::start(&folder.path().join("cri.sock")).await.unwrap();
        let mut ids = Vec::new();
        for ([namespace, name, uid], containers) in [
            (["shop", "web", "uid-web"], vec![("app", texts.seen()), ("side", texts.seen())]),
            (["shop", &other.pod, "uid-other"], vec![(&*other.container, texts.hidden())]),
            (["bank", "web", "uid-bank"], vec![("app", texts.hidden())]),
        ] {
            let sandbox = cri.containers().run_sandbox(&SandboxSpec::new(namespace, name, uid));
            for (container, image) in containers {
                let id = cri.containers().create_container(&sandbox, container, &image).unwrap();
                cri.containers().start_container(&id).unwrap();
                ids.push(id);
            }
        }
        let kubeconfig = folder.path().join("kubeconfig");
        server.write_kubeconfig(&kubeconfig, &server.add_user(User::admin())).unwrap();
        let mut config = Config::new("n1", Cluster::Kubeconfig { path: kubeconfig, context: None });
        config.runtime = RuntimeEndpoint::At(cri.endpoint());
        let token = CancellationToken::new();
        let node = Node::start(config, token.clone()).await.unwrap();
        node.settled().await;
        let listed = poll_until(LIMIT, async || node.pod_statuses().ok().filter(|all| all.len() == 3));
        listed.await.unwrap_or_else(|error| panic!("{error}"));
        let app =
            App::new(node, crate::access::Policies::open(None).unwrap(), crate::audit::Audit::default(), None, token);
        let own = Arc::new(Container::new(["shop", "web", "uid-web"], "app", &ids[0], 0));
        texts.hidden.extend(ids.split_off(2));
        Self { router: app::local(&app), server, cri, own, other, texts, _folder: folder }
    }

    fn container(&self) -> Caller {
        Caller::Container(Arc::clone(&self.own))
    }

    /// The ID of the other container of the own pod.
    fn own_sidecar(&self) -> String {
        let containers = self.cri.containers();
        let sandboxes = containers.sandboxes();
        let sandbox =
            sandboxes.iter().find(|sandbox| sandbox.metadata.as_ref().is_some_and(|of| of.uid == "uid-web")).unwrap();
        let all = containers.containers_of(&sandbox.id);
        all.into_iter().map(|container| container.id).find(|id| *id != self.own.id).unwrap()
    }

    async fn ask(&self, caller: Caller, target: &str) -> Answer {
        self.send(caller, Request::get(target).body(Body::empty()).unwrap()).await
    }

    async fn send(&self, caller: Caller, mut request: Request<Body>) -> Answer {
        request.extensions_mut().insert(caller);
        let Ok(response) = self.router.clone().oneshot(request).await;
        let (head, body) = response.into_parts();
        let body = tokio::time::timeout(LIMIT, body.collect()).await.unwrap().unwrap().to_bytes();
        let text = String::from_utf8_lossy(&body).into_owned();
        Answer { code: head.status.as_u16(), headers: format!("{:?}", head.headers), text }
    }

    /// The texts that are in an answer and are hidden, but for those that the client gave.
    fn leaks(&self, target: &str, answer: &str) -> Vec<&String> {
        let given: BTreeSet<&String> = self.texts.hidden.iter().filter(|text| target.contains(*text)).collect();
        self.texts.hidden.iter().filter(|text| answer.contains(*text) && !given.contains(text)).collect()
    }

    /// Objects of each pod, and some that do not exist: namespace, kind and name.
    fn objects(&self) -> Vec<String> {
        let Other { pod, secret, .. } = &self.other;
        let mut objects = Vec::new();
        for namespace in ["shop", "bank", "none"] {
            for (kind, name) in [
                ("pods", "web"),
                ("pods", pod),
                ("pods", "none"),
                ("secrets", "db"),
                ("secrets", "side"),
                ("secrets", secret),
                ("secrets", "db?pod=web"),
                ("secrets", &format!("db?pod={pod}")),
                ("secrets", &format!("{secret}?pod={pod}")),
                ("configmaps", "flags"),
                ("configmaps", "flags?resourceVersion=1"),
            ] {
                objects.push(format!("/{namespace}/{kind}/{name}"));
            }
        }
        objects
    }

    /// What to ask on each route.
    fn targets(&self) -> BTreeMap<&'static str, Vec<String>> {
        let (pod, objects) = (&self.other.pod, self.objects());
        let kinds = ["pods", "secrets", "configmaps", "nodes", "namespaces"];
        let all = |path: &str| kinds.iter().map(|kind| path.replace("KIND", kind)).collect::<Vec<_>>();
        let own = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let below = |path: &str| objects.iter().map(|object| format!("{path}{object}")).collect::<Vec<_>>();
        let entries = objects.iter().filter(|object| !object.contains("?pod=") && !object.contains("resourceVersion"));
        let entries = entries.map(|object| {
            let mut parts = object.split('/').skip(1);
            let [namespace, kind, name] = [(); 3].map(|()| parts.next().unwrap());
            format!("/larder/v1/objects/{kind}/{namespace}/{name}")
        });
        let statuses =
            ["uid-web", "uid-other", "uid-bank", "uid-none"].map(|uid| format!("/larder/v1/pods/{uid}/status"));
        let waits = statuses.clone().map(|path| format!("{path}?changedAfter=2100-01-01T00:00:00Z&timeout=10ms"));
        let newer = statuses.clone().map(|path| format!("{path}?newerThan=2100-01-01T00:00:00Z&timeout=10ms"));
        let named = ["shop", "bank"].map(|namespace| {
            ["web", pod, "none"].map(|name| format!("/larder/v1/namespaces/{namespace}/pods/{name}/status"))
        });
        let hidden_label = format!("/api/v1/nodes?labelSelector=team%3D{}", self.texts.hidden[0]);
        BTreeMap::from([
            ("/api", own(&["/api"])),
            ("/apis", own(&["/apis"])),
            ("/apis/{group}", own(&["/apis/authorization.k8s.io"])),
            ("/apis/{group}/{version}", own(&["/apis/authorization.k8s.io/v1"])),
            (
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                own(&["/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"]),
            ),
            (
                "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
                own(&["/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"]),
            ),
            (
                "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                own(&["/apis/authentication.k8s.io/v1/selfsubjectreviews"]),
            ),
            ("/version", own(&["/version"])),
            ("/openapi/v3", own(&["/openapi/v3"])),
            ("/openapi/v3/{*path}", own(&["/openapi/v3/api/v1"])),
            ("/api/v1", own(&["/api/v1"])),
            ("/api/v1/{kind}", {
                let mut targets = all("/api/v1/KIND");
                targets.extend(all("/api/v1/KIND?fieldSelector=metadata.name%3Dweb"));
                targets.extend(all("/api/v1/KIND?partial=true"));
                targets.push(hidden_label);
                targets.push("/api/v1/events?fieldSelector=involvedObject.uid%3Duid-other".to_owned());
                targets
            }),
            ("/api/v1/nodes/{name}", own(&["/api/v1/nodes/n1", "/api/v1/nodes/n2"])),
            ("/api/v1/nodes/{name}/status", own(&["/api/v1/nodes/n1/status"])),
            ("/api/v1/namespaces/{namespace}", own(&["/api/v1/namespaces/shop", "/api/v1/namespaces/bank"])),
            ("/api/v1/namespaces/{namespace}/status", own(&["/api/v1/namespaces/shop/status"])),
            ("/api/v1/namespaces/{namespace}/{kind}", {
                let mut targets = all("/api/v1/namespaces/shop/KIND");
                targets.extend(all("/api/v1/namespaces/bank/KIND"));
                targets
            }),
            ("/api/v1/namespaces/{namespace}/{kind}/{name}", below("/api/v1/namespaces")),
            ("/api/v1/namespaces/{namespace}/pods/{name}/status", {
                own(&["/api/v1/namespaces/shop/pods/web/status", "/api/v1/namespaces/bank/pods/web/status"])
            }),
            ("/pods", own(&["/pods"])),
            ("/larder/v1/status", own(&["/larder/v1/status", "/larder/v1/status?objects"])),
            ("/larder/v1/objects/{kind}", {
                own(&[
                    "/larder/v1/objects/secrets",
                    "/larder/v1/objects/configmaps",
                    "/larder/v1/objects/secrets?namespace=bank",
                ])
            }),
            ("/larder/v1/objects/{kind}/{namespace}/{name}", entries.collect()),
            ("/larder/v1/pods", own(&["/larder/v1/pods", "/larder/v1/pods?namespace=bank"])),
            (
                "/larder/v1/events",
                own(&["/larder/v1/events", "/larder/v1/events?sync", "/larder/v1/events?namespace=bank"]),
            ),
            ("/larder/v1/pods/{uid}/status", statuses.into_iter().chain(waits).chain(newer).collect()),
            ("/larder/v1/namespaces/{namespace}/pods/{name}/status", named.into_iter().flatten().collect()),
            (
                "/larder/v1/whois",
                own(&["/larder/v1/whois?pid=1&timeout=0s", "/larder/v1/whois?cgroup=/kubepods&timeout=0s"]),
            ),
            ("/livez", own(&["/livez?verbose"])),
            ("/readyz", own(&["/readyz?verbose"])),
            ("/metrics", own(&["/metrics"])),
        ])
    }
}

#[derive(Debug)]
struct Answer {
    code: u16,
    headers: String,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The routes of the socket, as the sources have them.
fn routes() -> BTreeSet<&'static str> {
    let (app, kube_api) = (include_str!("../app.rs"), include_str!("../kube_api.rs"));
    let local = app.split_once("pub(crate) fn local").unwrap().1.split_once("pub(crate) fn open").unwrap().0;
    let quoted = |text: &'static str| text.split(".route(\"").skip(1).map(|rest| rest.split_once('"').unwrap().0);
    quoted(local).chain(quoted(kube_api)).collect()
}

fn request(target: &str, accept: &str) -> Request<Body> {
    let review = r#"{"spec":{"resourceAttributes":{"verb":"list","resource":"pods"}}}"#;
    let (method, body) = if target.contains("/selfsubject") { ("POST", review) } else { ("GET", "") };
    Request::builder().method(method).uri(target).header("accept", accept).body(Body::from(body)).unwrap()
}

const REPRESENTATIONS: [&str; 3] = [
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
];

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_on_any_route_has_what_a_container_may_not_see() {
    let place = Place::start().await;
    let targets = place.targets();
    assert_eq!(targets.keys().copied().collect::<BTreeSet<_>>(), routes(), "each route is asked");
    let mut got = String::new();
    let mut root_got = String::new();
    for target in targets.values().flatten() {
        for accept in REPRESENTATIONS {
            let mut targets = vec![target.clone()];
            if !["/larder/", "/livez", "/readyz", "/metrics", "/pods"].iter().any(|own| target.starts_with(own)) {
                targets.push(format!("/node{target}"));
            }
            if target.starts_with("/api/") {
                targets.push(format!("{target}{}includeObject=Object", if target.contains('?') { '&' } else { '?' }));
            }
            for target in &targets {
                let answer = place.send(place.container(), request(target, accept)).await;
                let whole = format!("{}\n{}", answer.headers, answer.text);
                let leaks = place.leaks(target, &whole);
                assert!(leaks.is_empty(), "{target} as {accept}: {leaks:?} in {} {}", answer.code, answer.text);
                got.push_str(&whole);
                root_got.push_str(&place.send(root(), request(target, accept)).await.text);
            }
        }
    }
    // What may be seen is, and what may not is there to be seen.
    for text in &place.texts.seen {
        assert!(got.contains(text), "a container sees {text}");
    }
    for text in &place.texts.hidden {
        assert!(root_got.contains(text), "root sees {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_gets_its_own_pod_and_the_keys_that_it_refers_to() {
    let place = Place::start().await;
    let get = async |target: &str| place.ask(place.container(), target).await;
    let pod = get("/api/v1/namespaces/shop/pods/web").await;
    assert_eq!(pod.text, place.ask(root(), "/api/v1/namespaces/shop/pods/web").await.text, "byte by byte");
    let secret = get("/api/v1/namespaces/shop/secrets/db").await.json();
    assert_eq!(secret["data"].as_object().unwrap().keys().collect::<Vec<_>>(), ["password"]);
    assert_eq!((&secret["type"], &secret["metadata"]["annotations"]), (&json!("Opaque"), &Value::Null));
    let list = get("/api/v1/secrets").await.json();
    assert_eq!(list["items"], json!([secret]));
    let flags = get("/api/v1/namespaces/shop/configmaps/flags").await.json();
    assert_eq!(flags["data"].as_object().unwrap().keys().collect::<Vec<_>>(), ["beta"]);
    let node = get("/api/v1/nodes").await.json();
    assert_eq!(node["items"][0]["metadata"]["labels"].as_object().unwrap().len(), 1, "{node}");
    let entries = get("/larder/v1/objects/secrets").await.json();
    assert_eq!((&entries["items"][0]["name"], &entries["items"][0]["object"]["data"]), (&json!("db"), &json!(1)));
    assert_eq!(entries["items"].as_array().unwrap().len(), 1, "{entries}");
    // The pod as its node knows it.
    let shown = get("/node/api/v1/namespaces/shop/pods/web").await.json();
    assert_eq!((&shown["metadata"]["uid"], &shown["status"]["phase"]), (&json!("uid-web"), &json!("Running")));
    for path in ["/pods", "/node/api/v1/pods"] {
        let list = get(path).await.json();
        assert_eq!((&list["items"][0]["status"], &list["items"][1]), (&shown["status"], &Value::Null), "{path}");
        assert_eq!(place.ask(root(), path).await.json()["items"].as_array().unwrap().len(), 3, "{path}");
    }
    assert_eq!(get("/node/api/v1/namespaces/bank/pods/web").await.code, 403);
    let statuses = get("/larder/v1/pods").await.json();
    assert_eq!((&statuses["items"][0]["uid"], &statuses["items"][1]), (&json!("uid-web"), &Value::Null));
    for path in ["/larder/v1/pods/uid-web/status", "/larder/v1/namespaces/shop/pods/web/status"] {
        assert_eq!(get(path).await.json()["uid"], "uid-web");
    }
    let events = get("/larder/v1/events").await.text;
    assert!(events.contains("uid-web") && !events.contains("uid-other"), "{events}");
}

#[tokio::test(flavor = "multi_thread")]
async fn selectors_see_what_the_container_sees() {
    let place = Place::start().await;
    let count = async |caller: Caller, target: &str| {
        let list = place.ask(caller, target).await.json();
        list["items"].as_array().unwrap_or_else(|| panic!("{list}")).len()
    };
    let node: v1::Node = place.server.store().get("", "n1").unwrap();
    let labels = node.metadata.labels.unwrap();
    let team = format!("/api/v1/nodes?labelSelector=team%3D{}", labels["team"]);
    let hostname = format!("/api/v1/nodes?labelSelector=kubernetes.io/hostname%3D{}", labels["kubernetes.io/hostname"]);
    for (target, of_root, of_container) in [
        (&*team, 1, 0),
        (&*hostname, 1, 1),
        ("/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue", 1, 0),
        ("/api/v1/secrets?fieldSelector=type%3DOpaque", 4, 1),
        ("/api/v1/pods?fieldSelector=status.phase%3DRunning", 3, 1),
        ("/api/v1/pods?fieldSelector=metadata.name%3Dnone", 0, 0),
    ] {
        assert_eq!(
            (count(root(), target).await, count(place.container(), target).await),
            (of_root, of_container),
            "{target}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_nothing_of_whether_the_object_exists() {
    let place = Place::start().await;
    let Other { pod, secret, .. } = &place.other;
    let refusal = async |target: &str, name: &str| {
        let answer = place.ask(place.container(), target).await;
        assert_eq!(answer.code, 403, "{target}: {answer:?}");
        answer.text.replace(name, "NAME")
    };
    for (path, there) in [
        ("/api/v1/namespaces/shop/secrets/", &**secret),
        ("/api/v1/namespaces/shop/secrets/", "side"),
        ("/api/v1/namespaces/bank/secrets/", "db"),
        ("/api/v1/namespaces/bank/configmaps/", "flags"),
        ("/api/v1/namespaces/shop/pods/", pod),
        ("/api/v1/namespaces/", "bank"),
        ("/larder/v1/objects/secrets/shop/", secret),
        ("/larder/v1/namespaces/shop/pods/", &format!("{pod}/status")),
        ("/larder/v1/pods/", "uid-other/status"),
    ] {
        let name = there.trim_end_matches("/status");
        let missing = there.replace(name, "missing");
        let of_there = refusal(&format!("{path}{there}"), name).await;
        assert_eq!(of_there, refusal(&format!("{path}{missing}"), "missing").await, "{path}");
        assert!(of_there.contains(r#"container \"app\" of pod \"shop/web\" may not get"#), "{of_there}");
    }
    for target in [
        "/api/v1/namespaces",
        "/api/v1/namespaces?watch=1",
        "/api/v1/namespaces/bank/pods",
        "/api/v1/namespaces/bank/secrets?watch=1",
        "/larder/v1/objects/secrets?namespace=bank",
        "/larder/v1/status",
        "/metrics",
        "/larder/v1/whois?pid=1",
    ] {
        refusal(target, "").await;
    }
    // With a pod's name, what is read is for that pod.
    refusal(&format!("/api/v1/namespaces/shop/secrets/db?pod={pod}"), "").await;
    assert_eq!(place.ask(place.container(), "/api/v1/namespaces/shop/secrets/db?pod=web").await.code, 200);
}

/// What a stream has sent so far.
fn follow(place: &Place, caller: Caller, target: &str) -> Arc<Mutex<String>> {
    let (router, got) = (place.router.clone(), Arc::new(Mutex::new(String::new())));
    let mut request = Request::get(target).body(Body::empty()).unwrap();
    request.extensions_mut().insert(caller);
    let out = Arc::clone(&got);
    tokio::spawn(async move {
        let Ok(response) = router.oneshot(request).await;
        assert_eq!(response.status(), 200);
        let mut body = response.into_body();
        while let Some(Ok(frame)) = body.frame().await {
            let data = frame.into_data().unwrap_or_default();
            out.lock().push_str(&String::from_utf8_lossy(&data));
        }
    });
    got
}

async fn until_has(got: &Mutex<String>, text: &str) {
    let has = poll_until(LIMIT, async || got.lock().contains(text).then_some(())).await;
    has.unwrap_or_else(|error| panic!("{text}: {error}: {}", got.lock()));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_watch_has_what_a_container_may_not_see() {
    let mut place = Place::start().await;
    let mut watches = Vec::new();
    for kind in ["pods", "secrets", "configmaps", "nodes"] {
        let more = [
            "",
            "&includeObject=Object",
            "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
        ];
        for parameters in more {
            let target = format!("/api/v1/{kind}?watch=1{parameters}");
            watches.push((kind, follow(&place, place.container(), &target), follow(&place, root(), &target)));
        }
    }
    let events = follow(&place, place.container(), "/larder/v1/events?watch");
    let events_of_root = follow(&place, root(), "/larder/v1/events?watch");
    for (_, _, of_root) in &watches {
        until_has(of_root, "ADDED").await;
    }
    // What is not the container's changes first, then what is.
    let store = place.server.store();
    let (hidden, last) = (Texts::new_text(), Texts::new_text());
    for (text, names) in [
        (&hidden, [("bank", "web"), ("bank", "db"), ("bank", "flags")]),
        (&last, [("shop", "web"), ("shop", "db"), ("shop", "flags")]),
    ] {
        type Labels = Option<BTreeMap<String, String>>;
        let label = |labels: &mut Labels, name: &str| {
            labels.get_or_insert_default().insert(name.to_owned(), text.clone());
        };
        let [(namespace, web), (_, db), (_, flags)] = names;
        store.modify::<v1::Pod>(namespace, web, |pod| label(&mut pod.metadata.labels, "changed")).unwrap();
        store.modify::<v1::Secret>(namespace, db, |secret| label(&mut secret.metadata.labels, "changed")).unwrap();
        store.modify::<v1::ConfigMap>(namespace, flags, |map| label(&mut map.metadata.labels, "changed")).unwrap();
        let of_node = if *text == hidden { "team" } else { "kubernetes.io/zone" };
        let of_node = of_node.replace("kubernetes.io/zone", "topology.kubernetes.io/zone");
        store.modify::<v1::Node>("", "n1", |node| label(&mut node.metadata.labels, &of_node)).unwrap();
    }
    for id in place.texts.hidden.iter().rev().take(2) {
        place.cri.containers().exit_container(id, 3).unwrap();
    }
    place.cri.containers().exit_container(&place.own_sidecar(), 4).unwrap();
    place.texts.hidden.push(hidden.clone());
    for (kind, of_container, of_root) in &watches {
        until_has(of_root, &hidden).await;
        until_has(of_root, &last).await;
        until_has(of_container, &last).await;
        let got = of_container.lock();
        let leaks = place.leaks("", &got);
        assert!(leaks.is_empty(), "a watch of {kind}: {leaks:?} in {got}");
        assert!(got.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{got}");
    }
    until_has(&events_of_root, "\"exitCode\":3").await;
    until_has(&events, "\"exitCode\":4").await;
    let got = events.lock();
    assert!(place.leaks("", &got).is_empty() && !got.contains("\"exitCode\":3"), "{got}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_goes_on_where_the_list_of_a_container_ended() {
    let place = Place::start().await;
    let list = place.ask(place.container(), "/api/v1/secrets").await.json();
    let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let text = Texts::new_text();
    for (namespace, name) in [("bank", "db"), ("shop", "db")] {
        let label = |secret: &mut v1::Secret| {
            secret.metadata.labels.get_or_insert_default().insert("changed".to_owned(), text.clone());
        };
        place.server.store().modify::<v1::Secret>(namespace, name, label).unwrap();
    }
    let target = format!("/api/v1/secrets?watch=1&resourceVersion={version}&labelSelector=changed");
    let watch = follow(&place, place.container(), &target);
    until_has(&watch, &text).await;
    let got: Value = serde_json::from_str(watch.lock().lines().next().unwrap()).unwrap();
    // It begins to match the selector.
    assert_eq!((&got["type"], &got["object"]["metadata"]["namespace"]), (&json!("ADDED"), &json!("shop")), "{got}");
    assert_eq!(got["object"]["data"].as_object().unwrap().len(), 1, "{got}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_has_ended_and_a_pod_that_has_gone_see_nothing() {
    let place = Place::start().await;
    let target = "/api/v1/namespaces/shop/secrets/db";
    assert_eq!(place.ask(place.container(), target).await.code, 200);
    let refused = async |caller: Caller, why: &str| {
        let refused = poll_until(LIMIT, async || {
            let answer = place.ask(caller.clone(), target).await;
            (answer.code == 403 && answer.text.contains(why)).then_some(())
        });
        refused.await.unwrap_or_else(|error| panic!("{why}: {error}"));
    };
    let side = Caller::Container(Arc::new(Container::new(["shop", "web", "uid-web"], "side", &place.own_sidecar(), 0)));
    place.cri.containers().exit_container(&place.own.id, 0).unwrap();
    refused(place.container(), "may not read from larder any more: it has ended").await;
    // Its neighbour goes on, until the pod goes from the API server. The pod's successor of the same name has another UID.
    assert_eq!(place.ask(side.clone(), "/api/v1/namespaces/shop/pods/web").await.code, 200);
    place.server.store().delete(Stored::Pod, "shop", "web").unwrap();
    let successor =
        pod(["shop", "web", "uid-next"], "next", &json!([{"name": "side", "image": "i", "env": [env("db", "root")]}]));
    place.server.store().create_json(Stored::Pod, successor).unwrap();
    refused(side, "its pod is not among the pods of this node").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_review_answers_by_the_view_of_the_container() {
    let place = Place::start().await;
    let review = async |kind: &str, spec: Value| {
        let group = if kind == "selfsubjectreviews" { "authentication" } else { "authorization" };
        let request = Request::post(format!("/apis/{group}.k8s.io/v1/{kind}"))
            .body(Body::from(json!({"spec": spec}).to_string()));
        let answer = place.send(place.container(), request.unwrap()).await;
        assert_eq!(answer.code, 201, "{answer:?}");
        answer.json()["status"].clone()
    };
    for (attributes, allowed, reason) in [
        (json!({"verb": "get", "resource": "pods", "namespace": "shop", "name": "web"}), true, "its own pod"),
        (json!({"verb": "get", "resource": "pods", "namespace": "bank", "name": "web"}), false, "a container sees"),
        (
            json!({"verb": "watch", "resource": "secrets", "namespace": "shop", "name": "db"}),
            true,
            "the keys that it mounts",
        ),
        (json!({"verb": "get", "resource": "secrets", "namespace": "shop", "name": "side"}), false, "a container sees"),
        (json!({"verb": "get", "resource": "secrets", "namespace": "shop"}), false, "a container sees"),
        (json!({"verb": "list", "resource": "secrets", "namespace": "shop"}), true, "the keys that it mounts"),
        (json!({"verb": "list", "resource": "secrets"}), true, "the keys that it mounts"),
        (json!({"verb": "list", "resource": "namespaces"}), false, "a container sees"),
        (json!({"verb": "get", "resource": "nodes", "name": "n1"}), true, "labels of its node"),
        (json!({"verb": "create", "resource": "pods"}), false, "larder serves get, list and watch"),
    ] {
        let status = review("selfsubjectaccessreviews", json!({"resourceAttributes": attributes})).await;
        assert_eq!(status["allowed"], allowed, "{attributes}: {status}");
        assert!(status["reason"].as_str().unwrap().contains(reason), "{attributes}: {status}");
    }
    for (path, allowed) in [
        ("/metrics", false),
        ("/metrics/", false),
        ("/metrics*", false),
        ("*", false),
        ("/larder/v1/status/", false),
        ("/larder/v1/pods", true),
        ("/apis/apps", true),
        ("/version", true),
    ] {
        let asked = json!({"nonResourceAttributes": {"verb": "get", "path": path}});
        assert_eq!(review("selfsubjectaccessreviews", asked).await["allowed"], allowed, "{path}");
    }
    let rules = review("selfsubjectrulesreviews", json!({"namespace": "shop"})).await;
    let named = |resource: &str| {
        let rules = rules["resourceRules"].as_array().unwrap();
        rules.iter().find(|rule| rule["resources"] == json!([resource])).map(|rule| rule["resourceNames"].clone())
    };
    assert_eq!(named("secrets"), Some(json!(["db"])), "{rules}");
    assert_eq!((named("pods"), named("nodes")), (Some(json!(["web"])), Some(json!(["n1"]))));
    let elsewhere = review("selfsubjectrulesreviews", json!({"namespace": "bank"})).await;
    assert_eq!(elsewhere["resourceRules"].as_array().unwrap().len(), 2, "{elsewhere}");
    let user = review("selfsubjectreviews", json!({})).await["userInfo"].clone();
    assert_eq!(user["username"], "system:serviceaccount:shop:seller");
    assert_eq!(user["extra"]["authentication.kubernetes.io/pod-uid"], json!(["uid-web"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_are_counted_without_a_name() {
    let place = Place::start().await;
    for (caller, target) in [
        (place.container(), "/api/v1/namespaces/shop/secrets/db"),
        (place.container(), "/api/v1/namespaces/bank/secrets/db"),
        (Caller::Host { uid: 4711, gids: [].into(), is_admin: false }, "/api/v1/pods"),
        (Caller::Unresolved { uid: 0, why: "it is in another PID namespace".into() }, "/api/v1/pods"),
        (root(), "/api/v1/pods"),
    ] {
        place.ask(caller, target).await;
    }
    let metrics = place.ask(root(), "/metrics").await.text;
    for (subject, rule, allowed) in [
        ("pod", "reference", true),
        ("pod", "none", false),
        ("host", "none", false),
        ("unresolved", "none", false),
        ("host", "admin", true),
    ] {
        let line =
            format!("larder_access_decisions_total{{subject=\"{subject}\",rule=\"{rule}\",allowed=\"{allowed}\"}}");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
}
