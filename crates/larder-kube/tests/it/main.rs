//! The API server as larder sees it, against a server that is scripted answer by answer.
//!
//! - `fake`: the server; in the same process and on tokio's paused time, so that deadlines and pauses cost nothing.
//! - `fetch`: reads of one object.
//! - `node_check`: whose credentials these are, and whether the node is there.
//! - `reflector`: list and watch, and every way in which they go wrong.
//! - `source`: readers and followers.
//! - `connect`: kubeconfigs, TLS and credentials, over real sockets.

mod connect;
mod fake;
mod fetch;
mod node_check;
mod reflector;
mod source;
