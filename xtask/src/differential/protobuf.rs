//! Messages between protobuf and JSON: to larder, and to the API server's serializers.

use super::{oracle, tables};
use crate::checkout;
use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use larder_protobuf::{Envelope, Message, json_to_protobuf, protobuf_to_json};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Differences that are shown in full.
const SHOWN: usize = 5;
/// The seeds of the messages of each kind that larder's own tests go by without Go. They decide how many fields are set.
const KEPT: [i64; 5] = [0, 1, 2, 5, 9];

/// What came of the messages that were compared.
pub(super) struct Agreement {
    pub(super) random: usize,
    pub(super) upstream: usize,
}

/// A message in both forms, each with what Go makes of it in the other.
#[derive(Serialize, Deserialize)]
struct Pair {
    json: String,
    its_protobuf: String,
    protobuf: String,
    its_json: String,
}

/// Compares the table of types, so many random messages, and those of upstream's own tests.
pub(super) fn check(program: &Path, seed: u64, count: usize) -> Result<Agreement> {
    check_table(program)?;
    check_kept(program)?;
    check_quantities(program, seed, count)?;
    let first = i64::try_from(seed >> 16)?;
    let questions: Vec<(Message, i64)> = (0..)
        .take(count)
        .map(|at: i64| {
            // Every other message has a pod, for it has the most fields.
            let others = Message::ALL[usize::try_from(at / 2).unwrap_or_default() % Message::ALL.len()];
            (if at % 2 == 0 { Message::Pod } else { others }, first + at)
        })
        .collect();
    let (mut differences, mut bytes) = (0, 0);
    for ((message, seed), pair) in questions.iter().zip(ask(program, &questions)?) {
        bytes += pair.json.len();
        if let Err(why) = compare(*message, &pair) {
            differences += 1;
            if differences <= SHOWN {
                println!("\n{message} of seed {seed}: {why:#}");
            }
        }
    }
    if differences > 0 {
        bail!("{differences} of {count} messages differ");
    }
    // Where all are empty, the comparison shows nothing.
    ensure!(count < 100 || bytes / count > 500, "a message has {} bytes on average", bytes / count.max(1));
    Ok(Agreement { random: count, upstream: check_upstream()? })
}

/// Writes the table of types and the kept messages anew.
pub(super) fn bless(program: &Path) -> Result<()> {
    fs::write(table_path(), oracle::print(program, "schema")?)?;
    fs::write(kept_path(), kept(program)?)?;
    Ok(())
}

fn check_table(program: &Path) -> Result<()> {
    let (path, now) = (table_path(), oracle::print(program, "schema")?);
    let ours = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    ensure!(ours == now, "{} is not as the Go types are now: write it anew with --bless", path.display());
    Ok(())
}

fn check_kept(program: &Path) -> Result<()> {
    let path = kept_path();
    let ours = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    ensure!(ours == kept(program)?, "{} is not as Go writes it now: write it anew with --bless", path.display());
    Ok(())
}

fn table_path() -> PathBuf {
    checkout::root().join("crates/larder-protobuf/src/schema/table.rs")
}

fn kept_path() -> PathBuf {
    checkout::root().join("crates/larder-protobuf/tests/golden/messages.jsonl")
}

/// The messages of larder's own tests, a line for each.
fn kept(program: &Path) -> Result<String> {
    let questions: Vec<(Message, i64)> =
        Message::ALL.into_iter().flat_map(|message| KEPT.map(|seed| (message, seed))).collect();
    let mut text = String::new();
    for ((message, _), pair) in questions.iter().zip(ask(program, &questions)?) {
        let mut line = serde_json::to_value(&pair)?;
        line["kind"] = message.kind().into();
        text += &(line.to_string() + "\n");
    }
    Ok(text)
}

fn ask(program: &Path, questions: &[(Message, i64)]) -> Result<Vec<Pair>> {
    let lines: Vec<String> =
        questions.iter().map(|(message, seed)| json!({"kind": message.kind(), "seed": seed}).to_string()).collect();
    let answers = oracle::answer_lines(program, "protobuf", &lines)?;
    answers.iter().map(|answer| Ok(serde_json::from_str(answer)?)).collect()
}

fn compare(message: Message, pair: &Pair) -> Result<()> {
    let protobuf = STANDARD.decode(&pair.protobuf)?;
    same("JSON", &to_json(message, &protobuf)?, pair.its_json.as_bytes())?;
    let its_protobuf = STANDARD.decode(&pair.its_protobuf)?;
    same("protobuf", &to_protobuf(message, pair.json.as_bytes())?, &its_protobuf)
}

/// The JSON of protobuf with its envelope. An event has none.
fn to_json(message: Message, protobuf: &[u8]) -> Result<Vec<u8>> {
    let raw = if message == Message::WatchEvent {
        protobuf
    } else {
        let envelope = Envelope::parse(protobuf)?;
        ensure!(envelope.message() == Some(message), "the envelope has a {:?}", envelope.message());
        envelope.raw
    };
    let json = protobuf_to_json(message, raw)?;
    ensure!(json.unknown.is_none(), "{:?} is not known", json.unknown);
    Ok(json.bytes.to_vec())
}

fn to_protobuf(message: Message, json: &[u8]) -> Result<Vec<u8>> {
    let protobuf = json_to_protobuf(message, json)?;
    ensure!(protobuf.unknown.is_none(), "{:?} is not known", protobuf.unknown);
    Ok(match message {
        Message::WatchEvent => protobuf.bytes.to_vec(),
        _ => Envelope::new(message, &protobuf.bytes).to_bytes().to_vec(),
    })
}

fn same(form: &str, ours: &[u8], right: &[u8]) -> Result<()> {
    let at = ours.iter().zip(right).take_while(|(ours, right)| ours == right).count();
    let around = |bytes: &[u8]| {
        let from = at.saturating_sub(60).min(bytes.len());
        String::from_utf8_lossy(&bytes[from..(at + 60).min(bytes.len())]).into_owned()
    };
    ensure!(
        ours == right,
        "the {form} differs at byte {at} of {} and {}: {:?} and not {:?}",
        ours.len(),
        right.len(),
        around(ours),
        around(right)
    );
    Ok(())
}

/// Quantities as they may stand in a manifest.
fn check_quantities(program: &Path, seed: u64, count: usize) -> Result<()> {
    let mut random = SmallRng::seed_from_u64(seed);
    let texts: Vec<String> = (0..count * 4).map(|_| quantity(&mut random)).collect();
    let lines: Vec<String> = texts.iter().map(|text| json!({ "quantity": text }).to_string()).collect();
    let (mut taken, mut differences) = (0, 0);
    for (text, answer) in texts.iter().zip(oracle::answer_lines(program, "protobuf", &lines)?) {
        let right: Value = serde_json::from_str(&answer)?;
        let json = json!({"spec": {"overhead": {"cpu": text}}}).to_string();
        let ours = json_to_protobuf(Message::Pod, json.as_bytes())
            .ok()
            .and_then(|pod| protobuf_to_json(Message::Pod, &pod.bytes).ok())
            .and_then(|pod| serde_json::from_slice::<Value>(&pod.bytes).ok())
            .map(|pod| pod["spec"]["overhead"]["cpu"].clone());
        taken += usize::from(ours.is_some());
        if ours.as_ref() != right.get("quantity") {
            differences += 1;
            if differences <= SHOWN {
                println!("\nthe quantity {text:?} is {ours:?} to larder, and {right} to Go");
            }
        }
    }
    ensure!(differences == 0, "{differences} quantities differ, seed {seed}");
    ensure!(taken * 2 >= texts.len(), "only {taken} of {} quantities are taken", texts.len());
    Ok(())
}

fn quantity(random: &mut SmallRng) -> String {
    const SUFFIXES: [&str; 26] = [
        "", "", "", "n", "u", "m", "m", "k", "M", "G", "T", "P", "E", "Ki", "Ki", "Mi", "Mi", "Gi", "Ti", "Pi", "Ei",
        "e3", "E-2", "e+1", "x", "mi",
    ];
    let mut digits = |most: usize| {
        let count = random.random_range(0..=most);
        (0..count).map(|_| char::from(b"00125789"[random.random_range(0..8)])).collect::<String>()
    };
    let (whole, fraction) = (digits(8), digits(4));
    let sign = ["", "", "", "-", "+"][random.random_range(0..5)];
    let point = if random.random_range(0..3) == 0 { format!(".{fraction}") } else { String::new() };
    format!("{sign}{whole}{point}{}", SUFFIXES[random.random_range(0..SUFFIXES.len())])
}

/// The messages with which upstream tests that releases read each other's, both ways. Every field is set.
fn check_upstream() -> Result<usize> {
    let folder = tables::upstream_folder()?;
    let (mut count, mut releases) = (0, 0);
    for release in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let release = release?.path();
        if !release.is_dir() {
            continue;
        }
        releases += 1;
        for message in Message::ALL {
            let path = |ending: &str| release.join(format!("core.v1.{}{ending}", message.kind()));
            // Lists and metadata alone have no file.
            if !path(".pb").exists() {
                continue;
            }
            // What the present release makes of it, where that is something else.
            let after = |ending: &str| {
                let roundtrip = path(&format!(".after_roundtrip{ending}"));
                fs::read(if roundtrip.exists() { roundtrip } else { path(ending) })
            };
            let context = || format!("{}", path("").display());
            let (protobuf, right) = (fs::read(path(".pb"))?, after(".json")?);
            let ours = upstream_json(message, &protobuf).with_context(context)?;
            same("JSON", &ours, &compact(&right)?).with_context(context)?;
            let (json, right) = (fs::read(path(".json"))?, after(".pb")?);
            let mut ours = json_to_protobuf(message, &json).with_context(context)?.bytes.to_vec();
            let mut right = Envelope::parse(&right)?.raw.to_vec();
            if message == Message::WatchEvent {
                // Its object is JSON with spaces here, in protobuf without.
                (ours, right) = (upstream_json_of(message, &ours)?, upstream_json_of(message, &right)?);
            }
            same("protobuf", &ours, &right).with_context(context)?;
            count += 1;
        }
    }
    ensure!(releases >= 4 && count >= releases * 6, "{} has {count} messages of {releases} releases", folder.display());
    Ok(count)
}

fn upstream_json(message: Message, protobuf: &[u8]) -> Result<Vec<u8>> {
    upstream_json_of(message, Envelope::parse(protobuf)?.raw)
}

fn upstream_json_of(message: Message, raw: &[u8]) -> Result<Vec<u8>> {
    Ok(protobuf_to_json(message, raw)?.bytes.to_vec())
}

/// The JSON without its spaces, in its own order.
fn compact(json: &[u8]) -> Result<Vec<u8>> {
    let (mut compact, mut in_string, mut escaped) = (Vec::new(), false, false);
    for byte in std::str::from_utf8(json)?.bytes() {
        if in_string || !byte.is_ascii_whitespace() {
            compact.push(byte);
        }
        if byte == b'"' && !escaped {
            in_string = !in_string;
        }
        escaped = byte == b'\\' && !escaped;
    }
    Ok(compact)
}
