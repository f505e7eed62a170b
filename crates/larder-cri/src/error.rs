//! What can be wrong before a runtime is asked anything.

use larder_pleg::RuntimeError;

/// Why there is no client of a runtime.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CriError {
    /// The endpoint cannot be used.
    #[error("container runtime endpoint {endpoint:?}: {reason}")]
    InvalidEndpoint {
        /// The endpoint as it was given.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A setting cannot work.
    #[error("{field}: {reason}")]
    InvalidOption {
        /// The name of the field of [`CriOptions`](crate::CriOptions).
        field: &'static str,
        /// What is wrong with its value.
        reason: String,
    },
    /// The runtime does not answer, or is none.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

impl CriError {
    /// Whether there is no connection to the runtime, so that it may well work once it has been started.
    ///
    /// ```
    /// assert!(!larder_cri::parse_endpoint("tcp://a").unwrap_err().is_unavailable());
    /// ```
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Runtime(error) if error.is_unavailable())
    }
}
