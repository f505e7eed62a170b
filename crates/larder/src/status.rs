//! `larder status`: sources, the age of each, counts, how objects are kept, and whether something is degraded.

use crate::client::{Connection, Query};
use crate::output::table::{Table, printable};
use crate::output::{self, Format, age};
use jiff::Timestamp;
use larder_node::{ObjectCounts, ObjectReport, PassThroughReport, Report, SourceState, TokenKeysReport};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Sources:
  ok        the source answers                 starting  it has not answered yet
  failing   it does not answer: larder serves what it holds, as stale
  idle      larder has not needed it yet       off       larder runs without it
Objects that pods of this node refer to:
  fresh     within its TTL, or watched
  due       past its TTL, or without one (a TTL of 0, direct): the next read fetches it
  stale     larder holds its last known value and cannot fetch it
  absent    it does not exist                  unknown   larder knows nothing of it yet
Strategies (--change-detection):
  direct    each read fetches the object       ttl       a read after the TTL fetches the object
  watch     a watch for each object            auto      watched, polled or held, by how it is used
Kept, with -o wide:
  watched   by a watch of its own              namespace watch   by a watch of its whole namespace
  polled    fetched after its TTL              held (immutable)  without a watch: it cannot change
  idle      not watched until the next read
A pod is registered while larder holds objects for it; larder releases the objects of an ended pod.")]
pub(crate) struct Args {
    /// Output format: wide adds the last error of each source and how each object is kept, name prints node/NAME
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
    #[command(flatten)]
    connection: Connection,
}

/// Prints how the daemon is doing.
pub(crate) async fn main(args: Args) -> anyhow::Result<ExitCode> {
    let mut query = Query::new(&["larder", "v1", "status"]);
    if !matches!(args.output, Format::Table | Format::Name) {
        query = query.with("objects", "true");
    }
    let reply = args.connection.client().get(&query, TIMEOUT).await?;
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
    for line in &report.notes {
        let _ = writeln!(text, "  note: {}", printable(line));
    }
    text.push('\n');
    text.push_str(&sources(report, wide));
    text.push('\n');
    text.push_str(&objects(report));
    if let Some(objects) = report.objects.as_ref().filter(|objects| wide && !objects.is_empty()) {
        text.push('\n');
        text.push_str(&each_object(objects));
    }
    let counts = &report.counts;
    let containers = &counts.containers;
    text.push('\n');
    if let Some(open) = report.api_server {
        let _ = writeln!(
            text,
            "API server  {} on {}",
            output::plural(open.watches, "watch", "watches"),
            output::plural(open.connections, "HTTP/2 connection", "HTTP/2 connections"),
        );
    }
    if let Some(listen) = &report.listen {
        let _ = writeln!(text, "listen      {} (certificate until {:.0})", listen.url, listen.not_after);
        if let Some(tokens) = &listen.tokens {
            let _ = writeln!(text, "tokens      {}", keys_of_tokens(tokens));
        }
        let passed = listen
            .pass_through
            .as_ref()
            .map_or_else(|| "nothing (--pass-through is off)".to_owned(), |pass_through| passed_on(pass_through, now));
        let _ = writeln!(text, "passed on   {passed}");
    }
    let _ = write!(
        text,
        "pods        {} ({} registered)\ncontainers  {} ({} running, {} exited, {} created, {} unknown)\nopen waits  {}\n",
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

/// Where the keys that verify tokens come from, how many, how old they are, and the last failure.
fn keys_of_tokens(tokens: &TokenKeysReport) -> String {
    let from = printable(&tokens.from);
    #[expect(clippy::cast_possible_truncation, reason = "it saturates, and a person reads it")]
    let read = match tokens.age_seconds {
        Some(ago) => {
            format!("{} from {from}, read {} ago", output::plural(tokens.keys, "key", "keys"), age::seconds(ago as i64))
        }
        None => format!("no keys yet from {from}"),
    };
    let mut text = match &tokens.last_error {
        Some(error) => format!("{read} (last error: {})", printable(error)),
        None => read,
    };
    if let Some(reviews) = tokens.reviews.as_ref().filter(|_| tokens.keys == 0) {
        // Writing to a string cannot fail.
        let _ = write!(text, "; {} by TokenReview", output::plural(reviews.remembered, "token", "tokens"));
        if let Some(error) = &reviews.last_error {
            let _ = write!(text, " (last error: {})", printable(error));
        }
    }
    text
}

/// How many requests went on to the API server, what became of them, and the last failure.
fn passed_on(passed: &PassThroughReport, now: Timestamp) -> String {
    let PassThroughReport { answered, refused, limited, unanswered, fallbacks, .. } = passed;
    let answered = output::plural(*answered, "answer", "answers");
    let mut text = format!(
        "{answered} of the API server ({refused} refused), {unanswered} without, {limited} over a limit, {fallbacks} answered here after all"
    );
    if let Some(error) = &passed.last_error {
        let ago = age::since(passed.last_error_at, now);
        // Writing to a string cannot fail.
        let _ = write!(text, " (last error {ago} ago: {})", printable(error));
    }
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
    let mut table = Table::new(&["OBJECTS", "STRATEGY", "REFERENCED", "FRESH", "DUE", "STALE", "ABSENT", "UNKNOWN"]);
    let mut row = |name: &str, counts: &ObjectCounts| {
        let ObjectCounts { referenced, fresh, due, stale, absent, unknown, .. } = counts;
        let numbers = [referenced, fresh, due, stale, absent, unknown].map(ToString::to_string);
        let keeping = report.keeping.iter().find(|keeping| keeping.kind == name);
        let strategy = keeping.map_or("-", |keeping| keeping.strategy.as_str());
        table.row([name, strategy].map(str::to_owned).into_iter().chain(numbers));
    };
    for (kind, counts) in report.counts.objects.iter() {
        row(kind.resource(), counts);
    }
    table.render()
}

fn each_object(objects: &[ObjectReport]) -> String {
    let mut table = Table::new(&["KIND", "NAMESPACE", "NAME", "KEPT", "STATE", "AGE", "PODS"]);
    for object in objects {
        #[expect(clippy::cast_possible_truncation, reason = "it saturates, and a person reads it")]
        let ago = object.age_seconds.map_or_else(|| "-".to_owned(), |ago| age::seconds(ago as i64));
        let ObjectReport { kind, namespace, name, references, kept, state, .. } = object.clone();
        table.row([kind, namespace, name, kept, state, ago, references.to_string()]);
    }
    table.render()
}

#[cfg(test)]
mod tests;
