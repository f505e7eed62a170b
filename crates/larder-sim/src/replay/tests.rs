//! Traces and the lines that they give.

use super::*;
use std::io::{self, BufReader, Read};

#[track_caller]
fn results(trace: &str) -> String {
    let mut results = Vec::new();
    replay(trace.as_bytes(), &mut results).expect("a good trace");
    String::from_utf8(results).expect("UTF-8")
}

const EXAMPLE: &str = r#"{"larder_trace":1,"kind":"objects","default_ttl":"60s"}
{"op":"server_put","ns":"a","name":"x","rv":"5","data":"v1"}
{"op":"get","ns":"a","name":"x"}
{"op":"register","ns":"a","name":"p","uid":"u1","refs":["x"]}
{"op":"get","ns":"a","name":"x"}
{"op":"server_fail","ns":"a","name":"x","code":503}
{"op":"advance","by":"60s"}
{"op":"get","ns":"a","name":"x"}
"#;

#[test]
fn the_formats_own_example_gives_its_lines() {
    let expected = r#"{}
{"error":"not_registered","fetches":[]}
{}
{"data":"v1","fetches":[{"from_cache":false}],"rv":"5"}
{}
{}
{"data":"v1","fetches":[{"from_cache":true}],"rv":"5"}
{"end":true}
"#;
    assert_eq!(results(EXAMPLE), expected);
}

#[test]
fn the_example_in_the_documentation_is_as_it_says() {
    let blocks: Vec<&str> = include_str!("../../TRACES.md").split("```").skip(1).step_by(2).collect();
    let [headers, trace, expected] = blocks[..] else { panic!("{} blocks", blocks.len()) };
    let text = |block: &'static str| block.trim_start_matches("text\n");
    for header in text(headers).lines() {
        Replay::from_header(header.as_bytes()).expect(header);
    }
    assert_eq!(results(text(trace)), text(expected));
}

#[test]
fn a_last_line_without_an_end_counts() {
    assert_eq!(results(EXAMPLE.trim_end()), results(EXAMPLE));
}

#[test]
fn a_header_alone_is_a_trace() {
    assert_eq!(results(r#"{"larder_trace":1,"kind":"objects","default_ttl":"60s"}"#), "{\"end\":true}\n");
    assert_eq!(results(r#"{"larder_trace":1,"kind":"pod-status"}"#), "{\"end\":true,\"pending\":[]}\n");
}

#[test]
fn what_came_before_a_bad_line_is_written() {
    let trace = EXAMPLE.replace("\"advance\"", "\"retreat\"");
    let mut results = Vec::new();
    let error = replay(trace.as_bytes(), &mut results).expect_err("a bad line");
    assert_eq!(error.to_string(), "line 7: unknown operation \"retreat\" in a trace of kind \"objects\"");
    assert_eq!(error.line(), Some(7));
    let expected = "{}\n{\"error\":\"not_registered\",\"fetches\":[]}\n{}\n\
        {\"data\":\"v1\",\"fetches\":[{\"from_cache\":false}],\"rv\":\"5\"}\n{}\n";
    assert_eq!(String::from_utf8(results).expect("UTF-8"), expected);
}

#[test]
fn an_open_waits_id_is_refused_and_any_other_is_not() {
    let begin = r#"{"larder_trace":1,"kind":"pod-status"}"#.to_owned();
    let wait = r#"{"op":"newer","id":1,"uid":"u","min":5}"#;
    let run = |between: &str| {
        let mut results = Vec::new();
        replay(format!("{begin}\n{wait}\n{between}\n{wait}\n").as_bytes(), &mut results)
    };
    let error = run(r#"{"op":"cancel","id":2}"#).expect_err("still open");
    assert_eq!(error.to_string(), "line 4: field `id`: a wait with the id 1 is still open");
    for between in [
        r#"{"op":"cancel","id":1}"#,
        r#"{"op":"update_time","t":5}"#,
        r#"{"op":"observed","uid":"u","t":5}"#,
        r#"{"op":"set","uid":"u","status":"s","t":5}"#,
    ] {
        run(between).unwrap_or_else(|error| panic!("{between}: {error}"));
    }
}

#[test]
fn woken_waits_are_in_the_order_of_their_ids() {
    let trace = r#"{"larder_trace":1,"kind":"pod-status"}
{"op":"newer","id":30,"uid":"u","min":5}
{"op":"newer","id":-4,"uid":"v","min":4}
{"op":"newer","id":7,"uid":"w","min":5}
{"op":"newer","id":6,"uid":"u","min":6}
{"op":"newer","id":8,"uid":"w","min":1}
{"op":"cancel","id":8}
{"op":"set","uid":"v","status":"s","error":"e","t":3}
{"op":"update_time","t":5}
"#;
    let expected = r#"{"pending":true}
{"pending":true}
{"pending":true}
{"pending":true}
{"pending":true}
{}
{"updated":true}
{"woken":[{"error":"e","id":-4,"status":"s"},{"empty":true,"id":7},{"empty":true,"id":30}]}
{"end":true,"pending":[6]}
"#;
    assert_eq!(results(trace), expected);
}

/// A trace without end that counts how much of it was read.
struct Endless<'a> {
    line: &'a [u8],
    at: usize,
    left: usize,
}

impl Read for Endless<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() && self.left > 0 {
            buffer[read] = self.line[self.at];
            self.at = (self.at + 1) % self.line.len();
            self.left -= 1;
            read += 1;
        }
        Ok(read)
    }
}

#[test]
fn a_line_without_end_is_given_up_at_the_limit() {
    let header = "{\"larder_trace\":1,\"kind\":\"pod-status\"}\n";
    let input = header.as_bytes().chain(Endless { line: b" ", at: 0, left: usize::MAX });
    let error = replay(BufReader::new(input), &mut Vec::new()).expect_err("too long");
    assert_eq!(error.to_string(), "line 2: the line is longer than 16777216 bytes");
}

#[test]
fn a_line_of_just_the_limit_is_read() {
    let header = "{\"larder_trace\":1,\"kind\":\"pod-status\"}\n";
    let op = "{\"op\":\"get\",\"uid\":\"u\"}";
    for end in ["", "\n"] {
        let line = format!("{op}{}{end}", " ".repeat(crate::MAX_LINE - op.len()));
        let mut results = Vec::new();
        replay((header.to_owned() + &line).as_bytes(), &mut results).expect("within the limit");
        assert_eq!(results, b"{\"empty\":true}\n{\"end\":true,\"pending\":[]}\n");
    }
}

/// Fails from the second line on.
struct Failing(io::ErrorKind, usize);

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.1 == 0 {
            return Err(self.0.into());
        }
        self.1 -= 1;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_that_goes_away_is_told_from_other_failures() {
    let error = replay(EXAMPLE.as_bytes(), &mut Failing(io::ErrorKind::BrokenPipe, 1)).expect_err("nobody reads");
    assert!(error.is_broken_pipe());
    let error = replay(EXAMPLE.as_bytes(), &mut Failing(io::ErrorKind::StorageFull, 1)).expect_err("no space");
    assert!(!error.is_broken_pipe());
    assert_eq!(error.to_string(), "the results cannot be written");
    assert_eq!(error.line(), None);
}

#[test]
fn an_input_that_fails_names_the_line() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
    let input = BufReader::new(EXAMPLE.as_bytes().chain(Broken));
    let error = replay(input, &mut Vec::new()).expect_err("unreadable");
    assert_eq!(error.to_string(), "line 9: the trace cannot be read");
}

/// Writes nowhere; what a long trace holds is seen from what it keeps open.
#[test]
fn a_long_trace_holds_only_what_is_open() {
    let mut replay = Replay::from_header(br#"{"larder_trace":1,"kind":"pod-status"}"#).expect("a header");
    let mut results = Vec::new();
    for id in 0..20_000 {
        results.clear();
        replay
            .line(format!(r#"{{"op":"newer","id":{id},"uid":"u{id}","min":{id}}}"#).as_bytes(), &mut results)
            .expect("a wait");
        if id % 2 == 0 {
            replay.line(format!(r#"{{"op":"update_time","t":{id}}}"#).as_bytes(), &mut results).expect("a time");
        } else {
            replay.line(format!(r#"{{"op":"cancel","id":{id}}}"#).as_bytes(), &mut results).expect("a cancel");
        }
        let Caches::PodStatus(statuses) = &replay.caches else { panic!("another kind") };
        assert!(statuses.open_ids().is_empty(), "{id}");
    }
}

#[test]
fn an_operation_of_the_other_kind_is_refused() {
    let mut replay = Replay::new(Header::PodStatus { evented: false });
    let error = replay.op(Op::Objects(crate::ObjectsOp::NodeFail), &mut Vec::new()).expect_err("another kind");
    assert!(matches!(error, LineError::Operation { .. }));
}
