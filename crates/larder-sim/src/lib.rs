#![doc(test(attr(deny(warnings))))]
//! Traces, and their replay on the production caches in virtual time.
//!
//! A trace is a text of JSON objects, one a line: a header, then the operations of one cache's life, the API server's and
//! the clock's moves among them. [`replay`] runs it on [`larder_objects`] or [`larder_pod_status`] and writes what each
//! operation gave. The same trace, run on the kubelet's own packages, has to give the same lines: that is how the caches
//! are held to the kubelet's behaviour.
//!
//! [`mod@format`] says what stands in a trace and in its results.
//!
//! - [`Trace`], [`Header`], [`Op`]: what a trace says; parsed strictly, and printed.
//! - [`Replay`] and [`replay`]: a trace on the caches, line by line.
//! - [`generate`](generate()): random traces from a seed.
//! - [`shrink`](shrink()): the least part of a trace that still shows a difference.
//!
//! # Guarantees
//!
//! - **The production code.** A replay calls the caches' public API with a clock, an API server and a node that are the
//!   trace's; there is no second implementation of any of their rules.
//! - **Bounded.** A replay holds its pods, its objects, the open waits, and one line of at most [`MAX_LINE`] bytes.
//! - **Exact about what is wrong.** A [`TraceError`] names the line, and the field where it is one.
//! - **The same seed, the same trace**, on every machine; another version of this crate may give another.
//!
//! # Limits
//!
//! A trace is one operation after another: what happens between threads is shown by the caches' own tests.
//!
//! # Example
//!
//! ```
//! let trace = r#"{"larder_trace":1,"kind":"objects","default_ttl":"60s"}
//! {"op":"server_put","ns":"a","name":"x","rv":"5","data":"v1"}
//! {"op":"register","ns":"a","name":"p","uid":"u1","refs":["x"]}
//! {"op":"get","ns":"a","name":"x"}
//! "#;
//! let mut results = Vec::new();
//! larder_sim::replay(trace.as_bytes(), &mut results)?;
//! assert_eq!(
//!     String::from_utf8(results)?,
//!     r#"{}
//! {}
//! {"data":"v1","fetches":[{"from_cache":false}],"rv":"5"}
//! {"end":true}
//! "#
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod duration;
mod error;
mod generate;
mod lines;
mod parse;
mod replay;
mod shrink;
mod trace;

pub use duration::{DurationError, GoDuration};
pub use error::{LineError, TraceError};
pub use generate::generate;
pub use lines::MAX_LINE;
pub use replay::{Replay, replay};
pub use shrink::shrink;
pub use trace::{Header, Kind, ObjectsOp, Op, PodStatusOp, Trace};

pub mod format {
    #![doc = include_str!("../TRACES.md")]
}

/// The beginning of a text that stands in an error.
fn error_excerpt(text: &str) -> String {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
