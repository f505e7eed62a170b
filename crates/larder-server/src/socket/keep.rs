//! A socket that is made anew when its file is gone: removed by hand, or by what cleans `/run`.
//!
//! A listener goes on without its file, and nobody can connect to it: agents would be told for ever that there is no such
//! socket. So the file is looked at again and again.
//!
//! # Guarantees
//!
//! - Where nothing has the path, it is listened on again at the next look; that is told with a warning.
//! - What has the path in the meantime, a second daemon's socket above all, is first left alone for one look more, so that it
//!   is not met half made. If it is there still, it is treated as at a start: another's socket stays its own and is named in a
//!   warning, one that nobody listens on is replaced, anything else is refused.
//! - Connections that are open stay open, whatever becomes of the file.

use super::{Identity, Socket, SocketError, bind, identity};
use std::error::Error as _;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::{Interval, MissedTickBehavior};

/// How often the file is looked at: agents that retry find it within their usual pauses.
const LOOK: Duration = Duration::from_secs(2);

/// A socket that is listened on, at a path that is kept.
#[derive(Debug)]
pub(crate) struct KeptSocket {
    path: PathBuf,
    socket: Socket,
    looks: Interval,
    /// What had the path at the last look, if it was another file than the one made here.
    stranger: Option<Identity>,
    /// Why the path could not be had again at the last try. Told once.
    told: Option<String>,
}

impl KeptSocket {
    /// Listens on the path, as [`bind`] does.
    ///
    /// # Errors
    ///
    /// As [`bind`].
    pub(crate) async fn bind(path: PathBuf) -> Result<Self, SocketError> {
        let socket = bind(&path).await?;
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self { path, socket, looks, stranger: None, told: None })
    }

    /// The next connection.
    ///
    /// # Cancel safety
    ///
    /// No connection is lost; a look at the file that was under way is made at the next time.
    pub(crate) async fn accept(&mut self) -> io::Result<UnixStream> {
        loop {
            tokio::select! {
                accepted = self.socket.listener.accept() => return accepted.map(|(stream, _)| stream),
                _ = self.looks.tick() => self.look().await,
            }
        }
    }

    /// Looks whether the file is there, and makes it anew if that can be done.
    async fn look(&mut self) {
        let found = identity(&self.path);
        if found == Some(self.socket.file.identity) {
            (self.stranger, self.told) = (None, None);
            return;
        }
        if found.is_some() && found != self.stranger {
            self.stranger = found;
            return;
        }
        match bind(&self.path).await {
            Ok(socket) => {
                let path = self.path.display();
                tracing::warn!(%path, "somebody removed or replaced the socket's file: listening on a new one");
                // The one before is dropped with its file, which is not this one: see `SocketFile`.
                self.socket = socket;
                (self.stranger, self.told) = (None, None);
            }
            Err(error) => self.tell(&error),
        }
    }

    fn tell(&mut self, error: &SocketError) {
        let why = error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
        if self.told.as_ref() == Some(&why) {
            tracing::debug!(why, "still cannot listen on the socket's path");
        } else {
            tracing::warn!(
                why,
                "somebody removed or replaced the socket's file, and nobody can connect: retrying until the path is free"
            );
            self.told = Some(why);
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
            let mut socket = KeptSocket::bind(path.to_owned()).await.unwrap();
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

    /// Lets a few looks pass.
    async fn looks() {
        tokio::time::sleep(5 * LOOK).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_was_removed_is_made_anew_with_its_folder() {
        let (folder, path) = folder();
        let _accepting = Accepting::on(&path).await;
        for _ in 0..3 {
            fs::remove_file(&path).unwrap();
            tokio::time::sleep(2 * LOOK).await;
            UnixStream::connect(&path).await.unwrap();
        }
        fs::remove_dir_all(folder.path().join("run")).unwrap();
        looks().await;
        UnixStream::connect(&path).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_there_is_left_alone() {
        let (_folder, path) = folder();
        let accepting = Accepting::on(&path).await;
        let before = identity(&path);
        looks().await;
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
        looks().await;
        assert_eq!(identity(&path), seconds);
        second.end().await;
        looks().await;
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
        looks().await;
        first.end().await;
        UnixStream::connect(&path).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_socket_that_is_being_made_is_not_taken_for_a_dead_one() {
        let (_folder, path) = folder();
        let mut kept = KeptSocket::bind(path.clone()).await.unwrap();
        fs::remove_file(&path).unwrap();
        // Bound, and not listened on yet: it refuses connections, as a dead one does.
        drop(UnixListener::bind(&path).unwrap());
        let second = identity(&path);
        kept.look().await;
        assert_eq!(identity(&path), second, "left alone at first");
        kept.look().await;
        assert_eq!(identity(&path), Some(kept.socket.file.identity), "dead after all");
        UnixStream::connect(&path).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_socket_is_kept_and_told_once() {
        let (_folder, path) = folder();
        let mut kept = KeptSocket::bind(path.clone()).await.unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        for _ in 0..3 {
            kept.look().await;
        }
        assert!(kept.told.as_ref().is_some_and(|why| why.contains("is not a socket")), "{kept:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
        kept.look().await;
        assert_eq!((identity(&path), &kept.told), (Some(kept.socket.file.identity), &None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_folder_that_others_may_write_since_the_start_is_refused_until_they_may_not() {
        use std::os::unix::fs::PermissionsExt as _;
        let (folder, path) = folder();
        let set_mode = |mode| fs::set_permissions(folder.path().join("run"), fs::Permissions::from_mode(mode)).unwrap();
        let mut kept = KeptSocket::bind(path.clone()).await.unwrap();
        let before = kept.socket.file.identity;
        set_mode(0o777);
        fs::remove_file(&path).unwrap();
        for _ in 0..3 {
            kept.look().await;
        }
        assert!(kept.told.as_ref().is_some_and(|why| why.contains("lets everybody write")), "{kept:?}");
        assert_eq!((path.exists(), kept.socket.file.identity), (false, before));
        set_mode(0o755);
        kept.look().await;
        UnixStream::connect(&path).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn connections_survive_their_sockets_file() {
        let (_folder, path) = folder();
        let mut kept = KeptSocket::bind(path.clone()).await.unwrap();
        let client = UnixStream::connect(&path).await.unwrap();
        let server = kept.accept().await.unwrap();
        fs::remove_file(&path).unwrap();
        kept.look().await;
        server.writable().await.unwrap();
        assert_eq!(server.try_write(b"still here").unwrap(), 10);
        client.readable().await.unwrap();
        let mut buffer = [0; 16];
        assert_eq!(client.try_read(&mut buffer).unwrap(), 10);
    }
}
