//! The metrics of the server: requests by route, their duration, connections.

use crate::caller::Caller;
use crate::pass_through::PassMetrics;
use crate::usage::Limit;
use http::StatusCode;
use larder_policy::Rule;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::time::Duration;

/// A route is a pattern such as `/api/v1/namespaces/{namespace}/{kind}`: no name is in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: String,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabel {
    route: String,
}

/// Where a connection comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    /// The local API's socket.
    Socket,
    /// The metrics' address.
    Metrics,
    /// The TLS listener.
    Tls,
}

impl From<Listener> for ListenerLabel {
    fn from(listener: Listener) -> Self {
        let listener = match listener {
            Listener::Socket => "socket",
            Listener::Metrics => "metrics",
            Listener::Tls => "listen",
        };
        Self { listener }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ListenerLabel {
    listener: &'static str,
}

/// Words of bounded sets: no name is in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    subject: &'static str,
    rule: &'static str,
    allowed: &'static str,
}

/// A word of a bounded set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// A word of a bounded set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabel {
    limit: &'static str,
}

/// Requests that were refused because their client uses as much as it may.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refused(Family<LimitLabel, Counter>);

impl Refused {
    pub(crate) fn count(&self, limit: Limit) {
        self.0.get_or_create(&LimitLabel { limit: limit.as_str() }).inc();
    }
}

/// From 100 µs to 3.3 s: answers from the cache, and answers that wait for a fetch.
const SECONDS: [f64; 16] = [
    0.000_1, 0.000_2, 0.000_4, 0.000_8, 0.001_6, 0.003_2, 0.006_4, 0.012_8, 0.025_6, 0.051_2, 0.102_4, 0.204_8,
    0.409_6, 0.819_2, 1.638_4, 3.276_8,
];

fn seconds_histogram() -> Histogram {
    Histogram::new(SECONDS)
}

#[derive(Clone, Debug)]
pub(crate) struct ServerMetrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabel, Histogram, fn() -> Histogram>,
    connections: Family<ListenerLabel, Gauge>,
    evicted: Family<ListenerLabel, Counter>,
    turned_away: Family<ListenerLabel, Counter>,
    decisions: Family<DecisionLabels, Counter>,
    tokens_refused: Family<ReasonLabel, Counter>,
    pub(crate) pass_through: PassMetrics,
    pub(crate) refused: Refused,
    /// Connections of callers who may see nothing.
    pub(crate) foreign: Counter,
    /// Decisions that are in no line of the audit.
    pub(crate) audit_lost: Counter,
}

impl ServerMetrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(seconds_histogram),
            connections: Family::default(),
            evicted: Family::default(),
            turned_away: Family::default(),
            decisions: Family::default(),
            tokens_refused: Family::default(),
            pass_through: PassMetrics::new(registry),
            refused: Refused::default(),
            foreign: Counter::default(),
            audit_lost: Counter::default(),
        };
        registry.register(
            "larder_access_decisions",
            "Decisions on what callers may see, by the kind of the caller and of the rule",
            metrics.decisions.clone(),
        );
        registry.register(
            "larder_tokens_refused",
            "Requests with a service-account token that larder did not take, and answers that ended with their token, by reason",
            metrics.tokens_refused.clone(),
        );
        registry.register(
            "larder_audit_decisions_lost",
            "Decisions that should be in a line of the audit, and are in none",
            metrics.audit_lost.clone(),
        );
        registry.register("larder_http_requests", "Requests, by route and status", metrics.requests.clone());
        registry.register_with_unit(
            "larder_http_request_duration",
            "Duration of requests, waits included, by route",
            Unit::Seconds,
            metrics.seconds.clone(),
        );
        registry.register(
            "larder_http_requests_refused",
            "Requests that larder refused because of what their client uses already, by limit",
            metrics.refused.0.clone(),
        );
        for limit in Limit::ALL {
            drop(metrics.refused.0.get_or_create(&LimitLabel { limit: limit.as_str() }));
        }
        registry.register("larder_http_connections", "Open connections", metrics.connections.clone());
        registry.register(
            "larder_http_connections_evicted",
            "Connections that larder closed to make room, because their clients were idle or slow",
            metrics.evicted.clone(),
        );
        registry.register(
            "larder_http_connections_turned_away",
            "Connections that larder turned away because all open ones were busy",
            metrics.turned_away.clone(),
        );
        // Each listener has its metrics from the start: an alert on a counter needs the zero.
        for listener in [Listener::Socket, Listener::Metrics, Listener::Tls] {
            let label = listener.into();
            drop(metrics.connections.get_or_create(&label));
            drop(metrics.evicted.get_or_create(&label));
            drop(metrics.turned_away.get_or_create(&label));
        }
        registry.register(
            "larder_http_connections_foreign",
            "Connections of callers who may see nothing",
            metrics.foreign.clone(),
        );
        metrics
    }

    pub(crate) fn connection_opened(&self, listener: Listener) {
        self.connections.get_or_create(&listener.into()).inc();
    }

    pub(crate) fn connection_closed(&self, listener: Listener) {
        self.connections.get_or_create(&listener.into()).dec();
    }

    pub(crate) fn evicted(&self, listener: Listener) {
        self.evicted.get_or_create(&listener.into()).inc();
    }

    pub(crate) fn turned_away(&self, listener: Listener) {
        self.turned_away.get_or_create(&listener.into()).inc();
    }

    /// Counts a refused token, by a word of a bounded set.
    pub(crate) fn refused_token(&self, reason: &'static str) {
        self.tokens_refused.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Counts a decision.
    pub(crate) fn decided(&self, caller: &Caller, rule: &Rule, is_allowed: bool) {
        let allowed = if is_allowed { "true" } else { "false" };
        let labels = DecisionLabels { subject: caller.kind(), rule: rule.kind(), allowed };
        self.decisions.get_or_create(&labels).inc();
    }

    pub(crate) fn request(&self, route: &str, code: StatusCode, took: Duration) {
        let labels = RequestLabels { route: route.to_owned(), code: code.as_u16() };
        self.requests.get_or_create(&labels).inc();
        self.seconds.get_or_create(&RouteLabel { route: route.to_owned() }).observe(took.as_secs_f64());
    }
}
