//! Durations as Go reads and writes them.

use super::*;

/// What Go 1.26 makes of each text; `cargo xtask differential` asks it again.
const TABLE: &str = include_str!("../../tests/golden/durations.jsonl");

#[test]
fn durations_are_read_as_go_reads_them() {
    let mut lines = 0;
    for line in TABLE.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let text = line["text"].as_str().expect("a text");
        let expected = line["value"].as_str().map(|value| value.parse::<i64>().expect("nanoseconds"));
        assert_eq!(text.parse::<GoDuration>().map(|duration| duration.nanos()).ok(), expected, "{text:?}");
        lines += 1;
    }
    assert!(lines > 80, "only {lines} lines");
}

#[test]
fn what_is_wrong_is_said() {
    let table = [
        ("", "\"\" is not a duration; write one such as \"1m30s\""),
        ("-", "\"-\" is not a duration; write one such as \"1m30s\""),
        ("s", "\"s\" is not a duration; write one such as \"1m30s\""),
        (".s", "\".s\" is not a duration; write one such as \"1m30s\""),
        ("3", "the duration \"3\" has a number without a unit"),
        ("1s2", "the duration \"1s2\" has a number without a unit"),
        ("1d", "the duration \"1d\" has an unknown unit; there are ns, us, ms, s, m and h"),
        ("1 s", "the duration \"1 s\" has an unknown unit; there are ns, us, ms, s, m and h"),
        ("9223372036854775808ns", "the duration \"9223372036854775808ns\" is longer than 292 years"),
        (
            "1111111111111111111111111111111111111111111111h",
            "the duration \"1111111111111111111111111111111111111111...\" is longer than 292 years",
        ),
    ];
    for (text, expected) in table {
        let error = text.parse::<GoDuration>().expect_err(text);
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn nanoseconds_are_written_so_that_they_are_read_back() {
    for nanos in [0, 1, -1, 999, i64::MAX, i64::MIN] {
        let text = GoDuration::from_nanos(nanos).to_string();
        assert_eq!(text.parse::<GoDuration>().expect(&text).nanos(), nanos);
    }
}
