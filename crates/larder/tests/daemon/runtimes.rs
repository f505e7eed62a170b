//! Which container runtime is used, and what runtimes do that do not have all that others have.

use crate::harness::{Daemon, until};
use larder_testkit::cri_runtime::{Call, CallFault, CriServer, CriServerOptions, EventStream, SandboxSpec};
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use tonic::Code;

/// A daemon without a cluster, with this file of settings.
fn daemon(settings: &str, more: &[&str]) -> Daemon {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("manifests")).unwrap();
    fs::write(folder.path().join("larder.yaml"), settings).unwrap();
    let mut arguments = vec!["--config", "larder.yaml", "--manifests", "manifests"];
    arguments.extend(more);
    Daemon::spawn(folder, &arguments)
}

fn run(cri: &CriServer, name: &str, image: &str) {
    let sandbox = cri.containers().run_sandbox(&SandboxSpec::new("shop", name, &format!("uid-{name}")));
    let id = cri.containers().create_container(&sandbox, "app", image).unwrap();
    cri.containers().start_container(&id).unwrap();
}

async fn start(folder: &TempDir, name: &str, pod: &str) -> CriServer {
    let cri = CriServer::start(&folder.path().join(name)).await.unwrap();
    run(&cri, pod, "shop/web:1");
    cri
}

/// As Docker's containerd, which has no CRI plugin.
fn without_cri() -> CallFault {
    CallFault::fail(Code::Unimplemented, "unknown service runtime.v1.RuntimeService")
}

fn search_in(folder: &Path, names: &[&str]) -> String {
    let sockets: Vec<_> = names.iter().map(|name| folder.join(name).display().to_string()).collect();
    format!("runtimeSockets: {}\n", serde_json::to_string(&sockets).unwrap())
}

/// The source `runtime` of the status, and the notes.
async fn status(daemon: &Daemon) -> Option<(serde_json::Value, String)> {
    let report = daemon.try_get("/larder/v1/status").await?.json();
    let source = report["sources"].as_array()?.iter().find(|source| source["name"] == "runtime")?.clone();
    Some((source, report["notes"].to_string()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_without_cri_is_passed_over_and_asked_again_and_again_until_a_runtime_answers() {
    let folder = tempfile::tempdir().unwrap();
    let docker = start(&folder, "containerd.sock", "of-docker").await;
    docker.inject(without_cri());
    let daemon = daemon(&search_in(folder.path(), &["containerd.sock", "crio.sock", "dockerd.sock"]), &[]);
    let (source, _) = until("it says that no runtime answers", async || {
        status(&daemon).await.filter(|(source, _)| source["state"] == "failing")
    })
    .await;
    let error = source["lastError"].as_str().unwrap();
    for part in ["containerd.sock", "does not speak CRI v1", "--runtime-endpoint"] {
        assert!(error.contains(part), "{part} in {error}");
    }
    let asked = docker.calls(Call::Version).made;
    until("it is asked again", async || (docker.calls(Call::Version).made > asked).then_some(())).await;

    let dockerd = start(&folder, "dockerd.sock", "of-dockerd").await;
    daemon.ready().await;
    until("its containers", async || daemon.larder("ps").await.ok().contains("of-dockerd").then_some(())).await;
    let (source, notes) = status(&daemon).await.unwrap();
    assert_eq!((source["from"].as_str().unwrap(), notes.as_str()), (&*dockerd.endpoint(), "null"));
    let asked = docker.calls(Call::Version).made;
    assert!(asked < 30, "at a bounded rate: {asked}");
    until("its events are followed", async || (dockerd.event_streams() == 1).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_answers_later_as_a_runtime_is_taken_then() {
    let folder = tempfile::tempdir().unwrap();
    let cri = start(&folder, "containerd.sock", "web").await;
    let fault = cri.inject(without_cri());
    let daemon = daemon(&search_in(folder.path(), &["missing.sock", "containerd.sock"]), &[]);
    until("it has been asked", async || (cri.calls(Call::Version).made > 1).then_some(())).await;
    assert_eq!(cri.calls(Call::ListPodSandbox).made, 0, "nothing else is asked of it");
    cri.remove_fault(fault);
    daemon.ready().await;
    until("its containers", async || daemon.larder("ps").await.ok().contains("web").then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_runtimes_that_answer_are_reported_and_the_first_is_used_unless_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let first = start(&folder, "containerd.sock", "of-containerd").await;
    let second = start(&folder, "dockerd.sock", "of-dockerd").await;
    let settings = search_in(folder.path(), &["containerd.sock", "dockerd.sock"]);
    let searching = daemon(&settings, &[]);
    searching.ready().await;
    let (source, notes) = status(&searching).await.unwrap();
    assert_eq!(source["from"], first.endpoint());
    for part in [&*first.endpoint(), &*second.endpoint(), "--runtime-endpoint"] {
        assert!(notes.contains(part), "{part} in {notes}");
    }
    let told = searching.larder("status").await.ok();
    assert!(told.contains("note: container runtimes answer at ") && told.contains("healthy"), "{told}");
    searching.logged("container runtimes answer at ").await;

    let named = daemon(&settings, &["--runtime-endpoint", &second.endpoint()]);
    named.ready().await;
    let (source, notes) = status(&named).await.unwrap();
    assert_eq!((source["from"].as_str().unwrap(), notes.as_str()), (&*second.endpoint(), "null"));
    // An endpoint that is named is kept, whatever it answers.
    second.outage().await;
    until("it fails", async || status(&named).await.filter(|(source, _)| source["state"] == "failing")).await;
    second.restore().await.unwrap();
    until("it is back", async || status(&named).await.filter(|(source, _)| source["state"] == "ok")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_that_ends_its_event_stream_at_once_has_no_events_and_loses_none() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        CriServerOptions { events: EventStream::EndsAtOnce, name: "cri-o".into(), ..CriServerOptions::default() };
    let cri = CriServer::start_with(&folder.path().join("crio.sock"), options).await.unwrap();
    run(&cri, "web", "shop/web:1");
    let daemon = daemon("", &["--runtime-endpoint", &cri.endpoint()]);
    daemon.ready().await;
    until("the status says so", async || {
        let told = daemon.larder("status").await.ok();
        (told.contains("note: the container runtime sends no events") && told.contains("every 1s")).then_some(())
    })
    .await;
    let asked = cri.calls(Call::GetContainerEvents).made;
    assert_eq!(asked, 5);
    run(&cri, "other", "shop/web:1");
    until("it is listed", async || daemon.larder("ps").await.ok().contains("other").then_some(())).await;
    let lists = cri.calls(Call::ListPodSandbox).made;
    until("two more lists", async || (cri.calls(Call::ListPodSandbox).made > lists + 1).then_some(())).await;
    assert_eq!(cri.calls(Call::GetContainerEvents).made, asked);
    let metrics = daemon.get("/metrics").await.text;
    for line in ["larder_runtime_event_streams_lost_total 0", "larder_runtime_event_stream_unsupported 1"] {
        assert!(metrics.contains(&format!("\n{line}\n")), "{line} in {metrics}");
    }
    assert_eq!(daemon.log().matches("WARN").count(), 0, "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_whose_event_stream_fails_at_each_open_is_degraded_until_one_works() {
    let folder = tempfile::tempdir().unwrap();
    let cri = start(&folder, "cri.sock", "web").await;
    let fault = CallFault::fail(Code::Internal, "the event plugin is broken").call(Call::GetContainerEvents);
    let fault = cri.inject(fault);
    let daemon = daemon("", &["--runtime-endpoint", &cri.endpoint()]);
    daemon.ready().await;
    let told = until("it is degraded", async || {
        let told = daemon.larder("status -o wide").await.ok();
        told.contains("DEGRADED").then_some(told)
    })
    .await;
    for part in ["runtime: the event stream fails", "every 1s", "the event plugin is broken"] {
        assert!(told.contains(part), "{part} in {told}");
    }
    // The lists answer, so nothing is stale.
    let (source, _) = status(&daemon).await.unwrap();
    assert_eq!(source["state"], "ok");
    assert!(!daemon.get("/larder/v1/pods/uid-web/status").await.is_stale());
    assert!(daemon.get("/metrics").await.text.contains("\nlarder_degraded 1\n"));

    cri.remove_fault(fault);
    until("a stream is open", async || (cri.event_streams() == 1).then_some(())).await;
    run(&cri, "other", "shop/web:1");
    until("it is healthy", async || daemon.larder("status").await.ok().contains("healthy").then_some(())).await;
}

const PODS: usize = 12;
const CONTAINERS: usize = 36;

/// Containers that are more than 16 MiB together, each with the name of an image that long.
async fn large(folder: &TempDir, streaming_lists: bool) -> CriServer {
    let options = CriServerOptions { streaming_lists, ..CriServerOptions::default() };
    let cri = CriServer::start_with(&folder.path().join("cri.sock"), options).await.unwrap();
    let image = "x".repeat(40 << 10);
    assert!(PODS * CONTAINERS * image.len() > 16 << 20);
    for n in 0..PODS {
        let sandbox = cri.containers().run_sandbox(&SandboxSpec::new("shop", &format!("p{n}"), &format!("u{n}")));
        for m in 0..CONTAINERS {
            let id = cri.containers().create_container(&sandbox, &format!("c{m}"), &image).unwrap();
            cri.containers().start_container(&id).unwrap();
        }
    }
    cri
}

async fn until_all_run(daemon: &Daemon) {
    daemon.ready().await;
    until("all containers", async || {
        let report = daemon.get("/larder/v1/status").await.json();
        (report["counts"]["containers"]["running"] == PODS * CONTAINERS).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_above_16_mib_are_refused_with_the_setting_that_takes_them() {
    let folder = tempfile::tempdir().unwrap();
    let cri = large(&folder, false).await;
    let refusing = daemon("", &["--runtime-endpoint", &cri.endpoint()]);
    let (source, _) = until("the list is refused", async || {
        status(&refusing).await.filter(|(source, _)| source["lastError"].is_string())
    })
    .await;
    assert!(source["lastError"].as_str().unwrap().contains("cri.maxMessageBytes"), "{source}");
    drop(refusing);

    let taking = daemon("cri: {maxMessageBytes: 67108864}\n", &["--runtime-endpoint", &cri.endpoint()]);
    until_all_run(&taking).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streamed_lists_have_no_limit() {
    let folder = tempfile::tempdir().unwrap();
    let cri = large(&folder, true).await;
    until_all_run(&daemon("", &["--runtime-endpoint", &cri.endpoint()])).await;
}
