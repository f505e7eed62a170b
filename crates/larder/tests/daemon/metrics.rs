//! Scraping, over the socket and over the metrics' address.

use crate::harness::{Answer, Daemon, request, until};
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

/// The metrics' address, as the daemon printed it.
async fn address(daemon: &Daemon) -> String {
    until("it says where its metrics are", async || {
        let printed = daemon.printed();
        let rest = printed.split_once("http://")?.1;
        rest.split_once("/metrics").map(|(address, _)| address.to_owned())
    })
    .await
}

async fn scrape(address: &str, path: &str, accept: &str) -> Answer {
    request(TcpStream::connect(address).await.unwrap(), "GET", path, accept).await.unwrap()
}

#[tokio::test]
async fn metrics_are_served_in_the_format_that_is_asked_for() {
    let daemon = Daemon::with_manifests(&FILES).await;
    let address = address(&daemon).await;
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

#[tokio::test]
async fn the_metrics_address_serves_nothing_of_what_is_held() {
    let daemon = Daemon::with_manifests(&FILES).await;
    let address = address(&daemon).await;
    for path in ["/livez", "/readyz"] {
        assert_eq!(scrape(&address, path, "*/*").await.code, 200);
    }
    for path in ["/api/v1/pods", "/api/v1/namespaces/telltale-ns/secrets/telltale-secret", "/larder/v1/status", "/"] {
        let answer = scrape(&address, path, "*/*").await;
        assert_eq!(answer.code, 404, "{answer:?}");
    }
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
