//! A trace on the production caches, line by line.

mod objects;
mod pod_status;

use crate::answer::Answer;
use crate::error::{LineError, TraceError};
use crate::lines::Lines;
use crate::parse;
use crate::trace::{Header, Op};
use objects::Objects;
use pod_status::PodStatuses;
use std::io::{BufRead, Write};

/// Runs a trace and writes one line for each operation and a closing line. Returns the number of operations.
///
/// The input is read, and the results are written, line by line; hand in a buffered writer. It is flushed at the end, also
/// where the trace ends early.
///
/// # Errors
///
/// The first line that cannot be replayed, with its number and field; the results of the lines before it are written.
///
/// ```
/// let mut results = Vec::new();
/// let trace = "{\"larder_trace\":1,\"kind\":\"pod-status\"}\n{\"op\":\"get\",\"uid\":\"u1\"}\nnonsense\n";
/// let error = larder_sim::replay(trace.as_bytes(), &mut results).unwrap_err();
/// assert_eq!(error.line(), Some(3));
/// assert_eq!(results, b"{\"empty\":true}\n");
/// ```
pub fn replay(input: impl BufRead, output: &mut impl Write) -> Result<u64, TraceError> {
    let replayed = replay_lines(input, output);
    let flushed = output.flush().map_err(TraceError::Write);
    // Of the two the trace's own error tells more.
    replayed.and_then(|operations| flushed.map(|()| operations))
}

fn replay_lines(input: impl BufRead, output: &mut impl Write) -> Result<u64, TraceError> {
    let mut lines = Lines::new(input);
    let Some((line, text)) = lines.next()? else {
        return Err(TraceError::Line { line: 1, fault: LineError::NoTrace });
    };
    let mut replay = Replay::from_header(text).map_err(|fault| TraceError::Line { line, fault })?;
    let mut result = Vec::new();
    let mut operations = 0;
    while let Some((line, text)) = lines.next()? {
        result.clear();
        replay.line(text, &mut result).map_err(|fault| TraceError::Line { line, fault })?;
        output.write_all(&result).map_err(TraceError::Write)?;
        operations += 1;
    }
    result.clear();
    replay.end(&mut result);
    output.write_all(&result).map_err(TraceError::Write)?;
    Ok(operations)
}

/// A trace under way, for whoever has the lines one by one.
///
/// ```
/// use larder_sim::Replay;
///
/// let mut replay = Replay::from_header(br#"{"larder_trace":1,"kind":"pod-status"}"#)?;
/// let mut results = Vec::new();
/// replay.line(br#"{"op":"newer","id":1,"uid":"u1","min":5}"#, &mut results)?;
/// replay.line(br#"{"op":"update_time","t":5}"#, &mut results)?;
/// replay.end(&mut results);
/// let expected = "{\"pending\":true}\n{\"woken\":[{\"empty\":true,\"id\":1}]}\n{\"end\":true,\"pending\":[]}\n";
/// assert_eq!(String::from_utf8(results)?, expected);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Replay {
    header: Header,
    caches: Caches,
}

#[derive(Debug)]
enum Caches {
    PodStatus(PodStatuses),
    Objects(Objects),
}

impl Replay {
    /// Begins a trace with its first line.
    ///
    /// # Errors
    ///
    /// What is wrong with the header.
    pub fn from_header(line: &[u8]) -> Result<Self, LineError> {
        parse::header(line).map(Self::new)
    }

    /// Begins a trace.
    ///
    /// ```
    /// use larder_sim::{Header, Replay};
    /// let mut results = Vec::new();
    /// Replay::new(Header::PodStatus { evented: false }).end(&mut results);
    /// assert_eq!(results, b"{\"end\":true,\"pending\":[]}\n");
    /// ```
    pub fn new(header: Header) -> Self {
        let caches = match &header {
            Header::PodStatus { evented } => Caches::PodStatus(PodStatuses::new(*evented)),
            Header::Objects { default_ttl } => Caches::Objects(Objects::new(default_ttl.nanos())),
        };
        Self { header, caches }
    }

    /// Runs an operation's line and appends its result's line. After an error the trace is to be given up.
    ///
    /// # Errors
    ///
    /// What is wrong with the line; nothing was appended then.
    pub fn line(&mut self, line: &[u8], results: &mut Vec<u8>) -> Result<(), LineError> {
        let op = parse::op(self.header.kind(), line)?;
        self.op(op, results)
    }

    /// Runs an operation and appends its result's line.
    ///
    /// # Errors
    ///
    /// It is of another kind of trace, or begins a wait with the number of one that is open.
    ///
    /// ```
    /// use larder_sim::{Header, Op, PodStatusOp, Replay};
    /// let mut replay = Replay::new(Header::PodStatus { evented: false });
    /// let mut results = Vec::new();
    /// replay.op(Op::PodStatus(PodStatusOp::Get { uid: "u1".into() }), &mut results)?;
    /// assert_eq!(results, b"{\"empty\":true}\n");
    /// # Ok::<(), larder_sim::LineError>(())
    /// ```
    pub fn op(&mut self, op: Op, results: &mut Vec<u8>) -> Result<(), LineError> {
        let answer = match (&mut self.caches, op) {
            (Caches::PodStatus(statuses), Op::PodStatus(op)) => statuses.run(op)?,
            (Caches::Objects(objects), Op::Objects(op)) => objects.run(op)?,
            (_, op @ (Op::PodStatus(_) | Op::Objects(_))) => {
                let op = crate::error_excerpt(&op.to_string());
                return Err(LineError::Operation { op, kind: self.header.kind() });
            }
        };
        append(&answer, results);
        Ok(())
    }

    /// Ends the trace and appends the closing line.
    pub fn end(self, results: &mut Vec<u8>) {
        let pending = match self.caches {
            Caches::PodStatus(statuses) => Some(statuses.open_ids()),
            Caches::Objects(_) => None,
        };
        append(&Answer { end: true, pending: pending.map(crate::answer::Pending::Ids), ..Answer::default() }, results);
    }
}

fn append(answer: &Answer, results: &mut Vec<u8>) {
    // Neither a write to memory nor the serialization of these plain types can fail.
    let written = serde_json::to_writer(&mut *results, answer);
    debug_assert!(written.is_ok());
    results.push(b'\n');
}

#[cfg(test)]
mod tests;
