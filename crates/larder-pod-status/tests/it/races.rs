//! What runs at the same time, in the orders that shuttle's schedulers find: a wait that is stranded is a deadlock, which
//! they report.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p larder-pod-status --test it`

use crate::{Reader, Seen, Writer, at, cache, poll, seen, uid};
use larder_pod_status::{Entry, WaitError};
use shuttle::future::block_on;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::{Arc, Mutex};
use shuttle::{Config, Runner, thread};
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// Runs a race in many orders: at random, and with few changes of the thread that has precedence.
fn explore(race: impl Fn() + Send + Sync + 'static) {
    const ORDERS: usize = 2_000;
    let race = std::sync::Arc::new(race);
    let again = std::sync::Arc::clone(&race);
    Runner::new(RandomScheduler::new(ORDERS), Config::default()).run(move || race());
    Runner::new(PctScheduler::new(3, ORDERS), Config::default()).run(move || again());
}

/// A deadline that passes when it is told to.
#[derive(Clone, Default)]
struct Deadline(Arc<Mutex<(bool, Option<Waker>)>>);

impl Deadline {
    fn pass(&self) {
        let waker = {
            let mut state = self.0.lock().expect("nobody panics");
            state.0 = true;
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Future for Deadline {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock().expect("nobody panics");
        if state.0 {
            return Poll::Ready(());
        }
        state.1 = Some(cx.waker().clone());
        Poll::Pending
    }
}

type Answer = Result<Entry<u32, u32>, WaitError<u32, u32>>;

fn wait(reader: &Reader, pod: &str, min: i128) -> Seen {
    seen(&block_on(reader.get_newer_than(uid(pod), at(min))).expect("the writer is there"))
}

fn set(writer: &Writer, pod: &str, status: u32, time: i128) {
    assert!(writer.set(&uid(pod), Some(std::sync::Arc::new(status)), None, at(time)));
}

#[test]
fn a_pod_is_deleted_during_a_wait() {
    explore(|| {
        let (writer, reader) = cache();
        let waits = [4, 5].map(|min| {
            let reader = reader.clone();
            thread::spawn(move || wait(&reader, "a", min))
        });
        set(&writer, "a", 1, 5);
        writer.delete(&uid("a"));
        writer.update_time(at(7));
        for wait in waits {
            let seen = wait.join().expect("it has not panicked");
            assert!(matches!(seen, Seen::Set(Some(1), None) | Seen::Empty));
        }
        assert_eq!(reader.open_waits(), 0);
    });
}

#[test]
fn a_wait_begins_as_its_time_arrives() {
    explore(|| {
        let (writer, reader) = cache();
        let readers = [("a", 4), ("b", 4), ("a", 3)].map(|(pod, min)| {
            let reader = reader.clone();
            thread::spawn(move || wait(&reader, pod, min))
        });
        // What is one after the time asked for answers the waits before it and those after it.
        set(&writer, "a", 1, 5);
        writer.update_time(at(5));
        let seen = readers.map(|reader| reader.join().expect("it has not panicked"));
        assert_eq!(seen[1], Seen::Empty);
        // The first pod's come by one or the other, but the status was there before either.
        assert_eq!([seen[0], seen[2]], [Seen::Set(Some(1), None); 2]);
    });
}

#[test]
fn a_wait_begins_as_exactly_its_time_arrives() {
    explore(|| {
        let (writer, reader) = cache();
        let waiting = {
            let reader = reader.clone();
            thread::spawn(move || wait(&reader, "a", 5))
        };
        set(&writer, "a", 1, 5);
        // A wait that has begun since then is for what is later.
        set(&writer, "a", 2, 6);
        assert!(matches!(waiting.join().expect("it has not panicked"), Seen::Set(Some(1 | 2), None)));
    });
}

#[test]
fn a_deadline_races_a_wake() {
    explore(|| {
        let (writer, reader) = cache();
        let deadline = Deadline::default();
        let bounded = reader.get_newer_than_or(uid("a"), at(5), deadline.clone());
        let waiting: thread::JoinHandle<Answer> = thread::spawn(move || block_on(bounded));
        let passing = thread::spawn(move || deadline.pass());
        set(&writer, "a", 1, 5);
        match waiting.join().expect("it has not panicked") {
            Ok(entry) => assert_eq!(seen(&entry), Seen::Set(Some(1), None)),
            Err(error) => {
                assert!(error.is_deadline_exceeded());
                assert_eq!(seen(error.last_known()), Seen::Empty, "an answer was lost");
            }
        }
        passing.join().expect("it has not panicked");
        assert_eq!(reader.open_waits(), 0);
    });
}

#[test]
fn an_answer_before_the_deadline_is_never_lost() {
    explore(|| {
        let (writer, reader) = cache();
        let deadline = Deadline::default();
        let bounded = reader.get_newer_than_or(uid("a"), at(5), deadline.clone());
        let waiting: thread::JoinHandle<Answer> = thread::spawn(move || block_on(bounded));
        set(&writer, "a", 1, 5);
        deadline.pass();
        let answer = waiting.join().expect("it has not panicked").expect("it came before the deadline");
        assert_eq!(seen(&answer), Seen::Set(Some(1), None));
    });
}

#[test]
fn a_drop_races_a_wake() {
    explore(|| {
        let (writer, reader) = cache();
        let mut dropped = [5, 6].map(|min| reader.get_newer_than(uid("a"), at(min)));
        let staying = {
            let reader = reader.clone();
            thread::spawn(move || wait(&reader, "a", 4))
        };
        let dropping = thread::spawn(move || {
            let _ = poll(&mut dropped[0]);
            drop(dropped);
        });
        set(&writer, "a", 1, 5);
        writer.set_observed_time(&uid("a"), at(6));
        dropping.join().expect("it has not panicked");
        assert_eq!(staying.join().expect("it has not panicked"), Seen::Set(Some(1), None));
        assert_eq!(reader.open_waits(), 0);
        assert!(reader.waited_for().is_empty());
    });
}

#[test]
fn many_waits_and_many_times() {
    explore(|| {
        let (writer, reader) = cache();
        let waits = [("a", 1), ("a", 2), ("b", 2), ("c", 3)].map(|(pod, min)| {
            let reader = reader.clone();
            thread::spawn(move || {
                let never = reader.get_newer_than(uid(pod), at(10));
                assert_eq!(wait(&reader, pod, min), Seen::Empty);
                drop(never);
            })
        });
        for time in [2, 1, 4] {
            writer.update_time(at(time));
        }
        for wait in waits {
            wait.join().expect("it has not panicked");
        }
        assert_eq!(reader.open_waits(), 0);
    });
}

#[test]
fn a_wait_moves_to_another_task_as_it_is_answered() {
    explore(|| {
        let (writer, reader) = cache();
        let mut waiting = reader.get_newer_than(uid("a"), at(5));
        let moving = thread::spawn(move || {
            let first = poll(&mut waiting);
            let entry = match first {
                Poll::Ready(answer) => answer,
                Poll::Pending => block_on(waiting),
            };
            seen(&entry.expect("the writer is there"))
        });
        set(&writer, "a", 1, 5);
        set(&writer, "a", 2, 6);
        assert_eq!(moving.join().expect("it has not panicked"), Seen::Set(Some(1), None));
    });
}

#[test]
fn readers_see_a_writers_order() {
    explore(|| {
        let (writer, reader) = cache();
        let readers = [(); 2].map(|()| {
            let reader = reader.clone();
            thread::spawn(move || {
                let statuses = [(); 3].map(|()| match seen(&reader.get(&uid("a"))) {
                    Seen::Set(status, None) => status,
                    Seen::Empty => None,
                    other @ Seen::Set(..) => panic!("{other:?} was never set"),
                });
                assert!(statuses.is_sorted(), "{statuses:?}");
                // The times are those of the entry that is read with them.
                let (entry, times) = reader.get_with_times(&uid("a"));
                assert_eq!(entry.status().map(|status| at(i128::from(**status))), times.modified);
            })
        });
        for n in 1..=3 {
            set(&writer, "a", n, n.into());
            writer.set_observed_time(&uid("a"), at(9));
        }
        for reader in readers {
            reader.join().expect("it has not panicked");
        }
    });
}

#[test]
fn the_writer_ends_as_waits_begin() {
    explore(|| {
        let (writer, reader) = cache();
        let waits = [4, 5].map(|min| {
            let reader = reader.clone();
            thread::spawn(move || {
                let answer = {
                    let mut waiting = pin!(reader.get_newer_than_or(uid("a"), at(min), std::future::pending()));
                    block_on(&mut waiting)
                };
                match answer {
                    Ok(entry) => assert_eq!(seen(&entry), Seen::Set(Some(1), None)),
                    Err(error) => {
                        assert!(error.is_writer_gone() && min == 5);
                        assert_eq!(seen(error.last_known()), Seen::Set(Some(1), None));
                    }
                }
            })
        });
        set(&writer, "a", 1, 5);
        drop(writer);
        for wait in waits {
            wait.join().expect("it has not panicked");
        }
        assert_eq!(reader.open_waits(), 0);
    });
}

#[test]
fn older_data_never_replaces_newer_in_either_order() {
    explore(|| {
        let mut options = larder_pod_status::Options::default();
        options.evented_ordering = true;
        let (writer, reader) = larder_pod_status::pod_status_cache::<u32, u32>(options);
        let writer = std::sync::Arc::new(writer);
        let events = [2_u32, 1, 3].map(|time| {
            let writer = std::sync::Arc::clone(&writer);
            thread::spawn(move || writer.set(&uid("a"), Some(std::sync::Arc::new(time)), None, at(time.into())))
        });
        assert!(matches!(wait(&reader, "a", 2), Seen::Set(Some(2 | 3), None)));
        let set = events.map(|event| event.join().expect("it has not panicked"));
        assert!(set[2], "the newest is never refused");
        assert_eq!(seen(&reader.get(&uid("a"))), Seen::Set(Some(3), None));
    });
}
