//! The whole simulated cluster, over its sockets.

use crate::client::{SOON, client};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::ListParams;
use larder_testkit::api_server::ApiServerOptions;
use larder_testkit::cluster::{Cluster, ClusterOptions, Happening, KubeletOptions};
use larder_testkit::objects::pod;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;

async fn until(happenings: &mut Receiver<Happening>, text: &str) {
    let found = async { while !happenings.recv().await.expect("the kubelet runs").to_string().contains(text) {} };
    tokio::time::timeout(SOON, found).await.expect("soon");
}

#[tokio::test]
async fn a_pod_lives_through_an_outage_of_the_api_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let kubelet = KubeletOptions { backoff: Duration::from_millis(10), ..KubeletOptions::default() };
    let api = ApiServerOptions { tls: true, ..ApiServerOptions::default() };
    let options = ClusterOptions { api, kubelet, object_ttl_seconds: Some(5), ..ClusterOptions::default() };
    let cluster = Cluster::start(folder.path(), options).await.expect("started");
    let mut happenings = cluster.happenings();
    let web = pod("shop", "web").node(cluster.node()).container("web", "shop/web:2");
    cluster.api().store().create(web.build()).expect("created");
    until(&mut happenings, "container web started").await;

    let kubeconfig = std::fs::read_to_string(cluster.kubeconfig()).expect("written");
    let client = client(&kubeconfig).await;
    let node = Api::<Node>::all(client.clone()).get(cluster.node()).await.expect("its own node");
    assert_eq!(node.metadata.annotations.expect("annotations")["node.alpha.kubernetes.io/ttl"], "5");

    cluster.outage().await;
    cluster.crash("shop", "web", 9).expect("it runs");
    until(&mut happenings, "container web exited with code 9").await;
    until(&mut happenings, "restarted (restarts: 1)").await;
    cluster.restore().await.expect("restored");
    let pods = Api::<Pod>::all(client);
    let own = ListParams::default().fields(&format!("spec.nodeName={}", cluster.node()));
    let told = larder_testkit::poll_until(SOON, async || {
        let list = pods.list(&own).await.ok()?;
        let statuses = list.items.first()?.status.as_ref()?.container_statuses.clone()?;
        (statuses[0].restart_count == 1).then_some(())
    });
    told.await.expect("the restart is told afterwards");

    cluster.delete_pod("shop", "web").expect("marked");
    until(&mut happenings, "removed").await;
    cluster.crash("shop", "web", 1).expect_err("nothing runs any more");
    let socket = cluster.cri().socket().to_owned();
    cluster.shutdown().await;
    assert!(!socket.exists());
}
