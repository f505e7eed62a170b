//! `cargo xtask versus`: the same work on larder's caches and on the kubelet's own, in turn, as a table.
//!
//! Each figure comes from a process of its own that runs one operation: `oracle/bench` links the kubelet's packages,
//! `benches` links larder's crates as they are released. In every round each operation is measured once on either side,
//! directly one after the other, with the order changed from round to round. A ratio is the median over the rounds' ratios,
//! so that load which comes and goes meets both sides of a pair.

mod drivers;
mod report;
mod rows;
mod statistics;

use anyhow::{Result, bail, ensure};
use clap::ValueEnum;
use drivers::Drivers;
use regex::Regex;
use report::Measured;
use rows::{ROWS, Row};

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many times each operation is measured on either side.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pairs: u16,
    /// Only operations whose name has this in it: a regular expression.
    #[arg(long, value_name = "PATTERN")]
    only: Option<Regex>,
    /// How to print the table.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Fail where a target is missed.
    #[arg(long)]
    check: bool,
}

/// How a table is printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
    Markdown,
}

/// Measures, prints the table, and fails where a target is missed if that is asked for.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let wanted = |row: &&Row| arguments.only.as_ref().is_none_or(|only| only.is_match(row.name));
    let rows: Vec<&Row> = ROWS.iter().filter(wanted).collect();
    ensure!(!rows.is_empty(), "no operation has that in its name; there are {}", names().join(", "));

    let drivers = Drivers::build()?;
    let mut measured: Vec<Measured> = rows.into_iter().map(Measured::new).collect();
    for round in 0..arguments.pairs {
        for (n, row) in measured.iter_mut().enumerate() {
            eprintln!("round {} of {}, {} ({} of {})", round + 1, arguments.pairs, row.row.name, n + 1, names().len());
            row.measure(&drivers, round % 2 == 1)?;
        }
    }

    match arguments.output {
        Output::Text => print!("{}", report::text(&measured)),
        Output::Json => println!("{}", serde_json::to_string_pretty(&report::json(&measured))?),
        Output::Markdown => print!("{}", report::markdown(&measured)),
    }
    let missed: Vec<&str> = report::missed(&measured);
    if arguments.check && !missed.is_empty() {
        bail!("missed: {}", missed.join(", "));
    }
    Ok(())
}

fn names() -> Vec<&'static str> {
    ROWS.iter().map(|row| row.name).collect()
}
