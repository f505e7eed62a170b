//! A full node: 250 pods with 500 containers, in a runtime that takes its time.

use crate::bench::{Bench, SOON, events_only, options};
use larder_clock::{Clock as _, MonotonicClock};
use larder_cri::{CriOptions, CriRuntime, parse_endpoint};
use larder_pleg::{Pleg, PlegObserver, PlegOptions};
use larder_pod_status::{Options, pod_status_cache};
use larder_testkit::cri_runtime::{Call, CallFault, Containers, CriServer, CriServerOptions, EventFaults, SandboxSpec};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

const PODS: usize = 250;

/// Pods of two containers each, which run; the containers.
fn full() -> (Containers, Vec<String>) {
    let containers = Containers::new();
    let mut ids = Vec::new();
    for n in 0..PODS {
        let uid = format!("00000000-0000-4000-8000-{n:012}");
        let sandbox = containers.run_sandbox(&SandboxSpec::new("ns", &format!("web-{n}"), &uid));
        for name in ["app", "sidecar"] {
            let id = containers.create_container(&sandbox, name, "registry.example/shop/app:1.2.3").unwrap();
            containers.start_container(&id).unwrap();
            ids.push(id);
        }
    }
    (containers, ids)
}

fn uid(n: usize) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

/// As a containerd with that many pods has them.
fn set_latencies(bench: &Bench) {
    let ms = Duration::from_millis;
    bench.server.set_latency(Call::ListPodSandbox, ms(5)..=ms(15));
    bench.server.set_latency(Call::ListContainers, ms(8)..=ms(25));
    bench.server.set_latency(Call::PodSandboxStatus, ms(2)..=ms(10));
    bench.server.set_latency(Call::ContainerStatus, ms(2)..=ms(20));
}

async fn start(options: PlegOptions, observer: Arc<dyn PlegObserver>) -> (Bench, Vec<String>) {
    let (containers, ids) = full();
    let server = CriServerOptions { containers, ..CriServerOptions::default() };
    let bench = Bench::observed(options, server, observer).await;
    bench.until("all pods are inspected", || (bench.cache.uids().len() == PODS).then_some(())).await;
    (bench, ids)
}

/// The ends of inspections, and how long each took.
#[derive(Default)]
struct Inspections {
    clock: MonotonicClock,
    /// The clock's nanoseconds at its end, and how long it took.
    ended: Mutex<Vec<(i128, Duration)>>,
}

impl PlegObserver for Inspections {
    fn inspection_duration(&self, duration: Duration, _: bool) {
        self.ended.lock().push((self.clock.now().as_nanos(), duration));
    }
}

const CALLS: [Call; 5] =
    [Call::Version, Call::ListPodSandbox, Call::ListContainers, Call::PodSandboxStatus, Call::ContainerStatus];

#[tokio::test]
async fn a_relist_without_changes_costs_two_calls() {
    let (bench, _) = start(events_only(), Arc::new(Inspections::default())).await;
    set_latencies(&bench);
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
async fn a_change_of_one_container_costs_two_lists_of_its_pod_and_two_statuses() {
    let (bench, ids) = start(events_only(), Arc::new(Inspections::default())).await;
    let calls = || CALLS.map(|call| bench.server.calls(call).made);
    let before = calls();
    bench.containers().exit_container(&ids[6], 7).unwrap();
    bench
        .until("the exit", || {
            let entry = bench.entry(&uid(3));
            entry.status()?.containers.iter().find(|container| container.exit_code == 7).map(|_| ())
        })
        .await;
    let cost: Vec<u64> = calls().iter().zip(before).map(|(after, before)| after - before).collect();
    assert_eq!(cost, [0, 1, 1, 1, 1]);
    bench.is_true().await.unwrap();
    bench.stop().await;
}

/// What this thread has worked.
fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

#[tokio::test]
async fn a_relist_without_changes_takes_little_work() {
    // The runtime works in a thread of its own, so that all that this one works is larder's.
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("cri.sock");
    let (ready, is_ready) = tokio::sync::oneshot::channel();
    let (end, ending) = tokio::sync::oneshot::channel::<()>();
    let path = socket.clone();
    let server = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let options = CriServerOptions { containers: full().0, ..CriServerOptions::default() };
            let server = CriServer::start_with(&path, options).await.unwrap();
            ready.send(server.endpoint()).unwrap();
            ending.await.unwrap();
            server.shutdown().await;
        });
    });
    let endpoint = parse_endpoint(&is_ready.await.unwrap()).unwrap();
    let runtime = CriRuntime::new(endpoint, CriOptions::default()).unwrap();
    let (writer, cache) = pod_status_cache(Options::default());
    let pleg = Pleg::new(Arc::new(runtime), MonotonicClock::new(), writer, options()).unwrap();
    pleg.relist().await;
    assert_eq!(cache.uids().len(), PODS);
    let mut each = Vec::new();
    for _ in 0..20 {
        let before = worked();
        pleg.relist().await;
        each.push(worked().saturating_sub(before));
    }
    each.sort();
    println!("CPU of a relist of {PODS} pods: median {:?}, most {:?}", each[10], each[19]);
    // Without optimization, protobuf costs several times as much.
    let most = Duration::from_millis(if cfg!(debug_assertions) { 50 } else { 10 });
    assert!(each[10] <= most, "{each:?}");
    end.send(()).unwrap();
    server.join().unwrap();
}

#[tokio::test]
async fn pods_that_all_change_at_once_are_inspected_eight_at_a_time_without_a_pause() {
    let inspections = Arc::new(Inspections::default());
    let (bench, ids) = start(events_only(), inspections.clone()).await;
    set_latencies(&bench);
    inspections.ended.lock().clear();
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
    let ended = inspections.ended.lock().clone();
    assert_eq!(ended.len(), PODS);
    let (slowest, total): (Duration, Duration) =
        (ended.iter().map(|end| end.1).max().unwrap(), ended.iter().map(|end| end.1).sum());
    let first = ended.iter().map(|(at, took)| at - i128::try_from(took.as_nanos()).unwrap()).min().unwrap();
    let last = ended.iter().map(|end| end.0).max().unwrap();
    let took = Duration::from_nanos(u64::try_from(last - first).unwrap());
    // The work of all of them for eight, of which none is ever idle, and the slowest as the last.
    let most = slowest + total / 8;
    assert!(took <= most, "{took:?}, more than {most:?} for {} inspections", ended.len());
    bench.stop().await;
}

#[tokio::test]
async fn one_hung_pod_among_many_delays_no_others_answer() {
    let (bench, ids) = start(options(), Arc::new(Inspections::default())).await;
    set_latencies(&bench);
    bench.server.inject(CallFault::hang().call(Call::ContainerStatus).id(&ids[0]));
    bench.containers().exit_container(&ids[0], 1).unwrap();
    bench.until("its inspection hangs", || (bench.pleg.stats().inspections_open > 0).then_some(())).await;
    let mut slowest = Duration::ZERO;
    for n in (1..PODS).step_by(10) {
        let asked = bench.now();
        let wait = bench.cache.get_newer_than(uid(n).as_str().into(), asked);
        tokio::time::timeout(SOON, wait).await.expect("answered").unwrap();
        slowest = slowest.max(bench.now().saturating_duration_since(asked));
    }
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    bench.stop().await;
}
