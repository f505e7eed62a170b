//! Versions, conflicts and history of the simulated server's objects.

use super::*;
use crate::objects::{config_map, pod, secret};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};

fn cached(store: &ObjectStore, namespace: &str, name: &str) -> Option<u64> {
    store.record(Kind::ConfigMap, &Key::new(namespace, name), true).1.map(|record| record.revision)
}

#[test]
fn a_conflicting_update_is_refused_and_a_good_one_keeps_the_uid() {
    let store = ObjectStore::new();
    let made = store.create(config_map("a", "x", &[])).expect("created");
    let changed = store.modify("a", "x", |o: &mut ConfigMap| o.immutable = Some(false)).expect("changed");
    assert_eq!(changed.metadata.uid, made.metadata.uid);
    assert!(made.metadata.uid.as_deref().is_some_and(|uid| uid.len() == 36 && uid.as_bytes()[14] == b'4'));
    assert!(matches!(store.update(made), Err(StoreError::Conflict { .. })));
    store.update(changed).expect("the newest version may be replaced");
}

#[test]
fn an_immutable_object_keeps_its_data() {
    let store = ObjectStore::new();
    let mut made = secret("a", "x", &[("k", "v")]);
    made.immutable = Some(true);
    store.create(made).expect("created");
    let refused = store.modify("a", "x", |s: &mut Secret| s.data = None);
    assert!(matches!(refused, Err(StoreError::Immutable { .. })));
    store
        .modify("a", "x", |s: &mut Secret| {
            s.metadata.labels.get_or_insert_default().insert("l".into(), "v".into());
        })
        .expect("labels may change");
}

#[test]
fn an_object_created_again_has_another_uid() {
    let store = ObjectStore::new();
    let first = store.create(pod("a", "p").build()).expect("created");
    store.delete(Kind::Pod, "a", "p").expect("deleted");
    assert!(store.get::<Pod>("a", "p").is_err_and(|error| error.is_not_found()));
    let second = store.create(pod("a", "p").build()).expect("created again");
    assert_ne!(first.metadata.uid, second.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn the_watch_cache_lags_as_told_and_catches_up() {
    let store = ObjectStore::new();
    store.create(config_map("a", "x", &[])).expect("created");
    assert_eq!(cached(&store, "a", "x"), Some(2));
    store.set_cache_lag(CacheLag::Frozen);
    store.create(config_map("a", "y", &[])).expect("created");
    assert_eq!(cached(&store, "a", "y"), None);
    store.set_cache_lag(CacheLag::By(Duration::from_secs(5)));
    tokio::time::advance(Duration::from_millis(4_999)).await;
    assert_eq!(cached(&store, "a", "y"), None);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(cached(&store, "a", "y"), Some(3));
    store.delete(Kind::ConfigMap, "a", "y").expect("deleted");
    assert_eq!(cached(&store, "a", "y"), Some(3));
    store.set_cache_lag(CacheLag::None);
    assert_eq!(cached(&store, "a", "y"), None);
}

#[test]
fn a_restore_takes_the_revision_back() {
    let store = ObjectStore::new();
    store.create(config_map("a", "x", &[])).expect("created");
    let backup = store.backup();
    store.delete(Kind::ConfigMap, "a", "x").expect("deleted");
    let epoch = store.epoch();
    store.restore(&backup);
    assert_eq!(store.revision(), backup.revision());
    store.get::<ConfigMap>("a", "x").expect("there again");
    assert_eq!(store.changes_after(Kind::ConfigMap, 3, epoch).err(), Some(HistoryError::Restored));
}

#[test]
fn the_history_is_bounded_and_compacted() {
    let store = ObjectStore::new();
    store.create(config_map("a", "x", &[])).expect("created");
    for round in 0..HISTORY {
        let value = round.to_string();
        store.apply(config_map("a", "x", &[("k", &value)])).expect("applied");
    }
    assert_eq!(store.changes_after(Kind::ConfigMap, 1, 0).err(), Some(HistoryError::Compacted(2)));
    let (revision, changes) = store.changes_after(Kind::ConfigMap, 2, 0).expect("still there");
    assert_eq!((revision, changes.len()), (store.revision(), HISTORY));
    store.compact();
    assert!(store.changes_after(Kind::ConfigMap, revision, 0).expect("nothing after").1.is_empty());
}
