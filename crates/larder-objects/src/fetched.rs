//! What a fetch brought.

use crate::FetchError;
use std::sync::Arc;

/// What a fetch brought. Errors that count no further are dropped before a lock is taken: it is foreign code.
pub(crate) enum Fetched<O, E> {
    Object(Arc<O>),
    Absent,
    Failed(Arc<E>),
}

impl<O, E: FetchError> From<Result<Arc<O>, E>> for Fetched<O, E> {
    fn from(fetched: Result<Arc<O>, E>) -> Self {
        match fetched {
            Ok(object) => Self::Object(object),
            Err(error) if error.is_not_found() => Self::Absent,
            Err(error) => Self::Failed(Arc::new(error)),
        }
    }
}
