//! The commands in a home that nothing was built or installed in yet.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Builds the tool below in the place of the one that is asked for, whose own build takes minutes and the network.
const CARGO: &str = r#"#!/bin/sh
while [ "$1" != --root ]; do shift; done
exec "$REAL_CARGO" install --quiet --offline --path "$TOOL" --root "$2"
"#;

const TOOL: &str = r#"fn main() { println!("checks {}", std::env::args().nth(2).unwrap()) }"#;

const MANIFEST: &str = r#"
[package]
name = "cargo-deny"
version = "0.0.0"
edition = "2024"
[[bin]]
name = "cargo-deny"
path = "main.rs"
[workspace]
"#;

/// A machine with an empty home, and beside it a cargo that installs a small tool.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().expect("a folder"));
        fs::create_dir(machine.path("home")).expect("a home");
        fs::create_dir(machine.path("tool")).expect("the tool's folder");
        fs::write(machine.path("tool/Cargo.toml"), MANIFEST).expect("its manifest");
        fs::write(machine.path("tool/main.rs"), TOOL).expect("its source");
        fs::write(machine.path("cargo"), CARGO).expect("a cargo");
        fs::set_permissions(machine.path("cargo"), fs::Permissions::from_mode(0o755)).expect("it runs");
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `cargo xtask` with the toolchain of this machine and nothing else of its user's home.
    fn xtask(&self, cargo: &Path, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(arguments)
            .env("HOME", self.path("home"))
            .env_remove("XDG_CACHE_HOME")
            .env("CARGO_HOME", of_home("CARGO_HOME", ".cargo"))
            .env("RUSTUP_HOME", of_home("RUSTUP_HOME", ".rustup"))
            .env("CARGO_TARGET_DIR", self.path("target"))
            .env("CARGO", cargo)
            .env("REAL_CARGO", std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .env("TOOL", self.path("tool"))
            .output()
            .expect("xtask runs")
    }
}

/// The folder that a variable names, or its usual place.
fn of_home(variable: &str, usual: impl AsRef<OsStr>) -> PathBuf {
    let usual = Path::new(&std::env::var_os("HOME").expect("HOME")).join(usual.as_ref());
    std::env::var_os(variable).map_or(usual, PathBuf::from)
}

#[test]
fn a_step_installs_its_tool_into_an_empty_home_and_keeps_it() {
    let machine = Machine::new();
    // The second run has no cargo to install with.
    for cargo in [&machine.path("cargo"), Path::new("/nonexistent/cargo")] {
        let run = machine.xtask(cargo, &["test", "--only", "deny"]);
        let printed = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success(), "{printed}{}", String::from_utf8_lossy(&run.stderr));
        assert!(printed.contains("checks --all-features"), "{printed}");
    }
    let installed = fs::read_dir(machine.path("home/.cache/larder/tools")).expect("the tools").flatten();
    assert_eq!(installed.count(), 1);
}
