//! Compares shown output with printed output, but for what differs from one run to the next.

use anyhow::{Result, bail};
use regex::Regex;
use std::sync::LazyLock;

/// What differs between runs, and what it is compared as. Tried in this order.
static VOLATILE: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let patterns = [
        // RFC 3339, with or without a fraction.
        (r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})", "<time>"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
        (r"\b[0-9a-f]{12,64}\b", "<id>"),
        (r"(/[^\s'\x22=]+)+\.sock\b", "<socket>"),
        (r"\b(127\.0\.0\.1|localhost|\[::1\]):\d+", "<address>"),
        (r"\b(process|pid) \d+", "<process>"),
        // 12s, 1m5s, 2.5ms, 3 ms.
        (r"\b(\d+(\.\d+)? ?(ns|µs|us|ms|s|m|h|d)\b|\d+(\.\d+)?(ns|µs|us|ms|s|m|h|d))+", "<age>"),
        (r"\s+", " "),
    ];
    patterns.into_iter().filter_map(|(pattern, name)| Some((Regex::new(pattern).ok()?, name))).collect()
});

/// A line as it is compared.
fn normalize(line: &str) -> String {
    let line =
        VOLATILE.iter().fold(line.to_owned(), |line, (pattern, name)| pattern.replace_all(&line, *name).into_owned());
    line.trim_end().to_owned()
}

/// Whether a shown line, in which `…` is any text, says what a printed one does.
fn matches(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (normalize(shown), normalize(printed));
    let mut parts = shown.split('…');
    let Some(mut rest) = parts.next().and_then(|first| printed.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Fails, with both texts, when the printed lines are not as shown.
pub(super) fn compare(shown: &[String], printed: &[String]) -> Result<()> {
    // A command that is shown without output may print anything.
    if shown.is_empty() || matches_all(shown, printed) {
        return Ok(());
    }
    let first = shown.iter().zip(printed).find(|(shown, printed)| *shown != "..." && !matches(shown, printed));
    let hint =
        first.map(|(shown, printed)| format!("\nthe first difference:\n  {shown}\n  {printed}")).unwrap_or_default();
    bail!("shown:\n{}\nprinted:\n{}{hint}", shown.join("\n"), printed.join("\n"))
}

fn matches_all(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first == "..." => {
            (0..=printed.len()).any(|skipped| matches_all(rest, &printed[skipped..]))
        }
        Some((first, rest)) => {
            printed.split_first().is_some_and(|(line, others)| matches(first, line) && matches_all(rest, others))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn every_pattern_is_valid() {
        assert_eq!(VOLATILE.len(), 8);
    }

    #[test]
    fn lines_are_compared_but_for_what_differs_between_runs() {
        let table = [
            ("NAME   AGE\nx      5s", "NAME  AGE\nx     1m12s", true),
            ("x fresh 2.5 ms", "x fresh 31 ms", true),
            ("x fresh 5s", "y fresh 5s", false),
            ("exit code 3", "exit code 4", false),
            ("at 2026-01-02T03:04:05Z", "at 2027-11-12T13:14:15.123456789Z", true),
            ("socket /run/user/0/larder.sock", "socket /tmp/a/b.sock", true),
            ("http://127.0.0.1:9000/metrics", "http://127.0.0.1:41234/metrics", true),
            ("a\n...\nz", "a\nb\nc\nz", true),
            ("a\n...\nz", "a\nz", true),
            ("a\n...\nz", "a\nz\nb", false),
            ("a\n...", "a\nb", true),
            ("held: … objects", "held: 12 objects", true),
            ("held: … objects", "held: 12 pods", false),
            ("one line", "one line\nand more", false),
            ("uid 0b9f2f6e-9f4e-4d9c-8a94-0123456789ab", "uid 11111111-9f4e-4d9c-8a94-0123456789ab", true),
        ];
        for (shown, printed, expected) in table {
            assert_eq!(compare(&lines(shown), &lines(printed)).is_ok(), expected, "{shown:?} against {printed:?}");
        }
    }

    #[test]
    fn a_difference_is_shown() {
        let message = compare(&lines("a\nb 5s"), &lines("a\nc 6s")).unwrap_err().to_string();
        assert!(message.ends_with("the first difference:\n  b 5s\n  c 6s"), "{message}");
    }
}
