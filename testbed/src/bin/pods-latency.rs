//! `cargo xtask pods-latency`: how soon larder and a kubelet beside it answer with the pods of their node.
//!
//! On one testbed, a kubelet (with `PodsAPI`) runs pods, first one and then more. Both are asked for all pods at the same rate
//! in the same run, each over a connection to its Unix socket that is kept open: larder for the list that an agent would ask
//! the API server for, the kubelet for that of its Pods API (KEP-4188). The loop is open: each read begins when it is due,
//! whatever has become of those before, and counts from then until all of its answer is there.

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use clap::Parser;
use http::StatusCode;
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use larder_clock::{Clock as _, MonotonicClock, Timestamp};
use larder_testbed::beside::Beside;
use larder_testbed::poll::until;
use larder_testbed::statistics::percentile;
use larder_testbed::unix_http::Connection;
use larder_testbed::{Options, Testbed, image, pods_api};
use rustix::thread::{NanosleepRelativeResult, Timespec, nanosleep};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// How many pods the node has, one row after the other.
const PODS: [usize; 2] = [1, 10];
/// The list that larder is asked for.
const PATH: &str = "/api/v1/pods";
/// Reads a second of each. The kubelet's Pods API answers 100 at most.
const READS_PER_SECOND: u32 = 50;
/// How long reads are made before those that count.
const WARM_UP_SECONDS: u32 = 5;
/// How long a read may take, and how long the two may take to have the same pods.
const READ_LIMIT: Duration = Duration::from_secs(10);
const SAME_LIMIT: Duration = Duration::from_mins(1);

#[derive(Parser)]
#[command(name = "cargo xtask pods-latency", bin_name = "cargo xtask pods-latency")]
struct Arguments {
    /// Fail where larder is not ahead.
    #[arg(long)]
    check: bool,
    /// How long both are read, for each number of pods.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,
    /// The larder under test.
    #[arg(long, value_name = "PATH")]
    larder: PathBuf,
}

/// Reads on one thread, so that no reader's thread waits for another to wake it, which would count as the time of who is read.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let testbed = Testbed::start(Options { kubelet: true, ..Options::default() }).await?;
    let beside = Beside::start(&testbed, &arguments.larder).await?;
    let socket = beside.kubelet_pods_api()?;
    let connect = async || pods_api::Client::connect(&socket).await;
    let bench = Bench {
        larder: Arc::new(Connections { socket: beside.socket().to_owned(), idle: Mutex::default() }),
        kubelet: until("the kubelet's Pods API", SAME_LIMIT, connect).await?,
    };
    let mut is_ahead = true;
    let mut there = 0;
    for pods in PODS {
        while there < pods {
            let container = json!({
                "name": "main",
                "image": image::BUSYBOX,
                "imagePullPolicy": "Never",
                "command": ["sleep", "100000"],
            });
            beside.run_pod(&format!("read-{there}"), &[container], &[]).await?;
            there += 1;
        }
        bench.until_same(pods).await?;
        eprintln!("pods that run, and that both have: {pods}; both are read for {} s", arguments.seconds);
        bench.read(pods, WARM_UP_SECONDS).await?;
        let table = Table::of(pods, bench.read(pods, arguments.seconds).await?);
        bench.until_same(pods).await?;
        print!("{table}");
        is_ahead &= table.behind().is_empty();
    }
    let larder = beside.stop();
    drop(testbed);
    larder?;
    Ok(if is_ahead || !arguments.check { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Who is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Larder,
    Kubelet,
}

impl Side {
    fn name(self) -> String {
        match self {
            Self::Larder => format!("larder, GET {PATH}"),
            Self::Kubelet => "kubelet, ListPods of its Pods API".into(),
        }
    }
}

/// After how long the read of that number is due, and of whom. Each is read once in an interval, half an interval apart from
/// the other, and who comes first changes from interval to interval.
fn due(read: u32) -> (Duration, Side) {
    let after = Duration::from_secs(1) / (2 * READS_PER_SECOND) * read;
    let is_larder = matches!(read % 4, 0 | 3);
    (after, if is_larder { Side::Larder } else { Side::Kubelet })
}

/// Connections to larder that are kept open: one, unless an answer was not there yet when the next read was due.
struct Connections {
    socket: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Connections {
    fn idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // larder closes those that were idle for long.
        idle.retain(|connection| !connection.is_closed());
        idle.pop()
    }

    async fn get(&self) -> Result<Bytes> {
        let mut connection = match self.idle() {
            Some(connection) => connection,
            None => Connection::open(&self.socket).await?,
        };
        let (status, body) = connection.get(PATH).await?;
        ensure!(status == StatusCode::OK, "{status}: {}", String::from_utf8_lossy(&body));
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        Ok(body)
    }
}

/// A list of pods as it came; neither kind has its pods parsed.
enum Answer {
    Larder(Bytes),
    Kubelet(Vec<Vec<u8>>),
}

impl Answer {
    fn bytes(&self) -> usize {
        match self {
            Self::Larder(body) => body.len(),
            Self::Kubelet(pods) => pods.iter().map(Vec::len).sum(),
        }
    }

    fn pods(&self) -> Result<usize> {
        #[derive(Deserialize)]
        struct Items {
            items: Vec<IgnoredAny>,
        }
        Ok(match self {
            Self::Larder(body) => serde_json::from_slice::<Items>(body)?.items.len(),
            Self::Kubelet(pods) => pods.len(),
        })
    }
}

/// One read: how long from when it was due until all of its answer was there, and how much that was.
struct Read {
    side: Side,
    took: Duration,
    bytes: usize,
}

/// For each pod's UID its namespace and name, and the IDs of its containers that run.
type Pods = BTreeMap<String, (String, BTreeSet<String>)>;

/// The clients of both.
#[derive(Clone)]
struct Bench {
    larder: Arc<Connections>,
    kubelet: pods_api::Client,
}

impl Bench {
    async fn list(&self, side: Side) -> Result<Answer> {
        Ok(match side {
            Side::Larder => Answer::Larder(self.larder.get().await?),
            Side::Kubelet => Answer::Kubelet(self.kubelet.list_encoded().await?),
        })
    }

    /// Waits until both have the same pods, so many, and each runs.
    async fn until_same(&self, pods: usize) -> Result<()> {
        until("larder and the kubelet have the same pods", SAME_LIMIT, async || {
            let of_larder = of_larder(&self.larder.get().await?)?;
            let of_kubelet = of_kubelet(&self.kubelet.list().await?);
            ensure!(of_larder == of_kubelet, "larder has {of_larder:?}, the kubelet {of_kubelet:?}");
            let running = of_larder.values().filter(|(_, containers)| !containers.is_empty()).count();
            ensure!(of_larder.len() == pods && running == pods, "{running} of {pods} run: {of_larder:?}");
            Ok(())
        })
        .await
    }

    /// Reads both for so long.
    async fn read(&self, pods: usize, seconds: u32) -> Result<Vec<Read>> {
        let (bench, runtime) = (self.clone(), Handle::current());
        // A thread of its own: tokio's timers go by milliseconds.
        tokio::task::spawn_blocking(move || bench.pace(pods, seconds, &runtime)).await?
    }

    /// Begins each read when it is due; ends when all have ended, or one has failed.
    fn pace(&self, pods: usize, seconds: u32, runtime: &Handle) -> Result<Vec<Read>> {
        let clock = MonotonicClock::new();
        let began = clock.now();
        // Bounded by how long a read may take.
        let mut open = JoinSet::new();
        let mut ended = Vec::new();
        for read in 0..seconds * READS_PER_SECOND * 2 {
            let (after, side) = due(read);
            sleep_until(clock, began + after)?;
            open.spawn_on(self.clone().one(side, pods, clock, began + after), runtime);
            while let Some(read) = open.try_join_next() {
                ended.push(read??);
            }
        }
        while let Some(read) = runtime.block_on(open.join_next()) {
            ended.push(read??);
        }
        Ok(ended)
    }

    async fn one(self, side: Side, pods: usize, clock: MonotonicClock, due: Timestamp) -> Result<Read> {
        let read = async {
            let answer = tokio::time::timeout(READ_LIMIT, self.list(side)).await;
            let took = clock.now().saturating_duration_since(due);
            let answer = answer.with_context(|| format!("no answer within {READ_LIMIT:?}"))??;
            let answered = answer.pods()?;
            ensure!(answered == pods, "an answer with {answered} pods, where there are {pods}");
            anyhow::Ok(Read { side, took, bytes: answer.bytes() })
        };
        read.await.with_context(|| side.name())
    }
}

fn sleep_until(clock: MonotonicClock, at: Timestamp) -> Result<()> {
    loop {
        let left = at.saturating_duration_since(clock.now());
        if left.is_zero() {
            return Ok(());
        }
        // A signal only makes it look at the time again.
        if let NanosleepRelativeResult::Err(error) = nanosleep(&Timespec::try_from(left)?) {
            bail!("sleep for {left:?}: {error}");
        }
    }
}

fn of_larder(list: &[u8]) -> Result<Pods> {
    let list: List<Pod> = serde_json::from_slice(list).context("read larder's list of pods")?;
    let pods = list.items.into_iter().map(|pod| {
        let name = [pod.metadata.namespace, pod.metadata.name].map(Option::unwrap_or_default).join("/");
        let statuses = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
        let running = statuses.into_iter().filter(|of| of.state.as_ref().is_some_and(|state| state.running.is_some()));
        let running = running.filter_map(|of| of.container_id).collect();
        (pod.metadata.uid.unwrap_or_default(), (name, running))
    });
    Ok(pods.collect())
}

fn of_kubelet(pods: &[pods_api::Pod]) -> Pods {
    let pods = pods.iter().map(|pod| {
        let running = pods_api::running(pod).map(str::to_owned).collect();
        (pods_api::uid(pod).to_owned(), (pods_api::namespace_and_name(pod), running))
    });
    pods.collect()
}

/// What one side took.
#[derive(Debug, Default)]
struct Took {
    sorted: Vec<Duration>,
    /// Of its last answer.
    bytes: usize,
}

/// The result for one number of pods.
struct Table {
    pods: usize,
    larder: Took,
    kubelet: Took,
}

impl Table {
    fn of(pods: usize, reads: Vec<Read>) -> Self {
        let mut table = Self { pods, larder: Took::default(), kubelet: Took::default() };
        for read in reads {
            let took = match read.side {
                Side::Larder => &mut table.larder,
                Side::Kubelet => &mut table.kubelet,
            };
            took.sorted.push(read.took);
            took.bytes = read.bytes;
        }
        table.larder.sorted.sort_unstable();
        table.kubelet.sorted.sort_unstable();
        table
    }

    /// Where larder is not ahead of the kubelet.
    fn behind(&self) -> Vec<String> {
        let compared = [50, 99].map(|percent| {
            let of = |took: &Took| percentile(&took.sorted, percent);
            (percent, of(&self.larder), of(&self.kubelet))
        });
        let behind = compared.into_iter().filter(|(_, larder, kubelet)| larder >= kubelet);
        behind
            .map(|(percent, larder, kubelet)| {
                format!("p{percent} is {:.3} ms, the kubelet's {:.3} ms", ms(larder), ms(kubelet))
            })
            .collect()
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = format!(
            "{} on the node, in ms",
            if self.pods == 1 { "1 pod".into() } else { format!("{} pods", self.pods) }
        );
        writeln!(f, "{what:<36} {:>9} {:>9} {:>9} {:>9} {:>9}", "p50", "p99", "max", "reads", "bytes")?;
        for (side, Took { sorted, bytes }) in [(Side::Larder, &self.larder), (Side::Kubelet, &self.kubelet)] {
            let of = |percent| ms(percentile(sorted, percent));
            let (name, reads) = (side.name(), sorted.len());
            writeln!(f, "{name:<36} {:>9.3} {:>9.3} {:>9.3} {reads:>9} {bytes:>9}", of(50), of(99), of(100))?;
        }
        match self.behind() {
            behind if behind.is_empty() => writeln!(f, "larder is ahead"),
            behind => writeln!(f, "larder is not ahead: {}", behind.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(side: Side, took: &[u64]) -> impl Iterator<Item = Read> {
        took.iter().map(move |took| Read { side, took: Duration::from_micros(*took), bytes: 7 })
    }

    fn table(larder: &[u64], kubelet: &[u64]) -> Table {
        Table::of(1, reads(Side::Larder, larder).chain(reads(Side::Kubelet, kubelet)).collect())
    }

    #[test]
    fn each_is_read_at_the_rate_and_goes_first_every_other_time() {
        let interval = Duration::from_secs(1) / READS_PER_SECOND;
        let reads: Vec<_> = (0..2 * READS_PER_SECOND).map(due).collect();
        let mut first = Vec::new();
        for (n, of_interval) in (0..).zip(reads.chunks(2)) {
            let [(one_at, one), (other_at, other)] = of_interval else { panic!("not two reads") };
            assert_eq!((*one_at, *other_at), (interval * n, interval * n + interval / 2));
            assert_ne!(one, other);
            first.push(*one);
        }
        assert!(first.windows(2).all(|two| two[0] != two[1]));
        assert_eq!(due(2 * READS_PER_SECOND).0, Duration::from_secs(1));
    }

    #[test]
    fn larder_is_ahead_where_both_its_median_and_its_p99_are_below() {
        let check = |larder: &[u64], kubelet: &[u64], expected: &[&str]| {
            assert_eq!(table(larder, kubelet).behind(), expected, "{larder:?} beside {kubelet:?}");
        };
        check(&[3, 1, 2], &[4, 5, 6], &[]);
        check(&[1, 1, 9], &[2, 2, 5], &["p99 is 0.009 ms, the kubelet's 0.005 ms"]);
        check(&[3, 3, 3], &[2, 2, 5], &["p50 is 0.003 ms, the kubelet's 0.002 ms"]);
        let both = ["p50 is 0.002 ms, the kubelet's 0.002 ms", "p99 is 0.002 ms, the kubelet's 0.002 ms"];
        check(&[2, 2], &[2, 2], &both);
    }

    #[test]
    fn the_table_says_what_each_took_and_who_is_ahead() {
        let expected = "\
1 pod on the node, in ms                   p50       p99       max     reads     bytes
larder, GET /api/v1/pods                 0.200     0.300     0.300         3         7
kubelet, ListPods of its Pods API        1.200     1.500     1.500         2         7
larder is ahead
";
        assert_eq!(table(&[300, 100, 200], &[1_500, 1_200]).to_string(), expected);
        assert!(table(&[2_000], &[1_500]).to_string().contains("larder is not ahead: p50 is 2.000 ms"));
    }

    #[test]
    fn a_list_that_lacks_a_pod_shows() {
        let list = |items| Answer::Larder(Bytes::from(format!(r#"{{"kind":"PodList","items":[{items}]}}"#)));
        assert_eq!(list("").pods().unwrap(), 0);
        assert_eq!(list(r#"{"a":1},{"b":[]}"#).pods().unwrap(), 2);
        assert!(Answer::Larder(Bytes::from_static(b"not ready")).pods().is_err());
        assert_eq!(Answer::Kubelet(vec![vec![1], vec![2]]).pods().unwrap(), 2);
    }
}
