//! Foreign code that calls back: wakers, and the drops of wakers, objects, errors, fetches and reflectors, ask the manager and
//! its store, and change them, whenever they run. None of them may meet a lock that is held.

use crate::harness::{Pod, PodRefs};
use larder_clock::{Timestamp, VirtualClock};
use larder_objects::{
    AutoOptions, AutoStore, DefaultTtl, DirectStore, Effects, Fetch, FetchError, Object, ObjectKey, PodIdentity,
    PodObjects, ReadKind, ReflectorSink, Reflectors, Scope, Store, StoreTtl, TtlStore, WatchOptions, WatchStore,
};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const NAMES: [&str; 3] = ["x", "y", "z"];
/// How long a scenario may take before it counts as a deadlock.
const DEADLINE: Duration = Duration::from_mins(1);

/// What foreign code calls.
trait Called: Send + Sync {
    fn call_back(&self);
}

impl<S: Store> Called for PodObjects<S, PodRefs> {
    fn call_back(&self) {
        self.is_registered(PodIdentity { namespace: "a", name: "p", uid: "u" });
        self.for_each_pod(|pod| {
            self.for_each_reference(pod, |reference| {
                self.references("a", reference.name);
            });
        });
        self.store().snapshot();
        let caller = pod("caller", &["x", "z"]);
        self.register_pod(&caller);
        drop(self.get_object("a", "x"));
        self.unregister_pod(&caller);
    }
}

thread_local! {
    static CALLING: Cell<bool> = const { Cell::new(false) };
}

#[derive(Default)]
struct Callback {
    target: OnceLock<Weak<dyn Called>>,
    calls: AtomicUsize,
    panics: AtomicBool,
}

impl Callback {
    fn call(&self) {
        // A second panic of one unwinding would end the process, whoever runs it.
        assert!(!self.panics.load(Ordering::Relaxed) || std::thread::panicking(), "foreign code panics");
        // What a call drops or wakes does not call again.
        if CALLING.replace(true) {
            return;
        }
        if let Some(target) = self.target.get().and_then(Weak::upgrade) {
            target.call_back();
            self.calls.fetch_add(1, Ordering::Relaxed);
        }
        CALLING.set(false);
    }
}

/// Calls back when it is dropped: a fetch, a reflector, or a part of an object, an error or a waker.
struct CallsBack(Arc<Callback>);

impl Drop for CallsBack {
    fn drop(&mut self) {
        self.0.call();
    }
}

struct Thing {
    version: String,
    immutable: bool,
    _drop: CallsBack,
}

impl Object for Thing {
    fn resource_version(&self) -> &str {
        &self.version
    }

    fn uid(&self) -> &'static str {
        ""
    }

    fn is_immutable(&self) -> bool {
        self.immutable
    }
}

#[derive(thiserror::Error)]
#[error("it failed")]
struct Failure {
    not_found: bool,
    _drop: CallsBack,
}

impl std::fmt::Debug for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Failure")
    }
}

impl FetchError for Failure {
    fn is_not_found(&self) -> bool {
        self.not_found
    }

    fn class(&self) -> &'static str {
        "failed"
    }
}

impl Wake for CallsBack {
    fn wake(self: Arc<Self>) {
        self.0.call();
    }
}

#[derive(Default)]
struct State {
    version: u64,
    /// What fetches are answered with, if they are: found, not found, failed.
    outcome: Option<u64>,
    sinks: Vec<(Scope, ReflectorSink<Thing, Failure>)>,
}

#[derive(Clone, Default)]
struct Source {
    callback: Arc<Callback>,
    state: Arc<Mutex<State>>,
}

impl Source {
    fn drop_later(&self) -> CallsBack {
        CallsBack(Arc::clone(&self.callback))
    }

    fn thing(&self) -> Arc<Thing> {
        let mut state = self.state.lock().unwrap();
        state.version += 1;
        let (version, immutable) = (state.version.to_string(), state.version.is_multiple_of(5));
        Arc::new(Thing { version, immutable, _drop: self.drop_later() })
    }

    fn failure(&self, not_found: bool) -> Failure {
        Failure { not_found, _drop: self.drop_later() }
    }
}

struct Fetching {
    source: Source,
    _drop: CallsBack,
}

impl Future for Fetching {
    type Output = Result<Arc<Thing>, Failure>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = self.source.state.lock().unwrap().outcome;
        match outcome {
            // The scenario polls whom it likes, woken or not.
            None => Poll::Pending,
            Some(0) => Poll::Ready(Err(self.source.failure(true))),
            Some(1) => Poll::Ready(Err(self.source.failure(false))),
            Some(_) => Poll::Ready(Ok(self.source.thing())),
        }
    }
}

impl Fetch for Source {
    type Object = Thing;
    type Error = Failure;

    fn fetch(&self, _: &ObjectKey, _: ReadKind) -> impl Future<Output = Result<Arc<Thing>, Failure>> + Send + 'static {
        Fetching { source: self.clone(), _drop: self.drop_later() }
    }

    fn source(&self, read: ReadKind) -> larder_objects::Source {
        read.source()
    }
}

impl Reflectors for Source {
    type Object = Thing;
    type Error = Failure;
    type Reflector = CallsBack;

    fn start(&self, scope: &Scope, _: Option<String>, sink: ReflectorSink<Thing, Failure>) -> CallsBack {
        self.state.lock().unwrap().sinks.push((scope.clone(), sink));
        self.drop_later()
    }

    fn may_watch(&self, _: &str) -> impl Future<Output = bool> + Send + 'static {
        std::future::ready(true)
    }

    fn count(&self, _: &str) -> impl Future<Output = Result<u64, Failure>> + Send + 'static {
        std::future::ready(Ok(3))
    }
}

fn pod(name: &str, refs: &[&str]) -> Pod {
    let refs = refs.iter().map(|name| ((*name).to_owned(), false)).collect();
    Pod { namespace: "a".to_owned(), name: name.to_owned(), uid: "u".to_owned(), refs }
}

/// What a store has besides.
trait Tended: Store<Object = Thing, Error = Failure> {
    fn tend(&self, _name: &str) {}
}

impl Tended for DirectStore<Source, VirtualClock> {}

impl Tended for TtlStore<Source, VirtualClock, DefaultTtl> {
    fn tend(&self, name: &str) {
        self.forget("a", name).run();
    }
}

impl Tended for Arc<WatchStore<Source, Source, VirtualClock>> {
    fn tend(&self, name: &str) {
        self.stop_idle();
        drop(self.held("a", name));
    }
}

impl Tended for Arc<AutoStore<Source, Source, VirtualClock, DefaultTtl>> {
    fn tend(&self, name: &str) {
        self.stop_idle();
        self.set_mounted("a", name);
        drop(self.held("a", name));
    }
}

/// xorshift64*: numbers that a seed gives again.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(u64::try_from(len).unwrap())).unwrap()
    }
}

type Reading = Pin<Box<dyn Future<Output = ()>>>;

/// Random operations on a store and its manager; `tell` is told each before it begins.
fn operate<S: Tended>(source: &Source, clock: &VirtualClock, store: S, seed: u64, mut tell: impl FnMut(u64)) {
    let pods = Arc::new(PodObjects::new(store, PodRefs));
    source.callback.target.set(Arc::downgrade(&pods) as Weak<dyn Called>).ok().unwrap();
    let mut random = Random(seed);
    let mut readers: Vec<Reading> = Vec::new();
    for _ in 0..400 {
        let operation = random.below(14);
        tell(operation);
        let name = NAMES[random.index(NAMES.len())];
        match operation {
            0 | 1 => pods.register_pod(&pod("p", &NAMES[random.index(3)..])),
            2 => pods.unregister_pod(&pod("p", &[])),
            3 => pods.store().add_references("a", &[name], "u").run(),
            4 => pods.store().delete_references("a", &[name], "u").run(),
            5 | 6 => {
                let pods = Arc::clone(&pods);
                readers.push(Box::pin(async move { drop(pods.get_object("a", name).await) }));
            }
            7 | 8 => {
                let waker = Waker::from(Arc::new(CallsBack(Arc::clone(&source.callback))));
                readers.retain_mut(|reader| reader.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            }
            9 if !readers.is_empty() => drop(readers.swap_remove(random.index(readers.len()))),
            10 => source.state.lock().unwrap().outcome = Some(random.below(6)).filter(|outcome| *outcome < 5),
            11 => event(source, &mut random, name),
            12 => clock.advance(Duration::from_secs(random.below(100))),
            _ => pods.store().tend(name),
        }
    }
    tell(99);
    drop(pods);
}

/// A reflector tells something, be it stopped or not.
fn event(source: &Source, random: &mut Random, name: &str) {
    let sinks = source.state.lock().unwrap().sinks.clone();
    let of_namespace = |(scope, _): &(Scope, _)| matches!(scope, Scope::Namespace(_));
    let (namespaces, objects): (Vec<_>, Vec<_>) = sinks.into_iter().partition(of_namespace);
    let object = random.below(2).checked_sub(1).and(objects.get(random.index(objects.len().max(1))));
    for (scope, sink) in object.into_iter().chain(namespaces.last()) {
        let name = match scope {
            Scope::Object(key) => key.name(),
            Scope::Namespace(_) => name,
        };
        match random.below(6) {
            0 => sink.listing(),
            1 => sink.replace(
                vec![(name.to_owned(), source.thing()), (name.to_owned(), source.thing())],
                ReadKind::Consistent,
            ),
            2 => sink.set(name, source.thing()),
            3 => sink.delete(name, None),
            4 => sink.failed(Arc::new(source.failure(false))),
            _ => sink.confirm(),
        }
    }
}

/// Runs the operations of each seed on threads of their own, which would be stuck for ever if they met a lock that they
/// hold.
fn check<S: Tended>(store: fn(Source, VirtualClock) -> S) {
    let (mut calls, mut at) = (0, (0, 0));
    for seed in 1..=60 {
        let (told, tells) = mpsc::channel();
        let runs = std::thread::spawn(move || {
            let (source, clock) = (Source::default(), VirtualClock::new(Timestamp::ZERO));
            let store = store(source.clone(), clock.clone());
            operate(&source, &clock, store, seed, |operation| told.send(operation).unwrap());
            source.callback.calls.load(Ordering::Relaxed)
        });
        loop {
            match tells.recv_timeout(DEADLINE) {
                Ok(operation) => at = (at.0 + 1, operation),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    panic!("seed {seed}: stuck in operation {} of kind {}", at.0, at.1)
                }
            }
        }
        calls += runs.join().unwrap();
        at = (0, 0);
    }
    assert!(calls > 500, "callbacks run: {calls}");
}

#[test]
fn callbacks_from_a_direct_store_meet_no_lock() {
    check(DirectStore::new);
}

#[test]
fn callbacks_from_a_ttl_store_meet_no_lock() {
    check(|source, clock| TtlStore::new(source, clock, StoreTtl::new(DefaultTtl, Duration::from_mins(1))));
}

#[test]
fn callbacks_from_a_watch_store_meet_no_lock() {
    check(|source, clock| WatchStore::new(source.clone(), source, clock, WatchOptions::default()));
}

#[test]
fn callbacks_from_an_adaptive_store_meet_no_lock() {
    check(|source, clock| {
        AutoStore::new(
            source.clone(),
            source,
            clock,
            StoreTtl::new(DefaultTtl, Duration::from_mins(1)),
            AutoOptions::default(),
        )
    });
}

/// Counts how often it wakes.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A store in which `a/x` and `a/y` are referenced, and foreign code that panics when the test says so.
struct Panicking<S> {
    source: Source,
    clock: VirtualClock,
    store: Arc<S>,
    woken: Arc<Woken>,
}

impl<S: Tended> Panicking<S> {
    fn new(store: impl FnOnce(Source, VirtualClock) -> S) -> Self {
        let (source, clock) = (Source::default(), VirtualClock::new(Timestamp::ZERO));
        let store = Arc::new(store(source.clone(), clock.clone()));
        store.add_references("a", &["x", "y"], "u").run();
        Self { source, clock, store, woken: Arc::default() }
    }

    fn read(&self, name: &'static str) -> Reading {
        let store = Arc::clone(&self.store);
        Box::pin(async move { drop(store.get("a", name).await) })
    }

    /// A read that waits, with a waker that panics.
    fn wait_and_panic(&self, name: &'static str) -> Reading {
        let mut reading = self.read(name);
        let waker = Waker::from(Arc::new(CallsBack(Arc::clone(&self.source.callback))));
        assert!(reading.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        reading
    }

    /// A read that waits.
    fn wait(&self, name: &'static str) -> Reading {
        let mut reading = self.read(name);
        assert!(self.poll(&mut reading).is_pending());
        reading
    }

    fn poll(&self, reading: &mut Reading) -> Poll<()> {
        reading.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&self.woken))))
    }

    fn fetches_are(&self, outcome: Option<u64>) {
        self.source.state.lock().unwrap().outcome = outcome;
    }

    fn sink(&self, at: usize) -> ReflectorSink<Thing, Failure> {
        self.source.state.lock().unwrap().sinks[at].1.clone()
    }

    /// What is done panics, as the foreign code does; and so many reads are woken all the same.
    #[track_caller]
    fn panics(&self, wakes: usize, act: impl FnOnce()) {
        let before = self.woken.0.load(Ordering::Relaxed);
        self.source.callback.panics.store(true, Ordering::Relaxed);
        let panic = catch_unwind(AssertUnwindSafe(act)).unwrap_err();
        self.source.callback.panics.store(false, Ordering::Relaxed);
        assert_eq!(panic.downcast_ref(), Some(&"foreign code panics"));
        assert_eq!(self.woken.0.load(Ordering::Relaxed) - before, wakes);
    }
}

#[test]
fn a_panic_in_a_ttl_store_loses_no_other_wake() {
    let world =
        Panicking::new(|source, clock| TtlStore::new(source, clock, StoreTtl::new(DefaultTtl, Duration::from_mins(1))));
    // A waker panics when the fetch has brought the object.
    let mut fetching = world.wait("x");
    let (mut first, mut second) = (world.wait_and_panic("x"), world.wait("x"));
    world.fetches_are(Some(2));
    world.panics(1, || assert!(world.poll(&mut fetching).is_pending()));
    assert!(world.poll(&mut first).is_ready() && world.poll(&mut second).is_ready());
    // The drop of the object that is replaced panics.
    world.clock.advance(Duration::from_secs(61));
    world.fetches_are(None);
    let (mut fetching, mut second) = (world.wait("x"), world.wait("x"));
    world.fetches_are(Some(2));
    world.panics(1, || assert!(world.poll(&mut fetching).is_pending()));
    assert!(world.poll(&mut second).is_ready());
    // The reader that fetches goes away, and passes its turn on to a waker that panics.
    world.clock.advance(Duration::from_secs(61));
    world.fetches_are(None);
    let (fetching, mut first, mut second) = (world.wait("x"), world.wait_and_panic("x"), world.wait("x"));
    world.panics(0, || drop(fetching));
    world.fetches_are(Some(2));
    assert!(world.poll(&mut first).is_ready());
    assert!(world.poll(&mut second).is_ready());
    assert_eq!(world.store.references("a", "x"), 1);
}

#[test]
fn a_panic_in_a_watch_store_loses_no_other_wake() {
    let world = Panicking::new(|source, clock| WatchStore::new(source.clone(), source, clock, WatchOptions::default()));
    // A waker panics when the list has come.
    let (mut first, mut second) = (world.wait_and_panic("x"), world.wait("x"));
    world.panics(1, || world.sink(0).replace(vec![("x".to_owned(), world.source.thing())], ReadKind::Consistent));
    assert!(world.poll(&mut first).is_ready() && world.poll(&mut second).is_ready());
    // The drops of an object and of two reflectors panic when they are released.
    let mut third = world.wait("y");
    world.panics(1, || world.store.delete_references("a", &["x", "y"], "u").run());
    assert!(world.poll(&mut third).is_ready());
    assert!(world.store.snapshot().is_empty());
}

#[test]
fn a_panic_in_an_adaptive_store_loses_no_other_wake() {
    let world = Panicking::new(|source, clock| {
        AutoStore::new(
            source.clone(),
            source,
            clock,
            StoreTtl::new(DefaultTtl, Duration::from_mins(1)),
            AutoOptions::default(),
        )
    });
    world.store.set_mounted("a", "x");
    let (mut first, mut second) = (world.wait_and_panic("x"), world.wait("x"));
    world.panics(1, || world.sink(0).failed(Arc::new(world.source.failure(false))));
    // Both fetch, now that the watch fails, and share what comes.
    world.fetches_are(Some(2));
    assert!(world.poll(&mut first).is_ready() && world.poll(&mut second).is_ready());
    world.panics(0, || world.sink(0).set("x", world.source.thing()));
}

#[test]
fn a_panic_in_an_effect_lets_the_others_run_first() {
    let ran = Cell::new(0);
    let effect = |panics: bool| {
        let ran = &ran;
        Effects::new(move || {
            ran.set(ran.get() + 1);
            assert!(!panics, "effect {}", ran.get());
        })
    };
    let effects = effect(false).and(effect(true)).and(effect(true)).and(Effects::none()).and(effect(false));
    let panic = catch_unwind(AssertUnwindSafe(|| effects.run())).unwrap_err();
    assert_eq!((panic.downcast_ref::<String>().map(String::as_str), ran.get()), (Some("effect 2"), 4));
    // Effects that are dropped run too, even while the thread unwinds.
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let _effects = effect(true);
        panic!("outer");
    }));
    assert_eq!((panic.unwrap_err().downcast_ref(), ran.get()), (Some(&"outer"), 5));
    assert_eq!(format!("{:?}", Effects::none()), "Effects { some: false }");
}
