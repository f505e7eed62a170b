//! The folder of a socket or of keys, opened step by step. Only root and the daemon's own user are trusted on the way.
//!
//! # Guarantees
//!
//! - Each folder on the way belongs to root or to the daemon's own user. Nobody else may write there, except the daemon's own group, and
//!   everybody in a sticky folder such as `/tmp`, where nobody can rename or remove a file of another user.
//! - A link on the way, such as `/var/run`, is followed only if root or the daemon's own user created it.
//!
//! # Limits
//!
//! The daemon's own group is trusted, because many systems give each user a group and let the group write. A user who mounts file systems
//! or has root's capabilities can put any file anywhere.

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, mkdirat, open, openat, readlinkat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

/// The most links on the way to a file, as on Linux.
const MOST_LINKS: usize = 40;
/// Mode bit: the group may write.
const GROUP_WRITES: u32 = 0o020;
/// Mode bit: everybody may write.
const ALL_WRITE: u32 = 0o002;
/// Mode bit: only a file's owner and the folder's may rename or remove it.
const STICKY: u32 = 0o1000;

/// Why a folder cannot be used. The owners of folders word each variant in their own terms.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Others could replace the files in it.
    #[error("{folder} is not safe: {why}; {remedy}", folder = folder.display())]
    Unsafe {
        /// The folder, or the link to one.
        folder: PathBuf,
        /// Who may change it, and why.
        why: String,
        /// What to do about it.
        remedy: String,
    },
    /// Part of the path is a file where a folder should be.
    #[error("{path} is not a folder", path = path.display())]
    NotAFolder {
        /// The file.
        path: PathBuf,
    },
    /// The system refused a step.
    #[error("cannot {action} {path}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// Opens a file only to identify it. A link is not followed.
///
/// # Errors
///
/// If there is no such file, or if the system refuses.
pub fn open_as_it_is(folder: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Opens the folder. Creates missing folders with mode 0755, and the last one with the mode that is given.
///
/// # Errors
///
/// If part of the path is [not safe](FolderError::Unsafe), or not a folder, or if the system refuses to open or create it.
pub fn open_or_make(folder: &Path, mode: u32) -> Result<OwnedFd, FolderError> {
    walk(folder, Some(mode))
}

/// Opens a folder that exists, with the same checks.
///
/// # Errors
///
/// As [`open_or_make`].
pub fn open_safe(folder: &Path) -> Result<OwnedFd, FolderError> {
    walk(folder, None)
}

fn walk(folder: &Path, make: Option<u32>) -> Result<OwnedFd, FolderError> {
    let io = |action, path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| FolderError::Io { action, path, source }
    };
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let absolute = std::path::absolute(here).map_err(io("find the folder", folder))?;
    let root = || {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        open("/", flags, Mode::empty()).map_err(|error| io("open", Path::new("/"))(error.into()))
    };
    let (mut at, mut path) = (root()?, PathBuf::from("/"));
    let mut left = names_of(&absolute);
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        let next_path = path.join(&name);
        let failed = |action| {
            let failed = io(action, &next_path);
            move |error: Errno| failed(error.into())
        };
        let next = match open_as_it_is(&at, &name) {
            Err(Errno::NOENT) if let Some(mode) = make => {
                let mode = if left.is_empty() { mode } else { 0o755 };
                match mkdirat(&at, &name, Mode::from_raw_mode(mode)) {
                    // Another process was faster. The folder is checked below in any case.
                    Ok(()) | Err(Errno::EXIST) => open_as_it_is(&at, &name),
                    Err(error) => return Err(failed("create folder")(error)),
                }
            }
            opened => opened,
        };
        let next = next.map_err(failed("open folder"))?;
        let stat = fstat(&next).map_err(failed("inspect"))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                refuse_foreign(&next_path, &stat)?;
                refuse_writable(&next_path, &stat)?;
                (at, path) = (next, next_path);
            }
            FileType::Symlink => {
                refuse_foreign(&next_path, &stat)?;
                links += 1;
                if links > MOST_LINKS {
                    return Err(failed("follow the link")(Errno::LOOP));
                }
                let target = readlinkat(&next, "", Vec::new()).map_err(failed("follow the link"))?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    (at, path) = (root()?, PathBuf::from("/"));
                }
                left = names_of(&target).into_iter().chain(left).collect();
            }
            _ => return Err(FolderError::NotAFolder { path: next_path }),
        }
    }
    Ok(at)
}

fn names_of(path: &Path) -> VecDeque<OsString> {
    let is_step = |component: &Component<'_>| matches!(component, Component::Normal(_) | Component::ParentDir);
    path.components().filter(is_step).map(|component| component.as_os_str().to_owned()).collect()
}

/// Refuses a folder or link that belongs to another user than root and the daemon's own.
fn refuse_foreign(path: &Path, stat: &Stat) -> Result<(), FolderError> {
    let owner = stat.st_uid;
    if owner == 0 || owner == geteuid().as_raw() {
        return Ok(());
    }
    let remedy = format!("give it to root (chown -h root {})", path.display());
    Err(FolderError::Unsafe { folder: path.to_owned(), why: format!("it belongs to user {owner}"), remedy })
}

/// Refuses a folder in which others can replace files.
fn refuse_writable(path: &Path, stat: &Stat) -> Result<(), FolderError> {
    let mode = stat.st_mode;
    let is_own_group = stat.st_gid == getegid().as_raw();
    let writers = if mode & STICKY != 0 {
        return Ok(());
    } else if mode & ALL_WRITE != 0 {
        "everybody".to_owned()
    } else if mode & GROUP_WRITES != 0 && !is_own_group {
        format!("group {}", stat.st_gid)
    } else {
        return Ok(());
    };
    let remedy = format!("forbid that (chmod go-w {})", path.display());
    let why = format!("its mode {:04o} lets {writers} write", mode & 0o7777);
    Err(FolderError::Unsafe { folder: path.to_owned(), why, remedy })
}
