//! The stores that watch against a simulated API server whose history is known. Lists, watches and reads each see the
//! history at a moment of their own and bring what they saw later, in any order or never: reads overtake one another,
//! watches lag behind, signs of life come without the events, lists come from a cache, reflectors fail or stay silent.
//!
//! Of each fresh answer it is asked that the object was like that at or after the last reference that was added before
//! the read began; of the adaptive store also that it was like that no longer than max(TTL, 10 s) ago. No reader is left
//! waiting once another one is answered, and no store believes that versions went back, for they never do here.

use crate::harness::Failure;
use crate::source::{Adapting, Answer, Doc, Source, Watching, World};
use larder_clock::{Clock, Timestamp};
use larder_objects::{ReadKind, ReflectorSink, Store, WatchStats};
use proptest::prelude::*;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const NAMES: [&str; 3] = ["x", "y", "z"];
const TTL: Duration = Duration::from_secs(20);
/// For how long readers of the adaptive store wait for a reflector that says nothing.
const PATIENCE: Duration = Duration::from_secs(10);

type Index = prop::sample::Index;

#[derive(Clone, Debug)]
enum Op {
    Begin(usize),
    DropReader(Index),
    Change(usize, Change),
    AddReference(usize),
    DeleteReference(usize),
    Mounted(usize),
    /// A reflector asks for its list.
    Ask(Index),
    /// A reflector's list arrives, as current as that; or some of the events that were not delivered yet. The second index
    /// says what the list saw, or how far the events go.
    Deliver(Index, Index, ReadKind),
    /// A sign of life, or a bookmark, of a reflector that has listed, whatever it has not delivered yet.
    Confirm(Index, bool),
    /// An open read is answered: with what it saw at some moment, or with a failure.
    Answer(Index, Index, bool),
    /// A reflector fails, and lists again or goes on where it was.
    Fail(Index, bool),
    /// A reflector that was stopped says something all the same.
    Zombie(Index),
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

/// Which of the readers that were woken are polled after an operation.
#[derive(Clone, Copy, Debug)]
enum Polls {
    Nobody,
    /// One, by its place among those that were woken.
    One(u8),
    /// All, each time the one at that place.
    All(u8),
}

fn op() -> impl Strategy<Value = (Op, Polls)> {
    let index = any::<Index>;
    let change = prop::sample::select(vec![
        Change::Update,
        Change::Update,
        Change::Update,
        Change::Delete,
        Change::Recreate,
        Change::RecreateImmutable,
    ]);
    // Mostly the same object: what is tested is what becomes of one.
    let name = || prop_oneof![3 => Just(0), 1 => 0..NAMES.len()];
    let read = prop_oneof![2 => Just(ReadKind::Consistent), 1 => Just(ReadKind::ApiServerCache)];
    let op = prop_oneof![
        12 => name().prop_map(Op::Begin),
        1 => index().prop_map(Op::DropReader),
        8 => (name(), change).prop_map(|(name, change)| Op::Change(name, change)),
        5 => name().prop_map(Op::AddReference),
        1 => name().prop_map(Op::DeleteReference),
        1 => name().prop_map(Op::Mounted),
        2 => index().prop_map(Op::Ask),
        8 => (index(), index(), read).prop_map(|(at, upto, read)| Op::Deliver(at, upto, read)),
        4 => (index(), any::<bool>()).prop_map(|(at, bookmark)| Op::Confirm(at, bookmark)),
        10 => (index(), index(), prop::bool::weighted(0.9)).prop_map(|(at, saw, good)| Op::Answer(at, saw, good)),
        2 => (index(), any::<bool>()).prop_map(|(at, relist)| Op::Fail(at, relist)),
        1 => index().prop_map(Op::Zombie),
        4 => prop::sample::select(vec![1, 3, 9, 11, 19, 21, 40, 61, 200]).prop_map(Op::Advance),
        1 => Just(Op::StopIdle),
    ];
    let polls = prop_oneof![
        1 => Just(Polls::Nobody),
        1 => any::<u8>().prop_map(Polls::One),
        6 => any::<u8>().prop_map(Polls::All),
    ];
    (op, polls)
}

/// Where a reflector stands in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Its list was, or will be, asked for then.
    Starting(usize),
    /// So much of the history was delivered.
    Watching(usize),
}

/// The sink of a reflector, of one object or of all.
struct Sink {
    of: Option<String>,
    sink: ReflectorSink<Doc, Failure>,
}

impl Sink {
    fn is_of(&self, name: &str) -> bool {
        self.of.as_ref().is_none_or(|of| of == name)
    }
}

/// One change of one object. Its version is its place in the history, from 1.
struct Happened {
    at: Timestamp,
    name: usize,
    doc: Option<Arc<Doc>>,
}

type Id = (bool, usize);

/// The API server, and what is between it and the store.
struct Cluster {
    source: Source,
    log: Vec<Happened>,
    /// By number: objects' reflectors first.
    reflectors: BTreeMap<Id, At>,
    /// When the reflectors were started that have said nothing yet.
    silent: BTreeMap<Id, Timestamp>,
    /// How long the history was when each read began.
    reads: Vec<usize>,
    /// How long the history was when time last passed. Where ages are tested, nothing that arrives is from before.
    floor: usize,
    bounded: bool,
}

/// A place from `from` to `to`, both included.
fn between(at: Index, from: usize, to: usize) -> usize {
    from.min(to) + at.index(to.saturating_sub(from) + 1)
}

impl Cluster {
    fn new(source: Source, bounded: bool) -> Self {
        source.may_watch("ns", Ok(3));
        let (reflectors, silent) = (BTreeMap::new(), BTreeMap::new());
        Self { source, log: Vec::new(), reflectors, silent, reads: Vec::new(), floor: 0, bounded }
    }

    /// Takes note of what the store has begun.
    fn note(&mut self, at: Timestamp) {
        let now = self.log.len();
        self.reads.resize(self.source.reads().len(), now);
        for (id, _) in self.sinks(true) {
            if let Entry::Vacant(new) = self.reflectors.entry(id) {
                new.insert(At::Starting(now));
                self.silent.insert(id, at);
            }
        }
    }

    /// Whether what keeps the object has been silent since its start for longer than readers wait for it.
    fn is_late(&self, name: usize, now: Timestamp) -> bool {
        let keeps = self.sinks(true).into_iter().filter(|(_, sink)| sink.is_of(NAMES[name]));
        keeps.last().is_some_and(|(id, _)| self.silent.get(&id).is_some_and(|since| now >= *since + PATIENCE))
    }

    /// What arrives now is no older than this.
    fn least(&self) -> usize {
        if self.bounded { self.floor } else { 0 }
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
            self.log.push(Happened { at, name, doc });
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
    fn sinks(&self, running: bool) -> Vec<(Id, Sink)> {
        let objects = self.source.reflectors().into_iter().enumerate();
        let objects = objects.filter(|(_, started)| started.is_running() == running);
        let namespaces = self.source.namespaces().into_iter().enumerate();
        let namespaces = namespaces.filter(|(_, started)| started.is_running() == running);
        objects
            .map(|(id, started)| {
                ((false, id), Sink { of: Some(started.key.name().to_owned()), sink: (*started.sink).clone() })
            })
            .chain(namespaces.map(|(id, started)| ((true, id), Sink { of: None, sink: started.sink })))
            .collect()
    }

    fn with(&mut self, at: Index, act: impl FnOnce(&mut Self, Id, &Sink)) {
        let sinks = self.sinks(true);
        if !sinks.is_empty() {
            let (id, sink) = at.get(&sinks);
            act(self, *id, sink);
        }
    }

    /// The version that a reflector resumes from.
    fn resumes_from(&self, id: Id) -> usize {
        let (is_namespace, at) = id;
        let resume = if is_namespace { None } else { self.source.reflectors()[at].resume.clone() };
        resume.map_or(0, |version| version.parse().unwrap())
    }

    /// Delivers a list, or events.
    fn deliver(&mut self, id: Id, sink: &Sink, upto: Index, read: ReadKind) {
        let now = self.log.len();
        self.silent.remove(&id);
        let upto = match self.reflectors[&id] {
            At::Starting(asked) => {
                let from = match read {
                    ReadKind::Consistent => asked,
                    ReadKind::ApiServerCache => self.resumes_from(id),
                };
                let upto = between(upto, from.max(self.least()), now);
                self.replace(sink, upto, read);
                upto
            }
            At::Watching(from) => {
                let upto = between(upto, from.max(self.least()), now);
                self.events(sink, from, upto);
                upto
            }
        };
        self.reflectors.insert(id, At::Watching(upto));
    }

    /// Delivers everything.
    fn deliver_all(&mut self) {
        let now = self.log.len();
        self.silent.clear();
        for (id, sink) in self.sinks(true) {
            match self.reflectors[&id] {
                At::Starting(_) => self.replace(&sink, now, ReadKind::Consistent),
                At::Watching(from) => self.events(&sink, from, now),
            }
            sink.sink.bookmark(&now.to_string());
            self.reflectors.insert(id, At::Watching(now));
        }
    }

    fn events(&self, sink: &Sink, from: usize, upto: usize) {
        for entry in &self.log[from..upto] {
            let name = NAMES[entry.name];
            match &entry.doc {
                _ if !sink.is_of(name) => {}
                Some(doc) => sink.sink.set(name, Arc::clone(doc)),
                None => sink.sink.delete(name, None),
            }
        }
    }

    fn replace(&self, sink: &Sink, upto: usize, read: ReadKind) {
        let all = NAMES.iter().enumerate().filter(|(_, name)| sink.is_of(name));
        let all = all.filter_map(|(id, &name)| Some((name.to_owned(), self.state(id, upto)?)));
        sink.sink.replace(all.collect(), read);
    }

    /// A sign of life or a bookmark. Where ages are tested, a watch lags behind for no time.
    fn confirm(&mut self, id: Id, sink: &Sink, bookmark: bool) {
        let At::Watching(from) = self.reflectors[&id] else { return };
        let upto = from.max(self.least());
        self.events(sink, from, upto);
        self.reflectors.insert(id, At::Watching(upto));
        if bookmark {
            sink.sink.bookmark(&upto.to_string());
        } else {
            sink.sink.confirm();
        }
    }

    fn answer(&self, id: usize, saw: usize, good: bool) {
        let (key, _) = &self.source.fetched()[id];
        let name = NAMES.iter().position(|name| key == &format!("ns/{name}")).unwrap();
        let outcome = match self.state(name, saw) {
            _ if !good => Err(Failure::Status(503)),
            Some(doc) => Ok(doc),
            None => Err(Failure::NotFound),
        };
        self.source.complete(id, outcome);
    }

    /// How little of the history a read may have seen.
    fn least_seen(&self, id: usize) -> usize {
        match self.source.reads()[id] {
            ReadKind::Consistent => self.reads[id].max(self.least()),
            ReadKind::ApiServerCache => self.least(),
        }
    }

    /// Until when an object was like that: how much of the history, and when it changed. None: it still is.
    fn until(&self, name: usize, answer: &Answer) -> Option<(usize, Timestamp)> {
        let of_name = |entry: &Happened| entry.name == name;
        let from = match answer {
            Answer::Doc(doc, _) => {
                let is = |entry: &Happened| entry.doc.as_deref() == Some(doc);
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

/// What the test needs of a store beside reads.
struct Controls<S> {
    stop_idle: fn(&S),
    mounted: fn(&S, &str),
    stats: fn(&S) -> WatchStats,
}

struct Run<S> {
    world: World<S>,
    cluster: Cluster,
    controls: Controls<S>,
    /// References of each name, and how long the history was when the last one was added.
    references: [(usize, usize); 3],
    /// For each reader: the name, and how long the history was when the last reference before it was added.
    readers: BTreeMap<usize, (usize, usize)>,
    /// No fresh answer may be older.
    bound: Option<Duration>,
}

impl<S: Store<Object = Doc, Error = Failure>> Run<S> {
    fn new(world: World<S>, bound: Option<Duration>, controls: Controls<S>) -> Self {
        let cluster = Cluster::new(world.source.clone(), bound.is_some());
        Self { world, cluster, controls, references: [(0, 0); 3], readers: BTreeMap::new(), bound }
    }

    fn run(&mut self, ops: &[(Op, Polls)]) -> Result<(), TestCaseError> {
        for (op, polls) in ops {
            if matches!(op, Op::Advance(_)) && self.bound.is_some() {
                // What has arrived is taken in before its age counts.
                self.poll(Polls::All(0))?;
            }
            self.apply(op);
            self.cluster.note(self.world.clock.now());
            self.poll(*polls)?;
        }
        self.finish()
    }

    fn begin(&mut self, name: usize) -> usize {
        let reader = self.world.begin("ns", NAMES[name]);
        self.readers.insert(reader, (name, self.references[name].1));
        reader
    }

    fn add_reference(&mut self, name: usize) {
        self.world.store.add_references("ns", &[NAMES[name]], "pod").run();
        self.references[name] = (self.references[name].0 + 1, self.cluster.log.len());
    }

    fn advance(&mut self, time: Duration) {
        self.cluster.floor = self.cluster.log.len();
        self.world.clock.advance(time);
    }

    fn apply(&mut self, op: &Op) {
        let cluster = &mut self.cluster;
        match *op {
            Op::Begin(name) => drop(self.begin(name)),
            Op::DropReader(at) => {
                let waiting = self.world.waiting();
                if !waiting.is_empty() {
                    let reader = *at.get(&waiting);
                    self.world.drop_reader(reader);
                    self.readers.remove(&reader);
                }
            }
            Op::Change(name, change) => cluster.change(name, change, self.world.clock.now()),
            Op::AddReference(name) => self.add_reference(name),
            Op::DeleteReference(name) => {
                self.world.store.delete_references("ns", &[NAMES[name]], "pod").run();
                self.references[name].0 = self.references[name].0.saturating_sub(1);
            }
            Op::Mounted(name) => (self.controls.mounted)(&self.world.store, NAMES[name]),
            Op::Ask(at) => cluster.with(at, |cluster, id, sink| {
                if let At::Starting(asked) = cluster.reflectors.get_mut(&id).unwrap() {
                    *asked = cluster.log.len();
                    sink.sink.listing();
                }
            }),
            Op::Deliver(at, upto, read) => cluster.with(at, |cluster, id, sink| cluster.deliver(id, sink, upto, read)),
            Op::Confirm(at, bookmark) => cluster.with(at, |cluster, id, sink| cluster.confirm(id, sink, bookmark)),
            Op::Answer(at, saw, good) => {
                let open = self.world.source.open();
                if !open.is_empty() {
                    let id = *at.get(&open);
                    cluster.answer(id, between(saw, cluster.least_seen(id), cluster.log.len()), good);
                }
            }
            Op::Fail(at, relist) => cluster.with(at, |cluster, id, sink| {
                sink.sink.failed(Arc::new(Failure::Status(503)));
                cluster.silent.remove(&id);
                if relist {
                    cluster.reflectors.insert(id, At::Starting(cluster.log.len()));
                }
            }),
            Op::Zombie(at) => {
                let stopped = cluster.sinks(false);
                if !stopped.is_empty() {
                    let never = Arc::new(Doc { version: "999999".into(), uid: "never".into(), immutable: false });
                    let Sink { of, sink } = &at.get(&stopped).1;
                    let name = of.as_deref().unwrap_or("x");
                    sink.replace(vec![(name.to_owned(), never)], ReadKind::Consistent);
                }
            }
            Op::Advance(seconds) => self.advance(Duration::from_secs(seconds)),
            Op::StopIdle => (self.controls.stop_idle)(&self.world.store),
        }
    }

    fn poll(&mut self, polls: Polls) -> Result<(), TestCaseError> {
        let (most, place) = match polls {
            Polls::Nobody => return Ok(()),
            Polls::One(place) => (1, place),
            Polls::All(place) => (usize::MAX, place),
        };
        let answers = self.world.run_some(most, |woken| usize::from(place) % woken);
        self.cluster.note(self.world.clock.now());
        // The latest reader of each that got a fresh answer.
        let mut answered = BTreeMap::new();
        for (reader, answer) in answers {
            let (name, referenced) = self.readers.remove(&reader).expect("a reader is answered once");
            if answer.freshness().is_some_and(|freshness| freshness.is_fresh()) {
                answered.insert(name, reader);
            }
            self.judge(name, referenced, &answer)?;
        }
        // The watch store's readers wait for a first list as long as it takes.
        if matches!(polls, Polls::All(_)) && self.bound.is_some() {
            self.nobody_is_stranded(&answered)?;
        }
        Ok(())
    }

    fn judge(&self, name: usize, referenced: usize, answer: &Answer) -> Result<(), TestCaseError> {
        if *answer == Answer::NotRegistered {
            prop_assert_eq!(self.references[name].0, 0);
        }
        // It was there once, fresh or stale.
        let until = self.cluster.until(name, answer);
        if !answer.freshness().is_some_and(|freshness| freshness.is_fresh()) {
            return Ok(());
        }
        let Some((next, changed)) = until else { return Ok(()) };
        prop_assert!(next >= referenced, "{:?} was over when {} was referenced", answer, NAMES[name]);
        // One that is immutable may be held for longer.
        let held = matches!(answer, Answer::Doc(doc, _) if doc.immutable);
        if let Some(bound) = self.bound.filter(|_| !held) {
            let age = self.world.clock.now().saturating_duration_since(changed);
            prop_assert!(age <= bound, "{:?} was over {:?} ago", answer, age);
        }
        Ok(())
    }

    /// Where a reader was answered although the reflector is silent, one of the same object that came before it waits for a
    /// read at most.
    fn nobody_is_stranded(&self, answered: &BTreeMap<usize, usize>) -> Result<(), TestCaseError> {
        let fetched = self.world.source.fetched();
        let open: BTreeSet<&str> = self.world.source.open().into_iter().map(|id| fetched[id].0.as_str()).collect();
        for (reader, (name, _)) in &self.readers {
            let waits_for_a_read = open.contains(format!("ns/{}", NAMES[*name]).as_str());
            if !self.cluster.is_late(*name, self.world.clock.now()) {
                continue;
            }
            let is_overtaken = answered.get(name).is_some_and(|answered| answered > reader);
            prop_assert!(waits_for_a_read || !is_overtaken, "reader {} of {} is stranded", reader, NAMES[*name]);
        }
        Ok(())
    }

    /// Everything works: all events and lists arrive, and all reads are answered with what is there.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..20 {
            self.poll(Polls::All(0))?;
            self.cluster.deliver_all();
            for id in self.world.source.open() {
                self.cluster.answer(id, self.cluster.log.len(), true);
            }
        }
        self.poll(Polls::All(0))?;
        prop_assert!(self.readers.is_empty(), "{:?} wait for ever", self.readers);
        prop_assert!(self.world.source.open().is_empty());
        Ok(())
    }

    /// Once everything works, every reader is answered with the truth.
    fn finish(&mut self) -> Result<(), TestCaseError> {
        self.settle()?;
        // What was read within the bound may be as old as that.
        self.advance(self.bound.unwrap_or_default() + Duration::from_secs(1));
        for with_a_new_pod in [false, true] {
            self.cluster.deliver_all();
            for name in 0..NAMES.len() {
                if self.references[name].0 == 0 {
                    continue;
                }
                if with_a_new_pod {
                    self.add_reference(name);
                }
                self.reads_the_truth(name, with_a_new_pod)?;
            }
        }
        let stats = (self.controls.stats)(&self.world.store);
        prop_assert_eq!(stats.versions_went_back, 0);
        for (id, name) in NAMES.iter().enumerate() {
            prop_assert_eq!(self.world.store.references("ns", name), self.references[id].0);
            for _ in 0..self.references[id].0 {
                self.world.store.delete_references("ns", &[name], "pod").run();
            }
        }
        prop_assert!(self.cluster.sinks(true).is_empty(), "a reflector outlives its references");
        Ok(())
    }

    fn reads_the_truth(&mut self, name: usize, for_a_new_pod: bool) -> Result<(), TestCaseError> {
        let reader = self.world.begin("ns", NAMES[name]);
        let mut answer = None;
        for _ in 0..20 {
            answer = answer.or_else(|| self.world.run().remove(&reader));
            self.cluster.note(self.world.clock.now());
            self.cluster.deliver_all();
            for id in self.world.source.open() {
                self.cluster.answer(id, self.cluster.log.len(), true);
            }
        }
        let Some(answer) = answer else {
            return Err(TestCaseError::fail(format!("a reader of {} waits for ever", NAMES[name])));
        };
        prop_assert!(answer.freshness().is_some_and(|freshness| freshness.is_fresh()), "{:?}", answer);
        let doc = if let Answer::Doc(doc, _) = answer { Some(doc) } else { None };
        // An immutable object is looked at again for a new pod alone.
        let held = !for_a_new_pod && doc.as_ref().is_some_and(|doc| doc.immutable);
        let truth = self.cluster.state(name, self.cluster.log.len()).map(|doc| (*doc).clone());
        prop_assert!(held || doc == truth, "{:?} for {:?}", doc, truth);
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
        let controls =
            Controls { stop_idle: |store: &Watching| store.stop_idle(), mounted: |_, _| {}, stats: |store| store.stats() };
        Run::new(World::watching(), None, controls).run(&ops)?;
    }

    #[test]
    fn the_adaptive_store_is_never_staler_than_the_ttl_or_ten_seconds(
        ops in prop::collection::vec(op(), 1..120),
        short in any::<bool>(),
    ) {
        let ttl = if short { Duration::from_secs(3) } else { TTL };
        let bound = ttl.max(Duration::from_secs(10));
        let controls = Controls {
            stop_idle: |store: &Adapting| store.stop_idle(),
            mounted: |store: &Adapting, name| store.set_mounted("ns", name),
            stats: |store| store.stats(),
        };
        Run::new(World::adapting(ttl), Some(bound), controls).run(&ops)?;
    }
}
