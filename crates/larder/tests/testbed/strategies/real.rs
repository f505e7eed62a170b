//! Faults of a real API server, and of the way there.

use super::fleet::{Fleet, NAMESPACE, OBJECTS, Object, TTL};
use crate::cluster::{Cluster, container};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use larder_testbed::credentials::NODE_TOKEN;
use larder_testbed::proxy::Proxy;
use larder_testbed::{Etcd, Options, Testbed};
use serde_json::{Value, json};
use std::fs;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A testbed with a pod that refers to both objects, and larders that reach its API server through a proxy.
struct Bench {
    testbed: Testbed,
    cluster: Cluster,
    proxy: Proxy,
    fleet: Fleet,
}

impl Bench {
    async fn start(etcd: Etcd) -> Self {
        let testbed =
            Testbed::start(Options { etcd, node_ttl: Some(TTL), ..Options::default() }).await.expect("testbed");
        let cluster = Cluster::new(&testbed).await;
        cluster.create_secret(Object::Secret.name(), "0").await;
        cluster.create_config_map(Object::ConfigMap.name(), "0").await;
        let mut main = container("main", "sleep 100000");
        main["envFrom"] = json!([{ "configMapRef": { "name": Object::ConfigMap.name() } }]);
        let volumes = json!([{ "name": "v", "secret": { "secretName": Object::Secret.name() } }]);
        cluster.create_pod("web", json!({ "containers": [main], "volumes": volumes })).await;

        let url = testbed.api_server_url();
        let port = url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        let proxy = Proxy::start(port).await.expect("proxy");
        fs::write(testbed.folder().join("token"), NODE_TOKEN).expect("token");
        let kubeconfig = fs::read_to_string(testbed.node_kubeconfig()).expect("kubeconfig");
        let kubeconfig = kubeconfig
            .replace(&url, &format!("https://{}", proxy.address()))
            .replace(&format!("token: {NODE_TOKEN}"), &format!("tokenFile: {}/token", testbed.folder().display()));
        let file = testbed.folder().join("fleet.kubeconfig");
        fs::write(&file, kubeconfig).expect("kubeconfig");
        let file = file.display().to_string();
        let arguments = ["--kubeconfig", &file, "--node-name", testbed.node_name(), "--runtime-endpoint", "none"];
        let fleet = Fleet::start(&testbed.folder().join("fleet"), &arguments).await;
        Self { testbed, cluster, proxy, fleet }
    }

    /// Gives both objects a new value.
    async fn update(&self) {
        for object in OBJECTS {
            let value = self.fleet.next_value(object).to_string();
            match object {
                Object::Secret => {
                    self.cluster.update_secret(object.name(), &value).await;
                }
                Object::ConfigMap => {
                    let patch = Patch::Merge(json!({ "data": { "key": value } }));
                    let maps = self.cluster.api::<ConfigMap>();
                    maps.patch(object.name(), &PatchParams::default(), &patch).await.expect("patched");
                }
            }
            self.fleet.was_written(object);
        }
    }

    async fn restart_api_server(&self) {
        self.testbed.api_server().kill().expect("killed");
        self.testbed.api_server().start().expect("started");
        self.testbed.wait_for_api_server().await.expect("API server");
    }

    /// A call of etcd's JSON gateway.
    async fn etcd(&self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let mut stream = TcpStream::connect(self.testbed.etcd_address()).await.expect("etcd");
        let length = body.len();
        let request = format!("POST {path} HTTP/1.0\r\nHost: etcd\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("answered");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
        assert!(head.contains(" 200 "), "{answer}");
        serde_json::from_str(body).expect("JSON")
    }
}

#[tokio::test]
async fn through_an_api_server_that_is_killed_and_started_again() {
    let bench = Bench::start(Etcd::Current).await;
    bench
        .fleet
        .through(async {
            bench.testbed.api_server().kill().expect("killed");
            bench.fleet.until_stale().await;
            bench.testbed.api_server().start().expect("started");
            bench.testbed.wait_for_api_server().await.expect("API server");
            bench.update().await;
            bench.fleet.until_fresh().await;
        })
        .await;
}

#[tokio::test]
async fn through_a_compaction_of_etcd_that_leaves_nothing_to_resume_from() {
    let bench = Bench::start(Etcd::Current).await;
    bench
        .fleet
        .through(async {
            bench.proxy.refuse(true);
            bench.proxy.cut_open_connections();
            for _ in 0..3 {
                bench.update().await;
            }
            let key = json!({ "key": "AA==" });
            let revision = bench.etcd("/v3/kv/range", &key).await["header"]["revision"].clone();
            bench.etcd("/v3/kv/compaction", &json!({ "revision": revision, "physical": true })).await;
            // Without what its own cache remembers, it has nothing from before the compaction either.
            bench.restart_api_server().await;
            bench.proxy.refuse(false);
            bench.fleet.until_fresh().await;
            bench.update().await;
            bench.fleet.until_fresh().await;
        })
        .await;
    for strategy in ["watch", "auto"] {
        let expired = bench.fleet.metric(strategy, "larder_api_server_relists_total", "expired").await;
        assert!(expired > 0.0, "{strategy} has resumed, and seen no 410");
    }
}

#[tokio::test]
async fn with_an_older_etcd_on_which_streaming_lists_are_refused() {
    let bench = Bench::start(Etcd::Old).await;
    bench
        .fleet
        .through(async {
            bench.update().await;
            bench.fleet.until_fresh().await;
            bench.proxy.cut_open_connections();
            bench.update().await;
            bench.fleet.until_fresh().await;
        })
        .await;
    let node = format!("system:node:{}", bench.testbed.node_name());
    let requests = bench.testbed.requests().expect("audit log");
    let of_objects = |verb: &str| {
        let fits = requests.iter().filter(|it| it.user == node && it.resource == "secrets" && it.verb == verb);
        fits.map(|it| it.uri.clone()).collect::<Vec<_>>()
    };
    let (lists, watches) = (of_objects("list"), of_objects("watch"));
    assert!(watches.iter().any(|uri| uri.contains("sendInitialEvents=true")), "none was tried: {watches:?}");
    assert!(!lists.is_empty(), "nothing was listed in {NAMESPACE}, though streaming lists are refused");
}

#[tokio::test]
async fn through_connections_that_stall_without_closing() {
    let bench = Bench::start(Etcd::Current).await;
    bench
        .fleet
        .through(async {
            assert!(bench.proxy.stall_open_connections() > 0);
            bench.update().await;
            bench.fleet.until_fresh().await;
            bench.update().await;
            bench.fleet.until_fresh().await;
        })
        .await;
}

#[tokio::test]
async fn through_a_token_that_is_no_longer_taken_until_its_file_is_rotated() {
    const ROTATED: &str = "testbed-node-rotated";
    let bench = Bench::start(Etcd::Current).await;
    let tokens = bench.testbed.folder().join("tokens.csv");
    let before = fs::read_to_string(&tokens).expect("tokens");
    fs::write(&tokens, before.replace(NODE_TOKEN, ROTATED)).expect("tokens");
    bench
        .fleet
        .through(async {
            // It reads its tokens as it starts.
            bench.restart_api_server().await;
            bench.update().await;
            bench.fleet.until_stale().await;
            fs::write(bench.testbed.folder().join("token"), ROTATED).expect("token");
            bench.fleet.until_fresh().await;
        })
        .await;
}
