//! The handle of one node's larder: [`Node`] starts the sources, caches and tasks, and every read goes through it.
//!
//! Reads of pods and of the node come from the readers of their sources. Reads of objects go to the cache of their kind
//! (`objects`), after the registrar has applied every change of the pods. Reads of container status go to `runtime`. `sources`
//! opens the sources. `status` and `gauges` compute reports and metrics from the same parts.

use crate::answer::Answer;
use crate::config::Config;
use crate::documents::{Documents, FetchedDocument, ServerDocument};
use crate::error::{ReadError, StartError};
use crate::metrics::Metrics;
use crate::namespaces::Namespaces;
use crate::objects::{ObjectCache, ObjectCacheConfig, ObjectList};
use crate::pods::NodePods;
use crate::registrar::{Caches, Registrar};
use crate::runtime::{PodStatusRead, RuntimeSide, WaitError};
use crate::source::{ObjectReflectors, ObjectSource};
use crate::strategy::{ChangeDetection, Strategy};
use crate::tasks::Tasks;
use crate::tokens::TokenKeys;
use crate::whois::{Whois, WhoisError, WhoisPod, WhoisTarget, is_of_host};
use larder_clock::{Clock as _, MachineClocks, MonotonicClock, ThisMachine, Timestamp};
use larder_identity::{Process, ProcessError};
use larder_kube::NodeCheck;
use larder_manifests::{Broken, BrokenPods};
use larder_objects::{FreshState, Freshness, ObjectKey, Outcome, PodIdentity, Source, StaleReason, StoreTtl};
use larder_pleg::{ContainerStatus, EventReceiver, PodLifecycleEvent};
use larder_pod_status::PodUid;
use larder_resource::journal::Journal;
use larder_resource::source::SourceObject;
use larder_resource::{Kind, KubeObject, ObjectKind, Pod, SourceReader};
use sources::{Origin, RunSources, Sources, runtime_side};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

mod gauges;
mod node_pods;
mod pass_through;
mod sources;
mod status;
mod tokens;

/// How long after the start the report does not complain that the runtime was not listed.
const GRACE: Duration = Duration::from_secs(3);
/// How often objects that could not be prefetched are tried again.
const PREFETCH_PERIOD: Duration = Duration::from_secs(5);
/// The deadline of each prefetch.
const PREFETCH_DEADLINE: Duration = Duration::from_secs(30);
/// How often objects that are watched by the Kubernetes API are read, for strategies that do not watch.
const FOLLOW_PERIOD: Duration = Duration::from_secs(10);
/// The same for objects from manifests, which are in this process.
const FOLLOW_MANIFESTS_PERIOD: Duration = Duration::from_millis(250);
/// How long `stop` waits for the reflectors of a kind.
const REFLECTORS_END: Duration = Duration::from_secs(2);
/// Why something of the cluster is not served.
const NO_API_SERVER: &str = "this larder runs without an API server (--manifests)";
/// When a client may retry, if no source said when.
const RETRY: Duration = Duration::from_secs(1);

/// One node's larder.
///
/// `M` is the machine whose clocks it reads. It is a type parameter so that a test can put a machine to sleep. It is not a
/// trait object, because each read of a fresh object asks the clock.
///
/// ```
/// use larder_node::{Cluster, Config, Node, RuntimeEndpoint};
/// use tokio_util::sync::CancellationToken;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let manifests = tempfile::tempdir().unwrap();
/// let mut config = Config::new("edge-1", Cluster::Manifests(manifests.path().to_owned()));
/// config.runtime = RuntimeEndpoint::None;
/// let node = Node::start(config, CancellationToken::new()).await.unwrap();
/// node.settled().await;
/// assert!(node.list_pods().unwrap().items.is_empty());
/// node.stop().await;
/// # });
/// ```
pub struct Node<M: MachineClocks = ThisMachine> {
    name: Arc<str>,
    clock: MonotonicClock<M>,
    started_at: Timestamp,
    origin: Origin,
    pods: SourceReader<Pod>,
    /// The object of this node in the API.
    api_object: SourceReader<larder_resource::Node>,
    caches: Arc<Caches<M>>,
    /// `None` without an API server.
    namespaces: Option<Arc<Namespaces<M>>>,
    registrar: Arc<Registrar<M>>,
    runtime: Option<Arc<RuntimeSide<M>>>,
    /// The pods as this node knows them.
    known_pods: Arc<NodePods<M>>,
    metrics: Metrics,
    documents: Documents,
    tokens: Arc<TokenKeys>,
    /// The error with which the API server refused the node's name or the credentials at the start.
    refusal: Arc<OnceLock<String>>,
    tasks: Tasks,
}

/// Pods of this node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PodList {
    /// The pods, ordered by namespace and name.
    pub items: Vec<Arc<Pod>>,
    /// How fresh the whole list is.
    pub freshness: Freshness,
    /// Why it is stale, for a person; `None` for a fresh one.
    pub why: Option<String>,
}

impl Node {
    /// Checks the settings, and starts the sources, caches and tasks of a node's larder. They end when the token is cancelled.
    /// [`stop`](Self::stop) cancels it and waits for them.
    ///
    /// Neither the API server nor the container runtime has to answer yet: larder retries until they do.
    ///
    /// # Errors
    ///
    /// A setting, a kubeconfig, a folder of manifests or an endpoint cannot be used.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, nothing keeps running.
    pub async fn start(config: Config, token: CancellationToken) -> Result<Arc<Self>, StartError> {
        Self::start_with_clock(config, MonotonicClock::new(), token).await
    }
}

impl<M: MachineClocks> Node<M> {
    /// As [`start`](Node::start), with a clock of another machine, such as one that a test puts to sleep.
    ///
    /// # Errors
    ///
    /// As [`start`](Node::start).
    ///
    /// # Cancel safety
    ///
    /// As [`start`](Node::start).
    pub async fn start_with_clock(
        config: Config,
        clock: MonotonicClock<M>,
        token: CancellationToken,
    ) -> Result<Arc<Self>, StartError> {
        config.validate()?;
        let tasks = Tasks::new(token.child_token());
        let metrics = Metrics::new();
        let runtime = runtime_side(&config, clock, &metrics)?.map(Arc::new);
        let sources = Sources::open(&config, clock).await?;
        let name: Arc<str> = config.node_name.as_str().into();
        let (strategies, default_ttl) = match sources.source {
            // Each read looks into the manifests, which are in memory, and the last object read stays as last known.
            Some(Source::Manifest) => (ChangeDetection::same(Strategy::Ttl), Duration::ZERO),
            _ => (config.change_detection, config.default_ttl),
        };
        let cache = |kind: Kind, strategy, fetch: ObjectSource, reflectors: ObjectReflectors| ObjectCacheConfig {
            kind,
            node: Arc::clone(&name),
            strategy,
            fetch,
            reflectors,
            watch: config.auto_options(),
            clock,
            ttl: StoreTtl::new(sources.node.clone(), default_ttl),
            source: sources.source,
            policy: config.policy.clone(),
            token: tasks.token.clone(),
            tasks: tasks.short.clone(),
            metrics: Arc::new(metrics.of(kind)),
        };
        let caches: Arc<Caches<M>> = Arc::new(sources.objects.map(|kind, (fetch, reflectors)| {
            ObjectCache::new(cache(kind.into(), *strategies.of(kind), fetch, reflectors))
        }));
        let namespaces = sources.namespaces.map(|fetch| {
            let config = cache(Kind::Namespace, Strategy::Ttl, fetch, ObjectReflectors::None);
            Arc::new(Namespaces::new(sources.pods.clone(), config))
        });
        let registrar =
            Arc::new(Registrar::new(sources.pods.clone(), Arc::clone(&caches), config.policy.release_ended_pods));
        let client = match &sources.origin {
            Origin::Kube(client, _) => Some(client.clone()),
            Origin::Manifests { .. } => None,
        };
        let tokens = Arc::new(TokenKeys::new(config.tokens.clone(), Arc::clone(&name), client));
        tasks.spawn("keys of tokens", Arc::clone(&tokens).run(clock, tasks.token.clone()));
        let is_of_manifests = matches!(sources.origin, Origin::Manifests { .. });
        let known_pods =
            NodePods::new(Arc::clone(&name), clock, sources.pods.clone(), is_of_manifests, runtime.clone());
        let node = Self {
            name,
            clock,
            started_at: clock.now(),
            origin: sources.origin,
            pods: sources.pods,
            api_object: sources.node,
            caches,
            namespaces,
            registrar,
            runtime,
            known_pods: Arc::new(known_pods),
            metrics,
            documents: Documents::default(),
            tokens,
            refusal: Arc::default(),
            tasks,
        };
        node.check_node_exists();
        node.run(sources.run, config.policy.fetch_on_reference);
        for kind in ObjectKind::ALL {
            let (caches, every, until) = (Arc::clone(&node.caches), config.idle_check(), node.tasks.token.clone());
            let task = format!("idle {}", kind.resource());
            node.tasks.spawn(task, async move { caches.of(kind).stop_idle(every, until).await });
            let (caches, until) = (Arc::clone(&node.caches), node.tasks.token.clone());
            let every = match (caches.of(kind).is_of_manifests(), caches.of(kind).strategy()) {
                (true, _) => FOLLOW_MANIFESTS_PERIOD,
                // Each read is a request.
                (false, Strategy::Direct) => config.default_ttl.max(FOLLOW_PERIOD),
                (false, Strategy::Ttl | Strategy::Watch | Strategy::Auto) => FOLLOW_PERIOD,
            };
            let task = format!("follow {}", kind.resource());
            node.tasks.spawn(task, async move { caches.of(kind).follow(every, PREFETCH_DEADLINE, until).await });
        }
        Ok(Arc::new(node))
    }

    fn run(&self, sources: RunSources, fetch_on_reference: bool) {
        let (tasks, token) = (&self.tasks, &self.tasks.token);
        match sources {
            RunSources::Kube(pods, node) => {
                tasks.spawn("pods", pods.run(token.clone()));
                tasks.spawn("node", node.run(token.clone()));
            }
            RunSources::Manifests(manifests) => tasks.spawn("manifests", manifests.run(token.clone())),
        }
        let (registrar, until) = (Arc::clone(&self.registrar), token.clone());
        tasks.spawn("registrar", async move { registrar.run(until).await });
        if let Some(runtime) = &self.runtime {
            let (runtime, until) = (Arc::clone(runtime), token.clone());
            tasks.spawn("pleg", async move { runtime.run(until).await });
        }
        if fetch_on_reference {
            for kind in ObjectKind::ALL {
                let (caches, until) = (Arc::clone(&self.caches), token.clone());
                tasks.spawn(kind.resource(), async move {
                    caches.of(kind).prefetch(PREFETCH_PERIOD, PREFETCH_DEADLINE, until).await;
                });
            }
        }
    }

    /// Asks the API server once whether the node exists and whether these credentials may read it. The node may register
    /// later, so a refusal is reported and ends nothing.
    fn check_node_exists(&self) {
        let Origin::Kube(client, _) = &self.origin else { return };
        let (client, name, refusal) = (client.clone(), Arc::clone(&self.name), Arc::clone(&self.refusal));
        let token = self.tasks.token.clone();
        self.tasks.short.spawn(async move {
            match token.run_until_cancelled(client.check_node(&name)).await {
                Some(Err(error)) => {
                    tracing::error!(%error, "the API server objects; going on, in case that changes");
                    let _ = refusal.set(error.to_string());
                }
                Some(Ok(NodeCheck::Unknown(error))) => tracing::warn!(%error, "the API server cannot be asked yet"),
                Some(Ok(NodeCheck::Found(_))) | None => {}
            }
        });
    }

    /// Notes how long the machine has slept since the last call, and returns it. Everything that was read before the sleep
    /// is that much older. Everything that is watched is stale until its connection brings something again.
    ///
    /// The owner of a node calls this when the machine wakes, and about every second. If the machine did not sleep, a call
    /// reads two clocks and does nothing.
    pub fn note_sleep(&self) -> Duration {
        let slept = self.clock.note_sleep();
        if let Origin::Kube(client, _) = &self.origin
            && !slept.is_zero()
        {
            client.note_sleep(slept);
        }
        slept
    }

    /// Ends every task and reflector, and waits for them.
    pub async fn stop(&self) {
        self.tasks.stop().await;
        if let Origin::Kube(_, reflectors) = &self.origin {
            for reflectors in reflectors.values() {
                // A reflector that does not end in time ends with the process.
                let _ = tokio::time::timeout(REFLECTORS_END, reflectors.stop()).await;
            }
        }
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The time now, by the clock of every timestamp of this node.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The wall time of a timestamp of this node; `None` if it is outside the calendar's range.
    pub fn wall_time(&self, at: Timestamp) -> Option<jiff::Timestamp> {
        crate::wall_time(&self.clock, at)
    }

    /// The timestamp of a wall time, in nanoseconds since the Unix epoch.
    pub fn from_wall_time(&self, unix_nanoseconds: i128) -> Timestamp {
        self.clock.from_wall_time(unix_nanoseconds)
    }

    /// The timestamp of a wall time that another program read. While the wall clock is being set, two timestamps are possible.
    /// This is the later one, so that a wait for something newer does not end too early.
    pub fn from_wall_time_read_elsewhere(&self, unix_nanoseconds: i128) -> Timestamp {
        self.clock.from_wall_time_read_elsewhere(unix_nanoseconds)
    }

    /// Reads a Secret or a ConfigMap that a pod of this node refers to, for at most `deadline`.
    ///
    /// If the fetch fails or outlasts the deadline, the answer is the object that is held, marked as stale.
    ///
    /// # Errors
    ///
    /// [`ReadError`] says whether the object is absent, not referenced by this node's pods, or not known yet.
    ///
    /// # Cancel safety
    ///
    /// A dropped read leaves nothing behind.
    pub async fn get_object(
        &self,
        kind: ObjectKind,
        namespace: &str,
        name: &str,
        deadline: Duration,
    ) -> Result<Answer<KubeObject>, ReadError> {
        let cache = self.caches.of(kind);
        self.registrar.caught_up().await;
        if cache.references(namespace, name) == 0 {
            Self::synced(&self.pods, || format!("{} \"{namespace}/{name}\"", kind.kind().singular()))?;
        }
        cache.read(namespace, name, deadline).await
    }

    /// As [`get_object`](Self::get_object), for a pod of this node, given by namespace and name. The pod's references are kept
    /// until the read is answered, even if the pod ends or is deleted meanwhile.
    ///
    /// # Errors
    ///
    /// Besides those of [`get_object`](Self::get_object), [`ReadError::NotReferencedByPod`], and [`ReadError::NotFound`]
    /// if the pod does not exist.
    ///
    /// # Cancel safety
    ///
    /// A dropped read releases the references.
    pub async fn get_object_for(
        &self,
        (namespace, pod): (&str, &str),
        kind: ObjectKind,
        name: &str,
        deadline: Duration,
    ) -> Result<Answer<KubeObject>, ReadError> {
        let pod = self.get_pod(namespace, pod)?.object;
        self.registrar.caught_up().await;
        let pod = PodIdentity { namespace: pod.namespace(), name: pod.name(), uid: pod.uid() };
        self.caches.of(kind).read_for(pod, name, deadline).await
    }

    /// The error with which a read is refused because no pod of this node refers to the Secret or ConfigMap. Reads no object. `None`
    /// also while the pods are not known.
    pub async fn not_referenced(&self, kind: ObjectKind, namespace: &str, name: &str) -> Option<ReadError> {
        Self::synced(&self.pods, || kind.resource().to_owned()).ok()?;
        let cache = self.caches.of(kind);
        self.registrar.caught_up().await;
        let is_referenced = cache.references(namespace, name) > 0;
        (!is_referenced).then(|| cache.not_referenced(&ObjectKey::new(namespace, name)))
    }

    /// The [`ReadError::NotServed`] of every read of this kind, if this larder does not have its source.
    ///
    /// ```
    /// # use larder_node::{Cluster, Config, Node, RuntimeEndpoint};
    /// # use larder_resource::Kind;
    /// # use tokio_util::sync::CancellationToken;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let manifests = tempfile::tempdir().unwrap();
    /// # let mut config = Config::new("edge-1", Cluster::Manifests(manifests.path().to_owned()));
    /// # config.runtime = RuntimeEndpoint::None;
    /// # let node = Node::start(config, CancellationToken::new()).await.unwrap();
    /// assert!(node.not_served(Kind::Pod).is_none());
    /// let error = node.not_served(Kind::Namespace).unwrap();
    /// assert_eq!(error.to_string(), "namespaces: this larder runs without an API server (--manifests)");
    /// # });
    /// ```
    pub fn not_served(&self, kind: Kind) -> Option<ReadError> {
        match kind {
            Kind::Namespace => self.namespaces().err(),
            Kind::Pod | Kind::Node | Kind::Secret | Kind::ConfigMap => None,
        }
    }

    /// Reads the Secrets or ConfigMaps that pods of this node refer to, in all namespaces or in one, for at most
    /// `deadline`.
    ///
    /// # Errors
    ///
    /// [`ReadError::Unknown`] until the pods of this node are known. An object that is not known is no error: it is in
    /// [`ObjectList::unknown`].
    ///
    /// # Cancel safety
    ///
    /// As [`get_object`](Self::get_object).
    pub async fn list_objects(
        &self,
        kind: ObjectKind,
        wanted: impl Fn(&ObjectKey) -> bool + Send,
        deadline: Duration,
    ) -> Result<ObjectList, ReadError> {
        Self::synced(&self.pods, || kind.resource().to_owned())?;
        self.registrar.caught_up().await;
        Ok(self.caches.of(kind).list(wanted, deadline).await)
    }

    /// Reads a namespace that a pod of this node is in, for at most `deadline`. Until the first call, or that of
    /// [`list_namespaces`](Self::list_namespaces), larder reads no namespace.
    ///
    /// # Errors
    ///
    /// As [`get_object`](Self::get_object), [`ReadError::NotPermitted`] where larder's identity may not read it, and
    /// [`ReadError::NotServed`] without an API server.
    ///
    /// # Cancel safety
    ///
    /// As [`get_object`](Self::get_object).
    pub async fn get_namespace(&self, name: &str, deadline: Duration) -> Result<Answer<KubeObject>, ReadError> {
        let namespaces = self.namespaces()?;
        if !namespaces.has(name) {
            Self::synced(&self.pods, || format!("{} \"{name}\"", Kind::Namespace.singular()))?;
        }
        namespaces.read(name, deadline).await
    }

    /// Reads the namespaces that pods of this node are in, for at most `deadline`.
    ///
    /// # Errors
    ///
    /// [`ReadError::Unknown`] until the pods of this node are known, [`ReadError::NotServed`] without an API server. A namespace
    /// that is not known, or that larder's identity may not read, is in [`ObjectList::unknown`].
    ///
    /// # Cancel safety
    ///
    /// As [`get_object`](Self::get_object).
    pub async fn list_namespaces(
        &self,
        wanted: impl Fn(&ObjectKey) -> bool + Send,
        deadline: Duration,
    ) -> Result<ObjectList, ReadError> {
        let namespaces = self.namespaces()?;
        Self::synced(&self.pods, || Kind::Namespace.resource().to_owned())?;
        Ok(namespaces.list(wanted, deadline).await)
    }

    fn namespaces(&self) -> Result<&Arc<Namespaces<M>>, ReadError> {
        self.namespaces
            .as_ref()
            .ok_or_else(|| ReadError::NotServed { what: Kind::Namespace.resource().to_owned(), why: NO_API_SERVER })
    }

    /// The journal of a kind, from which lists and watches of the Kubernetes API are answered. It begins with the first call.
    ///
    /// The journal of Secrets, ConfigMaps or namespaces begins above the version of the list of the node's pods. So no version of an earlier
    /// run of larder is one of its positions.
    ///
    /// # Errors
    ///
    /// [`ReadError::Unknown`] until the pods, or the node, are known: a journal that began earlier would not know from which
    /// version on it is whole. [`ReadError::NotServed`] for namespaces without an API server.
    ///
    /// ```
    /// # use larder_node::{Cluster, Config, Node, RuntimeEndpoint};
    /// # use larder_resource::Kind;
    /// # use tokio_util::sync::CancellationToken;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let manifests = tempfile::tempdir().unwrap();
    /// # let mut config = Config::new("edge-1", Cluster::Manifests(manifests.path().to_owned()));
    /// # config.runtime = RuntimeEndpoint::None;
    /// # let node = Node::start(config, CancellationToken::new()).await.unwrap();
    /// # node.settled().await;
    /// let (snapshot, _follower) = node.journal(Kind::ConfigMap).unwrap().follow();
    /// assert!(snapshot.objects.is_empty());
    /// # node.stop().await;
    /// # });
    /// ```
    pub fn journal(&self, kind: Kind) -> Result<Journal, ReadError> {
        let what = || kind.resource().to_owned();
        match kind {
            Kind::Node => Self::synced(&self.api_object, what)?,
            Kind::Pod | Kind::Secret | Kind::ConfigMap | Kind::Namespace => Self::synced(&self.pods, what)?,
        };
        let base = match self.origin {
            Origin::Kube(..) => self.pods.version(),
            // No earlier run of larder gave this version to an object.
            Origin::Manifests { .. } => larder_manifests::version_at(self.now()),
        };
        Ok(match kind {
            Kind::Pod => self.pods.journal(base),
            Kind::Node => self.api_object.journal(base),
            Kind::Secret => self.caches.of(ObjectKind::Secret).journal(base),
            Kind::ConfigMap => self.caches.of(ObjectKind::ConfigMap).journal(base),
            Kind::Namespace => self.journal_of_namespaces(base)?,
        })
    }

    fn journal_of_namespaces(&self, base: u64) -> Result<Journal, ReadError> {
        let namespaces = self.namespaces()?;
        let (journal, is_first) = namespaces.journal(base);
        if is_first {
            let (namespaces, until) = (Arc::clone(namespaces), self.tasks.token.clone());
            let follow = async move { namespaces.follow(FOLLOW_PERIOD, PREFETCH_DEADLINE, until).await };
            self.tasks.spawn("follow namespaces", follow);
        }
        Ok(journal)
    }

    /// A document of the API server, which is fetched when it is first asked for and every ten minutes then.
    ///
    /// # Errors
    ///
    /// [`ReadError::Unknown`] if it cannot be fetched and was not before, [`ReadError::NotServed`] without an API server.
    ///
    /// # Cancel safety
    ///
    /// A dropped read leaves nothing behind.
    pub async fn server_document(&self, document: ServerDocument) -> Result<FetchedDocument, ReadError> {
        match &self.origin {
            Origin::Kube(client, _) => self.documents.get(client, &self.clock, document).await,
            Origin::Manifests { .. } => {
                Err(ReadError::NotServed { what: document.path().to_owned(), why: NO_API_SERVER })
            }
        }
    }

    /// A pod of this node.
    ///
    /// # Errors
    ///
    /// [`ReadError::NotFound`] or [`ReadError::Unknown`].
    pub fn get_pod(&self, namespace: &str, name: &str) -> Result<Answer<Pod>, ReadError> {
        // Before the pods: see there.
        let broken = self.broken_pods();
        let mut read = self.read_source(&self.pods, namespace, name);
        let Some(broken) = broken else { return read };
        match (&mut read, &broken.hiding) {
            (Ok(answer), _) => {
                if let Some(broken) = broken.stale.get(&ObjectKey::new(namespace, name)) {
                    (answer.freshness, answer.why) = unconfirmed(&answer.freshness, broken);
                }
                read
            }
            (Err(ReadError::NotFound { .. }), Some(broken)) => Err(ReadError::Unknown {
                what: format!("pod \"{namespace}/{name}\""),
                why: format!("it may be in a manifest that cannot be read: {}", broken.problem),
                retry_after: RETRY,
            }),
            (Err(_), _) => read,
        }
    }

    fn broken_pods(&self) -> Option<Arc<BrokenPods>> {
        match &self.origin {
            Origin::Kube(..) => None,
            Origin::Manifests { reader, .. } => Some(reader.broken_pods()),
        }
    }

    /// The pods of this node, in all namespaces. They are stale while a manifest cannot be read that has or may have pods.
    ///
    /// # Errors
    ///
    /// [`ReadError::Unknown`] until they are known.
    pub fn list_pods(&self) -> Result<PodList, ReadError> {
        let broken = self.broken_pods();
        let (mut freshness, mut why) = Self::synced(&self.pods, || "pods".to_owned())?;
        if let Some(broken) = broken.as_ref().and_then(|broken| broken.first()) {
            (freshness, why) = unconfirmed(&freshness, broken);
        }
        Ok(PodList { items: self.pods.list(), freshness, why })
    }

    /// This node, by its name.
    ///
    /// # Errors
    ///
    /// [`ReadError::OtherNode`], [`ReadError::NotFound`] or [`ReadError::Unknown`]. Without an API server, another node is not found.
    pub fn get_node(&self, name: &str) -> Result<Answer<larder_resource::Node>, ReadError> {
        let is_other = name != self.name() && matches!(self.origin, Origin::Kube(..));
        if is_other {
            return Err(ReadError::OtherNode { name: name.to_owned(), own: self.name().to_owned() });
        }
        self.read_source(&self.api_object, "", name)
    }

    fn read_source<T: SourceObject>(
        &self,
        reader: &SourceReader<T>,
        namespace: &str,
        name: &str,
    ) -> Result<Answer<T>, ReadError> {
        let slash = if namespace.is_empty() { "" } else { "/" };
        let what = || format!("{} \"{namespace}{slash}{name}\"", T::KIND.singular());
        // An object of a list that may be old is served as stale. Its absence is not known before the source has synced.
        let found = reader.get(namespace, name);
        let (freshness, why) = if found.is_some() { Self::listed(reader, what)? } else { Self::synced(reader, what)? };
        let Some(object) = found else {
            let (key, age) = (ObjectKey::new(namespace, name), freshness.age(self.now()));
            return Err(ReadError::NotFound { kind: T::KIND, key, freshness: Box::new(freshness), age });
        };
        Ok(Answer { object, freshness, outcome: Outcome::Held, why })
    }

    /// As [`listed`](Self::listed), but [`ReadError::Unknown`] until the source has synced: before that, a missing object may
    /// exist.
    fn synced<T: SourceObject>(
        reader: &SourceReader<T>,
        what: impl Fn() -> String,
    ) -> Result<(Freshness, Option<String>), ReadError> {
        if reader.status().synced { Self::listed(reader, what) } else { Err(Self::unknown(reader, what)) }
    }

    fn unknown<T: SourceObject>(reader: &SourceReader<T>, what: impl Fn() -> String) -> ReadError {
        let fault = reader.status().last_fault.map(|fault| fault.error.to_string());
        let why = fault.unwrap_or_else(|| format!("the first list of {} is on its way", T::KIND.resource()));
        ReadError::Unknown { what: what(), why, retry_after: RETRY }
    }

    /// How fresh the objects of a source are, and why they are stale; [`ReadError::Unknown`] before its first list.
    fn listed<T: SourceObject>(
        reader: &SourceReader<T>,
        what: impl Fn() -> String,
    ) -> Result<(Freshness, Option<String>), ReadError> {
        let freshness = reader.freshness().ok_or_else(|| Self::unknown(reader, what))?;
        let fault = || reader.status().last_fault.map(|fault| fault.error.to_string());
        let why = match freshness.state {
            FreshState::Fresh => None,
            FreshState::Stale { reason, .. } => Some(fault().unwrap_or_else(|| reason.to_string())),
        };
        Ok((freshness, why))
    }

    /// The status of the pod that the container runtime knows by this UID. If it has no such pod,
    /// [`PodStatusRead::is_there`] is false.
    ///
    /// # Errors
    ///
    /// [`ReadError::Unknown`] until the runtime has been listed, [`ReadError::NotServed`] without a runtime.
    pub fn pod_status(&self, uid: &PodUid) -> Result<PodStatusRead, ReadError> {
        let runtime = self.runtime()?;
        let read = runtime.read(uid);
        if !read.is_there && !runtime.has_relisted() {
            return Err(not_relisted(runtime, format!("the status of pod \"{uid}\"")));
        }
        Ok(read)
    }

    /// The status of every pod that the container runtime has.
    ///
    /// # Errors
    ///
    /// [`ReadError::Unknown`] until the runtime has been listed, [`ReadError::NotServed`] without a runtime.
    pub fn pod_statuses(&self) -> Result<Vec<PodStatusRead>, ReadError> {
        let runtime = self.runtime()?;
        if !runtime.has_relisted() {
            return Err(not_relisted(runtime, "containers".to_owned()));
        }
        Ok(runtime.read_all())
    }

    /// Waits, for at most `deadline`, until the pod's status is known as of a time after `min`. If the runtime does not have
    /// the pod then, the answer has no status.
    ///
    /// # Errors
    ///
    /// [`WaitError`] with what was last known, in an `Ok`; [`ReadError::NotServed`] without a runtime.
    ///
    /// # Cancel safety
    ///
    /// A dropped wait leaves nothing behind.
    pub async fn pod_status_newer_than(
        &self,
        uid: &PodUid,
        min: Timestamp,
        deadline: Duration,
    ) -> Result<Result<PodStatusRead, WaitError>, ReadError> {
        Ok(self.runtime()?.newer_than(uid, min, deadline).await)
    }

    /// Waits, for at most `deadline`, until the pod's status has changed after `min`, or the pod is gone. In contrast to
    /// [`pod_status_newer_than`](Self::pod_status_newer_than), a relist that finds the same status does not end the wait.
    ///
    /// # Errors
    ///
    /// As [`pod_status_newer_than`](Self::pod_status_newer_than).
    ///
    /// # Cancel safety
    ///
    /// A dropped wait leaves nothing behind.
    pub async fn pod_status_changed_after(
        &self,
        uid: &PodUid,
        min: Timestamp,
        deadline: Duration,
    ) -> Result<Result<PodStatusRead, WaitError>, ReadError> {
        Ok(self.runtime()?.changed_after(uid, min, deadline).await)
    }

    /// The latest lifecycle events of pods, oldest first, and a stream of the events that follow. Both are bounded. A reader
    /// that is too slow learns how many events it missed.
    ///
    /// # Errors
    ///
    /// [`ReadError::NotServed`] without a runtime.
    pub fn lifecycle_events(&self) -> Result<(Vec<Arc<PodLifecycleEvent>>, EventReceiver), ReadError> {
        Ok(self.runtime()?.events())
    }

    /// Which pod and container of this node a process, a container's ID or a cgroup belongs to. A container that the runtime has not
    /// told of yet is waited for, for at most `deadline`.
    ///
    /// # Errors
    ///
    /// [`WhoisError`]: there is no such process, or the runtime has no such container.
    ///
    /// # Cancel safety
    ///
    /// A dropped wait leaves nothing behind.
    pub async fn whois(&self, target: &WhoisTarget, deadline: Duration) -> Result<Whois, WhoisError> {
        let runtime = self.runtime()?;
        self.complete_whois(runtime, runtime.whois(target, deadline).await)
    }

    /// As [`whois`](Self::whois), for a process that the caller holds, such as a socket's [peer](larder_identity::Peer). A process of
    /// the host is answered without the container runtime. A process of larder's own container counts as the host's.
    ///
    /// # Errors
    ///
    /// As [`whois`](Self::whois). [`ProcessError::Ended`](crate::ProcessError::Ended) for a process that ended before its container was
    /// found.
    ///
    /// # Cancel safety
    ///
    /// A dropped wait leaves nothing behind.
    ///
    /// ```
    /// # use larder_node::{Cluster, Config, Node, RuntimeEndpoint, Whois};
    /// # use tokio_util::sync::CancellationToken;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let manifests = tempfile::tempdir().unwrap();
    /// # let mut config = Config::new("edge-1", Cluster::Manifests(manifests.path().to_owned()));
    /// # config.runtime = RuntimeEndpoint::None;
    /// # let node = Node::start(config, CancellationToken::new()).await.unwrap();
    /// use larder_identity::Process;
    /// use std::time::Duration;
    ///
    /// let own = Process::open(std::process::id()).unwrap();
    /// assert!(matches!(node.whois_process(&own, Duration::ZERO).await, Ok(Whois::Host)));
    /// # node.stop().await;
    /// # });
    /// ```
    pub async fn whois_process(&self, process: &Process, deadline: Duration) -> Result<Whois, WhoisError> {
        if is_of_host(process)? {
            return Ok(Whois::Host);
        }
        let runtime = self.runtime()?;
        let found = runtime.whois_process(process, deadline).await;
        if !process.is_alive() {
            return Err(ProcessError::Ended { pid: process.pid() }.into());
        }
        self.complete_whois(runtime, found)
    }

    fn complete_whois(
        &self,
        runtime: &RuntimeSide<M>,
        found: Result<Option<WhoisPod>, WhoisError>,
    ) -> Result<Whois, WhoisError> {
        let found = match found {
            // While the runtime does not answer, what it is not known to have may be there.
            Err(WhoisError::NotFound { what, .. }) if !runtime.has_relisted() || runtime.failure().is_some() => {
                Err(not_relisted(runtime, what))?
            }
            answer => answer?,
        };
        Ok(found.map_or(Whois::Host, |found| {
            let uid = found.read.uid.to_string();
            let pod = match &found.read.status {
                Some(status) => self.pod_in_runtime(&uid, &status.namespace, &status.name),
                None => self.pod_of_runtime_uid(&uid),
            };
            Whois::Pod(Box::new(WhoisPod { pod, ..found }))
        }))
    }

    /// The container of this ID in the pod that the container runtime knows by this UID. `None` if the container has ended, or the
    /// runtime does not have the container. While the runtime does not answer, the last status counts.
    ///
    /// # Errors
    ///
    /// As [`pod_status`](Self::pod_status).
    ///
    /// ```
    /// # use larder_node::{Cluster, Config, Node, RuntimeEndpoint};
    /// # use tokio_util::sync::CancellationToken;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let manifests = tempfile::tempdir().unwrap();
    /// # let mut config = Config::new("edge-1", Cluster::Manifests(manifests.path().to_owned()));
    /// # config.runtime = RuntimeEndpoint::None;
    /// # let node = Node::start(config, CancellationToken::new()).await.unwrap();
    /// let error = node.live_container(&"7d2f3b8c".into(), "4c9184f37cff").unwrap_err();
    /// assert!(error.to_string().contains("without a container runtime"), "{error}");
    /// # node.stop().await;
    /// # });
    /// ```
    pub fn live_container(&self, uid: &PodUid, id: &str) -> Result<Option<ContainerStatus>, ReadError> {
        let runtime = self.runtime()?;
        let container = runtime.live_container(uid, id);
        if container.is_none() && !runtime.has_relisted() {
            return Err(not_relisted(runtime, format!("container \"{id}\" of pod \"{uid}\"")));
        }
        Ok(container)
    }

    /// Waits until the container of this ID has ended: the container runtime says so, or no longer has the container, or the source of
    /// the pods no longer has the pod. The namespace, the name and the UID are those by which the runtime knows the pod.
    ///
    /// A container does not end because the runtime or the API server does not answer, or because its pod comes later than itself. Every write of the pod's status and every
    /// change of a pod has it look again. It keeps no queue of its own. Once larder ends, it never returns.
    ///
    /// # Cancel safety
    ///
    /// A dropped wait leaves nothing behind.
    ///
    /// ```
    /// # use larder_node::{Cluster, Config, Node, RuntimeEndpoint};
    /// # use tokio_util::sync::CancellationToken;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let manifests = tempfile::tempdir().unwrap();
    /// # let mut config = Config::new("edge-1", Cluster::Manifests(manifests.path().to_owned()));
    /// # config.runtime = RuntimeEndpoint::None;
    /// # let node = Node::start(config, CancellationToken::new()).await.unwrap();
    /// // The folder has no pod, and may have it later.
    /// let uid = "7d2f3b8c".into();
    /// let ended = node.container_ended(["shop", "cart"], &uid, "4c9184f37cff");
    /// assert!(tokio::time::timeout(std::time::Duration::ZERO, ended).await.is_err());
    /// # node.stop().await;
    /// # });
    /// ```
    pub async fn container_ended(&self, [namespace, name]: [&str; 2], uid: &PodUid, id: &str) {
        let by_runtime = async {
            match &self.runtime {
                Some(runtime) => runtime.container_ended(uid, id).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = by_runtime => {}
            () = self.pod_left(uid, namespace, name) => {}
        }
    }

    /// Waits until the source of the pods has had the pod of this namespace and name that the container runtime knows by this UID, and has
    /// it no longer.
    async fn pod_left(&self, uid: &PodUid, namespace: &str, name: &str) {
        let uid = uid.to_string();
        let is_there = || self.pod_in_runtime(&uid, namespace, name).is_some();
        self.pods_say(is_there).await;
        self.pods_say(|| !is_there()).await;
    }

    /// Waits until that holds of the pods, after any change of them.
    async fn pods_say(&self, holds: impl Fn() -> bool) {
        // Before the source has synced, a missing pod may exist.
        if self.pods.synced().await {
            let mut changes = self.pods.changes();
            while changes.next().await.is_some() {
                if holds() {
                    return;
                }
            }
        }
        // The source has ended, and says nothing more.
        std::future::pending::<()>().await;
    }

    /// The UID by which the container runtime knows the pod of this namespace and name. It comes from the source of the pods.
    /// If the source does not have the pod, it is the UID of the newest pod of this name in the runtime.
    ///
    /// # Errors
    ///
    /// [`ReadError::NotFound`] if neither has the pod, [`ReadError::Unknown`] until both have answered.
    pub fn runtime_uid(&self, namespace: &str, name: &str) -> Result<PodUid, ReadError> {
        match self.get_pod(namespace, name) {
            Ok(pod) => Ok(PodUid::from(pod.object.runtime_uid())),
            Err(error) => {
                let runtime = self.runtime()?;
                if let Some(uid) = runtime.find(namespace, name) {
                    return Ok(uid);
                }
                if matches!(error, ReadError::NotFound { .. }) && !runtime.has_relisted() {
                    return Err(ReadError::runtime_not_listed(&format!("{namespace}/{name}")));
                }
                Err(error)
            }
        }
    }

    /// The pod of this namespace and name, from the source of the pods, if the container runtime knows it by this UID. Whoever may create a
    /// pod can claim the UID of another one in its annotations, but never its namespace and name.
    pub fn pod_in_runtime(&self, uid: &str, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.pods.get(namespace, name).filter(|pod| pod.runtime_uid() == uid)
    }

    /// The pod that the container runtime knows by this UID, from the source of the pods. Of several that claim the UID, see
    /// [`SourceReader::get_by_runtime_uid`](larder_resource::SourceReader::get_by_runtime_uid).
    pub fn pod_of_runtime_uid(&self, uid: &str) -> Option<Arc<Pod>> {
        self.pods.get_by_runtime_uid(uid)
    }

    fn runtime(&self) -> Result<&RuntimeSide<M>, ReadError> {
        self.runtime.as_deref().ok_or_else(|| ReadError::NotServed {
            what: "containers".to_owned(),
            why: "this larder runs without a container runtime (--runtime-endpoint none)",
        })
    }

    /// Waits until every source has answered or failed once, and every object that a pod refers to was fetched, or its fetch
    /// failed.
    ///
    /// # Cancel safety
    ///
    /// It only waits.
    pub async fn settled(&self) {
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        while !self.is_settled() {
            ticks.tick().await;
        }
        // The last pods may have arrived since the last tick.
        self.registrar.caught_up().await;
    }
}

/// How fresh pods are whose manifest cannot be read now, and why.
fn unconfirmed(known: &Freshness, broken: &Broken) -> (Freshness, Option<String>) {
    let since = broken.since.unwrap_or(known.confirmed_at);
    let state = FreshState::Stale { since, reason: StaleReason::FetchFailed { class: "unreadable" } };
    (Freshness::new(since, known.source, state), Some(broken.problem.to_string()))
}

impl<M: MachineClocks> fmt::Debug for Node<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("name", &self.name).finish_non_exhaustive()
    }
}

fn not_relisted(runtime: &RuntimeSide<impl MachineClocks>, what: String) -> ReadError {
    let why = runtime.failure().map_or_else(
        || "the container runtime is being listed for the first time".to_owned(),
        |error| error.to_string(),
    );
    ReadError::Unknown { what, why, retry_after: RETRY }
}
