//! `cargo xtask footprint`: builds the daemon as a node has it and the programs that measure it, and runs them.
//!
//! `benches/footprint` measures it between a simulated API server and runtime, and the testbed's `api-reads` beside a real API
//! server.

use crate::{checkout, shell};
use anyhow::Result;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Measure only what has this in its name: node, large, reads, identity, churn or api.
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
    /// How long objects come and go.
    #[arg(long, value_name = "MINUTES", default_value_t = 10)]
    minutes: u32,
    /// Fail where a target is missed.
    #[arg(long)]
    check: bool,
}

/// Builds and measures; the exit code is the program's.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // In folders of their own: built together, the daemon would get what the program asks of the dependencies.
    let build = ["build", "--quiet", "--locked", "--profile"];
    shell::run(shell::cargo().args(build).args([
        "dist",
        "--package",
        "larder",
        "--no-default-features",
        "--features",
        "node",
    ]))?;
    let daemon = checkout::target().join("dist").join("larder");
    let wants = |name: &str| arguments.only.as_ref().is_none_or(|pattern| name.contains(pattern.as_str()));
    let mut programs = Vec::new();
    if !wants("api") || ["node", "large", "reads", "identity", "churn"].into_iter().any(wants) {
        shell::run(shell::cargo().args(build).args(["release", "--package", "larder-footprint"]))?;
        let mut measure = shell::program_in(&checkout::target().join("release").join("footprint"), checkout::root());
        measure.arg("--daemon").arg(&daemon).arg("--minutes").arg(arguments.minutes.to_string());
        if let Some(pattern) = &arguments.only {
            measure.arg("--only").arg(pattern);
        }
        programs.push(measure);
    }
    if wants("api") {
        // The clients share the machine with what they measure, so they are optimized too.
        programs.push(shell::of_testbed("api-reads", "release", &daemon));
    }
    let mut code = 0;
    for mut program in programs {
        if arguments.check {
            program.arg("--check");
        }
        code = shell::exit_code(&mut program)?.max(code);
    }
    std::process::exit(code)
}
