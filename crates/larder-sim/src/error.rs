//! Why a trace could not be replayed.

use crate::duration::DurationError;
use crate::trace::Kind;
use std::io;

/// The trace cannot be replayed any further; the results of the lines before stand.
///
/// ```
/// use larder_sim::replay;
///
/// let trace = "{\"larder_trace\":1,\"kind\":\"pod-status\"}\n{\"op\":\"get\"}\n";
/// let error = replay(trace.as_bytes(), &mut Vec::new()).unwrap_err();
/// assert_eq!(error.to_string(), "line 2: field `uid` is missing");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line is not what it should be.
    #[error("line {line}: {fault}")]
    Line {
        /// Which line, counted from 1.
        line: u64,
        /// What is wrong with it.
        fault: LineError,
    },
    /// The trace could not be read.
    #[error("line {line}: the trace cannot be read")]
    Read {
        /// Which line, counted from 1.
        line: u64,
        /// Why.
        source: io::Error,
    },
    /// The results could not be written.
    #[error("the results cannot be written")]
    Write(#[source] io::Error),
}

impl TraceError {
    /// The line, counted from 1; none where the results could not be written.
    pub const fn line(&self) -> Option<u64> {
        match self {
            Self::Line { line, .. } | Self::Read { line, .. } => Some(*line),
            Self::Write(_) => None,
        }
    }

    /// Whether whoever read the results went away, which is no fault of the trace.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Write(source) if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// What is wrong with a line of a trace.
///
/// A field's contents are never shown, only what kind of value it has; numbers and the names of operations are.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// The input has no line at all.
    #[error("the trace is empty; it begins with a header such as {{\"larder_trace\":1,\"kind\":\"pod-status\"}}")]
    NoTrace,
    /// The first line is an object, but no header.
    #[error(
        "not a header: field `larder_trace` is missing; a trace begins with one such as {{\"larder_trace\":1,\"kind\":\"pod-status\"}}"
    )]
    NoHeader,
    /// A header where an operation should stand.
    #[error("a second header; each trace is a file of its own")]
    SecondHeader,
    /// Another version of the format.
    #[error("field `larder_trace`: version {version} of the format is not known; this is version 1")]
    Version {
        /// The version that the header names.
        version: i64,
    },
    /// Another kind of trace.
    #[error("field `kind`: \"{kind}\" is not known; there are \"pod-status\" and \"objects\"")]
    Kind {
        /// The beginning of the kind that the header names.
        kind: String,
    },
    /// A line with nothing on it.
    #[error("the line is empty; each line is a JSON object")]
    Blank,
    /// A line beyond the limit.
    #[error("the line is longer than {limit} bytes")]
    TooLong {
        /// The most bytes that a line may have.
        limit: usize,
    },
    /// Bytes that are not UTF-8.
    #[error("not UTF-8 at byte {at}")]
    NotUtf8 {
        /// The first such byte of the line, counted from 1.
        at: usize,
    },
    /// No JSON, or more than one value.
    #[error("bad JSON at byte {at}: {reason}")]
    Json {
        /// Where in the line, counted from 1.
        at: usize,
        /// What is wrong.
        reason: String,
    },
    /// JSON, but not an object.
    #[error("not a JSON object but {found}")]
    NotAnObject {
        /// What stands there.
        found: &'static str,
    },
    /// A field that the operation needs is not there.
    #[error("field `{field}` is missing")]
    Missing {
        /// Which.
        field: &'static str,
    },
    /// A field that stands there twice.
    #[error("field `{field}` stands there twice")]
    Twice {
        /// Which.
        field: &'static str,
    },
    /// A field with a value of another type.
    #[error("field `{field}` is {found}, not {expected}")]
    Type {
        /// Which.
        field: &'static str,
        /// What it has to be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A number with a fraction or an exponent where an integer is needed.
    #[error("field `{field}`: {number} is not written as an integer")]
    NotAnInteger {
        /// Which.
        field: &'static str,
        /// The beginning of the number.
        number: String,
    },
    /// A number beyond its limits.
    #[error("field `{field}`: {number} is out of range ({min} to {max})")]
    Range {
        /// Which.
        field: &'static str,
        /// The beginning of the number.
        number: String,
        /// The least that it may be.
        min: i64,
        /// The most that it may be.
        max: i64,
    },
    /// A string that holds no text that JSON could stand for.
    #[error("field `{field}` is not a valid string: {reason}")]
    Text {
        /// Which.
        field: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// An empty string where one is not allowed.
    #[error("field `{field}` is empty")]
    Empty {
        /// Which.
        field: &'static str,
    },
    /// Not a duration as Go writes them.
    #[error("field `{field}`: {fault}")]
    Duration {
        /// Which.
        field: &'static str,
        /// What is wrong.
        fault: DurationError,
    },
    /// An operation that this kind of trace does not have.
    #[error("unknown operation \"{op}\" in a trace of kind \"{kind}\"")]
    Operation {
        /// The beginning of the operation's name.
        op: String,
        /// The kind of the trace.
        kind: Kind,
    },
    /// A wait with the number of another that is still open.
    #[error("field `id`: a wait with the id {id} is still open")]
    OpenWait {
        /// The number.
        id: i64,
    },
    /// A cache did not answer at once, although all that it asked for was there. It is larder that is at fault.
    #[error("the cache does not answer `{op}`; this is a bug of larder")]
    Stuck {
        /// The operation.
        op: &'static str,
    },
}
