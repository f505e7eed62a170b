//! Python's `kubernetes` reads through `larder proxy`, with the kubeconfig that `larder proxy` writes: the example of
//! `docs/clients.md`, a get, a list, and a watch.
//!
//! No node runs here. The daemon serves a folder of manifests.

use crate::daemon::Daemon;
use larder_testbed::poll::until;
use larder_testbed::python::PythonProgram;
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

const LIMIT: Duration = Duration::from_mins(1);

const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: a, image: i, envFrom: [{configMapRef: {name: c}}]}]}}";

/// What runs after the example, with the example's imports.
const READS: &str = r#"
from kubernetes import watch
api = client.CoreV1Api()
print("got", api.read_namespaced_config_map("c", "shop").data["a"], flush=True)
listed = api.list_config_map_for_all_namespaces()
print("listed", *(f"{item.metadata.name}={item.data['a']}" for item in listed.items), flush=True)
stream = watch.Watch().stream(api.list_config_map_for_all_namespaces, resource_version=listed.metadata.resource_version)
event = next(stream)
print(event["type"], event["object"].data["a"], flush=True)
try:
    api.read_namespaced_config_map("nosuch", "shop")
except client.exceptions.ApiException as error:
    print("refused", error.status, flush=True)
"#;

/// Replaces the ConfigMap's manifest at once, so that the daemon reads no half of it.
fn write_config_map(manifests: &Path, value: &str) {
    let text =
        format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c, namespace: shop}}, data: {{a: '{value}'}}}}");
    let new = manifests.with_file_name("c.new");
    fs::write(&new, text).expect("written");
    fs::rename(new, manifests.join("c.yaml")).expect("renamed");
}

/// The example for Python and `larder proxy`.
fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/clients.md");
    let text = fs::read_to_string(path).expect("docs/clients.md");
    let (_, section) = text.split_once("## `larder proxy`").expect("its section");
    let (_, example) = section.split_once("In Python:\n\n```python\n").expect("its example");
    let (example, _) = example.split_once("```").expect("the example's end");
    assert!(example.contains(r#"load_kube_config("larder-proxy.kubeconfig")"#), "{example}");
    example.to_owned()
}

/// `larder proxy` to the daemon, with its kubeconfig in this folder.
async fn proxy(daemon: &Daemon, folder: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(["proxy", "--socket"]).arg(daemon.socket()).current_dir(folder);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).spawn().expect("larder runs");
    // The proxy listens before it writes the file.
    until("the proxy has written its kubeconfig", LIMIT, async || {
        if folder.join("larder-proxy.kubeconfig").exists() { Ok(()) } else { Err("there is no file") }
    })
    .await
    .expect("the kubeconfig");
    child
}

#[tokio::test]
async fn pythons_client_gets_lists_and_watches_through_larder_proxy() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let manifests = folder.join("manifests");
    fs::create_dir(&manifests).expect("created");
    fs::write(manifests.join("pod.yaml"), POD).expect("written");
    write_config_map(&manifests, "1");
    let arguments = ["--manifests", "manifests", "--runtime-endpoint", "none", "--node-name", "node-1"];
    let daemon = Daemon::spawn_in(folder, &arguments, &[]);
    daemon.wait_until_ready().await;
    let _proxy = proxy(&daemon, folder).await;

    let log = folder.join("python.log");
    let mut python = Command::new(PythonProgram::Client.interpreter().expect("the Python client"))
        .arg("-c")
        .arg(example() + READS)
        .current_dir(folder)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(&log).expect("its log"))
        .kill_on_drop(true)
        .spawn()
        .expect("Python runs");
    let mut lines = BufReader::new(python.stdout.take().expect("its output")).lines();
    let mut next = async || {
        let line = tokio::time::timeout(LIMIT, lines.next_line()).await.expect("a line in time").expect("a line");
        line.unwrap_or_else(|| panic!("Python ends: {}", fs::read_to_string(&log).expect("its log")))
    };
    // The example prints the names of pods.
    for expected in ["web", "got 1", "listed c=1"] {
        assert_eq!(next().await, expected);
    }
    // The watch begins at the list, so it has the change, whichever comes first. No pod refers to the object of the last read.
    write_config_map(&manifests, "2");
    for expected in ["MODIFIED 2", "refused 403"] {
        assert_eq!(next().await, expected);
    }
    let status = tokio::time::timeout(LIMIT, python.wait()).await.expect("Python ends in time").expect("waited");
    assert!(status.success(), "{status}: {}", fs::read_to_string(&log).expect("its log"));
}
