//! Where things are: the checkout, cargo's target folder, the user's cache.

use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder that this checkout is in.
pub(crate) fn root() -> &'static Path {
    // The manifest's folder is `xtask` in the checkout.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR").filter(|value| !value.is_empty()) {
        Some(target) => root().join(target),
        None => root().join("target"),
    }
}

/// A folder of larder's in the user's cache folder, made now if it is missing. Checkouts share what is in it.
pub(crate) fn cache(name: &str) -> Result<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = match absolute("XDG_CACHE_HOME") {
        Some(cache) => cache,
        None => absolute("HOME").context("set HOME or XDG_CACHE_HOME to an absolute path")?.join(".cache"),
    };
    let folder = cache.join("larder").join(name);
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    Ok(folder)
}
