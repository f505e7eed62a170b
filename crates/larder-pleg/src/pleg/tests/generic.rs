//! Relists of all pods: the scenarios of the kubelet's own tests, and what they leave open.

use super::fake::{Bench, Called, at, container, events, failure, pod, pod_of_sandboxes};
use crate::ContainerState::{Created, Exited, Running, Unknown};
use crate::EventKind::{ContainerDied, ContainerRemoved, ContainerStarted, PodSync};
use crate::{ContainerState, Delivery, EventKind, PlegObserver, PlegOptions, RuntimePod, Unhealthy};
use larder_clock::{Clock, VirtualClock};
use larder_pod_status::{Options, PodUid};
use parking_lot::Mutex;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

fn bench() -> (Bench<VirtualClock>, VirtualClock) {
    bench_with(PlegOptions::default())
}

fn bench_with(options: PlegOptions) -> (Bench<VirtualClock>, VirtualClock) {
    let clock = VirtualClock::new(at(1));
    (Bench::new(clock.clone(), options), clock)
}

type Make = fn(&str, &[(&str, ContainerState)]) -> RuntimePod;

async fn reports_what_started_and_died(make: Make) {
    let (mut bench, _) = bench();
    bench
        .runtime
        .set(vec![make("1234", &[("c1", Exited), ("c2", Running), ("c3", Unknown)]), make("4567", &[("c1", Exited)])]);
    bench.pleg.relist().await;
    assert_eq!(
        bench.take_events(),
        events(&[("1234", "c2", ContainerStarted), ("1234", "c1", ContainerDied), ("4567", "c1", ContainerDied)])
    );

    bench.pleg.relist().await;
    assert_eq!(bench.take_events(), []);

    bench.runtime.set(vec![make("1234", &[("c2", Exited), ("c3", Running)]), make("4567", &[("c4", Running)])]);
    bench.pleg.relist().await;
    assert_eq!(
        bench.take_events(),
        events(&[
            ("1234", "c1", ContainerRemoved),
            ("1234", "c2", ContainerDied),
            ("1234", "c3", ContainerStarted),
            ("4567", "c1", ContainerRemoved),
            ("4567", "c4", ContainerStarted),
        ])
    );
}

#[tokio::test]
async fn a_relist_reports_what_started_and_died_and_only_once() {
    reports_what_started_and_died(pod).await;
}

#[tokio::test]
async fn sandboxes_count_as_containers() {
    reports_what_started_and_died(pod_of_sandboxes).await;
}

#[tokio::test]
async fn a_subscriber_that_falls_behind_gets_a_gap_with_a_count_and_the_latest_events() {
    let options = PlegOptions { event_capacity: NonZeroUsize::new(4).unwrap(), ..PlegOptions::default() };
    let (mut bench, _) = bench_with(options);
    let died = || pod("4567", &[("c1", Exited)]);
    bench.runtime.set(vec![pod("1234", &[("c1", Exited), ("c2", Running), ("c3", Running)]), died()]);
    bench.pleg.relist().await;
    assert_eq!(bench.take_events().len(), 4);

    // Four events more, and three.
    let last = || pod("4567", &[("c4", Running)]);
    bench.runtime.set(vec![pod("1234", &[("c2", Exited), ("c3", Unknown)]), last()]);
    bench.pleg.relist().await;
    bench.runtime.set(vec![last()]);
    // Nobody waits for the subscriber.
    bench.pleg.relist().await;
    assert_eq!(bench.events.try_recv(), Some(Delivery::Gap { missed: 3 }));
    assert_eq!(bench.pleg.stats().events_discarded, 3);
    assert_eq!(
        bench.take_events(),
        events(&[
            ("4567", "c4", ContainerStarted),
            ("1234", "c2", ContainerRemoved),
            ("1234", "c3", ContainerDied),
            ("1234", "c3", ContainerRemoved),
        ])
    );
}

#[tokio::test]
async fn a_container_that_is_gone_has_died_unless_that_was_reported() {
    for relists in [1, 3] {
        let (mut bench, _) = bench();
        bench.runtime.set(vec![pod("1234", &[("c1", Running), ("c2", Running), ("c3", Exited)])]);
        for _ in 0..relists {
            bench.pleg.relist().await;
        }
        bench.take_events();
        bench.runtime.set(vec![pod("1234", &[("c1", Running)])]);
        bench.pleg.relist().await;
        assert_eq!(
            bench.take_events(),
            events(&[
                ("1234", "c2", ContainerDied),
                ("1234", "c2", ContainerRemoved),
                ("1234", "c3", ContainerRemoved)
            ])
        );
    }
}

#[tokio::test]
async fn the_containers_of_a_pod_that_is_gone_have_died_and_been_removed() {
    for relists in [1, 3] {
        let (mut bench, _) = bench();
        bench.runtime.set(vec![pod("1234", &[("c2", Running)])]);
        for _ in 0..relists {
            bench.pleg.relist().await;
        }
        bench.take_events();
        bench.runtime.set(vec![]);
        bench.pleg.relist().await;
        assert_eq!(bench.take_events(), events(&[("1234", "c2", ContainerDied), ("1234", "c2", ContainerRemoved)]));
    }
}

#[tokio::test]
async fn an_inspection_that_fails_is_cached_as_an_error_and_done_again_at_the_next_relist() {
    let (mut bench, clock) = bench();
    let (good, bad) = (PodUid::from("good"), PodUid::from("bad"));
    bench.runtime.set(vec![pod("good", &[("c0", Running)]), pod("bad", &[("c1", Running)])]);
    bench.runtime.fail(Some("bad"), true);
    bench.pleg.relist().await;
    assert_eq!(bench.cache.get(&good).status().map(|s| (**s).clone()), bench.runtime.truth(&good));
    let entry = bench.cache.get(&bad);
    assert_eq!(entry.error().map(|e| (**e).clone()), Some(failure()));
    assert_eq!((entry.status(), entry.is_empty()), (None, false));
    assert_eq!(bench.take_events(), events(&[("good", "c0", ContainerStarted)]));
    // The error is as new as the relist, and the global time moves all the same.
    assert_eq!(bench.cache.times(&bad).modified, Some(at(1)));
    assert_eq!(bench.cache.times(&bad).global, Some(at(1)));

    clock.set(at(2));
    bench.runtime.fail(Some("bad"), false);
    bench.runtime.take_called();
    bench.pleg.relist().await;
    assert_eq!(bench.runtime.take_called(), [Called::Pods, Called::Status(bad.clone())]);
    let entry = bench.cache.get(&bad);
    assert_eq!(entry.status().map(|s| (**s).clone()), bench.runtime.truth(&bad));
    assert_eq!(entry.error(), None);
    assert_eq!(bench.take_events(), events(&[("bad", "c1", ContainerStarted)]));
    let stats = bench.pleg.stats();
    assert_eq!((stats.inspections, stats.inspections_failed, stats.relists), (2, 1, 2));
}

#[tokio::test]
async fn the_entry_of_a_pod_that_is_gone_is_removed() {
    let (bench, _) = bench();
    bench.runtime.set(vec![pod("u", &[("c0", Running)])]);
    bench.pleg.relist().await;
    assert!(!bench.cache.get(&"u".into()).is_empty());
    bench.runtime.set(vec![]);
    bench.pleg.relist().await;
    assert!(bench.cache.get(&"u".into()).is_empty());
    assert_eq!(bench.cache.uids(), []);
}

#[tokio::test]
async fn a_pod_that_goes_before_it_could_be_inspected_leaves_no_error_behind() {
    let (mut bench, _) = bench();
    bench.runtime.set(vec![pod("u", &[("c0", Running)])]);
    bench.runtime.fail(Some("u"), true);
    bench.pleg.relist().await;
    assert!(bench.cache.get(&"u".into()).error().is_some());
    bench.runtime.set(vec![]);
    bench.pleg.relist().await;
    assert!(bench.cache.get(&"u".into()).is_empty());
    assert_eq!(bench.take_events(), events(&[("u", "", PodSync)]));
}

#[tokio::test]
async fn health_is_never_relisted_then_good_then_stalled() {
    let (bench, clock) = bench();
    assert_eq!(bench.pleg.health(), Err(Unhealthy::NeverRelisted { error: None }));
    clock.advance(Duration::from_mins(10));
    assert!(bench.pleg.health().is_err());

    bench.pleg.relist().await;
    clock.advance(Duration::from_mins(1));
    assert_eq!(bench.pleg.health(), Ok(()));
    clock.advance(Duration::from_mins(2));
    assert_eq!(bench.pleg.health(), Ok(()), "just the threshold");

    bench.runtime.fail(None, true);
    bench.pleg.relist().await;
    clock.advance(Duration::from_nanos(1));
    let unhealthy = bench.pleg.health().unwrap_err();
    let threshold = Duration::from_mins(3);
    let ago = threshold + Duration::from_nanos(1);
    assert_eq!(unhealthy, Unhealthy::Stalled { ago, threshold, error: Some(Arc::new(failure())) });
    assert!(unhealthy.to_string().ends_with("told to"), "{unhealthy}");
}

#[tokio::test]
async fn a_list_that_fails_changes_nothing_and_is_remembered_until_one_succeeds() {
    let (mut bench, clock) = bench();
    bench.runtime.set(vec![pod("u", &[("c0", Running)])]);
    bench.pleg.relist().await;
    bench.take_events();
    let before = bench.cache.times(&"u".into());

    bench.runtime.fail(None, true);
    bench.runtime.set(vec![]);
    clock.set(at(5));
    bench.pleg.relist().await;
    assert_eq!(bench.cache.times(&"u".into()), before);
    assert!(bench.cache.get(&"u".into()).status().is_some());
    assert_eq!(bench.take_events(), []);
    assert_eq!(bench.pleg.last_relist(), (Some(at(1)), Some(Arc::new(failure()))));
    assert_eq!(bench.pleg.stats().relists_failed, 1);

    bench.runtime.fail(None, false);
    bench.pleg.relist().await;
    assert_eq!(bench.pleg.last_relist(), (Some(at(5)), None));
    assert!(bench.cache.get(&"u".into()).is_empty());
}

#[tokio::test]
async fn a_relist_carries_the_time_before_its_first_call() {
    let (bench, clock) = bench();
    bench.runtime.set(vec![pod("u", &[("c0", Running)])]);
    let moved = clock.clone();
    bench.runtime.on_call(move |_| moved.advance(Duration::from_nanos(10)));
    bench.pleg.relist().await;
    let times = bench.cache.times(&"u".into());
    assert_eq!((times.modified, times.observed, times.global), (Some(at(1)), Some(at(1)), Some(at(1))));
    assert_eq!(bench.pleg.last_relist().0, Some(at(1)));
    assert_eq!(clock.now(), at(21));
}

#[tokio::test]
async fn the_global_time_moves_after_all_pods_are_updated() {
    let (bench, _) = bench();
    bench.runtime.set(vec![pod("u", &[("c0", Running)]), pod("v", &[("c1", Running)])]);
    let (seen, cache) = (Arc::new(Mutex::new(Vec::new())), bench.cache.clone());
    let sink = Arc::clone(&seen);
    bench.runtime.on_call(move |_| sink.lock().push(cache.times(&"u".into()).global));
    bench.pleg.relist().await;
    assert_eq!(*seen.lock(), [None, None, None]);
    assert_eq!(bench.cache.times(&"u".into()).global, Some(at(1)));
}

#[tokio::test]
async fn an_entry_is_replaced_at_the_relists_time_with_evented_ordering_too() {
    let clock = VirtualClock::new(at(20));
    let mut options = Options::default();
    options.evented_ordering = true;
    let bench = Bench::with_cache(clock.clone(), PlegOptions::default(), options);
    bench.runtime.set(vec![pod("u", &[("c0", Running)])]);
    bench.pleg.relist().await;
    clock.set(at(30));
    bench.runtime.set(vec![pod("u", &[("c0", Exited)])]);
    bench.pleg.relist().await;
    assert_eq!(bench.cache.times(&"u".into()).modified, Some(at(30)));
    assert_eq!(bench.cache.get(&"u".into()).status().unwrap().containers[0].state, Exited);
}

/// Asks that often for an inspection of a pod that was inspected before, and relists. Gives the events, and whether the
/// relist after that one inspected it again.
async fn reinspect(requests: usize, failing: bool, deleted: bool) -> (Vec<(String, String, EventKind)>, bool) {
    let (mut bench, _) = bench();
    let uid = PodUid::from("u");
    bench.runtime.set(vec![pod("u", &[("c0", Running)])]);
    bench.pleg.relist().await;
    bench.take_events();
    bench.runtime.take_called();
    for _ in 0..requests {
        bench.pleg.request_reinspect(&uid);
    }
    bench.runtime.fail(Some("u"), failing);
    if deleted {
        bench.runtime.set(vec![]);
    }
    bench.pleg.relist().await;
    let inspected = bench.runtime.take_called().contains(&Called::Status(uid.clone()));
    assert_eq!(inspected, requests > 0 && !deleted);
    assert_eq!(bench.cache.get(&uid).error().is_some(), inspected && failing);
    assert_eq!(bench.cache.get(&uid).is_empty(), deleted);
    let events = bench.take_events();
    bench.pleg.relist().await;
    (events, bench.runtime.take_called().contains(&Called::Status(uid)))
}

#[tokio::test]
async fn a_reinspection_is_a_pod_sync_when_it_succeeds_and_done_again_when_it_fails() {
    let sync = events(&[("u", "", PodSync)]);
    assert_eq!(reinspect(0, false, false).await, (vec![], false));
    for requests in [1, 2] {
        assert_eq!(reinspect(requests, false, false).await, (sync.clone(), false));
        assert_eq!(reinspect(requests, true, false).await, (vec![], true));
    }
    let gone = events(&[("u", "c0", ContainerDied), ("u", "c0", ContainerRemoved)]);
    assert_eq!(reinspect(1, false, true).await, (gone, false));
}

#[tokio::test]
async fn a_pod_listed_for_reinspection_by_a_failure_syncs_once_it_succeeds() {
    let (mut bench, _) = bench();
    bench.runtime.set(vec![pod("u", &[("c0", Running)])]);
    bench.pleg.relist().await;
    bench.pleg.request_reinspect(&"u".into());
    bench.runtime.fail(Some("u"), true);
    bench.pleg.relist().await;
    bench.take_events();
    bench.runtime.fail(Some("u"), false);
    bench.pleg.relist().await;
    assert_eq!(bench.take_events(), events(&[("u", "", PodSync)]));
}

#[tokio::test]
async fn a_pod_whose_inspection_failed_is_inspected_even_if_it_is_as_before_again() {
    let (mut bench, _) = bench();
    bench.runtime.set(vec![pod("u", &[("c0", Running)])]);
    bench.pleg.relist().await;
    bench.runtime.set(vec![pod("u", &[("c0", Unknown)])]);
    bench.runtime.fail(Some("u"), true);
    bench.pleg.relist().await;
    bench.take_events();
    bench.runtime.set(vec![pod("u", &[("c0", Running)])]);
    bench.runtime.fail(Some("u"), false);
    bench.pleg.relist().await;
    assert!(bench.cache.get(&"u".into()).error().is_none());
    assert_eq!(bench.take_events(), events(&[("u", "", PodSync)]));
}

#[tokio::test]
async fn addresses_stay_when_no_sandbox_is_ready_any_more() {
    for ips in [&["192.168.1.5"][..], &["192.168.1.5", "2000::"]] {
        let (mut bench, _) = bench();
        let with_sandbox = |container_state, sandbox_state| {
            let mut pod = pod("u", &[("c0", container_state)]);
            pod.sandboxes = vec![container("s0", sandbox_state)];
            vec![pod]
        };
        bench.runtime.set(with_sandbox(Running, Running));
        bench.runtime.set_ips("u", ips);
        bench.pleg.relist().await;
        let served = |bench: &Bench<_>| bench.cache.get(&"u".into()).status().unwrap().ips.clone();
        assert_eq!(served(&bench), ips);
        bench.take_events();

        // A sandbox that is ready and has none any more has none.
        bench.runtime.set_ips("u", &[]);
        bench.runtime.set(with_sandbox(Exited, Running));
        bench.pleg.relist().await;
        assert_eq!(served(&bench), Vec::<String>::new());
        assert_eq!(bench.take_events(), events(&[("u", "c0", ContainerDied)]));

        bench.runtime.set_ips("u", ips);
        bench.runtime.set(with_sandbox(Running, Running));
        bench.pleg.relist().await;
        bench.runtime.set_ips("u", &[]);
        bench.runtime.set(with_sandbox(Exited, Exited));
        bench.pleg.relist().await;
        assert_eq!(served(&bench), ips);
    }
}

#[tokio::test]
async fn an_error_forgets_the_last_status_and_its_addresses_unless_it_is_to_be_kept() {
    for keep in [false, true] {
        let (bench, _) = bench_with(PlegOptions { keep_last_status: keep, ..PlegOptions::default() });
        bench.runtime.set(vec![pod("u", &[("c0", Running)])]);
        bench.runtime.set_ips("u", &["10.0.0.1"]);
        bench.pleg.relist().await;
        bench.runtime.set(vec![pod("u", &[("c0", Exited)])]);
        bench.runtime.set_ips("u", &[]);
        bench.runtime.fail(Some("u"), true);
        bench.pleg.relist().await;
        let entry = bench.cache.get(&"u".into());
        assert!(entry.error().is_some());
        assert_eq!(entry.status().map(|status| status.containers[0].state), keep.then_some(Running));
        bench.runtime.fail(Some("u"), false);
        bench.pleg.relist().await;
        let entry = bench.cache.get(&"u".into());
        assert!(entry.error().is_none());
        let expected: &[&str] = if keep { &["10.0.0.1"] } else { &[] };
        assert_eq!(entry.status().unwrap().ips, expected, "keep: {keep}");
    }
}

#[tokio::test]
async fn running_pods_and_containers_are_counted() {
    let (bench, _) = bench();
    let with_sandboxes = |uid, containers: &[_], sandboxes: &[(&str, ContainerState)]| {
        let mut pod = pod(uid, containers);
        pod.sandboxes = sandboxes.iter().map(|&(id, state)| container(id, state)).collect();
        pod
    };
    bench.runtime.set(vec![
        with_sandboxes(
            "1234",
            &[("c1", Running), ("c2", Unknown), ("c3", Unknown)],
            &[("s1", Running), ("s2", Running), ("s3", Unknown)],
        ),
        with_sandboxes("4567", &[("c1", Exited)], &[("s1", Running), ("s2", Exited)]),
    ]);
    bench.pleg.relist().await;
    let counts = |bench: &Bench<_>| {
        let stats = bench.pleg.stats();
        (stats.running_pods, ContainerState::ALL.map(|state| stats.containers(state)))
    };
    assert_eq!(counts(&bench), (2, [0, 1, 1, 2]));
    bench.runtime.set(vec![]);
    bench.pleg.relist().await;
    assert_eq!(counts(&bench), (0, [0, 0, 0, 0]));
}

#[tokio::test]
async fn a_container_that_is_created_causes_an_inspection_but_no_event() {
    let (mut bench, _) = bench();
    bench.runtime.set(vec![pod("u", &[("c0", Created)])]);
    bench.pleg.relist().await;
    assert_eq!(bench.take_events(), []);
    assert_eq!(bench.cache.get(&"u".into()).status().unwrap().containers[0].state, Created);
}

#[tokio::test]
async fn an_event_tells_the_pod_the_container_its_exit_code_and_the_relists_time() {
    let (mut bench, _) = bench();
    bench.runtime.set(vec![pod("u", &[("c0", Exited)])]);
    bench.pleg.relist().await;
    let Some(Delivery::Event(event)) = bench.events.try_recv() else { panic!("no event") };
    assert_eq!((event.namespace.as_str(), event.name.as_str()), ("ns", "name-u"));
    assert_eq!(event.container_name.as_deref(), Some("name-c0"));
    assert_eq!((event.kind, event.exit_code, event.at), (ContainerDied, Some(3), at(1)));
}

#[tokio::test]
async fn durations_and_intervals_are_observed() {
    #[derive(Default)]
    struct Seen(Mutex<Vec<(&'static str, u128)>>);
    impl PlegObserver for Seen {
        fn relist_duration(&self, duration: Duration) {
            self.0.lock().push(("relist", duration.as_nanos()));
        }
        fn relist_interval(&self, interval: Duration) {
            self.0.lock().push(("interval", interval.as_nanos()));
        }
        fn pod_relist_duration(&self, duration: Duration) {
            self.0.lock().push(("pod relist", duration.as_nanos()));
        }
        fn event_answered(&self, duration: Duration) {
            self.0.lock().push(("event", duration.as_nanos()));
        }
        fn inspection_duration(&self, duration: Duration, succeeded: bool) {
            self.0.lock().push((if succeeded { "inspected" } else { "not inspected" }, duration.as_nanos()));
        }
    }
    let clock = VirtualClock::new(at(1));
    let bench = Bench::new(clock.clone(), PlegOptions::default());
    let seen = Arc::new(Seen::default());
    let Ok(pleg) = Arc::try_unwrap(bench.pleg) else { panic!("shared") };
    let pleg = pleg.with_observer(seen.clone());
    bench.runtime.on_call(move |_| clock.advance(Duration::from_nanos(10)));
    bench.runtime.set(vec![pod("u", &[("c0", Running)])]);
    pleg.relist().await;
    bench.runtime.fail(None, true);
    pleg.relist().await;
    pleg.relist().await;
    assert_eq!(
        *seen.0.lock(),
        [("inspected", 10), ("relist", 20), ("interval", 20), ("relist", 10), ("interval", 30), ("relist", 10)]
    );
}

#[test]
fn options_that_cannot_work_are_refused_with_the_fields_name() {
    let defaults = PlegOptions::default;
    let second = Duration::from_secs(1);
    let cases = [
        ("relist_period", PlegOptions { relist_period: Duration::ZERO, ..defaults() }),
        ("relist_threshold", PlegOptions { relist_period: second, relist_threshold: second, ..defaults() }),
        ("event_capacity", PlegOptions { event_capacity: NonZeroUsize::MAX, ..defaults() }),
        ("inspection_concurrency", PlegOptions { inspection_concurrency: NonZeroUsize::MAX, ..defaults() }),
        ("inspection_deadline", PlegOptions { inspection_deadline: Some(Duration::ZERO), ..defaults() }),
    ];
    for (field, options) in cases {
        assert_eq!(options.validate().unwrap_err().field, field);
    }
    assert_eq!(defaults().validate(), Ok(()));
}
