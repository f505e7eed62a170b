//! The originals: building the test binary of `oracle/`, and talking to it.

use crate::{checkout, shell};
use anyhow::{Context as _, Result, bail};
use larder_sim::Trace;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

/// Builds the oracle and returns its program. The first time takes some minutes, for Go compiles much of the kubelet.
pub(super) fn build() -> Result<PathBuf> {
    let program = checkout::target().join("oracle").join("oracle.test");
    let mut build = shell::program_in(Path::new("go"), &checkout::root().join("oracle"));
    // Nothing but what stands in go.mod, and no other toolchain than the one that is there.
    build.args(["test", "-c", "-o"]).arg(&program).arg(".").env("GOTOOLCHAIN", "local");
    shell::run(&mut build)?;
    Ok(program)
}

fn command(program: &Path, mode: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["-answer", mode]).stdin(Stdio::piped()).stdout(Stdio::piped());
    // One trace after another: a second thread would only be woken for nothing.
    command.env("GOMAXPROCS", "1");
    command
}

/// The oracle's lines for lines of input, one for each.
pub(super) fn answer_lines(program: &Path, mode: &str, lines: &[String]) -> Result<Vec<String>> {
    answers(&mut command(program, mode), lines)
}

/// What the oracle prints without input.
pub(super) fn print(program: &Path, mode: &str) -> Result<String> {
    shell::output(command(program, mode).stdin(Stdio::null()))
}

/// A program's lines for lines of input, one for each.
pub(super) fn answers(program: &mut Command, lines: &[String]) -> Result<Vec<String>> {
    if lines.is_empty() {
        return Ok(Vec::new());
    }
    let input = lines.join("\n") + "\n";
    let mut child = program.spawn().with_context(|| format!("start {program:?}"))?;
    let mut stdin = child.stdin.take().context("it has no standard input")?;
    // From a thread of its own: neither side may wait for the other to read.
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{program:?} failed: {}", output.status);
    }
    if let Ok(written) = writer.join() {
        written.with_context(|| format!("write to {program:?}"))?;
    }
    let answers: Vec<String> = String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect();
    if answers.len() != lines.len() {
        bail!("{program:?} gives {} answers to {} lines", answers.len(), lines.len());
    }
    Ok(answers)
}

/// An oracle that answers traces.
pub(super) struct Oracle {
    child: Child,
    stdin: BufWriter<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Oracle {
    pub(super) fn start(program: &Path) -> Result<Self> {
        let mut child = command(program, "traces").spawn().with_context(|| format!("start {}", program.display()))?;
        let stdin = child.stdin.take().context("the oracle has no standard input")?;
        let stdout = child.stdout.take().context("the oracle has no standard output")?;
        Ok(Self { child, stdin: BufWriter::new(stdin), stdout: BufReader::new(stdout) })
    }

    fn read_trace(stdout: &mut BufReader<ChildStdout>, operations: usize) -> Result<Vec<String>> {
        let mut lines = Vec::with_capacity(operations + 1);
        while lines.len() <= operations {
            let mut line = String::new();
            if stdout.read_line(&mut line).context("read from the oracle")? == 0 {
                bail!("the oracle ended in the midst of a trace; what it says stands above");
            }
            line.truncate(line.trim_end().len());
            let bad = line.starts_with("{\"bad\"");
            lines.push(line);
            if bad {
                break;
            }
        }
        Ok(lines)
    }
}

impl super::compare::Original for Oracle {
    fn answer(&mut self, traces: &[Trace]) -> Result<Vec<Vec<String>>> {
        let Self { stdin, stdout, .. } = self;
        thread::scope(|scope| {
            // The empty line ends a trace and lets its results be printed.
            let writer = scope.spawn(move || {
                let mut text = String::new();
                for trace in traces {
                    text.clear();
                    // Writing to a string cannot fail.
                    let _ = writeln!(text, "{trace}");
                    stdin.write_all(text.as_bytes())?;
                }
                stdin.flush()
            });
            let answers = traces.iter().map(|trace| Self::read_trace(stdout, trace.ops.len())).collect();
            if let Ok(written) = writer.join() {
                written.context("write to the oracle")?;
            }
            answers
        })
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // It holds nothing that could be lost. An error means that it ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
