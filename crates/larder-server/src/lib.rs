#![doc(test(attr(deny(warnings))))]
//! The local API of larder over a Unix socket: what this node holds, each answer with its freshness.
//!
//! | path | answer |
//! | --- | --- |
//! | `/api/v1/{pods,secrets,configmaps,nodes}` | a list in all namespaces, as the Kubernetes API has it |
//! | `/api/v1/namespaces/NS/{pods,secrets,configmaps}[/NAME]` | a list, or one object |
//! | `/api/v1/nodes/NAME` | this node |
//! | `/larder/v1/status`, with `?objects` | sources, the age of each, counts, what is degraded; and each object |
//! | `/larder/v1/objects/{secrets,configmaps}[/NS/NAME]` | metadata and freshness, without data |
//! | `/larder/v1/pods` | what the runtime says of every pod |
//! | `/larder/v1/pods/UID/status`, `/larder/v1/namespaces/NS/pods/NAME/status` | what it says of one |
//! | the same with `?newerThan=TIME&timeout=30s` | ... as of a time after `TIME` (RFC 3339, nanoseconds) |
//! | `/livez`, `/readyz`, each with `?verbose` | the checks |
//! | `/metrics` | OpenMetrics or Prometheus text, as `Accept` asks |
//!
//! Lists take `labelSelector` and `fieldSelector` (`metadata.name`, `metadata.namespace`); reads take `timeout` (10 s if it
//! is not given), after which what is held is served as stale. A read of a Secret or `ConfigMap` with `?pod=NAME` is made for
//! that pod of its namespace: only what that one refers to, whose references are kept until the answer.
//!
//! # Guarantees
//!
//! - *Age*: every answer with an object has `Age` and [`Cache-Status`](cache_status).
//! - *Absent is not unknown*: 404 for an object is its source's word; what is not known yet is 503 with `Retry-After`. A
//!   list that lacks what is not known is 503 too, unless `?partial=true` asks for it with warnings.
//! - *Verbatim*: an object is sent as the API server sent it, byte by byte.
//! - *Identity from the kernel*: the socket is open to all, its answers to root and the daemon's own user.
//! - *Bounded*: connections, requests at once, the time to send a request, the time to take an answer, and every wait, alike
//!   over HTTP/1.1 and HTTP/2. Clients that are idle or slow keep nobody out.
//! - *Status*: every error but those of the health checks is a `Status` of the Kubernetes API in JSON ([`ErrorBody`]).
//! - *Nothing over TCP*: no answer of the metrics' address names the node, a server, a user or an object, or quotes an error.
//!
//! # Limits
//!
//! JSON alone. The socket speaks HTTP/1.1, and HTTP/2 with a client that begins with it ("prior knowledge"); the metrics' address
//! speaks HTTP/1.1, and has no TLS.
//!
//! # Cancel safety
//!
//! A client that goes away drops its read or its wait, which leaves nothing behind.

mod activity;
mod admission;
mod app;
mod body;
pub mod cache_status;
mod caller;
mod connection;
mod error;
mod events;
mod freshness;
mod health;
mod kube_api;
mod limits;
mod local_api;
mod metrics;
mod params;
mod serve;
mod socket;
mod stall;
pub mod wire;

pub use error::ErrorBody;
pub use limits::{LimitError, Limits};
pub use params::parse_duration;
pub use serve::{ServeError, ServeOptions, Server};
pub use socket::SocketError;
