//! Whatever has gone wrong: one relist after it has ended, the cache is what the runtime is.

use super::fake::{Bench, Called, FakeRuntime, container, pod};
use crate::queue::EventTarget;
use crate::{ContainerState, Delivery, EventKind, PlegOptions, SandboxState};
use larder_clock::{Clock, TokioClock, VirtualClock};
use larder_pod_status::PodUid;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const PODS: usize = 3;
const CONTAINERS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    /// The pod exists with a sandbox, ready or not, and these containers; or not at all.
    Set(usize, Option<(bool, [Option<ContainerState>; CONTAINERS])>),
    /// Inspections of a pod, or lists, fail or no longer do.
    Fail(Option<usize>, bool),
    /// Inspections of a pod, or lists, hang or no longer do; a relist meanwhile is cut short.
    Hang(Option<usize>, bool),
    /// The pod has an address or none.
    Ips(usize, bool),
    Reinspect(usize),
    /// A relist of all pods, cut short after that many polls.
    Relist(Option<usize>),
    /// A relist of one pod.
    RelistPod(usize),
}

fn uid(n: usize) -> String {
    format!("pod{n}")
}

fn state() -> impl Strategy<Value = ContainerState> {
    prop::sample::select(ContainerState::ALL.to_vec())
}

fn step() -> impl Strategy<Value = Step> {
    let some_pod = prop::option::weighted(0.7, 0..PODS);
    let content = (any::<bool>(), prop::array::uniform3(prop::option::of(state())));
    prop_oneof![
        4 => (0..PODS, prop::option::weighted(0.8, content)).prop_map(|(n, content)| Step::Set(n, content)),
        2 => (some_pod.clone(), any::<bool>()).prop_map(|(n, yes)| Step::Fail(n, yes)),
        1 => (some_pod, any::<bool>()).prop_map(|(n, yes)| Step::Hang(n, yes)),
        1 => (0..PODS, any::<bool>()).prop_map(|(n, yes)| Step::Ips(n, yes)),
        1 => (0..PODS).prop_map(Step::Reinspect),
        4 => prop::option::weighted(0.3, 0_usize..8).prop_map(Step::Relist),
        2 => (0..PODS).prop_map(Step::RelistPod),
    ]
}

/// Polls until it is ready, or that often at most.
async fn poll_up_to<F: Future<Output = ()>>(future: F, times: usize) {
    tokio::pin!(future);
    for _ in 0..times {
        if futures_util::poll!(&mut future).is_ready() {
            return;
        }
    }
}

async fn run(steps: Vec<Step>, concurrency: usize) {
    let clock = VirtualClock::default();
    let options =
        PlegOptions { inspection_concurrency: NonZeroUsize::new(concurrency).unwrap(), ..PlegOptions::default() };
    let mut bench = Bench::new(clock.clone(), options);
    let runtime = bench.runtime.clone();
    let mut readdressed = BTreeSet::new();
    for step in steps {
        clock.advance(Duration::from_secs(1));
        match step {
            Step::Set(n, content) => set(&runtime, n, content),
            Step::Fail(n, yes) => runtime.fail(n.map(uid).as_deref(), yes),
            Step::Hang(n, yes) => runtime.hang(n.map(uid).as_deref(), yes),
            Step::Ips(n, yes) => {
                runtime.set_ips(&uid(n), if yes { &["10.0.0.1"] } else { &[] });
                readdressed.insert(n);
            }
            Step::Reinspect(n) => bench.pleg.request_reinspect(&uid(n).as_str().into()),
            Step::Relist(polls) => poll_up_to(bench.pleg.relist(), polls.unwrap_or(200)).await,
            Step::RelistPod(n) => poll_up_to(bench.pleg.relist_pod(&uid(n).as_str().into()), 200).await,
        }
    }
    for n in [None].into_iter().chain((0..PODS).map(|n| Some(uid(n)))) {
        runtime.fail(n.as_deref(), false);
        runtime.hang(n.as_deref(), false);
    }
    // An address alone is not a change of state that a relist would see, so such a pod is asked for.
    for n in readdressed {
        bench.pleg.request_reinspect(&uid(n).as_str().into());
    }
    bench.pleg.relist().await;
    check(&mut bench);

    runtime.take_called();
    bench.pleg.relist().await;
    assert_eq!(runtime.take_called(), [Called::Pods], "nothing is left to inspect");
    assert_eq!(bench.take_events(), []);
}

/// The same with the loop that brings each pod up to date on its own, events included: some come, of a container or of none,
/// some are lost.
async fn run_loop(steps: Vec<Step>, tells: Vec<Option<usize>>, keep_unchanged: bool) {
    let options = PlegOptions {
        independent_pods: true,
        keep_unchanged,
        inspection_concurrency: NonZeroUsize::new(2).unwrap(),
        inspection_deadline: Some(Duration::from_secs(10)),
        ..PlegOptions::default()
    };
    let period = options.relist_period;
    let mut bench = Bench::new(TokioClock::new(), options.clone());
    let (runtime, pleg) = (bench.runtime.clone(), bench.pleg.clone());
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let task = tokio::spawn(async move { pleg.run(token).await });
    let mut readdressed = BTreeSet::new();
    for (step, tell) in steps.into_iter().zip(tells) {
        let touched = match &step {
            Step::Set(n, _) => Some(*n),
            _ => None,
        };
        match step {
            Step::Set(n, content) => set(&runtime, n, content),
            Step::Fail(n, yes) => runtime.fail(n.map(uid).as_deref(), yes),
            Step::Hang(n, yes) => runtime.hang(n.map(uid).as_deref(), yes),
            Step::Ips(n, yes) => {
                runtime.set_ips(&uid(n), if yes { &["10.0.0.1"] } else { &[] });
                readdressed.insert(n);
            }
            Step::Reinspect(n) => bench.pleg.request_reinspect(&uid(n).as_str().into()),
            Step::Relist(polls) => tokio::time::sleep(period * u32::try_from(polls.unwrap_or(1)).unwrap()).await,
            Step::RelistPod(n) => bench.pleg.request_relist(uid(n).as_str().into()),
        }
        if let (Some(n), Some(m)) = (touched, tell) {
            let (pod, at) = (PodUid::from(uid(n).as_str()), bench.pleg.clock.now());
            if m < CONTAINERS {
                bench.pleg.queue.push_target(EventTarget { pod: pod.clone(), container: format!("c{n}-{m}"), at });
            }
            bench.pleg.queue.push_event(pod, at);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for n in [None].into_iter().chain((0..PODS).map(|n| Some(uid(n)))) {
        runtime.fail(n.as_deref(), false);
        runtime.hang(n.as_deref(), false);
    }
    for n in readdressed {
        bench.pleg.request_reinspect(&uid(n).as_str().into());
    }
    // One relist, which may be of a pod whose pause after a failure has to end first.
    tokio::time::sleep(options.inspection_backoff_max + period * 2).await;
    let now = bench.pleg.clock.now();
    let global = bench.cache.times(&"none".into()).global.expect("relisted");
    assert!(now.saturating_duration_since(global) <= period, "the global time moves on");
    check(&mut bench);
    runtime.take_called();
    tokio::time::sleep(period).await;
    assert_eq!(runtime.take_called(), [Called::Pods], "nothing is left to inspect");
    cancel.cancel();
    task.await.unwrap();
}

fn set(runtime: &FakeRuntime, n: usize, content: Option<(bool, [Option<ContainerState>; CONTAINERS])>) {
    let mut pods = runtime.pods_now();
    pods.retain(|pod| pod.uid != uid(n).as_str().into());
    if let Some((ready, containers)) = content {
        let mut pod = pod(&uid(n), &[]);
        let sandbox = if ready { ContainerState::Running } else { ContainerState::Exited };
        pod.sandboxes = vec![container(&format!("s{n}"), sandbox)];
        pod.containers = containers
            .iter()
            .enumerate()
            .filter_map(|(m, state)| Some(container(&format!("c{n}-{m}"), (*state)?)))
            .collect();
        pods.push(pod);
    }
    runtime.set(pods);
}

fn check<C: Clock>(bench: &mut Bench<C>) {
    let pods = bench.runtime.pods_now();
    let mut expected: Vec<PodUid> = pods.iter().map(|pod| pod.uid.clone()).collect();
    expected.sort();
    let mut cached = bench.cache.uids();
    cached.sort();
    assert_eq!(cached, expected);
    for pod in &pods {
        let entry = bench.cache.get(&pod.uid);
        assert_eq!(entry.error(), None);
        let mut status = (**entry.status().expect("a status")).clone();
        let truth = bench.runtime.truth(&pod.uid).unwrap();
        // The last known address may stay where no sandbox is ready.
        if truth.ips.is_empty() && truth.sandboxes.iter().all(|sandbox| sandbox.state != SandboxState::Ready) {
            status.ips.clear();
        }
        assert_eq!(status, truth);
    }

    // Whoever has followed the events knows which containers run, and which have exited.
    let (mut running, mut exited) = (BTreeSet::new(), BTreeSet::new());
    while let Some(delivery) = bench.events.try_recv() {
        let Delivery::Event(event) = delivery else { panic!("{delivery:?}") };
        let Some(id) = event.container_id.clone() else {
            assert_eq!(event.kind, EventKind::PodSync);
            continue;
        };
        match event.kind {
            EventKind::ContainerStarted => {
                exited.remove(&id);
                running.insert(id);
            }
            EventKind::ContainerDied => {
                running.remove(&id);
                exited.insert(id);
            }
            EventKind::ContainerRemoved => {
                assert!(exited.remove(&id), "{id} was removed, but had not died");
            }
            kind => panic!("{kind} was delivered"),
        }
    }
    let truth: BTreeMap<String, ContainerState> = pods
        .iter()
        .flat_map(|pod| pod.containers.iter().chain(&pod.sandboxes))
        .map(|container| (container.id.clone(), container.state))
        .collect();
    for (id, state) in &truth {
        match state {
            ContainerState::Running => assert!(running.contains(id), "{id} runs"),
            ContainerState::Exited => assert!(exited.contains(id), "{id} has exited"),
            // Not told of; the last that was may stand.
            ContainerState::Created | ContainerState::Unknown => {}
        }
    }
    for id in running.iter().chain(&exited) {
        assert!(truth.contains_key(id), "{id} is gone, and nobody was told");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn one_relist_after_the_last_fault_the_cache_equals_the_runtime(
        steps in prop::collection::vec(step(), 0..40),
        concurrency in 1_usize..4,
    ) {
        let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
        tokio.block_on(run(steps, concurrency));
    }

    #[test]
    fn independent_pods_are_as_true_with_events_and_without(
        steps in prop::collection::vec(step(), 0..40),
        tells in prop::collection::vec(prop::option::of(0..=CONTAINERS), 40),
        keep_unchanged in any::<bool>(),
    ) {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        tokio.block_on(run_loop(steps, tells, keep_unchanged));
    }
}
