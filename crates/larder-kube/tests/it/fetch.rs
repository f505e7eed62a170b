//! Reads of one object.

use crate::fake::{Answer, Fake, SECRET, later, ok, raw, secret, status};
use larder_kube::{KubeError, KubeOptions};
use larder_objects::{Fetch, FetchError, ObjectKey, ReadKind};
use larder_resource::{KubeObject, ObjectKind};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

async fn read(fake: &Fake, options: KubeOptions, read: ReadKind) -> Result<Arc<KubeObject>, KubeError> {
    fake.client(options).fetcher(ObjectKind::Secret).fetch(&ObjectKey::new("web", "tls"), read).await
}

/// One consistent read with that answer.
async fn one(answer: Answer) -> Result<Arc<KubeObject>, KubeError> {
    read(&Fake::new([answer]), KubeOptions::default(), ReadKind::Consistent).await
}

#[tokio::test(start_paused = true)]
async fn a_consistent_read_names_no_version_and_one_from_the_cache_names_zero() {
    let fake = Fake::new([ok(&secret("web", "tls", "7")), ok(&secret("web", "tls", "7"))]);
    let first = read(&fake, KubeOptions::default(), ReadKind::Consistent).await.unwrap();
    read(&fake, KubeOptions::default(), ReadKind::ApiServerCache).await.unwrap();
    assert_eq!(first.resource_version(), "7");
    assert_eq!(*first.json(), *secret("web", "tls", "7").to_string().as_bytes());
    assert_eq!(
        fake.paths(),
        ["/api/v1/namespaces/web/secrets/tls", "/api/v1/namespaces/web/secrets/tls?resourceVersion=0"]
    );
}

#[tokio::test(start_paused = true)]
async fn config_maps_are_read_at_their_path() {
    let map = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"namespace": "web", "name": "conf"}});
    let fake = Fake::new([ok(&map)]);
    let fetcher = fake.client(KubeOptions::default()).fetcher(ObjectKind::ConfigMap);
    fetcher.fetch(&ObjectKey::new("web", "conf"), ReadKind::Consistent).await.unwrap();
    assert_eq!(fake.paths(), ["/api/v1/namespaces/web/configmaps/conf"]);
}

#[tokio::test(start_paused = true)]
async fn each_refusal_has_its_class_and_says_what_to_do() {
    let table = [
        (404, "NotFound", "not_found", "secret web/tls: the API server answered 404 NotFound: said"),
        (401, "Unauthorized", "unauthorized", "has the token or client certificate expired"),
        (403, "Forbidden", "forbidden", "a node's identity may read only what a pod bound to its node refers to"),
        (429, "TooManyRequests", "throttled", "overloaded"),
        (500, "InternalError", "server_error", "larder retries later"),
        (503, "ServiceUnavailable", "server_error", "larder retries later"),
        (302, "", "refused", "302: said"),
        (418, "Odd", "refused", "418 Odd: said"),
    ];
    for (code, reason, class, says) in table {
        let error = one(status(code, reason, "said")).await.unwrap_err();
        assert_eq!(error.class(), class);
        assert_eq!(error.code(), Some(code));
        assert_eq!(error.is_not_found(), code == 404);
        assert_eq!(error.is_unavailable(), matches!(code, 302 | 401 | 429 | 500..));
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_status_still_has_its_code() {
    let html = Answer::Body { code: 502, headers: vec![], body: "<html>bad gateway</html>".into() };
    let error = one(html).await.unwrap_err();
    assert_eq!(error.code(), Some(502));
    assert_eq!(error.to_string(), "secret web/tls: the API server answered 502; larder retries later");
}

#[tokio::test(start_paused = true)]
async fn there_is_one_attempt_and_retry_after_is_handed_on() {
    let fake = Fake::new([later(429, 7), ok(&secret("web", "tls", "1"))]);
    let error = read(&fake, KubeOptions::default(), ReadKind::Consistent).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert_eq!(fake.asked().len(), 1);

    let error = one(later(503, 100_000)).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(KubeOptions::default().retry_after_max));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_given_up_at_the_deadline() {
    let (_feed, silent_body) = crate::fake::Feed::new();
    for answer in [Answer::Hang, silent_body] {
        let begun = Instant::now();
        let error = one(answer).await.unwrap_err();
        assert!(error.is_timeout() && error.is_unavailable(), "{error}");
        assert_eq!(begun.elapsed().as_secs(), 10);
        assert!(
            error.to_string().contains("secret web/tls: no answer from the API server at http://fake within 10s"),
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_is_an_error_of_transport() {
    let (feed, answer) = crate::fake::Feed::new();
    let cut = async {
        feed.text("{\"kind\":\"Sec").await;
        // The answer's head is on its way by then.
        tokio::time::sleep(Duration::from_secs(1)).await;
        feed.cut().await;
    };
    let (broken, (cut, ())) = (one(Answer::Break).await, tokio::join!(one(answer), cut));
    for (error, says) in [(broken, "connection closed before message completed"), (cut, "the answer broke off")] {
        let error = error.unwrap_err();
        assert_eq!(error.class(), "unreachable");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_object_is_refused_and_never_quoted() {
    let whole = secret("web", "tls", "1").to_string();
    let table = [
        (whole[..whole.len() - 3].to_owned(), "it ends in the middle"),
        (format!("{SECRET}{whole}"), "not JSON at line 1"),
        (format!("[\"{SECRET}\"]"), "wrong type"),
        (format!("\"{SECRET}\""), "wrong type"),
        ("null".to_owned(), "wrong type"),
        (String::new(), "it ends in the middle"),
        (secret("web", "other", "1").to_string(), "it is another object: metadata.name differs"),
        (secret("shop", "tls", "1").to_string(), "it is another object: metadata.namespace differs"),
        (whole.replace("\"Secret\"", "\"ConfigMap\""), "kind is not \"Secret\""),
        (whole.replace("\"v1\"", "\"v2\""), "apiVersion is not \"v1\""),
        (whole.replace("\"name\":\"tls\",", ""), "metadata.name is missing"),
        (whole.replace("{\"password\"", &format!("\"{SECRET}\", \"x\": {{\"password\"")), "wrong type"),
        (whole.replace("\"type\":\"Opaque\"", &format!("\"type\":[\"{SECRET}\"]")), "wrong type"),
    ];
    for (body, says) in table {
        let error = one(raw(&body)).await.unwrap_err();
        assert_eq!(error.class(), "decode", "{body}");
        let text = format!("{error} {error:?}");
        assert!(text.contains(says), "{body}: {error}");
        assert!(text.contains("web/tls") && !text.contains(SECRET), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_too_large_is_not_read_to_its_end() {
    let mut options = KubeOptions::default();
    options.max_object_bytes = 64;
    let fake = Fake::new([ok(&secret("web", "tls", "1"))]);
    let error = read(&fake, options, ReadKind::Consistent).await.unwrap_err();
    assert_eq!(error.to_string(), "secret web/tls: the answer cannot be used: it is larger than 64 bytes");
}

#[tokio::test(start_paused = true)]
async fn invalid_names_are_never_sent() {
    let fake = Fake::default();
    let fetcher = fake.client(KubeOptions::default()).fetcher(ObjectKind::Secret);
    for (namespace, name) in
        [("web", ".."), ("web", "a/b"), ("web", "a%2fb"), ("web", ""), ("", "a"), (".", "a"), ("a/b", "c")]
    {
        let error = fetcher.fetch(&ObjectKey::new(namespace, name), ReadKind::Consistent).await.unwrap_err();
        assert!(matches!(error, KubeError::InvalidName { .. }), "{error}");
    }
    assert!(fake.asked().is_empty());
    fake.push(status(404, "NotFound", ""));
    fetcher.fetch(&ObjectKey::new("web", "a?b c"), ReadKind::Consistent).await.unwrap_err();
    assert_eq!(fake.paths(), ["/api/v1/namespaces/web/secrets/a%3Fb%20c"]);
}

#[tokio::test(start_paused = true)]
async fn a_403_just_after_a_pod_arrived_is_retried() {
    let denied = || status(403, "Forbidden", "no relationship found");
    let fake = Fake::new([denied(), denied(), ok(&secret("web", "tls", "7"))]);
    let client = fake.client(KubeOptions::default());
    client.note_pod("web");
    let key = ObjectKey::new("web", "tls");
    let begun = Instant::now();
    client.fetcher(ObjectKind::Secret).fetch(&key, ReadKind::Consistent).await.unwrap();
    assert_eq!(fake.asked().len(), 3);
    assert!(begun.elapsed() >= Duration::from_millis(150) && begun.elapsed() < Duration::from_millis(350));
}

#[tokio::test(start_paused = true)]
async fn a_403_is_final_without_a_new_pod_or_after_the_grace() {
    let denied = || status(403, "Forbidden", "");
    let key = ObjectKey::new("web", "tls");
    let fake = Fake::new([denied(), denied(), denied(), denied()]);
    let client = fake.client(KubeOptions::default());
    let fetcher = client.fetcher(ObjectKind::Secret);
    client.note_pod("shop");
    assert!(fetcher.fetch(&key, ReadKind::Consistent).await.unwrap_err().is_forbidden());
    client.note_pod("web");
    // It has been read before: the server has long known of the pod.
    assert!(fetcher.fetch(&key, ReadKind::ApiServerCache).await.unwrap_err().is_forbidden());
    tokio::time::advance(client.options().forbidden_grace).await;
    assert!(fetcher.fetch(&key, ReadKind::Consistent).await.unwrap_err().is_forbidden());
    assert_eq!(fake.asked().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_lasting_403_is_returned_within_the_deadline() {
    let fake = Fake::new((0..100).map(|_| status(403, "Forbidden", "")));
    let mut options = KubeOptions::default();
    options.forbidden_grace = Duration::from_mins(1);
    let client = fake.client(options);
    client.note_pod("web");
    let begun = Instant::now();
    let fetch = client.fetcher(ObjectKind::Secret).fetch(&ObjectKey::new("web", "tls"), ReadKind::Consistent);
    assert!(fetch.await.unwrap_err().is_forbidden());
    assert!(begun.elapsed() <= client.options().fetch_deadline);
    // Pauses grow to a second: some twenty requests in ten seconds, no storm.
    assert!((10..=25).contains(&fake.asked().len()), "{}", fake.asked().len());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_read_ends_its_request() {
    let (feed, answer) = crate::fake::Feed::new();
    let fake = Fake::new([answer]);
    let fetcher = fake.client(KubeOptions::default()).fetcher(ObjectKind::Secret);
    let fetch = tokio::spawn(fetcher.fetch(&ObjectKey::new("web", "tls"), ReadKind::Consistent));
    fake.until_asked(1).await;
    fetch.abort();
    feed.closed().await;
}
