//! `cargo xtask api-load`: builds larder and the kubelet's own managers, and runs the program that measures both.
//!
//! That program is the testbed's (`testbed/src/bin/api-load`), which has the clients that it takes; it knows the options.

use crate::{checkout, shell};
use anyhow::Result;
use std::ffi::OsString;
use std::path::Path;

/// What the measuring program is told.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// `--check`, `-o markdown`, `--periods 10`, `--sync-period 12s`, ...; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Builds and measures; the exit code is the measuring program's.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let larder = shell::released_larder()?;
    let kubelet = checkout::target().join("oracle").join("apiload");
    let mut go = shell::program_in(Path::new("go"), &checkout::root().join("oracle"));
    go.args(["build", "-o"]).arg(&kubelet).arg("./apiload").env("GOTOOLCHAIN", "local");
    shell::output(&mut go)?;
    let mut measure = shell::of_testbed("api-load", "dev", &larder);
    measure.arg("--kubelet").arg(kubelet).args(&arguments.arguments);
    shell::hand_over(&mut measure)
}
