//! `larder status`: sources, the age of each, counts, and whether something is degraded.

use crate::client::{Connection, Query};
use crate::output::table::{Table, printable};
use crate::output::{self, Format, age};
use jiff::Timestamp;
use larder_node::{ObjectCounts, Report, SourceState};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How to print: wide adds the last error of each source, name prints node/NAME
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
    #[command(flatten)]
    connection: Connection,
}

/// Prints how the daemon is doing.
pub(crate) async fn main(args: Args) -> anyhow::Result<ExitCode> {
    let reply = args.connection.client().get(&Query::new(&["larder", "v1", "status"]), TIMEOUT).await?;
    let report: Report = reply.json()?;
    let text = match args.output {
        Format::Json => output::json(&reply.json()?)?,
        Format::Yaml => output::yaml(&reply.json()?)?,
        Format::Name => format!("node/{}\n", report.node).into_bytes(),
        Format::Table | Format::Wide => text(&report, args.output == Format::Wide, Timestamp::now()).into_bytes(),
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn text(report: &Report, wide: bool, now: Timestamp) -> String {
    let mut text = String::new();
    let verdict = if report.degraded.is_empty() { "healthy" } else { "DEGRADED" };
    let up = age::since(Some(report.started_at), now);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "larder {} on node {}, up {up}: {verdict}", report.version, report.node);
    for line in &report.degraded {
        let _ = writeln!(text, "  - {}", printable(line));
    }
    text.push('\n');
    text.push_str(&sources(report, wide));
    text.push('\n');
    text.push_str(&objects(report));
    let counts = &report.counts;
    let containers = &counts.containers;
    let _ = write!(
        text,
        "\npods        {} ({} registered)\ncontainers  {} ({} running, {} exited, {} created, {} unknown)\nopen waits  {}\n",
        counts.pods,
        counts.pods_registered,
        containers.total(),
        containers.running,
        containers.exited,
        containers.created,
        containers.unknown,
        counts.open_waits,
    );
    text
}

fn sources(report: &Report, wide: bool) -> String {
    let mut columns = vec!["SOURCE", "STATE", "AGE", "FROM"];
    if wide {
        columns.push("LAST ERROR");
    }
    let mut table = Table::new(&columns);
    for source in &report.sources {
        #[expect(clippy::cast_possible_truncation, reason = "it saturates, and a person reads it")]
        let ago = source.age_seconds.map_or_else(|| "-".to_owned(), |ago| age::seconds(ago as i64));
        let from = if source.state == SourceState::Off { "-".to_owned() } else { source.from.clone() };
        let mut row = vec![source.name.clone(), source.state.to_string(), ago, from];
        if wide {
            row.push(source.last_error.clone().unwrap_or_else(|| "-".to_owned()));
        }
        table.row(row);
    }
    table.render()
}

fn objects(report: &Report) -> String {
    let mut table = Table::new(&["OBJECTS", "REFERENCED", "FRESH", "DUE", "STALE", "ABSENT", "UNKNOWN"]);
    let mut row = |name: &str, counts: &ObjectCounts| {
        let ObjectCounts { referenced, fresh, due, stale, absent, unknown } = counts;
        let numbers = [referenced, fresh, due, stale, absent, unknown].map(ToString::to_string);
        table.row(std::iter::once(name.to_owned()).chain(numbers));
    };
    row("secrets", &report.counts.secrets);
    row("configmaps", &report.counts.config_maps);
    table.render()
}

#[cfg(test)]
mod tests;
