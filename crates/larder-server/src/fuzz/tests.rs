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
        ("cgroups", cgroups as fn(&[u8])),
        ("tokens", tokens as fn(&[u8])),
        ("policy", policy as fn(&[u8])),
        ("whois", whois as fn(&[u8])),
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

/// A policy file, of rules that may contradict each other.
fn rules() -> impl Strategy<Value = String> {
    let effect = prop_oneof![Just("allow"), Just("allowMetadata"), Just("deny"), Just("denyData")];
    let subject = prop_oneof![
        Just("serviceAccount: shop/default"),
        Just("namespace: shop"),
        Just("user: 0"),
        Just("user: 2000"),
        Just("group: 0"),
        Just("client: jane"),
        Just("clientGroup: larder:admins"),
    ];
    let objects = prop_oneof![
        Just("kinds: [pods, secrets, configmaps, nodes, namespaces]"),
        Just("kinds: [secrets], namespaces: [shop]"),
        Just("kinds: [secrets], names: [web]"),
        Just("kinds: [pods], verbs: [list]"),
        Just("kinds: [nodes, namespaces]"),
    ];
    let documents = prop_oneof![Just(""), Just("  documents: [status, metrics, whois]\n")];
    let rule = (effect, subject, objects, documents).prop_map(|(effect, subject, objects, documents)| {
        let documents = if effect.ends_with("ata") { "" } else { documents };
        format!("  effect: {effect}\n  subjects: [{{{subject}}}]\n  objects: [{{{objects}}}]\n{documents}")
    });
    vec(rule, 0..6).prop_map(|rules| {
        let rules = rules.iter().enumerate().map(|(index, rule)| format!("- name: r{index}\n{rule}"));
        let rules: String = rules.collect();
        let text = format!("version: 1\nrules:{}{rules}", if rules.is_empty() { " []\n" } else { "\n" });
        assert!(larder_policy::Policy::parse(&text).is_ok(), "{text}");
        text
    })
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
    fn cgroups_of_any_lines_are_read_or_refused(data in "([0-9]{1,2}:[a-z,=]{0,6}:(/[a-z0-9.]{0,3}|/kubepods|/pod[0-9a-f-]{4}|/[0-9a-f]{64}|/cri-containerd-[0-9a-f]{64}\\.scope){0,4}\n){0,3}") {
        cgroups(data.as_bytes());
    }

    #[test]
    fn no_token_of_any_bytes_is_taken(data in vec(any::<u8>(), 0..32)) {
        tokens(&data);
    }

    #[test]
    fn a_policy_of_any_rules_contradicts_itself_nowhere(data in rules()) {
        policy(data.as_bytes());
    }

    #[test]
    fn any_question_whose_a_process_is_is_answered(data in "((pid|containerID|cgroup|timeout)=[a-z0-9/%.-]{0,8}&?){0,3}\\PC{0,4}") {
        whois(data.as_bytes());
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
