//! The lines of an input, one at a time.

use crate::error::{LineError, TraceError};
use std::io::{BufRead, Read};

/// The most bytes that a line of a trace may have: 16 MiB, many times the largest object that an API server holds.
///
/// A limit keeps an input without line ends from filling the memory.
pub const MAX_LINE: usize = 16 << 20;

/// Reads lines into one buffer.
pub(crate) struct Lines<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, line: Vec::new(), number: 0 }
    }

    /// The next line without its end, and its number from 1; `None` at the end of the input. A last line without an end
    /// counts as one.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &[u8])>, TraceError> {
        self.number += 1;
        let line = self.number;
        self.line.clear();
        // A byte more than is allowed tells a line that is too long from one that just fits.
        let most = u64::try_from(MAX_LINE + 1).unwrap_or(u64::MAX);
        let read = self
            .input
            .by_ref()
            .take(most)
            .read_until(b'\n', &mut self.line)
            .map_err(|source| TraceError::Read { line, source })?;
        if read == 0 {
            return Ok(None);
        }
        match self.line.strip_suffix(b"\n") {
            Some(text) => Ok(Some((line, text))),
            None if read > MAX_LINE => Err(TraceError::Line { line, fault: LineError::TooLong { limit: MAX_LINE } }),
            None => Ok(Some((line, &self.line))),
        }
    }
}
