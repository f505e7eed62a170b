//! Results against those expected, line by line as they come.

use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, BufRead, Write};

/// Differences that are printed; the rest is not looked at.
const ENOUGH: usize = 10;

/// Takes results as they are written, and keeps the first that differ.
///
/// Holds one line of either side, and the few that differ.
pub(super) struct Comparison<R> {
    expected: R,
    /// What was written of a result whose end has not come yet.
    got: Vec<u8>,
    lines: u64,
    differences: Vec<Difference>,
    failure: Option<io::Error>,
}

struct Difference {
    line: u64,
    expected: Option<String>,
    got: Option<String>,
}

/// What came of a comparison.
pub(super) struct Report {
    /// For a person; empty where nothing differs.
    pub(super) text: String,
    pub(super) differs: bool,
    /// Results that were compared.
    pub(super) lines: u64,
}

impl<R: BufRead> Comparison<R> {
    pub(super) fn new(expected: R) -> Self {
        Self { expected, got: Vec::new(), lines: 0, differences: Vec::new(), failure: None }
    }

    /// Whether there are differences enough, so that the trace need not go on.
    pub(super) fn has_enough(&self) -> bool {
        self.differences.len() >= ENOUGH
    }

    /// Why the expected lines cannot be read, if that was so.
    pub(super) fn failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Ends the comparison. Where the trace is `complete`, no more lines may be expected.
    pub(super) fn finish(mut self, complete: bool) -> io::Result<Report> {
        while complete && !self.has_enough() {
            let Some(expected) = next_line(&mut self.expected)? else { break };
            // Empty lines at the end are a matter of editors.
            if !expected.trim_ascii().is_empty() {
                let line = self.lines + 1;
                self.differences.push(Difference { line, expected: Some(text(&expected)), got: None });
            }
            self.lines += 1;
        }
        let mut text = String::new();
        for Difference { line, expected, got } in &self.differences {
            let show = |side: &Option<String>| side.clone().unwrap_or_else(|| "nothing".to_owned());
            // Writing to a string cannot fail.
            let _ = writeln!(text, "line {line}:\n  expected {}\n  got      {}", show(expected), show(got));
        }
        if self.has_enough() {
            let _ = writeln!(text, "{ENOUGH} lines differ; the rest was not compared");
        }
        Ok(Report { text, differs: !self.differences.is_empty(), lines: self.lines })
    }

    fn compare(&mut self) -> io::Result<()> {
        let expected = next_line(&mut self.expected)?;
        self.lines += 1;
        if !expected.as_deref().is_some_and(|expected| same(expected, &self.got)) {
            let (expected, got) = (expected.as_deref().map(text), Some(text(&self.got)));
            self.differences.push(Difference { line: self.lines, expected, got });
        }
        self.got.clear();
        Ok(())
    }
}

impl<R: BufRead> Write for Comparison<R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.has_enough() {
            return Err(io::Error::other("enough differences"));
        }
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            self.got.extend_from_slice(bytes);
            return Ok(bytes.len());
        };
        self.got.extend_from_slice(&bytes[..end]);
        if let Err(failure) = self.compare() {
            let kind = failure.kind();
            self.failure = Some(failure);
            return Err(kind.into());
        }
        Ok(end + 1)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The next line without its end.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    if input.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.ends_with(b"\n") {
        line.pop();
    }
    Ok(Some(line))
}

/// Whether two lines are the same as JSON values; a line that is no JSON is the same as nothing.
fn same(one: &[u8], other: &[u8]) -> bool {
    let value = |line| serde_json::from_slice::<Value>(line).ok();
    one == other || value(one).is_some_and(|one| value(other) == Some(one))
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expected: &str, got: &str, text: &str) {
        let mut comparison = Comparison::new(expected.as_bytes());
        comparison.write_all(got.as_bytes()).expect("taken");
        let report = comparison.finish(true).expect("read");
        assert_eq!(report.text, text);
        assert_eq!(report.differs, !text.is_empty());
    }

    #[test]
    fn lines_are_compared_as_values() {
        check("{\"a\":1,\"b\":[]}\n{}", "{\"b\": [],\"a\":1}\n{}\n", "");
        check("{}\r\n\n \n", "{}\n", "");
    }

    #[test]
    fn what_differs_is_shown_with_its_line() {
        check("{}\n{\"a\":1}\n", "{}\n{\"a\":2}\n", "line 2:\n  expected {\"a\":1}\n  got      {\"a\":2}\n");
        check("{}\n", "{}\n{\"end\":true}\n", "line 2:\n  expected nothing\n  got      {\"end\":true}\n");
        check("{}\n{}\n{}\n", "{}\n{}\n", "line 3:\n  expected {}\n  got      nothing\n");
        check("nonsense\n", "{}\n", "line 1:\n  expected nonsense\n  got      {}\n");
        check(
            "{}\n\n{}\n",
            "{}\n{}\n",
            "line 2:\n  expected \n  got      {}\nline 3:\n  expected {}\n  got      nothing\n",
        );
    }

    #[test]
    fn a_line_may_come_in_pieces() {
        let mut comparison = Comparison::new(&b"{\"a\":1}\n"[..]);
        for piece in ["{\"a", "\":1", "}", "\n"] {
            comparison.write_all(piece.as_bytes()).expect("taken");
        }
        assert!(!comparison.finish(true).expect("read").differs);
    }

    #[test]
    fn enough_is_enough() {
        let mut comparison = Comparison::new(io::empty());
        let written = comparison.write_all("{}\n".repeat(11).as_bytes());
        assert!(written.is_err() && comparison.has_enough());
        let report = comparison.finish(false).expect("read");
        assert_eq!(report.text.matches("expected nothing").count(), ENOUGH);
        assert!(report.text.ends_with("10 lines differ; the rest was not compared\n"));
    }

    #[test]
    fn what_a_bad_trace_did_not_come_to_is_not_missing() {
        let mut comparison = Comparison::new(&b"{}\n{}\n"[..]);
        comparison.write_all(b"{}\n").expect("taken");
        assert!(!comparison.finish(false).expect("read").differs);
    }
}
