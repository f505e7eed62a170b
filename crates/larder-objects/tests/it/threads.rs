//! Real threads on the store as it is built for use, with its lock-free map, which shuttle does not see into.

use larder_clock::MonotonicClock;
use larder_objects::{
    DefaultTtl, Fetch, FetchError, Object, ObjectKey, PodIdentity, PodObjects, ReadKind, Reference, References, Source,
    Store, StoreTtl, TtlStore,
};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

struct Thing {
    version: u64,
    text: String,
    alive: Arc<AtomicU64>,
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

impl Drop for Thing {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Debug, thiserror::Error)]
#[error("not found")]
struct Absent;

impl FetchError for Absent {
    fn is_not_found(&self) -> bool {
        true
    }

    fn class(&self) -> &'static str {
        "failed"
    }
}

/// A server whose version of everything only rises.
#[derive(Clone, Default)]
struct Server {
    version: Arc<AtomicU64>,
    alive: Arc<AtomicU64>,
}

impl Fetch for Server {
    type Object = Thing;
    type Error = Absent;

    fn fetch(
        &self,
        _key: &ObjectKey,
        _read: ReadKind,
    ) -> impl Future<Output = Result<Arc<Thing>, Absent>> + Send + 'static {
        let (version, alive) = (self.version.load(Ordering::SeqCst), Arc::clone(&self.alive));
        async move {
            tokio::task::yield_now().await;
            alive.fetch_add(1, Ordering::SeqCst);
            Ok(Arc::new(Thing { version, text: version.to_string(), alive }))
        }
    }

    fn source(&self, read: ReadKind) -> Source {
        read.source()
    }
}

/// A pod of this test: its UID, and the objects that it refers to.
struct Named;

impl References<(String, [&'static str; 2])> for Named {
    fn identity<'p>(&self, pod: &'p (String, [&'static str; 2])) -> PodIdentity<'p> {
        PodIdentity { namespace: "a", name: "pod", uid: &pod.0 }
    }

    fn visit<'p>(&self, pod: &'p (String, [&'static str; 2]), mut visit: impl FnMut(Reference<'p>)) {
        for name in pod.1 {
            visit(Reference { name, optional: false });
        }
    }
}

/// Polls a read on this thread until it is answered.
fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers").block_on(future)
}

#[test]
fn reads_stay_as_new_as_the_last_reference_while_pods_come_and_go() {
    const ROUNDS: u64 = 2_000;
    const READERS: usize = 3;
    let server = Server::default();
    let store = TtlStore::new(server.clone(), MonotonicClock::new(), StoreTtl::new(DefaultTtl, Duration::MAX));
    let pods = Arc::new(PodObjects::new(store, Named));
    // One pod stays, so that the objects can be read throughout.
    pods.register_pod(&("stays".to_owned(), ["x", "y"]));
    let registered = Arc::new(AtomicU64::new(0));
    let start = Arc::new(Barrier::new(READERS + 1));

    let readers: Vec<_> = (0..READERS)
        .map(|reader| {
            let (pods, registered, start) = (Arc::clone(&pods), Arc::clone(&registered), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                block_on(async {
                    loop {
                        let at_least = registered.load(Ordering::SeqCst);
                        let name = ["x", "y"][usize::try_from(at_least).unwrap() % 2];
                        let read = pods.get_object("a", name).await.expect("a registered object");
                        assert!(read.object.version >= at_least, "reader {reader}");
                        if at_least == ROUNDS {
                            break;
                        }
                    }
                });
            })
        })
        .collect();

    start.wait();
    for round in 1..=ROUNDS {
        server.version.store(round, Ordering::SeqCst);
        let pod = (format!("comes-{round}"), ["x", "y"]);
        pods.register_pod(&pod);
        registered.store(round, Ordering::SeqCst);
        if round % 3 == 0 {
            let read = block_on(pods.get_object("a", "x")).expect("a registered object");
            assert!(read.object.version >= round);
        }
        pods.unregister_pod(&pod);
    }
    for reader in readers {
        reader.join().unwrap();
    }
    assert_eq!((pods.references("a", "x"), pods.references("a", "y")), (1, 1));
    // What was withdrawn is freed; each thread may have kept as many back as other threads were reading then.
    let threads = READERS as u64 + 1;
    assert!(server.alive.load(Ordering::SeqCst) <= 2 + threads * (threads - 1));
    pods.unregister_pod(&("stays".to_owned(), ["x", "y"]));
    drop(pods);
    assert_eq!(server.alive.load(Ordering::SeqCst), 0);
}

/// A server that never answers.
struct Silent;

impl Fetch for Silent {
    type Object = Thing;
    type Error = Absent;

    fn fetch(&self, _: &ObjectKey, _: ReadKind) -> impl Future<Output = Result<Arc<Thing>, Absent>> + Send + 'static {
        std::future::pending()
    }

    fn source(&self, read: ReadKind) -> Source {
        read.source()
    }
}

/// A waker that owns another read, as that of a task does.
struct Owner {
    _read: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

impl Wake for Owner {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_that_is_dropped_may_drop_another_read_of_the_object() {
    let store =
        Arc::new(TtlStore::new(Silent, MonotonicClock::new(), StoreTtl::new(DefaultTtl, Duration::from_mins(1))));
    store.add_references("a", &["x"], "u1").run();
    let (done, ended) = std::sync::mpsc::channel();
    // A lock that is taken twice would hang: the test then fails, with this thread left behind.
    thread::spawn(move || {
        let read = || {
            let store = Arc::clone(&store);
            let mut read: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
                let _ = store.get("a", "x").await;
            });
            assert!(read.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            read
        };
        let owner = || Waker::from(Arc::new(Owner { _read: Mutex::new(Some(read())) }));
        let _leader = read();
        let mut waiter = read();
        // Replaced by another waker, and dropped with the read that left it.
        assert!(waiter.as_mut().poll(&mut Context::from_waker(&owner())).is_pending());
        assert!(waiter.as_mut().poll(&mut Context::from_waker(&owner())).is_pending());
        drop(waiter);
        done.send(()).expect("the test waits");
    });
    ended.recv_timeout(Duration::from_mins(1)).expect("no read holds up another");
}
