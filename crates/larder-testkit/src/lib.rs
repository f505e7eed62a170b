#![doc(test(attr(deny(warnings))))]
//! Fakes that speak the real protocols, for larder's tests, its demo and its simulator.
//!
//! - [`api_server`]: a Kubernetes API server on loopback, with faults on command.
//! - [`cri_runtime`]: a container runtime that speaks CRI on a Unix socket, with faults on command.
//! - [`cluster`]: both with a kubelet between them, and pods that start, crash and restart.
//! - [`proxy`]: a proxy in front of the API server, with faults on command.
//! - [`objects`]: short ways to write pods, Secrets and `ConfigMap`s.
//! - [`tokens`]: service-account tokens, good and forged.
//! - [`poll_until`]: waiting for a condition with a deadline.

pub mod api_server;
pub mod cluster;
mod connection;
pub mod cri_runtime;
pub mod objects;
mod poll;
pub mod proxy;
pub mod tokens;

pub use poll::{NotMet, poll_until};
