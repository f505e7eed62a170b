//! A whole node, against the API server of larder-testkit.
//!
//! - `namespaces`: the namespaces of the node's pods are read when somebody asks, in paused time.
//! - `sleep`: the machine sleeps, over streams in memory and in paused time.
//! - `machine`: what both need.

mod machine;
mod namespaces;
mod sleep;
