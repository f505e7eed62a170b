//! The programs that are measured, and one figure of them.

use super::rows::{Program, Row};
use crate::{checkout, shell};
use anyhow::{Context as _, Result};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// What each program prints.
#[derive(Deserialize)]
struct Printed {
    value: f64,
}

/// The programs of both sides.
pub(super) struct Drivers {
    original: PathBuf,
    speed: PathBuf,
    memory: PathBuf,
}

impl Drivers {
    /// Builds them: Go's as Go builds what it releases, ours with the profile that measurements have.
    pub(super) fn build() -> Result<Self> {
        let original = checkout::target().join("oracle").join("bench");
        let mut go = shell::program_in(Path::new("go"), &checkout::root().join("oracle"));
        go.args(["build", "-o"]).arg(&original).arg("./bench").env("GOTOOLCHAIN", "local");
        quietly(&mut go)?;
        quietly(shell::cargo().args(["build", "--locked", "--profile", "bench", "--package", "larder-bench"]))?;
        // cargo's name for the folder of everything that inherits from `release` and is called `bench`.
        let folder = checkout::target().join("release");
        Ok(Self { original, speed: folder.join("speed"), memory: folder.join("memory") })
    }

    /// The original's figure, if it has one.
    pub(super) fn original(&self, row: &Row) -> Result<Option<f64>> {
        row.original.map(|operation| measure(&self.original, operation, row.number)).transpose()
    }

    /// larder's figure.
    pub(super) fn larder(&self, row: &Row) -> Result<f64> {
        match row.larder {
            Program::Speed(operation) => measure(&self.speed, operation, row.number),
            Program::Memory(operation) => measure(&self.memory, operation, row.number),
        }
    }
}

/// The table alone stands on standard output.
fn quietly(command: &mut std::process::Command) -> Result<()> {
    shell::output(command).map(drop)
}

fn measure(program: &Path, operation: &str, number: u32) -> Result<f64> {
    let mut command = shell::program_in(program, checkout::root());
    let printed = shell::output(command.args([operation, &number.to_string()]))?;
    let printed: Printed = serde_json::from_str(&printed)
        .with_context(|| format!("read what {} prints: {printed:?}", program.display()))?;
    Ok(printed.value)
}
