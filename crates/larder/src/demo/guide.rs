//! What the demo prints at its start: what it is, and what to try.

use super::control::COMMANDS;
use super::shop::NAMESPACE;
use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What to try, with `NS` for the namespace of the shop.
pub(super) const ROWS: [(&str, &str); 14] = [
    ("larder get pods -A", "the pods of this node"),
    ("larder get secret api-login -n NS -o yaml", "a Secret that a pod refers to; the demo rotates its password"),
    ("larder get cm,secret -n NS -o wide", "the age and freshness of each object (fresh for 10 s here)"),
    ("larder get secret payroll -n finance", "refused: no pod of this node refers to it"),
    ("larder ps", "containers: state, restarts, exit codes"),
    ("larder wait pod flaky -n NS --for=state=exited", "ends within a second of the exit"),
    ("larder status", "the sources, their age, and whether larder is degraded"),
    ("curl --unix-socket $LARDER_SOCKET http://larder/metrics", ""),
    ("", ""),
    ("larder demo outage", "stop the API server: larder still serves everything, with its age"),
    ("larder demo restore", "start the API server again"),
    ("larder demo crash api", "make a container exit"),
    ("larder demo rotate", "change a Secret"),
    ("larder demo quit", "end the demo"),
];

/// The whole guide.
pub(super) fn text(api_server: &str, socket: &Path, typed: bool) -> String {
    let mut text = format!(
        "\
This is a simulation, without a cluster and without containers. The API server ({api_server}) and the container
runtime are simulated and speak the real protocols. larder is real and runs as 'larder run' does on a node. An agent
reads every Secret and ConfigMap from it once a second.

In another terminal:

  export LARDER_SOCKET={}
",
        quoted(socket)
    );
    // Writing to a string cannot fail.
    if let Some(program) = program() {
        let _ = writeln!(text, "  alias larder={}", quoted(&program));
    }
    text.push('\n');
    for (command, why) in ROWS {
        let line = format!("  {:<58}{why}", command.replace("NS", NAMESPACE));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push('\n');
    if typed {
        let _ = writeln!(text, "Type here: {COMMANDS}. Ctrl-C ends the demo.");
    } else {
        text.push_str("Ctrl-C or SIGTERM ends the demo.\n");
    }
    text
}

/// The path of this program, where its name alone would not find it.
fn program() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let path = env::var_os("PATH").unwrap_or_default();
    let mut found = env::split_paths(&path).map(|folder| folder.join("larder"));
    let on_path = found.find(|path| path.is_file()).and_then(|path| path.canonicalize().ok());
    (on_path.as_ref() != Some(&program)).then_some(program)
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+".contains(c)) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
