//! The metrics of pass-through, and its part of the status.
//!
//! # Locks
//!
//! One, for the last time that the API server did not answer. No other lock is taken under it.

use super::error::PassThroughError;
use super::places::Use;
use super::route::Why;
use axum::response::Response;
use http::StatusCode;
use larder_clock::Timestamp;
use larder_node::{Node, PassThroughReport};
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
    totals: Arc<Totals>,
}

/// What the status shows. Nothing else depends on these numbers, so their order does not matter.
#[derive(Debug, Default)]
struct Totals {
    is_on: AtomicBool,
    answered: AtomicU64,
    refused: AtomicU64,
    limited: AtomicU64,
    unanswered: AtomicU64,
    /// When the API server last did not answer, and why.
    last: Mutex<Option<(Timestamp, String)>>,
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

    /// From now on, requests are passed on.
    pub(super) fn turn_on(&self) {
        self.totals.is_on.store(true, Ordering::Relaxed);
    }

    pub(super) fn passed(&self, why: Why, answer: &Result<Response, PassThroughError>) {
        let code = answer.as_ref().map_or_else(PassThroughError::code, Response::status);
        self.requests.get_or_create(&Labels { why: why.as_str(), code: code.as_u16() }).inc();
        let total = match answer {
            Ok(_) => &self.totals.answered,
            Err(PassThroughError::TooMany { .. }) => &self.totals.limited,
            Err(PassThroughError::Away { .. } | PassThroughError::Late { .. }) => &self.totals.unanswered,
            // These are the client's own.
            Err(
                PassThroughError::TooLarge { .. }
                | PassThroughError::LateBody { .. }
                | PassThroughError::CutBody { .. }
                | PassThroughError::OfPart,
            ) => return,
        };
        total.fetch_add(1, Ordering::Relaxed);
        if answer.is_ok() && matches!(code, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            self.totals.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes why the API server did not answer.
    pub(super) fn unanswered(&self, at: Timestamp, why: String) {
        *self.totals.last.lock() = Some((at, why));
    }

    /// What the status shows; `None` if nothing is passed on.
    pub(crate) fn report(&self, node: &Node) -> Option<PassThroughReport> {
        let totals = &self.totals;
        let [answered, refused, limited, unanswered] =
            [&totals.answered, &totals.refused, &totals.limited, &totals.unanswered]
                .map(|total| total.load(Ordering::Relaxed));
        totals.is_on.load(Ordering::Relaxed).then(|| {
            let mut report = PassThroughReport::default();
            (report.answered, report.refused) = (answered, refused);
            (report.limited, report.unanswered) = (limited, unanswered);
            report.fallbacks = self.fallbacks.get();
            let last = totals.last.lock().clone();
            report.last_error_at = last.as_ref().and_then(|(at, _)| node.wall_time(*at));
            report.last_error = last.map(|(_, why)| why);
            report
        })
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
