//! The loop: relists once a period, and of single pods in between.

use super::fake::{Bench, Called, events, pod};
use crate::ContainerState::{Exited, Running};
use crate::EventKind::{ContainerDied, ContainerRemoved, ContainerStarted};
use crate::{PlegOptions, PodStatus, RuntimeError, RuntimePod};
use futures_util::FutureExt;
use larder_clock::{Clock, Timestamp, TokioClock};
use larder_pod_status::NewerThan;
use std::num::NonZeroUsize;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(super) const PERIOD: Duration = Duration::from_secs(2);
pub(super) const MOMENT: Duration = Duration::from_millis(10);

pub(super) struct Loop {
    pub(super) bench: Bench<TokioClock>,
    pub(super) clock: TokioClock,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl Loop {
    /// Runs, with the first relist done a moment ago, and found nothing.
    pub(super) async fn start(options: PlegOptions) -> Self {
        let clock = TokioClock::new();
        let bench = Bench::new(clock, PlegOptions { relist_period: PERIOD, ..options });
        let cancel = CancellationToken::new();
        let (pleg, token) = (bench.pleg.clone(), cancel.clone());
        let task = tokio::spawn(async move { pleg.run(token).await });
        settle().await;
        assert_eq!(bench.runtime.take_called(), [Called::Pods]);
        tokio::time::advance(MOMENT).await;
        Self { bench, clock, cancel, task }
    }

    pub(super) fn newer(&self, uid: &str) -> NewerThan<PodStatus, RuntimeError> {
        self.bench.cache.get_newer_than(uid.into(), self.clock.now())
    }

    pub(super) async fn stop(self) {
        self.cancel.cancel();
        settle().await;
        assert!(self.task.is_finished());
        self.task.await.unwrap();
    }
}

/// Lets every task run until it waits for something; time stands still.
pub(super) async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

fn pair() -> Vec<RuntimePod> {
    vec![pod("pod1", &[("c1", Running)]), pod("pod2", &[("c2", Running)])]
}

#[tokio::test(start_paused = true)]
async fn the_loop_serves_single_pods_and_gives_the_relist_of_all_priority() {
    let mut it = Loop::start(PlegOptions::default()).await;
    it.bench.runtime.set(pair());
    let (mut wait1, mut wait2) = (it.newer("pod1"), it.newer("pod2"));

    // One pod on its own: its wait ends, the other's does not.
    it.bench.pleg.request_relist("pod1".into());
    settle().await;
    assert_eq!(it.bench.runtime.take_called(), [Called::Pod("pod1".into()), Called::Status("pod1".into())]);
    assert!((&mut wait1).now_or_never().is_some());
    assert!((&mut wait2).now_or_never().is_none());
    let modified = it.bench.cache.times(&"pod1".into()).modified;
    assert_eq!(it.bench.take_events(), events(&[("pod1", "c1", ContainerStarted)]));

    // The period is over while a single pod is relisted: all pods come before the next single one, which is served then.
    it.bench.runtime.hang(None, true);
    it.bench.pleg.request_relist("pod1".into());
    settle().await;
    it.bench.pleg.request_relist("pod2".into());
    tokio::time::advance(PERIOD).await;
    let wait1 = it.newer("pod1");
    it.bench.runtime.hang(None, false);
    settle().await;
    assert_eq!(
        it.bench.runtime.take_called(),
        [Called::Pod("pod1".into()), Called::Pods, Called::Status("pod2".into())]
    );
    assert!(wait2.now_or_never().is_some());
    assert!(wait1.now_or_never().is_some());
    assert_eq!(it.bench.cache.times(&"pod1".into()).modified, modified, "unchanged, so not inspected");
    assert_eq!(it.bench.pleg.stats().pod_relists_skipped, 1);

    // Asked to be inspected again.
    tokio::time::advance(MOMENT).await;
    let wait1 = it.newer("pod1");
    it.bench.pleg.request_reinspect(&"pod1".into());
    tokio::time::advance(PERIOD).await;
    settle().await;
    assert_eq!(it.bench.runtime.take_called(), [Called::Pods, Called::Status("pod1".into())]);
    assert!(wait1.now_or_never().is_some());
    assert!(it.bench.cache.times(&"pod1".into()).modified > modified);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_relist_of_one_pod_observes_it_even_if_nothing_changed() {
    let it = Loop::start(PlegOptions::default()).await;
    it.bench.runtime.set(pair());
    it.bench.pleg.relist().await;
    it.bench.runtime.take_called();
    tokio::time::advance(MOMENT).await;
    let wait = it.newer("pod1");
    it.bench.pleg.request_relist("pod1".into());
    settle().await;
    assert_eq!(it.bench.runtime.take_called(), [Called::Pod("pod1".into())]);
    let entry = wait.now_or_never().expect("answered").unwrap();
    assert!(entry.status().is_some());
    let times = it.bench.cache.times(&"pod1".into());
    assert_eq!(times.observed, Some(it.clock.now()));
    assert!(times.modified < times.observed && times.global < times.observed);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_counts_as_observed() {
    let mut it = Loop::start(PlegOptions::default()).await;
    it.bench.runtime.set(pair());
    it.bench.pleg.relist().await;
    it.bench.take_events();
    tokio::time::advance(MOMENT).await;
    it.bench.runtime.set(vec![pod("pod2", &[("c2", Running)])]);
    let (gone, never) = (it.newer("pod1"), it.newer("never"));
    it.bench.pleg.request_relist("pod1".into());
    it.bench.pleg.request_relist("never".into());
    settle().await;
    assert!(gone.now_or_never().expect("answered").unwrap().is_empty());
    assert!(never.now_or_never().expect("answered").unwrap().is_empty());
    assert_eq!(it.bench.take_events(), events(&[("pod1", "c1", ContainerDied), ("pod1", "c1", ContainerRemoved)]));
    assert_eq!(it.bench.cache.uids(), ["pod2".into()]);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_relist_of_one_pod_that_fails_leaves_its_waits_to_the_next_relist_of_all() {
    let it = Loop::start(PlegOptions::default()).await;
    it.bench.runtime.set(pair());
    let mut wait = it.newer("pod1");
    it.bench.runtime.fail(None, true);
    it.bench.pleg.request_relist("pod1".into());
    settle().await;
    assert!((&mut wait).now_or_never().is_none());
    assert_eq!(it.bench.pleg.stats().pod_relists_failed, 1);
    it.bench.runtime.fail(None, false);
    tokio::time::advance(PERIOD).await;
    settle().await;
    assert!(wait.now_or_never().expect("answered").unwrap().status().is_some());
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn many_requests_for_a_pod_are_one_and_more_pods_than_fit_are_all() {
    let options = PlegOptions { relist_queue: NonZeroUsize::new(2).unwrap(), ..PlegOptions::default() };
    let it = Loop::start(options).await;
    it.bench.runtime.set(pair());
    for _ in 0..10 {
        it.bench.pleg.request_relist("pod1".into());
    }
    assert_eq!(it.bench.pleg.stats().queue_depth, 1);
    settle().await;
    assert_eq!(it.bench.runtime.take_called(), [Called::Pod("pod1".into()), Called::Status("pod1".into())]);

    tokio::time::advance(MOMENT).await;
    let wait = it.newer("pod2");
    for uid in ["a", "b", "c", "pod2"] {
        it.bench.pleg.request_relist(uid.into());
    }
    settle().await;
    assert_eq!(it.bench.runtime.take_called(), [Called::Pods, Called::Status("pod2".into())]);
    assert!(wait.now_or_never().is_some());
    let stats = it.bench.pleg.stats();
    assert_eq!((stats.queue_overflows, stats.pod_relists_skipped, stats.queue_depth), (2, 2, 0));
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_made_during_a_relist_is_not_served_by_it() {
    let it = Loop::start(PlegOptions::default()).await;
    it.bench.runtime.hang(None, true);
    tokio::time::advance(PERIOD).await;
    settle().await;
    tokio::time::advance(MOMENT).await;
    it.bench.pleg.request_relist("pod1".into());
    tokio::time::advance(MOMENT).await;
    it.bench.runtime.hang(None, false);
    settle().await;
    assert_eq!(it.bench.runtime.take_called(), [Called::Pods, Called::Pod("pod1".into())]);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_period_counts_from_the_end_of_a_relist() {
    let it = Loop::start(PlegOptions::default()).await;
    it.bench.runtime.hang(None, true);
    tokio::time::advance(PERIOD).await;
    settle().await;
    assert_eq!(it.bench.runtime.take_called(), [Called::Pods]);
    tokio::time::advance(PERIOD * 3).await;
    it.bench.runtime.hang(None, false);
    settle().await;
    tokio::time::advance(PERIOD.saturating_sub(MOMENT)).await;
    settle().await;
    assert_eq!(it.bench.runtime.take_called(), []);
    tokio::time::advance(MOMENT).await;
    settle().await;
    assert_eq!(it.bench.runtime.take_called(), [Called::Pods]);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_the_loop_at_once_in_the_middle_of_a_call_that_hangs() {
    for hanging in [None, Some("pod1")] {
        let it = Loop::start(PlegOptions::default()).await;
        it.bench.runtime.set(pair());
        it.bench.runtime.hang(hanging, true);
        tokio::time::advance(PERIOD).await;
        settle().await;
        assert!(!it.task.is_finished());
        let (runtime, pleg, cache) = (it.bench.runtime.clone(), it.bench.pleg.clone(), it.bench.cache.clone());
        let before = cache.times(&"pod1".into()).global;
        it.stop().await;
        assert_eq!(cache.times(&"pod1".into()).global, before);
        // And can be run again.
        runtime.hang(hanging, false);
        let cancel = CancellationToken::new();
        let token = cancel.clone();
        let task = tokio::spawn(async move { pleg.run(token).await });
        settle().await;
        assert!(cache.get(&"pod1".into()).status().is_some());
        cancel.cancel();
        task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_loop_ends_at_once() {
    let it = Loop::start(PlegOptions::default()).await;
    it.bench.pleg.run(CancellationToken::new()).await;
    assert_eq!(it.bench.runtime.take_called(), []);
    it.stop().await;
}

#[tokio::test(start_paused = true)]
async fn inspections_are_one_after_the_other_unless_more_are_asked_for() {
    for (asked, most) in [(1, 1), (3, 3), (100, 10)] {
        let options =
            PlegOptions { inspection_concurrency: NonZeroUsize::new(asked).unwrap(), ..PlegOptions::default() };
        let bench = Bench::new(TokioClock::new(), options);
        bench.runtime.set((0..10).map(|n| pod(&format!("pod{n}"), &[("c", Running)])).collect());
        bench.pleg.relist().await;
        assert_eq!(bench.runtime.most_inspecting(), most);
        assert_eq!(bench.cache.uids().len(), 10);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_inspection_hangs_is_marked_at_its_deadline_while_others_move_on() {
    let deadline = Duration::from_secs(10);
    let options = PlegOptions {
        inspection_concurrency: NonZeroUsize::new(2).unwrap(),
        inspection_deadline: Some(deadline),
        ..PlegOptions::default()
    };
    let bench = Bench::new(TokioClock::new(), options);
    bench.runtime.set((0..10).map(|n| pod(&format!("pod{n}"), &[("c", Running)])).collect());
    bench.runtime.hang(Some("pod0"), true);
    let pleg = bench.pleg.clone();
    let relist = tokio::spawn(async move { pleg.relist().await });
    settle().await;
    assert_eq!(bench.cache.uids().len(), 9, "all but the one that hangs");
    assert!(!relist.is_finished());
    tokio::time::advance(deadline).await;
    relist.await.unwrap();
    let error = bench.cache.get(&"pod0".into()).error().cloned().expect("marked");
    assert!(error.is_timeout());
    assert_eq!(
        error.to_string(),
        "inspection of pod ns/name-pod0 (pod0): no answer from the container runtime within 10s; it is overloaded or \
         hangs, see its log"
    );
    bench.runtime.hang(Some("pod0"), false);
    bench.pleg.relist().await;
    assert!(bench.cache.get(&"pod0".into()).error().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_relist_that_is_dropped_half_way_is_made_up_for_by_the_next() {
    let mut bench = Bench::new(TokioClock::new(), PlegOptions::default());
    bench.runtime.set(vec![pod("pod1", &[("c1", Exited)]), pod("pod2", &[("c2", Running)])]);
    bench.runtime.hang(Some("pod2"), true);
    {
        let relist = bench.pleg.relist();
        tokio::pin!(relist);
        for _ in 0..20 {
            assert!(futures_util::poll!(&mut relist).is_pending());
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(bench.cache.uids(), ["pod1".into()]);
    assert_eq!(bench.cache.times(&"pod1".into()).global, None);
    bench.runtime.hang(Some("pod2"), false);
    bench.pleg.relist().await;
    assert_eq!(bench.take_events(), events(&[("pod1", "c1", ContainerDied), ("pod2", "c2", ContainerStarted)]));
    assert!(bench.cache.get(&"pod2".into()).status().is_some());
    assert!(bench.cache.times(&"pod1".into()).global.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_request_is_not_served_by_a_relist_that_was_cut_short() {
    let bench = Bench::new(TokioClock::new(), PlegOptions { relist_period: PERIOD, ..PlegOptions::default() });
    bench.runtime.set(pair());
    bench.runtime.hang(Some("pod2"), true);
    bench.pleg.request_relist("pod1".into());
    assert!(tokio::time::timeout(MOMENT, bench.pleg.relist()).await.is_err());
    assert!(!bench.pleg.serves(Timestamp::ZERO));
    bench.runtime.hang(Some("pod2"), false);
    bench.pleg.relist().await;
    assert!(bench.pleg.serves(bench.pleg.last_relist().0.unwrap()));
}
