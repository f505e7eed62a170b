//! `larder replay`: a trace on the caches in virtual time, and its results compared with others.
//!
//! Exit codes: 0 where the trace was replayed (and gave what was expected), 1 where it gave something else, 2 where the trace
//! is bad or a file cannot be read. A reader that goes away ends it quietly.

mod compare;

use crate::output;
use anyhow::Context as _;
use compare::Comparison;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use larder_sim::TraceError;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

/// The trace is bad, or a file cannot be read.
const BAD: u8 = 2;

/// Bytes that are read and written at once.
const BUFFER: usize = 1 << 17;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes: 0 if the trace was replayed, 1 if its results differ from EXPECTED, 2 if the trace is bad or a file \
cannot be read.

Examples:
  larder replay trace.jsonl > results.jsonl
  larder replay trace.jsonl --compare results.jsonl
  zcat trace.jsonl.gz | larder replay -")]
pub(crate) struct Args {
    /// The trace, one JSON object per line; `-` reads standard input
    #[arg(value_name = "FILE")]
    trace: PathBuf,

    /// Compare the results with the lines of this file, as JSON values, and print only the differences
    #[arg(long, value_name = "EXPECTED")]
    compare: Option<PathBuf>,
}

/// Runs the command.
#[allow(clippy::needless_pass_by_value)] // As every command's.
pub(crate) fn main(args: Args) -> anyhow::Result<ExitCode> {
    let replayed = match &args.compare {
        None => print(&args.trace),
        Some(expected) => compare(&args.trace, expected),
    };
    replayed.or_else(|error| {
        if output::is_broken_pipe(&error) {
            return Err(error);
        }
        output::complain(&output::error_line(&error));
        Ok(ExitCode::from(BAD))
    })
}

/// Prints the results.
fn print(trace: &Path) -> anyhow::Result<ExitCode> {
    // On a terminal the results themselves show how far it is.
    let input = Input::open(trace, !io::stdout().is_terminal())?;
    let results = Rc::new(RefCell::new(BufWriter::with_capacity(BUFFER, io::stdout().lock())));
    input.flushing(&results).replay(&mut Shared(results))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints where the results differ from those expected.
fn compare(trace: &Path, expected: &Path) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        !(is_standard_input(trace) && is_standard_input(expected)),
        "FILE and EXPECTED cannot both be standard input"
    );
    let (expected_input, _) = open(expected)?;
    let mut comparison = Comparison::new(BufReader::with_capacity(BUFFER, expected_input));
    let input = Input::open(trace, true)?;
    let replayed = input.replay(&mut comparison);
    let outcome = match (replayed, comparison.failure()) {
        (_, Some(failure)) => Err(failure).with_context(|| format!("cannot read {}", name(expected))),
        (Err(_), None) if comparison.has_enough() => Ok(()),
        (replayed, None) => replayed.map(|_| ()),
    };
    let report = comparison.finish(outcome.is_ok()).with_context(|| format!("cannot read {}", name(expected)))?;
    output::print(report.text.as_bytes())?;
    outcome?;
    if report.differs {
        return Ok(ExitCode::FAILURE);
    }
    output::print(format!("{} lines, as in {}\n", report.lines, name(expected)).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// A trace to be read, with its name and how far it is.
struct Input {
    name: String,
    reader: BufReader<Box<dyn Read>>,
    progress: ProgressBar,
}

impl Input {
    fn open(path: &Path, show_progress: bool) -> anyhow::Result<Self> {
        let (reader, length) = open(path)?;
        let progress = if show_progress { progress(length) } else { ProgressBar::hidden() };
        let reader: Box<dyn Read> = Box::new(progress.wrap_read(reader));
        Ok(Self { name: name(path), reader: BufReader::with_capacity(BUFFER, reader), progress })
    }

    /// Gives out the results so far before it waits for more of the trace, so that a trace that is written line by line
    /// is answered line by line.
    fn flushing(self, results: &Rc<RefCell<impl io::Write + 'static>>) -> Self {
        // Nothing has been read yet, so nothing is lost with the buffer.
        let reader = FlushFirst { input: self.reader.into_inner(), results: Rc::clone(results) };
        Self { reader: BufReader::with_capacity(BUFFER, Box::new(reader)), ..self }
    }

    /// Runs the trace; an error names it.
    fn replay(self, results: &mut impl io::Write) -> anyhow::Result<u64> {
        let replayed = larder_sim::replay(self.reader, results);
        self.progress.finish_and_clear();
        replayed.map_err(|error| match error {
            TraceError::Write(source) => anyhow::Error::new(source).context("cannot write the results"),
            error => anyhow::Error::new(error).context(self.name),
        })
    }
}

/// Results that the replay writes and the reader of the trace flushes.
struct Shared<W>(Rc<RefCell<W>>);

impl<W: io::Write> io::Write for Shared<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}

/// A reader that has the results written out before each read.
struct FlushFirst<W> {
    input: Box<dyn Read>,
    results: Rc<RefCell<W>>,
}

impl<W: io::Write> Read for FlushFirst<W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // What could not be written is kept, and the next write of a result meets the same error.
        let _ = self.results.borrow_mut().flush();
        self.input.read(buffer)
    }
}

/// A progress bar on standard error, if that is a terminal.
fn progress(length: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    let template = match length {
        Some(_) => "{bar:40} {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left",
        None => "{spinner} {bytes}, {binary_bytes_per_sec}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

fn name(path: &Path) -> String {
    if is_standard_input(path) { "standard input".to_owned() } else { path.display().to_string() }
}

/// The file and its length, if it has one that is known.
fn open(path: &Path) -> anyhow::Result<(Box<dyn Read>, Option<u64>)> {
    if is_standard_input(path) {
        return Ok((Box::new(io::stdin().lock()), None));
    }
    let context = || format!("cannot open {}", name(path));
    let file = File::open(path).with_context(context)?;
    let metadata = file.metadata().with_context(context)?;
    // A pipe or a device has no length that would say anything.
    let length = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(file), length))
}
