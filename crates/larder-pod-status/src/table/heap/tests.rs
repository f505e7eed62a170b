//! The heap, against a sorted list.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

/// Names as the slab gives them.
fn id(number: u16) -> Id {
    let mut slab = super::super::slab::Slab::new();
    (0..=number).map(|_| slab.insert(())).last().expect("at least one was inserted")
}

#[derive(Clone, Debug)]
enum Step {
    Push(i128),
    Pop,
    Remove(prop::sample::Index),
    SetMin(prop::sample::Index, i128),
    TakeDue(i128),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let times = || prop_oneof![4 => 0..20_i128, 1 => Just(i128::MIN), 1 => Just(i128::MAX)];
    let step = prop_oneof![
        8 => times().prop_map(Step::Push),
        1 => Just(Step::Pop),
        3 => any::<prop::sample::Index>().prop_map(Step::Remove),
        2 => (any::<prop::sample::Index>(), times()).prop_map(|(which, min)| Step::SetMin(which, min)),
        1 => (0..20_i128).prop_map(Step::TakeDue),
    ];
    prop::collection::vec(step, 1..200)
}

/// A heap, and beside it what it should hold: the time and the last told place of each name.
struct Checked {
    heap: Heap,
    model: HashMap<u16, (i128, u32)>,
    ids: Vec<Id>,
}

impl Checked {
    fn number(&self, id: Id) -> u16 {
        let at = self.ids.iter().position(|&known| known == id).expect("the id was given");
        u16::try_from(at).expect("there are few")
    }

    /// Calls the heap, and notes the places that it tells.
    fn call<T>(&mut self, call: impl FnOnce(&mut Heap, &mut dyn FnMut(Id, u32)) -> T) -> T {
        let mut told = Vec::new();
        let result = call(&mut self.heap, &mut |id, at| told.push((id, at)));
        for (id, at) in told {
            let number = self.number(id);
            if let Some(entry) = self.model.get_mut(&number) {
                entry.1 = at;
            }
        }
        result
    }

    fn pick(&self, which: prop::sample::Index) -> Option<u16> {
        let mut numbers: Vec<_> = self.model.keys().copied().collect();
        numbers.sort_unstable();
        (!numbers.is_empty()).then(|| numbers[which.index(numbers.len())])
    }

    fn check(&self) {
        assert_eq!(self.heap.is_empty(), self.model.is_empty());
        assert_eq!(self.heap.min().map(Timestamp::as_nanos), self.model.values().map(|&(min, _)| min).min());
        assert_eq!(self.heap.0.len(), self.model.len());
        for (number, &(min, at)) in &self.model {
            assert_eq!(self.heap.min_at(at).map(Timestamp::as_nanos), Some(min), "{number}");
            assert_eq!(self.heap.0[at as usize].id, self.ids[usize::from(*number)]);
        }
        for (at, element) in self.heap.0.iter().enumerate() {
            let parent = &self.heap.0[at.saturating_sub(1) / ARITY];
            assert!(parent.min.time() <= element.min.time(), "a child at {at} is earlier than its parent");
        }
        let (len, capacity) = (self.heap.0.len(), self.heap.0.capacity());
        assert!(len >= capacity / 4 || capacity <= FEW, "{len} elements hold memory for {capacity}");
    }
}

proptest! {
    #[test]
    fn is_ordered_and_knows_its_places(steps in steps()) {
        let ids = {
            let mut slab = super::super::slab::Slab::new();
            (0..200).map(|_| slab.insert(())).collect()
        };
        let mut checked = Checked { heap: Heap::new(), model: HashMap::new(), ids };
        for (n, step) in (0_u16..).zip(steps) {
            match step {
                Step::Push(min) => {
                    let id = checked.ids[usize::from(n)];
                    checked.model.insert(n, (min, u32::MAX));
                    checked.call(|heap, mut placed| heap.push(Timestamp::from_nanos(min), id, &mut placed));
                }
                Step::Pop => {
                    let popped = checked.call(|heap, mut placed| heap.pop(&mut placed));
                    let earliest = checked.model.values().map(|&(min, _)| min).min();
                    prop_assert_eq!(popped.map(|(min, _)| min.as_nanos()), earliest);
                    if let Some((min, id)) = popped {
                        let number = checked.number(id);
                        prop_assert_eq!(checked.model.remove(&number).map(|(min, _)| min), Some(min.as_nanos()));
                    }
                }
                Step::Remove(which) => {
                    let Some(number) = checked.pick(which) else { continue };
                    let (min, at) = checked.model.remove(&number).expect("it was picked from it");
                    let removed = checked.call(|heap, mut placed| heap.remove(at, &mut placed));
                    let expected = (Timestamp::from_nanos(min), checked.ids[usize::from(number)]);
                    prop_assert_eq!(removed, Some(expected));
                }
                Step::SetMin(which, min) => {
                    let Some(number) = checked.pick(which) else { continue };
                    let at = checked.model[&number].1;
                    checked.model.insert(number, (min, at));
                    checked.call(|heap, mut placed| heap.set_min(at, Timestamp::from_nanos(min), &mut placed));
                }
                Step::TakeDue(now) => {
                    let mut due = vec![checked.ids[199]];
                    checked.call(|heap, mut placed| heap.take_due(Timestamp::from_nanos(now), &mut due, &mut placed));
                    prop_assert_eq!(due.remove(0), checked.ids[199], "what was there stays");
                    let mut due: Vec<_> = due.into_iter().map(|id| checked.number(id)).collect();
                    due.sort_unstable();
                    let mut expected: Vec<_> =
                        checked.model.iter().filter(|(_, (min, _))| *min <= now).map(|(&number, _)| number).collect();
                    expected.sort_unstable();
                    prop_assert_eq!(&due, &expected);
                    checked.model.retain(|number, _| !due.contains(number));
                }
            }
            checked.check();
        }
    }
}

#[test]
fn a_place_that_is_not_there_is_none() {
    let mut heap = Heap::new();
    let ignore = &mut |_, _| {};
    assert_eq!(heap.remove(0, ignore), None);
    heap.set_min(0, Timestamp::ZERO, ignore);
    heap.push(Timestamp::ZERO, id(0), ignore);
    assert_eq!(heap.remove(1, ignore), None);
    assert_eq!(heap.min_at(1), None);
    heap.set_min(1, Timestamp::from_nanos(-1), ignore);
    assert_eq!(heap.pop(ignore), Some((Timestamp::ZERO, id(0))));
    assert_eq!(heap.min(), None);
}

#[test]
fn few_due_among_many_leave_the_rest_where_it_is() {
    let (mut heap, ids) = heap_of(0..10_000);
    let (mut due, mut moves) = (Vec::new(), 0);
    heap.take_due(Timestamp::from_nanos(2), &mut due, &mut |_, _| moves += 1);
    due.sort_by_key(|due| ids.iter().position(|id| id == due));
    assert_eq!(due, ids[..3]);
    // Three times down the levels: log4 of 10,000 is less than seven.
    assert!(moves <= 3 * 9, "{moves} elements were moved");
}

/// A heap for times in that order, and the names of its elements.
fn heap_of(times: impl Iterator<Item = i128>) -> (Heap, Vec<Id>) {
    let (mut heap, mut slab) = (Heap::new(), super::super::slab::Slab::new());
    let ids = times.map(|time| {
        let id = slab.insert(());
        heap.push(Timestamp::from_nanos(time), id, &mut |_, _| {});
        id
    });
    let ids = ids.collect();
    (heap, ids)
}

#[test]
fn a_quarter_that_is_due_is_enough_to_put_the_rest_in_order_anew() {
    for (len, due, anew) in [(4, 1, true), (5, 1, false), (40, 10, true), (41, 10, false)] {
        let (mut heap, ids) = heap_of(0..len);
        let mut told = std::collections::HashSet::new();
        heap.take_due(Timestamp::from_nanos(due - 1), &mut Vec::new(), &mut |id: Id, _| {
            told.insert(format!("{id:?}"));
        });
        let left = ids.len() - heap.0.len();
        assert_eq!(i128::try_from(left), Ok(due));
        // Anew, each of those that stay is told its place; else only those that take the place of another.
        assert_eq!(
            told.len() == heap.0.len(),
            anew,
            "{due} of {len} are due, and {} are told their places",
            told.len()
        );
    }
}

#[test]
fn equal_times_stay_where_they_are_put() {
    let (mut heap, _) = heap_of([5; 100].into_iter());
    let mut told = Vec::new();
    heap.push(Timestamp::from_nanos(5), id(100), &mut |id, at| told.push((id, at)));
    assert_eq!(told, [(id(100), 100)]);
    told.clear();
    heap.pop(&mut |id, at| told.push((id, at)));
    told.dedup();
    assert_eq!(told, [(id(100), 0)]);
}

#[test]
fn memory_is_given_back_once_three_quarters_are_unused_and_not_before() {
    let (mut heap, _) = heap_of(0..1_000);
    let full = heap.0.capacity();
    while heap.0.len() > full / 4 {
        heap.pop(&mut |_, _| {});
        assert_eq!(heap.0.capacity(), full);
    }
    heap.pop(&mut |_, _| {});
    let (len, capacity) = (heap.0.len(), heap.0.capacity());
    assert!((2 * len..3 * len).contains(&capacity), "{len} elements have room for {capacity}");
    while heap.pop(&mut |_, _| {}).is_some() {}
    assert_eq!(heap.0.capacity(), FEW);
}
