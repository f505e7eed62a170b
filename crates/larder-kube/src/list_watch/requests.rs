//! The two requests that a reflector is made of: a list, page by page, and a watch, event by event.
//!
//! kube's own watcher is not used for these. It hands out typed objects, while larder serves the server's bytes, unknown
//! fields included; it sets no deadline on a request and notices a dead link only when the watch's own time is over; and
//! it does not pass on `Retry-After`.

use crate::client::KubeClient;
use crate::error::{KubeError, Target};
use crate::pool::{Answer, Liveness};
use bytes::{Bytes, BytesMut};
use http::Method;
use http_body_util::BodyExt;
use larder_resource::json::{Borrowed, Strict};
use larder_resource::{DecodeError, Kind};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::time::Duration;
use tokio::time::Instant;
use zeroize::{Zeroize, Zeroizing};

/// A watch that ends so much before its time, or more, has been ended by the server for reasons of its own.
const EARLY: Duration = Duration::from_secs(5);

/// What is listed and watched.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) kind: Kind,
    /// `/api/v1/pods` or `/api/v1/namespaces/NAMESPACE/secrets`
    pub(crate) path: String,
    /// Percent-encoded, such as `spec.nodeName%3Dn1`.
    pub(crate) field_selector: String,
    pub(crate) target: Target,
}

/// What a list hands out.
pub(crate) enum Item<'a> {
    /// The JSON of an object.
    Raw(&'a [u8]),
    /// The list begins anew: what was handed out before does not count.
    Restart,
}

/// Which state a list is to have.
#[derive(Clone, Copy)]
pub(crate) enum ListFrom<'a> {
    /// The state at the time of the request or a later one.
    Now,
    /// That of this version or a later one; the API server answers from its watch cache, or 504 where that has not reached
    /// the version within some seconds.
    NotOlderThan(&'a str),
    /// Whatever the API server's watch cache has.
    Cache,
}

/// The items of a complete list, handed out one by one, and the version from which to watch.
///
/// A page that has expired meanwhile (410) begins the list anew, once and without pages.
pub(crate) async fn list(
    client: &KubeClient,
    scope: &Scope,
    from: ListFrom<'_>,
    page_size: Option<u32>,
    mut take: impl FnMut(Item<'_>) -> Result<(), KubeError>,
) -> Result<String, KubeError> {
    let options = client.options();
    let from = match from {
        ListFrom::Now => String::new(),
        ListFrom::NotOlderThan(version) => {
            format!("&resourceVersion={}&resourceVersionMatch=NotOlderThan", encode(version))
        }
        ListFrom::Cache => "&resourceVersion=0".to_owned(),
    };
    let mut limit = page_size.map_or_else(String::new, |size| format!("&limit={size}"));
    let mut token = String::new();
    loop {
        let continued = if token.is_empty() { String::new() } else { format!("&continue={}", encode(&token)) };
        // The token has the version of the first page.
        let from = if token.is_empty() { &*from } else { "" };
        let path = format!("{}?fieldSelector={}{from}{limit}{continued}", scope.path, scope.field_selector);
        let deadline = Instant::now() + options.list_deadline;
        let page = match client.get(&scope.target, &path, deadline, options.max_page_bytes).await {
            Ok(page) => page,
            Err(error) if error.is_expired() && !token.is_empty() => {
                take(Item::Restart)?;
                token.clear();
                limit.clear();
                continue;
            }
            Err(error) => return Err(error),
        };
        let bad = |problem| KubeError::decode(scope.target.clone(), problem);
        let Strict(page): Strict<Page<'_>> = serde_json::from_slice(&page).map_err(|error| bad(error.into()))?;
        if page.kind.0.strip_suffix("List") != Some(scope.kind.as_str()) {
            return Err(bad(DecodeError::Unexpected { field: "kind", wants: "a list of them" }));
        }
        let Strict(meta) = page.metadata;
        for raw in page.items.unwrap_or_default() {
            take(Item::Raw(raw.get().as_bytes()))?;
        }
        if meta.continue_.0.is_empty() {
            let version = meta.resource_version.0.into_owned();
            // Without it a watch would begin anywhere.
            return if version.is_empty() {
                Err(bad(DecodeError::Missing("metadata.resourceVersion")))
            } else {
                Ok(version)
            };
        }
        token = meta.continue_.0.into_owned();
    }
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow, default)]
    kind: Borrowed<'a>,
    #[serde(borrow)]
    metadata: Strict<PageMeta<'a>>,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta<'a> {
    #[serde(borrow, default)]
    resource_version: Borrowed<'a>,
    #[serde(borrow, default, rename = "continue")]
    continue_: Borrowed<'a>,
}

/// One event of a watch. The bytes are the object's JSON, and are overwritten when they are dropped.
pub(crate) enum Event {
    Set(Zeroizing<Vec<u8>>),
    Deleted(Zeroizing<Vec<u8>>),
    Bookmark {
        /// The version up to which everything has been told.
        version: String,
        /// What was told until now was the list that the watch began with.
        ends_list: bool,
    },
}

/// How a watch ended, without an error.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The server closed it, as it does when its time is over.
    Closed {
        /// It closed it before that time.
        early: bool,
    },
    /// It said nothing for longer than its reader's patience: the link may be dead.
    Idle,
    /// It told something older than what it had told before.
    WentBack,
}

/// How a watch begins.
#[derive(Clone, Copy)]
pub(crate) enum Begin<'a> {
    /// With what happened after this version.
    After(&'a str),
    /// With everything that there is, of a consistent moment, and a bookmark that says where this ends.
    Listing,
}

/// An open watch.
pub(crate) struct Watch {
    client: KubeClient,
    target: Target,
    /// When its time is over.
    until: Instant,
    liveness: Option<Liveness>,
    body: Box<Answer>,
    buffer: BytesMut,
    /// Up to where the buffer has been searched for the end of a line.
    searched: usize,
}

impl Watch {
    pub(crate) async fn begin(client: &KubeClient, scope: &Scope, begin: Begin<'_>) -> Result<Self, KubeError> {
        let options = client.options();
        let seconds = options.jitter.scale(options.watch_timeout, 1.0..=2.0).as_secs();
        let (path, selector) = (&scope.path, &scope.field_selector);
        let begin = match begin {
            Begin::After(version) => format!("&resourceVersion={}", encode(version)),
            Begin::Listing => "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
        };
        let path = format!(
            "{path}?watch=true&allowWatchBookmarks=true&fieldSelector={selector}{begin}&timeoutSeconds={seconds}"
        );
        let now = Instant::now();
        let response =
            client.send(&scope.target, &Method::GET, &path, &Bytes::new(), now + options.watch_deadline).await?;
        client.counters().watch_opened();
        Ok(Self {
            client: client.clone(),
            target: scope.target.clone(),
            until: now + Duration::from_secs(seconds),
            liveness: response.extensions().get().cloned(),
            body: Box::new(response.into_body()),
            buffer: BytesMut::new(),
            searched: 0,
        })
    }

    /// The signs of life of its connection; none over HTTP/1.1.
    pub(crate) fn liveness(&self) -> Option<Liveness> {
        self.liveness.clone()
    }

    /// The next event, or how the watch ended. It is over for good after all ends but `Idle`, which comes where nothing of an
    /// event is there at that time. An event that has begun has the deadline of a read to be complete.
    ///
    /// # Errors
    ///
    /// The server's error event, a connection that broke, or an event that cannot be read. The watch is over then.
    ///
    /// Cancel safe: what has been read stays in the buffer.
    // Not an `async fn`, which has room for its arguments twice: each open watch waits in here.
    #[allow(clippy::manual_async_fn, reason = "see above")]
    pub(crate) fn next(
        &mut self,
        until: Instant,
    ) -> impl Future<Output = Result<Result<Event, End>, KubeError>> + Send {
        async move {
            let mut begun = None;
            loop {
                if let Some(mut line) = self.line()? {
                    begun = None;
                    if line.iter().all(u8::is_ascii_whitespace) {
                        continue;
                    }
                    let event = self.event(&line);
                    line.zeroize();
                    return event.map(Ok);
                }
                let until = match (self.buffer.is_empty(), begun) {
                    (true, _) => until,
                    (false, Some(begun)) => begun + self.patience(),
                    (false, None) => *begun.insert(Instant::now()) + self.patience(),
                };
                let frame = match tokio::time::timeout_at(until, self.body.frame()).await {
                    Err(_) if self.buffer.is_empty() => return Ok(Err(End::Idle)),
                    Err(_) => return Err(self.client.late(&self.target, self.patience())),
                    // What is left of a line that broke off is told again by the next watch.
                    Ok(None) => {
                        // Servers close a little before or after the second.
                        let early = Instant::now() + EARLY < self.until;
                        return Ok(Err(End::Closed { early }));
                    }
                    Ok(Some(Err(error))) => return Err(self.client.cut(&self.target, &error)),
                    Ok(Some(Ok(frame))) => frame,
                };
                if let Ok(data) = frame.into_data() {
                    self.keep(&data);
                }
            }
        }
    }

    /// For how long an event that has begun may take.
    fn patience(&self) -> Duration {
        self.client.options().fetch_deadline
    }

    /// Grown by hand: what the buffer grows out of is overwritten too.
    fn keep(&mut self, data: &[u8]) {
        if data.len() > self.buffer.capacity() - self.buffer.len() {
            let room = (self.buffer.len() + data.len()).max(self.buffer.len().saturating_mul(2));
            let mut larger = BytesMut::with_capacity(room);
            larger.extend_from_slice(&self.buffer);
            self.buffer.zeroize();
            self.buffer = larger;
        }
        self.buffer.extend_from_slice(data);
    }

    /// A whole line, if the buffer has one.
    fn line(&mut self) -> Result<Option<BytesMut>, KubeError> {
        let found = self.buffer.iter().skip(self.searched).position(|byte| *byte == b'\n');
        if let Some(at) = found {
            let line = self.buffer.split_to(self.searched + at + 1);
            self.searched = 0;
            if self.buffer.is_empty() {
                // Gives the memory of a large event back while nothing happens.
                self.buffer = BytesMut::new();
            }
            return Ok(Some(line));
        }
        self.searched = self.buffer.len();
        // An event is an object with a little around it.
        let limit = self.client.options().max_object_bytes;
        if self.buffer.len() > limit.saturating_add(1024) {
            return Err(KubeError::decode(self.target.clone(), DecodeError::TooLarge { limit }));
        }
        Ok(None)
    }

    fn event(&self, line: &[u8]) -> Result<Event, KubeError> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(borrow, rename = "type")]
            type_: Borrowed<'a>,
            #[serde(borrow)]
            object: &'a RawValue,
        }
        #[derive(Deserialize)]
        struct Bookmark<'a> {
            #[serde(borrow)]
            metadata: Strict<BookmarkMeta<'a>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct BookmarkMeta<'a> {
            #[serde(borrow, default)]
            resource_version: Borrowed<'a>,
            #[serde(borrow)]
            annotations: Option<Strict<Annotations<'a>>>,
        }
        #[derive(Deserialize)]
        struct Annotations<'a> {
            #[serde(borrow, default, rename = "k8s.io/initial-events-end")]
            initial_events_end: Borrowed<'a>,
        }
        let bad = |problem| KubeError::decode(self.target.clone(), problem);
        let Strict(wire): Strict<Wire<'_>> = serde_json::from_slice(line).map_err(|error| bad(error.into()))?;
        let object = wire.object.get().as_bytes();
        match wire.type_.0.as_ref() {
            "ADDED" | "MODIFIED" => Ok(Event::Set(Zeroizing::new(object.to_vec()))),
            "DELETED" => Ok(Event::Deleted(Zeroizing::new(object.to_vec()))),
            "BOOKMARK" => {
                let bookmark: Bookmark<'_> = serde_json::from_slice(object).map_err(|error| bad(error.into()))?;
                let Strict(meta) = bookmark.metadata;
                let ends_list = meta.annotations.is_some_and(|Strict(all)| all.initial_events_end.0 == "true");
                Ok(Event::Bookmark { version: meta.resource_version.0.into_owned(), ends_list })
            }
            "ERROR" => Err(self.client.refusal(&self.target, 200, None, object)),
            _ => Err(bad(DecodeError::Unexpected { field: "type", wants: "an event's" })),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.buffer.zeroize();
        self.client.counters().watch_closed();
    }
}

/// A value for a path or a query: what does not stand for itself in one is percent-encoded.
pub(crate) fn encode(value: &str) -> String {
    let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or('0').to_ascii_uppercase();
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    encoded
}
