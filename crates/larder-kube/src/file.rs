//! Reads the files of a configuration.
//!
//! # Guarantees
//!
//! - *Regular files only*: a FIFO, directory, socket or device is refused at once. Opening a FIFO would wait for its writer.
//! - *At most one stuck read for each file*: a file system that does not answer keeps its read for ever. Until that read has
//!   ended, further reads of the same file are refused.
//!
//! # Locks
//!
//! One, over the set of files that are being read. Nothing is read under it.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The files that are being read. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Files(Arc<Mutex<BTreeSet<PathBuf>>>);

impl Files {
    /// The beginning of a file, at most one byte more than `largest`. It blocks.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ResourceBusy`] while an earlier read of the file has not ended.
    pub(crate) fn read(&self, path: &Path, largest: u64) -> io::Result<Zeroizing<Vec<u8>>> {
        let _begun = self.begin(path)?;
        let mut bytes = Zeroizing::new(Vec::with_capacity(16 << 10));
        open(path)?.take(largest.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Checks that a file can be opened. It blocks.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub(crate) fn check(&self, path: &Path) -> io::Result<()> {
        let _begun = self.begin(path)?;
        open(path).map(drop)
    }

    /// The first by name of the files that are being read.
    pub(crate) fn first_in_read(&self) -> Option<PathBuf> {
        self.0.lock().first().cloned()
    }

    /// How many clones there are besides this one.
    pub(crate) fn others(&self) -> usize {
        Arc::strong_count(&self.0).saturating_sub(1)
    }

    pub(crate) fn begin(&self, path: &Path) -> io::Result<Begun<'_>> {
        if self.0.lock().insert(path.to_owned()) {
            return Ok(Begun { files: self, path: path.to_owned() });
        }
        let problem = "an earlier read of it has not ended; check the file system that it is on";
        Err(io::Error::new(ErrorKind::ResourceBusy, problem))
    }
}

/// A file is being read until this is dropped.
pub(crate) struct Begun<'a> {
    files: &'a Files,
    path: PathBuf,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.files.0.lock().remove(&self.path);
    }
}

fn open(path: &Path) -> io::Result<File> {
    // Opening a device can act on it, so the type is looked at before. The flags are for what takes the file's place since.
    is_regular(fs::metadata(path)?.file_type())?;
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    is_regular(file.metadata()?.file_type())?;
    Ok(file)
}

fn is_regular(file: FileType) -> io::Result<()> {
    let what = if file.is_file() {
        return Ok(());
    } else if file.is_dir() {
        "a directory"
    } else if file.is_fifo() {
        "a FIFO"
    } else if file.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(io::Error::other(format!("it is {what}; put a regular file in its place")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, mkfifoat};
    use std::os::unix::net::UnixListener;
    use tempfile::TempDir;

    #[test]
    fn only_regular_files_are_opened_and_what_another_one_is_is_told() {
        let folder = TempDir::new().unwrap();
        let path = |name: &str| folder.path().join(name);
        mkfifoat(CWD, path("fifo"), Mode::RUSR).unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        for (path, what) in [
            (path("fifo"), "a FIFO"),
            (path("socket"), "a socket"),
            (folder.path().to_owned(), "a directory"),
            ("/dev/zero".into(), "a device"),
        ] {
            let told = Files::default().read(&path, 10).unwrap_err().to_string();
            assert_eq!(told, format!("it is {what}; put a regular file in its place"));
            assert_eq!(Files::default().check(&path).unwrap_err().to_string(), told);
        }
        for name in ["file", "link"] {
            assert_eq!(Files::default().read(&path(name), 2).unwrap().as_slice(), b"tex");
            Files::default().check(&path(name)).unwrap();
        }
    }

    #[test]
    fn a_file_is_read_once_at_a_time() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        let files = Files::default();
        let begun = files.begin(&path).unwrap();
        assert_eq!(files.first_in_read().as_ref(), Some(&path));
        let error = files.clone().read(&path, 10).unwrap_err();
        assert!(error.kind() == ErrorKind::ResourceBusy && error.to_string().contains("has not ended"), "{error}");
        drop(begun);
        assert_eq!(files.read(&path, 10).unwrap().as_slice(), b"text");
        assert_eq!(files.first_in_read(), None);
    }
}
