//! A simulated runtime, and a PLEG on it with the daemon's settings.

use larder_clock::{Clock as _, MonotonicClock, Timestamp};
use larder_cri::{CriOptions, CriRuntime, parse_endpoint};
use larder_pleg::{
    Delivery, EventReceiver, Pleg, PlegObserver, PlegOptions, PodLifecycleEvent, PodStatus, RuntimeError,
};
use larder_pod_status::{Entry, Options, PodStatusReader, PodUid, pod_status_cache};
use larder_testkit::cri_runtime::{Containers, CriServer, CriServerOptions, EventStream, SandboxSpec};
use larder_testkit::poll_until;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long a test waits for what is to happen soon.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// Longer than any test: a PLEG with this period relists nothing by itself after its first time.
pub(crate) const NEVER: Duration = Duration::from_secs(1_000);

/// The daemon's settings.
pub(crate) fn options() -> PlegOptions {
    let mut options = PlegOptions::default();
    options.independent_pods = true;
    options.keep_unchanged = true;
    options.relist_on_wait = true;
    options.keep_last_status = true;
    options.inspection_concurrency = NonZeroUsize::new(8).expect("not zero");
    options.inspection_deadline = Some(Duration::from_secs(10));
    options.relist_threshold = NEVER * 2;
    options
}

/// The daemon's settings, with nothing relisted but what is asked for.
pub(crate) fn events_only() -> PlegOptions {
    let mut options = options();
    options.relist_period = NEVER;
    options.relist_on_wait = false;
    options
}

pub(crate) struct Bench {
    pub(crate) server: CriServer,
    pub(crate) pleg: Arc<Pleg<CriRuntime, MonotonicClock>>,
    pub(crate) runtime: CriRuntime,
    pub(crate) cache: PodStatusReader<PodStatus, RuntimeError>,
    pub(crate) clock: MonotonicClock,
    pub(crate) events: EventReceiver,
    cancel: CancellationToken,
    tasks: JoinSet<()>,
    _folder: TempDir,
}

impl Bench {
    pub(crate) async fn start(options: PlegOptions) -> Self {
        Self::start_on(options, CriServerOptions::default()).await
    }

    pub(crate) async fn start_on(options: PlegOptions, server: CriServerOptions) -> Self {
        Self::observed(options, server, Arc::new(())).await
    }

    /// With the first relist done, and events followed where there are any.
    pub(crate) async fn observed(
        options: PlegOptions,
        server: CriServerOptions,
        observer: Arc<dyn PlegObserver>,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let has_events = server.events == EventStream::Open;
        let server = CriServer::start_with(&folder.path().join("cri.sock"), server).await.expect("a socket");
        let endpoint = parse_endpoint(&server.endpoint()).expect("an endpoint");
        let runtime = CriRuntime::new(endpoint, CriOptions::default()).expect("a client");
        let clock = MonotonicClock::new();
        let (writer, cache) = pod_status_cache(Options::default());
        let pleg = Pleg::new(Arc::new(runtime.clone()), clock, writer, options).expect("options");
        let pleg = Arc::new(pleg.with_observer(observer));
        let events = pleg.subscribe();
        let cancel = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let (one, token) = (pleg.clone(), cancel.clone());
        tasks.spawn(async move { one.run(token).await });
        let (one, source, token) = (pleg.clone(), runtime.clone(), cancel.clone());
        tasks.spawn(async move { one.watch_events(&source, token).await });
        let bench = Self { server, pleg, runtime, cache, clock, events, cancel, tasks, _folder: folder };
        bench.until("the first relist", || bench.pleg.last_relist().0).await;
        if has_events {
            bench.until("an event stream", || (bench.server.event_streams() == 1).then_some(())).await;
        }
        bench
    }

    pub(crate) fn containers(&self) -> &Containers {
        self.server.containers()
    }

    /// A pod with a running container; the sandbox and the container.
    pub(crate) fn pod(&self, uid: &str) -> (String, String) {
        let sandbox = self.containers().run_sandbox(&SandboxSpec::new("ns", uid, uid));
        let container = self.containers().create_container(&sandbox, "app", "app:1").expect("created");
        self.containers().start_container(&container).expect("started");
        (sandbox, container)
    }

    pub(crate) async fn until<T>(&self, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
        let met = poll_until(SOON, || std::future::ready(condition())).await;
        met.unwrap_or_else(|_| panic!("not within {SOON:?}: {what}; {:?}", self.pleg.stats()))
    }

    pub(crate) fn entry(&self, uid: &str) -> Entry<PodStatus, RuntimeError> {
        self.cache.get(&uid.into())
    }

    /// What the pod's one container is doing, in a word.
    pub(crate) fn state(&self, uid: &str) -> Option<&'static str> {
        Some(self.entry(uid).status()?.container("app")?.state.as_str())
    }

    pub(crate) async fn until_state(&self, uid: &str, state: &str) {
        self.until(&format!("{uid} is {state}"), || (self.state(uid) == Some(state)).then_some(())).await;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The next lifecycle event of the kind, with gaps and others left out.
    pub(crate) async fn next_event(&mut self, wanted: larder_pleg::EventKind) -> Arc<PodLifecycleEvent> {
        let found = async {
            loop {
                match self.events.recv().await.expect("a PLEG") {
                    Delivery::Event(event) if event.kind == wanted => return event,
                    _ => {}
                }
            }
        };
        tokio::time::timeout(SOON, found).await.expect("an event in time")
    }

    /// Whether the cache says of every pod what the runtime says of it now.
    pub(crate) async fn is_true(&self) -> Result<(), String> {
        use larder_pleg::Runtime as _;
        let pods = self.runtime.pods().await.map_err(|error| error.to_string())?;
        let (mut there, mut cached): (Vec<PodUid>, _) =
            (pods.iter().map(|pod| pod.uid.clone()).collect(), self.cache.uids());
        there.sort();
        cached.sort();
        if there != cached {
            return Err(format!("{there:?} are there, {cached:?} are cached"));
        }
        for pod in &pods {
            let mut truth = self.runtime.pod_status(pod, None).await.map_err(|error| error.to_string())?;
            let entry = self.cache.get(&pod.uid);
            if let Some(error) = entry.error() {
                return Err(error.to_string());
            }
            let status = entry.status().ok_or("no status")?;
            // Those of before are kept for a pod whose sandboxes have all stopped.
            if truth.ips.is_empty() && truth.active_sandbox_id.is_none() {
                truth.ips.clone_from(&status.ips);
            }
            if **status != truth {
                return Err(format!("{status:?} is cached, {truth:?} is true"));
            }
        }
        Ok(())
    }

    pub(crate) async fn stop(mut self) {
        self.cancel.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("no panic");
        }
        self.server.shutdown().await;
    }
}
