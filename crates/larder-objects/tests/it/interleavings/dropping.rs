//! The drop of a fetch is foreign code, whoever holds its last share: it may ask the store, and must meet no lock.

use super::watching::check;
use super::{Failure, Thing};
use larder_clock::{Timestamp, VirtualClock};
use larder_objects::{
    AutoOptions, AutoStore, Fetch, ObjectKey, ObjectTtl, ReadKind, ReflectorSink, Reflectors, Scope, Source, Store,
    StoreTtl, Ttl,
};
use shuttle::future::block_on;
use shuttle::thread;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

type Larder = Arc<AutoStore<Server, Server, VirtualClock, Yields>>;

const TTL: Duration = Duration::from_secs(20);

/// A server that answers the first fetch, and no other.
#[derive(Clone, Default)]
struct Server(Arc<Shared>);

// Not shuttle's: what the test observes is no place to switch threads.
#[derive(Default)]
struct Shared {
    store: OnceLock<Weak<Larder>>,
    fetches: AtomicUsize,
    /// The thread that takes a snapshot.
    looks: Mutex<Option<thread::ThreadId>>,
    /// How many fetches the snapshot dropped.
    dropped: AtomicUsize,
}

struct Fetching {
    server: Server,
    answers: bool,
}

impl Future for Fetching {
    type Output = Result<Arc<Thing>, Failure>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if self.answers { Poll::Ready(Ok(Arc::new(Thing { version: 1, text: "1".to_owned() }))) } else { Poll::Pending }
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        let shared = &self.server.0;
        // shuttle reports a lock that this thread holds.
        if let Some(store) = shared.store.get().and_then(Weak::upgrade) {
            store.snapshot();
        }
        if *shared.looks.lock().unwrap() == Some(thread::current().id()) {
            shared.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Fetch for Server {
    type Object = Thing;
    type Error = Failure;

    fn fetch(&self, _: &ObjectKey, _: ReadKind) -> impl Future<Output = Result<Arc<Thing>, Failure>> + Send + 'static {
        let answers = self.0.fetches.fetch_add(1, Ordering::SeqCst) == 0;
        Fetching { server: self.clone(), answers }
    }

    fn source(&self, read: ReadKind) -> Source {
        read.source()
    }
}

impl Reflectors for Server {
    type Object = Thing;
    type Error = Failure;
    type Reflector = ();

    fn start(&self, _: &Scope, _: Option<String>, _: ReflectorSink<Thing, Failure>) {}

    fn may_watch(&self, _: &str) -> impl Future<Output = bool> + Send + 'static {
        std::future::ready(false)
    }

    fn count(&self, _: &str) -> impl Future<Output = Result<u64, Failure>> + Send + 'static {
        std::future::ready(Ok(1))
    }
}

/// A snapshot asks for the TTL while it holds the lock and its share of the fetch: other threads run then.
struct Yields;

impl Ttl for Yields {
    fn object_ttl(&self) -> Option<ObjectTtl> {
        thread::yield_now();
        None
    }
}

#[test]
fn a_snapshot_that_holds_the_last_share_of_a_fetch_drops_it_without_a_lock() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dropped);
    check(move || {
        let (server, clock) = (Server::default(), VirtualClock::new(Timestamp::ZERO));
        let options = AutoOptions::default();
        let store = Arc::new(AutoStore::new(
            server.clone(),
            server.clone(),
            clock.clone(),
            StoreTtl::new(Yields, TTL),
            options,
        ));
        server.0.store.set(Arc::downgrade(&store)).unwrap();
        store.add_references("a", &["x"], "u").run();
        block_on(store.get("a", "x")).unwrap();
        // Later than an object is watched for its next read: the read fetches.
        clock.advance(5 * TTL);
        let (reading, looking) = (Arc::clone(&store), Arc::clone(&store));
        let leaves = thread::spawn(move || {
            block_on(async {
                let mut get = pin!(reading.get("a", "x"));
                std::future::poll_fn(|context| Poll::Ready(get.as_mut().poll(context).is_ready())).await;
                thread::yield_now();
            });
        });
        let shared = Arc::clone(&server.0);
        let looks = thread::spawn(move || {
            *shared.looks.lock().unwrap() = Some(thread::current().id());
            looking.snapshot();
            *shared.looks.lock().unwrap() = None;
        });
        leaves.join().unwrap();
        looks.join().unwrap();
        assert_eq!(server.0.fetches.load(Ordering::SeqCst), 2);
        count.fetch_add(server.0.dropped.load(Ordering::SeqCst), Ordering::SeqCst);
    });
    assert!(dropped.load(Ordering::SeqCst) > 0, "no snapshot held the last share");
}
