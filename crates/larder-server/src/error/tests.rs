//! Errors as the local API tells them.

use super::*;
use larder_clock::Timestamp;
use larder_objects::{FreshState, Freshness, ObjectKey, Source};

fn freshness() -> Freshness {
    Freshness::new(Timestamp::ZERO, Source::LiveRead, FreshState::Fresh)
}

fn not_found() -> ReadError {
    let key = ObjectKey::new("shop", "db");
    ReadError::NotFound {
        kind: larder_resource::Kind::Secret,
        key,
        freshness: Box::new(freshness()),
        age: Duration::from_secs(3),
    }
}

fn unknown(retry_after: Duration) -> ReadError {
    ReadError::Unknown { what: "secret \"shop/db\"".to_owned(), why: "no answer".to_owned(), retry_after }
}

fn check(error: impl Into<ApiError>, code: u16, reason: &str, message: &str) {
    let error = error.into();
    let status = error.into_status();
    assert_eq!((status.code, status.reason.as_str(), status.message.as_str()), (code, reason, message));
    assert_eq!(
        (status.kind.as_str(), status.api_version.as_str(), status.status.as_str()),
        ("Status", "v1", "Failure")
    );
}

#[test]
fn each_error_has_its_status() {
    check(not_found(), 404, "NotFound", "secrets \"db\" not found");
    for (from_manifests, advice) in [(false, "read it from the API server"), (true, "add a pod that does")] {
        let not_referenced = ReadError::NotReferenced {
            kind: larder_resource::Kind::ConfigMap,
            key: ObjectKey::new("shop", "x"),
            node: "n".to_owned(),
            from_manifests,
        };
        let message = format!("configmap \"shop/x\" is not held: no pod of node \"n\" refers to it; {advice}");
        check(not_referenced, 403, "Forbidden", &message);
    }
    let message = "secret \"shop/db\" not known yet: no answer";
    check(unknown(Duration::ZERO), 503, "ServiceUnavailable", message);
    let not_served = ReadError::NotServed { what: "containers".to_owned(), why: "no runtime" };
    check(not_served, 501, "NotImplemented", "containers: no runtime");
    let message = "parameter timeout: \"x\" is no duration";
    check(ApiError::bad_parameter("timeout", "x", "is no duration".to_owned()), 400, "BadRequest", message);
    check(ApiError::UnknownPath("/x".to_owned()), 404, "NotFound", "the path /x is not served here");
    check(ApiError::MethodNotAllowed("no".to_owned()), 405, "MethodNotAllowed", "no");
    check(ApiError::ForeignUser(7), 403, "Forbidden", &ApiError::ForeignUser(7).to_string());
    check(ApiError::Ending, 503, "ServiceUnavailable", "larder is ending");
    check(ApiError::TooManyRequests, 429, "TooManyRequests", &ApiError::TooManyRequests.to_string());
    check(ApiError::TooManyConnections, 503, "ServiceUnavailable", &ApiError::TooManyConnections.to_string());
}

#[test]
fn an_absence_has_its_age_and_the_unknown_a_time_to_ask_again() {
    let response = ApiError::from(not_found()).into_response();
    assert_eq!(response.headers()["age"], "3");
    assert_eq!(response.headers()["cache-status"], "larder; hit; detail=absent");
    assert!(!response.headers().contains_key("retry-after"));
    // Rounded up, and never 0.
    for (retry_after, expected) in
        [(Duration::ZERO, "1"), (Duration::from_millis(1_200), "2"), (Duration::from_secs(5), "5")]
    {
        let response = ApiError::from(unknown(retry_after)).into_response();
        assert_eq!(response.headers()["retry-after"], expected);
        assert!(!response.headers().contains_key("age"));
    }
}

#[test]
fn what_was_sent_is_repeated_but_not_at_any_length() {
    let error = ApiError::bad_parameter("timeout", &"x".repeat(100_000), "is no duration".to_owned());
    assert!(error.to_string().len() < 300);
}
