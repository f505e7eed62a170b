//! Real threads on the stores that watch as they are built for use, with their lock-free map, which shuttle does not see
//! into.

use crate::harness::Failure;
use crate::source::{ObjectSink, Source, doc};
use larder_clock::{Timestamp, VirtualClock};
use larder_objects::{AutoOptions, AutoStore, DefaultTtl, ReadKind, Store, StoreTtl, WatchOptions, WatchStore};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

/// What a read of a synced object is answered; it is answered at once.
fn version<S: Store<Object = crate::source::Doc, Error = Failure>>(store: &S) -> u64 {
    let mut get = Box::pin(store.get("ns", "name"));
    match get.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(read)) => read.object.version.parse().unwrap(),
        Poll::Ready(Err(error)) => panic!("it is there: {error}"),
        Poll::Pending => panic!("it is synced"),
    }
}

/// Readers see versions that only rise, while a reflector sets them and others look at the store.
fn only_rises<S: Store<Object = crate::source::Doc, Error = Failure>>(store: &S, sink: &ObjectSink, stop_idle: fn(&S)) {
    const VERSIONS: u64 = 2_000;
    let (start, done) = (Barrier::new(4), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                start.wait();
                let mut last = 0;
                while !done.load(Ordering::SeqCst) {
                    let seen = version(store);
                    assert!(seen >= last, "{seen} after {last}");
                    last = seen;
                }
                assert_eq!(version(store), VERSIONS);
            });
        }
        scope.spawn(|| {
            start.wait();
            while !done.load(Ordering::SeqCst) {
                // Read a moment ago, as the time stands still.
                stop_idle(store);
                assert_eq!(store.snapshot().len(), 1);
            }
        });
        start.wait();
        for version in 2..=VERSIONS {
            sink.set(doc(version));
            if version % 7 == 0 {
                sink.confirm();
            }
        }
        done.store(true, Ordering::SeqCst);
    });
}

#[test]
fn readers_of_a_watched_object_see_versions_that_only_rise() {
    let (source, clock) = (Source::default(), VirtualClock::new(Timestamp::ZERO));
    source.list_at_once(Some(Ok(doc(1))));
    let store = WatchStore::new(source.clone(), source.clone(), clock.clone(), WatchOptions::default());
    store.add_references("ns", &["name"], "pod").run();
    version(&store);
    only_rises(&store, &source.sink(), |store| store.stop_idle());

    let store = AutoStore::new(
        source.clone(),
        source.clone(),
        clock,
        StoreTtl::new(DefaultTtl, Duration::from_nanos(1)),
        AutoOptions::default(),
    );
    store.add_references("ns", &["name"], "pod").run();
    store.set_mounted("ns", "name");
    source.list_at_once(None);
    let mut first = Box::pin(store.get("ns", "name"));
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    source.sink().replace(Some(doc(1)), ReadKind::Consistent);
    drop(first);
    version(&store);
    only_rises(&store, &source.sink(), |store| store.stop_idle());
}

/// A waker that owns another read, as that of a task does.
struct Owner {
    _read: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

impl Wake for Owner {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_that_is_dropped_may_drop_another_read_that_waits_for_the_list() {
    let source = Source::default();
    let clock = VirtualClock::new(Timestamp::ZERO);
    let store = Arc::new(WatchStore::new(source.clone(), source.clone(), clock, WatchOptions::default()));
    store.add_references("ns", &["name"], "pod").run();
    let (done, ended) = std::sync::mpsc::channel();
    // A lock that is taken twice would hang: the test then fails, with this thread left behind.
    thread::spawn(move || {
        let read = || {
            let store = Arc::clone(&store);
            let mut read: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
                let _ = store.get("ns", "name").await;
            });
            assert!(read.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            read
        };
        let owner = || Waker::from(Arc::new(Owner { _read: Mutex::new(Some(read())) }));
        let mut waiter = read();
        // Replaced by another waker, dropped with the read that left it, and called.
        assert!(waiter.as_mut().poll(&mut Context::from_waker(&owner())).is_pending());
        assert!(waiter.as_mut().poll(&mut Context::from_waker(&owner())).is_pending());
        drop(waiter);
        let mut waiter = read();
        assert!(waiter.as_mut().poll(&mut Context::from_waker(&owner())).is_pending());
        source.sink().replace(None, ReadKind::Consistent);
        assert!(waiter.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        done.send(()).expect("the test waits");
    });
    ended.recv_timeout(Duration::from_mins(1)).expect("no read holds up another");
}
