//! The certificates of a listener in real handshakes, with a time that the test sets.
//!
//! | module | what it shows |
//! | --- | --- |
//! | `files` | which files are made, kept and refused |
//! | `clients` | who a client is |
//! | `renewal` | new certificates while the listener runs |
//! | `harness` | a listener in a folder, its clients, handshakes in memory |

mod clients;
mod files;
mod harness;
mod renewal;
