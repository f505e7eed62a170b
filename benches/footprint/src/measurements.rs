//! What is measured, and the targets.

use crate::Figure;
use crate::daemon::Daemon;
use crate::load::{Connection, new_connections, open_loop, read_all};
use crate::place::Place;
use crate::world::{SECRETS_PER_POD, World, pod_path, secrets};
use anyhow::{Context as _, Result};
use larder_clock::{Clock as _, MonotonicClock};
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;
use tempfile::TempDir;

type Measured<'a> = Pin<Box<dyn Future<Output = Result<Vec<Figure>>> + 'a>>;

/// What is run on the daemon's program; the time is that for which objects come and go.
type Measurement = fn(&Path, Duration) -> Measured<'_>;

/// Every measurement by its name.
pub(crate) const ALL: [(&str, Measurement); 5] = [
    ("node", |daemon, _| Box::pin(node(daemon))),
    ("large", |daemon, _| Box::pin(large(daemon))),
    ("reads", |daemon, _| Box::pin(reads(daemon))),
    ("identity", |daemon, _| Box::pin(identity(daemon))),
    ("churn", |daemon, lasts| Box::pin(churn(daemon, lasts))),
];

/// Those that a node has at most, as kubelet's default has it.
const PODS: usize = 110;
const MANY_PODS: usize = 1_000;
/// Pods whose objects come and go together.
const CHURNED_PODS: usize = 10_000 / SECRETS_PER_POD;
const CONNECTIONS: usize = 16;
const READS_PER_SECOND: u32 = 5_000;
/// Between two changes of an object.
const UPDATES: Duration = Duration::from_millis(10);
const LOAD_LASTS: Duration = Duration::from_secs(20);
/// Until what the start left to do is done.
const SETTLES: Duration = Duration::from_secs(15);
const IDLE: Duration = Duration::from_mins(1);
/// New connections of each client.
const NEW_CONNECTIONS: usize = 2_000;
const MIB: f64 = 1024.0 * 1024.0;

/// A daemon between its sources.
struct Node {
    world: World,
    daemon: Daemon,
    _folder: TempDir,
}

impl Node {
    /// With so many pods that run, each with Secrets, all of which were read once; with the bytes that these have.
    async fn start(program: &Path, pods: usize) -> Result<(Self, u64)> {
        let folder = tempfile::tempdir()?;
        let world = World::start(folder.path()).await?;
        world.put_secrets(pods)?;
        for pod in 0..pods {
            world.create_pod(pod)?;
            world.run_pod(pod)?;
        }
        let daemon = Daemon::start(program, &world, folder.path())?;
        let payload = read_all(daemon.socket(), &secrets(pods), CONNECTIONS).await?;
        Ok((Self { world, daemon, _folder: folder }, payload))
    }

    async fn stop(self) -> Result<()> {
        self.daemon.stop().await?;
        self.world.shutdown().await;
        Ok(())
    }
}

#[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB
}

async fn node(program: &Path) -> Result<Vec<Figure>> {
    let (node, _) = Node::start(program, PODS).await?;
    tokio::time::sleep(SETTLES).await;
    let resident = mib(node.daemon.resident()?);
    let before = node.daemon.cpu()?;
    tokio::time::sleep(IDLE).await;
    let worked = node.daemon.cpu()?.saturating_sub(before);
    let idle = worked.as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    node.stop().await?;
    Ok(vec![
        Figure { name: "110 pods, 440 objects, 110 sandboxes: memory", value: resident, unit: "MiB", at_most: 25.0 },
        Figure { name: "110 pods, 440 objects, 110 sandboxes: CPU when idle", value: idle, unit: "%", at_most: 0.5 },
    ])
}

async fn large(program: &Path) -> Result<Vec<Figure>> {
    let (node, payload) = Node::start(program, MANY_PODS).await?;
    tokio::time::sleep(SETTLES).await;
    let beside = mib(node.daemon.resident()?) - mib(payload);
    node.stop().await?;
    let name = "1,000 pods, 4,000 objects: memory beside the objects' own bytes";
    Ok(vec![Figure { name, value: beside, unit: "MiB", at_most: 30.0 }])
}

async fn reads(program: &Path) -> Result<Vec<Figure>> {
    let (node, _) = Node::start(program, PODS).await?;
    tokio::time::sleep(SETTLES).await;
    let names = secrets(PODS);
    let updates = async {
        let mut due = tokio::time::interval(UPDATES);
        for (version, name) in names.iter().cycle().enumerate() {
            due.tick().await;
            node.world.put_secret(name, version)?;
        }
        anyhow::Ok(())
    };
    let before = node.daemon.cpu()?;
    let took = tokio::select! {
        took = open_loop(node.daemon.socket(), &names, CONNECTIONS, READS_PER_SECOND, LOAD_LASTS) => took?,
        failed = updates => { failed?; Vec::new() }
    };
    let worked = node.daemon.cpu()?.saturating_sub(before).as_secs_f64() / LOAD_LASTS.as_secs_f64() * 100.0;
    node.stop().await?;
    let quantile = |per_mille: usize| -> Result<f64> {
        let at = took.len().saturating_sub(1) * per_mille / 1_000;
        Ok(took.get(at).context("nothing was read")?.as_secs_f64() * 1e3)
    };
    eprintln!("  p50 {:.2} ms, p99.9 {:.2} ms, {worked:.1} % of a core", quantile(500)?, quantile(999)?);
    let name = "5,000 reads a second, 16 connections, 100 updates a second: p99";
    Ok(vec![Figure { name, value: quantile(990)?, unit: "ms", at_most: 1.0 }])
}

/// New connections of the host's root and of a process in a container. The first answer waits until the daemon knows who is asking.
async fn identity(program: &Path) -> Result<Vec<Figure>> {
    let (node, _) = Node::start(program, PODS).await?;
    tokio::time::sleep(SETTLES).await;
    let path = pod_path(0);
    let as_root = new_connections(node.daemon.socket(), &path, NEW_CONNECTIONS).await?;
    let place = Place::enter(&node.world.container(0)?)?;
    let as_container = new_connections(node.daemon.socket(), &path, NEW_CONNECTIONS).await;
    drop(place);
    let as_container = as_container?;
    node.stop().await?;
    let quantile = |took: &[Duration], per_mille: usize| -> Result<f64> {
        let at = took.len().saturating_sub(1) * per_mille / 1_000;
        Ok(took.get(at).context("nothing was read")?.as_secs_f64() * 1e3)
    };
    for (who, (first, later)) in [("root", &as_root), ("a container", &as_container)] {
        let [p50, p99] = [quantile(first, 500)?, quantile(first, 990)?];
        let [later50, later99] = [quantile(later, 500)?, quantile(later, 990)?];
        eprintln!(
            "  {who}: connect and first read p50 {p50:.2} ms, p99 {p99:.2} ms; later reads p50 {later50:.2} ms, p99 {later99:.2} ms"
        );
    }
    let name = "a container's new connection: p99 until its first answer";
    Ok(vec![Figure { name, value: quantile(&as_container.0, 990)?, unit: "ms", at_most: 5.0 }])
}

/// Rounds in which all objects are registered, fetched and dropped. What is resident after the last of them, with nothing
/// registered, is compared with what was after the last of the first two minutes.
async fn churn(program: &Path, lasts: Duration) -> Result<Vec<Figure>> {
    let (node, _) = Node::start(program, 0).await?;
    node.world.put_secrets(CHURNED_PODS)?;
    let names = secrets(CHURNED_PODS);
    let clock = MonotonicClock::new();
    let began = clock.now();
    let mut after_rounds = Vec::new();
    loop {
        for pod in 0..CHURNED_PODS {
            node.world.create_pod(pod)?;
        }
        read_all(node.daemon.socket(), &names, CONNECTIONS).await?;
        for pod in 0..CHURNED_PODS {
            node.world.delete_pod(pod)?;
        }
        // One of its own for each round: the daemon closes those that are idle for long.
        let mut looks = Connection::open(node.daemon.socket()).await?;
        for name in &names {
            looks.until_gone(name).await?;
        }
        let passed = clock.now().saturating_duration_since(began);
        let resident = mib(node.daemon.resident()?);
        eprintln!("  after {:.0} s and {} rounds: {resident:.1} MiB", passed.as_secs_f64(), after_rounds.len() + 1);
        after_rounds.push((passed, resident));
        if passed >= lasts {
            break;
        }
    }
    node.stop().await?;
    let early = Duration::from_mins(2);
    let (first, rest) = after_rounds.split_first().context("no round has ended")?;
    let (_, early) = rest.iter().take_while(|(at, _)| *at <= early).last().unwrap_or(first);
    let (_, last) = rest.last().unwrap_or(first);
    let name = "10,000 objects registered, fetched and dropped: growth after 2 minutes";
    Ok(vec![Figure { name, value: last - early, unit: "MiB", at_most: 2.0 }])
}
