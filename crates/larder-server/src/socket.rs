//! The Unix socket: made without treading on another daemon's, [kept](keep) while it is listened on, removed at the end.
//!
//! # Guarantees
//!
//! - A socket that a daemon answers on is left alone, and said to be in use, with the process that holds it.
//! - Only a socket that nobody listens on is removed; any other kind of file is refused.
//! - What is removed at the end is the socket that was made here: a file that took its place since then stays.
//!
//! # Limits
//!
//! Two daemons that start within the same instant on the same stale path may both remove it, and the later one gets the
//! path; the first one's socket is then gone. A lock would leave a file behind for a case that a service manager rules
//! out.

mod keep;

pub(crate) use keep::KeptSocket;

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
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
    #[error("{path} is there and is not a socket: remove it, or choose another path", path = path.display())]
    NotASocket {
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
    path: PathBuf,
    /// That of the file that was made here.
    identity: Option<Identity>,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some() && self.identity == identity(&self.path) {
            // There is nobody left to tell; the next start removes it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<Identity> {
    std::fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Listens on the path, with mode 0666: who may read is decided by who connects, not by the file's mode.
///
/// A directory that is missing is made, with mode 0755.
///
/// # Errors
///
/// As [`SocketError`] lists them; nothing was changed then but a directory that may have been made, and a stale socket
/// that may have been removed.
async fn bind(path: &Path) -> Result<Socket, SocketError> {
    check(path)?;
    let io = |action| move |source| SocketError::Io { action, path: path.to_owned(), source };
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(parent).map_err(|source| SocketError::Io {
            action: "make the socket's directory",
            path: parent.to_owned(),
            source,
        })?;
    }
    remove_stale(path).await?;
    let listener = UnixListener::bind(path).map_err(io("listen on socket"))?;
    let file = SocketFile { path: path.to_owned(), identity: identity(path) };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(io("set the mode of socket"))?;
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
async fn remove_stale(path: &Path) -> Result<(), SocketError> {
    let io = |action| move |source| SocketError::Io { action, path: path.to_owned(), source };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io("look at")(error)),
        Ok(meta) if !meta.file_type().is_socket() => return Err(SocketError::NotASocket { path: path.to_owned() }),
        Ok(_) => {}
    }
    let in_use = |holder| SocketError::InUse { path: path.to_owned(), holder };
    match tokio::time::timeout(PROBE_TIMEOUT, UnixStream::connect(path)).await {
        Ok(Ok(stream)) => Err(in_use(holder(&stream))),
        // Its queue of connections is full, so someone holds it.
        Err(_elapsed) => Err(in_use("a process that does not accept connections".to_owned())),
        Ok(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(in_use("a process that does not accept connections".to_owned()))
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            tracing::info!(path = %path.display(), "removing the socket of a daemon that is gone");
            std::fs::remove_file(path).map_err(io("remove the stale socket"))
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
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
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_made_with_its_directory_and_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/larder/l.sock");
        let socket = bind(&path).await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("l.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let _socket = bind(&path).await.unwrap();
        UnixStream::connect(&path).await.unwrap();
    }

    #[tokio::test]
    async fn a_live_socket_is_left_alone_and_its_holder_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("l.sock");
        let _holder = bind(&path).await.unwrap();
        let error = bind(&path).await.unwrap_err();
        let own = format!("(process {})", std::process::id());
        assert!(error.to_string().contains(&own), "{error}");
        UnixStream::connect(&path).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_not_a_socket_is_refused_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("l.sock");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(bind(&path).await, Err(SocketError::NotASocket { .. })));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    #[tokio::test]
    async fn a_path_that_is_too_long_is_refused_with_its_length() {
        let path = PathBuf::from(format!("/tmp/{}", "x".repeat(LONGEST_PATH)));
        let error = bind(&path).await.unwrap_err();
        assert!(error.to_string().contains("112 bytes"), "{error}");
    }

    #[tokio::test]
    async fn a_successor_of_the_socket_survives_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("l.sock");
        let first = bind(&path).await.unwrap();
        std::fs::remove_file(&path).unwrap();
        let _second = bind(&path).await.unwrap();
        drop(first);
        UnixStream::connect(&path).await.unwrap();
    }
}
