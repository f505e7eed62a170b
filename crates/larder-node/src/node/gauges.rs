//! The metrics that are computed at each scrape, from the report and the statistics of the caches and sources.
//!
//! `metrics` holds the other metrics, which are counted when something happens.

use super::Node;
use super::sources::Origin;
use super::status::number;
use crate::report::{Keeping, Report, SourceState};
use larder_clock::MachineClocks;
use larder_kube::KubeStats;
use larder_pleg::PlegStats;
use larder_resource::ObjectKind;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::{Arc, Weak};

impl<M: MachineClocks> Node<M> {
    /// Registers all metrics of this node's larder.
    pub fn register_metrics(self: &Arc<Self>, registry: &mut Registry) {
        self.metrics.register(registry);
        if let Some(runtime) = &self.runtime {
            runtime.metrics().register(registry);
        }
        registry.register_collector(Box::new(Gauges(Arc::downgrade(self))));
    }
}

/// Weak, so that a registry does not keep a node alive.
struct Gauges<M: MachineClocks>(Weak<Node<M>>);

impl<M: MachineClocks> fmt::Debug for Gauges<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gauges")
    }
}

impl<M: MachineClocks> Collector for Gauges<M> {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(node) = self.0.upgrade() else { return Ok(()) };
        let mut out = MetricWriter(encoder);
        let report = node.report();
        held(&mut out, &report)?;
        objects(&mut out, &node, &report)?;
        if let Origin::Kube(client, _) = &node.origin {
            api_server(&mut out, &client.stats())?;
        }
        sources(&mut out, &report)?;
        match &node.runtime {
            Some(runtime) => pleg(&mut out, &runtime.stats()),
            None => Ok(()),
        }
    }
}

type Labels<'a> = &'a [(&'a str, &'a str)];

/// Writes metrics in the form of the registry.
struct MetricWriter<'a>(DescriptorEncoder<'a>);

impl MetricWriter<'_> {
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

fn held(out: &mut MetricWriter<'_>, report: &Report) -> fmt::Result {
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
    let objects = counts.objects.iter().flat_map(|(kind, counts)| of_kind(kind.resource(), counts));
    out.gauges("larder_objects", "Objects that pods of this node refer to, by kind and state", objects)?;
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

/// How objects are kept up to date, by kind.
fn objects(out: &mut MetricWriter<'_>, node: &Node<impl MachineClocks>, report: &Report) -> fmt::Result {
    let of = |kind: &str| vec![("kind", kind.to_owned())];
    let kept = report.keeping.iter().flat_map(|keeping| {
        [
            ("watched", keeping.watched),
            ("namespace_watched", keeping.namespace_watched),
            ("polled", keeping.polled),
            ("held", keeping.held),
            ("idle", keeping.idle),
            ("direct", keeping.direct),
        ]
        .map(|(how, count)| (vec![("kind", keeping.kind.clone()), ("kept", how.to_owned())], count))
    });
    out.gauges("larder_objects_kept", "Objects that pods refer to, by kind and how they are kept up to date", kept)?;
    let mut gauge = |name: &str, help: &str, unit: Option<&Unit>, value: fn(&Keeping) -> u64| {
        let values = report.keeping.iter().map(|keeping| (of(&keeping.kind), ConstGauge::new(value(keeping))));
        out.write((name, help, unit), MetricType::Gauge, values)
    };
    gauge("larder_object_watches", "Watches of single objects", None, |keeping| keeping.watches)?;
    gauge("larder_namespace_watches", "Watches of whole namespaces", None, |keeping| keeping.namespace_watches)?;
    let help = "Memory that objects which are held take";
    gauge("larder_objects_held", help, Some(&Unit::Bytes), |keeping| keeping.bytes)?;

    let kinds = ObjectKind::ALL;
    let (mut references, mut oldest) = (Vec::new(), Vec::new());
    for kind in kinds {
        let label = of(kind.resource());
        let all = node.caches.of(kind).snapshot();
        references.push((label.clone(), all.iter().map(|object| number(object.references)).sum()));
        let ages = all.iter().filter_map(|object| object.state.freshness()).map(|freshness| freshness.age(node.now()));
        if let Some(age) = ages.max() {
            oldest.push((label, ConstGauge::new(age.as_secs_f64())));
        }
    }
    out.gauges("larder_object_references", "References of pods to objects", references)?;
    let help = "How long ago the object was confirmed for which that is longest ago";
    out.write(("larder_object_oldest_age", help, Some(&Unit::Seconds)), MetricType::Gauge, oldest)?;

    let mut counters = |name: &str, help: &str, value: &dyn Fn(ObjectKind) -> u64| {
        let values = kinds.map(|kind| (of(kind.resource()), ConstCounter::new(value(kind))));
        out.write((name, help, None), MetricType::Counter, values)
    };
    let stats = |kind| node.caches.of(kind).watch_stats();
    counters("larder_object_watches_started", "Watches that were started, of objects and of namespaces", &|kind| {
        stats(kind).started
    })?;
    counters(
        "larder_object_watches_idle_stops",
        "Watches that were stopped because nobody read their object",
        &|kind| stats(kind).stopped_idle,
    )?;
    counters(
        "larder_object_versions_went_back",
        "Times that a resourceVersion went back and was accepted: the API server's etcd was restored",
        &|kind| node.metrics.versions_went_back(kind) + stats(kind).versions_went_back,
    )?;
    let of_new_references = kinds.into_iter().filter_map(|kind| {
        let count = node.caches.of(kind).new_reference_fetches()?;
        Some((of(kind.resource()), ConstCounter::new(count)))
    });
    let of_new_references: Vec<_> = of_new_references.collect();
    if of_new_references.is_empty() {
        return Ok(());
    }
    let help = "Fetches for the sake of a pod that came to refer to an object which was held already; among larder_object_fetches";
    out.write(("larder_object_new_reference_fetches", help, None), MetricType::Counter, of_new_references)
}

/// Connections to the API server, lists and watches.
fn api_server(out: &mut MetricWriter<'_>, stats: &KubeStats) -> fmt::Result {
    for (name, help, count) in [
        ("larder_api_server_connections", "HTTP/2 connections that are open", stats.connections_open),
        (
            "larder_api_server_streams",
            "Requests on HTTP/2 connections that are open, watches included",
            stats.streams_open,
        ),
        ("larder_api_server_watches", "Watches that are open", stats.watches_open),
    ] {
        out.gauge(name, help, count)?;
    }
    for (name, help, count) in [
        ("larder_api_server_connections_opened", "HTTP/2 connections that were opened", stats.connections_opened),
        ("larder_api_server_connections_failed", "Connections that could not be opened", stats.connections_failed),
        ("larder_api_server_pings_lost", "Connections given up because a PING was not answered", stats.pings_lost),
        (
            "larder_api_server_watches_begun",
            "Watches that were begun, those that went on among them",
            stats.watches_begun,
        ),
        (
            "larder_api_server_streaming_lists_refused",
            "Streaming lists that the server refused: a list and a watch took their place",
            stats.streaming_refused,
        ),
        ("larder_api_server_list_watch_failures", "Lists and watches that failed", stats.failures),
        (
            "larder_api_server_configuration_reads",
            "Times that the kubeconfig, or the service account, and its files were read",
            stats.configuration_reads,
        ),
        (
            "larder_api_server_configuration_changes",
            "Times that they or a plugin's credentials had changed and took effect",
            stats.configuration_changes,
        ),
        (
            "larder_api_server_configuration_failures",
            "Times that they could not be read or used, or that the credential plugin failed",
            stats.configuration_failures,
        ),
        ("larder_api_server_plugin_runs", "Runs of the credential plugin", stats.plugin_runs),
    ] {
        out.counter(name, help, count)?;
    }
    let label = |name, value: &str| vec![(name, value.to_owned())];
    let lists = [("streaming", stats.streaming_lists), ("paged", stats.lists)];
    let lists = lists.map(|(how, count)| (label("how", how), ConstCounter::new(count)));
    let help = "Lists, as the beginning of a watch (streaming) or as requests of their own (paged)";
    out.write(("larder_api_server_lists", help, None), MetricType::Counter, lists)?;
    let relists = [
        ("expired", stats.relists_expired),
        ("went_back", stats.relists_went_back),
        ("unreadable", stats.relists_unreadable),
        ("silent", stats.relists_silent),
        ("failing", stats.relists_failing),
    ];
    let relists = relists.map(|(reason, count)| (label("reason", reason), ConstCounter::new(count)));
    let help = "Lists that took the place of a watch which could not go on, by reason";
    out.write(("larder_api_server_relists", help, None), MetricType::Counter, relists)
}

fn sources(out: &mut MetricWriter<'_>, report: &Report) -> fmt::Result {
    let label = |name: &str| vec![("source", name.to_owned())];
    let asked = report.sources.iter().filter(|source| !matches!(source.state, SourceState::Off | SourceState::Idle));
    let up = asked.map(|source| (label(&source.name), u64::from(source.state == SourceState::Ok)));
    out.gauges("larder_source_up", "Whether a source answers", up)?;
    let ages =
        report.sources.iter().filter_map(|source| Some((label(&source.name), ConstGauge::new(source.age_seconds?))));
    let name = ("larder_source_age", "How long ago a source last said anything", Some(&Unit::Seconds));
    out.write(name, MetricType::Gauge, ages)?;
    out.gauges("larder_build_info", "The version, as a label", [(vec![("version", report.version.clone())], 1)])
}

fn pleg(out: &mut MetricWriter<'_>, stats: &PlegStats) -> fmt::Result {
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
    out.gauge("larder_runtime_event_stream_open", "Whether the runtime's events are followed right now", is_open)?;
    let is_unsupported = u64::from(stats.event_stream_unsupported);
    let help = "Whether the runtime was found to send no events, so that it is listed every period only";
    out.gauge("larder_runtime_event_stream_unsupported", help, is_unsupported)
}
