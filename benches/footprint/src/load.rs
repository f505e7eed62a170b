//! Readers of the daemon: connections to its socket, and a load that does not wait for slow answers.

use crate::world::Name;
use anyhow::{Context as _, Result, bail};
use http::StatusCode;
use larder_clock::{Clock as _, MonotonicClock, Timestamp};
use larder_testbed::unix_http;
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use std::path::Path;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// How long what is asked for again and again may take to be there.
const PATIENCE: Duration = Duration::from_mins(3);
const AGAIN: Duration = Duration::from_millis(20);

/// One connection to the daemon.
pub(crate) struct Connection {
    http: unix_http::Connection,
}

impl Connection {
    /// Opens one, as soon as the daemon listens.
    pub(crate) async fn open(socket: &Path) -> Result<Self> {
        let http = tokio::time::timeout(PATIENCE, async {
            loop {
                match unix_http::Connection::open(socket).await {
                    Ok(http) => return http,
                    Err(_) => tokio::time::sleep(AGAIN).await,
                }
            }
        });
        Ok(Self { http: http.await.context("the daemon does not listen")? })
    }

    /// The status of the answer, and the number of bytes in it.
    async fn get(&mut self, path: &str) -> Result<(StatusCode, usize)> {
        let (status, body) = self.http.get(path).await?;
        Ok((status, body.len()))
    }

    async fn get_until(&mut self, path: &str, is_it: impl Fn(StatusCode) -> bool) -> Result<usize> {
        let mut last = None;
        let found = tokio::time::timeout(PATIENCE, async {
            loop {
                let (status, bytes) = self.get(path).await?;
                if is_it(status) {
                    return anyhow::Ok(bytes);
                }
                last = Some(status);
                tokio::time::sleep(AGAIN).await;
            }
        });
        match found.await {
            Ok(found) => found,
            Err(_) => bail!("{path}: the daemon goes on answering {last:?}"),
        }
    }

    /// Waits until the Secret is no longer referenced.
    pub(crate) async fn until_gone(&mut self, name: &Name) -> Result<()> {
        self.get_until(&path(name), |status| status == StatusCode::NOT_FOUND || status == StatusCode::FORBIDDEN)
            .await?;
        Ok(())
    }
}

fn path((namespace, name): &Name) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets/{name}")
}

/// Reads each Secret once, over so many connections, each as soon as it can be had; how many bytes they have.
pub(crate) async fn read_all(socket: &Path, names: &[Name], connections: usize) -> Result<u64> {
    let mut readers = JoinSet::new();
    for names in names.chunks(names.len().div_ceil(connections).max(1)) {
        let (names, socket) = (names.to_vec(), socket.to_owned());
        readers.spawn(async move {
            let mut connection = Connection::open(&socket).await?;
            let mut bytes = 0;
            for name in &names {
                bytes += connection.get_until(&path(name), |status| status == StatusCode::OK).await?;
            }
            anyhow::Ok(bytes)
        });
    }
    let mut all = 0;
    while let Some(reader) = readers.join_next().await {
        all += u64::try_from(reader??)?;
    }
    Ok(all)
}

/// Opens so many connections one after another, and reads twice over each of them.
///
/// How long it took from the connect to the first answer, and from there to the second.
pub(crate) async fn new_connections(socket: &Path, path: &str, count: usize) -> Result<(Vec<Duration>, Vec<Duration>)> {
    let clock = MonotonicClock::new();
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let mut began = clock.now();
        let mut connection = Connection::open(socket).await?;
        for all in [&mut first, &mut later] {
            let (status, _) = connection.get(path).await?;
            if status != StatusCode::OK {
                bail!("{path}: {status}");
            }
            let now = clock.now();
            all.push(now.saturating_duration_since(began));
            began = now;
        }
    }
    first.sort_unstable();
    later.sort_unstable();
    Ok((first, later))
}

/// An open loop: so many reads a second over so many connections, begun when they are due, however long those before take.
///
/// How long each took, from when it was due until all of its answer was there.
pub(crate) async fn open_loop(
    socket: &Path,
    names: &[Name],
    connections: usize,
    per_second: u32,
    lasts: Duration,
) -> Result<Vec<Duration>> {
    let (mut readers, mut queues) = (JoinSet::new(), Vec::new());
    let clock = MonotonicClock::new();
    for _ in 0..connections {
        let (queue, mut due) = mpsc::unbounded_channel::<(String, Timestamp)>();
        let mut connection = Connection::open(socket).await?;
        queues.push(queue);
        readers.spawn(async move {
            let mut took = Vec::new();
            while let Some((path, at)) = due.recv().await {
                let (status, _) = connection.get(&path).await?;
                if status != StatusCode::OK {
                    bail!("{path}: {status}");
                }
                took.push(clock.now().saturating_duration_since(at));
            }
            Ok(took)
        });
    }
    let paths: Vec<String> = names.iter().map(path).collect();
    // A thread of its own: tokio's timers go by milliseconds.
    let pacer = std::thread::spawn(move || pace(&paths, &queues, per_second, lasts));
    let mut all = Vec::new();
    while let Some(reader) = readers.join_next().await {
        all.extend(reader??);
    }
    if pacer.join().is_err() {
        bail!("the thread that begins the reads has panicked");
    }
    all.sort_unstable();
    Ok(all)
}

/// Begins the reads when they are due, each on the next connection. What is queued is bounded by how long it lasts.
fn pace(paths: &[String], queues: &[mpsc::UnboundedSender<(String, Timestamp)>], per_second: u32, lasts: Duration) {
    let clock = MonotonicClock::new();
    let (began, start) = (clock.now(), rustix::time::clock_gettime(ClockId::Monotonic));
    let interval = Duration::from_secs(1) / per_second;
    let reads = lasts.as_nanos() / interval.as_nanos().max(1);
    let (mut paths, mut queues) = (paths.iter().cycle(), queues.iter().cycle());
    for n in 0..u32::try_from(reads).unwrap_or(u32::MAX) {
        let after = interval * n;
        let wake = Duration::new(start.tv_sec.unsigned_abs(), u32::try_from(start.tv_nsec).unwrap_or_default()) + after;
        if let Ok(wake) = rustix::time::Timespec::try_from(wake) {
            // A signal only makes this one a little early.
            let _ = clock_nanosleep_absolute(ClockId::Monotonic, &wake);
        }
        if let (Some(path), Some(queue)) = (paths.next(), queues.next())
            && queue.send((path.clone(), began + after)).is_err()
        {
            // A reader has failed, and says why.
            return;
        }
    }
}
