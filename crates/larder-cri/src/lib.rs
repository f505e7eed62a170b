#![doc(test(attr(deny(warnings))))]
//! A container runtime that speaks CRI v1 (containerd, CRI-O) as a source of pod status.
//!
//! [`CriRuntime`] is a client over the runtime's Unix socket. It lists sandboxes and containers, groups them by pod, and
//! gives the status of each: what the kubelet's `kuberuntime` does to fill its pod status cache. It is the
//! [`Runtime`](larder_pleg::Runtime) that a [`Pleg`](larder_pleg::Pleg) relists. Its socket is named, or `discovery` looks for it.
//!
//! # Guarantees
//!
//! - *Every call ends.* Each has a deadline ([`CriOptions`]), and ends with an error that says what was called, for which
//!   pod, why it failed, and what to do about it where that is known.
//! - *A runtime may come and go.* The connection is made when it is needed and again when it is lost; what fails meanwhile
//!   fails with [`RuntimeError::Unavailable`](larder_pleg::RuntimeError::Unavailable).
//! - *Nothing that a runtime answers brings it down.* What does not say which pod it is of is left out and counted
//!   ([`CriStats`]), a value that is not known reads as unknown, a sandbox or container that vanishes between list and
//!   status is left out.
//! - *A pod is not taken for gone by mistake.* [`pod`](larder_pleg::Runtime::pod) answers that there is none only when
//!   the list of all pods has none.
//!
//! # Limits
//!
//! - Read only: it asks `Version`, `ListPodSandbox`, `ListContainers`, their streaming forms, `PodSandboxStatus`,
//!   `ContainerStatus` and `GetContainerEvents`.
//! - What a container left in its termination message file is not read, as that file is the kubelet's.
//! - Messages above [`CriOptions::max_message_bytes`] are refused; 16 MiB by default, as by the kubelet. The list of all pods is
//!   asked for as a stream (`StreamPodSandboxes`, `StreamContainers`), so its size has no limit but its deadline. A runtime
//!   that has no streaming lists is asked for one answer, and for streams again with the next connection.
//!
//! # Cancel safety
//!
//! A call that is dropped is cancelled at the runtime, and leaves nothing behind.
//!
//! # Example
//!
//! ```
//! use larder_cri::{CriOptions, CriRuntime, parse_endpoint};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let endpoint = parse_endpoint("unix:///run/no-runtime-here/containerd.sock").unwrap();
//! let error = CriRuntime::connect(endpoint, CriOptions::default()).await.unwrap_err();
//! assert!(error.is_unavailable());
//! assert!(error.to_string().contains("is the runtime started?"), "{error}");
//! # });
//! ```
//!
//! # Differs from kubelet
//!
//! Sandboxes and containers that do not say which pod they are of are left out, rather than gathered in a pod without a
//! UID. A pod that a list by label does not find is looked for in the whole list. All differences stand in
//! `docs/differences.md`.

mod channel;
mod client;
mod discovery;
mod endpoint;
mod error;
mod labels;
mod observe;
mod options;

pub use client::{CriRuntime, RuntimeVersion};
pub use discovery::{FoundRuntimes, find_runtimes};
pub use endpoint::{Endpoint, parse_endpoint, well_known_sockets};
pub use error::CriError;
pub use observe::{CriObserver, CriStats};
pub use options::CriOptions;

/// The messages and clients of CRI v1, compiled from the vendored definition (`proto/runtime/v1/api.proto`).
///
/// With the feature `server`, the traits that a fake runtime implements are there too.
pub mod proto {
    #![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
    tonic::include_proto!("runtime.v1");
}
