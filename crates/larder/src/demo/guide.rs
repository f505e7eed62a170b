//! What the demo prints at its start: what it is, and what to try.

use super::control::COMMANDS;
use super::shop::NAMESPACE;
use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What to try, with `NS` for the namespace of the shop.
pub(super) const ROWS: [(&str, &str); 13] = [
    ("larder get pods -A", "the pods of this node"),
    ("larder get secret api-login -n NS -o yaml", "a Secret that a pod refers to; its password is rotated at times"),
    ("larder get cm,secret -n NS -o wide", "how old each is, and whether it is fresh (for 10 s here)"),
    ("larder get secret payroll -n finance", "refused: no pod of this node refers to it"),
    ("larder ps", "containers: state, restarts, exit codes"),
    ("larder wait pod flaky -n NS --for=state=exited", "ends within a second of the exit"),
    ("larder status", "sources, the age of each, degraded or not"),
    ("curl --unix-socket $LARDER_SOCKET http://larder/metrics", ""),
    ("", ""),
    ("larder demo outage", "the API server goes away: ask again, all is still served, with its age"),
    ("larder demo restore", "and back"),
    ("larder demo crash api", "a container exits"),
    ("larder demo rotate", "a Secret gets another value"),
];

/// The whole guide.
pub(super) fn text(api_server: &str, socket: &Path, typed: bool) -> String {
    let mut text = format!(
        "\
This is a simulation: no cluster and no containers. An API server ({api_server}) and a container runtime, both
simulated, speak the real protocols; between them runs the real larder, as 'larder run' would on a node. An agent asks
it for every Secret and ConfigMap once a second.

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
        let _ = writeln!(text, "Here, type: {COMMANDS}. Ctrl-C ends it.");
    } else {
        text.push_str("Ctrl-C or SIGTERM ends it.\n");
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
