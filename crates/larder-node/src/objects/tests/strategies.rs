//! The policies over each strategy; and reads that are made for a pod.

use super::*;

/// What a reader in a task of its own gets.
fn spawn_read(cache: &Cache, name: &'static str) -> tokio::task::JoinHandle<Result<Answer<KubeObject>, ReadError>> {
    let cache = Arc::clone(cache);
    tokio::spawn(async move { cache.read("shop", name, DEADLINE).await })
}

fn db(version: u64) -> Arc<KubeObject> {
    Arc::new(object(&ObjectKey::new("shop", "db"), version))
}

/// A cache with a pod `web` that refers to `db`, whose watch has told of it.
fn with_db_watched() -> (Arc<Server>, Cache) {
    let server = Server::new();
    let cache = cache_of(Strategy::Watch, &server, POLICY);
    cache.register_pod(&pod("web", &["db"]));
    server.watch("db").replace(vec![("db".to_owned(), db(7))], ReadKind::Consistent);
    (server, cache)
}

#[tokio::test(start_paused = true)]
async fn a_watched_object_is_answered_without_asking_anybody() {
    let (server, cache) = with_db_watched();
    for version_told in ["7", "8"] {
        let answer = cache.read("shop", "db", DEADLINE).await.unwrap();
        assert_eq!(
            (version(&answer), answer.outcome, answer.freshness.expires_at()),
            (version_told, Outcome::Held, None)
        );
        assert!(answer.freshness.is_fresh());
        server.watch("db").set("db", db(8));
    }
    advance(10 * TTL).await;
    assert!(cache.read("shop", "db", DEADLINE).await.unwrap().freshness.is_fresh(), "a watch has no TTL");
    assert_eq!(server.fetches(), 0);
}

/// Absence is only reported by a source that has synced, and ends as soon as the object is created.
#[tokio::test(start_paused = true)]
async fn an_absence_is_the_watchs_word_and_flips_at_once() {
    let server = Server::new();
    let cache = cache_of(Strategy::Watch, &server, POLICY);
    cache.register_pod(&pod("web", &["db"]));
    let unknown = cache.read("shop", "db", Duration::from_millis(10)).await.unwrap_err();
    assert!(unknown.is_unknown(), "{unknown}");
    server.watch("db").replace(Vec::new(), ReadKind::Consistent);
    for _ in 0..3 {
        assert!(cache.read("shop", "db", DEADLINE).await.unwrap_err().is_not_found());
    }
    server.watch("db").set("db", db(1));
    assert_eq!(version(&cache.read("shop", "db", DEADLINE).await.unwrap()), "1");
    server.watch("db").delete("db", None);
    assert!(cache.read("shop", "db", DEADLINE).await.unwrap_err().is_not_found());
    assert_eq!(server.fetches(), 0);
}

/// A missing object is not asked for at every read.
#[tokio::test(start_paused = true)]
async fn an_absence_is_an_answer_until_its_ttl_or_a_new_reference() {
    let server = Server::new();
    let cache = cache_with(&server, POLICY);
    cache.register_pod(&pod("web", &["db"]));
    for (wait, fetches) in [(Duration::ZERO, 1), (TTL / 2, 1), (TTL / 4, 1), (TTL / 4, 2)] {
        advance(wait).await;
        assert!(cache.read("shop", "db", DEADLINE).await.unwrap_err().is_not_found());
        assert_eq!(server.fetches(), fetches);
    }
    server.set("db", Says::Object { version: 1 });
    assert!(cache.read("shop", "db", DEADLINE).await.unwrap_err().is_not_found());
    cache.register_pod(&pod("web-2", &["db"]));
    assert_eq!(version(&cache.read("shop", "db", DEADLINE).await.unwrap()), "1");
}

#[tokio::test(start_paused = true)]
async fn without_that_policy_an_absence_is_asked_for_at_every_read() {
    let server = Server::new();
    let cache = cache_with(&server, Policy { serve_absences: false, ..POLICY });
    cache.register_pod(&pod("web", &["db"]));
    for fetches in 1..4 {
        assert!(cache.read("shop", "db", DEADLINE).await.unwrap_err().is_not_found());
        assert_eq!(server.fetches(), fetches);
    }
}

/// A reader has the last known at once while the watch fails, however long that is.
#[tokio::test(start_paused = true)]
async fn while_its_watch_fails_the_last_known_is_served_with_why() {
    let (server, cache) = with_db_watched();
    advance(Duration::from_secs(5)).await;
    server.watch("db").failed(Arc::new(ServerError("unavailable")));
    advance(TTL).await;
    let answer = cache.read("shop", "db", DEADLINE).await.unwrap();
    assert_eq!((version(&answer), answer.freshness.is_fresh(), answer.outcome), ("7", false, Outcome::Held));
    assert_eq!(answer.why.as_deref(), Some("unavailable"));
    let FreshState::Stale { since, .. } = answer.freshness.state else { panic!("{answer:?}") };
    assert_eq!(cache.clock.now().saturating_duration_since(since), TTL);
    assert!(cache.log.health().is_failing);
    server.watch("db").confirm();
    assert!(cache.read("shop", "db", DEADLINE).await.unwrap().freshness.is_fresh());
    assert!(!cache.log.health().is_failing);
}

/// Readers that wait for the same fetch share a failure, and none of them asks by itself.
#[tokio::test(start_paused = true)]
async fn many_readers_that_meet_an_error_share_it() {
    for strategy in [Strategy::Watch, Strategy::Ttl] {
        let server = Server::new();
        server.set("db", Says::Hangs);
        let cache = cache_of(strategy, &server, POLICY);
        cache.register_pod(&pod("web", &["db"]));
        let readers: Vec<_> = (0..50).map(|_| spawn_read(&cache, "db")).collect();
        tokio::task::yield_now().await;
        match strategy {
            Strategy::Watch => server.watch("db").failed(Arc::new(ServerError("unavailable"))),
            _ => server.set("db", Says::Fails("unavailable")),
        }
        for reader in readers {
            let error = reader.await.unwrap().unwrap_err();
            assert!(error.is_unknown() && error.to_string().contains("unavailable"), "{error}");
        }
        if strategy == Strategy::Watch {
            assert_eq!(server.fetches(), 0);
        }
        let before = server.fetches();
        assert!(cache.read("shop", "db", DEADLINE).await.unwrap_err().is_unknown());
        assert_eq!(server.fetches(), before, "left alone for a while");
    }
}

/// What a new pod reads first is at least as new as the pod; and while that cannot be had, it is stale.
#[tokio::test(start_paused = true)]
async fn a_new_pods_first_read_is_not_from_before_it() {
    let (server, cache) = with_db_watched();
    cache.read("shop", "db", DEADLINE).await.unwrap();
    server.set("db", Says::Fails("broken"));
    cache.register_pod(&pod("web-2", &["db"]));
    for _ in 0..5 {
        let stale = cache.read("shop", "db", DEADLINE).await.unwrap();
        assert_eq!((version(&stale), stale.freshness.is_fresh()), ("7", false), "{stale:?}");
    }
    assert_eq!(server.fetches(), 1, "left alone after the failure");
    server.set("db", Says::Object { version: 8 });
    advance(LONGEST_BACKOFF).await;
    let fresh = cache.read("shop", "db", DEADLINE).await.unwrap();
    assert_eq!((version(&fresh), fresh.freshness.is_fresh()), ("8", true));
    assert_eq!(cache.new_reference_fetches(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn fetches_for_a_new_pod_are_counted_where_there_are_such() {
    for (source, strategy, counted) in [
        (None, Strategy::Ttl, Some(1)),
        (None, Strategy::Auto, Some(1)),
        (None, Strategy::Direct, None),
        (Some(Source::Manifest), Strategy::Ttl, None),
    ] {
        let server = Server::new();
        server.set("db", Says::Object { version: 7 });
        let cache = cache_from(source, strategy, TTL, &server, POLICY);
        let mut web = pod("web", &[]);
        web.spec.as_mut().unwrap().image_pull_secrets = serde_json::from_value(json!([{"name": "db"}])).unwrap();
        cache.register_pod(&web);
        cache.read("shop", "db", DEADLINE).await.unwrap();
        assert_eq!(cache.new_reference_fetches(), counted.map(|_| 0), "{strategy}: nobody had it before");
        web.metadata.name = Some("web-2".to_owned());
        web.metadata.uid = Some("web-2".to_owned());
        cache.register_pod(&web);
        cache.read("shop", "db", DEADLINE).await.unwrap();
        assert_eq!((cache.new_reference_fetches(), server.fetches()), (counted, 2), "{strategy}");
        if strategy == Strategy::Auto {
            continue;
        }
        // The word of a server whose etcd was restored is asked for once more, for no pod's sake.
        server.set("db", Says::Object { version: 3 });
        advance(TTL).await;
        assert_eq!(version(&cache.read("shop", "db", DEADLINE).await.unwrap()), "3", "{strategy}");
        assert_eq!(cache.new_reference_fetches(), counted, "{strategy}");
    }
}

#[tokio::test(start_paused = true)]
async fn directly_every_read_asks_and_a_failure_gives_the_last_known() {
    let server = Server::new();
    server.set("db", Says::Object { version: 7 });
    let cache = cache_of(Strategy::Direct, &server, POLICY);
    cache.register_pod(&pod("web", &["db"]));
    for fetches in 1..4 {
        let answer = cache.read("shop", "db", DEADLINE).await.unwrap();
        assert_eq!((version(&answer), answer.freshness.expires_at(), server.fetches()), ("7", None, fetches));
    }
    server.set("db", Says::Fails("unavailable"));
    let stale = cache.read("shop", "db", DEADLINE).await.unwrap();
    assert_eq!((version(&stale), stale.freshness.is_fresh(), stale.outcome), ("7", false, Outcome::FetchFailed));
}

#[tokio::test(start_paused = true)]
async fn what_is_mounted_is_watched_from_its_first_read_and_what_is_not_is_polled() {
    let server = Server::new();
    for name in ["db", "env"] {
        server.set(name, Says::Object { version: 1 });
    }
    let cache = cache_of(Strategy::Auto, &server, POLICY);
    let mut web = pod("web", &["db"]);
    let env_from = json!([{"secretRef": {"name": "env"}}]);
    web.spec.as_mut().unwrap().containers =
        serde_json::from_value(json!([{"name": "a", "envFrom": env_from}])).unwrap();
    cache.register_pod(&web);
    let mounted = spawn_read(&cache, "db");
    tokio::task::yield_now().await;
    let polled = cache.read("shop", "env", DEADLINE).await.unwrap();
    assert_eq!((version(&polled), server.fetches(), server.watches()), ("1", 1, 1));
    assert!(polled.freshness.expires_at().is_some());
    server.watch("db").replace(vec![("db".to_owned(), db(2))], ReadKind::Consistent);
    assert_eq!(version(&mounted.await.unwrap().unwrap()), "2");
    assert_eq!(server.fetches(), 1);
}

/// What no pod refers to any more is not watched.
#[tokio::test(start_paused = true)]
async fn with_its_last_pod_a_watch_ends() {
    let (server, cache) = with_db_watched();
    cache.register_pod(&pod("web-2", &["db"]));
    cache.unregister_pod(identity("web"));
    assert_eq!(server.watches(), 1);
    cache.unregister_pod(identity("web-2"));
    assert_eq!((server.watches(), cache.watch_stats().watching), (0, 0));
}

/// A read that is made for a pod keeps the pod's references until it is answered.
#[tokio::test(start_paused = true)]
async fn a_read_for_a_pod_holds_its_references_though_the_pod_goes() {
    let server = Server::new();
    server.set("db", Says::Hangs);
    let cache = cache_with(&server, POLICY);
    cache.register_pod(&pod("web", &["db"]));
    let reader = tokio::spawn({
        let cache = Arc::clone(&cache);
        async move { cache.read_for(identity("web"), "db", DEADLINE).await }
    });
    tokio::task::yield_now().await;
    cache.unregister_pod(identity("web"));
    assert_eq!(cache.references("shop", "db"), 1, "held for the read");
    server.set("db", Says::Object { version: 1 });
    assert_eq!(version(&reader.await.unwrap().unwrap()), "1");
    assert_eq!(cache.references("shop", "db"), 0, "let go of with it");
    assert!(cache.pod_reads.lock().is_empty() && cache.registered_pods().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_back_while_it_is_read_for_stays() {
    let server = Server::new();
    server.set("db", Says::Hangs);
    let cache = cache_with(&server, POLICY);
    cache.register_pod(&pod("web", &["db"]));
    let reader = tokio::spawn({
        let cache = Arc::clone(&cache);
        async move { cache.read_for(identity("web"), "db", DEADLINE).await }
    });
    tokio::task::yield_now().await;
    cache.unregister_pod(identity("web"));
    cache.register_pod(&pod("web", &["db"]));
    reader.abort();
    assert!(reader.await.unwrap_err().is_cancelled());
    assert_eq!(cache.references("shop", "db"), 1);
}

/// The message says which pod and which object.
#[tokio::test(start_paused = true)]
async fn a_read_that_is_refused_to_a_pod_names_both() {
    let (server, cache) = with_db_read(POLICY).await;
    cache.register_pod(&pod("other", &["tls"]));
    for (uid, why) in [("other", "the pod does not refer to it"), ("gone", "it is gone, or it has ended")] {
        let error = cache.read_for(identity(uid), "db", DEADLINE).await.unwrap_err();
        assert!(error.is_not_referenced());
        let text = error.to_string();
        let named = format!("secret \"shop/db\" is not held for pod \"shop/{uid}\" (uid {uid})");
        assert!(text.starts_with(&named) && text.contains(why), "{text}");
    }
    assert_eq!(server.fetches(), 1);
}
