//! A four-ary heap of names, whose keys and places are kept with what the names stand for.

use super::slab::Id;

/// Children of a node: the fewer levels, the fewer cache lines on the way down.
const ARITY: usize = 4;

/// Where the heap finds the keys of its elements, and notes where it has put them.
pub(super) trait Order {
    fn key(&self, id: Id) -> i128;
    fn place(&mut self, id: Id, at: usize);
}

/// The least key first. An element is found and removed by its place, in O(log n); to look at the least is O(1).
///
/// Every method is given the same `Order`.
pub(super) struct Heap(Vec<Id>);

impl Heap {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn peek(&self) -> Option<Id> {
        self.0.first().copied()
    }

    pub(super) fn push(&mut self, order: &mut impl Order, id: Id) {
        self.0.push(id);
        self.rise(order, self.0.len() - 1, id);
    }

    /// Removes the least element.
    pub(super) fn pop(&mut self, order: &mut impl Order) -> Option<Id> {
        let least = self.peek()?;
        self.remove(order, 0);
        Some(least)
    }

    /// Removes the element at a place.
    pub(super) fn remove(&mut self, order: &mut impl Order, at: usize) {
        let Some(last) = self.0.pop() else { return };
        if at < self.0.len() {
            self.replace(order, at, last);
        }
        self.shrink();
    }

    /// Puts an element in the place of another.
    pub(super) fn replace(&mut self, order: &mut impl Order, at: usize, id: Id) {
        let at = self.rise(order, at, id);
        self.sink(order, at, id);
    }

    /// Removes every element whose key is not above `limit`, into `out` in no particular order.
    ///
    /// O(k log n), and O(k) where most are due, for k elements removed.
    pub(super) fn take_due(&mut self, order: &mut impl Order, limit: i128, out: &mut Vec<Id>) {
        let begin = out.len();
        let mut to_visit = Vec::new();
        let is_due = |at: &usize| self.0.get(*at).is_some_and(|&id| order.key(id) <= limit);
        to_visit.extend(Some(0).filter(is_due));
        while let Some(at) = to_visit.pop() {
            out.push(self.0[at]);
            // Only the children of a due element can be due.
            to_visit.extend(children(at).filter(is_due));
        }
        let due = out.len() - begin;
        if due * ARITY < self.0.len() {
            for _ in 0..due {
                self.remove(order, 0);
            }
        } else if due > 0 {
            self.0.retain(|&id| order.key(id) > limit);
            self.rebuild(order);
            self.shrink();
        }
    }

    /// Makes a heap of elements in any order.
    fn rebuild(&mut self, order: &mut impl Order) {
        for at in (0..self.0.len()).rev() {
            let id = self.0[at];
            self.sink(order, at, id);
        }
    }

    /// Moves an element that belongs at `at` or above to its place, and says which that is.
    fn rise(&mut self, order: &mut impl Order, mut at: usize, id: Id) -> usize {
        let key = order.key(id);
        while at > 0 {
            let parent = self.0[(at - 1) / ARITY];
            if order.key(parent) <= key {
                break;
            }
            self.put(order, at, parent);
            at = (at - 1) / ARITY;
        }
        self.put(order, at, id);
        at
    }

    /// Moves an element that belongs at `at` or below to its place.
    fn sink(&mut self, order: &mut impl Order, mut at: usize, id: Id) {
        let key = order.key(id);
        while let Some((least, child)) = self.least_child(order, at) {
            if least >= key {
                break;
            }
            self.put(order, at, self.0[child]);
            at = child;
        }
        self.put(order, at, id);
    }

    fn least_child(&self, order: &impl Order, at: usize) -> Option<(i128, usize)> {
        children(at).filter_map(|child| self.0.get(child).map(|&id| (order.key(id), child))).min()
    }

    fn put(&mut self, order: &mut impl Order, at: usize, id: Id) {
        self.0[at] = id;
        order.place(id, at);
    }

    /// Gives memory back once three quarters are unused, which a growing heap does not see again soon.
    fn shrink(&mut self) {
        if self.0.len() < self.0.capacity() / 4 {
            self.0.shrink_to(self.0.len() * 2);
        }
    }
}

fn children(at: usize) -> std::ops::Range<usize> {
    at * ARITY + 1..at * ARITY + 1 + ARITY
}
