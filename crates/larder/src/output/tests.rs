//! JSON, YAML, errors and freshness as they are printed.

use super::*;
use serde_json::json;

#[test]
fn json_is_indented_and_ordered_as_kubectls() {
    let text = json(&json!({"kind": "Pod", "apiVersion": "v1", "list": [1]})).unwrap();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "{\n    \"apiVersion\": \"v1\",\n    \"kind\": \"Pod\",\n    \"list\": [\n        1\n    ]\n}\n"
    );
}

#[test]
fn yaml_keeps_what_looks_like_something_else_a_text() {
    let document = json!({
        "items": [{"name": "a", "on": "true", "version": "1.10", "empty": {}, "none": null, "none-text": "null", "n": 7}],
        "text": "two\nlines\n",
        "b64": "aHVudGVyMg==",
        "octal": "0644",
    });
    let text = String::from_utf8(yaml(&document).unwrap()).unwrap();
    let back: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(back, document, "{text}");
    assert!(text.starts_with("b64: aHVudGVyMg==\nitems:\n- "), "{text}");
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let gone = anyhow::Error::from(std::io::Error::from(ErrorKind::BrokenPipe)).context("cannot write");
    assert!(is_broken_pipe(&gone));
    assert!(!is_broken_pipe(&anyhow::anyhow!("another")));
}

#[test]
fn errors_are_told_as_kubectl_tells_them() {
    let body = serde_json::from_value(json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "secrets \"x\" not found", "reason": "NotFound", "code": 404,
    }));
    let error = crate::client::Error::Server { body: Box::new(body.unwrap()) };
    assert_eq!(error_line(&error.into()), "Error from server (NotFound): secrets \"x\" not found");
    let error = anyhow::anyhow!("why").context("what");
    assert_eq!(error_line(&error), "error: what: why");
    let error =
        anyhow::anyhow!("why").context("what, since why; do that").context("all of it: what, since why; do that");
    assert_eq!(error_line(&error), "error: all of it: what, since why; do that");
}

#[test]
fn freshness_is_a_word_and_an_age() {
    let stale = serde_json::json!({"state": "stale", "ageSeconds": 302.9});
    let mut freshness: Freshness = serde_json::from_value(stale).unwrap();
    assert_eq!(super::freshness(&freshness), "stale 5m2s");
    freshness.state = FreshnessState::Unknown;
    freshness.age_seconds = None;
    assert_eq!(super::freshness(&freshness), "unknown");
}
