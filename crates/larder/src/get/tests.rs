//! Tables and names of objects.

use super::*;
use crate::{Cli, Command};
use clap::Parser as _;

fn get(line: &str) -> Get {
    let Command::Get(args) = Cli::try_parse_from(line.split_whitespace()).unwrap().command else {
        panic!("{line} is not get")
    };
    Get::new(Client::new("/nowhere"), args.options, &parse_targets(&args.targets).unwrap())
}

fn entries() -> Vec<ObjectEntry> {
    let entry = |name: &str, state: &str, age: f64| {
        json!({
            "namespace": "shop", "name": name,
            "object": {
                "uid": "u", "resourceVersion": "7", "type": "Opaque", "data": 2, "createdAt": "2026-01-01T00:00:00Z",
            },
            "freshness": {"state": state, "ageSeconds": age},
        })
    };
    let absent = json!({"namespace": "shop", "name": "gone", "freshness": {"state": "absent", "ageSeconds": 1.0}});
    serde_json::from_value(json!([entry("db-password", "fresh", 2.0), entry("tls", "stale", 400.0), absent])).unwrap()
}

fn render(line: &str, kind: Kind) -> String {
    let now = "2026-01-02T00:00:00Z".parse().unwrap();
    let object_kind = kind.object_kind().unwrap();
    get(line).render(kind, entries().iter().filter_map(|entry| object_row(object_kind, entry, now)).collect())
}

#[test]
fn tables_are_kubectls() {
    insta::assert_snapshot!("secrets", render("larder get secrets", Kind::Secret));
    insta::assert_snapshot!("secrets_wide", render("larder get secrets -o wide", Kind::Secret));
    insta::assert_snapshot!("secrets_all_namespaces", render("larder get secrets -A", Kind::Secret));
    insta::assert_snapshot!("configmaps", render("larder get cm", Kind::ConfigMap));
    insta::assert_snapshot!("two_kinds", render("larder get secrets,cm", Kind::Secret));
    insta::assert_snapshot!("names", render("larder get secrets -o name", Kind::Secret));
    insta::assert_snapshot!("no_headers", render("larder get secrets --no-headers", Kind::Secret));
}

/// Pods and nodes as documents, one of which is not as it should be.
fn render_documents(line: &str, kind: Kind, documents: &[Value]) -> String {
    let now = "2026-01-02T00:00:00Z".parse().unwrap();
    let rows = documents.iter().map(|document| document_row(kind, &document.to_string(), "fresh 2s", now)).collect();
    get(line).render(kind, rows)
}

#[test]
fn pods_and_nodes_have_the_api_servers_columns() {
    let pods = [
        json!({
            "metadata": {"namespace": "shop", "name": "web", "creationTimestamp": "2026-01-01T23:00:00Z"},
            "spec": {"nodeName": "edge-1", "containers": [{"name": "a"}]},
            "status": {"phase": "Running", "podIP": "10.0.0.7", "containerStatuses": [{"name": "a", "ready": true,
                "restartCount": 2, "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": "2026-01-01T23:55:00Z"}}}]},
        }),
        json!({"metadata": {"namespace": "shop", "name": "odd"}, "spec": {"containers": "hunter2"}}),
    ];
    insta::assert_snapshot!("pods", render_documents("larder get pods -A", Kind::Pod, &pods));
    let wide = render_documents("larder get pods -o wide", Kind::Pod, &pods);
    assert!(!wide.contains("hunter2"), "{wide}");
    insta::assert_snapshot!("pods_wide", wide);
    let node = json!({"metadata": {"name": "edge-1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"kubeletVersion": "v1.37.2", "kernelVersion": "6.12", "architecture": "arm64"}}});
    insta::assert_snapshot!("nodes_wide", render_documents("larder get nodes -o wide", Kind::Node, &[node]));
}

#[test]
fn paths_carry_the_place_and_the_selectors() {
    let path = |line: &str| {
        let get = get(line);
        let words = line.split_whitespace().nth(2).unwrap().to_owned();
        let name = line.split_whitespace().nth(3).filter(|word| !word.starts_with('-'));
        let mut all = vec![words];
        all.extend(name.map(str::to_owned));
        let target = parse_targets(&all).unwrap().remove(0);
        (format!("{:?}", get.kubernetes(&target)), format!("{:?}", get.entries(&target)))
    };
    let (kubernetes, entries) = path("larder get secrets -A -l app=web");
    assert!(kubernetes.contains("/api/v1/secrets\"") && kubernetes.contains("app=web"), "{kubernetes}");
    assert!(entries.contains("/larder/v1/objects/secrets\"") && !entries.contains("namespace"), "{entries}");
    let (kubernetes, entries) = path("larder get secret db -n shop");
    assert!(kubernetes.contains("/api/v1/namespaces/shop/secrets/db"), "{kubernetes}");
    assert!(entries.contains("/larder/v1/objects/secrets/shop/db"), "{entries}");
    let (kubernetes, _) = path("larder get nodes");
    assert!(kubernetes.contains("/api/v1/nodes\""), "{kubernetes}");
}
