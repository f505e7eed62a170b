//! `cargo xtask mutants`: mutation tests of the caches.

use crate::{checkout, shell, tools};
use anyhow::Result;
use std::ffi::OsString;

/// The crates whose every line a test must depend on.
const CRATES: [&str; 2] = ["larder-objects", "larder-pod-status"];

/// What to change.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these crates.
    #[arg(long = "package", short, default_values = CRATES)]
    packages: Vec<String>,
    /// More arguments for cargo-mutants, such as `--file '**/ttl.rs'` or `--list`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Runs cargo-mutants; its report is `mutants.out` in the target folder.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut mutants = shell::program_in(&tools::CARGO_MUTANTS.install()?, checkout::root());
    mutants.args(["mutants", "--output"]).arg(checkout::target());
    for package in &arguments.packages {
        mutants.args(["--package", package]);
    }
    shell::run(mutants.args(&arguments.arguments))
}
