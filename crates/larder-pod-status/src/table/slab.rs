//! A slab of values with 32-bit names, in chunks that are given back when they are empty.

use std::num::NonZeroU32;

/// Slots in a chunk: enough that the chunk's own record weighs nothing beside them.
const CHUNK: usize = 1024;

/// The name of a value in a slab, valid until the value is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Id(NonZeroU32);

impl Id {
    fn new(chunk: usize, slot: usize) -> Self {
        let number = u32::try_from(chunk * CHUNK + slot + 1).ok().and_then(NonZeroU32::new);
        // Cannot fail: so many waits take more than 200 GB, and the futures that hold them half as much again.
        Self(number.expect("fewer than 2^32 - 1 waits are open"))
    }

    fn place(self) -> (usize, usize) {
        let index = self.0.get() as usize - 1;
        (index / CHUNK, index % CHUNK)
    }
}

enum Slot<T> {
    /// With the next free slot of the chunk, if there is one.
    Free(Option<u16>),
    Used(T),
}

struct Chunk<T> {
    /// The slots that were ever used; there is room for `CHUNK`, or for none while the chunk is given back.
    slots: Vec<Slot<T>>,
    used: usize,
    /// The first free one of the slots.
    free: Option<u16>,
    /// Where the chunk stands in `Slab::open`, if it is there.
    open_at: usize,
}

/// Values of one type, each with an [`Id`].
///
/// Memory: a slot for each value and for each that was removed from a chunk that is still in use; at most one chunk is
/// empty.
pub(super) struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// The chunks that have memory and room.
    open: Vec<usize>,
    /// The chunks that are given back.
    returned: Vec<usize>,
    len: usize,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self { chunks: Vec::new(), open: Vec::new(), returned: Vec::new(), len: 0 }
    }

    /// The name that the next value will get.
    pub(super) fn next_id(&mut self) -> Id {
        let at = self.open.last().copied().unwrap_or_else(|| self.open_chunk());
        let chunk = &self.chunks[at];
        Id::new(at, chunk.free.map_or(chunk.slots.len(), usize::from))
    }

    pub(super) fn insert(&mut self, value: T) -> Id {
        let id = self.next_id();
        let (at, slot) = id.place();
        let chunk = &mut self.chunks[at];
        let value = Slot::Used(value);
        match chunk.slots.get_mut(slot) {
            None => chunk.slots.push(value),
            Some(free) => {
                if let Slot::Free(next) = std::mem::replace(free, value) {
                    chunk.free = next;
                }
            }
        }
        chunk.used += 1;
        self.len += 1;
        if chunk.used == CHUNK {
            // It is the last of the open ones.
            self.open.pop();
        }
        id
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<T> {
        let (at, slot) = id.place();
        let chunk = self.chunks.get_mut(at)?;
        let place = chunk.slots.get_mut(slot).filter(|slot| matches!(slot, Slot::Used(_)))?;
        let removed = std::mem::replace(place, Slot::Free(chunk.free));
        chunk.free = u16::try_from(slot).ok();
        if chunk.used == CHUNK {
            chunk.open_at = self.open.len();
            self.open.push(at);
        }
        chunk.used -= 1;
        self.len -= 1;
        if chunk.used == 0 {
            self.return_chunk(at);
        }
        match removed {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(super) fn get(&self, id: Id) -> Option<&T> {
        let (at, slot) = id.place();
        match self.chunks.get(at)?.slots.get(slot)? {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        let (at, slot) = id.place();
        match self.chunks.get_mut(at)?.slots.get_mut(slot)? {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| &chunk.slots).filter_map(|slot| match slot {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        })
    }

    /// A chunk with room for `CHUNK` values, as the last of the open ones.
    fn open_chunk(&mut self) -> usize {
        let at = self.returned.pop().unwrap_or(self.chunks.len());
        let chunk = Chunk { slots: Vec::with_capacity(CHUNK), used: 0, free: None, open_at: self.open.len() };
        match self.chunks.get_mut(at) {
            Some(returned) => *returned = chunk,
            None => self.chunks.push(chunk),
        }
        self.open.push(at);
        at
    }

    /// Gives the memory of an empty chunk back, unless no other one is open: the next value will want it.
    fn return_chunk(&mut self, at: usize) {
        if self.len == 0 && self.chunks.len() > 1 {
            // With the records of the chunks.
            *self = Self::new();
        }
        if self.open.len() <= 1 {
            return;
        }
        let open_at = self.chunks[at].open_at;
        self.open.swap_remove(open_at);
        if let Some(&moved) = self.open.get(open_at) {
            self.chunks[moved].open_at = open_at;
        }
        self.chunks[at] = Chunk { slots: Vec::new(), used: 0, free: None, open_at: 0 };
        self.returned.push(at);
    }
}

#[cfg(test)]
mod tests;
