//! What is read off a node's larder at each scrape, beside what is counted as it happens.

use super::Node;
use crate::report::{Report, SourceState};
use larder_pleg::PlegStats;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::{Arc, Weak};

impl Node {
    /// Adds what this node's larder counts and measures to a registry of metrics.
    pub fn register_metrics(self: &Arc<Self>, registry: &mut Registry) {
        self.metrics.register(registry);
        if let Some(runtime) = &self.runtime {
            runtime.metrics().register(registry);
        }
        registry.register_collector(Box::new(Gauges(Arc::downgrade(self))));
    }
}

/// Weak, so that a registry does not keep a node alive.
struct Gauges(Weak<Node>);

impl fmt::Debug for Gauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gauges")
    }
}

impl Collector for Gauges {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(node) = self.0.upgrade() else { return Ok(()) };
        let mut out = Out(encoder);
        let report = node.report();
        held(&mut out, &report)?;
        sources(&mut out, &report)?;
        match &node.runtime {
            Some(runtime) => pleg(&mut out, &runtime.stats()),
            None => Ok(()),
        }
    }
}

type Labels<'a> = &'a [(&'a str, &'a str)];

/// Where metrics are written to.
struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    fn write<M: EncodeMetric>(
        &mut self,
        (name, help, unit): (&str, &str, Option<&Unit>),
        kind: MetricType,
        values: impl IntoIterator<Item = (Vec<(&'static str, String)>, M)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, unit, kind)?;
        for (labels, value) in values {
            let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let labels: Labels<'_> = &labels;
            value.encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.write((name, help, None), MetricType::Gauge, [(Vec::new(), ConstGauge::new(value))])
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.write((name, help, None), MetricType::Counter, [(Vec::new(), ConstCounter::new(value))])
    }

    fn gauges(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Vec<(&'static str, String)>, u64)>,
    ) -> fmt::Result {
        let values = values.into_iter().map(|(labels, value)| (labels, ConstGauge::new(value)));
        self.write((name, help, None), MetricType::Gauge, values)
    }
}

fn held(out: &mut Out<'_>, report: &Report) -> fmt::Result {
    let counts = &report.counts;
    out.gauge("larder_pods", "Pods of this node", counts.pods)?;
    out.gauge("larder_pods_registered", "Pods whose objects are held", counts.pods_registered)?;
    let of_kind = |kind: &'static str, counts: &crate::report::ObjectCounts| {
        [
            ("fresh", counts.fresh),
            ("due", counts.due),
            ("stale", counts.stale),
            ("absent", counts.absent),
            ("unknown", counts.unknown),
        ]
        .map(|(state, count)| (vec![("kind", kind.to_owned()), ("state", state.to_owned())], count))
    };
    let objects = [of_kind("secrets", &counts.secrets), of_kind("configmaps", &counts.config_maps)];
    out.gauges(
        "larder_objects",
        "Objects that pods of this node refer to, by kind and state",
        objects.into_iter().flatten(),
    )?;
    let containers = [
        ("running", counts.containers.running),
        ("exited", counts.containers.exited),
        ("created", counts.containers.created),
        ("unknown", counts.containers.unknown),
    ];
    let containers = containers.map(|(state, count)| (vec![("state", state.to_owned())], count));
    out.gauges("larder_containers", "Containers as the runtime has them, by state", containers)?;
    out.gauge("larder_pod_status_open_waits", "Newer-than waits that are open", counts.open_waits)
}

fn sources(out: &mut Out<'_>, report: &Report) -> fmt::Result {
    let label = |name: &str| vec![("source", name.to_owned())];
    let asked = report.sources.iter().filter(|source| !matches!(source.state, SourceState::Off | SourceState::Idle));
    let up = asked.map(|source| (label(&source.name), u64::from(source.state == SourceState::Ok)));
    out.gauges("larder_source_up", "Whether a source answers", up)?;
    let ages =
        report.sources.iter().filter_map(|source| Some((label(&source.name), ConstGauge::new(source.age_seconds?))));
    let name = ("larder_source_age", "How long ago a source last said anything", Some(&Unit::Seconds));
    out.write(name, MetricType::Gauge, ages)?;
    let help = "Whether something is not as it should be; larder status says what";
    out.gauge("larder_degraded", help, u64::from(!report.degraded.is_empty()))?;
    out.gauges("larder_build_info", "The version, as a label", [(vec![("version", report.version.clone())], 1)])
}

fn pleg(out: &mut Out<'_>, stats: &PlegStats) -> fmt::Result {
    for (name, help, count) in [
        ("larder_pleg_relists", "Lists of all pods that the runtime answered", stats.relists),
        ("larder_pleg_relists_failed", "Lists of all pods that failed", stats.relists_failed),
        ("larder_pleg_pod_relists", "Lists of a single pod that the runtime answered", stats.pod_relists),
        ("larder_pleg_pod_relists_failed", "Lists of a single pod that failed", stats.pod_relists_failed),
        ("larder_pleg_inspections", "Inspections of a pod that succeeded", stats.inspections),
        ("larder_pleg_inspections_failed", "Inspections of a pod that failed", stats.inspections_failed),
        ("larder_pleg_discard_events", "Events that subscribers missed", stats.events_discarded),
        ("larder_runtime_events", "Events of the runtime that arrived", stats.runtime_events),
        (
            "larder_runtime_event_streams_lost",
            "Times that the runtime's event stream was lost",
            stats.event_streams_lost,
        ),
        (
            "larder_runtime_event_streams_opened",
            "Times that the runtime's event stream was opened",
            stats.event_streams_opened,
        ),
        (
            "larder_runtime_events_without_pod",
            "Events that did not say their pod: it was looked up, or all pods were listed",
            stats.runtime_events_without_pod,
        ),
        (
            "larder_pleg_queue_overflows",
            "Requests for a single pod that found the queue full: all pods were listed",
            stats.queue_overflows,
        ),
    ] {
        out.counter(name, help, count)?;
    }
    for (name, help, count) in [
        (
            "larder_pleg_queue_depth",
            "Pods that wait for a list of their own",
            stats.queue_depth.try_into().unwrap_or(0),
        ),
        ("larder_pleg_inspections_open", "Pods that are inspected, or wait for it", stats.inspections_open),
        ("larder_pleg_inspections_held", "Pods whose inspection failed and is tried again", stats.inspections_held),
    ] {
        out.gauge(name, help, count)?;
    }
    out.gauge("larder_running_pods", "Pods with a running sandbox", stats.running_pods)?;
    let is_open = u64::from(stats.event_stream_open);
    out.gauge("larder_runtime_event_stream_open", "Whether the runtime's events are followed right now", is_open)
}
