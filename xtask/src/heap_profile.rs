//! `cargo xtask heap-profile`: where the bytes of a wait or an object are, as a profile for dhat's viewer.

use crate::{checkout, shell};
use anyhow::{Context as _, Result};
use clap::ValueEnum;
use std::path::PathBuf;

/// What to profile.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What is to be alive when the profile is taken.
    what: What,
    /// How many waits, or pods of four objects each.
    #[arg(long, value_name = "NUMBER", default_value_t = 2_500)]
    count: u32,
    /// Where the profile is written to [default: heap-profile-WHAT.json in cargo's target folder]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Waits for a pod's status.
    Waits,
    /// The same, each with a task that waits.
    WaitsInTasks,
    /// Objects that pods refer to.
    Registered,
    /// The same, fetched.
    Fetched,
}

impl What {
    /// The operation of `benches`' program.
    fn operation(self) -> &'static str {
        match self {
            Self::Waits => "wait-memory",
            Self::WaitsInTasks => "wait-memory-in-task",
            Self::Registered => "object-memory-registered",
            Self::Fetched => "object-memory-fetched",
        }
    }
}

/// Builds the program, has it write the profile, and says where that is.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let build = ["build", "--quiet", "--locked", "--profile", "bench", "--package", "larder-bench", "--bin", "memory"];
    shell::run(shell::cargo().args(build))?;
    let operation = arguments.what.operation();
    let named = || checkout::target().join(format!("heap-profile-{operation}.json"));
    let file = std::path::absolute(arguments.file.clone().unwrap_or_else(named)).context("the profile's place")?;
    // cargo's name for the folder of everything that inherits from `release` and is called `bench`.
    let program = checkout::target().join("release").join("memory");
    let mut profile = shell::program_in(&program, checkout::root());
    profile.args([operation, &arguments.count.to_string()]).env("LARDER_HEAP_PROFILE", &file);
    shell::output(&mut profile)?;
    println!("{}: open it with dhat's viewer, dh_view.html of valgrind", file.display());
    Ok(())
}
