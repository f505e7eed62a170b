//! `cargo xtask relist-cost`: runs larder-cri's benchmark of that name (`crates/larder-cri/benches/relist_cost.rs`).

use crate::shell;
use anyhow::Result;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Fail where a target is missed.
    #[arg(long)]
    check: bool,
}

/// Builds and measures; the exit code is the benchmark's.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut measure = shell::cargo();
    measure.args(["bench", "--quiet", "--locked", "--package", "larder-cri", "--bench", "relist_cost", "--"]);
    if arguments.check {
        measure.arg("--check");
    }
    shell::hand_over(&mut measure)
}
