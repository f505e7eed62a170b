//! The metrics that are counted when something happens. `node/gauges` adds those that are computed at each scrape.
//!
//! No label holds the name of an object, a pod or a namespace: their number is not bounded, and not everyone who may scrape may
//! know the name of a Secret.

mod runtime;

pub(crate) use runtime::{Observers, RuntimeMetrics};

use crate::answer::Answer;
use crate::error::ReadError;
use larder_clock::Timestamp;
use larder_objects::{Outcome, ReadKind, Source};
use larder_pleg::PlegObserver;
use larder_resource::{Kind, KubeObject, ObjectKind};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReadLabels {
    kind: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FetchLabels {
    kind: &'static str,
    read: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FetchKindLabels {
    kind: &'static str,
    read: &'static str,
}

/// Seconds from 1 ms to 16 s: an API server's usual answers, up to larder's own deadline.
const SECONDS: [f64; 15] =
    [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384];

fn seconds_histogram() -> Histogram {
    Histogram::new(SECONDS)
}

/// All metrics that are counted when something happens; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    reads: Family<ReadLabels, Counter>,
    fetches: Family<FetchLabels, Counter>,
    fetch_seconds: Family<FetchKindLabels, Histogram, fn() -> Histogram>,
    /// Versions that went back, as noticed outside of the stores. A scrape adds those that the stores noticed.
    went_back: Family<KindLabel, Counter>,
    pleg: PlegMetrics,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self {
            reads: Family::default(),
            fetches: Family::default(),
            fetch_seconds: Family::new_with_constructor(seconds_histogram),
            went_back: Family::default(),
            pleg: PlegMetrics::new(),
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "larder_object_reads",
            "Reads of objects, by what came of them: hit (held, and fresh), miss (not held, and fetched), refreshed (held, and \
             fetched again), stale (the last known), negative (known to be absent, without a fetch), absent (asked for, and \
             not there), not_referenced, unknown",
            self.reads.clone(),
        );
        registry.register(
            "larder_object_fetches",
            "Fetches of objects, by kind of read (consistent, or from the API server's cache) and result",
            self.fetches.clone(),
        );
        registry.register_with_unit(
            "larder_object_fetch_duration",
            "How long fetches of objects took, by kind of read",
            Unit::Seconds,
            self.fetch_seconds.clone(),
        );
        for (name, help, histogram) in [
            ("larder_pleg_relist_duration", "How long lists of all pods took", &self.pleg.relist),
            ("larder_pleg_relist_interval", "The time between two lists of all pods", &self.pleg.interval),
            ("larder_pleg_pod_relist_duration", "How long lists of a single pod took", &self.pleg.pod_relist),
            ("larder_pleg_inspection_duration", "How long inspections of a pod took", &self.pleg.inspection),
        ] {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        }
    }

    /// How often the version of an object of this kind went back, as noticed outside of its store.
    pub(crate) fn versions_went_back(&self, kind: ObjectKind) -> u64 {
        let label = KindLabel { kind: kind.resource() };
        self.went_back.get(&label).map_or(0, |counter| counter.get())
    }

    /// The metrics of the PLEG.
    pub(crate) fn of_pleg(&self) -> Arc<dyn PlegObserver> {
        Arc::new(self.pleg.clone())
    }

    /// The metrics of one kind.
    pub(crate) fn of(&self, kind: Kind) -> ObjectMetrics {
        ObjectMetrics { kind: kind.resource(), all: self.clone() }
    }
}

/// The metrics of the objects of one kind.
#[derive(Clone, Debug)]
pub(crate) struct ObjectMetrics {
    kind: &'static str,
    all: Metrics,
}

impl ObjectMetrics {
    /// Counts a read that began at `began`.
    pub(crate) fn read(&self, result: &Result<Answer<KubeObject>, ReadError>, began: Timestamp) {
        let result = match result {
            Ok(answer) => match answer.outcome {
                _ if !answer.freshness.is_fresh() => "stale",
                Outcome::Fetched => "miss",
                Outcome::Refreshed => "refreshed",
                Outcome::Held | Outcome::FetchFailed => "hit",
            },
            Err(ReadError::NotFound { freshness, .. }) if !freshness.is_fresh() => "stale",
            Err(ReadError::NotFound { freshness, .. })
                if freshness.source == Source::Watch || freshness.confirmed_at < began =>
            {
                "negative"
            }
            Err(ReadError::NotFound { .. }) => "absent",
            Err(error) if error.is_not_referenced() => "not_referenced",
            Err(_) => "unknown",
        };
        self.all.reads.get_or_create(&ReadLabels { kind: self.kind, result }).inc();
    }

    pub(crate) fn version_went_back(&self) {
        self.all.went_back.get_or_create(&KindLabel { kind: self.kind }).inc();
    }

    /// Counts a fetch that ended after `took`. The result is `ok`, `not_found` or the class of the error.
    pub(crate) fn fetched(&self, read: ReadKind, result: &'static str, took: Duration) {
        let read = match read {
            ReadKind::Consistent => "consistent",
            ReadKind::ApiServerCache => "cached",
        };
        self.all.fetches.get_or_create(&FetchLabels { kind: self.kind, read, result }).inc();
        self.all.fetch_seconds.get_or_create(&FetchKindLabels { kind: self.kind, read }).observe(took.as_secs_f64());
    }
}

/// Durations in the PLEG. The names are the kubelet's, with larder's prefix.
#[derive(Clone, Debug)]
struct PlegMetrics {
    relist: Histogram,
    interval: Histogram,
    pod_relist: Histogram,
    inspection: Histogram,
}

impl PlegMetrics {
    fn new() -> Self {
        Self {
            relist: seconds_histogram(),
            interval: seconds_histogram(),
            pod_relist: seconds_histogram(),
            inspection: seconds_histogram(),
        }
    }
}

impl PlegObserver for PlegMetrics {
    fn relist_duration(&self, duration: Duration) {
        self.relist.observe(duration.as_secs_f64());
    }

    fn relist_interval(&self, interval: Duration) {
        self.interval.observe(interval.as_secs_f64());
    }

    fn pod_relist_duration(&self, duration: Duration) {
        self.pod_relist.observe(duration.as_secs_f64());
    }

    fn inspection_duration(&self, duration: Duration, _succeeded: bool) {
        self.inspection.observe(duration.as_secs_f64());
    }

    /// [`RuntimeMetrics`] measures it.
    fn event_answered(&self, _: Duration) {}
}
