//! Whose a process, a container's ID or a cgroup is, on a simulated runtime.

use crate::harness::{Daemon, until};
use larder_testkit::cri_runtime::{Call, CallFault, CriServer, SandboxSpec};
use serde_json::json;
use std::path::Path;
use tempfile::TempDir;

struct Place {
    cri: CriServer,
    daemon: Daemon,
    sandbox: String,
    folder: TempDir,
}

impl Place {
    /// A daemon on a runtime that has the sandbox of a pod.
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cri = CriServer::start(&folder.path().join("cri.sock")).await.unwrap();
        let sandbox = cri.containers().run_sandbox(&SandboxSpec::new("shop", "web", "uid-web"));
        let daemon = spawn(folder.path(), &cri.endpoint());
        daemon.ready().await;
        Self { cri, daemon, sandbox, folder }
    }

    fn run(&self, name: &str) -> String {
        let id = self.cri.containers().create_container(&self.sandbox, name, "shop/web:1").unwrap();
        self.cri.containers().start_container(&id).unwrap();
        id
    }
}

fn spawn(folder: &Path, endpoint: &str) -> Daemon {
    let manifests = folder.join("manifests");
    std::fs::create_dir_all(&manifests).unwrap();
    let arguments = ["--manifests", manifests.to_str().unwrap(), "--runtime-endpoint", endpoint, "--events", "off"];
    Daemon::spawn(tempfile::tempdir().unwrap(), &arguments)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_told_by_its_id_the_beginning_of_it_and_its_cgroup() {
    let place = Place::start().await;
    let app = place.run("app");
    for asked in [
        format!("containerID={app}"),
        format!("containerID={}", &app[..13]),
        format!("containerID=containerd://{app}"),
        format!("cgroup=/kubepods/burstable/pod2f6f3d1c-6f0e-4f4e-9d5c-0a1b2c3d4e5f/{app}/child"),
    ] {
        let answer = place.daemon.get(&format!("/larder/v1/whois?{asked}&timeout=30s")).await;
        assert_eq!(answer.code, 200, "{asked}: {answer:?}");
        assert!(!answer.header("age").is_empty() && !answer.header("cache-status").is_empty(), "{answer:?}");
        let answer = answer.json();
        assert_eq!((&answer["scope"], &answer["id"]), (&json!("container"), &json!(app)), "{asked}: {answer}");
        assert_eq!((&answer["container"]["name"], &answer["pod"]["name"]), (&json!("app"), &json!("web")), "{answer}");
        assert_eq!(
            (&answer["pod"]["namespace"], &answer["pod"]["uid"]),
            (&json!("shop"), &json!("uid-web")),
            "{answer}"
        );
        assert_eq!(answer["freshness"]["state"], "fresh", "{answer}");
    }
    let sandbox = place.daemon.get(&format!("/larder/v1/whois?containerID={}", place.sandbox)).await.json();
    assert_eq!((&sandbox["scope"], &sandbox["container"]), (&json!("sandbox"), &json!(null)), "{sandbox}");

    let table = place.daemon.larder(&format!("whois {}", &app[..13])).await.ok();
    let words: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(words, ["container", "shop", "web", "app", "running", "-"], "{table}");
    assert_eq!(place.daemon.larder(&format!("whois --container {app} -o name")).await.ok(), "pod/web\n");

    // A container that has ended is still known for as long as the runtime keeps it.
    place.cri.containers().exit_container(&app, 3).unwrap();
    until("it has exited", || async {
        let answer = place.daemon.get(&format!("/larder/v1/whois?containerID={app}")).await.json();
        (answer["container"]["exitCode"] == 3).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_told_with_the_owner_and_the_service_account_of_its_pod() {
    let place = Place::start().await;
    let app = place.run("app");
    let owner = |name: &str, is_controller: bool| {
        let mut owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name});
        owner["controller"] = is_controller.into();
        owner
    };
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "shop", "name": "web", "uid": "uid-web",
            "ownerReferences": [owner("another", false), owner("web-7d4", true)],
        },
        "spec": {"serviceAccountName": "seller", "containers": [{"name": "app", "image": "shop/web:1"}]},
    });
    std::fs::write(place.folder.path().join("manifests/web.json"), pod.to_string()).unwrap();
    let path = format!("/larder/v1/whois?containerID={app}");
    let pod = until("the pod is read", || async {
        let answer = place.daemon.get(&path).await.json();
        answer["pod"]["owner"].is_object().then(|| answer["pod"].clone())
    })
    .await;
    let told = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4", "uid": "web-7d4"});
    assert_eq!((&pod["owner"], &pod["serviceAccountName"]), (&told, &json!("seller")), "{pod}");
    let table = place.daemon.larder(&format!("whois {app} -o wide")).await.ok();
    assert!(table.contains(" ReplicaSet/web-7d4 ") && table.contains(" seller "), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_the_runtime_has_not_told_of_is_waited_for_without_polling() {
    let place = Place::start().await;
    for call in [Call::ListPodSandbox, Call::ListContainers] {
        place.cri.inject(CallFault::hang().call(call));
    }
    until("a list hangs", || async { (place.cri.calls(Call::ListPodSandbox).open > 0).then_some(()) }).await;
    let app = place.run("app");
    let path = format!("/larder/v1/whois?cgroup=/kubepods/{app}&timeout=60s");
    let asked = place.daemon.get(&path);
    let released = async {
        until("it waits", || async {
            let metrics = place.daemon.get("/metrics").await.text;
            metrics.contains("larder_pod_status_open_waits 1\n").then_some(())
        })
        .await;
        place.cri.clear_faults();
    };
    let (answer, ()) = tokio::join!(asked, released);
    assert_eq!((answer.code, &answer.json()["container"]["name"]), (200, &json!("app")), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_known_is_refused_and_said_to_be_the_hosts_only_if_it_is() {
    let place = Place::start().await;
    let ask = async |asked: &str| {
        let answer = place.daemon.get(&format!("/larder/v1/whois?{asked}")).await;
        (answer.code, answer.json()["message"].as_str().unwrap_or_default().to_owned())
    };
    let unknown = "f".repeat(64);
    let host = place.daemon.get("/larder/v1/whois?cgroup=/system.slice/ssh.service").await.json();
    assert_eq!(host, json!({"scope": "host"}));
    assert_eq!(place.daemon.larder("whois /system.slice/ssh.service -o name").await.ok(), "host\n");
    // This process is the host's, unless the tests run in a container.
    let id = std::process::id();
    let own: larder_identity::Cgroups = std::fs::read_to_string("/proc/self/cgroup").unwrap().parse().unwrap();
    let is_host = own.resolve(|_| None::<()>) == larder_identity::Membership::Host;
    assert_eq!(ask(&format!("pid={id}&timeout=0s")).await.0, if is_host { 200 } else { 404 });

    for (asked, code, problem) in [
        (format!("cgroup=/kubepods/pod7/{unknown}&timeout=0s"), 404, "has no container \"ffff"),
        (format!("containerID={unknown}&timeout=1ms"), 404, "has no container \"ffff"),
        ("pid=4294967295".to_owned(), 404, "no process has the PID 4294967295"),
        ("pid=0".to_owned(), 404, "no process has the PID 0"),
        ("pid=x".to_owned(), 400, "parameter pid: \"x\" is not the ID of a process"),
        ("containerID=abc".to_owned(), 400, "needs at least 8 characters"),
        ("cgroup=kubepods".to_owned(), 400, "is not the path of a cgroup"),
        (format!("containerID={}", "a".repeat(200)), 400, "is longer than 160 bytes"),
        (format!("cgroup=/{}", "a".repeat(5000)), 400, "is longer than 4096 bytes"),
        (String::new(), 400, "a parameter is missing: give one of pid, containerID, cgroup"),
        ("pid=1&cgroup=/".to_owned(), 400, "parameter cgroup: \"/\" cannot be combined"),
        ("pid=1&container=x".to_owned(), 400, "this path takes pid, containerID, cgroup, timeout"),
        ("pid=1&timeout=11m".to_owned(), 400, "must be between"),
    ] {
        let (got, message) = ask(&asked).await;
        assert!(got == code && message.contains(problem), "{asked}: {got} {message}");
    }
    let told = place.daemon.larder(&format!("whois {unknown} --timeout 0s")).await.failed();
    assert!(told.starts_with("Error from server (NotFound): container \"ffff"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_answer_of_the_runtime_nothing_is_said_not_to_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = format!("/larder/v1/whois?containerID={}&timeout=0s", "f".repeat(64));
    let daemon = spawn(folder.path(), folder.path().join("nobody.sock").to_str().unwrap());
    let answer = until("it answers", || async { daemon.try_get(&path).await }).await;
    assert_eq!((answer.code, answer.header("retry-after").is_empty()), (503, false), "{answer:?}");

    let daemon = spawn(folder.path(), "none");
    let answer = until("it answers", || async { daemon.try_get(&path).await }).await;
    assert_eq!(answer.code, 501, "{answer:?}");
}
