//! Waits that ask for their pod's relist, and subscribers.

use super::fake::{Bench, Called, pod};
use crate::ContainerState::Running;
use crate::{Delivery, PlegOptions};
use larder_clock::{Clock, TokioClock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::test(start_paused = true)]
async fn a_wait_has_its_pod_relisted_at_once_where_that_is_asked_for() {
    for on_wait in [false, true] {
        let clock = TokioClock::new();
        let period = Duration::from_secs(1);
        let bench = Bench::new(clock, PlegOptions { relist_on_wait: on_wait, ..PlegOptions::default() });
        let (cancel, pleg) = (CancellationToken::new(), bench.pleg.clone());
        let token = cancel.clone();
        let task = tokio::spawn(async move { pleg.run(token).await });
        tokio::time::sleep(period / 4).await;
        bench.runtime.take_called();
        bench.runtime.set(vec![pod("u", &[("c", Running)])]);

        let began = clock.now();
        let future = bench.cache.get_newer_than("v".into(), began + Duration::from_nanos(1));
        let entry = bench.cache.get_newer_than("u".into(), began).await.unwrap();
        assert!(entry.status().is_some());
        let took = clock.now().saturating_duration_since(began);
        if on_wait {
            assert_eq!(took, Duration::ZERO);
            // The wait for a time to come has asked for nothing.
            assert_eq!(bench.runtime.take_called(), [Called::Pod("u".into()), Called::Status("u".into())]);
        } else {
            assert!(took >= period / 2 && took < period, "{took:?}");
        }
        drop(future);
        cancel.cancel();
        task.await.unwrap();
    }
}

#[tokio::test]
async fn each_subscriber_gets_every_event_from_its_subscription_on() {
    let mut bench = Bench::new(TokioClock::new(), PlegOptions::default());
    bench.runtime.set(vec![pod("u", &[("c", Running)])]);
    bench.pleg.relist().await;
    let mut late = bench.pleg.subscribe();
    bench.runtime.set(vec![pod("u", &[("c", Running)]), pod("v", &[("d", Running)])]);
    bench.pleg.relist().await;
    assert_eq!(bench.take_events().len(), 2);
    let Some(Delivery::Event(event)) = late.recv().await else { panic!("no event") };
    assert_eq!(event.uid, "v".into());
    assert_eq!(late.try_recv(), None);
    drop(bench.pleg);
    assert_eq!(late.recv().await, None);
}

#[tokio::test]
async fn whoever_comes_late_gets_the_latest_events_and_then_each_once() {
    let options = PlegOptions { event_capacity: std::num::NonZeroUsize::new(4).unwrap(), ..PlegOptions::default() };
    let bench = Bench::new(TokioClock::new(), options);
    let mut pods = Vec::new();
    for n in 0..6 {
        pods.push(pod(&format!("u{n}"), &[("c", Running)]));
        bench.runtime.set(pods.clone());
        bench.pleg.relist().await;
    }
    let (recent, mut then) = bench.pleg.subscribe_with_recent();
    assert_eq!(recent.iter().map(|event| event.uid.to_string()).collect::<Vec<_>>(), ["u2", "u3", "u4", "u5"]);
    pods.push(pod("u6", &[("c", Running)]));
    bench.runtime.set(pods);
    bench.pleg.relist().await;
    let Some(Delivery::Event(event)) = then.recv().await else { panic!("no event") };
    assert_eq!(event.uid, "u6".into());
    assert_eq!(then.try_recv(), None);
}

#[tokio::test]
async fn whoever_watches_a_pod_is_told_of_each_write_of_it_and_of_no_other() {
    let bench = Bench::new(TokioClock::new(), PlegOptions::default());
    let mut writes = bench.pleg.watch_writes();
    let uid = "u".into();
    bench.runtime.set(vec![pod("v", &[("c", Running)])]);
    bench.pleg.relist().await;
    assert_eq!(futures_util::FutureExt::now_or_never(writes.written(&uid)), None);
    bench.runtime.set(vec![pod("u", &[("c", Running)])]);
    bench.pleg.relist().await;
    assert!(writes.written(&uid).await);
    bench.runtime.set(vec![]);
    bench.pleg.relist().await;
    assert!(writes.written(&uid).await, "its removal is a write, too");
    drop(bench.pleg);
    assert!(!writes.written(&uid).await);
}
