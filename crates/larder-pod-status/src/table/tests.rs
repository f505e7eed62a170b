//! The waits of pods, with every place where the table notes them checked.

use super::*;
use crate::entry::{Record, Set};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

type Table = WaitTable<u32, u32>;

fn at(nanos: i128) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn uid(n: usize) -> PodUid {
    PodUid::from(format!("{n:08x}-0000-4000-8000-000000000000"))
}

fn answer(uid: &PodUid) -> Entry<u32, u32> {
    let set = Set { status: Some(Arc::new(1)), error: None };
    Entry::new(uid, Some(&Record { set, modified: Timestamp::ZERO, observed: Timestamp::ZERO }))
}

/// Checks all that the parts of the table say of each other.
fn check(table: &Table) {
    let mut places = HashSet::new();
    let mut open = 0;
    for pod in table.pods.values() {
        assert!(places.insert(pod.at), "two pods have one place");
        let found = table.find(table.hash(&pod.uid), &pod.uid).and_then(|id| table.pods.get(id));
        assert!(found.is_some_and(|found| std::ptr::eq(found, pod)), "a pod is not found by its uid");
        let min = table.earliest.min_at(pod.at).expect("a pod is in the heap of all");
        let Some(Wait::Open(first)) = table.waits.get(pod.first) else { panic!("the first is not open") };
        assert_eq!(first.at, 0);
        if let Some(others) = &pod.others {
            assert!(!others.is_empty(), "an empty heap is kept");
            assert!(others.min() >= Some(min), "a wait is earlier than its pod's first");
        }
    }
    assert_eq!(table.by_uid.len(), places.len());
    let mut taken = HashSet::new();
    for wait in table.waits.values() {
        let Wait::Open(wait) = wait else { continue };
        open += 1;
        let pod = table.pods.get(wait.pod).expect("an open wait has a pod");
        let is_first = matches!(table.waits.get(pod.first), Some(Wait::Open(first)) if std::ptr::eq(first, wait));
        if !is_first {
            assert!(taken.insert((pod.uid.clone(), wait.at)), "two waits have one place");
            assert!(pod.others.as_ref().is_some_and(|others| others.min_at(wait.at).is_some()));
        }
    }
    assert_eq!(taken.len() + places.len(), open);
    assert_eq!(table.open(), open);
    assert_eq!(table.uids().len(), places.len());
}

/// Checks that a table without waits holds no more memory than a little to begin the next one with.
fn check_empty(table: &Table) {
    check(table);
    assert_eq!((table.open(), table.waits.values().count(), table.pods.values().count()), (0, 0, 0));
    assert!(table.earliest.is_empty() && table.by_uid.is_empty());
    assert!(table.by_uid.capacity() <= 8, "{}", table.by_uid.capacity());
}

#[test]
fn what_is_held_in_great_numbers_is_small() {
    assert_eq!(size_of::<Wait<u32, u32>>(), 48);
    assert_eq!(size_of::<Pod>(), 32);
    assert_eq!(size_of::<Bucket>(), 8);
}

#[test]
fn an_ended_wait_is_taken_once() {
    let mut table = Table::new();
    let id = table.begin(&uid(0), at(5));
    assert_eq!(table.uid(id), Some(&uid(0)));
    assert!(table.waker(id).is_some());
    assert!(table.take(id).is_none(), "it is open");
    drop(table.answer_pod(&uid(0), at(5), answer));
    assert_eq!(table.uid(id), None);
    assert!(table.waker(id).is_none());
    let (end, entry) = table.take(id).expect("it has ended");
    assert_eq!((end, entry.status().map(|status| **status)), (End::Answered, Some(1)));
    assert!(table.take(id).is_none());
    assert!(table.remove(id).is_none());
    check_empty(&table);
}

#[test]
fn an_open_wait_that_is_removed_has_not_ended() {
    let mut table = Table::new();
    let id = table.begin(&uid(0), at(5));
    assert!(table.remove(id).is_some_and(|wait| wait.ended().is_none()));
    assert!(table.remove(id).is_none());
    let id = table.insert_ended(End::WriterGone, answer(&uid(0)));
    assert_eq!(table.open(), 0);
    assert!(table.remove(id).and_then(Wait::ended).is_some_and(|(end, _)| end == End::WriterGone));
    check_empty(&table);
}

#[test]
fn memory_is_given_back_when_the_waits_have_ended() {
    for others in [1, 50] {
        let mut table = Table::new();
        let mut ids: Vec<_> = (0..20_000).map(|n| table.begin(&uid(n / others), at((n % 977) as i128))).collect();
        check(&table);
        // Half of them are dropped, half are answered and taken.
        for id in ids.split_off(10_000) {
            table.remove(id);
        }
        check(&table);
        drop(table.end_all(at(1_000), End::Answered, answer));
        for id in ids {
            assert!(table.take(id).is_some());
        }
        check_empty(&table);
    }
}

#[test]
fn the_table_of_pods_shrinks_once_most_of_it_is_unused_and_not_before() {
    let mut table = Table::new();
    let mut ids: Vec<_> = (0..1_000).map(|n| table.begin(&uid(n), at(1))).collect();
    let full = table.by_uid.num_buckets();
    for id in ids.drain(full / 16..) {
        table.remove(id);
        assert_eq!(table.by_uid.num_buckets(), full);
    }
    table.remove(ids[0]);
    let (left, room) = (ids.len() - 1, table.by_uid.capacity());
    assert!((2 * left..8 * left).contains(&room), "{left} pods have room for {room}");
    check(&table);
}

#[test]
fn pods_whose_hashes_are_equal_are_told_apart() {
    let mut table = Table::new();
    // Of 32 bits, some 80,000 random ones are enough for two that are equal.
    let mut seen = std::collections::HashMap::new();
    let (one, other) = (0..)
        .find_map(|n| seen.insert(table.hash(&uid(n)), n).map(|before| (uid(before), uid(n))))
        .expect("there are more pods than hashes");
    let waits = [table.begin(&one, at(1)), table.begin(&other, at(1))];
    check(&table);
    drop(table.answer_pod(&other, at(1), answer));
    let ended = waits.map(|id| table.take(id).map(|(_, entry)| entry.uid().clone()));
    assert_eq!(ended, [None, Some(other)]);
    assert_eq!(table.uids(), [one]);
}

#[test]
fn hashes_differ_where_the_table_looks_at_them() {
    let table = Table::new();
    let hashes: HashSet<_> = (0..1_000).map(|n| table.hash(&uid(n))).collect();
    assert!(hashes.len() > 990, "{} hashes of 1,000 pods", hashes.len());
    let spread =
        |part: &dyn Fn(u64) -> u64| hashes.iter().map(|&hash| part(spread(hash))).collect::<HashSet<_>>().len();
    assert!(spread(&|hash| hash % 1_024) > 500, "buckets are left unused");
    assert!(spread(&|hash| hash >> 57) > 100, "tags are left unused");
}

#[test]
fn a_wait_for_the_same_time_as_a_pods_first_stands_behind_it() {
    let mut table = Table::new();
    let first = table.begin(&uid(0), at(5));
    table.begin(&uid(0), at(5));
    assert_eq!(table.pods.values().map(|pod| pod.first).collect::<Vec<_>>(), [first]);
    let earlier = table.begin(&uid(0), at(4));
    assert_eq!(table.pods.values().map(|pod| pod.first).collect::<Vec<_>>(), [earlier]);
    check(&table);
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn wakers_wake_when_they_are_dropped() {
    let mut table = Table::new();
    let woken = Arc::<Woken>::default();
    for n in 0..3 {
        let id = table.begin(&uid(n), at(5));
        table.waker(id).expect("it is open").replace(Arc::clone(&woken).into());
    }
    let wakers = table.end_all(at(5), End::Answered, answer);
    assert_eq!((woken.0.load(Ordering::Relaxed), wakers.0.len()), (0, 3));
    drop(wakers);
    assert_eq!(woken.0.load(Ordering::Relaxed), 3);
}

struct Panicking;

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        panic!("a waker panics");
    }
}

#[test]
fn a_waker_that_panics_loses_no_other_wake() {
    let mut table = Table::new();
    let woken = Arc::<Woken>::default();
    for n in 0..5 {
        let id = table.begin(&uid(n), at(5));
        let waker = if n % 2 == 0 { Arc::new(Panicking).into() } else { Arc::clone(&woken).into() };
        table.waker(id).expect("it is open").replace(waker);
    }
    let wakers = table.end_all(at(5), End::Answered, answer);
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(wakers)));
    assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"a waker panics"));
    assert_eq!(woken.0.load(Ordering::Relaxed), 2);
}

#[derive(Clone, Debug)]
enum Step {
    Begin(usize, i128),
    Remove(prop::sample::Index),
    AnswerPod(usize, i128),
    AnswerAll(i128),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0..6_usize, 0..40_i128).prop_map(|(pod, min)| Step::Begin(pod, min)),
        4 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => (0..6_usize, 0..40_i128).prop_map(|(pod, now)| Step::AnswerPod(pod, now)),
        1 => (0..20_i128).prop_map(Step::AnswerAll),
    ];
    prop::collection::vec(step, 1..150)
}

proptest! {
    #[test]
    fn every_wait_is_where_it_is_said_to_be(steps in steps()) {
        let mut table = Table::new();
        let mut open: BTreeMap<usize, (Id, usize, i128)> = BTreeMap::new();
        for (n, step) in steps.into_iter().enumerate() {
            let mut due = |pod: Option<usize>, now| -> Vec<Id> {
                let is_due = |_: &usize, wait: &mut (Id, usize, i128)| wait.2 <= now && pod.is_none_or(|pod| pod == wait.1);
                open.extract_if(.., is_due).map(|(_, (id, ..))| id).collect()
            };
            let due = match step {
                Step::Begin(pod, min) => {
                    let id = table.begin(&uid(pod), at(min));
                    open.insert(n, (id, pod, min));
                    Vec::new()
                }
                Step::Remove(which) => {
                    if !open.is_empty() {
                        let (&number, &(id, ..)) = open.iter().nth(which.index(open.len())).expect("it is within");
                        open.remove(&number);
                        prop_assert!(table.remove(id).is_some_and(|wait| wait.ended().is_none()));
                    }
                    Vec::new()
                }
                Step::AnswerPod(pod, now) => {
                    drop(table.answer_pod(&uid(pod), at(now), answer));
                    due(Some(pod), now)
                }
                Step::AnswerAll(now) => {
                    let mut asked = HashSet::new();
                    drop(table.end_all(at(now), End::Answered, |uid| {
                        assert!(asked.insert(uid.clone()), "a pod's entry is asked for twice");
                        answer(uid)
                    }));
                    due(None, now)
                }
            };
            for id in due {
                prop_assert!(table.take(id).is_some(), "a wait that is due is open");
            }
            check(&table);
            prop_assert_eq!(table.open(), open.len());
            prop_assert_eq!(table.any_due(at(20)), open.values().any(|&(_, _, min)| min <= 20));
            prop_assert_eq!(table.waits.values().count(), open.len());
        }
    }
}
