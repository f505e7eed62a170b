//! A full node, in virtual time: how long it takes is a matter of the calls alone.

use super::fake::{Called, pod};
use super::single::{Loop, MOMENT, PERIOD};
use crate::ContainerState::{Exited, Running};
use crate::{ContainerState, PlegOptions, RuntimePod};
use futures_util::future::join_all;
use larder_clock::Clock;
use std::num::NonZeroUsize;
use std::time::Duration;

const PODS: u32 = 250;
const AT_ONCE: u32 = 8;
const LIST: Duration = Duration::from_millis(30);
const LIST_OF_ONE: Duration = Duration::from_millis(4);

/// As the daemon has it, and nothing given up.
fn options() -> PlegOptions {
    PlegOptions {
        independent_pods: true,
        inspection_concurrency: NonZeroUsize::new(AT_ONCE.try_into().unwrap()).unwrap(),
        inspection_deadline: Some(Duration::from_secs(10)),
        ..PlegOptions::default()
    }
}

fn uid(n: u32) -> String {
    format!("pod{n}")
}

fn pods(state: ContainerState) -> Vec<RuntimePod> {
    (0..PODS).map(|n| pod(&uid(n), &[(&format!("a{n}"), state), (&format!("b{n}"), state)])).collect()
}

/// From 4 to 63 ms, and for a few of them 400 ms.
fn latency(n: u32) -> Duration {
    Duration::from_millis(if n % 97 == 5 { 400 } else { u64::from(4 + n * 37 % 60) })
}

fn set_latencies(it: &Loop) {
    it.bench.runtime.set_latency(|call| match call {
        Called::Pods => LIST,
        Called::Pod(_) | Called::Container(_) => LIST_OF_ONE,
        Called::Status(uid) => latency(uid.to_string().trim_start_matches("pod").parse().unwrap()),
    });
}

#[tokio::test(start_paused = true)]
async fn pods_that_all_change_at_once_are_known_within_the_slowest_and_an_eighth_of_all() {
    let it = Loop::start(options()).await;
    it.bench.runtime.set(pods(Running));
    tokio::time::advance(PERIOD).await;
    join_all((0..PODS).map(|n| it.newer(&uid(n)))).await;
    it.bench.runtime.set(pods(Exited));
    set_latencies(&it);
    it.bench.runtime.take_called();

    // The next relist finds them.
    let began = it.clock.now();
    join_all((0..PODS).map(|n| it.newer(&uid(n)))).await;
    let took = it.clock.now().saturating_duration_since(began).saturating_sub(PERIOD + LIST);
    let total: Duration = (0..PODS).map(latency).sum();
    let slowest = (0..PODS).map(latency).max().unwrap();
    assert!(took <= slowest + total / AT_ONCE, "{took:?}, with {slowest:?} and {total:?}");
    assert!(took >= total / AT_ONCE, "{took:?}: more than {AT_ONCE} at once, or not all of them");
    assert_eq!(it.bench.runtime.most_inspecting(), usize::try_from(AT_ONCE).unwrap());
    for n in 0..PODS {
        let entry = it.bench.cache.get(&uid(n).as_str().into());
        assert!(entry.status().unwrap().containers.iter().all(|container| container.state == Exited), "{n}");
    }
    let inspections = it.bench.runtime.take_called().iter().filter(|call| matches!(call, Called::Status(_))).count();
    assert_eq!(inspections, usize::try_from(PODS).unwrap());
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hung_pod_delays_the_answer_of_no_other() {
    let it = Loop::start(options()).await;
    it.bench.runtime.set(pods(Running));
    tokio::time::advance(PERIOD).await;
    join_all((0..PODS).map(|n| it.newer(&uid(n)))).await;
    tokio::time::advance(MOMENT).await;
    set_latencies(&it);
    it.bench.runtime.hang(Some("pod0"), true);
    let mut now = pods(Running);
    now[0] = pods(Exited).swap_remove(0);
    it.bench.runtime.set(now);
    it.bench.pleg.request_relist(uid(0).as_str().into());
    for n in 1..PODS {
        let asked = it.clock.now();
        let wait = it.newer(&uid(n));
        it.bench.pleg.request_relist(uid(n).as_str().into());
        wait.await.unwrap();
        let took = it.clock.now().saturating_duration_since(asked);
        // Its own list, and at the worst the list of all, or of another pod, that is under way.
        assert!(took <= LIST_OF_ONE + LIST, "pod{n}: {took:?}");
    }
    it.stop().await;
}
