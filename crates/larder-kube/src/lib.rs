#![doc(test(attr(deny(warnings))))]
//! The Kubernetes API server as the source of a node's pods, of the node itself, and of Secrets and ConfigMaps.
//!
//! No other crate of larder talks to the API server. TLS is rustls, HTTP is hyper.
//!
//! [`KubeClient`] makes [`KubeFetch`] and [`KubeReflectors`] for the stores of `larder-objects`, and is given to [`PodSource`] and
//! [`NodeSource`], which readers see through a [`SourceReader`](larder_resource::SourceReader).
//!
//! # Modules
//!
//! A module calls those below it:
//!
//! ```text
//! fetch             object_reflector, source_reflector   reads; Secrets and ConfigMaps, pods and node kept up to date
//!   │                 └─ list_watch                      the one list-watch loop; freshness
//!   └──────┬──────────────┘
//!        client              pass_through                one request: deadline, one retry after a renewal, its error; requests of others
//!          └─ session ─────────┘                          the current credentials and connections; renews both
//!               ├─ connect ─ kubeconfig, file, tls, proxy    what the configuration says, as TLS and a route
//!               ├─ plugin                                runs the plugin
//!               └─ pool ─ connector                      HTTP/2 and HTTP/1.1 connections, PINGs
//! ```
//!
//! Rules that several modules share: `backoff` (length of a pause), `availability` (when the server is back, all retry
//! within a second), `forbidden_grace` (a 403 soon after a pod's arrival is retried), `options` (every setting; other constants stand in the
//! module that uses them), `error`, `stats`.
//!
//! # Guarantees
//!
//! - *Consistent*: an object is reported missing only after a consistent read, a complete consistent list, or a watch that
//!   continues that list without a gap.
//! - *No false freshness*: a watched object counts as current only while the connection of its watch shows signs of life. How
//!   long a fetched object is fresh is the store's rule.
//! - *Kind to the server*: few connections, one watch for each object or namespace, backoff with jitter that respects `Retry-After`, and
//!   a limit on the requests that start or end at a time.
//! - *Bounded*: every request, connection and pause has a deadline, every response a largest size, every task an owner that
//!   ends it.
//! - *Quiet*: no error, log line or `Debug` shows a credential or the contents of an object.
//!
//! # Limits
//!
//! JSON only. HTTP/2 over TLS only; without HTTP/2 each watch takes a connection. The buffers of TLS and HTTP that a Secret
//! passed through are not overwritten.
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
mod pass_through;
mod plugin;
mod pool;
mod proxy;
mod sent_credentials;
mod session;
mod source_reflector;
mod stats;
mod tls;
mod token_review;

pub use client::{KubeClient, NodeCheck};
pub use connector::{ByteStream, Connecting, Connector};
pub use error::{KubeError, Target};
pub use fetch::KubeFetch;
#[doc(hidden)]
pub use kubeconfig::kubeconfig_meaning;
pub use object_reflector::{KubeReflector, KubeReflectors};
pub use options::KubeOptions;
pub use pass_through::{PassError, PassThrough};
pub use pool::Answer as PassedAnswer;
pub use proxy::{Proxy, ProxyEnvironment};
pub use source_reflector::{NodeSource, PodSource, SourceReflector};
pub use stats::KubeStats;
pub use token_review::TokenUser;
