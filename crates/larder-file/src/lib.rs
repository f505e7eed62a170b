#![doc(test(attr(deny(warnings))))]
//! Opens the regular files that a daemon reads again and again: settings, credentials and manifests; the [folders](folder) in which
//! nobody else can replace a file; the [files](private) that only their owner may read; and [files](append) that grow by lines.
//!
//! # Guarantees
//!
//! - *Regular files only*: a FIFO, directory, socket or device is refused at once. Opening a FIFO would wait for its writer,
//!   opening a device can act on it, and a device may never end. A link to a regular file is opened.
//! - *No race*: a FIFO or device that takes the file's place while it is opened is refused too.
//!
//! # Limits
//!
//! Opening blocks for as long as the file system does not answer.
//!
//! # Example
//!
//! ```
//! let folder = tempfile::tempdir()?;
//! let error = larder_file::open_regular(folder.path()).unwrap_err();
//! assert_eq!(error.to_string(), "it is a directory; put a regular file in its place");
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod append;
pub mod folder;
pub mod private;

use rustix::fs::OFlags;
use std::fs::{self, File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Something other than a regular file.
///
/// ```
/// let folder = tempfile::tempdir()?;
/// let error = larder_file::require_regular(folder.path().metadata()?.file_type()).unwrap_err();
/// assert_eq!(error.to_string(), "it is a directory; put a regular file in its place");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is {found}; put a regular file in its place")]
pub struct NotRegular {
    /// The type of the file in words, with an article.
    found: &'static str,
}

/// Opens a regular file for reading.
///
/// # Errors
///
/// The file system's errors. If the path is not a regular file, an error of kind [`Other`](io::ErrorKind::Other) around
/// [`NotRegular`].
///
/// ```
/// use std::io::Read;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("token");
/// std::fs::write(&path, "secret")?;
/// let mut text = String::new();
/// larder_file::open_regular(&path)?.take(100).read_to_string(&mut text)?;
/// assert_eq!(text, "secret");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn open_regular(path: &Path) -> io::Result<File> {
    // The first look is for devices, which opening can act on. The flags and the second look are for a FIFO or device that takes
    // the file's place in between.
    require_regular(fs::metadata(path)?.file_type()).map_err(io::Error::other)?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    require_regular(file.metadata()?.file_type()).map_err(io::Error::other)?;
    Ok(file)
}

/// Checks that this is the type of a regular file.
///
/// # Errors
///
/// [`NotRegular`] names the type.
///
/// ```
/// let folder = tempfile::tempdir()?;
/// assert!(larder_file::require_regular(folder.path().metadata()?.file_type()).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn require_regular(file: FileType) -> Result<(), NotRegular> {
    let found = if file.is_file() {
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
    Err(NotRegular { found })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, mkfifoat};
    use std::os::unix::net::UnixListener;
    use tempfile::TempDir;

    #[test]
    fn only_regular_files_are_opened_and_the_error_names_what_another_one_is() {
        let folder = TempDir::new().unwrap();
        let path = |name: &str| folder.path().join(name);
        mkfifoat(CWD, path("fifo"), Mode::RUSR).unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        for (path, found) in [
            (path("fifo"), "a FIFO"),
            (path("socket"), "a socket"),
            (folder.path().to_owned(), "a directory"),
            ("/dev/zero".into(), "a device"),
        ] {
            let error = open_regular(&path).unwrap_err().to_string();
            assert_eq!(error, format!("it is {found}; put a regular file in its place"));
        }
        for name in ["file", "link"] {
            assert_eq!(io::read_to_string(open_regular(&path(name)).unwrap()).unwrap(), "text");
        }
        assert_eq!(open_regular(&path("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
