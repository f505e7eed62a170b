//! The work that `cargo xtask versus` measures on larder's caches, the same as `oracle/bench` does on the kubelet's own.
//!
//! Two programs: `speed` tells the nanoseconds of one operation, with the allocator that a program has by default; `memory` tells
//! the bytes of one wait or object, with an allocator that counts. Each runs one operation and prints one line, `{"value":N}`.
//!
//! # Guarantees
//!
//! - *Only what users have*: the caches' public API, the clock of production, a TTL from the node's annotation, pods as the
//!   API server sends them.
//! - *The same work*: the keys, their order, the pods and the number of threads are the originals' driver's.

pub mod command;
pub mod measure;
pub mod objects;
pub mod pod_status;
