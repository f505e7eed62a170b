//! Lists of all pods: streamed where the runtime does that, one answer otherwise.

use larder_cri::{CriObserver, CriOptions, CriRuntime, parse_endpoint};
use larder_pleg::{ContainerEvent, Runtime as _, RuntimeError, RuntimePod};
use larder_testkit::cri_runtime::{Call, CallFault, Containers, CriServer, CriServerOptions, SandboxSpec};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tonic::Code;

/// The calls, and how they ended.
#[derive(Default)]
struct Seen(Mutex<Vec<(&'static str, &'static str)>>);

impl CriObserver for Seen {
    fn call(&self, name: &'static str, outcome: &'static str, _: Duration) {
        self.0.lock().unwrap().push((name, outcome));
    }

    fn event(&self, _: &ContainerEvent) {}
}

impl Seen {
    fn take(&self) -> Vec<(&'static str, &'static str)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// So many pods with a container each, whose image's name has so many bytes.
fn node(pods: usize, bytes: usize) -> Containers {
    let containers = Containers::new();
    for n in 0..pods {
        let sandbox = containers.run_sandbox(&SandboxSpec::new("ns", &format!("p{n}"), &format!("u{n}")));
        containers.create_container(&sandbox, "app", &"x".repeat(bytes)).unwrap();
    }
    containers
}

async fn start(
    containers: Containers,
    streaming_lists: bool,
    options: CriOptions,
) -> (TempDir, CriServer, CriRuntime, Arc<Seen>) {
    let folder = tempfile::tempdir().unwrap();
    let server = CriServerOptions { containers, streaming_lists, ..CriServerOptions::default() };
    let server = CriServer::start_with(&folder.path().join("cri.sock"), server).await.unwrap();
    let seen = Arc::new(Seen::default());
    let endpoint = parse_endpoint(&server.endpoint()).unwrap();
    let runtime = CriRuntime::with_observer(endpoint, options, seen.clone()).unwrap();
    (folder, server, runtime, seen)
}

fn uids(pods: &[RuntimePod]) -> Vec<String> {
    let mut uids: Vec<_> = pods.iter().map(|pod| pod.uid.to_string()).collect();
    uids.sort();
    uids
}

#[tokio::test]
async fn a_list_in_parts_is_the_list_in_one() {
    // None, fewer than a part has, just a part, and more.
    for count in [0, 1, 100, 250] {
        let containers = node(count, 10);
        let (_one, _server, streaming, seen) = start(containers.clone(), true, CriOptions::default()).await;
        let (_two, _server, whole, _) = start(containers, false, CriOptions::default()).await;
        let pods = streaming.pods().await.unwrap();
        assert_eq!(uids(&pods), uids(&whole.pods().await.unwrap()));
        assert!(pods.iter().all(|pod| (pod.containers.len(), pod.sandboxes.len()) == (1, 1)));
        assert_eq!(seen.take(), [("Version", "ok"), ("StreamPodSandboxes", "ok"), ("StreamContainers", "ok")]);
    }
}

#[tokio::test]
async fn lists_larger_than_a_message_may_be_are_taken_in_parts_or_say_which_limit_to_raise() {
    let containers = node(300, 1 << 10);
    let mut options = CriOptions::default();
    options.max_message_bytes = 500 << 10;
    let (_one, _server, streaming, _) = start(containers.clone(), true, options.clone()).await;
    assert_eq!(streaming.pods().await.unwrap().len(), 300);

    let (_two, _server, whole, _) = start(containers.clone(), false, options).await;
    let error = whole.pods().await.unwrap_err();
    assert!(matches!(error, RuntimeError::BadResponse { .. }), "{error:?}");
    assert!(error.to_string().contains("cri.maxMessageBytes"), "{error}");
    let mut options = CriOptions::default();
    options.max_message_bytes = 2 << 20;
    let (_three, _server, whole, _) = start(containers, false, options).await;
    assert_eq!(whole.pods().await.unwrap().len(), 300);
}

#[tokio::test]
async fn a_runtimes_own_limit_is_told_apart() {
    let (_folder, server, runtime, _) = start(node(1, 1), false, CriOptions::default()).await;
    let words = "trying to send message larger than max (17000000 vs. 16777216)";
    server.inject(CallFault::fail(Code::ResourceExhausted, words).call(Call::ListContainers));
    let error = runtime.pods().await.unwrap_err().to_string();
    assert!(error.contains("the runtime's own limit") && error.contains("grpc.max_send_message_size"), "{error}");
}

#[tokio::test]
async fn a_runtime_without_streaming_lists_is_asked_for_them_once_for_each_connection() {
    let (_folder, server, runtime, seen) = start(node(1, 1), false, CriOptions::default()).await;
    let first =
        [("Version", "ok"), ("StreamPodSandboxes", "unsupported"), ("ListPodSandbox", "ok"), ("ListContainers", "ok")];
    runtime.pods().await.unwrap();
    assert_eq!(seen.take(), first);
    runtime.pods().await.unwrap();
    assert_eq!(seen.take(), first[2..]);
    // It may have been upgraded.
    server.outage().await;
    while runtime.pods().await.is_ok() {}
    server.restore().await.unwrap();
    // The connection is known to be a new one once it has been used.
    while !seen.take().ends_with(&first) {
        let _ = runtime.pods().await;
    }
}

#[tokio::test]
async fn a_list_of_one_pod_is_one_answer() {
    let (_folder, _server, runtime, seen) = start(node(3, 1), true, CriOptions::default()).await;
    assert!(runtime.pod(&"u1".into()).await.unwrap().is_some());
    let mut calls = seen.take();
    calls.sort_unstable();
    assert_eq!(calls, [("ListContainers", "ok"), ("ListPodSandbox", "ok"), ("Version", "ok")]);
}

#[tokio::test]
async fn a_streamed_list_that_hangs_ends_at_its_deadline_and_one_that_fails_is_not_taken_for_missing() {
    let mut options = CriOptions::default();
    options.list_timeout = Duration::from_millis(200);
    let (_folder, server, runtime, seen) = start(node(1, 1), true, options).await;
    let hang = server.inject(CallFault::hang().call(Call::ListContainers));
    let error = runtime.pods().await.unwrap_err();
    assert!(error.is_timeout() && error.call().name == "StreamContainers", "{error}");
    server.remove_fault(hang);
    server.inject(CallFault::fail(Code::Internal, "told to").call(Call::ListPodSandbox).times(1));
    assert_eq!(runtime.pods().await.unwrap_err().kind(), "failed");
    seen.take();
    runtime.pods().await.unwrap();
    assert_eq!(seen.take(), [("StreamPodSandboxes", "ok"), ("StreamContainers", "ok")]);
}
