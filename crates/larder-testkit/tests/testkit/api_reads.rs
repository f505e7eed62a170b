//! Gets and lists of the simulated API server.

use crate::client::{SOON, client, start, start_with, status};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::Api;
use kube::api::{GetParams, ListParams, PostParams};
use larder_testkit::api_server::{ApiServerOptions, CacheLag, Grant, Kind, User, Verb};
use larder_testkit::objects::{config_map, node, pod, secret};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

#[tokio::test]
async fn what_is_created_is_read_with_its_metadata() {
    let (server, client) = start().await;
    let created = server.store().create(secret("shop", "tls", &[("key", "value")])).expect("created");
    let read: Secret = Api::namespaced(client, "shop").get("tls").await.expect("read");
    assert_eq!(read, created);
    assert_eq!(read.data.expect("data")["key"].0, b"value");
    assert!(read.metadata.uid.is_some() && read.metadata.creation_timestamp.is_some());
    assert_eq!(server.counts().of(Verb::Get, Kind::Secret), 1);
    let request = server.requests().pop().expect("logged");
    assert_eq!((request.namespace.as_str(), request.name.as_str(), request.status), ("shop", "tls", Some(200)));
    assert!(request.is_consistent());
    server.shutdown().await;
}

#[tokio::test]
async fn what_is_not_there_is_told_as_a_status() {
    let (_server, client) = start().await;
    let read = Api::<Secret>::namespaced(client.clone(), "shop").get("tls").await;
    assert_eq!(status(read), (404, "NotFound".into()));
    let unknown = Api::<k8s_openapi::api::core::v1::Service>::namespaced(client, "shop").get("x").await;
    assert_eq!(status(unknown), (404, "NotFound".into()));
}

#[tokio::test]
async fn lists_select_by_label_and_field() {
    let (server, client) = start().await;
    for (name, on, app) in [("a", "n1", "web"), ("b", "n2", "web"), ("c", "n1", "api")] {
        server.store().create(pod("shop", name).node(on).label("app", app).build()).expect("created");
    }
    server.store().create(pod("other", "a").node("n1").build()).expect("created");
    let pods = Api::<Pod>::all(client);
    let names = async |params: ListParams| -> Vec<String> {
        let list = pods.list(&params).await.expect("listed");
        list.items.into_iter().map(|pod| pod.metadata.name.unwrap_or_default()).collect()
    };
    assert_eq!(names(ListParams::default()).await, ["a", "a", "b", "c"]);
    assert_eq!(names(ListParams::default().fields("spec.nodeName=n1")).await, ["a", "a", "c"]);
    assert_eq!(names(ListParams::default().fields("spec.nodeName=n1").labels("app in (web)")).await, ["a"]);
    assert_eq!(names(ListParams::default().fields("metadata.name=b")).await, ["b"]);
    assert_eq!(status(pods.list(&ListParams::default().fields("spec.x=y")).await).0, 400);
}

#[tokio::test]
async fn the_pages_of_a_list_are_of_one_revision() {
    let (server, client) = start().await;
    for index in 0..5 {
        server.store().create(config_map("shop", &format!("c{index}"), &[])).expect("created");
    }
    let maps = Api::<ConfigMap>::namespaced(client, "shop");
    let mut params = ListParams::default().limit(2);
    let first = maps.list(&params).await.expect("listed");
    assert_eq!((first.items.len(), first.metadata.remaining_item_count), (2, Some(3)));
    server.store().delete(Kind::ConfigMap, "shop", "c3").expect("deleted");
    params.continue_token = first.metadata.continue_;
    let second = maps.list(&params).await.expect("listed");
    assert_eq!(second.items[1].metadata.name.as_deref(), Some("c3"), "as it was when the first page was read");
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    server.store().compact();
    params.continue_token = second.metadata.continue_;
    assert_eq!(status(maps.list(&params).await), (410, "Expired".into()));
}

#[tokio::test]
async fn reads_with_version_zero_may_lag_and_others_not() {
    let (server, client) = start().await;
    server.store().create(config_map("shop", "c", &[("k", "old")])).expect("created");
    server.store().set_cache_lag(CacheLag::Frozen);
    server.store().apply(config_map("shop", "c", &[("k", "new")])).expect("applied");
    let maps = Api::<ConfigMap>::namespaced(client, "shop");
    let read =
        async |params: &GetParams| maps.get_with("c", params).await.expect("read").data.expect("data")["k"].clone();
    assert_eq!(read(&GetParams::any()).await, "old");
    assert_eq!(read(&GetParams::default()).await, "new");
    let listed = maps.list(&ListParams::default().match_any()).await.expect("listed");
    assert_eq!(listed.items[0].data.as_ref().expect("data")["k"], "old");
    server.store().set_cache_lag(CacheLag::None);
    assert_eq!(read(&GetParams::any()).await, "new");
    let future = maps.get_with("c", &GetParams::at("999")).await;
    assert_eq!(status(future), (504, "Timeout".into()));
}

#[tokio::test]
async fn a_node_reads_what_is_its_own_and_what_its_pods_refer_to() {
    let lag = Duration::from_millis(50);
    let (server, _) = start_with(ApiServerOptions { authorizer_lag: lag, ..ApiServerOptions::default() }).await;
    let client = client(&server.kubeconfig(&server.add_user(User::node("n1")))).await;
    let store = server.store();
    for name in ["tls", "other"] {
        store.create(secret("shop", name, &[])).expect("created");
    }
    store.create(pod("shop", "mine").node("n1").secret_volume("tls").build()).expect("created");
    store.create(pod("shop", "theirs").node("n2").secret_volume("other").build()).expect("created");
    for name in ["n1", "n2"] {
        store.create(node(name)).expect("created");
    }
    let secrets = Api::<Secret>::namespaced(client.clone(), "shop");
    // Refused at first: the authorizer has not heard of the pod yet.
    let granted = larder_testkit::poll_until(SOON, async || secrets.get("tls").await.ok()).await;
    granted.expect("granted once the authorizer has heard of the pod");
    let (code, _) = status(secrets.get("other").await);
    assert_eq!(code, 403, "referenced by another node's pod only");
    assert_eq!(status(secrets.list(&ListParams::default()).await).0, 403);
    secrets.list(&ListParams::default().fields("metadata.name=tls")).await.expect("one by name may be listed");

    let pods = Api::<Pod>::all(client.clone());
    assert_eq!(status(pods.list(&ListParams::default()).await).0, 403);
    assert_eq!(pods.list(&ListParams::default().fields("spec.nodeName=n1")).await.expect("listed").items.len(), 1);
    let nodes = Api::<Node>::all(client);
    nodes.get("n1").await.expect("its own node");
    let kube::Error::Api(refused) = nodes.get("n2").await.expect_err("another node") else { panic!("not a status") };
    assert!(refused.message.contains("User \"system:node:n1\" cannot get resource \"nodes\""), "{}", refused.message);
}

#[tokio::test]
async fn access_reviews_say_what_is_granted() {
    let (server, _) = start().await;
    let user = User::node("n1").allow(Grant::namespace(Kind::Secret, "shop"));
    let client = client(&server.kubeconfig(&server.add_user(user))).await;
    let ask = async |namespace: &str| {
        let attributes = ResourceAttributes {
            namespace: Some(namespace.into()),
            verb: Some("watch".into()),
            resource: Some("secrets".into()),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await.expect("answered");
        answer.status.expect("a status").allowed
    };
    assert!(ask("shop").await);
    assert!(!ask("other").await);
    assert!(Api::<Secret>::namespaced(client.clone(), "shop").list(&ListParams::default()).await.is_ok());
}

#[tokio::test]
async fn tokens_expire_and_are_replaced() {
    let (server, client) = start().await;
    let nodes = Api::<Node>::all(client);
    nodes.list(&ListParams::default()).await.expect("listed");
    assert!(server.expire_token(server.admin_token()));
    assert_eq!(status(nodes.list(&ListParams::default()).await), (401, "Unauthorized".into()));
    server.set_token(server.admin_token(), User::admin());
    nodes.list(&ListParams::default()).await.expect("listed again");
}

#[tokio::test]
async fn tls_is_spoken_and_a_kubeconfig_is_its_owners_only() {
    let (server, _) = start_with(ApiServerOptions { tls: true, ..ApiServerOptions::default() }).await;
    assert!(server.url().starts_with("https://"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kubeconfig");
    server.write_kubeconfig(&path, server.admin_token()).expect("written");
    assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    let client = client(&std::fs::read_to_string(&path).expect("read")).await;
    Api::<Node>::all(client).list(&ListParams::default()).await.expect("listed over TLS");
}
