//! What the runtime says of containers is what larder says, and waits end when it changes.

use crate::cluster::{Cluster, NAMESPACE, container};
use crate::daemon::Daemon;
use k8s_openapi::api::core::v1::{Container, Pod};
use larder_testbed::poll::until;
use larder_testbed::{Containerd, Options, RunningPod, Testbed};
use serde_json::{Value, json};
use std::time::Duration;

const LIMIT: Duration = Duration::from_mins(1);

/// The daemon's default.
const RELIST_PERIOD: Duration = Duration::from_secs(1);

fn first_container(pod: &Pod) -> &Container {
    &pod.spec.as_ref().expect("spec").containers[0]
}

/// Nanoseconds since the Unix epoch of a time in RFC 3339.
fn nanoseconds(time: &Value) -> i128 {
    let time: jiff::Timestamp = time.as_str().unwrap_or_else(|| panic!("{time} is no time")).parse().expect("RFC 3339");
    time.as_nanosecond()
}

/// The container of that id in larder's status of a pod.
fn find<'a>(status: &'a Value, id: &str) -> &'a Value {
    let containers = status["status"]["containers"].as_array().unwrap_or_else(|| panic!("no containers in {status}"));
    let found = containers.iter().find(|container| container["id"].as_str().is_some_and(|it| it.ends_with(id)));
    found.unwrap_or_else(|| panic!("{id} is not in {status}"))
}

#[tokio::test]
async fn an_exit_with_code_3_ends_a_wait_within_the_relist_period_with_the_runtimes_times() {
    let testbed = Testbed::start(Options::default()).await.expect("testbed");
    let daemon = an_exit_with_code_3_ends_a_wait(&testbed, &Cluster::new(&testbed).await).await;
    assert!(
        has_called(&daemon, "StreamPodSandboxes", "ok").await && has_called(&daemon, "StreamContainers", "ok").await
    );
    assert!(!has_called(&daemon, "StreamPodSandboxes", "unsupported").await);
}

/// Whether a call to the runtime has ended like that.
async fn has_called(daemon: &Daemon, call: &str, result: &str) -> bool {
    let metrics = daemon.text("/metrics").await;
    metrics.contains(&format!("larder_cri_call_duration_seconds_count{{call=\"{call}\",result=\"{result}\"}}"))
}

#[tokio::test]
async fn debians_containerd_has_no_events_which_is_said_once_and_its_containers_are_followed_all_the_same() {
    let options = Options { containerd: Containerd::Old, ..Options::default() };
    let testbed = Testbed::start(options).await.expect("testbed");
    assert!(testbed.pods().version().await.expect("it answers").starts_with("containerd 1.6"));
    let cluster = Cluster::new(&testbed).await;
    let daemon = an_exit_with_code_3_ends_a_wait(&testbed, &cluster).await;
    a_restart_is_another_instance(&testbed, &cluster, &daemon).await;
    // It has no streaming lists either.
    assert!(
        has_called(&daemon, "StreamPodSandboxes", "unsupported").await
            && has_called(&daemon, "ListPodSandbox", "ok").await
    );
    let (_, log) = daemon.terminate();
    assert_eq!(log.matches("the container runtime has no events").count(), 1, "{log}");
    assert!(!log.contains("event stream is lost"), "{log}");
}

/// With larder started while the container runs.
async fn an_exit_with_code_3_ends_a_wait(testbed: &Testbed, cluster: &Cluster) -> Daemon {
    // It ends when the test says so: as its own first process it gets the signal of a stop, and decides what to do.
    let command = "trap 'exit 3' TERM; while true; do sleep 0.1 & wait; done";
    let spec = json!({ "containers": [container("main", command)], "serviceAccountName": "tasks" });
    let pod = cluster.create_pod("task", spec).await;
    let running = testbed.pods().run(&pod).await.expect("runs");
    let id = &running.containers["main"];
    let uid = pod.metadata.uid.as_deref().expect("uid");
    let daemon = Daemon::start(testbed).await;
    let path = format!("/larder/v1/pods/{uid}/status");
    let started = until("it runs", LIMIT, async || {
        let answer = daemon.get(&path).await;
        if answer.body["status"].is_object() { Ok(answer.body) } else { Err(format!("{answer:?}")) }
    });
    let started = started.await.expect("runs");
    assert_eq!(find(&started, id)["state"], "running", "{started}");

    whose_its_processes_are(testbed, &daemon, &running).await;

    let waits = ["wait", "pod", "task", "-n", NAMESPACE, "--for=exited", "--timeout=60s"];
    let stop = testbed.pods().stop_container(id, Duration::from_secs(30));
    let (wait, stopped) = tokio::join!(daemon.larder(&waits), stop);
    stopped.expect("stopped");
    assert_eq!(wait.ok(), "pod/task condition met\n");
    let early = daemon.get(&path).await.body;
    let exited = find(&early, id);
    assert_eq!((&exited["state"], &exited["exitCode"]), (&json!("exited"), &json!(3)), "{early}");

    // That may be the state of the container alone. What is newer than its end is the state of the whole pod.
    let end = exited["finishedAt"].as_str().unwrap_or_else(|| panic!("no end in {early}"));
    let answer = daemon.get(&format!("{path}?newerThan={end}&timeout=10s")).await.body;
    let exited = find(&answer, id);
    assert_eq!((&exited["state"], &exited["exitCode"]), (&json!("exited"), &json!(3)), "{answer}");

    // The status is from the first relist that began after the exit: at most one period later, and what a relist takes.
    let delay = nanoseconds(&answer["modifiedAt"]) - nanoseconds(&exited["finishedAt"]);
    let limit = RELIST_PERIOD + Duration::from_secs(1);
    assert!(delay >= 0 && delay < i128::try_from(limit.as_nanos()).expect("small"), "{delay} ns: {answer}");

    let reference = testbed.crictl(&["inspect", "-o", "json", id]).expect("crictl")["status"].clone();
    for time in ["createdAt", "startedAt", "finishedAt"] {
        assert_eq!(nanoseconds(&exited[time]), nanoseconds(&reference[time]), "{time}: {exited} and {reference}");
    }
    assert_eq!((&exited["exitCode"], &exited["reason"]), (&reference["exitCode"], &reference["reason"]));
    assert_eq!(exited["imageRef"], reference["imageRef"]);

    let table = daemon.larder(&["ps", "-n", NAMESPACE]).await.ok();
    let row = table.lines().find(|line| line.contains("task")).unwrap_or_else(|| panic!("no row in:\n{table}"));
    let words: Vec<&str> = row.split_whitespace().collect();
    assert!(words.iter().any(|word| word.eq_ignore_ascii_case("exited")) && words.contains(&"3"), "{table}");
    daemon
}

/// The processes of a container and of its sandbox are told by their PIDs, and this one is the host's.
async fn whose_its_processes_are(testbed: &Testbed, daemon: &Daemon, running: &RunningPod) {
    let id = &running.containers["main"];
    let pid =
        |command: &str, id: &str| testbed.crictl(&[command, "-o", "json", id]).expect("crictl")["info"]["pid"].clone();
    for (scope, container, pid) in
        [("container", json!("main"), pid("inspect", id)), ("sandbox", json!(null), pid("inspectp", &running.sandbox))]
    {
        let answer = daemon.get(&format!("/larder/v1/whois?pid={pid}&timeout=30s")).await;
        assert_eq!((answer.status, &answer.body["scope"]), (200, &json!(scope)), "{answer:?}");
        assert_eq!(answer.body["container"]["name"], container, "{answer:?}");
        let pod = &answer.body["pod"];
        assert_eq!((&pod["namespace"], &pod["name"]), (&json!(NAMESPACE), &json!("task")), "{answer:?}");
        assert_eq!((&pod["uid"], &pod["serviceAccountName"]), (&json!(running.uid), &json!("tasks")), "{answer:?}");
    }
    let own = std::process::id().to_string();
    assert_eq!(daemon.larder(&["whois", &own, "-o", "name"]).await.ok(), "host\n");
}

#[tokio::test]
async fn a_restart_is_the_same_container_with_another_instance() {
    let testbed = Testbed::start(Options::default()).await.expect("testbed");
    let cluster = Cluster::new(&testbed).await;
    let daemon = Daemon::start(&testbed).await;
    a_restart_is_another_instance(&testbed, &cluster, &daemon).await;
}

async fn a_restart_is_another_instance(testbed: &Testbed, cluster: &Cluster, daemon: &Daemon) {
    let pod = cluster.create_pod("flaky", json!({ "containers": [container("main", "exit 7")] })).await;
    let mut running = testbed.pods().run(&pod).await.expect("runs");
    let uid = pod.metadata.uid.as_deref().expect("uid").to_owned();
    let first = running.containers["main"].clone();
    let path = format!("/larder/v1/pods/{uid}/status");
    let exited = until("the first instance has ended", LIMIT, async || {
        let answer = daemon.get(&path).await.body;
        let state = answer["status"]["containers"][0]["state"].clone();
        if state == "exited" { Ok(answer) } else { Err(answer.to_string()) }
    });
    let exited = exited.await.expect("exited");
    assert_eq!(find(&exited, &first)["exitCode"], 7, "{exited}");

    let as_of = exited["asOf"].as_str().expect("a time");
    let mut sleeper = first_container(&pod).clone();
    sleeper.command = Some(vec!["sleep".into(), "100000".into()]);
    let second = testbed.pods().start_container(&mut running, &sleeper).await.expect("restarts");
    let newer = daemon.get(&format!("{path}?newerThan={as_of}&timeout=30s")).await;
    assert_eq!(newer.status, 200, "{newer:?}");
    let restarted = until("the second instance runs", LIMIT, async || {
        let answer = daemon.get(&path).await.body;
        let is_there = answer["status"]["containers"].as_array().is_some_and(|all| all.len() == 2);
        if is_there && find(&answer, &second)["state"] == "running" { Ok(answer) } else { Err(answer.to_string()) }
    });
    let restarted = restarted.await.expect("restarted");
    assert_eq!(find(&restarted, &second)["restartCount"], 1, "{restarted}");
    assert_eq!(find(&restarted, &first)["exitCode"], 7, "the earlier instance is still known");

    // Removed from the runtime, it is gone from larder, too.
    testbed.pods().remove(&running.sandbox).await.expect("removed");
    let gone = until("larder knows no container of it", LIMIT, async || {
        let answer = daemon.get(&path).await;
        let containers = answer.body["status"]["containers"].as_array().map_or(0, Vec::len);
        if containers == 0 { Ok(()) } else { Err(format!("{answer:?}")) }
    });
    gone.await.expect("gone");
}

#[tokio::test]
async fn a_static_pod_is_found_by_the_name_of_its_mirror() {
    let testbed = Testbed::start(Options::default()).await.expect("testbed");
    let cluster = Cluster::new(&testbed).await;
    // What a kubelet does with a manifest: the runtime knows the pod by the manifest's hash, the API server by another UID.
    let hash = "6b7a1c4c5d2f4e0f9a8b7c6d5e4f3a2b";
    let pod = cluster.create_mirror_pod("static-web", hash).await;
    assert_ne!(pod.metadata.uid.as_deref(), Some(hash));
    let running = testbed.pods().run(&pod).await.expect("runs");
    assert_eq!(running.uid, hash);
    let daemon = Daemon::start(&testbed).await;
    daemon.larder(&["wait", "pod", "static-web", "-n", NAMESPACE, "--for=state=running", "--timeout=60s"]).await.ok();
    let answer = daemon.get(&format!("/larder/v1/namespaces/{NAMESPACE}/pods/static-web/status")).await;
    assert_eq!((answer.status, &answer.body["uid"]), (200, &json!(hash)), "{answer:?}");
    assert_eq!(find(&answer.body, &running.containers["main"])["state"], "running", "{answer:?}");
}
