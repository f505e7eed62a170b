//! The list-watch loop: lists what a [`Selection`] names, watches it from there, and reports changes to a [`Sink`] until it is dropped.
//!
//! There is one for each watched Secret or `ConfigMap`, or one for a namespace of them; one for the node's pods; and one for
//! the node.
//!
//! # States
//!
//! [`State`] has the transitions. From a list or a bookmark on, the loop remembers the version that it has reached:
//!
//! ```text
//!  ┌───────────────┐ refused (400, 422, 501, event 500)  ┌──────┐
//!  │ StreamingList ├────────────────────────────────────►│ List │
//!  └─▲───▲───┬─────┘                                     └──┬───┘
//!    │   │   │ initial events are complete                  │ complete
//!    │   │   ▼                                              ▼
//!    │   │ ┌──────────┐             opened              ┌──────────┐
//!    │   └─┤ Watching │◄────────────────────────────────┤ Resuming │
//!    │     └─┬──────┬─┘  closed in good order ─────────►└────▲──┬──┘
//!    │       │      └─ closed early, broken, 5xx ──┐         │  │ opened late
//!    │       │ expired (410), unreadable, silent,  ▼         │  ▼
//!    │       │ versions went back, fails in place ┌──────────┴──┐
//!    └───────┴────────────────────────────────────┤   Probing   │
//!           the server's version is lower, or 403 └─────────────┘
//! ```
//!
//! `Probing` leads to `Resuming` when the server has reached the loop's version.
//!
//! After a failure the loop is [`State::BackingOff`] before its next state, except after 410, after a silent watch, and after a
//! 403 in `Probing`. A failure in `Probing` leads to `Probing`. A watch that 'fails in place' has failed
//! [`FAILURES_IN_PLACE`] times in a row at the same version.
//!
//! # Guarantees
//!
//! - *Consistent lists*: a list is as new as its request, and what it lacks does not exist. `start` has the exception: pods on a
//!   server whose watch cache lags.
//! - *No gap*: a watch continues at the last reported version. The loop lists again where the server no longer has that version
//!   (410), where an event cannot be read, after a long silence, and where a watch fails in place, as on a compacted or damaged
//!   etcd. (client-go lists after the first such failure.)
//! - *No false freshness*: the objects are current while the watch is open and its connection shows signs of life
//!   ([`Sink::confirm`]), or over HTTP/1.1 when a bookmark comes. They are stale within 10 s of the last sign, whether the
//!   connection is silent or no watch is open; `liveness` has the exact times. A watch that continues after an outage, or that
//!   opens after its objects have become stale, confirms them only when it has reached the version that the server was at, or
//!   when it has been quiet for a second.
//! - *Versions that go back are noticed*, as after a restore of etcd: an event, a bookmark or the server's own version is older than the
//!   reported one. After an outage, one list-watch of a kind asks for the server's version before any of them continues. The
//!   loop reports [`Sink::went_back`] and lists again.
//! - *Backoff*: it grows to [`KubeOptions::backoff_max`](crate::KubeOptions::backoff_max), with jitter, and is never shorter than
//!   `Retry-After` asks. When a server that was unavailable answers any request, the pauses of all end
//!   (`availability`). At most [`KubeOptions::starts_in_flight`](crate::KubeOptions::starts_in_flight) list-watches of a kind
//!   list or begin a watch at a time.
//! - *Polling without room*: if watches fill all connections, the loop tries again every few seconds while its objects are
//!   current. After that it reports [`KubeError::NoRoom`], so the objects are stale, and lists after each backoff.
//! - *Refused streaming lists are retried*: `streaming` remembers the refusal for the kind. One request tries again after an outage
//!   and after ten minutes.
//! - *A 403 soon after a pod's arrival* is retried and not reported; `forbidden_grace` says for how long.
//!
//! # Cancel safety
//!
//! A dropped loop closes its watch.
//!
//! # Locks
//!
//! One over the current list-watches of a kind, held while `liveness` calls their sinks. A sink's locks come after it.

use crate::backoff::Backoff;
use crate::client::KubeClient;
use crate::error::KubeError;
use crate::forbidden_grace;
use crate::options::KubeOptions;
use larder_objects::resource_version_order;
use larder_resource::ApiObject;
use liveness::{CurrentListWatches, Member};
use requests::{End, Event, Watch};
use revision::Revision;
use start::Start;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use streaming::Streaming;
use tokio::sync::Semaphore;
use tokio::time::Instant;

mod liveness;
pub(crate) mod requests;
mod revision;
mod selection;
mod start;
mod streaming;

pub(crate) use selection::Selection;

/// A watch that ends sooner than this without an event is a failure of sorts, and the next one waits.
const SHORT: Duration = Duration::from_secs(1);

/// A watch that goes on from before an outage and has been quiet for so long has brought what had happened meanwhile.
const SETTLED: Duration = Duration::from_secs(1);

/// After so many failures of a watch in a row, none of which got beyond the version before, everything is listed: what
/// fails there may fail for ever. Two, so that a server that fails one request does not have all of its nodes list at once.
const FAILURES_IN_PLACE: u8 = 2;

/// Whom a list-watch tells what it learns. Clones tell the same.
///
/// Of one list-watch the methods are called one after another, in the order of what happened, from any thread.
pub(crate) trait Sink: Clone + Send + Sync + 'static {
    /// What is listed and watched.
    type Object: ApiObject;

    /// A list is about to be asked for.
    fn listing(&self);

    /// A complete list of that version.
    fn replace(&self, objects: Listing<Self::Object>, version: &str);

    /// A complete list of that version, which may be older than the request. Until the next [`confirm`](Self::confirm) it proves the
    /// absence of nothing, and is stale for the reason in `error`.
    fn replace_unconfirmed(&self, objects: Listing<Self::Object>, version: &str, error: Arc<KubeError>);

    /// A watch is open.
    fn watching(&self);

    /// An object was added or modified.
    fn set(&self, object: Arc<Self::Object>);

    /// An object was deleted: its last state, with the version of the deletion.
    fn delete(&self, object: Arc<Self::Object>);

    /// An event is about an object that is not, or no longer, one of the selection.
    fn leave(&self, object: Arc<Self::Object>);

    /// A bookmark: every event up to this version has been told.
    fn bookmark(&self, version: &str);

    /// A sign of life, so long ago: what was told was current then.
    fn confirm(&self, ago: Duration);

    /// A list or watch failed, or its connection is silent: what was told is stale from now on.
    fn failed(&self, error: Arc<KubeError>);

    /// Versions went back, as after a restore of etcd; a list follows.
    fn went_back(&self, before: &str, after: &str);
}

/// A complete list, by namespace and name.
pub(crate) type Listing<T> = BTreeMap<(String, String), Arc<T>>;

/// What the list-watches of a kind share: what is known of the server, and its limits.
pub(crate) struct Shared<S> {
    pub(crate) client: KubeClient,
    starts: Semaphore,
    streaming: Streaming,
    revision: Revision,
    current: CurrentListWatches<S>,
    /// Whether the last request failed because the server cannot be reached; for the log alone.
    unreachable: AtomicBool,
}

impl<S: Sink> Shared<S> {
    pub(crate) fn new(client: KubeClient) -> Self {
        let options = client.options();
        let starts = usize::try_from(options.starts_in_flight).unwrap_or(Semaphore::MAX_PERMITS);
        Self {
            starts: Semaphore::new(starts),
            streaming: Streaming::default(),
            revision: Revision::default(),
            current: CurrentListWatches::new(options.ping_interval),
            unreachable: AtomicBool::new(false),
            client,
        }
    }

    /// Confirms quiet watches by their connections, for ever. To be run beside the list-watches.
    pub(crate) async fn confirm_list_watches(&self) -> Infallible {
        self.current.look(&self.client).await
    }
}

/// Where a list-watch is.
enum State {
    /// It lists, or begins a watch. [`Start`] has the states of this: `StreamingList`, `List`, `Probing`, `Resuming`.
    ///
    /// → `Watching` when the watch is open; → `BackingOff` after a failure.
    Starting(Start),
    /// A watch is open.
    ///
    /// → `Resuming` when the server closed it in good order; → `Probing` when it was lost; → `StreamingList` where it cannot
    /// go on; after a failure `BackingOff` comes first.
    Watching(Watch),
    /// It waits, and goes on with what comes next.
    BackingOff {
        pause: Duration,
        /// The part of the pause for which the server has asked.
        asked: Option<Duration>,
        next: Start,
    },
}

/// Whether what was told is current.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Currency {
    /// It is, as of the last sign of life.
    Known,
    /// A watch that goes on after an outage may have yet to bring what happened meanwhile. It has when it reaches this
    /// version, at which the server was, or when it is quiet for a second.
    Settling { until: u64 },
    /// What was listed may be old until the watch reaches this version; 0 for any change or bookmark.
    Unconfirmed { until: u64 },
}

/// How far a list-watch has come.
struct Position {
    /// The last version that was told; empty for none.
    version: Box<str>,
    /// Whether that is current.
    currency: Currency,
    /// When the last start began.
    begun: Instant,
    /// How often the server had come back until then.
    returns: u32,
    /// Whether that start was a list.
    listed: bool,
    /// Whether the watch has brought anything.
    has_events: bool,
    /// How many watches have failed at this version.
    failures_in_place: u8,
    /// Whether the last start failed; for the log alone.
    failing: bool,
}

/// One list-watch.
pub(crate) struct ListWatch<S> {
    pub(crate) shared: Arc<Shared<S>>,
    selection: Selection,
    pub(crate) sink: S,
    /// Set while the sink is current: confirms it while a watch is open and its connection lives, and marks it as stale in time.
    member: Option<Member<S>>,
    at: Position,
    /// None until something fails: most list-watches pause never.
    pauses: Option<Box<Pauses>>,
}

/// The backoffs of a list-watch that has failed of late.
struct Pauses {
    backoff: Backoff,
    /// That of a 403 soon after a pod's arrival.
    forbidden_backoff: Backoff,
}

impl Pauses {
    fn new(options: &KubeOptions) -> Self {
        let backoff = Backoff::new(options.backoff_initial, options.backoff_max, &options.jitter);
        Self { backoff, forbidden_backoff: forbidden_grace::backoff(&options.jitter) }
    }
}

impl<S: Sink> ListWatch<S> {
    /// `known` is the last version that is known from before, empty for none.
    ///
    /// # Errors
    ///
    /// [`KubeError::InvalidName`] where a name would be another path or selector.
    pub(crate) fn new(shared: Arc<Shared<S>>, selection: Selection, sink: S, known: String) -> Result<Self, KubeError> {
        selection.validate()?;
        let at = Position {
            version: known.into(),
            currency: Currency::Known,
            begun: Instant::now(),
            returns: 0,
            listed: false,
            has_events: false,
            failures_in_place: 0,
            failing: false,
        };
        Ok(Self { shared, selection, sink, member: None, at, pauses: None })
    }

    /// Runs for ever. `is_open` says whether a watch is open, for whoever spreads the ends of many.
    ///
    /// There are as many of these as objects: large short-lived values are boxed.
    // Not an `async fn`, nor is `watch`: those store their arguments twice.
    #[expect(clippy::manual_async_fn, reason = "see above")]
    pub(crate) fn run<'a>(&'a mut self, is_open: &'a AtomicBool) -> impl Future<Output = Infallible> + Send + 'a {
        async move {
            let mut state = State::Starting(Start::StreamingList);
            loop {
                state = match &mut state {
                    State::Starting(start) => Box::pin(self.start(*start)).await,
                    State::Watching(watch) => self.watch(watch, is_open).await,
                    State::BackingOff { pause, asked, next } => {
                        let Self { shared, pauses, at, .. } = &mut *self;
                        let pauses = pauses.get_or_insert_with(|| Box::new(Pauses::new(shared.client.options())));
                        let availability = shared.client.availability();
                        Box::pin(availability.pause(&mut pauses.backoff, *pause, *asked, at.returns)).await;
                        State::Starting(*next)
                    }
                };
            }
        }
    }

    /// Takes in what an open watch brings, until it ends.
    #[expect(clippy::manual_async_fn, reason = "see `run`")]
    fn watch<'a>(
        &'a mut self,
        watch: &'a mut Watch,
        is_open: &'a AtomicBool,
    ) -> impl Future<Output = State> + Send + 'a {
        async move {
            is_open.store(true, Ordering::Relaxed);
            let ended = loop {
                let patience = match self.at.currency {
                    Currency::Known => {
                        if let (None, Some(liveness)) = (&self.member, watch.liveness()) {
                            self.member = Some(self.shared.current.join(&self.sink, self.selection.target(), liveness));
                        }
                        self.shared.client.options().idle_timeout
                    }
                    Currency::Settling { .. } => SETTLED,
                    Currency::Unconfirmed { .. } => self.shared.client.options().idle_timeout,
                };
                let event = match watch.next(Instant::now() + patience).await {
                    Ok(Ok(event)) => event,
                    Ok(Err(End::Idle)) if matches!(self.at.currency, Currency::Settling { .. }) => {
                        self.at.currency = Currency::Known;
                        self.sink.confirm(Duration::ZERO);
                        continue;
                    }
                    Ok(Err(end)) => break Ok(end),
                    Err(error) => break Err(Box::new(error)),
                };
                match self.take(event) {
                    Ok(true) => {}
                    Ok(false) => break Ok(End::WentBack),
                    Err(error) => break Err(Box::new(error)),
                }
            };
            // From here on nobody else tells the sink anything, but that too much time passes until another watch is open.
            self.member = None;
            is_open.store(false, Ordering::Relaxed);
            if self.at.currency == Currency::Known {
                self.member = Some(self.shared.current.unwatched(&self.sink, self.selection.target()));
            }
            match ended {
                Ok(end) => self.ended(&end),
                Err(error) => self.failed(Start::Resuming, *error),
            }
        }
    }

    /// Takes in an event; false where it is older than what was told before.
    fn take(&mut self, event: Event) -> Result<bool, KubeError> {
        let (object, version) = match &event {
            Event::Set(json) | Event::Deleted(json) => {
                let object = self.decode(json)?;
                let version = advanced(&self.at.version, object.object().resource_version());
                (Some(object), version)
            }
            Event::Bookmark { version, .. } => (None, advanced(&self.at.version, version)),
        };
        let Some(version) = version else { return Ok(false) };
        if version != self.at.version {
            self.at.failures_in_place = 0;
        }
        (self.at.version, self.at.has_events) = (version, true);
        let is_bookmark = object.is_none();
        match (event, object) {
            (Event::Set(_) | Event::Deleted(_), Some(object)) if !self.selection.has(&object) => {
                self.sink.leave(Arc::new(object));
            }
            (Event::Set(_), Some(object)) => self.sink.set(Arc::new(object)),
            (Event::Deleted(_), Some(object)) => self.sink.delete(Arc::new(object)),
            (Event::Bookmark { .. } | Event::Set(_) | Event::Deleted(_), _) => {}
        }
        match self.at.currency {
            Currency::Known if is_bookmark => self.sink.bookmark(&self.at.version),
            Currency::Settling { until } | Currency::Unconfirmed { until }
                if resource_version_order(&self.at.version) >= until =>
            {
                self.at.currency = Currency::Known;
                self.sink.bookmark(&self.at.version);
            }
            Currency::Known | Currency::Settling { .. } | Currency::Unconfirmed { .. } => {}
        }
        Ok(true)
    }

    fn decode(&self, json: &[u8]) -> Result<S::Object, KubeError> {
        S::Object::decode_json(self.selection.kind(), json).map_err(|problem| self.selection.unreadable(problem))
    }

    /// What comes after a watch that ended without an error.
    fn ended(&mut self, end: &End) -> State {
        match end {
            End::Closed { early } => {
                let short = self.at.begun.elapsed() < SHORT && !self.at.has_events;
                if short {
                    self.at.failures_in_place = self.at.failures_in_place.saturating_add(1);
                }
                let next = if self.fails_in_place() {
                    Start::StreamingList
                } else if *early {
                    Start::Probing(Instant::now())
                } else {
                    Start::Resuming
                };
                if short || *early { self.back_off(None, next) } else { self.next(next) }
            }
            End::Idle => {
                tracing::info!(target = %self.selection.target(), "the watch has gone silent, listing anew");
                self.shared.client.counters().relisted_silent();
                self.next(Start::StreamingList)
            }
            End::WentBack => {
                self.shared.client.counters().relisted_went_back();
                // Once it is a restore; a server whose versions go to and fro is to be left alone.
                if self.at.listed && self.at.begun.elapsed() < SHORT {
                    self.back_off(None, Start::StreamingList)
                } else {
                    self.next(Start::StreamingList)
                }
            }
        }
    }

    /// What comes after a failure, of the watch or of the state in which it was begun.
    fn failed(&mut self, during: Start, error: KubeError) -> State {
        let counters = Arc::clone(self.shared.client.counters());
        let is_new_list = self.at.listed && !self.at.has_events && self.at.begun.elapsed() < SHORT;
        if error.is_expired() {
            counters.relisted_expired();
            // Once it is the way of things; a server that does not know its own list's version is to be left alone.
            return if is_new_list { self.fail(error, Start::StreamingList) } else { self.next(Start::StreamingList) };
        }
        let namespace = self.selection.namespace();
        if error.is_forbidden() && namespace.is_some_and(|namespace| self.shared.client.doubts_forbidden(namespace)) {
            let pause = self.pauses().forbidden_backoff.pause();
            return State::BackingOff { pause, asked: None, next: Start::StreamingList };
        }
        let next = match during {
            Start::StreamingList | Start::List => Start::StreamingList,
            // Who may not ask where the server is has to list.
            Start::Probing(_) if error.is_forbidden() => return self.next(Start::StreamingList),
            Start::Probing(_) => Start::Probing(Instant::now()),
            // Another watch may end while the objects are current. After that, the loop polls.
            Start::Resuming if error.is_no_room() && self.member.as_ref().is_some_and(|member| !member.is_stale()) => {
                let backoff = &mut self.pauses().backoff;
                let pause = backoff.pause();
                return State::BackingOff { pause: backoff.knock(pause), asked: None, next: Start::Resuming };
            }
            Start::Resuming if error.is_no_room() => Start::StreamingList,
            Start::Resuming if !resumes(&error) => {
                counters.relisted_unreadable();
                Start::StreamingList
            }
            Start::Resuming => {
                if error.code().is_some_and(|code| code >= 500) {
                    self.at.failures_in_place = self.at.failures_in_place.saturating_add(1);
                }
                if self.fails_in_place() { Start::StreamingList } else { Start::Probing(Instant::now()) }
            }
        };
        self.fail(error, next)
    }

    /// Whether the watch has failed so often at its version that everything is to be listed.
    fn fails_in_place(&mut self) -> bool {
        let fails = self.at.failures_in_place >= FAILURES_IN_PLACE;
        if fails {
            self.at.failures_in_place = 0;
            self.shared.client.counters().relisted_failing();
            tracing::info!(
                target = %self.selection.target(), version = %self.at.version,
                "the watch keeps failing at its version, listing anew"
            );
        }
        fails
    }

    /// Tells a failure, and waits.
    fn fail(&mut self, error: KubeError, next: Start) -> State {
        let shared = &*self.shared;
        shared.client.counters().failed();
        if error.is_unavailable() && error.code().is_none() {
            shared.streaming.server_lost();
        }
        // One line for all that lose the server, and one for each that it refuses.
        let known =
            if error.is_unavailable() { shared.unreachable.swap(true, Ordering::Relaxed) } else { self.at.failing };
        self.at.failing = true;
        if known {
            tracing::debug!(%error, "a list or watch failed again");
        } else {
            tracing::warn!(%error, "a list or watch failed; larder serves what it knows and retries");
        }
        let (asked, is_unreached) = (error.retry_after(), error.is_unreached());
        self.member = None;
        self.sink.failed(Arc::new(error));
        self.reset_backoff();
        let knocks = is_unreached && self.selection.knocks();
        let backoff = &mut self.pauses().backoff;
        let pause = backoff.pause_after(asked);
        let pause = if knocks { backoff.knock(pause) } else { pause };
        State::BackingOff { pause, asked, next }
    }

    fn back_off(&mut self, asked: Option<Duration>, next: Start) -> State {
        self.reset_backoff();
        State::BackingOff { pause: self.pauses().backoff.pause_after(asked), asked, next }
    }

    fn next(&mut self, next: Start) -> State {
        self.reset_backoff();
        State::Starting(next)
    }

    fn pauses(&mut self) -> &mut Pauses {
        self.pauses.get_or_insert_with(|| Box::new(Pauses::new(self.shared.client.options())))
    }

    /// What lasted longer than the longest pause was a success.
    fn reset_backoff(&mut self) {
        if self.at.begun.elapsed() >= self.shared.client.options().backoff_max {
            self.pauses = None;
        }
    }
}

/// The version after an event, or none if it is older than the one before. A version that is no number says nothing of order.
fn advanced(before: &str, version: &str) -> Option<Box<str>> {
    let (was, is) = (resource_version_order(before), resource_version_order(version));
    if version.is_empty() {
        return Some(before.into());
    }
    (was == 0 || is == 0 || is >= was).then(|| version.into())
}

/// Whether a watch that failed so can go on where it was. What could not be read may hide a change, and a request that
/// the server takes for wrong would be wrong again.
fn resumes(error: &KubeError) -> bool {
    match error {
        KubeError::Decode { .. } => false,
        KubeError::Status { code, .. } => matches!(code, 401 | 403 | 429) || *code >= 500,
        _ => true,
    }
}
