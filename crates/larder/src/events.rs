//! `larder events`: what happens to the containers of this node.

use crate::client::{Connection, Query};
use crate::output;
use larder_server::wire::{EventLine, LifecycleEvent};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # What has happened lately
  larder events
  # And what happens from now on, until it is interrupted
  larder events -w
  # One JSON object a line, for other programs
  larder events -w -o json | jq -r 'select(.kind == \"ContainerDied\") | .name'")]
pub(crate) struct Args {
    /// Only the events of this namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Only the events of the pod of this name
    #[arg(long, value_name = "NAME")]
    pod: Option<String>,
    /// Go on with what happens from now on
    #[arg(short, long)]
    watch: bool,
    /// How many of the latest events to print; all that are kept if it is not given
    #[arg(long, value_name = "COUNT")]
    tail: Option<usize>,
    /// How to print: for a person, or a JSON object a line as it comes from the daemon
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = ["table", "json"])]
    output: String,
    #[command(flatten)]
    connection: Connection,
}

/// Prints the events.
pub(crate) async fn main(args: Args) -> anyhow::Result<ExitCode> {
    let client = args.connection.client();
    let query = || Query::new(&["larder", "v1", "events"]).with_some("namespace", args.namespace.as_deref());
    let is_json = args.output == "json";
    if !is_json {
        output::print(HEADER.as_bytes())?;
    }
    let render = |line: &[u8]| render(line, is_json, args.pod.as_deref());
    if args.watch && args.tail.is_none() {
        client
            .lines(&query().with("watch", "true"), |line| {
                if let Some(text) = render(line)? {
                    output::print(text.as_bytes())?;
                }
                Ok(true)
            })
            .await?;
        // The daemon has ended, which whoever follows it is to know.
        anyhow::bail!("larder has ended the events: it is being stopped");
    }
    let mut latest = VecDeque::new();
    client
        .lines(&query(), |line| {
            latest.extend(render(line)?);
            if args.tail.is_some_and(|tail| latest.len() > tail) {
                latest.pop_front();
            }
            Ok(true)
        })
        .await?;
    output::print(latest.into_iter().collect::<String>().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

const HEADER: &str = "TIME                           EVENT             EXIT  CONTAINER       POD\n";

/// A line of the daemon as it is printed; none for one that is not wanted.
fn render(line: &[u8], is_json: bool, pod: Option<&str>) -> anyhow::Result<Option<String>> {
    let parsed: EventLine = serde_json::from_slice(line)?;
    let is_wanted = match &parsed {
        EventLine::Event { event } => pod.is_none_or(|pod| event.name == pod),
        EventLine::Pod { pod: answer } => pod.is_none_or(|pod| answer.name == pod),
        _ => true,
    };
    if !is_wanted {
        return Ok(None);
    }
    if is_json {
        return Ok(Some(format!("{}\n", String::from_utf8_lossy(line))));
    }
    Ok(match parsed {
        EventLine::Event { event } => Some(row(&event)),
        EventLine::Gap { missed } => Some(format!("-- {missed} events were missed here; this is how it is now:\n")),
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

    fn check(line: &str, pod: Option<&str>, expected: Option<&str>) {
        assert_eq!(render(line.as_bytes(), false, pod).unwrap().as_deref(), expected, "{line}");
    }

    #[test]
    fn an_event_is_a_row_under_its_columns() {
        let died = r#"{"type":"event","kind":"ContainerDied","at":"2026-01-02T03:04:05.000000006Z","uid":"u",
            "namespace":"shop","name":"web","containerId":"ab","container":"app","exitCode":3}"#;
        let row = "2026-01-02T03:04:05.000000006Z ContainerDied     3     app             shop/web\n";
        check(died, None, Some(row));
        check(died, Some("web"), Some(row));
        check(died, Some("other"), None);
        for (column, text) in [("EVENT", "ContainerDied"), ("EXIT", "3  "), ("CONTAINER", "app"), ("POD", "shop/")] {
            assert_eq!(HEADER.find(column), row.find(text), "{column}");
        }
        check(
            r#"{"type":"event","kind":"ContainerStarted","uid":"u","namespace":"a","name":"b","containerId":"cd"}"#,
            None,
            Some("-                              ContainerStarted  -     (sandbox)       a/b\n"),
        );
    }

    #[test]
    fn a_gap_says_how_many_and_what_is_not_known_is_left_out() {
        check(r#"{"type":"gap","missed":7}"#, None, Some("-- 7 events were missed here; this is how it is now:\n"));
        check(r#"{"type":"synced"}"#, None, Some("--\n"));
        check(r#"{"type":"fromTheFuture"}"#, None, None);
        render(b"no JSON", false, None).unwrap_err();
    }

    #[test]
    fn json_is_passed_on_as_it_came() {
        let line = r#"{"type":"gap","missed":7,"new":1}"#;
        assert_eq!(render(line.as_bytes(), true, None).unwrap(), Some(format!("{line}\n")));
    }
}
