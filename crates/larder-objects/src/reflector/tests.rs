//! What a reflector tells, as it is printed: never an object, which may be a Secret.

use super::ReflectorSink;
use crate::{FetchError, Object, ReadKind};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Without `Debug`: what is printed cannot show it.
struct Secret;

impl Object for Secret {
    fn resource_version(&self) -> &'static str {
        "1"
    }

    fn uid(&self) -> &'static str {
        ""
    }

    fn is_immutable(&self) -> bool {
        false
    }
}

#[derive(Debug, thiserror::Error)]
#[error("unavailable")]
struct Unavailable;

impl FetchError for Unavailable {
    fn is_not_found(&self) -> bool {
        false
    }

    fn class(&self) -> &'static str {
        "failed"
    }
}

fn printed(events: &Receiver<impl Debug>) -> Vec<String> {
    events.try_iter().map(|event| format!("{event:?}")).collect()
}

#[test]
fn what_is_told_of_objects_is_printed_with_their_names_alone() {
    let (sink, events) = ReflectorSink::<Secret, Unavailable>::channel();
    sink.listing();
    sink.replace(vec![("a".to_owned(), Arc::new(Secret)), ("b".to_owned(), Arc::new(Secret))], ReadKind::Consistent);
    sink.set("a", Arc::new(Secret));
    sink.delete("a", None);
    sink.confirm();
    sink.confirm_as_of(Duration::from_secs(2));
    sink.bookmark("7");
    sink.failed(Arc::new(Unavailable));
    sink.went_back("7", "5");
    let expected = [
        "Listing",
        "Replace(2 objects, Consistent)",
        "Set(a)",
        "Delete(a)",
        "Confirm(0ns)",
        "Confirm(2s)",
        "Bookmark(7)",
        "Failed(Unavailable)",
        "WentBack(7 to 5)",
    ];
    assert_eq!(printed(&events), expected);
}
