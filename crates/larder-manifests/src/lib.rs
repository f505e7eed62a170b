#![doc(test(attr(deny(warnings))))]
//! A folder of manifests as the source of pods, Secrets and ConfigMaps, for a node without a cluster.
//!
//! Files in YAML or JSON, as for static pods and `kubectl apply`, several documents a file. [`ManifestSource`] reads them,
//! follows their changes, and hands out the same [`SourceReader`](larder_resource::SourceReader) as the API server's sources,
//! and a [`Fetch`](larder_objects::Fetch) of Secrets and ConfigMaps for the stores.
//!
//! # Guarantees
//!
//! - *Each document on its own*: a bad one is reported with file, line and number, the good ones around it are served.
//! - *Nothing vanishes by a slip*: while a file cannot be read, or one of its documents cannot, what the file had before and
//!   lacks now is served on as stale, and the report says so. A file that has become empty is
//!   believed at the second look. What is no regular file, such as a FIFO or a directory, cannot be read; a file that is gone is
//!   gone.
//! - *Absent is what is in no manifest*: while there is one that cannot be read and may hold a Secret or a ConfigMap, those
//!   that are in none are not known, with the reason. For pods, [`BrokenPods`] says so.
//! - *First wins*: of two objects of the same kind, namespace and name, the one in the file whose name sorts first, then the
//!   one further up, is served; the other is reported.
//! - *Versions*: every change of an object has a `resourceVersion` higher than all before, also after a restart if the wall
//!   clock did not go back. Versions follow the clock ([`version_at`]).
//! - *Few reports*: of a file with many problems the first ten are reported, and the others counted.
//! - *Quiet*: no report quotes a Secret, nor a document of which it is not known that it is none.
//!
//! # Limits
//!
//! Only files ending in `.yaml`, `.yml` or `.json`, not in folders below; names that begin with a dot are passed over, so
//! that a mounted ConfigMap's `..data` works: its files are links, whose change is noticed. What a link to elsewhere points
//! to is looked at only at the regular rescan. Text of a Secret passes through the YAML library's buffers, which are not
//! overwritten.
//!
//! # Differs from kubelet
//!
//! A pod keeps its name (kubelet appends the node's), and its UID is larder's own hash of what the kubelet hashes, so the two
//! differ unless the manifest gives `metadata.uid`. The kubelet takes pods alone, one a file, and files of any name.
//!
//! # Example
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use larder_clock::MonotonicClock;
//! use larder_manifests::{ManifestOptions, ManifestSource};
//! use tokio_util::sync::CancellationToken;
//!
//! let folder = tempfile::tempdir().unwrap();
//! let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: i}]}\n";
//! std::fs::write(folder.path().join("web.yaml"), pod).unwrap();
//!
//! let source = ManifestSource::new(folder.path(), "node-1", MonotonicClock::new(), ManifestOptions::default())?;
//! let reader = source.reader();
//! let cancelled = CancellationToken::new();
//! let run = tokio::spawn(source.run(cancelled.clone()));
//!
//! assert!(reader.pods().synced().await);
//! let web = reader.pods().get("default", "web").unwrap();
//! assert_eq!(web.node_name(), "node-1");
//! assert!(reader.problems().is_empty());
//! cancelled.cancel();
//! run.await.unwrap();
//! # Ok::<(), larder_manifests::ManifestError>(()) }).unwrap();
//! ```

mod broken_pods;
mod document;
mod error;
mod fetch;
mod folder;
mod hash;
mod object;
mod source;
mod state;

#[doc(hidden)]
pub use broken_pods::{Broken, BrokenPods};
pub use document::manifest_meaning;
pub use error::{ManifestError, Problem};
pub use fetch::ManifestFetch;
pub use source::{ManifestOptions, ManifestReader, ManifestSource};
pub use state::version_at;
