//! What is kept of what the direct and the TTL store read, and served where the source fails.

use crate::harness::Failure;
use crate::source::{Answer, Chosen, Doc, World, doc};
use futures_util::FutureExt;
use larder_clock::{Clock, Timestamp};
use larder_objects::{
    FreshState, Freshness, ObjectState, Outcome, ReadKind, StaleReason, Store, Strategy, StrategyOptions,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const UNAVAILABLE: Failure = Failure::Status(503);
const KEEPERS: [Strategy; 2] = [Strategy::Direct, Strategy::Ttl];
const TTL: u64 = 60;

fn keeping(keep: bool) -> StrategyOptions<Doc> {
    let mut options = StrategyOptions::default();
    options.keep_last_known = keep;
    options
}

/// A world in which `ns/name` is referenced by one pod.
fn world(strategy: Strategy, options: StrategyOptions<Doc>) -> World<Chosen> {
    let world = World::of_strategy(strategy, options);
    reference(&world, "pod");
    world
}

fn reference(world: &World<Chosen>, pod: &str) {
    world.store.add_references("ns", &["name"], pod).run();
}

/// A read that the source answers with that.
fn read(world: &mut World<Chosen>, answer: Result<u64, Failure>) -> Answer {
    world.source.answer_at_once(Some(answer.map(doc)));
    let answer = world.get("name");
    world.source.answer_at_once(None);
    answer
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_secs(seconds)
}

/// The version that is held, 0 for an absence, and its freshness.
fn held(world: &World<Chosen>) -> Option<(u64, Freshness)> {
    let held = world.store.held("ns", "name")?;
    Some((held.object.map_or(0, |object| object.version.parse().unwrap()), held.freshness))
}

fn stale(since: u64, reason: StaleReason) -> FreshState {
    FreshState::Stale { since: at(since), reason }
}

#[test]
fn an_object_outlives_a_new_reference_and_is_served_where_its_fetch_fails() {
    for strategy in KEEPERS {
        let mut world = world(strategy, keeping(true));
        assert_eq!(read(&mut world, Ok(1)).fresh(), 1);
        world.advance(5);
        reference(&world, "pod-2");
        // By itself, what every read asks for is not fresh.
        let since = if strategy == Strategy::Direct { 0 } else { 5 };
        let (version, freshness) = held(&world).expect("kept");
        assert_eq!((version, freshness.confirmed_at), (1, at(0)), "{strategy}");
        assert_eq!(freshness.state, stale(since, StaleReason::Expired), "{strategy}");
        assert_eq!(world.store.snapshot()[0].state, ObjectState::Present(freshness), "{strategy}");

        world.advance(5);
        let failed = read(&mut world, Err(UNAVAILABLE));
        let reason = StaleReason::FetchFailed { class: "unavailable" };
        assert_eq!((failed.stale(), failed.freshness()), (1, Some(freshness.with_state(stale(since, reason)))));
        // Another new reference changes nothing of what is known, nor since when it is stale.
        reference(&world, "pod-3");
        assert_eq!(held(&world), Some((1, freshness)), "{strategy}");
        assert_eq!(read(&mut world, Ok(2)).fresh(), 2, "{strategy}");
        assert_eq!(held(&world).map(|(version, _)| version), Some(2), "{strategy}");
        world.store.forget("ns", "name").run();
        assert_eq!(held(&world).map(|(version, _)| version), Some(2), "{strategy}");
    }
}

#[test]
fn with_its_last_reference_an_object_is_forgotten() {
    for strategy in KEEPERS {
        let mut world = world(strategy, keeping(true));
        read(&mut world, Ok(1));
        reference(&world, "pod-2");
        world.store.delete_references("ns", &["name"], "pod").run();
        assert!(held(&world).is_some(), "{strategy}");
        // So it is where a read ends after that.
        let reader = world.begin("ns", "name");
        assert!(world.run().is_empty());
        world.store.delete_references("ns", &["name"], "pod-2").run();
        assert!(held(&world).is_none(), "{strategy}");
        let open = world.source.open()[0];
        world.source.complete(open, Ok(doc(2)));
        assert_eq!(world.run()[&reader].fresh(), 2);
        reference(&world, "pod");
        assert!(held(&world).is_none(), "{strategy}");
        assert_eq!(read(&mut world, Err(UNAVAILABLE)), Answer::Failed(UNAVAILABLE), "{strategy}");
    }
}

#[test]
fn an_absence_is_last_known_until_a_new_reference_puts_it_in_doubt() {
    for strategy in KEEPERS {
        let mut world = world(strategy, keeping(true));
        // An object that was kept before is not served in its place.
        read(&mut world, Ok(1));
        reference(&world, "pod-2");
        assert_eq!(read(&mut world, Err(Failure::NotFound)).fresh(), 0, "{strategy}");
        assert_eq!(held(&world).map(|(version, _)| version), Some(0), "{strategy}");
        assert!(matches!(world.store.snapshot()[0].state, ObjectState::Absent(_)), "{strategy}");
        assert_eq!(read(&mut world, Err(UNAVAILABLE)).stale(), 0, "{strategy}");
        reference(&world, "pod-3");
        assert_eq!((held(&world), world.store.snapshot()[0].state), (None, ObjectState::NotFetched), "{strategy}");
        assert_eq!(read(&mut world, Err(UNAVAILABLE)), Answer::Failed(UNAVAILABLE), "{strategy}");
    }
}

#[test]
fn what_a_fetch_from_before_a_new_reference_brings_is_last_known() {
    let mut world = world(Strategy::Ttl, keeping(true));
    let reader = world.begin("ns", "name");
    assert!(world.run().is_empty());
    reference(&world, "pod-2");
    world.advance(3);
    world.source.complete(0, Ok(doc(1)));
    assert_eq!(world.run()[&reader].fresh(), 1);
    let (version, freshness) = held(&world).expect("kept");
    assert_eq!((version, freshness.state), (1, stale(3, StaleReason::Expired)));
    assert_eq!(read(&mut world, Err(UNAVAILABLE)).stale(), 1);
}

#[test]
fn an_answer_tells_whether_anything_was_held_in_the_store_or_here() {
    for strategy in KEEPERS {
        for (keep, again) in [(true, Outcome::Refreshed), (false, Outcome::Fetched)] {
            let world = world(strategy, keeping(keep));
            let read = |answer: Result<u64, Failure>| {
                world.source.answer_at_once(Some(answer.map(doc)));
                world.store.get("ns", "name").now_or_never().expect("to be answered at once").map(|read| read.outcome)
            };
            assert_eq!(read(Ok(1)).unwrap(), Outcome::Fetched);
            reference(&world, "pod-2");
            assert_eq!(read(Ok(2)).unwrap(), again, "{strategy}");
            reference(&world, "pod-3");
            assert_eq!(read(Err(UNAVAILABLE)).ok(), keep.then_some(Outcome::FetchFailed), "{strategy}");
        }
    }
    let world = world(Strategy::Ttl, keeping(true));
    for (seconds, outcome) in [(0, Outcome::Fetched), (0, Outcome::Held), (TTL, Outcome::Refreshed)] {
        world.advance(seconds);
        world.source.answer_at_once(Some(Ok(doc(1))));
        assert_eq!(world.store.get("ns", "name").now_or_never().unwrap().unwrap().outcome, outcome);
    }
}

#[test]
fn off_nothing_is_held_and_a_store_answers_as_by_itself() {
    for strategy in KEEPERS {
        let mut world = world(strategy, keeping(false));
        read(&mut world, Ok(1));
        assert_eq!(held(&world), None, "{strategy}");
        world.advance(TTL);
        let failed = read(&mut world, Err(UNAVAILABLE));
        match strategy {
            // The kubelet's cache answers with what it has, too.
            Strategy::Ttl => assert_eq!(failed.stale(), 1),
            _ => assert_eq!(failed, Answer::Failed(UNAVAILABLE)),
        }
        reference(&world, "pod-2");
        assert_eq!(read(&mut world, Err(UNAVAILABLE)), Answer::Failed(UNAVAILABLE), "{strategy}");
        assert_eq!((held(&world), world.store.snapshot()[0].state), (None, ObjectState::NotFetched), "{strategy}");
    }
}

#[test]
fn a_lower_version_is_asked_for_again_and_believed() {
    type Told = Arc<Mutex<Vec<(String, String, String)>>>;
    for (is_told, keep) in [(true, true), (true, false), (false, true)] {
        let told = Told::default();
        let went_back = is_told.then(|| {
            let told = Arc::clone(&told);
            Arc::new(move |key: &larder_objects::ObjectKey, before: &Doc, after: &Doc| {
                told.lock().unwrap().push((key.to_string(), before.version.clone(), after.version.clone()));
            }) as larder_objects::WentBack<Doc>
        });
        let mut options = keeping(keep);
        options.went_back = went_back;
        let mut world = world(Strategy::Ttl, options);
        let told = || std::mem::take(&mut *told.lock().unwrap());
        read(&mut world, Ok(9));
        world.advance(TTL);
        let answer = read(&mut world, Ok(3));
        if !is_told {
            assert_eq!((answer.stale(), told().len()), (9, 0));
            continue;
        }
        assert_eq!(answer.fresh(), 3);
        assert_eq!(told(), [("ns/name".to_owned(), "9".to_owned(), "3".to_owned())]);
        let kinds = [ReadKind::Consistent, ReadKind::ApiServerCache, ReadKind::Consistent];
        assert_eq!(world.source.reads(), kinds);

        // A cache that lags is nothing to tell of.
        world.advance(TTL);
        let reader = world.begin("ns", "name");
        for version in [2, 3] {
            assert!(world.run().is_empty());
            let open = world.source.open()[0];
            world.source.complete(open, Ok(doc(version)));
        }
        assert_eq!((world.run()[&reader].fresh(), told().len()), (3, 0));

        // Where the second answer does not come, the first one stays last known.
        world.advance(TTL);
        let reader = world.begin("ns", "name");
        for answer in [Ok(doc(1)), Err(UNAVAILABLE)] {
            assert!(world.run().is_empty());
            let open = world.source.open()[0];
            world.source.complete(open, answer);
        }
        match (keep, &world.run()[&reader]) {
            (true, answer) => assert_eq!(answer.stale(), 3),
            (false, answer) => assert_eq!(*answer, Answer::Failed(UNAVAILABLE)),
        }
        assert!(told().is_empty() && world.clock.now() == at(3 * TTL));
    }
}

#[test]
fn a_negative_entry_is_an_answer_where_objects_are_polled() {
    let mut options = keeping(true);
    options.negative_entries = true;
    let mut world = world(Strategy::Ttl, options);
    for _ in 0..3 {
        assert_eq!(read(&mut world, Err(Failure::NotFound)).fresh(), 0);
    }
    assert_eq!(world.source.reads().len(), 1);
}

#[test]
fn what_is_printed_tells_nothing_of_the_objects() {
    let mut world = world(Strategy::Direct, keeping(true));
    read(&mut world, Ok(1));
    assert_eq!(format!("{:?}", world.store), "LastKnown { keep: true, .. }");
}
