//! Scraping, over the socket and over the metrics' address.

use crate::harness::{Answer, Daemon, request, until};
use larder_testkit::api_server::{ApiServer, Fault, User};
use larder_testkit::cri_runtime::{CriServer, SandboxSpec};
use larder_testkit::objects::{node, pod, secret};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tokio::net::TcpStream;

const FILES: [(&str, &str); 1] = [(
    "all.yaml",
    "\
{apiVersion: v1, kind: Pod, metadata: {name: telltale-pod, namespace: telltale-ns}, spec: {containers: [
  {name: a, image: i, envFrom: [{secretRef: {name: telltale-secret}}, {configMapRef: {name: telltale-map, optional: true}}]}]}}
---
{apiVersion: v1, kind: Secret, metadata: {name: telltale-secret, namespace: telltale-ns}, stringData: {a: telltale-value}}
",
)];

async fn scrape(address: &str, path: &str, accept: &str) -> Answer {
    request(TcpStream::connect(address).await.unwrap(), "GET", path, accept).await.unwrap()
}

#[tokio::test]
async fn metrics_are_served_in_the_format_that_is_asked_for() {
    let daemon = Daemon::with_manifests(&FILES).await;
    let address = daemon.metrics_address().await;
    let prometheus = scrape(&address, "/metrics", "text/plain").await;
    assert_eq!(prometheus.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    for line in [
        "# TYPE larder_pods gauge\n",
        "larder_pods 1\n",
        "larder_objects{kind=\"secrets\",state=\"fresh\"} 1\n",
        "larder_objects{kind=\"configmaps\",state=\"absent\"} 1\n",
        "larder_source_up{source=\"pods\"} 1\n",
        "larder_degraded 0\n",
        "# TYPE larder_http_requests_total counter\n",
    ] {
        assert!(prometheus.text.contains(line), "{line} in {}", prometheus.text);
    }
    assert!(!prometheus.text.contains("# EOF"));
    let open = scrape(&address, "/metrics", "application/openmetrics-text; version=1.0.0,text/plain;q=0.5").await;
    assert!(open.header("content-type").starts_with("application/openmetrics-text"), "{open:?}");
    assert!(open.text.ends_with("# EOF\n"));
}

/// The metrics of docs/metrics.md: type and labels by name.
fn documented() -> BTreeMap<String, (String, Vec<String>)> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut all = BTreeMap::new();
    let quoted = |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    for row in page.lines().filter(|line| line.starts_with("| `larder_")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        for name in quoted(cells[1]) {
            let before = all.insert(name.clone(), (cells[2].to_owned(), quoted(cells[3])));
            assert!(before.is_none(), "{name} is documented twice");
        }
    }
    all
}

#[tokio::test]
async fn every_metric_is_documented_and_named_by_the_conventions() {
    let outside = tempfile::tempdir().unwrap();
    let api = ApiServer::start().await.unwrap();
    api.store().create(node("node-1")).unwrap();
    api.store().create(secret("telltale-ns", "telltale-secret", &[("a", "telltale-value")])).unwrap();
    let web = pod("telltale-ns", "telltale-pod").uid("telltale-uid").node("node-1").secret_volume("telltale-secret");
    api.store().create(web.env_from_config_map("telltale-map").build()).unwrap();
    let kubeconfig = outside.path().join("kubeconfig");
    api.write_kubeconfig(&kubeconfig, &api.add_user(User::node("node-1"))).unwrap();
    let cri = CriServer::start(&outside.path().join("cri.sock")).await.unwrap();
    let sandbox = cri.containers().run_sandbox(&SandboxSpec::new("telltale-ns", "telltale-pod", "telltale-uid"));
    let container = cri.containers().create_container(&sandbox, "app", "telltale:1").unwrap();
    let arguments =
        ["--kubeconfig", &kubeconfig.display().to_string(), "--runtime-endpoint", &cri.endpoint()].map(str::to_owned);
    let daemon = Daemon::spawn(tempfile::tempdir().unwrap(), &arguments.each_ref().map(String::as_str));
    daemon.ready().await;
    cri.containers().start_container(&container).unwrap();
    daemon.larder("wait pod telltale-pod -n telltale-ns --for=state=running").await.ok();
    // Something to tell for each.
    for (path, code) in
        [("secrets/telltale-secret", 200), ("secrets/telltale-other", 403), ("configmaps/telltale-map", 404)]
    {
        let path = format!("/api/v1/namespaces/telltale-ns/{path}");
        until("it is known", async || daemon.try_get(&path).await.filter(|answer| answer.code == code)).await;
    }
    // Another pod makes a fetch, beside the watch.
    let second = pod("telltale-ns", "telltale-2").node("node-1").secret_volume("telltale-secret").build();
    api.store().create(second).unwrap();
    let text = until("the fetch is counted", async || {
        daemon.get("/api/v1/namespaces/telltale-ns/secrets/telltale-secret").await;
        let text = daemon.get("/metrics").await.text;
        text.contains("larder_object_fetches_total{").then_some(text)
    })
    .await;
    assert!(!text.contains("telltale"), "{text}");

    let documented = documented();
    let types: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let helps: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' ')).collect();
    for (name, kind) in &types {
        let Some((documented, _)) = documented.get(*name) else { panic!("{name} is not in docs/metrics.md") };
        assert_eq!(documented, kind, "{name}");
        assert!(helps.get(name).is_some_and(|help| help.len() > 5), "{name} has no help");
        assert_eq!(name.ends_with("_total"), *kind == "counter", "{name}: a counter ends in _total, nothing else does");
        let is_snake = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        let units = ["_seconds", "_bytes"];
        let has_unit = !name.contains("duration") || units.iter().any(|unit| name.ends_with(unit));
        assert!(is_snake && has_unit && !name.ends_with("_ms"), "{name}");
        if *kind == "histogram" {
            assert!(name.ends_with("_seconds"), "{name}");
        }
    }
    let served: Vec<&str> = documented
        .keys()
        .map(String::as_str)
        .filter(|name| {
            name.starts_with("larder_object")
                || name.starts_with("larder_api_server")
                || name.starts_with("larder_namespace")
        })
        .collect();
    for name in served {
        assert!(types.contains_key(name), "{name} is in docs/metrics.md, and not served: {text}");
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((sample, rest)) = line.split_once('{') else { continue };
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| sample.strip_suffix(end)).unwrap_or(sample);
        let base = if types.contains_key(base) { base } else { sample };
        let (_, allowed) = &documented[base];
        for label in rest.split("\",").map(|label| label.split('=').next().unwrap()) {
            assert!(
                label == "le" || allowed.iter().any(|allowed| allowed == label),
                "{base} has no label {label}: {line}"
            );
        }
    }
}

#[tokio::test]
async fn the_metrics_address_serves_nothing_of_what_is_held() {
    let daemon = Daemon::with_manifests(&FILES).await;
    let address = daemon.metrics_address().await;
    for path in ["/livez", "/readyz"] {
        assert_eq!(scrape(&address, path, "*/*").await.code, 200);
    }
    for path in ["/api/v1/pods", "/api/v1/namespaces/telltale-ns/secrets/telltale-secret", "/larder/v1/status", "/"] {
        let answer = scrape(&address, path, "*/*").await;
        assert_eq!(answer.code, 404, "{answer:?}");
    }
}

/// What is told over TCP of anything that anybody could ask for there.
async fn all_over_tcp(address: &str) -> String {
    let mut all = String::new();
    for path in ["/livez", "/readyz", "/metrics", "/", "/api/v1/pods", "/larder/v1/status", "/readyz/pods", "/version"]
    {
        for query in ["", "?verbose", "?verbose=true&exclude=pods", "?%ff=%ff"] {
            for method in ["GET", "HEAD", "POST"] {
                let stream = TcpStream::connect(address).await.unwrap();
                let answer = request(stream, method, &format!("{path}{query}"), "application/openmetrics-text").await;
                writeln!(all, "{method} {path}{query}: {:?}", answer.unwrap()).unwrap();
            }
        }
    }
    all
}

#[tokio::test]
async fn nothing_on_tcp_names_node_server_user_or_object_whether_all_is_well_or_nothing_is() {
    let outside = tempfile::tempdir().unwrap();
    let api = ApiServer::start().await.unwrap();
    let needles = ["telltale", "127.0.0.1", "localhost", "https://", "cri.sock"];
    api.store().create(node("telltale-node")).unwrap();
    api.store().create(secret("telltale-ns", "telltale-secret", &[("a", "telltale-value")])).unwrap();
    let web = pod("telltale-ns", "telltale-pod").uid("telltale-uid").node("telltale-node");
    let web = web.secret_volume("telltale-secret").env_from_config_map("telltale-map");
    api.store().create(web.build()).unwrap();
    let kubeconfig = outside.path().join("telltale-kubeconfig");
    api.write_kubeconfig(&kubeconfig, &api.add_user(User::node("telltale-node"))).unwrap();
    let cri = CriServer::start(&outside.path().join("cri.sock")).await.unwrap();
    let sandbox = cri.containers().run_sandbox(&SandboxSpec::new("telltale-ns", "telltale-pod", "telltale-uid"));
    let container = cri.containers().create_container(&sandbox, "telltale-app", "telltale:1").unwrap();
    cri.containers().start_container(&container).unwrap();
    let kubeconfig = kubeconfig.display().to_string();
    let arguments =
        ["--kubeconfig", &kubeconfig, "--runtime-endpoint", &cri.endpoint(), "--node-name", "telltale-node"];

    // Nothing is there at the start: no source has answered, and the socket says why.
    api.outage().await;
    cri.outage().await;
    let daemon = Daemon::spawn(tempfile::tempdir().unwrap(), &arguments);
    let address = daemon.metrics_address().await;
    let reasons = until("each reason is known", async || {
        let text = daemon.try_get("/readyz?verbose").await?.text;
        (text.contains("[-]pods failed: ") && text.contains("telltale")).then_some(text)
    });
    let reasons = reasons.await;
    assert!(reasons.contains("127.0.0.1"), "the socket names the server: {reasons}");
    let told = all_over_tcp(&address).await;
    assert!(told.contains("[-]pods failed: reason withheld") && told.contains("[-]runtime failed: reason withheld"));
    let leak = |told: &str| needles.into_iter().find(|needle| told.contains(needle));
    assert_eq!(leak(&told), None, "{told}");

    // All is well.
    api.restore().await.unwrap();
    cri.restore().await.unwrap();
    daemon.ready().await;
    let secret = "/api/v1/namespaces/telltale-ns/secrets/telltale-secret";
    until("it is read", async || daemon.try_get(secret).await.filter(|answer| answer.code == 200)).await;
    daemon.larder("wait pod telltale-pod -n telltale-ns --for=state=running").await.ok();
    let told = all_over_tcp(&address).await;
    assert!(told.contains("[+]runtime ok") && told.contains("larder_pods 1"), "{told}");
    assert_eq!(leak(&told), None, "{told}");

    // The server fails, with a text of its own, and reads fail.
    api.inject(Fault::status(500));
    api.outage().await;
    cri.outage().await;
    until("it is degraded", async || {
        let report = daemon.try_get("/larder/v1/status").await?.json();
        report["degraded"].to_string().contains("127.0.0.1").then_some(())
    })
    .await;
    daemon.get(&format!("{secret}?timeout=100ms")).await;
    let told = all_over_tcp(&address).await;
    assert!(told.contains("larder_degraded 1"), "{told}");
    assert_eq!(leak(&told), None, "{told}");
}

#[tokio::test]
async fn no_name_and_no_value_is_among_the_metrics() {
    let daemon = Daemon::with_manifests(&FILES).await;
    for path in ["/api/v1/namespaces/telltale-ns/secrets/telltale-secret", "/api/v1/secrets", "/telltale"] {
        daemon.get(path).await;
    }
    let metrics = daemon.get("/metrics").await.text;
    assert!(metrics.contains("route=\"/api/v1/namespaces/{namespace}/{kind}/{name}\""), "{metrics}");
    assert!(!metrics.contains("telltale"), "{metrics}");
}
