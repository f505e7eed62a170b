//! A socket whose file is created again if somebody removes it, by hand or when `/run` is cleaned.
//!
//! A listener without its file goes on, but nobody can connect to it. So larder checks the file again and again.
//!
//! # Guarantees
//!
//! - If nothing has the path, larder listens there again at the next check, and logs a warning.
//! - If another file has the path, such as the socket of a second daemon, larder first leaves it alone for one more check, because its
//!   owner may still be creating it. After that, larder treats it as at a start: it leaves alone a socket on which a daemon answers and
//!   names that daemon in a warning, replaces a socket on which nobody listens, and refuses any other file.
//! - Open connections stay open, whatever happens to the file.

use super::{Identity, Socket, SocketError, bind, identity};
use std::error::Error as _;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::{Interval, MissedTickBehavior};

/// How often larder checks the file: an agent that retries finds the new one within its usual backoff.
const CHECK_PERIOD: Duration = Duration::from_secs(2);

/// A listening socket that keeps its path.
#[derive(Debug)]
pub(crate) struct PersistentSocket {
    path: PathBuf,
    socket: Socket,
    checks: Interval,
    /// The file that had the path at the last check, if larder did not create it.
    other_file: Option<Identity>,
    /// Why larder could not listen again at the last try. Each reason is logged as a warning once.
    last_warning: Option<String>,
}

impl PersistentSocket {
    /// Listens on the path, as [`bind`] does.
    ///
    /// # Errors
    ///
    /// As [`bind`].
    pub(crate) async fn bind(path: PathBuf) -> Result<Self, SocketError> {
        let socket = bind(&path).await?;
        let mut checks = tokio::time::interval(CHECK_PERIOD);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self { path, socket, checks, other_file: None, last_warning: None })
    }

    /// The next connection.
    ///
    /// # Cancel safety
    ///
    /// No connection is lost. A check of the file that was in progress is repeated at the next call.
    pub(crate) async fn accept(&mut self) -> io::Result<UnixStream> {
        loop {
            tokio::select! {
                accepted = self.socket.listener.accept() => return accepted.map(|(stream, _)| stream),
                _ = self.checks.tick() => self.check_file().await,
            }
        }
    }

    /// Checks whether the file is there, and listens on a new one if not.
    async fn check_file(&mut self) {
        let found = identity(&self.path);
        if found == Some(self.socket.file.identity) {
            (self.other_file, self.last_warning) = (None, None);
            return;
        }
        if found.is_some() && found != self.other_file {
            self.other_file = found;
            return;
        }
        match bind(&self.path).await {
            Ok(socket) => {
                let path = self.path.display();
                tracing::warn!(%path, "somebody removed or replaced the socket's file: listening on a new one");
                // Dropping the old socket does not remove the new file: see `SocketFile`.
                self.socket = socket;
                (self.other_file, self.last_warning) = (None, None);
            }
            Err(error) => self.warn(&error),
        }
    }

    fn warn(&mut self, error: &SocketError) {
        let why = error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
        if self.last_warning.as_ref() == Some(&why) {
            tracing::debug!(why, "still cannot listen on the socket's path");
        } else {
            tracing::warn!(
                why,
                "somebody removed or replaced the socket's file, and nobody can connect: retrying until the path is free"
            );
            self.last_warning = Some(why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::net::UnixListener;
    use std::path::Path;
    use tokio::task::JoinHandle;

    /// A socket that takes connections and drops them, until this is dropped.
    struct Accepting(JoinHandle<()>);

    impl Drop for Accepting {
        fn drop(&mut self) {
            self.0.abort();
        }
    }

    impl Accepting {
        async fn on(path: &Path) -> Self {
            let mut socket = PersistentSocket::bind(path.to_owned()).await.unwrap();
            Self(tokio::spawn(async move { while socket.accept().await.is_ok() {} }))
        }

        /// Ends it in good order.
        async fn end(mut self) {
            self.0.abort();
            let _ = (&mut self.0).await;
        }
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/l.sock");
        (folder, path)
    }

    /// Lets a few checks pass.
    async fn checks() {
        tokio::time::sleep(5 * CHECK_PERIOD).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_was_removed_is_made_anew_with_its_folder() {
        let (folder, path) = folder();
        let _accepting = Accepting::on(&path).await;
        for _ in 0..3 {
            fs::remove_file(&path).unwrap();
            tokio::time::sleep(2 * CHECK_PERIOD).await;
            UnixStream::connect(&path).await.unwrap();
        }
        fs::remove_dir_all(folder.path().join("run")).unwrap();
        checks().await;
        UnixStream::connect(&path).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_there_is_left_alone() {
        let (_folder, path) = folder();
        let accepting = Accepting::on(&path).await;
        let before = identity(&path);
        checks().await;
        assert_eq!(identity(&path), before);
        accepting.end().await;
        assert!(!path.exists());
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_daemons_socket_is_never_taken_from_it_and_the_path_is_had_again_when_it_ends() {
        let (_folder, path) = folder();
        let first = Accepting::on(&path).await;
        fs::remove_file(&path).unwrap();
        let second = Accepting::on(&path).await;
        let seconds = identity(&path);
        checks().await;
        assert_eq!(identity(&path), seconds);
        second.end().await;
        checks().await;
        UnixStream::connect(&path).await.unwrap();
        first.end().await;
        assert!(!path.exists(), "what was made anew is removed at the end");
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_ones_end_leaves_the_seconds_socket() {
        let (_folder, path) = folder();
        let first = Accepting::on(&path).await;
        fs::remove_file(&path).unwrap();
        let _second = Accepting::on(&path).await;
        checks().await;
        first.end().await;
        UnixStream::connect(&path).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_socket_that_is_being_made_is_not_taken_for_a_dead_one() {
        let (_folder, path) = folder();
        let mut kept = PersistentSocket::bind(path.clone()).await.unwrap();
        fs::remove_file(&path).unwrap();
        // Bound, and not listened on yet: it refuses connections, as a dead one does.
        drop(UnixListener::bind(&path).unwrap());
        let second = identity(&path);
        kept.check_file().await;
        assert_eq!(identity(&path), second, "left alone at first");
        kept.check_file().await;
        assert_eq!(identity(&path), Some(kept.socket.file.identity), "dead after all");
        UnixStream::connect(&path).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_socket_is_kept_with_one_warning() {
        let (_folder, path) = folder();
        let mut kept = PersistentSocket::bind(path.clone()).await.unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        for _ in 0..3 {
            kept.check_file().await;
        }
        assert!(kept.last_warning.as_ref().is_some_and(|why| why.contains("is not a socket")), "{kept:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
        kept.check_file().await;
        assert_eq!((identity(&path), &kept.last_warning), (Some(kept.socket.file.identity), &None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_folder_that_others_may_write_since_the_start_is_refused_until_they_may_not() {
        use std::os::unix::fs::PermissionsExt as _;
        let (folder, path) = folder();
        let set_mode = |mode| fs::set_permissions(folder.path().join("run"), fs::Permissions::from_mode(mode)).unwrap();
        let mut kept = PersistentSocket::bind(path.clone()).await.unwrap();
        let before = kept.socket.file.identity;
        set_mode(0o777);
        fs::remove_file(&path).unwrap();
        for _ in 0..3 {
            kept.check_file().await;
        }
        assert!(kept.last_warning.as_ref().is_some_and(|why| why.contains("lets everybody write")), "{kept:?}");
        assert_eq!((path.exists(), kept.socket.file.identity), (false, before));
        set_mode(0o755);
        kept.check_file().await;
        UnixStream::connect(&path).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn connections_survive_their_sockets_file() {
        let (_folder, path) = folder();
        let mut kept = PersistentSocket::bind(path.clone()).await.unwrap();
        let client = UnixStream::connect(&path).await.unwrap();
        let server = kept.accept().await.unwrap();
        fs::remove_file(&path).unwrap();
        kept.check_file().await;
        server.writable().await.unwrap();
        assert_eq!(server.try_write(b"still here").unwrap(), 10);
        client.readable().await.unwrap();
        let mut buffer = [0; 16];
        assert_eq!(client.try_read(&mut buffer).unwrap(), 10);
    }
}
