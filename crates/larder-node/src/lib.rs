#![doc(test(attr(deny(warnings))))]
//! One node's larder.

mod answer;
mod config;
mod error;
mod fetch_log;
mod metrics;
mod objects;
mod report;

pub use answer::{Answer, Outcome};
pub use config::{Cluster, Config, ConfigError, Policy, RuntimeEndpoint};
pub use error::{ReadError, StartError};
pub use objects::ObjectList;
pub use report::{Check, ContainerCounts, Counts, ObjectCounts, Report, SourceReport, SourceState};
pub use larder_kube::ObjectKind;
