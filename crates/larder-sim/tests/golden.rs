//! The kept traces give the lines that the kubelet's own packages gave for them.
//!
//! `golden` covers every operation and edge by hand; `regressions` holds what random traces once found. The results beside
//! each trace come from the originals: `cargo xtask differential` compares them again, and with `--bless` writes them.

use serde_json::Value;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

const TRACE: &str = ".trace.jsonl";
const RESULTS: &str = ".results.jsonl";

fn traces(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("the folder of kept traces")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().ends_with(TRACE))
        .collect();
    files.sort();
    files
}

/// A trace's name, its results as they should be, and as they are.
fn results(trace: &Path) -> (String, String, String) {
    let name = trace.to_string_lossy().into_owned();
    let expected = fs::read_to_string(name.replace(TRACE, RESULTS)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut results = Vec::new();
    let input = BufReader::new(File::open(trace).expect("a trace"));
    larder_sim::replay(input, &mut results).unwrap_or_else(|error| panic!("{name}: {error}"));
    (name, expected, String::from_utf8(results).expect("UTF-8"))
}

fn check(trace: &Path) {
    let (name, expected, got) = results(trace);
    let operations = fs::read_to_string(trace).expect("a trace");
    let operations = operations.lines().skip(1).map(Some).chain([None]);
    assert_eq!(got.lines().count(), expected.lines().count(), "{name}");
    for ((got, expected), operation) in got.lines().zip(expected.lines()).zip(operations) {
        let value = |line| serde_json::from_str::<Value>(line).expect("JSON");
        assert_eq!(value(got), value(expected), "{name}: {}", operation.unwrap_or("the closing line"));
    }
}

#[test]
fn every_golden_trace_gives_the_originals_lines() {
    let traces = traces("golden");
    assert!(traces.len() >= 24, "{} golden traces", traces.len());
    for trace in traces {
        check(&trace);
    }
}

#[test]
fn every_difference_that_was_found_once_is_gone() {
    for trace in traces("regressions") {
        check(&trace);
    }
}

#[test]
fn keys_are_in_order_and_nothing_is_between_them() {
    for trace in traces("golden") {
        let (name, _, got) = results(&trace);
        for line in got.lines() {
            let value: Value = serde_json::from_str(line).expect("JSON");
            // `Value` keeps its keys sorted.
            assert_eq!(value.to_string(), line, "{name}");
        }
    }
}

#[test]
fn golden_traces_use_every_operation() {
    let text: String = traces("golden").iter().map(|path| fs::read_to_string(path).expect("a trace")).collect();
    for op in [
        "get",
        "set",
        "observed",
        "delete",
        "update_time",
        "newer",
        "cancel",
        "server_put",
        "server_delete",
        "server_fail",
        "server_cache",
        "node_ttl",
        "node_fail",
        "advance",
        "register",
        "unregister",
        "add_reference",
        "delete_reference",
    ] {
        assert!(text.matches(&format!("\"op\": \"{op}\"")).count() >= 2, "{op}");
    }
}
