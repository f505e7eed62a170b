//! Whatever is asked on whichever path: an error is a `Status` with the code of the answer.

use super::*;
use crate::cache_status::CacheStatus;
use crate::error::ErrorBody;
use axum::body::Body;
use http::{StatusCode, header};
use http_body_util::BodyExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use larder_node::{Cluster, Config, RuntimeEndpoint};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

/// A node without a cluster and without a runtime, and both its routers.
struct Bench {
    runtime: Runtime,
    local: Router,
    open: Router,
    _folder: tempfile::TempDir,
}

fn bench() -> &'static Bench {
    static BENCH: OnceLock<Bench> = OnceLock::new();
    BENCH.get_or_init(|| {
        // In paused time: a request may wait some seconds for a version that never comes.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: a, image: i}]}}";
        std::fs::write(folder.path().join("pod.yaml"), pod).unwrap();
        let mut config = Config::new("node-1".to_owned(), Cluster::Manifests(folder.path().to_owned()));
        config.runtime = RuntimeEndpoint::None;
        let app = runtime.block_on(async {
            let token = CancellationToken::new();
            let node = Node::start(config, token.clone()).await.unwrap();
            node.settled().await;
            App::new(node, None, token)
        });
        let (local, open) = (super::local(&app), super::open(&app));
        Bench { runtime, local, open, _folder: folder }
    })
}

/// The code of the answer, and the `Status` of an answer that is none of 2xx.
fn answer(router: &Router, method: &str, target: &str, caller: Option<Caller>) -> (StatusCode, Option<Status>) {
    let request = http::Request::builder().method(method).uri(target).body(Body::empty()).unwrap();
    answer_to(router, request, caller)
}

fn answer_to(
    router: &Router,
    mut request: http::Request<Body>,
    caller: Option<Caller>,
) -> (StatusCode, Option<Status>) {
    let (method, target) = (request.method().clone(), request.uri().clone());
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller);
    }
    let answered = async {
        let response = router.clone().oneshot(request).await.unwrap();
        let code = response.status();
        for value in response.headers().get_all("cache-status") {
            assert!(CacheStatus::parse(value.to_str().unwrap()).is_some(), "{method} {target}: {value:?}");
        }
        if code.is_success() {
            return (code, None);
        }
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json", "{method} {target}");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        if method == Method::HEAD {
            return (code, None);
        }
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&body).unwrap()["kind"], "Status", "{method} {target}");
        let body: Result<ErrorBody, _> = serde_json::from_slice(&body);
        (code, Some(body.unwrap_or_else(|error| panic!("{method} {target}: {error}")).status))
    };
    let within = async { tokio::time::timeout(Duration::from_mins(1), answered).await };
    bench().runtime.block_on(within).expect("it is answered")
}

const ROOT: Caller = Caller::Process { uid: 0, may_read: true };
const FOREIGN: Caller = Caller::Process { uid: 4711, may_read: false };

/// A part of a path or a value of a parameter: one that larder knows, or bytes of any kind, escaped or as they are.
fn part() -> impl Strategy<Value = String> {
    let known = [
        "api",
        "apis",
        "v1",
        "version",
        "openapi",
        "v3",
        "authorization.k8s.io",
        "authentication.k8s.io",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "selfsubjectreviews",
        "namespaces",
        "default",
        "secrets",
        "configmaps",
        "pods",
        "nodes",
        "web",
        "node-1",
        "larder",
        "status",
        "objects",
        "events",
        "livez",
        "readyz",
        "metrics",
        "",
        "..",
        "%",
        "%f",
        "%00",
        "%2F",
        "%ff%fe",
        "{kind}",
        "true",
        "10ms",
        "a=b",
        "0",
        "1",
        "18446744073709551615",
        "NotOlderThan",
        "Exact",
        "Object",
        "None",
        "metadata.name%3Dweb",
        "status.phase!%3DRunning",
    ];
    prop_oneof![
        4 => select(known.to_vec()).prop_map(str::to_owned),
        1 => vec(any::<u8>().prop_map(|byte| format!("%{byte:02x}")), 0..6).prop_map(|escaped| escaped.concat()),
        1 => "[!-~]{0,8}",
    ]
}

fn target() -> impl Strategy<Value = String> {
    let known = [
        "timeout",
        "newerThan",
        "changedAfter",
        "labelSelector",
        "fieldSelector",
        "pod",
        "watch",
        "resourceVersion",
        "resourceVersionMatch",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "timeoutSeconds",
        "limit",
        "continue",
        "includeObject",
        "tail",
        "sync",
        "objects",
        "namespace",
        "partial",
        "verbose",
    ];
    let parameter = (prop_oneof![select(known.to_vec()).prop_map(str::to_owned), part()], part());
    (vec(part(), 0..7), vec(parameter, 0..5)).prop_map(|(parts, parameters)| {
        let query: Vec<_> = parameters.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("/{}?{}", parts.join("/"), query.join("&"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn every_error_is_a_status(
        method in select(vec!["GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"]),
        target in target(),
        router in select(vec!["root", "foreign", "nobody", "open"]),
    ) {
        // What is no URI is answered by the HTTP library, with 400.
        prop_assume!(target.parse::<http::Uri>().is_ok());
        let (code, status) = match router {
            "root" => answer(&bench().local, method, &target, Some(ROOT)),
            "foreign" => answer(&bench().local, method, &target, Some(FOREIGN)),
            "nobody" => answer(&bench().local, method, &target, None),
            _ => answer(&bench().open, method, &target, None),
        };
        let expected: &[u16] = match (router, method) {
            ("foreign", _) => &[403],
            ("nobody", _) => &[401],
            (_, "GET" | "HEAD") => &[200, 400, 403, 404, 405, 410, 422, 501, 504],
            // A review without a body.
            (_, "POST") => &[400, 405],
            _ => &[405],
        };
        prop_assert!(expected.contains(&code.as_u16()), "{method} {target} for {router}: {code}");
        if let Some(status) = status {
            prop_assert_eq!(status.code, Some(code.as_u16().into()));
            let is_told = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
            prop_assert!(is_told(&status.message) && is_told(&status.reason), "{:?}", status);
        }
    }
}

/// A media range, or a part of one.
fn media_range() -> impl Strategy<Value = String> {
    let known = [
        "application/json",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io;q=0.5",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "application/vnd.kubernetes.protobuf",
        "*/*",
        "application/*;q=0",
        ";q=",
        "as=Table",
        ",",
    ];
    prop_oneof![3 => select(known.to_vec()).prop_map(str::to_owned), 1 => "[ -~]{0,16}"]
}

/// A list or watch with parameters and an `Accept` header of any kind.
fn read_of_a_kind() -> impl Strategy<Value = (String, String)> {
    let paths = [
        "/api",
        "/apis",
        "/api/v1",
        "/api/v1/pods",
        "/api/v1/nodes",
        "/api/v1/secrets",
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/default/pods/web",
        "/apis/authorization.k8s.io/v1",
        "/openapi/v3",
        "/version",
    ];
    let names = [
        "watch",
        "resourceVersion",
        "resourceVersionMatch",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "timeoutSeconds",
        "limit",
        "continue",
        "includeObject",
        "labelSelector",
        "fieldSelector",
    ];
    let values = [
        "",
        "0",
        "1",
        "7",
        "true",
        "false",
        "NotOlderThan",
        "Exact",
        "Object",
        "None",
        "Metadata",
        "a%3Db",
        "!a",
        "a%20in%20(b,c)",
        "metadata.name%3Dweb",
        "status.phase%3DRunning",
        "18446744073709551615",
        "-1",
    ];
    let value = prop_oneof![4 => select(values.to_vec()).prop_map(str::to_owned), 1 => part()];
    let parameter = (select(names.to_vec()), value).prop_map(|(name, value)| format!("{name}={value}"));
    let accept = vec(media_range(), 0..4).prop_map(|ranges| ranges.join(","));
    (select(paths.to_vec()), vec(parameter, 0..6), accept)
        .prop_map(|(path, parameters, accept)| (format!("{path}?{}", parameters.join("&")), accept))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn lists_and_watches_answer_any_parameters_and_any_accept_header((target, accept) in read_of_a_kind()) {
        prop_assume!(target.parse::<http::Uri>().is_ok());
        let request = http::Request::builder().uri(&target).header(header::ACCEPT, &accept).body(Body::empty());
        prop_assume!(request.is_ok());
        let (code, _) = answer_to(&bench().local, request.unwrap(), Some(ROOT));
        // 501: this node has no API server whose version and schemas there are.
        prop_assert!([200, 400, 406, 410, 422, 501, 504].contains(&code.as_u16()), "{target} {accept}: {code}");
    }

    #[test]
    fn a_review_of_any_bytes_is_answered(
        name in select(vec!["authorization.k8s.io/v1/selfsubjectaccessreviews", "authorization.k8s.io/v1/selfsubjectrulesreviews",
            "authentication.k8s.io/v1/selfsubjectreviews"]),
        media_type in select(vec!["application/json", "application/vnd.kubernetes.protobuf", "application/json; charset=utf-8", "text/plain"]),
        begins in select(vec!["", "k8s\0", "{\"kind\":\"SelfSubjectAccessReview\",\"apiVersion\":\"authorization.k8s.io/v1\",\"spec\":"]),
        rest in vec(any::<u8>(), 0..64),
    ) {
        let body = [begins.as_bytes(), &rest].concat();
        let request = http::Request::post(format!("/apis/{name}")).header(header::CONTENT_TYPE, media_type).body(Body::from(body));
        let (code, _) = answer_to(&bench().local, request.unwrap(), Some(ROOT));
        prop_assert!([201, 400, 415].contains(&code.as_u16()), "{code}");
    }
}

#[test]
fn a_path_that_cannot_be_decoded_is_refused_with_where() {
    for target in [
        "/api/v1/%ff",
        "/api/v1/nodes/%ff",
        "/api/v1/namespaces/%ff/pods",
        "/api/v1/namespaces/default/secrets/%c3%28",
        "/larder/v1/objects/%ff",
        "/larder/v1/objects/secrets/default/%ff",
        "/larder/v1/pods/%ff/status",
        "/larder/v1/namespaces/%ff/pods/web/status",
    ] {
        let (code, status) = answer(&bench().local, "GET", target, Some(ROOT));
        let status = status.unwrap();
        assert_eq!((code.as_u16(), status.reason.as_deref()), (400, Some("BadRequest")), "{target}");
        let message = status.message.unwrap();
        assert!(message.contains(target) && message.contains("UTF-8"), "{message}");
    }
}

#[test]
fn a_check_that_fails_has_its_reason_on_the_socket_alone() {
    // No runtime answers there.
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::new("telltale-node".to_owned(), Cluster::Manifests(folder.path().to_owned()));
    config.runtime = RuntimeEndpoint::At(format!("unix://{}", folder.path().join("telltale.sock").display()));
    let (local, open) = bench().runtime.block_on(async {
        let token = CancellationToken::new();
        let node = Node::start(config, token.clone()).await.unwrap();
        node.settled().await;
        let app = App::new(node, None, token);
        (super::local(&app), super::open(&app))
    });
    let text = |router: &Router, caller: Option<Caller>| {
        let mut request = http::Request::builder().uri("/readyz?verbose").body(Body::empty()).unwrap();
        request.extensions_mut().insert(caller.unwrap_or(ROOT));
        let router = router.clone();
        bench().runtime.block_on(async move {
            let response = router.oneshot(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
        })
    };
    let (told, withheld) = (text(&local, Some(ROOT)), text(&open, None));
    assert!(told.contains("[-]runtime failed: ") && !told.contains("withheld"), "{told}");
    assert!(withheld.contains("[+]pods ok\n[-]runtime failed: reason withheld\n"), "{withheld}");
    assert!(withheld.ends_with("readyz check failed\n") && !withheld.contains("telltale"), "{withheld}");
}
