//! The testbed itself: what it starts it ends, whatever happens.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use larder_testbed::poll::until;
use larder_testbed::process::ProcessId;
use larder_testbed::run_folder::sweep_stale;
use larder_testbed::{Etcd, Options, Testbed};
use serde_json::json;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_mins(1);

async fn run_a_pod(testbed: &Testbed) -> String {
    let pods: Api<Pod> = Api::namespaced(testbed.client().await.expect("client"), "default");
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "web" },
        "spec": {
            "nodeName": testbed.node_name(),
            "hostNetwork": true,
            "containers": [{
                "name": "main",
                "image": larder_testbed::image::BUSYBOX,
                "command": ["sleep", "100000"],
            }],
        },
    }))
    .expect("a pod");
    let pod = pods.create(&PostParams::default(), &pod).await.expect("created");
    testbed.pods().run(&pod).await.expect("runs").containers["main"].clone()
}

/// The process of a container, as the runtime says.
fn process_of(testbed: &Testbed, container: &str) -> ProcessId {
    let status = testbed.crictl(&["inspect", "-o", "json", container]).expect("crictl");
    let pid = status["info"]["pid"].as_i64().expect("a process id");
    ProcessId::of(i32::try_from(pid).expect("a process id")).expect("it runs")
}

/// Fails if anything of the run in `folder` is left.
fn assert_nothing_is_left(folder: &Path, processes: &[ProcessId]) {
    for process in processes {
        assert!(!process.is_alive(), "{process:?} still runs");
    }
    assert!(!folder.exists(), "{} still exists", folder.display());
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    let inside = format!("{}/", folder.display());
    assert!(!mounts.contains(&inside), "{mounts}");
    let slot = folder.file_name().expect("a number").to_string_lossy().into_owned();
    for root in fs::read_dir("/sys/fs/cgroup").expect("control groups").flatten() {
        let group: PathBuf = root.path().join(format!("larder-testbed-{slot}"));
        assert!(!group.exists(), "{} still exists", group.display());
    }
}

fn service_processes(testbed: &Testbed) -> Vec<ProcessId> {
    testbed.services().map(|service| service.process().expect("it runs")).collect()
}

#[tokio::test]
async fn a_dropped_testbed_leaves_nothing() {
    let testbed = Testbed::start(Options::default()).await.expect("testbed");
    let mut processes = service_processes(&testbed);
    let container = run_a_pod(&testbed).await;
    processes.push(process_of(&testbed, &container));
    let folder = testbed.folder().to_owned();
    drop(testbed);
    assert_nothing_is_left(&folder, &processes);
}

#[test]
fn what_a_killed_run_left_is_swept() {
    let mut holder = Command::new(env!("CARGO_BIN_EXE_larder-testbed"))
        .arg("hold")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start");
    let mut folder = String::new();
    BufReader::new(holder.stdout.take().expect("output")).read_line(&mut folder).expect("its folder");
    let folder = PathBuf::from(folder.trim());
    let pid_files = ["etcd.pid", "kube-apiserver.pid", "containerd.pid"].map(|file| folder.join(file));
    let processes = pid_files.map(|file| serde_json::from_slice(&fs::read(file).expect("a process id")).expect("JSON"));
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    assert!(mounts.contains(&format!("{}/", folder.display())), "the pod has mounts");

    holder.kill().expect("killed");
    holder.wait().expect("waited");
    // Another test that starts meanwhile may do it first.
    sweep_stale().expect("swept");
    assert_nothing_is_left(&folder, &processes);
}

#[tokio::test]
async fn services_end_and_come_back_one_by_one() {
    let testbed = Testbed::start(Options::default()).await.expect("testbed");
    let container = run_a_pod(&testbed).await;
    let process = process_of(&testbed, &container);

    testbed.containerd().kill().expect("killed");
    assert!(testbed.pods().version().await.is_err());
    assert!(process.is_alive(), "containers go on without containerd");
    testbed.containerd().start().expect("started");
    testbed.wait_for_runtime().await.expect("containerd");
    assert_eq!(process_of(&testbed, &container), process, "it finds its containers again");

    testbed.api_server().kill().expect("killed");
    let pods: Api<Pod> = Api::namespaced(testbed.client().await.expect("client"), "default");
    assert!(pods.get("web").await.is_err());
    testbed.etcd().stop().expect("stopped");
    testbed.etcd().start().expect("started");
    testbed.api_server().start().expect("started");
    testbed.wait_for_api_server().await.expect("API server");
    let pod = until("the pod is still there", LIMIT, async || pods.get("web").await);
    let uid = pod.await.expect("the pod").metadata.uid.expect("a UID");

    let requests = testbed.requests().expect("audit log");
    assert!(requests.iter().any(|request| request.verb == "create" && request.resource == "pods"), "{requests:?}");
    let sandboxes = testbed.crictl(&["pods", "-o", "json"]).expect("crictl");
    assert_eq!(sandboxes["items"][0]["metadata"]["uid"], uid, "the runtime knows the pod by the API server's UID");
}

#[tokio::test]
async fn a_kubelet_runs_the_nodes_pods_and_leaves_nothing() {
    let testbed = Testbed::start(Options { kubelet: true, ..Options::default() }).await.expect("testbed");
    let mut processes: Vec<ProcessId> = service_processes(&testbed);
    assert_eq!(processes.len(), 4);
    let pods: Api<Pod> = Api::namespaced(testbed.client().await.expect("client"), "default");
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "web" },
        "spec": {
            "nodeName": testbed.node_name(),
            "hostNetwork": true,
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{
                "name": "main",
                "image": larder_testbed::image::BUSYBOX,
                "imagePullPolicy": "Never",
                "command": ["sleep", "100000"],
            }],
        },
    }))
    .expect("a pod");
    pods.create(&PostParams::default(), &pod).await.expect("created");
    let container = until("kubelet runs the pod", LIMIT, async || {
        let listed = testbed.crictl(&["ps", "-o", "json"])?;
        listed["containers"][0]["id"].as_str().map(str::to_owned).ok_or_else(|| anyhow::anyhow!("{listed}"))
    });
    processes.push(process_of(&testbed, &container.await.expect("a container")));
    assert!(testbed.kubelet_pods_api().expect("a socket").exists());
    let folder = testbed.folder().to_owned();
    drop(testbed);
    assert_nothing_is_left(&folder, &processes);
}

#[tokio::test]
async fn the_old_etcd_carries_an_api_server() {
    let testbed = Testbed::start(Options { etcd: Etcd::Old, ..Options::default() }).await.expect("testbed");
    let pods: Api<Pod> = Api::namespaced(testbed.client().await.expect("client"), "default");
    assert!(pods.list(&kube::api::ListParams::default()).await.expect("listed").items.is_empty());
}
