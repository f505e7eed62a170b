//! A source that does as the test says: reflectors whose every event the test gives, and fetches that it answers.

use crate::harness::Failure;
use crate::readers::Readers;
use larder_clock::{Timestamp, VirtualClock};
use larder_objects::{
    AutoOptions, AutoStore, DefaultTtl, DirectStore, Fetch, Freshness, GetError, Kept, Object, ObjectKey, Read,
    ReadKind, ReflectorSink, Reflectors, Scope, Store, StoreTtl, Strategy, StrategyOptions, StrategyStore,
    WatchOptions, WatchStore,
};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Doc {
    pub(crate) version: String,
    pub(crate) uid: String,
    pub(crate) immutable: bool,
}

impl Object for Doc {
    fn resource_version(&self) -> &str {
        &self.version
    }

    fn uid(&self) -> &str {
        &self.uid
    }

    fn is_immutable(&self) -> bool {
        self.immutable
    }
}

pub(crate) fn doc(version: u64) -> Arc<Doc> {
    Arc::new(Doc { version: version.to_string(), uid: "u".to_owned(), immutable: false })
}

pub(crate) fn immutable(version: u64, uid: &str) -> Arc<Doc> {
    Arc::new(Doc { version: version.to_string(), uid: uid.to_owned(), immutable: true })
}

pub(crate) type Outcome = Result<Arc<Doc>, Failure>;

/// What a reader was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Doc(Doc, Freshness),
    NotRegistered,
    NotFound(Freshness),
    Failed(Failure),
}

impl Answer {
    /// The version of a fresh object; 0 where it is known not to be there.
    pub(crate) fn fresh(&self) -> u64 {
        match self {
            Self::Doc(doc, freshness) if freshness.is_fresh() => doc.version.parse().unwrap(),
            Self::NotFound(freshness) if freshness.is_fresh() => 0,
            other => panic!("not fresh: {other:?}"),
        }
    }

    /// The version of a stale object; 0 where it was known not to be there.
    pub(crate) fn stale(&self) -> u64 {
        match self {
            Self::Doc(doc, freshness) if !freshness.is_fresh() => doc.version.parse().unwrap(),
            Self::NotFound(freshness) if !freshness.is_fresh() => 0,
            other => panic!("not stale: {other:?}"),
        }
    }

    pub(crate) fn freshness(&self) -> Option<Freshness> {
        match self {
            Self::Doc(_, freshness) | Self::NotFound(freshness) => Some(*freshness),
            Self::NotRegistered | Self::Failed(_) => None,
        }
    }
}

impl From<Result<Read<Doc>, GetError<Failure>>> for Answer {
    fn from(result: Result<Read<Doc>, GetError<Failure>>) -> Self {
        match result {
            Ok(read) => Self::Doc((*read.object).clone(), read.freshness),
            Err(GetError::NotRegistered { .. }) => Self::NotRegistered,
            Err(GetError::NotFound { freshness, .. }) => Self::NotFound(freshness),
            Err(GetError::Fetch { source, .. }) => Self::Failed(*source),
            Err(other) => panic!("a kind of error that this test does not know: {other}"),
        }
    }
}

/// The sink of an object's reflector, which names that object.
#[derive(Clone)]
pub(crate) struct ObjectSink {
    name: String,
    sink: ReflectorSink<Doc, Failure>,
}

impl ObjectSink {
    pub(crate) fn replace(&self, object: Option<Arc<Doc>>, read: ReadKind) {
        self.sink.replace(object.into_iter().map(|object| (self.name.clone(), object)).collect(), read);
    }

    pub(crate) fn set(&self, object: Arc<Doc>) {
        self.sink.set(&self.name, object);
    }

    pub(crate) fn delete(&self) {
        self.sink.delete(&self.name, None);
    }
}

impl Deref for ObjectSink {
    type Target = ReflectorSink<Doc, Failure>;

    fn deref(&self) -> &Self::Target {
        &self.sink
    }
}

/// A reflector that was started.
#[derive(Clone)]
pub(crate) struct Started {
    pub(crate) key: ObjectKey,
    pub(crate) resume: Option<String>,
    pub(crate) sink: ObjectSink,
    pub(crate) running: Arc<AtomicBool>,
}

impl Started {
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::SeqCst)
    }
}

/// A reflector of a namespace that was started.
#[derive(Clone)]
pub(crate) struct StartedNamespace {
    pub(crate) namespace: String,
    pub(crate) sink: ReflectorSink<Doc, Failure>,
    pub(crate) running: Arc<AtomicBool>,
}

impl StartedNamespace {
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::SeqCst)
    }
}

/// Says when it is dropped.
pub(crate) struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

struct Fetching {
    key: ObjectKey,
    read: ReadKind,
    outcome: Option<Outcome>,
    waker: Option<Waker>,
    open: bool,
}

#[derive(Default)]
struct State {
    reflectors: Vec<Started>,
    namespaces: Vec<StartedNamespace>,
    fetches: Vec<Fetching>,
    at_once: Option<Outcome>,
    lists_at_once: Option<Outcome>,
    /// Namespaces that may be watched, with the number of their objects.
    watchable: BTreeMap<String, Result<u64, Failure>>,
    reviews: usize,
    count_requests: usize,
}

/// Everything that the store asks of the API server.
#[derive(Clone, Default)]
pub(crate) struct Source {
    state: Arc<Mutex<State>>,
}

impl Source {
    /// From now on, answers each fetch as it begins; `None` leaves them open.
    pub(crate) fn answer_at_once(&self, outcome: Option<Outcome>) {
        self.state.lock().unwrap().at_once = outcome;
    }

    /// From now on, each reflector that starts lists this at once; `None` leaves it to the test.
    pub(crate) fn list_at_once(&self, list: Option<Outcome>) {
        self.state.lock().unwrap().lists_at_once = list;
    }

    /// The namespace may be watched, and has so many objects.
    pub(crate) fn may_watch(&self, namespace: &str, count: Result<u64, Failure>) {
        self.state.lock().unwrap().watchable.insert(namespace.to_owned(), count);
    }

    /// How often it was asked whether a namespace may be watched, and how many objects it has.
    pub(crate) fn questions(&self) -> (usize, usize) {
        let state = self.state.lock().unwrap();
        (state.reviews, state.count_requests)
    }

    pub(crate) fn reflectors(&self) -> Vec<Started> {
        self.state.lock().unwrap().reflectors.clone()
    }

    pub(crate) fn namespaces(&self) -> Vec<StartedNamespace> {
        self.state.lock().unwrap().namespaces.clone()
    }

    /// The sink of the reflector that was started last.
    pub(crate) fn sink(&self) -> ObjectSink {
        self.reflectors().last().expect("a reflector was started").sink.clone()
    }

    /// The reflectors that run.
    pub(crate) fn running(&self) -> usize {
        self.reflectors().iter().filter(|started| started.is_running()).count()
    }

    /// How every fetch so far read.
    pub(crate) fn reads(&self) -> Vec<ReadKind> {
        self.state.lock().unwrap().fetches.iter().map(|fetch| fetch.read).collect()
    }

    /// The keys of all fetches so far.
    pub(crate) fn fetched(&self) -> Vec<(String, ReadKind)> {
        self.state.lock().unwrap().fetches.iter().map(|fetch| (fetch.key.to_string(), fetch.read)).collect()
    }

    /// The numbers of the open fetches.
    pub(crate) fn open(&self) -> Vec<usize> {
        let state = self.state.lock().unwrap();
        (0..state.fetches.len()).filter(|&id| state.fetches[id].open).collect()
    }

    /// Answers an open fetch.
    pub(crate) fn complete(&self, id: usize, outcome: Outcome) {
        let mut state = self.state.lock().unwrap();
        let fetch = &mut state.fetches[id];
        assert!(fetch.open, "the test completes an open fetch");
        fetch.outcome = Some(outcome);
        let waker = fetch.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Fetch for Source {
    type Object = Doc;
    type Error = Failure;

    fn fetch(&self, key: &ObjectKey, read: ReadKind) -> impl Future<Output = Outcome> + Send + 'static {
        let mut state = self.state.lock().unwrap();
        let outcome = state.at_once.clone();
        state.fetches.push(Fetching { key: key.clone(), read, outcome, waker: None, open: true });
        OpenFetch { source: self.clone(), id: state.fetches.len() - 1 }
    }

    fn source(&self, read: ReadKind) -> larder_objects::Source {
        read.source()
    }
}

struct OpenFetch {
    source: Source,
    id: usize,
}

impl Future for OpenFetch {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let mut state = self.source.state.lock().unwrap();
        let fetch = &mut state.fetches[self.id];
        let Some(outcome) = fetch.outcome.take() else {
            fetch.waker = Some(context.waker().clone());
            return Poll::Pending;
        };
        fetch.open = false;
        Poll::Ready(outcome)
    }
}

impl Drop for OpenFetch {
    fn drop(&mut self) {
        self.source.state.lock().unwrap_or_else(PoisonError::into_inner).fetches[self.id].open = false;
    }
}

impl Reflectors for Source {
    type Object = Doc;
    type Error = Failure;
    type Reflector = Running;

    fn start(&self, scope: &Scope, resume: Option<String>, sink: ReflectorSink<Doc, Failure>) -> Running {
        let running = Arc::new(AtomicBool::new(true));
        let mut state = self.state.lock().unwrap();
        let key = match scope {
            Scope::Object(key) => key.clone(),
            Scope::Namespace(namespace) => {
                let namespace = namespace.to_string();
                state.namespaces.push(StartedNamespace { namespace, sink, running: Arc::clone(&running) });
                return Running(running);
            }
        };
        let sink = ObjectSink { name: key.name().to_owned(), sink };
        let started = Started { key, resume, sink: sink.clone(), running: Arc::clone(&running) };
        state.reflectors.push(started);
        let list = state.lists_at_once.clone();
        drop(state);
        if let Some(list) = list {
            sink.listing();
            sink.replace(list.ok(), ReadKind::Consistent);
        }
        Running(running)
    }

    fn may_watch(&self, namespace: &str) -> impl Future<Output = bool> + Send + 'static {
        let mut state = self.state.lock().unwrap();
        state.reviews += 1;
        std::future::ready(state.watchable.contains_key(namespace))
    }

    fn count(&self, namespace: &str) -> impl Future<Output = Result<u64, Failure>> + Send + 'static {
        let mut state = self.state.lock().unwrap();
        state.count_requests += 1;
        std::future::ready(state.watchable[namespace])
    }
}

pub(crate) type Watching = Arc<WatchStore<Source, Source, VirtualClock>>;
pub(crate) type Adapting = Arc<AutoStore<Source, Source, VirtualClock, DefaultTtl>>;

pub(crate) type Chosen = StrategyStore<Source, Source, VirtualClock, DefaultTtl>;

/// A store with its surroundings, and the readers that wait.
pub(crate) struct World<S> {
    pub(crate) source: Source,
    pub(crate) clock: VirtualClock,
    pub(crate) store: Arc<S>,
    readers: Readers<Answer>,
}

/// The longest that an object may go unread in these tests until its watch stops.
pub(crate) const MAX_IDLE: Duration = Duration::from_mins(1);

impl World<DirectStore<Source, VirtualClock>> {
    /// A direct store in which nothing is registered; the clock stands at 0.
    pub(crate) fn direct() -> Self {
        Self::new(DirectStore::new)
    }
}

impl World<Watching> {
    /// A watch store in which nothing is registered; the clock stands at 0.
    pub(crate) fn watching() -> Self {
        Self::watching_with(WatchOptions::default().with_max_idle(MAX_IDLE))
    }

    pub(crate) fn watching_with(options: WatchOptions) -> Self {
        Self::new(|source, clock| WatchStore::new(source.clone(), source, clock, options))
    }
}

impl World<Adapting> {
    /// An adaptive store in which nothing is registered; the clock stands at 0.
    pub(crate) fn adapting(ttl: Duration) -> Self {
        let watch = WatchOptions::default().with_max_idle(MAX_IDLE);
        let options = AutoOptions::default().with_watch(watch);
        Self::new(|source, clock| {
            AutoStore::new(source.clone(), source, clock, StoreTtl::new(DefaultTtl, ttl), options)
        })
    }
}

impl World<Chosen> {
    /// A store of a strategy, in which nothing is registered; the clock stands at 0.
    pub(crate) fn of_strategy(strategy: Strategy, mut options: StrategyOptions<Doc>) -> Self {
        options.auto.watch.max_idle = MAX_IDLE;
        let ttl = Duration::from_mins(1);
        Self::new(|source, clock| {
            StrategyStore::new(strategy, source.clone(), source, clock, StoreTtl::new(DefaultTtl, ttl), options)
        })
    }
}

impl<S: Store<Object = Doc, Error = Failure>> World<S> {
    fn new(store: impl FnOnce(Source, VirtualClock) -> S) -> Self {
        let (source, clock) = (Source::default(), VirtualClock::new(Timestamp::ZERO));
        let store = Arc::new(store(source.clone(), clock.clone()));
        Self { source, clock, store, readers: Readers::new() }
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// A reader arrives; it is polled when the world runs. The number by which it is known.
    pub(crate) fn begin(&mut self, namespace: &str, name: &str) -> usize {
        let store = Arc::clone(&self.store);
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        self.readers.begin(async move { store.get(&namespace, &name).await.into() })
    }

    /// A reader goes away.
    pub(crate) fn drop_reader(&mut self, id: usize) {
        self.readers.drop(id);
    }

    /// The readers that wait.
    pub(crate) fn waiting(&self) -> Vec<usize> {
        self.readers.waiting()
    }

    /// Polls readers that were woken until none is, the earliest first. The answers by reader.
    pub(crate) fn run(&mut self) -> BTreeMap<usize, Answer> {
        self.readers.run(usize::MAX, |_| 0)
    }

    /// As [`run`](Self::run), for at most so many polls; `pick` chooses among those that were woken.
    pub(crate) fn run_some(&mut self, polls: usize, pick: impl FnMut(usize) -> usize) -> BTreeMap<usize, Answer> {
        self.readers.run(polls, pick)
    }

    /// A read that is answered without anything more happening.
    pub(crate) fn get(&mut self, name: &str) -> Answer {
        self.try_get(name).expect("a read is answered at once")
    }

    /// A read; it goes away again if it is not answered.
    pub(crate) fn try_get(&mut self, name: &str) -> Option<Answer> {
        let id = self.begin("ns", name);
        let answer = self.run().remove(&id);
        self.drop_reader(id);
        answer
    }

    pub(crate) fn kept(&self, name: &str) -> Kept {
        let status = self.store.snapshot().into_iter().find(|status| status.key.name() == name);
        status.expect("it is registered").kept
    }
}
