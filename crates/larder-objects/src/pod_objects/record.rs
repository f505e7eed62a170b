//! A registered pod in one allocation: who it is, and the sorted names that it refers to.

use crate::key::{push_len, split_len};
use crate::{PodIdentity, Reference};

/// Namespace, name and UID, then each name with a mark; every part with its length before it.
pub(super) struct Record(Box<str>);

/// What stands before an optional reference's name.
const OPTIONAL: char = '?';
/// What stands before any other reference's name.
const REQUIRED: char = '!';

/// Sorts references by name and leaves each name once: optional if every reference to it is.
pub(super) fn normalize(references: &mut Vec<Reference<'_>>) {
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
        let names: usize = references.iter().map(|reference| reference.name.len() + 3).sum();
        let mut text = String::with_capacity(pod.namespace.len() + pod.name.len() + pod.uid.len() + 6 + names);
        for part in [pod.namespace, pod.name, pod.uid] {
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
        self.identity() == pod
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

    /// Whether these are the references, all and in order.
    pub(super) fn has(&self, references: &[Reference<'_>]) -> bool {
        self.references().eq(references.iter().copied())
    }

    fn split(&self) -> (PodIdentity<'_>, &str) {
        let (namespace, rest) = split_len(&self.0);
        let (name, rest) = split_len(rest);
        let (uid, rest) = split_len(rest);
        (PodIdentity { namespace, name, uid }, rest)
    }
}

fn push_part(text: &mut String, part: &str) {
    push_len(text, part.len());
    text.push_str(part);
}
