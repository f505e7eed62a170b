//! A slab of values with 32-bit names, in chunks that are given back when they are empty.

use std::num::NonZeroU32;
use std::ops::Index;

/// Slots in a chunk: small enough that a cache with few waits stays small, large enough that the chunk's own record
/// weighs nothing beside it.
const CHUNK: usize = 256;

/// The name of a value in a slab, valid until the value is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Id(NonZeroU32);

impl Id {
    fn new(chunk: usize, slot: usize) -> Self {
        let number = u32::try_from(chunk * CHUNK + slot + 1).ok().and_then(NonZeroU32::new);
        // The waits alone would take more than 200 GB, and the futures that hold them as much again.
        Self(number.expect("fewer than 2^32 - 1 waits are open"))
    }

    fn place(self) -> (usize, usize) {
        let index = self.0.get() as usize - 1;
        (index / CHUNK, index % CHUNK)
    }
}

enum Slot<T> {
    /// With the next free slot of the chunk.
    Free(Option<u16>),
    Used(T),
}

struct Chunk<T> {
    /// `CHUNK` slots, or none while the chunk is given back.
    slots: Vec<Slot<T>>,
    used: usize,
    /// The first free slot.
    free: Option<u16>,
    /// Where the chunk stands in `Slab::open`, if it has room.
    open_at: usize,
}

/// Values of one type, each with an [`Id`].
///
/// Memory: one slot a value, and at most one chunk that is empty.
pub(super) struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// The chunks that have slots, and a free one among them.
    open: Vec<usize>,
    /// The chunks that are given back.
    returned: Vec<usize>,
    len: usize,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self { chunks: Vec::new(), open: Vec::new(), returned: Vec::new(), len: 0 }
    }

    #[cfg(test)]
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Inserts a value that may hold its own name.
    pub(super) fn insert_with(&mut self, value: impl FnOnce(Id) -> T) -> Id {
        let at = self.open.last().copied().unwrap_or_else(|| self.open_chunk());
        let chunk = &mut self.chunks[at];
        // An open chunk has a free slot.
        let slot = chunk.free.map_or(0, usize::from);
        let id = Id::new(at, slot);
        let value = value(id);
        if let Slot::Free(next) = std::mem::replace(&mut chunk.slots[slot], Slot::Used(value)) {
            chunk.free = next;
        }
        chunk.used += 1;
        self.len += 1;
        if chunk.used == CHUNK {
            self.open.pop();
        }
        id
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<T> {
        let (at, slot) = id.place();
        let chunk = self.chunks.get_mut(at)?;
        if !matches!(chunk.slots.get(slot), Some(Slot::Used(_))) {
            return None;
        }
        let freed = std::mem::replace(&mut chunk.slots[slot], Slot::Free(chunk.free));
        chunk.free = u16::try_from(slot).ok();
        if chunk.used == CHUNK {
            chunk.open_at = self.open.len();
            self.open.push(at);
        }
        chunk.used -= 1;
        self.len -= 1;
        if chunk.used == 0 && self.open.len() > 1 {
            self.return_chunk(at);
        }
        match freed {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        self.chunks.iter().enumerate().flat_map(|(at, chunk)| {
            chunk.slots.iter().enumerate().filter_map(move |(slot, value)| match value {
                Slot::Used(value) => Some((Id::new(at, slot), value)),
                Slot::Free(_) => None,
            })
        })
    }

    /// A chunk with all its slots free, as the last of the open ones.
    fn open_chunk(&mut self) -> usize {
        let slots = || (1..=CHUNK).map(|next| Slot::Free(u16::try_from(next).ok().filter(|_| next < CHUNK))).collect();
        let open_at = self.open.len();
        let at = self.returned.pop().unwrap_or(self.chunks.len());
        let chunk = Chunk { slots: slots(), used: 0, free: Some(0), open_at };
        match self.chunks.get_mut(at) {
            Some(returned) => *returned = chunk,
            None => self.chunks.push(chunk),
        }
        self.open.push(at);
        at
    }

    /// Gives an empty chunk's memory back.
    fn return_chunk(&mut self, at: usize) {
        let open_at = self.chunks[at].open_at;
        self.open.swap_remove(open_at);
        if let Some(&moved) = self.open.get(open_at) {
            self.chunks[moved].open_at = open_at;
        }
        self.chunks[at].slots = Vec::new();
        self.returned.push(at);
        if self.len == 0 {
            *self = Self::new();
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
}

impl<T> Index<Id> for Slab<T> {
    type Output = T;

    fn index(&self, id: Id) -> &T {
        self.get(id).expect("the value is not removed")
    }
}
