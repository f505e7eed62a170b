//! The errors of certificates and keys.

use larder_file::private::PrivateError;
use std::io;
use std::path::PathBuf;

/// Why certificates cannot be used or made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// An option is invalid.
    #[error("setting tls.{field}: {problem}")]
    Option {
        /// The field of [`TlsOptions`](crate::TlsOptions).
        field: &'static str,
        /// What is wrong with it, and which values are valid.
        problem: String,
    },
    /// A file of larder's own, or its folder.
    #[error(transparent)]
    Private(#[from] PrivateError),
    /// A file does not hold what it should.
    #[error("{path}: {problem}", path = path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// A file cannot be read.
    #[error("cannot read {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        source: io::Error,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate for {of}: {problem}")]
    Make {
        /// Whose certificate.
        of: String,
        /// Why it cannot be made.
        problem: String,
    },
}

impl TlsError {
    /// The error with all its causes, in a line.
    pub fn in_a_line(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}
