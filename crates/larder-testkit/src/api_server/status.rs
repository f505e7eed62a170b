//! Errors as an API server tells them: `metav1.Status`.

use super::object::Kind;
use serde_json::{Value, json};

/// What a request that failed is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// Whole seconds, for the header `Retry-After`.
    pub(crate) retry_after: Option<u64>,
}

impl Failure {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), retry_after: None }
    }

    /// The status of a code that an operator or a proxy causes.
    pub(crate) fn of_code(code: u16) -> Self {
        let (reason, message) = match code {
            400 => ("BadRequest", "the request is malformed"),
            401 => ("Unauthorized", "Unauthorized"),
            403 => ("Forbidden", "the request is forbidden"),
            404 => ("NotFound", "the server could not find the requested resource"),
            409 => ("Conflict", "the object has been modified"),
            410 => ("Expired", "The resourceVersion for the provided watch is too old."),
            429 => ("TooManyRequests", "Too many requests, please try again later."),
            503 => ("ServiceUnavailable", "apiserver not ready"),
            504 => ("Timeout", "the request did not complete within the allotted timeout"),
            _ => ("InternalError", "an internal error occurred (simulated)"),
        };
        Self::new(code, reason, message)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::of_code(401)
    }

    pub(crate) fn not_found(kind: Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", kind.plural()))
    }

    pub(crate) fn no_such_path() -> Self {
        Self::of_code(404)
    }

    pub(crate) fn expired(requested: u64, oldest: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {requested} ({oldest})"))
    }

    pub(crate) fn too_large(requested: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {requested}, current: {current}");
        Self { retry_after: Some(1), ..Self::new(504, "Timeout", message) }
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        });
        if let Some(seconds) = self.retry_after {
            status["details"] = json!({"retryAfterSeconds": seconds});
            if self.reason == "Timeout" {
                status["details"]["causes"] = json!([{"reason": "ResourceVersionTooLarge", "message": self.message}]);
            }
        }
        status
    }
}
