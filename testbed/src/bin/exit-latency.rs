//! `cargo xtask exit-latency`: how soon larder and a kubelet beside it know that a container has ended.
//!
//! On one testbed, with one containerd, a kubelet (with `EventedPLEG` and `PodsAPI`) runs pods whose containers end when they
//! are told to. Each end is paired: from the time that the runtime says the container finished at, to the answer of a wait
//! that was open at larder's socket, and to the event on the kubelet's Pods API.

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use larder_clock::{Clock as _, MonotonicClock};
use larder_cri::{CriOptions, CriRuntime, parse_endpoint};
use larder_testbed::beside::Beside;
use larder_testbed::metrics::Samples;
use larder_testbed::poll::until;
use larder_testbed::statistics::percentile;
use larder_testbed::{Options, Testbed, image, pods_api, unix_http};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::watch;

/// Containers of one pod.
const CONTAINERS: usize = 10;
/// How long a container may take to be seen to have ended.
const END_LIMIT: Duration = Duration::from_secs(20);
/// The targets of `--check`.
const FIRST_AT_LEAST: f64 = 0.95;
const OWN_MEDIAN_AT_MOST: Duration = Duration::from_millis(2);

#[derive(Parser)]
#[command(name = "cargo xtask exit-latency", bin_name = "cargo xtask exit-latency")]
struct Arguments {
    /// Fail where larder is not as soon as it promises to be.
    #[arg(long)]
    check: bool,
    /// How many containers end.
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u16).range(1..=1000))]
    exits: u16,
    /// The larder under test.
    #[arg(long, value_name = "PATH")]
    larder: PathBuf,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let testbed = Testbed::start(Options { kubelet: true, ..Options::default() }).await?;
    let bench = Bench::start(&testbed, &arguments.larder).await?;
    let targets = bench.run_pods(arguments.exits.into(), &testbed.folder().join("fifos")).await?;
    let before = bench.metrics().await?;
    let mut ends = Vec::new();
    for (at, target) in targets.iter().enumerate() {
        ends.push(bench.end(target).await.with_context(|| format!("{} of {}", target.container, target.pod))?);
        if (at + 1) % 50 == 0 {
            eprintln!("{} of {} containers have ended", at + 1, targets.len());
        }
    }
    let metrics = bench.metrics().await?.since(&before);
    let table = Table::of(&ends, &metrics);
    print!("{table}");
    println!("of that the runtime took, on average of each call:");
    for call in metrics.means("larder_cri_call_duration_seconds") {
        println!("  {:<46} {:>9.2} ({} calls)", call.labels, call.mean.as_secs_f64() * 1_000.0, call.count);
    }
    let larder = bench.beside.stop();
    drop(testbed);
    larder?;
    if !arguments.check {
        return Ok(ExitCode::SUCCESS);
    }
    let failures = table.failures();
    for failure in &failures {
        println!("not reached: {failure}");
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A container that ends when it is told to.
struct Target {
    uid: String,
    pod: String,
    container: String,
    /// What it waits for.
    fifo: PathBuf,
}

/// How one container's end was seen, as nanoseconds since the Unix epoch.
struct End {
    finished: i128,
    /// When the runtime's event of it arrived here.
    event: Option<i128>,
    larder: i128,
    kubelet: i128,
}

/// When each container was first seen to have ended, by pod UID and container name.
type Seen = HashMap<(String, String), i128>;

struct Bench<'a> {
    beside: Beside<'a>,
    clock: MonotonicClock,
    kubelet: watch::Receiver<Seen>,
    /// By container ID.
    events: Arc<Mutex<HashMap<String, i128>>>,
}

impl<'a> Bench<'a> {
    async fn start(testbed: &'a Testbed, program: &Path) -> Result<Self> {
        let clock = MonotonicClock::new();
        let beside = Beside::start(testbed, program).await?;
        let kubelet = follow_kubelet(&beside.kubelet_pods_api()?, clock).await?;
        let events = follow_events(testbed, clock)?;
        Ok(Self { beside, clock, kubelet, events })
    }

    fn now(&self) -> i128 {
        self.clock.wall_time(self.clock.now())
    }

    /// Has the kubelet run pods of so many containers in all, their FIFOs in that folder, and waits until larder says that they
    /// run.
    async fn run_pods(&self, exits: usize, folder: &Path) -> Result<Vec<Target>> {
        std::fs::create_dir_all(folder)?;
        let volume = json!({ "name": "fifos", "hostPath": { "path": folder } });
        let mut targets = Vec::new();
        let mut at = 0;
        while at < exits {
            let pod_name = format!("exit-{}", at / CONTAINERS);
            let mut containers = Vec::new();
            let mut names = Vec::new();
            while at < exits && names.len() < CONTAINERS {
                let fifo = format!("f{at}");
                rustix::fs::mkfifoat(rustix::fs::CWD, folder.join(&fifo), rustix::fs::Mode::RWXU)?;
                containers.push(json!({
                    "name": format!("c{at}"),
                    "image": image::BUSYBOX,
                    "imagePullPolicy": "Never",
                    "command": ["sh", "-c", format!("read line < /fifos/{fifo}; exit 3")],
                    "volumeMounts": [{ "name": "fifos", "mountPath": "/fifos" }],
                }));
                names.push((format!("c{at}"), folder.join(fifo)));
                at += 1;
            }
            let uid = self.beside.run_pod(&pod_name, &containers, std::slice::from_ref(&volume)).await?;
            let of_pod = names.into_iter().map(|(container, fifo)| Target {
                uid: uid.clone(),
                pod: pod_name.clone(),
                container,
                fifo,
            });
            targets.extend(of_pod);
            eprintln!("{} of {exits} containers run", targets.len());
        }
        Ok(targets)
    }

    /// Ends one container, with a wait open at larder.
    async fn end(&self, target: &Target) -> Result<End> {
        let path = format!("/larder/v1/pods/{}/status", target.uid);
        let (_, before) = self.beside.get(&path).await?;
        let modified = before["modifiedAt"].as_str().context("no modifiedAt")?.to_owned();
        let wait = self.until_exited(&path, modified, target);
        let signal = async {
            // The wait is open by then, and the ends come at no beat of anybody's.
            let spread =
                target.fifo.as_os_str().len() * 7 + target.container.bytes().map(usize::from).sum::<usize>() * 13;
            tokio::time::sleep(Duration::from_millis(100 + u64::try_from(spread % 300)?)).await;
            // Returns once the container has it open, too.
            let mut fifo = tokio::fs::OpenOptions::new().write(true).open(&target.fifo).await?;
            fifo.write_all(b"end\n").await?;
            fifo.flush().await?;
            Ok::<_, anyhow::Error>(())
        };
        let key = (target.uid.clone(), target.container.clone());
        let mut kubelet = self.kubelet.clone();
        let seen = async {
            let seen = kubelet.wait_for(|seen| seen.contains_key(&key)).await.context("the kubelet's events ended")?;
            Ok::<_, anyhow::Error>(seen[&key])
        };
        let all = async { tokio::try_join!(wait, signal, seen) };
        let ((larder, id, finished), (), kubelet) =
            tokio::time::timeout(END_LIMIT, all).await.context("not seen by both in time")??;
        let event = self.events.lock().unwrap_or_else(PoisonError::into_inner).get(&id).copied();
        Ok(End { finished, event, larder, kubelet })
    }

    /// Waits at larder until the container has exited; when it was answered, the container's ID, when it finished.
    async fn until_exited(&self, path: &str, mut modified: String, target: &Target) -> Result<(i128, String, i128)> {
        loop {
            let (code, body) =
                unix_http::get(self.beside.socket(), &format!("{path}?changedAfter={modified}&timeout=30s")).await?;
            let answered = self.now();
            ensure!(code == 200, "larder answered {code}: {body}");
            let answer: Value = serde_json::from_str(&body)?;
            let containers = answer["status"]["containers"].as_array().context("no containers")?;
            let found = containers.iter().find(|container| container["name"] == target.container.as_str());
            if let Some(found) = found.filter(|found| found["state"] == "exited") {
                ensure!(found["exitCode"] == 3, "it exited with {}", found["exitCode"]);
                let id = found["id"].as_str().context("no ID")?.rsplit("//").next().unwrap_or_default().to_owned();
                let finished: k8s_openapi::jiff::Timestamp =
                    found["finishedAt"].as_str().context("no time")?.parse()?;
                return Ok((answered, id, finished.as_nanosecond()));
            }
            answer["modifiedAt"].as_str().context("no modifiedAt")?.clone_into(&mut modified);
        }
    }

    async fn metrics(&self) -> Result<Samples> {
        let (code, page) = unix_http::get(self.beside.socket(), "/metrics").await?;
        ensure!(code == 200, "larder's metrics: {code}");
        Ok(Samples::parse(&page))
    }
}

/// Follows the events of the runtime as a third subscriber: when the end of each container arrived.
fn follow_events(testbed: &Testbed, clock: MonotonicClock) -> Result<Arc<Mutex<HashMap<String, i128>>>> {
    use larder_testbed::events::stopped;
    let runtime = CriRuntime::new(parse_endpoint(&testbed.runtime_endpoint())?, CriOptions::default())?;
    let seen: Arc<Mutex<HashMap<String, i128>>> = Arc::default();
    let into = Arc::clone(&seen);
    // Ends with the process.
    tokio::spawn(async move {
        stopped(&runtime, |id| {
            let at = clock.wall_time(clock.now());
            into.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_insert(at);
        })
        .await;
    });
    Ok(seen)
}

/// Follows the kubelet's Pods API: when each container was first said to have ended.
async fn follow_kubelet(socket: &Path, clock: MonotonicClock) -> Result<watch::Receiver<Seen>> {
    let mut pods =
        until("the kubelet's Pods API", Duration::from_mins(1), async || pods_api::watch(socket).await).await?;
    let (sender, receiver) = watch::channel(Seen::new());
    // Ends with the process.
    tokio::spawn(async move {
        while let Ok(Some(event)) = pods.message().await {
            let at = clock.wall_time(clock.now());
            let Some(pod) = pods_api::pod_of(&event)? else { continue };
            sender.send_if_modified(|seen| {
                let before = seen.len();
                for container in pods_api::ended(&pod) {
                    seen.entry((pods_api::uid(&pod).to_owned(), container.to_owned())).or_insert(at);
                }
                seen.len() > before
            });
        }
        Ok::<_, anyhow::Error>(())
    });
    Ok(receiver)
}

/// The result.
struct Table {
    exits: usize,
    larder: Vec<Duration>,
    kubelet: Vec<Duration>,
    /// From the event's arrival here, at another subscriber, to the wait's answer here.
    own: Vec<Duration>,
    /// What larder itself says of the median from the event's arrival to the pod's answer, of all events: its bucket's bound.
    own_median: Option<Duration>,
    first: usize,
}

impl Table {
    fn of(ends: &[End], metrics: &Samples) -> Self {
        let since = |from: i128, to: i128| Duration::from_nanos(u64::try_from(to - from).unwrap_or(0));
        let sorted = |mut all: Vec<Duration>| {
            all.sort();
            all
        };
        Self {
            exits: ends.len(),
            larder: sorted(ends.iter().map(|end| since(end.finished, end.larder)).collect()),
            kubelet: sorted(ends.iter().map(|end| since(end.finished, end.kubelet)).collect()),
            own: sorted(ends.iter().filter_map(|end| Some(since(end.event?, end.larder))).collect()),
            own_median: metrics
                .median_at_most("larder_pleg_event_answer_duration_seconds")
                .map(|bound| Duration::try_from_secs_f64(bound).unwrap_or(Duration::MAX)),
            first: ends.iter().filter(|end| end.larder < end.kubelet).count(),
        }
    }

    fn share(&self) -> f64 {
        let count = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
        count(self.first) / count(self.exits.max(1))
    }

    fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        let mut check = |holds: bool, what: String| {
            if !holds {
                failures.push(what);
            }
        };
        check(self.share() >= FIRST_AT_LEAST, format!("larder first in at least {:.0} %", FIRST_AT_LEAST * 100.0));
        for at in [50, 99] {
            let (larder, kubelet) = (percentile(&self.larder, at), percentile(&self.kubelet, at));
            check(larder < kubelet, format!("percentile {at} ahead of the kubelet's: {larder:?}, {kubelet:?}"));
        }
        let own = percentile(&self.own, 50);
        check(own <= OWN_MEDIAN_AT_MOST, format!("larder's own share at most {OWN_MEDIAN_AT_MOST:?}: {own:?}"));
        check(
            self.own_median.is_some_and(|median| median <= OWN_MEDIAN_AT_MOST),
            format!("larder's share by its own measure at most {OWN_MEDIAN_AT_MOST:?}: {:?}", self.own_median),
        );
        check(self.own.len() == self.exits, format!("events of all {} ends: {}", self.exits, self.own.len()));
        failures
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "{:<46} {:>9} {:>9} {:>9}",
            format!("{} container ends, in ms", self.exits),
            "median",
            "p99",
            "most"
        )?;
        for (name, all) in [
            ("larder, end to answered wait", &self.larder),
            ("kubelet, end to event on its Pods API", &self.kubelet),
            ("larder alone, runtime's event to answered wait", &self.own),
        ] {
            let ms = |percent| percentile(all, percent).as_secs_f64() * 1_000.0;
            writeln!(f, "{name:<46} {:>9.2} {:>9.2} {:>9.2}", ms(50), ms(99), ms(100))?;
        }
        if let Some(median) = self.own_median {
            let ms = median.as_secs_f64() * 1_000.0;
            writeln!(f, "{:<46} {ms:>9.2}", "larder alone by its own measure, at most")?;
        }
        writeln!(f, "larder first in {} of {} ({:.1} %)", self.first, self.exits, self.share() * 100.0)
    }
}
