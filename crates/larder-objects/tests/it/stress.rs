//! The lock-free map as it is built for use, under many schedules of real threads: random operations, begun together, on the
//! public stores. Shuttle explores a locked map in its place.
//!
//! Each object has one writer, so the states that it has been in are numbered. A writer notes the number before it begins a
//! change, and again when the change has returned. A read may then see a state that had begun when the read ended, and not one
//! that another had replaced when the read began: never a removed record after its removal returned, never an older one
//! after a newer one, be that seen by another reader.

use crate::harness::Failure;
use larder_clock::{Clock, MonotonicClock, Timestamp, VirtualClock};
use larder_objects::Source as By;
use larder_objects::{
    AutoOptions, AutoStore, DefaultTtl, Fetch, Freshness, GetError, Object, ObjectKey, ReadKind, ReflectorSink,
    Reflectors, Scope, Store, StoreTtl, TtlStore, WatchOptions, WatchStore,
};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const NAMES: [&str; 2] = ["x", "y"];
const READERS: usize = 2;
/// How long each store is under stress, and how many rounds that has to be enough for.
const TIME: Duration = Duration::from_secs(2);
const LEAST_ROUNDS: u64 = 100;
const OPERATIONS: u64 = 40;

struct Doc {
    version: String,
}

impl Object for Doc {
    fn resource_version(&self) -> &str {
        &self.version
    }

    fn uid(&self) -> &'static str {
        "u"
    }

    fn is_immutable(&self) -> bool {
        false
    }
}

fn doc(state: u64) -> Arc<Doc> {
    Arc::new(Doc { version: state.to_string() })
}

/// What an object is at the server: its state, if it exists, and who watches it.
#[derive(Default)]
struct Served {
    state: Option<u64>,
    sink: Option<ReflectorSink<Doc, Failure>>,
}

#[derive(Clone, Default)]
struct Source {
    served: Arc<Mutex<BTreeMap<String, Served>>>,
}

impl Fetch for Source {
    type Object = Doc;
    type Error = Failure;

    fn fetch(&self, key: &ObjectKey, _: ReadKind) -> impl Future<Output = Result<Arc<Doc>, Failure>> + Send + 'static {
        let state = self.served.lock().unwrap().get(key.name()).and_then(|served| served.state);
        std::future::ready(state.map(doc).ok_or(Failure::NotFound))
    }

    fn source(&self, read: ReadKind) -> By {
        read.source()
    }
}

impl Reflectors for Source {
    type Object = Doc;
    type Error = Failure;
    type Reflector = ();

    fn start(&self, scope: &Scope, _: Option<String>, sink: ReflectorSink<Doc, Failure>) {
        let Scope::Object(key) = scope else { panic!("no namespace may be watched") };
        // The list and the events after it are told in order, whoever starts the reflector.
        let mut all = self.served.lock().unwrap();
        let served = all.entry(key.name().to_owned()).or_default();
        sink.listing();
        let state = served.state.map(|state| (key.name().to_owned(), doc(state)));
        sink.replace(state.into_iter().collect(), ReadKind::Consistent);
        served.sink = Some(sink);
    }

    fn may_watch(&self, _: &str) -> impl Future<Output = bool> + Send + 'static {
        std::future::ready(false)
    }

    fn count(&self, _: &str) -> impl Future<Output = Result<u64, Failure>> + Send + 'static {
        std::future::ready(Err(Failure::Status(503)))
    }
}

/// The states of one object, by their numbers.
#[derive(Default)]
struct History {
    /// The state whose change has begun last.
    begun: AtomicU64,
    /// The state that reads have to see: its change has returned, or a reader has seen it.
    least: AtomicU64,
    kinds: Mutex<BTreeMap<u64, Kind>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unreferenced,
    Absent,
    Exists,
}

impl History {
    fn begin(&self, kind: Kind) -> u64 {
        let state = self.begun.load(Ordering::SeqCst) + 1;
        self.kinds.lock().unwrap().insert(state, kind);
        self.begun.store(state, Ordering::SeqCst);
        state
    }

    fn end(&self, state: u64) {
        self.least.fetch_max(state, Ordering::SeqCst);
    }

    /// Judges what a read saw that began when `least` was this.
    fn check(&self, least: u64, seen: Seen, told: &str) {
        let most = self.begun.load(Ordering::SeqCst);
        match seen {
            Seen::Exists(state) => {
                assert!((least..=most).contains(&state), "{told}: state {state} was read, of {least} to {most}");
                self.end(state);
            }
            Seen::Kind(kind) => {
                let kinds = self.kinds.lock().unwrap();
                let is_of = |state| kinds.get(&state).is_none_or(|of| *of == kind);
                assert!((least..=most).any(is_of), "{told}: {kind:?} was read, of {least} to {most}: {kinds:?}");
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Seen {
    Exists(u64),
    Kind(Kind),
}

/// xorshift64*: numbers that a seed gives again.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}

/// A store under stress.
trait Stressed: Store<Object = Doc, Error = Failure> {
    /// Whether a change at the server is seen without a new reference.
    const WATCHES: bool;

    fn referenced(&self, _name: &str) {}
}

impl Stressed for TtlStore<Source, VirtualClock, DefaultTtl> {
    const WATCHES: bool = false;
}

impl Stressed for Arc<WatchStore<Source, Source, VirtualClock>> {
    const WATCHES: bool = true;
}

impl Stressed for Arc<AutoStore<Source, Source, VirtualClock, DefaultTtl>> {
    const WATCHES: bool = true;

    fn referenced(&self, name: &str) {
        // Watched from its first read on.
        self.set_mounted("ns", name);
    }
}

struct Round<'r, S> {
    store: &'r S,
    source: &'r Source,
    histories: &'r [History; NAMES.len()],
    start: &'r Barrier,
    seed: u64,
}

impl<S: Stressed> Round<'_, S> {
    /// Changes one object; nobody else does.
    fn write(&self, at: usize) {
        let (name, history) = (NAMES[at], &self.histories[at]);
        let mut random = Random::new(self.seed.wrapping_add(u64::try_from(at).unwrap()));
        let mut referenced = false;
        self.start.wait();
        for operation in 0..OPERATIONS {
            let kind = match random.below(8) {
                0 => Kind::Unreferenced,
                1 if S::WATCHES => Kind::Absent,
                _ => Kind::Exists,
            };
            let state = history.begin(kind);
            match kind {
                Kind::Unreferenced => {
                    // What happens from here on was not seen.
                    self.source.served.lock().unwrap().entry(name.to_owned()).or_default().sink = None;
                    self.store.delete_references("ns", &[name], "u").run();
                }
                Kind::Absent | Kind::Exists => {
                    let exists = kind == Kind::Exists;
                    let mut all = self.source.served.lock().unwrap();
                    let served = all.entry(name.to_owned()).or_default();
                    served.state = exists.then_some(state);
                    if let Some(sink) = &served.sink {
                        if exists { sink.set(name, doc(state)) } else { sink.delete(name, None) }
                    }
                    drop(all);
                    if !S::WATCHES && referenced {
                        // A read after a new reference is as new as that.
                        self.store.add_references("ns", &[name], "u").run();
                        self.store.delete_references("ns", &[name], "u").run();
                    }
                    if !referenced {
                        self.store.add_references("ns", &[name], "u").run();
                        self.store.referenced(name);
                    }
                }
            }
            referenced = kind != Kind::Unreferenced;
            history.end(state);
            // The table grows and shrinks beside.
            let other = format!("{name}-{}", operation % 20);
            self.store.add_references("ns", &[&other], "u").run();
            self.read(&other);
            if random.below(2) == 0 {
                self.store.delete_references("ns", &[&other], "u").run();
            }
        }
    }

    /// What a read is answered that takes no longer than a look.
    fn read(&self, name: &str) -> Option<Seen> {
        let Poll::Ready(answer) = pin!(self.store.get("ns", name)).poll(&mut Context::from_waker(Waker::noop())) else {
            return None;
        };
        // A store that polls shares fetches that began before a read: those promise less than a watch.
        let counts = |freshness: Freshness| freshness.is_fresh() && (!S::WATCHES || freshness.source == By::Watch);
        match answer {
            Ok(read) => counts(read.freshness).then(|| Seen::Exists(read.object.version.parse().unwrap())),
            Err(GetError::NotRegistered { .. }) => Some(Seen::Kind(Kind::Unreferenced)),
            Err(GetError::NotFound { freshness, .. }) => counts(freshness).then_some(Seen::Kind(Kind::Absent)),
            Err(other) => panic!("seed {}: {other}", self.seed),
        }
    }

    fn look(&self, reader: usize) -> u64 {
        let mut random = Random::new(self.seed.wrapping_add(1_000).wrapping_add(u64::try_from(reader).unwrap()));
        let mut answered = 0;
        self.start.wait();
        for _ in 0..OPERATIONS * 10 {
            let at = usize::try_from(random.below(2)).unwrap();
            let history = &self.histories[at];
            let least = history.least.load(Ordering::SeqCst);
            if let Some(seen) = self.read(NAMES[at]) {
                history.check(least, seen, &format!("seed {}, {}", self.seed, NAMES[at]));
                answered += 1;
            }
        }
        answered
    }
}

fn stress<S: Stressed>(store: impl Fn(Source, VirtualClock) -> S) {
    let clock = MonotonicClock::new();
    let end = clock.now() + TIME;
    // Printed where the test fails: it gives the same operations again, if not the same schedule.
    let first = RandomState::new().hash_one("seed") >> 16;
    println!("first seed: {first}");
    let (mut round, mut answered) = (0, 0);
    while round < LEAST_ROUNDS || clock.now() < end {
        let source = Source::default();
        let store = store(source.clone(), VirtualClock::new(Timestamp::ZERO));
        let histories: [History; NAMES.len()] = Default::default();
        for history in &histories {
            history.kinds.lock().unwrap().insert(0, Kind::Unreferenced);
        }
        let start = Barrier::new(NAMES.len() + READERS);
        let seed = first.wrapping_add(round);
        let this = Round { store: &store, source: &source, histories: &histories, start: &start, seed };
        answered += std::thread::scope(|scope| {
            for at in 0..NAMES.len() {
                let this = &this;
                scope.spawn(move || this.write(at));
            }
            let readers: Vec<_> = (0..READERS)
                .map(|reader| {
                    let this = &this;
                    scope.spawn(move || this.look(reader))
                })
                .collect();
            readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u64>()
        });
        round += 1;
    }
    println!("{round} rounds, {answered} answers");
    assert!(answered > round * OPERATIONS, "{answered} answers in {round} rounds");
}

#[test]
fn reads_of_a_ttl_store_see_no_state_that_was_replaced_or_removed() {
    stress(|source, clock| TtlStore::new(source, clock, StoreTtl::new(DefaultTtl, Duration::MAX)));
}

#[test]
fn reads_of_a_watch_store_see_no_state_that_was_replaced_or_removed() {
    stress(|source, clock| WatchStore::new(source.clone(), source, clock, WatchOptions::default()));
}

#[test]
fn reads_of_an_adaptive_store_see_no_state_that_was_replaced_or_removed() {
    stress(|source, clock| {
        AutoStore::new(source.clone(), source, clock, StoreTtl::new(DefaultTtl, Duration::ZERO), AutoOptions::default())
    });
}
