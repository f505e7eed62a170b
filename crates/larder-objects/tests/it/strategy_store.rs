//! A store whose strategy is chosen at run time does as the store of that strategy.

use crate::harness::Failure;
use crate::source::{Answer, Chosen, World, doc};
use larder_clock::Timestamp;
use larder_objects::{
    FreshState, Freshness, HashSeed, Kept, ObjectKey, Read, Source, Store, Strategy, StrategyOptions,
};
use std::sync::Arc;
use std::time::Duration;

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

#[test]
fn what_was_known_before_the_store_is_held_as_stale_until_the_source_says_something() {
    for strategy in Strategy::ALL {
        let mut options = StrategyOptions::default();
        options.keep_last_known = true;
        let mut world = World::of_strategy(strategy, options);
        world.advance(100);
        let confirmed_at = Timestamp::ZERO + Duration::from_secs(40);
        let before =
            |version| Read::new(doc(version), Freshness::new(confirmed_at, Source::ApiServerCache, FreshState::Fresh));
        let held = |world: &World<Chosen>| {
            let held = world.store.held("ns", "name")?;
            Some((held.object.unwrap().version.clone(), held.freshness))
        };
        // Nobody refers to it.
        world.store.restore("ns", "name", before(9));
        world.store.add_references("ns", &["name"], "pod").run();
        assert_eq!(held(&world), None, "{strategy}");
        world.store.restore("ns", "name", before(9));
        // Something is known by now.
        world.store.restore("ns", "name", before(8));
        let (version, freshness) = held(&world).expect("restored");
        assert_eq!(
            (version.as_str(), freshness.confirmed_at, freshness.source),
            ("9", confirmed_at, Source::ApiServerCache)
        );
        assert!(!freshness.is_fresh(), "{strategy}");
        // A read asks, or waits for the first list, which may bring a lower version.
        let reader = world.begin("ns", "name");
        assert!(world.run().is_empty(), "{strategy}");
        match world.source.open().first() {
            Some(open) => world.source.complete(*open, Ok(doc(3))),
            None => world.source.sink().replace(Some(doc(3)), larder_objects::ReadKind::Consistent),
        }
        assert_eq!(world.run()[&reader].fresh(), 3, "{strategy}");
        world.store.restore("ns", "name", before(9));
        assert_eq!(held(&world).map(|(version, _)| version).as_deref(), Some("3"), "{strategy}");
    }
}

#[test]
fn what_was_known_before_is_served_where_the_source_fails() {
    for strategy in Strategy::ALL {
        for keep in [true, false] {
            let mut options = StrategyOptions::default();
            options.keep_last_known = keep;
            let mut world = World::of_strategy(strategy, options);
            world.store.add_references("ns", &["name"], "pod").run();
            let freshness = Freshness::new(Timestamp::ZERO, Source::Watch, FreshState::Fresh);
            world.store.restore("ns", "name", Read::new(doc(9), freshness));
            world.advance(5);
            let unavailable = || Failure::Status(503);
            world.source.answer_at_once(Some(Err(unavailable())));
            if strategy == Strategy::Watch {
                world.source.sink().failed(Arc::new(unavailable()));
            }
            let answer = world.get("name");
            if keep || matches!(strategy, Strategy::Watch | Strategy::Auto) {
                assert_eq!(answer.stale(), 9, "{strategy}");
            } else {
                assert_eq!(answer, Answer::Failed(unavailable()), "{strategy}");
            }
        }
    }
}
