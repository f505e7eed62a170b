//! Which of several sockets a runtime answers at.

use larder_cri::{CriObserver, CriOptions, Endpoint, FoundRuntimes, find_runtimes, parse_endpoint};
use larder_pleg::RuntimeError;
use larder_testkit::cri_runtime::{Call, CallFault, CriServer};
use std::path::Path;
use std::sync::Arc;
use tonic::Code;

fn at(folder: &Path, name: &str) -> Endpoint {
    parse_endpoint(folder.join(name).to_str().unwrap()).unwrap()
}

async fn find(endpoints: &[Endpoint]) -> FoundRuntimes {
    let observer: Arc<dyn CriObserver> = Arc::new(());
    find_runtimes(endpoints, &CriOptions::default(), &observer).await.unwrap()
}

fn found(found: &FoundRuntimes) -> Vec<Endpoint> {
    found.runtimes.iter().filter_map(|runtime| runtime.endpoint().cloned()).collect()
}

#[tokio::test]
async fn only_a_socket_that_has_answered_as_a_runtime_is_found_and_the_others_say_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let places = ["docker.sock", "nobody.sock", "missing.sock", "dockerd.sock", "crio.sock"];
    let endpoints = places.map(|name| at(folder.path(), name));
    let docker = CriServer::start(endpoints[0].path()).await.unwrap();
    let words = "unknown service runtime.v1.RuntimeService";
    docker.inject(CallFault::fail(Code::Unimplemented, words).call(Call::Version));
    drop(tokio::net::UnixListener::bind(endpoints[1].path()).unwrap());
    let _dockerd = CriServer::start(endpoints[3].path()).await.unwrap();
    let _crio = CriServer::start(endpoints[4].path()).await.unwrap();

    let all = find(&endpoints).await;
    assert_eq!(found(&all), endpoints[3..], "in their order");
    let why: Vec<_> = all.failures.iter().map(|(endpoint, error)| (endpoint.clone(), error.kind())).collect();
    let expected = ["not_cri", "unavailable", "unavailable"];
    assert_eq!(why, endpoints.iter().cloned().zip(expected).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_socket_that_does_not_answer_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let endpoints = ["hangs.sock", "slow.sock", "answers.sock"].map(|name| at(folder.path(), name));
    // Accepted by the kernel, never read.
    let _hangs = tokio::net::UnixListener::bind(endpoints[0].path()).unwrap();
    let slow = CriServer::start(endpoints[1].path()).await.unwrap();
    slow.inject(CallFault::slow(std::time::Duration::from_millis(100)).call(Call::Version));
    let _answers = CriServer::start(endpoints[2].path()).await.unwrap();
    let all = find(&endpoints).await;
    assert_eq!(found(&all), endpoints[1..], "one that is a little slower is not passed over");
    assert!(matches!(all.failures[0].1, RuntimeError::TimedOut { .. }), "{:?}", all.failures);
}
