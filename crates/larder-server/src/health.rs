//! `/livez`, `/readyz` and `/metrics`.

use crate::access::Reader;
use crate::app::{App, Shared};
use crate::error::ApiError;
use crate::params::Params;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use larder_node::Check;
use larder_policy::Document;
use prometheus_client::encoding::{prometheus_text, text};
use std::fmt::Write as _;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether a failed check shows its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reasons {
    /// Shows the reason, which may name nodes and servers and quote their errors.
    Shown,
    /// Shows no reason, as the health paths of the API server.
    Withheld,
}

impl Reasons {
    /// Who does not see all is not told of the rest.
    fn of(reader: &Reader) -> Self {
        if reader.sees_all() { Self::Shown } else { Self::Withheld }
    }
}

/// Whether the daemon is alive. If a check fails, restart the daemon.
pub(crate) async fn livez(reader: Reader, params: Params) -> Response {
    checks("livez", &reader.app().node.liveness(), params.flag("verbose"), Reasons::of(&reader))
}

/// The same on the metrics' address, which anybody may reach.
pub(crate) async fn livez_without_reasons(State(app): Shared, params: Params) -> Response {
    checks("livez", &app.node.liveness(), params.flag("verbose"), Reasons::Withheld)
}

/// Whether the daemon has something to serve.
pub(crate) async fn readyz(reader: Reader, params: Params) -> Response {
    checks("readyz", &reader.app().node.readiness(), params.flag("verbose"), Reasons::of(&reader))
}

/// The same on the metrics' address, which anybody may reach.
pub(crate) async fn readyz_without_reasons(State(app): Shared, params: Params) -> Response {
    checks("readyz", &app.node.readiness(), params.flag("verbose"), Reasons::Withheld)
}

/// Writes the checks as the API server writes its own.
fn checks(path: &str, checks: &[Check], verbose: bool, reasons: Reasons) -> Response {
    let is_fine = checks.iter().all(|check| check.failure.is_none());
    if is_fine && !verbose {
        return "ok".into_response();
    }
    let mut text = String::new();
    for check in checks {
        // Writing to a string cannot fail.
        let _ = match (&check.failure, reasons) {
            (None, _) => writeln!(text, "[+]{} ok", check.name),
            (Some(why), Reasons::Shown) => writeln!(text, "[-]{} failed: {why}", check.name),
            (Some(_), Reasons::Withheld) => writeln!(text, "[-]{} failed: reason withheld", check.name),
        };
    }
    let _ = writeln!(text, "{path} check {}", if is_fine { "passed" } else { "failed" });
    let code = if is_fine { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, text).into_response()
}

/// The metrics, in the OpenMetrics format if the client accepts it, else in the Prometheus text format.
pub(crate) async fn metrics(reader: Reader, headers: HeaderMap) -> Result<Response, ApiError> {
    reader.document(Document::Metrics, "the metrics of larder")?;
    written(reader.app(), &headers)
}

/// The same on the metrics' address.
pub(crate) async fn metrics_for_all(State(app): Shared, headers: HeaderMap) -> Result<Response, ApiError> {
    written(&app, &headers)
}

fn written(app: &App, headers: &HeaderMap) -> Result<Response, ApiError> {
    let mut body = String::new();
    let accepts = |name: &str| {
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        accept.split(',').any(|one| one.trim().starts_with(name))
    };
    let (content_type, written) = if accepts("application/openmetrics-text") {
        (OPEN_METRICS, text::encode(&mut body, &app.registry))
    } else {
        (prometheus_text::CONTENT_TYPE, prometheus_text::encode(&mut body, &app.registry))
    };
    written.map_err(|error| ApiError::Unwritable(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, content_type)], body).into_response())
}
