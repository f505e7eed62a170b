//! What kubeconfigs mean to larder: reads their paths, each a string of JSON on its own line, and answers each with a line of
//! JSON, or with `{"refused":"why"}`. The differential test compares the answers with those of `clientcmd`.

use std::io::{BufRead as _, Write as _};

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let path: std::path::PathBuf = serde_json::from_str(&line?)?;
        let answer = larder_kube::kubeconfig_meaning(&path)
            .unwrap_or_else(|error| serde_json::json!({"refused": error.to_string()}));
        writeln!(out, "{answer}")?;
    }
    out.flush()
}
