//! `cargo xtask test`: every check, one after the other, each a step with a name.

mod other_version;
mod steps;
mod workspace;

use anyhow::{Result, bail};
use larder_clock::{Clock as _, MonotonicClock};
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

/// Which steps to run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run only these steps.
    #[arg(long, value_name = "STEP")]
    only: Vec<String>,
    /// Leave these steps out. CI leaves out none.
    #[arg(long, value_name = "STEP", conflicts_with = "only")]
    skip: Vec<String>,
    /// Run the steps after a failed one, too.
    #[arg(long)]
    keep_going: bool,
    /// List the steps.
    #[arg(long)]
    list: bool,
}

/// One check.
struct Step {
    name: &'static str,
    about: &'static str,
    run: fn() -> Result<()>,
}

/// Runs the steps that were asked for, and ends with a table of how each went.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        for step in steps::ALL {
            println!("{:<13} {}", step.name, step.about);
        }
        return Ok(());
    }
    let wanted = select(arguments)?;
    let clock = MonotonicClock::new();
    let mut results: Vec<(&str, Duration, Result<()>)> = Vec::new();
    for (index, step) in wanted.iter().enumerate() {
        headline(&format!("[{}/{}] {}: {}", index + 1, wanted.len(), step.name, step.about));
        let start = clock.now();
        let result = (step.run)();
        let took = clock.now().saturating_duration_since(start);
        let failed = result.is_err();
        match &result {
            Ok(()) => println!("{} took {}", step.name, seconds(took)),
            Err(error) => println!("{} FAILED after {}: {error:#}", step.name, seconds(took)),
        }
        results.push((step.name, took, result));
        if failed && !arguments.keep_going {
            break;
        }
    }
    summarize(&results, wanted.len())
}

fn select(arguments: &Arguments) -> Result<Vec<&'static Step>> {
    let all = steps::ALL;
    for name in arguments.only.iter().chain(&arguments.skip) {
        if !all.iter().any(|step| step.name == name) {
            let names: Vec<&str> = all.iter().map(|step| step.name).collect();
            bail!("there is no step `{name}`; the steps are {}", names.join(", "));
        }
    }
    let is_wanted = |step: &&Step| {
        let named = |names: &[String]| names.iter().any(|name| name == step.name);
        if arguments.only.is_empty() { !named(&arguments.skip) } else { named(&arguments.only) }
    };
    Ok(all.iter().filter(is_wanted).collect())
}

fn summarize(results: &[(&str, Duration, Result<()>)], wanted: usize) -> Result<()> {
    headline("summary");
    for (name, took, result) in results {
        println!("{name:<13} {:<6} {:>8}", if result.is_ok() { "ok" } else { "FAILED" }, seconds(*took));
    }
    let total = results.iter().map(|(_, took, _)| *took).sum();
    println!("{:<13} {:<6} {:>8}", "total", "", seconds(total));
    let not_run = wanted - results.len();
    if not_run > 0 {
        println!("{not_run} steps were not run after the failed one (--keep-going runs them)");
    }
    let failed: Vec<String> = results
        .iter()
        .filter_map(|(name, _, result)| result.as_ref().err().map(|error| format!("{name}: {error:#}")))
        .collect();
    if !failed.is_empty() {
        bail!("{}", failed.join("\nxtask: "));
    }
    Ok(())
}

fn headline(text: &str) {
    if io::stdout().is_terminal() {
        println!("\n\u{1b}[1m==> {text}\u{1b}[0m");
    } else {
        println!("\n==> {text}");
    }
    // What the step's programs print comes after this.
    let _ = io::stdout().flush();
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
