#![doc(test(attr(deny(warnings))))]
//! A CRI v1 container runtime (containerd, CRI-O) as a source of pod status.

/// The messages and clients of CRI v1, compiled from the vendored definition (`proto/runtime/v1/api.proto`).
///
/// With the feature `server`, the traits that a fake runtime implements are there too.
pub mod proto {
    #![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
    tonic::include_proto!("runtime.v1");
}
