//! A registered pod in one allocation: who it is, and the sorted names that it refers to.

use crate::key::{len_of_part, push_part, split_len, strip_part};
use crate::{PodIdentity, Reference};
use smallvec::SmallVec;

/// The references of a pod that is being registered: of most pods they are few.
pub(super) type References<'p> = SmallVec<[Reference<'p>; 8]>;

/// The names of references.
pub(super) fn names<'r>(references: impl Iterator<Item = Reference<'r>>) -> SmallVec<[&'r str; 8]> {
    references.map(|reference| reference.name).collect()
}

/// Namespace, name and UID, then each name with a mark; every part with its length before it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Record(Box<str>);

/// What stands before an optional reference's name.
const OPTIONAL: char = '?';
/// What stands before any other reference's name.
const REQUIRED: char = '!';

/// Sorts references by name and leaves each name once: optional if every reference to it is.
pub(super) fn normalize(references: &mut References<'_>) {
    // `false` sorts before `true`: the first of equal names is required if any is.
    references.sort_unstable();
    references.dedup_by_key(|reference| reference.name);
}

/// The references of `wanted` whose names are not among `had`; both are sorted by name.
pub(super) fn missing<'a>(
    wanted: impl Iterator<Item = Reference<'a>>,
    had: impl Iterator<Item = Reference<'a>>,
) -> impl Iterator<Item = Reference<'a>> {
    let mut had = had.map(|reference| reference.name).peekable();
    wanted.filter(move |reference| {
        while had.next_if(|name| *name < reference.name).is_some() {}
        had.peek() != Some(&reference.name)
    })
}

impl Record {
    /// The record of a pod with these references, which are [normalized](normalize).
    pub(super) fn new(pod: PodIdentity<'_>, references: &[Reference<'_>]) -> Self {
        let parts = [pod.namespace, pod.name, pod.uid];
        let names = references.iter().map(|reference| 1 + len_of_part(reference.name));
        // Exactly as long as it gets, so that boxing it does not copy it.
        let mut text = String::with_capacity(parts.into_iter().map(len_of_part).chain(names).sum());
        for part in parts {
            push_part(&mut text, part);
        }
        for reference in references {
            text.push(if reference.optional { OPTIONAL } else { REQUIRED });
            push_part(&mut text, reference.name);
        }
        Self(text.into_boxed_str())
    }

    pub(super) fn identity(&self) -> PodIdentity<'_> {
        self.split().0
    }

    pub(super) fn is(&self, pod: PodIdentity<'_>) -> bool {
        let parts = [pod.namespace, pod.name, pod.uid];
        parts.into_iter().try_fold(self.0.as_bytes(), strip_part).is_some()
    }

    /// The references, sorted by name.
    pub(super) fn references(&self) -> impl Iterator<Item = Reference<'_>> {
        let mut rest = self.split().1;
        std::iter::from_fn(move || {
            let mark = rest.chars().next()?;
            let (name, after) = split_len(rest.get(mark.len_utf8()..)?);
            rest = after;
            Some(Reference { name, optional: mark == OPTIONAL })
        })
    }

    fn split(&self) -> (PodIdentity<'_>, &str) {
        let (namespace, rest) = split_len(&self.0);
        let (name, rest) = split_len(rest);
        let (uid, rest) = split_len(rest);
        (PodIdentity { namespace, name, uid }, rest)
    }
}
