//! Readers beside a writer on real threads: what shuttle's build replaces, the map that is read without a lock, is in use
//! here.

use crate::{Seen, at, cache, seen, uid};
use larder_pod_status::PodUid;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

/// Runs a future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn readers_see_each_pod_move_forward_only_while_the_map_grows_and_shrinks() {
    let (writer, reader) = cache();
    let uids: Vec<PodUid> = (0..200).map(|n| uid(&format!("{n:08x}-0000-4000-8000-000000000001"))).collect();
    let (done, start) = (AtomicBool::new(false), Barrier::new(3));
    thread::scope(|scope| {
        for first in [0, 1] {
            let (reader, uids, done, start) = (reader.clone(), &uids, &done, &start);
            scope.spawn(move || {
                start.wait();
                let mut last = vec![0; uids.len()];
                while !done.load(Ordering::Acquire) {
                    for (n, uid) in uids.iter().enumerate().skip(first) {
                        // An even pod is never deleted, and so never empty once it was seen.
                        match seen(&reader.get(uid)) {
                            Seen::Set(Some(status), None) => {
                                assert!(status >= last[n], "{status} after {}", last[n]);
                                last[n] = status;
                            }
                            Seen::Empty => assert!(n % 2 == 1 || last[n] == 0, "{n} is empty after {}", last[n]),
                            Seen::Set(..) => panic!("that was never set"),
                        }
                    }
                }
            });
        }
        start.wait();
        for round in 1..=300 {
            for (n, uid) in uids.iter().enumerate() {
                writer.set(uid, Some(round.into()), None, at(round.into()));
                if n % 2 == 1 && round % 3 == 0 {
                    writer.delete(uid);
                }
            }
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(seen(&reader.get(&uids[0])), Seen::Set(Some(300), None));
}

#[test]
fn every_wait_ends_while_waits_begin_and_are_dropped_on_all_sides() {
    const ROUNDS: i128 = 500;
    let (writer, reader) = cache();
    let uids = ["a", "b", "c"].map(uid);
    let start = Barrier::new(5);
    thread::scope(|scope| {
        for n in 0..4 {
            let (reader, uids, start) = (reader.clone(), &uids, &start);
            scope.spawn(move || {
                start.wait();
                for (round, uid) in (1..=ROUNDS).zip(uids.iter().cycle().skip(n)) {
                    // These two come and go beside the one that is waited for.
                    let dropped = reader.get_newer_than(uid.clone(), at(round));
                    let never = reader.get_newer_than(uid.clone(), at(i128::MAX));
                    let entry = block_on(reader.get_newer_than(uid.clone(), at(round))).expect("the writer is there");
                    assert!(matches!(seen(&entry), Seen::Empty | Seen::Set(Some(_), None)));
                    drop((dropped, never));
                }
            });
        }
        start.wait();
        let mut now = 0;
        // One time beyond the last, for waits that begin at the last.
        while now <= ROUNDS || reader.open_waits() > 0 {
            now += 1;
            for uid in &uids {
                writer.set(uid, Some(1.into()), None, at(now));
            }
            writer.set_observed_time(&uids[0], at(now));
            writer.update_time(at(now));
            thread::yield_now();
        }
    });
    assert_eq!(reader.open_waits(), 0);
    assert_eq!(reader.waited_for(), []);
}
