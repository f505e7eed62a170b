//! When the API server is asked about a token, how long its verdict holds, and what a failed review changes.

use super::*;
use larder_clock::VirtualClock;
use larder_kube::Target;
use larder_testkit::tokens::{TokenSigner, pod_claims};
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

type Answer = Result<Option<TokenUser>, KubeError>;

/// Leaves the answers to the test.
struct Asked(mpsc::UnboundedSender<(String, oneshot::Sender<Answer>)>);

impl Reviewer for Asked {
    async fn review(&self, token: &str, audiences: &[String]) -> Answer {
        assert_eq!(audiences, ["larder"]);
        let (answer, answered) = oneshot::channel();
        self.0.send((token.to_owned(), answer)).unwrap();
        answered.await.unwrap()
    }
}

struct Bench {
    reviews: Arc<TokenReviews<Asked>>,
    asked: mpsc::UnboundedReceiver<(String, oneshot::Sender<Answer>)>,
    clock: VirtualClock,
    signer: TokenSigner,
    task: JoinHandle<()>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Bench {
    fn new() -> Self {
        let (asked, receiver) = mpsc::unbounded_channel();
        let reviews = Arc::new(TokenReviews::new(Asked(asked), vec!["larder".to_owned()]));
        let clock = VirtualClock::default();
        let (this, until) = (Arc::clone(&reviews), clock.clone());
        let task = tokio::spawn(async move { this.run(until, CancellationToken::new()).await });
        Self { reviews, asked: receiver, clock, signer: TokenSigner::p256().unwrap(), task }
    }

    /// A token of a pod; each one is another.
    fn token(&self, uid: &str) -> (String, Bound) {
        let now = WallTime::now();
        let token = self.signer.token(&pod_claims("issuer", "node-1", "shop", ["web", uid], "web", now));
        let bound = larder_token::claims_for_review(&token, "node-1", now).unwrap();
        (token, bound)
    }

    fn shown(&self, (token, bound): &(String, Bound)) -> JoinHandle<Result<(), TokenCheckError>> {
        let (reviews, token, bound, clock) =
            (Arc::clone(&self.reviews), token.clone(), bound.clone(), self.clock.clone());
        tokio::spawn(async move { reviews.verify(&token, &bound, &clock).await })
    }

    async fn answer(&mut self, (token, _): &(String, Bound), answer: Answer) {
        let (asked, answered) = self.asked.recv().await.unwrap();
        assert_eq!(asked, *token);
        answered.send(answer).unwrap();
    }

    fn remembers(&self, (token, bound): &(String, Bound)) -> bool {
        self.reviews.remembers(token, bound, self.clock.now())
    }
}

fn good(uid: &str) -> TokenUser {
    TokenUser::new("system:serviceaccount:shop:web", Some(uid))
}

fn away() -> KubeError {
    let server = "https://192.0.2.1:6443".into();
    KubeError::Transport { target: Target::TokenReview, server, problem: "connection refused".to_owned() }
}

fn no_verdict(shown: Result<(), TokenCheckError>) -> String {
    match shown {
        Err(TokenCheckError::NoKeys { why }) => why,
        other => panic!("{other:?}"),
    }
}

const REFUSAL: Result<(), TokenCheckError> = Err(TokenCheckError::Refused(TokenError::NotAuthenticated));

#[tokio::test]
async fn a_verdict_holds_while_the_api_server_is_away_and_until_it_says_otherwise() {
    let mut bench = Bench::new();
    let token = bench.token("u-1");
    let first = bench.shown(&token);
    bench.answer(&token, Ok(Some(good("u-1")))).await;
    assert_eq!(first.await.unwrap(), Ok(()));
    assert_eq!(bench.shown(&token).await.unwrap(), Ok(()));
    assert!(bench.asked.is_empty() && bench.reviews.works());

    // It is asked about in the background from now on.
    let mut ended = bench.reviews.ended.subscribe();
    bench.clock.advance(REFRESH);
    assert!(bench.remembers(&token) && bench.remembers(&token));
    bench.answer(&token, Err(away())).await;
    ended.changed().await.unwrap();
    assert!(bench.asked.is_empty(), "it was asked twice");
    assert!(bench.reviews.failure().unwrap().contains("connection refused") && !bench.reviews.works());
    assert!(bench.remembers(&token));
    bench.clock.advance(PAUSE);
    assert!(bench.remembers(&token));
    bench.answer(&token, Ok(None)).await;
    ended.changed().await.unwrap();
    assert!(!bench.remembers(&token) && bench.reviews.failure().is_none());
    assert_eq!(bench.shown(&token).await.unwrap(), REFUSAL);
    assert!(bench.asked.is_empty());
    assert_eq!(bench.reviews.report(|_| None).remembered, 0);
}

#[tokio::test]
async fn only_the_user_and_the_pod_of_the_claims_are_taken() {
    let mut bench = Bench::new();
    for answer in [
        Ok(None),
        Ok(Some(good("u-2"))),
        Ok(Some(TokenUser::new("system:serviceaccount:shop:web", None))),
        Ok(Some(TokenUser::new("system:serviceaccount:shop:admin", Some("u-1")))),
    ] {
        let token = bench.token("u-1");
        let shown = bench.shown(&token);
        bench.answer(&token, answer.clone()).await;
        assert_eq!(shown.await.unwrap(), REFUSAL, "{answer:?}");
        assert_eq!(bench.shown(&token).await.unwrap(), REFUSAL);
        // It is asked about again after a while.
        bench.clock.advance(REFUSED);
        let shown = bench.shown(&token);
        bench.answer(&token, Ok(Some(good("u-1")))).await;
        assert_eq!(shown.await.unwrap(), Ok(()));
    }
}

#[tokio::test]
async fn a_failure_spares_the_api_server_for_a_moment() {
    let mut bench = Bench::new();
    let [first, second] = [bench.token("u-1"), bench.token("u-2")];
    let shown = bench.shown(&first);
    bench.answer(&first, Err(away())).await;
    assert!(no_verdict(shown.await.unwrap()).contains("connection refused"));
    for token in [&first, &second] {
        assert!(no_verdict(bench.shown(token).await.unwrap()).contains("connection refused"));
    }
    assert!(bench.asked.is_empty());
    bench.clock.advance(PAUSE);
    let shown = bench.shown(&second);
    bench.answer(&second, Ok(Some(good("u-2")))).await;
    assert_eq!(shown.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_token_is_asked_about_once_and_no_pod_takes_the_place_of_another() {
    let mut bench = Bench::new();
    let of_greedy: Vec<_> = (0..=OF_A_POD).map(|_| bench.token("u-1")).collect();
    let twice = [bench.shown(&of_greedy[0]), bench.shown(&of_greedy[0])];
    let (asked, answer) = bench.asked.recv().await.unwrap();
    assert_eq!(asked, of_greedy[0].0);
    let second = bench.shown(&of_greedy[1]);
    let (_, answer_second) = bench.asked.recv().await.unwrap();
    assert!(no_verdict(bench.shown(&of_greedy[2]).await.unwrap()).contains("too many"));
    let other = bench.token("u-2");
    let shown = bench.shown(&other);
    bench.answer(&other, Ok(Some(good("u-2")))).await;
    assert_eq!(shown.await.unwrap(), Ok(()));
    answer.send(Ok(Some(good("u-1")))).unwrap();
    answer_second.send(Ok(Some(good("u-1")))).unwrap();
    for shown in twice.into_iter().chain([second]) {
        assert_eq!(shown.await.unwrap(), Ok(()));
    }
    assert!(bench.asked.is_empty(), "it was asked about twice");
}

#[test]
fn refused_tokens_are_forgotten_first_and_then_the_oldest() {
    let (mut state, clock) = (State::default(), VirtualClock::default());
    let mut remember = |name: &str, is_good| {
        clock.advance(Duration::from_secs(1));
        let at = clock.now();
        state.remember(TokenHash::of(name), Verdict { is_good, at, fresh_until: at });
        let has = |name: &str| state.verdicts.contains_key(&TokenHash::of(name));
        (state.verdicts.len(), has("good 0"), has("good 1"), has("bad"))
    };
    for index in 0..MOST - 1 {
        remember(&format!("good {index}"), true);
    }
    assert_eq!(remember("bad", false), (MOST, true, true, true));
    assert_eq!(remember("one more", true), (MOST, true, true, false));
    assert_eq!(remember("another", true), (MOST, false, true, false));
    assert_eq!(remember("another", true), (MOST, false, true, false));
}
