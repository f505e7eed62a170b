//! The client and a PLEG on a simulated runtime that speaks the real protocol.
//!
//! - `events`: the event stream, and what can go wrong with it
//! - `discovery`: which of several sockets a runtime answers at
//! - `lists`: lists of all pods, in parts and in one
//! - `odd`: runtimes that answer oddly, as CRI-O by its protocol
//! - `reported`: faults that were reported of the kubelet, each a test
//! - `scale`: a full node, by the count of calls
//! - `faults`: after any sequence of faults, one relist later the cache is what the runtime is

mod bench;
mod discovery;
mod events;
mod faults;
mod lists;
mod node;
mod odd;
mod reported;
mod scale;
