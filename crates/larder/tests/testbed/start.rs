//! Starting with what cannot work, and ending.

use crate::daemon::Daemon;
use larder_testbed::poll::until;
use larder_testbed::{Options, Testbed};
use std::time::Duration;

const LIMIT: Duration = Duration::from_mins(1);

#[tokio::test]
async fn a_wrong_node_name_is_told_and_serves_nothing() {
    let testbed = Testbed::start(Options::default()).await.expect("testbed");
    let kubeconfig = testbed.node_kubeconfig().display().to_string();
    let daemon = Daemon::spawn(&testbed, &["--kubeconfig", &kubeconfig, "--node-name", "another"]);
    let told = until("larder says what is wrong", LIMIT, async || {
        let log = daemon.log();
        if log.contains("another") && log.to_lowercase().contains("forbidden") { Ok(()) } else { Err(log) }
    });
    told.await.expect("told");
    let report = until("larder answers", LIMIT, async || {
        let answer = daemon.get("/larder/v1/status").await;
        let is_degraded = answer.body["degraded"].as_array().is_some_and(|all| !all.is_empty());
        if is_degraded { Ok(answer.body) } else { Err(format!("{answer:?}")) }
    });
    let report = report.await.expect("degraded").to_string();
    assert!(report.contains("another"), "{report}");
    assert_ne!(daemon.get("/readyz").await.status, 200);
    let pods = daemon.larder(&["get", "pods", "-A"]).await;
    assert_eq!(pods.code, Some(1), "what is not known yet is no empty list: {pods:?}");
}

#[tokio::test]
async fn sigterm_ends_it_cleanly() {
    let testbed = Testbed::start(Options::default()).await.expect("testbed");
    let daemon = Daemon::start(&testbed).await;
    let socket = daemon.socket().to_owned();
    let (status, log) = daemon.terminate();
    assert!(status.success(), "{status}: {log}");
    assert!(!socket.exists(), "the socket is removed");
}
