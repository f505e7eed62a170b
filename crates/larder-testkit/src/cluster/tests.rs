//! The simulated cluster, step by step.

use super::kubelet::Kubelet;
use super::*;
use crate::api_server::ObjectStore;
use crate::cri_runtime::Containers;
use crate::objects::pod;
use std::time::Duration;
use tokio::time::Instant;

/// A kubelet without sockets, on paused time.
struct Fixture {
    store: ObjectStore,
    containers: Containers,
    reachable: watch::Sender<bool>,
    happenings: broadcast::Receiver<Happening>,
    stop: CancellationToken,
    began: Instant,
}

fn start(seed: u64) -> Fixture {
    let (store, containers) = (ObjectStore::new(), Containers::new());
    let (reachable, is_reachable) = watch::channel(true);
    let (sender, happenings) = broadcast::channel(HAPPENINGS);
    let options = KubeletOptions { seed, ..KubeletOptions::default() };
    let kubelet = Kubelet::new(options, store.clone(), containers.clone(), is_reachable, sender);
    let stop = CancellationToken::new();
    tokio::spawn(kubelet.run(stop.clone()));
    Fixture { store, containers, reachable, happenings, stop, began: Instant::now() }
}

impl Fixture {
    async fn next(&mut self) -> (Duration, String) {
        let happening = self.happenings.recv().await.expect("the kubelet runs");
        (self.began.elapsed(), happening.to_string())
    }

    async fn until(&mut self, text: &str) -> Duration {
        loop {
            let (after, happening) = self.next().await;
            if happening.contains(text) {
                return after;
            }
        }
    }

    /// The pod's status once the kubelet has told what has just happened.
    async fn status(&self, name: &str) -> k8s_openapi::api::core::v1::PodStatus {
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.store.get::<Pod>("shop", name).expect("the pod").status.expect("a status")
    }

    fn create(&self, name: &str, policy: &str, behaviour: &Behaviour) {
        let pod = pod("shop", name).node("node-1").container("main", "shop/main:1").restart_policy(policy);
        let pod = pod.annotation(&Behaviour::annotation("main"), &behaviour.to_string());
        self.store.create(pod.build()).expect("created");
    }
}

fn exits(code: i32) -> Behaviour {
    Behaviour::exits(code, Duration::from_secs(2)..=Duration::from_secs(4))
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_this_node_is_run_and_told_once() {
    let mut fixture = start(0);
    fixture.create("web", "Always", &Behaviour::Runs);
    fixture.store.create(pod("shop", "elsewhere").node("node-2").container("c", "i").build()).expect("created");
    fixture.until("container main started").await;
    let status = fixture.status("web").await;
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(status.pod_ip.as_deref(), Some("10.88.0.1"));
    let container = &status.container_statuses.expect("told")[0];
    assert!(container.ready && container.container_id.as_ref().is_some_and(|id| id.starts_with("containerd://")));
    assert_eq!(fixture.containers.sandboxes().len(), 1, "the other node's pod is not run");
    let revision = fixture.store.revision();
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(fixture.store.revision(), revision, "nothing new, nothing told");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_crashes_restarts_with_backoff() {
    let mut fixture = start(0);
    fixture.create("crasher", "Always", &exits(3));
    let first = fixture.until("exited with code 3, restarts in 10.0 s").await;
    let status = fixture.status("crasher").await;
    let container = &status.container_statuses.expect("told")[0];
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref()).expect("waiting");
    assert_eq!(waiting.reason.as_deref(), Some("CrashLoopBackOff"));
    let last = container.last_state.as_ref().and_then(|state| state.terminated.as_ref()).expect("terminated");
    assert_eq!((last.exit_code, last.reason.as_deref()), (3, Some("Error")));
    let again = fixture.until("restarted (restarts: 1)").await;
    assert_eq!(again.saturating_sub(first).as_secs(), 10);
    let status = fixture.status("crasher").await;
    assert_eq!(status.container_statuses.expect("told")[0].restart_count, 1);
    fixture.until("restarts in 20.0 s").await;
    fixture.until("restarted (restarts: 2)").await;
    let sandbox = fixture.containers.sandboxes().remove(0);
    assert_eq!(fixture.containers.containers_of(&sandbox.id).len(), 2, "one that runs and one dead");
}

#[tokio::test(start_paused = true)]
async fn jobs_end_and_are_not_restarted() {
    let mut fixture = start(0);
    fixture.create("good", "Never", &exits(0));
    fixture.create("bad", "Never", &exits(1));
    fixture.until("completed").await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(fixture.status("good").await.phase.as_deref(), Some("Succeeded"));
    assert_eq!(fixture.status("bad").await.phase.as_deref(), Some("Failed"));
    for sandbox in fixture.containers.sandboxes() {
        assert_eq!(sandbox.state, 1, "not ready any more");
        assert_eq!(fixture.containers.containers_of(&sandbox.id).len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_stops_and_is_let_go() {
    let mut fixture = start(0);
    fixture.create("web", "Always", &Behaviour::Runs);
    fixture.until("started").await;
    let mark = |pod: &mut Pod| pod.metadata.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH.into());
    fixture.store.modify("shop", "web", mark).expect("marked");
    fixture.until("removed").await;
    assert!(fixture.store.get::<Pod>("shop", "web").is_err_and(|error| error.is_not_found()));
    assert!(fixture.containers.sandboxes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_the_api_server_pods_run_on_and_are_told_of_later() {
    let mut fixture = start(0);
    fixture.create("crasher", "Always", &exits(3));
    fixture.until("started").await;
    fixture.status("crasher").await;
    fixture.reachable.send_replace(false);
    fixture.until("restarted (restarts: 1)").await;
    let restarts =
        |status: k8s_openapi::api::core::v1::PodStatus| status.container_statuses.expect("told")[0].restart_count;
    assert_eq!(restarts(fixture.status("crasher").await), 0);
    fixture.reachable.send_replace(true);
    assert_eq!(restarts(fixture.status("crasher").await), 1);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_times() {
    let run = async |seed| {
        let mut fixture = start(seed);
        fixture.create("a", "Always", &exits(3));
        fixture.create("b", "Always", &exits(0));
        let mut all = Vec::new();
        for _ in 0..20 {
            all.push(fixture.next().await);
        }
        fixture.stop.cancel();
        all
    };
    let first = run(7).await;
    assert_eq!(run(7).await, first);
    assert_ne!(run(8).await, first);
}
