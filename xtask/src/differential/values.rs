//! How texts are read: durations, TTL annotations and resourceVersions.

use super::oracle;
use crate::checkout;
use anyhow::{Context as _, Result, bail};
use larder_objects::{ObjectTtl, resource_version_order};
use larder_sim::GoDuration;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Random texts, besides those of the table of durations.
const COUNT: usize = 30_000;

/// What texts are put together from: what each of the three takes, and what comes near.
const PIECES: [&str; 38] = [
    "0",
    "1",
    "5",
    "9",
    "00",
    "10",
    "999999999",
    "1000000000",
    "9223372036854775807",
    "9223372036854775808",
    "922337203685477580",
    "18446744073709551615",
    "18446744073709551616",
    "2562047",
    "153722867",
    ".",
    ".5",
    ".000000001",
    ".3333333333333333333333",
    "-",
    "+",
    "ns",
    "us",
    "\u{b5}s",
    "\u{3bc}s",
    "ms",
    "s",
    "m",
    "h",
    "d",
    "S",
    " ",
    "_",
    "e3",
    "0x",
    "\u{664}",
    "\u{e9}",
    "\0",
];

/// The table that larder-sim's tests go by.
fn durations() -> PathBuf {
    checkout::root().join("crates/larder-sim/tests/golden/durations.jsonl")
}

/// What larder makes of a text, in the oracle's words.
fn larder(parse: &str, text: &str) -> Value {
    let value = match parse {
        "duration" => text.parse::<GoDuration>().ok().map(|duration| duration.nanos().to_string()),
        "seconds" => ObjectTtl::from_annotation(text).map(|ttl| ttl.as_nanos().to_string()),
        _ => Some(resource_version_order(text).to_string()),
    };
    value.map_or_else(|| json!({"error": true}), |value| json!({"value": value}))
}

/// Compares random texts and the table. Returns how many.
pub(super) fn check(program: &Path, seed: u64) -> Result<usize> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut questions: Vec<(&str, String)> = Vec::new();
    for (text, _) in table()? {
        questions.push(("duration", text));
    }
    for parse in ["duration", "seconds", "resource_version"].into_iter().cycle().take(COUNT) {
        // Numbers more often than all else, and few pieces, so that much of it can be read.
        let pieces = random.random_range(0..=6);
        let from = if random.random_bool(0.3) { &PIECES[..13] } else { &PIECES[..] };
        let text = (0..pieces).map(|_| from[random.random_range(0..from.len())]).collect();
        questions.push((parse, text));
    }
    for ((parse, text), right) in questions.iter().zip(ask(program, &questions)?) {
        let ours = larder(parse, text);
        if ours != right {
            bail!("the {parse} {text:?} is {right} to the original and {ours} to larder");
        }
    }
    Ok(questions.len())
}

fn ask(program: &Path, questions: &[(&str, String)]) -> Result<Vec<Value>> {
    let lines: Vec<String> =
        questions.iter().map(|(parse, text)| json!({"parse": parse, "text": text}).to_string()).collect();
    let answers = oracle::answer_lines(program, "values", &lines)?;
    answers.iter().map(|line| serde_json::from_str(line).with_context(|| format!("the oracle's {line:?}"))).collect()
}

/// The texts of the table of durations, with what stands there as their values.
fn table() -> Result<Vec<(String, Value)>> {
    let path = durations();
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    text.lines()
        .map(|line| {
            let value: Value = serde_json::from_str(line)?;
            let text = value["text"].as_str().with_context(|| format!("no text in {line:?}"))?;
            Ok((text.to_owned(), value))
        })
        .collect()
}

/// Writes the values of the table of durations anew.
pub(super) fn bless(program: &Path) -> Result<()> {
    let questions: Vec<(&str, String)> = table()?.into_iter().map(|(text, _)| ("duration", text)).collect();
    let mut lines = Vec::new();
    for ((_, text), answer) in questions.iter().zip(ask(program, &questions)?) {
        let mut line = json!({"text": text});
        match answer["value"].as_str() {
            Some(value) => line["value"] = value.into(),
            None => line["error"] = true.into(),
        }
        lines.push(line.to_string());
    }
    std::fs::write(durations(), lines.join("\n") + "\n")?;
    Ok(())
}
