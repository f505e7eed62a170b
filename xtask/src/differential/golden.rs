//! The traces that are kept, each with the results that the originals give beside it.

use super::compare::{Difference, Original as _, agree};
use super::oracle::Oracle;
use super::{regressions, values};
use crate::checkout;
use anyhow::{Context as _, Result, bail};
use larder_sim::Trace;
use std::fs;
use std::path::{Path, PathBuf};

const TRACE: &str = ".trace.jsonl";
const RESULTS: &str = ".results.jsonl";

fn folders() -> [PathBuf; 2] {
    [checkout::root().join("crates/larder-sim/tests/golden"), regressions()]
}

/// Every kept trace's file, in order.
fn kept() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in folders() {
        for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
            let path = entry?.path();
            if path.to_string_lossy().ends_with(TRACE) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn results_of(trace: &Path) -> PathBuf {
    PathBuf::from(trace.to_string_lossy().replace(TRACE, RESULTS))
}

fn read(path: &Path) -> Result<Trace> {
    let text = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    Trace::parse(&text[..]).with_context(|| format!("parse {}", path.display()))
}

/// Whether the originals still give what stands beside the kept traces. Returns how many there are.
pub(super) fn check(program: &Path) -> Result<usize> {
    let mut oracle = Oracle::start(program)?;
    let files = kept()?;
    for file in &files {
        let right = oracle.answer(&[read(file)?])?.pop().unwrap_or_default();
        let results = results_of(file);
        let text = fs::read_to_string(&results).with_context(|| format!("read {}", results.display()))?;
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if !agree(&right, &lines) {
            bail!("{} is not what the original gives; `--bless` writes it anew", results.display());
        }
    }
    Ok(files.len())
}

/// Writes the results of every kept trace anew, and the table of durations.
pub(super) fn bless(program: &Path) -> Result<()> {
    let mut oracle = Oracle::start(program)?;
    let files = kept()?;
    for file in &files {
        let right = oracle.answer(&[read(file)?])?.pop().unwrap_or_default();
        write(&results_of(file), &right)?;
    }
    values::bless(program)?;
    println!("wrote the results of {} traces", files.len());
    Ok(())
}

/// Keeps a trace that shows a difference, with what the original gives.
pub(super) fn keep(folder: &Path, difference: &Difference) -> Result<PathBuf> {
    let kind = difference.trace.header.kind();
    let path = folder.join(format!("{kind}-{}{TRACE}", difference.seed));
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    fs::write(&path, difference.trace.to_string()).with_context(|| format!("write {}", path.display()))?;
    write(&results_of(&path), &difference.original)?;
    Ok(path)
}

fn write(path: &Path, lines: &[String]) -> Result<()> {
    fs::write(path, lines.join("\n") + "\n").with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_sim::{Header, Kind};

    #[test]
    fn what_is_kept_is_read_back() {
        let folder = checkout::target().join("tmp/differential-kept");
        let trace = Trace { header: Header::PodStatus { evented: true }, ops: vec![] };
        let lines = vec!["{\"end\":true,\"pending\":[]}".to_owned()];
        let difference = Difference { seed: 7, trace: trace.clone(), original: lines.clone(), larder: vec![] };
        let path = keep(&folder, &difference).expect("kept");
        assert!(path.ends_with(format!("{}-7.trace.jsonl", Kind::PodStatus)));
        assert_eq!(read(&path).expect("a trace"), trace);
        assert_eq!(fs::read_to_string(results_of(&path)).expect("results"), lines.join("\n") + "\n");
        fs::remove_dir_all(&folder).expect("removed");
    }
}
