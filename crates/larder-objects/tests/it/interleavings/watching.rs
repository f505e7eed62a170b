//! Threads that meet in the stores that watch.

use super::{DEPTH, Failure, SCHEDULES};
use larder_clock::{Timestamp, VirtualClock};
use larder_objects::{
    AutoOptions, AutoStore, DefaultTtl, Fetch, GetError, Kept, Object, ObjectKey, Read, ReadKind, ReflectorSink,
    Reflectors, Scope, Source, Store, StoreTtl, WatchOptions, WatchStore,
};
use shuttle::future::{block_on, yield_now};
use shuttle::thread;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

pub(super) fn check(test: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(test.clone(), SCHEDULES / 3);
    shuttle::check_pct(test, SCHEDULES / 3, DEPTH);
}

#[derive(Debug)]
struct Thing {
    version: u64,
    text: String,
    immutable: bool,
}

impl Object for Thing {
    fn resource_version(&self) -> &str {
        &self.text
    }

    fn uid(&self) -> &'static str {
        ""
    }

    fn is_immutable(&self) -> bool {
        self.immutable
    }
}

fn thing(version: u64) -> Arc<Thing> {
    Arc::new(Thing { version, text: version.to_string(), immutable: false })
}

type Sink = ReflectorSink<Thing, Failure>;

#[derive(Default)]
struct State {
    version: u64,
    immutable: bool,
    sinks: Vec<Sink>,
}

/// A server whose reads are as of when they begin, and whose lists are made and delivered by a thread of their own.
#[derive(Clone, Default)]
struct Server {
    // Not shuttle's: what the test observes is no place to switch threads.
    state: Arc<Mutex<State>>,
    fetches: Arc<AtomicUsize>,
    running: Arc<AtomicUsize>,
    /// Whether reflectors say nothing of their own accord.
    silent: bool,
}

impl Server {
    fn new(version: u64) -> Self {
        let server = Self::default();
        server.state.lock().unwrap().version = version;
        server
    }

    fn object(&self) -> Arc<Thing> {
        let state = self.state.lock().unwrap();
        Arc::new(Thing { version: state.version, text: state.version.to_string(), immutable: state.immutable })
    }

    /// Changes the object, without telling anybody.
    fn change(&self, version: u64) {
        self.state.lock().unwrap().version = version;
    }

    fn sink(&self, of: usize) -> Sink {
        self.state.lock().unwrap().sinks[of].clone()
    }

    fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }
}

impl Fetch for Server {
    type Object = Thing;
    type Error = Failure;

    fn fetch(&self, _: &ObjectKey, _: ReadKind) -> impl Future<Output = Result<Arc<Thing>, Failure>> + Send + 'static {
        self.fetches.fetch_add(1, Ordering::SeqCst);
        let object = self.object();
        async move {
            yield_now().await;
            yield_now().await;
            Ok(object)
        }
    }

    fn source(&self, read: ReadKind) -> Source {
        read.source()
    }
}

/// Counts a reflector as running until it is dropped.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Reflectors for Server {
    type Object = Thing;
    type Error = Failure;
    type Reflector = Running;

    fn start(&self, scope: &Scope, _: Option<String>, sink: Sink) -> Running {
        self.running.fetch_add(1, Ordering::SeqCst);
        if let Scope::Object(_) = scope {
            self.state.lock().unwrap().sinks.push(sink.clone());
        }
        if !self.silent {
            let server = self.clone();
            thread::spawn(move || {
                sink.listing();
                let object = server.object();
                thread::yield_now();
                sink.replace(vec![("x".to_owned(), object)], ReadKind::Consistent);
            });
        }
        Running(Arc::clone(&self.running))
    }

    fn may_watch(&self, _: &str) -> impl Future<Output = bool> + Send + 'static {
        async {
            yield_now().await;
            true
        }
    }

    fn count(&self, _: &str) -> impl Future<Output = Result<u64, Failure>> + Send + 'static {
        async {
            yield_now().await;
            Ok(1)
        }
    }
}

type Watching = Arc<WatchStore<Server, Server, VirtualClock>>;
type Adapting = Arc<AutoStore<Server, Server, VirtualClock, DefaultTtl>>;
type Answer = Result<Read<Thing>, GetError<Failure>>;

const TTL: Duration = Duration::from_secs(20);

fn watching(server: &Server) -> (Arc<Watching>, VirtualClock) {
    let clock = VirtualClock::new(Timestamp::ZERO);
    let store = WatchStore::new(server.clone(), server.clone(), clock.clone(), WatchOptions::default());
    store.add_references("a", &["x"], "u").run();
    (Arc::new(store), clock)
}

fn adapting(server: &Server, namespaces_from: Option<usize>) -> Arc<Adapting> {
    let clock = VirtualClock::new(Timestamp::ZERO);
    let options = AutoOptions::default().with_namespaces_from(namespaces_from);
    let store = AutoStore::new(server.clone(), server.clone(), clock, StoreTtl::new(DefaultTtl, TTL), options);
    store.add_references("a", &["x"], "u").run();
    Arc::new(store)
}

fn read<S: Store<Object = Thing, Error = Failure>>(store: &Arc<S>) -> thread::JoinHandle<Answer> {
    let store = Arc::clone(store);
    thread::spawn(move || block_on(store.get("a", "x")))
}

/// A reader that goes away after it was polled that often, unless it is answered before.
fn read_and_leave<S: Store<Object = Thing, Error = Failure>>(store: &Arc<S>, polls: usize) -> thread::JoinHandle<()> {
    let store = Arc::clone(store);
    thread::spawn(move || {
        block_on(async {
            let mut get = pin!(store.get("a", "x"));
            for _ in 0..polls {
                let answered =
                    std::future::poll_fn(|context| Poll::Ready(Pin::as_mut(&mut get).poll(context).is_ready())).await;
                if answered {
                    break;
                }
                yield_now().await;
            }
        });
    })
}

fn version(answer: Answer) -> u64 {
    answer.expect("the object is there").object.version
}

#[test]
fn readers_that_leave_while_they_wait_for_the_list_strand_nobody() {
    for polls in 1..=2 {
        check(move || {
            let server = Server::new(1);
            let (store, _) = watching(&server);
            let leaving = [read_and_leave(&store, polls), read_and_leave(&store, 1)];
            let readers = [read(&store), read(&store)];
            for reader in readers {
                assert_eq!(version(reader.join().unwrap()), 1);
            }
            for reader in leaving {
                reader.join().unwrap();
            }
            assert_eq!((server.fetches.load(Ordering::SeqCst), server.running()), (0, 1));
        });
    }
}

#[test]
fn an_object_that_is_released_while_readers_wait() {
    check(|| {
        let server = Server::new(1);
        let (store, _) = watching(&server);
        let readers = [read(&store), read(&store)];
        let releasing = {
            let store = Arc::clone(&store);
            thread::spawn(move || store.delete_references("a", &["x"], "u").run())
        };
        for reader in readers {
            let answer = reader.join().unwrap();
            assert!(answer.is_ok() || answer.unwrap_err().is_not_registered());
        }
        releasing.join().unwrap();
        assert_eq!((store.snapshot().len(), server.running()), (0, 0));
    });
}

#[test]
fn a_watch_that_is_stopped_as_idle_while_readers_come() {
    check(|| {
        let server = Server::new(1);
        let (store, clock) = watching(&server);
        assert_eq!(version(block_on(store.get("a", "x"))), 1);
        clock.advance(Duration::from_secs(1_000));
        let stopping = {
            let store = Arc::clone(&store);
            thread::spawn(move || store.stop_idle())
        };
        let readers = [read(&store), read(&store)];
        for reader in readers {
            assert_eq!(version(reader.join().unwrap()), 1);
        }
        stopping.join().unwrap();
        // Stopped or not, it can be read; and never two run for one object.
        assert_eq!(version(block_on(store.get("a", "x"))), 1);
        assert_eq!((server.running(), store.watching()), (1, 1));
    });
}

#[test]
fn a_sink_of_a_generation_that_is_over_does_nothing() {
    check(|| {
        let server = Server::new(1);
        let (store, _) = watching(&server);
        let old = server.sink(0);
        let late = thread::spawn(move || {
            old.set("x", thing(666));
            old.replace(vec![("x".to_owned(), thing(666))], ReadKind::Consistent);
            old.confirm();
            old.failed(Arc::new(Failure::Unavailable));
        });
        store.delete_references("a", &["x"], "u").run();
        server.change(2);
        store.add_references("a", &["x"], "u").run();
        assert_eq!(version(block_on(store.get("a", "x"))), 2);
        late.join().unwrap();
        let read = block_on(store.get("a", "x")).unwrap();
        assert_eq!((read.object.version, read.freshness.is_fresh(), server.running()), (2, true, 1));
    });
}

#[test]
fn a_set_that_races_the_read_of_a_new_reference() {
    check(|| {
        let server = Server::new(1);
        let (store, _) = watching(&server);
        assert_eq!(version(block_on(store.get("a", "x"))), 1);
        server.change(2);
        // The watch brings version 2 late, and 3 after it.
        let watch = {
            let (sink, server) = (server.sink(0), server.clone());
            thread::spawn(move || {
                sink.set("x", thing(2));
                server.change(3);
                sink.set("x", thing(3));
            })
        };
        store.add_references("a", &["x"], "v").run();
        let readers = [read(&store), read(&store)];
        let leaving = read_and_leave(&store, 1);
        for reader in readers {
            assert!(version(reader.join().unwrap()) >= 2);
        }
        leaving.join().unwrap();
        watch.join().unwrap();
        assert_eq!(version(block_on(store.get("a", "x"))), 3);
    });
}

#[test]
fn a_list_that_races_failures_and_readers() {
    check(|| {
        let server = Server { silent: true, ..Server::new(1) };
        let (store, _) = watching(&server);
        let reflector = {
            let sink = server.sink(0);
            thread::spawn(move || {
                sink.failed(Arc::new(Failure::Unavailable));
                sink.replace(vec![("x".to_owned(), thing(1))], ReadKind::Consistent);
                sink.set("x", thing(2));
            })
        };
        let readers = [read(&store), read(&store), read(&store)];
        for reader in readers {
            let answer = reader.join().unwrap();
            assert!(answer.is_ok() || answer.unwrap_err().is_fetch_failed());
        }
        reflector.join().unwrap();
        let read = block_on(store.get("a", "x")).unwrap();
        assert_eq!((read.object.version, read.freshness.is_fresh()), (2, true));
    });
}

#[test]
fn an_immutable_object_is_held_while_others_wait_for_its_list() {
    check(|| {
        let server = Server::new(1);
        server.state.lock().unwrap().immutable = true;
        let store = adapting(&server, None);
        // One polls; then the object is known to be mounted, and others start a reflector, or find it held.
        let polling = read(&store);
        store.set_mounted("a", "x");
        let readers = [read(&store), read(&store), polling];
        for reader in readers {
            assert_eq!(version(reader.join().unwrap()), 1);
        }
        assert_eq!((store.snapshot()[0].kept, server.running()), (Kept::Held, 0));
    });
}

#[test]
fn readers_of_a_namespace_ask_once_and_are_all_answered() {
    check(|| {
        let server = Server::new(1);
        let store = adapting(&server, Some(1));
        let leaving = read_and_leave(&store, 1);
        let readers = [read(&store), read(&store)];
        for reader in readers {
            assert_eq!(version(reader.join().unwrap()), 1);
        }
        leaving.join().unwrap();
        let kept = store.snapshot()[0].kept;
        assert_eq!((kept, server.running()), (Kept::NamespaceWatched, 1));
        assert_eq!(server.fetches.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_namespace_that_is_released_while_it_is_considered() {
    check(|| {
        let server = Server::new(1);
        let store = adapting(&server, Some(1));
        let readers = [read(&store), read(&store)];
        store.delete_references("a", &["x"], "u").run();
        for reader in readers {
            let answer = reader.join().unwrap();
            assert!(answer.is_ok() || answer.unwrap_err().is_not_registered());
        }
        assert_eq!((store.snapshot().len(), server.running()), (0, 0));
    });
}
