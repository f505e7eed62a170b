//! `larder demo`.

use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the command.
#[allow(clippy::unnecessary_wraps, clippy::needless_pass_by_value)]
pub(crate) fn main(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not yet")
}
