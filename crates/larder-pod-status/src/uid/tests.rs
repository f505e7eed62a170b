//! UIDs as strings, however they are held.

use super::*;
use proptest::prelude::*;
use std::hash::{BuildHasher, RandomState};

const CANONICAL_UID: &str = "2a1f3c5e-9b7d-4e21-8f60-0c4d5e6f7a8b";

fn is_held_in_place(text: &str) -> bool {
    matches!(PodUid::from(text).0, Repr::Uuid(..))
}

#[test]
fn is_two_words_wide() {
    assert_eq!(size_of::<PodUid>(), 16);
}

#[test]
fn only_canonical_uuids_are_held_in_place() {
    assert!(is_held_in_place(CANONICAL_UID));
    assert!(is_held_in_place("00000000-0000-0001-0000-000000000000"));
    assert!(is_held_in_place("ffffffff-ffff-ffff-ffff-ffffffffffff"));
    for other in [
        "",
        "a",
        // A static pod's.
        "9b41cd3f3b5d9a6b2c1c7f9d0e8a7b6c",
        "2A1F3C5E-9B7D-4E21-8F60-0C4D5E6F7A8B",
        "2a1f3c5e-9b7d-4e21-8f60-0c4d5e6f7a8",
        "2a1f3c5e-9b7d-4e21-8f60-0c4d5e6f7a8bc",
        "2a1f3c5e09b7d-4e21-8f60-0c4d5e6f7a8b",
        "2a1f3c5e-9b7d-4e21-8f60-0c4d5e6f7a-b",
        "2a1f3c5e-9b7d-4e21-8f60-0c4d5e6f7a8g",
        "2a1f3c5e-9b7d-4e21-8f60-0c4d5e6f7a8/",
        "2a1f3c5e-9b7d-4e21-8f60-0c4d5e6f7a8:",
        "2a1f3c5e-9b7d-4e21-8f60-0c4d5e6f7a8`",
        "{a1f3c5e-9b7d-4e21-8f60-0c4d5e6f7a8}",
        "ä1f3c5e-9b7d-4e21-8f60-0c4d5e6f7a8b",
        // The first half of the nil UUID is zero.
        "00000000-0000-0000-0000-000000000000",
        "00000000-0000-0000-ffff-ffffffffffff",
    ] {
        assert!(!is_held_in_place(other), "{other}");
        assert_eq!(PodUid::from(other).to_string(), other);
    }
}

#[test]
fn is_shown_as_the_string_that_it_is() {
    assert_eq!(format!("{:?}", PodUid::from(CANONICAL_UID)), format!("{CANONICAL_UID:?}"));
    assert_eq!(format!("{:?}", PodUid::from("a\"b")), r#""a\"b""#);
    assert_eq!(format!("{:>5}|{:<3}|", PodUid::from("abc"), PodUid::from("a")), "  abc|a  |");
}

/// Strings that are UUIDs, nearly so, and anything else.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "0{8}-0{4}-0{3}[01]-[0-9a-f]{4}-[0-9a-f]{12}",
        "[0-9a-fA-F]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "[0-9a-f-]{36}",
        "[0-9a-f]{32}",
        "\\PC{0,40}",
    ]
}

proptest! {
    #[test]
    fn any_string_comes_back_as_it_went_in(text in texts()) {
        prop_assert_eq!(PodUid::from(text.as_str()).to_string(), text.clone());
        prop_assert_eq!(PodUid::from(text.clone()).to_string(), text.clone());
        prop_assert_eq!(text.parse::<PodUid>().map(|uid| uid.to_string()), Ok(text));
    }

    #[test]
    fn uids_compare_as_their_strings_do(a in texts(), b in texts()) {
        let (uid_a, uid_b) = (PodUid::from(a.as_str()), PodUid::from(b.as_str()));
        prop_assert_eq!(uid_a == uid_b, a == b);
        prop_assert_eq!(uid_a.cmp(&uid_b), a.cmp(&b));
        prop_assert_eq!(uid_a.partial_cmp(&uid_b), a.partial_cmp(&b));
    }

    #[test]
    fn equal_uids_have_equal_hashes_and_others_do_not(a in texts(), b in texts()) {
        let hasher = RandomState::new();
        let hash = |text: &str| hasher.hash_one(PodUid::from(text));
        prop_assert_eq!(hash(&a), hash(&a.clone()));
        prop_assert_eq!(hash(&a) == hash(&b), a == b);
    }
}

#[cfg(feature = "serde")]
mod as_a_message {
    use super::*;

    #[test]
    fn is_a_string() {
        for text in [CANONICAL_UID, "a"] {
            let uid = PodUid::from(text);
            let json = serde_json::to_string(&uid).expect("a string can be written");
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<PodUid>(&json).expect("and read"), uid);
        }
        let error = serde_json::from_str::<PodUid>("7").expect_err("a number is none").to_string();
        assert!(error.contains("expected a pod's UID as a string"), "{error}");
    }
}
