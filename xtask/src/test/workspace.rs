//! The packages of the workspace, as cargo knows them.

use crate::shell;
use anyhow::{Context as _, Result};
use serde_json::Value;

/// Each package's entry in `cargo metadata`.
pub(super) fn packages() -> Result<Vec<Value>> {
    let metadata = shell::output(shell::cargo().args(["metadata", "--locked", "--no-deps", "--format-version", "1"]))?;
    let mut metadata: Value = serde_json::from_str(&metadata).context("read what cargo metadata prints")?;
    match metadata["packages"].take() {
        Value::Array(packages) => Ok(packages),
        _ => anyhow::bail!("cargo metadata prints no packages"),
    }
}
