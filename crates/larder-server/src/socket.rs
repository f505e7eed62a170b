//! The Unix socket: created without harm to another daemon's, [kept](persistent) while larder listens, removed at the end.
//!
//! # Guarantees
//!
//! - larder leaves a socket alone on which a daemon answers. The error names the process that holds it.
//! - larder removes only a socket on which nobody listens, and refuses any other kind of file.
//! - At the end, larder removes only the socket that it created. A file that has replaced the socket stays.
//! - larder refuses a [folder](larder_file::folder) in which anybody but root and the daemon's own user and group could replace the socket. It sets the mode
//!   on the socket itself, never through a link.
//!
//! # Limits
//!
//! Two daemons that start in the same instant on the same stale path may both remove the socket there. The later one gets the path,
//! and the socket of the first one is gone. A lock would leave a file behind for a case that a service manager rules out.

mod persistent;

pub(crate) use persistent::PersistentSocket;

use larder_file::folder::{self, FolderError, open_as_it_is};
use rustix::fs::{AtFlags, FileType, Mode, Stat, chmod, fstat, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};

/// The most bytes of a socket's path on Linux (`sun_path` without its closing zero).
const LONGEST_PATH: usize = 107;
/// How long another daemon may take to accept the connection that probes it.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a socket cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The path does not fit into a socket's address.
    #[error(
        "socket path {path} is {length} bytes long, and Linux takes at most {LONGEST_PATH}: choose a shorter one",
        path = path.display()
    )]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
    },
    /// Another process answers on the socket.
    #[error(
        "socket {path} is in use by {holder}: stop that daemon, or choose another path",
        path = path.display()
    )]
    InUse {
        /// The path.
        path: PathBuf,
        /// The process that answers, as far as the kernel says.
        holder: String,
    },
    /// The path is a file that is not a socket.
    #[error("{path} exists and is not a socket: remove it, or choose another path", path = path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The path has no file name, as `/` and `..`.
    #[error("{path} names a folder: name a file in it", path = path.display())]
    NoName {
        /// The path.
        path: PathBuf,
    },
    /// Part of the path is a file where a folder should be.
    #[error("{path} is not a folder, and so cannot hold a socket: choose another path", path = path.display())]
    NotAFolder {
        /// The file.
        path: PathBuf,
    },
    /// Others could replace the socket.
    #[error(
        "{folder} on the way to the socket is not safe: {why}, and so another file can take the socket's place; {remedy}, or \
         choose another path",
        folder = folder.display()
    )]
    UnsafeFolder {
        /// The folder, or the link to one.
        folder: PathBuf,
        /// Who may change it, and why.
        why: String,
        /// What to do about it.
        remedy: String,
    },
    /// Another file replaced the socket while larder created it.
    #[error(
        "another file replaced socket {path} while larder created it: find out which program does that",
        path = path.display()
    )]
    Replaced {
        /// The path.
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

impl From<FolderError> for SocketError {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::Unsafe { folder, why, remedy } => Self::UnsafeFolder { folder, why, remedy },
            FolderError::NotAFolder { path } => Self::NotAFolder { path },
            FolderError::Io { action, path, source } => Self::Io { action, path, source },
        }
    }
}

/// A listening socket. Its file is removed when this is dropped.
#[derive(Debug)]
struct Socket {
    // Dropped before the listener: while the listener is open, no other file can get the same inode.
    file: SocketFile,
    listener: UnixListener,
}

/// Device and inode of a file.
type Identity = (u64, u64);

/// The file of a socket; dropping it removes the file.
#[derive(Debug)]
struct SocketFile {
    folder: OwnedFd,
    name: OsString,
    /// The file that larder created.
    identity: Identity,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if found(&self.folder, &self.name) == Some(self.identity) {
            // An error would reach nobody. The next start removes the file.
            let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}

fn identity_of(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

/// The file of that name in the folder. A link is not followed.
fn found(folder: &OwnedFd, name: &OsStr) -> Option<Identity> {
    statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok().as_ref().map(identity_of)
}

/// The file at that path. A link is not followed.
fn identity(path: &Path) -> Option<Identity> {
    statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok().as_ref().map(identity_of)
}

/// A path that leads to the open file, even if the file has moved.
fn path_of(file: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// The steps of creating a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    FolderChecked,
    PathFree,
    Bound,
    Opened,
}

/// Listens on the path, with mode 0666: the caller decides who may read, not the mode of the file.
///
/// Creates a missing folder with mode 0755.
///
/// # Errors
///
/// See [`SocketError`]. After an error, a folder may have been created and a stale socket removed; nothing else has changed.
async fn bind(path: &Path) -> Result<Socket, SocketError> {
    bind_stepwise(path, |_| ()).await
}

/// The same, and calls `after` after each step. There a test does what an attacker could do.
async fn bind_stepwise(path: &Path, mut after: impl FnMut(Step)) -> Result<Socket, SocketError> {
    check(path)?;
    let io = |action| move |source: io::Error| SocketError::Io { action, path: path.to_owned(), source };
    let name = path.file_name().ok_or_else(|| SocketError::NoName { path: path.to_owned() })?;
    let folder = folder::open_or_make(path.parent().unwrap_or(Path::new("/")), 0o755)?;
    after(Step::FolderChecked);
    remove_stale(&folder, name, path).await?;
    after(Step::PathFree);
    // This follows no link: it fails if anything has the path.
    let listener = UnixListener::bind(path).map_err(io("listen on socket"))?;
    after(Step::Bound);
    let replaced = || SocketError::Replaced { path: path.to_owned() };
    let made = open_as_it_is(&folder, name).map_err(|_| replaced())?;
    let stat = fstat(&made).map_err(|error| io("inspect")(error.into()))?;
    // The own user's socket with one name: another service's socket would be in its own folder, or have two names.
    let is_own = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_nlink == 1;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket || !is_own {
        return Err(replaced());
    }
    let file = SocketFile { folder, name: name.to_owned(), identity: identity_of(&stat) };
    after(Step::Opened);
    // Through the open file: the path may lead elsewhere by now. (The listener's own descriptor does not lead to the file.)
    chmod(path_of(&made), Mode::from_raw_mode(0o666)).map_err(|error| io("set the mode of socket")(error.into()))?;
    Ok(Socket { file, listener })
}

/// Checks whether a socket can have that path, whatever is there now.
pub(crate) fn check(path: &Path) -> Result<(), SocketError> {
    let length = path.as_os_str().len();
    if length > LONGEST_PATH {
        return Err(SocketError::TooLong { path: path.to_owned(), length });
    }
    Ok(())
}

/// Removes the socket of a daemon that has ended.
async fn remove_stale(folder: &OwnedFd, name: &OsStr, path: &Path) -> Result<(), SocketError> {
    let io = |action| move |source: io::Error| SocketError::Io { action, path: path.to_owned(), source };
    let there = match open_as_it_is(folder, name) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened.map_err(|error| io("inspect")(error.into()))?,
    };
    let stat = fstat(&there).map_err(|error| io("inspect")(error.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(SocketError::NotASocket { path: path.to_owned() });
    }
    let in_use = |holder| SocketError::InUse { path: path.to_owned(), holder };
    match tokio::time::timeout(PROBE_TIMEOUT, UnixStream::connect(path_of(&there))).await {
        Ok(Ok(stream)) => Err(in_use(holder(&stream))),
        // The queue of connections is full, so a process holds the socket.
        Err(_elapsed) => Err(in_use("a process that does not accept connections".to_owned())),
        Ok(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(in_use("a process that does not accept connections".to_owned()))
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            if found(folder, name) == Some(identity_of(&stat)) {
                tracing::info!(path = %path.display(), "removing the socket of a daemon that has ended");
                unlinkat(folder, name, AtFlags::empty())
                    .map_err(|error| io("remove the stale socket")(error.into()))?;
            }
            Ok(())
        }
        Ok(Err(error)) => Err(io("connect to the socket that is already at")(error)),
    }
}

/// The process at the other end, such as `larder (process 4711)`.
fn holder(stream: &UnixStream) -> String {
    let Some(pid) = stream.peer_cred().ok().and_then(|cred| cred.pid()) else {
        return "another process".to_owned();
    };
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("{} (process {pid})", name.trim()),
        Err(_) => format!("process {pid}"),
    }
}

#[cfg(test)]
mod tests;
