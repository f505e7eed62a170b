//! `larder events`: what happens to the containers of this node.

use crate::client::{Connection, Query};
use crate::output;
use larder_server::wire::{EventLine, LifecycleEvent};
use std::fmt::Write as _;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Recent events
  larder events
  # Recent events, then new ones until Ctrl-C
  larder events -w
  # New events only
  larder events -w --tail 0
  # One JSON object per line, for other programs
  larder events -w -o json | jq -r 'select(.kind == \"ContainerDied\") | .name'")]
pub(crate) struct Args {
    /// Show only events of this namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Show only events of pods with this name
    #[arg(long, value_name = "NAME")]
    pod: Option<String>,
    /// Keep printing new events
    #[arg(short, long)]
    watch: bool,
    /// Print only this many of the recent events [default: all that the daemon has kept]
    #[arg(long, value_name = "COUNT")]
    tail: Option<usize>,
    /// Output format: a table, or one JSON object per line, as the daemon sends it
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = ["table", "json"])]
    output: String,
    #[command(flatten)]
    connection: Connection,
}

/// Prints the events.
pub(crate) async fn main(args: Args) -> anyhow::Result<ExitCode> {
    let query = Query::new(&["larder", "v1", "events"])
        .with_some("namespace", args.namespace.as_deref())
        .with_some("pod", args.pod.as_deref())
        .with_some("tail", args.tail.map(|tail| tail.to_string()).as_deref())
        .with_some("watch", args.watch.then_some("true"));
    let is_json = args.output == "json";
    if !is_json {
        output::print(HEADER.as_bytes())?;
    }
    args.connection
        .client()
        .lines(&query, |line| {
            if let Some(text) = render(line, is_json)? {
                output::print(text.as_bytes())?;
            }
            Ok(true)
        })
        .await?;
    // The daemon has ended, which whoever follows it is to know.
    anyhow::ensure!(!args.watch, "the event stream has ended: the daemon is stopping");
    Ok(ExitCode::SUCCESS)
}

const HEADER: &str = "TIME                           EVENT             EXIT  CONTAINER       POD\n";

/// A line of the daemon as it is printed; none for one that says nothing.
fn render(line: &[u8], is_json: bool) -> anyhow::Result<Option<String>> {
    let parsed: EventLine = serde_json::from_slice(line)?;
    if is_json {
        return Ok(Some(format!("{}\n", String::from_utf8_lossy(line))));
    }
    Ok(match parsed {
        EventLine::Event { event } => Some(row(&event)),
        EventLine::Gap { missed } => Some(format!("-- {missed} events were lost here; the current state is:\n")),
        EventLine::Pod { pod } => {
            let mut text = String::new();
            for container in pod.status.iter().flat_map(|status| &status.containers) {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "-- {}/{} {} is {}", pod.namespace, pod.name, container.name, container.state);
            }
            Some(text)
        }
        EventLine::Synced => Some("--\n".to_owned()),
        _ => None,
    })
}

fn row(event: &LifecycleEvent) -> String {
    let at = event.at.map_or_else(|| "-".to_owned(), |at| format!("{at:.9}"));
    let exit = event.exit_code.map_or_else(|| "-".to_owned(), |code| code.to_string());
    let what = match (&event.container, &event.container_id) {
        (Some(name), _) => name.as_str(),
        (None, Some(_)) => "(sandbox)",
        (None, None) => "-",
    };
    format!("{at:<30} {:<17} {exit:<5} {what:<15} {}/{}\n", event.kind, event.namespace, event.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<&str>) {
        assert_eq!(render(line.as_bytes(), false).unwrap().as_deref(), expected, "{line}");
    }

    #[test]
    fn an_event_is_a_row_under_its_columns() {
        let died = r#"{"type":"event","kind":"ContainerDied","at":"2026-01-02T03:04:05.000000006Z","uid":"u",
            "namespace":"shop","name":"web","containerId":"ab","container":"app","exitCode":3}"#;
        let row = "2026-01-02T03:04:05.000000006Z ContainerDied     3     app             shop/web\n";
        check(died, Some(row));
        for (column, text) in [("EVENT", "ContainerDied"), ("EXIT", "3  "), ("CONTAINER", "app"), ("POD", "shop/")] {
            assert_eq!(HEADER.find(column), row.find(text), "{column}");
        }
        check(
            r#"{"type":"event","kind":"ContainerStarted","uid":"u","namespace":"a","name":"b","containerId":"cd"}"#,
            Some("-                              ContainerStarted  -     (sandbox)       a/b\n"),
        );
    }

    #[test]
    fn a_gap_says_how_many_and_what_is_not_known_is_left_out() {
        check(r#"{"type":"gap","missed":7}"#, Some("-- 7 events were lost here; the current state is:\n"));
        check(r#"{"type":"synced"}"#, Some("--\n"));
        check(r#"{"type":"fromTheFuture"}"#, None);
        render(b"no JSON", false).unwrap_err();
    }

    #[test]
    fn json_is_passed_on_as_it_came() {
        let line = r#"{"type":"gap","missed":7,"new":1}"#;
        assert_eq!(render(line.as_bytes(), true).unwrap(), Some(format!("{line}\n")));
    }
}
