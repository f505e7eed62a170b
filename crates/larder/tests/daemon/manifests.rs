//! Without a cluster: what is served, refused and told.

use crate::harness::{Daemon, until};
use serde_json::json;

const WEB: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  containers:
  - name: app
    image: shop/web:1
    envFrom:
    - secretRef: {name: db}
    - configMapRef: {name: settings}
    - secretRef: {name: missing, optional: true}
  volumes:
  - {name: tls, secret: {secretName: tls}}
";

const OBJECTS: &str = "\
apiVersion: v1
kind: Secret
metadata: {name: db, namespace: shop, labels: {tier: back}}
stringData: {password: hunter2, user: bob}
---
apiVersion: v1
kind: Secret
metadata: {name: tls, namespace: shop}
type: kubernetes.io/tls
stringData: {tls.key: opensesame}
---
apiVersion: v1
kind: Secret
metadata: {name: nobodys, namespace: shop}
stringData: {password: hunter2}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {colour: green}
";

const FILES: [(&str, &str); 2] = [("web.yaml", WEB), ("objects.yaml", OBJECTS)];

#[tokio::test]
async fn it_says_what_it_holds_and_how_to_ask() {
    let daemon = Daemon::with_manifests(&FILES).await;
    let printed = until("it greets", async || Some(daemon.printed()).filter(|text| text.contains("ask"))).await;
    assert!(printed.contains("on node node-1") && printed.contains("1 pod, 3 secrets, 1 configmap"), "{printed}");
    assert!(printed.contains("larder get pods -A --socket l.sock"), "{printed}");
}

#[tokio::test]
async fn tables_show_what_is_held_and_no_value() {
    let daemon = Daemon::with_manifests(&FILES).await;
    let table = daemon.larder("get secrets -n shop").await.ok();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "TYPE", "DATA", "AGE"]);
    assert_eq!(rows[1][..3], ["db", "Opaque", "2"]);
    assert_eq!(rows[2][..3], ["tls", "kubernetes.io/tls", "1"]);
    assert_eq!(rows.len(), 3, "{table}");
    let wide = daemon.larder("get secret db -n shop -o wide").await.ok();
    assert!(wide.contains("FRESHNESS") && wide.contains("fresh 0s"), "{wide}");
    let pods = daemon.larder("get po -A").await.ok();
    assert!(pods.starts_with("NAMESPACE") && pods.contains("web"), "{pods}");
    for text in [table, wide, daemon.larder("status").await.ok(), daemon.log(), daemon.printed()] {
        // In clear, and in base64.
        for value in ["hunter2", "aHVudGVyMg", "opensesame", "b3BlbnNlc2FtZQ"] {
            assert!(!text.contains(value), "{value} in {text}");
        }
    }
}

#[tokio::test]
async fn json_and_yaml_show_the_object_whole() {
    let daemon = Daemon::with_manifests(&FILES).await;
    let secret: serde_json::Value =
        serde_json::from_str(&daemon.larder("get secret db -n shop -o json").await.ok()).unwrap();
    assert_eq!(secret["data"], json!({"password": "aHVudGVyMg==", "user": "Ym9i"}));
    assert_eq!((&secret["kind"], &secret["apiVersion"]), (&json!("Secret"), &json!("v1")));
    let yaml = daemon.larder("get cm settings -n shop -o yaml").await.ok();
    assert!(yaml.starts_with("apiVersion: v1\ndata:\n  colour: green\nkind: ConfigMap\n"), "{yaml}");
    let list: serde_json::Value = serde_json::from_str(&daemon.larder("get secrets,cm -A -o json").await.ok()).unwrap();
    assert_eq!(list["kind"], "List");
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
    let empty: serde_json::Value = serde_json::from_str(&daemon.larder("get cm -o json").await.ok()).unwrap();
    assert_eq!(empty["items"], json!([]));
}

#[tokio::test]
async fn names_selectors_and_kinds_are_taken_as_kubectl_takes_them() {
    let daemon = Daemon::with_manifests(&FILES).await;
    for (line, expected) in [
        ("get secrets -n shop -o name", "secret/db\nsecret/tls\n"),
        ("get secrets -A -l tier=back -o name", "secret/db\n"),
        ("get secrets -A -l tier!=back -o name", "secret/tls\n"),
        ("get secrets -A --field-selector metadata.name=tls -o name", "secret/tls\n"),
        ("get po,cm -n shop -o name", "pod/web\nconfigmap/settings\n"),
        ("get pod/web configmap/settings -n shop -o name", "pod/web\nconfigmap/settings\n"),
        ("get pods -A -l app=web -o name", "pod/web\n"),
    ] {
        assert_eq!(daemon.larder(line).await.ok(), expected, "{line}");
    }
}

#[tokio::test]
async fn errors_and_exit_codes_are_kubectls() {
    let daemon = Daemon::with_manifests(&FILES).await;
    for (line, expected) in [
        ("get secret missing -n shop", "Error from server (NotFound): secrets \"missing\" not found\n"),
        ("get pod other -n shop", "Error from server (NotFound): pods \"other\" not found\n"),
        ("get secret db -n shop -A", "error: "),
        ("get secret db -A", "error: a resource cannot be retrieved by name across all namespaces\n"),
        ("get secret db -l a=b", "error: name cannot be provided when a selector is specified\n"),
        ("get secrets -l a=(", "Error from server (BadRequest): parameter labelSelector: "),
        ("get secrets --field-selector spec.x=1", "Error from server (BadRequest): parameter fieldSelector: "),
        ("get deployments", "error: larder holds no resource type \"deployments\""),
        ("ps", "Error from server (NotImplemented): "),
        ("wait pod web -n shop --for=exited", "Error from server (NotImplemented): "),
        ("wait pod other --for=exited", "Error from server ("),
        ("wait cm settings --for=exited", "error: cannot wait for a configmap, only for pods"),
    ] {
        let output = daemon.larder(line).await;
        if line.contains("-n shop -A") {
            // Two that exclude each other are the command line's to refuse.
            assert_eq!(output.code, Some(2), "{output:?}");
            continue;
        }
        let told = output.failed();
        assert!(told.starts_with(expected), "{line}: {told}");
    }
    let refused = daemon.larder("get secret nobodys -n shop").await.failed();
    assert!(refused.starts_with("Error from server (Forbidden): ") && refused.contains("shop/nobodys"), "{refused}");
}

#[tokio::test]
async fn nothing_found_is_no_error() {
    let daemon = Daemon::with_manifests(&FILES).await;
    for (line, expected) in [
        ("get pods", "No resources found in default namespace.\n"),
        ("get secrets -n empty", "No resources found in empty namespace.\n"),
        ("get cm -A -l a=b", "No resources found\n"),
        ("get nodes", "No resources found\n"),
    ] {
        let output = daemon.larder(line).await;
        assert_eq!(
            (output.code, output.stdout.as_str(), output.stderr.as_str()),
            (Some(0), "", expected),
            "{line}: {output:?}"
        );
    }
}

#[tokio::test]
async fn what_is_found_is_shown_although_something_else_is_not() {
    let daemon = Daemon::with_manifests(&FILES).await;
    let output = daemon.larder("get secrets db missing tls -n shop -o name").await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_eq!(output.stdout, "secret/db\nsecret/tls\n");
    assert_eq!(output.stderr, "Error from server (NotFound): secrets \"missing\" not found\n");
}

#[tokio::test]
async fn a_bad_document_harms_only_itself() {
    let bad = format!("{WEB}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: broken\n---\n{OBJECTS}");
    let daemon = Daemon::with_manifests(&[("all.yaml", &bad)]).await;
    let output = daemon.larder("get secrets,cm -n shop -o name").await;
    assert_eq!(output.stdout, "secret/db\nsecret/tls\nconfigmap/settings\n");
    // The bad document may be what a pod refers to and nobody has seen.
    assert!(output.stderr.contains("shop/missing") && output.stderr.contains("document 2"), "{output:?}");
    let report = daemon.get("/larder/v1/status").await.json();
    let degraded = report["degraded"][0].as_str().unwrap();
    assert!(degraded.contains("all.yaml:") && degraded.contains("document 2"), "{degraded}");
    let status = daemon.larder("status").await.ok();
    assert!(status.contains("DEGRADED") && status.contains("all.yaml"), "{status}");
}

#[tokio::test]
async fn what_a_broken_manifest_had_is_stale_and_what_it_may_have_is_not_known() {
    const BROKEN: &str = "kind: Secret\nmetadata: {name: db\n";
    let (held, missing) = ("/api/v1/namespaces/shop/secrets/db", "/api/v1/namespaces/shop/secrets/missing");
    // From the start on: what it has cannot be known.
    let daemon = Daemon::with_manifests(&[FILES[0], ("objects.yaml", BROKEN)]).await;
    for path in [held, missing] {
        let answer = daemon.get(path).await;
        assert_eq!(answer.code, 503, "{answer:?}");
        assert!(answer.json()["message"].as_str().unwrap().contains("objects.yaml"), "{answer:?}");
    }
    // Mended, it is known what is there and what is not; broken again, what was there is old.
    daemon.write("objects.yaml", OBJECTS);
    let codes = async || (daemon.get(held).await.code, daemon.get(missing).await.code);
    until("it is read", async || (codes().await == (200, 404)).then_some(())).await;
    daemon.write("objects.yaml", BROKEN);
    until("it is stale", async || daemon.get(held).await.is_stale().then_some(())).await;
    assert_eq!(daemon.get(held).await.code, 200);
}

#[tokio::test]
async fn the_pods_of_a_broken_manifest_are_stale_and_those_it_may_have_are_not_known() {
    const BROKEN: &str = "kind: Pod\nmetadata: {name: web\n";
    let (held, missing) = ("/api/v1/namespaces/shop/pods/web", "/api/v1/namespaces/shop/pods/missing");
    // From the start on: what it has cannot be known, and the list may lack pods.
    let daemon = Daemon::with_manifests(&[("web.yaml", BROKEN), FILES[1]]).await;
    for path in [held, missing] {
        let answer = daemon.get(path).await;
        assert_eq!(answer.code, 503, "{answer:?}");
        assert!(answer.json()["message"].as_str().unwrap().contains("web.yaml"), "{answer:?}");
    }
    assert!(daemon.get("/api/v1/pods").await.is_stale());
    // Mended, all is known; broken again, what was there is old.
    daemon.write("web.yaml", WEB);
    let codes = async || (daemon.get(held).await.code, daemon.get(missing).await.code);
    until("it is read", async || (codes().await == (200, 404)).then_some(())).await;
    for path in [held, "/api/v1/pods"] {
        assert!(!daemon.get(path).await.is_stale(), "{path}");
    }
    daemon.write("web.yaml", BROKEN);
    until("it is stale", async || daemon.get(held).await.is_stale().then_some(())).await;
    assert_eq!(codes().await, (200, 503));
    let list = daemon.get("/api/v1/pods").await;
    assert!(list.is_stale() && list.json()["items"][0]["metadata"]["name"] == "web", "{list:?}");
    // A broken Secret says nothing of pods.
    daemon.write("web.yaml", WEB);
    daemon.write("objects.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\ndata: {k: 'no base64'}\n");
    until("it is read", async || (codes().await == (200, 404)).then_some(())).await;
    assert!(!daemon.get(held).await.is_stale());
}

#[tokio::test]
async fn of_two_of_a_name_one_is_served_and_the_other_told() {
    let second = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}, data: {colour: red}}";
    let daemon = Daemon::with_manifests(&[FILES[0], FILES[1], ("second.yaml", second)]).await;
    let yaml = daemon.larder("get cm settings -n shop -o yaml").await.ok();
    assert!(yaml.contains("colour: green"), "{yaml}");
    let status = daemon.larder("status").await.ok();
    assert!(status.contains("second.yaml") && status.contains("settings"), "{status}");
}

#[tokio::test]
async fn a_change_shows_and_a_pod_that_goes_releases_its_objects() {
    let daemon = Daemon::with_manifests(&FILES).await;
    daemon.write("objects.yaml", &OBJECTS.replace("hunter2", "correct horse"));
    until("the change shows", async || {
        let secret = daemon.get("/api/v1/namespaces/shop/secrets/db").await.json();
        (secret["data"]["password"] == "Y29ycmVjdCBob3JzZQ==").then_some(())
    })
    .await;
    std::fs::remove_file(daemon.folder.path().join("manifests/web.yaml")).unwrap();
    let refused = until("its objects are released", async || {
        Some(daemon.get("/api/v1/namespaces/shop/secrets/db").await).filter(|answer| answer.code != 200)
    })
    .await;
    assert_eq!((refused.code, &refused.json()["reason"]), (403, &json!("Forbidden")));
}

#[tokio::test]
async fn a_reader_that_goes_away_ends_a_command_quietly() {
    let pod = |n| format!("{{apiVersion: v1, kind: Pod, metadata: {{name: pod-{n:04}}}, spec: {{containers: []}}}}\n");
    let many = (0..200).map(pod).collect::<Vec<_>>().join("---\n");
    let daemon = Daemon::with_manifests(&[("many.yaml", &many)]).await;
    let mut command = std::process::Command::new("sh");
    let line = format!("{} get pods -o json | head -c 10; exit 0", env!("CARGO_BIN_EXE_larder"));
    command.args(["-c", &line]).env("LARDER_SOCKET", daemon.socket());
    let output = crate::harness::run(command).await;
    assert_eq!((output.stdout.len(), output.stderr.as_str()), (10, ""), "{output:?}");
}

#[tokio::test]
async fn what_the_kubelet_takes_is_served_though_it_is_written_oddly() {
    const ODD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: odd, namespace: shop, labels: {app: odd, tier: }}
spec:
  hostNetwork: true
  hostNetwork: true
  nodeSelector: {node-role.kubernetes.io/master: }
  containers:
  - name: app
    image: shop/odd:1
    envFrom:
    - secretRef: {name: lines}
---
apiVersion: v1
kind: Secret
metadata: {name: lines, namespace: shop}
data:
  greeting: |
    aGVs
    bG8=
";
    let daemon = Daemon::with_manifests(&[("odd.yaml", ODD)]).await;
    let secret = daemon.get("/api/v1/namespaces/shop/secrets/lines").await;
    assert_eq!((secret.code, &secret.json()["data"]["greeting"]), (200, &json!("aGVsbG8=")));
    let pod = daemon.get("/api/v1/namespaces/shop/pods/odd").await.json();
    assert_eq!(pod["spec"]["nodeSelector"], json!({"node-role.kubernetes.io/master": ""}));
    assert_eq!((&pod["spec"]["hostNetwork"], &pod["metadata"]["labels"]["tier"]), (&json!(true), &json!("")));
    let status = daemon.larder("status").await.ok();
    assert!(!status.contains("DEGRADED"), "{status}");
}
