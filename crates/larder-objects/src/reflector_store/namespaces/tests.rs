//! What is decided of a namespace, at each edge.

use super::super::observed::tests::{Failure, at};
use super::*;

fn namespace(referenced: usize, allowed: Option<(bool, Timestamp)>) -> Namespace<Failure, u8> {
    Namespace { referenced, allowed, ..Namespace::new() }
}

#[test]
fn it_is_remembered_while_anything_refers_to_it_or_an_answer_counts() {
    let asked = Some((false, at(7)));
    let (counts, no_more) = (at(6) + ASK_AGAIN, at(7) + ASK_AGAIN);
    let table = [
        (1, None, no_more, true),
        (2, asked, no_more, true),
        (0, asked, counts, true),
        (0, asked, no_more, false),
        (0, None, counts, false),
    ];
    for (referenced, allowed, now, remembered) in table {
        assert_eq!(namespace(referenced, allowed).is_remembered(now), remembered, "{referenced} {allowed:?}");
    }
}

#[test]
fn few_are_less_than_the_least_or_than_a_quarter_of_all() {
    let table =
        [(2, 0, 3, true), (3, 0, 3, false), (4, 0, 3, false), (3, 12, 3, false), (3, 13, 3, true), (4, 13, 3, false)];
    for (referenced, objects, least, few) in table {
        assert_eq!(namespace(referenced, None).is_few(objects, least), few, "{referenced} of {objects}");
    }
}
