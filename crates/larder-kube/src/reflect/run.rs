//! What one reflector does, from its start to its end.

use super::pulse::Member;
use super::{Of, Shared};
use crate::backoff::Backoff;
use crate::error::{DecodeProblem, KubeError};
use crate::listwatch::{Begin, End, Event, Item, Scope, Watch, list};
use crate::object::KubeObject;
use crate::reflector::{advanced, resumes};
use larder_objects::{NamespaceSink, ReadKind, ReflectorSink, resource_version_order};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A watch that ends sooner than this without having told anything is a failure of sorts, and the next one waits.
const SHORT: Duration = Duration::from_secs(1);

/// A watch that goes on from before an outage and has been quiet for so long has told what it had to tell.
const SETTLED: Duration = Duration::from_secs(1);

/// The pauses before a 403 that is doubted is asked again.
const DOUBT_INITIAL: Duration = Duration::from_millis(100);
const DOUBT_MAX: Duration = Duration::from_secs(1);

/// Where a reflector tells what it learns.
#[derive(Clone)]
pub(super) enum Sink {
    Object(ReflectorSink<KubeObject, KubeError>),
    Namespace(NamespaceSink<KubeObject, KubeError>),
}

macro_rules! both {
    ($self:ident, $sink:ident => $tell:expr) => {
        match $self {
            Sink::Object($sink) => $tell,
            Sink::Namespace($sink) => $tell,
        }
    };
}

impl Sink {
    fn listing(&self) {
        both!(self, sink => sink.listing());
    }

    fn confirm(&self) {
        self.confirm_as_of(Duration::ZERO);
    }

    pub(super) fn confirm_as_of(&self, ago: Duration) {
        both!(self, sink => sink.confirm_as_of(ago));
    }

    fn bookmark(&self, version: &str) {
        both!(self, sink => sink.bookmark(version));
    }

    pub(super) fn failed(&self, error: Arc<KubeError>) {
        both!(self, sink => sink.failed(error));
    }

    fn went_back(&self, before: &str, after: &str) {
        both!(self, sink => sink.went_back(before, after));
    }

    fn replace(&self, objects: Listed) {
        match self {
            // A list of one name has one object.
            Self::Object(sink) => sink.replace(objects.into_values().next(), ReadKind::Consistent),
            Self::Namespace(sink) => sink.replace(objects.into_iter().collect(), ReadKind::Consistent),
        }
    }

    fn set(&self, object: Arc<KubeObject>) {
        match self {
            Self::Object(sink) => sink.set(object),
            Self::Namespace(sink) => {
                let name = object.name().to_owned();
                sink.set(&name, object);
            }
        }
    }

    fn delete(&self, name: &str) {
        match self {
            Self::Object(sink) => sink.delete(),
            Self::Namespace(sink) => sink.delete(name),
        }
    }
}

/// A complete list, by name.
type Listed = BTreeMap<String, Arc<KubeObject>>;

/// How the next request begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum From {
    /// With a list.
    Nothing,
    /// With a watch from the last version; the one before has ended in good order.
    Here,
    /// The same, but the one before was lost then.
    Lost(Instant),
}

/// How far a reflector has come.
pub(super) struct Position {
    /// The last version that was told; empty for none.
    version: String,
    from: From,
    /// Whether the watch has told anything.
    told: bool,
    /// Whether the last round failed; for the log alone.
    failing: bool,
}

impl Position {
    /// Before the first list; `known` is the last version that is known from before, empty for none.
    pub(super) fn start(known: String) -> Self {
        Self { version: known, from: From::Nothing, told: false, failing: false }
    }
}

pub(super) struct Run {
    pub(super) shared: Arc<Shared>,
    pub(super) of: Of,
    pub(super) sink: Sink,
}

impl Run {
    /// Runs until the reflector is dropped, or all are stopped.
    ///
    /// There are as many of these as objects: what is large and does not last lies in boxes, and nothing lies here twice, as
    /// the arguments of an `async fn` do.
    #[allow(clippy::manual_async_fn, reason = "see above")]
    pub(super) fn until(self, dropped: oneshot::Receiver<()>, mut at: Position) -> impl Future<Output = ()> + Send {
        async move {
            let shared = &self.shared;
            let _running = shared.client.counters().reflector();
            // Whether there is a watch whose end is to be spread in time; anything else ends at once.
            let open = AtomicBool::new(false);
            let mut follow = pin!(self.follow(&mut at, &open));
            tokio::select! {
                biased;
                () = shared.stop.cancelled() => return,
                _ = dropped => {}
                never = &mut follow => match never {},
            }
            if open.load(Ordering::Relaxed) {
                Box::pin(shared.leave()).await;
            }
        }
    }

    async fn follow(&self, at: &mut Position, open: &AtomicBool) -> Infallible {
        let options = self.shared.client.options();
        let mut backoff = Backoff::new(options.backoff_initial, options.backoff_max);
        let mut doubts = Backoff::new(DOUBT_INITIAL, DOUBT_MAX);
        loop {
            let listed = at.from == From::Nothing;
            at.told = false;
            let returns = self.shared.client.reach().returns();
            let begun = Instant::now();
            let ended = self.round(at, open).await;
            open.store(false, Ordering::Relaxed);
            if begun.elapsed() >= options.backoff_max {
                backoff.reset();
                doubts.reset();
            }
            // Not known before the round: it would be kept beside each watch.
            let mut asked = None;
            let counters = self.shared.client.counters();
            let pause = match ended {
                Ok(End::Closed { early }) => {
                    at.from = if early { From::Lost(Instant::now()) } else { From::Here };
                    let short = begun.elapsed() < SHORT && !at.told;
                    if short || early { backoff.pause() } else { Duration::ZERO }
                }
                Ok(End::Idle) => {
                    at.from = From::Nothing;
                    counters.relisted_silent();
                    Duration::ZERO
                }
                Ok(End::WentBack) => {
                    at.from = From::Nothing;
                    counters.relisted_went_back();
                    // Once it is a restore; a server whose versions go to and fro is to be left alone.
                    if listed && begun.elapsed() < SHORT { backoff.pause() } else { Duration::ZERO }
                }
                // Once it is the way of things; a server that does not know its own list's version is to be left alone.
                Err(error) if error.is_expired() => {
                    at.from = From::Nothing;
                    counters.relisted_expired();
                    if listed && !at.told && begun.elapsed() < SHORT {
                        asked = error.retry_after();
                        let pause = backoff.pause_after(asked);
                        self.failed(at, *error);
                        pause
                    } else {
                        Duration::ZERO
                    }
                }
                Err(error) if error.is_forbidden() && self.shared.client.doubts_forbidden(self.of.namespace()) => {
                    at.from = From::Nothing;
                    doubts.pause()
                }
                Err(error) => {
                    at.from = match at.from {
                        From::Nothing => From::Nothing,
                        _ if !resumes(&error) => {
                            counters.relisted_unreadable();
                            From::Nothing
                        }
                        From::Here | From::Lost(_) => From::Lost(Instant::now()),
                    };
                    asked = error.retry_after();
                    let pause = backoff.pause_after(asked);
                    self.failed(at, *error);
                    pause
                }
            };
            Box::pin(self.shared.client.reach().pause(&mut backoff, pause, asked, returns)).await;
        }
    }

    /// A list where one is due, and a watch until it ends.
    ///
    /// The error lies in a box: there is room for it in each reflector that watches.
    async fn round(&self, at: &mut Position, open: &AtomicBool) -> Result<End, Box<KubeError>> {
        let shared = &*self.shared;
        let stopped = |_| KubeError::Credentials {
            target: self.of.target(shared.kind),
            problem: "the reflector has been stopped".to_owned(),
        };
        let permit = shared.starts.acquire().await.map_err(stopped)?;
        // What is large lies in a box that is there only while the watch begins, for as many as begin at a time.
        let Some((mut watch, mut settling)) = Box::pin(self.begin(at)).await? else { return Ok(End::WentBack) };
        drop(permit);
        open.store(true, Ordering::Relaxed);
        self.answered();
        (at.from, at.failing) = (From::Here, false);
        let mut member = None;
        loop {
            if !settling && member.is_none() {
                member = self.join(&watch);
            }
            let patience = if settling { SETTLED } else { shared.client.options().idle_timeout };
            let event = match watch.next(patience).await? {
                Ok(event) => event,
                Err(End::Idle) if settling => {
                    settling = false;
                    self.sink.confirm();
                    continue;
                }
                Err(end) => return Ok(end),
            };
            if !self.take(at, event)? {
                return Ok(End::WentBack);
            }
            at.told = true;
        }
    }

    fn join(&self, watch: &Watch) -> Option<Member<'_>> {
        let liveness = watch.liveness()?;
        Some(self.shared.pulse.join(&self.sink, self.of.target(self.shared.kind), liveness))
    }

    /// Takes in an event; false where it is older than what was told before.
    fn take(&self, at: &mut Position, event: Event) -> Result<bool, KubeError> {
        let (object, version) = match &event {
            Event::Set(json) | Event::Deleted(json) => {
                let object = self.parse(json)?;
                let version = advanced(&at.version, object.resource_version());
                (Some(object), version)
            }
            Event::Bookmark { version, .. } => (None, advanced(&at.version, version)),
        };
        let Some(version) = version else { return Ok(false) };
        at.version = version;
        match (event, object.filter(|object| self.of.has(object))) {
            (Event::Set(_), Some(object)) => self.sink.set(Arc::new(object)),
            (Event::Deleted(_), Some(object)) => self.sink.delete(object.name()),
            (Event::Bookmark { version, .. }, _) => self.sink.bookmark(&version),
            (Event::Set(_) | Event::Deleted(_), None) => {}
        }
        Ok(true)
    }

    /// A watch that tells what happens from now on, what was before having been told; and whether it has yet to catch up.
    /// None where the server's versions have gone back.
    async fn begin(&self, at: &mut Position) -> Result<Option<(Watch, bool)>, KubeError> {
        let shared = &*self.shared;
        let target = || self.of.target(shared.kind);
        // Looked at when the reflector was started.
        let scope = self.of.scope(shared.kind).ok_or_else(|| KubeError::InvalidName { target: target() })?;
        match at.from {
            From::Nothing => {
                let watch = self.list(at, &scope).await?;
                Ok(Some((watch, false)))
            }
            From::Here => {
                let watch = Watch::begin(&shared.client, &scope, Begin::After(&at.version)).await?;
                self.sink.confirm();
                Ok(Some((watch, false)))
            }
            From::Lost(lost_at) => {
                let ask = Box::pin(async {
                    list(&shared.client, &scope, |_| Ok(())).await.map(|version| resource_version_order(&version))
                });
                let revision = shared.revision.since(lost_at, ask).await?;
                let known = resource_version_order(&at.version);
                // A version that is no number says nothing of order.
                if revision != 0 && known > revision {
                    return Ok(None);
                }
                let watch = Watch::begin(&shared.client, &scope, Begin::After(&at.version)).await?;
                Ok(Some((watch, true)))
            }
        }
    }

    /// Lists everything, tells it, and begins the watch.
    async fn list(&self, at: &mut Position, scope: &Scope) -> Result<Watch, KubeError> {
        let shared = &*self.shared;
        let counters = shared.client.counters();
        if shared.streaming.worth_asking() {
            self.sink.listing();
            if let Some((watch, objects, version)) = self.list_streaming(scope).await? {
                shared.streaming.served();
                counters.listed_streaming();
                self.tell(at, objects, version);
                return Ok(watch);
            }
            counters.refused_streaming();
            shared.streaming.refused();
            tracing::debug!(target = %scope.target, "the API server refuses streaming lists, listing and watching");
        }
        self.sink.listing();
        let mut objects = Listed::new();
        let version = list(&shared.client, scope, |item| {
            match item {
                Item::Raw(json) => self.collect(&mut objects, json)?,
                Item::Restart => objects.clear(),
            }
            Ok(())
        })
        .await?;
        counters.listed();
        self.tell(at, objects, version);
        // Should it fail, it is begun from here.
        at.from = From::Lost(Instant::now());
        Watch::begin(&shared.client, scope, Begin::After(&at.version)).await
    }

    /// The list that a watch begins with; none where the server does not serve it.
    async fn list_streaming(&self, scope: &Scope) -> Result<Option<(Watch, Listed, String)>, KubeError> {
        let (client, options) = (&self.shared.client, self.shared.client.options());
        let mut watch = match Watch::begin(client, scope, Begin::Listing).await {
            Ok(watch) => watch,
            Err(error) if matches!(error.code(), Some(400 | 422 | 501)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let known = self.shared.streaming.is_served();
        let patience = if known { options.list_deadline } else { options.fetch_deadline };
        let deadline = Instant::now() + patience;
        let mut objects = Listed::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match watch.next(left).await {
                Ok(Ok(Event::Set(json))) => self.collect(&mut objects, &json)?,
                Ok(Ok(Event::Deleted(json))) => drop(objects.remove(self.parse(&json)?.name())),
                Ok(Ok(Event::Bookmark { version, ends_list: true })) if !version.is_empty() => {
                    return Ok(Some((watch, objects, version)));
                }
                Ok(Ok(Event::Bookmark { .. })) => {}
                // A server that has never heard of streaming lists begins a plain watch, and never says that it is complete.
                Ok(Err(End::Idle)) if !known => return Ok(None),
                Ok(Err(End::Idle)) => return Err(client.late(&scope.target, patience)),
                Ok(Err(End::Closed { .. } | End::WentBack)) => {
                    return Err(client.cut(&scope.target, &std::io::Error::from(std::io::ErrorKind::UnexpectedEof)));
                }
                // It knows them, and has too old an etcd behind it.
                Err(error) if error.code() == Some(500) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    fn collect(&self, objects: &mut Listed, json: &[u8]) -> Result<(), KubeError> {
        let object = self.parse(json)?;
        if self.of.has(&object) {
            objects.insert(object.name().to_owned(), Arc::new(object));
        }
        Ok(())
    }

    fn parse(&self, json: &[u8]) -> Result<KubeObject, KubeError> {
        let kind = self.shared.kind;
        KubeObject::parse(kind.into(), json)
            .map_err(|problem: DecodeProblem| KubeError::decode(self.of.target(kind), problem))
    }

    /// Tells a list, and first that versions have gone back if they have.
    fn tell(&self, at: &mut Position, objects: Listed, version: String) {
        if advanced(&at.version, &version).is_none() {
            tracing::warn!(
                target = %self.of.target(self.shared.kind), before = %at.version, after = %version,
                "the API server's versions went back, as after a restore of etcd; what is listed now is believed"
            );
            self.sink.went_back(&at.version, &version);
        }
        at.version = version;
        self.sink.replace(objects);
    }

    /// What was learnt of the server, for the log and for those who come next.
    fn answered(&self) {
        if self.shared.away.swap(false, Ordering::Relaxed) {
            tracing::info!(server = &*self.shared.client.server(), "the API server answers again");
        }
    }

    fn failed(&self, at: &mut Position, error: KubeError) {
        self.shared.client.counters().failed();
        if error.is_unavailable() && error.code().is_none() {
            self.shared.streaming.away();
        }
        // One line for all that lose the server, and one for each that it refuses.
        let known = if error.is_unavailable() { self.shared.away.swap(true, Ordering::Relaxed) } else { at.failing };
        at.failing = true;
        if known {
            tracing::debug!(%error, "a list or watch failed again");
        } else {
            tracing::warn!(%error, "a list or watch failed, what is known is served on");
        }
        self.sink.failed(Arc::new(error));
    }
}
