//! Faults that were reported of the kubelet's PLEG, and what happens here.

use crate::bench::{Bench, SOON, events_only, options};
use larder_pleg::EventKind;
use larder_testkit::cri_runtime::{Call, CallFault, EventFaults};
use std::time::Duration;

/// One hung inspection passed three minutes, and the node went not ready (kubernetes 94829, 93886).
#[tokio::test]
async fn one_hung_inspection_harms_only_its_own_pod() {
    let period = Duration::from_millis(100);
    let mut options = options();
    options.relist_period = period;
    options.relist_threshold = Duration::from_secs(20);
    let bench = Bench::start(options).await;
    let (_, hung) = bench.pod("hung");
    bench.until_state("hung", "running").await;
    bench.server.inject(CallFault::hang().call(Call::ContainerStatus).id(&hung));
    bench.containers().exit_container(&hung, 1).unwrap();
    bench.until("its inspection hangs", || (bench.server.calls(Call::ContainerStatus).open > 0).then_some(())).await;
    // Everybody else starts, changes, ends and is asked for as ever.
    for n in 0..10 {
        let uid = format!("other{n}");
        let (sandbox, app) = bench.pod(&uid);
        bench.until_state(&uid, "running").await;
        let wait = bench.cache.get_newer_than(uid.as_str().into(), bench.now());
        let entry = tokio::time::timeout(SOON, wait).await.expect("answered").unwrap();
        assert!(entry.status().is_some());
        bench.containers().exit_container(&app, 0).unwrap();
        bench.until_state(&uid, "exited").await;
        bench.containers().remove_sandbox(&sandbox).unwrap();
    }
    assert_eq!(bench.state("hung"), Some("running"), "what is last known of it stays");
    bench.until("it is marked at its deadline", || bench.entry("hung").error().cloned()).await;
    bench.pleg.health().expect("the node is well");
    bench.stop().await;
}

/// An event's partial status overwrote a good one, and containers started twice (kubernetes 123087, 120942).
#[tokio::test]
async fn events_only_ask_and_the_relist_alone_writes() {
    let mut bench = Bench::start(events_only()).await;
    let (_, app) = bench.pod("u");
    bench.until_state("u", "running").await;
    let known = bench.entry("u").status().cloned();
    // The runtime's events know of no containers from here on.
    bench.server.set_event_faults(EventFaults { without_containers: true, repeated: 5, ..EventFaults::default() });
    let (_, _) = bench.pod("v");
    bench.until_state("v", "running").await;
    assert_eq!(bench.entry("u").status().cloned(), known);
    bench.containers().exit_container(&app, 0).unwrap();
    bench.until_state("u", "exited").await;
    assert_eq!(bench.next_event(EventKind::ContainerDied).await.container_id.as_deref(), Some(app.as_str()));
    // Told once, however often the runtime says it.
    bench.pod("w");
    bench.until_state("w", "running").await;
    while let Some(delivery) = bench.events.try_recv() {
        let larder_pleg::Delivery::Event(event) = delivery else { panic!("{delivery:?}") };
        assert_ne!(event.uid, "u".into(), "{event:?}");
    }
    bench.stop().await;
}

/// Waiters waited for the next global tick (kubernetes 124704).
#[tokio::test]
async fn a_pods_relist_wakes_its_waiters() {
    // By its events, and by the wait itself; with no tick to come.
    let bench = Bench::start(events_only()).await;
    let wait = bench.cache.get_newer_than("u".into(), bench.now());
    bench.pod("u");
    assert!(tokio::time::timeout(SOON, wait).await.expect("answered").unwrap().status().is_some());
    bench.stop().await;

    let mut options = events_only();
    options.relist_on_wait = true;
    let bench = Bench::start(options).await;
    bench.server.set_event_faults(EventFaults { dropped: true, ..EventFaults::default() });
    bench.pod("u");
    let wait = bench.cache.get_newer_than("u".into(), bench.now());
    assert!(tokio::time::timeout(SOON, wait).await.expect("answered").unwrap().status().is_some());
    // One that is not there is known as soon.
    let wait = bench.cache.get_newer_than("absent".into(), bench.now());
    assert!(tokio::time::timeout(SOON, wait).await.expect("answered").unwrap().is_empty());
    bench.stop().await;
}

/// Events were lost in a full buffer, or came without a sandbox status (cri-o 7210, containerd 8047).
#[tokio::test]
async fn lost_events_are_counted_and_made_up_for() {
    let mut options = events_only();
    options.relist_queue = std::num::NonZeroUsize::new(4).unwrap();
    let bench = Bench::start(options).await;
    // More at once than the queue holds.
    for n in 0..50 {
        bench.pod(&format!("u{n}"));
    }
    for n in 0..50 {
        bench.until_state(&format!("u{n}"), "running").await;
    }
    assert!(bench.pleg.stats().queue_overflows > 0);
    // Without a sandbox status, and lost with the stream.
    bench.server.set_event_faults(EventFaults {
        without_sandbox: true,
        without_containers: true,
        ..EventFaults::default()
    });
    bench.pod("v");
    bench.until_state("v", "running").await;
    bench.server.set_event_faults(EventFaults { dropped: true, ..EventFaults::default() });
    bench.pod("w");
    bench.server.set_event_faults(EventFaults::default());
    bench.server.cut_events();
    bench.until_state("w", "running").await;
    let stats = bench.pleg.stats();
    assert!(stats.runtime_events_without_pod > 0 && stats.event_streams_lost == 1, "{stats:?}");
    bench.is_true().await.unwrap();
    bench.stop().await;
}

/// A failed list never moves the global time, so that waits hung for as long as the runtime failed.
#[tokio::test]
async fn waits_end_at_their_deadline_and_the_runtimes_error_is_known() {
    let mut options = options();
    options.relist_period = Duration::from_millis(50);
    let bench = Bench::start(options).await;
    bench.pod("u");
    bench.until_state("u", "running").await;
    bench.server.inject(CallFault::fail(tonic::Code::Unavailable, "containerd is restarting"));
    bench.until("the failure is known", || bench.pleg.last_relist().1).await;
    // The second failure from now on is that of a relist which the wait was there for from beginning to end.
    let failed = bench.pleg.stats().relists_failed;
    let deadline =
        bench.until("two more relists have failed", || (bench.pleg.stats().relists_failed >= failed + 2).then_some(()));
    let ended = bench.cache.get_newer_than_or("u".into(), bench.now(), deadline).await.unwrap_err();
    assert!(ended.is_deadline_exceeded());
    assert!(ended.last_known().status().is_some());
    let (relisted, error) = bench.pleg.last_relist();
    assert!(relisted.is_some() && error.unwrap().to_string().contains("containerd is restarting"));
    bench.server.clear_faults();
    let wait = bench.cache.get_newer_than("u".into(), bench.now());
    tokio::time::timeout(SOON, wait).await.expect("answered").unwrap();
    bench.stop().await;
}
