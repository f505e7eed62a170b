//! Finds the container runtime of this node, and passes calls on to it. Until it is found, calls fail as unavailable.
//!
//! # Guarantees
//!
//! - *A socket is used only after a runtime has answered there* to `Version` of CRI v1. Until then the search repeats, with
//!   pauses that grow to ten seconds. A new socket ends the pause within a second.
//! - *The runtime that was found is kept* until larder ends, because another runtime has other pods. Once a minute the search
//!   looks for others that answer, and reports them.
//!
//! # Cancel safety
//!
//! Every future here can be dropped. A search that is dropped closes its connections.

use crate::metrics::RuntimeMetrics;
use futures_util::{Stream, TryStreamExt as _, stream};
use larder_cri::{CriError, CriObserver, CriOptions, CriRuntime, Endpoint, FoundRuntimes, find_runtimes};
use larder_pleg::{
    ContainerEvent, ContainerStatus, EventSource, KnownPod, PodStatus, Runtime, RuntimeCall, RuntimeContainer,
    RuntimeError, RuntimePod,
};
use larder_pod_status::PodUid;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

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
pub(crate) struct DiscoveredRuntime {
    /// Where to look for a runtime; empty if the settings name its endpoint.
    sockets: Vec<Endpoint>,
    options: CriOptions,
    metrics: Arc<RuntimeMetrics>,
    /// Set at the start if the settings name the endpoint, else when a runtime has answered.
    found: OnceLock<CriRuntime>,
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

impl DiscoveredRuntime {
    /// The runtime at an endpoint.
    ///
    /// # Errors
    ///
    /// If an option cannot work.
    pub(super) fn at(endpoint: Endpoint, options: CriOptions, metrics: Arc<RuntimeMetrics>) -> Result<Self, CriError> {
        let runtime = CriRuntime::with_observer(endpoint, options.clone(), metrics.clone())?;
        Ok(Self { found: OnceLock::from(runtime), ..Self::first_of(Vec::new(), options, metrics)? })
    }

    /// The first of these sockets where a runtime answers.
    ///
    /// # Errors
    ///
    /// If an option cannot work.
    pub(super) fn first_of(
        sockets: Vec<Endpoint>,
        options: CriOptions,
        metrics: Arc<RuntimeMetrics>,
    ) -> Result<Self, CriError> {
        options.validate()?;
        Ok(Self { sockets, options, metrics, found: OnceLock::new(), search: watch::Sender::default() })
    }

    /// The runtime; after the first search, the error that says why there is none.
    async fn get(&self, call: &'static str) -> Result<&CriRuntime, RuntimeError> {
        if let Some(runtime) = self.found.get() {
            return Ok(runtime);
        }
        let mut search = self.search.subscribe();
        let searched = search.wait_for(|search| search.failure.is_some() || self.found.get().is_some()).await;
        // Fails only when the sender is gone, and `self` owns the sender.
        let failure = searched.ok().and_then(|search| search.failure.clone());
        self.found.get().ok_or_else(|| RuntimeError::Unavailable {
            call: Arc::new(RuntimeCall::new(call)),
            endpoint: self.endpoint().into(),
            reason: failure.unwrap_or_else(|| "it has not been looked for yet".into()),
        })
    }

    /// Returns once there is a runtime.
    pub(super) async fn found(&self) {
        // Fails only when the sender is gone, and `self` owns the sender.
        let _ = self.search.subscribe().wait_for(|_| self.found.get().is_some()).await;
    }

    /// Looks for a runtime until one is found, then calls `tell`, and looks for other runtimes from then on. Returns at once if
    /// the settings name the endpoint, and never otherwise.
    pub(super) async fn search(&self, tell: impl FnOnce()) {
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
        let observer: Arc<dyn CriObserver> = self.metrics.clone();
        match find_runtimes(&self.sockets, &self.options, &observer).await {
            Ok(found) if !found.runtimes.is_empty() => self.take(found.runtimes).await,
            Ok(found) => self.note_failure(&self.failure_of(&found, sockets)),
            // The options were validated when this was made.
            Err(error) => self.note_failure(&error.to_string()),
        }
        self.found.get().is_some()
    }

    /// Takes the first of these runtimes.
    async fn take(&self, runtimes: Vec<CriRuntime>) {
        let mut runtimes = runtimes.into_iter();
        let Some(first) = runtimes.next() else { return };
        if let Ok(version) = first.version().await {
            let endpoint = first.endpoint();
            tracing::info!(%endpoint, runtime = version.name, version = version.version, "the container runtime is found");
        }
        let runtime = self.found.get_or_init(|| first);
        self.note_others(runtime, runtimes.map(|other| other.endpoint().clone()).collect());
    }

    async fn survey(&self) {
        let Some(runtime) = self.found.get() else { return };
        let others: Vec<_> = self.sockets.iter().filter(|socket| *socket != runtime.endpoint()).cloned().collect();
        let observer: Arc<dyn CriObserver> = Arc::new(());
        // The options were validated when this was made.
        let Ok(found) = find_runtimes(&others, &self.options, &observer).await else { return };
        self.note_others(runtime, found.runtimes.iter().map(|other| other.endpoint().clone()).collect());
    }

    fn note_failure(&self, why: &str) {
        self.search.send_modify(|search| search.failure = Some(why.into()));
    }

    fn note_others(&self, used: &CriRuntime, others: Vec<Endpoint>) {
        let mut is_news = false;
        self.search.send_modify(|search| {
            is_news = search.others != others;
            search.others = others;
        });
        if let Some(note) = self.note().filter(|_| is_news) {
            tracing::warn!(used = %used.endpoint(), "{note}");
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
    pub(super) fn endpoint(&self) -> String {
        self.found.get().map_or_else(|| format!("one of {}", self.paths()), |runtime| runtime.endpoint().to_string())
    }

    /// A warning if another runtime answers, too.
    pub(super) fn note(&self) -> Option<String> {
        let used = self.found.get()?.endpoint();
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

impl Runtime for DiscoveredRuntime {
    async fn pods(&self) -> Result<Vec<RuntimePod>, RuntimeError> {
        self.get("ListPodSandbox").await?.pods().await
    }

    async fn pod(&self, uid: &PodUid) -> Result<Option<RuntimePod>, RuntimeError> {
        self.get("ListPodSandbox").await?.pod(uid).await
    }

    async fn pod_status(&self, pod: &RuntimePod, known: Option<KnownPod<'_>>) -> Result<PodStatus, RuntimeError> {
        self.get("PodSandboxStatus").await?.pod_status(pod, known).await
    }

    async fn container_status(
        &self,
        pod: &RuntimePod,
        container: &RuntimeContainer,
    ) -> Result<Option<ContainerStatus>, RuntimeError> {
        self.get("ContainerStatus").await?.container_status(pod, container).await
    }
}

impl EventSource for DiscoveredRuntime {
    fn events(&self) -> impl Stream<Item = Result<ContainerEvent, RuntimeError>> + Send + '_ {
        let open = async move { self.get("GetContainerEvents").await.map(EventSource::events) };
        stream::once(open).try_flatten().inspect_ok(|event| self.metrics.runtime_event(event))
    }

    async fn replaced(&self) {
        self.found().await;
        if let Some(runtime) = self.found.get() {
            runtime.replaced().await;
        }
    }
}
