//! `cargo xtask api-load`: what each strategy costs the API server, and how stale its readers' answers are.
//!
//! On one testbed after another the same pods are registered, the same objects read at the same times and changed at the same
//! times, by way of the kubelet's own managers (`oracle/apiload`) and of `larder run`. The API server says what it was asked,
//! in its audit log and its metrics; a proxy in front of it counts connections and bytes; the readers see how stale their
//! answers are, for every update carries its number in the object.
//!
//! | module | has |
//! | --- | --- |
//! | `agent` | what is measured: the kubelet's managers or larder, with its identity, proxy and socket |
//! | `workload` | the objects and pods, and what the administrator does to them |
//! | `readers` | who reads what when, and what staleness is |
//! | `server` | what the API server says of it |
//! | `memory` | what a thousand watches cost the API server |
//! | `report` | the tables, and the promises that `--check` holds larder to |

mod agent;
mod memory;
mod readers;
mod report;
mod row;
mod server;
mod workload;

use agent::{Agent, Programs};
use anyhow::Result;
use clap::{Parser, ValueEnum};
use report::Report;
use row::Plan;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Parser)]
#[command(name = "cargo xtask api-load", bin_name = "cargo xtask api-load")]
struct Arguments {
    /// Fail where larder does not keep its promises.
    #[arg(long)]
    check: bool,
    /// How to print the tables.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// How many sync periods each strategy is read for.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1_000))]
    periods: u32,
    /// The sync period and the TTL, in whole seconds. Twelve, for an object is idle after five periods and at least a minute:
    /// with fewer, the kubelet's minute is no longer five periods.
    #[arg(long, value_name = "SECONDS", default_value = "12s", value_parser = seconds)]
    sync_period: Duration,
    /// Only those whose name in the tables has this in it, such as `larder ttl`.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Leave out what a thousand watches cost.
    #[arg(long)]
    no_memory: bool,
    /// The larder under test.
    #[arg(long, value_name = "PATH")]
    larder: PathBuf,
    /// The kubelet's managers.
    #[arg(long, value_name = "PATH")]
    kubelet: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Markdown,
    Json,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.strip_suffix('s').unwrap_or(text).parse() {
        Ok(seconds @ 1..=3600) => Ok(Duration::from_secs(seconds)),
        _ => Err("write whole seconds, such as 12s".to_owned()),
    }
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let programs = Programs { larder: arguments.larder.canonicalize()?, kubelet: arguments.kubelet.canonicalize()? };
    let plan = Plan { periods: arguments.periods, sync_period: arguments.sync_period };
    let mut report = Report::new(plan);
    let agents: Vec<Agent> = Agent::ALL.into_iter().filter(|agent| agent.name().contains(&arguments.only)).collect();
    for (n, agent) in agents.iter().enumerate() {
        eprintln!("{} ({} of {})", agent.name(), n + 1, agents.len());
        let row = row::measure(&programs, *agent, plan).await?;
        // What is measured so far is not lost with what fails later.
        eprintln!("  {:?}, {:?}, {} of its own, {:?}", row.requests, row.traffic, row.registration_reads, row.seen);
        report.rows.push(row);
    }
    let holders = memory::Holder::ALL.into_iter().filter(|holder| holder.name().contains(&arguments.only));
    for holder in holders.filter(|_| !arguments.no_memory) {
        eprintln!("{} watches: {}", memory::WATCHES, holder.name());
        let cost = memory::measure(&programs, holder).await?;
        eprintln!("  {cost:?}");
        report.memory.push(cost);
    }
    match arguments.output {
        Output::Text => print!("{}", report.text()),
        Output::Markdown => print!("{}", report.markdown()),
        Output::Json => println!("{}", serde_json::to_string_pretty(&report.json())?),
    }
    let failures = report.failures();
    for failure in &failures {
        eprintln!("not kept: {failure}");
    }
    Ok(if failures.is_empty() || !arguments.check { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
