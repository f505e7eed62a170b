//! What the commands print: tables in kubectl's plain style, JSON, YAML, errors.
//!
//! A reader that goes away (`larder get pods | head -1`) ends a command quietly.

pub(crate) mod age;
pub(crate) mod table;

use anyhow::Context as _;
use clap::ValueEnum;
use larder_server::wire::{Freshness, FreshnessState};
use serde_json::Value;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

/// How `-o` asks for the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people
    #[default]
    Table,
    /// A table with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Only the names, one per line
    Name,
}

/// An error that was told already, line by line: only its exit code is left.
#[derive(Debug, thiserror::Error)]
#[error("told already")]
pub(crate) struct AlreadyTold;

/// Writes to standard output.
pub(crate) fn print(text: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text).and_then(|()| out.flush()).context("cannot write to standard output")
}

/// Writes a line to standard error; a standard error that is closed is nobody's concern.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Tells an error on standard error as kubectl would, and gives the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    if error.is::<AlreadyTold>() {
        return ExitCode::FAILURE;
    }
    complain(&error_line(error));
    ExitCode::FAILURE
}

/// An error as a line: the server's own as it says it, any other after `error: `.
pub(crate) fn error_line(error: &anyhow::Error) -> String {
    match error.downcast_ref::<crate::client::Error>() {
        Some(said @ crate::client::Error::Server { .. }) => said.to_string(),
        _ => format!("error: {}", causes(error)),
    }
}

/// An error with its causes, each once: many an error says its cause itself.
fn causes(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |mut line, cause| {
        let text = cause.to_string();
        if !line.contains(&text) {
            if !line.is_empty() {
                line.push_str(": ");
            }
            line.push_str(&text);
        }
        line
    })
}

pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == ErrorKind::BrokenPipe))
}

/// JSON as kubectl prints it: keys in order, four spaces.
pub(crate) fn json(value: &Value) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, formatter);
    serde::Serialize::serialize(value, &mut serializer).context("cannot write the answer as JSON")?;
    text.push(b'\n');
    Ok(text)
}

/// YAML as kubectl prints it: keys in order.
pub(crate) fn yaml(value: &Value) -> anyhow::Result<Vec<u8>> {
    yaml_of(value).context("cannot write the answer as YAML")
}

/// YAML with its last line ended.
pub(crate) fn yaml_of(value: &impl serde::Serialize) -> anyhow::Result<Vec<u8>> {
    let mut text = serde_saphyr::to_string(value)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text.into_bytes())
}

/// Lines, each with its end.
pub(crate) fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.flat_map(|line| [line, "\n".to_owned()]).collect()
}

/// A number of things.
pub(crate) fn plural(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

/// Freshness as a cell of a table: `fresh 2s`, `stale 5m`.
pub(crate) fn freshness(freshness: &Freshness) -> String {
    let state = match freshness.state {
        FreshnessState::Fresh => "fresh",
        FreshnessState::Stale => "stale",
        FreshnessState::Absent => "absent",
        _ => "unknown",
    };
    #[expect(clippy::cast_possible_truncation, reason = "it saturates, and a person reads it")]
    match freshness.age_seconds {
        Some(age) => format!("{state} {}", age::seconds(age as i64)),
        None => state.to_owned(),
    }
}

#[cfg(test)]
mod tests;
