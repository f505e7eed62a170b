//! Cargo's plugins at pinned versions, installed into the user's cache folder when they are missing.

use crate::{checkout, shell};
use anyhow::Result;
use std::path::PathBuf;

/// A plugin of cargo, at the version that the checks were written for.
pub(crate) struct Tool {
    name: &'static str,
    version: &'static str,
}

/// Looks at licences, sources and duplicates of what the workspace depends on.
pub(crate) const CARGO_DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };
/// Changes code and sees whether the tests notice.
pub(crate) const CARGO_MUTANTS: Tool = Tool { name: "cargo-mutants", version: "27.1.0" };
/// Finds input that breaks something.
pub(crate) const CARGO_FUZZ: Tool = Tool { name: "cargo-fuzz", version: "0.13.1" };

impl Tool {
    /// The program, built now if it is not there yet; that takes a few minutes.
    pub(crate) fn install(&self) -> Result<PathBuf> {
        let folder = checkout::cache(&format!("tools/{}-{}", self.name, self.version))?;
        let program = folder.join("bin").join(self.name);
        if !program.exists() {
            // Outside the checkout, whose cargo settings do not apply to the tool.
            let mut install = shell::cargo();
            install
                .current_dir(&folder)
                .args(["install", "--locked", "--quiet", "--root"])
                .arg(&folder)
                .arg(format!("{}@{}", self.name, self.version))
                .env("CARGO_TARGET_DIR", checkout::target().join("tools"));
            shell::run(&mut install)?;
        }
        Ok(program)
    }
}
