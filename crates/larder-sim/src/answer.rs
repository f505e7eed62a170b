//! The result lines, with their keys in order.

use serde::{Serialize, Serializer};
use std::sync::Arc;

/// What one operation gave, or the closing line; a field that does not apply is not printed.
#[derive(Default, Serialize)]
pub(crate) struct Answer {
    // In the order of the alphabet, which is the order in which they are printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Arc<str>>,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) empty: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) end: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fetches: Option<Vec<Fetched>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pending: Option<Pending>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rv: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<Nullable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) updated: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) woken: Vec<Answer>,
}

/// A fetch that a read made.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Fetched {
    pub(crate) from_cache: bool,
}

/// Of one wait: that it is open. At the end: which are.
pub(crate) enum Pending {
    Yes,
    Ids(Vec<i64>),
}

impl Serialize for Pending {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Yes => serializer.serialize_bool(true),
            Self::Ids(ids) => ids.serialize(serializer),
        }
    }
}

/// A status that is printed also where it is null.
pub(crate) struct Nullable(pub(crate) Option<Arc<str>>);

impl Serialize for Nullable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

// The signature is serde's.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(value: &bool) -> bool {
    !value
}
