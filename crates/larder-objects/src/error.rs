//! Why a read has no object to give.

use crate::{FetchError, Freshness, ObjectKey};
use std::sync::Arc;

/// Why a read has no object to give.
///
/// ```
/// use larder_objects::{FetchError, GetError, ObjectKey};
///
/// #[derive(Debug, thiserror::Error)]
/// #[error("the API server does not answer")]
/// struct Unavailable;
/// impl FetchError for Unavailable {
///     fn is_not_found(&self) -> bool {
///         false
///     }
///     fn class(&self) -> &'static str {
///         "failed"
///     }
/// }
/// let error: GetError<Unavailable> = GetError::NotRegistered { key: ObjectKey::new("shop", "db") };
/// assert!(error.is_not_registered() && !error.is_not_found());
/// assert_eq!(
///     error.to_string(),
///     "object shop/db is not registered: no pod of this node refers to it; register such a pod, then read again"
/// );
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GetError<E> {
    /// No registered pod refers to the object, so it was not even looked for.
    #[error("object {key} is not registered: no pod of this node refers to it; register such a pod, then read again")]
    NotRegistered {
        /// Which object.
        key: ObjectKey,
    },
    /// The source said that there is no such object.
    #[error("object {key} does not exist; create it, or take the reference to it out of the pod")]
    NotFound {
        /// Which object.
        key: ObjectKey,
        /// When the source said so, and whether it was asked again for this answer.
        freshness: Freshness,
    },
    /// The object could not be fetched, and nothing is cached.
    #[error("object {key} could not be fetched and none is cached; it is fetched anew at the next read")]
    Fetch {
        /// Which object.
        key: ObjectKey,
        /// Why.
        #[source]
        source: Arc<E>,
    },
}

impl<E> GetError<E> {
    /// Whether no registered pod refers to the object.
    pub const fn is_not_registered(&self) -> bool {
        matches!(self, Self::NotRegistered { .. })
    }

    /// Whether the object is known to be absent.
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether nothing is known of the object because the fetch failed.
    pub const fn is_fetch_failed(&self) -> bool {
        matches!(self, Self::Fetch { .. })
    }

    /// Which object was asked for.
    pub const fn key(&self) -> &ObjectKey {
        match self {
            Self::NotRegistered { key } | Self::NotFound { key, .. } | Self::Fetch { key, .. } => key,
        }
    }
}

impl<E: FetchError> GetError<E> {
    /// A short name for the kind of failure, from a fixed set: `not_registered`, `not_found` or the fetch's
    /// [`class`](FetchError::class).
    pub fn class(&self) -> &'static str {
        match self {
            Self::NotRegistered { .. } => "not_registered",
            Self::NotFound { .. } => "not_found",
            Self::Fetch { source, .. } => source.class(),
        }
    }
}

impl<E> Clone for GetError<E> {
    fn clone(&self) -> Self {
        match self {
            Self::NotRegistered { key } => Self::NotRegistered { key: key.clone() },
            Self::NotFound { key, freshness } => Self::NotFound { key: key.clone(), freshness: *freshness },
            Self::Fetch { key, source } => Self::Fetch { key: key.clone(), source: Arc::clone(source) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FreshState, Source};
    use larder_clock::Timestamp;
    use std::error::Error;

    #[derive(Debug, thiserror::Error)]
    #[error("the API server does not answer")]
    struct Unavailable;

    impl FetchError for Unavailable {
        fn is_not_found(&self) -> bool {
            false
        }

        fn class(&self) -> &'static str {
            "unavailable"
        }
    }

    #[test]
    fn each_kind_says_which_object_and_what_to_do() {
        let key = || ObjectKey::new("shop", "db");
        let freshness = Freshness::new(Timestamp::ZERO, Source::LiveRead, FreshState::Fresh);
        let table: [(GetError<Unavailable>, [bool; 3], &str, &str); 3] = [
            (
                GetError::NotRegistered { key: key() },
                [true, false, false],
                "not_registered",
                "object shop/db is not registered: no pod of this node refers to it; register such a pod, then read again",
            ),
            (
                GetError::NotFound { key: key(), freshness },
                [false, true, false],
                "not_found",
                "object shop/db does not exist; create it, or take the reference to it out of the pod",
            ),
            (
                GetError::Fetch { key: key(), source: Arc::new(Unavailable) },
                [false, false, true],
                "unavailable",
                "object shop/db could not be fetched and none is cached; it is fetched anew at the next read",
            ),
        ];
        for (error, [not_registered, not_found, failed], class, text) in table {
            for error in [error.clone(), error] {
                assert_eq!(error.is_not_registered(), not_registered);
                assert_eq!(error.is_not_found(), not_found);
                assert_eq!(error.is_fetch_failed(), failed);
                assert_eq!((error.key(), error.class()), (&key(), class));
                assert_eq!(error.to_string(), text);
                assert_eq!(error.source().map(ToString::to_string), failed.then(|| Unavailable.to_string()));
            }
        }
    }
}
