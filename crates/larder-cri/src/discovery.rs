//! Discovers the container runtime among several sockets.
//!
//! A [`CriRuntime`] has one of these. Where its endpoint is named, the runtime is found from the start. Otherwise calls fail as
//! unavailable until the search has found one.
//!
//! # Guarantees
//!
//! - *Only a runtime is found.* A socket counts when its owner has answered `Version` of CRI v1: a containerd without its CRI
//!   plugin, as Docker's is, does not. Until then the search repeats, with pauses that grow to ten seconds. A new socket ends the
//!   pause within a second.
//! - *Nobody holds up the search.* The sockets are asked side by side. A look at all of them ends within five seconds, and within
//!   one second of the first answer.
//! - *The runtime that was found is kept*, because another runtime has other pods. Once a minute the search looks for others
//!   that answer, and reports them.
//!
//! # Cancel safety
//!
//! Every future here can be dropped. A search that is dropped closes its connections.

use crate::client::{Client, CriRuntime};
use crate::endpoint::Endpoint;
use crate::error::CriError;
use crate::observe::CriObserver;
use crate::options::CriOptions;
use futures_util::stream::{FuturesUnordered, StreamExt};
use larder_pleg::{RuntimeCall, RuntimeError};
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a look at all sockets may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How long the other sockets have once one has answered.
const GRACE: Duration = Duration::from_secs(1);
/// The pause after the first search that found nothing; each further search doubles it. Also how often the search looks for new
/// sockets.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest of those pauses.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How often the search looks for other runtimes after one is found.
const SURVEY: Duration = Duration::from_mins(1);

/// What the operator can do if no runtime is found.
const REMEDY: &str = "name its socket with --runtime-endpoint";

/// A runtime that may not be found yet.
pub(crate) struct Discovery {
    /// Where to look for a runtime; empty where the endpoint is named.
    sockets: Vec<Endpoint>,
    options: CriOptions,
    observer: Arc<dyn CriObserver>,
    found: OnceLock<Arc<Client>>,
    search: watch::Sender<Search>,
}

/// Device and inode of a socket.
type Identity = (u64, u64);

/// The progress of the search.
#[derive(Default)]
struct Search {
    /// Why the last search found nothing.
    failure: Option<Arc<str>>,
    /// The sockets where another runtime answers.
    others: Vec<Endpoint>,
}

impl Discovery {
    /// The runtime at the endpoint of this client.
    pub(crate) fn at(client: Client, options: CriOptions, observer: Arc<dyn CriObserver>) -> Self {
        Self { found: OnceLock::from(Arc::new(client)), ..Self::among(Vec::new(), options, observer) }
    }

    /// The first of these sockets where a runtime answers.
    pub(crate) fn among(sockets: Vec<Endpoint>, options: CriOptions, observer: Arc<dyn CriObserver>) -> Self {
        Self { sockets, options, observer, found: OnceLock::new(), search: watch::Sender::default() }
    }

    /// The runtime, if one is found.
    pub(crate) fn found(&self) -> Option<&Arc<Client>> {
        self.found.get()
    }

    /// The runtime; after the first search, the error that says why there is none.
    pub(crate) async fn client(&self, call: &'static str) -> Result<&Arc<Client>, RuntimeError> {
        if let Some(client) = self.found.get() {
            return Ok(client);
        }
        let mut search = self.search.subscribe();
        let searched = search.wait_for(|search| search.failure.is_some() || self.found.get().is_some()).await;
        // Fails only when the sender is gone, and `self` owns the sender.
        let failure = searched.ok().and_then(|search| search.failure.clone());
        self.found.get().ok_or_else(|| RuntimeError::Unavailable {
            call: Arc::new(RuntimeCall::new(call)),
            endpoint: self.place().into(),
            reason: failure.unwrap_or_else(|| "it has not been looked for yet".into()),
        })
    }

    /// Returns once there is a runtime.
    pub(crate) async fn until_found(&self) {
        // Fails only when the sender is gone, and `self` owns the sender.
        let _ = self.search.subscribe().wait_for(|_| self.found.get().is_some()).await;
    }

    /// Looks for a runtime until one is found, then calls `tell`, and looks for other runtimes from then on. Returns at once if
    /// the settings name the endpoint, and never otherwise.
    pub(crate) async fn search(&self, tell: impl FnOnce()) {
        if self.sockets.is_empty() {
            return;
        }
        let mut pause = PAUSE;
        loop {
            let sockets = self.identities().await;
            // Boxed, so that its memory is free between the searches.
            if Box::pin(self.look(&sockets)).await {
                break;
            }
            let retry_at = Instant::now() + pause;
            pause = (pause * 2).min(PAUSE_MAX);
            while Instant::now() < retry_at {
                tokio::time::sleep(PAUSE).await;
                if self.identities().await != sockets {
                    pause = PAUSE;
                    break;
                }
            }
        }
        tell();
        loop {
            tokio::time::sleep(SURVEY).await;
            Box::pin(self.survey()).await;
        }
    }

    /// Which sockets exist. A server that restarts makes a new one.
    async fn identities(&self) -> Vec<Option<Identity>> {
        let mut identities = Vec::with_capacity(self.sockets.len());
        for socket in &self.sockets {
            identities.push(tokio::fs::metadata(socket.path()).await.ok().map(|meta| (meta.dev(), meta.ino())));
        }
        identities
    }

    /// Looks for a runtime at all sockets once. Returns whether one was found.
    async fn look(&self, sockets: &[Option<Identity>]) -> bool {
        match find_runtimes(&self.sockets, &self.options, &self.observer).await {
            Ok(found) if !found.runtimes.is_empty() => self.take(found.runtimes).await,
            Ok(found) => self.note_failure(&self.failure_of(&found, sockets)),
            // The options were validated when this was made.
            Err(error) => self.note_failure(&error.to_string()),
        }
        self.found.get().is_some()
    }

    /// Takes the first of these runtimes.
    async fn take(&self, runtimes: Vec<CriRuntime>) {
        let mut clients = runtimes.iter().filter_map(CriRuntime::found);
        let Some(first) = clients.next() else { return };
        if let Ok(version) = first.version().await {
            let endpoint = &first.endpoint;
            tracing::info!(%endpoint, runtime = version.name, version = version.version, "the container runtime is found");
        }
        let used = self.found.get_or_init(|| Arc::clone(first));
        self.note_others(used, clients.map(|other| other.endpoint.clone()).collect());
    }

    async fn survey(&self) {
        let Some(used) = self.found.get() else { return };
        let others: Vec<_> = self.sockets.iter().filter(|socket| **socket != used.endpoint).cloned().collect();
        let observer: Arc<dyn CriObserver> = Arc::new(());
        // The options were validated when this was made.
        let Ok(found) = find_runtimes(&others, &self.options, &observer).await else { return };
        let clients = found.runtimes.iter().filter_map(CriRuntime::found);
        self.note_others(used, clients.map(|other| other.endpoint.clone()).collect());
    }

    fn note_failure(&self, why: &str) {
        self.search.send_modify(|search| search.failure = Some(why.into()));
    }

    fn note_others(&self, used: &Client, others: Vec<Endpoint>) {
        let mut is_news = false;
        self.search.send_modify(|search| {
            is_news = search.others != others;
            search.others = others;
        });
        if let Some(note) = self.note().filter(|_| is_news) {
            tracing::warn!(used = %used.endpoint, "{note}");
        }
    }

    fn failure_of(&self, found: &FoundRuntimes, sockets: &[Option<Identity>]) -> String {
        if sockets.iter().all(Option::is_none) {
            return format!(
                "none of {} is there; start the runtime, {REMEDY}, or do without one with --runtime-endpoint none",
                self.paths()
            );
        }
        let there = found.failures.iter().zip(sockets).filter(|(_, socket)| socket.is_some());
        let each: Vec<_> =
            there.map(|((endpoint, error), _)| format!("{} ({error})", endpoint.path().display())).collect();
        format!("no runtime answers at {}; start the runtime, or {REMEDY}", each.join(", at "))
    }

    fn paths(&self) -> String {
        let paths: Vec<_> = self.sockets.iter().map(|socket| socket.path().display().to_string()).collect();
        paths.join(", ")
    }

    /// Where the runtime listens, or where larder looks for it.
    pub(crate) fn place(&self) -> String {
        self.found.get().map_or_else(|| format!("one of {}", self.paths()), |client| client.endpoint.to_string())
    }

    /// A warning if another runtime answers, too.
    pub(crate) fn note(&self) -> Option<String> {
        let used = &self.found.get()?.endpoint;
        let others: Vec<_> = self.search.borrow().others.iter().map(ToString::to_string).collect();
        (!others.is_empty()).then(|| {
            format!(
                "container runtimes answer at {used} and at {}: the one at {used} is used; if it is the wrong one, name the \
                 right one with --runtime-endpoint",
                others.join(", ")
            )
        })
    }
}

/// The result of a search.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FoundRuntimes {
    /// The runtimes that have answered, in the order of their sockets.
    pub runtimes: Vec<CriRuntime>,
    /// The sockets where no runtime has answered, and why not.
    pub failures: Vec<(Endpoint, RuntimeError)>,
}

/// Asks at each of these sockets whether a runtime that speaks CRI v1 is there.
///
/// # Errors
///
/// If an option cannot work; see [`CriOptions::validate`]. That no runtime is there is no error.
///
/// ```
/// use larder_cri::{CriObserver, CriOptions, find_runtimes, parse_endpoint};
/// use std::sync::Arc;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let nowhere = parse_endpoint("/run/no-runtime-here/containerd.sock").unwrap();
/// let observer: Arc<dyn CriObserver> = Arc::new(());
/// let found = find_runtimes(&[nowhere.clone()], &CriOptions::default(), &observer).await.unwrap();
/// assert!(found.runtimes.is_empty());
/// assert_eq!(found.failures[0].0, nowhere);
/// # });
/// ```
pub async fn find_runtimes(
    endpoints: &[Endpoint],
    options: &CriOptions,
    observer: &Arc<dyn CriObserver>,
) -> Result<FoundRuntimes, CriError> {
    let began = Instant::now();
    let mut asked = FuturesUnordered::new();
    for (at, endpoint) in endpoints.iter().enumerate() {
        let runtime = CriRuntime::with_observer(endpoint.clone(), options.clone(), Arc::clone(observer))?;
        asked.push(async move { (at, runtime.version().await.map(|_| runtime)) });
    }
    let mut answers: Vec<Option<Result<CriRuntime, RuntimeError>>> = endpoints.iter().map(|_| None).collect();
    let mut until = began + LIMIT;
    while let Ok(Some((at, answer))) = tokio::time::timeout_at(until, asked.next()).await {
        if answer.is_ok() {
            until = until.min(Instant::now() + GRACE);
        }
        answers[at] = Some(answer);
    }
    let mut found = FoundRuntimes::default();
    for (endpoint, answer) in endpoints.iter().zip(answers) {
        let timed_out = || RuntimeError::TimedOut { call: RuntimeCall::new("Version").into(), after: began.elapsed() };
        match answer.unwrap_or_else(|| Err(timed_out())) {
            Ok(runtime) => found.runtimes.push(runtime),
            Err(error) => found.failures.push((endpoint.clone(), error)),
        }
    }
    Ok(found)
}
