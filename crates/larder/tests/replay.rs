//! `larder replay`, as it is called.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const TRACE: &str = r#"{"larder_trace":1,"kind":"objects","default_ttl":"60s"}
{"op":"server_put","ns":"a","name":"x","rv":"5","data":"v1"}
{"op":"get","ns":"a","name":"x"}
{"op":"register","ns":"a","name":"p","uid":"u1","refs":["x"]}
{"op":"get","ns":"a","name":"x"}
{"op":"server_fail","ns":"a","name":"x","code":503}
{"op":"advance","by":"60s"}
{"op":"get","ns":"a","name":"x"}
"#;

const RESULTS: &str = r#"{}
{"error":"not_registered","fetches":[]}
{}
{"data":"v1","fetches":[{"from_cache":false}],"rv":"5"}
{}
{}
{"data":"v1","fetches":[{"from_cache":true}],"rv":"5"}
{"end":true}
"#;

fn larder() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.arg("replay").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A folder of a test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("replay-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn with_input(mut command: Command, input: &str) -> Output {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("larder starts");
    child.stdin.take().expect("standard input").write_all(input.as_bytes()).expect("larder reads");
    child.wait_with_output().expect("larder ends")
}

#[track_caller]
fn check(output: &Output, code: i32, stdout: &str, stderr: &str) {
    assert_eq!(String::from_utf8_lossy(&output.stderr), stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), stdout);
    assert_eq!(output.status.code(), Some(code));
}

#[test]
fn a_trace_that_comes_line_by_line_is_answered_line_by_line() {
    let mut child = larder().arg("-").stdin(Stdio::piped()).spawn().expect("larder starts");
    let mut input = child.stdin.take().expect("standard input");
    let output = BufReader::new(child.stdout.take().expect("standard output"));
    let (sender, results) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || output.lines().try_for_each(|line| sender.send(line)));
    let mut lines = TRACE.lines();
    writeln!(input, "{}", lines.next().expect("a header")).expect("larder reads");
    for (operation, result) in lines.zip(RESULTS.lines()) {
        writeln!(input, "{operation}").expect("larder reads");
        let printed = results.recv_timeout(std::time::Duration::from_mins(1)).expect("an answer before the next line");
        assert_eq!(printed.expect("text"), result);
    }
    drop(input);
    assert!(child.wait().expect("larder ends").success());
    drop(reader);
}

#[test]
fn a_trace_gives_its_results() {
    let folder = Folder::new("results");
    let trace = folder.file("trace", TRACE);
    check(&larder().arg(&trace).output().expect("larder"), 0, RESULTS, "");
}

#[test]
fn a_trace_may_come_from_standard_input() {
    let mut command = larder();
    command.arg("-");
    check(&with_input(command, TRACE), 0, RESULTS, "");
}

#[test]
fn a_bad_line_ends_it_with_code_2_after_the_results_before() {
    let folder = Folder::new("bad");
    let bad = TRACE.replace("\"by\":\"60s\"", "\"by\":60");
    let trace = folder.file("trace", &bad);
    let before: String = RESULTS.split_inclusive('\n').take(5).collect();
    let message =
        format!("error: {}: line 7: field `by` is a number, not a duration such as \"60s\"\n", trace.display());
    check(&larder().arg(&trace).output().expect("larder"), 2, &before, &message);

    let mut command = larder();
    command.arg("-");
    let message = "error: standard input: line 2: bad JSON at byte 1: EOF while parsing an object\n";
    check(&with_input(command, "{\"larder_trace\":1,\"kind\":\"pod-status\"}\n{"), 2, "", message);
}

#[test]
fn an_empty_or_absent_trace_is_a_bad_one() {
    let mut command = larder();
    command.arg("-");
    let output = with_input(command, "");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("line 1: the trace is empty"), "{output:?}");

    let output = larder().arg("/nonexistent/trace").output().expect("larder");
    check(&output, 2, "", "error: cannot open /nonexistent/trace: No such file or directory (os error 2)\n");

    let output = larder().arg("/").output().expect("larder");
    check(&output, 2, "", "error: /: line 1: the trace cannot be read: Is a directory (os error 21)\n");
}

#[test]
fn expected_results_are_compared_as_values() {
    let folder = Folder::new("compare");
    let trace = folder.file("trace", TRACE);
    let spaced = RESULTS.replace(
        "\"fetches\":[{\"from_cache\":true}],\"rv\":\"5\"",
        "\"rv\" : \"5\",\"fetches\":[{\"from_cache\": true}]",
    );
    assert_ne!(spaced, RESULTS);
    let expected = folder.file("expected", &spaced);
    let output = larder().arg(&trace).arg("--compare").arg(&expected).output().expect("larder");
    check(&output, 0, &format!("8 lines, as in {}\n", expected.display()), "");

    let mut command = larder();
    command.arg(&trace).args(["--compare", "-"]);
    check(&with_input(command, RESULTS), 0, "8 lines, as in standard input\n", "");
}

#[test]
fn the_first_lines_that_differ_are_shown_with_code_1() {
    let folder = Folder::new("differs");
    let trace = folder.file("trace", TRACE);
    let expected = folder.file("expected", &RESULTS.replace("v1", "v2").replace("{\"end\":true}\n", ""));
    let output = larder().arg(&trace).arg("--compare").arg(&expected).output().expect("larder");
    let differences = r#"line 4:
  expected {"data":"v2","fetches":[{"from_cache":false}],"rv":"5"}
  got      {"data":"v1","fetches":[{"from_cache":false}],"rv":"5"}
line 7:
  expected {"data":"v2","fetches":[{"from_cache":true}],"rv":"5"}
  got      {"data":"v1","fetches":[{"from_cache":true}],"rv":"5"}
line 8:
  expected nothing
  got      {"end":true}
"#;
    check(&output, 1, differences, "");

    let long = folder.file("long", &(TRACE.to_owned() + &"{\"op\":\"node_fail\"}\n".repeat(50)));
    let output = larder().arg(&long).arg("--compare").arg(&expected).output().expect("larder");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.ends_with("10 lines differ; the rest was not compared\n"), "{stdout}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_bad_trace_is_told_also_where_it_is_compared() {
    let folder = Folder::new("compare-bad");
    let trace = folder.file("trace", &(TRACE.to_owned() + "nonsense\n"));
    let expected = folder.file("expected", &RESULTS.replacen("v1", "v2", 1));
    let output = larder().arg(&trace).arg("--compare").arg(&expected).output().expect("larder");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("line 4:\n"), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("line 9: bad JSON"), "{output:?}");

    let output = larder().arg(&trace).args(["--compare", "/nonexistent"]).output().expect("larder");
    check(&output, 2, "", "error: cannot open /nonexistent: No such file or directory (os error 2)\n");

    let output = larder().args(["-", "--compare", "-"]).output().expect("larder");
    check(&output, 2, "", "error: FILE and EXPECTED cannot both be standard input\n");
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let folder = Folder::new("pipe");
    let trace = folder.file("trace", &(TRACE.to_owned() + &"{\"op\":\"node_fail\"}\n".repeat(100_000)));
    let mut child = larder().arg(&trace).spawn().expect("larder starts");
    let mut first = String::new();
    // The rest of the results has nowhere to go once this reader is dropped.
    BufReader::with_capacity(16, child.stdout.take().expect("standard output")).read_line(&mut first).expect("a line");
    assert_eq!(first, "{}\n");
    let output = child.wait_with_output().expect("larder ends");
    check(&output, 0, "", "");
}

/// What the process held at most, as the kernel counted it.
#[cfg(target_os = "linux")]
#[test]
fn a_long_trace_takes_no_more_memory_than_a_short_one() {
    let most_kib = |operations: usize| {
        let mut child = larder().arg("-").stdin(Stdio::piped()).spawn().expect("larder starts");
        let status = PathBuf::from(format!("/proc/{}/status", child.id()));
        let mut stdin = child.stdin.take().expect("standard input");
        let stdout = child.stdout.take().expect("standard output");
        let reader = std::thread::spawn(move || BufReader::new(stdout).lines().count());
        stdin.write_all(b"{\"larder_trace\":1,\"kind\":\"pod-status\"}\n").expect("larder reads");
        for id in 0..operations {
            let text = format!(
                "{{\"op\":\"newer\",\"id\":{id},\"uid\":\"u{id}\",\"min\":5}}\n{{\"op\":\"set\",\"uid\":\"u{id}\",\"status\":\"s\",\"t\":5}}\n\
                 {{\"op\":\"delete\",\"uid\":\"u{id}\"}}\n"
            );
            stdin.write_all(text.as_bytes()).expect("larder reads");
        }
        stdin.flush().expect("larder reads");
        // Still running: it waits for more.
        let status = fs::read_to_string(status).expect("its status");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
        drop(stdin);
        assert_eq!(reader.join().expect("read"), 3 * operations + 1);
        assert!(child.wait().expect("larder ends").success());
        peak.trim().trim_end_matches(" kB").trim().parse::<usize>().expect("a number")
    };
    let (short, long) = (most_kib(1_000), most_kib(30_000));
    assert!(long < short + 4 * 1024, "{short} KiB for a short trace, {long} KiB for a long one");
}
