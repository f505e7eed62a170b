//! What users of the crate see.
//!
//! - `source`: readers and followers of a source.

mod source;
