//! A file to which a daemon appends lines, and which somebody else may rotate.
//!
//! # Guarantees
//!
//! - *Owner only*: a new file has mode 0600. A file that another user than root or the daemon's own owns, or that others may write, is refused.
//! - *A safe path*: the folder is opened as by [`folder`], and a link in the place of the file is not followed.
//! - *Rotated*: before each append, larder looks whether the path still names the file, and opens or creates the one that it names now.
//! - *Whole lines*: if an append stops in the middle, such as on a full disk, the next one begins on a line of its own.
//!
//! # Example
//!
//! ```
//! use larder_file::append::AppendFile;
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("audit.log");
//! let mut file = AppendFile::open(&path)?;
//! file.append(b"one\n")?;
//! std::fs::rename(&path, folder.path().join("audit.log.1"))?;
//! file.append(b"two\n")?;
//! assert_eq!(std::fs::read(&path)?, b"two\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::folder::{self, FolderError};
use crate::{NotRegular, require_regular};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The mode bits of a group and of everybody who may write.
const OTHERS_WRITE: u32 = 0o022;

/// Why a file cannot be appended to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The path to the folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The path has no file name.
    #[error("{path} names a folder: name a file in it", path = path.display())]
    NoName {
        /// The path.
        path: PathBuf,
    },
    /// It is a link.
    #[error("{path} is a link: remove the link, or choose another path", path = path.display())]
    Link {
        /// The path.
        path: PathBuf,
    },
    /// It is something else than a file.
    #[error("{path}: {source}", path = path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is.
        source: NotRegular,
    },
    /// Others own it, or may write it.
    #[error(
        "{path} is not safe: it must belong to root or to larder's own user, and nobody else may write it; run `chown root {path}` and \
         `chmod go-w {path}`",
        path = path.display()
    )]
    Unsafe {
        /// The file.
        path: PathBuf,
    },
    /// The system refused a step.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// A file that is open to append lines. All calls block for as long as the file system does not answer.
#[derive(Debug)]
pub struct AppendFile {
    path: PathBuf,
    file: File,
    identity: (u64, u64),
    /// Whether the last append stopped in the middle of a line.
    is_cut: bool,
}

impl AppendFile {
    /// Opens the file, or creates it. The folder has to exist.
    ///
    /// # Errors
    ///
    /// If the folder or the file is not safe or no file, or if the system refuses.
    pub fn open(path: &Path) -> Result<Self, AppendError> {
        let (file, identity) = open(path)?;
        Ok(Self { path: path.to_owned(), file, identity, is_cut: false })
    }

    /// Appends lines, each of which ends with a line feed.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open). Some of the lines may have been written.
    pub fn append(&mut self, lines: &[u8]) -> Result<(), AppendError> {
        let is_here = std::fs::symlink_metadata(&self.path).is_ok_and(|found| identity(&found) == self.identity);
        if !is_here {
            (self.file, self.identity) = open(&self.path)?;
            self.is_cut = false;
        }
        let end: &[u8] = if self.is_cut { b"\n" } else { b"" };
        let written = self.file.write_all(end).and_then(|()| self.file.write_all(lines));
        self.is_cut = written.is_err();
        written.map_err(io_error("write", &self.path))
    }
}

fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AppendError {
    let path = path.to_owned();
    move |source| AppendError::Io { action, path, source }
}

fn open(path: &Path) -> Result<(File, (u64, u64)), AppendError> {
    let name = path.file_name().ok_or_else(|| AppendError::NoName { path: path.to_owned() })?;
    let folder = folder::open_safe(path.parent().unwrap_or(Path::new("")))?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match openat(&folder, name, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o600)) {
        // The error of an open that follows no link.
        Err(Errno::LOOP) => return Err(AppendError::Link { path: path.to_owned() }),
        opened => File::from(opened.map_err(|error| io_error("open", path)(error.into()))?),
    };
    let found = file.metadata().map_err(io_error("inspect", path))?;
    require_regular(found.file_type()).map_err(|source| AppendError::NotAFile { path: path.to_owned(), source })?;
    let is_own = found.uid() == 0 || found.uid() == geteuid().as_raw();
    if !is_own || found.mode() & OTHERS_WRITE != 0 {
        return Err(AppendError::Unsafe { path: path.to_owned() });
    }
    Ok((file, identity(&found)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a_new_file_is_for_its_owner_and_an_old_one_grows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        AppendFile::open(&path).unwrap().append(b"one\n").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        // As logrotate creates it for a group that reads.
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        AppendFile::open(&path).unwrap().append(b"two\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\n");
    }

    #[test]
    fn what_is_no_safe_file_is_refused_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let refused = || AppendFile::open(&path).unwrap_err().to_string();
        let target = folder.path().join("target");
        fs::write(&target, "kept").unwrap();
        symlink(&target, &path).unwrap();
        assert!(refused().contains("is a link"), "{}", refused());
        assert_eq!(fs::read(&target).unwrap(), b"kept");
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert!(refused().contains("cannot open"), "nobody reads the FIFO: {}", refused());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o620)).unwrap();
        assert!(refused().contains("is not safe"), "{}", refused());
        fs::remove_file(&path).unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(refused().contains("is not safe"), "{}", refused());
        assert!(AppendFile::open(Path::new("/")).unwrap_err().to_string().contains("names a folder"));
    }

    #[test]
    fn a_link_that_takes_the_place_of_the_file_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("a.log"), folder.path().join("target"));
        fs::write(&target, "kept").unwrap();
        let mut file = AppendFile::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        symlink(&target, &path).unwrap();
        assert!(file.append(b"one\n").unwrap_err().to_string().contains("is a link"));
        assert_eq!(fs::read(&target).unwrap(), b"kept");
        fs::remove_file(&path).unwrap();
        file.append(b"two\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two\n");
    }
}
