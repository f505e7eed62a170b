//! How much of an object may be seen.

use std::collections::BTreeSet;
use std::sync::Arc;

/// How much of an object may be seen.
///
/// ```
/// use larder_policy::{Extent, Keys};
/// let password = Extent::of_keys(Keys::named(["password"]));
/// let user = Extent::of_keys(Keys::named(["user"]));
/// assert_eq!(password.and(user), Extent::of_keys(Keys::named(["password", "user"])));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// A part of it.
    Part {
        /// Of its metadata.
        metadata: Metadata,
        /// Of the data of a Secret or ConfigMap.
        keys: Keys,
    },
}

impl Extent {
    /// Name, UID, version, times and labels, and these keys of the data. What a container sees of its references.
    pub const fn of_keys(keys: Keys) -> Self {
        Self::Part { metadata: Metadata::Identity, keys }
    }

    /// Name, UID, version, times and labels. What a watch shows of an object that left the caller's view.
    pub fn identity() -> Self {
        Self::of_keys(Keys::none())
    }

    /// As [`identity`](Self::identity), with [well-known labels](crate::NODE_LABELS) alone. What a pod sees of its node.
    pub fn node() -> Self {
        Self::Part { metadata: Metadata::Node, keys: Keys::none() }
    }

    /// What of it is not data: at most the [identity](Self::identity).
    #[must_use]
    pub fn without_data(self) -> Self {
        match self {
            Self::Whole => Self::identity(),
            Self::Part { metadata, keys: _ } => Self::Part { metadata, keys: Keys::none() },
        }
    }

    /// What can be seen with either of the two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Part { metadata, keys }, Self::Part { metadata: also, keys: more }) => {
                Self::Part { metadata: metadata.max(also), keys: keys.and(more) }
            }
            (Self::Whole, _) | (_, Self::Whole) => Self::Whole,
        }
    }
}

/// How much of the metadata of an object may be seen. The second shows more than the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metadata {
    /// As `Identity`, with [well-known labels](crate::NODE_LABELS) alone.
    Node,
    /// Name, namespace, UID, version, generation, the times of creation and deletion, and labels.
    Identity,
}

/// Keys of the data of a Secret or ConfigMap.
///
/// ```
/// use larder_policy::Keys;
/// assert!(Keys::named(["a"]).has("a") && !Keys::named(["a"]).has("b") && Keys::All.has("b"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Every key.
    All,
    /// The keys of these names, whether or not the object has them.
    Named(Arc<BTreeSet<String>>),
}

impl Keys {
    /// No key.
    pub fn none() -> Self {
        Self::Named(Arc::default())
    }

    /// The keys of these names.
    pub fn named<T: Into<String>>(keys: impl IntoIterator<Item = T>) -> Self {
        Self::Named(Arc::new(keys.into_iter().map(Into::into).collect()))
    }

    /// Whether this key may be seen.
    pub fn has(&self, key: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(keys) => keys.contains(key),
        }
    }

    /// The keys of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Named(mut keys), Self::Named(more)) => {
                if keys.is_empty() {
                    return Self::Named(more);
                }
                if !more.is_subset(&keys) {
                    Arc::make_mut(&mut keys).extend(more.iter().cloned());
                }
                Self::Named(keys)
            }
            (Self::All, _) | (_, Self::All) => Self::All,
        }
    }
}
