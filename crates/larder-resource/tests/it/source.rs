//! Readers and followers of a source.

use larder_clock::{Timestamp, VirtualClock};
use larder_objects::{FreshState, Source, StaleReason};
use larder_resource::source::CHANGES;
use larder_resource::{Change, Changes, Pod, source};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_hours(1), future).await.expect("it comes within the hour")
}

fn pod(name: &str, version: &str) -> Value {
    json!({"metadata": {"namespace": "web", "name": name, "resourceVersion": version}})
}

fn made(name: &str, uid: &str, version: &str) -> Arc<Pod> {
    let mut json = pod(name, version);
    json["metadata"]["uid"] = uid.into();
    Arc::new(Pod::from_json(json.to_string().as_bytes()).unwrap())
}

/// A change in words.
async fn told(changes: &mut Changes<Pod>) -> String {
    let name = |pod: &Arc<Pod>| format!("{}@{}", pod.uid(), pod.resource_version());
    match within(changes.next()).await {
        Some(Change::Resync(all)) => format!("all {}", all.iter().map(name).collect::<Vec<_>>().join(" ")),
        Some(Change::Set { new, old: None }) => format!("new {}", name(&new)),
        Some(Change::Set { new, old: Some(old) }) => format!("changed {} to {}", name(&old), name(&new)),
        Some(Change::Removed(old)) => format!("gone {}", name(&old)),
        None => "end".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_hears_all_then_each_change() {
    let (writer, reader) = source::new(Source::Watch, VirtualClock::default());
    let mut changes = reader.changes();
    writer.replace([made("a", "a1", "1")], "");
    assert_eq!(told(&mut changes).await, "all a1@1");
    writer.set(made("b", "b1", "2"));
    writer.set(made("a", "a1", "3"));
    // The same version again is no change.
    writer.set(made("a", "a1", "3"));
    // The same name under another UID is another object.
    writer.set(made("a", "a2", "4"));
    writer.remove(made("b", "b", "9"));
    writer.remove(made("nobody", "nobody", "9"));
    writer.replace([made("c", "c1", "5")], "");
    for expected in ["new b1@2", "changed a1@1 to a1@3", "gone a1@3", "new a2@4", "gone b1@2", "gone a2@4", "new c1@5"]
    {
        assert_eq!(told(&mut changes).await, expected);
    }
    drop(writer);
    assert_eq!(told(&mut changes).await, "end");
    assert_eq!(changes.gaps(), 0);
    assert_eq!(reader.list().len(), 1, "what was known stays");
}

#[tokio::test(start_paused = true)]
async fn a_slow_follower_gets_the_whole_map_again() {
    let (writer, reader) = source::new(Source::Watch, VirtualClock::default());
    let (mut slow, mut quick) = (reader.changes(), reader.changes());
    writer.replace([], "");
    assert_eq!(told(&mut slow).await, "all ");
    assert_eq!(told(&mut quick).await, "all ");
    for version in 0..=CHANGES {
        writer.set(made("a", "a1", &(version + 1).to_string()));
        assert!(told(&mut quick).await.contains(&format!("a1@{}", version + 1)));
    }
    assert_eq!(told(&mut slow).await, format!("all a1@{}", CHANGES + 1));
    writer.remove(made("a", "a", "9"));
    assert!(told(&mut slow).await.starts_with("gone"));
    assert_eq!((slow.gaps(), quick.gaps()), (1, 0));
}

/// The reason 'stopped' was shown until the real one came a moment later.
#[test]
fn a_list_that_may_be_old_is_stale_with_its_reason_at_once() {
    let (writer, reader) = source::new(Source::Watch, VirtualClock::default());
    writer.replace_unconfirmed([made("a", "a1", "1")], "1", "behind", Arc::new(std::io::Error::other("it lags")));
    let (freshness, status) = (reader.freshness().unwrap(), reader.status());
    let expected = StaleReason::FetchFailed { class: "behind" };
    assert!(matches!(freshness.state, FreshState::Stale { reason, .. } if reason == expected), "{freshness:?}");
    assert_eq!(
        (status.synced, status.failures, status.last_fault.unwrap().error.to_string()),
        (false, 1, "it lags".to_owned())
    );
    writer.confirm(Duration::ZERO);
    assert!(reader.freshness().unwrap().is_fresh() && reader.status().synced);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_before_the_first_list() {
    let (writer, reader) = source::new(Source::Watch, VirtualClock::default());
    let mut changes = reader.changes();
    assert!(tokio::time::timeout(Duration::from_secs(1), changes.next()).await.is_err());
    writer.replace([], "");
    assert_eq!(told(&mut changes).await, "all ");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_given_up_before_its_first_list_never_syncs() {
    let (writer, reader) = source::new::<Pod>(Source::Watch, VirtualClock::default());
    let mut changes = reader.changes();
    let synced = tokio::spawn({
        let reader = reader.clone();
        async move { reader.synced().await }
    });
    drop(writer);
    assert!(!within(synced).await.unwrap());
    assert_eq!(told(&mut changes).await, "end");
    assert!(reader.freshness().is_none());
}

#[test]
fn the_runtime_uid_leads_to_the_pod_that_has_it_now() {
    let (writer, reader) = source::new(Source::Watch, VirtualClock::default());
    let mirror = |name: &str, uid: &str| {
        let mut json = pod(name, "");
        json["metadata"]["uid"] = uid.into();
        json["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "static"});
        Arc::new(Pod::from_json(json.to_string().as_bytes()).unwrap())
    };
    writer.set(mirror("a", "u1"));
    // A mirror pod made again under another name: the new one comes before the old one goes.
    writer.set(mirror("b", "u2"));
    writer.remove(made("a", "a", "9"));
    assert_eq!(reader.get_by_runtime_uid("static").unwrap().name(), "b");
    writer.remove(made("b", "b", "9"));
    assert!(reader.get_by_runtime_uid("static").is_none());
}

/// Whoever may create a pod can write the annotation.
#[test]
fn a_pod_that_claims_the_uid_of_another_one_does_not_take_its_place() {
    for is_first in [false, true] {
        let (writer, reader) = source::new(Source::Watch, VirtualClock::default());
        let mut claims = pod("a", "");
        claims["metadata"]["uid"] = "u1".into();
        claims["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "u2"});
        let claims = Arc::new(Pod::from_json(claims.to_string().as_bytes()).unwrap());
        let mut real = pod("b", "");
        real["metadata"]["uid"] = "u2".into();
        let real = Arc::new(Pod::from_json(real.to_string().as_bytes()).unwrap());
        let both = if is_first { [&claims, &real] } else { [&real, &claims] };
        for pod in both {
            writer.set(Arc::clone(pod));
        }
        assert_eq!(reader.get_by_runtime_uid("u2").unwrap().name(), "b");
        writer.remove(claims);
        assert_eq!(reader.get_by_runtime_uid("u2").unwrap().name(), "b");
        writer.remove(real);
        assert!(reader.get_by_runtime_uid("u2").is_none());
    }
}

#[test]
fn times_are_those_of_the_clock() {
    let clock = VirtualClock::new(Timestamp::from_nanos(5));
    let (writer, reader) = source::new::<Pod>(Source::Watch, clock.clone());
    writer.replace([], "");
    clock.set(Timestamp::from_nanos(9));
    writer.confirm(Duration::ZERO);
    let freshness = reader.freshness().unwrap();
    assert!(freshness.is_fresh() && freshness.confirmed_at == Timestamp::from_nanos(9));
    clock.set(Timestamp::from_nanos(20));
    writer.failed("timeout", Arc::new(std::io::Error::other("gone")));
    let status = reader.status();
    assert!(!status.connected && status.since == Timestamp::from_nanos(20));
    clock.set(Timestamp::from_nanos(30));
    writer.failed("timeout", Arc::new(std::io::Error::other("gone")));
    assert_eq!(reader.status().since, Timestamp::from_nanos(20), "since the first failure");
    assert_eq!(reader.freshness().unwrap().confirmed_at, Timestamp::from_nanos(9));
}
