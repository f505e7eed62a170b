//! `cargo xtask exit-latency`: builds larder and the program that measures it beside a kubelet, and runs it.
//!
//! That program is the testbed's (`testbed/src/bin/exit-latency.rs`), which has the clients that it takes.

use crate::shell;
use anyhow::Result;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Fail where larder is not as soon as it promises to be.
    #[arg(long)]
    check: bool,
    /// How many containers end.
    #[arg(long, value_name = "N", default_value_t = 300)]
    exits: u16,
}

/// Builds and measures; the exit code is the measuring program's.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut measure = shell::of_testbed("exit-latency", "dev", &shell::released_larder()?);
    measure.args(["--exits", &arguments.exits.to_string()]);
    if arguments.check {
        measure.arg("--check");
    }
    shell::hand_over(&mut measure)
}
