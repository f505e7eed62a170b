//! Runtimes that answer oddly: what CRI-O's protocol allows, and lies.

use crate::bench::{Bench, events_only};
use larder_pleg::{ContainerState, SandboxState};
use larder_testkit::cri_runtime::{CriServerOptions, EventFaults, SandboxSpec};

fn crio() -> CriServerOptions {
    CriServerOptions {
        name: "cri-o".into(),
        version: "1.33.0".into(),
        statuses_with_containers: true,
        ..CriServerOptions::default()
    }
}

#[tokio::test]
async fn events_with_an_empty_sandbox_status_are_counted_and_made_up_for() {
    let bench = Bench::start_on(events_only(), crio()).await;
    let (_, app) = bench.pod("u");
    bench.until_state("u", "running").await;
    assert_eq!(bench.entry("u").status().unwrap().containers[0].id.runtime, "cri-o");
    bench.server.set_event_faults(EventFaults {
        without_sandbox: true,
        without_containers: true,
        ..EventFaults::default()
    });
    bench.containers().exit_container(&app, 1).unwrap();
    bench.until_state("u", "exited").await;
    let before = bench.pleg.stats();
    assert_eq!((before.runtime_events_without_pod, before.relists), (1, 1), "looked up by its container");
    bench.pod("new");
    bench.until_state("new", "running").await;
    assert!(bench.pleg.stats().relists > before.relists, "relisted, as no such container was known");
    bench.stop().await;
}

#[tokio::test]
async fn sandboxes_without_metadata_and_containers_without_labels_are_left_out_and_harm_no_other() {
    let bench = Bench::start_on(events_only(), crio()).await;
    let (bare_sandbox, _) = bench.pod("bare");
    let (_, unlabelled) = bench.pod("unlabelled");
    bench.containers().edit_sandbox(&bare_sandbox, |sandbox| sandbox.metadata = None).unwrap();
    bench.containers().edit_container(&unlabelled, |container| container.labels.clear()).unwrap();
    bench.pod("good");
    bench.pleg.request_relist_of_all();
    bench.until_state("good", "running").await;
    let is_so = || {
        let of_sandbox_only = bench.entry("unlabelled").status()?.containers.is_empty();
        let of_container_only = bench.entry("bare").status()?.sandboxes.is_empty();
        (of_sandbox_only && of_container_only).then_some(())
    };
    bench.until("what can be known is known", is_so).await;
    assert_eq!(bench.runtime.stats().skipped_sandboxes, 1);
    bench.is_true().await.unwrap();
    bench.stop().await;
}

#[tokio::test]
async fn times_of_zero_and_values_that_are_not_known_read_as_not_known() {
    let bench = Bench::start_on(events_only(), crio()).await;
    let (sandbox, app) = bench.pod("u");
    bench
        .containers()
        .edit_container(&app, |container| {
            (container.created_at, container.started_at, container.state) = (0, 0, 77);
        })
        .unwrap();
    bench.containers().edit_sandbox(&sandbox, |sandbox| (sandbox.created_at, sandbox.state) = (0, 77)).unwrap();
    bench.pleg.request_relist_of_all();
    bench.until_state("u", "unknown").await;
    let entry = bench.entry("u");
    let status = entry.status().unwrap();
    assert_eq!((status.containers[0].created_at, status.containers[0].state), (0, ContainerState::Unknown));
    assert_eq!((status.sandboxes[0].created_at, status.sandboxes[0].state), (0, SandboxState::Unknown));
    assert_eq!(status.active_sandbox_id, None);
    bench.stop().await;
}

#[tokio::test]
async fn of_duplicate_sandboxes_the_one_of_the_highest_attempt_counts() {
    let bench = Bench::start_on(events_only(), crio()).await;
    let spec = SandboxSpec::new("ns", "web", "u");
    // The newer by its attempt is the older by its time.
    let second = bench.containers().run_sandbox(&spec.clone().attempt(1).ips(&["10.0.0.2"]));
    let first = bench.containers().run_sandbox(&spec.ips(&["10.0.0.1"]));
    let both = || bench.entry("u").status().filter(|status| status.sandboxes.len() == 2).cloned();
    let status = bench.until("both sandboxes", both).await;
    assert_eq!(status.active_sandbox_id.as_deref(), Some(second.as_str()));
    assert_eq!(status.ips, ["10.0.0.2"]);
    assert_eq!(status.sandboxes[1].id, first);
    bench.stop().await;
}

#[tokio::test]
async fn a_sandbox_without_labels_is_its_pods_in_a_relist_of_it_alone_too() {
    let bench = Bench::start_on(events_only(), crio()).await;
    let (sandbox, app) = bench.pod("u");
    bench.until_state("u", "running").await;
    bench.containers().edit_sandbox(&sandbox, |sandbox| sandbox.labels.clear()).unwrap();
    bench.containers().exit_container(&app, 0).unwrap();
    bench.until_state("u", "exited").await;
    assert_eq!(bench.entry("u").status().unwrap().sandboxes.len(), 1);
    bench.stop().await;
}
