//! Python programs at pinned versions, each in a virtual environment in the user's cache folder.
//!
//! `programs/NAME/requirements.txt` names each package with its version and the hashes of its files; pip installs nothing
//! else. The name of an environment says what it was made from. An environment without its mark is unfinished, and the next run
//! makes it anew.

use crate::programs::{Package, cache_folder, hex};
use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Debian's, which the testbed can install, whatever else a developer has on the `PATH`.
const PYTHON: &str = "/usr/bin/python3";

/// A program that runs in an environment of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PythonProgram {
    /// The client `kubernetes` with its watch, which prints what it sees.
    Client,
    /// Makes requests out of schemas.
    Schemathesis,
}

impl PythonProgram {
    /// Every program.
    pub const ALL: [Self; 2] = [Self::Client, Self::Schemathesis];

    /// The folder with what is ours of it.
    pub fn folder(self) -> PathBuf {
        let name = match self {
            Self::Client => "python-client",
            Self::Schemathesis => "schemathesis",
        };
        Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(name)
    }

    /// The interpreter of the environment, which is made now if it was not before. That takes less than a minute.
    ///
    /// # Errors
    ///
    /// When Python is missing and `apt-get` cannot install it, or a package cannot be had.
    pub fn interpreter(self) -> Result<PathBuf> {
        Package::install(&[Package::PYTHON])?;
        let requirements = self.folder().join("requirements.txt");
        let version = Command::new(PYTHON).arg("--version").output().with_context(|| format!("run {PYTHON}"))?.stdout;
        let mut hash = Sha256::new();
        hash.update(version);
        hash.update(fs::read(&requirements).with_context(|| format!("read {}", requirements.display()))?);
        let name = self.folder().file_name().unwrap_or_default().display().to_string();
        let folder = cache_folder(&format!("{name}-{}", hex(&hash.finalize()[..8])))?;
        let (environment, mark) = (folder.join("environment"), folder.join("complete"));
        let interpreter = environment.join("bin/python");
        let lock = File::create(folder.join("lock"))?;
        lock.lock().context("wait for another run that makes the same environment")?;
        if mark.exists() {
            return Ok(interpreter);
        }
        eprintln!("testbed: installing the Python packages of {name} (once)");
        let mut create = Command::new(PYTHON);
        run(create.args(["-m", "venv", "--clear"]).arg(&environment))?;
        let mut install = Command::new(&interpreter);
        install.args(["-m", "pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:", "-r"]);
        run(install.arg(&requirements))?;
        File::create(mark)?;
        Ok(interpreter)
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("start {command:?}"))?;
    if !output.status.success() {
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        bail!("{command:?} failed: {}\n{stdout}{stderr}", output.status);
    }
    Ok(())
}
