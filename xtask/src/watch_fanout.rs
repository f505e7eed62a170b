//! `cargo xtask watch-fanout`: builds larder and the program that measures its watches beside those of the API server, and runs it.
//!
//! That program is the testbed's (`testbed/src/bin/watch-fanout.rs`), which has the clients that it takes.

use crate::shell;
use anyhow::Result;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Fail where a change takes longer than 50 ms to the last watch, at the 99th percentile.
    #[arg(long)]
    check: bool,
    /// How long changes are made, for each of the two.
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// How many watches see the changes.
    #[arg(long, value_name = "N", default_value_t = 200)]
    watches: u32,
    /// How many watches see nothing.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    idle: u32,
}

/// Builds and measures; the exit code is the measuring program's.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // The clients share the machine with what they measure, so they are optimized too.
    let mut measure = shell::of_testbed("watch-fanout", "release", &shell::released_larder()?);
    measure.args(["--seconds", &arguments.seconds.to_string()]);
    measure.args(["--watches", &arguments.watches.to_string(), "--idle", &arguments.idle.to_string()]);
    if arguments.check {
        measure.arg("--check");
    }
    shell::hand_over(&mut measure)
}
