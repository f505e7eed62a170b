//! The Kubernetes API, read-only, for what this node holds: get, list and watch of pods, this node, the Secrets and `ConfigMap`s
//! that its pods refer to, and the namespaces that they are in, in JSON; discovery; and the reviews of the caller's own rights.
//!
//! Below `/node` there is the same again, with the pods as this node knows them ([`PodsOf`](crate::access::PodsOf)). `/pods` lists these, as the
//! kubelet does.
//!
//! Lists and watches come from the [journal](larder_resource::journal) of their kind, so that a watch goes on where a list ended.
//!
//! # Limits
//!
//! A list is one whole page: `limit` is not needed, and there is no `continue`. A list without `resourceVersion` is answered from
//! what larder holds, and is as fresh as its headers say. The API server would read etcd.

use crate::access::{One, Reader, Seen, SeenJournal};
use crate::app::{App, Names};
use crate::error::ApiError;
use crate::freshness::AnswerFreshness;
use crate::params::Params;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, post};
use http::{HeaderMap, HeaderValue, header};
use larder_node::{ObjectKind, ObjectList, ReadError};
use larder_objects::{ObjectKey, resource_version_order};
use larder_policy::Verb;
use larder_resource::{Kind, json_of_resource};
use options::{ListOptions, Version, Wanted};
use representation::{Representation, Shape, json};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tower::util::MapRequestLayer;
use tower_http::compression::{CompressionLayer, CompressionLevel, Predicate};

mod discovery;
mod documents;
mod options;
mod representation;
mod reviews;
mod watch;

/// How long a read may take if the client gives no timeout.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The shortest timeout that a client may give.
const LEAST_READ_TIMEOUT: Duration = Duration::from_millis(1);
/// The longest time that a read takes, whatever timeout the client gives, as at the API server. client-go gives the time of a
/// watch here too.
const MOST_READ_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a request waits for a version that larder has yet to reach, as at the API server.
const VERSION_TIMEOUT: Duration = Duration::from_secs(3);
/// The most warnings of an incomplete list. The `Status` of a refused list has all of them.
const MOST_WARNINGS: usize = 20;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api", get(discovery::api))
        .route("/apis", get(discovery::apis))
        .route("/apis/{group}", get(discovery::group))
        .route("/apis/{group}/{version}", get(discovery::group_version))
        .route("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", only_post(reviews::access))
        .route("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", only_post(reviews::rules))
        .route("/apis/authentication.k8s.io/v1/selfsubjectreviews", only_post(reviews::subject))
        .route("/version", get(documents::version))
        .route("/openapi/v3", get(documents::schemas))
        .route("/openapi/v3/{*path}", get(documents::schema))
        .route("/api/v1", get(discovery::core))
        .route("/api/v1/{kind}", get(collection))
        .route("/api/v1/nodes/{name}", get(get_node))
        .route("/api/v1/nodes/{name}/status", get(get_node))
        .route("/api/v1/namespaces/{namespace}", get(get_namespace))
        .route("/api/v1/namespaces/{namespace}/status", get(get_namespace))
        .route("/api/v1/namespaces/{namespace}/{kind}", get(collection_in_namespace))
        .route("/api/v1/namespaces/{namespace}/{kind}/{name}", get(get_one))
        .route("/api/v1/namespaces/{namespace}/pods/{name}/status", get(get_pod_status))
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(Large))
        .layer(MapRequestLayer::new(gzip_or_nothing))
}

/// Leaves of `Accept-Encoding` what the API server looks for: whether the client takes gzip. It sends others the answer as it is,
/// whatever they refuse.
fn gzip_or_nothing(mut request: Request) -> Request {
    let encodings = request.headers().get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let is_gzip = |range: &str| {
        let coding = range.split(';').next().unwrap_or_default().trim();
        (coding == "*" || coding.eq_ignore_ascii_case("gzip")) && representation::weight(range) > 0
    };
    let takes_gzip = encodings.flat_map(|value| value.split(',')).any(is_gzip);
    request.headers_mut().remove(header::ACCEPT_ENCODING);
    if takes_gzip {
        request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    }
    request
}

fn only_post<H, T>(handler: H) -> MethodRouter<Arc<App>>
where
    H: Handler<T, Arc<App>>,
    T: 'static,
{
    post(handler).fallback(async |request: Request| {
        let problem = format!("a review is created by POST, not by {}", request.method());
        let mut response = ApiError::MethodNotAllowed(problem).into_response();
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        response
    })
}

/// What is worth compressing: answers of a known size from 128 KiB, as at the API server. Never a watch.
#[derive(Clone, Copy)]
struct Large;

impl Predicate for Large {
    fn should_compress<B: hyper::body::Body>(&self, response: &http::Response<B>) -> bool {
        response.body().size_hint().exact().is_some_and(|size| size >= 128 << 10)
            && !response.headers().contains_key(header::CONTENT_ENCODING)
    }
}

pub(crate) fn read_timeout(params: &Params) -> Result<Duration, ApiError> {
    let given = params.duration("timeout", READ_TIMEOUT, (LEAST_READ_TIMEOUT, Duration::MAX))?;
    Ok(given.min(MOST_READ_TIMEOUT))
}

/// `/pods`: the pods as this node knows them, as the kubelet lists them.
pub(crate) async fn pods(reader: Reader, headers: HeaderMap) -> Result<Response, ApiError> {
    let (pods, freshness) = reader.node_pods()?;
    Ok(representation::pod_list(reader.app(), pods, &freshness, &headers))
}

fn unknown_path(path: &str) -> ApiError {
    ApiError::UnknownPath(path.chars().take(200).collect())
}

/// `/api/v1/{kind}`: a list or watch in all namespaces.
async fn collection(
    reader: Reader,
    Names(kind): Names<String>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if is_of_describe(&kind, &params) {
        return Ok(no_events());
    }
    let found = Kind::ALL.into_iter().find(|found| found.resource() == kind);
    let kind = found.ok_or_else(|| unknown_path(&format!("/api/v1/{kind}")))?;
    list_or_watch(&reader, kind, None, &params, &headers).await
}

/// `/api/v1/namespaces/{namespace}/{kind}`: a list or watch in a namespace.
async fn collection_in_namespace(
    reader: Reader,
    Names((namespace, kind)): Names<(String, String)>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if is_of_describe(&kind, &params) {
        return Ok(no_events());
    }
    let found = Kind::ALL.into_iter().find(|found| found.is_namespaced() && found.resource() == kind);
    let kind = found
        .filter(|_| !namespace.is_empty())
        .ok_or_else(|| unknown_path(&format!("/api/v1/namespaces/{namespace}/{kind}")))?;
    list_or_watch(&reader, kind, Some(&namespace), &params, &headers).await
}

/// Whether `kubectl describe` asks for the events of one object. It fails for some kinds if they cannot be listed.
fn is_of_describe(kind: &str, params: &Params) -> bool {
    let is_of_object = params.text("fieldSelector").is_some_and(|selector| selector.contains("involvedObject.uid="));
    kind == "events" && is_of_object && !params.flag("watch")
}

/// A list without events, with the warning that larder has none.
fn no_events() -> Response {
    let list = br#"{"kind":"EventList","apiVersion":"v1","metadata":{},"items":[]}"#;
    let mut response = Body::from(&list[..]).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(value) = HeaderValue::from_str(&warning("larder holds no events: ask the API server for them")) {
        headers.insert(header::WARNING, value);
    }
    response
}

async fn list_or_watch(
    reader: &Reader,
    kind: Kind,
    namespace: Option<&str>,
    params: &Params,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    if let Some(pod) = params.text("pod") {
        return Err(ApiError::bad_parameter("pod", pod, "applies to the read of one object, not to a list".to_owned()));
    }
    read_timeout(params)?;
    let options = ListOptions::parse(params, kind, namespace)?;
    let shape = if options.is_watch { Shape::Events } else { Shape::List };
    let representation = Representation::of(headers, params, shape)?;
    // First the journal, then all objects: what is read meanwhile is in the journal.
    let verb = if options.is_watch { Verb::Watch } else { Verb::List };
    let journal = reader.journal(verb, kind, namespace)?;
    let (app, known) = (reader.app(), known(reader, kind, &options.wanted, params).await?);
    let mut response = if options.is_watch {
        let watch = match watch::begin(app, &journal, &options, representation) {
            Err(ApiError::TooLargeVersion { .. }) => {
                reach(&journal, options.version).await?;
                watch::begin(app, &journal, &options, representation)
            }
            begun => begun,
        };
        let body = match watch {
            // Clients list again after such an event, as the API server sends it. kube's watcher would ask for the same version
            // for ever after an answer with this code.
            Err(error @ ApiError::Expired(_)) => watch::refused(&error),
            watch => watch?,
        };
        json(app, known.freshness.as_ref(), body)
    } else {
        reach(&journal, options.version).await?;
        let snapshot = journal.snapshot()?;
        let version = snapshot.version;
        if let Version::Exact(asked) = options.version
            && asked != version
        {
            let problem = format!("larder has the objects as of {version} alone, not of {asked}: list without Exact");
            return Err(ApiError::Expired(problem));
        }
        representation.list(app, kind, version, options.wanted.of(snapshot), known.freshness.as_ref())?
    };
    response.headers_mut().extend(known.warnings);
    Ok(response)
}

/// How fresh the wanted objects are, all of which are known.
struct Known {
    freshness: Option<AnswerFreshness>,
    /// Of those that are not known, where the client asked for a part.
    warnings: HeaderMap,
}

/// Makes sure that the wanted objects are known.
async fn known(reader: &Reader, kind: Kind, wanted: &Wanted, params: &Params) -> Result<Known, ApiError> {
    let held = |freshness| Known { freshness: Some(freshness), warnings: HeaderMap::new() };
    let may_want = |key: &ObjectKey| wanted.may_have(key.namespace(), key.name());
    match kind {
        Kind::Pod => Ok(held(reader.freshness_of_pods()?)),
        Kind::Node => Ok(held(reader.freshness_of_node()?)),
        Kind::Secret => {
            let list = reader.objects(ObjectKind::Secret, may_want, read_timeout(params)?).await?;
            known_objects(reader, kind, list, wanted, params)
        }
        Kind::ConfigMap => {
            let list = reader.objects(ObjectKind::ConfigMap, may_want, read_timeout(params)?).await?;
            known_objects(reader, kind, list, wanted, params)
        }
        Kind::Namespace => {
            let list = reader.namespaces(may_want, read_timeout(params)?).await?;
            known_objects(reader, kind, list, wanted, params)
        }
    }
}

fn known_objects(
    reader: &Reader,
    kind: Kind,
    mut list: ObjectList,
    wanted: &Wanted,
    params: &Params,
) -> Result<Known, ApiError> {
    let warnings = incomplete(kind.resource(), &list.unknown, list.items.len(), params.flag("partial"))?;
    list.items.retain(|answer| wanted.has_object(&answer.object));
    // That there are none is as fresh as the pods, none of which refers to one.
    let freshness = if let Some(freshness) = AnswerFreshness::of_all(&list.items) {
        freshness
    } else {
        reader.freshness_of_pods()?
    };
    Ok(Known { freshness: Some(freshness), warnings })
}

/// Waits for a version that larder has yet to reach.
async fn reach(journal: &SeenJournal, version: Version) -> Result<(), ApiError> {
    let (Version::NotOlderThan(asked) | Version::Exact(asked)) = version else { return Ok(()) };
    let reached = tokio::time::timeout(VERSION_TIMEOUT, journal.reached(asked)).await;
    reached.map_err(|_| ApiError::TooLargeVersion { asked, current: journal.version() })
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
        // To ask again does not help.
        if unknown.iter().all(|(_, error)| error.is_not_permitted()) {
            return Err(error.clone().into());
        }
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

/// `/api/v1/nodes/{name}`, and its status.
async fn get_node(
    reader: Reader,
    Names(name): Names<String>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    one(&reader, Kind::Node, ("", &name), &params, &headers).await
}

/// `/api/v1/namespaces/{namespace}`, and its status.
async fn get_namespace(
    reader: Reader,
    Names(name): Names<String>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if name.is_empty() {
        return Err(unknown_path("/api/v1/namespaces/"));
    }
    one(&reader, Kind::Namespace, ("", &name), &params, &headers).await
}

/// `/api/v1/namespaces/{namespace}/pods/{name}/status`.
async fn get_pod_status(
    reader: Reader,
    Names((namespace, name)): Names<(String, String)>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    one(&reader, Kind::Pod, (&namespace, &name), &params, &headers).await
}

/// `/api/v1/namespaces/{namespace}/{kind}/{name}`.
async fn get_one(
    reader: Reader,
    Names((namespace, kind, name)): Names<(String, String, String)>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if namespace.is_empty() || name.is_empty() {
        return Err(unknown_path(&format!("/api/v1/namespaces/{namespace}/{kind}/{name}")));
    }
    if kind == Kind::Pod.resource() {
        return one(&reader, Kind::Pod, (&namespace, &name), &params, &headers).await;
    }
    let kind = ObjectKind::from_resource(&kind)
        .ok_or_else(|| unknown_path(&format!("/api/v1/namespaces/{namespace}/{kind}")))?;
    one(&reader, kind.kind(), (&namespace, &name), &params, &headers).await
}

async fn one(
    reader: &Reader,
    kind: Kind,
    (namespace, name): (&str, &str),
    params: &Params,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let representation = Representation::of(headers, params, Shape::One)?;
    let right = reader.one(kind, namespace, name)?;
    let seen = match Version::of_one(params)? {
        Version::Any => read(&right, params).await?,
        Version::NotOlderThan(asked) | Version::Exact(asked) => read_at(&right, asked, params).await?,
    };
    representation.one(reader.app(), kind, json_of_resource(seen.object), &seen.freshness)
}

/// Reads an object. Only the kinds that a source fetches one by one wait until a timeout, and only those that pods refer to take a pod.
async fn read(right: &One<'_>, params: &Params) -> Result<Seen, ApiError> {
    let timeout = read_timeout(params)?;
    match params.text("pod") {
        Some(pod) => right.read_for(pod, timeout).await,
        None => right.read(timeout).await,
    }
}

/// Reads an object as of this version or a later one.
async fn read_at(right: &One<'_>, asked: u64, params: &Params) -> Result<Seen, ApiError> {
    let has_reached = right.version()? >= asked;
    let answer = read(right, params).await;
    let is_answer = match &answer {
        Ok(seen) => resource_version_order((*seen.object).as_ref().resource_version()) >= asked,
        // The object may have been created at that version.
        Err(ApiError::Read(ReadError::NotFound { .. })) => false,
        Err(_) => true,
    };
    if has_reached || is_answer {
        return answer;
    }
    let reached = tokio::time::timeout(VERSION_TIMEOUT, right.reached(asked)).await;
    reached.map_err(|_| ApiError::TooLargeVersion { asked, current: right.version().unwrap_or_default() })??;
    read(right, params).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// The seconds that a read takes at most, or the code with which the timeout is refused.
    fn check(timeout: &str, expected: Result<u64, u16>) {
        let params = Params::new(HashMap::from([("timeout".to_owned(), timeout.to_owned())]));
        let read = read_timeout(&params).map(|timeout| timeout.as_secs()).map_err(|error| error.code().as_u16());
        assert_eq!(read, expected, "{timeout}");
    }

    #[test]
    fn a_read_takes_a_minute_at_most_whatever_timeout_the_client_gives() {
        check("30s", Ok(30));
        check("1m0s", Ok(60));
        // As client-go's informers do.
        check("8m10s", Ok(60));
        check("2h", Ok(60));
        check("0s", Err(400));
        check("soon", Err(400));
    }
}
