//! The errors of the local API: each is a `Status` of the Kubernetes API.
//!
//! | what happened | code | reason |
//! | --- | --- | --- |
//! | the object is known to be absent | 404 | `NotFound`, with `Age` |
//! | no pod of this node refers to the object, or the pod of `?pod=` does not | 403 | `Forbidden` |
//! | the node is not the one of this larder | 403 | `Forbidden` |
//! | larder's identity may not read the object at the API server | 403 | `Forbidden` |
//! | the object is not known yet | 503 | `ServiceUnavailable`, with `Retry-After` |
//! | the daemon runs without the source | 501 | `NotImplemented` |
//! | a parameter is wrong, or a path of larder's own does not know it; a path cannot be decoded | 400 | `BadRequest` |
//! | a newer-than wait timed out | 504 | `Timeout`, with the last known status |
//! | parameters of a list or watch do not go together, or `resourceVersionMatch` is unknown; a review asks for nothing, or for two things | 422 | `Invalid` |
//! | a watch cannot go on after a version | 410 | `Expired` |
//! | a version lies in the future | 504 | `Timeout`, with a cause of type `ResourceVersionTooLarge` |
//! | the body of a review cannot be read | 400 | `BadRequest` |
//! | it does not arrive in time | 408 | `Timeout` |
//! | it has another media type | 415 | `UnsupportedMediaType` |
//! | the client accepts no representation that larder has | 406 | `NotAcceptable` |
//! | the caller may see nothing, or not this object, or its container has ended | 403 | `Forbidden` |
//! | the container of the caller is not known yet | 503 | `ServiceUnavailable`, with `Retry-After` |
//! | the client shows no certificate, and no token, that larder accepts | 401 | `Unauthorized` |
//! | the token is valid, and of no pod of this node; the containers of its pod have ended | 403 | `Forbidden` |
//! | the keys that verify tokens, or the pods or containers of the node, are not known yet | 503 | `ServiceUnavailable`, with `Retry-After` |
//! | a request to the proxy has not its token | 401 | `Unauthorized` |
//! | the proxy gets no answer from the daemon | 503 or 504 | `ServiceUnavailable` with `Retry-After`, `Timeout` |
//! | larder does not serve the path | 404 | `NotFound`, with a cause of type `PathNotServed` |
//! | a method that the path does not take: a write, or a GET of a review | 405 | `MethodNotAllowed` |
//! | the caller has as many requests in flight, watches, or bytes of answers as it may have | 429 | `TooManyRequests`, with `Retry-After` |
//! | a request that is passed on: the API server is away, or late, or too many are under way | 503, 504, 429 | `ServiceUnavailable` and `TooManyRequests` with `Retry-After`, `Timeout` |
//! | its body is too large, or does not arrive; it would replace an object of which the caller has a part | 413, 408, 409 | `RequestEntityTooLarge`, `Timeout`, `Conflict` |
//! | the daemon is ending, or too many connections are open | 503 | `ServiceUnavailable` |
//!
//! An object that no pod refers to is 403 and not 404, because larder does not know whether the object exists. The API server forbids
//! it to the node, too.

use crate::cache_status::{CacheStatus, Outcome};
use crate::caller::{Caller, Container};
use crate::daemon_error::DaemonError;
use crate::pass_through::PassThroughError;
use crate::token::TokenRefusal;
use crate::usage::Limit;
use crate::wire;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, Status, StatusCause, StatusDetails};
use larder_clock::Timestamp;
use larder_node::{ProcessError, ReadError, WhoisError};
use larder_policy::Rule;
use larder_resource::Kind;
use larder_resource::journal::ResumeError;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Why a caller may not see something: the rule of the policy file that denies it, or what the caller can do about it.
pub(crate) fn why_refused(caller: &Caller, rule: &Rule) -> String {
    match rule {
        Rule::File(_) => format!("{rule} denies it"),
        Rule::Admin | Rule::OwnPod | Rule::Reference | Rule::OwnNode | Rule::None => caller.advice().to_owned(),
    }
}

/// The body of an error: a [`Status`] of the Kubernetes API, with one field of larder's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ErrorBody {
    /// All fields but the details are always set.
    #[serde(flatten)]
    pub status: Status,
    /// After a wait that timed out: the last known status of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_known: Option<Box<wire::PodStatusAnswer>>,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ApiError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{} of {total} objects are not known yet, among them \"{}\": {}", unknown.len(), first.0, first.1)]
    Incomplete { unknown: Vec<(String, String)>, first: (String, String), total: usize, retry_after: Duration },
    #[error("parameter {name}: \"{value}\" {problem}")]
    BadParameter { name: &'static str, value: String, problem: String },
    #[error("a parameter is missing: give one of {}", known_parameters(.0))]
    MissingParameter(&'static [&'static str]),
    #[error("parameter \"{name}\" is unknown: this path takes {}", known_parameters(known))]
    UnknownParameter { name: String, known: &'static [&'static str] },
    #[error("ListOptions.meta.k8s.io \"\" is invalid: {0}: {1}")]
    InvalidParameter(&'static str, Violation),
    #[error("SelfSubjectAccessReview.authorization.k8s.io \"\" is invalid: {field}: Invalid value: {problem}")]
    InvalidReview { field: &'static str, problem: &'static str },
    #[error("{0}")]
    Expired(String),
    #[error("Too large resource version: {asked}, current: {current}")]
    TooLargeVersion { asked: u64, current: u64 },
    #[error("the body {0}")]
    BadBody(String),
    #[error("the body did not arrive within {0:?}: send all of it, and its length in Content-Length")]
    LateBody(Duration),
    #[error("the body is \"{0}\": send application/json or application/vnd.kubernetes.protobuf")]
    UnsupportedMediaType(String),
    #[error("larder answers in {offers}, none of which is among what the client accepts: {accepts}")]
    NotAcceptable { accepts: String, offers: &'static str },
    #[error("cannot read the path {path}: {problem}")]
    BadPath { path: String, problem: String },
    #[error("larder does not serve the path {0}{advice}", advice = advice_on(.0))]
    UnknownPath(String),
    #[error("{0}")]
    MethodNotAllowed(String),
    #[error("{caller} may not read from larder: {advice}", caller = .0, advice = .0.advice())]
    Forbidden(Caller),
    #[error("{caller} may not read from larder: {advice}", caller = .0, advice = .0.advice())]
    Unauthorized(Caller),
    #[error("{caller} may not {verb} {what}: {why}", why = why_refused(caller, rule))]
    NotSeen { caller: Caller, verb: &'static str, what: String, rule: Rule },
    #[error("{container} may not read from larder any more: {why}")]
    Ended { container: Arc<Container>, why: &'static str },
    #[error("{0}")]
    RefusedToken(Arc<TokenRefusal>),
    #[error("{0}: use the kubeconfig that `larder proxy` wrote, or send its token (Authorization: Bearer TOKEN)")]
    Token(&'static str),
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    #[error(transparent)]
    PassThrough(#[from] PassThroughError),
    #[error(transparent)]
    Whois(WhoisError),
    #[error("timed out waiting for a newer status: {why}")]
    WaitTimedOut { why: String, last_known: Box<wire::PodStatusAnswer> },
    #[error("larder is shutting down")]
    Ending,
    #[error("too many connections to larder are open: close some, or try again")]
    TooManyConnections,
    #[error("too many requests to the proxy are in flight: wait for some to end, or try again")]
    TooManyRequests,
    #[error("{}", over_limit(*limit, *most))]
    OverLimit { limit: Limit, most: usize },
    #[error("cannot write the answer: {0}")]
    Unwritable(String),
}

/// Which rule of the API server a parameter breaks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Violation {
    /// It does not go with another parameter.
    #[error("Forbidden: {0}")]
    Forbidden(&'static str),
    /// It is none of the values that there are.
    #[error("Unsupported value: {value:?}: supported values: {supported}")]
    Unsupported { value: String, supported: &'static str },
}

impl Violation {
    fn reason(&self) -> &'static str {
        match self {
            Self::Forbidden(_) => "FieldValueForbidden",
            Self::Unsupported { .. } => "FieldValueNotSupported",
        }
    }
}

fn over_limit(limit: Limit, most: usize) -> String {
    match limit {
        Limit::Requests => {
            format!("this client has as many requests in flight as it may ({most}): wait for some to end, or try again")
        }
        Limit::Watches => {
            format!("this client has as many watches open as it may ({most}): close some, or try again")
        }
        Limit::Bytes => {
            "larder holds as many bytes of answers for this client as it may: read what was asked for, or try again"
                .to_owned()
        }
    }
}

fn known_parameters(known: &[&str]) -> String {
    match known {
        [] => "no parameters".to_owned(),
        known => known.join(", "),
    }
}

/// An API server may serve any path but those of larder's own.
fn advice_on(path: &str) -> &'static str {
    if path.starts_with("/larder/") { "" } else { ": ask the API server" }
}

impl ApiError {
    /// A write, or another method that no path of larder takes.
    pub(crate) fn only_reads(method: &http::Method) -> Self {
        Self::MethodNotAllowed(format!("larder only reads, and does not answer {method} here: ask the API server"))
    }

    pub(crate) fn bad_parameter(name: &'static str, value: &str, problem: String) -> Self {
        // The error quotes the value, but not at any length.
        Self::BadParameter { name, value: value.chars().take(200).collect(), problem }
    }

    pub(crate) fn bad_path(path: &str, problem: &PathRejection) -> Self {
        Self::BadPath { path: path.chars().take(200).collect(), problem: problem.body_text() }
    }

    pub(crate) fn unknown_parameter(name: &str, known: &'static [&'static str]) -> Self {
        Self::UnknownParameter { name: name.chars().take(200).collect(), known }
    }

    /// The HTTP status: the one place where errors are mapped to statuses.
    pub(crate) fn code(&self) -> StatusCode {
        match self {
            Self::Read(ReadError::NotFound { .. })
            | Self::UnknownPath(_)
            | Self::Whois(
                WhoisError::NotFound { .. }
                | WhoisError::Process(ProcessError::NotFound { .. } | ProcessError::Ended { .. }),
            ) => StatusCode::NOT_FOUND,
            Self::Whois(WhoisError::Contradictory { .. }) => StatusCode::CONFLICT,
            Self::Read(
                ReadError::NotReferenced { .. }
                | ReadError::NotReferencedByPod { .. }
                | ReadError::NotPermitted { .. }
                | ReadError::OtherNode { .. },
            )
            | Self::Forbidden(_)
            | Self::NotSeen { .. }
            | Self::Ended { .. } => StatusCode::FORBIDDEN,
            Self::Unauthorized(_) | Self::Token(_) => StatusCode::UNAUTHORIZED,
            Self::RefusedToken(refusal) => match &**refusal {
                TokenRefusal::Invalid(_) | TokenRefusal::Off => StatusCode::UNAUTHORIZED,
                TokenRefusal::Elsewhere(_) | TokenRefusal::Ended(_) | TokenRefusal::Changed(_) => StatusCode::FORBIDDEN,
                TokenRefusal::NoRuntime => StatusCode::NOT_IMPLEMENTED,
                TokenRefusal::NoKeys | TokenRefusal::NotKnown => StatusCode::SERVICE_UNAVAILABLE,
                TokenRefusal::Unreadable => StatusCode::INTERNAL_SERVER_ERROR,
            },
            Self::Read(ReadError::NotServed { .. }) => StatusCode::NOT_IMPLEMENTED,
            Self::Read(_)
            | Self::Incomplete { .. }
            | Self::Ending
            | Self::TooManyConnections
            | Self::Daemon(DaemonError::Unreachable { .. } | DaemonError::Broken { .. }) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Whois(WhoisError::TooShort { .. } | WhoisError::SeveralContainers { .. })
            | Self::BadParameter { .. }
            | Self::MissingParameter(_)
            | Self::UnknownParameter { .. }
            | Self::BadPath { .. }
            | Self::BadBody(_) => StatusCode::BAD_REQUEST,
            Self::InvalidParameter(..) | Self::InvalidReview { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Expired(_) => StatusCode::GONE,
            Self::LateBody(_) => StatusCode::REQUEST_TIMEOUT,
            Self::UnsupportedMediaType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::NotAcceptable { .. } => StatusCode::NOT_ACCEPTABLE,
            Self::MethodNotAllowed(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooManyRequests | Self::OverLimit { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::WaitTimedOut { .. } | Self::TooLargeVersion { .. } | Self::Daemon(DaemonError::Late { .. }) => {
                StatusCode::GATEWAY_TIMEOUT
            }
            Self::PassThrough(error) => error.code(),
            Self::Unwritable(_) | Self::Whois(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn reason(&self) -> &'static str {
        match self.code() {
            StatusCode::NOT_FOUND => "NotFound",
            StatusCode::FORBIDDEN => "Forbidden",
            StatusCode::UNAUTHORIZED => "Unauthorized",
            StatusCode::NOT_IMPLEMENTED => "NotImplemented",
            StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
            StatusCode::BAD_REQUEST => "BadRequest",
            StatusCode::UNPROCESSABLE_ENTITY => "Invalid",
            StatusCode::CONFLICT => "Conflict",
            StatusCode::GONE => "Expired",
            StatusCode::PAYLOAD_TOO_LARGE => "RequestEntityTooLarge",
            StatusCode::UNSUPPORTED_MEDIA_TYPE => "UnsupportedMediaType",
            StatusCode::NOT_ACCEPTABLE => "NotAcceptable",
            StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
            StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
            StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT => "Timeout",
            _ => "InternalError",
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Read(ReadError::Unknown { retry_after, .. }) | Self::Incomplete { retry_after, .. } => {
                Some(*retry_after)
            }
            Self::RefusedToken(refusal) if matches!(**refusal, TokenRefusal::NoKeys | TokenRefusal::NotKnown) => {
                Some(Duration::from_secs(1))
            }
            Self::PassThrough(error) => error.retry_after(),
            Self::Ending
            | Self::TooManyConnections
            | Self::TooManyRequests
            | Self::OverLimit { .. }
            | Self::TooLargeVersion { .. }
            | Self::Daemon(_) => Some(Duration::from_secs(1)),
            _ => None,
        }
    }

    fn cache_status(&self) -> Option<CacheStatus> {
        let (outcome, ttl, detail) = match self {
            Self::Read(ReadError::Unknown { .. }) | Self::Incomplete { .. } => {
                (Outcome::Unknown, None, self.to_string())
            }
            Self::Read(ReadError::NotFound { kind, freshness, age, .. }) => {
                // A pod that is not on this node may be on another.
                let absent = if *kind == Kind::Pod { "absent from this node" } else { "absent" };
                let now = freshness.confirmed_at + *age;
                let ttl = freshness.expires_at().map(|at| seconds_between(now, at));
                if freshness.is_fresh() {
                    (Outcome::Hit, ttl, absent.to_owned())
                } else {
                    (Outcome::FetchFailed, ttl, format!("stale: {absent} when last known"))
                }
            }
            _ => return None,
        };
        Some(CacheStatus { outcome, ttl, detail: Some(detail) })
    }

    fn details(&self) -> Option<StatusDetails> {
        let cause = |reason: &str, message: &str, field: Option<&str>| StatusCause {
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            field: field.map(str::to_owned),
        };
        let causes = match self {
            Self::Incomplete { unknown, .. } => {
                unknown.iter().map(|(what, why)| cause("Unknown", why, Some(what))).collect()
            }
            Self::BadParameter { name, problem, .. } => vec![cause("FieldValueInvalid", problem, Some(name))],
            Self::UnknownParameter { name, .. } => {
                vec![cause("FieldValueNotSupported", &self.to_string(), Some(name))]
            }
            Self::InvalidParameter(name, violation) => {
                vec![cause(violation.reason(), &violation.to_string(), Some(name))]
            }
            Self::InvalidReview { field, problem } => vec![cause("FieldValueInvalid", problem, Some(field))],
            Self::TooLargeVersion { .. } => {
                vec![cause("ResourceVersionTooLarge", "Too large resource version", None)]
            }
            Self::BadPath { problem, .. } => vec![cause("PathUnreadable", problem, None)],
            Self::UnknownPath(path) => vec![cause("PathNotServed", path, None)],
            _ => Vec::new(),
        };
        let (kind, name) = match self {
            Self::Read(
                ReadError::NotFound { kind, key, .. }
                | ReadError::NotReferenced { kind, key, .. }
                | ReadError::NotReferencedByPod { kind, key, .. }
                | ReadError::NotPermitted { kind, key, .. },
            ) => (Some(kind.resource().to_owned()), Some(key.name().to_owned())),
            Self::Read(ReadError::OtherNode { name, .. }) => {
                (Some(Kind::Node.resource().to_owned()), Some(name.clone()))
            }
            _ => (None, None),
        };
        let details = StatusDetails {
            causes: (!causes.is_empty()).then_some(causes),
            kind,
            name,
            retry_after_seconds: self.retry_after().map(whole_seconds),
            ..StatusDetails::default()
        };
        (details != StatusDetails::default()).then_some(details)
    }

    /// The `Status` of the Kubernetes API.
    pub(crate) fn status(&self) -> Status {
        Status {
            code: Some(self.code().as_u16().into()),
            details: self.details(),
            message: Some(self.to_string()),
            metadata: ListMeta::default(),
            reason: Some(self.reason().to_owned()),
            status: Some("Failure".to_owned()),
        }
    }

    pub(crate) fn into_body(self) -> ErrorBody {
        let status = self.status();
        let last_known = match self {
            Self::WaitTimedOut { last_known, .. } => Some(last_known),
            _ => None,
        };
        ErrorBody { status, last_known }
    }
}

/// From one time to another in whole seconds, rounded down; negative if the other one is earlier.
fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    let nanos = to.as_nanos().saturating_sub(from.as_nanos());
    i64::try_from(nanos.div_euclid(1_000_000_000)).unwrap_or(i64::MAX)
}

/// Whole seconds, rounded up: `Retry-After` has no smaller unit, and 0 would ask for a storm.
fn whole_seconds(duration: Duration) -> i32 {
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    i32::try_from(seconds).unwrap_or(i32::MAX).max(1)
}

impl From<WhoisError> for ApiError {
    fn from(error: WhoisError) -> Self {
        match error {
            WhoisError::Read(error) => Self::Read(error),
            error => Self::Whois(error),
        }
    }
}

impl From<ResumeError> for ApiError {
    fn from(error: ResumeError) -> Self {
        Self::Expired(error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let code = self.code();
        let retry_after = self.retry_after().map(whole_seconds);
        let cache_status = self.cache_status();
        let age = match &self {
            Self::Read(ReadError::NotFound { age, .. }) => age.as_secs(),
            _ => 0,
        };
        let mut response = (code, Json(self.into_body())).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        headers.insert(header::AGE, HeaderValue::from(age));
        if cache_status.is_some() {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        let cache_status = cache_status.unwrap_or(CacheStatus::new(Outcome::Generated));
        if let Ok(value) = HeaderValue::from_str(&cache_status.to_string()) {
            headers.insert("cache-status", value);
        }
        if code == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        response
    }
}

#[cfg(test)]
mod tests;
