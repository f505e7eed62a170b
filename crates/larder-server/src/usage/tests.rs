//! What an identity may use, what it gives back, and what the others keep.

use super::*;
use http::StatusCode;
use http_body_util::BodyExt as _;

const MIB: usize = 1 << 20;

fn usages(change: impl FnOnce(&mut Limits)) -> Usages {
    let mut limits = Limits::default();
    change(&mut limits);
    Usages::new(&limits, Refused::default())
}

fn pod(uid: &str) -> Identity {
    Identity::Pod(PodUid::from(uid))
}

fn is_refused<T>(answer: &Result<T, ApiError>, expected: Limit) -> bool {
    matches!(answer, Err(ApiError::OverLimit { limit, .. }) if *limit == expected)
}

#[test]
fn requests_and_watches_of_an_identity_are_bounded_wherever_they_come_in() {
    let usages = usages(|limits| (limits.pod_requests, limits.pod_watches) = (3, 2));
    let (socket, tls) = (usages.of(&pod("a")), usages.of(&pod("a")));
    let requests = [socket.request().unwrap(), tls.request().unwrap(), tls.request().unwrap()];
    assert!(is_refused(&socket.request(), Limit::Requests) && is_refused(&tls.request(), Limit::Requests));
    let watches = [socket.watch().unwrap(), tls.watch().unwrap()];
    assert!(is_refused(&socket.watch(), Limit::Watches));
    assert_eq!((socket.used(Limit::Requests), socket.used(Limit::Watches)), (3, 2), "a refusal counts nothing");
    let other = usages.of(&pod("b"));
    assert!(other.request().is_ok() && other.watch().is_ok(), "nobody takes anything from another");
    drop((requests, watches));
    assert!(socket.request().is_ok() && tls.watch().is_ok());
}

#[test]
fn an_admin_has_bounds_of_its_own() {
    let usages = usages(|limits| {
        (limits.pod_requests, limits.pod_watches, limits.pod_bytes) = (1, 1, 64 << 10);
        (limits.admin_requests, limits.admin_bytes, limits.pods_bytes) = (2, MIB, 64 << 10);
    });
    let root = usages.of(&Identity::User { uid: 0, is_admin: true });
    let held = root.hold(MIB / 2).unwrap();
    assert!(root.hold(MIB / 2).is_ok() && is_refused(&root.hold(MIB), Limit::Bytes));
    let requests = (root.request().unwrap(), root.request().unwrap(), root.watch().unwrap());
    assert!(is_refused(&root.request(), Limit::Requests));
    let user = usages.of(&Identity::User { uid: 0, is_admin: false });
    assert!(user.request().is_ok(), "who is no admin in its groups is another");
    drop((held, requests));
}

#[test]
fn bytes_are_bounded_and_given_back() {
    let usages = usages(|limits| limits.pod_bytes = MIB);
    let usage = usages.of(&pod("a"));
    drop(usage.hold(10 * MIB).expect("who holds nothing may have an answer of any size"));
    let mut held = usage.hold(MIB / 2).unwrap();
    assert!(is_refused(&usage.hold(MIB), Limit::Bytes));
    held.set(MIB).unwrap();
    assert!(is_refused(&held.set(MIB + 1), Limit::Bytes));
    held.set(MIB / 4).unwrap();
    assert_eq!(usage.used(Limit::Bytes), MIB / 4);
    let mut data = Data::new(Bytes::from(vec![0; 100]), Some(&usage));
    let mut rest = data.split_off(60).unwrap();
    assert_eq!(usage.used(Limit::Bytes), MIB / 4 + 100);
    drop(data);
    rest.advance(10);
    assert_eq!((usage.used(Limit::Bytes), rest.remaining()), (MIB / 4 + 30, 30));
    drop((held, rest));
    assert_eq!(usage.used(Limit::Bytes), 0);
}

#[test]
fn what_all_hold_together_is_bounded_and_leaves_each_its_share() {
    let usages = usages(|limits| (limits.pod_bytes, limits.pods_bytes) = (10 * MIB, 4 * MIB));
    let [greedy, other] = [usages.of(&pod("greedy")), usages.of(&pod("other"))];
    let _held = [greedy.hold(2 * MIB).unwrap(), greedy.hold(2 * MIB).unwrap()];
    assert!(is_refused(&greedy.hold(1), Limit::Bytes), "all together hold as much as they may");
    let own = [other.hold(MIB).unwrap(), other.hold(MIB).unwrap()];
    assert!(is_refused(&other.hold(1), Limit::Bytes), "it has its half");
    // An admin is not among them.
    let root = usages.of(&Identity::User { uid: 0, is_admin: true });
    assert!(root.hold(MIB).is_ok() && root.hold(MIB).is_ok());
    drop(own);
    assert!(is_refused(&greedy.hold(1), Limit::Bytes));
}

#[test]
fn an_identity_without_a_connection_is_forgotten() {
    let usages = usages(|_| ());
    for uid in 0..100 {
        drop(usages.of(&pod(&uid.to_string())).request().unwrap());
    }
    let one = usages.of(&pod("a"));
    assert_eq!((usages.used.lock().len(), usages.shared.identities.load(Ordering::Relaxed)), (1, 1));
    let request = one.request().unwrap();
    drop(one);
    assert_eq!(usages.of(&pod("a")).used(Limit::Requests), 1, "a request keeps it");
    drop(request);
}

#[tokio::test]
async fn an_answer_is_held_until_it_is_taken_and_one_too_many_is_refused() {
    let usages = usages(|limits| limits.pod_bytes = MIB);
    let usage = usages.of(&pod("a"));
    let answer = || Response::new(Body::from(vec![0; MIB / 2 + 1]));
    let first = usage.hold_answer(answer());
    assert_eq!((first.status(), usage.used(Limit::Bytes)), (StatusCode::OK, MIB / 2 + 1));
    let refused = usage.hold_answer(answer());
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "1");
    let status: serde_json::Value =
        serde_json::from_slice(&refused.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!((&status["kind"], &status["reason"]), (&"Status".into(), &"TooManyRequests".into()));
    let mut failure = answer();
    *failure.status_mut() = StatusCode::FORBIDDEN;
    assert_eq!(usage.hold_answer(failure).status(), StatusCode::FORBIDDEN);
    first.into_body().collect().await.unwrap();
    assert_eq!(usage.used(Limit::Bytes), 0);
    // A compressed answer has no length any more, and counts as what it was made of, until its end.
    let mut compressed = Response::new(Body::from_stream(futures_util::stream::iter([Ok::<_, std::io::Error>(
        Bytes::from_static(b"x"),
    )])));
    compressed.extensions_mut().insert(Length(1000));
    let mut body = usage.hold_answer(compressed).into_body();
    body.frame().await.unwrap().unwrap();
    assert_eq!(usage.used(Limit::Bytes), 1000);
    drop(body);
    assert_eq!(usage.used(Limit::Bytes), 0);
}
