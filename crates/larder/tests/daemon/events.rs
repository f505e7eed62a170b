//! What happens to containers, on a simulated runtime.

use crate::harness::{Daemon, LIMIT, larder, until};
use larder_testkit::cri_runtime::{Call, CriServer, SandboxSpec};
use serde_json::Value;
use std::process::Stdio;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

struct Place {
    cri: CriServer,
    daemon: Daemon,
    sandbox: String,
    _folder: TempDir,
}

impl Place {
    /// A daemon without a cluster, on a runtime that has the sandbox of a pod.
    async fn start(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cri = CriServer::start(&folder.path().join("cri.sock")).await.unwrap();
        let sandbox = cri.containers().run_sandbox(&SandboxSpec::new("shop", "web", "uid-web"));
        let manifests = folder.path().join("manifests");
        std::fs::create_dir(&manifests).unwrap();
        let endpoint = cri.endpoint();
        let mut arguments = vec!["--manifests", manifests.to_str().unwrap(), "--runtime-endpoint", &endpoint];
        arguments.extend(more);
        let daemon = Daemon::spawn(tempfile::tempdir().unwrap(), &arguments);
        daemon.ready().await;
        Self { cri, daemon, sandbox, _folder: folder }
    }

    fn run(&self, name: &str) -> String {
        let id = self.cri.containers().create_container(&self.sandbox, name, "shop/web:1").unwrap();
        self.cri.containers().start_container(&id).unwrap();
        id
    }

    /// `larder events -w`, and its lines.
    fn watch(&self, arguments: &[&str]) -> (Child, Lines<BufReader<ChildStdout>>) {
        let program = larder();
        let mut command = Command::new(program.get_program());
        command.args(["events", "-w", "--socket"]).arg(self.daemon.socket()).args(arguments);
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
    }
}

async fn line_with(lines: &mut Lines<BufReader<ChildStdout>>, wanted: &str) -> String {
    let found = async {
        loop {
            let line = lines.next_line().await.unwrap().expect("another line");
            if line.contains(wanted) {
                return line;
            }
        }
    };
    tokio::time::timeout(LIMIT, found).await.unwrap_or_else(|_| panic!("no line with {wanted}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_followed_as_they_happen_and_kept_for_whoever_comes_later() {
    let mut place = Place::start(&[]).await;
    let (mut child, mut lines) = place.watch(&[]);
    line_with(&mut lines, "TIME").await;
    let app = place.run("app");
    line_with(&mut lines, "ContainerStarted  -     app             shop/web").await;
    place.cri.containers().exit_container(&app, 3).unwrap();
    line_with(&mut lines, "ContainerDied     3     app             shop/web").await;

    let later = place.daemon.larder("events").await.ok();
    assert!(later.contains("ContainerDied     3     app"), "{later}");
    let last = place.daemon.larder("events --tail 1 -o json").await.ok();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!((&last["kind"], &last["exitCode"]), (&"ContainerDied".into(), &3.into()));
    let of_others = place.daemon.larder("events -n other").await.ok();
    assert_eq!(of_others.lines().count(), 1, "the header alone: {of_others}");

    // Whoever follows learns that the daemon ends.
    place.daemon.signal(rustix::process::Signal::TERM);
    place.daemon.ended().await;
    let status = tokio::time::timeout(LIMIT, child.wait()).await.unwrap().unwrap();
    assert!(!status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_of_every_pod_can_be_had_before_the_events() {
    let place = Place::start(&[]).await;
    place.run("app");
    let lines = until("the container among the pods", || async {
        let answer = place.daemon.get("/larder/v1/events?sync=true").await;
        assert_eq!(answer.header("content-type"), "application/jsonl");
        let lines: Vec<Value> = answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (lines[0]["pod"]["status"]["containers"][0]["state"] == "running").then_some(lines)
    })
    .await;
    assert_eq!(lines[0]["type"], "pod");
    assert_eq!(lines[1]["type"], "synced");
    assert_eq!(lines.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_change_ends_with_the_change_and_asks_the_runtime_nothing_before() {
    let place = Place::start(&[]).await;
    let app = place.run("app");
    let path = "/larder/v1/pods/uid-web/status";
    let before = until("the container runs", || async {
        let answer = place.daemon.get(path).await.json();
        (answer["status"]["containers"][0]["state"] == "running").then_some(answer)
    })
    .await;
    // As it was is no answer; an inspection more may be, of what was listed before the container ran.
    let mut modified = before["modifiedAt"].as_str().unwrap().to_owned();
    let mut writes = 0;
    loop {
        let answer = place.daemon.get(&format!("{path}?changedAfter={modified}&timeout=1500ms")).await;
        if answer.code == 504 {
            break;
        }
        writes += 1;
        assert!(writes <= 3, "it does not come to rest");
        answer.json()["modifiedAt"].as_str().unwrap().clone_into(&mut modified);
    }
    let inspected = place.cri.calls(Call::ContainerStatus).made;
    assert!(inspected <= 4, "{inspected}");

    let target = format!("{path}?changedAfter={modified}&timeout=30s");
    let wait = place.daemon.get(&target);
    let exit = async { place.cri.containers().exit_container(&app, 3).unwrap() };
    let (answer, ()) = tokio::join!(wait, exit);
    assert_eq!(answer.json()["status"]["containers"][0]["exitCode"], 3);
    // A wait for what has changed already is answered at once.
    assert_eq!(place.daemon.get(&target).await.code, 200);
    let both = format!("{path}?changedAfter={modified}&newerThan={modified}");
    assert_eq!(place.daemon.get(&both).await.code, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_events_the_runtime_is_listed_every_second() {
    let place = Place::start(&["--events", "off"]).await;
    assert_eq!(place.cri.event_streams(), 0);
    let app = place.run("app");
    place.cri.containers().exit_container(&app, 3).unwrap();
    until("the exit", || async {
        let ps = place.daemon.larder("ps").await.ok();
        ps.contains("Exited").then_some(())
    })
    .await;
    assert_eq!(place.cri.calls(Call::GetContainerEvents).made, 0);
}
