//! Errors as the local API tells them.

use super::*;
use larder_clock::Timestamp;
use larder_objects::{FreshState, Freshness, ObjectKey, Source, StaleReason};
use serde_json::json;

fn freshness() -> Freshness {
    Freshness::new(Timestamp::ZERO, Source::LiveRead, FreshState::Fresh)
}

fn not_found() -> ReadError {
    absent(Kind::Secret)
}

fn absent(kind: Kind) -> ReadError {
    let (key, age) = (ObjectKey::new("shop", "db"), Duration::from_secs(3));
    ReadError::NotFound { kind, key, freshness: Box::new(freshness()), age }
}

fn unknown(retry_after: Duration) -> ReadError {
    ReadError::Unknown { what: "secret \"shop/db\"".to_owned(), why: "no answer".to_owned(), retry_after }
}

fn check(error: impl Into<ApiError>, code: i32, reason: &str, message: &str) {
    let error = error.into();
    let status = error.into_body().status;
    assert_eq!(
        (status.code, status.reason.as_deref(), status.message.as_deref()),
        (Some(code), Some(reason), Some(message))
    );
    assert_eq!(status.status.as_deref(), Some("Failure"));
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
    let other_node = ReadError::OtherNode { name: "x".to_owned(), own: "n".to_owned() };
    let message = "node \"x\" is not held: this larder holds node \"n\" alone; ask the API server";
    check(other_node, 403, "Forbidden", message);
    let not_permitted = ReadError::NotPermitted {
        kind: larder_resource::Kind::Namespace,
        key: ObjectKey::new("", "shop"),
        why: "the API server says no".to_owned(),
    };
    let message = "namespace \"shop\" is not held, because larder may not read it: grant larder's identity a ClusterRole with the \
                   verb \"get\" on the resource \"namespaces\"; the API server says no";
    check(not_permitted, 403, "Forbidden", message);
    let message = "secret \"shop/db\" not known yet: no answer";
    check(unknown(Duration::ZERO), 503, "ServiceUnavailable", message);
    let not_served = ReadError::NotServed { what: "containers".to_owned(), why: "no runtime" };
    check(not_served, 501, "NotImplemented", "containers: no runtime");
    let message = "parameter timeout: \"x\" is no duration";
    check(ApiError::bad_parameter("timeout", "x", "is no duration".to_owned()), 400, "BadRequest", message);
    let message = "larder does not serve the path /x: ask the API server";
    check(ApiError::UnknownPath("/x".to_owned()), 404, "NotFound", message);
    let message = "larder does not serve the path /larder/v2";
    check(ApiError::UnknownPath("/larder/v2".to_owned()), 404, "NotFound", message);
    let message = "larder only reads, and does not answer POST here: ask the API server";
    check(ApiError::only_reads(&http::Method::POST), 405, "MethodNotAllowed", message);
    check(ApiError::MethodNotAllowed("no".to_owned()), 405, "MethodNotAllowed", "no");
    let foreign = || ApiError::Forbidden(Caller::Host { uid: 7, gids: [].into(), is_admin: false });
    assert!(foreign().to_string().starts_with("user 7 may not read from larder: "), "{}", foreign());
    check(foreign(), 403, "Forbidden", &foreign().to_string());
    let message = "the request has no token of this proxy: use the kubeconfig that `larder proxy` wrote, or send its token \
                   (Authorization: Bearer TOKEN)";
    check(ApiError::Token("the request has no token of this proxy"), 401, "Unauthorized", message);
    let broken = DaemonError::Broken { socket: "/l.sock".into(), problem: "gone".to_owned() };
    check(broken, 503, "ServiceUnavailable", "the connection to larder at /l.sock broke: gone");
    for (error, code, reason) in [
        (WhoisError::Contradictory { what: "it".to_owned() }, 409, "Conflict"),
        (WhoisError::SeveralContainers { id: "x".to_owned() }, 400, "BadRequest"),
        (WhoisError::NotFound { what: "it".to_owned(), id: "x".to_owned() }, 404, "NotFound"),
        (ProcessError::Ended { pid: 7 }.into(), 404, "NotFound"),
        (ProcessError::Unreadable { pid: 7, problem: std::io::Error::other("no") }.into(), 500, "InternalError"),
        (unknown(Duration::ZERO).into(), 503, "ServiceUnavailable"),
    ] {
        let message = error.to_string();
        check(error, code, reason, &message);
    }
    let late = || DaemonError::Late { socket: "/l.sock".into(), after: Duration::from_secs(65) };
    check(late(), 504, "Timeout", &late().to_string());
    check(ApiError::Ending, 503, "ServiceUnavailable", "larder is shutting down");
    check(ApiError::TooManyRequests, 429, "TooManyRequests", &ApiError::TooManyRequests.to_string());
    for limit in Limit::ALL {
        let over = || ApiError::OverLimit { limit, most: 7 };
        check(over(), 429, "TooManyRequests", &over().to_string());
    }
    check(ApiError::TooManyConnections, 503, "ServiceUnavailable", &ApiError::TooManyConnections.to_string());
}

#[test]
fn an_error_is_written_as_the_api_server_writes_it() {
    let check = |error: ApiError, expected: serde_json::Value| {
        let body = error.into_body();
        let written = serde_json::to_value(&body).unwrap();
        assert_eq!(written, expected);
        assert_eq!(serde_json::from_value::<ErrorBody>(written).unwrap(), body);
    };
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound", "code": 404,
        "message": "secrets \"db\" not found", "details": {"name": "db", "kind": "secrets"},
    });
    check(not_found().into(), expected);
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "BadRequest", "code": 400,
        "message": "parameter timeout: \"x\" is no duration",
        "details": {"causes": [{"reason": "FieldValueInvalid", "message": "is no duration", "field": "timeout"}]},
    });
    check(ApiError::bad_parameter("timeout", "x", "is no duration".to_owned()), expected);
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "ServiceUnavailable",
        "code": 503, "message": "secret \"shop/db\" not known yet: no answer", "details": {"retryAfterSeconds": 2},
    });
    check(unknown(Duration::from_millis(1_200)).into(), expected);
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "MethodNotAllowed",
        "code": 405, "message": "no",
    });
    check(ApiError::MethodNotAllowed("no".to_owned()), expected);
}

#[test]
fn an_absence_has_its_age_and_the_unknown_a_time_to_ask_again() {
    let response = ApiError::from(not_found()).into_response();
    assert_eq!(response.headers()["age"], "3");
    assert_eq!(response.headers()["cache-status"], "larder; hit; detail=absent");
    let pod = ApiError::from(absent(Kind::Pod)).into_response();
    assert_eq!(pod.headers()["cache-status"], "larder; hit; detail=\"absent from this node\"");
    assert!(!response.headers().contains_key("retry-after"));
    assert_eq!(response.headers()["cache-control"], "no-store");
    // Rounded up, and never 0.
    for (retry_after, expected) in
        [(Duration::ZERO, "1"), (Duration::from_millis(1_200), "2"), (Duration::from_secs(5), "5")]
    {
        let response = ApiError::from(unknown(retry_after)).into_response();
        assert_eq!(response.headers()["retry-after"], expected);
        assert_eq!(response.headers()["age"], "0");
    }
}

#[test]
fn an_absence_says_for_how_long_it_is_fresh_or_has_been_stale() {
    let stale =
        FreshState::Stale { since: Timestamp::ZERO + Duration::from_millis(1_500), reason: StaleReason::Expired };
    for (freshness, expected) in [
        (freshness().with_fresh_for(Some(Duration::from_secs(10))), "larder; hit; ttl=7; detail=absent"),
        (freshness().with_state(stale), "larder; fwd=stale; ttl=-2; detail=\"stale: absent when last known\""),
    ] {
        let (key, age) = (ObjectKey::new("shop", "db"), Duration::from_secs(3));
        let error = ReadError::NotFound { kind: Kind::Secret, key, freshness: Box::new(freshness), age };
        assert_eq!(ApiError::from(error).into_response().headers()["cache-status"], expected);
    }
}

#[test]
fn what_was_sent_is_repeated_but_not_at_any_length() {
    let error = ApiError::bad_parameter("timeout", &"x".repeat(100_000), "is no duration".to_owned());
    assert!(error.to_string().len() < 300);
}
