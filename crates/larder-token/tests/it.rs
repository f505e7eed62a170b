//! Tokens as an API server signs them are accepted, and forged ones are not.

use jiff::{SignedDuration, Timestamp};
use larder_testkit::tokens::{Forgery, TokenSigner, forge, jwks, pod_claims};
use larder_token::{Bound, Expected, Keys, KeysError, PodNow, TokenError, claims_without_signature, verify};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::HashMap;

const ISSUER: &str = "https://kubernetes.default.svc";

fn now() -> Timestamp {
    "2026-12-01T00:00:00Z".parse().unwrap()
}

fn signers() -> [TokenSigner; 3] {
    [TokenSigner::rsa().unwrap(), TokenSigner::p256().unwrap(), TokenSigner::p384().unwrap()]
}

/// Keys that the cluster has not. There is one RSA key only, so its stranger is of another kind.
fn strangers() -> [TokenSigner; 2] {
    [TokenSigner::p256().unwrap(), TokenSigner::p384().unwrap()]
}

fn claims() -> Value {
    pod_claims(ISSUER, "node-1", "web", ["shop-1", "u-1"], "shop", now())
}

fn check(token: &str, keys: &Keys) -> Result<Bound, TokenError> {
    verify(token, keys, &Expected::new(ISSUER, "node-1"), now())
}

#[test]
fn tokens_of_all_kinds_of_keys_are_accepted() {
    let signers = signers();
    let document = jwks(&signers);
    let pem: String = signers.iter().map(TokenSigner::pem).collect();
    for keys in [Keys::parse(document.as_bytes()).unwrap(), Keys::parse(pem.as_bytes()).unwrap()] {
        assert_eq!((keys.len(), keys.unusable().len()), (3, 0));
        for signer in &signers {
            let bound = check(&signer.token(&claims()), &keys).unwrap();
            assert_eq!(bound.username(), "system:serviceaccount:web:shop");
            assert_eq!((&*bound.pod.name, &*bound.pod.uid, &*bound.namespace), ("shop-1", "u-1", "web"));
            assert_eq!(bound.expires, now() + SignedDuration::from_hours(1));
            // Without a key's ID all keys are tried, as upstream.
            let header = json!({"alg": signer.algorithm()}).to_string();
            assert_eq!(check(&signer.sign(&header, &claims().to_string()), &keys), Ok(bound));
        }
    }
}

#[test]
fn times_have_a_minute_of_leeway() {
    let signer = TokenSigner::p256().unwrap();
    let keys = Keys::from_pem(signer.pem().as_bytes()).unwrap();
    for (claim, by, expected) in [
        ("exp", -60, true),
        ("exp", -61, false),
        ("nbf", 60, true),
        ("nbf", 61, false),
        ("iat", 60, true),
        ("iat", 61, false),
    ] {
        let mut claims = claims();
        claims[claim] = (now().as_second() + by).into();
        assert_eq!(check(&signer.token(&claims), &keys).is_ok(), expected, "{claim} {by}");
    }
}

#[test]
fn a_refusal_says_why() {
    let good = signers();
    let keys = Keys::from_jwks(jwks(&good).as_bytes()).unwrap();
    let strange = strangers();
    for (forgery, expected) in [
        (Forgery::Expired, "the token expired at 2026-11-30T23:58:59Z"),
        (Forgery::NotYet, "the token is not valid before 2026-12-01T00:01:01Z"),
        (Forgery::IssuedLater, "the token is not valid before 2026-12-01T00:01:01Z"),
        (Forgery::Unsigned, "the token names another algorithm than the ES256 of its key"),
        (Forgery::Resigned, "the token's signature is wrong"),
        (Forgery::KeyInHeader, "no key that larder knows has signed the token: its key ID is not among 3 keys"),
        (Forgery::PublicKeyAsSecret, "the token names another algorithm than the ES256 of its key"),
        (
            Forgery::OtherAudience,
            "the token is for another audience than the API server's (https://kubernetes.default.svc)",
        ),
        (
            Forgery::OtherIssuer,
            "the token is of issuer \"https://kubernetes.default.svc/\", and this cluster's is \
             \"https://kubernetes.default.svc\"",
        ),
        (
            Forgery::OtherNode,
            "the token is of a pod on node \"other-0\", and this is node \"node-1\": ask the larder of that node",
        ),
        (Forgery::OtherKeyId, "the token names another algorithm than the ES384 of its key"),
        (Forgery::UnknownKeyId, "no key that larder knows has signed the token: its key ID is not among 3 keys"),
        (Forgery::OtherAlgorithm, "the token names another algorithm than the ES256 of its key"),
        (Forgery::Doubled, "the token is malformed: its claims are not JSON in base64url"),
        (Forgery::HugeHeader, "the token is malformed: it is longer than 16 KiB"),
        (Forgery::WrongType, "the token's claim iss is not a string"),
        (Forgery::Missing, "the token's claim iss is missing"),
        (Forgery::NoPod, "the token is bound to no pod: larder answers tokens of this node's pods alone"),
        (Forgery::Changed, "the token is malformed: its header is not JSON in base64url"),
        (Forgery::Cut, "the token is malformed: it is not three parts with a dot between each two"),
        (Forgery::Critical, "the token is malformed: its header asks for an extension (crit)"),
        (Forgery::DerSignature, "the token's signature is wrong"),
    ] {
        let token = forge(forgery, &claims(), &good, &strange, [1, 0]);
        assert_eq!(check(&token, &keys).unwrap_err().to_string(), expected, "{forgery:?}");
    }
}

#[test]
fn of_ten_thousand_forged_tokens_none_is_accepted() {
    const CASES: u32 = 10_000;
    let (good, strange) = (signers(), strangers());
    let keys = Keys::from_jwks(jwks(&good).as_bytes()).unwrap();
    let counts = RefCell::new(HashMap::<Forgery, u32>::new());
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let strategy = (select(&Forgery::ALL[..]), any::<[u32; 2]>());
    runner
        .run(&strategy, |(forgery, numbers)| {
            let token = forge(forgery, &claims(), &good, &strange, numbers);
            let refusal = check(&token, &keys);
            prop_assert!(refusal.is_err(), "{forgery:?} is accepted");
            let text = refusal.unwrap_err().to_string();
            for part in token.split('.').filter(|part| part.len() > 8) {
                prop_assert!(!text.contains(&part[..8]), "{text} quotes the token");
            }
            *counts.borrow_mut().entry(forgery).or_default() += 1;
            Ok(())
        })
        .unwrap();
    let counts = counts.into_inner();
    assert_eq!(counts.values().sum::<u32>(), CASES);
    for forgery in Forgery::ALL {
        // About 450 of each are expected.
        assert!(counts.get(&forgery).is_some_and(|count| *count > 300), "{forgery:?}: {counts:?}");
    }
}

#[test]
fn a_token_of_an_earlier_pod_of_the_same_name_is_refused() {
    let signer = TokenSigner::p256().unwrap();
    let keys = Keys::from_pem(signer.pem().as_bytes()).unwrap();
    let bound = check(&signer.token(&claims()), &keys).unwrap();
    let pod = |uid| Some(PodNow { uid, service_account: "shop", deletion: None });
    assert_eq!(bound.check_pod(pod("u-1"), now()), Ok(()));
    assert_eq!(
        bound.check_pod(pod("u-2"), now()).unwrap_err().to_string(),
        "the token is of an earlier pod \"web/shop-1\": the pod has been made again, with another UID"
    );
}

#[test]
fn claims_are_checked_without_keys_too() {
    let signer = TokenSigner::p256().unwrap();
    let expected = Expected::new(ISSUER, "node-1");
    assert!(claims_without_signature(&signer.token(&claims()), &expected, now()).is_ok());
    let mut other = claims();
    other["kubernetes.io"]["node"]["name"] = "node-2".into();
    let refused = claims_without_signature(&signer.token(&other), &expected, now());
    assert!(matches!(refused, Err(TokenError::OtherNode { .. })), "{refused:?}");
}

#[test]
fn a_token_without_a_node_is_of_an_older_cluster() {
    let signer = TokenSigner::p256().unwrap();
    let keys = Keys::from_pem(signer.pem().as_bytes()).unwrap();
    let mut older = claims();
    older["kubernetes.io"].as_object_mut().unwrap().remove("node");
    assert!(check(&signer.token(&older), &keys).is_ok(), "Kubernetes before 1.30 names no node");
}

#[test]
fn keys_that_cannot_be_used_are_named() {
    let signer = TokenSigner::p256().unwrap();
    let with = |name: &str, value: Value| {
        let mut jwk = signer.jwk();
        jwk[name] = value;
        jwk
    };
    let document = json!({"keys": [
        signer.jwk(),
        with("use", "enc".into()),
        with("alg", "HS256".into()),
        with("alg", "RS256".into()),
        with("crv", "P-521".into()),
        with("x", "AA".into()),
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
    ]});
    let keys = Keys::from_jwks(document.to_string().as_bytes()).unwrap();
    assert_eq!((keys.len(), keys.unusable().len()), (1, 7), "{:?}", keys.unusable());
    assert!(check(&signer.token(&claims()), &keys).is_ok());
}

#[test]
fn documents_that_hold_no_public_keys_are_refused() {
    let private = json!({"keys": [{"kty": "EC", "d": "AA"}]}).to_string();
    let many = json!({"keys": vec![TokenSigner::p256().unwrap().jwk(); 33]}).to_string();
    for (text, expected) in [
        ("", KeysError::Pem),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", KeysError::Pem),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", KeysError::Private),
        (&private, KeysError::Private),
        (&many, KeysError::TooMany { most: 32 }),
        ("{}", KeysError::Jwks("it has no array \"keys\"")),
        ("{\"keys\": [], \"keys\": []}", KeysError::Jwks("it is not an object in JSON")),
        ("{\"keys\": [7]}", KeysError::Jwks("a key is not an object")),
    ] {
        assert_eq!(Keys::parse(text.as_bytes()), Err(expected), "{text}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(token in any::<String>(), keys in any::<Vec<u8>>(), der in any::<Vec<u8>>()) {
        let _ = Keys::parse(&keys);
        let known = Keys::from_pem(TokenSigner::p256().unwrap().pem().as_bytes()).unwrap();
        prop_assert!(check(&token, &known).is_err());
        let jwk = json!({"keys": [{"kty": "RSA", "n": "A".repeat(342), "e": "A".repeat(der.len())}]}).to_string();
        let odd = Keys::from_jwks(jwk.as_bytes()).unwrap();
        prop_assert!(check(&TokenSigner::rsa().unwrap().token(&claims()), &odd).is_err());
    }
}
