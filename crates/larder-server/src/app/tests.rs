//! Paths that cannot be decoded, and what health checks say to whom. The [fuzz targets](crate::fuzz) ask for everything else.

use super::*;
use crate::fuzz::bench::{root, shared as bench};
use axum::body::Body;
use http::StatusCode;
use http_body_util::BodyExt as _;
use larder_node::{Cluster, Config, RuntimeEndpoint};
use tower::ServiceExt as _;

fn get(target: &str) -> http::Request<Body> {
    http::Request::get(target).body(Body::empty()).unwrap()
}

#[test]
fn a_path_that_cannot_be_decoded_is_refused_with_where() {
    for target in [
        "/api/v1/%ff",
        "/api/v1/nodes/%ff",
        "/api/v1/namespaces/%ff/pods",
        "/api/v1/namespaces/default/secrets/%c3%28",
        "/apis/%ff",
        "/apis/authorization.k8s.io/%ff",
        "/openapi/v3/%ff",
        "/larder/v1/objects/%ff",
        "/larder/v1/objects/secrets/default/%ff",
        "/larder/v1/pods/%ff/status",
        "/larder/v1/namespaces/%ff/pods/web/status",
    ] {
        let (code, status) = bench().answer_to(&bench().local, get(target), Some(root()));
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
        let app =
            App::new(node, crate::access::Policies::open(None).unwrap(), crate::audit::Audit::default(), None, token);
        (super::local(&app), super::open(&app))
    });
    let text = |router: &Router, caller: Option<Caller>| {
        let mut request = http::Request::builder().uri("/readyz?verbose").body(Body::empty()).unwrap();
        request.extensions_mut().insert(caller.unwrap_or_else(root));
        let router = router.clone();
        bench().runtime.block_on(async move {
            let response = router.oneshot(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
        })
    };
    let (told, withheld) = (text(&local, Some(root())), text(&open, None));
    assert!(told.contains("[-]runtime failed: ") && !told.contains("withheld"), "{told}");
    assert!(withheld.contains("[+]pods ok\n[-]runtime failed: reason withheld\n"), "{withheld}");
    assert!(withheld.ends_with("readyz check failed\n") && !withheld.contains("telltale"), "{withheld}");
}
