//! Watches of the Kubernetes API: a stream of events from the journal of a kind.
//!
//! # Guarantees
//!
//! - *In order, once*: a client gets each change of a wanted object once, in the order of the journal. An object that begins or
//!   ceases to match the selectors is ADDED or DELETED, as at the API server.
//! - *Whole*: the initial events are all wanted objects, and then the bookmark that says so. Where one is not known yet, the
//!   watch is refused (503).
//! - *Resumed exactly or not at all*: see [`larder_resource::journal`]. After a change whose position has another version than
//!   the object, a bookmark follows at once, if the client takes bookmarks.
//! - *From the future*: a watch after a version that larder has yet to reach is open, and silent until then, as at the API server.
//! - *As seen*: objects and selectors are those of the caller's view ([`access`](crate::access)).
//!   When the caller no longer sees what it saw at the beginning, because the policy has changed, what has left its view is DELETED, with its
//!   name, UID and version alone, and the watch ends with 410.
//! - *Alone*: a client that reads too slowly is cut off, and no other one notices.
//! - *Bounded*: a watch counts to its caller's [identity](crate::usage), with what it has not sent yet. A watch that has more to send than its
//!   caller may hold ends with 429.
//!
//! # Limits
//!
//! A watch ends after `timeoutSeconds`, or else after 30 to 60 minutes, as at the API server. A DELETED event of an object
//! that ceases to match has the object as it is now, not as it was.

use super::options::{ListOptions, Version, Wanted};
use super::representation::Representation;
use crate::access::{Reader, SeenEntries, SeenEntry, SeenFollower, SeenJournal};
use crate::app::App;
use crate::error::ApiError;
use crate::usage::{Held, Watching};
use axum::body::Body;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::stream;
use larder_objects::ObjectKey;
use larder_resource::journal::{Ended, EventType, Resource};
use larder_resource::json_of_resource;
use larder_resource::selector::Selectable;
use larder_resource::{DecodeError, Kind};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

type PolicyChanges = tokio::sync::watch::Receiver<Arc<larder_policy::Policy>>;

/// How often a client gets a bookmark, as from the API server.
const BOOKMARK_PERIOD: Duration = Duration::from_mins(1);
/// How long a watch lasts if the client does not say.
const SHORTEST: Duration = Duration::from_mins(30);
/// Objects above this size are sent without a copy.
const COPIED: usize = 32 << 10;
/// About how many bytes are sent at once.
const AT_ONCE: usize = 64 << 10;

/// A watch that ends with an ERROR event at once.
pub(super) fn refused(error: &ApiError) -> Body {
    let mut out = Chunks::default();
    out.error(error);
    out.flush();
    Body::from(out.next().unwrap_or_default())
}

/// Opens a watch.
///
/// # Errors
///
/// 410 where it cannot begin after the given version, 504 where it begins with the objects of a version in the future, 429 where its caller has
/// as many watches, or bytes, as it may have.
pub(super) fn begin(
    app: &Arc<App>,
    journal: &SeenJournal,
    options: &ListOptions,
    representation: Representation,
) -> Result<Body, ApiError> {
    let (initial, follower) = match (options.send_initial_events, options.version) {
        (Some(true), Version::NotOlderThan(asked)) if journal.version() < asked => {
            return Err(ApiError::TooLargeVersion { asked, current: journal.version() });
        }
        (Some(true), _) | (None, Version::Any) => {
            let (snapshot, follower) = journal.follow()?;
            (Some(snapshot), follower)
        }
        (Some(false), Version::Any) => (None, journal.follow()?.1),
        (_, Version::NotOlderThan(version) | Version::Exact(version)) => (None, journal.resume(version)?),
    };
    let initial = initial.map(|snapshot| {
        let ends_at = options.send_initial_events.filter(|with_end| *with_end).map(|_| snapshot.version);
        Initial::new(options.wanted.of(snapshot), ends_at)
    });
    let place = journal.reader().watch_of(initial.as_ref().map_or(0, |initial| initial.bytes))?;
    let now = Instant::now();
    let lasts = options.timeout.unwrap_or_else(|| app.jitter.between(SHORTEST..=2 * SHORTEST));
    let watch = Watch {
        app: Arc::clone(app),
        reader: journal.reader().clone(),
        policy: app.policy.changes(),
        kind: journal.kind(),
        wanted: options.wanted.clone(),
        representation,
        is_first: true,
        follower: Some(follower),
        bookmarks: options.bookmarks,
        ends_at: now + lasts,
        bookmark_at: now + BOOKMARK_PERIOD,
        initial,
        out: Chunks::default(),
        place,
        has_ended: false,
    };
    // The head of the answer goes out at once, even if no event does.
    let first = stream::iter([Ok::<Bytes, Infallible>(Bytes::new())]);
    let events = stream::unfold(watch, |mut watch| async move { Some((Ok(watch.next().await?), watch)) });
    Ok(Body::from_stream(stream::StreamExt::chain(first, events)))
}

/// What a watch begins with. It is encoded while the client takes it.
struct Initial {
    objects: VecDeque<Arc<Resource>>,
    /// The length of their JSON.
    bytes: usize,
    /// The version of the bookmark that ends it, if the client asked for that.
    ends_at: Option<u64>,
}

impl Initial {
    fn new(objects: Vec<Arc<Resource>>, ends_at: Option<u64>) -> Self {
        let bytes = objects.iter().map(|object| (**object).as_ref().json_len()).sum();
        Self { objects: objects.into(), bytes, ends_at }
    }

    fn next(&mut self) -> Option<Arc<Resource>> {
        let object = self.objects.pop_front()?;
        self.bytes = self.bytes.saturating_sub((*object).as_ref().json_len());
        Some(object)
    }
}

struct Watch {
    app: Arc<App>,
    reader: Reader,
    /// Tells when the policy changes.
    policy: PolicyChanges,
    kind: Kind,
    wanted: Wanted,
    representation: Representation,
    /// Whether no event was sent yet.
    is_first: bool,
    /// `None` once the watch has ended because of what its caller sees.
    follower: Option<SeenFollower>,
    bookmarks: bool,
    ends_at: Instant,
    bookmark_at: Instant,
    initial: Option<Initial>,
    out: Chunks,
    /// Among the watches of the caller's identity, with the bytes that are held for it.
    place: Option<(Watching, Held)>,
    has_ended: bool,
}

impl Watch {
    /// Encodes some more of what the watch begins with.
    fn begin(&mut self, mut initial: Initial) {
        while let Some(object) = initial.next() {
            self.event(EventType::Added, &object, None);
            if !self.out.ready.is_empty() {
                self.initial = Some(initial);
                return;
            }
        }
        if let Some(version) = initial.ends_at
            && self.bookmarks
        {
            self.bookmark(version, true);
        }
    }

    /// The next bytes; `None` once the watch has ended.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(chunk) = self.out.next() {
                self.hold();
                return Some(chunk);
            }
            let follower = self.follower.as_mut().filter(|_| !self.has_ended)?;
            if let Some(initial) = self.initial.take() {
                let has_untold =
                    |key: &ObjectKey| initial.objects.iter().any(|object| (**object).as_ref().key() == *key);
                if self.still_sees_the_same(has_untold) {
                    self.begin(initial);
                }
                self.out.flush();
                self.hold();
                continue;
            }
            let wakes_at = if self.bookmarks { self.bookmark_at.min(self.ends_at) } else { self.ends_at };
            tokio::select! {
                biased;
                () = self.app.ending.cancelled() => self.has_ended = true,
                Ok(()) = self.policy.changed() => {
                    self.still_sees_the_same(|_| false);
                }
                entries = follower.next() => {
                    let is_new = |key: &ObjectKey| match &entries {
                        Ok(Ok(entries)) => entries.entries.iter().any(|entry| entry.is_new() && entry.key() == key),
                        _ => false,
                    };
                    if self.still_sees_the_same(is_new) {
                        self.take(entries);
                    }
                }
                () = sleep_until(wakes_at) => {
                    if self.ends_at <= Instant::now() {
                        self.has_ended = true;
                    } else if self.still_sees_the_same(|_| false) {
                        self.tell_version();
                    }
                }
            }
            self.out.flush();
            self.hold();
        }
    }

    /// Holds what is not sent yet against what the caller's identity may hold, and ends the watch if that is too much.
    fn hold(&mut self) {
        let Some((_, held)) = &mut self.place else { return };
        let bytes = self.out.bytes + self.initial.as_ref().map_or(0, |initial| initial.bytes);
        if let Err(error) = held.set(bytes) {
            held.clear();
            (self.initial, self.out) = (None, Chunks::default());
            self.out.error(&error);
            self.out.flush();
            self.has_ended = true;
        }
    }

    /// Ends the watch if its caller no longer sees what it saw at the beginning. `is_untold` says of which objects the caller has not been told
    /// that it had yet to be.
    fn still_sees_the_same(&mut self, is_untold: impl Fn(&ObjectKey) -> bool) -> bool {
        let Err(error) = self.reader.still_sees_the_same() else { return true };
        tracing::debug!(kind = self.kind.resource(), %error, "a watch ended");
        let knows = |key: &ObjectKey, state: &Selectable| !is_untold(key) && self.wanted.has(key.namespace(), state);
        let left = self.follower.take().map(|follower| follower.left(self.reader.now().as_ref(), knows));
        // An object that cannot be written is gone from the next list, too.
        for object in left.and_then(Result::ok).unwrap_or_default() {
            self.event(EventType::Deleted, &object, None);
        }
        self.out.error(&error);
        self.has_ended = true;
        false
    }

    fn take(&mut self, entries: Result<Result<SeenEntries, DecodeError>, Ended>) {
        let entries = match entries {
            Ok(Ok(entries)) => entries,
            Ok(Err(error)) => {
                self.out.error(&ApiError::Unwritable(format!("a {}: {error}", self.kind.singular())));
                self.has_ended = true;
                return;
            }
            Err(ended) => {
                match ended {
                    Ended::BeganAnew | Ended::Expired(_) => self.out.error(&ApiError::Expired(ended.to_string())),
                    Ended::TooSlow => {}
                }
                tracing::debug!(kind = self.kind.resource(), %ended, "a watch ended");
                self.has_ended = true;
                return;
            }
        };
        for entry in &entries.entries {
            let namespace = entry.namespace();
            let is_wanted = entry.event() != EventType::Deleted && self.wanted.has(namespace, entry.selectable());
            let was_wanted = entry.before().is_some_and(|before| self.wanted.has(namespace, before));
            let event = match (was_wanted, is_wanted) {
                (false, true) => EventType::Added,
                (true, true) => EventType::Modified,
                (true, false) => EventType::Deleted,
                (false, false) => continue,
            };
            // The journal has the object of each entry that a connected follower gets.
            let Some(object) = entry.object() else { continue };
            self.event(event, object, Some(entry));
        }
        if entries.needs_bookmark {
            self.tell_version();
        }
    }

    fn event(&mut self, event: EventType, object: &Arc<Resource>, entry: Option<&SeenEntry>) {
        let json = json_of_resource(Arc::clone(object));
        let with_columns = std::mem::take(&mut self.is_first);
        let parts = || self.representation.parts(&self.app, self.kind, &json, with_columns);
        let has_values = self.kind == Kind::Secret;
        let is_own = with_columns || has_values && self.representation.has_data();
        let parts = match (self.representation.shared_encoding(), entry.and_then(SeenEntry::shared)) {
            (Some(which), Some(entry)) if !is_own => {
                // An object without an encoding is rare, and then each watch tries.
                entry.try_encoding(which, || parts().map(|parts| parts.concat().into())).map(|shared| vec![shared])
            }
            _ => parts(),
        };
        match parts {
            Ok(parts) => self.out.event(event.as_str(), parts, !has_values),
            Err(error) => {
                let name = (**object).as_ref().key();
                self.out.error(&ApiError::Unwritable(format!("{} \"{name}\": {error}", self.kind.singular())));
                self.has_ended = true;
            }
        }
    }

    /// Sends a bookmark, if the client takes them and has been given everything.
    fn tell_version(&mut self) {
        if self.bookmarks
            && let Some(version) = self.follower.as_ref().and_then(SeenFollower::version)
        {
            self.bookmark(version, false);
        }
        self.bookmark_at = Instant::now() + BOOKMARK_PERIOD;
    }

    fn bookmark(&mut self, version: u64, ends_initial_events: bool) {
        let kind = self.kind.as_str();
        let annotations =
            if ends_initial_events { r#","annotations":{"k8s.io/initial-events-end":"true"}"# } else { "" };
        let json = format!(
            r#"{{"kind":"{kind}","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"{annotations}}}}}"#
        );
        let with_columns = std::mem::take(&mut self.is_first);
        // A bookmark of larder's own has each of its representations.
        if let Ok(parts) = self.representation.bookmark(self.kind, &json.into(), with_columns) {
            self.out.event("BOOKMARK", parts, true);
        }
    }
}

/// The bytes of events. Large objects and Secrets are not copied: the bytes of a Secret are overwritten when the last user drops them.
#[derive(Default)]
struct Chunks {
    ready: VecDeque<Bytes>,
    /// How many bytes are ready.
    bytes: usize,
    open: BytesMut,
}

impl Chunks {
    fn event(&mut self, event: &str, parts: Vec<Bytes>, may_copy: bool) {
        self.open.extend_from_slice(br#"{"type":""#);
        self.open.extend_from_slice(event.as_bytes());
        self.open.extend_from_slice(br#"","object":"#);
        for part in parts {
            if part.len() > COPIED || !may_copy {
                self.flush();
                self.push(part);
            } else {
                self.open.extend_from_slice(&part);
            }
        }
        self.open.extend_from_slice(b"}\n");
        if self.open.len() >= AT_ONCE {
            self.flush();
        }
    }

    fn line(&mut self, line: &str) {
        self.open.extend_from_slice(line.as_bytes());
        self.open.put_u8(b'\n');
    }

    fn error(&mut self, error: &ApiError) {
        let status = serde_json::json!({"type": "ERROR", "object": error.status()});
        self.line(&status.to_string());
    }

    fn flush(&mut self) {
        if !self.open.is_empty() {
            let open = self.open.split().freeze();
            self.push(open);
        }
    }

    fn push(&mut self, chunk: Bytes) {
        self.bytes += chunk.len();
        self.ready.push_back(chunk);
    }

    fn next(&mut self) -> Option<Bytes> {
        let chunk = self.ready.pop_front()?;
        self.bytes -= chunk.len();
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent, and how many pieces of it are the given ones.
    fn sent(parts: &[Bytes], may_copy: bool) -> (String, usize) {
        let mut out = Chunks::default();
        out.event("ADDED", parts.to_vec(), may_copy);
        out.flush();
        let sent: Vec<Bytes> = std::iter::from_fn(|| out.next()).collect();
        let shared = parts.iter().filter(|part| sent.iter().any(|chunk| chunk.as_ptr() == part.as_ptr())).count();
        (String::from_utf8(sent.concat()).unwrap(), shared)
    }

    #[test]
    fn the_pieces_of_an_object_are_sent_as_they_are_and_those_of_a_secret_are_not_copied() {
        let pieces =
            ["{\"data\":\"ends with a space ", "and goes on\"}"].map(|piece| Bytes::from_static(piece.as_bytes()));
        let event = "{\"type\":\"ADDED\",\"object\":{\"data\":\"ends with a space and goes on\"}}\n";
        assert_eq!(sent(&pieces, true), (event.to_owned(), 0));
        assert_eq!(sent(&pieces, false), (event.to_owned(), 2));
        let long = Bytes::from(format!("\"{}\"", "x".repeat(COPIED)));
        assert_eq!(sent(&[long], true).1, 1);
    }
}
