//! Random operations on the caches and on the model: same answers, same fetches, same counts, step by step. And again,
//! with each reader polled at any time, where only what must always hold is asked.
//!
//! Readers begin, are answered and go away in any order while fetches are open; within a step, those that were woken are
//! polled in random order.

use crate::harness::{Answer, Failure, Outcome, Pod, Thing, World};
use crate::model::{Model, Shown};
use larder_objects::{ObjectState, Store};
use proptest::prelude::*;
use std::collections::BTreeMap;

const DEFAULT_TTL: i64 = 60;

#[derive(Clone, Debug)]
enum Op {
    Begin(Key),
    /// As `Begin`, but whatever is fetched in this step is answered at once.
    GetAtOnce(Key, Outcome),
    Complete(prop::sample::Index, Outcome),
    /// A reader goes away; the others see what follows from it only at the next step, if `lazily`.
    Drop {
        at: prop::sample::Index,
        lazily: bool,
    },
    Advance(i64),
    Ttl(Option<i64>),
    AddReference(Key),
    DeleteReference(Key),
    Register(Pod),
    Unregister(Pod),
}

type Key = (&'static str, &'static str);

fn key() -> impl Strategy<Value = Key> {
    prop::sample::select(vec![("a", "x"), ("a", "y"), ("b", "x")])
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let versions = vec![
        "1",
        "2",
        "3",
        "10",
        "",
        "x",
        "+5",
        "18446744073709551614",
        "18446744073709551615",
        "99999999999999999999",
    ];
    prop_oneof![
        6 => (prop::sample::select(versions), 0..1000_u32)
            .prop_map(|(version, data)| Ok(Thing { version: version.to_owned(), data })),
        1 => Just(Err(Failure::NotFound)),
        1 => Just(Err(Failure::Status(503))),
        1 => Just(Err(Failure::Status(403))),
    ]
}

fn pod() -> impl Strategy<Value = Pod> {
    let one_of = |of: &[&'static str]| prop::sample::select(of.to_vec());
    let refs = prop::collection::vec((prop::sample::select(vec!["x", "y", ""]), any::<bool>()), 0..4);
    (one_of(&["a", "b"]), one_of(&["p", "q"]), one_of(&["u1", "u2"]), refs).prop_map(|(namespace, name, uid, refs)| {
        Pod {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            refs: refs.into_iter().map(|(name, optional)| (name.to_owned(), optional)).collect(),
        }
    })
}

fn op() -> impl Strategy<Value = Op> {
    let step = prop::sample::select(vec![0, 1, 5, DEFAULT_TTL - 1, DEFAULT_TTL, DEFAULT_TTL + 1, 1000]);
    let ttl = prop::sample::select(vec![None, Some(0), Some(-5), Some(5), Some(1000), Some(i64::MAX), Some(i64::MIN)]);
    prop_oneof![
        8 => key().prop_map(Op::Begin),
        4 => (key(), outcome()).prop_map(|(key, outcome)| Op::GetAtOnce(key, outcome)),
        8 => (any::<prop::sample::Index>(), outcome()).prop_map(|(at, outcome)| Op::Complete(at, outcome)),
        4 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(at, lazily)| Op::Drop { at, lazily }),
        4 => step.prop_map(Op::Advance),
        1 => ttl.prop_map(Op::Ttl),
        3 => key().prop_map(Op::AddReference),
        2 => key().prop_map(Op::DeleteReference),
        2 => pod().prop_map(Op::Register),
        1 => pod().prop_map(Op::Unregister),
    ]
}

/// Does the same to both.
fn apply(op: Op, world: &mut World, model: &mut Model) {
    match op {
        Op::Begin((namespace, name)) => {
            let reader = world.begin(namespace, name);
            model.begin(reader, namespace, name);
        }
        Op::GetAtOnce((namespace, name), outcome) => {
            world.server.answer_at_once(Some(outcome.clone()));
            model.at_once = Some(outcome);
            let reader = world.begin(namespace, name);
            model.begin(reader, namespace, name);
        }
        Op::Complete(at, outcome) => {
            let open = world.server.open();
            if !open.is_empty() {
                let id = *at.get(&open);
                world.server.complete(id, outcome.clone());
                model.complete(id, outcome);
            }
        }
        Op::Drop { at, .. } => {
            let waiting = world.waiting();
            if !waiting.is_empty() {
                let reader = *at.get(&waiting);
                world.drop_reader(reader);
                model.drop_reader(reader);
            }
        }
        Op::Advance(nanos) => {
            world.advance(nanos);
            model.now += i128::from(nanos);
        }
        Op::Ttl(ttl) => {
            world.ttl.set(ttl);
            model.ttl = ttl;
        }
        Op::AddReference((namespace, name)) => {
            world.add_reference(namespace, name);
            model.add_reference(namespace, name);
        }
        Op::DeleteReference((namespace, name)) => {
            world.delete_reference(namespace, name);
            model.delete_reference(namespace, name);
        }
        Op::Register(pod) => {
            world.larder.register_pod(&pod);
            model.register(&pod);
        }
        Op::Unregister(pod) => {
            world.larder.unregister_pod(&pod);
            model.unregister(&pod);
        }
    }
}

/// What a status page shows of every object, by key: references, whether it is being fetched, what is known.
type Page = BTreeMap<String, (usize, bool, &'static str)>;

fn page(world: &World) -> Page {
    let all = world.larder.store().snapshot().into_iter().map(|status| {
        let known = match status.state {
            ObjectState::Present(_) => "present",
            ObjectState::Absent(_) => "absent",
            ObjectState::NotFetched => "nothing",
        };
        (status.key.to_string(), (status.references, status.fetching, known))
    });
    all.collect()
}

fn model_page(model: &Model) -> Page {
    let all = model.items.iter().map(|((namespace, name), item)| {
        let known = match model.shown(item) {
            Shown::Nothing => "nothing",
            Shown::Present(_) => "present",
            Shown::Absent => "absent",
        };
        (format!("{namespace}/{name}"), (item.references, model.fetching(item), known))
    });
    all.collect()
}

/// How many sequences are tried: `PROPTEST_CASES`, or 2,000.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2_000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn store_and_manager_do_as_the_model(ops in prop::collection::vec(op(), 1..80), mut order in any::<u64>()) {
        let mut world = World::new(DEFAULT_TTL);
        let mut model = Model::new(DEFAULT_TTL);
        for (step, op) in ops.into_iter().enumerate() {
            let told = format!("step {step}, {op:?}");
            let lazily = matches!(op, Op::Drop { lazily: true, .. });
            apply(op, &mut world, &mut model);
            if lazily {
                continue;
            }
            let answers = world.run_with(|woken| {
                order = order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                usize::try_from(order >> 33).unwrap() % woken
            });
            world.server.answer_at_once(None);
            model.at_once = None;
            prop_assert_eq!(answers, model.take_answers(), "answers at {}", told);
            prop_assert_eq!(world.server.fetches(), model.fetches.clone(), "fetches at {}", told);
            prop_assert_eq!(page(&world), model_page(&model), "what is known at {}", told);
        }
    }

    #[test]
    fn whenever_readers_are_polled_all_are_answered_and_by_nothing_from_before_their_reference(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new(DEFAULT_TTL);
        world.add_reference("a", "x");
        let mut seen = Seen::default();
        for step in steps {
            let mut answers = BTreeMap::new();
            match step {
                Step::Begin => {
                    seen.readers.insert(world.begin("a", "x"), seen.references);
                }
                Step::Poll(at) => answers = world.poll_at_most(1, |woken| at.index(woken)),
                Step::Complete(at, failure) => {
                    let open = world.server.open();
                    if !open.is_empty() {
                        Seen::complete(&world, *at.get(&open), failure);
                    }
                }
                Step::Drop(at) => {
                    let waiting = world.waiting();
                    if !waiting.is_empty() {
                        let reader = *at.get(&waiting);
                        world.drop_reader(reader);
                        seen.readers.remove(&reader);
                    }
                }
                Step::AddReference => {
                    world.add_reference("a", "x");
                    seen.references += 1;
                }
                Step::Advance => world.advance(DEFAULT_TTL),
            }
            seen.check(&world, answers)?;
        }
        // Once every fetch is answered, so is every reader.
        while !world.waiting().is_empty() {
            let answers = world.run();
            seen.check(&world, answers)?;
            for id in world.server.open() {
                Seen::complete(&world, id, None);
            }
        }
        prop_assert!(seen.readers.is_empty());
        prop_assert!(world.server.open().is_empty());
        prop_assert!(!world.larder.store().snapshot()[0].fetching);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Begin,
    Poll(prop::sample::Index),
    Complete(prop::sample::Index, Option<Failure>),
    Drop(prop::sample::Index),
    AddReference,
    Advance,
}

fn step() -> impl Strategy<Value = Step> {
    let failure = prop::sample::select(vec![None, None, None, Some(Failure::NotFound), Some(Failure::Status(503))]);
    prop_oneof![
        6 => Just(Step::Begin),
        12 => any::<prop::sample::Index>().prop_map(Step::Poll),
        6 => (any::<prop::sample::Index>(), failure).prop_map(|(at, failure)| Step::Complete(at, failure)),
        4 => any::<prop::sample::Index>().prop_map(Step::Drop),
        1 => Just(Step::AddReference),
        1 => Just(Step::Advance),
    ]
}

/// What was seen of one object.
#[derive(Default)]
struct Seen {
    /// References added.
    references: usize,
    /// The references added before each reader that has no answer yet, and before each fetch.
    readers: BTreeMap<usize, usize>,
    fetches: Vec<usize>,
}

impl Seen {
    /// Answers a fetch with an object that tells which fetch brought it, or with a failure.
    fn complete(world: &World, id: usize, failure: Option<Failure>) {
        let data = u32::try_from(id).unwrap();
        world.server.complete(id, failure.map_or_else(|| Ok(Thing { version: "1".to_owned(), data }), Err));
    }

    fn check(&mut self, world: &World, answers: BTreeMap<usize, Answer>) -> Result<(), TestCaseError> {
        self.fetches.resize(world.server.fetches().len(), self.references);
        for (reader, answer) in answers {
            let before = self.readers.remove(&reader).expect("a reader is answered once");
            if let Answer::Object(thing, _) = answer {
                let fetched = self.fetches[usize::try_from(thing.data).unwrap()];
                prop_assert!(fetched >= before, "fetched after {} references, read after {}", fetched, before);
            }
        }
        // A fetch for each generation at most, and none that nobody waits for.
        prop_assert!(world.server.open().len() <= world.waiting().len().min(self.references + 1));
        Ok(())
    }
}
