//! The client, against a runtime that is told what to answer.

mod calls;
mod connection;
mod conversion;
mod server;
