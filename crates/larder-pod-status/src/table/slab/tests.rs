//! Places that are taken, left and given back.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

/// Slots that memory is held for.
fn room<T>(slab: &Slab<T>) -> usize {
    slab.chunks.iter().map(|chunk| chunk.slots.capacity()).sum()
}

/// Checks that the chunks are where they are said to be.
fn check<T>(slab: &Slab<T>) {
    assert_eq!(slab.values().count(), slab.len);
    let mut empty = 0;
    for (at, chunk) in slab.chunks.iter().enumerate() {
        let used = chunk.slots.iter().filter(|slot| matches!(slot, Slot::Used(_))).count();
        assert_eq!(used, chunk.used);
        let is_open = slab.open.get(chunk.open_at) == Some(&at);
        let is_returned = slab.returned.contains(&at);
        assert_eq!(is_returned, chunk.slots.capacity() == 0);
        assert_eq!(is_open, used < CHUNK && !is_returned);
        empty += usize::from(used == 0 && !is_returned);
    }
    assert!(slab.open.len() + slab.returned.len() <= slab.chunks.len());
    assert!(empty <= 1, "{empty} chunks are empty");
}

#[test]
fn names_its_next_value_before_it_is_there() {
    let mut slab = Slab::new();
    for n in 0..3 * CHUNK {
        let next = slab.next_id();
        assert_eq!(slab.get(next), None);
        assert_eq!(slab.insert(n), next);
        assert_eq!(slab.get(next), Some(&n));
    }
}

#[test]
fn uses_the_places_of_removed_values_again() {
    let mut slab = Slab::new();
    let ids: Vec<_> = (0..10 * CHUNK).map(|n| slab.insert(n)).collect();
    let held = room(&slab);
    for &id in ids.iter().step_by(3) {
        assert!(slab.remove(id).is_some());
        assert_eq!(slab.remove(id), None);
    }
    for &id in ids.iter().step_by(3) {
        slab.insert(id.place().1);
    }
    assert_eq!(room(&slab), held);
    check(&slab);
}

#[test]
fn gives_memory_back_as_chunks_become_empty() {
    let mut slab = Slab::new();
    let ids: Vec<_> = (0..10 * CHUNK).map(|n| slab.insert(n)).collect();
    for &id in &ids[CHUNK..] {
        slab.remove(id);
        check(&slab);
    }
    // The first chunk is full, and one that is empty stays for the next value.
    assert_eq!(room(&slab), 2 * CHUNK);
    for &id in &ids[..CHUNK] {
        slab.remove(id);
        check(&slab);
    }
    assert_eq!(slab.len, 0);
    assert!(room(&slab) <= CHUNK, "{}", room(&slab));
    assert!(slab.chunks.len() <= 1);
}

#[test]
fn keeps_its_memory_while_one_value_comes_and_goes() {
    let mut slab = Slab::new();
    let id = slab.insert(0);
    slab.remove(id);
    assert_eq!(room(&slab), CHUNK);
    let full: Vec<_> = (0..CHUNK).map(|n| slab.insert(n)).collect();
    for n in 0..3 {
        let id = slab.insert(n);
        assert_eq!(room(&slab), 2 * CHUNK);
        assert_eq!(slab.remove(id), Some(n));
        assert_eq!(room(&slab), 2 * CHUNK);
        assert_eq!(slab.next_id(), id);
    }
    for id in full {
        slab.remove(id);
    }
    check(&slab);
}

proptest! {
    /// Grows and shrinks over several chunks, and holds what a map holds.
    #[test]
    fn holds_what_was_inserted_and_not_removed(
        steps in prop::collection::vec((0..3 * CHUNK, any::<prop::sample::Index>(), any::<bool>()), 1..6)
    ) {
        let mut slab = Slab::new();
        let mut model: HashMap<u32, (Id, usize)> = HashMap::new();
        for (count, which, grow) in steps {
            if grow {
                for n in 0..count {
                    let id = slab.insert(n);
                    prop_assert!(model.insert(id.0.get(), (id, n)).is_none(), "a name was given twice");
                }
            } else {
                let mut ids: Vec<u32> = model.keys().copied().collect();
                ids.sort_unstable();
                let begin = if ids.is_empty() { 0 } else { which.index(ids.len()) };
                for id in ids.iter().skip(begin).take(count) {
                    let (id, n) = model.remove(id).expect("it is in the map");
                    prop_assert_eq!(slab.remove(id), Some(n));
                }
            }
            check(&slab);
            prop_assert_eq!(slab.len, model.len());
            for &(id, n) in model.values() {
                prop_assert_eq!(slab.get(id), Some(&n));
                prop_assert_eq!(slab.get_mut(id).copied(), Some(n));
            }
        }
    }
}
