//! Messages between protobuf and JSON.
//!
//! - `golden`: messages that Go has written in both forms
//! - `bad`: bytes that are not what they should be

mod bad;
mod golden;
