//! What the TTL store's and the manager's documentation promises, one test a promise.

use crate::harness::{self, Answer, Failure, FetchState, Pod, PodRefs, World, thing};
use futures_util::FutureExt;
use futures_util::future::join;
use larder_clock::{Clock, Timestamp, VirtualClock};
use larder_objects::ReadKind::{ApiServerCache, Consistent};
use larder_objects::{
    DefaultTtl, Effects, Fetch, FreshState, Freshness, GetError, HashSeed, Held, Kept, Object, ObjectKey, ObjectState,
    ObjectStatus, ObjectTtl, Outcome, PodIdentity, PodObjects, Read, ReadKind, Source, StaleReason, Store, StoreTtl,
    Ttl, TtlStore, fetch_fn,
};
use std::collections::BTreeMap;
use std::future::ready;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};
use std::task::{Context, Waker};
use std::time::Duration;

const TTL: i64 = 60;

/// A world in which `a/x` is referenced.
fn world() -> World {
    let world = World::new(TTL);
    world.add_reference("a", "x");
    world
}

fn at(nanos: i128) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn ttl(nanos: i64) -> Duration {
    Duration::from_nanos(nanos.unsigned_abs())
}

fn confirmed(nanos: i128, source: Source) -> Freshness {
    let fresh = Freshness::new(at(nanos), source, FreshState::Fresh);
    fresh.with_fresh_for(Some(ttl(TTL)))
}

fn object(version: &str, data: u32, freshness: Freshness) -> Answer {
    Answer::Object(thing(version, data).unwrap(), freshness)
}

fn stale(nanos: i128, source: Source, since: i128, reason: StaleReason) -> Freshness {
    Freshness::new(at(nanos), source, FreshState::Stale { since: at(since), reason })
}

#[test]
fn only_what_is_referenced_is_fetched() {
    let mut world = World::new(TTL);
    assert_eq!(world.get("a", "x", thing("1", 0)), Answer::NotRegistered);
    world.add_reference("a", "x");
    world.add_reference("a", "x");
    world.delete_reference("a", "x");
    assert!(matches!(world.get("a", "x", thing("1", 0)), Answer::Object(..)));
    world.delete_reference("a", "x");
    assert_eq!(world.get("a", "x", thing("1", 0)), Answer::NotRegistered);
    // One too many is without effect.
    world.delete_reference("a", "x");
    world.add_reference("a", "x");
    assert_eq!(world.larder.references("a", "x"), 1);
    assert_eq!(world.server.fetches().len(), 1);
}

#[test]
fn fresh_means_before_the_ttl_has_passed_strictly() {
    let mut world = world();
    assert_eq!(world.get("a", "x", thing("5", 1)), object("5", 1, confirmed(0, Source::LiveRead)));
    world.advance(TTL - 1);
    assert_eq!(world.get("a", "x", thing("6", 2)), object("5", 1, confirmed(0, Source::LiveRead)));
    world.advance(1);
    assert_eq!(world.get("a", "x", thing("6", 2)), object("6", 2, confirmed(60, Source::ApiServerCache)));
    assert_eq!(world.server.reads(), [Consistent, ApiServerCache]);
}

#[test]
fn the_age_counts_from_when_the_fetch_was_completed() {
    let mut world = world();
    let reader = world.begin("a", "x");
    world.run();
    world.advance(1000);
    world.server.complete(0, thing("5", 1));
    assert_eq!(world.run(), BTreeMap::from([(reader, object("5", 1, confirmed(1000, Source::LiveRead)))]));
    world.advance(TTL - 1);
    world.get("a", "x", thing("6", 2));
    assert_eq!(world.server.reads(), [Consistent]);
}

#[test]
fn the_ttl_is_read_at_every_get() {
    let mut world = world();
    world.get("a", "x", thing("1", 0));
    for (ttl, advance, fetches) in [
        (Some(0), 0, 2),
        (Some(-1), 0, 3),
        (Some(300), 0, 3),
        (Some(300), 299, 3),
        (Some(300), 1, 4),
        (None, TTL - 1, 4),
        (None, 1, 5),
        (Some(i64::MAX), 1_000_000, 5),
        (Some(i64::MIN), 0, 6),
    ] {
        world.ttl.set(ttl);
        world.advance(advance);
        world.get("a", "x", thing("1", 0));
        assert_eq!(world.server.fetches().len(), fetches, "after a TTL of {ttl:?} and {advance} more");
    }
}

#[test]
fn a_new_reference_makes_the_next_read_fetch_consistently() {
    let mut world = world();
    world.get("a", "x", thing("9", 1));
    world.add_reference("a", "x");
    // Not even its version counts any more.
    assert_eq!(world.get("a", "x", thing("3", 2)), object("3", 2, confirmed(0, Source::LiveRead)));
    // With nothing cached, a failure is a failure.
    world.add_reference("a", "x");
    assert_eq!(world.get("a", "x", Err(Failure::Status(503))), Answer::Failed(Failure::Status(503)));
    assert_eq!(world.server.reads(), [Consistent; 3]);
}

#[test]
fn fetches_for_a_new_reference_to_a_cached_object_are_counted_and_no_others() {
    let mut world = world();
    let counted = |world: &World| world.larder.store().new_reference_fetches();
    world.get("a", "x", thing("1", 0));
    world.advance(TTL);
    world.get("a", "x", thing("2", 0));
    assert_eq!((counted(&world), world.server.fetches().len()), (0, 2), "the first one, and one by its TTL");
    // However many come before it is read again; and each try of it, until one has an answer.
    world.add_reference("a", "x");
    world.add_reference("a", "x");
    world.get("a", "x", Err(Failure::Status(503)));
    world.get("a", "x", thing("3", 0));
    assert_eq!(counted(&world), 2);
    world.advance(TTL);
    world.get("a", "x", thing("4", 0));
    assert_eq!(counted(&world), 2);
    // An absence is no object that was held, and neither is what was never read.
    world.add_reference("a", "x");
    world.get("a", "x", Err(Failure::NotFound));
    assert_eq!(counted(&world), 3);
    world.get("a", "x", Err(Failure::NotFound));
    world.add_reference("a", "x");
    world.get("a", "x", thing("5", 0));
    world.add_reference("a", "y");
    world.add_reference("a", "y");
    world.get("a", "y", thing("1", 0));
    assert_eq!(counted(&world), 3);
    // What was forgotten was so for no pod's sake.
    world.larder.store().forget("a", "x").run();
    assert_eq!(world.get("a", "x", thing("1", 0)), object("1", 0, confirmed(2 * i128::from(TTL), Source::LiveRead)));
    world.larder.store().forget("a", "nobody's").run();
    assert_eq!((counted(&world), world.larder.references("a", "nobody's")), (3, 0));
}

#[test]
fn what_is_held_is_told_without_asking_anybody() {
    let mut world = world();
    let held = |world: &World, name| {
        let held = world.larder.store().held("a", name)?;
        Some((held.object.map(|object| object.version.clone()), held.freshness))
    };
    assert_eq!((held(&world, "x"), held(&world, "nobody's")), (None, None));
    world.get("a", "x", thing("5", 1));
    let db = |freshness| Some((Some("5".to_owned()), freshness));
    assert_eq!(held(&world, "x"), db(confirmed(0, Source::LiveRead)));
    world.advance(TTL);
    let expired = db(stale(0, Source::LiveRead, 60, StaleReason::Expired));
    assert_eq!(held(&world, "x"), expired);
    // While it is fetched, and until a new reference.
    let reader = world.begin("a", "x");
    assert!(world.run().is_empty());
    assert_eq!(held(&world, "x"), expired);
    world.add_reference("a", "x");
    assert_eq!(held(&world, "x"), None);
    world.drop_reader(reader);
    // An absence is asked for again at every read.
    world.get("a", "x", Err(Failure::NotFound));
    assert_eq!(held(&world, "x"), Some((None, stale(60, Source::LiveRead, 60, StaleReason::Expired))));
    world.larder.store().forget("a", "x").run();
    assert_eq!((held(&world, "x"), world.server.fetches().len()), (None, 3));
}

#[test]
fn an_answer_tells_whether_it_was_held_or_asked_for() {
    let world = world();
    let get = || world.larder.get_object("a", "x");
    let read = |answer: harness::Outcome| {
        world.server.answer_at_once(Some(answer));
        get().now_or_never().expect("to be answered at once").unwrap().outcome
    };
    let unavailable = || Err(Failure::Status(503));
    for (advance, answer, outcome) in [
        (0, thing("5", 0), Outcome::Fetched),
        (0, thing("6", 0), Outcome::Held),
        (TTL, thing("6", 0), Outcome::Refreshed),
        (TTL, thing("5", 0), Outcome::FetchFailed),
        (0, unavailable(), Outcome::FetchFailed),
    ] {
        world.advance(advance);
        assert_eq!(read(answer), outcome);
    }
    // Whoever waits for a fetch is answered by it as the one that began it is.
    for outcome in [Outcome::Refreshed, Outcome::Fetched] {
        if outcome == Outcome::Fetched {
            world.add_reference("a", "x");
        }
        world.server.answer_at_once(None);
        let mut both = Box::pin(join(get(), get()));
        assert!(both.as_mut().now_or_never().is_none());
        world.server.complete(world.server.open()[0], thing("7", 0));
        let (one, other) = both.now_or_never().expect("to be answered");
        assert_eq!((one.unwrap().outcome, other.unwrap().outcome), (outcome, outcome));
    }
}

#[test]
fn a_reference_taken_back_leaves_the_rest_alone() {
    let mut world = world();
    world.add_reference("a", "x");
    world.get("a", "x", thing("9", 1));
    world.delete_reference("a", "x");
    world.get("a", "x", thing("9", 1));
    assert_eq!(world.server.reads(), [Consistent]);
}

#[test]
fn a_fetch_from_before_a_new_reference_answers_only_those_who_waited_for_it() {
    let mut world = world();
    let before = world.begin("a", "x");
    let waits = world.begin("a", "x");
    world.run();
    world.add_reference("a", "x");
    let after = world.begin("a", "x");
    // The new one's fetch does not wait for the old one's.
    assert!(world.run().is_empty());
    assert_eq!(world.server.open(), [0, 1]);

    world.server.complete(0, thing("5", 1));
    let old = object("5", 1, confirmed(0, Source::LiveRead));
    assert_eq!(world.run(), BTreeMap::from([(before, old.clone()), (waits, old)]));
    assert_eq!(world.waiting(), [after]);

    world.server.complete(1, thing("4", 2));
    assert_eq!(world.run(), BTreeMap::from([(after, object("4", 2, confirmed(0, Source::LiveRead)))]));
}

#[test]
fn an_old_fetch_that_ends_last_does_not_fill_the_new_generation() {
    let mut world = world();
    let before = world.begin("a", "x");
    world.run();
    world.delete_reference("a", "x");
    world.add_reference("a", "x");
    let new = world.get("a", "x", thing("5", 1));
    world.server.complete(0, thing("9", 2));
    assert_eq!(world.run(), BTreeMap::from([(before, object("9", 2, confirmed(0, Source::LiveRead)))]));
    assert_eq!(world.get("a", "x", thing("0", 3)), new);
}

#[test]
fn a_reader_whose_object_is_dropped_meanwhile_is_answered_all_the_same() {
    let mut world = world();
    let reader = world.begin("a", "x");
    world.run();
    world.delete_reference("a", "x");
    assert_eq!(world.get("a", "x", thing("1", 0)), Answer::NotRegistered);
    world.server.complete(0, thing("5", 1));
    assert_eq!(world.run(), BTreeMap::from([(reader, object("5", 1, confirmed(0, Source::LiveRead)))]));
    assert!(world.larder.store().snapshot().is_empty());
}

#[test]
fn readers_share_one_fetch_and_other_objects_do_not_wait() {
    let mut world = world();
    world.add_reference("a", "y");
    let readers: Vec<usize> = (0..50).map(|_| world.begin("a", "x")).collect();
    assert!(world.run().is_empty());
    assert!(matches!(world.get("a", "y", thing("1", 0)), Answer::Object(..)));
    world.server.complete(0, thing("5", 1));
    let answer = object("5", 1, confirmed(0, Source::LiveRead));
    assert_eq!(world.run(), readers.into_iter().map(|reader| (reader, answer.clone())).collect());
    assert_eq!(world.server.fetches().len(), 2);
}

#[test]
fn waiters_judge_afresh_at_their_turn_first_come_first_served() {
    // After a failure, after 'not found', and with a TTL of 0, each fetches itself.
    for (outcome, ttl) in [(Err(Failure::Status(500)), None), (Err(Failure::NotFound), None), (thing("1", 0), Some(0))]
    {
        let mut world = world();
        world.ttl.set(ttl);
        let readers: Vec<usize> = (0..4).map(|_| world.begin("a", "x")).collect();
        assert!(world.run().is_empty());
        for (turn, reader) in readers.into_iter().enumerate() {
            assert_eq!(world.server.open(), [turn], "one fetch at a time");
            world.server.complete(turn, outcome.clone());
            assert_eq!(world.run().into_keys().collect::<Vec<_>>(), [reader]);
        }
    }
}

#[test]
fn a_failure_with_nothing_cached_is_the_answer_and_is_not_kept() {
    let mut world = world();
    assert_eq!(world.get("a", "x", Err(Failure::Status(503))), Answer::Failed(Failure::Status(503)));
    assert_eq!(world.get("a", "x", Err(Failure::Status(500))), Answer::Failed(Failure::Status(500)));
    assert!(matches!(world.get("a", "x", thing("1", 0)), Answer::Object(..)));
    assert_eq!(world.server.reads(), [Consistent; 3]);
}

#[test]
fn a_failure_with_something_cached_answers_with_that_and_says_since_when_it_is_stale() {
    let mut world = world();
    world.advance(10);
    world.get("a", "x", thing("5", 1));
    world.advance(TTL + 7);
    let reason = StaleReason::FetchFailed { class: "unavailable" };
    let answer = object("5", 1, stale(10, Source::LiveRead, 70, reason));
    // It is not renewed by a failure: every read fetches, as a refresh.
    assert_eq!(world.get("a", "x", Err(Failure::Status(503))), answer);
    assert_eq!(world.get("a", "x", Err(Failure::Status(503))), answer);
    assert_eq!(world.get("a", "x", thing("6", 2)), object("6", 2, confirmed(77, Source::ApiServerCache)));
    assert_eq!(world.server.reads(), [Consistent, ApiServerCache, ApiServerCache, ApiServerCache]);
}

#[test]
fn nothing_is_stale_from_before_it_was_confirmed() {
    let mut world = world();
    world.advance(10);
    world.get("a", "x", thing("5", 1));
    world.ttl.set(Some(-3));
    let reason = StaleReason::FetchFailed { class: "status" };
    let answer = object("5", 1, stale(10, Source::LiveRead, 10, reason));
    assert_eq!(world.get("a", "x", Err(Failure::Status(500))), answer);
}

#[test]
fn not_found_replaces_what_was_cached_and_is_never_fresh() {
    let mut world = world();
    world.get("a", "x", thing("5", 1));
    world.advance(TTL);
    assert_eq!(world.get("a", "x", Err(Failure::NotFound)), Answer::NotFound(confirmed(60, Source::ApiServerCache)));
    // Within the TTL, and yet it is asked again, consistently.
    assert_eq!(world.get("a", "x", Err(Failure::NotFound)), Answer::NotFound(confirmed(60, Source::LiveRead)));
    // Another failure leaves it absent.
    world.advance(1);
    let reason = StaleReason::FetchFailed { class: "unavailable" };
    let answer = Answer::NotFound(stale(60, Source::LiveRead, 120, reason));
    assert_eq!(world.get("a", "x", Err(Failure::Status(503))), answer);
    // Whatever appears is new: no version is compared.
    assert_eq!(world.get("a", "x", thing("1", 9)), object("1", 9, confirmed(61, Source::LiveRead)));
    assert_eq!(world.server.reads(), [Consistent, ApiServerCache, Consistent, Consistent, Consistent]);
}

#[test]
fn a_negative_entry_is_an_answer_until_its_ttl_or_a_new_reference() {
    let mut world = World::new_with(TTL, |store| store.with_negative_entries(true));
    world.add_reference("a", "x");
    // Whoever waits for it shares it.
    let readers = [world.begin("a", "x"), world.begin("a", "x")];
    assert!(world.run().is_empty());
    world.server.complete(0, Err(Failure::NotFound));
    let absent = |nanos| Answer::NotFound(confirmed(nanos, Source::LiveRead));
    assert_eq!(world.run(), readers.map(|reader| (reader, absent(0))).into());
    world.advance(TTL - 1);
    assert_eq!(world.get("a", "x", thing("5", 1)), absent(0));
    assert!(world.larder.store().held("a", "x").is_some_and(|held| held.freshness.is_fresh()));
    // The TTL is read at every get, as for an object.
    world.ttl.set(Some(1));
    assert_eq!(world.get("a", "x", Err(Failure::NotFound)), {
        Answer::NotFound(confirmed(59, Source::LiveRead).with_fresh_for(Some(ttl(1))))
    });
    world.advance(1);
    assert!(world.larder.store().held("a", "x").is_some_and(|held| !held.freshness.is_fresh()));
    world.ttl.set(None);
    world.add_reference("a", "x");
    assert_eq!(world.get("a", "x", thing("5", 1)), object("5", 1, confirmed(60, Source::LiveRead)));
    assert_eq!(world.server.reads(), [Consistent; 3]);
}

#[test]
fn versions_do_not_go_back_and_an_older_one_does_not_renew_the_age() {
    let mut world = world();
    world.get("a", "x", thing("10", 1));
    world.advance(TTL);
    let answer = object("10", 1, stale(0, Source::LiveRead, 60, StaleReason::OlderVersion));
    for older in ["9", "", "abc", "+11", "09"] {
        assert_eq!(world.get("a", "x", thing(older, 2)), answer, "after {older:?}");
    }
    // The same version is taken, and renews the age.
    assert_eq!(world.get("a", "x", thing("10", 3)), object("10", 3, confirmed(60, Source::ApiServerCache)));
    world.advance(TTL);
    // All that is beyond 64 bits is one and the same version.
    assert!(matches!(world.get("a", "x", thing("18446744073709551616", 4)), Answer::Object(..)));
    world.advance(TTL);
    let same = object("18446744073709551615", 5, confirmed(180, Source::ApiServerCache));
    assert_eq!(world.get("a", "x", thing("18446744073709551615", 5)), same);
}

#[test]
fn the_next_reader_goes_on_with_the_fetch_of_one_that_went_away() {
    let mut world = world();
    let leader = world.begin("a", "x");
    let next = world.begin("a", "x");
    let last = world.begin("a", "x");
    world.run();
    world.drop_reader(leader);
    // Neither begun again nor cancelled.
    assert!(world.run().is_empty());
    assert_eq!(world.server.fetches(), [("a/x".to_owned(), Consistent, FetchState::Open)]);
    world.server.complete(0, thing("5", 1));
    let answer = object("5", 1, confirmed(0, Source::LiveRead));
    assert_eq!(world.run(), BTreeMap::from([(next, answer.clone()), (last, answer)]));
}

#[test]
fn one_that_goes_on_with_anothers_fetch_judges_afresh_by_what_it_brought() {
    for (outcome, reads_next) in [(Err(Failure::Status(503)), Consistent), (Err(Failure::NotFound), Consistent)] {
        let mut world = world();
        let leader = world.begin("a", "x");
        let next = world.begin("a", "x");
        world.run();
        world.drop_reader(leader);
        world.run();
        world.server.complete(0, outcome);
        assert!(world.run().is_empty(), "the outcome was the other's");
        world.server.complete(1, thing("5", 1));
        assert_eq!(world.run(), BTreeMap::from([(next, object("5", 1, confirmed(0, Source::LiveRead)))]));
        assert_eq!(world.server.reads(), [Consistent, reads_next]);
    }
}

#[test]
fn what_an_adopted_fetch_brought_counts_even_if_it_is_not_fresh() {
    let mut world = world();
    world.ttl.set(Some(0));
    let leader = world.begin("a", "x");
    let next = world.begin("a", "x");
    world.run();
    world.drop_reader(leader);
    world.run();
    world.server.complete(0, thing("5", 1));
    assert!(world.run().is_empty());
    // It is a refresh now, and what is known outlives its failure.
    world.server.complete(1, Err(Failure::Status(503)));
    let reason = StaleReason::FetchFailed { class: "unavailable" };
    let answer = object("5", 1, stale(0, Source::LiveRead, 0, reason));
    assert_eq!(world.run(), BTreeMap::from([(next, answer)]));
    assert_eq!(world.server.reads(), [Consistent, ApiServerCache]);
}

#[test]
fn a_fetch_that_nobody_waits_for_is_dropped() {
    let mut world = world();
    let leader = world.begin("a", "x");
    let waits = world.begin("a", "x");
    world.run();
    world.drop_reader(waits);
    world.drop_reader(leader);
    assert_eq!(world.server.fetches(), [("a/x".to_owned(), Consistent, FetchState::Dropped)]);
    // And nothing of it is left: the next read starts anew.
    assert!(matches!(world.get("a", "x", thing("5", 1)), Answer::Object(..)));
    assert_eq!(world.server.reads(), [Consistent, Consistent]);
}

#[test]
fn a_reader_that_was_given_the_turn_and_went_away_before_it_ran_strands_nobody() {
    let mut world = world();
    let leader = world.begin("a", "x");
    let gone = world.begin("a", "x");
    let last = world.begin("a", "x");
    world.run();
    // The turn passes to `gone` and from it to `last`, and the fetch with it, before either is polled.
    world.drop_reader(leader);
    world.drop_reader(gone);
    assert!(world.run().is_empty());
    world.server.complete(0, thing("5", 1));
    assert_eq!(world.run().into_keys().collect::<Vec<_>>(), [last]);
    assert_eq!(world.server.fetches().len(), 1);
}

#[test]
fn a_refresh_that_is_under_way_does_not_hold_up_readers_for_whom_the_object_is_fresh() {
    let mut world = world();
    world.get("a", "x", thing("5", 1));
    world.advance(TTL);
    let refreshing = world.begin("a", "x");
    let waits = world.begin("a", "x");
    assert!(world.run().is_empty());
    world.ttl.set(Some(2 * TTL));
    // Differs from the kubelet, where it would wait for the refresh.
    let fresh = world.begin("a", "x");
    assert_eq!(
        world.run(),
        BTreeMap::from([(fresh, object("5", 1, confirmed(0, Source::LiveRead).with_fresh_for(Some(ttl(2 * TTL)))))])
    );
    assert_eq!(world.waiting(), [refreshing, waits]);
    world.server.complete(1, thing("6", 2));
    assert_eq!(world.run().len(), 2);
}

#[test]
fn many_waiters_that_leave_at_once_are_gone() {
    let mut world = world();
    let leader = world.begin("a", "x");
    let readers: Vec<usize> = (0..1000).map(|_| world.begin("a", "x")).collect();
    world.run();
    for reader in readers {
        world.drop_reader(reader);
    }
    world.server.complete(0, Err(Failure::Status(503)));
    assert_eq!(world.run(), BTreeMap::from([(leader, Answer::Failed(Failure::Status(503)))]));
    assert!(world.server.open().is_empty());
}

#[test]
fn those_who_wait_do_not_wait_for_each_other_once_the_object_is_fresh() {
    let mut world = world();
    let leader = world.begin("a", "x");
    let next = world.begin("a", "x");
    let last = world.begin("a", "x");
    world.run();
    world.server.complete(0, thing("5", 1));
    // All are woken by the leader's answer; the one whose turn it is need not have run before the one after it.
    assert_eq!(world.poll_at_most(1, |_| 0).into_keys().collect::<Vec<_>>(), [leader]);
    assert_eq!(world.poll_at_most(1, |woken| woken - 1).into_keys().collect::<Vec<_>>(), [last]);
    assert_eq!(world.run().into_keys().collect::<Vec<_>>(), [next]);
    assert_eq!(world.server.fetches().len(), 1);
}

#[test]
fn a_snapshot_judges_as_a_read_does() {
    let mut world = world();
    world.get("a", "x", thing("5", 1));
    let fresh = confirmed(0, Source::LiveRead);
    let expired = stale(0, Source::LiveRead, TTL.into(), StaleReason::Expired);
    for (advance, expected) in [(0, fresh), (TTL - 1, fresh), (1, expired), (1, expired)] {
        world.advance(advance);
        assert_eq!(world.larder.store().snapshot()[0].state, ObjectState::Present(expected));
    }
}

#[test]
fn a_snapshot_says_what_is_known_and_fetches_nothing() {
    let mut world = world();
    world.add_reference("a", "x");
    world.add_reference("b", "absent");
    world.add_reference("b", "pending");
    world.add_reference("b", "untouched");
    world.get("a", "x", thing("5", 1));
    world.get("b", "absent", Err(Failure::NotFound));
    world.begin("b", "pending");
    world.run();
    world.advance(TTL + 1);
    let before = world.server.fetches();
    let mut all = world.larder.store().snapshot();
    all.sort_by(|one, other| one.key.cmp(&other.key));
    let all: Vec<_> = all.into_iter().map(|it| (it.key.to_string(), it.references, it.fetching, it.state)).collect();
    let expired = stale(0, Source::LiveRead, 60, StaleReason::Expired);
    assert_eq!(
        all,
        [
            ("a/x".to_owned(), 2, false, ObjectState::Present(expired)),
            ("b/absent".to_owned(), 1, false, ObjectState::Absent(confirmed(0, Source::LiveRead))),
            ("b/pending".to_owned(), 1, true, ObjectState::NotFetched),
            ("b/untouched".to_owned(), 1, false, ObjectState::NotFetched),
        ]
    );
    assert_eq!(world.server.fetches(), before);
    let known = [Some(expired), Some(confirmed(0, Source::LiveRead)), None, None];
    assert_eq!(all.iter().map(|(.., state)| state.freshness()).collect::<Vec<_>>(), known);
}

/// An object that tells when it is dropped.
struct Tracked {
    version: &'static str,
    _alive: Arc<()>,
}

impl Object for Tracked {
    fn resource_version(&self) -> &str {
        self.version
    }

    fn uid(&self) -> &'static str {
        ""
    }

    fn is_immutable(&self) -> bool {
        false
    }
}

/// An object that, as it is dropped, looks for something in the store that held it.
struct Curious {
    version: &'static str,
    store: Arc<OnceLock<Weak<dyn References>>>,
}

/// The part of a store that `Curious` asks.
trait References: Send + Sync {
    fn count(&self) -> usize;
}

impl<F: Fetch, C: Clock, T: Ttl> References for TtlStore<F, C, T> {
    fn count(&self) -> usize {
        self.references("a", "x")
    }
}

impl Object for Curious {
    fn resource_version(&self) -> &str {
        self.version
    }

    fn uid(&self) -> &'static str {
        ""
    }

    fn is_immutable(&self) -> bool {
        false
    }
}

impl Drop for Curious {
    fn drop(&mut self) {
        if let Some(store) = self.store.get().and_then(Weak::upgrade) {
            store.count();
        }
    }
}

#[test]
fn an_object_is_dropped_with_no_lock_held() {
    let (done, finished) = mpsc::channel();
    // On a thread of its own, which would be stuck for ever if it met a lock that it holds.
    std::thread::spawn(move || {
        let (version, link) = (Arc::new(Mutex::new(Ok("5"))), Arc::new(OnceLock::new()));
        let (answer, store) = (Arc::clone(&version), Arc::clone(&link));
        let server = fetch_fn(move |_: &ObjectKey, _: ReadKind| {
            let outcome: Result<&str, Failure> = *answer.lock().unwrap();
            ready(outcome.map(|version| Arc::new(Curious { version, store: Arc::clone(&store) })))
        });
        let store = Arc::new(TtlStore::new(
            server,
            VirtualClock::new(Timestamp::ZERO),
            StoreTtl::new(DefaultTtl, Duration::ZERO),
        ));
        link.set(Arc::downgrade(&store) as Weak<dyn References>).ok().unwrap();
        let get =
            || Pin::new(&mut Box::pin(store.get("a", "x"))).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        store.add_references("a", &["x"], "u").run();
        for answer in [Ok("5"), Ok("6"), Ok("4"), Err(Failure::NotFound), Ok("1")] {
            *version.lock().unwrap() = answer;
            assert!(get());
        }
        store.add_references("a", &["x"], "u").run();
        assert!(get());
        store.delete_references("a", &["x"], "u").run();
        store.delete_references("a", &["x"], "u").run();
        done.send(store.references("a", "x")).unwrap();
    });
    assert_eq!(finished.recv_timeout(Duration::from_secs(30)), Ok(0));
}

#[tokio::test]
async fn what_is_replaced_withdrawn_or_no_longer_referenced_is_freed_at_once() {
    let alive = Arc::new(());
    let objects = || Arc::strong_count(&alive) - 1;
    let (version, clock) = (Arc::new(Mutex::new(Ok("5"))), VirtualClock::new(Timestamp::ZERO));
    let (answer, tracker) = (Arc::clone(&version), Arc::clone(&alive));
    let server = fetch_fn(move |_: &ObjectKey, _: ReadKind| {
        let outcome = answer.lock().unwrap().map(|version| Arc::new(Tracked { version, _alive: Arc::clone(&tracker) }));
        ready(outcome)
    });
    // The function holds a handle of its own.
    let objects = || objects() - 1;
    let store = TtlStore::new(server, clock.clone(), StoreTtl::new(DefaultTtl, ObjectTtl::from_nanos(TTL)));
    store.add_references("a", &["x"], "u").run();
    assert!(store.get("a", "x").await.is_ok());
    assert_eq!(objects(), 1);

    *version.lock().unwrap() = Ok("6");
    clock.set(Timestamp::from_nanos(TTL.into()));
    assert!(store.get("a", "x").await.is_ok());
    assert_eq!(objects(), 1, "the version before was replaced");

    *version.lock().unwrap() = Ok("4");
    clock.set(Timestamp::from_nanos((2 * TTL).into()));
    assert!(store.get("a", "x").await.is_ok());
    assert_eq!(objects(), 1, "the older version was not kept");

    *version.lock().unwrap() = Err(Failure::NotFound);
    assert!(store.get("a", "x").await.is_err());
    assert_eq!(objects(), 0, "it does not exist any more");

    *version.lock().unwrap() = Ok("7");
    assert!(store.get("a", "x").await.is_ok());
    store.add_references("a", &["x"], "v").run();
    assert_eq!(objects(), 0, "a new generation began");

    assert!(store.get("a", "x").await.is_ok());
    store.delete_references("a", &["x"], "u").run();
    assert_eq!(objects(), 1, "it is still referenced");
    store.delete_references("a", &["x"], "v").run();
    assert_eq!(objects(), 0, "the last reference is gone");
}

fn pod(name: &str, uid: &str, refs: &[(&str, bool)]) -> Pod {
    Pod {
        namespace: "a".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        refs: refs.iter().map(|(name, optional)| ((*name).to_owned(), *optional)).collect(),
    }
}

#[test]
fn names_of_any_length_and_form_are_told_apart() {
    let long = |of: &str, len| of.repeat(len);
    let world = World::new(TTL);
    let names =
        [String::new(), long("n", 63), long("n", 64), long("n", 65), long("n", 5_000), "?".to_owned(), "!x".to_owned()];
    let refs: Vec<(&str, bool)> = names.iter().map(|name| (name.as_str(), false)).collect();
    let (name, uid) = (long("p", 300), long("u", 64));
    world.larder.register_pod(&pod(&name, &uid, &refs));
    for name in &names {
        assert_eq!(world.larder.references("a", name), 1, "{} bytes", name.len());
    }
    // All but one go, whichever.
    for keep in 0..refs.len() {
        world.larder.register_pod(&pod(&name, &uid, &refs));
        world.larder.register_pod(&pod(&name, &uid, &refs[keep..=keep]));
        for (at, name) in names.iter().enumerate() {
            assert_eq!(world.larder.references("a", name), usize::from(at == keep));
        }
    }
    assert!(!world.larder.is_registered(PodIdentity { namespace: "a", name: &long("p", 299), uid: &uid }));
    world.larder.unregister_pod(&pod(&name, &uid, &[]));
    assert!(world.larder.store().snapshot().is_empty());
}

#[test]
fn a_thousand_pods_and_objects_in_many_namespaces() {
    let mut world = World::new(TTL);
    let in_namespace = |at: usize| Pod {
        namespace: format!("ns-{}", at % 70),
        ..pod(&format!("p{at}"), "u", &[("x", false), ("y", true)])
    };
    let pods: Vec<Pod> = (0..1000).map(in_namespace).collect();
    for (at, it) in pods.iter().enumerate() {
        world.larder.register_pod(it);
        assert_eq!(world.larder.references(&it.namespace, "x"), at / 70 + 1);
    }
    for namespace in 0..70 {
        assert!(matches!(world.get(&format!("ns-{namespace}"), "x", thing("1", 0)), Answer::Object(..)));
    }
    assert_eq!(world.larder.store().snapshot().len(), 140);
    let mut registered = 0;
    world.larder.for_each_pod(|_| registered += 1);
    assert_eq!(registered, 1000);
    for it in &pods {
        world.larder.unregister_pod(it);
    }
    assert!(world.larder.store().snapshot().is_empty());
}

#[test]
fn each_of_many_objects_is_found_under_its_own_name() {
    // Enough that hashes which differ, but not in the bits that a table looks at first, meet.
    const OBJECTS: u32 = 5_000;
    let mut world = World::new(TTL);
    for at in 0..OBJECTS {
        let name = at.to_string();
        world.add_reference("a", &name);
        assert!(matches!(world.get("a", &name, thing("1", at)), Answer::Object(read, _) if read.data == at));
    }
    for at in 0..OBJECTS {
        let name = at.to_string();
        assert!(matches!(world.get("a", &name, thing("2", 0)), Answer::Object(read, _) if read.data == at));
        assert_eq!(world.get("b", &name, thing("2", 0)), Answer::NotRegistered);
        assert_eq!(world.larder.references("a", &name), 1);
    }
}

/// A store that only counts, with no more methods than every store has to have.
#[derive(Default)]
struct Counting {
    references: Mutex<BTreeMap<String, isize>>,
}

impl Counting {
    fn count(&self, namespace: &str, name: &str, uid: &str, by: isize) {
        *self.references.lock().unwrap().entry(format!("{namespace}/{name}/{uid}")).or_default() += by;
    }
}

impl Store for Counting {
    type Object = Tracked;
    type Error = Failure;

    fn add_references(&self, namespace: &str, names: &[&str], uid: &str) -> Effects<'_> {
        for name in names {
            self.count(namespace, name, uid, 1);
        }
        Effects::none()
    }

    fn delete_references(&self, namespace: &str, names: &[&str], uid: &str) -> Effects<'_> {
        for name in names {
            self.count(namespace, name, uid, -1);
        }
        Effects::none()
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Read<Tracked>, GetError<Failure>> {
        Err(GetError::NotRegistered { key: ObjectKey::new(namespace, name) })
    }

    fn references(&self, _: &str, _: &str) -> usize {
        7
    }

    fn held(&self, _: &str, _: &str) -> Option<Held<Tracked>> {
        Some(Held::new(None, confirmed(1, Source::Watch)))
    }

    fn forget(&self, namespace: &str, name: &str) -> Effects<'_> {
        self.count(namespace, name, "forgotten", 1);
        Effects::none()
    }

    fn snapshot(&self) -> Vec<ObjectStatus> {
        let key = ObjectKey::new("a", "x");
        vec![ObjectStatus::new(key, 7, Kept::Polled, ObjectState::NotFetched)]
    }
}

#[tokio::test]
async fn a_shared_store_is_a_store_and_is_told_which_pod_refers() {
    let store = Arc::new(Counting::default());
    let counts = || -> Vec<String> {
        store.references.lock().unwrap().iter().map(|(reference, count)| format!("{reference}: {count}")).collect()
    };
    let pods = PodObjects::new(Arc::clone(&store), PodRefs);
    pods.register_pod(&pod("p", "u1", &[("x", false), ("y", false)]));
    pods.register_pod(&pod("p", "u2", &[("x", false)]));
    assert_eq!(counts(), ["a/x/u1: 1", "a/x/u2: 1", "a/y/u1: 1"]);
    pods.unregister_pod(&pod("p", "u1", &[]));
    assert_eq!(counts(), ["a/x/u1: 0", "a/x/u2: 1", "a/y/u1: 0"]);
    Store::add_references(&store, "b", &["z"], "u").run();
    Store::delete_references(&store, "b", &["w"], "u").run();
    assert_eq!(counts()[3..], ["b/w/u: -1", "b/z/u: 1"]);
    assert!(pods.get_object("a", "x").await.unwrap_err().is_not_registered());
    assert_eq!((Store::references(&store, "a", "x"), Store::snapshot(&store).len()), (7, 1));
    Store::forget(&store, "b", "y").run();
    assert_eq!(counts()[4], "b/y/forgotten: 1");
    assert!(Store::held(&store, "a", "x").is_some_and(|held| held.object.is_none()));
}

#[test]
fn what_is_printed_tells_nothing_of_the_objects() {
    let mut world = world();
    world.get("a", "x", thing("5", 1));
    assert_eq!(format!("{:?}", world.larder.store()), "TtlStore { default_ttl: ObjectTtl { nanos: 60 }, .. }");
    assert_eq!(format!("{:?}", world.larder), "PodObjects { .. }");
    assert!(world.larder.store().fetcher().open().is_empty());
}

fn names(world: &World, name: &str, uid: &str) -> Vec<(String, bool)> {
    let mut all = Vec::new();
    let pod = PodIdentity { namespace: "a", name, uid };
    world.larder.for_each_reference(pod, |it| all.push((it.name.to_owned(), it.optional)));
    all
}

#[test]
fn pods_are_walked_through_in_an_order_that_a_seed_gives_again() {
    let order = |seed| {
        let pods = PodObjects::with_hash_seed(Counting::default(), PodRefs, HashSeed::fixed(seed));
        (0..64).for_each(|at| pods.register_pod(&pod(&at.to_string(), "u", &[])));
        let mut all = Vec::new();
        pods.for_each_pod(|pod| all.push(pod.name.to_owned()));
        all
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[test]
fn registering_again_adds_and_drops_only_what_changed() {
    let mut world = World::new(TTL);
    world.larder.register_pod(&pod("p", "u", &[("x", false), ("y", false), ("x", false)]));
    world.get("a", "x", thing("1", 0));
    world.get("a", "y", thing("1", 0));
    for _ in 0..3 {
        world.larder.register_pod(&pod("p", "u", &[("y", false), ("x", false)]));
    }
    assert_eq!((world.larder.references("a", "x"), world.larder.references("a", "y")), (1, 1));
    world.larder.register_pod(&pod("p", "u", &[("x", false), ("z", false)]));
    // What stayed was not fetched again.
    world.get("a", "x", thing("1", 0));
    assert_eq!(world.server.fetches().len(), 2);
    assert_eq!(world.get("a", "y", thing("1", 0)), Answer::NotRegistered);
    assert!(matches!(world.get("a", "z", thing("1", 0)), Answer::Object(..)));
}

#[test]
fn unregistering_drops_what_was_registered_whatever_the_caller_passes() {
    let world = World::new(TTL);
    world.larder.register_pod(&pod("p", "u", &[("x", false)]));
    world.larder.register_pod(&pod("q", "v", &[("x", false), ("y", false)]));
    for _ in 0..2 {
        world.larder.unregister_pod(&pod("p", "u", &[("y", false)]));
        assert_eq!((world.larder.references("a", "x"), world.larder.references("a", "y")), (1, 1));
    }
    world.larder.unregister(PodIdentity { namespace: "a", name: "q", uid: "v" });
    assert_eq!((world.larder.references("a", "x"), world.larder.references("a", "y")), (0, 0));
}

#[test]
fn a_pod_of_the_same_name_with_another_uid_is_another_pod() {
    let world = World::new(TTL);
    world.larder.register_pod(&pod("p", "u1", &[("x", false)]));
    world.larder.register_pod(&pod("p", "u2", &[("x", false)]));
    assert_eq!(world.larder.references("a", "x"), 2);
    world.larder.unregister_pod(&pod("p", "u3", &[("x", false)]));
    world.larder.unregister_pod(&pod("p", "u1", &[]));
    assert_eq!(world.larder.references("a", "x"), 1);
    assert!(!world.larder.is_registered(PodIdentity { namespace: "a", name: "p", uid: "u1" }));
    assert!(world.larder.is_registered(PodIdentity { namespace: "a", name: "p", uid: "u2" }));
}

#[test]
fn a_registered_pod_tells_its_names_and_which_are_optional() {
    let world = World::new(TTL);
    let refs = [("y", true), ("x", true), ("x", false), ("z", true), ("z", true)];
    world.larder.register_pod(&pod("p", "u", &refs));
    let optional = |x, y, z| vec![("x".to_owned(), x), ("y".to_owned(), y), ("z".to_owned(), z)];
    assert_eq!(names(&world, "p", "u"), optional(false, true, true));
    // Only what is optional changes: no reference does.
    world.larder.register_pod(&pod("p", "u", &[("x", true), ("y", false), ("z", true)]));
    assert_eq!(names(&world, "p", "u"), optional(true, false, true));
    assert_eq!(world.larder.references("a", "x"), 1);
    assert!(names(&world, "p", "other").is_empty());

    world.larder.register_pod(&pod("q", "", &[]));
    let mut pods = Vec::new();
    world.larder.for_each_pod(|pod| pods.push(format!("{}/{}/{}", pod.namespace, pod.name, pod.uid)));
    pods.sort();
    assert_eq!(pods, ["a/p/u", "a/q/"]);
}
