//! `cargo xtask relist-cost`: what a relist of a full node costs larder when nothing has changed, and how long it takes until
//! all is known when everything has.
//!
//! The runtime is the simulated one, with latencies as a containerd has them, in a thread of its own: all that the measuring
//! thread works is larder's. With `--check` it fails where a target is missed. CPU time is said of a build as released; a
//! build without optimization takes several times as much.

#[path = "../tests/it/node.rs"]
mod node;

use larder_clock::{Clock as _, MonotonicClock};
use larder_cri::{CriOptions, CriRuntime, parse_endpoint};
use larder_pleg::{Pleg, PlegObserver, PlegOptions, PodStatus, RuntimeError};
use larder_pod_status::{Options, PodStatusReader, pod_status_cache};
use larder_testkit::cri_runtime::{Call, CriServer, CriServerOptions, EventFaults};
use node::{PODS, full, set_latencies, uid};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How many relists are measured.
const RELISTS: usize = 200;
const AT_ONCE: u32 = 8;
/// The targets.
const CALLS_AT_MOST: u64 = 2;
const CPU_AT_MOST: Duration = Duration::from_millis(10);

fn main() -> ExitCode {
    let check = std::env::args().any(|argument| argument == "--check");
    let mut report = Report { failures: Vec::new() };
    without_changes(&mut report);
    with_all_changed(&mut report);
    for failure in &report.failures {
        println!("not reached: {failure}");
    }
    if check && !report.failures.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

struct Report {
    failures: Vec<String>,
}

impl Report {
    fn check(&mut self, holds: bool, what: String) {
        println!("{what}");
        if !holds {
            self.failures.push(what);
        }
    }
}

/// A simulated runtime in a thread of its own.
struct Node {
    server: Arc<CriServer>,
    containers: Vec<String>,
    end: tokio::sync::oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Node {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("cri.sock");
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (end, ending) = tokio::sync::oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            tokio().block_on(async move {
                let (containers, ids) = full();
                let options = CriServerOptions { containers, ..CriServerOptions::default() };
                let server = Arc::new(CriServer::start_with(&socket, options).await.expect("a socket"));
                ready.send((Arc::clone(&server), ids)).expect("the measuring thread waits for it");
                // Ends, too, when the other end is dropped.
                let _ = ending.await;
            });
        });
        let (server, containers) = is_ready.recv().expect("a runtime");
        Self { server, containers, end, thread, _folder: folder }
    }

    fn runtime(&self) -> CriRuntime {
        let endpoint = parse_endpoint(&self.server.endpoint()).expect("an endpoint");
        CriRuntime::new(endpoint, CriOptions::default()).expect("a client")
    }

    fn calls(&self) -> u64 {
        let calls =
            [Call::Version, Call::ListPodSandbox, Call::ListContainers, Call::PodSandboxStatus, Call::ContainerStatus];
        calls.map(|call| self.server.calls(call).made).iter().sum()
    }

    fn stop(self) {
        drop(self.server);
        drop(self.end);
        self.thread.join().expect("the runtime's thread");
    }
}

fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// The daemon's settings.
fn options() -> PlegOptions {
    let mut options = PlegOptions::default();
    options.independent_pods = true;
    options.keep_unchanged = true;
    options.keep_last_status = true;
    options.inspection_concurrency = NonZeroUsize::new(AT_ONCE as usize).expect("not zero");
    options.inspection_deadline = Some(Duration::from_secs(10));
    options
}

/// What this thread has worked.
fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().expect("not negative"), time.tv_nsec.try_into().expect("not negative"))
}

fn without_changes(report: &mut Report) {
    let node = Node::start();
    let (mut each, calls) = tokio().block_on(async {
        let (writer, cache) = pod_status_cache(Options::default());
        let pleg = Pleg::new(Arc::new(node.runtime()), MonotonicClock::new(), writer, options()).expect("options");
        pleg.relist().await;
        assert_eq!(cache.uids().len(), PODS);
        let before = node.calls();
        let mut each = Vec::new();
        for _ in 0..RELISTS {
            let before = worked();
            pleg.relist().await;
            each.push(worked().saturating_sub(before));
        }
        (each, node.calls() - before)
    });
    node.stop();
    each.sort();
    let (median, p99) = (each[RELISTS / 2], each[RELISTS * 99 / 100]);
    let relists = u64::try_from(RELISTS).expect("small");
    report.check(
        calls <= CALLS_AT_MOST * relists,
        format!("calls of a relist of {PODS} pods without changes: {:.1} (at most {CALLS_AT_MOST})", {
            f64::from(u32::try_from(calls).unwrap_or(u32::MAX)) / f64::from(u32::try_from(relists).unwrap_or(u32::MAX))
        }),
    );
    report.check(
        median <= CPU_AT_MOST,
        format!("CPU of a relist of {PODS} pods without changes: median {median:.2?}, p99 {p99:.2?} (at most {CPU_AT_MOST:?})"),
    );
}

/// The ends of inspections, and how long each took.
#[derive(Default)]
struct Inspections {
    clock: MonotonicClock,
    /// The clock's nanoseconds at its end, and how long it took.
    ended: Mutex<Vec<(i128, Duration)>>,
}

impl PlegObserver for Inspections {
    fn relist_duration(&self, _: Duration) {}

    fn relist_interval(&self, _: Duration) {}

    fn pod_relist_duration(&self, _: Duration) {}

    fn event_answered(&self, _: Duration) {}

    fn inspection_duration(&self, duration: Duration, _: bool) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.push((self.clock.now().as_nanos(), duration));
    }
}

fn all_have_exited(cache: &PodStatusReader<PodStatus, RuntimeError>) -> bool {
    (0..PODS).all(|n| {
        let entry = cache.get(&uid(n).as_str().into());
        entry.status().is_some_and(|status| status.containers.iter().all(|container| container.exit_code == 1))
    })
}

fn with_all_changed(report: &mut Report) {
    let node = Node::start();
    set_latencies(&node.server);
    let inspections = Arc::new(Inspections::default());
    let ended = tokio().block_on(async {
        let (writer, cache) = pod_status_cache(Options::default());
        let pleg = Pleg::new(Arc::new(node.runtime()), MonotonicClock::new(), writer, options()).expect("options");
        let pleg = Arc::new(pleg.with_observer(inspections.clone()));
        // One for each change, after it has been written.
        let mut events = pleg.subscribe();
        let cancel = CancellationToken::new();
        let (one, token) = (Arc::clone(&pleg), cancel.clone());
        let running = tokio::spawn(async move { one.run(token).await });
        while cache.uids().len() < PODS {
            events.recv().await;
        }
        inspections.ended.lock().unwrap_or_else(PoisonError::into_inner).clear();
        node.server.set_event_faults(EventFaults { dropped: true, ..EventFaults::default() });
        for id in &node.containers {
            node.server.containers().exit_container(id, 1).expect("it runs");
        }
        while !all_have_exited(&cache) {
            events.recv().await;
        }
        cancel.cancel();
        running.await.expect("no panic");
        inspections.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    });
    node.stop();
    let slowest = ended.iter().map(|end| end.1).max().unwrap_or_default();
    let total: Duration = ended.iter().map(|end| end.1).sum();
    let nanos = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
    let first = ended.iter().map(|(at, took)| at - nanos(*took)).min().unwrap_or_default();
    let last = ended.iter().map(|end| end.0).max().unwrap_or_default();
    let took = Duration::from_nanos(u64::try_from(last - first).unwrap_or(u64::MAX));
    let most = slowest + total / AT_ONCE;
    report.check(
        took <= most,
        format!("{} inspections of pods that changed at once: {took:.1?} (at most {most:.1?})", ended.len()),
    );
}
