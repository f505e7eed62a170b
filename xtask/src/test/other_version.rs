//! A program outside of the workspace that uses larder's crates with another version of the Kubernetes API.
//!
//! k8s-openapi builds for exactly one version, which the program chooses. A library crate that enables one as well breaks each program
//! that chose another.

use super::workspace;
use crate::{checkout, shell};
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Passes its own types to the crates, and takes theirs.
const PROGRAM: &str = "\
use k8s_openapi::api::core::v1::Pod;

fn main() {
    println!(\"{}\", larder_objects::references::secrets(&Pod::default()).len());
    let _: fn(&larder_resource::Pod) -> Result<Pod, larder_resource::DecodeError> = larder_resource::Pod::typed;
}
";

/// Checks a program that depends on every library crate and on the earliest version that k8s-openapi has.
pub(super) fn check() -> Result<()> {
    // Outside the checkout, whose cargo settings and workspace do not apply to other people's programs.
    let folder = std::env::temp_dir().join(format!("larder-other-version-{}", std::process::id()));
    let source = folder.join("src");
    fs::create_dir_all(&source).with_context(|| format!("create {}", source.display()))?;
    let checked = write(&folder).and_then(|()| {
        let mut check = shell::cargo();
        check
            .current_dir(&folder)
            .args(["check", "--quiet", "--offline"])
            .env("CARGO_TARGET_DIR", checkout::target())
            .env_remove("K8S_OPENAPI_ENABLED_VERSION");
        shell::run(&mut check)
    });
    fs::remove_dir_all(&folder)?;
    checked
}

fn write(folder: &Path) -> Result<()> {
    fs::write(folder.join("Cargo.toml"), manifest(&workspace::packages()?)?)?;
    fs::write(folder.join("src/main.rs"), PROGRAM)?;
    // The versions that the workspace was tested with.
    fs::copy(checkout::root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    Ok(())
}

fn manifest(packages: &[Value]) -> Result<String> {
    let libraries = libraries(packages);
    let version = libraries
        .iter()
        .flat_map(|package| package["dependencies"].as_array().into_iter().flatten())
        .find(|dependency| dependency["name"] == "k8s-openapi")
        .context("no library crate depends on k8s-openapi")?;
    let head = "[package]\nname = \"other-version\"\nedition = \"2024\"\n[workspace]\n[dependencies]";
    let mut lines = vec![head.to_owned()];
    lines.push(format!("k8s-openapi = {{ version = {}, features = [\"earliest\"] }}", version["req"]));
    for package in libraries {
        let name = package["name"].as_str().context("a package without a name")?;
        let manifest = package["manifest_path"].as_str().map(Path::new).context("a package without a manifest")?;
        let folder = manifest.parent().context("a manifest without a folder")?;
        lines.push(format!("{name} = {{ path = \"{}\" }}", folder.display()));
    }
    Ok(lines.join("\n"))
}

/// The crates that other programs build on: libraries below `crates`.
fn libraries(packages: &[Value]) -> Vec<&Value> {
    let crates = checkout::root().join("crates");
    let is_library = |package: &&Value| {
        let below = package["manifest_path"].as_str().is_some_and(|path| Path::new(path).starts_with(&crates));
        let targets = package["targets"].as_array().into_iter().flatten();
        below && targets.flat_map(|target| target["kind"].as_array().into_iter().flatten()).any(|kind| kind == "lib")
    };
    packages.iter().filter(is_library).collect()
}
