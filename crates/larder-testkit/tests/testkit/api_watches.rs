//! Watches of the simulated API server.

use crate::client::{SOON, start, start_with, status};
use futures_util::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use larder_testkit::api_server::{ApiServerOptions, Kind, StreamingLists};
use larder_testkit::objects::{config_map, pod};
use larder_testkit::poll_until;
use std::pin::pin;
use std::time::Duration;

/// `ADDED name@version` and the like.
async fn next<K>(events: &mut (impl Stream<Item = kube::Result<WatchEvent<K>>> + Unpin)) -> Option<String>
where
    K: kube::Resource,
{
    let event = tokio::time::timeout(SOON, events.try_next()).await.expect("an event soon").expect("a good event")?;
    let object = |kind: &str, object: K| {
        let meta = object.meta();
        let name = meta.name.clone().unwrap_or_default();
        format!("{kind} {name}@{}", meta.resource_version.clone().unwrap_or_default())
    };
    Some(match event {
        WatchEvent::Added(o) => object("ADDED", o),
        WatchEvent::Modified(o) => object("MODIFIED", o),
        WatchEvent::Deleted(o) => object("DELETED", o),
        WatchEvent::Bookmark(b) => {
            let end = b.metadata.annotations.contains_key("k8s.io/initial-events-end");
            format!("BOOKMARK{}@{}", if end { " end" } else { "" }, b.metadata.resource_version)
        }
        WatchEvent::Error(status) => format!("ERROR {} {}", status.code, status.reason),
    })
}

#[tokio::test]
async fn a_watch_tells_all_changes_from_where_it_resumes() {
    let (server, client) = start().await;
    let maps = Api::<ConfigMap>::namespaced(client, "shop");
    let store = server.store();
    store.create(config_map("shop", "a", &[])).expect("created");
    store.create(config_map("other", "a", &[])).expect("created");
    let mut events = pin!(maps.watch(&WatchParams::default(), "1").await.expect("watched"));
    assert_eq!(next(&mut events).await.as_deref(), Some("ADDED a@2"));
    store.apply(config_map("shop", "a", &[("k", "v")])).expect("applied");
    assert_eq!(next(&mut events).await.as_deref(), Some("MODIFIED a@4"));
    store.delete(Kind::ConfigMap, "shop", "a").expect("deleted");
    assert_eq!(next(&mut events).await.as_deref(), Some("DELETED a@5"));
    let mut resumed = pin!(maps.watch(&WatchParams::default(), "4").await.expect("watched"));
    assert_eq!(next(&mut resumed).await.as_deref(), Some("DELETED a@5"));
    assert_eq!(server.counts().watches_open, 2);
}

#[tokio::test]
async fn a_watch_that_is_dropped_is_released() {
    let (server, client) = start().await;
    let maps = Api::<ConfigMap>::namespaced(client, "shop");
    let events = maps.watch(&WatchParams::default(), "1").await.expect("watched");
    assert_eq!(server.counts().watches_open, 1);
    drop(events);
    poll_until(SOON, async || (server.counts().watches_open == 0).then_some(())).await.expect("released");
}

#[tokio::test]
async fn an_object_that_leaves_the_selection_is_told_as_deleted() {
    let (server, client) = start().await;
    let store = server.store();
    store.create(pod("shop", "a").label("app", "web").build()).expect("created");
    let params = WatchParams::default().labels("app=web");
    let mut events = pin!(Api::<Pod>::all(client).watch(&params, "2").await.expect("watched"));
    let relabel = |value: &str| {
        let value = value.to_owned();
        let changed = store.modify("shop", "a", |pod: &mut Pod| {
            pod.metadata.labels.get_or_insert_default().insert("app".into(), value);
        });
        changed.expect("changed");
    };
    relabel("api");
    assert_eq!(next(&mut events).await.as_deref(), Some("DELETED a@3"));
    relabel("web");
    assert_eq!(next(&mut events).await.as_deref(), Some("ADDED a@4"));
}

#[tokio::test]
async fn a_compacted_version_is_gone() {
    let (server, client) = start().await;
    server.store().create(config_map("shop", "a", &[])).expect("created");
    server.store().compact();
    let maps = Api::<ConfigMap>::namespaced(client, "shop");
    let mut events = pin!(maps.watch(&WatchParams::default(), "1").await.expect("watched"));
    assert_eq!(next(&mut events).await.as_deref(), Some("ERROR 410 Expired"));
    assert_eq!(next(&mut events).await, None);
    let mut events = pin!(maps.watch(&WatchParams::default(), "2").await.expect("watched"));
    server.store().create(config_map("shop", "b", &[])).expect("created");
    assert_eq!(next(&mut events).await.as_deref(), Some("ADDED b@3"));
    server.expire_watches();
    assert_eq!(next(&mut events).await.as_deref(), Some("ERROR 410 Expired"));
}

#[tokio::test]
async fn a_watch_of_one_object_is_not_gone_for_what_others_changed() {
    let interval = Duration::from_millis(20);
    let (server, client) = start_with(ApiServerOptions { bookmark_interval: interval, ..Default::default() }).await;
    let store = server.store();
    store.create(config_map("shop", "a", &[])).expect("created");
    let maps = Api::<ConfigMap>::namespaced(client, "shop");
    let params = WatchParams::default().fields("metadata.name=a");
    let mut events = pin!(maps.watch(&params, "2").await.expect("watched"));
    assert_eq!(next(&mut events).await.as_deref(), Some("BOOKMARK@2"));
    store.create(config_map("shop", "b", &[])).expect("created");
    store.compact();
    // It had nothing to tell until then, and goes on.
    let caught_up = async { while next(&mut events).await.as_deref() != Some("BOOKMARK@3") {} };
    tokio::time::timeout(SOON, caught_up).await.expect("bookmarks follow the other objects' revisions");
    store.apply(config_map("shop", "a", &[("k", "v")])).expect("applied");
    let told = async {
        loop {
            match next(&mut events).await {
                Some(event) if event.starts_with("BOOKMARK@3") => {}
                event => return event,
            }
        }
    };
    assert_eq!(told.await.as_deref(), Some("MODIFIED a@4"));
    // One that begins before what is known of its object may have missed something.
    store.compact();
    let mut late = pin!(maps.watch(&params, "3").await.expect("watched"));
    assert_eq!(next(&mut late).await.as_deref(), Some("ERROR 410 Expired"));
}

#[tokio::test]
async fn a_watch_ends_at_its_timeout_with_a_bookmark() {
    let (server, client) = start().await;
    server.store().skip_revisions(6);
    let maps = Api::<ConfigMap>::namespaced(client, "shop");
    let params = WatchParams::default().timeout(1);
    let mut events = pin!(maps.watch(&params, "1").await.expect("watched"));
    assert_eq!(next(&mut events).await.as_deref(), Some("BOOKMARK@7"));
    assert_eq!(next(&mut events).await, None);
}

#[tokio::test]
async fn bookmarks_come_at_their_interval() {
    let interval = Duration::from_millis(20);
    let (server, client) = start_with(ApiServerOptions { bookmark_interval: interval, ..Default::default() }).await;
    let maps = Api::<ConfigMap>::namespaced(client, "shop");
    let mut events = pin!(maps.watch(&WatchParams::default(), "1").await.expect("watched"));
    assert_eq!(next(&mut events).await.as_deref(), Some("BOOKMARK@1"));
    server.store().create(pod("shop", "elsewhere").build()).expect("created");
    let caught_up = async { while next(&mut events).await.as_deref() != Some("BOOKMARK@2") {} };
    tokio::time::timeout(SOON, caught_up).await.expect("bookmarks follow the other kinds' revisions");
}

#[tokio::test]
async fn a_streaming_list_begins_with_what_there_is() {
    let (server, client) = start().await;
    for name in ["a", "b"] {
        server.store().create(config_map("shop", name, &[])).expect("created");
    }
    let maps = Api::<ConfigMap>::namespaced(client, "shop");
    let params = WatchParams::default().initial_events();
    let mut events = pin!(maps.watch(&params, "0").await.expect("watched"));
    for expected in ["ADDED a@2", "ADDED b@3", "BOOKMARK end@3"] {
        assert_eq!(next(&mut events).await.as_deref(), Some(expected));
    }
    server.store().delete(Kind::ConfigMap, "shop", "a").expect("deleted");
    assert_eq!(next(&mut events).await.as_deref(), Some("DELETED a@4"));

    server.set_streaming_lists(StreamingLists::ErrorEvent);
    let mut events = pin!(maps.watch(&params, "0").await.expect("watched"));
    assert_eq!(next(&mut events).await.as_deref(), Some("ERROR 500 InternalError"));
    server.set_streaming_lists(StreamingLists::Forbidden);
    assert_eq!(status(maps.watch(&params, "0").await.map(drop)), (422, "Invalid".into()));
}

#[tokio::test]
async fn a_watch_without_a_version_begins_with_what_there_is() {
    let (server, client) = start().await;
    server.store().create(config_map("shop", "a", &[])).expect("created");
    let maps = Api::<ConfigMap>::namespaced(client, "shop");
    let mut events = pin!(maps.watch(&WatchParams::default(), "0").await.expect("watched"));
    assert_eq!(next(&mut events).await.as_deref(), Some("ADDED a@2"));
}

#[tokio::test]
async fn a_restored_store_ends_watches_and_is_silent_to_those_from_its_future() {
    let (server, client) = start().await;
    let store = server.store();
    store.create(config_map("shop", "a", &[])).expect("created");
    let backup = store.backup();
    for round in 0..3 {
        store.apply(config_map("shop", "a", &[("round", &round.to_string())])).expect("applied");
    }
    let maps = Api::<ConfigMap>::namespaced(client, "shop");
    let mut events = pin!(maps.watch(&WatchParams::default(), "5").await.expect("watched"));
    store.restore(&backup);
    let ended = tokio::time::timeout(SOON, events.next()).await.expect("ends soon");
    assert!(!matches!(ended, Some(Ok(_))), "the watch breaks off: {ended:?}");
    let read = maps.get("a").await.expect("read");
    assert_eq!(read.metadata.resource_version.as_deref(), Some("2"), "older than what was read before");
    // A client that resumes from what it had seen learns nothing until the revisions have passed that.
    let mut events = pin!(maps.watch(&WatchParams::default(), "5").await.expect("watched"));
    for round in 0..4 {
        store.apply(config_map("shop", "a", &[("after", &round.to_string())])).expect("applied");
    }
    assert_eq!(next(&mut events).await.as_deref(), Some("MODIFIED a@6"));
}
