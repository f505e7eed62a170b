//! The metrics of pass-through.

use super::places::Use;
use super::route::Why;
use http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Words of bounded sets: no name is in them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    why: &'static str,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct PassMetrics {
    requests: Family<Labels, Counter>,
    in_flight: Family<KindLabel, Gauge>,
    fallbacks: Counter,
}

impl PassMetrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "larder_pass_through_requests",
            "Requests that went to the API server with the caller's token, by why larder did not answer them and by the status of the answer",
            metrics.requests.clone(),
        );
        registry.register(
            "larder_pass_through_in_flight",
            "Requests that are passed on, watches among them, and connections for another protocol, such as exec",
            metrics.in_flight.clone(),
        );
        registry.register(
            "larder_pass_through_fallbacks",
            "Requests that larder answered itself because the API server refused them or was away",
            metrics.fallbacks.clone(),
        );
        for to_use in [Use::Request, Use::Upgrade] {
            drop(metrics.in_flight(to_use));
        }
        metrics
    }

    pub(super) fn passed(&self, why: Why, code: StatusCode) {
        self.requests.get_or_create(&Labels { why: why.as_str(), code: code.as_u16() }).inc();
    }

    pub(super) fn fell_back(&self) {
        self.fallbacks.inc();
    }

    pub(super) fn in_flight(&self, to_use: Use) -> Gauge {
        let kind = match to_use {
            Use::Request => "request",
            Use::Upgrade => "upgrade",
        };
        self.in_flight.get_or_create(&KindLabel { kind }).clone()
    }
}
