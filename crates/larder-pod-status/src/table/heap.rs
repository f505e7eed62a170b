//! A four-ary heap whose elements know their places, so that any of them can be removed.

use super::slab::Id;
use larder_clock::Timestamp;

/// Children of a node: there are half as many levels as with two, and the children share a cache line or two.
const ARITY: usize = 4;

/// Elements whose memory is kept.
const FEW: usize = 8;

/// A timestamp that is not aligned to 16 bytes, for what is held in great numbers.
#[derive(Clone, Copy)]
struct Packed([u8; 16]);

impl Packed {
    fn new(time: Timestamp) -> Self {
        Self(time.as_nanos().to_ne_bytes())
    }

    fn time(self) -> Timestamp {
        Timestamp::from_nanos(i128::from_ne_bytes(self.0))
    }
}

/// The key stands beside the name, so that a search follows no pointer.
struct Element {
    min: Packed,
    id: Id,
}

/// Names with a time each, the earliest first.
///
/// To look at the earliest is O(1), all else O(log n), and O(1) for an element that is later than most. Each method that
/// moves elements tells `placed` where each of them is now; an element is found by the place that was last told.
pub(super) struct Heap(Vec<Element>);

impl Heap {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// A heap of one element, whose place is 0.
    pub(super) fn of_one(min: Timestamp, id: Id) -> Self {
        Self(vec![Element { min: Packed::new(min), id }])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The earliest time.
    pub(super) fn min(&self) -> Option<Timestamp> {
        self.min_at(0)
    }

    /// The time of the element at a place.
    pub(super) fn min_at(&self, at: u32) -> Option<Timestamp> {
        self.0.get(at as usize).map(|element| element.min.time())
    }

    pub(super) fn push(&mut self, min: Timestamp, id: Id, placed: &mut impl FnMut(Id, u32)) {
        self.0.push(Element { min: Packed::new(min), id });
        self.rise(self.0.len() - 1, placed);
    }

    /// Removes the earliest element.
    pub(super) fn pop(&mut self, placed: &mut impl FnMut(Id, u32)) -> Option<(Timestamp, Id)> {
        self.remove(0, placed)
    }

    /// Removes the element at a place.
    pub(super) fn remove(&mut self, at: u32, placed: &mut impl FnMut(Id, u32)) -> Option<(Timestamp, Id)> {
        let at = at as usize;
        if at >= self.0.len() {
            return None;
        }
        let Element { min, id } = self.0.swap_remove(at);
        if at < self.0.len() {
            self.settle(at, placed);
        }
        self.shrink();
        Some((min.time(), id))
    }

    /// Gives the element at a place another time.
    pub(super) fn set_min(&mut self, at: u32, min: Timestamp, placed: &mut impl FnMut(Id, u32)) {
        let at = at as usize;
        if let Some(element) = self.0.get_mut(at) {
            element.min = Packed::new(min);
            self.settle(at, placed);
        }
    }

    /// Removes every element whose time is `now` or earlier, into `due` in no particular order.
    ///
    /// O(k log n) for k elements removed, and O(k) if they are a good part of all.
    pub(super) fn take_due(&mut self, now: Timestamp, due: &mut Vec<Id>, placed: &mut impl FnMut(Id, u32)) {
        let begin = due.len();
        let is_due = |at: &usize| self.0.get(*at).is_some_and(|element| element.min.time() <= now);
        let mut to_visit = Vec::from_iter(Some(0).filter(is_due));
        while let Some(at) = to_visit.pop() {
            due.push(self.0[at].id);
            // Only the children of a due element can be due.
            to_visit.extend(children(at).filter(is_due));
        }
        let removed = due.len() - begin;
        if removed * ARITY < self.0.len() {
            for _ in 0..removed {
                self.pop(placed);
            }
        } else {
            self.0.retain(|element| element.min.time() > now);
            for at in (0..self.0.len()).rev() {
                self.sink(at, placed);
            }
            self.shrink();
        }
    }

    /// Moves the element at a place to where it belongs.
    fn settle(&mut self, at: usize, placed: &mut impl FnMut(Id, u32)) {
        let at = self.rise(at, placed);
        self.sink(at, placed);
    }

    /// Moves an element up as far as it belongs there, and says where it is now.
    fn rise(&mut self, mut at: usize, placed: &mut impl FnMut(Id, u32)) -> usize {
        let min = self.0[at].min.time();
        while at > 0 && self.0[(at - 1) / ARITY].min.time() > min {
            self.swap(at, (at - 1) / ARITY, placed);
            at = (at - 1) / ARITY;
        }
        placed(self.0[at].id, narrow(at));
        at
    }

    /// Moves an element down as far as it belongs there.
    fn sink(&mut self, mut at: usize, placed: &mut impl FnMut(Id, u32)) {
        let min = self.0[at].min.time();
        let earliest_child = |heap: &[Element], at| {
            let times = children(at).filter_map(|child| heap.get(child).map(|element| (element.min.time(), child)));
            times.min().filter(|&(earliest, _)| earliest < min)
        };
        while let Some((_, child)) = earliest_child(&self.0, at) {
            self.swap(at, child, placed);
            at = child;
        }
        placed(self.0[at].id, narrow(at));
    }

    /// Exchanges a moving element, which is told its place at the end of its way, with one on the way.
    fn swap(&mut self, moving: usize, other: usize, placed: &mut impl FnMut(Id, u32)) {
        self.0.swap(moving, other);
        placed(self.0[moving].id, narrow(moving));
    }

    /// Gives memory back once three quarters are unused, but for what a few elements would soon ask for again.
    fn shrink(&mut self) {
        let len = self.0.len();
        if len < self.0.capacity() / 4 {
            self.0.shrink_to(FEW.max(len * 2));
        }
    }
}

fn children(at: usize) -> std::ops::Range<usize> {
    at * ARITY + 1..at * ARITY + 1 + ARITY
}

/// Places fit into 32 bits: there are no more elements than there are [`Id`]s.
fn narrow(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
