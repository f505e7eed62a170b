//! A node to ask, in paused time: a request may wait some seconds for a version that never comes.

use crate::access::Policies;
use crate::app::{self, App};
use crate::audit::Audit;
use crate::cache_status::CacheStatus;
use crate::caller::Caller;
use crate::error::ErrorBody;
use axum::Router;
use axum::body::Body;
use http::{Method, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use larder_node::{Cluster, Config, Node, RuntimeEndpoint};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// The host's root.
pub(crate) fn root() -> Caller {
    Caller::Host { uid: 0, gids: [0].into(), is_admin: true }
}

/// A node without a cluster and without a runtime, and the routers of its listeners.
pub(crate) struct Bench {
    pub(crate) runtime: Runtime,
    pub(crate) app: Arc<App>,
    pub(crate) local: Router,
    pub(crate) open: Router,
    pub(crate) strangers: Router,
    _folder: tempfile::TempDir,
}

/// The bench that requests share.
pub(crate) fn shared() -> &'static Bench {
    static BENCH: OnceLock<Bench> = OnceLock::new();
    BENCH.get_or_init(Bench::new)
}

impl Bench {
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let folder = tempfile::tempdir().expect("a folder");
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: a, image: i}]}}";
        std::fs::write(folder.path().join("pod.yaml"), pod).expect("a manifest");
        let mut config = Config::new("node-1".to_owned(), Cluster::Manifests(folder.path().to_owned()));
        config.runtime = RuntimeEndpoint::None;
        let app = runtime.block_on(async {
            let token = CancellationToken::new();
            let node = Node::start(config, token.clone()).await.expect("a node");
            node.settled().await;
            App::new(node, Policies::open(None).expect("no file"), Audit::default(), None, token)
        });
        let (local, open, strangers) = (app::local(&app), app::open(&app), app::strangers(&app));
        Self { runtime, app, local, open, strangers, _folder: folder }
    }

    /// The code of the answer, and the `Status` of an answer that is none of 2xx.
    pub(crate) fn answer_to(
        &self,
        router: &Router,
        mut request: http::Request<Body>,
        caller: Option<Caller>,
    ) -> (StatusCode, Option<Status>) {
        let (method, target) = (request.method().clone(), request.uri().clone());
        if let Some(caller) = caller {
            request.extensions_mut().insert(caller);
        }
        let answered = async {
            let Ok(response) = router.clone().oneshot(request).await;
            let code = response.status();
            let values: Vec<_> = response.headers().get_all("cache-status").iter().collect();
            let parsed = values.first().and_then(|value| CacheStatus::parse(value.to_str().ok()?));
            assert!(parsed.is_some() && values.len() == 1, "{method} {target}: {values:?}");
            assert!(response.headers().contains_key(header::AGE), "{method} {target}: {:?}", response.headers());
            let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|value| value == "application/json");
            assert!(code.is_success() || is_json, "{method} {target}: {code} with {:?}", response.headers());
            // A watch has no length.
            if code.is_success() && response.body().size_hint().exact().is_none() || method == Method::HEAD {
                return (code, None);
            }
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            if code.is_success() {
                let is_read = !is_json || serde_json::from_slice::<serde_json::Value>(&body).is_ok();
                assert!(is_read, "{method} {target}: {code} with {:?}", String::from_utf8_lossy(&body));
                return (code, None);
            }
            let body: ErrorBody =
                serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{method} {target}: {code}: {error}"));
            (code, Some(body.status))
        };
        let within = async { tokio::time::timeout(Duration::from_mins(1), answered).await };
        self.runtime.block_on(within).unwrap_or_else(|_| panic!("{method} {target} is not answered"))
    }
}
