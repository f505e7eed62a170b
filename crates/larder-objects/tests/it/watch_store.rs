//! What the watch store's documentation promises: the counterparts of the kubelet's `watch_based_manager_test.go`, and
//! what people ran into with it, one test each.

use crate::harness::Failure;
use crate::source::{Answer, MAX_IDLE, Watching, World, doc, immutable};
use futures_util::FutureExt;
use larder_clock::{Clock, Timestamp};
use larder_objects::{
    FreshState, Kept, ObjectState, Outcome, ReadKind, Source as ReadFrom, StaleReason, Store, WatchOptions,
};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

/// A world in which `ns/name` is referenced by one pod.
fn world() -> World<Watching> {
    let world = World::watching();
    world.store.add_references("ns", &["name"], "pod").run();
    world
}

/// As [`world`], and its reflector has listed the object in version 1.
fn synced() -> World<Watching> {
    let world = world();
    world.source.sink().replace(Some(doc(1)), ReadKind::Consistent);
    world
}

const UNAVAILABLE: Failure = Failure::Status(503);

// The kubelet's scenarios.

#[test]
fn a_watch_follows_an_object_that_is_created_and_deleted() {
    let mut world = world();
    world.source.sink().replace(None, ReadKind::Consistent);
    assert_eq!(world.get("name").fresh(), 0);
    world.source.sink().set(doc(125));
    assert_eq!(world.get("name").fresh(), 125);
    world.source.sink().delete();
    assert_eq!(world.get("name").fresh(), 0);
    world.store.delete_references("ns", &["name"], "pod").run();
    assert_eq!(world.get("name"), Answer::NotRegistered);
    assert!(world.source.reads().is_empty());
}

#[test]
fn however_many_references_one_reflector() {
    let world = synced();
    for pod in 0..20 {
        world.store.add_references("ns", &["name"], &format!("pod-{pod}")).run();
        world.store.delete_references("ns", &["name"], &format!("pod-{pod}")).run();
    }
    assert_eq!((world.source.reflectors().len(), world.source.running()), (1, 1));
    world.store.delete_references("ns", &["name"], "pod").run();
    assert_eq!((world.source.reflectors().len(), world.source.running()), (1, 0));
}

#[test]
fn an_immutable_object_is_watched_on_where_it_is_not_to_be_held() {
    for hold_immutable in [true, false] {
        let mut world = World::watching_with(WatchOptions::default().with_hold_immutable(hold_immutable));
        world.store.add_references("ns", &["name"], "pod").run();
        // One that waits for it, and one that comes later.
        let reader = world.begin("ns", "name");
        assert!(world.run().is_empty());
        world.source.sink().replace(Some(immutable(1, "u")), ReadKind::Consistent);
        assert_eq!((world.run()[&reader].fresh(), world.get("name").fresh()), (1, 1));
        assert_eq!(world.kept("name"), if hold_immutable { Kept::Held } else { Kept::Watched });
    }
}

#[test]
fn what_is_held_is_told_without_asking_anybody_and_an_absence_until_it_is_in_doubt() {
    let mut world = world();
    let held = |world: &World<Watching>| {
        let held = world.store.held("ns", "name")?;
        Some((held.object.map(|object| object.version.clone()), held.freshness.is_fresh()))
    };
    assert_eq!(held(&world), None);
    world.source.sink().replace(None, ReadKind::Consistent);
    assert_eq!(held(&world), Some((None, true)));
    world.store.forget("ns", "name").run();
    assert_eq!(held(&world), None);
    world.source.sink().set(doc(1));
    world.store.forget("ns", "name").run();
    assert_eq!(held(&world), Some((Some("1".to_owned()), false)));
    world.store.forget("ns", "nobody's").run();
    assert!(world.source.reads().is_empty());
    // The next read asks.
    world.source.answer_at_once(Some(Ok(doc(2))));
    assert_eq!((world.get("name").fresh(), world.get("name").fresh()), (2, 2));
    assert_eq!(world.source.reads(), [ReadKind::Consistent]);
    // So it does of what reads find without a lock.
    world.store.forget("ns", "name").run();
    world.source.answer_at_once(Some(Ok(doc(3))));
    assert_eq!(world.get("name").fresh(), 3);
}

#[test]
fn an_answer_tells_whether_it_was_held_or_asked_for() {
    let world = world();
    let begin = || {
        let mut read = Box::pin(world.store.get("ns", "name"));
        assert!(read.as_mut().now_or_never().is_none());
        read
    };
    let outcome = || world.store.get("ns", "name").now_or_never().expect("to be answered at once").unwrap().outcome;
    let first = begin();
    world.source.sink().replace(Some(doc(1)), ReadKind::Consistent);
    assert_eq!(first.now_or_never().unwrap().unwrap().outcome, Outcome::Fetched);
    assert_eq!(outcome(), Outcome::Held);

    world.store.add_references("ns", &["name"], "pod-2").run();
    for (answer, expected) in [(Err(UNAVAILABLE), Outcome::FetchFailed), (Ok(doc(2)), Outcome::Refreshed)] {
        world.source.answer_at_once(Some(answer));
        assert_eq!(outcome(), expected);
    }
    // A watch confirms what is held without being asked, and nobody is asked while it fails.
    world.advance(100_000);
    world.store.stop_idle();
    let resumed = begin();
    world.source.sink().replace(Some(doc(3)), ReadKind::Consistent);
    let read = resumed.now_or_never().unwrap().unwrap();
    assert_eq!((read.outcome, read.freshness.source), (Outcome::Held, ReadFrom::Watch));
    world.source.sink().failed(Arc::new(UNAVAILABLE));
    assert_eq!(outcome(), Outcome::Held);
}

#[test]
fn a_reader_that_goes_away_leaves_nothing_behind() {
    struct Unwoken;
    impl Wake for Unwoken {
        fn wake(self: Arc<Self>) {}
    }
    let world = world();
    let unwoken = Arc::new(Unwoken);
    let waker = Waker::from(Arc::clone(&unwoken));
    let mut reader = Box::pin(world.store.get("ns", "name"));
    assert!(reader.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    assert_eq!(Arc::strong_count(&unwoken), 2, "it is to be woken");
    drop(reader);
    assert_eq!(Arc::strong_count(&unwoken), 1);
}

#[test]
fn references_of_a_pod_come_and_go_at_once() {
    let world = World::watching();
    world.store.add_references("ns", &["a", "b"], "pod").run();
    world.store.add_references("ns", &["b"], "pod-2").run();
    let counts = || ["a", "b"].map(|name| world.store.references("ns", name));
    assert_eq!((counts(), world.source.running()), ([1, 2], 2));
    world.store.delete_references("ns", &["a", "b"], "pod").run();
    assert_eq!((counts(), world.source.running()), ([0, 1], 1));
}

#[test]
fn what_is_printed_tells_nothing_of_the_objects() {
    let world = synced();
    assert_eq!(format!("{:?}", world.store), "ReflectorStore { .. }");
    assert_eq!(format!("{:?}", *world.source.sink()), "ReflectorSink { .. }");
}

#[test]
fn an_immutable_object_is_watched_no_more_once_it_was_read() {
    let table = [
        (None, Some(doc(200)), true),
        (None, Some(immutable(200, "u")), false),
        (Some(doc(100)), Some(doc(200)), true),
        (Some(doc(100)), Some(immutable(200, "u")), false),
        (Some(immutable(100, "u")), None, false),
    ];
    for (initial, eventual, watched) in table {
        let mut world = world();
        let sink = world.source.sink();
        sink.replace(initial.clone(), ReadKind::Consistent);
        let before = initial.as_ref().map_or(0, |doc| doc.version.parse().unwrap());
        assert_eq!(world.get("name").fresh(), before);
        if let Some(eventual) = eventual {
            assert_eq!(world.source.running(), 1);
            sink.set(eventual);
            // It is the read that stops it.
            assert_eq!(world.source.running(), 1);
            assert_eq!(world.get("name").fresh(), 200);
        }
        assert_eq!(world.source.running() == 1, watched);
        assert_eq!(world.kept("name"), if watched { Kept::Watched } else { Kept::Held });
        if !watched {
            // Nor does time, or what its old reflector says.
            world.advance(100_000);
            world.store.stop_idle();
            sink.failed(Arc::new(UNAVAILABLE));
            sink.set(doc(300));
            assert!(world.get("name").fresh() <= 200);
            assert_eq!(world.source.reflectors().len(), 1);
        }
    }
}

#[test]
fn an_object_that_nobody_reads_stops_being_watched_and_resumes_with_the_next_read() {
    let mut world = world();
    world.source.sink().replace(Some(doc(200)), ReadKind::Consistent);
    assert_eq!(world.get("name").fresh(), 200);
    world.advance(90);
    world.store.stop_idle();
    assert_eq!((world.source.running(), world.kept("name")), (0, Kept::Idle));

    let reader = world.begin("ns", "name");
    assert!(world.run().is_empty());
    assert_eq!((world.source.running(), world.source.reflectors()[1].resume.as_deref()), (1, Some("200")));
    world.source.sink().replace(Some(doc(201)), ReadKind::Consistent);
    assert_eq!(world.run()[&reader].fresh(), 201);

    // Read every 20 seconds, it stays.
    for _ in 0..3 {
        world.advance(20);
        world.get("name");
    }
    world.store.stop_idle();
    assert_eq!((world.source.running(), world.source.reflectors().len()), (1, 2));
}

#[test]
fn idle_is_longer_than_the_time_and_one_that_nobody_ever_read_is_idle_at_once() {
    let mut world = synced();
    world.get("name");
    world.clock.advance(MAX_IDLE);
    world.store.stop_idle();
    assert_eq!(world.source.running(), 1);
    world.clock.advance(Duration::from_nanos(1));
    world.store.stop_idle();
    assert_eq!(world.source.running(), 0);
    let stats = world.store.stats();
    assert_eq!((stats.watching, stats.started, stats.stopped_idle), (0, 1, 1));

    let world = synced();
    world.store.stop_idle();
    assert_eq!(world.source.running(), 0);
}

#[test]
fn the_idle_time_is_raised_to_its_minimum() {
    let options = WatchOptions::default().with_max_idle(Duration::ZERO);
    let mut world = World::watching_with(options);
    world.store.add_references("ns", &["name"], "pod").run();
    world.source.sink().replace(None, ReadKind::Consistent);
    world.get("name");
    world.advance(60);
    world.store.stop_idle();
    assert_eq!(world.source.running(), 1);
    world.advance(1);
    world.store.stop_idle();
    assert_eq!(world.source.running(), 0);
}

#[test]
fn a_first_list_that_takes_long_is_not_counted_as_idle() {
    let mut world = world();
    world.advance(90);
    world.store.stop_idle();
    assert_eq!(world.source.running(), 1);
    // The kubelet's reader gives up after a second; here it waits.
    let reader = world.begin("ns", "name");
    assert!(world.run().is_empty());
    world.advance(30);
    world.source.sink().replace(Some(doc(200)), ReadKind::Consistent);
    world.store.stop_idle();
    assert_eq!(world.source.running(), 1);
    assert_eq!(world.run()[&reader].fresh(), 200);
}

#[test]
fn references_are_counted_for_each_pod() {
    type Step = (bool, &'static str, &'static str, &'static str, usize);
    let (add, delete) = (true, false);
    // What is done, and how many references `ns1/secret1` has then.
    let table: [&[Step]; 4] = [
        &[
            (add, "ns1", "secret1", "pod1", 1),
            (add, "ns1", "secret1", "pod1", 2),
            (delete, "ns1", "secret1", "pod1", 1),
            (delete, "ns1", "secret1", "pod1", 0),
        ],
        &[(delete, "ns1", "secret1", "pod1", 0)],
        &[
            (add, "ns1", "secret1", "pod1", 1),
            (delete, "ns1", "secret1", "pod1", 0),
            (delete, "ns1", "secret1", "pod1", 0),
        ],
        &[
            (add, "ns1", "secret1", "pod1", 1),
            (delete, "ns1", "secret1", "pod2", 1),
            (delete, "ns1", "secret2", "pod1", 1),
            (delete, "ns2", "secret1", "pod1", 1),
        ],
    ];
    for steps in table {
        let world = World::watching();
        for &(adds, namespace, name, uid, expected) in steps {
            if adds {
                world.store.add_references(namespace, &[name], uid).run();
            } else {
                world.store.delete_references(namespace, &[name], uid).run();
            }
            assert_eq!(world.store.references("ns1", "secret1"), expected, "{steps:?}");
            assert_eq!(world.source.running(), usize::from(expected > 0), "{steps:?}");
        }
    }
}

// What people ran into.

#[test]
fn absence_is_only_reported_by_a_reflector_that_has_synced() {
    let mut world = world();
    assert_eq!(world.try_get("name"), None);
    let sink = world.source.sink();
    // A watch that says that it is alive has not said that there is nothing.
    sink.confirm();
    assert_eq!(world.try_get("name"), None);
    sink.failed(Arc::new(UNAVAILABLE));
    assert_eq!(world.get("name"), Answer::Failed(UNAVAILABLE));
    sink.replace(None, ReadKind::Consistent);
    assert_eq!(world.get("name").fresh(), 0);
}

#[test]
fn the_last_reference_releases_the_watch() {
    let mut world = synced();
    world.store.add_references("ns", &["name"], "pod-2").run();
    world.store.delete_references("ns", &["name"], "pod").run();
    assert_eq!((world.source.running(), world.store.watching()), (1, 1));
    let sink = world.source.sink();
    world.store.delete_references("ns", &["name"], "pod-2").run();
    assert_eq!((world.source.running(), world.store.watching()), (0, 0));
    // What it still says goes nowhere.
    sink.set(doc(9));
    assert!(world.store.snapshot().is_empty());
    world.store.add_references("ns", &["name"], "pod-3").run();
    sink.replace(Some(doc(9)), ReadKind::Consistent);
    assert_eq!(world.try_get("name"), None);
}

#[test]
fn a_reader_waits_as_long_as_it_likes_and_what_was_known_is_at_hand() {
    let mut world = synced();
    world.get("name");
    world.advance(90);
    world.store.stop_idle();
    let reader = world.begin("ns", "name");
    world.run();
    world.advance(3_600);
    assert!(world.run().is_empty());
    // Its owner, whose deadline it is, can serve the last known meanwhile.
    let held = world.store.held("ns", "name").unwrap();
    assert_eq!(held.object.unwrap().version, "1");
    assert_eq!(held.freshness.confirmed_at, Timestamp::ZERO);
    let since = Timestamp::ZERO + Duration::from_secs(90);
    assert_eq!(held.freshness.state, FreshState::Stale { since, reason: StaleReason::Expired });
    world.source.sink().replace(Some(doc(2)), ReadKind::Consistent);
    assert_eq!(world.run()[&reader].fresh(), 2);
}

#[test]
fn while_the_reflector_fails_readers_get_the_last_known_with_its_age() {
    let mut world = synced();
    let sink = world.source.sink();
    world.advance(10);
    sink.confirm();
    world.advance(5);
    sink.failed(Arc::new(UNAVAILABLE));
    world.advance(5);
    sink.failed(Arc::new(Failure::Status(500)));
    let answer = world.get("name");
    let at = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
    let freshness = answer.freshness().unwrap();
    assert_eq!((answer.stale(), freshness.confirmed_at, freshness.source), (1, at(10), ReadFrom::Watch));
    let reason = StaleReason::FetchFailed { class: "status" };
    assert_eq!(freshness.state, FreshState::Stale { since: at(15), reason });
    for recover in [
        (|sink| sink.confirm()) as fn(&crate::source::ObjectSink),
        |sink| sink.set(doc(1)),
        |sink| sink.replace(Some(doc(1)), ReadKind::Consistent),
    ] {
        recover(&sink);
        assert_eq!(world.get("name").fresh(), 1);
        assert_eq!(world.get("name").freshness().unwrap().confirmed_at, at(20));
        sink.failed(Arc::new(UNAVAILABLE));
        assert_eq!(world.get("name").stale(), 1);
    }
    assert!(world.source.reads().is_empty());
}

#[test]
fn an_age_counts_from_what_confirmed_it_and_not_from_when_that_was_told() {
    let mut world = synced();
    let at = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
    let confirmed_at = |world: &mut World<Watching>| world.get("name").freshness().unwrap().confirmed_at;
    let sink = world.source.sink();
    world.advance(10);
    sink.confirm_as_of(Duration::from_secs(3));
    assert_eq!(confirmed_at(&mut world), at(7));
    sink.confirm_as_of(Duration::from_secs(5));
    assert_eq!(confirmed_at(&mut world), at(7), "what is older confirms nothing");
    sink.confirm_as_of(Duration::MAX);
    assert_eq!(confirmed_at(&mut world), at(7));
    // So it is where there is more to do than to note the time.
    sink.failed(Arc::new(UNAVAILABLE));
    world.advance(10);
    sink.confirm_as_of(Duration::from_secs(2));
    assert_eq!((world.get("name").fresh(), confirmed_at(&mut world)), (1, at(18)));
}

#[test]
fn an_immutable_object_created_again_is_another_object() {
    let mut world = world();
    world.source.sink().replace(Some(immutable(1, "first")), ReadKind::Consistent);
    assert_eq!(world.get("name").fresh(), 1);
    // It is deleted and created again; a new pod comes.
    world.store.add_references("ns", &["name"], "pod-2").run();
    world.source.answer_at_once(Some(Ok(immutable(5, "second"))));
    assert_eq!(world.get("name").fresh(), 5);
    assert_eq!((world.kept("name"), world.source.reads().len()), (Kept::Held, 1));
    assert_eq!(world.get("name").fresh(), 5);
    assert_eq!(world.source.reads(), [ReadKind::Consistent]);

    // One that is gone, or that may change, is watched again.
    for (again, version) in [(Err(Failure::NotFound), 0), (Ok(doc(7)), 7)] {
        let mut world = self::world();
        world.source.sink().replace(Some(immutable(1, "first")), ReadKind::Consistent);
        world.get("name");
        world.store.add_references("ns", &["name"], "pod-2").run();
        world.source.answer_at_once(Some(again));
        assert_eq!(world.get("name").fresh(), version);
        assert_eq!(world.try_get("name"), None);
        assert_eq!(world.source.running(), 1);
        world.source.sink().replace(Some(doc(8)), ReadKind::Consistent);
        assert_eq!(world.get("name").fresh(), 8);
    }
}

#[test]
fn an_immutable_object_that_changes_its_uid_before_it_is_read_is_another_object() {
    let mut world = world();
    let sink = world.source.sink();
    sink.replace(Some(immutable(1, "first")), ReadKind::Consistent);
    sink.delete();
    sink.set(immutable(3, "second"));
    assert_eq!(world.get("name").fresh(), 3);
    assert_eq!(world.kept("name"), Kept::Held);
}

#[test]
fn a_new_pods_first_read_is_at_least_as_new_as_its_registration() {
    let mut world = synced();
    assert_eq!(world.get("name").fresh(), 1);
    world.store.add_references("ns", &["name"], "pod-2").run();
    // What the watch brings now may be from before.
    world.source.sink().confirm();
    let readers = [world.begin("ns", "name"), world.begin("ns", "name")];
    assert!(world.run().is_empty());
    // One read for all who wait.
    assert_eq!(world.source.reads(), [ReadKind::Consistent]);
    world.source.complete(0, Ok(doc(4)));
    let answers = world.run();
    assert!(readers.iter().all(|reader| answers[reader].fresh() == 4));
    assert_eq!(answers[&readers[0]].freshness().unwrap().source, ReadFrom::LiveRead);
    // The watch lags behind, and catches up.
    let sink = world.source.sink();
    sink.set(doc(3));
    assert_eq!(world.get("name").fresh(), 4);
    sink.set(doc(4));
    sink.set(doc(5));
    assert_eq!(world.get("name").fresh(), 5);
    assert_eq!((world.source.reads().len(), world.store.stats().verifying_reads), (1, 1));
}

#[test]
fn a_list_that_begins_after_the_registration_is_as_good_as_a_read() {
    let mut world = world();
    let sink = world.source.sink();
    world.store.add_references("ns", &["name"], "pod-2").run();
    sink.listing();
    sink.replace(Some(doc(1)), ReadKind::Consistent);
    assert_eq!(world.get("name").fresh(), 1);
    // One that began before is not.
    sink.listing();
    world.store.add_references("ns", &["name"], "pod-3").run();
    sink.replace(Some(doc(2)), ReadKind::Consistent);
    world.source.answer_at_once(Some(Ok(doc(2))));
    assert_eq!(world.get("name").fresh(), 2);
    assert_eq!(world.source.reads().len(), 1);
}

#[test]
fn a_setting() {
    let options = WatchOptions::default().with_first_read_at_least_as_new(false);
    let mut world = World::watching_with(options);
    world.store.add_references("ns", &["name"], "pod").run();
    world.source.sink().replace(Some(doc(1)), ReadKind::Consistent);
    world.store.add_references("ns", &["name"], "pod-2").run();
    assert_eq!(world.get("name").fresh(), 1);
    assert!(world.source.reads().is_empty());
}

#[test]
fn a_read_that_fails_answers_with_what_is_known_and_the_next_one_asks_again() {
    let mut world = synced();
    world.advance(7);
    world.store.add_references("ns", &["name"], "pod-2").run();
    world.source.answer_at_once(Some(Err(UNAVAILABLE)));
    let answer = world.get("name");
    assert_eq!(answer.stale(), 1);
    let since = Timestamp::ZERO + Duration::from_secs(7);
    let reason = StaleReason::FetchFailed { class: "unavailable" };
    assert_eq!(answer.freshness().unwrap().state, FreshState::Stale { since, reason });
    world.source.answer_at_once(Some(Ok(doc(1))));
    assert_eq!(world.get("name").fresh(), 1);
    assert_eq!(world.source.reads().len(), 2);
}

#[test]
fn an_older_read_that_ends_last_does_not_replace_a_newer_one() {
    let same = |version| Ok(doc(version));
    let other = |version, uid: &str| Ok(immutable(version, uid));
    let gone = || Err(Failure::NotFound);
    // What the watch has, what the second read brings first, and then the first one; how often it is asked after that.
    let table = [
        (Some(doc(1)), same(5), same(1), 5, 0),
        (Some(doc(1)), same(5), gone(), 5, 1),
        (Some(doc(1)), gone(), same(1), 0, 1),
        (Some(immutable(1, "first")), other(5, "second"), other(1, "first"), 5, 1),
        (None, same(5), gone(), 5, 1),
    ];
    for (listed, newer, older, version, asks) in table {
        let mut world = world();
        world.source.sink().replace(listed, ReadKind::Consistent);
        world.get("name");
        world.store.add_references("ns", &["name"], "pod-2").run();
        let first = world.begin("ns", "name");
        world.run();
        world.store.add_references("ns", &["name"], "pod-3").run();
        let second = world.begin("ns", "name");
        world.run();
        assert_eq!(world.source.open(), [0, 1]);
        world.source.complete(1, newer.clone());
        assert_eq!(world.run()[&second].fresh(), version);
        world.source.complete(0, older);
        let mut answers = world.run();
        assert_eq!(world.source.open().len(), asks);
        if asks > 0 {
            world.source.complete(2, newer);
            answers = world.run();
        }
        assert_eq!((answers[&first].fresh(), world.get("name").fresh()), (version, version));
        assert_eq!(world.store.stats().versions_went_back, 0);
    }
}

#[test]
fn a_sign_of_life_does_not_let_a_watch_that_lags_replace_what_was_read() {
    let mut world = synced();
    let sink = world.source.sink();
    world.store.add_references("ns", &["name"], "pod-2").run();
    world.source.answer_at_once(Some(Ok(doc(7))));
    assert_eq!(world.get("name").fresh(), 7);
    // A PING is answered; the watch is opened again; a bookmark from before the read.
    sink.confirm();
    sink.failed(Arc::new(UNAVAILABLE));
    sink.confirm();
    sink.bookmark("6");
    sink.set(doc(5));
    assert_eq!(world.get("name").fresh(), 7);
    // It has come as far: what it tells from here on is newer.
    sink.bookmark("7");
    sink.set(doc(6));
    assert_eq!((world.get("name").fresh(), world.source.reads().len()), (6, 1));

    // An absence has no version: a list that began later is believed, and nothing else.
    let mut world = synced();
    let sink = world.source.sink();
    world.store.add_references("ns", &["name"], "pod-2").run();
    world.source.answer_at_once(Some(Err(Failure::NotFound)));
    assert_eq!(world.get("name").fresh(), 0);
    sink.bookmark("9");
    sink.set(doc(2));
    assert_eq!((world.get("name").fresh(), world.source.reads().len()), (0, 2));
    sink.listing();
    sink.replace(Some(doc(3)), ReadKind::Consistent);
    assert_eq!((world.get("name").fresh(), world.source.reads().len()), (3, 2));
}

#[test]
fn a_list_that_may_lag_is_no_proof() {
    // A first list, and one after the object was idle while a pod came.
    let mut world = world();
    world.source.sink().replace(Some(doc(1)), ReadKind::ApiServerCache);
    world.source.answer_at_once(Some(Ok(doc(4))));
    assert_eq!((world.get("name").fresh(), world.source.reads().len()), (4, 1));
    world.advance(90);
    world.store.stop_idle();
    world.store.add_references("ns", &["name"], "pod-2").run();
    assert_eq!(world.try_get("name"), None);
    let sink = world.source.sink();
    sink.listing();
    sink.replace(Some(doc(4)), ReadKind::ApiServerCache);
    world.source.answer_at_once(Some(Ok(doc(9))));
    assert_eq!((world.get("name").fresh(), world.source.reads().len()), (9, 2));
    // Nor does it take back what is known.
    world.advance(90);
    world.store.stop_idle();
    assert_eq!(world.try_get("name"), None);
    world.source.sink().replace(Some(doc(8)), ReadKind::ApiServerCache);
    world.source.sink().set(doc(8));
    assert_eq!((world.get("name").fresh(), world.source.reads().len()), (9, 3));
}

#[test]
fn neither_an_event_nor_a_sign_of_life_stands_for_the_first_list() {
    let mut world = world();
    let sink = world.source.sink();
    sink.set(doc(1));
    sink.confirm();
    assert_eq!(world.try_get("name"), None);
    // A watch that was opened from a version has told all since then at its first bookmark.
    sink.bookmark("1");
    world.source.answer_at_once(Some(Ok(doc(1))));
    assert_eq!(world.get("name").fresh(), 1);
}

#[test]
fn where_a_read_and_the_watch_disagree_the_next_read_asks() {
    // What the watch has, what it says while the read is under way, what the read brings.
    let mut world = synced();
    world.store.add_references("ns", &["name"], "pod-2").run();
    let reader = world.begin("ns", "name");
    world.run();
    world.source.sink().delete();
    // It was deleted, and created again, or is the read older than that?
    world.source.complete(0, Ok(doc(5)));
    assert!(world.run().is_empty());
    assert_eq!(world.source.open(), [1]);
    world.source.complete(1, Ok(doc(5)));
    assert_eq!(world.run()[&reader].fresh(), 5);
    // The watch has yet to tell.
    world.source.sink().set(doc(5));
    assert_eq!(world.get("name").fresh(), 5);
    assert_eq!(world.source.reads().len(), 2);
}

#[test]
fn versions_that_go_back_are_believed_and_counted() {
    let mut world = world();
    let sink = world.source.sink();
    sink.replace(Some(doc(100)), ReadKind::Consistent);
    assert_eq!(world.get("name").fresh(), 100);
    sink.went_back("100", "50");
    sink.listing();
    sink.replace(Some(doc(50)), ReadKind::Consistent);
    assert_eq!((world.get("name").fresh(), world.store.stats().versions_went_back), (50, 1));
    // A read of the store's own finds out too.
    world.store.add_references("ns", &["name"], "pod-2").run();
    world.source.answer_at_once(Some(Ok(doc(20))));
    assert_eq!((world.get("name").fresh(), world.store.stats().versions_went_back), (20, 2));
    sink.listing();
    sink.replace(Some(doc(10)), ReadKind::Consistent);
    assert_eq!(world.get("name").fresh(), 10);
}

#[test]
fn a_list_of_unknown_age_with_a_lower_version_than_a_read_is_asked_about() {
    let mut world = synced();
    world.store.add_references("ns", &["name"], "pod-2").run();
    world.source.answer_at_once(Some(Ok(doc(100))));
    assert_eq!(world.get("name").fresh(), 100);
    // Its list may have begun before the read: but it may also be what is left after a restore.
    world.source.sink().replace(Some(doc(50)), ReadKind::Consistent);
    world.source.answer_at_once(Some(Ok(doc(50))));
    assert_eq!(world.get("name").fresh(), 50);
    assert_eq!(world.store.stats().verifying_reads, 2);
}

#[test]
fn an_absent_object_costs_nothing_and_flips_as_soon_as_it_is_created() {
    let mut world = world();
    world.source.sink().replace(None, ReadKind::Consistent);
    for seconds in [0, 1, 10, 30] {
        world.advance(seconds);
        let answer = world.get("name");
        assert_eq!((answer.fresh(), answer.freshness().unwrap().confirmed_at), (0, Timestamp::ZERO));
    }
    assert!(world.source.reads().is_empty());
    world.source.sink().set(doc(1));
    assert_eq!(world.get("name").fresh(), 1);
}

// And what else is promised.

#[test]
fn a_failure_is_shared_by_all_who_wait() {
    let mut world = world();
    let readers: Vec<usize> = (0..10).map(|_| world.begin("ns", "name")).collect();
    world.run();
    world.source.sink().failed(Arc::new(UNAVAILABLE));
    let answers = world.run();
    assert!(readers.iter().all(|reader| answers[reader] == Answer::Failed(UNAVAILABLE)));
    assert!(world.source.reads().is_empty());
    world.source.sink().replace(Some(doc(1)), ReadKind::Consistent);
    assert_eq!(world.get("name").fresh(), 1);
}

#[test]
fn a_reader_whose_object_is_released_is_told_so() {
    let mut world = world();
    let reader = world.begin("ns", "name");
    world.run();
    world.store.delete_references("ns", &["name"], "pod").run();
    assert_eq!(world.run()[&reader], Answer::NotRegistered);
}

#[test]
fn a_read_under_way_is_not_good_enough_for_a_reference_that_came_after_it() {
    let mut world = synced();
    world.store.add_references("ns", &["name"], "pod-2").run();
    let first = world.begin("ns", "name");
    world.run();
    world.store.add_references("ns", &["name"], "pod-3").run();
    let second = world.begin("ns", "name");
    world.run();
    assert_eq!(world.source.open(), [0, 1]);
    world.source.complete(0, Ok(doc(2)));
    assert_eq!(world.run().keys().copied().collect::<Vec<_>>(), [first]);
    world.source.complete(1, Ok(doc(3)));
    assert_eq!(world.run()[&second].fresh(), 3);
}

#[test]
fn a_read_from_before_the_object_was_released_says_nothing_of_it_once_it_is_referenced_again() {
    let mut world = synced();
    world.store.add_references("ns", &["name"], "pod-2").run();
    let reader = world.begin("ns", "name");
    world.run();
    world.store.delete_references("ns", &["name"], "pod").run();
    world.store.delete_references("ns", &["name"], "pod-2").run();
    world.store.add_references("ns", &["name"], "pod-3").run();
    world.source.complete(0, Ok(doc(1)));
    assert!(world.run().is_empty());
    world.source.sink().replace(Some(doc(2)), ReadKind::Consistent);
    assert_eq!((world.run()[&reader].fresh(), world.get("name").fresh()), (2, 2));
}

#[test]
fn the_next_reader_goes_on_with_the_read_of_one_that_went_away() {
    let mut world = synced();
    world.store.add_references("ns", &["name"], "pod-2").run();
    let first = world.begin("ns", "name");
    let second = world.begin("ns", "name");
    world.run();
    world.drop_reader(first);
    assert_eq!(world.source.open(), [0]);
    world.source.complete(0, Ok(doc(2)));
    assert_eq!(world.run()[&second].fresh(), 2);
    // One that nobody waits for is dropped.
    world.store.add_references("ns", &["name"], "pod-3").run();
    let third = world.begin("ns", "name");
    world.run();
    assert_eq!(world.source.open(), [1]);
    world.drop_reader(third);
    assert!(world.source.open().is_empty());
}

#[test]
fn a_reflector_that_speaks_while_it_is_being_started_is_heard() {
    let mut world = World::watching();
    world.source.list_at_once(Some(Ok(doc(1))));
    world.store.add_references("ns", &["name"], "pod").run();
    assert_eq!(world.get("name").fresh(), 1);
    world.advance(90);
    world.store.stop_idle();
    assert_eq!(world.get("name").fresh(), 1);
}

#[test]
fn what_a_status_page_shows() {
    let mut world = world();
    let shown = |world: &World<Watching>| {
        let status = world.store.snapshot().remove(0);
        (status.references, status.fetching, status.kept, status.state.freshness().map(|it| it.is_fresh()))
    };
    assert_eq!(shown(&world), (1, true, Kept::Watched, None));
    world.source.sink().replace(None, ReadKind::Consistent);
    assert_eq!(shown(&world), (1, false, Kept::Watched, Some(true)));
    assert!(matches!(world.store.snapshot()[0].state, ObjectState::Absent(_)));
    world.source.sink().failed(Arc::new(UNAVAILABLE));
    assert_eq!(shown(&world), (1, false, Kept::Watched, Some(false)));
    world.source.sink().set(immutable(1, "u"));
    world.get("name");
    assert_eq!(shown(&world), (1, false, Kept::Held, Some(true)));
    assert!(matches!(world.store.snapshot()[0].state, ObjectState::Present(_)));
    let stats = world.store.stats();
    assert_eq!((stats.watching, stats.held, stats.started, stats.stopped_idle), (0, 1, 1, 0));
    assert_eq!(world.clock.now(), Timestamp::ZERO);
}

#[test]
fn what_is_displaced_released_or_dropped_with_the_store_is_freed_at_once() {
    let world = world();
    let [first, second] = [doc(1), doc(2)];
    let [first_seen, second_seen] = [&first, &second].map(Arc::downgrade);
    world.source.sink().replace(Some(first), ReadKind::Consistent);
    world.source.sink().set(second);
    assert_eq!((first_seen.strong_count(), second_seen.strong_count() > 0), (0, true));
    world.store.delete_references("ns", &["name"], "pod").run();
    assert_eq!(second_seen.strong_count(), 0);

    let world = synced();
    let last = doc(3);
    let seen = Arc::downgrade(&last);
    let (sink, source) = (world.source.sink(), world.source.clone());
    sink.set(last);
    drop(world);
    assert_eq!((seen.strong_count(), source.running()), (0, 0));
    sink.set(doc(4));
}
