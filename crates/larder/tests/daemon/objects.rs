//! Faults that were reported of the Secrets and `ConfigMap`s of a node, each shown to be otherwise here, against a simulated API
//! server. Where the store or the reflector alone shows it, the test is there (`larder-objects`, `larder-kube`).

use crate::harness::{Answer, Daemon, request_with, until};
use http_body_util::Full;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use larder_testkit::api_server::{ApiServer, CacheLag, Fault, Kind, User, Verb};
use larder_testkit::objects::{config_map, node, pod, secret};
use serde_json::{Value, json};
use tempfile::TempDir;

const NODE: &str = "node-1";
const SECRET: &str = "/api/v1/namespaces/shop/secrets/db";

/// An API server with a Secret `db` and a pod `web` that mounts it, and a daemon with a strategy.
struct Shop {
    api: ApiServer,
    daemon: Daemon,
    _outside: TempDir,
}

impl Shop {
    async fn start(strategy: &str, arguments: &[&str]) -> Self {
        Self::start_with(strategy, arguments, |_| {}).await
    }

    async fn start_with(strategy: &str, arguments: &[&str], before: impl FnOnce(&ApiServer)) -> Self {
        // An outage is over for the daemon soon after it is over.
        Self::start_as("backoffInitial: 100ms, backoffMax: 1s", strategy, arguments, before).await
    }

    /// With these settings of the API server.
    async fn start_as(kube: &str, strategy: &str, arguments: &[&str], before: impl FnOnce(&ApiServer)) -> Self {
        let api = ApiServer::start().await.unwrap();
        api.store().create(node(NODE)).unwrap();
        api.store().create(secret("shop", "db", &[("password", "one")])).unwrap();
        api.store().create(pod("shop", "web").uid("uid-web").node(NODE).secret_volume("db").build()).unwrap();
        before(&api);
        let outside = tempfile::tempdir().unwrap();
        let kubeconfig = outside.path().join("kubeconfig");
        let token = api.add_user(User::node(NODE));
        api.write_kubeconfig(&kubeconfig, &token).unwrap();
        let kubeconfig = kubeconfig.display().to_string();
        let settings = outside.path().join("settings.yaml");
        std::fs::write(&settings, format!("kube: {{{kube}}}\n")).unwrap();
        let settings = settings.display().to_string();
        let own = [
            "--kubeconfig",
            &kubeconfig,
            "--runtime-endpoint",
            "none",
            "--change-detection",
            strategy,
            "--config",
            &settings,
        ];
        let daemon = Daemon::spawn(tempfile::tempdir().unwrap(), &[&own[..], arguments].concat());
        daemon.ready().await;
        Self { api, daemon, _outside: outside }
    }

    /// Reads until the answer fits.
    async fn answer(&self, path: &str, what: &str, fits: impl Fn(&Answer) -> bool) -> Answer {
        until(what, async || self.daemon.try_get(path).await.filter(&fits)).await
    }

    fn set_password(&self, value: &str) {
        self.api.store().apply(secret("shop", "db", &[("password", value)])).unwrap();
    }

    /// Another pod that mounts `db`, known to the daemon.
    async fn another_pod(&self, name: &str) {
        self.api.store().create(pod("shop", name).node(NODE).secret_volume("db").build()).unwrap();
        self.answer(&format!("/api/v1/namespaces/shop/pods/{name}"), "it is known", |answer| answer.code == 200).await;
    }

    /// Requests for Secrets so far: gets, lists and watches.
    fn requests(&self) -> u64 {
        let counts = self.api.counts();
        [Verb::Get, Verb::List, Verb::Watch].into_iter().map(|verb| counts.of(verb, Kind::Secret)).sum()
    }

    /// Watches of Secrets that run, as the daemon says.
    async fn watches(&self) -> u64 {
        let report = self.daemon.get("/larder/v1/status").await.json();
        report["keeping"][0]["watches"].as_u64().unwrap()
    }

    async fn metric(&self, name: &str) -> f64 {
        let metrics = self.daemon.get("/metrics").await.text;
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {metrics}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

fn password(answer: &Answer) -> Value {
    answer.json()["data"]["password"].clone()
}

fn base64_of(value: &str) -> Value {
    serde_json::to_value(k8s_openapi::ByteString(value.as_bytes().to_vec())).unwrap()
}

fn is_fresh(answer: &Answer) -> bool {
    answer.code == 200 && !answer.is_stale()
}

/// What a `SelfSubjectAccessReview` answers for a get of that node.
async fn may_get_node(daemon: &Daemon, name: &str) -> Value {
    may(daemon, json!({"verb": "get", "resource": "nodes", "name": name})).await
}

/// What a `SelfSubjectAccessReview` answers.
pub(crate) async fn may(daemon: &Daemon, attributes: Value) -> Value {
    let stream = tokio::net::UnixStream::connect(daemon.socket()).await.unwrap();
    let attributes = json!({"resourceAttributes": attributes});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = request_with(stream, "POST", path, "*/*", Full::from(json!({"spec": attributes}).to_string())).await;
    let answer = answer.expect("an answer");
    assert_eq!(answer.code, 201, "{answer:?}");
    answer.json()["status"].clone()
}

/// Other nodes exist, and larder cannot say more of them.
#[tokio::test]
async fn another_node_is_refused_and_a_pod_of_another_node_is_not_found() {
    let others = |api: &ApiServer| {
        api.store().create(node("node-2")).unwrap();
        api.store().create(pod("shop", "other").uid("uid-other").node("node-2").build()).unwrap();
    };
    let shop = Shop::start_with("watch", &[], others).await;
    let told = "this larder holds node \"node-1\" alone; ask the API server";
    for path in ["/api/v1/nodes/node-2", "/api/v1/nodes/node-2/status", "/api/v1/nodes/none"] {
        let answer = shop.daemon.get(path).await;
        assert_eq!(answer.code, 403, "{path}: {answer:?}");
        assert!(answer.json()["message"].as_str().unwrap().contains(told), "{answer:?}");
        // Nothing is said of the other node.
        assert_eq!(answer.headers["cache-status"], "larder", "{answer:?}");
    }
    assert_eq!(shop.daemon.get("/api/v1/nodes/node-1").await.code, 200);
    let all = json!({"allowed": true, "reason": "administrators see everything"});
    assert_eq!(may_get_node(&shop.daemon, NODE).await, all);
    assert_eq!(may_get_node(&shop.daemon, "").await, all);
    let other = may_get_node(&shop.daemon, "node-2").await;
    assert!(other["allowed"] == false && other["reason"].as_str().unwrap().contains(told), "{other}");

    let pod = shop.daemon.get("/api/v1/namespaces/shop/pods/other").await;
    assert_eq!(
        (pod.code, pod.header("cache-status")),
        (404, "larder; hit; detail=\"absent from this node\""),
        "{pod:?}"
    );
}

/// `kubectl auth can-i get secret/NAME` said yes, and the get was refused.
#[tokio::test]
async fn a_review_of_an_object_says_what_a_get_says() {
    let shop = Shop::start("watch", &[]).await;
    let get = |resource: &str, namespace: &str, name: &str| json!({"verb": "get", "resource": resource, "namespace": namespace, "name": name});
    for (attributes, path) in [
        (get("secrets", "shop", "other"), "/api/v1/namespaces/shop/secrets/other"),
        (get("configmaps", "shop", "db"), "/api/v1/namespaces/shop/configmaps/db"),
        (get("namespaces", "other", "other"), "/api/v1/namespaces/other"),
    ] {
        let refused = shop.daemon.get(path).await;
        assert_eq!(refused.code, 403, "{refused:?}");
        let expected = json!({"allowed": false, "reason": refused.json()["message"]});
        assert_eq!(may(&shop.daemon, attributes).await, expected, "{path}");
    }
    let allowed = json!({"allowed": true, "reason": "administrators see everything"});
    let mut watch = get("secrets", "shop", "other");
    watch["verb"] = json!("watch");
    // Its list is empty, and its watch has no events.
    let mut watch_of_node = get("nodes", "", "node-2");
    watch_of_node["verb"] = json!("watch");
    for attributes in [get("secrets", "shop", "db"), get("secrets", "shop", ""), watch, watch_of_node] {
        assert_eq!(may(&shop.daemon, attributes.clone()).await, allowed, "{attributes}");
    }
    assert_eq!(
        shop.daemon.get("/api/v1/nodes?watch=1&fieldSelector=metadata.name%3Dnode-2&timeoutSeconds=1").await.code,
        200
    );
}

/// Watches outlived finished pods.
#[tokio::test]
async fn a_pod_that_has_ended_lets_go_of_its_watches() {
    let shop = Shop::start("watch", &[]).await;
    shop.answer(SECRET, "it is there", is_fresh).await;
    assert_eq!(shop.watches().await, 1);
    let ended = pod("shop", "web").uid("uid-web").node(NODE).secret_volume("db").phase("Succeeded").build();
    shop.api.store().apply(ended).unwrap();
    shop.answer(SECRET, "nothing refers to it", |answer| answer.code == 403).await;
    assert_eq!(shop.watches().await, 0);
    // Of the pods and of the node.
    until("its watch is closed", async || (shop.api.counts().watches_open == 2).then_some(())).await;
}

/// Objects that exist were reported missing.
#[tokio::test]
async fn absence_is_told_only_once_the_api_server_has_said_so() {
    for strategy in ["direct", "ttl", "watch", "auto"] {
        let hang = |verb| Fault::hang().verb(verb).kind(Kind::Secret);
        let shop = Shop::start_with(strategy, &[], |api| {
            api.store().delete(Kind::Secret, "shop", "db").unwrap();
            for verb in [Verb::Get, Verb::List, Verb::Watch] {
                api.inject(hang(verb));
            }
        })
        .await;
        let unknown = shop.daemon.get(&format!("{SECRET}?timeout=100ms")).await;
        assert_eq!((unknown.code, unknown.header("retry-after").is_empty()), (503, false), "{strategy}: {unknown:?}");
        shop.api.clear_faults();
        let absent = shop.answer(SECRET, "it is known", |answer| answer.code != 503).await;
        assert_eq!(absent.code, 404, "{strategy}: {absent:?}");
    }
}

/// A reader waited one fixed second for a restarted reflector, then failed.
#[tokio::test]
async fn a_reader_has_the_last_known_with_its_age_while_the_watch_is_away() {
    for strategy in ["watch", "auto"] {
        // `auto` calls an answer fresh for as long as its TTL.
        let shop = Shop::start(strategy, &["--default-ttl", "2s"]).await;
        shop.answer(SECRET, "it is there", is_fresh).await;
        shop.api.outage().await;
        shop.set_password("two");
        let stale = shop.answer(SECRET, "it is stale", Answer::is_stale).await;
        assert_eq!((stale.code, password(&stale)), (200, base64_of("one")), "{strategy}");
        assert!(stale.header("cache-status").contains("connect"), "says why: {strategy}: {stale:?}");
        shop.api.restore().await.unwrap();
        let fresh = shop.answer(SECRET, "it is fresh", is_fresh).await;
        assert_eq!(password(&fresh), base64_of("two"), "{strategy}: what is called fresh is the new one");
    }
}

/// Lesson 4: 'object not registered' when a read raced a pod's registration or removal, without a word of which.
#[tokio::test]
async fn a_read_for_a_pod_names_the_pod_and_the_object() {
    let shop = Shop::start("watch", &[]).await;
    shop.api.store().create(pod("shop", "other").uid("uid-other").node(NODE).build()).unwrap();
    // At once: a read that comes between a pod's arrival and its registration waits for the latter.
    let read = async |pod: &str| shop.daemon.get(&format!("{SECRET}?pod={pod}")).await;
    assert_eq!(read("web").await.code, 200);
    let refused = shop.answer(&format!("{SECRET}?pod=other"), "it is known", |answer| answer.code != 404).await;
    assert_eq!(refused.code, 403, "{refused:?}");
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    for part in ["secret \"shop/db\"", "pod \"shop/other\"", "uid-other", "does not refer to it"] {
        assert!(message.contains(part), "{message}");
    }
    let gone = read("none").await;
    assert_eq!((gone.code, gone.json()["details"]["kind"].clone()), (404, json!("pods")), "{gone:?}");
}

/// An immutable object that was deleted and created again was served from the old one for ever.
#[tokio::test]
async fn a_recreated_object_is_another_immutable_or_not() {
    for strategy in ["direct", "ttl", "watch", "auto"] {
        for immutable in [false, true] {
            let make = |value: &str| {
                let mut made = secret("shop", "db", &[("password", value)]);
                made.immutable = Some(immutable);
                made
            };
            let shop = Shop::start_with(strategy, &["--default-ttl", "1h"], |api| {
                api.store().apply(make("one")).unwrap();
            })
            .await;
            let first = shop.answer(SECRET, "it is there", is_fresh).await;
            assert_eq!(password(&first), base64_of("one"));
            shop.api.store().delete(Kind::Secret, "shop", "db").unwrap();
            shop.api.store().create(make("two")).unwrap();
            shop.another_pod("web-2").await;
            let second = shop.answer(SECRET, "it is fresh", is_fresh).await;
            assert_eq!(password(&second), base64_of("two"), "{strategy}, immutable: {immutable}");
            assert_ne!(first.json()["metadata"]["uid"], second.json()["metadata"]["uid"]);
        }
    }
}

/// A new pod saw the Secret from before its update.
#[tokio::test]
async fn a_new_pods_first_read_is_at_least_as_new_as_the_pod() {
    for strategy in ["direct", "ttl", "watch", "auto"] {
        let shop = Shop::start(strategy, &["--default-ttl", "1h"]).await;
        shop.answer(SECRET, "it is there", is_fresh).await;
        // Only a consistent read sees it.
        shop.api.store().set_cache_lag(CacheLag::Frozen);
        shop.set_password("two");
        shop.another_pod("web-2").await;
        let read = shop.daemon.get(SECRET).await;
        assert_eq!((is_fresh(&read), password(&read)), (true, base64_of("two")), "{strategy}: {read:?}");
        if strategy == "watch" {
            assert!(shop.metric("larder_object_new_reference_fetches_total{kind=\"secrets\"}").await >= 1.0);
        }
    }
}

/// Resource versions moved backwards after etcd was restored from a backup.
#[tokio::test]
async fn a_restored_etcd_is_noticed_told_and_served() {
    for strategy in ["ttl", "watch", "auto"] {
        let shop = Shop::start(strategy, &["--default-ttl", "1s"]).await;
        shop.answer(SECRET, "it is there", is_fresh).await;
        let backup = shop.api.store().backup();
        shop.set_password("two");
        shop.answer(SECRET, "it is two", |answer| is_fresh(answer) && password(answer) == base64_of("two")).await;
        shop.api.store().restore(&backup);
        // As etcd is restored while no API server runs on it.
        shop.api.outage().await;
        shop.api.restore().await.unwrap();
        shop.answer(SECRET, "it is one again", |answer| is_fresh(answer) && password(answer) == base64_of("one")).await;
        let counted = shop.metric("larder_object_versions_went_back_total{kind=\"secrets\"}").await;
        assert!(counted >= 1.0, "{strategy}: {counted}");
        shop.daemon.logged("resourceVersion went back").await;
    }
}

/// A missing optional object was asked for again at every sync, or not answered when it appeared.
#[tokio::test]
async fn a_missing_object_is_not_asked_for_at_each_read_and_is_there_once_it_is_created() {
    let path = "/api/v1/namespaces/shop/configmaps/flags";
    for strategy in ["ttl", "watch", "auto"] {
        let shop = Shop::start_with(strategy, &["--default-ttl", "2s"], |api| {
            api.store().create(pod("shop", "env").node(NODE).env_from_config_map("flags").build()).unwrap();
        })
        .await;
        shop.answer(path, "it is known to be absent", |answer| answer.code == 404).await;
        // `auto` watches what was asked for again in vain.
        assert_eq!(shop.daemon.get(path).await.code, 404);
        let counts = || {
            let counts = shop.api.counts();
            [Verb::Get, Verb::List, Verb::Watch].into_iter().map(|verb| counts.of(verb, Kind::ConfigMap)).sum::<u64>()
        };
        let before = counts();
        for _ in 0..20 {
            assert_eq!(shop.daemon.get(path).await.code, 404, "{strategy}");
        }
        // The TTL may have passed once meanwhile, on a machine that is busy.
        assert!(counts() <= before + 1, "{strategy}: {before}, {}", counts());
        let negative = shop.metric("larder_object_reads_total{kind=\"configmaps\",result=\"negative\"}").await;
        assert!(negative >= 19.0, "{strategy}: {negative}");
        shop.api.store().create(config_map("shop", "flags", &[("a", "b")])).unwrap();
        let there = shop.answer(path, "it is there", |answer| answer.code == 200).await;
        assert_eq!(there.json()["data"]["a"], "b", "{strategy}");
    }
}

/// Containers with env from a ConfigMap could not restart while the API server was away.
#[tokio::test]
async fn an_env_object_is_there_for_a_restart_while_the_api_server_is_away() {
    let path = "/api/v1/namespaces/shop/configmaps/settings";
    for strategy in ["ttl", "watch", "auto"] {
        let shop = Shop::start_with(strategy, &["--default-ttl", "1s"], |api| {
            api.store().create(config_map("shop", "settings", &[("a", "b")])).unwrap();
            api.store().create(pod("shop", "env").node(NODE).env_from_config_map("settings").build()).unwrap();
        })
        .await;
        // Nobody reads it while the API server is there: that a pod refers to it is enough.
        until("it is held", async || {
            let report = shop.daemon.get("/larder/v1/status?objects").await.json();
            let objects = report["objects"].as_array().unwrap().clone();
            objects.iter().find(|object| object["name"] == "settings" && object["state"] != "unknown").cloned()
        })
        .await;
        shop.api.outage().await;
        let held = shop.daemon.get(&format!("{path}?pod=env&timeout=1s")).await;
        assert_eq!((held.code, held.json()["data"]["a"].clone()), (200, json!("b")), "{strategy}: {held:?}");
    }
}

/// No storm of fetches when many readers meet an error.
#[tokio::test]
async fn many_readers_that_meet_an_error_ask_hardly_more_than_one() {
    for strategy in ["ttl", "watch", "auto"] {
        let shop = Shop::start_with(strategy, &[], |api| {
            for verb in [Verb::Get, Verb::List, Verb::Watch] {
                api.inject(Fault::status(500).verb(verb).kind(Kind::Secret));
            }
        })
        .await;
        for _ in 0..20 {
            let all = (0..10).map(|_| shop.daemon.get(SECRET));
            for answer in futures_util::future::join_all(all).await {
                assert_eq!(answer.code, 503, "{strategy}: {answer:?}");
            }
        }
        assert!(shop.requests() < 30, "{strategy}: {} requests for 200 reads", shop.requests());
    }
}

#[tokio::test]
async fn an_immutable_object_held_past_its_ttl_is_fresh_in_header_answer_and_table() {
    let shop = Shop::start_with("auto", &["--default-ttl", "1s"], |api| {
        let mut made = secret("shop", "db", &[("password", "one")]);
        made.immutable = Some(true);
        api.store().apply(made).unwrap();
    })
    .await;
    let held = shop.answer(SECRET, "its TTL has passed", |answer| is_fresh(answer) && answer.age() >= 2).await;
    assert!(held.header("cache-status").starts_with("larder; hit; detail="), "{held:?}");
    let entry = shop.daemon.get("/larder/v1/objects/secrets/shop/db").await.json();
    let freshness = &entry["freshness"];
    assert_eq!((&freshness["state"], freshness.get("ttlSeconds")), (&"fresh".into(), None), "{entry}");
    let table = shop.daemon.larder("status -o wide").await.ok();
    let row = table.lines().find(|line| line.contains(" db ")).unwrap();
    assert!(row.contains(" held ") && row.contains(" fresh "), "{table}");
}

/// kubectl hides them too.
#[tokio::test]
async fn managed_fields_are_printed_on_request() {
    let shop = Shop::start_with("watch", &[], |api| {
        let mut made = secret("shop", "db", &[("password", "one")]);
        let entry = ManagedFieldsEntry { manager: Some("argocd".to_owned()), ..ManagedFieldsEntry::default() };
        made.metadata.managed_fields = Some(vec![entry]);
        api.store().apply(made).unwrap();
    })
    .await;
    let whole = shop.answer(SECRET, "it is there", is_fresh).await.json();
    assert_eq!(whole["metadata"]["managedFields"][0]["manager"], "argocd", "the API has all fields");
    for what in ["secret db", "secrets", "secret/db pod/web"] {
        for format in ["json", "yaml"] {
            let command = format!("get {what} -n shop -o {format}");
            let hidden = shop.daemon.larder(&command).await.ok();
            assert!(hidden.contains("name") && !hidden.contains("anagedFields"), "{command}: {hidden}");
            let shown = shop.daemon.larder(&format!("{command} --show-managed-fields")).await.ok();
            assert!(shown.contains("managedFields") && shown.contains("argocd"), "{command}: {shown}");
        }
    }
}

#[tokio::test]
async fn how_each_object_is_kept_is_told() {
    for (strategy, kept) in [("direct", "direct"), ("ttl", "polled"), ("watch", "watched"), ("auto", "watched")] {
        let shop = Shop::start(strategy, &[]).await;
        shop.answer(SECRET, "it is there", is_fresh).await;
        let table = shop.daemon.larder("status -o wide").await.ok();
        let row: Vec<&str> = table.lines().find(|line| line.contains(" db ")).unwrap().split_whitespace().collect();
        assert_eq!(row[..4], ["secrets", "shop", "db", kept], "{strategy}: {table}");
        let secrets = table.lines().rfind(|line| line.starts_with("secrets ") && line.contains(strategy));
        assert!(secrets.is_some(), "{strategy}: {table}");
        assert!(table.contains("\nAPI server  "), "{table}");
    }
}

/// Over HTTP/1.1 each watch takes a connection. Of five watches three find room here.
#[tokio::test]
async fn objects_whose_watches_find_no_room_are_served_polled_and_stale_with_the_setting_to_raise() {
    // A list without a watch is stale after some three seconds.
    let kube = "backoffInitial: 100ms, backoffMax: 1s, http1Connections: 4, pingInterval: 500ms";
    let names = ["a", "b", "db"];
    let shop = Shop::start_as(kube, "watch", &[], |api| {
        api.store().create(secret("shop", "a", &[("password", "one")])).unwrap();
        api.store().create(secret("shop", "b", &[("password", "one")])).unwrap();
        api.store().create(pod("shop", "all").node(NODE).secret_volume("a").secret_volume("b").build()).unwrap();
    })
    .await;
    let path = |name: &str| format!("/api/v1/namespaces/shop/secrets/{name}");
    for name in names {
        shop.answer(&path(name), "it is served", |answer| password(answer) == base64_of("one")).await;
    }
    until("one is stale and names the setting", async || {
        for name in names {
            let entry = shop.daemon.get(&format!("/larder/v1/objects/secrets/shop/{name}")).await.json();
            if entry["freshness"]["state"] == "stale"
                && entry["freshness"]["reason"].as_str().is_some_and(|reason| reason.contains("http1Connections"))
            {
                return Some(());
            }
        }
        None
    })
    .await;
    for name in names {
        shop.api.store().apply(secret("shop", name, &[("password", "two")])).unwrap();
    }
    for name in names {
        shop.answer(&path(name), "its change is seen", |answer| password(answer) == base64_of("two")).await;
    }
}
