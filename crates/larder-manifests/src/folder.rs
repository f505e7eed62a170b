//! The files of a folder, as they are now.

use larder_file::{NotRegular, open_regular, require_regular};
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// What tells one state of a file from another without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        Self {
            file: (meta.dev(), meta.ino()),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// A file that could hold manifests.
pub(crate) struct Candidate {
    pub(crate) name: OsString,
    pub(crate) path: PathBuf,
    /// Or why it cannot be read, in words.
    pub(crate) stamp: Result<Stamp, String>,
}

/// Why a file was not read.
pub(crate) enum Unread {
    /// It is not there any more.
    Gone,
    /// What is wrong with it, in words.
    Problem(String),
}

impl Unread {
    fn of(path: &Path, error: &io::Error) -> Self {
        // A link to nothing is still there.
        let is_gone = |path| fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        if error.kind() == io::ErrorKind::NotFound && is_gone(path) {
            Self::Gone
        } else {
            Self::Problem(error.to_string())
        }
    }
}

impl From<String> for Unread {
    fn from(problem: String) -> Self {
        Self::Problem(problem)
    }
}

/// What identifies the folder itself, to see that another one has taken its place.
pub(crate) fn identity(folder: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(folder).map(|meta| (meta.dev(), meta.ino()))
}

/// The files that could hold manifests, ordered by name, at most as many as the limit; true where there are more.
pub(crate) fn list(folder: &Path, limit: usize) -> io::Result<(Vec<Candidate>, bool)> {
    let mut names = Vec::new();
    let mut more = false;
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if !is_manifest(Path::new(&name)) {
            continue;
        }
        names.push(name);
        if names.len() > limit.saturating_mul(2) {
            // Keeps the first by name in bounded memory.
            names.sort();
            names.truncate(limit);
            more = true;
        }
    }
    names.sort();
    more |= names.len() > limit;
    names.truncate(limit);
    let mut candidates = Vec::with_capacity(names.len());
    for name in names {
        let path = folder.join(&name);
        let stamp = match fs::metadata(&path) {
            Ok(meta) => require_regular(meta.file_type()).map(|()| Stamp::of(&meta)).map_err(other_ending),
            Err(error) => match Unread::of(&path, &error) {
                Unread::Gone => {
                    // Not if it has gone with the folder.
                    identity(folder)?;
                    continue;
                }
                Unread::Problem(problem) => Err(problem),
            },
        };
        candidates.push(Candidate { name, path, stamp });
    }
    Ok((candidates, more))
}

fn other_ending(error: NotRegular) -> String {
    format!("{error}, or give it another ending")
}

fn is_manifest(name: &Path) -> bool {
    let hidden = name.as_os_str().as_encoded_bytes().starts_with(b".");
    let extension = name.extension().and_then(|extension| extension.to_str());
    !hidden && matches!(extension, Some("yaml" | "yml" | "json"))
}

/// A file's text, and the state of the file that it was read from.
///
/// # Errors
///
/// That the file is gone, or what is wrong with it.
pub(crate) fn read(path: &Path, limit: u64) -> Result<(Zeroizing<String>, Stamp), Unread> {
    let in_words = |error: io::Error| error.to_string();
    // Something else may have taken its place since it was listed.
    let mut file = open_regular(path).map_err(|error| match error.downcast::<NotRegular>() {
        Ok(error) => Unread::Problem(other_ending(error)),
        Err(error) => Unread::of(path, &error),
    })?;
    let meta = file.metadata().map_err(in_words)?;
    let before = Stamp::of(&meta);
    if before.size > limit {
        return Err(format!("it is larger than {limit} bytes").into());
    }
    // Room for all of it at once: growing would leave copies behind.
    let room = usize::try_from(before.size).unwrap_or_default().saturating_add(1);
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    file.by_ref().take(limit + 1).read_to_end(&mut bytes).map_err(in_words)?;
    if bytes.len() as u64 > limit {
        return Err(format!("it is larger than {limit} bytes").into());
    }
    let after = Stamp::of(&file.metadata().map_err(in_words)?);
    if before != after || bytes.len() as u64 != after.size {
        return Err("it is being written".to_owned().into());
    }
    match String::from_utf8(std::mem::take(&mut *bytes)) {
        Ok(text) => Ok((Zeroizing::new(text), after)),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let bytes = Zeroizing::new(error.into_bytes());
            let line = bytes.iter().take(valid).fold(1, |line, byte| line + usize::from(*byte == b'\n'));
            Err(format!("line {line} is not UTF-8").into())
        }
    }
}
