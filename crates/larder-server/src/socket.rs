//! The Unix socket: made without treading on another daemon's, [kept](keep) while it is listened on, removed at the end.
//!
//! # Guarantees
//!
//! - A socket that a daemon answers on is left alone, and said to be in use, with the process that holds it.
//! - Only a socket that nobody listens on is removed; any other kind of file is refused.
//! - What is removed at the end is the socket that was made here: a file that took its place since then stays.
//! - Nobody but root and the daemon's own user and group can put another file in the socket's place: a [folder] in which others could
//!   is refused. Whatever has the socket's path, its mode is set on the socket alone, never through a link.
//!
//! # Limits
//!
//! Two daemons that start within the same instant on the same stale path may both remove it, and the later one gets the
//! path; the first one's socket is then gone. A lock would leave a file behind for a case that a service manager rules
//! out.

mod folder;
mod keep;

pub(crate) use keep::KeptSocket;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, chmod, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};

/// Bytes of a socket's path that Linux takes (`sun_path`, with its closing zero).
const LONGEST_PATH: usize = 107;
/// How long a daemon may take to accept the connection that asks whether it lives.
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
    /// Another process answers on it.
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
    /// Something that is not a socket has the path.
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
    /// What should be a folder on the way to the socket is something else.
    #[error("{path} is not a folder, and so cannot hold a socket: choose another path", path = path.display())]
    NotAFolder {
        /// The file.
        path: PathBuf,
    },
    /// Others could put another file in the socket's place.
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
    /// The socket was just made, and something else has its path.
    #[error(
        "another file replaced socket {path} while larder made it: find out which program does that",
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

/// A socket that is listened on, and that is removed when this is dropped.
#[derive(Debug)]
struct Socket {
    // Dropped before the listener: until then, no other file can have the inode that it is known by.
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
    /// That of the file that was made here.
    identity: Identity,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if found(&self.folder, &self.name) == Some(self.identity) {
            // There is nobody left to tell; the next start removes it.
            let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}

fn identity_of(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

/// Which file has that name in the folder; a link is that file itself.
fn found(folder: &OwnedFd, name: &OsStr) -> Option<Identity> {
    statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok().as_ref().map(identity_of)
}

/// Which file has that path; a link is that file itself.
fn identity(path: &Path) -> Option<Identity> {
    statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok().as_ref().map(identity_of)
}

/// A file as it is, open for nothing but to say which one it is; of a link, the link.
fn open_as_it_is(folder: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// A path that leads to the open file, whatever has become of its own path.
fn path_of(file: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// How far the making of a socket has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    FolderChecked,
    PathFree,
    Bound,
    Opened,
}

/// Listens on the path, with mode 0666: who may read is decided by who connects, not by the file's mode.
///
/// A folder that is missing is made, with mode 0755.
///
/// # Errors
///
/// As [`SocketError`] lists them; nothing was changed then but a folder that may have been made, and a stale socket
/// that may have been removed.
async fn bind(path: &Path) -> Result<Socket, SocketError> {
    bind_stepwise(path, |_| ()).await
}

/// The same; after each step, `after` is called, where a test does what an attacker could.
async fn bind_stepwise(path: &Path, mut after: impl FnMut(Step)) -> Result<Socket, SocketError> {
    check(path)?;
    let io = |action| move |source: io::Error| SocketError::Io { action, path: path.to_owned(), source };
    let name = path.file_name().ok_or_else(|| SocketError::NoName { path: path.to_owned() })?;
    let folder = folder::open_or_make(path.parent().unwrap_or(Path::new("/")))?;
    after(Step::FolderChecked);
    remove_stale(&folder, name, path).await?;
    after(Step::PathFree);
    // This follows no link that has the path: it fails if anything has.
    let listener = UnixListener::bind(path).map_err(io("listen on socket"))?;
    after(Step::Bound);
    let replaced = || SocketError::Replaced { path: path.to_owned() };
    let made = open_as_it_is(&folder, name).map_err(|_| replaced())?;
    let stat = fstat(&made).map_err(|error| io("inspect")(error.into()))?;
    // A socket of the own user with one name: another service's socket would be in its own folder, or have two names.
    let is_own = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_nlink == 1;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket || !is_own {
        return Err(replaced());
    }
    let file = SocketFile { folder, name: name.to_owned(), identity: identity_of(&stat) };
    after(Step::Opened);
    // By its open file: the path may lead elsewhere by now. (The listener's own descriptor does not lead to the file.)
    chmod(path_of(&made), Mode::from_raw_mode(0o666)).map_err(|error| io("set the mode of socket")(error.into()))?;
    Ok(Socket { file, listener })
}

/// Whether a socket could have that path, whatever is there.
pub(crate) fn check(path: &Path) -> Result<(), SocketError> {
    let length = path.as_os_str().len();
    if length > LONGEST_PATH {
        return Err(SocketError::TooLong { path: path.to_owned(), length });
    }
    Ok(())
}

/// Removes the socket of a daemon that is gone.
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
        // Its queue of connections is full, so someone holds it.
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

/// The process at the other end, as `larder (process 4711)`.
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
