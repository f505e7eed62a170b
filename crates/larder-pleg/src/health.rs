//! The health of the PLEG: unhealthy if no relist has succeeded for too long.

use crate::error::RuntimeError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Why the PLEG does not count as healthy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unhealthy {
    /// No relist has succeeded yet.
    #[error("the container runtime has not been listed yet{}", Because(.error.as_deref()))]
    NeverRelisted {
        /// Why the last attempt failed, if there was one.
        error: Option<Arc<RuntimeError>>,
    },
    /// The last successful relist began too long ago.
    #[error(
        "the container runtime was last listed {ago:?} ago, more than the threshold of {threshold:?}{}",
        Because(.error.as_deref())
    )]
    Stalled {
        /// How long ago it began.
        ago: Duration,
        /// How long ago it may have begun.
        threshold: Duration,
        /// Why the last attempt since then failed, if there was one.
        error: Option<Arc<RuntimeError>>,
    },
}

struct Because<'a>(Option<&'a RuntimeError>);

impl fmt::Display for Because<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |error| write!(f, ": {error}"))
    }
}
