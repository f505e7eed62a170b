//! One watch for a whole namespace.

use super::{After, item::Link};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// The referenced objects of a namespace, taken together.
pub(super) struct Namespace<E, H> {
    link: Option<Link<E, H>>,
}

impl<E, H> Namespace<E, H> {
    pub(super) fn link(&self) -> Option<&Link<E, H>> {
        self.link.as_ref()
    }

    pub(super) const fn is_watched(&self) -> bool {
        self.link.is_some()
    }

    /// One more object of the namespace is referenced. Whether the namespace's watch has it.
    pub(super) fn take_in(_namespaces: &mut HashMap<Box<str>, Self, RandomState>, _namespace: &str) -> bool {
        false
    }

    /// One object less.
    pub(super) fn let_go<O>(
        _namespaces: &mut HashMap<Box<str>, Self, RandomState>,
        _namespace: &str,
        _after: &mut After<O, H>,
    ) {
    }
}
