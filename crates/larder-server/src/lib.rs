#![doc(test(attr(deny(warnings))))]
//! The local API of larder over a Unix socket: the objects and pods of this node, each answer with its freshness.
//!
//! | path | answer |
//! | --- | --- |
//! | `/api/v1/{pods,secrets,configmaps,nodes}` | a list or watch in all namespaces, as in the Kubernetes API |
//! | `/api/v1/namespaces/NS/{pods,secrets,configmaps}[/NAME]` | a list or watch, or one object |
//! | `/api/v1/nodes/NAME` | this node |
//! | `/api`, `/apis`, `/api/v1`, `/apis/GROUP/v1` | discovery, plain and aggregated |
//! | `/version`, `/openapi/v3`, `/openapi/v3/…` | those of the cluster |
//! | `POST /apis/{authorization,authentication}.k8s.io/v1/selfsubject…` | reviews of the caller's own rights |
//! | `/larder/v1/status`, with `?objects` | sources and their ages, counts, and what is degraded; with `?objects` each object |
//! | `/larder/v1/objects/{secrets,configmaps}[/NS/NAME]` | metadata and freshness, without data |
//! | `/larder/v1/pods` | every pod, as the runtime reports it |
//! | `/larder/v1/pods/UID/status`, `/larder/v1/namespaces/NS/pods/NAME/status` | one pod, as the runtime reports it |
//! | the same with `?newerThan=TIME&timeout=30s` | waits for a status as of a time after `TIME` (RFC 3339, nanoseconds) |
//! | `/livez`, `/readyz`, with `?verbose` | health; with `?verbose` each check |
//! | `/metrics` | OpenMetrics or Prometheus text, as `Accept` asks |
//!
//! Lists and watches take the parameters of the Kubernetes API ([`ListOptions`](https://kubernetes.io/docs/reference/using-api/)),
//! with the API server's label and field selectors. They come from a [journal](larder_resource::journal) of their kind. Reads take `timeout` (default 10 s), after
//! which larder serves the object that it holds as stale. A read of a Secret or `ConfigMap` with `?pod=NAME` reads only what that pod of
//! its namespace refers to, and keeps the pod's references until the answer.
//!
//! # Guarantees
//!
//! - *Age*: every answer with an object has `Age` and [`Cache-Status`](cache_status).
//! - *Absent is not unknown*: 404 means that the source says so. An object that is not known yet is 503 with `Retry-After`. So is a list
//!   with such objects, unless `?partial=true` asks for the rest of it, with warnings.
//! - *Verbatim*: an object has the bytes that the API server sent.
//! - *Identity from the kernel*: everybody may connect to the socket. The host's root and the daemon's own user see everything, a container sees
//!   [what is its own](larder_policy#without-a-file), and nobody else sees anything.
//! - *Identity from a certificate*: over TLS, only a client with a certificate of the group of admins may read.
//! - *Passed on as the caller, or not at all*: with [`PassThroughOptions`], what larder does not answer a client with a token goes to the API
//!   server with this token, and never with larder's credentials.
//! - *Bounded*: connections, requests at once, the time to send a request, the time to read an answer, and every wait have limits, which
//!   hold for HTTP/1.1 and HTTP/2. Idle and slow clients keep nobody out. Connections, requests, watches and untaken bytes are counted for
//!   each pod, user and client, so that none takes them from another.
//! - *Audited*: each decision on what a caller may see is counted, and has a line where [`AuditOptions`] ask for that.
//! - *Status*: every error except those of the health checks is a `Status` of the Kubernetes API in JSON ([`ErrorBody`]).
//! - *Nothing on the metrics' address*: no answer of it names the node, a server, a user or an object, or quotes an error.
//!
//! # Limits
//!
//! Objects are JSON: as they are, in a `Table`, or their metadata alone (`PartialObjectMetadata`). Answers of 128 KiB and more are
//! compressed (gzip) where the client accepts that. The socket speaks HTTP/1.1, and HTTP/2 with clients that begin with it ("prior knowledge"). The metrics' address
//! speaks HTTP/1.1 without TLS. The TLS listener and the [proxy] speak HTTP/2 and HTTP/1.1, as the handshake chooses.
//!
//! # Cancel safety
//!
//! If a client goes away, larder drops its read or wait, which leaves nothing behind.

mod access;
mod activity;
mod admins;
mod admission;
mod app;
mod audit;
pub mod cache_status;
mod caller;
mod connection;
mod daemon_error;
mod error;
mod events;
mod freshness;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod handshake;
mod health;
mod hop_by_hop;
mod kube_api;
mod limits;
mod listen;
mod local_api;
mod metrics;
mod params;
mod pass_through;
pub mod proxy;
mod request_body;
mod serve;
mod socket;
mod status;
mod token;
mod usage;
mod whois;
pub mod wire;

pub use access::PolicyError;
pub use admins::{AccessError, AccessOptions};
pub use audit::{AuditError, AuditLevel, AuditOptions, UnknownAuditLevel};
pub use daemon_error::DaemonError;
pub use error::ErrorBody;
pub use larder_file::append::AppendError;
pub use larder_tls::TlsOptions;
pub use limits::{LimitError, Limits};
pub use params::parse_duration;
pub use pass_through::{PassThroughOptionError, PassThroughOptions};
pub use serve::{ServeError, ServeOptions, Server};
pub use socket::SocketError;
