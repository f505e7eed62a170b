//! Sessions with an API server: one server, its connections and one set of credentials; and the keeper that renews them.
//!
//! # Guarantees
//!
//! - *Renewed after a failure*: after a 401, and after a failed connection or handshake, the keeper reads the configuration and its
//!   files again. It runs a plugin again if the server refused the plugin's credentials. A change makes a new session. The
//!   keeper also looks at the files every 10 seconds, and retries a failed renewal at least as often.
//! - *One renewal for all*: one task renews. Requests that fail meanwhile wait for it, each until its own deadline, and continue
//!   with the new session.
//! - *A read that hangs holds up nobody else*: a renewal waits 10 seconds for files. The next renewal reads anew, at most once
//!   for each file that does not answer ([`Files`]).
//! - *Bounded*: after a renewal that a request has asked for, the next such renewal waits for a second, then longer, up to 10
//!   seconds.
//! - *No harm*: if nothing fails, another server or certificate takes effect only after larder has connected with it. A new token
//!   takes effect at once, and leaves connections and watches open.
//!
//! # Cancel safety
//!
//! A request that waits may be dropped. The task ends with the client, and so does a plugin that runs.
//!
//! # Locks
//!
//! One, over the state, never held over an `.await`.

use crate::availability::Availability;
use crate::backoff::Backoff;
use crate::connect::{Configuration, Endpoint, Origin, bearer};
use crate::error::KubeError;
use crate::file::Files;
use crate::options::KubeOptions;
use crate::plugin::{Certified, Issued, Plugin};
use crate::pool::{Pool, Transport};
use crate::sent_credentials::SentCredentials;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use larder_clock::{Clock, MonotonicClock};
use parking_lot::Mutex;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, timeout_at};

/// How often the configuration is looked at while nothing fails.
const LOOK: Duration = Duration::from_secs(10);

/// The pauses after attempts that were asked for.
const PAUSE_INITIAL: Duration = Duration::from_secs(2);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The pause after an attempt once requests have succeeded again.
const CALM: Duration = Duration::from_secs(1);

/// The longest that an attempt waits for files. Its read goes on, and the next attempt takes what it brings, or reads anew.
const READ: Duration = Duration::from_secs(10);

/// The most reads that are in flight together, where none ends.
const READS: usize = 8;

/// A first run of a plugin that takes longer is told.
const SLOW: Duration = Duration::from_secs(3);

/// One server, its connections, and what each request has.
pub(crate) struct Session {
    id: u64,
    pub(crate) server: Arc<str>,
    /// The scheme, host and port of the server, and the path in its address, which a request's own path follows.
    pub(crate) base: String,
    pub(crate) pool: Pool,
    pub(crate) headers: HeaderMap,
    /// When its credentials expire.
    expires: Option<Instant>,
}

impl Session {
    fn is_expired(&self) -> bool {
        self.expires.is_some_and(|expires| Instant::now() >= expires)
    }
}

/// Why a session is asked for that is newer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// The server does not accept the credentials.
    Refused,
    /// There was no connection.
    Unconnected,
}

/// The sessions of a client.
#[derive(Clone)]
pub(crate) struct Sessions(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// How many attempts have ended.
    ended: watch::Sender<u64>,
    /// Rung where the keeper has something to do.
    wake: Notify,
    /// Whether requests fail in a way that a newer session may mend. Relaxed: it is looked at on its own.
    troubled: AtomicBool,
    /// Whether there is a keeper.
    is_kept: bool,
}

struct State {
    session: Option<Arc<Session>>,
    sent: SentCredentials,
    server: Arc<str>,
    /// The server without larder's credentials, for requests of others.
    endpoint: Arc<Endpoint>,
    /// Since when an attempt is under way.
    running: Option<Instant>,
    /// The request that this attempt serves; empty if the attempt only looks whether files have changed.
    doing: Wanted,
    /// No attempt that is asked for begins before.
    not_before: Instant,
    wanted: Wanted,
    /// The name of the plugin that gives the credentials.
    plugin: Option<String>,
    /// Why the last attempt failed.
    problem: Option<Arc<str>>,
    /// What the server said to credentials that could not be renewed.
    refused: Option<Arc<str>>,
}

/// What the next attempt is to do.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Wanted {
    /// Read the configuration.
    read: bool,
    /// Run the plugin, too, whatever its last credentials are worth.
    plugin: bool,
}

impl Wanted {
    /// The attempt that can fix a failure of this kind.
    fn of(why: Why) -> Self {
        Self { read: true, plugin: why == Why::Refused }
    }

    /// Whether this attempt does everything that `other` asks for.
    fn covers(self, other: Self) -> bool {
        self.and(other) == self
    }

    fn and(self, other: Self) -> Self {
        Self { read: self.read || other.read, plugin: self.plugin || other.plugin }
    }
}

impl Sessions {
    /// The session of a configuration that is never read again.
    pub(crate) fn fixed(found: Configuration, options: &KubeOptions, transport: &Transport) -> Result<Self, String> {
        let pool = found.endpoint.pool(options, transport)?;
        let sessions = Self::new(&found.endpoint, None, false);
        let session = Arc::new(session(1, &found.endpoint, pool, found.headers, None));
        sessions.0.state.lock().begin(session, &found.endpoint);
        Ok(sessions)
    }

    /// Sessions of a configuration that is read again from its origin. A plugin is run in the background.
    ///
    /// # Errors
    ///
    /// What cannot be read or used.
    pub(crate) async fn kept(
        origin: Origin,
        options: &KubeOptions,
        transport: &Transport,
        availability: &Arc<Availability>,
    ) -> Result<Self, KubeError> {
        let mut keeper = Keeper {
            origin,
            options: options.clone(),
            transport: transport.clone(),
            availability: Arc::clone(availability),
            files: Files::default(),
            reading: None,
            current: None,
            issued: None,
            backoff: Backoff::new(PAUSE_INITIAL, PAUSE_MAX, &options.jitter),
            attempts: 0,
        };
        let (found, pool) = keeper.read().await?;
        let plugin = found.plugin.as_ref().map(|plugin| plugin.name().to_owned());
        let sessions = Self::new(&found.endpoint, plugin, true);
        if found.plugin.is_none() {
            let session = Arc::new(session(1, &found.endpoint, pool, found.headers.clone(), None));
            found.tell(&keeper.origin);
            sessions.0.state.lock().begin(Arc::clone(&session), &found.endpoint);
            keeper.current = Some((found.endpoint, found.headers, session));
        } else {
            sessions.0.state.lock().wanted.read = true;
        }
        transport.spawn(keeper.keep(Arc::clone(&sessions.0)));
        Ok(sessions)
    }

    fn new(endpoint: &Endpoint, plugin: Option<String>, is_kept: bool) -> Self {
        let state = State {
            session: None,
            sent: SentCredentials::default(),
            server: endpoint.server(),
            endpoint: Arc::new(endpoint.without_client()),
            running: None,
            doing: Wanted::default(),
            not_before: Instant::now(),
            wanted: Wanted::default(),
            plugin,
            problem: None,
            refused: None,
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            ended: watch::channel(0).0,
            wake: Notify::new(),
            troubled: AtomicBool::new(false),
            is_kept,
        }))
    }

    /// The server's address, for messages.
    pub(crate) fn server(&self) -> Arc<str> {
        Arc::clone(&self.0.state.lock().server)
    }

    /// The server without larder's credentials. Equal servers are the same allocation.
    pub(crate) fn endpoint(&self) -> Arc<Endpoint> {
        Arc::clone(&self.0.state.lock().endpoint)
    }

    /// The session to send with. Credentials that are not there yet, or have expired, are waited for.
    ///
    /// # Errors
    ///
    /// Why there are none.
    ///
    /// Cancel safe.
    pub(crate) async fn current(&self, deadline: Instant) -> Result<Arc<Session>, String> {
        let seen = {
            let mut state = self.0.state.lock();
            match &state.session {
                Some(session) if !session.is_expired() => return Ok(Arc::clone(session)),
                _ => {}
            }
            if state.running.is_none() && Instant::now() < state.not_before {
                return state.usable();
            }
            if state.running.is_none() {
                // A plugin without credentials that last is run by any attempt.
                state.wanted.read = true;
            }
            *self.0.ended.borrow()
        };
        self.0.wake.notify_one();
        let ended = timeout_at(deadline, self.attempt_after(seen)).await;
        let state = self.0.state.lock();
        match ended {
            Ok(()) => state.usable(),
            Err(_) => Err(state.problem().unwrap_or_else(|| state.waiting())),
        }
    }

    /// Returns a session newer than the failed one. Asks for an attempt and waits for its end; returns `None` if the attempt made
    /// no newer session, or if the last attempt was too short ago to begin another.
    ///
    /// Cancel safe.
    pub(crate) async fn newer(&self, used: &Session, why: Why, deadline: Instant) -> Option<Arc<Session>> {
        let newer = |state: &State| state.session.as_ref().filter(|session| session.id != used.id).cloned();
        let mut ended = self.0.ended.subscribe();
        let last = {
            let mut state = self.0.state.lock();
            if let Some(session) = newer(&state) {
                return Some(session);
            }
            if !self.want(&mut state, why) {
                return None;
            }
            // The attempt under way may not run the plugin and so end without a change. The next attempt follows at once.
            let in_vain = state.running.is_some() && !state.doing.covers(Wanted::of(why));
            *ended.borrow_and_update() + 1 + u64::from(in_vain && Instant::now() >= state.not_before)
        };
        let attempts = async {
            while ended.changed().await.is_ok() {
                let session = newer(&self.0.state.lock());
                if session.is_some() || *ended.borrow() >= last {
                    return session;
                }
            }
            None
        };
        timeout_at(deadline, attempts).await.ok().flatten()
    }

    /// Says that a request failed, without waiting for what comes of it.
    pub(crate) fn failed(&self, why: Why) {
        self.want(&mut self.0.state.lock(), why);
    }

    /// Asks for an attempt; true where one is under way or begins at once.
    fn want(&self, state: &mut State, why: Why) -> bool {
        if !self.0.is_kept {
            return false;
        }
        self.0.troubled.store(true, Ordering::Relaxed);
        state.wanted = state.wanted.and(Wanted::of(why));
        self.0.wake.notify_one();
        state.running.is_some() || Instant::now() >= state.not_before
    }

    async fn attempt_after(&self, seen: u64) {
        let mut ended = self.0.ended.subscribe();
        // The sender lives in `self`.
        let _ = ended.wait_for(|ended| *ended > seen).await;
    }

    /// Notes that a request was served, which ends the trouble.
    pub(crate) fn served(&self) {
        if self.0.troubled.load(Ordering::Relaxed) && self.0.troubled.swap(false, Ordering::Relaxed) {
            let mut state = self.0.state.lock();
            state.refused = None;
            state.not_before = state.not_before.min(Instant::now() + CALM);
        }
    }

    /// Notes what the server said to credentials that could not be renewed.
    pub(crate) fn refused(&self, answer: &KubeError) {
        self.0.state.lock().refused = Some(answer.to_string().into());
    }

    /// A server's text without the credentials of the latest sessions.
    pub(crate) fn redacted(&self, text: String) -> String {
        self.0.state.lock().sent.redacted(text)
    }

    /// What is wrong with the configuration or the credentials.
    pub(crate) fn problem(&self) -> Option<String> {
        let state = self.0.state.lock();
        let slow = state.running.is_some_and(|since| since.elapsed() >= SLOW);
        let waits = slow && state.plugin.is_some() && state.session.as_ref().is_none_or(|session| session.is_expired());
        state.problem().or_else(|| waits.then(|| state.waiting()))
    }
}

impl State {
    fn begin(&mut self, session: Arc<Session>, endpoint: &Endpoint) {
        self.sent.note(&session.headers);
        let endpoint = endpoint.without_client();
        if *self.endpoint != endpoint {
            self.endpoint = Arc::new(endpoint);
        }
        self.session = Some(session);
    }

    /// The session, where the last attempt has not left it without credentials.
    fn usable(&self) -> Result<Arc<Session>, String> {
        match &self.session {
            Some(session) if !session.is_expired() || self.problem.is_none() => Ok(Arc::clone(session)),
            _ => Err(self.problem().unwrap_or_else(|| self.waiting())),
        }
    }

    fn problem(&self) -> Option<String> {
        self.problem.as_ref().or(self.refused.as_ref()).map(ToString::to_string)
    }

    fn waiting(&self) -> String {
        let since = self.running.map(|since| since.elapsed().as_secs()).unwrap_or_default();
        match &self.plugin {
            Some(plugin) => {
                format!("the credential plugin {plugin:?} has been running for {since} s and is waited for")
            }
            None => "the credentials are being read".to_owned(),
        }
    }
}

fn session(id: u64, endpoint: &Endpoint, pool: Pool, headers: HeaderMap, expires: Option<Instant>) -> Session {
    Session { id, server: endpoint.server(), base: endpoint.base(), pool, headers, expires }
}

type Read = Result<(Configuration, Pool), KubeError>;

/// Reads the configuration and runs the plugin, for all.
struct Keeper {
    origin: Origin,
    options: KubeOptions,
    transport: Transport,
    availability: Arc<Availability>,
    files: Files,
    /// The last read that an attempt stopped waiting for.
    reading: Option<JoinHandle<Read>>,
    /// What the current session is made of.
    current: Option<(Endpoint, HeaderMap, Arc<Session>)>,
    /// What the plugin gave last.
    issued: Option<(Plugin, Credentials)>,
    backoff: Backoff,
    attempts: u64,
}

/// What a plugin gave, ready to be used.
struct Credentials {
    headers: HeaderMap,
    certificate: Option<Certified>,
    expires: Option<Instant>,
}

impl Keeper {
    async fn keep(mut self, shared: Arc<Shared>) {
        let mut looked = Instant::now();
        // What is tried again for as long as requests fail.
        let mut again = Wanted::default();
        loop {
            let wanted = self.next(&shared, looked, again).await;
            let asked = wanted != Wanted::default();
            let troubled = shared.troubled.load(Ordering::Relaxed);
            again = if asked { again.and(wanted) } else { Wanted::default() };
            let outcome = self.attempt(wanted, asked || troubled, &shared).await;
            looked = Instant::now();
            self.end(outcome, asked, &shared);
        }
    }

    /// Waits until there is something to do, and notes that it has begun.
    async fn next(&mut self, shared: &Shared, looked: Instant, again: Wanted) -> Wanted {
        loop {
            let (due, wanted) = {
                let state = shared.state.lock();
                let is_troubled = shared.troubled.load(Ordering::Relaxed);
                let wanted = if is_troubled { state.wanted.and(again) } else { state.wanted };
                let due = if wanted == Wanted::default() { looked + LOOK } else { state.not_before };
                (due, wanted)
            };
            if Instant::now() >= due {
                let mut state = shared.state.lock();
                let wanted = wanted.and(std::mem::take(&mut state.wanted));
                (state.running, state.doing) = (Some(Instant::now()), wanted);
                return wanted;
            }
            tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                () = shared.wake.notified() => {}
            }
        }
    }

    /// Makes a new session where something has changed; none where nothing has.
    async fn attempt(&mut self, wanted: Wanted, asked: bool, shared: &Shared) -> Result<Option<Arc<Session>>, String> {
        let (mut found, mut pool) = self.read().await.map_err(|error| error.to_string())?;
        let mut expires = None;
        shared.state.lock().plugin = found.plugin.as_ref().map(|plugin| plugin.name().to_owned());
        if let Some(plugin) = found.plugin.take() {
            let mut endpoint = found.endpoint.clone();
            let credentials = self.credentials(plugin, wanted.plugin).await?;
            expires = credentials.expires;
            found.headers.extend(credentials.headers.clone());
            if let Some((certificate, key)) = &credentials.certificate {
                let place = "the credential plugin's output";
                endpoint = endpoint.with_client(certificate.clone(), key.clone(), place);
                let (options, transport) = (self.options.clone(), self.transport.clone());
                let made = tokio::task::spawn_blocking(move || {
                    endpoint.pool(&options, &transport).map(|pool| (endpoint, pool))
                });
                (found.endpoint, pool) = made.await.map_err(|_| "its output could not be used".to_owned())??;
            }
        }
        let same_endpoint = self.current.as_ref().filter(|(endpoint, ..)| *endpoint == found.endpoint);
        let same =
            same_endpoint.filter(|(_, headers, session)| *headers == found.headers && session.expires == expires);
        if same.is_some() {
            return Ok(None);
        }
        let old = match same_endpoint {
            // Tokens alone: connections and watches stay where they are.
            Some((.., session)) => {
                pool = session.pool.clone();
                None
            }
            None => self.current.as_ref().map(|(.., session)| session.pool.clone()),
        };
        if old.is_some() && !asked && !shared.troubled.load(Ordering::Relaxed) {
            let reached = pool.reach().await;
            if let Err(error) = reached.as_ref()
                && !shared.troubled.load(Ordering::Relaxed)
            {
                tracing::debug!(%error, origin = %self.origin.in_words(), "what has changed leads to no server yet");
                pool.close();
                return Ok(None);
            }
        }
        self.attempts += 1;
        let session = Arc::new(session(self.attempts + 1, &found.endpoint, pool, found.headers.clone(), expires));
        found.tell(&self.origin);
        let is_first = self.current.is_none();
        shared.state.lock().begin(Arc::clone(&session), &found.endpoint);
        self.current = Some((found.endpoint, found.headers, Arc::clone(&session)));
        if let Some(old) = old {
            tracing::info!(server = &*session.server, origin = %self.origin.in_words(), "the configuration has changed");
            old.close();
        }
        if !is_first {
            self.transport.counters.session_changed();
        }
        Ok(Some(session))
    }

    fn end(&mut self, outcome: Result<Option<Arc<Session>>, String>, asked: bool, shared: &Shared) {
        let mended = {
            let mut state = shared.state.lock();
            state.running = None;
            let changed = matches!(outcome, Ok(Some(_)));
            match outcome {
                Ok(session) => {
                    if let Some(session) = &session {
                        (state.server, state.refused) = (Arc::clone(&session.server), None);
                        // Whoever failed with the session before has this one.
                        state.wanted = Wanted::default();
                    }
                    state.problem = None;
                }
                Err(problem) => {
                    self.transport.counters.session_failed();
                    if state.problem.as_deref() != Some(&problem) {
                        tracing::warn!(problem, "the credentials cannot be renewed, larder goes on with what it has");
                    }
                    state.problem = Some(problem.into());
                    let unusable = state.session.as_ref().is_none_or(|session| session.is_expired());
                    if unusable {
                        state.wanted.read = true;
                    }
                }
            }
            if !shared.troubled.load(Ordering::Relaxed) && state.problem.is_none() {
                self.backoff.reset();
            }
            if asked {
                state.not_before = Instant::now() + self.backoff.pause();
            }
            changed
        };
        shared.ended.send_modify(|ended| *ended += 1);
        if mended {
            self.availability.mended();
        }
    }

    /// The configuration, with connections that are not opened yet.
    async fn read(&mut self) -> Read {
        self.transport.counters.session_read();
        let ended = tokio::time::timeout(READ, self.read_files()).await;
        if let Ok(read) = ended {
            self.reading = None;
            return read.unwrap_or_else(|_| Err(self.origin.config("reading it failed")));
        }
        let file = self.files.first_in_read();
        let file = file.map_or_else(|| "it and its files".to_owned(), |file| file.display().to_string());
        let problem = format!(
            "reading {file} has not ended within {READ:?}; check the file system that it is on, larder tries again"
        );
        Err(self.origin.config(&problem))
    }

    /// Reads the files, also while an earlier read has not ended: the configuration may name other files by now. Only if the
    /// new read needs the file that the earlier one is stuck at, the earlier one is waited for.
    async fn read_files(&mut self) -> Result<Read, JoinError> {
        match self.reading.take() {
            Some(earlier) if !earlier.is_finished() && self.files.reads_in_flight() < READS => {
                let read = self.reading.insert(self.begin_read()).await?;
                if !is_busy(&read) {
                    return Ok(read);
                }
                self.reading = Some(earlier);
            }
            earlier => self.reading = earlier,
        }
        let reading = match self.reading.take() {
            Some(reading) => reading,
            None => self.begin_read(),
        };
        self.reading.insert(reading).await
    }

    fn begin_read(&self) -> JoinHandle<Read> {
        let (origin, options, transport) = (self.origin.clone(), self.options.clone(), self.transport.clone());
        let files = self.files.clone();
        tokio::task::spawn_blocking(move || {
            let found = origin.read(&options, &files)?;
            let pool = found.endpoint.pool(&options, &transport).map_err(|problem| origin.config(&problem))?;
            Ok((found, pool))
        })
    }

    /// What the plugin gives, or gave: it is run where nothing that it gave is left to use.
    async fn credentials(&mut self, plugin: Plugin, anew: bool) -> Result<&Credentials, String> {
        let is_expired = |credentials: &Credentials| credentials.expires.is_some_and(|at| Instant::now() >= at);
        let keep = matches!(&self.issued, Some((of, held)) if *of == plugin && !anew && !is_expired(held));
        if !keep {
            self.transport.counters.plugin_run();
            let issued = plugin.run(self.options.plugin_deadline).await?;
            let credentials =
                usable(issued).map_err(|problem| format!("the credential plugin {:?}: {problem}", plugin.name()))?;
            self.issued = Some((plugin, credentials));
        }
        self.issued.as_ref().map(|(_, credentials)| credentials).ok_or_else(|| "no credentials".to_owned())
    }
}

/// Whether a file was not read because an earlier read of it has not ended.
fn is_busy(read: &Read) -> bool {
    matches!(
        read,
        Err(KubeError::KubeconfigUnreadable { source, .. } | KubeError::CredentialFile { source, .. })
            if source.kind() == ErrorKind::ResourceBusy
    )
}

fn usable(issued: Issued) -> Result<Credentials, &'static str> {
    let mut headers = HeaderMap::new();
    if let Some(token) = &issued.token {
        headers.insert(AUTHORIZATION, bearer(token)?);
    }
    let expires = issued.expires_at.map(|at| {
        let clock = MonotonicClock::new();
        let left = at.as_nanosecond() - clock.wall_time(clock.now());
        Instant::now()
            + Duration::from_nanos(u64::try_from(left.max(0)).unwrap_or(u64::MAX)).min(Duration::from_hours(24 * 365))
    });
    Ok(Credentials { headers, certificate: issued.certificate, expires })
}

#[cfg(test)]
mod tests;
