//! The tables, and the promises that `--check` holds larder to.

use crate::agent::Agent;
use crate::memory::{Cost, Holder, WATCHES};
use crate::row::{Plan, Row};
use larder_testbed::statistics::percentile;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// What `auto` is never staler than, if the TTL is not longer.
const AUTO_STALENESS: Duration = Duration::from_secs(10);
/// The most connections for [`WATCHES`] watches.
const MOST_CONNECTIONS: u64 = 12;

/// All that was measured.
pub(crate) struct Report {
    plan: Plan,
    pub(crate) rows: Vec<Row>,
    pub(crate) memory: Vec<Cost>,
}

const HEAD: [&str; 11] = [
    "strategy",
    "requests",
    "get / list / watch",
    "of them for a new pod's first read",
    "watches: most, at the end",
    "connections: opened, most",
    "KiB sent, received",
    "stale reads",
    "staleness: median, p99, max",
    "retried at start",
    "failed",
];
const MEMORY_HEAD: [&str; 4] = ["1,000 watches", "connections", "API server, live KiB a watch", "resident KiB a watch"];

impl Report {
    pub(crate) fn new(plan: Plan) -> Self {
        Self { plan, rows: Vec::new(), memory: Vec::new() }
    }

    fn row(&self, agent: Agent) -> Option<&Row> {
        self.rows.iter().find(|row| row.agent == agent)
    }

    /// The promises that are not kept, of those that the rows at hand can tell of.
    pub(crate) fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for row in self.rows.iter().filter(|row| row.agent.is_larder()) {
            failures.extend(self.failures_of(row));
        }
        for cost in &self.memory {
            if cost.holder.is_larder() && cost.connections > MOST_CONNECTIONS {
                failures.push(format!("{WATCHES} watches need {} connections", cost.connections));
            }
        }
        let live = |wanted: &dyn Fn(Holder) -> bool| self.memory.iter().find(|cost| wanted(cost.holder));
        let (kube, larder) = (live(&|it| it == Holder::Kube), live(&|it| it.is_larder()));
        if let (Some(kube), Some(larder)) = (kube, larder)
            && larder.live >= kube.live
        {
            failures.push(format!("a watch costs the API server {} bytes, kube's {}", larder.live, kube.live));
        }
        failures
    }

    fn failures_of(&self, row: &Row) -> Vec<String> {
        let name = row.agent.name();
        let mut failures = Vec::new();
        let mut check = |holds: bool, what: String| {
            if !holds {
                failures.push(format!("{name}: {what}"));
            }
        };
        let own = row.beside_registration();
        if let Some(same) = row.agent.same_of_kubelet().and_then(|same| self.row(same)) {
            let most = same.requests.all();
            check(own <= most, format!("{own} requests, {} has {most}", same.agent.name()));
        }
        if matches!(row.agent, Agent::Larder("auto") | Agent::LarderOfNamespaces("auto")) {
            for other in self.rows.iter().filter(|other| other.agent.strategy() != "auto") {
                let (theirs, of) = (other.beside_registration(), other.agent.name());
                check(own <= theirs, format!("{own} requests, {of} has {theirs}"));
            }
            if let Some(watching) = self.row(Agent::Kubelet("watch")) {
                let (held, theirs) = (row.requests.most_watches, watching.requests.most_watches);
                check(held * 2 <= theirs, format!("{held} watches, more than half of the kubelet's {theirs}"));
            }
            let (most, limit) = (percentile(&row.seen.staleness, 100), self.plan.sync_period.max(AUTO_STALENESS));
            check(most <= limit, format!("stale for {most:?}, more than {limit:?}"));
        }
        check(row.seen.backwards == 0, format!("{} reads went back to an older version", row.seen.backwards));
        let failed = &row.seen.failed;
        check(failed.is_empty(), format!("{} reads failed, such as {:?}", failed.len(), failed.first()));
        failures
    }

    fn cells(&self) -> Vec<[String; 11]> {
        let cells = |row: &Row| {
            let (requests, traffic, seen) = (row.requests, row.traffic, &row.seen);
            let seconds = |percent| format!("{:.2} s", percentile(&seen.staleness, percent).as_secs_f64());
            [
                row.agent.name(),
                requests.all().to_string(),
                format!("{} / {} / {}", requests.get, requests.list, requests.watch),
                row.registration_reads.to_string(),
                format!("{}, {}", requests.most_watches, requests.watches),
                format!("{}, {}", traffic.connections, traffic.most_open),
                format!("{}, {}", traffic.sent / 1024, traffic.received / 1024),
                format!("{} of {}", seen.stale, seen.reads),
                format!("{}, {}, {}", seconds(50), seconds(99), seconds(100)),
                seen.retried.to_string(),
                seen.failed.len().to_string(),
            ]
        };
        self.rows.iter().map(cells).collect()
    }

    fn memory_cells(&self) -> Vec<[String; 4]> {
        let kib = |bytes: u64| format!("{}.{}", bytes / 1024, bytes % 1024 * 10 / 1024);
        let cells = |it: &Cost| [it.holder.name(), it.connections.to_string(), kib(it.live), kib(it.resident)];
        self.memory.iter().map(cells).collect()
    }

    /// A block of lines for each row.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let mut block = |head: &[&str], cells: &[String]| {
            out.extend([cells[0].as_str(), "\n"]);
            for (name, value) in head.iter().zip(cells).skip(1) {
                // Writing to a string cannot fail.
                let _ = writeln!(out, "  {name:<36} {value}");
            }
        };
        self.cells().iter().for_each(|cells| block(&HEAD, cells));
        self.memory_cells().iter().for_each(|cells| block(&MEMORY_HEAD, cells));
        out
    }

    /// Two tables of Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut out = table(&HEAD, self.cells().iter().map(|cells| &cells[..]));
        if !self.memory.is_empty() {
            out.push('\n');
            out.push_str(&table(&MEMORY_HEAD, self.memory_cells().iter().map(|cells| &cells[..])));
        }
        out
    }

    /// Every figure.
    pub(crate) fn json(&self) -> Value {
        let row = |row: &Row| {
            let (requests, traffic, seen) = (row.requests, row.traffic, &row.seen);
            let staleness: Vec<f64> = seen.staleness.iter().map(Duration::as_secs_f64).collect();
            json!({
                "strategy": row.agent.name(),
                "requests": {
                    "get": requests.get,
                    "list": requests.list,
                    "watch": requests.watch,
                    "failed": requests.errors,
                    "for_first_reads_of_new_pods": row.registration_reads,
                },
                "watches": { "most": requests.most_watches, "at_the_end": requests.watches },
                "connections": { "opened": traffic.connections, "most": traffic.most_open },
                "bytes": { "sent": traffic.sent, "received": traffic.received },
                "reads": {
                    "answered": seen.reads,
                    "stale": seen.stale,
                    "backwards": seen.backwards,
                    "retried_at_start": seen.retried,
                    "failed": seen.failed,
                },
                "staleness_seconds": staleness,
            })
        };
        let memory = |cost: &Cost| {
            json!({
                "holder": cost.holder.name(),
                "connections": cost.connections,
                "live_bytes_a_watch": cost.live,
                "resident_bytes_a_watch": cost.resident,
            })
        };
        json!({
            "periods": self.plan.periods,
            "sync_period_seconds": self.plan.sync_period.as_secs(),
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "memory": self.memory.iter().map(memory).collect::<Vec<_>>(),
            "not_kept": self.failures(),
        })
    }
}

fn table<'a>(head: &[&str], rows: impl Iterator<Item = &'a [String]>) -> String {
    let mut out = format!("| {} |\n|{}\n", head.join(" | "), " --- |".repeat(head.len()));
    for cells in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out
}
