//! A real node for larder's tests, from ordinary packages: etcd, kube-apiserver, containerd and runc, on loopback.
//!
//! [`Testbed::start`] brings one up in about four seconds, once its programs are built; dropping it, also by a panic,
//! takes down every process, mount and control group of it. What a run leaves that was killed is swept by the next run.
//! Each run has a folder, ports and control groups of its own ([`run_folder`]), so tests run side by side.
//!
//! # Limits
//!
//! There is a kubelet only where a test asks for one; else [`PodRunner`] runs pods of the API server on the runtime when the
//! test says so. There is no scheduler and no controller either; pods name their node, and nothing is garbage collected.
//!
//! It runs containers, so it needs root. Its examples are the tests of the `larder` crate.

pub mod audit;
pub mod beside;
pub mod credentials;
pub mod events;
pub mod image;
pub mod metrics;
pub mod pods;
pub mod pods_api;
pub mod poll;
pub mod process;
pub mod programs;
pub mod proxy;
pub mod python;
pub mod run_folder;
pub mod statistics;
mod testbed;
pub mod unix_http;

pub use pods::{PodRunner, RunningPod};
pub use run_folder::RunFolder;
pub use testbed::{Containerd, Etcd, Options, Testbed};
