//! Cgroup lines, tokens, policies and the parameters of whois that are made of any bytes.

use super::bench::{self, root};
use arbitrary::Unstructured;
use axum::body::Body;
use jiff::Timestamp;
use larder_identity::{Cgroups, Membership};
use larder_policy::{Document, Extent, PodSubject, Policy, Subject, Target, Verb};
use larder_resource::Kind;
use larder_token::{Expected, Keys, claims_for_review, verify};
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

/// A key, and the one token that was signed with it.
const KEY: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE8en52NIJtE2hJJLRBfCGk1bhUxn5
mk9QnCuTKEEsu485HMP9xgegUvEirH1Q/0dtNKLDUKpFjqeoR/qYEpr7LQ==
-----END PUBLIC KEY-----
";
const TOKEN: &str = "eyJhbGciOiJFUzI1NiIsImtpZCI6Ii0yQ001Nl9DRW9tV2pHdTU5N1RIeUZWY0lHYmtfQ2lwLVV1cFNpLXg1VXcifQ.eyJhdWQiOlsiaHR0cHM6Ly9jbHVzdGVyLnRlc3QiXSwiZXhwIjoxODAwMDAzNjAwLCJpYXQiOjE4MDAwMDAwMDAsIm5iZiI6MTgwMDAwMDAwMCwiaXNzIjoiaHR0cHM6Ly9jbHVzdGVyLnRlc3QiLCJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6d2ViOnNob3AiLCJrdWJlcm5ldGVzLmlvIjp7Im5hbWVzcGFjZSI6IndlYiIsIm5vZGUiOnsibmFtZSI6Im5vZGUtMSIsInVpZCI6Im4ifSwicG9kIjp7Im5hbWUiOiJzaG9wLTEiLCJ1aWQiOiJ1LTEifSwic2VydmljZWFjY291bnQiOnsibmFtZSI6InNob3AiLCJ1aWQiOiJzIn19fQ.eKA1RE-naGnshlipVMS1BSAwzrJ8YDFKZYZiDOtOQj9fNAYoD1jyzgbR2lBkoIBcWXJOeGhGh38lKBQNmAYxsA";
/// A time at which it is valid.
const NOW: i64 = 1_800_000_600;

/// Reads these bytes as `/proc/PID/cgroup`.
///
/// # Panics
///
/// If that panics, or finds a container that the text does not name, or that nobody knows.
pub fn cgroups(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(cgroups) = text.parse::<Cgroups>() else { return };
    if let Membership::Container(id) = cgroups.resolve(|id| Some(id.to_owned())) {
        assert!(text.contains(&id), "{id} is not in {text:?}");
    }
    let own = Cgroups::of_path(text.lines().next().and_then(|line| line.splitn(3, ':').nth(2)).unwrap_or("/"));
    for found in [cgroups.resolve(|_| None::<()>), cgroups.resolve_within(&own, |_| None)] {
        assert!(!matches!(found, Membership::Container(())), "nobody knows a container of {text:?}");
    }
}

/// Shows a token of these bytes, and the good token with some of its bytes changed.
///
/// # Panics
///
/// If that panics, or a token is taken that nobody has signed.
pub fn tokens(data: &[u8]) {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    let keys = KEYS.get_or_init(|| Keys::from_pem(KEY.as_bytes()).expect("a key"));
    let (expected, now) =
        (Expected::new("https://cluster.test", "node-1"), Timestamp::from_second(NOW).unwrap_or_default());
    assert!(verify(TOKEN, keys, &expected, now).is_ok(), "the good token is refused");
    let shown = String::from_utf8_lossy(data);
    for token in [&*shown, &changed(data)] {
        let is_taken = verify(token, keys, &expected, now).is_ok();
        assert!(!is_taken || token == TOKEN, "taken: {token:?}");
        // It proves nothing, and does not panic.
        let _ = claims_for_review(token, "node-1", now);
    }
    let _ = Keys::parse(data);
}

/// The good token, changed as the bytes say.
fn changed(data: &[u8]) -> String {
    let mut token = TOKEN.as_bytes().to_vec();
    let mut left = Unstructured::new(data);
    while let Ok((at, change, byte)) = left.arbitrary::<(u16, u8, u8)>()
        && !left.is_empty()
    {
        let at = usize::from(at) % (token.len() + 1);
        match change % 3 {
            0 => token.insert(at, byte),
            1 if at < token.len() => drop(token.remove(at)),
            _ => token.iter_mut().skip(at).take(1).for_each(|old| *old = byte),
        }
    }
    String::from_utf8_lossy(&token).into_owned()
}

/// Reads these bytes as a policy file, and asks it about some subjects.
///
/// # Panics
///
/// If that panics, or its answers contradict each other.
pub fn policy(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(policy) = Policy::parse(&text) else { return };
    let [namespace, name, uid, service_account] = ["shop", "web", "u-1", "default"].map(str::to_owned);
    let pod = PodSubject { namespace, name, uid, service_account, ..PodSubject::default() };
    for subject in [
        Subject::Host { uid: 0, gids: vec![0], is_admin: true },
        Subject::Host { uid: 2000, gids: vec![2000], is_admin: false },
        Subject::Client { name: "jane".to_owned(), groups: vec!["larder:admins".to_owned()], is_admin: true },
        Subject::Pod(Arc::new(pod)),
    ] {
        let view = policy.view(&subject);
        for kind in Kind::ALL {
            let namespace = if kind.is_namespaced() { "shop" } else { "" };
            for verb in Verb::ALL {
                let decision = view.decide(verb, &Target { kind, namespace, name: "web" });
                let is_allowed = decision.is_allowed();
                assert!(!view.sees_all() || decision.extent == Some(Extent::Whole), "{subject:?} {verb:?} {kind:?}");
                assert!(!view.sees_nothing() || !is_allowed, "{subject:?} {verb:?} {kind:?}");
                let some = view.may_some(verb, kind, Some(namespace).filter(|namespace| !namespace.is_empty()));
                assert!(!is_allowed || some.is_allowed(), "{subject:?} {verb:?} {kind:?}");
            }
        }
        for document in [Document::Status, Document::Metrics, Document::Whois] {
            assert!(!view.sees_all() || view.may_document(document).is_allowed(), "{subject:?} {document:?}");
        }
    }
}

/// Asks whose a process, a container or a cgroup is, with these bytes as the query.
///
/// # Panics
///
/// If the answer is not what it must be.
pub fn whois(data: &[u8]) {
    let mut query = String::new();
    for byte in data {
        // Writing to a string cannot fail.
        let _ = match byte {
            byte if byte.is_ascii_alphanumeric() || b"=&/%-.:".contains(byte) => write!(query, "{}", char::from(*byte)),
            other => write!(query, "%{other:02X}"),
        };
    }
    let request = http::Request::get(format!("/larder/v1/whois?{query}")).body(Body::empty());
    let Ok(request) = request else { return };
    let bench = bench::shared();
    let (code, status) = bench.answer_to(&bench.local, request, Some(root()));
    // 404: there is no such process. 501: there is no runtime that knows the container.
    assert!(matches!(code.as_u16(), 200 | 400 | 404 | 501), "{query}: {code} {status:?}");
    assert!(code.is_success() || status.is_some_and(|status| status.code == Some(code.as_u16().into())), "{query}");
}
