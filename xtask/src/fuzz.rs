//! `cargo xtask fuzz`: bytes that libFuzzer finds, for the local API.

use crate::{checkout, shell, tools};
use anyhow::{Context as _, Result};
use std::fs;
use std::path::Path;

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

/// A function of `larder_server::fuzz`.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Target {
    /// A request: path, parameters, Accept, body.
    Request,
    /// A connection: HTTP/1.1, or frames of HTTP/2.
    Connection,
    /// Label and field selectors.
    Selectors,
}

impl Target {
    const ALL: [Self; 3] = [Self::Request, Self::Connection, Self::Selectors];

    fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Connection => "connection",
            Self::Selectors => "selectors",
        }
    }
}

/// Runs cargo-fuzz with nightly Rust. What it learns stays in the user's cache folder. What it finds goes to `fuzz/artifacts`.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let cargo_fuzz = tools::CARGO_FUZZ.install()?;
    let folder = checkout::root().join("fuzz");
    // The versions that the workspace was tested with.
    fs::copy(checkout::root().join("Cargo.lock"), folder.join("Cargo.lock")).context("copy Cargo.lock")?;
    let targets = arguments.target.map_or(Target::ALL.to_vec(), |target| vec![target]);
    for target in targets {
        let mut fuzz = shell::program_in(Path::new("rustup"), &folder);
        // Not the variables by which the toolchain of the workspace was chosen.
        fuzz.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
        fuzz.args(["run", "nightly"]).arg(&cargo_fuzz).args(["fuzz", "run"]);
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
