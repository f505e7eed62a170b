//! The API server as larder sees it, against a server that is scripted answer by answer, and against a simulated one.
//!
//! - `fake`: the server; in the same process and on tokio's paused time, so that deadlines and pauses cost nothing.
//! - `fetch`: reads of one object.
//! - `node_check`: whose credentials these are, and whether the node is there.
//! - `source_reflector`: the pods of a node and the node: list and watch, and every way in which they go wrong.
//! - `object_reflector`: reflectors of single objects and of namespaces.
//! - `server`: the simulated server, with TLS and HTTP/2, in real time.
//! - `faults`: reflectors against the simulated server, through everything that goes wrong.
//! - `pool`: many watches and reads over few connections.
//! - `pass_through`: requests of others, with their own credentials.
//! - `in_memory`: the simulated server over streams in memory, in paused time: TLS, HTTP/2, frozen and cut connections.
//! - `connect`: kubeconfigs, TLS and credentials, over real sockets.
//! - `session`: servers, certificates and credentials that change; callers that meet a 401 at once.
//! - `plugin`: when credential plugins are run, and what becomes of connections then.
//! - `proxy`: the simulated server behind proxies.

mod connect;
mod fake;
mod faults;
mod fetch;
mod in_memory;
mod node_check;
mod object_reflector;
mod pass_through;
mod plugin;
mod pool;
mod proxy;
mod server;
mod session;
mod source_reflector;
