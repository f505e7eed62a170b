//! The event stream, and what can go wrong with it.

use crate::bench::{Bench, SOON, events_only, options};
use futures_util::StreamExt as _;
use larder_cri::{CriOptions, CriRuntime, parse_endpoint};
use larder_pleg::{EventKind, EventSource as _};
use larder_testkit::cri_runtime::{Call, CallFault, CriServerOptions, EventFaults, EventStream, SandboxSpec};
use std::pin::pin;
use std::time::Duration;
use tonic::Code;

#[tokio::test]
async fn created_started_stopped_and_deleted_are_seen_by_their_events_alone() {
    let mut bench = Bench::start(events_only()).await;
    let sandbox = bench.containers().run_sandbox(&SandboxSpec::new("ns", "web", "u"));
    bench.until("the sandbox", || bench.entry("u").status().cloned()).await;
    let app = bench.containers().create_container(&sandbox, "app", "app:1").unwrap();
    bench.until_state("u", "created").await;
    bench.containers().start_container(&app).unwrap();
    bench.until_state("u", "running").await;
    bench.containers().exit_container(&app, 3).unwrap();
    bench.until_state("u", "exited").await;
    assert_eq!(bench.next_event(EventKind::ContainerDied).await.exit_code, Some(3));
    bench.containers().remove_sandbox(&sandbox).unwrap();
    bench.until("the pod is gone", || bench.entry("u").is_empty().then_some(())).await;
    // All of it by relists of the pod alone.
    assert_eq!(bench.pleg.stats().relists, 1);
    assert_eq!(bench.pleg.stats().event_streams_lost, 0);
    bench.is_true().await.unwrap();
    bench.stop().await;
}

#[tokio::test]
async fn the_container_that_an_event_is_of_is_told_before_its_pod_is_listed() {
    let mut options = events_only();
    options.relist_on_wait = true;
    let bench = Bench::start(options).await;
    // Known by a wait alone: no event of its start is left to be answered.
    bench.server.set_event_faults(EventFaults { dropped: true, ..EventFaults::default() });
    let (_, app) = bench.pod("u");
    let wait = bench.cache.get_newer_than("u".into(), bench.now());
    tokio::time::timeout(SOON, wait).await.expect("answered").unwrap();
    bench.server.set_event_faults(EventFaults::default());
    let before = bench.server.calls(Call::ContainerStatus).made;
    // The list of its pod is not answered yet.
    bench.server.inject(CallFault::hang().call(Call::ListContainers));
    let listed = bench.pleg.stats().pod_relists;
    bench.containers().exit_container(&app, 3).unwrap();
    bench.until_state("u", "exited").await;
    assert_eq!(bench.pleg.stats().pod_relists, listed);
    bench.server.clear_faults();
    bench.until("the list", || (bench.pleg.stats().pod_relists > listed).then_some(())).await;
    assert_eq!(bench.server.calls(Call::ContainerStatus).made, before + 1, "once is enough");
    bench.is_true().await.unwrap();
    bench.stop().await;
}

#[tokio::test]
async fn repeated_late_partial_and_unknown_events_do_no_harm() {
    for faults in [
        EventFaults { repeated: 20, ..EventFaults::default() },
        EventFaults { late: Duration::from_millis(50), ..EventFaults::default() },
        EventFaults { without_containers: true, ..EventFaults::default() },
        EventFaults { without_sandbox: true, ..EventFaults::default() },
        EventFaults { without_sandbox: true, without_containers: true, ..EventFaults::default() },
        EventFaults { unknown_type: true, ..EventFaults::default() },
    ] {
        let bench = Bench::start(events_only()).await;
        bench.server.set_event_faults(faults);
        let (sandbox, app) = bench.pod("u");
        bench.until_state("u", "running").await;
        bench.containers().exit_container(&app, 0).unwrap();
        bench.until_state("u", "exited").await;
        bench.containers().remove_sandbox(&sandbox).unwrap();
        bench.until("the pod is gone", || bench.entry("u").is_empty().then_some(())).await;
        bench.stop().await;
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_is_made_up_for_by_a_relist_and_opened_again() {
    let bench = Bench::start(events_only()).await;
    let (_, app) = bench.pod("u");
    bench.until_state("u", "running").await;
    // Of what happens now nobody is told, until the stream breaks.
    bench.server.set_event_faults(EventFaults { dropped: true, ..EventFaults::default() });
    bench.containers().exit_container(&app, 0).unwrap();
    bench.server.set_event_faults(EventFaults::default());
    bench.server.cut_events();
    bench.until_state("u", "exited").await;
    bench.until("another stream", || (bench.server.event_streams() == 1).then_some(())).await;
    assert_eq!(bench.pleg.stats().event_streams_lost, 1);
    bench.pod("v");
    bench.until_state("v", "running").await;
    bench.stop().await;
}

#[tokio::test]
async fn a_runtime_that_restarts_has_its_events_followed_again() {
    let bench = Bench::start(events_only()).await;
    for n in 0..7 {
        bench.server.outage().await;
        bench
            .until("the loss is noticed", || {
                let stats = bench.pleg.stats();
                (stats.event_streams_lost > n && !stats.event_stream_open).then_some(())
            })
            .await;
        bench.server.restore().await.unwrap();
        bench.until("a stream", || (bench.server.event_streams() == 1).then_some(())).await;
        let uid = format!("u{n}");
        bench.pod(&uid);
        bench.until_state(&uid, "running").await;
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_runtime_without_events_is_relisted_every_period() {
    for (events, made) in [(EventStream::Unimplemented, 1), (EventStream::EndsAtOnce, 5)] {
        follow_without_events(events, made).await;
    }
}

async fn follow_without_events(events: EventStream, made: u64) {
    let period = Duration::from_millis(50);
    let server = CriServerOptions { events, ..CriServerOptions::default() };
    let mut options = options();
    options.relist_period = period;
    let bench = Bench::start_on(options, server).await;
    let (_, app) = bench.pod("u");
    bench.until_state("u", "running").await;
    bench.containers().exit_container(&app, 0).unwrap();
    bench.until_state("u", "exited").await;
    let stats = bench.pleg.stats();
    assert_eq!((stats.runtime_events, stats.event_streams_lost), (0, 0));
    bench.until("it is known", || bench.pleg.stats().event_stream_unsupported.then_some(())).await;
    assert_eq!(bench.server.calls(Call::GetContainerEvents).made, made);
    // The runtime may be another one after a restart: it is asked once more.
    bench.server.outage().await;
    bench.until("the outage is noticed", || bench.pleg.last_relist().1).await;
    bench.server.restore().await.unwrap();
    let asked = || (bench.server.calls(Call::GetContainerEvents).made == made + 1).then_some(());
    bench.until("it is asked again", asked).await;
    assert_eq!(bench.pleg.stats().event_streams_lost, 0);
    bench.stop().await;
}

#[tokio::test]
async fn a_stream_that_cannot_be_opened_says_why() {
    for (code, kind, text) in [
        (Code::Unimplemented, "unsupported", "the container runtime does not have this: told to"),
        (Code::Internal, "failed", "the container runtime answered Internal: told to"),
        (Code::Unavailable, "unavailable", "no connection to the container runtime"),
    ] {
        let bench = Bench::start(events_only()).await;
        bench.server.inject(CallFault::fail(code, "told to").call(Call::GetContainerEvents));
        let client = CriRuntime::new(parse_endpoint(&bench.server.endpoint()).unwrap(), CriOptions::default()).unwrap();
        let error = pin!(client.events()).next().await.expect("an end").unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().starts_with("GetContainerEvents: ") && error.to_string().contains(text), "{error}");
        bench.stop().await;
    }
}
