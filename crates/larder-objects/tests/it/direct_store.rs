//! What the direct store's documentation promises.

use crate::harness::Failure;
use crate::source::{Answer, Source, World, doc};
use futures_util::FutureExt;
use larder_clock::VirtualClock;
use larder_objects::{DirectStore, Kept, ObjectState, Outcome, ReadKind, Store};

type Direct = DirectStore<Source, VirtualClock>;

fn world() -> World<Direct> {
    let world = World::direct();
    world.store.add_references("ns", &["name"], "pod").run();
    world
}

#[test]
fn every_read_is_a_consistent_fetch_of_its_own() {
    let mut world = world();
    let readers = [world.begin("ns", "name"), world.begin("ns", "name")];
    assert!(world.run().is_empty());
    assert_eq!(world.source.reads(), [ReadKind::Consistent; 2]);
    world.source.complete(1, Ok(doc(2)));
    world.source.complete(0, Ok(doc(1)));
    let answers = world.run();
    assert_eq!(readers.map(|reader| answers[&reader].fresh()), [1, 2]);
    world.source.answer_at_once(Some(Ok(doc(3))));
    let read = world.store.get("ns", "name").now_or_never().unwrap().unwrap();
    assert_eq!(read.outcome, Outcome::Fetched);
    world.store.forget("ns", "name").run();
    assert!(world.store.held("ns", "name").is_none());
    world.source.answer_at_once(Some(Err(Failure::NotFound)));
    assert_eq!(world.get("name").fresh(), 0);
    world.source.answer_at_once(Some(Err(Failure::Status(503))));
    assert_eq!(world.get("name"), Answer::Failed(Failure::Status(503)));
    assert_eq!(world.source.reads().len(), 5);
}

#[test]
fn what_is_not_referenced_is_refused_without_a_fetch() {
    let mut world = world();
    assert_eq!(world.get("other"), Answer::NotRegistered);
    world.store.add_references("ns", &["name"], "pod-2").run();
    for references in [2, 1, 0, 0] {
        assert_eq!(world.store.references("ns", "name"), references);
        assert_eq!(world.store.snapshot().len(), usize::from(references > 0));
        world.store.delete_references("ns", &["name"], "pod").run();
    }
    assert_eq!(world.get("name"), Answer::NotRegistered);
    assert!(world.source.reads().is_empty());
}

#[test]
fn a_read_that_goes_away_takes_its_fetch_with_it() {
    let mut world = world();
    let reader = world.begin("ns", "name");
    world.run();
    assert_eq!(world.source.open(), [0]);
    world.drop_reader(reader);
    assert!(world.source.open().is_empty());
    let status = world.store.snapshot().remove(0);
    assert_eq!((status.kept, status.fetching, status.state), (Kept::Direct, false, ObjectState::NotFetched));
}
