#![doc(test(attr(deny(warnings))))]
//! The Kubernetes API server as a source of this node's pods, of the node itself, and of Secrets and ConfigMaps.
//!
//! The only crate of larder that talks to the API server. TLS is rustls, HTTP is hyper; kubeconfigs and credential plugins mean
//! what client-go takes them for.
//!
//! - [`KubeClient`]: one API server; made from a kubeconfig or the pod's service account.
//! - [`KubeFetch`]: reads of one Secret or ConfigMap, for the stores of `larder-objects`.
//! - [`KubeReflectors`]: a list and watch for each Secret or ConfigMap, or one for a namespace, for the same stores.
//! - [`PodSource`] and [`NodeSource`]: list and watch, what is known is read through a
//!   [`SourceReader`](larder_resource::SourceReader).
//!
//! # Guarantees
//!
//! - *Consistent*: whatever says that an object is missing is a consistent read, a complete list of one, or a watch that
//!   follows on it without a gap.
//! - *No false freshness*: what a watch has brought is confirmed while its connection shows that it is alive, and stale from
//!   when it does not.
//! - *Kind to the server*: few connections, one request for each object, pauses that grow, are random and respect
//!   `Retry-After`, and bounds on how much begins or ends at a time. Every number is a field of [`KubeOptions`].
//! - *Bounded*: every request, connection and pause has a deadline, every answer a largest size, every task an owner that
//!   ends it.
//! - *Quiet*: no error, log line or `Debug` shows what is in an object, nor a credential.
//!
//! # Limits
//!
//! JSON only. HTTP/2 over TLS only; else each watch is a connection. The buffers of TLS and HTTP that a Secret came through
//! are not overwritten.
//!
//! # Example
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use larder_kube::{KubeClient, KubeOptions};
//! use larder_objects::{Fetch, ObjectKey, ReadKind};
//! use larder_resource::ObjectKind;
//! # let server = larder_testkit::api_server::ApiServer::start().await?;
//! # server.store().create(larder_testkit::objects::secret("web", "tls", &[("key", "value")]))?;
//! # let folder = tempfile::tempdir()?;
//! # let kubeconfig = folder.path().join("kubeconfig");
//! # server.write_kubeconfig(&kubeconfig, server.admin_token())?;
//!
//! let client = KubeClient::from_kubeconfig(&kubeconfig, None, KubeOptions::default()).await?;
//! let secrets = client.fetcher(ObjectKind::Secret);
//! let secret = secrets.fetch(&ObjectKey::new("web", "tls"), ReadKind::Consistent).await?;
//! println!("{} is at version {}", secret.name(), secret.resource_version());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! # Ok::<(), std::io::Error>(())
//! ```

mod availability;
mod backoff;
mod client;
mod connect;
mod connector;
mod error;
mod fetch;
mod file;
mod forbidden_grace;
mod kubeconfig;
mod list_watch;
mod object_reflector;
mod options;
mod plugin;
mod pool;
mod proxy;
mod session;
mod source_reflector;
mod stats;
mod tls;

pub use client::{KubeClient, NodeCheck};
pub use connector::{ByteStream, Connecting, Connector};
pub use error::{KubeError, Target};
pub use fetch::KubeFetch;
#[doc(hidden)]
pub use kubeconfig::kubeconfig_meaning;
pub use object_reflector::{KubeReflector, KubeReflectors};
pub use options::KubeOptions;
pub use proxy::{Proxy, ProxyEnvironment};
pub use source_reflector::{NodeSource, PodSource, Reflector};
pub use stats::KubeStats;
