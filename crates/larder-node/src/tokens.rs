//! The keys with which service-account tokens are verified, and where they come from.
//!
//! The keys and the issuer are those of the API server (`/openid/v1/jwks`, `/.well-known/openid-configuration`), or of the settings.
//! They are read when a token is first shown. While larder does not know the API server's keys, it asks the API server about each
//! token, and remembers the [verdict](reviews).
//!
//! # Guarantees
//!
//! - *Kept*: what was read last stays while the API server, or the file, cannot be read.
//! - *For tokens of this node*: the API server is asked about a token only if its claims name a pod of this node.
//! - *Not for strangers*: a token that no key could make good, or whose claims name no pod of this node, has no keys read. So it changes
//!   neither the log nor the status.
//! - *Bounded*: keys are read once in [`PAUSE`] at most, however many tokens name an unknown key.
//! - *No token is kept*, nor is it in an error or a log line.
//!
//! # Limits
//!
//! A key that the cluster no longer has verifies tokens until the keys are read again: when a token is shown after [`REFRESH`].
//!
//! # Cancel safety
//!
//! A dropped wait for keys leaves the read to the task that does it.
//!
//! # Locks
//!
//! One, over what was read last. It is not held during a read.

mod reviews;

use crate::config::ConfigError;
use crate::report::TokenKeysReport;
use jiff::Timestamp as WallTime;
use larder_clock::{Clock, Timestamp};
use larder_kube::KubeClient;
use larder_token::{Bound, Expected, Keys, TokenError};
use parking_lot::Mutex;
use reviews::TokenReviews;
use serde::Deserialize;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// Where the API server has its keys.
const JWKS: &str = "/openid/v1/jwks";
/// The API server has them in this media type alone, and answers a client that accepts only others with 406.
const JWKS_TYPE: &str = "application/jwk-set+json";
/// Where it names its issuer.
const DISCOVERY: &str = "/.well-known/openid-configuration";
const JSON: &str = "application/json";
/// The shortest time between two reads of the keys.
const PAUSE: Duration = Duration::from_secs(5);
/// How old keys may be before a token has them read again. That token does not wait.
const REFRESH: Duration = Duration::from_mins(5);
/// How long a token waits for keys.
const WAIT: Duration = Duration::from_secs(5);
/// How long a file may take.
const FILE_DEADLINE: Duration = Duration::from_secs(5);
/// The largest file of keys, in bytes.
const LARGEST: u64 = 1 << 20;

/// How service-account tokens of pods are verified.
///
/// ```
/// use larder_node::{Cluster, Config};
///
/// let mut config = Config::new("edge-1", Cluster::InCluster);
/// config.tokens.jwks_file = Some("/etc/kubernetes/pki/sa.pub".into());
/// assert_eq!(config.validate().unwrap_err().field, "tokens.jwks_file");
/// config.tokens.issuer = Some("https://kubernetes.default.svc.cluster.local".to_owned());
/// config.validate().unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenOptions {
    /// A file with the cluster's public keys, a JWKS or PEM, in place of the API server's. Default: none. It needs the issuer.
    pub jwks_file: Option<PathBuf>,
    /// The issuer of the tokens (`--service-account-issuer` of the API server). Default: none, which takes the one that the API server
    /// names.
    pub issuer: Option<String>,
    /// The audiences of which a token names one (`--api-audiences` of the API server). Default: none, which is the issuer.
    pub audiences: Vec<String>,
}

impl TokenOptions {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.issuer.as_deref() == Some("") {
            return Err(ConfigError::new("tokens.issuer", "must not be empty"));
        }
        if let Some(file) = &self.jwks_file {
            if file.as_os_str().is_empty() {
                return Err(ConfigError::new("tokens.jwks_file", "must name a file"));
            }
            if self.issuer.is_none() {
                let problem = "a file of keys does not name the issuer of the tokens: set --token-issuer (tokens.issuer in the file) to \
                               the API server's --service-account-issuer";
                return Err(ConfigError::new("tokens.jwks_file", problem));
            }
        }
        if self.audiences.iter().any(String::is_empty) {
            return Err(ConfigError::new("tokens.audiences", "must not have an empty audience"));
        }
        Ok(())
    }
}

/// Why a token is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenCheckError {
    /// The token is refused.
    #[error(transparent)]
    Refused(#[from] TokenError),
    /// The keys are not known yet.
    #[error("the keys that verify tokens are not known: {why}")]
    NoKeys {
        /// Why not.
        why: String,
    },
    /// This larder runs without keys.
    #[error(
        "this larder takes no tokens: it runs without an API server (--manifests) and without a file of keys (--jwks-file)"
    )]
    Off,
}

/// Where keys are read.
enum KeySource {
    ApiServer(KubeClient),
    File(PathBuf),
}

pub(crate) struct TokenKeys {
    options: TokenOptions,
    node: Arc<str>,
    /// `None` without any.
    source: Option<KeySource>,
    /// `None` without an API server, and where a file has the keys.
    reviews: Option<TokenReviews>,
    state: Mutex<State>,
    /// A token wants the keys read.
    wanted: Notify,
    /// How many reads have ended.
    reads: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    known: Option<Arc<Known>>,
    /// The last failure, and when it was.
    failure: Option<(String, Timestamp)>,
    last_begin: Option<Timestamp>,
    /// A read is wanted, or under way.
    is_wanted: bool,
}

/// The keys and the issuer, as they were read.
struct Known {
    keys: Keys,
    expected: Expected,
    at: Timestamp,
}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
}

impl TokenKeys {
    pub(crate) fn new(options: TokenOptions, node: Arc<str>, client: Option<KubeClient>) -> Self {
        let source = match &options.jwks_file {
            Some(path) => Some(KeySource::File(path.clone())),
            None => client.map(KeySource::ApiServer),
        };
        let reviews = match &source {
            Some(KeySource::ApiServer(client)) => Some(TokenReviews::new(client.clone(), options.audiences.clone())),
            Some(KeySource::File(_)) | None => None,
        };
        let (state, wanted, reads) = (Mutex::default(), Notify::new(), watch::Sender::new(0));
        Self { options, node, source, reviews, state, wanted, reads }
    }

    /// Verifies a token. `wall_now` is asked after each wait. `may_be_here` says whether the claimed pod may be a pod of this node.
    pub(crate) async fn verify(
        &self,
        token: &str,
        clock: &impl Clock,
        wall_now: impl Fn() -> WallTime,
        may_be_here: impl Fn(&Bound) -> bool,
    ) -> Result<Bound, TokenCheckError> {
        if self.source.is_none() {
            return Err(TokenCheckError::Off);
        }
        let known = self.state.lock().known.clone();
        let Some(known) = known else { return self.verify_first(token, clock, wall_now, may_be_here).await };
        let refused = match larder_token::verify(token, &known.keys, &known.expected, wall_now()) {
            Ok(bound) => {
                let now = clock.now();
                if now.saturating_duration_since(known.at) >= REFRESH {
                    // For later tokens.
                    drop(self.want(now));
                }
                return Ok(bound);
            }
            Err(refused) => refused,
        };
        if !refused.wants_newer_keys() {
            return Err(refused.into());
        }
        // A token that no key could make good is not worth a read.
        let claims = larder_token::claims_without_signature(token, &known.expected, wall_now());
        if !claims.is_ok_and(|bound| may_be_here(&bound)) {
            return Err(refused.into());
        }
        let Some(ended) = self.want(clock.now()) else { return Err(refused.into()) };
        wait_for(ended).await;
        let newer = self.state.lock().known.clone();
        match newer {
            Some(newer) if !Arc::ptr_eq(&newer, &known) => {
                Ok(larder_token::verify(token, &newer.keys, &newer.expected, wall_now())?)
            }
            _ => Err(refused.into()),
        }
    }

    /// Verifies a token while no keys are known. What no key could make good has none read.
    async fn verify_first(
        &self,
        token: &str,
        clock: &impl Clock,
        wall_now: impl Fn() -> WallTime,
        may_be_here: impl Fn(&Bound) -> bool,
    ) -> Result<Bound, TokenCheckError> {
        let bound = match &self.options.issuer {
            Some(issuer) => larder_token::claims_without_signature(token, &self.expected(issuer.clone()), wall_now())?,
            None => larder_token::claims_for_review(token, &self.node, wall_now())?,
        };
        if self.reviews.as_ref().is_some_and(|reviews| reviews.remembers(token, &bound, clock.now())) {
            // For later tokens.
            drop(self.want(clock.now()));
            return Ok(bound);
        }
        if !may_be_here(&bound) {
            return Err(TokenError::UnknownKey { known: 0 }.into());
        }
        let why = match self.first(clock).await {
            Ok(known) => return Ok(larder_token::verify(token, &known.keys, &known.expected, wall_now())?),
            Err(why) => why,
        };
        let Some(reviews) = &self.reviews else { return Err(TokenCheckError::NoKeys { why }) };
        match reviews.verify(token, &bound, clock).await {
            Ok(()) => Ok(bound),
            Err(TokenCheckError::NoKeys { why: also }) => {
                Err(TokenCheckError::NoKeys { why: format!("{why}; {also}") })
            }
            Err(refused) => Err(refused),
        }
    }

    /// The keys that are read first, or why there are none.
    async fn first(&self, clock: &impl Clock) -> Result<Arc<Known>, String> {
        if let Some(ended) = self.want(clock.now()) {
            wait_for(ended).await;
        }
        let state = self.state.lock();
        let failure = || state.failure.as_ref().map(|(why, _)| why.clone());
        state.known.clone().ok_or_else(|| failure().unwrap_or_else(|| "they are being read".to_owned()))
    }

    /// What a token of this issuer has to claim.
    fn expected(&self, issuer: String) -> Expected {
        let mut expected = Expected::new(issuer, &*self.node);
        if !self.options.audiences.is_empty() {
            expected.audiences.clone_from(&self.options.audiences);
        }
        expected
    }

    /// Has the keys read, unless they were a moment ago. What is returned changes when the read has ended.
    fn want(&self, now: Timestamp) -> Option<watch::Receiver<u64>> {
        let mut state = self.state.lock();
        // Before the read can end.
        let ended = self.reads.subscribe();
        if state.is_wanted {
            return Some(ended);
        }
        if state.last_begin.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            return None;
        }
        state.last_begin = Some(now);
        state.is_wanted = true;
        self.wanted.notify_one();
        Some(ended)
    }

    /// Reads the keys whenever they are wanted, until the token is cancelled.
    pub(crate) async fn run(self: Arc<Self>, clock: impl Clock + Clone, token: CancellationToken) {
        let reviews = async {
            if let Some(reviews) = &self.reviews {
                reviews.run(clock.clone(), token.clone()).await;
            }
        };
        tokio::join!(self.read_when_wanted(&clock, &token), reviews);
    }

    async fn read_when_wanted(&self, clock: &impl Clock, token: &CancellationToken) {
        while token.run_until_cancelled(self.wanted.notified()).await.is_some() {
            let Some(read) = token.run_until_cancelled(self.read()).await else { return };
            let now = clock.now();
            {
                let mut state = self.state.lock();
                state.is_wanted = false;
                match read {
                    Ok((keys, expected)) => {
                        tracing::debug!(keys = keys.len(), issuer = expected.issuer, "read the keys of tokens");
                        state.known = Some(Arc::new(Known { keys, expected, at: now }));
                    }
                    Err(why) => {
                        let is_new = state.failure.as_ref().is_none_or(|(last, _)| *last != why);
                        if is_new {
                            tracing::warn!(why, "cannot read the keys that verify the tokens of pods");
                        }
                        state.failure = Some((why, now));
                    }
                }
            }
            self.reads.send_modify(|reads| *reads += 1);
        }
    }

    async fn read(&self) -> Result<(Keys, Expected), String> {
        let (document, issuer) = match (&self.source, &self.options.issuer) {
            (Some(KeySource::File(path)), issuer) => (of_file(path).await?, issuer.clone().unwrap_or_default()),
            (Some(KeySource::ApiServer(client)), Some(issuer)) => {
                (of_server(client, JWKS, JWKS_TYPE).await?, issuer.clone())
            }
            (Some(KeySource::ApiServer(client)), None) => {
                let discovery = of_server(client, DISCOVERY, JSON).await?;
                let discovery: Discovery =
                    serde_json::from_slice(&discovery).map_err(|error| format!("{DISCOVERY}: {error}"))?;
                (of_server(client, JWKS, JWKS_TYPE).await?, discovery.issuer)
            }
            (None, _) => return Err("there is nothing to read them from".to_owned()),
        };
        let keys = Keys::parse(&document).map_err(|error| format!("{}: {error}", self.from()))?;
        if keys.is_empty() {
            let why = keys.unusable().first().copied().unwrap_or("it holds none");
            return Err(format!("{}: there is no key that larder can use: {why}", self.from()));
        }
        let expected = self.expected(issuer);
        Ok((keys, expected))
    }

    /// Where the keys are read, in words.
    fn from(&self) -> String {
        match &self.source {
            Some(KeySource::File(path)) => path.display().to_string(),
            Some(KeySource::ApiServer(client)) => format!("{}{JWKS}", client.server()),
            None => String::new(),
        }
    }

    /// Why no token can be verified, or only by keys that may be old: the last read failed, and no verdict of the API server takes the place of
    /// the keys.
    pub(crate) fn failure(&self) -> Option<String> {
        let (why, is_over) = {
            let state = self.state.lock();
            let (why, at) = state.failure.as_ref()?;
            let of_keys = state.known.as_ref().is_some_and(|known| known.at >= *at);
            let of_reviews = state.known.is_none() && self.reviews.as_ref().is_some_and(TokenReviews::works);
            (why.clone(), of_keys || of_reviews)
        };
        let also = self.reviews.as_ref().and_then(TokenReviews::failure);
        (!is_over).then(|| also.map_or_else(|| why.clone(), |also| format!("{why}; {also}")))
    }

    /// What is known; `None` where no tokens are taken.
    pub(crate) fn report(
        &self,
        now: Timestamp,
        wall: impl Fn(Timestamp) -> Option<WallTime>,
    ) -> Option<TokenKeysReport> {
        self.source.as_ref()?;
        let mut report =
            TokenKeysReport { from: self.from(), issuer: self.options.issuer.clone(), ..Default::default() };
        report.audiences.clone_from(&self.options.audiences);
        report.reviews = self.reviews.as_ref().map(|reviews| reviews.report(&wall));
        let state = self.state.lock();
        if let Some(known) = &state.known {
            report.keys = u64::try_from(known.keys.len()).unwrap_or(u64::MAX);
            report.unusable = known.keys.unusable().iter().map(|why| (*why).to_owned()).collect();
            report.issuer = Some(known.expected.issuer.clone());
            report.audiences.clone_from(&known.expected.audiences);
            report.read_at = wall(known.at);
            report.age_seconds = Some(now.saturating_duration_since(known.at).as_secs_f64());
        }
        if let Some((why, at)) = &state.failure {
            (report.last_error, report.last_error_at) = (Some(why.clone()), wall(*at));
        }
        Some(report)
    }
}

/// Waits until a read has ended, for a time.
async fn wait_for(mut ended: watch::Receiver<u64>) {
    // Either way the state says what is known then.
    let _ = tokio::time::timeout(WAIT, ended.changed()).await;
}

async fn of_server(client: &KubeClient, path: &'static str, accept: &'static str) -> Result<Vec<u8>, String> {
    client.document_as(path, accept).await.map_err(|error| {
        let advice = if error.is_forbidden() {
            "; bind the ClusterRole system:service-account-issuer-discovery to larder's identity, or give the keys with --jwks-file"
        } else {
            ""
        };
        format!("{error}{advice}")
    })
}

async fn of_file(path: &Path) -> Result<Vec<u8>, String> {
    let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let read = path.to_owned();
    let reading = tokio::task::spawn_blocking(move || {
        let mut text = Vec::new();
        larder_file::open_regular(&read)?.take(LARGEST + 1).read_to_end(&mut text)?;
        Ok::<_, std::io::Error>(text)
    });
    // A file system that does not answer holds the thread, and nothing else.
    let read = tokio::time::timeout(FILE_DEADLINE, reading).await.map_err(|_| problem(&"it takes too long to read"))?;
    let text = read.map_err(|error| problem(&error))?.map_err(|error| problem(&error))?;
    if text.len() as u64 > LARGEST {
        return Err(problem(&"it is larger than 1 MiB"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_clock::VirtualClock;
    use larder_testkit::tokens::{TokenSigner, pod_claims};
    use std::fs;

    const ISSUER: &str = "https://kubernetes.default.svc";

    #[tokio::test]
    async fn keys_are_read_at_a_bounded_rate_and_kept() {
        let (folder, now) = (tempfile::tempdir().unwrap(), WallTime::now());
        let file = folder.path().join("keys");
        let options = TokenOptions {
            jwks_file: Some(file.clone()),
            issuer: Some(ISSUER.to_owned()),
            audiences: vec!["larder".to_owned(), ISSUER.to_owned()],
        };
        let keys = Arc::new(TokenKeys::new(options, "node-1".into(), None));
        let (clock, token) = (VirtualClock::default(), CancellationToken::new());
        let running = tokio::spawn(Arc::clone(&keys).run(clock.clone(), token.clone()));
        let [old, new] = [(); 2].map(|()| TokenSigner::p256().unwrap());
        let shown =
            |signer: &TokenSigner| signer.token(&pod_claims(ISSUER, "node-1", "web", ["shop-1", "u-1"], "shop", now));
        let check = async |signer: &TokenSigner| keys.verify(&shown(signer), &clock, || now, |_| true).await.map(drop);
        let unknown = |known| Err(TokenCheckError::Refused(TokenError::UnknownKey { known }));

        let Err(TokenCheckError::NoKeys { why }) = check(&old).await else { panic!("there is no file") };
        assert!(why.contains("keys: No such file"), "{why}");
        fs::write(&file, old.pem()).unwrap();
        assert!(matches!(check(&old).await, Err(TokenCheckError::NoKeys { .. })), "it was read a moment ago");
        clock.advance(PAUSE);
        assert_eq!(check(&old).await, Ok(()));
        assert_eq!(keys.failure(), None);
        fs::write(&file, old.pem() + &new.pem()).unwrap();
        assert_eq!(check(&new).await, unknown(1), "it was read a moment ago");
        clock.advance(PAUSE);
        let elsewhere = new.token(&pod_claims(ISSUER, "node-2", "web", ["shop-1", "u-1"], "shop", now));
        assert_eq!(
            keys.verify(&elsewhere, &clock, || now, |_| true).await.map(drop),
            unknown(1),
            "it is worth no read"
        );
        assert_eq!(check(&new).await, Ok(()));
        // What was read outlasts the file.
        fs::write(&file, "garbage").unwrap();
        clock.advance(PAUSE);
        assert_eq!(check(&TokenSigner::p256().unwrap()).await, unknown(2));
        assert!(keys.failure().is_some_and(|why| why.contains("neither a JWKS")), "{:?}", keys.failure());
        assert_eq!((check(&old).await, check(&new).await), (Ok(()), Ok(())));
        // Old keys are read again, and the token does not wait for that.
        fs::write(&file, new.pem()).unwrap();
        clock.advance(REFRESH);
        let mut reads = keys.reads.subscribe();
        assert_eq!(check(&old).await, Ok(()));
        reads.changed().await.unwrap();
        assert_eq!(check(&old).await, unknown(1));
        let report = keys.report(clock.now(), |_| None).unwrap();
        assert_eq!((report.keys, report.audiences.len()), (1, 2));
        token.cancel();
        running.await.unwrap();
    }
}
