//! The folder of a demo: made for it, its user's alone, and removed with it.

use anyhow::{Context as _, bail};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// What a Unix socket's path may have; the longest name that is put into the folder is `control.sock`.
const LONGEST: usize = 107 - "/control.sock".len();

/// A folder that is removed, with all that is in it, when this is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes the folder, mode 0700. It must not exist: what somebody else has put there is not to be trusted.
    pub(super) fn create(wanted: Option<&Path>) -> anyhow::Result<Self> {
        let path = match wanted {
            Some(path) => std::path::absolute(path).with_context(|| format!("--dir {}", path.display()))?,
            None => base().join(format!("larder-demo-{}", std::process::id())),
        };
        if path.as_os_str().len() > LONGEST {
            bail!("{} is too long for the path of a socket: choose a shorter folder with --dir", path.display());
        }
        DirBuilder::new().mode(0o700).create(&path).with_context(|| {
            format!("cannot create the demo's folder {}: choose another with --dir", path.display())
        })?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind is in a folder for temporary files, and its user's alone.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Where a user's sockets belong, if there is such a place.
fn base() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    runtime.filter(|path| path.is_absolute() && path.is_dir()).unwrap_or_else(std::env::temp_dir)
}
