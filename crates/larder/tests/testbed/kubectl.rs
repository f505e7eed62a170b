//! kubectl prints of larder what it prints of the API server, but for what a node has not: events, its lease, ages.

use crate::daemon::Daemon;
use crate::forward::Forward;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Api;
use kube::api::{Patch, PatchParams};
use larder_testbed::poll::until;
use larder_testbed::{Options, Testbed};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

const LIMIT: Duration = Duration::from_mins(1);

/// The files that commands name with an `@`.
const FILES: &[(&str, &str)] = &[
    ("names.jsonpath", "{range .items[*]}{.metadata.name} {.status.phase}{\"\\n\"}{end}"),
    ("columns", "NAME          PHASE         NODE\nmetadata.name status.phase  spec.nodeName\n"),
    ("names.template", "{{range .items}}{{.metadata.name}} {{.status.phase}}{{\"\\n\"}}{{end}}"),
    ("objects/pod.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: default}}"),
    ("objects/more/secret.yaml", "{apiVersion: v1, kind: Secret, metadata: {name: database, namespace: default}}"),
    ("objects/kustomization.yaml", "{resources: [pod.yaml, more/secret.yaml]}"),
];

/// Each is run against both, and must print the same.
const COMMANDS: &[&str] = &[
    "get pods",
    "get pods -A -o wide",
    "get pods -o json",
    "get pods -o yaml",
    "get pods -o name",
    "get pods --show-labels",
    "get pods --show-managed-fields -o yaml",
    "get pods --sort-by=.metadata.name",
    "get pods --sort-by=.metadata.creationTimestamp -o wide",
    "get pods --chunk-size=1",
    "get pods -l app=web",
    "get pods -l app!=web,app",
    "get pods -L app",
    "get pods --field-selector status.phase=Running",
    "get pods --field-selector spec.restartPolicy!=Never,metadata.name!=web",
    "get pods -o custom-columns=NAME:.metadata.name,PHASE:.status.phase",
    "get pods -o go-template={{range.items}}{{.metadata.name}}.{{end}}",
    "get pod web -o jsonpath={.status.phase}",
    "get pods -o kyaml",
    "get pod web -o kyaml --show-managed-fields",
    "get pods -o jsonpath-as-json={.items[*].metadata}",
    "get pods -o jsonpath-file=@names.jsonpath",
    "get pods -o custom-columns-file=@columns",
    "get pods -o custom-columns-file=@columns --no-headers",
    "get pods -o go-template-file=@names.template",
    "get pods -o templatefile=@names.template",
    "get pods -o template --template={{.kind}}",
    "get pods -o template={{.kind}}",
    "get pods -o jsonpath={.items[*].nosuch} --allow-missing-template-keys=false",
    "get pods --no-headers",
    "get pods --show-kind",
    "get pods --server-print=false",
    "get pod/web secret/database node/testbed --server-print=false",
    "get pod web --subresource status -o yaml",
    "get pod web --subresource status",
    "get -f @objects/pod.yaml",
    "get -R -f @objects/more -o name",
    "get -k @objects -o name",
    "get pod nosuch",
    "get pod nosuch --ignore-not-found",
    "get pods web worker",
    "get configmaps",
    "get cm settings -o yaml",
    "get secret database",
    "get secret database -o yaml",
    "get secrets --field-selector metadata.name=database,type=Opaque",
    "get pods,cm",
    "get node",
    "get node -o wide",
    "get node -o json",
    "describe pod web",
    "describe pods",
    "describe secret database",
    "describe configmap settings",
    "describe node",
    "get namespace default",
    "get ns default -o yaml",
    "get ns default -o json --show-managed-fields",
    "get ns default -o wide --show-labels",
    "get ns --field-selector metadata.name=default,status.phase=Active",
    "get ns -l kubernetes.io/metadata.name=default -o name",
    "describe namespace default",
    "wait --for=jsonpath={.status.phase}=Active namespace/default --timeout=30s",
    "auth can-i get namespaces",
    "wait --for=jsonpath={.status.phase}=Running pod/web --timeout=30s",
    "wait --for=condition=Ready pod/web --timeout=30s",
    "explain pods",
    "explain pods.spec.containers.env --recursive",
    "version",
    "auth can-i list pods",
    "auth can-i get secrets/database",
    "get --raw /version",
];

/// The commands that fail, of both.
const NOT_FOUND: &[&str] =
    &["get pod nosuch", "get pods -o jsonpath={.items[*].nosuch} --allow-missing-template-keys=false"];

/// What larder serves less of than the API server, or answers for itself: what is printed, and the exit code.
const OWN: &[(&str, &str, i32)] = &[
    ("auth can-i create pods", "no - larder serves get, list and watch, not \"create\": ask the API server", 1),
    (
        "auth can-i list deployments.apps",
        "no - larder does not serve the resource \"deployments.apps\" of the group \"\": ask the API server",
        1,
    ),
    ("auth whoami -o jsonpath={.status.userInfo.username}", "user 0", 0),
    ("get deployments", "", 1),
    ("get secret unreferenced", "", 1),
    ("get ns kube-system", "", 1),
    ("get ns -o name", "namespace/default", 0),
    ("delete pod web", "", 1),
    (
        "api-resources -o name",
        "configmaps\nnamespaces\nnodes\npods\nsecrets\nselfsubjectreviews.authentication.k8s.io\nselfsubjectaccessreviews.authorization.k8s.io\nselfsubjectrulesreviews.authorization.k8s.io",
        0,
    ),
    ("api-versions", "authentication.k8s.io/v1\nauthorization.k8s.io/v1\nv1", 0),
];

/// kubectl, and whom it asks.
struct Kubectl {
    program: PathBuf,
    folder: PathBuf,
    /// Where [`FILES`] are.
    files: PathBuf,
    whom: Vec<String>,
}

impl Kubectl {
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.whom)
            .arg("--cache-dir")
            .arg(self.folder.join("cache"))
            .args(line.replace('@', &format!("{}/", self.files.display())).split(' '))
            .env_remove("KUBECONFIG")
            .env("HOME", &self.folder)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    async fn run(&self, line: &str) -> Output {
        let output = tokio::time::timeout(LIMIT, self.command(line).output()).await;
        output.unwrap_or_else(|_| panic!("kubectl {line} does not end")).expect("kubectl runs")
    }

    /// Starts a watch, and the lines that it prints.
    fn watch(&self, line: &str) -> (Child, tokio::io::Lines<BufReader<tokio::process::ChildStdout>>) {
        let mut child = self.command(line).stdout(Stdio::piped()).spawn().expect("kubectl runs");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        (child, lines)
    }
}

/// Whether a word is an age, such as `5m12s`, `2d` or `ago)`.
fn is_age(word: &str) -> bool {
    let word = word.trim_start_matches('(');
    let is_unit = |c: char| matches!(c, 's' | 'm' | 'h' | 'd' | 'y');
    word.ends_with(is_unit)
        && word.starts_with(|c: char| c.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_digit() || is_unit(c))
}

/// What is printed, word by word, without ages, events, and what is said of the node's lease, of resource quotas and limit
/// ranges.
fn comparable(output: &Output) -> (Option<i32>, Vec<Vec<String>>) {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = Vec::new();
    let mut is_left_out = false;
    for line in text.lines() {
        if !line.starts_with(' ') {
            let others = ["Events:", "Lease:", "No resource quota.", "No LimitRange resource."];
            is_left_out = others.iter().any(|other| line.starts_with(other));
        }
        if !is_left_out && !line.is_empty() {
            lines.push(line.split_whitespace().filter(|word| !is_age(word)).map(str::to_owned).collect());
        }
    }
    (output.status.code(), lines)
}

async fn bench(testbed: &Testbed, daemon: &Daemon) -> (Kubectl, Kubectl, Forward) {
    let forward = Forward::to(daemon.socket()).await;
    let files = testbed.folder().join("files");
    for (name, text) in FILES {
        let file = files.join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("a file");
    }
    let kubectl = |name: &str, whom: Vec<String>| Kubectl {
        program: testbed.kubectl_program().to_owned(),
        folder: testbed.folder().join(name),
        files: files.clone(),
        whom,
    };
    let admin = testbed.admin_kubeconfig().display().to_string();
    let server = kubectl("kubectl-server", vec!["--kubeconfig".to_owned(), admin]);
    let larder = kubectl("kubectl-larder", vec!["--server".to_owned(), forward.url()]);
    (server, larder, forward)
}

async fn apply_examples(server: &Kubectl) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed/examples/pods.yaml");
    let applied = server.run(&format!("apply -f {}", examples.display())).await;
    assert!(applied.status.success(), "{applied:?}");
}

#[tokio::test]
async fn kubectl_prints_the_same_of_larder_and_of_the_api_server() {
    let testbed = Testbed::start(Options { kubelet: true, ..Options::default() }).await.expect("testbed");
    let daemon = Daemon::start(&testbed).await;
    let (server, larder, _forward) = bench(&testbed, &daemon).await;
    apply_examples(&server).await;
    until("the pods run and have ended", LIMIT, async || {
        let phases = server.run("get pods -o jsonpath={.items[*].status.phase}").await;
        let phases = String::from_utf8_lossy(&phases.stdout).into_owned();
        if phases == "Failed Running Running" { Ok(()) } else { Err(phases) }
    })
    .await
    .expect("the pods of the example");
    let refused = larder.run("get ns default").await;
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("grant larder's identity a ClusterRole"), "{refused:?}");
    for line in [
        "create clusterrole larder-namespaces --verb=get --resource=namespaces",
        "create clusterrolebinding larder-namespaces --clusterrole=larder-namespaces --group=system:nodes",
    ] {
        let granted = server.run(line).await;
        assert!(granted.status.success(), "{granted:?}");
    }
    // A label, so that the node differs from a fresh one.
    let nodes: Api<Node> = Api::all(testbed.client().await.expect("client"));
    let role = json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": ""}}});
    nodes.patch(testbed.node_name(), &PatchParams::default(), &Patch::Merge(role)).await.expect("patched");

    for line in COMMANDS {
        // Something may change between the two, such as the node's status; then they are asked again.
        let same = until("kubectl prints the same", LIMIT, async || {
            let (of_server, of_larder) = (server.run(line).await, larder.run(line).await);
            // Where both fail alike, nothing is shown.
            let is_as_meant = of_server.status.success() != NOT_FOUND.contains(line);
            if is_as_meant && comparable(&of_server) == comparable(&of_larder) {
                return Ok(());
            }
            let text = |output: &Output| {
                format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
            };
            Err(format!("of the API server:\n{}\nof larder:\n{}", text(&of_server), text(&of_larder)))
        });
        same.await.unwrap_or_else(|error| panic!("kubectl {line}: {error}"));
    }
    for (line, expected, code) in OWN {
        let output = larder.run(line).await;
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!((printed.trim(), output.status.code()), (*expected, Some(*code)), "kubectl {line}: {output:?}");
    }
}

#[tokio::test]
async fn a_watch_of_kubectl_prints_the_same_events_of_larder_and_of_the_api_server() {
    let testbed = Testbed::start(Options::default()).await.expect("testbed");
    let kubeconfig = testbed.node_kubeconfig().display().to_string();
    let arguments = [
        "--change-detection",
        "watch",
        "--runtime-endpoint",
        "none",
        "--kubeconfig",
        &kubeconfig,
        "--node-name",
        testbed.node_name(),
    ];
    let listen = format!("127.0.0.1:{}", testbed.spare_port());
    let keys = testbed.folder().join("keys").display().to_string();
    let arguments = [&arguments[..], &["--listen", &listen, "--tls-directory", &keys]].concat();
    let daemon = Daemon::spawn_in(&testbed.folder().join("larder"), &arguments, &[]);
    daemon.wait_until_ready().await;
    let (server, larder, _forward) = bench(&testbed, &daemon).await;
    apply_examples(&server).await;
    until("larder has the ConfigMap", LIMIT, async || {
        let got = larder.run("get cm settings -o name").await;
        if got.status.success() { Ok(()) } else { Err(format!("{got:?}")) }
    })
    .await
    .expect("the ConfigMap");

    let line = "get cm settings -w --output-watch-events -o jsonpath={.type}/{.object.metadata.resourceVersion}/{.object.data.n}{\"\\n\"}";
    let (mut at_server, mut of_server) = server.watch(line);
    let (mut at_larder, mut of_larder) = larder.watch(line);
    // kubectl dials no Unix socket, but reads through `larder proxy`.
    let (mut proxy, by_proxy) = proxy(&testbed, &daemon, &larder).await;
    let (mut at_proxy, mut of_proxy) = by_proxy.watch(line);
    let first = of_server.next_line().await.expect("a line");
    for of_other in [&mut of_larder, &mut of_proxy] {
        assert_eq!(of_other.next_line().await.expect("a line"), first);
    }
    let client = testbed.client().await.expect("client");
    let config_maps: Api<ConfigMap> = Api::namespaced(client, "default");
    for n in 0..20 {
        let data = json!({"data": {"n": n.to_string()}});
        config_maps.patch("settings", &PatchParams::default(), &Patch::Merge(data)).await.expect("patched");
    }
    config_maps.delete("settings", &kube::api::DeleteParams::default()).await.expect("deleted");
    for n in 0..21 {
        let lines = async { tokio::try_join!(of_server.next_line(), of_larder.next_line(), of_proxy.next_line()) };
        let lines = tokio::time::timeout(LIMIT, lines).await.unwrap_or_else(|_| panic!("no event {n}"));
        let (expected, got, got_by_proxy) = lines.expect("lines");
        assert!(expected.is_some());
        assert_eq!((&got, &got_by_proxy), (&expected, &expected), "event {n}");
    }
    // By the kubeconfig that larder writes, over TLS.
    let kubeconfig = testbed.folder().join("larder.kubeconfig").display().to_string();
    daemon.larder(&["kubeconfig", "--output", &kubeconfig]).await.ok();
    let over_tls = Kubectl { whom: vec!["--kubeconfig".to_owned(), kubeconfig], ..larder };
    let pods = over_tls.run("get pods -o name").await;
    assert_eq!(String::from_utf8_lossy(&pods.stdout), "pod/once\npod/web\npod/worker\n", "{pods:?}");
    let own = over_tls.run("auth whoami -o jsonpath={.status.userInfo.groups}").await;
    assert_eq!(String::from_utf8_lossy(&own.stdout), r#"["larder:admins"]"#, "{own:?}");
    at_server.kill().await.expect("ended");
    at_larder.kill().await.expect("ended");
    for line in ["get pods -o wide", "get secret database -o yaml", "version", "describe pod web"] {
        let (of_server, of_proxy) = (server.run(line).await, by_proxy.run(line).await);
        assert_eq!(comparable(&of_proxy), comparable(&of_server), "kubectl {line}: {of_proxy:?}");
    }
    at_proxy.kill().await.expect("ended");
    proxy.kill().await.expect("ended");
}

/// `larder proxy` to the daemon, and kubectl with the kubeconfig that it writes.
async fn proxy(testbed: &Testbed, daemon: &Daemon, larder: &Kubectl) -> (Child, Kubectl) {
    let kubeconfig = testbed.folder().join("larder-proxy.kubeconfig");
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(["proxy", "--socket"]).arg(daemon.socket()).arg("--output").arg(&kubeconfig);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).spawn().expect("larder runs");
    until("the proxy has written its kubeconfig", LIMIT, async || {
        if kubeconfig.exists() { Ok(()) } else { Err("there is no file") }
    })
    .await
    .expect("the kubeconfig");
    let whom = vec!["--kubeconfig".to_owned(), kubeconfig.display().to_string()];
    let (program, folder) = (larder.program.clone(), testbed.folder().join("kubectl-proxy"));
    (child, Kubectl { program, folder, files: larder.files.clone(), whom })
}
