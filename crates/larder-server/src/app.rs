//! The routes: which handler answers which path, and who may ask.

use crate::access::{Access, Guarded, PodsOf, Policies};
use crate::audit::{Asked, Audit};
use crate::caller::Caller;
use crate::error::ApiError;
use crate::freshness::generated;
use crate::listen::Listen;
use crate::metrics::ServerMetrics;
use crate::params::Params;
use crate::status::Status;
use crate::usage::Usage;
use crate::{events, health, kube_api, local_api, whois};
use axum::extract::{FromRequestParts, MatchedPath, Path, Query, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Router};
use http::{Method, request};
use larder_clock::Jitter;
use larder_node::{Node, Report, ReportedNames};
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The state that all handlers share.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) node: Guarded,
    pub(crate) policy: Arc<Policies>,
    pub(crate) audit: Arc<Audit>,
    status: Status,
    pub(crate) registry: Registry,
    pub(crate) metrics: ServerMetrics,
    /// Spreads the ends of watches.
    pub(crate) jitter: Jitter,
    /// Cancelled when the daemon ends, which ends all waits.
    pub(crate) ending: CancellationToken,
}

pub(crate) type Shared = State<Arc<App>>;

impl App {
    pub(crate) fn new(
        node: Arc<Node>,
        policy: Policies,
        audit: Audit,
        listen: Option<&Arc<Listen>>,
        ending: CancellationToken,
    ) -> Arc<Self> {
        let mut registry = Registry::default();
        node.register_metrics(&mut registry);
        let metrics = ServerMetrics::new(&mut registry);
        if let Some(listen) = listen {
            listen.register_metrics(&mut registry);
        }
        let (policy, audit) = (Arc::new(policy), Arc::new(audit));
        let status = Status::new(&node, &policy, &audit, listen);
        status.register_metrics(&mut registry);
        let (node, jitter) = (Guarded::new(node), Jitter::default());
        Arc::new(Self { node, policy, audit, status, registry, metrics, jitter, ending })
    }

    /// The status of larder, with these names of objects alone, and if asked for with a line for each object.
    pub(crate) fn report(&self, names: &dyn ReportedNames, with_objects: bool) -> Report {
        let mut report = self.status.report(names, with_objects);
        if let Some(listen) = &mut report.listen {
            listen.pass_through = self.metrics.pass_through.report(self.node.for_larder());
        }
        report
    }
}

/// The routes of the socket: the whole local API.
pub(crate) fn local(app: &Arc<App>) -> Router {
    Router::new()
        .merge(kube_api::routes())
        .nest("/node", kube_api::routes().layer(Extension(PodsOf::Node)))
        .route("/pods", get(kube_api::pods))
        .route("/larder/v1/status", get(local_api::status))
        .route("/larder/v1/objects/{kind}", get(local_api::list_entries))
        .route("/larder/v1/objects/{kind}/{namespace}/{name}", get(local_api::get_entry))
        .route("/larder/v1/pods", get(local_api::list_pod_statuses))
        .route("/larder/v1/events", get(events::lifecycle))
        .route("/larder/v1/pods/{uid}/status", get(local_api::pod_status))
        .route("/larder/v1/namespaces/{namespace}/pods/{name}/status", get(local_api::pod_status_by_name))
        .route("/larder/v1/whois", get(whois::whois))
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(unknown_path)
        .layer(middleware::from_fn_with_state(Arc::clone(app), authorize))
        .layer(middleware::map_response(generated))
        .layer(middleware::from_fn_with_state(Arc::clone(app), observe))
        .with_state(Arc::clone(app))
}

/// The routes of the metrics' address. Anybody may reach them, so no answer names the node, a server, a user or an object.
pub(crate) fn open(app: &Arc<App>) -> Router {
    Router::new()
        .route("/livez", get(health::livez_without_reasons))
        .route("/readyz", get(health::readyz_without_reasons))
        .route("/metrics", get(health::metrics_for_all))
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(unknown_path)
        .layer(middleware::map_response(generated))
        .layer(middleware::from_fn_with_state(Arc::clone(app), observe))
        .with_state(Arc::clone(app))
}

/// The routes of clients of the TLS listener that may not read.
pub(crate) fn strangers(app: &Arc<App>) -> Router {
    Router::new()
        .route("/livez", get(health::livez_without_reasons))
        .route("/readyz", get(health::readyz_without_reasons))
        .method_not_allowed_fallback(authorize_nobody)
        .fallback(authorize_nobody)
        .layer(middleware::map_response(generated))
        .layer(middleware::from_fn_with_state(Arc::clone(app), observe))
        .with_state(Arc::clone(app))
}

async fn unknown_path(request: Request) -> ApiError {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return method_not_allowed(request).await;
    }
    ApiError::UnknownPath(request.uri().path().chars().take(200).collect())
}

async fn method_not_allowed(request: Request) -> ApiError {
    ApiError::only_reads(request.method())
}

/// Refuses who may see nothing, and notes what anybody else may see, for the [readers](crate::access::Reader) of the handlers. Counts the bytes of
/// the answer as held for the caller until it takes them.
async fn authorize(State(app): Shared, mut request: Request, next: Next) -> Response {
    match Access::of(&app, caller_of(&request), Asked::of(&request)) {
        Ok(access) => {
            request.extensions_mut().insert(access);
            let usage = request.extensions().get::<Usage>().cloned();
            let response = next.run(request).await;
            match usage {
                Some(usage) => usage.hold_answer(response),
                None => response,
            }
        }
        Err(refusal) => refusal.into_response(),
    }
}

async fn authorize_nobody(State(app): Shared, request: Request) -> ApiError {
    let caller = caller_of(&request);
    match caller {
        // Its refusal was noted with the token's.
        Caller::RefusedToken(_) => {}
        Caller::Host { .. }
        | Caller::Container(_)
        | Caller::Unresolved { .. }
        | Caller::Certificate { .. }
        | Caller::Refused { .. }
        | Caller::Token(_)
        | Caller::Anonymous => app.refused_caller(&caller, Asked::of(&request), "none"),
    }
    caller.refusal()
}

fn caller_of(request: &Request) -> Caller {
    request.extensions().get().cloned().unwrap_or(Caller::Anonymous)
}

/// Counts each request, and measures its duration, by its route.
async fn observe(State(app): Shared, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let began = app.node.clock().now();
    let response = next.run(request).await;
    let took = app.node.clock().now().saturating_duration_since(began);
    app.metrics.request(route.as_deref().unwrap_or("other"), response.status(), took);
    response
}

/// The parameters of a request; 400 if they cannot be parsed.
impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, state: &S) -> Result<Self, ApiError> {
        let query = parts.uri.query().unwrap_or_default().to_owned();
        match Query::<Vec<(String, String)>>::from_request_parts(parts, state).await {
            // Of a parameter that is given twice the first counts, as at the API server.
            Ok(Query(query)) => Ok(Self::new(query.into_iter().rev().collect())),
            Err(error) => Err(ApiError::bad_parameter("query", &query, format!("cannot be parsed: {error}"))),
        }
    }
}

/// The names in a path; 400 if one cannot be decoded.
pub(crate) struct Names<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Names<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, state: &S) -> Result<Self, ApiError> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(names)) => Ok(Self(names)),
            Err(error) => Err(ApiError::bad_path(parts.uri.path(), &error)),
        }
    }
}

#[cfg(test)]
mod tests;
