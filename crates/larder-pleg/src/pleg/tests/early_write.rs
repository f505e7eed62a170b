//! The status of the container that an event is of, in its pod's entry before the pod has been listed.

use super::fake::{Called, events, pod};
use super::single::{Loop, MOMENT, PERIOD, settle};
use crate::ContainerState::{Created, Exited, Running, Unknown};
use crate::EventKind::{ContainerDied, ContainerStarted};
use crate::queue::EventTarget;
use crate::{ContainerState, PlegOptions, PodStatus};
use futures_util::FutureExt;
use larder_clock::Clock;
use std::sync::Arc;
use std::time::Duration;

/// A pod with two containers that run and one that is to be started, known for a while; nothing is asked for but what the
/// test has asked for.
async fn known() -> Loop {
    let options = PlegOptions {
        independent_pods: true,
        keep_unchanged: true,
        keep_last_status: true,
        inspection_deadline: Some(Duration::from_secs(10)),
        ..PlegOptions::default()
    };
    let mut it = Loop::start(options).await;
    show(&it, Running, Created);
    it.bench.pleg.request_relist_of_all();
    tokio::time::advance(PERIOD).await;
    settle().await;
    tokio::time::advance(MOMENT).await;
    it.bench.runtime.take_called();
    it.bench.take_events();
    it
}

fn show(it: &Loop, b: ContainerState, c: ContainerState) {
    it.bench.runtime.set(vec![pod("u", &[("a", Running), ("b", b), ("c", c)])]);
}

fn tell(it: &Loop, container: &str) {
    let at = it.clock.now();
    it.bench.pleg.queue.push_target(EventTarget { pod: "u".into(), container: container.into(), at });
    it.bench.pleg.queue.push_event("u".into(), at);
}

fn states(it: &Loop) -> Vec<ContainerState> {
    let entry = it.bench.cache.get(&"u".into());
    entry.status().expect("a status").containers.iter().map(|container| container.state).collect()
}

fn assert_true(it: &Loop) {
    let truth: Option<PodStatus> = it.bench.runtime.truth(&"u".into());
    assert_eq!(it.bench.cache.get(&"u".into()).status().cloned(), truth.map(Arc::new));
}

#[tokio::test(start_paused = true)]
async fn who_follows_the_pod_has_it_before_the_list_and_who_waits_for_something_newer_has_not() {
    let mut it = known().await;
    let before = it.bench.cache.times(&"u".into());
    it.bench.runtime.hang(None, true);
    let mut writes = it.bench.pleg.watch_writes();
    show(&it, Exited, Created);
    let mut newer = it.newer("u");
    tell(&it, "b");
    settle().await;

    assert_eq!(states(&it), [Running, Exited, Created]);
    assert_eq!(it.bench.cache.get(&"u".into()).status().unwrap().containers[1].exit_code, 3);
    assert_eq!(writes.written(&"u".into()).now_or_never(), Some(true), "who follows the pod is woken");
    let ahead = it.bench.cache.times(&"u".into());
    assert!(ahead.modified > before.modified, "so that a wait for a change ends");
    assert!(ahead.modified < Some(it.clock.now()), "the rest of the pod is not known as of now");
    assert!((&mut newer).now_or_never().is_none(), "what is newer is known with the list");
    assert_eq!(it.bench.take_events(), [], "told with the list");

    it.bench.runtime.hang(None, false);
    settle().await;
    let entry = newer.now_or_never().expect("answered").unwrap();
    assert_eq!(entry.status().unwrap().containers[1].state, Exited);
    assert_eq!(it.bench.take_events(), events(&[("u", "b", ContainerDied)]));
    assert_true(&it);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_entry_is_as_old_as_the_whole_pod_is_known() {
    let it = known().await;
    // Confirmed by a list of all since it was written.
    tokio::time::advance(PERIOD).await;
    settle().await;
    let before = it.bench.cache.times(&"u".into());
    assert!(before.latest() > before.modified);
    it.bench.runtime.hang(None, true);
    show(&it, Exited, Created);
    tokio::time::advance(MOMENT).await;
    tell(&it, "b");
    settle().await;
    let first = it.bench.cache.times(&"u".into());
    assert_eq!(first.modified, before.latest());

    // And where it was not, by the least that there is.
    it.bench.runtime.hang(None, false);
    settle().await;
    let listed = it.bench.cache.times(&"u".into());
    it.bench.runtime.hang(None, true);
    show(&it, Exited, Running);
    tell(&it, "c");
    settle().await;
    assert_eq!(states(&it), [Running, Exited, Running]);
    let second = it.bench.cache.times(&"u".into());
    assert_eq!(second.modified, listed.modified.map(|at| at.saturating_add_nanos(1)));
    it.bench.runtime.hang(None, false);
    settle().await;
    assert_true(&it);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_that_says_nothing_new_is_not_written() {
    let it = known().await;
    let before = it.bench.cache.times(&"u".into());
    it.bench.runtime.hang(None, true);
    for container in ["b", "none of the pod's"] {
        tell(&it, container);
        settle().await;
    }
    assert_eq!(it.bench.cache.times(&"u".into()), before);
    it.bench.runtime.hang(None, false);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn where_the_list_says_otherwise_all_of_the_pod_is_looked_at() {
    let it = known().await;
    it.bench.runtime.contradict("b", Exited);
    it.bench.runtime.set_latency(|call| if *call == Called::Pod("u".into()) { MOMENT } else { Duration::ZERO });
    tell(&it, "b");
    settle().await;
    assert_eq!(states(&it), [Running, Exited, Created]);
    tokio::time::advance(MOMENT).await;
    settle().await;
    assert_true(&it);
    let asked = it.bench.runtime.take_called();
    assert_eq!(asked, [Called::Container("b".into()), Called::Pod("u".into()), Called::Status("u".into())]);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn where_the_list_fails_the_next_one_looks_at_all_of_the_pod() {
    let it = known().await;
    it.bench.runtime.contradict("b", Exited);
    it.bench.runtime.fail(None, true);
    it.bench.runtime.set_latency(|call| if *call == Called::Pod("u".into()) { MOMENT } else { Duration::ZERO });
    tell(&it, "b");
    tokio::time::advance(MOMENT).await;
    settle().await;
    assert_eq!(states(&it), [Running, Exited, Created]);
    it.bench.runtime.fail(None, false);
    tokio::time::advance(PERIOD).await;
    settle().await;
    assert_true(&it);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_over_what_an_inspection_will_bring() {
    let it = known().await;
    let before = it.bench.cache.times(&"u".into());
    // The inspection that another container's end calls for does not answer; it may be of before this one's.
    it.bench.runtime.hang(Some("u"), true);
    show(&it, Running, Exited);
    tell(&it, "none of the pod's");
    settle().await;
    it.bench.runtime.hang(None, true);
    show(&it, Exited, Exited);
    tell(&it, "b");
    settle().await;
    assert!(it.bench.runtime.take_called().contains(&Called::Container("b".into())));
    assert_eq!(states(&it), [Running, Running, Created]);
    assert_eq!(it.bench.cache.times(&"u".into()), before);
    it.bench.runtime.hang(Some("u"), false);
    it.bench.runtime.hang(None, false);
    settle().await;
    assert_true(&it);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_over_an_error() {
    let it = known().await;
    it.bench.runtime.fail(Some("u"), true);
    it.bench.pleg.request_reinspect(&"u".into());
    it.bench.pleg.request_relist("u".into());
    settle().await;
    let failed = it.bench.cache.get(&"u".into()).error().cloned();
    assert!(failed.is_some());
    it.bench.runtime.hang(None, true);
    show(&it, Exited, Created);
    tell(&it, "b");
    settle().await;
    assert_eq!(it.bench.cache.get(&"u".into()).error(), failed.as_ref(), "until all of the pod is known");
    it.bench.runtime.hang(None, false);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_of_all_pods_that_hangs_does_not_hold_up_the_state_of_an_events_container() {
    let mut it = known().await;
    it.bench.runtime.hang(None, true);
    tokio::time::advance(PERIOD).await;
    settle().await;
    assert_eq!(it.bench.runtime.take_called(), [Called::Pods], "the list of all pods is under way, and hangs");
    let mut writes = it.bench.pleg.watch_writes();
    show(&it, Exited, Running);
    for container in ["b", "c"] {
        tell(&it, container);
    }
    settle().await;
    let mut asked = it.bench.runtime.take_called();
    asked.sort_by_key(|call| format!("{call:?}"));
    assert_eq!(asked, [Called::Container("b".into()), Called::Container("c".into())]);
    assert_eq!(states(&it), [Running, Exited, Running], "each container of the pod on its own");
    assert_eq!(writes.written(&"u".into()).now_or_never(), Some(true), "who follows the pod is woken");
    assert_eq!(it.bench.take_events(), []);

    it.bench.runtime.hang(None, false);
    settle().await;
    assert_eq!(it.bench.take_events(), events(&[("u", "b", ContainerDied), ("u", "c", ContainerStarted)]));
    assert_true(&it);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_began_before_takes_nothing_back_and_the_pod_is_listed_again() {
    let it = known().await;
    // The list has been made, and its answer is under way.
    it.bench.runtime.contradict("b", Exited);
    it.bench.runtime.set_latency(|call| match call {
        Called::Pods => MOMENT * 4,
        Called::Container(_) => MOMENT,
        Called::Pod(_) | Called::Status(_) => Duration::ZERO,
    });
    tokio::time::advance(PERIOD).await;
    settle().await;
    tell(&it, "b");
    settle().await;
    tokio::time::advance(MOMENT).await;
    settle().await;
    assert_eq!(states(&it), [Running, Exited, Created]);
    it.bench.runtime.take_called();
    tokio::time::advance(MOMENT * 3).await;
    settle().await;
    let asked = it.bench.runtime.take_called();
    assert_eq!(asked, [Called::Pod("u".into()), Called::Status("u".into())], "which is right is found out at once");
    assert_true(&it);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_state_never_goes_back() {
    let it = known().await;
    show(&it, Exited, Running);
    it.bench.pleg.request_relist("u".into());
    settle().await;
    assert_eq!(states(&it), [Running, Exited, Running]);
    it.bench.runtime.hang(None, true);
    // Of an answer that was under way for long.
    for (container, state) in [("b", Running), ("c", Created), ("b", Unknown), ("c", Unknown)] {
        it.bench.runtime.contradict(container, state);
        tell(&it, container);
        settle().await;
        assert_eq!(states(&it), [Running, Exited, Running], "{container} {state}");
    }
    it.bench.runtime.hang(None, false);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn more_containers_than_pods_may_wait_are_told_by_their_lists() {
    let it = known().await;
    let containers: Vec<String> = (0..500).map(|n| format!("c{n}")).collect();
    let pod_of = |state| pod("u", &containers.iter().map(|id| (id.as_str(), state)).collect::<Vec<_>>());
    it.bench.runtime.set(vec![pod_of(Running)]);
    it.bench.pleg.request_relist("u".into());
    settle().await;
    it.bench.runtime.take_called();
    it.bench.runtime.set_latency(|call| if matches!(call, Called::Container(_)) { PERIOD } else { Duration::ZERO });
    it.bench.runtime.set(vec![pod_of(Exited)]);
    for id in &containers {
        tell(&it, id);
    }
    settle().await;
    let asked = it.bench.runtime.take_called();
    let asked = asked.iter().filter(|call| matches!(call, Called::Container(_))).count();
    assert!(asked <= PlegOptions::default().relist_queue.get(), "{asked} at once");
    tokio::time::advance(PERIOD * 3).await;
    settle().await;
    assert_true(&it);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_list_of_a_pod_comes_after_the_status_of_its_events_container_or_a_moment_later() {
    let it = known().await;
    it.bench.runtime.set_latency(|call| if matches!(call, Called::Container(_)) { PERIOD } else { Duration::ZERO });
    show(&it, Exited, Created);
    tell(&it, "b");
    settle().await;
    assert_eq!(it.bench.runtime.take_called(), [Called::Container("b".into())]);
    tokio::time::advance(MOMENT).await;
    settle().await;
    assert_eq!(it.bench.runtime.take_called(), [Called::Pod("u".into())], "it has waited long enough");

    it.bench.runtime.set_latency(|_| Duration::ZERO);
    tokio::time::advance(PERIOD).await;
    settle().await;
    tokio::time::advance(MOMENT).await;
    it.bench.runtime.take_called();
    show(&it, Exited, Running);
    tell(&it, "c");
    settle().await;
    let asked = it.bench.runtime.take_called();
    assert_eq!(asked[..2], [Called::Container("c".into()), Called::Pod("u".into())], "at once");
    assert_true(&it);
    it.stop().await;
}
