//! Unusual requests, valid and invalid, are answered as the API server answers them, but for the differences that are listed here.

use crate::cluster::{Cluster, NAMESPACE};
use crate::daemon::Daemon;
use crate::forward::Forward;
use futures_util::{StreamExt as _, stream};
use http::header::{ACCEPT, CONTENT_TYPE};
use http_body_util::BodyExt as _;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client, Config};
use larder_testbed::poll::until;
use larder_testbed::{Options, Testbed};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

const LIMIT: Duration = Duration::from_mins(1);

const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const OLD_TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1beta1";
const OLD_TABLE_OR_JSON: &str = "application/json;as=Table;g=meta.k8s.io;v=v1beta1,application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const OLD_METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const OLD_METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const YAML: &str = "application/yaml";
const YAML_OR_JSON: &str = "application/yaml,application/json";

/// A watch that ends soon.
const WATCH: &str = "pods?watch=1&timeoutSeconds=1";

/// The parameters of lists of pods.
const LISTS: &[&str] = &[
    "",
    "resourceVersion=",
    "resourceVersion=0",
    "resourceVersion=00",
    "resourceVersion=1",
    "resourceVersion=%2B1",
    "resourceVersion=-1",
    "resourceVersion=x",
    "resourceVersion=18446744073709551616",
    "resourceVersion=1000000000",
    "resourceVersion=0&resourceVersion=x",
    "ResourceVersion=x",
    "resourceVersionMatch=",
    "resourceVersionMatch=NotOlderThan",
    "resourceVersionMatch=Exact",
    "resourceVersionMatch=x",
    "resourceVersion=0&resourceVersionMatch=NotOlderThan",
    "resourceVersion=0&resourceVersionMatch=Exact",
    "resourceVersion=1&resourceVersionMatch=NotOlderThan",
    "resourceVersion=1&resourceVersionMatch=exact",
    "resourceVersion=x&resourceVersionMatch=Exact",
    "resourceVersion=-1&resourceVersionMatch=NotOlderThan",
    "resourceVersion=1000000000&resourceVersionMatch=NotOlderThan",
    "resourceVersion=1000000000&resourceVersionMatch=Exact",
    "limit=",
    "limit=0",
    "limit=-1",
    "limit=500",
    "limit=x",
    "limit=1.5",
    "limit=9223372036854775808",
    "continue=",
    "continue=abc",
    "continue=%25",
    "continue=abc&limit=1",
    "continue=abc&resourceVersion=1",
    "continue=abc&resourceVersion=0&resourceVersionMatch=NotOlderThan",
    "timeoutSeconds=",
    "timeoutSeconds=-1",
    "timeoutSeconds=x",
    "timeoutSeconds=99999999999999999999",
    "watch=0",
    "watch=False",
    "sendInitialEvents=",
    "sendInitialEvents=true",
    "sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
    "allowWatchBookmarks=true",
    "pretty=x",
    "nonsense=x",
    "includeObject=x",
];

/// The parameters of watches of pods, beside those of [`WATCH`].
const WATCHES: &[&str] = &[
    "",
    "resourceVersion=0",
    "resourceVersion=00",
    "resourceVersion=1000000000",
    "resourceVersionMatch=",
    "resourceVersionMatch=NotOlderThan",
    "sendInitialEvents=",
    "sendInitialEvents=true",
    "sendInitialEvents=false",
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=0",
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=1",
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=abc",
    "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1",
    "sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
    "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0",
    "sendInitialEvents=x&resourceVersionMatch=NotOlderThan",
    "limit=1",
    "limit=x",
    "labelSelector=app%3Dweb",
    "labelSelector=a%20in%20(b",
    "fieldSelector=metadata.name%3Dweb",
    "fieldSelector=nonsense%3Dx",
];

/// Label selectors of lists of pods.
const LABELS: &[&str] = &[
    "app=web",
    "app==web",
    " app = web ",
    "app!=web",
    "app",
    "!app",
    "! app",
    "app in (web,worker)",
    "app notin (web)",
    "app in (web",
    "app in (web))",
    "app in ()",
    "app in (,)",
    "app in web",
    "app=",
    "app=web,",
    "app=web,,app",
    ",",
    "tier>-1",
    "tier>1",
    "tier>x",
    "app<1",
    "=web",
    "app=a=b",
    "app=a b",
    "a b",
    "app=-web",
    "/app",
    "app/=web",
    "x/y/app=web",
    "example.com/app!=web",
    "Example.com/app=web",
    "app=wéb",
    "in",
    "in in (web)",
    "notin notin (in)",
    "(app)",
    "!app=web",
    "app!web",
    "app=!web",
    "app exists",
    "app=web\n",
    "app=0123456789012345678901234567890123456789012345678901234567890123",
    "k0123456789012345678901234567890123456789012345678901234567890123",
];

/// Field selectors of lists of each kind.
const FIELDS: &[(&str, &[&str])] = &[
    (
        "pods",
        &[
            "metadata.name=web",
            "metadata.name==web",
            "metadata.name!=web",
            " metadata.name = web ",
            "metadata.name",
            "metadata.name=",
            "metadata.name=web,",
            ",",
            "metadata.name=web,,metadata.namespace=shop",
            "metadata.name=web,metadata.name=worker",
            "metadata.name in (web)",
            "metadata.uid=x",
            "nonsense=x",
            "=web",
            "metadata.name=a=b",
            "metadata.name=a\\,b",
            "metadata.name=a\\b",
            "metadata.name=a\\",
            "metadata.name=Bad Name/",
            "metadata.namespace=other",
            "metadata.namespace!=other",
            "spec.nodeName=testbed",
            "spec.hostNetwork=true",
            "spec.hostNetwork=TRUE",
            "spec.restartPolicy=Never",
            "spec.schedulerName=default-scheduler",
            "spec.serviceAccountName=",
            "spec.containers=x",
            "status.phase=Pending",
            "status.phase=pending",
            "status.podIP=",
            "status.podIPs=",
            "status.nominatedNodeName=",
            "type=Opaque",
        ],
    ),
    ("secrets", &["metadata.name=web", "type=Opaque", "type=opaque", "data=x", "immutable=true", "status.phase=x"]),
    ("configmaps", &["metadata.namespace=shop", "type=Opaque", "data=x", "immutable=true"]),
    ("/nodes", &["metadata.name=web", "metadata.namespace=x", "spec.unschedulable=false", "spec.unschedulable=no"]),
    ("/nodes", &["status.phase=x", "spec.podCIDR=x"]),
    ("/namespaces", &["metadata.name=shop", "metadata.name=shop,status.phase=Active", "metadata.name=shop,type=x"]),
    ("/namespaces", &["metadata.name=shop,name=shop", "metadata.name=shop,metadata.namespace=x"]),
];

/// Reads of one object, and of what does not exist.
const READS: &[&str] = &[
    "pods/web?resourceVersion=",
    "pods/web?resourceVersion=0",
    "pods/web?resourceVersion=00",
    "pods/web?resourceVersion=1",
    "pods/web?resourceVersion=1000000000",
    "pods/web?resourceVersionMatch=x",
    "pods/web?labelSelector=a%20in%20(b",
    "pods/web?fieldSelector=x",
    "pods/web?limit=x",
    "pods/web?continue=abc",
    "pods/web?timeoutSeconds=x",
    "pods/web?watch=1&timeoutSeconds=1",
    "pods/web/",
    "pods/web/status",
    "pods/web/status/x",
    "pods/web/nonsense",
    "pods/nosuch",
    "pods/Bad_Name",
    "pods/",
    "secrets/web/status",
    "configmaps/web/status",
    "nonsense",
    "/nodes/testbed/status",
    "/namespaces/shop/status",
    "/namespaces/nosuch/pods",
    "/namespaces/Bad_Name/pods",
    "/nonsense",
    "/pods",
    "/pods/web",
];

/// Each is accepted for a list, one object and a watch.
const ACCEPTED: &[&str] = &[
    TABLE,
    METADATA,
    "application/json;as=Table;g=meta.k8s.io;v=v2",
    "application/json;as=Table;g=x;v=v1",
    "application/json;as=Table;g=meta.k8s.io",
    "application/json;as=Table;v=v1",
    "application/json;as=table;g=meta.k8s.io;v=v1",
    "application/json;as=Nonsense;g=meta.k8s.io;v=v1",
    "application/json;as=Nonsense;g=meta.k8s.io;v=v1,application/json",
    "application/json;as=Table;g=meta.k8s.io;v=v1,application/json",
    "application/json;as=Table;g=meta.k8s.io;v=v1;q=0.5,application/json",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
    "application/yaml;q=0.5,application/json;q=0.9",
    "application/json;stream=watch",
    "application/json;charset=utf-8",
    "application/json;pretty=1",
    "application/json;q=2",
    "application/cbor",
    "application/cbor,application/json",
    "text/html",
    "text/html,application/json;q=0.1",
    "text/html,*/*;q=0.1",
    "*/*",
    "text/*",
    "*",
    "garbage",
    "",
];

/// What tables have of the objects, for a list, one object and a watch.
const INCLUDED: &[&str] = &["None", "Metadata", "Object", "none", "x", ""];

/// Requests that go with no other table.
const OTHERS: &[(&str, &str)] = &[
    ("pods", METADATA_LIST),
    ("pods/web", METADATA_LIST),
    ("pods?labelSelector=%2C", TABLE),
    ("pods/nosuch", TABLE),
    ("pods/nosuch", "text/html"),
    ("nonsense", "text/html"),
];

/// Requests that larder means to answer differently, and why.
const DIFFERENT: &[(&str, &[(&str, &str)])] = &[
    (
        "larder holds one version, in one page",
        &[
            ("pods?resourceVersion=1&resourceVersionMatch=Exact", JSON),
            ("pods?limit=1", JSON),
            ("pods?limit=%2B1", JSON),
        ],
    ),
    (
        "the client's mistake is a 400; the API server gives a list 400, but one object and a watch 500",
        &[
            ("pods/web?resourceVersion=x", JSON),
            ("pods/web?resourceVersion=-1", JSON),
            ("pods/web?resourceVersion=%2B1", JSON),
            ("pods/web/status?resourceVersion=x", JSON),
            ("pods/nosuch?resourceVersion=x", JSON),
            ("secrets/web?resourceVersion=x", JSON),
            ("/nodes/testbed?resourceVersion=x", JSON),
            ("/namespaces/shop?resourceVersion=-1", JSON),
            ("pods?watch=1&timeoutSeconds=1&resourceVersion=x", JSON),
            ("pods?watch=1&timeoutSeconds=1&resourceVersion=x", TABLE),
            ("pods?watch=1&timeoutSeconds=1&resourceVersion=-1", JSON),
            ("pods?watch=1&timeoutSeconds=1&resourceVersion=%2B1", JSON),
        ],
    ),
    (
        "the API server ignores a parameter that it cannot decode; larder refuses it",
        &[
            ("pods?resourceVersion=%zz", JSON),
            ("pods?labelSelector=%zz", JSON),
            ("pods?resourceVersion=0;limit=x", JSON),
            // To the API server, the selector ends there.
            ("pods?labelSelector=app%3D%00", JSON),
        ],
    ),
    (
        "the API server adds parameters to a watch from the start, which it then refuses together with continue",
        &[("pods?watch=1&timeoutSeconds=1&continue=abc", JSON)],
    ),
    (
        "the time of the watch has passed, which is no failure of the server",
        &[("pods?watch=1&timeoutSeconds=-1", JSON)],
    ),
    (
        "paths are served as they are written, and not the deprecated ones",
        &[
            ("pods/web%2Fstatus", JSON),
            ("/namespaces//pods", JSON),
            ("/watch/namespaces/shop/pods?timeoutSeconds=1", JSON),
            ("/watch/namespaces/shop/pods/web?timeoutSeconds=1", JSON),
        ],
    ),
    (
        "larder offers v1 of meta.k8s.io alone, which is enough for the clients of supported releases",
        &[
            ("pods", OLD_TABLE),
            ("pods/web", OLD_TABLE),
            (WATCH, OLD_TABLE),
            ("pods", OLD_TABLE_OR_JSON),
            ("pods/web", OLD_TABLE_OR_JSON),
            (WATCH, OLD_TABLE_OR_JSON),
            ("pods/web", OLD_METADATA),
            (WATCH, OLD_METADATA),
            ("pods", OLD_METADATA_LIST),
        ],
    ),
    ("each event has the metadata of one object; the API server sends no events", &[(WATCH, METADATA_LIST)]),
    (
        "objects and errors are JSON",
        &[
            ("pods", PROTOBUF),
            ("pods/web", PROTOBUF),
            (WATCH, PROTOBUF),
            ("pods", "application/vnd.kubernetes.protobuf,application/json"),
            ("pods", YAML),
            ("pods/web", YAML),
            (WATCH, YAML),
            ("pods", YAML_OR_JSON),
            ("pods/web", YAML_OR_JSON),
            (WATCH, YAML_OR_JSON),
            ("pods", "application/json;q=0.5,application/yaml"),
            ("pods?labelSelector=%2C", YAML),
            ("pods/nosuch", YAML),
            ("nonsense", YAML),
        ],
    ),
    (
        "larder reads Accept as HTTP defines it: ranges, case, a weight of 0, and an empty list",
        &[
            ("pods", "application/*"),
            ("pods/web", "application/*"),
            (WATCH, "application/*"),
            ("pods", "APPLICATION/JSON"),
            ("pods", "application/json;q=0"),
            ("pods", "application/json;q=x"),
            ("pods", ","),
        ],
    ),
    ("an empty kind is none that larder has", &[("pods", "application/json;as=")]),
    ("of two mistakes, larder names that of the parameters", &[("pods?labelSelector=%2C", "text/html")]),
];

/// All that both answer alike: the target and what is accepted.
fn same() -> Vec<(String, &'static str)> {
    // Every byte escaped, so that the tables have the selectors as they are meant.
    let escape = |text: &str| {
        text.bytes().fold(String::new(), |mut escaped, byte| {
            write!(escaped, "%{byte:02X}").unwrap();
            escaped
        })
    };
    let lists = LISTS.iter().map(|query| format!("pods?{query}"));
    let watches = WATCHES.iter().map(|query| format!("{WATCH}&{query}"));
    let labels = LABELS.iter().map(|selector| format!("pods?labelSelector={}", escape(selector)));
    let fields = FIELDS.iter().flat_map(|(resource, selectors)| {
        selectors.iter().map(move |selector| format!("{resource}?fieldSelector={}", escape(selector)))
    });
    let reads = READS.iter().map(|&target| target.to_owned());
    let as_json = lists.chain(watches).chain(labels).chain(fields).chain(reads).map(|target| (target, JSON));
    let accepted = ACCEPTED.iter().flat_map(|&accept| ["pods", "pods/web", WATCH].map(|it| (it.to_owned(), accept)));
    let included = INCLUDED.iter().flat_map(|what| {
        ["pods?", "pods/web?", &format!("{WATCH}&")].map(|it| (format!("{it}includeObject={what}"), TABLE))
    });
    let others = OTHERS.iter().map(|&(target, accept)| (target.to_owned(), accept));
    as_json.chain(accepted).chain(included).chain(others).collect()
}

/// What of an answer is compared.
#[derive(PartialEq, Eq, Debug)]
struct Answer {
    code: u16,
    content_type: String,
    /// The reason of a `Status`; of anything else the kind, and the names of its objects. One line for each event of a watch.
    content: Vec<String>,
}

/// The name of an object, a table's row or an item.
fn name_of(object: &Value) -> &str {
    let metadata = object.get("object").unwrap_or(object);
    metadata["metadata"]["name"].as_str().unwrap_or_default()
}

/// The kind of what is answered, with the reason of a `Status`, or the names of the objects.
fn describe(value: &Value) -> String {
    let text = |field: &str| value[field].as_str().unwrap_or("nothing");
    let kind = format!("{} {}", text("apiVersion"), text("kind"));
    if kind == "v1 Status" {
        return format!("{kind} {}", text("reason"));
    }
    let objects = value["items"].as_array().or(value["rows"].as_array());
    let names: Vec<_> = objects.map_or_else(|| vec![name_of(value)], |all| all.iter().map(name_of).collect());
    format!("{kind} {}", names.join(","))
}

/// The events of a watch. Which bookmarks come is a matter of time, but for the one that ends the initial events.
fn events(body: &str) -> Option<Vec<String>> {
    let events: Option<Vec<Value>> = body.lines().map(|line| serde_json::from_str(line).ok()).collect();
    let is_compared = |event: &Value| {
        let annotations = &event["object"]["metadata"]["annotations"];
        event["type"] != "BOOKMARK" || annotations.get("k8s.io/initial-events-end").is_some()
    };
    let events = events?.into_iter().filter(is_compared);
    let mut events: Vec<_> = events.map(|event| format!("{} {}", event["type"], describe(&event["object"]))).collect();
    // The initial events have no order.
    events.sort();
    Some(events)
}

async fn ask(client: &Client, target: &str, accept: &str) -> Answer {
    let target = match target.strip_prefix('/') {
        Some(path) => format!("/api/v1/{path}"),
        None => format!("/api/v1/namespaces/{NAMESPACE}/{target}"),
    };
    let request = http::Request::get(&target).header(ACCEPT, accept).body(Body::empty()).expect("a request");
    let call = async {
        let answer = client.send(request).await.unwrap_or_else(|error| panic!("GET {target}: {error}"));
        let (head, body) = answer.into_parts();
        let body = body.collect().await.unwrap_or_else(|error| panic!("GET {target}: {error}"));
        (head, String::from_utf8_lossy(&body.to_bytes()).into_owned())
    };
    let (head, body) = tokio::time::timeout(LIMIT, call).await.unwrap_or_else(|_| panic!("GET {target} does not end"));
    let is_event = |value: &Value| value.get("type").is_some() && value.get("object").is_some();
    let content = match serde_json::from_str::<Value>(&body) {
        Ok(value) if !is_event(&value) => vec![describe(&value)],
        _ => events(&body).unwrap_or_else(|| vec!["no JSON".to_owned()]),
    };
    let content_type = head.headers.get(CONTENT_TYPE).map(|value| value.to_str().expect("ASCII").to_owned());
    Answer { code: head.status.as_u16(), content_type: content_type.unwrap_or_default(), content }
}

/// Lets the node read namespaces, which its own rules do not.
async fn grant_namespaces(client: &Client) {
    const NAME: &str = "larder-namespaces";
    let rules = json!([{ "apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"] }]);
    let role: ClusterRole =
        serde_json::from_value(json!({ "metadata": { "name": NAME }, "rules": rules })).expect("a role");
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": NAME },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes" }],
    }))
    .expect("a binding");
    let create = PostParams::default();
    Api::all(client.clone()).create(&create, &role).await.expect("created");
    Api::all(client.clone()).create(&create, &binding).await.expect("created");
}

/// Two pods, with all that their namespace has.
async fn create_objects(cluster: &Cluster) {
    cluster.create_secret("web", "one").await;
    cluster.create_config_map("web", "two").await;
    let volumes = json!([
        { "name": "a", "secret": { "secretName": "web" } },
        { "name": "b", "configMap": { "name": "web" } },
    ]);
    cluster.create_pod("web", json!({ "volumes": volumes })).await;
    cluster.create_pod("worker", json!({})).await;
}

#[tokio::test]
async fn unusual_requests_are_answered_as_the_api_server_answers_them() {
    let testbed = Testbed::start(Options::default()).await.expect("testbed");
    let server = testbed.client().await.expect("client");
    grant_namespaces(&server).await;
    create_objects(&Cluster::new(&testbed).await).await;
    let kubeconfig = testbed.node_kubeconfig().display().to_string();
    let node = ["--node-name", testbed.node_name(), "--kubeconfig", &kubeconfig];
    let arguments = [&["--change-detection", "watch", "--runtime-endpoint", "none"], &node[..]].concat();
    let daemon = Daemon::spawn_in(&testbed.folder().join("larder"), &arguments, &[]);
    daemon.wait_until_ready().await;
    let forward = Forward::to(daemon.socket()).await;
    let mut config = Config::new(forward.url().parse().expect("an address"));
    config.default_retry = false;
    let larder = Client::try_from(config).expect("a client");
    let both =
        async |target: &str, accept: &str| tokio::join!(ask(&server, target, accept), ask(&larder, target, accept));
    until("larder holds the objects", LIMIT, async || {
        for target in ["pods", "secrets", "configmaps", "/nodes", "/namespaces/shop"] {
            let (of_server, of_larder) = both(target, JSON).await;
            if of_server != of_larder {
                return Err(format!("{of_server:?}, {of_larder:?}"));
            }
        }
        Ok(())
    })
    .await
    .expect("the objects");

    let meant = DIFFERENT.iter().flat_map(|&(why, requests)| {
        requests.iter().map(move |&(target, accept)| (target.to_owned(), accept, Some(why)))
    });
    let requests = same().into_iter().map(|(target, accept)| (target, accept, None)).chain(meant);
    let mut answers = stream::iter(requests)
        .map(async |(target, accept, why)| {
            let answers = both(&target, accept).await;
            (target, accept, why, answers)
        })
        .buffered(8);
    let mut wrong = String::new();
    while let Some((target, accept, why, (of_server, of_larder))) = answers.next().await {
        match (why, of_server == of_larder) {
            (None, false) => {
                writeln!(wrong, "{target} as {accept}:\n  API server: {of_server:?}\n  larder:     {of_larder:?}")
                    .unwrap();
            }
            (Some(why), true) => {
                writeln!(wrong, "{target} as {accept}: the same, although {why}: {of_larder:?}").unwrap();
            }
            (None, true) | (Some(_), false) => {}
        }
    }
    assert!(wrong.is_empty(), "answers that are not as they should be:\n{wrong}");
}
