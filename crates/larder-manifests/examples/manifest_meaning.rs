//! What manifests mean to larder: reads them, each a string of JSON on its own line, and answers each with its first object as
//! a line of JSON, or with `{"refused":"why"}`. The differential test compares the answers with those of the kubelet's decoder.

use std::io::{BufRead as _, Write as _};

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let text: String = serde_json::from_str(&line?)?;
        let answer =
            larder_manifests::manifest_meaning(&text).unwrap_or_else(|problem| serde_json::json!({"refused": problem}));
        writeln!(out, "{answer}")?;
    }
    out.flush()
}
