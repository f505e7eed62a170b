//! The status of the daemon: the report of its node, with the policy file, the audit and the TLS listener.
//!
//! `larder status` and the metric `larder_degraded` show the same report.

use crate::access::Policies;
use crate::audit::Audit;
use crate::listen::Listen;
use larder_node::{EveryName, Node, Report, ReportedNames};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;

/// What makes up the report.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    node: Arc<Node>,
    policy: Arc<Policies>,
    audit: Arc<Audit>,
    listen: Option<Arc<Listen>>,
}

impl Status {
    pub(crate) fn new(
        node: &Arc<Node>,
        policy: &Arc<Policies>,
        audit: &Arc<Audit>,
        listen: Option<&Arc<Listen>>,
    ) -> Self {
        Self {
            node: Arc::clone(node),
            policy: Arc::clone(policy),
            audit: Arc::clone(audit),
            listen: listen.map(Arc::clone),
        }
    }

    /// The report with these names of objects alone, and if asked for with a line for each object.
    pub(crate) fn report(&self, names: &dyn ReportedNames, with_objects: bool) -> Report {
        let mut report = if with_objects { self.node.detailed_report(names) } else { self.node.report_with(names) };
        self.policy.report(&mut report);
        self.audit.report(&mut report);
        if let Some(listen) = &self.listen {
            listen.report(&self.node, &mut report);
        }
        report
    }

    /// Registers whether something is degraded.
    pub(crate) fn register_metrics(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }
}

impl Collector for Status {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Whether something is not as it should be; larder status says what";
        let is_degraded = !self.report(&EveryName, false).degraded.is_empty();
        let metric = encoder.encode_descriptor("larder_degraded", help, None, MetricType::Gauge)?;
        ConstGauge::new(u64::from(is_degraded)).encode(metric)
    }
}
