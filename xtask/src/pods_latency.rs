//! `cargo xtask pods-latency`: builds larder and the program that measures it beside a kubelet, and runs it.
//!
//! That program is the testbed's (`testbed/src/bin/pods-latency.rs`), which has the clients that it takes.

use crate::shell;
use anyhow::Result;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Fail where larder is not ahead.
    #[arg(long)]
    check: bool,
    /// How long both are read, for each number of pods.
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u32,
}

/// Builds and measures; the exit code is the measuring program's.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // What is measured is below a millisecond, of which a client that is not optimized would be a part.
    let mut measure = shell::of_testbed("pods-latency", "release", &shell::released_larder()?);
    measure.args(["--seconds", &arguments.seconds.to_string()]);
    if arguments.check {
        measure.arg("--check");
    }
    shell::hand_over(&mut measure)
}
