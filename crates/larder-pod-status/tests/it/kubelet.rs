//! Counterparts of the scenarios of the kubelet's `pkg/kubelet/container/cache_test.go`, as `docs/kubelet-tests.md` lists
//! them.

use crate::{Reader, Seen, Writer, at, cache, poll, seen, uid};
use larder_pod_status::PodUid;
use std::task::Poll;

/// What a wait for a time gives at once.
fn at_once(reader: &Reader, uid: &PodUid, min: i128) -> Option<Seen> {
    match poll(&mut reader.get_newer_than(uid.clone(), at(min))) {
        Poll::Ready(answer) => Some(seen(&answer.expect("the writer is there"))),
        Poll::Pending => None,
    }
}

#[test]
fn before_the_first_global_time_nothing_is_newer() {
    let (_writer, reader) = cache();
    assert_eq!(at_once(&reader, &uid("1234"), i128::MIN), None);
}

#[test]
fn a_cached_pod_is_newer_by_its_own_time_or_the_global_one() {
    let asked = 100;
    for (global, modified, newer) in [
        // The global time alone is later: once with an entry of exactly the time asked for, once with an old one.
        (101, 100, true),
        (101, 90, true),
        // The entry alone is later.
        (99, 103, true),
        // Neither is.
        (99, 99, false),
        // Both are at the time asked for, which is not after it.
        (100, 100, false),
    ] {
        let (writer, reader) = cache();
        let pod = uid("pod");
        writer.update_time(at(global));
        writer.set(&pod, Some(2.into()), None, at(modified));
        let expected = newer.then_some(Seen::Set(Some(2), None));
        assert_eq!(at_once(&reader, &pod, asked), expected, "global {global}, modified {modified}");
    }
}

#[test]
fn a_cached_pod_is_newer_by_its_observed_time() {
    for (observed, newer) in [(101, true), (100, false), (99, false)] {
        let (writer, reader) = cache();
        let pod = uid("pod");
        writer.set(&pod, Some(2.into()), None, at(1));
        writer.set_observed_time(&pod, at(observed));
        assert_eq!(at_once(&reader, &pod, 100).is_some(), newer, "observed {observed}");
    }
}

#[test]
fn a_missing_pod_is_newer_by_the_global_time() {
    let (writer, reader) = cache();
    writer.update_time(at(100));
    let pod = uid("1234");
    assert_eq!(at_once(&reader, &pod, 99), Some(Seen::Empty));
    assert_eq!(at_once(&reader, &pod, 100), None);
    assert_eq!(at_once(&reader, &pod, 101), None);
}

#[test]
fn what_is_set_is_read_back() {
    let (writer, reader) = cache();
    for (n, (status, error)) in
        [(Some(3), None), (Some(2), Some(7)), (Some(0), None), (None, Some(7)), (None, None)].into_iter().enumerate()
    {
        let pod = uid(&n.to_string());
        assert!(writer.set(&pod, status.map(Into::into), error.map(Into::into), at(0)));
        let entry = reader.get(&pod);
        assert_eq!(seen(&entry), Seen::Set(status, error));
        assert_eq!(*entry.uid(), pod);
        let peeked = reader.peek(&pod, |entry| (entry.is_empty(), entry.status().cloned(), entry.error().cloned()));
        assert_eq!(peeked, (false, status.map(Into::into), error.map(Into::into)));
    }
}

#[test]
fn a_missing_pod_gives_the_empty_entry_with_its_uid() {
    let (_writer, reader) = cache();
    let pod = uid("1234");
    let entry = reader.get(&pod);
    assert_eq!(seen(&entry), Seen::Empty);
    assert_eq!(*entry.uid(), pod);
    assert_eq!(
        reader.peek(&pod, |entry| (entry.is_empty(), entry.status().is_none(), entry.error().is_none())),
        (true, true, true)
    );
}

#[test]
fn a_deleted_pod_gives_the_empty_entry() {
    let (writer, reader) = cache();
    let pod = uid("pod");
    writer.set(&pod, Some(3.into()), Some(1.into()), at(0));
    assert_eq!(seen(&reader.get(&pod)), Seen::Set(Some(3), Some(1)));
    writer.delete(&pod);
    assert_eq!(seen(&reader.get(&pod)), Seen::Empty);
}

#[test]
fn a_wait_is_answered_by_a_set_or_by_the_global_time() {
    let (writer, reader) = cache();
    writer.update_time(at(100));
    let begin = |pod: &str, min| {
        let mut wait = reader.get_newer_than(uid(pod), at(min));
        assert!(poll(&mut wait).is_pending());
        wait
    };
    let mut by_set = begin("a", 101);
    assert!(writer.set(&uid("a"), Some(1.into()), None, at(101)));
    let Poll::Ready(Ok(entry)) = poll(&mut by_set) else { panic!("not answered by the set") };
    assert_eq!(seen(&entry), Seen::Set(Some(1), None));
    let mut by_global = begin("b", 101);
    writer.update_time(at(102));
    let Poll::Ready(Ok(entry)) = poll(&mut by_global) else { panic!("not answered by the global time") };
    assert_eq!(seen(&entry), Seen::Empty);
}

/// A wait for time 10 is not answered by what is done at 9, but by what is done at 11; one that begins later is at once.
fn unblocks(cached: bool, act: impl Fn(&Writer, i128), expected: Seen) {
    let (writer, reader) = cache();
    let pod = uid("test-pod");
    writer.update_time(at(0));
    if cached {
        writer.set(&pod, Some(1.into()), None, at(0));
        writer.set_observed_time(&pod, at(0));
    }
    let mut wait = reader.get_newer_than(pod.clone(), at(10));
    assert!(poll(&mut wait).is_pending(), "at first");
    act(&writer, 9);
    assert!(poll(&mut wait).is_pending(), "before the time");
    act(&writer, 11);
    let Poll::Ready(Ok(entry)) = poll(&mut wait) else { panic!("not answered after the time") };
    assert_eq!((seen(&entry), entry.uid()), (expected, &pod));
    assert_eq!(at_once(&reader, &pod, 10), Some(expected), "once it is newer");
}

#[test]
fn a_cached_pods_wait_is_answered_by_a_set() {
    unblocks(
        true,
        |writer, time| assert!(writer.set(&uid("test-pod"), Some(2.into()), None, at(time))),
        Seen::Set(Some(2), None),
    );
}

#[test]
fn a_cached_pods_wait_is_answered_by_its_observed_time() {
    unblocks(true, |writer, time| writer.set_observed_time(&uid("test-pod"), at(time)), Seen::Set(Some(1), None));
}

#[test]
fn a_cached_pods_wait_is_answered_by_the_global_time() {
    unblocks(true, |writer, time| writer.update_time(at(time)), Seen::Set(Some(1), None));
}

#[test]
fn a_missing_pods_wait_is_answered_by_a_set() {
    unblocks(
        false,
        |writer, time| assert!(writer.set(&uid("test-pod"), Some(2.into()), None, at(time))),
        Seen::Set(Some(2), None),
    );
}

#[test]
fn a_missing_pods_wait_is_answered_by_the_global_time() {
    unblocks(false, |writer, time| writer.update_time(at(time)), Seen::Empty);
}
