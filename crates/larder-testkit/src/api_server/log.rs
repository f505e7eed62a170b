//! What the simulated API server was asked: a bounded log, and counters.

use super::object::Kind;
use super::request::{Target, Verb};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use tokio::time::Instant;

/// How many requests the log holds before it forgets the oldest; the counters go on.
pub const REQUESTS: usize = 20_000;

/// One request that the simulated API server was asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestRecord {
    /// When its headers had been read, on tokio's time.
    pub at: Instant,
    /// What it does.
    pub verb: Verb,
    /// Of which kind; `None` for a path of no kind.
    pub kind: Option<Kind>,
    /// In which namespace; empty for all, and for nodes.
    pub namespace: String,
    /// The object's name, in the path or in the field selector; else empty.
    pub name: String,
    /// The query as sent.
    pub query: String,
    /// The user that the token stands for; empty if there was none.
    pub user: String,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// Which connection it came by, counted from 1.
    pub connection: u64,
    /// Whether it came over HTTP/2.
    pub http2: bool,
    /// The HTTP status of the answer; `None` while there is none, and for requests that hung or were cut.
    pub status: Option<u16>,
}

impl RequestRecord {
    /// The value of a field of the query, as sent (not unescaped); `None` if it is not there.
    pub fn query_field(&self, name: &str) -> Option<&str> {
        self.query.split('&').filter_map(|field| field.split_once('=')).find(|(n, _)| *n == name).map(|(_, v)| v)
    }

    /// Whether it was a consistent read: a get or list without a resourceVersion.
    pub fn is_consistent(&self) -> bool {
        matches!(self.verb, Verb::Get | Verb::List) && self.query_field("resourceVersion").is_none_or(str::is_empty)
    }
}

/// What the simulated API server has counted since its start, or since its requests were last forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Requests by verb and kind.
    pub requests: BTreeMap<(Verb, Option<Kind>), u64>,
    /// Connections accepted since the start; not forgotten with the requests.
    pub connections_accepted: u64,
    /// Connections open now.
    pub connections_open: u64,
    /// Watches open now.
    pub watches_open: u64,
    /// The most watches that were open at one time.
    pub watches_peak: u64,
    /// Bytes of bodies handed to the connections, before any framing.
    pub body_bytes: u64,
}

impl Counts {
    /// Requests of a verb on a kind.
    pub fn of(&self, verb: Verb, kind: Kind) -> u64 {
        self.requests.get(&(verb, Some(kind))).copied().unwrap_or_default()
    }

    /// All requests.
    pub fn total(&self) -> u64 {
        self.requests.values().sum()
    }
}

#[derive(Default)]
pub(crate) struct RequestLog {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    counts: Counts,
    records: VecDeque<RequestRecord>,
    /// The number of the first record that is still there.
    first: u64,
}

impl RequestLog {
    /// Notes a request; the number is for [`answered`](Self::answered).
    pub(crate) fn asked(
        &self,
        target: &Target,
        request: &http::Request<impl Sized>,
        user: &str,
        connection: u64,
    ) -> u64 {
        let record = RequestRecord {
            at: Instant::now(),
            verb: target.verb,
            kind: target.kind,
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            user: user.to_owned(),
            user_agent: request
                .headers()
                .get(http::header::USER_AGENT)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
                .to_owned(),
            connection,
            http2: request.version() == http::Version::HTTP_2,
            status: None,
        };
        let mut state = self.state.lock();
        *state.counts.requests.entry((target.verb, target.kind)).or_default() += 1;
        if state.records.len() == REQUESTS {
            state.records.pop_front();
            state.first += 1;
        }
        state.records.push_back(record);
        state.first + state.records.len() as u64 - 1
    }

    pub(crate) fn answered(&self, number: u64, status: u16) {
        let mut state = self.state.lock();
        let index = number.checked_sub(state.first).and_then(|index| usize::try_from(index).ok());
        if let Some(record) = index.and_then(|index| state.records.get_mut(index)) {
            record.status = Some(status);
        }
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.state.lock().counts);
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state.lock().counts.clone()
    }

    pub(crate) fn records(&self) -> Vec<RequestRecord> {
        self.state.lock().records.iter().cloned().collect()
    }

    /// Forgets the records and the requests' counters; what is open stays counted.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        state.first += state.records.len() as u64;
        state.records.clear();
        let watches_open = state.counts.watches_open;
        state.counts = Counts { watches_open, watches_peak: watches_open, ..Counts::default() };
    }
}
