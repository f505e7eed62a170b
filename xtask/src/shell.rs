//! Runs programs, and says which one failed.

use crate::checkout;
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// cargo, as this command was started by it, in the checkout.
pub(crate) fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    program_in(Path::new(&program), checkout::root())
}

/// A program that runs in a folder and reads nothing from the terminal.
pub(crate) fn program_in(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// Shows a command, runs it with its output going where ours goes, and fails when it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = describe(command);
    println!("$ {shown}");
    let status = command.status().with_context(|| format!("start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// The output of a command, or an error that has what it wrote to stderr.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = describe(command);
    let output = command.output().with_context(|| format!("start `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).with_context(|| format!("output of `{shown}`"))
}

/// A command as one would type it, with the variables that were set for it.
fn describe(command: &Command) -> String {
    let mut words: Vec<String> = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.display(), quote(&value?.to_string_lossy()))))
        .collect();
    let program = Path::new(command.get_program());
    words.push(program.file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned());
    words.extend(command.get_args().map(|argument| quote(&argument.to_string_lossy())));
    words.join(" ")
}

fn quote(word: &str) -> String {
    if word.is_empty() || word.contains(|c: char| c.is_whitespace() || "\"'$&|;<>()*?".contains(c)) {
        format!("'{}'", word.replace('\'', "'\\''"))
    } else {
        word.to_owned()
    }
}

/// Lets a program have the last word: its output is the answer, and its exit code this program's.
pub(crate) fn hand_over(program: &mut Command) -> Result<()> {
    // Its message says what is wrong; a second one from here would only hide it.
    std::process::exit(exit_code(program)?)
}

/// Runs a program whose output is the answer; its exit code, and 1 where a signal ended it.
pub(crate) fn exit_code(program: &mut Command) -> Result<i32> {
    let status = program.status().with_context(|| format!("start `{}`", describe(program)))?;
    Ok(status.code().unwrap_or(1))
}

/// Builds larder as a node has it, in release mode; where the binary is. Nothing is printed to standard output, which is a table's.
pub(crate) fn released_larder() -> Result<PathBuf> {
    let build = ["build", "--release", "--quiet", "--locked", "--package", "larder", "--bin", "larder"];
    output(cargo().args(build).args(["--no-default-features", "--features", "node"]))?;
    Ok(checkout::target().join("release").join("larder"))
}

/// Runs a program of the testbed's that measures the larder at that path, built with that profile.
pub(crate) fn of_testbed(program: &str, profile: &str, larder: &Path) -> Command {
    let mut measure = cargo();
    measure.args(["run", "--quiet", "--locked", "--profile", profile, "--package", "larder-testbed", "--bin", program]);
    measure.args(["--", "--larder"]).arg(larder);
    measure
}
