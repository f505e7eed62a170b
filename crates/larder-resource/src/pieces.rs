//! The bytes of an object as they are held: in one block, or in two where one block would be much larger than they are.
//!
//! Allocators have few sizes, four between a power of two and the next: jemalloc gives 5 KiB to an object of a byte more than
//! 4 KiB. The largest size that the bytes fill is one block then, and the rest lies in a small block of its own.

use std::ops::Deref;
use zeroize::{Zeroize, Zeroizing};

/// A second block saves at least this many bytes, and at least a sixteenth of all.
const WORTH_IT: usize = 256;
/// What the second block costs beside its bytes: where it is, and the rounding of it.
const COST: usize = size_of::<Rest>() + 16;

/// The JSON of an object, and behind it the strings that do not stand in a block as they read.
#[derive(Default)]
pub(crate) struct Pieces {
    first: Box<[u8]>,
    rest: Option<Box<Rest>>,
}

struct Rest {
    json: Box<[u8]>,
    behind: Box<str>,
}

impl Pieces {
    /// Where JSON of that length is cut; at its end where one block is as good.
    pub(crate) fn cut(len: usize) -> usize {
        let below = len.saturating_sub(1);
        let step = below.checked_ilog2().map_or(0, |log| (1_usize << log) / 4);
        let lower = below.checked_div(step).map_or(0, |steps| steps * step);
        let saved = step.saturating_sub(len - lower).saturating_sub(COST);
        if saved >= WORTH_IT && saved >= len / 16 { lower } else { len }
    }

    /// Holds JSON, and what is to be put behind it. An object keeps its blocks as long as it lives, so they are exact.
    pub(crate) fn hold(mut json: Zeroizing<Vec<u8>>, behind: String) -> Self {
        let cut = Self::cut(json.len());
        let (first, json) = if cut < json.len() {
            let (first, rest) = json.split_at(cut);
            (first.into(), rest.into())
        } else {
            (std::mem::take(&mut *json).into_boxed_slice(), Box::default())
        };
        let rest = Rest { json, behind: behind.into_boxed_str() };
        Self { first, rest: (!rest.json.is_empty() || !rest.behind.is_empty()).then(|| Box::new(rest)) }
    }

    /// The JSON; the second piece is empty as a rule.
    pub(crate) fn json(&self) -> [&[u8]; 2] {
        [&self.first, self.rest.as_deref().map_or(&[], |rest| &rest.json)]
    }

    /// What stands there, counted from the beginning of the JSON; none across the end of a block.
    pub(crate) fn get(&self, start: usize, len: usize) -> Option<&[u8]> {
        let [first, rest] = self.json();
        let behind = self.rest.as_deref().map_or(&[][..], |rest| rest.behind.as_bytes());
        let mut before = 0;
        for block in [first, rest, behind] {
            if let Some(found) = start.checked_sub(before).and_then(|start| block.get(start..)?.get(..len)) {
                return Some(found);
            }
            before += block.len();
        }
        None
    }

    /// How many bytes it has, but for itself.
    pub(crate) fn memory(&self) -> usize {
        let rest = self.rest.as_deref().map_or(0, |rest| size_of::<Rest>() + rest.json.len() + rest.behind.len());
        self.first.len() + rest
    }
}

/// Overwrites all of it.
impl Zeroize for Pieces {
    fn zeroize(&mut self) {
        self.first.zeroize();
        if let Some(rest) = &mut self.rest {
            rest.json.zeroize();
            rest.behind.zeroize();
        }
    }
}

/// The JSON of a [`KubeObject`](crate::KubeObject) in one piece. A copy is overwritten when it is dropped.
pub struct Json<'a>(Whole<'a>);

enum Whole<'a> {
    Held(&'a [u8]),
    Copy(Zeroizing<Vec<u8>>),
}

impl<'a> Json<'a> {
    pub(crate) fn of(pieces: [&'a [u8]; 2]) -> Self {
        let [first, rest] = pieces;
        Self(if rest.is_empty() { Whole::Held(first) } else { Whole::Copy(Zeroizing::new(pieces.concat())) })
    }
}

impl Deref for Json<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Whole::Held(json) => json,
            Whole::Copy(json) => json,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_cut_where_a_block_for_all_would_be_much_larger() {
        let table = [
            // Empty, and small ones.
            (0, 0),
            (1, 1),
            (120, 120),
            (671, 671),
            (1030, 1030),
            // Sizes that allocators have.
            (2048, 2048),
            (4096, 4096),
            (5120, 5120),
            // A little more, and nearly the next.
            (2049, 2048),
            (4113, 4096),
            (4600, 4096),
            (5000, 5000),
            (5121, 5120),
            (1 << 20, 1 << 20),
            ((1 << 20) + 1, 1 << 20),
        ];
        for (len, cut) in table {
            assert_eq!(Pieces::cut(len), cut, "{len}");
        }
    }

    #[test]
    fn what_stands_in_a_block_is_found_by_its_place_in_all() {
        for len in [10, 4096, 4113] {
            let json: Vec<u8> = (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let pieces = Pieces::hold(Zeroizing::new(json.clone()), "behind".to_owned());
            assert_eq!(*Json::of(pieces.json()), json);
            assert_eq!(pieces.get(0, 9), Some(&json[..9]), "{len}");
            assert_eq!(pieces.get(len - 1, 1), Some(&json[len - 1..]), "{len}");
            assert_eq!(pieces.get(len, 6), Some(&b"behind"[..]), "{len}");
            assert_eq!((pieces.get(len, 7), pieces.get(len - 1, 2), pieces.get(usize::MAX, 1)), (None, None, None));
        }
        let cut = Pieces::hold(Zeroizing::new(vec![0; 4113]), String::new());
        assert_eq!(cut.json().map(<[u8]>::len), [4096, 17]);
        assert_eq!(cut.get(4095, 2), None, "across the cut");
    }

    #[test]
    fn all_of_it_is_overwritten() {
        let mut pieces = Pieces::hold(Zeroizing::new(vec![1; 4113]), "secret".to_owned());
        pieces.zeroize();
        assert!(pieces.json().concat().iter().all(|byte| *byte == 0));
        assert!(pieces.get(4113, 6).unwrap_or_default().iter().all(|byte| *byte == 0));
    }
}
