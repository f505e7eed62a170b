//! Each pair of states, in each relation.

use super::*;

struct Doc(&'static str, &'static str);

impl Object for Doc {
    fn resource_version(&self) -> &str {
        self.0
    }

    fn uid(&self) -> &str {
        self.1
    }

    fn is_immutable(&self) -> bool {
        false
    }
}

#[test]
fn each_pair_of_states_in_each_relation() {
    use Order::{Newer, Older, Same, Unknown};
    use Relation::{Follows, Lags, Outdated, Overlaps};
    let (newer, back) = (Newer { went_back: false }, Newer { went_back: true });
    let held = Some(Doc("5", "u"));
    let opaque = Some(Doc("a", "u"));
    // What is held, what is new, and what that is in each relation.
    let table = [
        (&None, None, [newer, Same, Same, Same]),
        (&None, Some(Doc("5", "u")), [newer, Unknown, Unknown, Unknown]),
        (&held, None, [newer, Unknown, Unknown, Unknown]),
        (&held, Some(Doc("4", "u")), [back, Older, Older, Unknown]),
        (&held, Some(Doc("5", "u")), [newer, newer, Same, Same]),
        (&held, Some(Doc("6", "u")), [newer, newer, newer, Unknown]),
        // A UID that is not known may be any.
        (&held, Some(Doc("4", "")), [back, Older, Older, Unknown]),
        (&held, Some(Doc("5", "")), [newer, newer, Same, Same]),
        (&held, Some(Doc("6", "")), [newer, newer, newer, Unknown]),
        // Another object: of two looks that overlap, versions say nothing.
        (&held, Some(Doc("4", "other")), [back, Older, Unknown, Unknown]),
        (&held, Some(Doc("5", "other")), [newer, newer, Unknown, Unknown]),
        (&held, Some(Doc("6", "other")), [newer, newer, Unknown, Unknown]),
        // Versions that are no numbers have no order.
        (&opaque, Some(Doc("a", "u")), [newer, newer, Same, Same]),
        (&opaque, Some(Doc("b", "u")), [newer, newer, Unknown, Unknown]),
        (&opaque, Some(Doc("", "u")), [newer, newer, Unknown, Unknown]),
    ];
    for (row, (held, new, expected)) in table.into_iter().enumerate() {
        for (relation, expected) in [Follows, Lags, Overlaps, Outdated].into_iter().zip(expected) {
            assert_eq!(order(held.as_ref(), new.as_ref(), relation), expected, "row {row}, {relation:?}");
        }
    }
}

#[test]
fn an_empty_version_is_no_state() {
    assert!(!is_same_state(&Doc("", "u"), &Doc("", "u")));
    assert!(is_same_state(&Doc("1", ""), &Doc("1", "u")));
    assert_eq!(version(&Doc("12", "")), 12);
}
