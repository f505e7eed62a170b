//! A server that answers when and what the test says.

use crate::readers::Readers;
use larder_clock::{Timestamp, VirtualClock};
use larder_objects::{
    Fetch, FetchError, Freshness, GetError, Object, ObjectKey, ObjectTtl, PodIdentity, PodObjects, Read, ReadKind,
    Reference, References, Source, Store, StoreTtl, Ttl, TtlStore,
};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// An object: a version, and contents that tell one from another of the same version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thing {
    pub(crate) version: String,
    pub(crate) data: u32,
}

impl Object for Thing {
    fn resource_version(&self) -> &str {
        &self.version
    }

    fn uid(&self) -> &'static str {
        ""
    }

    fn is_immutable(&self) -> bool {
        false
    }
}

/// An answer with a version of the object.
#[allow(clippy::unnecessary_wraps, reason = "it is an outcome, as the failures are")]
pub(crate) fn thing(version: &str, data: u32) -> Outcome {
    Ok(Thing { version: version.to_owned(), data })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("not found")]
    NotFound,
    #[error("status {0}")]
    Status(u16),
}

impl FetchError for Failure {
    fn is_not_found(&self) -> bool {
        *self == Self::NotFound
    }

    fn class(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Status(503) => "unavailable",
            Self::Status(_) => "status",
        }
    }
}

pub(crate) type Outcome = Result<Thing, Failure>;

/// What a reader was answered, in a form that can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Object(Thing, Freshness),
    NotRegistered,
    NotFound(Freshness),
    Failed(Failure),
}

impl From<Result<Read<Thing>, GetError<Failure>>> for Answer {
    fn from(result: Result<Read<Thing>, GetError<Failure>>) -> Self {
        match result {
            Ok(read) => Self::Object((*read.object).clone(), read.freshness),
            Err(GetError::NotRegistered { .. }) => Self::NotRegistered,
            Err(GetError::NotFound { freshness, .. }) => Self::NotFound(freshness),
            Err(GetError::Fetch { source, .. }) => Self::Failed(*source),
            Err(other) => panic!("a kind of error that this test does not know: {other}"),
        }
    }
}

/// The fetches that the store began, by number.
#[derive(Clone, Default)]
pub(crate) struct Server {
    state: Arc<Mutex<ServerState>>,
}

#[derive(Default)]
struct ServerState {
    fetches: Vec<Fetching>,
    /// What fetches that begin now are answered with at once.
    at_once: Option<Outcome>,
}

#[derive(Debug)]
struct Fetching {
    key: ObjectKey,
    read: ReadKind,
    outcome: Option<Outcome>,
    waker: Option<Waker>,
    state: FetchState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchState {
    Open,
    Done,
    Dropped,
}

impl Server {
    /// From now on, answers each fetch as it begins; `None` leaves them open.
    pub(crate) fn answer_at_once(&self, outcome: Option<Outcome>) {
        self.state.lock().unwrap().at_once = outcome;
    }

    /// Answers an open fetch.
    pub(crate) fn complete(&self, id: usize, outcome: Outcome) {
        let mut state = self.state.lock().unwrap();
        let fetch = &mut state.fetches[id];
        assert_eq!(fetch.state, FetchState::Open, "the test completes an open fetch");
        fetch.outcome = Some(outcome);
        if let Some(waker) = fetch.waker.take() {
            waker.wake();
        }
    }

    /// Every fetch so far.
    pub(crate) fn fetches(&self) -> Vec<(String, ReadKind, FetchState)> {
        let state = self.state.lock().unwrap();
        state.fetches.iter().map(|fetch| (fetch.key.to_string(), fetch.read, fetch.state)).collect()
    }

    /// How every fetch so far read.
    pub(crate) fn reads(&self) -> Vec<ReadKind> {
        self.fetches().into_iter().map(|(_, read, _)| read).collect()
    }

    /// The numbers of the open fetches.
    pub(crate) fn open(&self) -> Vec<usize> {
        let state = self.state.lock().unwrap();
        (0..state.fetches.len()).filter(|&id| state.fetches[id].state == FetchState::Open).collect()
    }
}

impl Fetch for Server {
    type Object = Thing;
    type Error = Failure;

    fn fetch(
        &self,
        key: &ObjectKey,
        read: ReadKind,
    ) -> impl Future<Output = Result<Arc<Thing>, Failure>> + Send + 'static {
        let mut state = self.state.lock().unwrap();
        let outcome = state.at_once.clone();
        state.fetches.push(Fetching { key: key.clone(), read, outcome, waker: None, state: FetchState::Open });
        OpenFetch { server: self.clone(), id: state.fetches.len() - 1 }
    }

    fn source(&self, read: ReadKind) -> Source {
        read.source()
    }
}

struct OpenFetch {
    server: Server,
    id: usize,
}

impl Future for OpenFetch {
    type Output = Result<Arc<Thing>, Failure>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.server.state.lock().unwrap();
        let fetch = &mut state.fetches[self.id];
        assert_eq!(fetch.state, FetchState::Open, "a fetch is not polled after it was done");
        let Some(outcome) = fetch.outcome.take() else {
            fetch.waker = Some(context.waker().clone());
            return Poll::Pending;
        };
        fetch.state = FetchState::Done;
        Poll::Ready(outcome.map(Arc::new))
    }
}

impl Drop for OpenFetch {
    fn drop(&mut self) {
        let mut state = self.server.state.lock().unwrap_or_else(PoisonError::into_inner);
        let fetch = &mut state.fetches[self.id];
        if fetch.state == FetchState::Open {
            fetch.state = FetchState::Dropped;
        }
    }
}

/// A TTL that the test sets.
#[derive(Clone, Default)]
pub(crate) struct Annotation(Arc<Mutex<Option<i64>>>);

impl Annotation {
    pub(crate) fn set(&self, ttl: Option<i64>) {
        *self.0.lock().unwrap() = ttl;
    }
}

impl Ttl for Annotation {
    fn object_ttl(&self) -> Option<ObjectTtl> {
        self.0.lock().unwrap().map(ObjectTtl::from_nanos)
    }
}

/// A pod that says itself what it refers to.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// Names, and whether they are optional.
    pub(crate) refs: Vec<(String, bool)>,
}

pub(crate) struct PodRefs;

impl References<Pod> for PodRefs {
    fn identity<'p>(&self, pod: &'p Pod) -> PodIdentity<'p> {
        PodIdentity { namespace: &pod.namespace, name: &pod.name, uid: &pod.uid }
    }

    fn visit<'p>(&self, pod: &'p Pod, mut visit: impl FnMut(Reference<'p>)) {
        for (name, optional) in &pod.refs {
            visit(Reference { name, optional: *optional });
        }
    }
}

pub(crate) type Ttls = TtlStore<Server, VirtualClock, Annotation>;
pub(crate) type Larder = PodObjects<Ttls, PodRefs>;

/// The caches with their surroundings, and the readers that wait.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) clock: VirtualClock,
    pub(crate) ttl: Annotation,
    pub(crate) larder: Arc<Larder>,
    readers: Readers<Answer>,
}

impl World {
    /// Nothing is registered, the clock stands at 0.
    pub(crate) fn new(default_ttl: i64) -> Self {
        Self::new_with(default_ttl, |store| store)
    }

    /// As [`new`](Self::new), with a store that is set up further.
    pub(crate) fn new_with(default_ttl: i64, set_up: impl FnOnce(Ttls) -> Ttls) -> Self {
        let (server, ttl) = (Server::default(), Annotation::default());
        let clock = VirtualClock::new(Timestamp::ZERO);
        let store = TtlStore::new(
            server.clone(),
            clock.clone(),
            StoreTtl::new(ttl.clone(), ObjectTtl::from_nanos(default_ttl)),
        );
        let larder = Arc::new(PodObjects::new(set_up(store), PodRefs));
        Self { server, clock, ttl, larder, readers: Readers::new() }
    }

    pub(crate) fn add_reference(&self, namespace: &str, name: &str) {
        self.larder.store().add_references(namespace, &[name], "uid").run();
    }

    pub(crate) fn delete_reference(&self, namespace: &str, name: &str) {
        self.larder.store().delete_references(namespace, &[name], "uid").run();
    }

    pub(crate) fn advance(&self, nanos: i64) {
        use larder_clock::Clock;
        self.clock.set(self.clock.now().saturating_add_nanos(nanos.into()));
    }

    /// A reader arrives and is polled once. The number by which it is known.
    pub(crate) fn begin(&mut self, namespace: &str, name: &str) -> usize {
        let larder = Arc::clone(&self.larder);
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        self.readers.begin(async move { larder.get_object(&namespace, &name).await.into() })
    }

    /// A reader goes away.
    pub(crate) fn drop_reader(&mut self, id: usize) {
        self.readers.drop(id);
    }

    /// The readers that wait.
    pub(crate) fn waiting(&self) -> Vec<usize> {
        self.readers.waiting()
    }

    /// Polls readers that were woken until none is; `pick` chooses among those that are. The answers by reader.
    pub(crate) fn run_with(&mut self, pick: impl FnMut(usize) -> usize) -> BTreeMap<usize, Answer> {
        self.poll_at_most(usize::MAX, pick)
    }

    /// As [`run_with`](Self::run_with), for that many polls at most.
    pub(crate) fn poll_at_most(&mut self, polls: usize, pick: impl FnMut(usize) -> usize) -> BTreeMap<usize, Answer> {
        self.readers.run(polls, pick)
    }

    /// Polls readers that were woken until none is, the earliest first.
    pub(crate) fn run(&mut self) -> BTreeMap<usize, Answer> {
        self.run_with(|_| 0)
    }

    /// A read whose fetches are all answered with that, at once.
    pub(crate) fn get(&mut self, namespace: &str, name: &str, outcome: Outcome) -> Answer {
        self.server.answer_at_once(Some(outcome));
        let id = self.begin(namespace, name);
        let mut answers = self.run();
        self.server.answer_at_once(None);
        answers.remove(&id).expect("a read is answered once its fetch is")
    }
}
