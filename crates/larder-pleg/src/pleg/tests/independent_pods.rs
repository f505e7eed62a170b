//! Pods that are brought up to date each on its own.

use super::fake::{Called, events, pod};
use super::single::{Loop, MOMENT, PERIOD, settle};
use crate::ContainerState::{Exited, Running};
use crate::EventKind::{ContainerDied, ContainerRemoved, ContainerStarted, PodSync};
use crate::{PlegOptions, RuntimePod};
use futures_util::FutureExt;
use larder_clock::Clock;
use std::num::NonZeroUsize;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(10);

fn independent() -> PlegOptions {
    PlegOptions {
        independent_pods: true,
        inspection_concurrency: NonZeroUsize::new(2).unwrap(),
        inspection_deadline: Some(DEADLINE),
        keep_last_status: true,
        ..PlegOptions::default()
    }
}

fn pods(count: usize) -> Vec<RuntimePod> {
    (0..count).map(|n| pod(&format!("pod{n}"), &[("c", Running)])).collect()
}

/// Until the next relist of all pods is over, or stuck, and a moment more.
async fn next_relist() {
    tokio::time::advance(PERIOD).await;
    settle().await;
    tokio::time::advance(MOMENT).await;
}

#[tokio::test(start_paused = true)]
async fn one_hung_inspection_holds_back_its_own_pods_waits_only() {
    let it = Loop::start(independent()).await;
    it.bench.runtime.set(pods(5));
    it.bench.runtime.hang(Some("pod0"), true);
    next_relist().await;
    let first = it.bench.cache.times(&"pod1".into());
    assert!(it.bench.cache.get(&"pod1".into()).status().is_some());
    assert_eq!(it.bench.cache.uids().len(), 4, "all but the one that hangs");
    assert!(first.global < first.modified, "what the global time says would not be true of the one that hangs");

    // A listing confirms those that are as they were, though the one that hangs still hangs.
    let (mut hung, other) = (it.newer("pod0"), it.newer("pod1"));
    next_relist().await;
    assert!((&mut hung).now_or_never().is_none());
    assert!(other.now_or_never().is_some());
    assert!(it.bench.cache.times(&"pod1".into()).observed > first.modified);

    // And a pod that is asked for, or changes, is answered for as ever.
    tokio::time::advance(MOMENT).await;
    let (one, absent) = (it.newer("pod2"), it.newer("absent"));
    let mut changed = pods(5);
    changed[2].containers[0].state = Exited;
    it.bench.runtime.set(changed);
    it.bench.pleg.request_relist("pod2".into());
    it.bench.pleg.request_relist("absent".into());
    settle().await;
    let one = one.now_or_never().expect("answered").unwrap();
    assert_eq!(one.status().unwrap().containers[0].exit_code, 3);
    assert!(absent.now_or_never().expect("answered").unwrap().is_empty());

    // At its deadline it is marked, and tried again after a pause.
    tokio::time::advance(DEADLINE).await;
    settle().await;
    assert!(it.bench.cache.get(&"pod0".into()).error().expect("marked").is_timeout());
    it.bench.runtime.hang(Some("pod0"), false);
    next_relist().await;
    assert!(it.bench.cache.get(&"pod0".into()).error().is_none());
    assert!(hung.now_or_never().expect("answered").unwrap().status().is_some());
    let times = it.bench.cache.times(&"pod1".into());
    assert!(times.global >= it.bench.cache.times(&"pod0".into()).modified);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn inspections_that_hang_give_up_their_places() {
    let it = Loop::start(independent()).await;
    it.bench.runtime.set(pods(8));
    for hung in ["pod0", "pod1", "pod2"] {
        it.bench.runtime.hang(Some(hung), true);
    }
    next_relist().await;
    let patience = independent().inspection_patience;
    for _ in 0..2 {
        tokio::time::advance(patience).await;
        settle().await;
    }
    assert_eq!(it.bench.cache.uids().len(), 5, "three hang, with places for two");
    assert!(it.bench.runtime.most_inspecting() <= 5);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fails_is_tried_again_after_growing_pauses_and_at_once_when_it_shows_something_new() {
    let options = PlegOptions {
        inspection_backoff_initial: PERIOD + PERIOD / 2,
        inspection_backoff_max: PERIOD * 4,
        ..independent()
    };
    let it = Loop::start(options).await;
    it.bench.runtime.set(pods(1));
    it.bench.runtime.fail(Some("pod0"), true);
    let mut tried = Vec::new();
    for at in 0..14 {
        next_relist().await;
        if it.bench.runtime.take_called().contains(&Called::Status("pod0".into())) {
            tried.push(at);
        }
    }
    // Pauses of 1.5, 3, 4 and 4 periods.
    assert_eq!(tried, [0, 2, 5, 9, 13]);
    let entry = it.bench.cache.get(&"pod0".into());
    assert!(entry.error().is_some());

    // Neither a wait nor a relist makes it be tried before its time.
    let mut wait = it.newer("pod0");
    it.bench.pleg.request_relist("pod0".into());
    settle().await;
    assert_eq!(it.bench.runtime.take_called(), [Called::Pod("pod0".into())]);
    assert!((&mut wait).now_or_never().is_none());
    assert_eq!(it.bench.pleg.stats().inspections_held, 1);

    it.bench.runtime.fail(Some("pod0"), false);
    it.bench.runtime.set(vec![pod("pod0", &[("c", Exited)])]);
    it.bench.pleg.request_relist("pod0".into());
    settle().await;
    assert_eq!(it.bench.runtime.take_called(), [Called::Pod("pod0".into()), Called::Status("pod0".into())]);
    assert!(wait.now_or_never().expect("answered").unwrap().error().is_none());
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_what_is_known_as_of_its_listing() {
    let it = Loop::start(independent()).await;
    it.bench.runtime.set(pods(2));
    it.bench.runtime.fail(Some("pod0"), true);
    let wait = it.newer("pod0");
    next_relist().await;
    let entry = wait.now_or_never().expect("answered, with the error").unwrap();
    assert!(entry.error().is_some());
    let times = it.bench.cache.times(&"pod1".into());
    assert_eq!(times.global, times.modified, "with every pod known as of the listing, so is the whole");
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_during_an_inspection_is_inspected_after_it_and_told_once() {
    let mut it = Loop::start(independent()).await;
    it.bench.runtime.set(vec![pod("u", &[("a", Running)])]);
    it.bench.runtime.hang(Some("u"), true);
    next_relist().await;
    tokio::time::advance(MOMENT).await;
    it.bench.runtime.set(vec![pod("u", &[("a", Exited), ("b", Running)])]);
    let wait = it.newer("u");
    it.bench.pleg.request_relist("u".into());
    settle().await;
    it.bench.runtime.hang(Some("u"), false);
    settle().await;
    let entry = wait.now_or_never().expect("answered").unwrap();
    assert_eq!(entry.status().unwrap().containers.len(), 2);
    let expected = events(&[("u", "a", ContainerStarted), ("u", "a", ContainerDied), ("u", "b", ContainerStarted)]);
    assert_eq!(it.bench.take_events(), expected);
    assert_eq!(it.bench.runtime.most_inspecting(), 1);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_goes_during_its_inspection_stays_gone_and_its_successor_is_inspected() {
    let mut it = Loop::start(independent()).await;
    it.bench.runtime.set(vec![pod("u", &[("a", Running)])]);
    next_relist().await;
    it.bench.runtime.set(vec![pod("u", &[("a", Exited)])]);
    it.bench.runtime.hang(Some("u"), true);
    next_relist().await;
    it.bench.runtime.set(vec![]);
    let mut wait = it.newer("u");
    it.bench.pleg.request_relist("u".into());
    tokio::time::advance(MOMENT).await;
    settle().await;
    assert!((&mut wait).now_or_never().expect("answered").unwrap().is_empty());
    it.bench.runtime.hang(Some("u"), false);
    settle().await;
    assert_eq!(it.bench.cache.uids(), []);

    // The same UID again, as a static pod has it.
    it.bench.runtime.set(vec![pod("u", &[("b", Running)])]);
    it.bench.runtime.hang(Some("u"), true);
    next_relist().await;
    it.bench.runtime.set(vec![]);
    it.bench.pleg.request_relist("u".into());
    settle().await;
    it.bench.runtime.set(vec![pod("u", &[("c", Running)])]);
    it.bench.pleg.request_relist("u".into());
    settle().await;
    it.bench.runtime.hang(Some("u"), false);
    settle().await;
    assert_eq!(it.bench.cache.get(&"u".into()).status().unwrap().containers[0].id.id, "c");
    let expected = [
        // Of the one that came and went before it could be inspected.
        ("u", "", PodSync),
        ("u", "a", ContainerStarted),
        ("u", "a", ContainerDied),
        ("u", "a", ContainerRemoved),
        ("u", "c", ContainerStarted),
    ];
    assert_eq!(it.bench.take_events(), events(&expected));
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_list_leaves_what_is_known_and_waits_end_with_what_it_said() {
    let it = Loop::start(independent()).await;
    it.bench.runtime.set(pods(1));
    next_relist().await;
    it.bench.runtime.fail(None, true);
    tokio::time::advance(MOMENT).await;
    let wait = it.bench.cache.get_newer_than_or("pod0".into(), it.clock.now(), tokio::time::sleep(PERIOD * 3));
    let wait = tokio::spawn(wait);
    for _ in 0..4 {
        next_relist().await;
    }
    let ended = wait.await.unwrap().unwrap_err();
    assert!(ended.is_deadline_exceeded());
    assert!(ended.last_known().status().is_some(), "what was last known comes with it");
    assert!(it.bench.pleg.last_relist().1.is_some(), "and why nothing newer does");
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_inspection_of_a_pod_that_has_gone_is_aborted_and_the_global_time_goes_on() {
    let it = Loop::start(independent()).await;
    it.bench.runtime.set(pods(2));
    it.bench.runtime.hang(Some("pod0"), true);
    next_relist().await;
    assert_eq!((it.bench.runtime.inspecting(), it.bench.pleg.stats().inspections_open), (1, 1));
    let before = it.bench.cache.times(&"pod1".into()).global;

    // Gone by a list of all pods.
    let wait = it.newer("never there");
    it.bench.runtime.set(pods(2)[1..].to_vec());
    next_relist().await;
    assert_eq!(it.bench.runtime.inspecting(), 0, "the call has been dropped");
    assert_eq!(it.bench.pleg.stats().inspections_open, 0);
    assert!(it.bench.cache.times(&"pod1".into()).global > before, "no pod is behind");
    assert!(wait.now_or_never().expect("answered by the global time").unwrap().is_empty());

    // And by a list of its own.
    it.bench.runtime.set(pods(2));
    next_relist().await;
    assert_eq!(it.bench.runtime.inspecting(), 1);
    it.bench.runtime.set(pods(2)[1..].to_vec());
    it.bench.pleg.request_relist("pod0".into());
    settle().await;
    assert_eq!(it.bench.runtime.inspecting(), 0);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_again_while_its_inspection_hangs_is_inspected_once_at_a_time() {
    let it = Loop::start(independent()).await;
    it.bench.runtime.hang(Some("u"), true);
    for n in 0..20 {
        // A static pod keeps its UID; its containers are others.
        it.bench.runtime.set(vec![pod("u", &[(&format!("c{n}"), Running)])]);
        it.bench.pleg.request_relist("u".into());
        settle().await;
        assert_eq!(it.bench.runtime.inspecting(), 1, "{n}");
        it.bench.runtime.set(vec![]);
        it.bench.pleg.request_relist("u".into());
        settle().await;
        assert_eq!(it.bench.runtime.inspecting(), 0, "{n}");
    }
    assert_eq!(it.bench.runtime.most_inspecting(), 1);
    it.bench.runtime.hang(Some("u"), false);
    it.bench.runtime.set(vec![pod("u", &[("last", Running)])]);
    it.bench.pleg.request_relist("u".into());
    settle().await;
    assert_eq!(it.bench.cache.get(&"u".into()).status().unwrap().containers[0].id.id, "last");
    it.stop().await;
}
