//! The stores that watch against a simulated API server whose history is known: lists, watches and reads see it at
//! moments of their own and bring what they saw later, in any order; reflectors work, fail, or fall silent.
//!
//! Of each fresh answer it is asked that the object was like that at or after the last reference that was added before
//! the read began; of the adaptive store also that it was like that no longer than max(TTL, 10 s) ago.

use crate::harness::Failure;
use crate::source::{Adapting, Answer, Doc, Source, Watching, World};
use larder_clock::{Clock, Timestamp};
use larder_objects::{NamespaceSink, ReadKind, ReflectorSink, Store};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const NAMES: [&str; 3] = ["x", "y", "z"];
const TTL: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
enum Op {
    Begin(usize),
    DropReader(prop::sample::Index),
    Change(usize, Change),
    AddReference(usize),
    DeleteReference(usize),
    Mounted(usize),
    /// A reflector asks for its list.
    Ask(prop::sample::Index),
    /// The server makes a reflector's list, or a read's answer, of what is there now.
    Look(prop::sample::Index),
    See(prop::sample::Index),
    /// It arrives; or the events that were not delivered yet, and perhaps a bookmark.
    Deliver(prop::sample::Index, bool),
    Answer(prop::sample::Index, bool),
    /// A reflector fails, and lists again or goes on where it was.
    Fail(prop::sample::Index, bool),
    /// A reflector that was stopped says something all the same.
    Zombie(prop::sample::Index),
    Advance(u64),
    StopIdle,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Update,
    Delete,
    /// Deleted and created again.
    Recreate,
    RecreateImmutable,
}

fn op() -> impl Strategy<Value = Op> {
    let index = any::<prop::sample::Index>;
    let change = prop::sample::select(vec![
        Change::Update,
        Change::Update,
        Change::Update,
        Change::Delete,
        Change::Recreate,
        Change::RecreateImmutable,
    ]);
    let name = 0..NAMES.len();
    prop_oneof![
        12 => name.clone().prop_map(Op::Begin),
        1 => index().prop_map(Op::DropReader),
        8 => (name.clone(), change).prop_map(|(name, change)| Op::Change(name, change)),
        4 => name.clone().prop_map(Op::AddReference),
        2 => name.clone().prop_map(Op::DeleteReference),
        1 => name.prop_map(Op::Mounted),
        3 => index().prop_map(Op::Ask),
        3 => index().prop_map(Op::Look),
        3 => index().prop_map(Op::See),
        8 => (index(), any::<bool>()).prop_map(|(at, confirm)| Op::Deliver(at, confirm)),
        8 => (index(), prop::bool::weighted(0.8)).prop_map(|(at, good)| Op::Answer(at, good)),
        2 => (index(), any::<bool>()).prop_map(|(at, relist)| Op::Fail(at, relist)),
        1 => index().prop_map(Op::Zombie),
        6 => prop::sample::select(vec![1, 3, 9, 11, 19, 21, 40, 61, 200]).prop_map(Op::Advance),
        1 => Just(Op::StopIdle),
    ]
}

/// Where a reflector stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Starting,
    /// The server made its list of so much of the history.
    Listed(usize),
    /// So much of the history was delivered.
    Watching(usize),
}

/// Both kinds of sink.
enum Sink {
    Object(String, ReflectorSink<Doc, Failure>),
    Namespace(NamespaceSink<Doc, Failure>),
}

impl Sink {
    fn listing(&self) {
        match self {
            Self::Object(_, sink) => sink.listing(),
            Self::Namespace(sink) => sink.listing(),
        }
    }

    fn failed(&self) {
        let error = Arc::new(Failure::Status(503));
        match self {
            Self::Object(_, sink) => sink.failed(error),
            Self::Namespace(sink) => sink.failed(error),
        }
    }

    fn confirm(&self) {
        match self {
            Self::Object(_, sink) => sink.confirm(),
            Self::Namespace(sink) => sink.confirm(),
        }
    }
}

/// One change of one object.
struct Entry {
    at: Timestamp,
    name: usize,
    doc: Option<Arc<Doc>>,
}

/// The API server, and what is between it and the store.
struct Cluster {
    source: Source,
    log: Vec<Entry>,
    /// By number: objects' reflectors first.
    reflectors: BTreeMap<(bool, usize), At>,
    /// Reads that have seen so much of the history.
    seen: BTreeMap<usize, usize>,
}

impl Cluster {
    fn new(source: Source) -> Self {
        source.may_watch("ns", Ok(3));
        Self { source, log: Vec::new(), reflectors: BTreeMap::new(), seen: BTreeMap::new() }
    }

    fn state(&self, name: usize, upto: usize) -> Option<Arc<Doc>> {
        self.log[..upto].iter().rev().find(|entry| entry.name == name)?.doc.clone()
    }

    fn change(&mut self, name: usize, change: Change, at: Timestamp) {
        let now = self.state(name, self.log.len());
        let mut push = |doc: Option<(Option<&Doc>, bool)>| {
            let version = (self.log.len() + 1).to_string();
            let doc = doc.map(|(same, immutable)| {
                let uid = same.map_or_else(|| format!("uid-{version}"), |doc| doc.uid.clone());
                Arc::new(Doc { version, uid, immutable })
            });
            self.log.push(Entry { at, name, doc });
        };
        match (now, change) {
            // An immutable object's contents cannot change.
            (Some(doc), Change::Update) if !doc.immutable => push(Some((Some(&doc), false))),
            (Some(_), Change::Delete) => push(None),
            (Some(_), Change::Update | Change::Recreate) => {
                push(None);
                push(Some((None, false)));
            }
            (Some(_), Change::RecreateImmutable) => {
                push(None);
                push(Some((None, true)));
            }
            (None, Change::RecreateImmutable) => push(Some((None, true))),
            (None, _) => push(Some((None, false))),
        }
    }

    /// The reflectors that run, or those that do not.
    fn sinks(&self, running: bool) -> Vec<((bool, usize), Sink)> {
        let objects = self.source.reflectors().into_iter().enumerate();
        let objects = objects.filter(|(_, started)| started.is_running() == running);
        let namespaces = self.source.namespaces().into_iter().enumerate();
        let namespaces = namespaces.filter(|(_, started)| started.is_running() == running);
        objects
            .map(|(id, started)| ((false, id), Sink::Object(started.key.name().to_owned(), started.sink)))
            .chain(namespaces.map(|(id, started)| ((true, id), Sink::Namespace(started.sink))))
            .collect()
    }

    fn at(&mut self, id: (bool, usize)) -> &mut At {
        self.reflectors.entry(id).or_insert(At::Starting)
    }

    fn with(&mut self, at: prop::sample::Index, act: impl FnOnce(&mut Self, (bool, usize), &Sink)) {
        let sinks = self.sinks(true);
        if !sinks.is_empty() {
            let (id, sink) = at.get(&sinks);
            act(self, *id, sink);
        }
    }

    /// Delivers a list, or all events that have not been delivered.
    fn deliver(&mut self, id: (bool, usize), sink: &Sink, confirm: bool) {
        let now = self.log.len();
        let from = match *self.at(id) {
            At::Starting => {
                self.replace(sink, now);
                now
            }
            At::Listed(upto) => {
                self.replace(sink, upto);
                upto
            }
            At::Watching(from) => {
                for entry in &self.log[from..] {
                    let name = NAMES[entry.name];
                    match (sink, &entry.doc) {
                        (Sink::Object(of, sink), Some(doc)) if of == name => sink.set(Arc::clone(doc)),
                        (Sink::Object(of, sink), None) if of == name => sink.delete(),
                        (Sink::Namespace(sink), Some(doc)) => sink.set(name, Arc::clone(doc)),
                        (Sink::Namespace(sink), None) => sink.delete(name),
                        (Sink::Object(..), _) => {}
                    }
                }
                if confirm {
                    sink.confirm();
                }
                now
            }
        };
        *self.at(id) = At::Watching(from);
    }

    fn replace(&self, sink: &Sink, upto: usize) {
        match sink {
            Sink::Object(of, sink) => {
                let name = NAMES.iter().position(|name| name == of).unwrap();
                sink.replace(self.state(name, upto), ReadKind::Consistent);
            }
            Sink::Namespace(sink) => {
                let all = NAMES.iter().enumerate();
                sink.replace(
                    all.filter_map(|(id, &name)| Some((name.to_owned(), self.state(id, upto)?))).collect(),
                    ReadKind::Consistent,
                );
            }
        }
    }

    fn answer(&mut self, id: usize, good: bool) {
        let upto = self.seen.remove(&id).unwrap_or(self.log.len());
        let (key, _) = &self.source.fetched()[id];
        let name = NAMES.iter().position(|name| key == &format!("ns/{name}")).unwrap();
        let outcome = match self.state(name, upto) {
            _ if !good => Err(Failure::Status(503)),
            Some(doc) => Ok(doc),
            None => Err(Failure::NotFound),
        };
        self.source.complete(id, outcome);
    }

    /// Time passes: what was not delivered is looked at again, so that its age is no part of what is tested.
    fn forget_looks(&mut self) {
        self.seen.clear();
        for at in self.reflectors.values_mut() {
            if matches!(at, At::Listed(_)) {
                *at = At::Starting;
            }
        }
    }

    /// Until when an object was like that: how much of the history, and when it changed. None: it still is.
    fn until(&self, name: usize, answer: &Answer) -> Option<(usize, Timestamp)> {
        let of_name = |entry: &Entry| entry.name == name;
        let from = match answer {
            Answer::Doc(doc, _) => {
                let is = |entry: &Entry| entry.doc.as_deref() == Some(doc);
                self.log.iter().position(is).expect("what is served was there once")
            }
            Answer::NotFound(_) => {
                let deleted = self.log.iter().rposition(|entry| of_name(entry) && entry.doc.is_none());
                let Some(deleted) = deleted else {
                    // It was not there before it was created.
                    let created = self.log.iter().position(of_name)?;
                    return Some((created, self.log[created].at));
                };
                deleted
            }
            Answer::NotRegistered | Answer::Failed(_) => return None,
        };
        let next = self.log[from + 1..].iter().position(of_name)? + from + 1;
        Some((next, self.log[next].at))
    }
}

struct Run<S> {
    world: World<S>,
    cluster: Cluster,
    /// References of each name, and how long the history was when the last one was added.
    references: [(usize, usize); 3],
    pods: usize,
    /// For each reader: the name, and how long the history was when the last reference before it was added.
    readers: BTreeMap<usize, (usize, usize)>,
    /// No fresh answer may be older.
    bound: Option<Duration>,
}

impl<S: Store<Object = Doc, Error = Failure>> Run<S> {
    fn new(world: World<S>, bound: Option<Duration>) -> Self {
        let cluster = Cluster::new(world.source.clone());
        Self { world, cluster, references: [(0, 0); 3], pods: 0, readers: BTreeMap::new(), bound }
    }

    fn apply(&mut self, op: &Op, stop_idle: fn(&S), mounted: fn(&S, &str)) {
        let cluster = &mut self.cluster;
        match *op {
            Op::Begin(name) => {
                let reader = self.world.begin("ns", NAMES[name]);
                self.readers.insert(reader, (name, self.references[name].1));
            }
            Op::DropReader(at) => {
                let waiting = self.world.waiting();
                if !waiting.is_empty() {
                    let reader = *at.get(&waiting);
                    self.world.drop_reader(reader);
                    self.readers.remove(&reader);
                }
            }
            Op::Change(name, change) => cluster.change(name, change, self.world.clock.now()),
            Op::AddReference(name) => {
                self.pods += 1;
                self.world.store.add_references("ns", &[NAMES[name]], "pod").run();
                self.references[name] = (self.references[name].0 + 1, cluster.log.len());
            }
            Op::DeleteReference(name) => {
                self.world.store.delete_references("ns", &[NAMES[name]], "pod").run();
                self.references[name].0 = self.references[name].0.saturating_sub(1);
            }
            Op::Mounted(name) => mounted(&self.world.store, NAMES[name]),
            Op::Ask(at) => cluster.with(at, |cluster, id, sink| {
                if *cluster.at(id) == At::Starting {
                    sink.listing();
                }
            }),
            Op::Look(at) => cluster.with(at, |cluster, id, _| {
                if *cluster.at(id) == At::Starting {
                    *cluster.at(id) = At::Listed(cluster.log.len());
                }
            }),
            Op::See(at) => {
                let open = self.world.source.open();
                if !open.is_empty() {
                    let upto = cluster.log.len();
                    cluster.seen.entry(*at.get(&open)).or_insert(upto);
                }
            }
            Op::Deliver(at, confirm) => cluster.with(at, |cluster, id, sink| cluster.deliver(id, sink, confirm)),
            Op::Answer(at, good) => {
                let open = self.world.source.open();
                if !open.is_empty() {
                    cluster.answer(*at.get(&open), good);
                }
            }
            Op::Fail(at, relist) => cluster.with(at, |cluster, id, sink| {
                sink.failed();
                if relist {
                    *cluster.at(id) = At::Starting;
                }
            }),
            Op::Zombie(at) => {
                let stopped = cluster.sinks(false);
                if !stopped.is_empty() {
                    let never = Arc::new(Doc { version: "999999".into(), uid: "never".into(), immutable: false });
                    match &at.get(&stopped).1 {
                        Sink::Object(_, sink) => sink.replace(Some(never), ReadKind::Consistent),
                        Sink::Namespace(sink) => sink.set("x", never),
                    }
                }
            }
            Op::Advance(seconds) => {
                cluster.forget_looks();
                self.world.advance(seconds);
            }
            Op::StopIdle => stop_idle(&self.world.store),
        }
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        for (reader, answer) in self.world.run() {
            let (name, referenced) = self.readers.remove(&reader).expect("a reader is answered once");
            if answer == Answer::NotRegistered {
                prop_assert_eq!(self.references[name].0, 0);
            }
            if !answer.freshness().is_some_and(|freshness| freshness.is_fresh()) {
                // It was there once, all the same.
                self.cluster.until(name, &answer);
                continue;
            }
            let Some((next, changed)) = self.cluster.until(name, &answer) else { continue };
            prop_assert!(next >= referenced, "{:?} was over when {} was referenced", answer, NAMES[name]);
            let held = matches!(&answer, Answer::Doc(doc, _) if doc.immutable);
            if let Some(bound) = self.bound.filter(|_| !held) {
                let age = self.world.clock.now().saturating_duration_since(changed);
                prop_assert!(age <= bound, "{:?} was over {:?} ago", answer, age);
            }
        }
        Ok(())
    }

    /// Once everything works, every reader is answered.
    fn finish(&mut self) -> Result<(), TestCaseError> {
        for round in 0..20 {
            self.check()?;
            // A list that was made before arrives first, then what has happened since.
            let done = round > 2 && self.readers.is_empty();
            for (id, sink) in self.cluster.sinks(true) {
                self.cluster.deliver(id, &sink, true);
            }
            for id in self.world.source.open() {
                self.cluster.answer(id, true);
            }
            if done {
                break;
            }
        }
        self.check()?;
        prop_assert!(self.readers.is_empty(), "{:?} wait for ever", self.readers);
        prop_assert!(self.world.source.open().is_empty());
        // And what everybody gets then is the truth, but for what is immutable and was read before.
        for (id, name) in NAMES.iter().enumerate() {
            if self.references[id].0 == 0 {
                continue;
            }
            let reader = self.world.begin("ns", name);
            self.readers.insert(reader, (id, self.references[id].1));
            for _ in 0..5 {
                let answers = self.world.run();
                for answer in answers.values() {
                    self.readers.clear();
                    let doc = match answer {
                        Answer::Doc(doc, _) => Some(doc.clone()),
                        _ => None,
                    };
                    if !doc.as_ref().is_some_and(|doc| doc.immutable) {
                        let truth = self.cluster.state(id, self.cluster.log.len()).map(|doc| (*doc).clone());
                        prop_assert!(answer.freshness().is_some_and(|it| it.is_fresh()) || self.bound.is_some());
                        prop_assert!(doc == truth || self.bound.is_some(), "{:?} for {:?}", doc, truth);
                    }
                }
                for (id, sink) in self.cluster.sinks(true) {
                    self.cluster.deliver(id, &sink, true);
                }
                for id in self.world.source.open() {
                    self.cluster.answer(id, true);
                }
            }
            prop_assert!(self.readers.is_empty());
        }
        for (id, name) in NAMES.iter().enumerate() {
            prop_assert_eq!(self.world.store.references("ns", name), self.references[id].0);
            for _ in 0..self.references[id].0 {
                self.world.store.delete_references("ns", &[name], "pod").run();
            }
        }
        prop_assert!(self.cluster.sinks(true).is_empty(), "a reflector outlives its references");
        Ok(())
    }
}

/// How many sequences are tried: `PROPTEST_CASES`, or 400.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn the_watch_store_answers_with_what_was_true_since_the_reference(ops in prop::collection::vec(op(), 1..120)) {
        let mut run = Run::new(World::watching(), None);
        for op in ops {
            run.apply(&op, Watching::stop_idle, |_, _| {});
            run.check()?;
        }
        run.finish()?;
    }

    #[test]
    fn the_adaptive_store_is_never_staler_than_the_ttl_or_ten_seconds(
        ops in prop::collection::vec(op(), 1..120),
        short in any::<bool>(),
    ) {
        let ttl = if short { Duration::from_secs(3) } else { TTL };
        let bound = ttl.max(Duration::from_secs(10));
        let mut run = Run::<Adapting>::new(World::adapting(ttl), Some(bound));
        for op in ops {
            run.apply(&op, Adapting::stop_idle, |store, name| store.set_mounted("ns", name));
            run.check()?;
        }
        run.finish()?;
    }
}
