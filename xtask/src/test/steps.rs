//! The steps of `cargo xtask test`, in the order in which they run: what fails fast comes first.

use super::{Step, other_version, workspace};
use crate::{checkout, differential as differences, fuzz, readme, shell, tools};
use anyhow::{Context as _, Result, bail};
use std::path::Path;

/// Every step.
pub(super) const ALL: &[Step] = &[
    Step { name: "fmt", about: "the code is formatted", run: fmt },
    Step { name: "msrv", about: "the toolchain is not older than the stated one, and clippy knows it", run: msrv },
    Step { name: "deny", about: "licences, sources and duplicates of what we depend on", run: deny },
    Step { name: "clippy", about: "no lint is broken", run: clippy },
    Step {
        name: "other-version",
        about: "a program builds on the crates with another version of the Kubernetes API",
        run: other_version::check,
    },
    Step { name: "fuzz", about: "the targets of the fuzzer compile", run: fuzz::check },
    Step { name: "slim", about: "the binary that a node runs builds without the demo", run: slim },
    Step {
        name: "unit",
        about: "unit, property and integration tests, and every example in the documentation",
        run: unit,
    },
    Step { name: "docs", about: "the documentation builds without a broken link", run: docs },
    Step { name: "shuttle", about: "the hand-written waits and locks, under many schedules", run: shuttle },
    Step { name: "oracle", about: "the originals' driver: go vet and its own tests", run: oracle },
    Step {
        name: "differential",
        about: "random traces give the same on larder's caches and on the kubelet's",
        run: differential,
    },
    Step { name: "testbed", about: "larder on a real node: API server, etcd, containerd", run: testbed },
    Step { name: "readme", about: "what README.md shows is what one sees", run: readme_check },
];

fn fmt() -> Result<()> {
    shell::run(shell::cargo().args(["fmt", "--all", "--check"]))
}

fn clippy() -> Result<()> {
    let arguments = ["clippy", "--locked", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    shell::run(shell::cargo().args(arguments))
}

fn deny() -> Result<()> {
    let deny = tools::CARGO_DENY.install()?;
    // Advisories come from a repository of their own, which a check without network has not.
    shell::run(shell::program_in(&deny, checkout::root()).args([
        "--locked",
        "--all-features",
        "check",
        "--hide-inclusion-graph",
        "bans",
        "licenses",
        "sources",
    ]))
}

/// `rust-version` is what cargo refuses older compilers by, and what clippy's `incompatible_msrv` goes by.
fn msrv() -> Result<()> {
    let compiler = shell::output(shell::program_in(Path::new("rustc"), checkout::root()).arg("--version"))?;
    let compiler = compiler.split(' ').nth(1).with_context(|| format!("read the version in {compiler:?}"))?;
    for package in workspace::packages()? {
        let name = package["name"].as_str().unwrap_or_default();
        let stated = package["rust_version"].as_str().with_context(|| format!("{name} states no rust-version"))?;
        if version(stated)? > version(compiler)? {
            bail!("{name} needs Rust {stated}; this is {compiler}");
        }
    }
    println!("Rust {compiler}");
    Ok(())
}

/// Major and minor version.
fn version(text: &str) -> Result<(u32, u32)> {
    let mut parts = text.split(['.', '-']);
    let mut next = || parts.next().and_then(|part| part.parse().ok()).with_context(|| format!("version {text:?}"));
    Ok((next()?, next()?))
}

fn slim() -> Result<()> {
    let build = ["build", "--locked", "--package", "larder", "--no-default-features", "--features", "node"];
    shell::run(shell::cargo().args(build))
}

fn unit() -> Result<()> {
    shell::run(shell::cargo().args(["test", "--locked", "--workspace", "--no-fail-fast"]))
}

fn docs() -> Result<()> {
    shell::run(shell::cargo().args(["doc", "--locked", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}

fn shuttle() -> Result<()> {
    // Only these modules run under shuttle's scheduler; everything else would find its locks outside of one.
    for (package, module) in [("larder-objects", "interleavings"), ("larder-pod-status", "races")] {
        let tests = || {
            // Another flag means that everything is built anew, so it gets a folder of its own.
            let mut tests = shell::cargo();
            tests
                .args(["test", "--locked", "--package", package, "--test", "it", module])
                .env("RUSTFLAGS", "--cfg shuttle")
                .env("CARGO_TARGET_DIR", checkout::target().join("shuttle"));
            tests
        };
        shell::run(&mut tests())?;
        // A module of another name would match no test, which is no failure to cargo.
        if !shell::output(tests().args(["--", "--list"]))?.contains(": test") {
            bail!("{package} has no test in its module `{module}`");
        }
    }
    Ok(())
}

fn oracle() -> Result<()> {
    let oracle = checkout::root().join("oracle");
    let go = Path::new("go");
    shell::run(shell::program_in(go, &oracle).args(["vet", "./..."]).env("GOTOOLCHAIN", "local"))?;
    shell::run(shell::program_in(go, &oracle).args(["test", "./..."]).env("GOTOOLCHAIN", "local"))
}

fn differential() -> Result<()> {
    differences::check(20_000)
}

fn testbed() -> Result<()> {
    // The whole workspace, as in the step `unit`: with other packages, dependencies would have other features and be built
    // again.
    let select = ["--locked", "--workspace", "--features", "larder/testbed-tests,larder-testbed/testbed-tests"];
    shell::run(shell::cargo().arg("test").args(select).args(["--test", "testbed", "--no-run"]))?;
    // The tests were built with the testbed's own program beside them.
    let program = checkout::target().join("debug").join("larder-testbed");
    shell::run(shell::program_in(&program, checkout::root()).arg("build"))?;
    let result = shell::run(shell::cargo().arg("test").args(select).args(["--test", "testbed"]));
    // A test that was killed leaves its node behind.
    shell::run(shell::program_in(&program, checkout::root()).args(["down", "--stale"]))?;
    result
}

fn readme_check() -> Result<()> {
    readme::check(&checkout::root().join("README.md"))
}
