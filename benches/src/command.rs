//! The command line of both programs.

use anyhow::{Context as _, Result, bail};

/// An operation: its name, and what runs it with the number that it counts (threads, waits or pods).
pub type Operation = (&'static str, fn(usize) -> Result<f64>);

/// Runs the operation that the command line names, and prints what it gives.
///
/// # Errors
///
/// The command line is wrong, or the operation failed.
pub fn run(operations: &[Operation]) -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, number] = arguments.as_slice() else { bail!("usage: OPERATION NUMBER") };
    let Some((_, operation)) = operations.iter().find(|(known, _)| known == name) else {
        bail!("there is no operation {name}");
    };
    let number = number.parse::<usize>().ok().filter(|number| *number > 0);
    println!("{{\"value\":{}}}", operation(number.context("not a number to count with")?)?);
    Ok(())
}
