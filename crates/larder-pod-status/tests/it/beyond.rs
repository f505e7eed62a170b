//! What larder adds to the kubelet's cache, as `docs/differences.md` lists it, and the corners of what it shares with it.

use crate::{Reader, Seen, Woken, at, cache, poll, seen, uid};
use larder_pod_status::{Entry, EntryTimes, NewerThan, Options, PodStatusReader, WaitError, pod_status_cache};
use std::future::{Future, pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake};

fn ended<T, E>(poll: Poll<Result<T, E>>) -> Result<T, E> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the wait is still open"),
    }
}

fn answer<E>(poll: Poll<Result<Entry<u32, u32>, E>>) -> Seen {
    seen(&ended(poll).unwrap_or_else(|_| panic!("the wait ended without an answer")))
}

#[test]
fn a_dropped_wait_leaves_nothing_behind() {
    let (writer, reader) = cache();
    let woken = Arc::<Woken>::default();
    let mut waits: Vec<_> = (0..10).map(|n| reader.get_newer_than(uid(&(n % 3).to_string()), at(n))).collect();
    for wait in &mut waits {
        assert!(woken.poll(wait).is_pending());
    }
    assert_eq!(reader.open_waits(), 10);
    assert_eq!(Arc::strong_count(&woken), 11);
    // The earliest, the latest, and one in between.
    for (at, left) in [(0, 9), (8, 8), (4, 7)] {
        drop(waits.remove(at));
        assert_eq!(reader.open_waits(), left);
    }
    drop(waits);
    assert_eq!(reader.open_waits(), 0);
    assert_eq!(reader.waited_for(), []);
    assert_eq!(Arc::strong_count(&woken), 1);
    writer.update_time(at(100));
    assert_eq!(woken.count(), 0);
}

#[test]
fn an_answer_that_is_not_taken_is_dropped_with_its_wait() {
    let (writer, reader) = cache();
    let status = Arc::new(1);
    let wait = reader.get_newer_than(uid("a"), at(5));
    writer.set(&uid("a"), Some(Arc::clone(&status)), None, at(5));
    writer.delete(&uid("a"));
    assert_eq!(reader.open_waits(), 0, "it is answered");
    drop(wait);
    drop((writer, reader));
    assert_eq!(Arc::strong_count(&status), 1);
}

#[test]
fn a_wait_begins_with_the_call_and_not_with_its_first_poll() {
    let (writer, reader) = cache();
    let mut wait = reader.get_newer_than(uid("a"), at(5));
    let mut bounded = pin!(reader.get_newer_than_or(uid("a"), at(5), pending()));
    writer.set(&uid("a"), Some(1.into()), None, at(5));
    writer.set(&uid("a"), Some(2.into()), None, at(6));
    assert_eq!(answer(poll(&mut wait)), Seen::Set(Some(1), None));
    assert_eq!(answer(poll(&mut bounded)), Seen::Set(Some(1), None));
}

#[test]
fn an_answer_is_the_entry_of_the_moment_whatever_comes_later() {
    let (writer, reader) = cache();
    let a = uid("a");
    let mut by_set = reader.get_newer_than(a.clone(), at(1));
    writer.set(&a, Some(1.into()), Some(9.into()), at(1));
    let mut by_observed = reader.get_newer_than(a.clone(), at(2));
    writer.set_observed_time(&a, at(2));
    writer.set(&a, Some(2.into()), None, at(2));
    let mut by_global = reader.get_newer_than(a.clone(), at(3));
    writer.update_time(at(3));
    writer.set(&a, Some(3.into()), None, at(3));
    let mut by_global_when_gone = reader.get_newer_than(a.clone(), at(4));
    writer.delete(&a);
    writer.update_time(at(4));
    writer.set(&a, Some(4.into()), None, at(4));
    assert_eq!(answer(poll(&mut by_set)), Seen::Set(Some(1), Some(9)));
    assert_eq!(answer(poll(&mut by_observed)), Seen::Set(Some(1), Some(9)));
    assert_eq!(answer(poll(&mut by_global)), Seen::Set(Some(2), None));
    assert_eq!(answer(poll(&mut by_global_when_gone)), Seen::Empty);
}

#[test]
fn a_wait_gives_its_answer_once() {
    let (writer, reader) = cache();
    let mut wait = reader.get_newer_than(uid("a"), at(1));
    writer.update_time(at(2));
    assert_eq!(answer(poll(&mut wait)), Seen::Empty);
    assert!(poll(&mut wait).is_pending());
    let mut at_once = reader.get_newer_than(uid("a"), at(1));
    assert_eq!(answer(poll(&mut at_once)), Seen::Empty);
    assert!(poll(&mut at_once).is_pending());
}

#[test]
fn a_wait_wakes_whoever_polled_it_last() {
    let (writer, reader) = cache();
    let (first, last) = (Arc::<Woken>::default(), Arc::<Woken>::default());
    let mut wait = reader.get_newer_than(uid("a"), at(1));
    assert!(first.poll(&mut wait).is_pending());
    assert!(last.poll(&mut wait).is_pending());
    assert!(last.poll(&mut wait).is_pending());
    assert_eq!((Arc::strong_count(&first), Arc::strong_count(&last)), (1, 2));
    writer.update_time(at(1));
    assert_eq!((first.count(), last.count()), (0, 1));
}

#[test]
fn a_deadline_ends_a_wait_with_the_last_known_entry() {
    let (writer, reader) = cache();
    let a = uid("a");
    let passed = AtomicBool::new(false);
    let deadline = || poll_fn(|_| if passed.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending });
    let mut known = pin!(reader.get_newer_than_or(a.clone(), at(5), deadline()));
    let mut unknown = pin!(reader.get_newer_than_or(uid("b"), at(5), deadline()));
    writer.set(&a, Some(1.into()), Some(2.into()), at(3));
    assert!(poll(&mut known).is_pending());
    assert!(poll(&mut unknown).is_pending());
    passed.store(true, Ordering::SeqCst);

    let error = ended(poll(&mut known)).expect_err("nothing newer came");
    assert!(error.is_deadline_exceeded() && !error.is_writer_gone());
    assert_eq!((seen(error.last_known()), error.uid()), (Seen::Set(Some(1), Some(2)), &a));
    assert_eq!(seen(&error.into_last_known()), Seen::Set(Some(1), Some(2)));
    let error = ended(poll(&mut unknown)).expect_err("nothing newer came");
    assert_eq!((seen(error.last_known()), error.uid()), (Seen::Empty, &uid("b")));
    assert_eq!(reader.open_waits(), 0);
}

#[test]
fn an_answer_is_given_though_the_deadline_has_passed() {
    let (writer, reader) = cache();
    let mut before = pin!(reader.get_newer_than_or(uid("a"), at(5), ready(())));
    writer.set(&uid("a"), Some(1.into()), None, at(5));
    assert_eq!(answer(poll(&mut before)), Seen::Set(Some(1), None));
    // The answer comes between the poll of the wait and that of the deadline.
    let deadline = poll_fn(|_| {
        writer.set(&uid("a"), Some(2.into()), None, at(6));
        Poll::Ready(())
    });
    let mut between = pin!(reader.get_newer_than_or(uid("a"), at(6), deadline));
    assert_eq!(answer(poll(&mut between)), Seen::Set(Some(2), None));
    assert_eq!(reader.open_waits(), 0);
}

#[test]
fn a_wait_with_a_deadline_wakes_by_either() {
    let (writer, reader) = cache();
    let woken = Arc::<Woken>::default();
    let mut wait = pin!(reader.get_newer_than_or(uid("a"), at(5), pending()));
    assert!(woken.poll(&mut wait).is_pending());
    writer.update_time(at(5));
    assert_eq!(woken.count(), 1);
    assert_eq!(answer(woken.poll(&mut wait)), Seen::Empty);
}

#[test]
fn the_end_of_the_writer_ends_its_waits() {
    let (writer, reader) = cache();
    let (a, b) = (uid("a"), uid("b"));
    let woken = Arc::<Woken>::default();
    writer.set(&a, Some(1.into()), None, at(1));
    let mut waits = [(a.clone(), at(5)), (a.clone(), at(i128::MAX)), (b.clone(), at(1))]
        .map(|(uid, min)| reader.get_newer_than(uid, min));
    for wait in &mut waits {
        assert!(woken.poll(wait).is_pending());
    }
    assert!(!reader.is_writer_gone());
    drop(writer);
    assert!(reader.is_writer_gone());
    assert_eq!((woken.count(), reader.open_waits()), (3, 0));
    for (wait, expected) in waits.iter_mut().zip([Seen::Set(Some(1), None), Seen::Set(Some(1), None), Seen::Empty]) {
        let error = ended(woken.poll(wait)).expect_err("nothing newer will come");
        assert!(error.is_writer_gone() && !error.is_deadline_exceeded());
        assert_eq!(seen(error.last_known()), expected);
    }
    // What is cached stays, and answers what it is newer than.
    assert_eq!(seen(&reader.get(&a)), Seen::Set(Some(1), None));
    assert_eq!(answer(poll(&mut reader.get_newer_than(a.clone(), at(0)))), Seen::Set(Some(1), None));
    let late = ended(poll(&mut reader.get_newer_than(a.clone(), at(1)))).expect_err("nothing newer will come");
    assert!(matches!(&late, WaitError::WriterGone { last_known } if seen(last_known) == Seen::Set(Some(1), None)));
    let mut bounded = pin!(reader.get_newer_than_or(b, at(1), pending()));
    assert!(ended(poll(&mut bounded)).expect_err("nothing newer will come").is_writer_gone());
    assert_eq!(reader.open_waits(), 0);
}

#[test]
fn the_end_of_the_writer_counts_at_the_deadline() {
    let (writer, reader) = cache();
    let mut writer = Some(writer);
    let deadline = poll_fn(move |_| {
        drop(writer.take());
        Poll::Ready(())
    });
    let mut wait = pin!(reader.get_newer_than_or(uid("a"), at(1), deadline));
    assert!(ended(poll(&mut wait)).expect_err("nothing newer will come").is_writer_gone());
}

#[test]
fn errors_say_which_pod_and_what_to_do() {
    let (writer, reader) = cache();
    writer.set(&uid("a"), Some(1.into()), None, at(1));
    let mut wait = pin!(reader.get_newer_than_or(uid("a"), at(1), ready(())));
    let error = ended(poll(&mut wait)).expect_err("the deadline has passed");
    assert_eq!(
        error.to_string(),
        "pod a: no status newer than the time asked for came before the deadline; use the last known one, or look at the \
         container runtime if this goes on"
    );
    assert_eq!(format!("{error:?}"), r#"DeadlineExceeded { uid: "a", .. }"#);
    let _: Box<dyn std::error::Error + Send + Sync> = error.into();
    drop(writer);
    let error = ended(poll(&mut reader.get_newer_than(uid("a"), at(1)))).expect_err("the writer is gone");
    assert_eq!(
        error.to_string(),
        "pod a: no newer status will come, for what fills the cache has ended; use the last known one"
    );
    assert_eq!(format!("{error:?}"), r#"WriterGone { uid: "a", .. }"#);
}

#[test]
fn a_wait_tells_of_itself_when_it_has_begun() {
    let (writer, reader) = cache();
    let mut early = reader.get_newer_than(uid("early"), at(1));
    let told = Arc::new(Mutex::new(Vec::new()));
    let (list, inside) = (Arc::clone(&told), reader.clone());
    assert!(writer.on_wait(move |uid, min| {
        // The cache can be used, and the wait is open.
        let mut waited_for = inside.waited_for();
        waited_for.sort();
        list.lock().expect("nobody panics").push((uid.to_string(), min.as_nanos(), waited_for.len()));
    }));
    assert!(!writer.on_wait(|_, _| panic!("it was set before")));
    let waits = [reader.get_newer_than(uid("a"), at(5)), reader.get_newer_than(uid("a"), at(6))];
    writer.update_time(at(5));
    // Answered at once, and so not told.
    drop(reader.get_newer_than(uid("a"), at(4)));
    assert_eq!(*told.lock().expect("nobody panics"), [("a".to_owned(), 5, 2), ("a".to_owned(), 6, 2)]);
    assert_eq!(answer(poll(&mut early)), Seen::Empty);
    drop(waits);
}

#[test]
fn evented_ordering_refuses_what_is_older_than_the_cached() {
    let mut options = Options::default();
    options.evented_ordering = true;
    let (writer, reader) = pod_status_cache::<u32, u32>(options);
    let a = uid("a");
    let woken = Arc::<Woken>::default();
    assert!(writer.set(&a, Some(1.into()), None, at(5)));
    let mut wait = reader.get_newer_than(a.clone(), at(5));
    assert!(woken.poll(&mut wait).is_pending());
    let mut old = reader.get_newer_than(a.clone(), at(5));
    // The modified time decides, not the observed one.
    writer.set_observed_time(&a, at(4));
    assert!(!writer.set(&a, Some(2.into()), None, at(4)));
    assert_eq!(seen(&reader.get(&a)), Seen::Set(Some(1), None));
    assert!(poll(&mut old).is_pending());
    assert_eq!(woken.count(), 0);
    assert!(writer.set(&a, Some(3.into()), None, at(5)), "of the same time is not older");
    assert_eq!(answer(woken.poll(&mut wait)), Seen::Set(Some(3), None));
    writer.delete(&a);
    assert!(writer.set(&a, Some(4.into()), None, at(1)), "nothing is cached that it could be older than");
}

#[test]
fn without_evented_ordering_older_data_is_taken() {
    let (writer, reader) = cache();
    let a = uid("a");
    assert!(writer.set(&a, Some(1.into()), None, at(5)));
    assert!(writer.set(&a, Some(2.into()), None, at(4)));
    assert_eq!(seen(&reader.get(&a)), Seen::Set(Some(2), None));
    assert_eq!(reader.times(&a).modified, Some(at(4)));
}

#[test]
fn times_are_overwritten_backwards_too() {
    let (writer, reader) = cache();
    let a = uid("a");
    let times = |modified, observed, global: Option<i128>| {
        let mut times = EntryTimes::default();
        times.modified = Option::map(modified, at);
        times.observed = Option::map(observed, at);
        times.global = global.map(at);
        times
    };
    writer.set_observed_time(&a, at(9));
    assert_eq!(reader.times(&a), times(None, None, None), "of a pod that is not cached nothing is noted");
    writer.set(&a, Some(1.into()), None, at(5));
    assert_eq!(reader.times(&a), times(Some(5), Some(5), None));
    writer.set_observed_time(&a, at(3));
    assert_eq!(reader.times(&a), times(Some(5), Some(3), None));
    writer.update_time(at(7));
    writer.update_time(at(2));
    assert_eq!(reader.times(&a), times(Some(5), Some(3), Some(2)));
    assert_eq!(reader.times(&a).latest(), Some(at(5)));
    assert_eq!(times(Some(1), Some(3), Some(2)).latest(), Some(at(3)));
    assert_eq!(times(None, None, Some(2)).latest(), Some(at(2)));
    let (entry, with) = reader.get_with_times(&a);
    assert_eq!((seen(&entry), with), (Seen::Set(Some(1), None), reader.times(&a)));
    writer.delete(&a);
    assert_eq!(reader.times(&a), times(None, None, Some(2)));
}

#[test]
fn the_cached_pods_are_listed() {
    let (writer, reader) = cache();
    for name in ["a", "b", "c"] {
        writer.set(&uid(name), Some(1.into()), None, at(1));
    }
    writer.delete(&uid("b"));
    writer.delete(&uid("b"));
    writer.set_observed_time(&uid("d"), at(1));
    let mut uids = writer.reader().uids();
    uids.sort();
    assert_eq!(uids, [uid("a"), uid("c")]);
    drop(reader);
}

/// A waker that holds another wait, as a task's does whose future waits too.
struct HoldsAWait {
    _wait: NewerThan<u32, u32>,
}

impl Wake for HoldsAWait {
    fn wake(self: Arc<Self>) {}
}

impl HoldsAWait {
    fn hold(reader: &Reader) -> Arc<Self> {
        Arc::new(Self { _wait: reader.get_newer_than(uid("held"), at(50)) })
    }
}

#[test]
fn what_a_waker_holds_can_be_a_wait_of_the_same_cache() {
    let (writer, reader) = cache();
    let poll_with = |wait: &mut NewerThan<u32, u32>, waker: Arc<HoldsAWait>| {
        assert!(Pin::new(wait).poll(&mut Context::from_waker(&waker.into())).is_pending());
    };
    // The last of the waker is dropped when another one replaces it,
    let mut wait = reader.get_newer_than(uid("a"), at(5));
    poll_with(&mut wait, HoldsAWait::hold(&reader));
    assert_eq!(reader.open_waits(), 2);
    assert!(poll(&mut wait).is_pending());
    assert_eq!(reader.open_waits(), 1);
    // when the wait is dropped,
    poll_with(&mut wait, HoldsAWait::hold(&reader));
    drop(wait);
    assert_eq!(reader.open_waits(), 0);
    // when its deadline passes,
    let waker = HoldsAWait::hold(&reader);
    let mut deadline = [Poll::Pending, Poll::Ready(())].into_iter();
    let mut bounded =
        pin!(reader.get_newer_than_or(uid("a"), at(5), poll_fn(move |_| deadline.next().unwrap_or(Poll::Pending))));
    assert!(bounded.as_mut().poll(&mut Context::from_waker(&Arc::clone(&waker).into())).is_pending());
    drop(waker);
    assert!(ended(poll(&mut bounded)).is_err());
    assert_eq!(reader.open_waits(), 0);
    // and when it is woken.
    let mut wait = reader.get_newer_than(uid("a"), at(5));
    poll_with(&mut wait, HoldsAWait::hold(&reader));
    writer.update_time(at(5));
    assert_eq!(reader.open_waits(), 0);
}

/// A status that looks into the cache when it is dropped.
struct Looks(Option<PodStatusReader<Looks, ()>>, Arc<AtomicBool>);

impl Drop for Looks {
    fn drop(&mut self) {
        if let Some(reader) = &self.0 {
            reader.open_waits();
            self.1.store(true, Ordering::SeqCst);
        }
    }
}

#[test]
fn what_a_status_does_when_it_is_dropped_can_be_a_use_of_the_cache() {
    let (writer, reader) = pod_status_cache::<Looks, ()>(Options::default());
    let looked = Arc::new(AtomicBool::new(false));
    let a = uid("a");
    let looks = || Some(Arc::new(Looks(Some(reader.clone()), Arc::clone(&looked))));
    // Enough of them that what was replaced is dropped in the middle of it, by each operation.
    for n in 0..1_000 {
        writer.set(&a, looks(), None, at(n));
        writer.set_observed_time(&a, at(n));
        if n % 3 == 0 {
            writer.delete(&a);
        }
        let wait = reader.get_newer_than(a.clone(), at(n));
        writer.update_time(at(n));
        drop(wait);
    }
    assert!(looked.load(Ordering::SeqCst), "none was dropped");
}

/// A status that looks into the cache when it is dropped, and panics where the test says so.
struct Panics(PodStatusReader<Panics, ()>, Arc<AtomicBool>);

impl Drop for Panics {
    fn drop(&mut self) {
        // A lock that is held would not be given here.
        self.0.open_waits();
        // A second panic of one unwinding would end the process, whoever drops it.
        assert!(!self.1.load(Ordering::SeqCst) || std::thread::panicking(), "the drop of a status");
    }
}

/// Whether an operation panics, as the drop of a status does.
fn panics(armed: &AtomicBool, operation: impl FnOnce()) -> bool {
    armed.store(true, Ordering::SeqCst);
    let ended = catch_unwind(AssertUnwindSafe(operation));
    armed.store(false, Ordering::SeqCst);
    ended.is_err_and(|panic| {
        assert_eq!(panic.downcast_ref(), Some(&"the drop of a status"));
        true
    })
}

#[test]
fn a_status_whose_drop_panics_holds_no_lock_and_keeps_no_wait_asleep() {
    let (writer, reader) = pod_status_cache::<Panics, ()>(Options::default());
    let armed = Arc::new(AtomicBool::new(false));
    let a = uid("a");
    let status = || Some(Arc::new(Panics(reader.clone(), Arc::clone(&armed))));
    let mut panicked = [0; 4];
    // What is replaced is dropped with some others, by one operation or another.
    for n in 1..=4_000 {
        let mut wait = reader.get_newer_than(a.clone(), at(n));
        assert!(poll(&mut wait).is_pending());
        let kind = usize::try_from(n % 4).expect("below 4");
        let new = status();
        let did = match kind {
            0 => panics(&armed, || assert!(writer.set(&a, new, None, at(n)))),
            1 => panics(&armed, || writer.set_observed_time(&a, at(n))),
            2 => panics(&armed, || writer.update_time(at(n))),
            _ => panics(&armed, || writer.delete(&a)),
        };
        panicked[kind] += u32::from(did);
        if kind == 3 {
            // A deletion answers nobody.
            writer.update_time(at(n));
        }
        assert!(poll(&mut wait).is_ready(), "{n}: the wait is answered");
        assert_eq!(reader.open_waits(), 0);
    }
    assert!(panicked.iter().sum::<u32>() > 10, "{panicked:?}");
    // It goes on as ever.
    writer.set(&a, status(), None, at(5_000));
    assert_eq!(reader.times(&a).modified, Some(at(5_000)));
}

#[test]
fn an_answer_whose_drop_panics_with_its_wait_holds_no_lock() {
    let (writer, reader) = pod_status_cache::<Panics, ()>(Options::default());
    let armed = Arc::new(AtomicBool::new(false));
    let (a, mut panicked) = (uid("a"), 0);
    for n in 1..=1_000 {
        let mut wait = reader.get_newer_than(a.clone(), at(n));
        assert!(poll(&mut wait).is_pending());
        writer.set(&a, Some(Arc::new(Panics(reader.clone(), Arc::clone(&armed)))), None, at(n));
        // The cache lets go of its shares, at the latest some dozens of changes later.
        writer.delete(&a);
        for _ in 0..100 {
            writer.set(&a, None, None, at(n));
        }
        panicked += u32::from(panics(&armed, || drop(wait)));
        assert_eq!(reader.open_waits(), 0);
    }
    assert!(panicked > 0, "the wait was the last to hold its answer");
}

#[test]
fn handles_can_be_shared_and_shown() {
    fn shareable<T: Send + Sync + 'static>(_: &T) {}
    fn sendable<T: Send + 'static>(_: &T) {}
    let (writer, reader) = cache();
    let wait = reader.get_newer_than(uid("a"), at(0));
    let bounded = reader.get_newer_than_or(uid("a"), at(0), pending());
    shareable(&writer);
    shareable(&reader);
    shareable(&wait);
    sendable(&bounded);
    writer.set(&uid("a"), Some(1.into()), None, at(0));
    assert_eq!(
        format!("{wait:?} {writer:?} {reader:?}"),
        "NewerThan(waiting) PodStatusWriter { .. } PodStatusReader { .. }"
    );
    assert_eq!(format!("{:?}", reader.get(&uid("a"))), r#"Entry { uid: "a", status: Some(1), error: None }"#);
    assert_eq!(format!("{:?}", reader.get(&uid("b"))), r#"Entry { uid: "b", empty: true }"#);
    assert_eq!(reader.peek(&uid("a"), |entry| format!("{entry:?}")), "EntryRef { status: Some(1), error: None }");
    let mut at_once = reader.get_newer_than(uid("a"), at(-1));
    assert_eq!(format!("{at_once:?}"), "NewerThan(ready)");
    assert!(poll(&mut at_once).is_ready());
    assert_eq!(format!("{at_once:?}"), "NewerThan(done)");
    let entry = reader.get(&uid("a"));
    assert_eq!(seen(&entry.clone()), seen(&entry));
    let empty = reader.get(&uid("b"));
    assert_eq!(seen(&empty.clone()), Seen::Empty);
}
