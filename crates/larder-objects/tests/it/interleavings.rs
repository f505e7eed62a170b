//! Threads that meet in the store, under schedules that shuttle chooses: at random, and with few preemptions at chosen
//! points (PCT). A reader that is stranded is a deadlock, which shuttle reports.
//!
//! Run with `RUSTFLAGS="--cfg shuttle"`.

mod dropping;
mod watching;

use larder_clock::{Timestamp, VirtualClock};
use larder_objects::{
    DefaultTtl, Fetch, FetchError, GetError, Object, ObjectKey, PodIdentity, PodObjects, Read, ReadKind, Reference,
    References, Source, Store, StoreTtl, TtlStore,
};
use shuttle::future::{block_on, yield_now};
use shuttle::thread;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

/// Each test runs under this many schedules of either kind.
const SCHEDULES: usize = 1_500;
/// Preemptions of a schedule by PCT.
const DEPTH: usize = 3;

fn check(test: fn()) {
    shuttle::check_random(test, SCHEDULES);
    shuttle::check_pct(test, SCHEDULES, DEPTH);
}

#[derive(Debug)]
struct Thing {
    version: u64,
    text: String,
}

impl Object for Thing {
    fn resource_version(&self) -> &str {
        &self.text
    }

    fn uid(&self) -> &'static str {
        ""
    }

    fn is_immutable(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Failure {
    #[error("not found")]
    NotFound,
    #[error("unavailable")]
    Unavailable,
}

impl FetchError for Failure {
    fn is_not_found(&self) -> bool {
        *self == Self::NotFound
    }

    fn class(&self) -> &'static str {
        "failed"
    }
}

/// A server whose answers are as of when a fetch begins, and arrive later.
#[derive(Clone)]
struct Server {
    // Not shuttle's: what the test observes is no place to switch threads.
    state: Arc<Mutex<Result<u64, Failure>>>,
    fetches: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    most_open: Arc<AtomicUsize>,
}

impl Server {
    fn new(state: Result<u64, Failure>) -> Self {
        Self {
            state: Arc::new(Mutex::new(state)),
            fetches: Arc::default(),
            open: Arc::default(),
            most_open: Arc::default(),
        }
    }

    fn set(&self, state: Result<u64, Failure>) {
        *self.state.lock().unwrap() = state;
    }

    fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }

    fn most_open(&self) -> usize {
        self.most_open.load(Ordering::SeqCst)
    }
}

/// Counts a fetch as open until it is dropped.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Fetch for Server {
    type Object = Thing;
    type Error = Failure;

    fn fetch(
        &self,
        _key: &ObjectKey,
        _read: ReadKind,
    ) -> impl Future<Output = Result<Arc<Thing>, Failure>> + Send + 'static {
        self.fetches.fetch_add(1, Ordering::SeqCst);
        self.most_open.fetch_max(self.open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let open = Open(Arc::clone(&self.open));
        let state = *self.state.lock().unwrap();
        async move {
            yield_now().await;
            yield_now().await;
            drop(open);
            state.map(|version| Arc::new(Thing { version, text: version.to_string() }))
        }
    }

    fn source(&self, read: ReadKind) -> Source {
        read.source()
    }
}

type Larder = TtlStore<Server, VirtualClock, DefaultTtl>;

const HOUR: Duration = Duration::from_hours(1);

fn store(server: &Server, ttl: Duration) -> Arc<Larder> {
    let store =
        Arc::new(TtlStore::new(server.clone(), VirtualClock::new(Timestamp::ZERO), StoreTtl::new(DefaultTtl, ttl)));
    store.add_references("a", &["x"], "u").run();
    store
}

type Answer = Result<Read<Thing>, GetError<Failure>>;

fn read(store: &Arc<Larder>) -> thread::JoinHandle<Answer> {
    let store = Arc::clone(store);
    thread::spawn(move || block_on(store.get("a", "x")))
}

/// A reader that goes away after it was polled that often, unless it is answered before.
fn read_and_leave(store: &Arc<Larder>, polls: usize) -> thread::JoinHandle<()> {
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
fn a_read_is_as_new_as_a_reference_added_before_it() {
    check(|| {
        let server = Server::new(Ok(1));
        let store = store(&server, HOUR);
        let readers = [read(&store), read(&store)];
        let later = {
            let (server, store) = (server.clone(), Arc::clone(&store));
            thread::spawn(move || {
                server.set(Ok(2));
                store.add_references("a", &["x"], "v").run();
                assert_eq!(version(block_on(store.get("a", "x"))), 2);
                // And it stays: no older fetch replaces it.
                assert_eq!(version(block_on(store.get("a", "x"))), 2);
            })
        };
        for reader in readers {
            assert!(version(reader.join().unwrap()) <= 2);
        }
        later.join().unwrap();
        assert_eq!(version(block_on(store.get("a", "x"))), 2);
        // One for each generation.
        assert!(server.fetches() <= 2);
    });
}

#[test]
fn readers_share_a_fetch() {
    check(|| {
        let server = Server::new(Ok(1));
        let store = store(&server, HOUR);
        let readers = [read(&store), read(&store), read(&store)];
        for reader in readers {
            assert_eq!(version(reader.join().unwrap()), 1);
        }
        assert_eq!(server.fetches(), 1);
    });
}

#[test]
fn a_reader_that_leaves_while_it_fetches_strands_nobody() {
    for polls in 1..=3 {
        let test = move || {
            let server = Server::new(Ok(1));
            let store = store(&server, HOUR);
            let leaving = read_and_leave(&store, polls);
            let readers = [read(&store), read(&store)];
            for reader in readers {
                assert_eq!(version(reader.join().unwrap()), 1);
            }
            leaving.join().unwrap();
            assert_eq!(server.most_open(), 1);
            // One more where it left before anybody else had come.
            assert!(server.fetches() <= 2);
        };
        shuttle::check_random(test, SCHEDULES);
        shuttle::check_pct(test, SCHEDULES, DEPTH);
    }
}

#[test]
fn readers_that_all_leave_leave_nothing_behind() {
    check(|| {
        let server = Server::new(Ok(1));
        let store = store(&server, HOUR);
        let leaving = [read_and_leave(&store, 1), read_and_leave(&store, 1), read_and_leave(&store, 2)];
        for reader in leaving {
            reader.join().unwrap();
        }
        assert_eq!(server.most_open(), 1);
        assert!(!store.snapshot()[0].fetching);
        assert_eq!(version(block_on(store.get("a", "x"))), 1);
    });
}

#[test]
fn without_a_ttl_each_reader_fetches_one_after_another() {
    check(|| {
        let server = Server::new(Ok(1));
        let store = store(&server, Duration::ZERO);
        let readers = [read(&store), read(&store), read(&store)];
        for reader in readers {
            assert_eq!(version(reader.join().unwrap()), 1);
        }
        assert_eq!((server.fetches(), server.most_open()), (3, 1));
    });
}

#[test]
fn after_a_failure_each_waiter_fetches_itself() {
    for failure in [Failure::Unavailable, Failure::NotFound] {
        let test = move || {
            let server = Server::new(Err(failure));
            let store = store(&server, HOUR);
            let readers = [read(&store), read(&store), read(&store)];
            for reader in readers {
                let error = reader.join().unwrap().unwrap_err();
                assert_eq!(error.is_not_found(), failure == Failure::NotFound);
                assert_eq!(error.is_fetch_failed(), failure == Failure::Unavailable);
            }
            assert_eq!((server.fetches(), server.most_open()), (3, 1));
        };
        shuttle::check_random(test, SCHEDULES);
        shuttle::check_pct(test, SCHEDULES, DEPTH);
    }
}

#[test]
fn failing_readers_of_which_some_leave() {
    check(|| {
        let server = Server::new(Err(Failure::Unavailable));
        let store = store(&server, HOUR);
        let leaving = [read_and_leave(&store, 1), read_and_leave(&store, 2)];
        let readers = [read(&store), read(&store)];
        for reader in readers {
            assert!(reader.join().unwrap().unwrap_err().is_fetch_failed());
        }
        for reader in leaving {
            reader.join().unwrap();
        }
        assert_eq!(server.most_open(), 1);
        // The server is back, and nothing of the failures is left.
        server.set(Ok(1));
        assert_eq!(version(block_on(store.get("a", "x"))), 1);
    });
}

#[test]
fn an_object_that_appears_is_seen_by_whoever_reads_after() {
    check(|| {
        let server = Server::new(Err(Failure::NotFound));
        let store = store(&server, HOUR);
        let readers = [read(&store), read(&store)];
        server.set(Ok(1));
        let after = read(&store);
        // The one before it may have been answered from a fetch that began before.
        for reader in readers {
            let answer = reader.join().unwrap();
            assert!(answer.is_ok() || answer.unwrap_err().is_not_found());
        }
        // This one judges at its turn: 'not found' is never fresh, so it is either fetched now or found after it appeared.
        assert_eq!(version(after.join().unwrap()), 1);
    });
}

#[test]
fn a_reference_dropped_during_a_fetch_leaves_nothing_behind() {
    check(|| {
        let server = Server::new(Ok(1));
        let store = store(&server, HOUR);
        let readers = [read(&store), read(&store)];
        let dropping = {
            let store = Arc::clone(&store);
            thread::spawn(move || {
                store.delete_references("a", &["x"], "u").run();
                assert!(block_on(store.get("a", "x")).unwrap_err().is_not_registered());
            })
        };
        for reader in readers {
            let answer = reader.join().unwrap();
            assert!(answer.is_ok() || answer.unwrap_err().is_not_registered());
        }
        dropping.join().unwrap();
        assert!(store.snapshot().is_empty());
        // Registered again, it is fetched again.
        server.set(Ok(2));
        store.add_references("a", &["x"], "u").run();
        assert_eq!(version(block_on(store.get("a", "x"))), 2);
    });
}

/// A pod of this test: its UID, and the one object that it refers to.
struct OneObject;

impl References<(&'static str, &'static str)> for OneObject {
    fn identity<'p>(&self, pod: &'p (&'static str, &'static str)) -> PodIdentity<'p> {
        PodIdentity { namespace: "a", name: "pod", uid: pod.0 }
    }

    fn visit<'p>(&self, pod: &'p (&'static str, &'static str), mut visit: impl FnMut(Reference<'p>)) {
        visit(Reference { name: pod.1, optional: false });
    }
}

#[test]
fn pods_that_come_and_go_while_others_read() {
    check(|| {
        let server = Server::new(Ok(1));
        let store = TtlStore::new(server.clone(), VirtualClock::new(Timestamp::ZERO), StoreTtl::new(DefaultTtl, HOUR));
        let pods = Arc::new(PodObjects::new(store, OneObject));
        let with = |run: fn(&PodObjects<Larder, OneObject>)| {
            let pods = Arc::clone(&pods);
            thread::spawn(move || run(&pods))
        };
        let threads = [
            with(|pods| {
                pods.register_pod(&("u1", "x"));
                // While a pod is registered, its objects can be read.
                assert!(block_on(pods.get_object("a", "x")).is_ok());
                pods.unregister_pod(&("u1", "x"));
            }),
            with(|pods| {
                pods.register_pod(&("u2", "x"));
                pods.register_pod(&("u2", "y"));
                assert!(block_on(pods.get_object("a", "y")).is_ok());
            }),
            with(|pods| {
                let answer = block_on(pods.get_object("a", "x"));
                assert!(answer.is_ok() || answer.unwrap_err().is_not_registered());
            }),
        ];
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!((pods.references("a", "x"), pods.references("a", "y")), (0, 1));
        assert!(block_on(pods.get_object("a", "x")).unwrap_err().is_not_registered());
    });
}

#[test]
fn one_pod_registered_and_unregistered_by_several_threads() {
    check(|| {
        let server = Server::new(Ok(1));
        let store = TtlStore::new(server.clone(), VirtualClock::new(Timestamp::ZERO), StoreTtl::new(DefaultTtl, HOUR));
        let pods = Arc::new(PodObjects::new(store, OneObject));
        let threads = ["x", "y", "x"].map(|name| {
            let pods = Arc::clone(&pods);
            thread::spawn(move || {
                pods.register_pod(&("u", name));
                if name == "y" {
                    pods.unregister_pod(&("u", name));
                }
            })
        });
        for thread in threads {
            thread.join().unwrap();
        }
        // It was registered last as `x`, or not at all.
        let registered = pods.is_registered(PodIdentity { namespace: "a", name: "pod", uid: "u" });
        assert_eq!((pods.references("a", "x"), pods.references("a", "y")), (usize::from(registered), 0));
    });
}
