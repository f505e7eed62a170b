//! `cargo xtask watch-fanout`: how soon a change reaches the last of many watches, of larder and of the API server.
//!
//! A ConfigMap that a pod of the node refers to is changed again and again, at a fixed rate. Its watches are opened first at
//! larder, then at the API server itself, over HTTP/2 connections of 100 requests each. Beside them there are watches to which
//! nothing happens, and at larder one client that never reads. A change counts from before it is sent to the API server until
//! the last watch has it, so the way through the API server is in both figures.

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use clap::Parser;
use futures_util::{Stream, StreamExt as _};
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::client::Body as KubeBody;
use kube::{Api, Client};
use larder_clock::{Clock as _, MonotonicClock};
use larder_testbed::beside::Beside;
use larder_testbed::poll::until;
use larder_testbed::statistics::percentile;
use larder_testbed::{Options, Testbed, image};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, timeout};

/// Requests on one connection, as many as the API server allows.
const STREAMS: usize = 100;
/// Changes a second.
const RATE: u64 = 100;
/// How long the last watch may take, at the 99th percentile.
const TARGET: Duration = Duration::from_millis(50);
/// How long anything may take that is not measured.
const LIMIT: Duration = Duration::from_mins(1);
/// The bytes of the ConfigMap's other value.
const PADDING: usize = 1024;

#[derive(Parser)]
#[command(name = "cargo xtask watch-fanout", bin_name = "cargo xtask watch-fanout")]
struct Arguments {
    /// Fail where a change takes longer than 50 ms to the last watch, at the 99th percentile.
    #[arg(long)]
    check: bool,
    /// How long changes are made, for each of the two.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// How many watches see the changes.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    watches: u32,
    /// How many watches see nothing.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(0..=1_500))]
    idle: u32,
    /// The larder under test.
    #[arg(long, value_name = "PATH")]
    larder: PathBuf,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let testbed = Testbed::start(Options::default()).await?;
    let beside = Beside::start(&testbed, &arguments.larder).await?;
    let client = testbed.client().await?;
    let bench = Bench { config_maps: Api::namespaced(client.clone(), "default"), clock: MonotonicClock::new() };
    bench.begin(&client, &testbed, &beside).await?;

    let watched = format!("{}?watch=1&fieldSelector=metadata.name%3Dfeed", Bench::PATH);
    let quiet = "/api/v1/nodes?watch=1&resourceVersion=0&fieldSelector=metadata.name%3Dnobody";
    let before = beside.memory()?;
    let server = Server::Larder(beside.socket().to_owned());
    let stuck = Stuck::open(beside.socket(), &watched).await?;
    let mut idle = Watches::open(&server, quiet, arguments.idle, None).await?;
    let (with_idle, larder) = (beside.memory()?, bench.measure(&server, &watched, &arguments).await?);
    let after = beside.memory()?;
    let stuck_ended = stuck.has_ended().await?;
    let ended = idle.ended();
    ensure!(ended == 0, "larder ended {ended} idle watches");
    drop(idle);

    let server = Server::ApiServer(client);
    let idle = Watches::open(&server, quiet, arguments.idle, None).await?;
    let of_server = bench.measure(&server, &watched, &arguments).await?;
    drop(idle);

    println!(
        "{} watches, {} idle ones, {RATE} changes a second for {} s",
        arguments.watches, arguments.idle, arguments.seconds
    );
    println!("| from a change to the last watch | p50 | p99 | max |\n| --- | --- | --- | --- |");
    larder.print("larder");
    of_server.print("API server");
    println!(
        "larder's memory: {before} KiB before, {with_idle} KiB with the idle watches, {after} KiB after the changes; \
         the client that never read was {}",
        if stuck_ended { "ended" } else { "not ended yet" }
    );
    beside.stop()?;
    drop(testbed);
    let met = larder.p99() <= TARGET && (stuck_ended || arguments.seconds < 45);
    Ok(if met || !arguments.check { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whose watches are opened.
#[derive(Clone)]
enum Server {
    Larder(PathBuf),
    ApiServer(Client),
}

type Bytestream = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// Watches that are open. They close when this is dropped.
struct Watches {
    tasks: JoinSet<()>,
    _connections: JoinSet<()>,
}

/// That a watch has got a change: its number, and when, in nanoseconds.
type Got = (u64, i128);

impl Watches {
    /// Opens so many, each of which tells what it gets.
    async fn open(server: &Server, path: &str, count: u32, told: Option<mpsc::UnboundedSender<Got>>) -> Result<Self> {
        let clock = MonotonicClock::new();
        let (mut tasks, mut connections) = (JoinSet::new(), JoinSet::new());
        let mut shared = None;
        for number in 0..count as usize {
            let stream: Bytestream = match server {
                Server::Larder(socket) => {
                    if number % STREAMS == 0 {
                        let stream = UnixStream::connect(socket).await?;
                        let (sender, connection) =
                            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.context("connect")?;
                        connections.spawn(async move { drop(connection.await) });
                        shared = Some(sender);
                    }
                    let sender = shared.as_mut().context("a connection")?;
                    let request = Request::get(format!("http://larder{path}")).body(Empty::<Bytes>::new())?;
                    let answer = timeout(LIMIT, sender.send_request(request)).await.context("no answer")??;
                    ensure!(answer.status() == 200, "{path}: {}", answer.status());
                    Box::pin(answer.into_body().into_data_stream().map(|data| Ok(data?)))
                }
                Server::ApiServer(client) => {
                    let request = Request::get(path).body(KubeBody::empty())?;
                    let answer = timeout(LIMIT, client.send(request)).await.context("no answer")??;
                    ensure!(answer.status() == 200, "{path}: {}", answer.status());
                    Box::pin(
                        answer
                            .into_body()
                            .into_data_stream()
                            .map(|data| data.map_err(|error| anyhow::anyhow!("{error}"))),
                    )
                }
            };
            let told = told.clone();
            tasks.spawn(async move { read(stream, told, clock).await });
        }
        Ok(Self { tasks, _connections: connections })
    }

    /// How many have ended.
    fn ended(&mut self) -> usize {
        let mut ended = 0;
        while self.tasks.try_join_next().is_some() {
            ended += 1;
        }
        ended
    }
}

/// Reads a watch to its end, and tells of each change when it is there.
async fn read(mut stream: Bytestream, told: Option<mpsc::UnboundedSender<Got>>, clock: MonotonicClock) {
    const MARK: &[u8] = br#""number":""#;
    let mut line = Vec::new();
    while let Some(Ok(data)) = stream.next().await {
        let Some(told) = &told else { continue };
        for byte in data {
            if byte != b'\n' {
                line.push(byte);
                continue;
            }
            let number = line.windows(MARK.len()).position(|part| part == MARK).and_then(|at| {
                let digits = line[at + MARK.len()..].iter().take_while(|byte| byte.is_ascii_digit());
                String::from_utf8(digits.copied().collect()).ok()?.parse().ok()
            });
            if let Some(number) = number {
                // Nobody listens any more once the measurement is over.
                let _ = told.send((number, clock.now().as_nanos()));
            }
            line.clear();
        }
    }
}

/// A client that opens a watch and never reads it.
struct Stuck {
    sender: http1::SendRequest<Empty<Bytes>>,
    driver: tokio::task::JoinHandle<()>,
    _body: hyper::body::Incoming,
}

impl Stuck {
    async fn open(socket: &Path, path: &str) -> Result<Self> {
        let stream = UnixStream::connect(socket).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(async move { drop(connection.await) });
        let request = Request::get(path).header("host", "larder").body(Empty::new())?;
        let answer = timeout(LIMIT, sender.send_request(request)).await.context("no answer")??;
        Ok(Self { sender, driver, _body: answer.into_body() })
    }

    /// Whether larder has ended it. What it had been sent before is read now, up to the end of the connection.
    async fn has_ended(self) -> Result<bool> {
        let Self { sender, driver, _body: mut body } = self;
        let end = async { while let Some(Ok(_)) = body.frame().await {} };
        let has_ended = timeout(Duration::from_secs(2), end).await.is_ok();
        driver.abort();
        drop(sender);
        Ok(has_ended)
    }
}

struct Bench {
    config_maps: Api<ConfigMap>,
    clock: MonotonicClock,
}

/// How long each change took to the last watch, sorted.
struct Measured(Vec<Duration>);

impl Measured {
    fn p99(&self) -> Duration {
        percentile(&self.0, 99)
    }

    fn print(&self, whose: &str) {
        let [p50, p99, max] = [50, 99, 100].map(|percent| percentile(&self.0, percent).as_secs_f64() * 1000.0);
        println!("| {whose} | {p50:.1} ms | {p99:.1} ms | {max:.1} ms |");
    }
}

impl Bench {
    const PATH: &str = "/api/v1/namespaces/default/configmaps";

    /// Makes the ConfigMap and a pod that refers to it, and waits until larder has both.
    async fn begin(&self, client: &Client, testbed: &Testbed, beside: &Beside<'_>) -> Result<()> {
        let config_map = serde_json::from_value(json!({
            "metadata": {"name": "feed"},
            "data": {"number": "none", "padding": "x".repeat(PADDING)},
        }))?;
        self.config_maps.create(&PostParams::default(), &config_map).await.context("create the ConfigMap")?;
        let pods: Api<Pod> = Api::default_namespaced(client.clone());
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "reader"},
            "spec": {
                "nodeName": testbed.node_name(),
                "automountServiceAccountToken": false,
                "containers": [{"name": "main", "image": image::BUSYBOX, "envFrom": [{"configMapRef": {"name": "feed"}}]}],
            },
        }))?;
        pods.create(&PostParams::default(), &pod).await.context("create the pod")?;
        until("larder has the ConfigMap", LIMIT, async || {
            let (code, body) = beside.get(&format!("{}/feed", Self::PATH)).await?;
            if code == 200 { Ok(()) } else { bail!("{code}: {body}") }
        })
        .await
    }

    /// Opens the watches, makes the changes, and waits until all watches have the last one.
    async fn measure(&self, server: &Server, path: &str, arguments: &Arguments) -> Result<Measured> {
        let (told, mut got) = mpsc::unbounded_channel();
        let watches = Watches::open(server, path, arguments.watches, Some(told)).await?;
        // Those of the API server's have other numbers than larder's, whose last one its watches begin with.
        let count_of_all = RATE * arguments.seconds;
        let first = if matches!(server, Server::Larder(_)) { 0 } else { count_of_all };
        let changes = first..first + count_of_all;
        let mut sent = Vec::new();
        let mut ticks = interval(Duration::from_secs(1) / u32::try_from(RATE)?);
        let mut seen: BTreeMap<u64, (u32, i128)> = BTreeMap::new();
        let count = |seen: &mut BTreeMap<u64, (u32, i128)>, (number, at): Got| {
            let place = seen.entry(number).or_default();
            *place = (place.0 + 1, place.1.max(at));
        };
        for number in changes.clone() {
            ticks.tick().await;
            sent.push(self.clock.now().as_nanos());
            let change = json!({"data": {"number": number.to_string()}});
            self.config_maps.patch("feed", &PatchParams::default(), &Patch::Merge(change)).await.context("change")?;
            while let Ok(one) = got.try_recv() {
                count(&mut seen, one);
            }
        }
        let end = Instant::now() + LIMIT;
        while seen.get(&(changes.end - 1)).is_none_or(|(watches, _)| *watches < arguments.watches) {
            let one = tokio::time::timeout_at(end, got.recv()).await.context("the last change has not come")?;
            count(&mut seen, one.context("all watches have ended")?);
        }
        drop(watches);
        let mut took = Vec::new();
        for (number, at) in changes.zip(sent) {
            let (watches, last) = seen.get(&number).copied().unwrap_or_default();
            ensure!(
                watches == arguments.watches,
                "change {number} came {watches} times to {} watches",
                arguments.watches
            );
            took.push(Duration::from_nanos(u64::try_from(last - at)?));
        }
        took.sort_unstable();
        Ok(Measured(took))
    }
}
