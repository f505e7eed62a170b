//! Reads the files of a configuration.
//!
//! # Guarantees
//!
//! - *Regular files only*: a FIFO, directory, socket or device is refused at once ([`larder_file`]).
//! - *At most one stuck read for each file*: a read from a file system that hangs may never end. Until the read ends, further
//!   reads of the file fail.
//!
//! # Locks
//!
//! One, over the set of files that are being read. No file is read under the lock.

use larder_file::open_regular;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The files that are being read. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Files(Arc<Mutex<BTreeSet<PathBuf>>>);

impl Files {
    /// Reads at most one byte more than `largest` of a file. Blocks.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ResourceBusy`] while an earlier read of the file has not ended.
    pub(crate) fn read(&self, path: &Path, largest: u64) -> io::Result<Zeroizing<Vec<u8>>> {
        let _begun = self.begin(path)?;
        let mut bytes = Zeroizing::new(Vec::with_capacity(16 << 10));
        open_regular(path)?.take(largest.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Checks that a file can be opened. Blocks.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub(crate) fn check(&self, path: &Path) -> io::Result<()> {
        let _begun = self.begin(path)?;
        open_regular(path).map(drop)
    }

    /// The first by name of the files that are being read.
    pub(crate) fn first_in_read(&self) -> Option<PathBuf> {
        self.0.lock().first().cloned()
    }

    /// How many reads of the configuration have not ended: each holds a clone.
    pub(crate) fn reads_in_flight(&self) -> usize {
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

/// Marks a file as being read until dropped.
pub(crate) struct Begun<'a> {
    files: &'a Files,
    path: PathBuf,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.files.0.lock().remove(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    #[test]
    fn no_more_of_a_file_is_read_than_shows_that_it_is_too_large() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        assert_eq!(Files::default().read(&path, 2).unwrap().as_slice(), b"tex");
        Files::default().check(&path).unwrap();
        for read in [Files::default().read(folder.path(), 2).map(drop), Files::default().check(folder.path())] {
            assert_eq!(read.unwrap_err().to_string(), "it is a directory; put a regular file in its place");
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
