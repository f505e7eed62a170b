//! Faults that a simulated API server is told to have.

use super::fleet::{Fleet, LIMIT, NAMESPACE, OBJECTS, Object, TTL};
use larder_testbed::poll::until;
use larder_testbed::programs::Package;
use larder_testkit::api_server::{ApiServer, Fault, FaultId, Kind, User, Verb};
use larder_testkit::objects::{config_map, node, pod, secret};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

const NODE: &str = "node-1";
const KINDS: [Kind; 2] = [Kind::Secret, Kind::ConfigMap];

/// A simulated API server with a pod that refers to both objects, and larders that reach it.
struct Bench {
    api: ApiServer,
    fleet: Fleet,
    folder: TempDir,
}

impl Bench {
    async fn start() -> Self {
        Self::start_in(tempfile::tempdir().expect("folder"), &[]).await
    }

    /// With this folder, and variables in the environment of the larders.
    async fn start_in(folder: TempDir, environment: &[(&str, &str)]) -> Self {
        let api = ApiServer::start().await.expect("API server");
        let mut node = node(NODE);
        let annotations = node.metadata.annotations.get_or_insert_default();
        annotations.insert("node.alpha.kubernetes.io/ttl".to_owned(), TTL.to_string());
        api.store().create(node).expect("node");
        for object in OBJECTS {
            write(&api, object, 0);
        }
        let (mounted, env) = (Object::Secret.name(), Object::ConfigMap.name());
        let web = pod(NAMESPACE, "web").uid("uid-web").node(NODE).container("main", "shop/web:1");
        api.store().create(web.secret_volume(mounted).env_from_config_map(env).build()).expect("pod");
        let kubeconfig = folder.path().join("kubeconfig");
        let token = api.add_user(User::node(NODE));
        api.write_kubeconfig(&kubeconfig, &token).expect("kubeconfig");
        let kubeconfig = kubeconfig.display().to_string();
        let arguments = ["--kubeconfig", &kubeconfig, "--node-name", NODE, "--runtime-endpoint", "none"];
        let fleet = Fleet::start_with(folder.path(), &arguments, environment).await;
        Self { api, fleet, folder }
    }

    fn update(&self) {
        for object in OBJECTS {
            write(&self.api, object, self.fleet.next_value(object));
            self.fleet.was_written(object);
        }
    }

    /// Has every request for the objects go wrong, and cuts the connections, so that those who watch ask again.
    fn inject(&self, fault: &Fault) -> Vec<FaultId> {
        let faults = KINDS.map(|kind| self.api.inject(fault.clone().kind(kind)));
        self.api.cut_connections();
        faults.into()
    }
}

fn write(api: &ApiServer, object: Object, value: usize) {
    let value = value.to_string();
    let data = [("key", value.as_str())];
    match object {
        Object::Secret => drop(api.store().apply(secret(NAMESPACE, object.name(), &data)).expect("written")),
        Object::ConfigMap => drop(api.store().apply(config_map(NAMESPACE, object.name(), &data)).expect("written")),
    }
}

/// Everything goes wrong in this way, until it is right again.
async fn through(fault: Fault) {
    let bench = Bench::start().await;
    bench
        .fleet
        .through(async {
            let faults = bench.inject(&fault);
            bench.update();
            bench.fleet.until_stale().await;
            for fault in faults {
                bench.api.remove_fault(fault);
            }
            bench.fleet.until_fresh().await;
            bench.update();
            bench.fleet.until_fresh().await;
        })
        .await;
}

#[tokio::test]
async fn through_429_with_retry_after_which_is_respected() {
    const PAUSE: Duration = Duration::from_secs(5);
    let bench = Bench::start().await;
    bench
        .fleet
        .through(async {
            let faults = bench.inject(&Fault::status(429).retry_after(PAUSE));
            bench.update();
            bench.fleet.until_stale().await;
            // Everybody has been told to wait by now.
            let before = asked(&bench.api);
            let began = tokio::time::Instant::now();
            bench.fleet.until_stale().await;
            let (asked, elapsed) = (asked(&bench.api) - before, began.elapsed());
            // Each of four larders asks for each of two objects at most once a pause, whoever reads and however often; and
            // once more, for the pause may have begun before.
            let pauses = elapsed.as_secs() / PAUSE.as_secs() + 1;
            assert!(asked <= 4 * 2 * (pauses + 1), "{asked} requests in {elapsed:?}");
            for fault in faults {
                bench.api.remove_fault(fault);
            }
            bench.fleet.until_fresh().await;
        })
        .await;
}

/// Requests for the objects so far.
fn asked(api: &ApiServer) -> u64 {
    let counts = api.counts();
    let of = |kind| [Verb::Get, Verb::List, Verb::Watch].map(|verb| counts.of(verb, kind)).iter().sum::<u64>();
    KINDS.map(of).iter().sum()
}

#[tokio::test]
async fn through_answers_that_are_cut_short() {
    through(Fault::truncate()).await;
}

#[tokio::test]
async fn through_answers_that_are_no_json() {
    through(Fault::garbage()).await;
}

#[tokio::test]
async fn through_json_that_is_something_else() {
    through(Fault::wrong_shape()).await;
}

#[tokio::test]
async fn through_requests_that_are_never_answered() {
    through(Fault::hang()).await;
}

#[tokio::test]
async fn through_a_history_that_is_compacted_away() {
    let bench = Bench::start().await;
    bench
        .fleet
        .through(async {
            bench.api.outage().await;
            bench.update();
            bench.update();
            bench.api.store().compact();
            bench.fleet.until_stale().await;
            bench.api.restore().await.expect("restored");
            bench.fleet.until_fresh().await;
        })
        .await;
}

/// The machine's own clock is left alone: a library in front of libc's tells the larders another time of the day. The
/// monotonic clock never jumps on Linux.
#[tokio::test]
async fn through_a_clock_that_jumps_a_day_ahead_and_back() {
    Package::install(&[Package::FAKETIME]).expect("libfaketime");
    let folder = tempfile::tempdir().expect("folder");
    let (clock, library) = (folder.path().join("clock"), faketime().display().to_string());
    fs::write(&clock, "+0").expect("clock");
    let file = clock.display().to_string();
    let environment = [
        ("LD_PRELOAD", library.as_str()),
        ("FAKETIME_TIMESTAMP_FILE", &file),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    let bench = Bench::start_in(folder, &environment).await;
    let clock = bench.folder.path().join("clock");
    bench
        .fleet
        .through(async {
            let mut last = bench.fleet.start_days().await;
            for jump in ["+1d", "-1d", "+0"] {
                // At once, for it is read all the time.
                fs::write(clock.with_extension("new"), jump).expect("clock");
                fs::rename(clock.with_extension("new"), &clock).expect("clock");
                until("they all have another day", LIMIT, async || {
                    let days = bench.fleet.start_days().await;
                    let moved = days.iter().zip(&last).all(|(now, before)| now != before);
                    if moved { Ok(()) } else { Err(format!("{days:?}")) }
                })
                .await
                .expect("the clock jumps");
                last = bench.fleet.start_days().await;
                bench.update();
                bench.fleet.until_fresh().await;
            }
        })
        .await;
}

/// The library's place depends on the machine's architecture.
fn faketime() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").expect("/usr/lib").filter_map(Result::ok);
    let mut libraries = folders.map(|folder| folder.path().join("faketime").join("libfaketimeMT.so.1"));
    libraries.find(|library| library.exists()).expect("libfaketime below /usr/lib")
}
