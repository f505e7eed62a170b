//! The metrics of the container runtime and of the PLEG. A metric that means the same as one of the kubelet's has its name.

use super::seconds_histogram;
use larder_clock::{Clock as _, MachineClocks, MonotonicClock};
use larder_cri::CriObserver;
use larder_pleg::{ContainerEvent, PlegObserver};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::sync::Arc;
use std::time::Duration;

/// Seconds from a quarter of a millisecond. A runtime and larder need a few milliseconds for one pod, and the buckets are fine
/// enough for a median.
const FINE_SECONDS: [f64; 20] = [
    0.000_25, 0.000_5, 0.001, 0.001_5, 0.002, 0.002_5, 0.003, 0.004, 0.005, 0.006, 0.008, 0.010, 0.015, 0.020, 0.030,
    0.050, 0.100, 0.250, 1.0, 10.0,
];

fn fine_histogram() -> Histogram {
    Histogram::new(FINE_SECONDS)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    call: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// The metrics of the runtime's side.
pub(crate) struct RuntimeMetrics {
    /// How long ago a wall time was, in nanoseconds since the Unix epoch.
    age_of: Box<dyn Fn(i128) -> Duration + Send + Sync>,
    event_latency: Histogram,
    event_answered: Histogram,
    events: Family<KindLabel, Counter>,
    waits: Family<ReasonLabel, Counter>,
    calls: Family<CallLabels, Histogram, fn() -> Histogram>,
}

impl RuntimeMetrics {
    pub(crate) fn new(clock: MonotonicClock<impl MachineClocks>) -> Self {
        Self {
            age_of: Box::new(move |wall| clock.now().saturating_duration_since(clock.from_wall_time(wall))),
            event_latency: seconds_histogram(),
            event_answered: fine_histogram(),
            events: Family::default(),
            waits: Family::default(),
            calls: Family::new_with_constructor(fine_histogram),
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let mut seconds = |name: &str, help: &str, histogram: &Histogram| {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        };
        seconds(
            "larder_evented_pleg_connection_latency",
            "How old the container runtime's events were when they arrived, by its own time",
            &self.event_latency,
        );
        seconds(
            "larder_pleg_event_answer_duration",
            "How long after the arrival of the runtime's event its pod was up to date and its waits were answered",
            &self.event_answered,
        );
        registry.register(
            "larder_runtime_events_by_kind",
            "Events of the container runtime, by kind: created, started, stopped, deleted, unknown",
            self.events.clone(),
        );
        registry.register(
            "larder_pod_status_waits",
            "Waits that have ended, by reason: answered, deadline, ending",
            self.waits.clone(),
        );
        registry.register_with_unit(
            "larder_cri_call_duration",
            "How long calls to the container runtime took, by call and result",
            Unit::Seconds,
            self.calls.clone(),
        );
    }

    /// Counts a wait that ended for this reason.
    pub(crate) fn wait_ended(&self, reason: &'static str) {
        self.waits.get_or_create(&ReasonLabel { reason }).inc();
    }
}

/// Passes the measurements of the PLEG on: lists and inspections to `pleg`, answers to events to `runtime`.
pub(crate) struct Observers {
    pub(crate) pleg: Arc<dyn PlegObserver>,
    pub(crate) runtime: Arc<RuntimeMetrics>,
}

impl PlegObserver for Observers {
    fn relist_duration(&self, duration: Duration) {
        self.pleg.relist_duration(duration);
    }

    fn relist_interval(&self, interval: Duration) {
        self.pleg.relist_interval(interval);
    }

    fn pod_relist_duration(&self, duration: Duration) {
        self.pleg.pod_relist_duration(duration);
    }

    fn inspection_duration(&self, duration: Duration, succeeded: bool) {
        self.pleg.inspection_duration(duration, succeeded);
    }

    fn event_answered(&self, duration: Duration) {
        self.runtime.event_answered.observe(duration.as_secs_f64());
    }
}

impl CriObserver for RuntimeMetrics {
    fn call(&self, name: &'static str, outcome: &'static str, duration: Duration) {
        self.calls.get_or_create(&CallLabels { call: name, result: outcome }).observe(duration.as_secs_f64());
    }

    fn event(&self, event: &ContainerEvent) {
        self.events.get_or_create(&KindLabel { kind: event.kind.as_str() }).inc();
        if event.created_at > 0 {
            self.event_latency.observe((self.age_of)(event.created_at.into()).as_secs_f64());
        }
    }
}
