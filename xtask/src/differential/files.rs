//! What odd kubeconfigs and manifests mean: to larder, and to `clientcmd` and the kubelet's decoder.

mod credentials;
mod kubeconfigs;
mod manifests;
mod same;
mod tree;

use super::oracle;
use crate::{checkout, shell};
use anyhow::{Context as _, Result, bail, ensure};
use credentials::Credentials;
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;

/// Differences that are shown in full.
const SHOWN: usize = 10;

/// A kind of file.
struct Kind {
    name: &'static str,
    /// The oracle's mode.
    mode: &'static str,
    /// The package of larder's example program, and the program.
    package: &'static str,
    example: &'static str,
    /// Whether the two mean the same, or differ as they are meant to.
    agree: fn(&Value, &Value) -> bool,
}

/// What came of the files of a kind that were compared.
pub(super) struct Agreement {
    /// How many both sides take.
    pub(super) taken: usize,
    /// How many larder alone refuses, as it is meant to.
    pub(super) refused: usize,
}

/// Compares so many kubeconfigs.
pub(super) fn check_kubeconfigs(program: &Path, seed: u64, count: usize) -> Result<Agreement> {
    let kind = Kind {
        name: "kubeconfig",
        mode: "kubeconfigs",
        package: "larder-kube",
        example: "kubeconfig_meaning",
        agree: same::kubeconfigs,
    };
    let folder = checkout::target().join("kubeconfigs");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let credentials = Credentials::write(program, &folder)?;
    let texts: Vec<String> = kubeconfigs::texts(seed, count, &credentials);
    let paths: Vec<String> = texts
        .iter()
        .enumerate()
        .map(|(at, text)| {
            let path = folder.join(format!("{at}.kubeconfig"));
            std::fs::write(&path, text)?;
            Ok(path.to_string_lossy().into_owned())
        })
        .collect::<Result<_>>()?;
    compare(program, &kind, &paths, &texts)
}

/// Compares so many manifests.
pub(super) fn check_manifests(program: &Path, seed: u64, count: usize) -> Result<Agreement> {
    let kind = Kind {
        name: "manifest",
        mode: "manifests",
        package: "larder-manifests",
        example: "manifest_meaning",
        agree: same::manifests,
    };
    let texts = manifests::texts(seed, count);
    compare(program, &kind, &texts, &texts)
}

fn compare(program: &Path, kind: &Kind, questions: &[String], texts: &[String]) -> Result<Agreement> {
    let lines: Vec<String> = questions.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    let originals = oracle::answer_lines(program, kind.mode, &lines)?;
    let ours = oracle::answers(&mut larder(kind)?, &lines)?;
    let (mut differences, mut agreement) = (0, Agreement { taken: 0, refused: 0 });
    for ((text, original), ours) in texts.iter().zip(&originals).zip(&ours) {
        let original: Value = serde_json::from_str(original).context("read the oracle's answer")?;
        let ours: Value = serde_json::from_str(ours).context("read larder's answer")?;
        let agree = (kind.agree)(&original, &ours);
        agreement.taken += usize::from(agree && !same::is_refused(&ours));
        agreement.refused += usize::from(agree && same::is_refused(&ours) && !same::is_refused(&original));
        if !agree {
            differences += 1;
            if differences <= SHOWN {
                println!("\nthe {}\n{text}\n{text:?}\nto the original: {original}\nto larder: {ours}", kind.name);
            }
        }
    }
    if differences > 0 {
        bail!("{differences} of {} {}s mean something else to larder", texts.len(), kind.name);
    }
    // Where nearly all are refused, the comparison shows nothing.
    let taken = agreement.taken;
    ensure!(taken * 5 >= texts.len(), "only {taken} of {} {}s are taken", texts.len(), kind.name);
    Ok(agreement)
}

/// Larder's side of a comparison.
fn larder(kind: &Kind) -> Result<std::process::Command> {
    shell::run(shell::cargo().args(["build", "--locked", "--package", kind.package, "--example", kind.example]))?;
    let program = checkout::target().join("debug/examples").join(kind.example);
    let mut command = shell::program_in(&program, checkout::root());
    // A machine without certificate authorities of its own takes the same kubeconfigs.
    command.env("SSL_CERT_FILE", checkout::target().join("kubeconfigs/ca.crt"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}
