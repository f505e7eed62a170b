//! Where things are: the checkout, cargo's target folder, the user's cache.

use anyhow::{Context as _, Result};
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

/// `larder` in the user's cache folder: what is worth keeping from one checkout to the next.
pub(crate) fn cache() -> Result<PathBuf> {
    let cache = match std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(cache) => PathBuf::from(cache),
        None => {
            PathBuf::from(std::env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?).join(".cache")
        }
    };
    Ok(cache.join("larder"))
}
