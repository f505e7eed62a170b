//! Short strings that usually lie inside the JSON they came from.

use crate::json::Borrowed;
use crate::pieces::Pieces;
use std::borrow::Cow;

/// Where a string stands in the bytes of an object, of which it is UTF-8.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    start: u32,
    len: u32,
}

impl Span {
    /// What lies beyond 4 GiB, where no object reaches, reads as empty.
    pub(crate) fn new(start: usize, len: usize) -> Self {
        Self { start: u32::try_from(start).unwrap_or(u32::MAX), len: u32::try_from(len).unwrap_or(u32::MAX) }
    }

    /// Where `text`, which was parsed from `json`, stands in it; none where the JSON has it with escapes, or in two pieces.
    fn within(json: &[u8], text: &Borrowed<'_>) -> Option<Self> {
        let Cow::Borrowed(slice) = &text.0 else { return text.0.is_empty().then(|| Self::new(0, 0)) };
        if slice.is_empty() {
            return Some(Self::new(0, 0));
        }
        // A difference of addresses, no pointer is made of it; checked against the bounds before it is used.
        let start = slice.as_ptr().addr().wrapping_sub(json.as_ptr().addr());
        let inside = json.get(start..).and_then(|rest| rest.get(..slice.len()));
        let cut = Pieces::cut(json.len());
        let is_whole = start >= cut || start.saturating_add(slice.len()) <= cut;
        (is_whole && inside == Some(slice.as_bytes())).then(|| Self::new(start, slice.len()))
    }

    pub(crate) fn get(self, pieces: &Pieces) -> &str {
        // The span was found in these very bytes as UTF-8; were it not, an empty string is the harmless answer.
        pieces
            .get(self.start as usize, self.len as usize)
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }
}

/// The strings of an object's JSON. Those that the JSON has with escapes, or in two pieces, are to be put behind it, as they
/// read.
///
/// Names, UIDs and resource versions never need escapes, so an object pays 8 bytes for each and no allocation.
pub(crate) struct Spans<'a> {
    json: &'a [u8],
    behind: String,
}

impl<'a> Spans<'a> {
    pub(crate) fn of(json: &'a [u8]) -> Self {
        Self { json, behind: String::new() }
    }

    /// Where `text`, which was parsed from the JSON, stands.
    pub(crate) fn span(&mut self, text: &Borrowed<'_>) -> Span {
        Span::within(self.json, text).unwrap_or_else(|| {
            let start = self.json.len() + self.behind.len();
            self.behind.push_str(&text.0);
            Span::new(start, text.0.len())
        })
    }

    /// What is to be put behind the JSON.
    pub(crate) fn behind(self) -> String {
        self.behind
    }
}

/// A string of an object's JSON: where it stands there, or its own copy where the JSON has it with escapes or in two pieces.
pub(crate) enum Text {
    Span(Span),
    Owned(Box<str>),
}

impl Text {
    /// Remembers `text`, which was parsed from `json`.
    pub(crate) fn of(json: &[u8], text: &Borrowed<'_>) -> Self {
        Span::within(json, text).map_or_else(|| Self::Owned(text.0.as_ref().into()), Self::Span)
    }

    /// The string, out of the JSON that it was made with.
    pub(crate) fn get<'a>(&'a self, pieces: &'a Pieces) -> &'a str {
        match self {
            Self::Span(span) => span.get(pieces),
            Self::Owned(text) => text,
        }
    }
}
