//! `cargo xtask testbed`: hands its arguments to the testbed's own program.
//!
//! That program needs clients of the API server and of the container runtime; this one is built without them, so that
//! `cargo xtask` starts quickly.

use crate::shell;
use anyhow::Result;
use std::ffi::OsString;

/// What the testbed's program is told.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// `up`, `down`, `status`, ...; `help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Builds the testbed's program and runs it.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut testbed = shell::cargo();
    testbed.args(["run", "--quiet", "--locked", "--package", "larder-testbed", "--"]).args(&arguments.arguments);
    let status = testbed.status()?;
    // Its message says what is wrong; a second one from here would only hide it.
    std::process::exit(status.code().unwrap_or(1))
}
