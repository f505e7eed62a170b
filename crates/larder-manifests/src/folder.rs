//! The files of a folder, as they are now.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
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
    /// Or why it cannot be looked at.
    pub(crate) stamp: io::Result<Stamp>,
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
    let candidates = names.into_iter().filter_map(|name| {
        let path = folder.join(&name);
        let stamp = match fs::metadata(&path) {
            Ok(meta) if meta.is_file() => Ok(Stamp::of(&meta)),
            // A folder, a socket or a pipe is no manifest, whatever its name.
            Ok(_) => return None,
            // Gone since it was listed; a link to nothing is still there.
            Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(&path).is_err() => {
                return None;
            }
            Err(error) => Err(error),
        };
        Some(Candidate { name, path, stamp })
    });
    Ok((candidates.collect(), more))
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
/// What is wrong with the file, in words.
pub(crate) fn read(path: &Path, limit: u64) -> Result<(Zeroizing<String>, Stamp), String> {
    let in_words = |error: io::Error| error.to_string();
    let mut file = File::open(path).map_err(in_words)?;
    let before = Stamp::of(&file.metadata().map_err(in_words)?);
    if before.size > limit {
        return Err(format!("it is larger than {limit} bytes"));
    }
    // Room for all of it at once: growing would leave copies behind.
    let room = usize::try_from(before.size).unwrap_or_default().saturating_add(1);
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    file.by_ref().take(limit + 1).read_to_end(&mut bytes).map_err(in_words)?;
    if bytes.len() as u64 > limit {
        return Err(format!("it is larger than {limit} bytes"));
    }
    let after = Stamp::of(&file.metadata().map_err(in_words)?);
    if before != after || bytes.len() as u64 != after.size {
        return Err("it is being written".to_owned());
    }
    match String::from_utf8(std::mem::take(&mut *bytes)) {
        Ok(text) => Ok((Zeroizing::new(text), after)),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let bytes = Zeroizing::new(error.into_bytes());
            let line = bytes.iter().take(valid).fold(1, |line, byte| line + usize::from(*byte == b'\n'));
            Err(format!("line {line} is not UTF-8"))
        }
    }
}
