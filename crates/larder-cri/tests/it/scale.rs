//! A full node: 250 pods with 500 containers, in a runtime that takes its time.
//!
//! By the count of calls: how long things take stands in virtual time in larder-pleg's tests, what they cost in
//! `cargo xtask relist-cost`.

use crate::bench::{Bench, NEVER, SOON, events_only, options};
use crate::node::{PODS, full, set_latencies, uid};
use larder_pleg::{PlegObserver, PlegOptions};
use larder_testkit::cri_runtime::{Call, CallFault, CriServerOptions, EventFaults};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

async fn start(options: PlegOptions, observer: Arc<dyn PlegObserver>) -> (Bench, Vec<String>) {
    let (containers, ids) = full();
    let server = CriServerOptions { containers, ..CriServerOptions::default() };
    let bench = Bench::observed(options, server, observer).await;
    bench.until("all pods are inspected", || (bench.cache.uids().len() == PODS).then_some(())).await;
    (bench, ids)
}

/// How many inspections have ended.
#[derive(Default)]
struct Inspections {
    ended: AtomicUsize,
}

impl PlegObserver for Inspections {
    fn relist_duration(&self, _: Duration) {}

    fn relist_interval(&self, _: Duration) {}

    fn pod_relist_duration(&self, _: Duration) {}

    fn event_answered(&self, _: Duration) {}

    fn inspection_duration(&self, _: Duration, _: bool) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

const CALLS: [Call; 5] =
    [Call::Version, Call::ListPodSandbox, Call::ListContainers, Call::PodSandboxStatus, Call::ContainerStatus];

#[tokio::test]
async fn a_relist_without_changes_costs_two_calls() {
    let (bench, _) = start(events_only(), Arc::new(Inspections::default())).await;
    set_latencies(&bench.server);
    let calls = || CALLS.map(|call| bench.server.calls(call).made);
    for _ in 0..3 {
        let (before, relists) = (calls(), bench.pleg.stats().relists);
        bench.pleg.request_relist_of_all();
        bench.until("the relist", || (bench.pleg.stats().relists > relists).then_some(())).await;
        let cost: Vec<u64> = calls().iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(cost, [0, 1, 1, 0, 0]);
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_change_of_one_container_costs_two_lists_of_its_pod_and_one_status() {
    let (bench, ids) = start(events_only(), Arc::new(Inspections::default())).await;
    let calls = || CALLS.map(|call| bench.server.calls(call).made);
    let (before, listed) = (calls(), bench.pleg.stats().pod_relists);
    bench.containers().exit_container(&ids[6], 7).unwrap();
    bench
        .until("the exit", || {
            let entry = bench.entry(&uid(3));
            entry.status()?.containers.iter().find(|container| container.exit_code == 7).map(|_| ())
        })
        .await;
    bench
        .until("its list and inspection", || {
            let stats = bench.pleg.stats();
            (stats.pod_relists > listed && stats.inspections_open == 0).then_some(())
        })
        .await;
    let cost: Vec<u64> = calls().iter().zip(before).map(|(after, before)| after - before).collect();
    assert_eq!(cost, [0, 1, 1, 0, 1]);
    bench.is_true().await.unwrap();
    bench.stop().await;
}

#[tokio::test]
async fn pods_that_all_change_at_once_are_inspected_once_each_at_most_eight_at_a_time() {
    // None gives up its place, however slow the machine is.
    let mut options = events_only();
    options.inspection_patience = NEVER;
    let inspections = Arc::new(Inspections::default());
    let (bench, ids) = start(options, inspections.clone()).await;
    set_latencies(&bench.server);
    inspections.ended.store(0, Ordering::Relaxed);
    // All at once, and nobody is told: the next relist finds them.
    bench.server.set_event_faults(EventFaults { dropped: true, ..EventFaults::default() });
    for id in &ids {
        bench.containers().exit_container(id, 1).unwrap();
    }
    bench.pleg.request_relist_of_all();
    for n in 0..PODS {
        bench
            .until("both have exited", || {
                let entry = bench.entry(&uid(n));
                let all = entry.status()?.containers.iter().all(|container| container.exit_code == 1);
                all.then_some(())
            })
            .await;
    }
    assert_eq!(inspections.ended.load(Ordering::Relaxed), PODS, "none more than once");
    assert!(bench.server.calls(Call::PodSandboxStatus).peak <= 8, "more than eight at a time");
    bench.stop().await;
}

#[tokio::test]
async fn one_hung_pod_among_many_delays_no_others_answer() {
    let (bench, ids) = start(options(), Arc::new(Inspections::default())).await;
    set_latencies(&bench.server);
    bench.server.inject(CallFault::hang().call(Call::ContainerStatus).id(&ids[0]));
    bench.containers().exit_container(&ids[0], 1).unwrap();
    bench.until("its inspection hangs", || (bench.pleg.stats().inspections_open > 0).then_some(())).await;
    // Every inspection of it hangs, to the end.
    for n in (1..PODS).step_by(10) {
        let wait = bench.cache.get_newer_than(uid(n).as_str().into(), bench.now());
        tokio::time::timeout(SOON, wait).await.expect("answered").unwrap();
    }
    let entry = bench.entry(&uid(0));
    assert!(entry.status().unwrap().containers.iter().all(|container| container.exit_code == 0), "{entry:?}");
    bench.stop().await;
}
