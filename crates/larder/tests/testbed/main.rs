//! larder on a real node: the binary with the node's identity, beside a real API server and container runtime.
//!
//! | file | shows |
//! | --- | --- |
//! | `objects.rs` | what pods refer to is served, refreshed, fetched for a new pod, and refused otherwise |
//! | `runtime.rs` | what the runtime says of containers is what larder says, and waits end when it changes |
//! | `access.rs` | what real pods see of larder over the mounted socket |
//! | `tokens.rs` | what real pods see of larder over TLS with tokens of the API server |
//! | `pass_through.rs` | kubectl in a real pod, by its token, works through larder as against the API server |
//! | `kubelet.rs` | what a kubelet on the same runtime says of its pods' containers is what larder says |
//! | `kubectl.rs` | what kubectl prints of larder is what it prints of the API server |
//! | `requests.rs` | unusual requests are answered as the API server answers them |
//! | `clients.rs` | clients that others wrote see through larder what the API server did |
//! | `python.rs` | Python's client reads through `larder proxy`; without a node |
//! | `prometheus.rs` | what Prometheus discovers by larder is what it discovers by the API server |
//! | `schemathesis.rs` | requests made out of the schemas, and wrong ones, are answered with a `Status` at worst |
//! | `outage.rs` | the API server or the runtime is gone, and comes back |
//! | `strategies.rs` | each strategy through each fault of the API server and of the way there |
//! | `start.rs` | starting with what cannot work, and ending |
//!
//! They need root, and are behind the feature `testbed-tests`: `cargo xtask test --only testbed`. Each test that needs
//! a testbed has its own, so they run side by side. Nothing here waits for a fixed time: each look at something is repeated until it
//! is as it should be, or a deadline has passed.

mod access;
mod clients;
mod cluster;
mod daemon;
mod forward;
mod kubectl;
mod kubelet;
mod objects;
mod outage;
mod pass_through;
mod prometheus;
mod python;
mod requests;
mod runtime;
mod schemathesis;
mod start;
mod strategies;
mod tokens;
