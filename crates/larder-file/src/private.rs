//! Files that only their owner may read: keys, and the credentials of clients.
//!
//! # Guarantees
//!
//! - *Owner only*: a new file has mode 0600, a new folder 0700. A file or folder that another user owns or may read is refused, and the
//!   error names the command that fixes it.
//! - *No links*: a link in the place of a file is neither read nor replaced.
//! - *Not of somebody else*: [`write()`] and [`TransientFile`] replace only a file that begins as what they write. A [`TransientFile`]
//!   removes only itself.
//! - *Not in use*: a [`TransientFile`] is locked until its process ends, however it ends. No other one replaces it until then.
//! - *Whole or not at all*: a file is written under another name, synced and renamed. After a crash the file is the old one or the new
//!   one.
//!
//! # Example
//!
//! ```
//! use larder_file::private::PrivateFolder;
//!
//! let folder = tempfile::tempdir()?;
//! let keys = PrivateFolder::open_or_make(&folder.path().join("keys"))?;
//! assert_eq!(keys.read("key.pem")?, None);
//! keys.write("key.pem", b"secret")?;
//! assert_eq!(keys.read("key.pem")?.as_deref(), Some(&b"secret"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::folder::{self, FolderError};
use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat, flock, fstat, fsync, openat, renameat_with,
    statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The most bytes of a file that is read.
const LARGEST: u64 = 1 << 20;
/// The mode bits of everybody but the owner.
const OTHERS: u32 = 0o077;

/// Why a private file or folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivateError {
    /// The path to the folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Others own it, or may read it.
    #[error("{path} must be closed to other users: {why}; {remedy}", path = path.display())]
    Exposed {
        /// The file or folder.
        path: PathBuf,
        /// Who else has access.
        why: String,
        /// The command that fixes it.
        remedy: String,
    },
    /// It is something else than a file.
    #[error("{path} is {found}: remove it, or choose another path", path = path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// The kind of file, with its article, such as "a link".
        found: &'static str,
    },
    /// It is larger than a key or certificate can be.
    #[error("{path} is larger than {LARGEST} bytes: it is not a file of keys", path = path.display())]
    TooLarge {
        /// The path.
        path: PathBuf,
    },
    /// Somebody else wrote the file.
    #[error("{path} exists, and this command of larder did not write it: remove it, or choose another path", path = path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The process that wrote the file still runs.
    #[error(
        "{path} is in use: the process of larder that wrote it still runs; use that file, end that process, or choose another path",
        path = path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The path has no file name.
    #[error("{path} names a folder: name a file in it", path = path.display())]
    NoName {
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

/// A folder of keys. Only its owner may enter it, and nobody else can replace it.
#[derive(Debug)]
pub struct PrivateFolder {
    folder: OwnedFd,
    path: PathBuf,
}

impl PrivateFolder {
    /// Opens the folder, or makes it with mode 0700.
    ///
    /// # Errors
    ///
    /// If the folder or one on the way to it is not safe, or if the system refuses.
    pub fn open_or_make(path: &Path) -> Result<Self, PrivateError> {
        Self::checked(&folder::open_or_make(path, 0o700)?, path)
    }

    /// Opens a folder that exists.
    ///
    /// # Errors
    ///
    /// As [`open_or_make`](Self::open_or_make).
    pub fn open(path: &Path) -> Result<Self, PrivateError> {
        Self::checked(&folder::open_safe(path)?, path)
    }

    fn checked(found: &OwnedFd, path: &Path) -> Result<Self, PrivateError> {
        let stat = fstat(found).map_err(io("inspect", path))?;
        refuse_exposed(path, &stat, "700")?;
        // The walk opened the folder only to identify it, which is not enough to sync it.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(found, ".", flags, Mode::empty()).map_err(io("open folder", path))?;
        Ok(Self { folder, path: path.to_owned() })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in the folder, for messages.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// What a file holds; `None` if there is no such file.
    ///
    /// # Errors
    ///
    /// If it is no regular file, or if others own it or may read it.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, PrivateError> {
        let path = self.path_of(name);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat(&self.folder, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            // The error of an open that follows no link.
            Err(Errno::LOOP) => return Err(PrivateError::NotAFile { path, found: "a link" }),
            opened => opened.map_err(io("open", &path))?,
        };
        let stat = fstat(&file).map_err(io("inspect", &path))?;
        refuse_other_types(&path, &stat)?;
        refuse_exposed(&path, &stat, "600")?;
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if size > LARGEST {
            return Err(PrivateError::TooLarge { path });
        }
        // Room for everything at once: a buffer that grows leaves copies of a key behind.
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default() + 1);
        let read = File::from(file).take(LARGEST).read_to_end(&mut bytes);
        read.map_err(|source| PrivateError::Io { action: "read", path, source })?;
        Ok(Some(bytes))
    }

    /// Writes a file, in place of the one that has the name.
    ///
    /// # Errors
    ///
    /// If something else than a file has the name, or if the system refuses. Then nothing has changed.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), PrivateError> {
        let (folder, name, path) = (self.folder.as_fd(), OsStr::new(name), self.path_of(name));
        NewFile::write(folder, name, &path, bytes)?.put_in_place(RenameFlags::empty()).map(drop)
    }
}

/// Writes a file that only its owner may read, in a folder of any owner. It replaces a file that has the path only if that one begins with
/// `head`, as what is written has to: a file of somebody else stays.
///
/// # Errors
///
/// If something else has the path, or if the system refuses. Then nothing has changed.
///
/// ```
/// let folder = tempfile::tempdir()?;
/// larder_file::private::write(&folder.path().join("kubeconfig"), b"# mine\n", b"# mine\nsecret")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(path: &Path, head: &[u8], bytes: &[u8]) -> Result<(), PrivateError> {
    let (name, folder) = split(path)?;
    refuse_foreign(folder.as_fd(), name, path, head)?;
    NewFile::write(folder.as_fd(), name, path, bytes)?.put_in_place(RenameFlags::empty()).map(drop)
}

/// A file that only its owner may read, and that does not outlast this value.
#[derive(Debug)]
pub struct TransientFile {
    folder: OwnedFd,
    name: OsString,
    path: PathBuf,
    /// Device and inode: another file that has taken the name stays.
    identity: (u64, u64),
    /// Locked, so that others see that it is in use.
    _file: File,
}

impl TransientFile {
    /// Writes the file, in a folder of any owner. It replaces a file that has the path only if that one begins with `head`, as what is
    /// written has to, and if the process that wrote that one has ended. A file of somebody else stays.
    ///
    /// # Errors
    ///
    /// If something else has the path, if the file is in use, or if the system refuses. Then nothing has changed.
    ///
    /// ```
    /// use larder_file::private::TransientFile;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("kubeconfig");
    /// let file = TransientFile::write(&path, b"# mine\n", b"# mine\nsecret")?;
    /// assert_eq!(std::fs::read(&path)?, b"# mine\nsecret");
    /// drop(file);
    /// assert!(!path.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write(path: &Path, head: &[u8], bytes: &[u8]) -> Result<Self, PrivateError> {
        let (name, folder) = split(path)?;
        // The lock of the old file is held until the new one has its place: of several processes, one replaces it.
        let old = refuse_foreign(folder.as_fd(), name, path, head)?;
        let in_use = || PrivateError::InUse { path: path.to_owned() };
        let lock = |file: &File| match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(in_use()),
            locked => locked.map_err(io("lock", path)),
        };
        let mut flags = RenameFlags::NOREPLACE;
        if let Some(old) = &old {
            lock(old)?;
            match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => {}
                found if identity(&found.map_err(io("inspect", path))?) == identity_of(old, path)? => {
                    flags = RenameFlags::empty();
                }
                // Another process has replaced it a moment ago.
                _ => return Err(in_use()),
            }
        }
        let new = NewFile::write(folder.as_fd(), name, path, bytes)?;
        lock(&new.file).inspect_err(|_| new.discard())?;
        let file = match new.put_in_place(flags) {
            Err(PrivateError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
                return Err(in_use());
            }
            placed => placed?,
        };
        let identity = identity_of(&file, path)?;
        Ok(Self { folder, name: name.to_owned(), path: path.to_owned(), identity, _file: file })
    }

    /// Removes the file. It is no error if somebody else has removed or replaced it.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn remove(self) -> Result<(), PrivateError> {
        self.unlink()
    }

    fn unlink(&self) -> Result<(), PrivateError> {
        let found = match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(()),
            found => found.map_err(io("inspect", &self.path))?,
        };
        if identity(&found) != self.identity {
            return Ok(());
        }
        match unlinkat(&self.folder, &self.name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => removed.map_err(io("remove", &self.path)),
        }
    }
}

impl Drop for TransientFile {
    fn drop(&mut self) {
        // Who needs to know calls `remove`.
        let _ = self.unlink();
    }
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

fn identity_of(file: &File, path: &Path) -> Result<(u64, u64), PrivateError> {
    Ok(identity(&fstat(file).map_err(io("inspect", path))?))
}

/// Refuses to replace a file that begins otherwise. Returns the file that is to be replaced.
fn refuse_foreign(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    path: &Path,
    head: &[u8],
) -> Result<Option<File>, PrivateError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(folder, name, flags, Mode::empty()) {
        // The write refuses a link or a socket, and names it.
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
        opened => opened.map_err(io("open", path))?,
    };
    refuse_other_types(path, &fstat(&file).map_err(io("inspect", path))?)?;
    let mut found = Vec::with_capacity(head.len());
    let file = File::from(file);
    let read = (&file).take(u64::try_from(head.len()).unwrap_or(u64::MAX)).read_to_end(&mut found);
    read.map_err(|source| PrivateError::Io { action: "read", path: path.to_owned(), source })?;
    if found == head { Ok(Some(file)) } else { Err(PrivateError::Foreign { path: path.to_owned() }) }
}

/// The name in a path, and its folder.
fn split(path: &Path) -> Result<(&OsStr, OwnedFd), PrivateError> {
    let name = path.file_name().ok_or_else(|| PrivateError::NoName { path: path.to_owned() })?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok((name, rustix::fs::open(folder, flags, Mode::empty()).map_err(io("open folder", folder))?))
}

/// A whole file under a name of its own, until it is put in its place.
struct NewFile<'a> {
    file: File,
    folder: BorrowedFd<'a>,
    /// Its name until it has its place.
    new: OsString,
    name: &'a OsStr,
    path: &'a Path,
}

impl<'a> NewFile<'a> {
    fn write(folder: BorrowedFd<'a>, name: &'a OsStr, path: &'a Path, bytes: &[u8]) -> Result<Self, PrivateError> {
        match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {}
            found => refuse_other_types(path, &found.map_err(io("inspect", path))?)?,
        }
        let new = new_name(name).map_err(io("find a name beside", path))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(folder, &new, flags, Mode::from_raw_mode(0o600)).map_err(io("create a file beside", path))?;
        let mut this = Self { file: File::from(file), folder, new, name, path };
        let written = this.file.write_all(bytes).and_then(|()| this.file.sync_all());
        written.map_err(|source| this.failed(source))?;
        Ok(this)
    }

    /// Gives the file its name.
    fn put_in_place(self, flags: RenameFlags) -> Result<File, PrivateError> {
        let renamed = match renameat_with(self.folder, &self.new, self.folder, self.name, flags) {
            // A file system that cannot tell.
            Err(Errno::INVAL) => renameat_with(self.folder, &self.new, self.folder, self.name, RenameFlags::empty()),
            renamed => renamed,
        };
        renamed.and_then(|()| fsync(self.folder)).map_err(|error| self.failed(error.into()))?;
        Ok(self.file)
    }

    fn discard(&self) {
        // The rename may have been done. Then nothing has this name.
        let _ = unlinkat(self.folder, &self.new, AtFlags::empty());
    }

    fn failed(&self, source: io::Error) -> PrivateError {
        self.discard();
        PrivateError::Io { action: "write", path: self.path.to_owned(), source }
    }
}

/// A name that no other file has.
fn new_name(name: &OsStr) -> Result<OsString, Errno> {
    let mut random = [0; 8];
    getrandom(&mut random, GetRandomFlags::empty())?;
    let mut new = OsString::from(".");
    new.push(name);
    new.push(format!(".{:016x}", u64::from_ne_bytes(random)));
    Ok(new)
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(Errno) -> PrivateError + use<> {
    let path = path.to_owned();
    move |error| PrivateError::Io { action, path, source: error.into() }
}

fn refuse_other_types(path: &Path, stat: &Stat) -> Result<(), PrivateError> {
    let found = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Symlink => "a link",
        FileType::Directory => "a directory",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        _ => "a device",
    };
    Err(PrivateError::NotAFile { path: path.to_owned(), found })
}

fn refuse_exposed(path: &Path, stat: &Stat, mode: &str) -> Result<(), PrivateError> {
    let exposed = |why, remedy| Err(PrivateError::Exposed { path: path.to_owned(), why, remedy });
    let own = geteuid().as_raw();
    if stat.st_uid != 0 && stat.st_uid != own {
        let remedy = format!("run larder as that user, or give it to this one (chown {own} {})", path.display());
        return exposed(format!("it belongs to user {}", stat.st_uid), remedy);
    }
    if stat.st_mode & OTHERS != 0 {
        let why = format!("its mode is {:04o}", stat.st_mode & 0o7777);
        return exposed(why, format!("forbid that (chmod {mode} {})", path.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_is_written_is_closed_to_others_and_leaves_nothing_else_behind() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/keys");
        let folder = PrivateFolder::open_or_make(&path).unwrap();
        for text in ["old", "new"] {
            folder.write("key", text.as_bytes()).unwrap();
            assert_eq!(folder.read("key").unwrap().unwrap(), text.as_bytes());
        }
        assert_eq!((mode(&root.path().join("a")), mode(&path), mode(&path.join("key"))), (0o755, 0o700, 0o600));
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
    }

    #[test]
    fn links_and_other_types_are_neither_read_nor_replaced() {
        let root = tempfile::tempdir().unwrap();
        let folder = PrivateFolder::open_or_make(&root.path().join("keys")).unwrap();
        let target = root.path().join("target");
        fs::write(&target, "of another").unwrap();
        symlink(&target, folder.path_of("link")).unwrap();
        symlink("nowhere", folder.path_of("dangling")).unwrap();
        fs::create_dir(folder.path_of("directory")).unwrap();
        for (name, found) in [("link", "a link"), ("dangling", "a link"), ("directory", "a directory")] {
            let expected = format!("{} is {found}: remove it, or choose another path", folder.path_of(name).display());
            assert_eq!(folder.write(name, b"x").unwrap_err().to_string(), expected);
            assert_eq!(folder.read(name).unwrap_err().to_string(), expected);
            assert_eq!(write(&folder.path_of(name), b"", b"x").unwrap_err().to_string(), expected);
        }
        assert_eq!(fs::read(&target).unwrap(), b"of another");
        assert!(write(Path::new("/"), b"", b"x").is_err());
    }

    #[test]
    fn a_file_or_folder_that_others_may_read_is_refused_with_the_command_that_fixes_it() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("keys");
        let folder = PrivateFolder::open_or_make(&path).unwrap();
        folder.write("key", b"x").unwrap();
        set_mode(&path.join("key"), 0o640);
        let error = folder.read("key").unwrap_err().to_string();
        assert!(error.contains("its mode is 0640") && error.contains("chmod 600"), "{error}");
        set_mode(&path, 0o750);
        for opened in [PrivateFolder::open(&path), PrivateFolder::open_or_make(&path)] {
            let error = opened.unwrap_err().to_string();
            assert!(error.contains("its mode is 0750") && error.contains("chmod 700"), "{error}");
        }
    }

    #[test]
    fn a_transient_file_goes_with_its_value_and_replaces_none_of_somebody_else() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("kubeconfig");
        let head = b"# mine\n";
        for foreign in [&b"apiVersion: v1"[..], b"# mi", b""] {
            fs::write(&path, foreign).unwrap();
            let error = TransientFile::write(&path, head, b"# mine\n1").unwrap_err();
            assert!(matches!(error, PrivateError::Foreign { .. }), "{error}");
            let error = write(&path, head, b"# mine\n1").unwrap_err();
            assert!(matches!(error, PrivateError::Foreign { .. }), "{error}");
            assert_eq!(fs::read(&path).unwrap(), foreign);
        }
        symlink("nowhere", root.path().join("link")).unwrap();
        let error = TransientFile::write(&root.path().join("link"), head, head).unwrap_err().to_string();
        assert!(error.contains("is a link"), "{error}");

        // What a process left behind that has ended is replaced, and what is in use is not.
        fs::write(&path, b"# mine\n0").unwrap();
        let first = TransientFile::write(&path, head, b"# mine\n1").unwrap();
        assert_eq!(mode(&path), 0o600);
        let error = TransientFile::write(&path, head, b"# mine\n2").unwrap_err().to_string();
        assert!(error.contains("is in use") && error.contains("another path"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"# mine\n1");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2, "no other file is left");

        // The end of the first removes nothing that has taken its place.
        fs::remove_file(&path).unwrap();
        let second = TransientFile::write(&path, head, b"# mine\n2").unwrap();
        first.remove().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"# mine\n2");
        second.remove().unwrap();
        assert!(!path.exists());
        let third = TransientFile::write(&path, head, head).unwrap();
        fs::remove_file(&path).unwrap();
        third.remove().unwrap();
    }

    #[test]
    fn a_folder_that_others_can_replace_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let open = root.path().join("open");
        fs::create_dir(&open).unwrap();
        set_mode(&open, 0o777);
        let error = PrivateFolder::open_or_make(&open.join("keys")).unwrap_err();
        assert!(matches!(error, PrivateError::Folder(FolderError::Unsafe { .. })), "{error:?}");
        let missing = PrivateFolder::open(&root.path().join("none")).unwrap_err();
        assert!(matches!(missing, PrivateError::Folder(FolderError::Io { .. })), "{missing:?}");
    }
}
