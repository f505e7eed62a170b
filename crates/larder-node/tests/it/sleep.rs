//! A machine that sleeps: after it wakes, all that the node holds is stale at once and says why, and is fresh again once the
//! API server has answered.

use crate::machine::{InMemory, Laptop};
use larder_clock::MonotonicClock;
use larder_node::{Cluster, Config, Node, ObjectKind, RuntimeEndpoint, Strategy};
use larder_objects::Freshness;
use larder_testkit::api_server::{ApiServer, ApiServerOptions};
use larder_testkit::objects::{config_map, node, pod, secret};
use larder_testkit::poll_until;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How fresh what the node holds of one thing is, and why that is stale.
type Held = (&'static str, Freshness, Option<String>);

/// A pod, the node object, a Secret that is watched and a ConfigMap that expires.
async fn read_all(node: &Node<&'static Laptop>) -> [Held; 4] {
    let deadline = Duration::from_millis(100);
    let pod = node.get_pod("shop", "web-0").unwrap();
    let own = node.get_node("n1").unwrap();
    let secret = node.get_object(ObjectKind::Secret, "shop", "db", deadline).await.unwrap();
    let config_map = node.get_object(ObjectKind::ConfigMap, "shop", "web", deadline).await.unwrap();
    [
        ("pod", pod.freshness, pod.why),
        ("node", own.freshness, own.why),
        ("secret", secret.freshness, secret.why),
        ("configmap", config_map.freshness, config_map.why),
    ]
}

/// Waits until all of it is fresh, or all of it is stale.
async fn until_all(node: &Node<&'static Laptop>, is_fresh: bool) -> [Held; 4] {
    let all = || async {
        let all = read_all(node).await;
        all.iter().all(|(_, freshness, _)| freshness.is_fresh() == is_fresh).then_some(all)
    };
    poll_until(Duration::from_mins(1), all).await.unwrap()
}

#[tokio::test]
async fn after_a_sleep_all_that_a_node_holds_is_stale_until_the_api_server_answers() {
    const NIGHT: Duration = Duration::from_hours(8);
    let server = Arc::new(ApiServer::start_with(ApiServerOptions { tls: true, ..Default::default() }).await.unwrap());
    server.store().create(node("n1")).unwrap();
    server.store().create(secret("shop", "db", &[])).unwrap();
    server.store().create(config_map("shop", "web", &[])).unwrap();
    let web = pod("shop", "web-0").node("n1").container("web", "web:1").secret_volume("db").config_map_volume("web");
    server.store().create(web.build()).unwrap();
    let folder = TempDir::new().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    server.write_kubeconfig(&kubeconfig, server.admin_token()).unwrap();

    let mut config = Config::new("n1", Cluster::Kubeconfig { path: kubeconfig, context: None });
    config.runtime = RuntimeEndpoint::None;
    config.kube.connector = Some(Arc::new(InMemory(Arc::clone(&server))));
    config.change_detection.config_maps = Strategy::Ttl;
    let laptop = Laptop::leaked();
    let node = Node::start_with_clock(config, MonotonicClock::of(laptop), CancellationToken::new()).await.unwrap();
    tokio::time::pause();
    node.settled().await;

    for _ in 0..2 {
        until_all(&node, true).await;
        // The server answers nothing, so that only larder itself can tell that what it holds is old.
        server.freeze(true);
        laptop.sleep(NIGHT);
        node.note_sleep();
        let woken = Instant::now();
        for (what, freshness, why) in until_all(&node, false).await {
            assert!(freshness.age(node.now()) >= NIGHT, "{what}: {freshness:?}");
            assert!(why.as_ref().is_some_and(|why| why.contains("no answer")), "{what}: {why:?}");
        }
        // Before a PING has gone unanswered.
        assert!(woken.elapsed() <= Duration::from_secs(1), "{:?}", woken.elapsed());
        let degraded = node.report().degraded;
        for source in ["pods", "node", "secrets"] {
            assert!(degraded.iter().any(|line| line.starts_with(&format!("{source}: "))), "{source}: {degraded:?}");
        }
        server.freeze(false);
    }
    until_all(&node, true).await;
    assert_eq!(node.report().degraded, [""; 0]);
    node.stop().await;
}
