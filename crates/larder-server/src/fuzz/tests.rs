//! The seeds of `fuzz/seeds`, and random bytes.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;

#[test]
fn what_each_seed_leads_to_is_answered() {
    for (name, target) in [
        ("request", request as fn(&[u8])),
        ("connection", connection as fn(&[u8])),
        ("selectors", selectors as fn(&[u8])),
    ] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
        let mut count = 0;
        for seed in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let seed = seed.unwrap().path();
            println!("{}", seed.display());
            target(&std::fs::read(seed).unwrap());
            count += 1;
        }
        assert!(count > 0, "{} is empty", folder.display());
    }
}

#[test]
fn a_request_over_frames_is_answered() {
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    input::frame(&mut sent, 4, 0, 0, &[]);
    let mut block = Vec::new();
    let long = format!("/api/v1/pods?labelSelector={}", "a".repeat(300));
    for (name, value) in [(":method", "GET"), (":scheme", "http"), (":path", &long), (":authority", "larder")] {
        input::literal(&mut block, name, value);
    }
    input::frame(&mut sent, 1, 5, 1, &block);
    let bench = Bench::new();
    let answered = bench.runtime.block_on(converse(&bench, sent, Arc::default()));
    // The name of a label has at most 63 characters.
    let refusal = b"\"code\":400";
    assert!(answered.windows(refusal.len()).any(|part| part == refusal), "{}", String::from_utf8_lossy(&answered));
}

#[tokio::test]
async fn an_answer_that_is_no_status_is_noticed() {
    let plain = Response::builder().status(400).body(Body::from("no")).unwrap();
    assert!(checked(plain).await.1.is_some());
    let fault = crate::error::ApiError::Unwritable("x".to_owned());
    assert!(checked(axum::response::IntoResponse::into_response(fault)).await.1.is_some());
    let refusal = crate::error::ApiError::UnknownPath("/x".to_owned());
    assert_eq!(checked(axum::response::IntoResponse::into_response(refusal)).await.1, None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6_000))]

    #[test]
    fn a_request_of_any_bytes_is_answered(data in vec(any::<u8>(), 0..256)) {
        request(&data);
    }

    #[test]
    fn a_selector_of_any_bytes_is_read_or_refused(data in "[a-z!=,() .\\PC]{0,32}") {
        selectors(data.as_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn a_connection_of_any_bytes_is_answered_and_ends(data in vec(any::<u8>(), 0..512)) {
        connection(&data);
    }
}
