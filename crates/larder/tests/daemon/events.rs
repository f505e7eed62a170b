//! What happens to containers, on a simulated runtime.

use crate::harness::{Daemon, LIMIT, larder, until};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use larder_testkit::cri_runtime::{Call, CallFault, CriServer, SandboxSpec};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::UnixStream;
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
        let mut command = Command::from(larder());
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

    let of_others = place.daemon.larder("events --pod other --tail 9").await.ok();
    assert_eq!(of_others.lines().count(), 1, "the header alone: {of_others}");

    // How many come first is no matter for those that follow.
    let (_none, mut from_now) = place.watch(&["--tail", "0"]);
    let (_one, mut from_the_last) = place.watch(&["--tail", "1", "--pod", "web"]);
    line_with(&mut from_now, "TIME").await;
    line_with(&mut from_the_last, "TIME").await;
    let first = from_the_last.next_line().await.unwrap().expect("the last event");
    assert!(first.contains("ContainerDied     3     app"), "{first}");
    // The header is printed before the daemon has heard: one more container until it has.
    let mut next = None;
    for _ in 0..20 {
        place.run("next");
        if let Ok(line) = tokio::time::timeout(Duration::from_secs(1), from_now.next_line()).await {
            next = line.unwrap();
            break;
        }
    }
    let next = next.expect("a container is seen by those who follow");
    assert!(next.contains("next"), "nothing of before: {next}");
    line_with(&mut from_the_last, "next").await;

    // Whoever follows learns that the daemon ends.
    place.daemon.signal(rustix::process::Signal::TERM);
    place.daemon.ended().await;
    let status = tokio::time::timeout(LIMIT, child.wait()).await.unwrap().unwrap();
    assert!(!status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_stream_goes_on_while_the_daemon_answers_and_a_frozen_daemon_is_given_up() {
    let place = Place::start(&[]).await;
    let (mut child, mut lines) = place.watch(&["--tail", "0"]);
    line_with(&mut lines, "TIME").await;
    until("the client has asked twice whether the daemon answers", async || {
        let metrics = place.daemon.get("/metrics").await.text;
        let asked = metrics.lines().find_map(|line| {
            line.strip_prefix("larder_http_requests_total{route=\"/livez\",code=\"200\"} ")?.parse::<u64>().ok()
        });
        asked.filter(|asked| *asked >= 2)
    })
    .await;
    place.run("app");
    line_with(&mut lines, "ContainerStarted  -     app             shop/web").await;

    place.daemon.signal(rustix::process::Signal::STOP);
    let began = tokio::time::Instant::now();
    for arguments in ["events", "events -w", "get pods --timeout 1s"] {
        let told = place.daemon.larder(arguments).await;
        assert_eq!(told.code, Some(1), "{arguments}: {told:?}");
        assert!(told.stderr.contains("did not answer within") && told.stderr.contains("restart"), "{told:?}");
    }
    let ended = tokio::time::timeout(LIMIT, child.wait()).await.expect("it gives up").unwrap();
    assert_eq!(ended.code(), Some(1));
    assert!(began.elapsed() < LIMIT / 2, "{:?}", began.elapsed());
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

    let exit = async { place.cri.containers().exit_container(&app, 3).unwrap() };
    let wait = async {
        loop {
            let target = format!("{path}?changedAfter={modified}&timeout=30s");
            let answer = place.daemon.get(&target).await.json();
            // On a slow machine, an inspection that has found nothing may come in between.
            if answer["status"]["containers"][0]["exitCode"] == 3 {
                return target;
            }
            answer["modifiedAt"].as_str().unwrap().clone_into(&mut modified);
        }
    };
    let (target, ()) = tokio::join!(wait, exit);
    // A wait for what has changed already is answered at once.
    assert_eq!(place.daemon.get(&target).await.code, 200);
    let both = format!("{path}?changedAfter={modified}&newerThan={modified}");
    assert_eq!(place.daemon.get(&both).await.code, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_is_answered_though_every_list_of_the_runtime_hangs() {
    let place = Place::start(&[]).await;
    until("the events are followed", || async { (place.cri.event_streams() == 1).then_some(()) }).await;
    let app = place.run("app");
    let path = "/larder/v1/pods/uid-web/status";
    let before = until("the container runs", || async {
        let answer = place.daemon.get(path).await.json();
        (answer["status"]["containers"][0]["state"] == "running").then_some(answer)
    })
    .await;
    let modified = before["modifiedAt"].as_str().unwrap();

    for call in [Call::ListPodSandbox, Call::ListContainers] {
        place.cri.inject(CallFault::hang().call(call));
    }
    until("a list hangs", || async { (place.cri.calls(Call::ListPodSandbox).open > 0).then_some(()) }).await;
    place.cri.containers().exit_container(&app, 3).unwrap();

    let wait = place.daemon.larder("wait pod web -n shop --for=state=exited --timeout 20s");
    assert_eq!(wait.await.ok(), "pod/web condition met\n");
    let answer = place.daemon.get(&format!("{path}?changedAfter={modified}&timeout=20s")).await;
    assert_eq!(answer.code, 200, "{answer:?}");
    let container = &answer.json()["status"]["containers"][0];
    assert_eq!((&container["state"], &container["exitCode"]), (&"exited".into(), &3.into()));
    // No time is promised that does not hold: the rest of the pod is not known as of now.
    let newer = place.daemon.get(&format!("{path}?newerThan={}&timeout=100ms", jiff::Timestamp::now())).await;
    assert_eq!(newer.code, 504, "{newer:?}");
    assert!(place.cri.calls(Call::ListPodSandbox).open > 0, "the list hangs still");

    place.cri.clear_faults();
    until("the event is told with the list", || async {
        let events = place.daemon.larder("events").await.ok();
        events.contains("ContainerDied     3     app").then_some(())
    })
    .await;
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

/// A client of `/larder/v1/events?watch=true` that reads only when it is told to.
struct Follower {
    body: Incoming,
    /// What has been read of a line that has not ended.
    rest: Vec<u8>,
    events: usize,
    missed: u64,
    gaps: usize,
    /// The pods that came after the last gap.
    pods: Vec<Value>,
    is_synced: bool,
}

impl Follower {
    /// Heard by the daemon, and with nothing read.
    async fn new(socket: &Path) -> Self {
        let stream = TokioIo::new(UnixStream::connect(socket).await.unwrap());
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        // Ends with the connection.
        tokio::spawn(connection);
        let request = http::Request::get("/larder/v1/events?watch=true").header("host", "larder");
        let answer = sender.send_request(request.body(Empty::<bytes::Bytes>::new()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), 200);
        let body = answer.into_body();
        Self { body, rest: Vec::new(), events: 0, missed: 0, gaps: 0, pods: Vec::new(), is_synced: true }
    }

    /// Reads until so many events have been told of, or as missed.
    async fn read(&mut self, events: usize) {
        let read = async {
            while self.events + usize::try_from(self.missed).unwrap() < events || !self.is_synced {
                let frame = self.body.frame().await.expect("the daemon goes on").expect("and the connection");
                self.rest.extend_from_slice(&frame.into_data().expect("data"));
                while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = self.rest.drain(..=end).collect();
                    self.take(serde_json::from_slice(&line).expect("a line of JSON"));
                }
            }
        };
        let read = tokio::time::timeout(LIMIT, read).await;
        assert!(read.is_ok(), "{} events and {} missed of {events}", self.events, self.missed);
        assert_eq!(self.events + usize::try_from(self.missed).unwrap(), events);
    }

    fn take(&mut self, mut line: Value) {
        match line["type"].as_str() {
            Some("event") => self.events += 1,
            Some("gap") => {
                self.missed += line["missed"].as_u64().expect("how many");
                self.gaps += 1;
                self.pods.clear();
                self.is_synced = false;
            }
            Some("pod") => self.pods.push(line["pod"].take()),
            Some("synced") => self.is_synced = true,
            _ => panic!("{line}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_told_how_much_it_missed_and_what_is_and_holds_up_nobody() {
    const PODS: usize = 4;
    const CONTAINERS: usize = 300;
    // That many are kept for whoever comes, or has not read them.
    const KEPT: usize = 1024;
    // Where they come from is no matter here; a relist for each of the runtime's would take long.
    let place = Place::start(&["--events", "off"]).await;
    let mut sandboxes = Vec::new();
    for pod in 0..PODS {
        let sandbox =
            place.cri.containers().run_sandbox(&SandboxSpec::new("shop", &format!("p{pod}"), &format!("u{pod}")));
        for n in 0..CONTAINERS {
            // Long names, so that a connection's buffers do not hold many.
            let id = place.cri.containers().create_container(&sandbox, &format!("{n:0>200}"), "shop/web:1").unwrap();
            place.cri.containers().start_container(&id).unwrap();
        }
        sandboxes.push(sandbox);
    }
    // Told of last: a pod's state is there before its events are. What is kept is all of each pod's, and the end of the first's.
    until("all events of the start are told", || async {
        let kept = place.daemon.get("/larder/v1/events").await.text;
        let of = |pod| kept.lines().filter(|line| line.contains(&format!("\"p{pod}\""))).count();
        let whole = (0..PODS).filter(|pod| of(*pod) == CONTAINERS + 1).count();
        (kept.lines().count() == KEPT && whole == PODS - 1).then_some(())
    })
    .await;

    let mut slow = Follower::new(&place.daemon.socket()).await;
    let mut quick = Follower::new(&place.daemon.socket()).await;
    quick.read(KEPT).await;
    let mut told = KEPT;
    for sandbox in sandboxes {
        place.cri.containers().remove_sandbox(&sandbox).unwrap();
        // Of each container, and of the sandbox, that it died and that it was removed. Fewer than are kept, so that whoever
        // reads misses none.
        told += 2 * (CONTAINERS + 1);
        quick.read(told).await;
    }
    assert_eq!((quick.gaps, quick.missed), (0, 0));

    // It goes on from the state that comes with the gap.
    slow.read(told).await;
    assert!(slow.missed > 0 && slow.gaps > 0, "{} of {told} events", slow.events);
    let names: Vec<&str> = slow.pods.iter().map(|pod| pod["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["web"], "what is there now");
    place.run("app");
    slow.read(told + 1).await;
    let metrics = place.daemon.get("/metrics").await.text;
    let discarded = format!("larder_pleg_discard_events_total {}\n", slow.missed);
    assert!(metrics.contains(&discarded), "{discarded} in {metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_to_events_and_waits_is_measured() {
    let place = Place::start(&[]).await;
    until("the events are followed", || async { (place.cri.event_streams() == 1).then_some(()) }).await;
    let app = place.run("app");
    let path = "/larder/v1/pods/uid-web/status";
    let wait = place.daemon.get(&format!("{path}?newerThan=2020-01-01T00:00:00Z&timeout=30s")).await;
    assert_eq!(wait.code, 200);
    let late = place.daemon.get(&format!("{path}?newerThan=2999-01-01T00:00:00Z&timeout=10ms")).await;
    assert_eq!(late.code, 504);
    place.cri.containers().exit_container(&app, 3).unwrap();
    until("the events are answered", || async {
        let metrics = place.daemon.get("/metrics").await.text;
        // All of these, each with how often at the least.
        let wanted = [
            ("larder_runtime_event_stream_open", 1),
            ("larder_runtime_event_streams_opened_total", 1),
            ("larder_runtime_events_total", 3),
            ("larder_runtime_events_by_kind_total{kind=\"created\"}", 1),
            ("larder_runtime_events_by_kind_total{kind=\"started\"}", 1),
            ("larder_runtime_events_by_kind_total{kind=\"stopped\"}", 1),
            ("larder_evented_pleg_connection_latency_seconds_count", 3),
            ("larder_pleg_event_answer_duration_seconds_count", 1),
            ("larder_pleg_pod_relists_total", 1),
            ("larder_pleg_inspections_total", 1),
            ("larder_pod_status_waits_total{reason=\"deadline\"}", 1),
            ("larder_cri_call_duration_seconds_count{call=\"ContainerStatus\",result=\"ok\"}", 1),
        ];
        let has = |(name, least): (&str, u64)| {
            let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.is_some_and(|value| value.parse().is_ok_and(|value: u64| value >= least))
        };
        wanted.into_iter().all(has).then_some(())
    })
    .await;
    let metrics = place.daemon.get("/metrics").await.text;
    for none in
        ["larder_runtime_event_streams_lost_total", "larder_pleg_discard_events_total", "larder_pleg_queue_depth"]
    {
        assert!(metrics.contains(&format!("\n{none} 0\n")), "{none} in {metrics}");
    }
    // Lost with the runtime, and counted.
    place.cri.cut_events();
    until("the loss is counted", || async {
        let metrics = place.daemon.get("/metrics").await.text;
        metrics.contains("\nlarder_runtime_event_streams_lost_total 1\n").then_some(())
    })
    .await;
}
