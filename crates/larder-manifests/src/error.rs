//! What can be wrong with a folder of manifests, and with what is in it.

use larder_objects::{FetchError, ObjectKey};
use larder_resource::Kind;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Why manifests cannot be served.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The folder cannot be read.
    #[error("manifest folder {}: {source}; give a folder that this process may read with --manifests", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: Arc<std::io::Error>,
    },
    /// Reading the folder does not come to an end.
    #[error("manifest folder {}: not read within {after:?}; is it on a file system that does not answer?", path.display())]
    Slow {
        /// The folder.
        path: PathBuf,
        /// How long it was waited for.
        after: std::time::Duration,
    },
    /// A setting makes no sense.
    #[error("setting {field}: {problem}")]
    InvalidOption {
        /// The field of [`ManifestOptions`](crate::ManifestOptions).
        field: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// No manifest has this object.
    #[error("{kind} {key} is in no manifest of {}", folder.display())]
    NotFound {
        /// Its kind.
        kind: Kind,
        /// Its namespace and name.
        key: ObjectKey,
        /// The folder.
        folder: PathBuf,
    },
    /// The folder has not been read yet.
    #[error("{kind} {key}: the manifests of {} have not been read yet; ask again in a moment", folder.display())]
    NotRead {
        /// Its kind.
        kind: Kind,
        /// Its namespace and name.
        key: ObjectKey,
        /// The folder.
        folder: PathBuf,
    },
    /// The folder was read before, and cannot be read now.
    #[error("{kind} {key}: the manifests of {} cannot be read any more, so what is known of it may be old", folder.display())]
    Lost {
        /// Its kind.
        kind: Kind,
        /// Its namespace and name.
        key: ObjectKey,
        /// The folder.
        folder: PathBuf,
    },
    /// The object was in a manifest before, which cannot be read as it is now.
    #[error("{kind} {key}: its manifest cannot be read any more, so what is known of it may be old: {problem}")]
    Broken {
        /// Its kind.
        kind: Kind,
        /// Its namespace and name.
        key: ObjectKey,
        /// What is wrong with the manifest.
        problem: Problem,
    },
    /// The object is in no manifest that can be read, but may be in one that cannot.
    #[error("{kind} {key} is in no manifest that can be read, and may be in one that cannot: {problem}")]
    Hidden {
        /// Its kind.
        kind: Kind,
        /// Its namespace and name.
        key: ObjectKey,
        /// What is wrong, the first of all.
        problem: Problem,
    },
}

impl FetchError for ManifestError {
    fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    fn class(&self) -> &'static str {
        match self {
            Self::Folder { .. } | Self::Lost { .. } | Self::Broken { .. } | Self::Hidden { .. } => "unreadable",
            Self::Slow { .. } => "timeout",
            Self::InvalidOption { .. } => "config",
            Self::NotFound { .. } => "not_found",
            Self::NotRead { .. } => "not_read",
        }
    }
}

/// Something in a manifest that is not served as it stands there.
/// It shows itself as in `/etc/larder/web.yaml:12:9: document 2: metadata.name: it is missing`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// Which document of the file, from 1; none where it is the file as a whole.
    pub document: Option<usize>,
    /// The line in the file, from 1, where it is known: of the mistake, otherwise of the document's beginning.
    pub line: Option<usize>,
    /// The column of a mistake, from 1, where it is known.
    pub column: Option<usize>,
    /// What is wrong and what follows from it.
    pub problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        if let Some(document) = self.document {
            write!(f, ": document {document}")?;
        }
        write!(f, ": {}", self.problem)
    }
}
