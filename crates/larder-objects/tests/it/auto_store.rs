//! What the adaptive store's documentation promises: its rules, one test each, and what they save.

use crate::harness::Failure;
use crate::source::{Adapting, Answer, Doc, World, doc, immutable};
use larder_clock::Timestamp;
use larder_objects::ReadKind::{ApiServerCache, Consistent};
use larder_objects::{FreshState, Kept, ObjectKey, ReadKind, ReflectorSink, Source as ReadFrom, StaleReason, Store};
use std::sync::Arc;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(20);
const UNAVAILABLE: Failure = Failure::Status(503);

/// A world in which `ns/name` is referenced by one pod.
fn world() -> World<Adapting> {
    let world = World::adapting(TTL);
    world.store.add_references("ns", &["name"], "pod").run();
    world
}

/// As [`world`], and the object is watched and was listed in version 1.
fn watched() -> World<Adapting> {
    let mut world = world();
    world.store.set_mounted("ns", "name");
    world.source.list_at_once(Some(Ok(doc(1))));
    assert_eq!(world.get("name").fresh(), 1);
    world.source.list_at_once(None);
    world
}

/// A world with three references in a namespace that may be watched and has as many objects as that.
fn namespace(objects: u64) -> World<Adapting> {
    let world = World::adapting(TTL);
    world.source.may_watch("ns", Ok(objects));
    world.store.add_references("ns", &["a", "b", "c"], "pod").run();
    world
}

/// As [`namespace`], watched as a whole; `a` and `b` are there.
fn watched_namespace() -> World<Adapting> {
    let mut world = namespace(3);
    let reader = world.begin("ns", "a");
    assert!(world.run().is_empty());
    let list = vec![("a".to_owned(), doc(1)), ("b".to_owned(), doc(2)), ("other".to_owned(), doc(3))];
    world.source.namespaces()[0].sink.replace(list, ReadKind::Consistent);
    assert_eq!(world.run()[&reader].fresh(), 1);
    world
}

#[test]
fn what_is_printed_tells_nothing_of_the_objects() {
    let world = watched_namespace();
    assert_eq!(format!("{:?}", world.store), "ReflectorStore { .. }");
    assert_eq!(format!("{:?}", world.source.namespaces()[0].sink), "ReflectorSink { .. }");
}

#[test]
fn what_is_held_is_told_without_asking_anybody() {
    let world = watched_namespace();
    assert_eq!(
        world.store.held("ns", "b").and_then(|held| held.object).map(|object| object.version.clone()),
        Some("2".to_owned())
    );
    assert!(world.store.held("ns", "nothing").is_none());
    assert!(world.source.reads().is_empty());
}

#[test]
fn rule_1_an_immutable_object_is_held_once_it_was_read() {
    let mut world = world();
    world.source.answer_at_once(Some(Ok(immutable(1, "first"))));
    assert_eq!((world.get("name").fresh(), world.kept("name")), (1, Kept::Held));
    world.advance(1_000_000);
    world.store.stop_idle();
    assert_eq!(world.get("name").fresh(), 1);
    assert_eq!((world.source.reads(), world.source.reflectors().len()), (vec![Consistent], 0));
    // A new pod looks at it again.
    world.store.add_references("ns", &["name"], "pod-2").run();
    world.source.answer_at_once(Some(Ok(immutable(9, "second"))));
    assert_eq!((world.get("name").fresh(), world.kept("name")), (9, Kept::Held));
}

#[test]
fn rule_1_one_that_becomes_immutable_while_it_is_watched_is_held() {
    let mut world = watched();
    world.source.sink().set(immutable(2, "u"));
    assert_eq!((world.get("name").fresh(), world.kept("name"), world.source.running()), (2, Kept::Held, 0));
}

#[test]
fn rule_2_an_object_that_is_read_rarely_is_polled() {
    let mut world = world();
    world.source.answer_at_once(Some(Ok(doc(1))));
    for _ in 0..5 {
        assert_eq!(world.get("name").fresh(), 1);
        assert_eq!(world.get("name").freshness().unwrap().age(Timestamp::ZERO), Duration::ZERO);
        world.advance(4 * 20);
    }
    assert_eq!(world.source.reads()[..2], [Consistent, ApiServerCache]);
    assert_eq!((world.source.reads().len(), world.source.reflectors().len()), (5, 0));
}

#[test]
fn rule_2_an_object_that_would_be_polled_again_soon_is_watched_instead() {
    let mut world = world();
    world.source.answer_at_once(Some(Ok(doc(1))));
    world.get("name");
    world.advance(19);
    world.get("name");
    assert_eq!(world.kept("name"), Kept::Polled);
    world.advance(1);
    let reader = world.begin("ns", "name");
    assert!(world.run().is_empty());
    let started = world.source.reflectors().remove(0);
    assert_eq!((started.key, started.resume.as_deref()), (ObjectKey::new("ns", "name"), Some("1")));
    started.sink.replace(Some(doc(2)), ReadKind::Consistent);
    assert_eq!((world.run()[&reader].fresh(), world.kept("name")), (2, Kept::Watched));
    assert_eq!(world.source.reads().len(), 1);

    // Nobody reads it for long: it is polled again, and starts afresh.
    world.advance(61);
    world.store.stop_idle();
    assert_eq!((world.source.running(), world.kept("name")), (0, Kept::Polled));
    world.source.answer_at_once(Some(Ok(doc(2))));
    assert_eq!(world.get("name").fresh(), 2);
    assert_eq!((world.source.reads(), world.kept("name")), (vec![Consistent, ApiServerCache], Kept::Polled));
}

#[test]
fn rule_2_a_new_pod_alone_is_no_reason_to_watch() {
    let mut world = world();
    world.source.answer_at_once(Some(Ok(doc(1))));
    for pod in 0..4 {
        assert_eq!(world.get("name").fresh(), 1);
        world.store.add_references("ns", &["name"], &format!("pod-{pod}")).run();
    }
    assert_eq!((world.source.reads(), world.source.reflectors().len()), (vec![Consistent; 4], 0));
}

#[test]
fn rule_2_without_a_ttl_the_second_read_watches() {
    let mut world = World::adapting(Duration::ZERO);
    world.store.add_references("ns", &["name"], "pod").run();
    world.source.answer_at_once(Some(Ok(doc(1))));
    assert_eq!(world.get("name").fresh(), 1);
    world.source.list_at_once(Some(Ok(doc(1))));
    for _ in 0..10 {
        assert_eq!(world.get("name").fresh(), 1);
        world.advance(1);
    }
    assert_eq!((world.source.reads().len(), world.source.reflectors().len()), (1, 1));
}

#[test]
fn rule_2_a_mounted_object_is_watched_from_its_first_read_on() {
    let world = watched();
    assert_eq!((world.kept("name"), world.source.reads().len()), (Kept::Watched, 0));
    // The hint goes with the references.
    let mut world = self::world();
    world.store.set_mounted("ns", "name");
    world.store.delete_references("ns", &["name"], "pod").run();
    world.store.set_mounted("ns", "name");
    world.store.add_references("ns", &["name"], "pod").run();
    world.source.answer_at_once(Some(Ok(doc(1))));
    world.get("name");
    assert_eq!(world.kept("name"), Kept::Polled);
}

#[test]
fn an_absent_object_that_is_asked_for_again_is_watched_and_flips_at_once() {
    let mut world = world();
    world.source.answer_at_once(Some(Err(Failure::NotFound)));
    assert_eq!(world.get("name").fresh(), 0);
    assert_eq!(world.try_get("name"), None);
    world.source.sink().replace(None, ReadKind::Consistent);
    for _ in 0..10 {
        assert_eq!(world.get("name").fresh(), 0);
    }
    world.source.sink().set(doc(3));
    assert_eq!(world.get("name").fresh(), 3);
    assert_eq!((world.source.reads().len(), world.source.reflectors().len()), (1, 1));
}

#[test]
fn rule_4_a_watch_that_is_silent_for_too_long_is_backed_by_a_fetch() {
    let mut world = watched();
    world.advance(19);
    assert_eq!(world.get("name").fresh(), 1);
    world.source.sink().confirm();
    world.advance(19);
    let answer = world.get("name");
    assert_eq!((answer.fresh(), answer.freshness().unwrap().source), (1, ReadFrom::Watch));
    assert!(world.source.reads().is_empty());
    world.advance(1);
    world.source.answer_at_once(Some(Ok(doc(2))));
    let answer = world.get("name");
    assert_eq!((answer.fresh(), answer.freshness().unwrap().source), (2, ReadFrom::ApiServerCache));
    // For as long again, and no further request.
    world.advance(19);
    assert_eq!(world.get("name").fresh(), 2);
    assert_eq!((world.source.reads(), world.kept("name")), (vec![ApiServerCache], Kept::Watched));
    // The watch speaks again, and is behind at first.
    world.source.sink().set(doc(1));
    assert_eq!(world.get("name").fresh(), 2);
    world.source.sink().set(doc(2));
    world.source.sink().set(doc(3));
    assert_eq!(world.get("name").fresh(), 3);
}

#[test]
fn rule_4_a_short_ttl_lets_a_watch_be_silent_for_ten_seconds() {
    let mut world = World::adapting(Duration::from_secs(1));
    world.store.add_references("ns", &["name"], "pod").run();
    world.store.set_mounted("ns", "name");
    world.source.list_at_once(Some(Ok(doc(1))));
    world.get("name");
    world.advance(9);
    assert_eq!(world.get("name").fresh(), 1);
    world.advance(1);
    assert_eq!(world.try_get("name"), None);
    assert_eq!(world.source.reads(), [ApiServerCache]);
}

#[test]
fn readers_share_a_poll_and_a_fetch_that_a_new_reference_asks_for() {
    let mut world = watched();
    world.source.sink().failed(Arc::new(UNAVAILABLE));
    world.advance(TTL.as_secs());
    let polling = [world.begin("ns", "name"), world.begin("ns", "name")];
    assert!(world.run().is_empty());
    assert_eq!(world.source.reads(), [ApiServerCache]);
    let poll = world.source.open()[0];
    // The poll may be from before the reference.
    world.store.add_references("ns", &["name"], "pod-2").run();
    let mut readers = vec![world.begin("ns", "name")];
    assert!(world.run().is_empty());
    let all = [ApiServerCache, Consistent];
    assert_eq!(world.source.reads(), all);
    // That the poll has ended takes nothing from the other.
    world.source.complete(poll, Ok(doc(1)));
    let mut answers = world.run();
    readers.push(world.begin("ns", "name"));
    answers.extend(world.run());
    assert_eq!(world.source.reads(), all);
    world.source.complete(world.source.open()[0], Ok(doc(2)));
    answers.extend(world.run());
    assert!(readers.iter().all(|reader| answers[reader].fresh() == 2));
    assert!(polling.iter().all(|reader| answers.contains_key(reader)));
}

#[test]
fn rule_4_a_watch_that_fails_is_backed_by_a_fetch_once_the_ttl_has_passed() {
    let mut world = watched();
    world.advance(5);
    world.source.sink().failed(Arc::new(UNAVAILABLE));
    world.advance(14);
    assert_eq!(world.get("name").fresh(), 1);
    world.advance(1);
    world.source.answer_at_once(Some(Ok(doc(2))));
    assert_eq!(world.get("name").fresh(), 2);
    assert_eq!(world.source.reads(), [ApiServerCache]);
    // And where that fails too, the answer says so.
    world.advance(20);
    world.source.answer_at_once(Some(Err(UNAVAILABLE)));
    let answer = world.get("name");
    assert_eq!(answer.stale(), 2);
    let reason = StaleReason::FetchFailed { class: "unavailable" };
    let FreshState::Stale { reason: given, .. } = answer.freshness().unwrap().state else { panic!("it is stale") };
    assert_eq!(given, reason);
    // The reflector is back.
    world.source.sink().replace(Some(doc(3)), ReadKind::Consistent);
    assert_eq!(world.get("name").fresh(), 3);
    assert_eq!(world.source.reads().len(), 2);
}

#[test]
fn rule_4_a_reflector_that_does_not_sync_is_backed_by_a_fetch() {
    let mut world = world();
    world.store.set_mounted("ns", "name");
    let early = world.begin("ns", "name");
    world.run();
    world.advance(9);
    assert_eq!(world.try_get("name"), None);
    assert!(world.source.reads().is_empty());
    world.advance(1);
    world.source.answer_at_once(Some(Ok(doc(1))));
    assert_eq!(world.get("name").fresh(), 1);
    assert_eq!(world.source.reads(), [Consistent]);
    assert!(world.waiting().is_empty(), "{early} was answered with the other");
}

#[test]
fn rule_4_readers_that_wait_for_a_silent_reflector_are_answered_by_the_fetch_of_another() {
    // Its own reflector, and that of its namespace.
    for in_namespace in [false, true] {
        let mut world = if in_namespace { namespace(3) } else { world() };
        let name = if in_namespace { "a" } else { "name" };
        world.store.set_mounted("ns", name);
        let first = [world.begin("ns", name), world.begin("ns", name)];
        assert!(world.run().is_empty());
        world.advance(10);
        let second = world.begin("ns", name);
        assert!(world.run().is_empty());
        let fetch = world.source.open();
        world.source.complete(fetch[0], Ok(doc(1)));
        let answers = world.run();
        assert!(first.iter().chain([&second]).all(|reader| answers[reader].fresh() == 1), "{answers:?}");
        assert_eq!(world.source.reads(), [Consistent]);
        // What was fetched is good for its TTL.
        world.advance(19);
        assert_eq!(world.get(name).fresh(), 1);
        world.advance(1);
        assert_eq!(world.try_get(name), None);
        assert_eq!(world.source.reads(), [Consistent, ApiServerCache]);
    }
}

#[test]
fn rule_4_a_reader_that_waits_alone_is_backed_by_a_fetch_when_it_is_polled_and_woken_once_a_minute() {
    let mut world = world();
    world.store.set_mounted("ns", "name");
    let reader = world.begin("ns", "name");
    assert!(world.run().is_empty());
    world.source.answer_at_once(Some(Ok(doc(1))));
    for seconds in [9, 1] {
        world.store.stop_idle();
        assert!(world.run().is_empty());
        assert!(world.source.reads().is_empty());
        world.advance(seconds);
    }
    world.store.stop_idle();
    assert_eq!(world.run()[&reader].fresh(), 1);
}

#[test]
fn the_servers_cache_lags_or_went_back_and_the_next_read_is_consistent() {
    let mut world = world();
    world.source.answer_at_once(Some(Ok(doc(100))));
    world.get("name");
    world.advance(4 * 20);
    world.source.answer_at_once(Some(Ok(doc(50))));
    let answer = world.get("name");
    assert_eq!(answer.stale(), 100);
    let FreshState::Stale { reason, .. } = answer.freshness().unwrap().state else { panic!("it is stale") };
    assert_eq!(reason, StaleReason::OlderVersion);
    assert_eq!((world.get("name").fresh(), world.store.stats().versions_went_back), (50, 1));
    assert_eq!(world.source.reads(), [Consistent, ApiServerCache, Consistent]);
}

#[test]
fn rule_3_a_namespace_of_which_most_is_referenced_is_watched_as_a_whole() {
    let mut world = watched_namespace();
    assert_eq!((world.get("b").fresh(), world.get("c").fresh()), (2, 0));
    assert_eq!((world.source.reads().len(), world.source.reflectors().len()), (0, 0));
    assert_eq!((world.source.questions(), world.source.namespaces().len()), ((1, 1), 1));
    assert_eq!((world.source.namespaces()[0].namespace.as_str(), world.kept("c")), ("ns", Kept::NamespaceWatched));
    let stats = world.store.stats();
    assert_eq!((stats.watching, stats.watching_namespaces, stats.in_namespaces), (0, 1, 3));
    let sink = world.source.namespaces()[0].sink.clone();
    sink.set("c", doc(4));
    sink.delete("a", None);
    sink.set("other", doc(5));
    assert_eq!((world.get("a").fresh(), world.get("c").fresh()), (0, 4));
    // Every event shows that it is alive; then a bookmark does.
    world.advance(15);
    sink.set("other", doc(6));
    world.advance(15);
    sink.confirm();
    world.advance(15);
    assert_eq!(world.get("b").fresh(), 2);
    assert!(world.source.reads().is_empty());
    // Released, it is stopped.
    world.store.delete_references("ns", &["a", "b", "c"], "pod").run();
    assert!(!world.source.namespaces()[0].is_running());
    sink.set("a", doc(9));
    assert!(world.store.snapshot().is_empty());
}

#[test]
fn rule_3_readers_share_the_question() {
    let mut world = namespace(3);
    let readers = ["a", "b", "c", "a"].map(|name| world.begin("ns", name));
    assert!(world.run().is_empty());
    assert_eq!((world.source.questions(), world.source.namespaces().len()), ((1, 1), 1));
    world.source.namespaces()[0].sink.replace(Vec::new(), ReadKind::Consistent);
    let answers = world.run();
    assert!(readers.iter().all(|reader| answers[reader].fresh() == 0));
}

#[test]
fn rule_3_a_new_reference_in_a_watched_namespace_is_read_once_and_watched_with_the_rest() {
    let mut world = watched_namespace();
    world.store.add_references("ns", &["other"], "pod-2").run();
    world.source.answer_at_once(Some(Ok(doc(3))));
    assert_eq!((world.get("other").fresh(), world.kept("other")), (3, Kept::NamespaceWatched));
    world.source.namespaces()[0].sink.set("other", doc(7));
    assert_eq!(world.get("other").fresh(), 7);
    assert_eq!((world.source.reads(), world.store.stats().verifying_reads), (vec![Consistent], 1));
}

#[test]
fn rule_3_what_is_not_allowed_or_not_worth_it_is_not_asked_again_soon() {
    // Not allowed; of six objects three are no more than half; the count failed.
    for (count, again) in [(None, (2, 0)), (Some(Ok(6)), (2, 2)), (Some(Err(UNAVAILABLE)), (2, 10))] {
        let mut world = World::adapting(TTL);
        if let Some(count) = count {
            world.source.may_watch("ns", count);
        }
        world.store.add_references("ns", &["a", "b", "c"], "pod").run();
        world.source.answer_at_once(Some(Ok(doc(1))));
        for name in ["a", "b", "c"] {
            assert_eq!((world.get(name).fresh(), world.kept(name)), (1, Kept::Polled));
        }
        assert_eq!(world.source.questions(), (1, usize::from(count.is_some())));
        for _ in 0..9 {
            world.advance(80);
            world.get("a");
        }
        assert_eq!((world.source.questions(), world.source.namespaces().len()), (again, 0));
    }
}

#[test]
fn rule_3_a_namespaces_watch_that_was_behind_a_fetch_counts_once_a_bookmark_is_as_new() {
    for (bookmark, behind) in [("8", false), ("7", false), ("6", true), ("", true)] {
        let mut world = watched_namespace();
        let sink = world.source.namespaces()[0].sink.clone();
        world.store.add_references("ns", &["other"], "pod-2").run();
        world.source.answer_at_once(Some(Ok(doc(7))));
        assert_eq!(world.get("other").fresh(), 7);
        sink.confirm();
        sink.bookmark(bookmark);
        // From before the fetch, unless the watch has come as far: then versions have gone back.
        sink.set("other", doc(5));
        let version = if behind { 7 } else { 5 };
        assert_eq!((world.get("other").fresh(), world.source.reads().len()), (version, 1), "{bookmark}");
    }
}

#[test]
fn rule_3_until_a_namespaces_watch_has_listed_those_that_are_watched_follow_their_own() {
    let mut world = World::adapting(TTL);
    world.source.may_watch("ns", Ok(3));
    world.store.add_references("ns", &["a"], "pod").run();
    world.store.set_mounted("ns", "a");
    world.source.list_at_once(Some(Ok(doc(8))));
    assert_eq!((world.get("a").fresh(), world.kept("a")), (8, Kept::Watched));
    world.store.add_references("ns", &["b", "c"], "pod").run();
    let reader = world.begin("ns", "b");
    assert!(world.run().is_empty());
    let sink = world.source.namespaces()[0].sink.clone();
    sink.set("a", doc(9));
    assert_eq!(world.store.held("ns", "a").unwrap().object.unwrap().version, "8");
    assert_eq!((world.get("a").fresh(), world.kept("a")), (8, Kept::Watched));
    sink.replace(vec![("a".to_owned(), doc(9))], ReadKind::Consistent);
    assert_eq!((world.run()[&reader].fresh(), world.get("a").fresh()), (0, 9));
    assert_eq!(world.kept("a"), Kept::NamespaceWatched);
}

#[test]
fn rule_3_before_its_list_a_namespaces_watch_changes_nothing_of_an_object_with_a_watch_of_its_own() {
    let tells: [fn(&ReflectorSink<Doc, Failure>); 2] = [|sink| sink.bookmark("9"), |sink| sink.went_back("9", "1")];
    for tell in tells {
        let mut world = World::adapting(TTL);
        world.source.may_watch("ns", Ok(3));
        world.store.add_references("ns", &["a"], "pod").run();
        world.store.set_mounted("ns", "a");
        world.source.list_at_once(Some(Ok(doc(5))));
        assert_eq!((world.get("a").fresh(), world.kept("a")), (5, Kept::Watched));
        // A new pod's read is ahead of the object's watch.
        world.store.add_references("ns", &["a"], "pod-2").run();
        world.source.answer_at_once(Some(Ok(doc(8))));
        assert_eq!(world.get("a").fresh(), 8);
        world.store.add_references("ns", &["b", "c"], "pod").run();
        world.begin("ns", "b");
        assert!(world.run().is_empty());
        tell(&world.source.namespaces()[0].sink);
        // From before that read.
        world.source.sink().set(doc(7));
        assert_eq!((world.get("a").fresh(), world.kept("a")), (8, Kept::Watched));
    }
}

#[test]
fn rule_3_what_a_namespaces_ended_reflector_says_counts_no_more() {
    let mut world = watched_namespace();
    let names = ["a", "b", "c"];
    world.store.delete_references("ns", &names, "pod").run();
    world.store.add_references("ns", &names, "pod").run();
    let reader = world.begin("ns", "a");
    assert!(world.run().is_empty());
    let reflectors = world.source.namespaces();
    assert_eq!(reflectors.len(), 2);
    let (ended, runs) = (&reflectors[0].sink, &reflectors[1].sink);
    ended.replace(vec![("a".to_owned(), doc(90))], ReadKind::Consistent);
    assert!(world.run().is_empty());
    runs.replace(vec![("a".to_owned(), doc(5)), ("b".to_owned(), doc(6))], ReadKind::Consistent);
    assert_eq!(world.run()[&reader].fresh(), 5);
    ended.set("a", doc(91));
    ended.delete("b", None);
    ended.failed(Arc::new(UNAVAILABLE));
    assert_eq!((world.get("a").fresh(), world.get("b").fresh()), (5, 6));
}

#[test]
fn rule_3_ten_minutes_later_it_is_asked_again() {
    // Not allowed, and not worth it.
    for count in [None, Some(Ok(6))] {
        let mut world = World::adapting(TTL);
        let counts = usize::from(count.is_some());
        if let Some(count) = count {
            world.source.may_watch("ns", count);
        }
        world.store.add_references("ns", &["a", "b", "c"], "pod").run();
        world.source.answer_at_once(Some(Ok(doc(1))));
        // Another one each time: it is asked by whoever has to fetch.
        for (seconds, name, times) in [(0, "a", 1), (599, "b", 1), (1, "c", 2), (599, "a", 2), (1, "b", 3)] {
            world.advance(seconds);
            world.get(name);
            assert_eq!(world.source.questions(), (times, times * counts));
        }
    }
}

#[test]
fn rule_3_it_is_considered_again_when_twice_as_many_are_referenced() {
    let mut world = namespace(6);
    world.source.answer_at_once(Some(Ok(doc(1))));
    world.get("a");
    world.store.add_references("ns", &["d", "e"], "pod").run();
    world.get("d");
    assert_eq!(world.source.questions(), (1, 1));
    world.store.add_references("ns", &["f"], "pod").run();
    assert_eq!(world.try_get("f"), None);
    assert_eq!((world.source.questions(), world.source.namespaces().len()), ((1, 2), 1));
}

#[test]
fn rule_3_two_objects_are_not_enough() {
    let mut world = World::adapting(TTL);
    world.source.may_watch("ns", Ok(2));
    world.store.add_references("ns", &["a", "b"], "pod").run();
    world.source.answer_at_once(Some(Ok(doc(1))));
    world.get("a");
    assert_eq!(world.source.questions(), (0, 0));
}

#[test]
fn rule_3_the_watches_of_single_objects_end_when_that_of_the_namespace_has_synced() {
    let mut world = World::adapting(TTL);
    world.source.may_watch("ns", Ok(3));
    world.store.add_references("ns", &["a", "b"], "pod").run();
    world.source.list_at_once(Some(Ok(doc(1))));
    world.store.set_mounted("ns", "a");
    assert_eq!((world.get("a").fresh(), world.kept("a")), (1, Kept::Watched));
    world.store.add_references("ns", &["c"], "pod").run();
    let reader = world.begin("ns", "c");
    world.run();
    assert_eq!((world.kept("a"), world.kept("b"), world.source.running()), (Kept::Watched, Kept::NamespaceWatched, 1));
    world.source.sink().set(doc(2));
    assert_eq!(world.get("a").fresh(), 2);
    world.source.namespaces()[0].sink.replace(vec![("a".to_owned(), doc(2))], ReadKind::Consistent);
    assert_eq!(world.run()[&reader].fresh(), 0);
    assert_eq!((world.get("a").fresh(), world.kept("a"), world.source.running()), (2, Kept::NamespaceWatched, 0));
}

#[test]
fn what_confirms_a_namespace_may_be_some_time_ago() {
    let mut world = watched_namespace();
    let at = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
    let sink = world.source.namespaces()[0].sink.clone();
    world.advance(10);
    sink.confirm_as_of(Duration::from_secs(3));
    assert_eq!(world.get("b").freshness().unwrap().confirmed_at, at(7));
    sink.failed(Arc::new(Failure::Status(503)));
    world.advance(5);
    sink.confirm_as_of(Duration::from_secs(1));
    assert_eq!(world.get("b").freshness().unwrap().confirmed_at, at(14));
}

#[test]
fn rule_3_a_namespaces_watch_ends_when_nobody_reads_when_few_refer_and_when_it_fails_for_long() {
    let world = watched_namespace();
    world.advance(61);
    world.store.stop_idle();
    assert!(!world.source.namespaces()[0].is_running());
    assert_eq!(world.kept("a"), Kept::Polled);

    let mut world = watched_namespace();
    world.advance(30);
    world.source.namespaces()[0].sink.confirm();
    world.store.delete_references("ns", &["c"], "pod").run();
    world.advance(1);
    world.get("a");
    world.store.stop_idle();
    assert!(!world.source.namespaces()[0].is_running());
    // What it told last counts as polled then.
    world.advance(18);
    assert_eq!(world.get("a").fresh(), 1);
    assert!(world.source.reads().is_empty());

    let mut world = watched_namespace();
    world.source.namespaces()[0].sink.failed(Arc::new(UNAVAILABLE));
    world.source.answer_at_once(Some(Ok(doc(9))));
    for fetches in [0, 1, 2, 3] {
        assert!(world.source.namespaces()[0].is_running());
        world.get("a").fresh();
        assert_eq!(world.source.reads().len(), fetches);
        world.store.stop_idle();
        world.advance(20);
    }
    world.get("a");
    world.store.stop_idle();
    assert!(!world.source.namespaces()[0].is_running());
}

#[test]
fn rule_3_a_namespace_that_fails_before_it_has_synced_is_backed_by_fetches() {
    let mut world = namespace(3);
    let reader = world.begin("ns", "a");
    world.run();
    world.source.answer_at_once(Some(Err(Failure::NotFound)));
    world.source.namespaces()[0].sink.failed(Arc::new(Failure::Status(403)));
    assert_eq!(world.run()[&reader].fresh(), 0);
    world.source.answer_at_once(Some(Err(UNAVAILABLE)));
    assert_eq!(world.get("b"), Answer::Failed(UNAVAILABLE));
    // And recovers.
    world.source.namespaces()[0].sink.replace(vec![("b".to_owned(), doc(2))], ReadKind::Consistent);
    assert_eq!((world.get("a").fresh(), world.get("b").fresh()), (0, 2));
}

#[test]
fn rule_4_a_sign_of_life_before_its_list_does_not_end_the_failure_of_a_namespaces_watch() {
    let tells: [fn(&ReflectorSink<Doc, Failure>); 2] = [|sink| sink.confirm(), |sink| sink.bookmark("9")];
    for tell in tells {
        let mut world = namespace(3);
        let reader = world.begin("ns", "a");
        assert!(world.run().is_empty());
        world.source.answer_at_once(Some(Ok(doc(1))));
        let sink = world.source.namespaces()[0].sink.clone();
        sink.failed(Arc::new(UNAVAILABLE));
        assert_eq!(world.run()[&reader].fresh(), 1);
        tell(&sink);
        // It is not waited for.
        assert_eq!(world.get("b").fresh(), 1);
    }
}

#[test]
fn a_new_pods_first_read_in_a_watched_namespace_is_as_new_as_its_registration() {
    let mut world = watched_namespace();
    world.store.add_references("ns", &["a"], "pod-2").run();
    world.source.namespaces()[0].sink.confirm();
    world.source.answer_at_once(Some(Ok(doc(8))));
    assert_eq!(world.get("a").fresh(), 8);
    assert_eq!(world.source.reads(), [Consistent]);
    // One list for all, if it begins after.
    world.store.add_references("ns", &["b"], "pod-2").run();
    let sink = world.source.namespaces()[0].sink.clone();
    sink.went_back("9", "4");
    sink.listing();
    sink.replace(vec![("a".to_owned(), doc(4)), ("b".to_owned(), doc(2))], ReadKind::Consistent);
    assert_eq!((world.get("a").fresh(), world.get("b").fresh()), (4, 2));
    assert_eq!((world.source.reads().len(), world.store.stats().versions_went_back), (1, 1));
}
