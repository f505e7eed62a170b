//! The wire format of protobuf: numbers, tags, lengths.

use crate::error::{Fault, Problem};
use std::ops::Range;

/// The wire type of a number.
pub(crate) const VARINT: u8 = 0;
/// The wire type of a value with a length before it.
pub(crate) const LEN: u8 = 2;

/// The largest number of a field.
const LARGEST_NUMBER: u64 = (1 << 29) - 1;

/// Where a value stands in the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    pub(crate) fn of(self, input: &[u8]) -> &[u8] {
        input.get(Range::from(self)).unwrap_or_default()
    }

    pub(crate) fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

impl From<Span> for Range<usize> {
    fn from(span: Span) -> Self {
        span.start..span.end
    }
}

/// Reads a part of the input. Its places are those of the whole input.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    /// The input up to the end of the part.
    input: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(input: &'a [u8], span: Span) -> Self {
        Self { input: input.get(..span.end).unwrap_or(input), at: span.start }
    }

    pub(crate) fn whole(input: &'a [u8]) -> Self {
        Self { input, at: 0 }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.input.len()
    }

    pub(crate) fn fault(&self, problem: Problem) -> Fault {
        Fault::new(problem, self.at)
    }

    /// A number. Of the tenth byte one bit counts, as in Go.
    pub(crate) fn varint(&mut self) -> Result<u64, Fault> {
        let start = self.at;
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let Some(byte) = self.input.get(self.at) else { return Err(Fault::new(Problem::Truncated, start)) };
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Fault::new(Problem::Varint, start))
    }

    /// The number and the wire type of the next field.
    pub(crate) fn tag(&mut self) -> Result<(u32, u8), Fault> {
        let start = self.at;
        let tag = self.varint()?;
        let wire = (tag & 7) as u8;
        match u32::try_from(tag >> 3) {
            Ok(number @ 1..) if u64::from(number) <= LARGEST_NUMBER => Ok((number, wire)),
            _ => Err(Fault::new(Problem::Number, start)),
        }
    }

    /// A value with its length before it.
    pub(crate) fn span(&mut self) -> Result<Span, Fault> {
        let before = self.at;
        let len = self.varint()?;
        let start = self.at;
        let end = usize::try_from(len).ok().and_then(|len| start.checked_add(len));
        match end {
            Some(end) if end <= self.input.len() => {
                self.at = end;
                Ok(Span { start, end })
            }
            _ => Err(Fault::new(Problem::Length, before)),
        }
    }

    /// Passes over a value of this wire type.
    pub(crate) fn skip(&mut self, wire: u8) -> Result<(), Fault> {
        let fixed = match wire {
            VARINT => return self.varint().map(drop),
            LEN => return self.span().map(drop),
            1 => 8,
            5 => 4,
            3 | 4 => return Err(self.fault(Problem::Group)),
            _ => return Err(self.fault(Problem::WireType(wire))),
        };
        if self.input.len() - self.at < fixed {
            return Err(self.fault(Problem::Truncated));
        }
        self.at += fixed;
        Ok(())
    }
}

/// A value of a small message.
#[derive(Clone, Copy)]
pub(crate) enum Scalar {
    Number(u64),
    Bytes(Span),
}

impl Scalar {
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Bytes(_) => 0,
        }
    }

    pub(crate) fn bytes(self) -> Span {
        match self {
            Self::Number(_) => Span::default(),
            Self::Bytes(span) => span,
        }
    }
}

/// The fields 1 to `N` of a message that has only these, each with its wire type, and the first number that is none of them.
pub(crate) fn small<const N: usize>(
    mut cursor: Cursor<'_>,
    wires: [u8; N],
) -> Result<([Option<Scalar>; N], Option<u32>), Fault> {
    let mut values = [None; N];
    let mut unknown = None;
    while !cursor.is_at_end() {
        let (number, wire) = cursor.tag()?;
        let place = number as usize - 1;
        let (Some(value), Some(expected)) = (values.get_mut(place), wires.get(place)) else {
            unknown = unknown.or(Some(number));
            cursor.skip(wire)?;
            continue;
        };
        if value.is_some() {
            return Err(cursor.fault(Problem::Twice));
        }
        if wire != *expected {
            return Err(cursor.fault(Problem::WireType(wire)));
        }
        *value = Some(if wire == VARINT { Scalar::Number(cursor.varint()?) } else { Scalar::Bytes(cursor.span()?) });
    }
    Ok((values, unknown))
}
