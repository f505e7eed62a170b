//! What the API server says: its audit log, its metrics, and what its memory is after a garbage collection.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use larder_testbed::Testbed;
use serde::Deserialize;
use std::collections::HashSet;
use std::fs;

/// Requests for Secrets and ConfigMaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    pub(crate) get: u64,
    pub(crate) list: u64,
    pub(crate) watch: u64,
    /// Those of them that were refused or failed.
    pub(crate) errors: u64,
    /// Watches that were open at a time, at most.
    pub(crate) most_watches: u64,
    /// Watches that are open now.
    pub(crate) watches: u64,
    /// Watches that are open now, those of everybody: the API server has some of its own.
    pub(crate) watches_of_all: u64,
}

impl Requests {
    pub(crate) fn all(self) -> u64 {
        self.get + self.list + self.watch
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    #[serde(rename = "auditID")]
    audit_id: String,
    verb: String,
    user: User,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
    stage_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectRef {
    resource: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

/// What a user has asked for so far, by the audit log. A watch is in it when it starts and when it ends.
pub(crate) fn requests(testbed: &Testbed, user: &str) -> Result<Requests> {
    let log = fs::read_to_string(testbed.folder().join("audit.log")).context("read the audit log")?;
    // The last line may be half written.
    let complete = log.rfind('\n').map_or("", |end| &log[..end]);
    let mut requests = Requests::default();
    let mut known = HashSet::new();
    let mut changes = Vec::new();
    let mut of_all: i64 = 0;
    for line in complete.lines() {
        let event: Event = serde_json::from_str(line).with_context(|| format!("audit log line {line}"))?;
        let is_object = matches!(event.object_ref.resource.as_str(), "secrets" | "configmaps");
        if !is_object {
            continue;
        }
        let started = event.stage == "ResponseStarted";
        let seen_before = !known.insert(event.audit_id);
        let change = match event.verb.as_str() {
            "watch" if started => 1,
            "watch" if seen_before => -1,
            _ => 0,
        };
        of_all += change;
        if event.user.username != user {
            continue;
        }
        changes.push((event.stage_timestamp, change));
        if seen_before {
            continue;
        }
        requests.errors += u64::from(event.response_status.code >= 400);
        match event.verb.as_str() {
            "get" => requests.get += 1,
            "list" => requests.list += 1,
            "watch" => requests.watch += 1,
            other => anyhow::bail!("a reader has made a request of another kind: {other}"),
        }
    }
    changes.sort();
    let mut open: i64 = 0;
    for (_, change) in changes {
        open += change;
        requests.most_watches = requests.most_watches.max(u64::try_from(open).unwrap_or(0));
    }
    requests.watches_of_all = u64::try_from(of_all).context("more watches ended than started")?;
    requests.watches = u64::try_from(open).context("more watches ended than started")?;
    Ok(requests)
}

/// The API server's metrics, as text.
pub(crate) async fn metrics(client: &Client) -> Result<String> {
    Ok(client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?)
}

/// How many watches of Secrets and ConfigMaps are open, by everybody, according to the metrics.
pub(crate) fn open_watches(metrics: &str) -> Result<u64> {
    let mut open = 0.0;
    for line in metrics.lines().filter(|line| line.starts_with("apiserver_longrunning_requests{")) {
        let is_object = ["secrets", "configmaps"].iter().any(|it| line.contains(&format!("resource=\"{it}\"")));
        if is_object && line.contains("verb=\"WATCH\"") {
            open += value(line)?;
        }
    }
    whole(open)
}

/// What the API server needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// Bytes of live objects and of stacks, after a garbage collection.
    pub(crate) live: u64,
    /// Bytes that it has of the machine's memory.
    pub(crate) resident: u64,
}

/// Has it collect its garbage, and asks what remains.
pub(crate) async fn memory(client: &Client) -> Result<Memory> {
    // What the first one finds dead may only be freed by the second.
    for _ in 0..2 {
        client.request_text(http::Request::get("/debug/pprof/heap?gc=1&debug=1").body(Vec::new())?).await?;
    }
    let metrics = metrics(client).await?;
    let one = |name: &str| {
        let prefix = format!("{name} ");
        let line = metrics.lines().find(|line| line.starts_with(&prefix)).with_context(|| format!("no {name}"))?;
        whole(value(line)?)
    };
    Ok(Memory {
        live: one("go_memstats_alloc_bytes")? + one("go_memstats_stack_inuse_bytes")?,
        resident: one("process_resident_memory_bytes")?,
    })
}

fn value(line: &str) -> Result<f64> {
    let text = line.rsplit(' ').next().unwrap_or_default();
    text.parse().with_context(|| format!("no number at the end of {line}"))
}

fn whole(value: f64) -> Result<u64> {
    ensure!(value >= 0.0 && value.is_finite(), "{value} is no count");
    // Written as text and read again: exact for every count that a metric has.
    Ok(format!("{value:.0}").parse()?)
}
