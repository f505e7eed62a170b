//! `cargo xtask fuzz`: bytes that libFuzzer finds, for the local API and for objects in protobuf.
//!
//! The command installs what is missing: cargo-fuzz, nightly Rust by rustup, and a C++ compiler by `apt-get`.

use crate::{checkout, shell, tools};
use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What to fuzz, and for how long.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only this target.
    #[arg(value_enum)]
    target: Option<Target>,
    /// How long to fuzz each target, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Runs this input alone, one that was found.
    #[arg(long, requires = "target", value_name = "FILE")]
    input: Option<std::path::PathBuf>,
}

/// A function of `larder_server::fuzz`, or of `larder_protobuf::fuzz`.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Target {
    /// A request: path, parameters, Accept, body.
    Request,
    /// A connection: HTTP/1.1, or frames of HTTP/2.
    Connection,
    /// Label and field selectors.
    Selectors,
    /// The cgroup lines of a process.
    Cgroups,
    /// Service-account tokens.
    Tokens,
    /// Policy files.
    Policy,
    /// The parameters of whois.
    Whois,
    /// Objects in protobuf and JSON, and watches in protobuf.
    Transcode,
}

impl Target {
    const ALL: [Self; 8] = [
        Self::Request,
        Self::Connection,
        Self::Selectors,
        Self::Cgroups,
        Self::Tokens,
        Self::Policy,
        Self::Whois,
        Self::Transcode,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Connection => "connection",
            Self::Selectors => "selectors",
            Self::Cgroups => "cgroups",
            Self::Tokens => "tokens",
            Self::Policy => "policy",
            Self::Whois => "whois",
            Self::Transcode => "transcode",
        }
    }
}

/// Runs cargo-fuzz with nightly Rust. What it learns stays in the user's cache folder. What it finds goes to `fuzz/artifacts`.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let cargo_fuzz = tools::CARGO_FUZZ.install()?;
    install_compiler()?;
    let folder = locked()?;
    let targets = arguments.target.map_or(Target::ALL.to_vec(), |target| vec![target]);
    for target in targets {
        let mut fuzz = shell::program_in(Path::new("rustup"), &folder);
        // Not the variables by which the toolchain of the workspace was chosen.
        fuzz.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
        fuzz.args(["run", "--install", "nightly"]).arg(&cargo_fuzz).args(["fuzz", "run"]);
        // larder has no unsafe code, so the coverage is enough, and the sanitizer would only make it slower.
        fuzz.args(["--sanitizer", "none", "--target-dir"]).arg(checkout::target().join("fuzz")).arg(target.name());
        if let Some(input) = &arguments.input {
            fuzz.arg(fs::canonicalize(input).with_context(|| format!("find {}", input.display()))?);
        } else {
            fuzz.arg(checkout::cache(&format!("fuzz/{}", target.name()))?);
            fuzz.arg(folder.join("seeds").join(target.name()));
            fuzz.args(["--", "-max_len=2048", "-timeout=30"]).arg(format!("-max_total_time={}", arguments.seconds));
        }
        shell::run(&mut fuzz)?;
    }
    Ok(())
}

/// Compiles the targets with the workspace's toolchain. Runs none, and so needs neither nightly Rust nor libFuzzer.
pub(crate) fn check() -> Result<()> {
    let mut check = shell::cargo();
    check.current_dir(locked()?).args(["check", "--quiet", "--locked", "--bins", "--no-default-features"]);
    shell::run(check.env("CARGO_TARGET_DIR", checkout::target()))
}

/// The folder of the targets, with the versions that the workspace was tested with.
fn locked() -> Result<PathBuf> {
    let folder = checkout::root().join("fuzz");
    fs::copy(checkout::root().join("Cargo.lock"), folder.join("Cargo.lock")).context("copy Cargo.lock")?;
    let fetch = || {
        let mut fetch = shell::cargo();
        fetch.current_dir(&folder).args(["fetch", "--quiet"]);
        fetch
    };
    // Only the first run needs the network.
    if shell::output(fetch().arg("--offline")).is_err() {
        shell::run(&mut fetch())?;
    }
    Ok(folder)
}

/// libFuzzer is C++.
fn install_compiler() -> Result<()> {
    if Command::new("c++").arg("--version").output().is_ok() {
        return Ok(());
    }
    let apt_get = || {
        let mut apt_get = shell::program_in(Path::new("apt-get"), checkout::root());
        apt_get.env("DEBIAN_FRONTEND", "noninteractive");
        apt_get
    };
    shell::run(apt_get().args(["update", "-qq"]))?;
    shell::run(apt_get().args(["install", "-y", "-qq", "--no-install-recommends", "g++"]))
}
