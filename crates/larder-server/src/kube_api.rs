//! The Kubernetes API, read-only, for what this node holds: get and list of pods, this node, and the Secrets and ConfigMaps
//! that its pods refer to, in JSON.
//!
//! # Limits
//!
//! No watch, no discovery, no tables, no protobuf. `limit`, `continue` and `resourceVersion` are ignored: a list is always whole,
//! and as fresh as its headers say.

use crate::app::{App, Names, Shared};
use crate::body::kubernetes_list;
use crate::error::ApiError;
use crate::freshness::AnswerFreshness;
use crate::params::Params;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderValue, header};
use larder_node::{ObjectKind, ReadError};
use larder_objects::ObjectKey;
use larder_resource::json_of;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// How long a read may take if the client gives no timeout.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The bounds of a timeout that a client gives.
pub(crate) const READ_TIMEOUT_BOUNDS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_mins(1));
/// The most warnings of an incomplete list. The `Status` of a refused list has all of them.
const MOST_WARNINGS: usize = 20;

pub(crate) fn read_timeout(params: &Params) -> Result<Duration, ApiError> {
    params.duration("timeout", READ_TIMEOUT, READ_TIMEOUT_BOUNDS)
}

/// Refuses parameters that do not apply to lists.
fn refuse_for_list(params: &Params) -> Result<(), ApiError> {
    if let Some(pod) = params.text("pod") {
        return Err(ApiError::bad_parameter("pod", pod, "applies to the read of one object, not to a list".to_owned()));
    }
    if params.flag("watch") {
        let problem = "larder does not serve watches yet: list again, or watch the API server";
        return Err(ApiError::MethodNotAllowed(problem.to_owned()));
    }
    Ok(())
}

fn unknown_path(path: &str) -> ApiError {
    ApiError::UnknownPath(path.chars().take(200).collect())
}

/// `/api/v1/{kind}`: a list in all namespaces.
pub(crate) async fn list_all(
    State(app): Shared,
    Names(kind): Names<String>,
    params: Params,
) -> Result<Response, ApiError> {
    match kind.as_str() {
        "nodes" => list_nodes(&app, &params),
        _ => list(&app, &kind, None, &params).await,
    }
}

/// `/api/v1/namespaces/{namespace}/{kind}`: a list in a namespace.
pub(crate) async fn list_in_namespace(
    State(app): Shared,
    Names((namespace, kind)): Names<(String, String)>,
    params: Params,
) -> Result<Response, ApiError> {
    if namespace.is_empty() {
        return Err(unknown_path(&format!("/api/v1/namespaces//{kind}")));
    }
    list(&app, &kind, Some(&namespace), &params).await
}

async fn list(app: &App, kind: &str, namespace: Option<&str>, params: &Params) -> Result<Response, ApiError> {
    refuse_for_list(params)?;
    match (kind, ObjectKind::from_resource(kind)) {
        ("pods", _) => list_pods(app, namespace, params),
        (_, Some(kind)) => list_objects(app, kind, namespace, params).await,
        _ => Err(unknown_path(&format!("/api/v1/{kind}"))),
    }
}

async fn list_objects(
    app: &App,
    kind: ObjectKind,
    namespace: Option<&str>,
    params: &Params,
) -> Result<Response, ApiError> {
    let (labels, fields) = (params.label_selector()?, params.field_selector()?);
    let wanted = |key: &ObjectKey| {
        namespace.is_none_or(|namespace| namespace == key.namespace()) && fields.matches(key.namespace(), key.name())
    };
    let mut list = app.node.list_objects(kind, wanted, read_timeout(params)?).await?;
    let plural = kind.resource();
    let headers = incomplete(plural, &list.unknown, list.items.len(), params.flag("partial"))?;
    list.items.retain(|answer| labels.matches(|key| answer.object.label(key)));
    let freshness = AnswerFreshness::of_all(&list.items);
    let body = kubernetes_list(kind.kind().as_str(), list.items.into_iter().map(|answer| json_of(answer.object)));
    let mut response = json(app, freshness.as_ref(), body.into_body());
    response.headers_mut().extend(headers);
    Ok(response)
}

/// Refuses an incomplete list: a reader would take the missing objects for absent. With `?partial=true` the list is sent, with a
/// warning for each missing object.
fn incomplete(
    plural: &str,
    unknown: &[(ObjectKey, ReadError)],
    known: usize,
    partial: bool,
) -> Result<HeaderMap, ApiError> {
    let mut headers = HeaderMap::new();
    let Some((key, error)) = unknown.first() else { return Ok(headers) };
    if !partial {
        let retry_after = unknown.iter().filter_map(|(_, error)| match error {
            ReadError::Unknown { retry_after, .. } => Some(*retry_after),
            _ => None,
        });
        return Err(ApiError::Incomplete {
            first: (format!("{plural}/{key}"), why(error)),
            total: known + unknown.len(),
            retry_after: retry_after.min().unwrap_or(Duration::from_secs(1)),
            unknown: unknown.iter().map(|(key, error)| (key.to_string(), why(error))).collect(),
        });
    }
    for (_, error) in unknown.iter().take(MOST_WARNINGS) {
        if let Ok(value) = HeaderValue::from_str(&warning(&error.to_string())) {
            headers.append(header::WARNING, value);
        }
    }
    Ok(headers)
}

fn why(error: &ReadError) -> String {
    match error {
        ReadError::Unknown { why, .. } => why.clone(),
        other => other.to_string(),
    }
}

/// A warning as the API server sends it: code 299, no agent, a quoted text.
fn warning(text: &str) -> String {
    let mut value = String::from("299 - \"");
    for c in text.chars() {
        // Writing to a string cannot fail.
        let _ = match c {
            '"' | '\\' => write!(value, "\\{c}"),
            ' '..='~' => write!(value, "{c}"),
            _ => write!(value, "?"),
        };
    }
    value.push('"');
    value
}

fn list_pods(app: &App, namespace: Option<&str>, params: &Params) -> Result<Response, ApiError> {
    let (labels, fields) = (params.label_selector()?, params.field_selector_of_pods()?);
    let list = app.node.list_pods()?;
    let items = list.items.into_iter().filter(|pod| {
        namespace.is_none_or(|namespace| namespace == pod.namespace())
            // larder serves only pods of this node.
            && fields.matches_pod(pod.namespace(), pod.name(), app.node.name())
            && labels.matches(|key| pod.label(key))
    });
    let body = kubernetes_list("Pod", items.map(json_of));
    Ok(json(app, Some(&AnswerFreshness::held(list.freshness, list.why)), body.into_body()))
}

fn list_nodes(app: &App, params: &Params) -> Result<Response, ApiError> {
    refuse_for_list(params)?;
    let (labels, fields) = (params.label_selector()?, params.field_selector()?);
    let (freshness, node) = match app.node.get_node(app.node.name()) {
        Ok(answer) => (AnswerFreshness::of(&answer), Some(answer.object)),
        Err(ReadError::NotFound { freshness, .. }) => (AnswerFreshness::held(*freshness, None), None),
        Err(error) => return Err(error.into()),
    };
    let selected = node.filter(|node| fields.matches("", node.name()) && labels.matches(|key| node.label(key)));
    let body = kubernetes_list("Node", selected.into_iter().map(json_of));
    Ok(json(app, Some(&freshness), body.into_body()))
}

/// `/api/v1/nodes/{name}`.
pub(crate) async fn get_node(State(app): Shared, Names(name): Names<String>) -> Result<Response, ApiError> {
    let answer = app.node.get_node(&name);
    one(&app, answer.map(|answer| (AnswerFreshness::of(&answer), json_of(answer.object))))
}

/// `/api/v1/namespaces/{namespace}/{kind}/{name}`.
pub(crate) async fn get_one(
    State(app): Shared,
    Names((namespace, kind, name)): Names<(String, String, String)>,
    params: Params,
) -> Result<Response, ApiError> {
    if namespace.is_empty() || name.is_empty() {
        return Err(unknown_path(&format!("/api/v1/namespaces/{namespace}/{kind}/{name}")));
    }
    if kind == "pods" {
        let answer = app.node.get_pod(&namespace, &name);
        return one(&app, answer.map(|answer| (AnswerFreshness::of(&answer), json_of(answer.object))));
    }
    let kind = ObjectKind::from_resource(&kind)
        .ok_or_else(|| unknown_path(&format!("/api/v1/namespaces/{namespace}/{kind}")))?;
    let timeout = read_timeout(&params)?;
    let answer = match params.text("pod") {
        Some(pod) => app.node.get_object_for((&namespace, pod), kind, &name, timeout).await,
        None => app.node.get_object(kind, &namespace, &name, timeout).await,
    };
    one(&app, answer.map(|answer| (AnswerFreshness::of(&answer), json_of(answer.object))))
}

fn one(app: &Arc<App>, answer: Result<(AnswerFreshness, bytes::Bytes), ReadError>) -> Result<Response, ApiError> {
    let (freshness, body) = answer.map_err(ApiError::from)?;
    Ok(json(app, Some(&freshness), Body::from(body)))
}

fn json(app: &App, freshness: Option<&AnswerFreshness>, body: Body) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(freshness) = freshness {
        headers.extend(freshness.headers(&app.node));
    }
    response
}
