//! Prometheus discovers by larder the same targets as by the API server.
//!
//! One Prometheus has a job for each role by each of the two. It keeps the pods that an annotation names and drops the others,
//! as many configurations do. It scrapes nothing while the test runs, and listens on loopback alone.

use crate::cluster::{Cluster, NAMESPACE, container};
use crate::daemon::Daemon;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use larder_testbed::poll::until;
use larder_testbed::process::Service;
use larder_testbed::programs::Program;
use larder_testbed::{Options, Testbed};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpStream;

const LIMIT: Duration = Duration::from_mins(1);

/// The jobs by each of the two.
const JOBS: [&str; 4] = ["pods", "pods-with-node", "node", "all-nodes"];

/// The labels of a target before relabelling.
type Labels = BTreeMap<String, String>;

struct Prometheus {
    service: Service,
    port: u16,
}

impl Prometheus {
    fn start(testbed: &Testbed, larder: &Path) -> Self {
        let program = Program::Prometheus.build().expect("Prometheus");
        let folder = testbed.folder().join("prometheus");
        fs::create_dir_all(&folder).expect("a folder");
        let configuration = folder.join("prometheus.yml");
        // YAML is a superset of JSON.
        let text = configuration_of(testbed.node_name(), &[("server", testbed.admin_kubeconfig()), ("larder", larder)]);
        fs::write(&configuration, text.to_string()).expect("its configuration");
        let port = testbed.spare_port();
        let arguments = vec![
            format!("--config.file={}", configuration.display()),
            format!("--storage.tsdb.path={}", folder.join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
            // How soon new targets are seen.
            "--scrape.discovery-reload-interval=100ms".to_owned(),
        ];
        let service = Service::new("prometheus", testbed.folder(), program, arguments, Vec::new());
        service.start().expect("started");
        Self { service, port }
    }

    /// The targets of each job, whether it is kept or dropped, and how many are kept.
    async fn targets(&self) -> Result<BTreeMap<String, (BTreeSet<Labels>, usize)>, String> {
        if !self.service.is_running() {
            return Err(format!("Prometheus has ended; its log ends:\n{}", self.service.log_tail()));
        }
        let answer = get(self.port, "/api/v1/targets?state=any").await?;
        let mut jobs: BTreeMap<String, (BTreeSet<Labels>, usize)> = BTreeMap::new();
        for state in ["activeTargets", "droppedTargets"] {
            for target in answer["data"][state].as_array().ok_or("no targets")? {
                let labels = serde_json::from_value(target["discoveredLabels"].clone());
                let mut labels: Labels = labels.map_err(|error| error.to_string())?;
                let (targets, kept) = jobs.entry(labels.remove("job").unwrap_or_default()).or_default();
                targets.insert(labels);
                *kept += usize::from(state == "activeTargets");
            }
        }
        Ok(jobs)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("Prometheus' log ends:\n{}", self.service.log_tail());
        }
        let _ = self.service.kill();
    }
}

fn configuration_of(node: &str, sources: &[(&str, &Path)]) -> Value {
    let of_node = json!([{"role": "pod", "field": format!("spec.nodeName={node}")}]);
    let this_node = json!([{"role": "node", "field": format!("metadata.name={node}")}]);
    let keep = json!([
        {"source_labels": ["__meta_kubernetes_pod_annotation_prometheus_io_scrape"], "action": "keep", "regex": "true"},
        // Without a port, the containers of a pod have one address. Prometheus merges targets with the same labels.
        {"source_labels": ["__meta_kubernetes_pod_container_name"], "target_label": "container"},
    ]);
    let mut jobs = Vec::new();
    for (name, kubeconfig) in sources {
        let mut job = |job: &str, mut discovery: Value, relabel: &Value| {
            discovery["kubeconfig_file"] = json!(kubeconfig);
            jobs.push(json!({
                "job_name": format!("{name}/{job}"),
                "kubernetes_sd_configs": [discovery],
                "relabel_configs": relabel,
            }));
        };
        job("pods", json!({"role": "pod", "selectors": of_node}), &keep);
        let attach = json!({"node": true});
        job("pods-with-node", json!({"role": "pod", "selectors": of_node, "attach_metadata": attach}), &keep);
        job("node", json!({"role": "node", "selectors": this_node}), &json!([]));
        job("all-nodes", json!({"role": "node"}), &json!([]));
    }
    // It scrapes no target before some part of the interval has passed.
    json!({"global": {"scrape_interval": "10d"}, "scrape_configs": jobs})
}

async fn get(port: u16, path: &str) -> Result<Value, String> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.map_err(|error| error.to_string())?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
    let connection = tokio::spawn(connection);
    let request = http::Request::get(path).header("host", "127.0.0.1").body(Empty::<bytes::Bytes>::new());
    let answer = sender.send_request(request.expect("a request")).await.map_err(|error| error.to_string())?;
    let status = answer.status();
    let body = answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    connection.abort();
    serde_json::from_slice(&body).map_err(|error| format!("{status}: {error}"))
}

/// Waits until both discover the same, that many targets of pods, and that many of them kept.
async fn same_targets(prometheus: &Prometheus, pods: usize, kept: usize, shows: impl Fn(&Labels) -> bool) {
    let same = until("larder and the API server have the same targets", LIMIT, async || {
        let targets = prometheus.targets().await?;
        let of = |source: &str, job: &str| targets.get(&format!("{source}/{job}")).cloned().unwrap_or_default();
        for job in JOBS {
            // larder knows no node but its own.
            let expected = of("server", if job == "all-nodes" { "node" } else { job });
            let found = of("larder", job);
            if found != expected {
                let missing: Vec<_> = expected.0.difference(&found.0).collect();
                let wrong: Vec<_> = found.0.difference(&expected.0).collect();
                return Err(format!("{job}: missing {missing:#?}, and instead {wrong:#?}"));
            }
        }
        let counts = JOBS.map(|job| (of("larder", job).0.len(), of("larder", job).1));
        if counts != [(pods, kept), (pods, kept), (1, 1), (1, 1)] {
            return Err(format!("so many targets, of which so many kept: {counts:?}"));
        }
        let has_node = |labels: &Labels| labels.contains_key("__meta_kubernetes_node_name");
        if of("larder", "pods").0.iter().any(has_node) || !of("larder", "pods-with-node").0.iter().all(has_node) {
            return Err(format!("the node's labels are in the wrong targets: {targets:#?}"));
        }
        let mut all = JOBS.iter().flat_map(|job| of("larder", job).0);
        if all.any(|labels| shows(&labels)) { Ok(()) } else { Err(format!("the change is not in {targets:#?}")) }
    });
    same.await.expect("the same targets");
}

/// Prometheus makes targets of pods that have an address. No kubelet gives them one here.
async fn give_address(pods: &Api<Pod>, name: &str) {
    let status = json!({"status": {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.expect("patched");
}

#[tokio::test]
async fn prometheus_discovers_the_same_targets_by_larder_as_by_the_api_server() {
    let testbed = Testbed::start(Options::default()).await.expect("testbed");
    let client = testbed.client().await.expect("client");
    let cluster = Cluster::new(&testbed).await;
    let pods: Api<Pod> = cluster.api();
    let nodes: Api<Node> = Api::all(client);
    let addresses = json!({"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": "testbed"}]}});
    nodes.patch_status(testbed.node_name(), &PatchParams::default(), &Patch::Merge(addresses)).await.expect("patched");
    let other = serde_json::from_value(json!({"metadata": {"name": "other"}})).expect("a node");
    nodes.create(&PostParams::default(), &other).await.expect("created");

    let mut two = [container("main", "sleep 100000"), container("side", "sleep 100000")];
    two[0]["ports"] = json!([{"name": "http", "containerPort": 8080}, {"containerPort": 9090, "protocol": "UDP"}]);
    cluster.create_pod("web", json!({"containers": two, "initContainers": [container("first", "true")]})).await;
    cluster.create_pod("unnamed", json!({})).await;
    cluster.create_pod("elsewhere", json!({"nodeName": "other"})).await;
    // A pod that has no address has no target.
    cluster.create_pod("pending", json!({})).await;
    let annotation = json!({"metadata": {"annotations": {"prometheus.io/scrape": "true"}}});
    pods.patch("web", &PatchParams::default(), &Patch::Merge(annotation)).await.expect("patched");
    for name in ["web", "unnamed", "elsewhere"] {
        give_address(&pods, name).await;
    }

    let keys = testbed.folder().join("keys").display().to_string();
    let node_kubeconfig = testbed.node_kubeconfig().display().to_string();
    let arguments = [
        "--kubeconfig",
        &node_kubeconfig,
        "--node-name",
        testbed.node_name(),
        "--runtime-endpoint",
        "none",
        "--listen",
        "127.0.0.1:0",
        "--tls-directory",
        &keys,
    ];
    let daemon = Daemon::spawn_in(&testbed.folder().join("larder"), &arguments, &[]);
    daemon.wait_until_ready().await;
    let kubeconfig = testbed.folder().join("larder.kubeconfig");
    daemon.larder(&["kubeconfig", "--output", &kubeconfig.display().to_string()]).await.ok();
    let prometheus = Prometheus::start(&testbed, &kubeconfig);

    // Two ports and a container without one, the init container, and the other pod's container.
    same_targets(&prometheus, 5, 4, |labels| {
        labels.get("__meta_kubernetes_namespace").is_some_and(|namespace| namespace == NAMESPACE)
    })
    .await;

    let has = |name: &'static str, value: &'static str| {
        move |labels: &Labels| labels.get(name).is_some_and(|found| found == value)
    };
    let label = Patch::Merge(json!({"metadata": {"labels": {"tier": "front"}}}));
    pods.patch("web", &PatchParams::default(), &label).await.expect("patched");
    same_targets(&prometheus, 5, 4, has("__meta_kubernetes_pod_label_tier", "front")).await;

    let label = Patch::Merge(json!({"metadata": {"labels": {"zone": "a"}}}));
    nodes.patch(testbed.node_name(), &PatchParams::default(), &label).await.expect("patched");
    let (of_node, of_pod) = (has("__meta_kubernetes_node_label_zone", "a"), has("__meta_kubernetes_pod_name", "web"));
    same_targets(&prometheus, 5, 4, |labels| of_node(labels) && of_pod(labels)).await;

    give_address(&pods, "pending").await;
    same_targets(&prometheus, 6, 4, has("__meta_kubernetes_pod_name", "pending")).await;

    cluster.delete_pod("web").await;
    same_targets(&prometheus, 2, 0, has("__meta_kubernetes_pod_name", "pending")).await;
}
