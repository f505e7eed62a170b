//! A store whose strategy is chosen at run time does as the store of that strategy.

use crate::source::{World, doc};
use larder_objects::{HashSeed, Kept, ObjectKey, Source, Store, Strategy, StrategyOptions};

#[test]
fn each_strategy_keeps_objects_as_its_store_does() {
    // Strategy, how an object is kept and confirmed, what is held of it, fetches for new references, reflectors.
    let table = [
        (Strategy::Direct, Kept::Direct, Source::LiveRead, false, None, 0),
        (Strategy::Ttl, Kept::Polled, Source::LiveRead, false, Some(1), 0),
        (Strategy::Watch, Kept::Watched, Source::Watch, true, Some(1), 1),
        (Strategy::Auto, Kept::Watched, Source::Watch, true, Some(1), 1),
    ];
    assert_eq!(table.map(|row| row.0), Strategy::ALL);
    for (strategy, kept, source, held, new_reference_fetches, watching) in table {
        let mut world = World::of_strategy(strategy, StrategyOptions::default());
        assert_eq!(world.store.strategy(), strategy);
        world.store.add_references("ns", &["name"], "pod").run();
        world.store.set_mounted("ns", "name");
        world.source.answer_at_once(Some(Ok(doc(1))));
        world.source.list_at_once(Some(Ok(doc(1))));
        let reader = world.begin("ns", "name");
        let answer = world.run().remove(&reader).or_else(|| {
            // The reflector was started before lists were answered.
            world.source.sink().replace(Some(doc(1)), larder_objects::ReadKind::Consistent);
            world.run().remove(&reader)
        });
        let answer = answer.unwrap();
        assert_eq!((answer.fresh(), answer.freshness().unwrap().source), (1, source), "{strategy}");
        assert_eq!((world.kept("name"), world.store.stats().watching), (kept, watching), "{strategy}");
        assert_eq!(world.store.held("ns", "name").is_some(), held, "{strategy}");
        assert_eq!(world.store.references("ns", "name"), 1);

        world.store.add_references("ns", &["name"], "pod-2").run();
        assert_eq!(world.get("name").fresh(), 1, "{strategy}");
        assert_eq!(world.store.new_reference_fetches(), new_reference_fetches, "{strategy}");

        let fetches = world.source.reads().len();
        world.store.forget("ns", "name").run();
        world.get("name");
        assert_eq!(world.store.fetcher().reads().len() - fetches, 1, "{strategy}");

        world.advance(3_600);
        world.store.stop_idle();
        assert_eq!(world.store.stats().watching, 0, "{strategy}");
        world.store.delete_references("ns", &["name"], "pod").run();
        world.store.delete_references("ns", &["name"], "pod-2").run();
        assert!(world.store.snapshot().is_empty());
        let printed = format!("{:?}", world.store);
        assert!(printed.ends_with(" .. }") && !printed.contains("name"), "{printed}");
    }
}

#[test]
fn objects_are_walked_through_in_an_order_that_a_seed_gives_again() {
    let order = |strategy, seed| -> Vec<ObjectKey> {
        let mut options = StrategyOptions::default();
        options.auto.watch.hash_seed = HashSeed::fixed(seed);
        let world = World::of_strategy(strategy, options);
        for namespace in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            world.store.add_references(namespace, &["1", "2", "3", "4", "5", "6", "7", "8"], "pod").run();
        }
        world.store.snapshot().into_iter().map(|status| status.key).collect()
    };
    for strategy in Strategy::ALL {
        assert_eq!(order(strategy, 1), order(strategy, 1), "{strategy}");
        // The direct store has no table.
        assert_eq!(order(strategy, 1) == order(strategy, 2), strategy == Strategy::Direct, "{strategy}");
    }
}
