//! A whole node, against the API server and the container runtime of larder-testkit.
//!
//! - `containers`: whose a process is, and when its container has ended, on a simulated runtime.
//! - `namespaces`: the namespaces of the node's pods are read when somebody asks, in paused time.
//! - `sleep`: the machine sleeps, over streams in memory and in paused time.
//! - `machine`: what both need.

mod containers;
mod machine;
mod namespaces;
mod sleep;
