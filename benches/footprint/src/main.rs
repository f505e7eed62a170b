//! What `larder run` takes of a node, and how soon it answers: `cargo xtask footprint` builds both and runs this.
//!
//! The daemon is a process of its own, as it is released, with its default strategy, TLS to the API server and the PLEG on.
//! The API server and the container runtime are larder-testkit's; they and the readers run in this process, so that what is
//! read of `/proc` for the daemon's is the daemon's alone.

mod daemon;
mod load;
mod measurements;
mod place;
mod world;

use anyhow::{Result, bail};
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// What the daemon takes of a node, and how soon it answers.
#[derive(Parser)]
#[command(name = "footprint")]
struct Arguments {
    /// The daemon's program, as it is released.
    #[arg(long, value_name = "FILE")]
    daemon: PathBuf,
    /// Measure only what has this in its name.
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
    /// How long objects come and go.
    #[arg(long, value_name = "MINUTES", default_value_t = 10)]
    minutes: u32,
    /// Fail where a target is missed.
    #[arg(long)]
    check: bool,
}

/// One figure and what it has to keep to.
pub(crate) struct Figure {
    name: &'static str,
    value: f64,
    unit: &'static str,
    at_most: f64,
}

impl Figure {
    fn is_met(&self) -> bool {
        self.value <= self.at_most
    }

    fn line(&self) -> String {
        let Self { name, value, unit, at_most } = self;
        let met = if self.is_met() { "met" } else { "MISSED" };
        format!("{name:<72} {value:>9.2} {unit:<3} at most {at_most:.2} {unit}, {met}")
    }
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let wanted = |name: &str| arguments.only.as_deref().is_none_or(|pattern| name.contains(pattern));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut missed = Vec::new();
    let mut any = false;
    for (name, measure) in measurements::ALL.iter().filter(|(name, _)| wanted(name)) {
        any = true;
        eprintln!("{name}");
        let lasts = Duration::from_mins(1) * arguments.minutes;
        for figure in runtime.block_on(measure(&arguments.daemon, lasts))? {
            println!("{}", figure.line());
            missed.extend((!figure.is_met()).then_some(figure.name));
        }
    }
    if !any {
        let names: Vec<_> = measurements::ALL.iter().map(|(name, _)| *name).collect();
        bail!("--only: no measurement has that in its name; there are {}", names.join(", "));
    }
    if arguments.check && !missed.is_empty() {
        eprintln!("missed: {}", missed.join(", "));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
