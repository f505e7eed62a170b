//! What each identity uses: requests in flight, watches, and bytes of answers that it has not taken yet.
//!
//! # Guarantees
//!
//! - *By identity*: a pod is one identity, whichever of its containers asks, over the socket or by its tokens. So is each user of the host, and
//!   each name in a client's certificate.
//! - *Bounded*: a request, a watch or an answer beyond the [`Bounds`] is refused with 429. The answer of one identity takes nothing from another.
//! - *Shared fairly*: all identities that are no administrators hold [`Limits::pods_bytes`] together. When these are held, an identity
//!   may still hold its equal share.
//! - *Given back*: each place counts until it is dropped, and each byte until the connection has written or dropped it.
//! - *Forgotten*: an identity without a connection and a request is not remembered.
//!
//! # Limits
//!
//! An answer that is larger than the bound is given to an identity that holds nothing else. The buffers of compression, of TLS and of the
//! kernel are not counted.
//!
//! # Locks
//!
//! One for the identities. No other lock is taken under it.

use crate::caller::Caller;
use crate::error::ApiError;
use crate::limits::Limits;
use crate::metrics::Refused;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Body as _, Buf, Frame, SizeHint};
use larder_pod_status::PodUid;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Whose connections, requests, watches and bytes are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    /// The pod that the container runtime knows by this UID.
    Pod(PodUid),
    /// A user of the host, as an administrator or not: groups make the difference.
    User { uid: u32, is_admin: bool },
    /// A client with a certificate of this name.
    Client { name: Arc<str>, is_admin: bool },
}

impl Identity {
    /// The identity of a caller; `None` of nobody that is known.
    pub(crate) fn of(caller: &Caller) -> Option<Self> {
        match caller {
            Caller::Host { uid, is_admin, .. } => Some(Self::User { uid: *uid, is_admin: *is_admin }),
            Caller::Container(container) => Some(Self::Pod(container.uid.clone())),
            Caller::Token(token) => Some(Self::Pod(token.runtime_uid())),
            Caller::Certificate { subject, is_admin } => {
                Some(Self::Client { name: subject.name.as_str().into(), is_admin: *is_admin })
            }
            Caller::Unresolved { .. } | Caller::Refused { .. } | Caller::RefusedToken(_) | Caller::Anonymous => None,
        }
    }

    pub(crate) fn is_admin(&self) -> bool {
        match self {
            Self::Pod(_) => false,
            Self::User { is_admin, .. } | Self::Client { is_admin, .. } => *is_admin,
        }
    }
}

/// The most that an identity may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) requests: usize,
    pub(crate) watches: usize,
    pub(crate) bytes: usize,
}

impl Bounds {
    fn of(limits: &Limits, identity: &Identity) -> Self {
        if identity.is_admin() {
            let requests = limits.admin_requests;
            return Self { requests, watches: requests, bytes: limits.admin_bytes };
        }
        Self { requests: limits.pod_requests, watches: limits.pod_watches, bytes: limits.pod_bytes }
    }
}

/// What is bounded. The names are those of the metric's label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Requests in flight, watches among them.
    Requests,
    /// Watches of objects and of events.
    Watches,
    /// Bytes of answers.
    Bytes,
}

impl Limit {
    pub(crate) const ALL: [Self; 3] = [Self::Requests, Self::Watches, Self::Bytes];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Watches => "watches",
            Self::Bytes => "bytes",
        }
    }
}

/// The identities that use something.
#[derive(Debug)]
pub(crate) struct Usages {
    limits: Limits,
    used: Mutex<HashMap<Identity, Weak<Used>>>,
    shared: Arc<Shared>,
    refused: Refused,
}

/// What all identities hold together that are no administrators.
#[derive(Debug)]
struct Shared {
    bytes: AtomicUsize,
    most_bytes: usize,
    identities: AtomicUsize,
}

#[derive(Debug)]
struct Used {
    bounds: Bounds,
    requests: AtomicUsize,
    watches: AtomicUsize,
    bytes: AtomicUsize,
    /// Connections that are being turned away, each with an answer.
    turning_away: Arc<Semaphore>,
    /// `None` of an administrator.
    shared: Option<Arc<Shared>>,
    refused: Refused,
}

impl Drop for Used {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.identities.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Usages {
    pub(crate) fn new(limits: &Limits, refused: Refused) -> Self {
        let shared =
            Shared { bytes: AtomicUsize::new(0), most_bytes: limits.pods_bytes, identities: AtomicUsize::new(0) };
        Self { limits: limits.clone(), used: Mutex::default(), shared: Arc::new(shared), refused }
    }

    /// What an identity uses.
    pub(crate) fn of(&self, identity: &Identity) -> Usage {
        let mut all = self.used.lock();
        if let Some(used) = all.get(identity).and_then(Weak::upgrade) {
            return Usage(used);
        }
        // So there are at most as many as there are connections, and one.
        all.retain(|_, used| used.strong_count() > 0);
        let shared = (!identity.is_admin()).then(|| Arc::clone(&self.shared));
        if let Some(shared) = &shared {
            shared.identities.fetch_add(1, Ordering::Relaxed);
        }
        let used = Arc::new(Used {
            bounds: Bounds::of(&self.limits, identity),
            requests: AtomicUsize::new(0),
            watches: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            turning_away: Arc::new(Semaphore::new(self.limits.pod_connections)),
            shared,
            refused: self.refused.clone(),
        });
        all.insert(identity.clone(), Arc::downgrade(&used));
        Usage(used)
    }
}

/// What one identity uses. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Usage(Arc<Used>);

impl Usage {
    /// Counts a request until the place is dropped.
    ///
    /// # Errors
    ///
    /// 429 if as many are in flight as may be.
    pub(crate) fn request(&self) -> Result<InFlight, ApiError> {
        self.enter(Limit::Requests).map(InFlight)
    }

    /// Counts a watch until the place is dropped. Its request counts, too.
    ///
    /// # Errors
    ///
    /// 429 if as many are open as may be.
    pub(crate) fn watch(&self) -> Result<Watching, ApiError> {
        self.enter(Limit::Watches).map(Watching)
    }

    /// A place for a connection that is being turned away with an answer. `None` if there are too many.
    pub(crate) fn turn_away(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.turning_away).try_acquire_owned().ok()
    }

    fn enter(&self, limit: Limit) -> Result<Place, ApiError> {
        let most = self.most(limit);
        let more = |count: usize| (count < most).then_some(count + 1);
        // Relaxed: the count guards no other memory.
        match self.count(limit).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Place { usage: self.clone(), limit }),
            Err(_) => Err(self.refuse(limit)),
        }
    }

    /// Holds the bytes of an answer until they are released.
    ///
    /// # Errors
    ///
    /// 429 if they are more than the identity may hold.
    pub(crate) fn hold(&self, bytes: usize) -> Result<Held, ApiError> {
        let mut held = Held { usage: self.clone(), bytes: 0 };
        held.grow_to(bytes)?;
        Ok(held)
    }

    /// Holds bytes that are held in any case, such as those that a connection is about to write.
    fn hold_anyway(&self, bytes: usize) -> Held {
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(shared) = &self.0.shared {
            shared.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        Held { usage: self.clone(), bytes }
    }

    /// Whether an identity that holds this much may hold more, besides what all others hold.
    fn may_hold(&self, own: usize, more: usize) -> bool {
        let all = own.saturating_add(more);
        if own == 0 {
            return true;
        }
        let is_fair = self.0.shared.as_ref().is_none_or(|shared| {
            let share = shared.most_bytes / shared.identities.load(Ordering::Relaxed).max(1);
            all <= share || shared.bytes.load(Ordering::Relaxed).saturating_add(more) <= shared.most_bytes
        });
        is_fair && all <= self.0.bounds.bytes
    }

    fn most(&self, limit: Limit) -> usize {
        let Bounds { requests, watches, bytes } = self.0.bounds;
        match limit {
            Limit::Requests => requests,
            Limit::Watches => watches,
            Limit::Bytes => bytes,
        }
    }

    fn count(&self, limit: Limit) -> &AtomicUsize {
        match limit {
            Limit::Requests => &self.0.requests,
            Limit::Watches => &self.0.watches,
            Limit::Bytes => &self.0.bytes,
        }
    }

    fn refuse(&self, limit: Limit) -> ApiError {
        self.0.refused.count(limit);
        ApiError::OverLimit { limit, most: self.most(limit) }
    }

    #[cfg(test)]
    pub(crate) fn used(&self, limit: Limit) -> usize {
        self.count(limit).load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Place {
    usage: Usage,
    limit: Limit,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.usage.count(self.limit).fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request in flight, until this is dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Place);

impl InFlight {
    pub(crate) fn usage(&self) -> &Usage {
        &self.0.usage
    }
}

/// An open watch, until this is dropped.
#[derive(Debug)]
pub(crate) struct Watching(#[expect(dead_code, reason = "it is held until the watch has ended")] Place);

/// Bytes that are held for an identity, until they are released or this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    usage: Usage,
    bytes: usize,
}

impl Held {
    /// Holds that many bytes from now on.
    ///
    /// # Errors
    ///
    /// 429 if they are more than before, and more than the identity may hold. Then nothing has changed.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), ApiError> {
        if bytes > self.bytes {
            return self.grow_to(bytes);
        }
        self.release(self.bytes - bytes);
        Ok(())
    }

    /// Holds nothing any more.
    pub(crate) fn clear(&mut self) {
        self.release(self.bytes);
    }

    fn grow_to(&mut self, bytes: usize) -> Result<(), ApiError> {
        let more = bytes.saturating_sub(self.bytes);
        let grown = |own: usize| self.usage.may_hold(own, more).then(|| own.saturating_add(more));
        // Relaxed: the count guards no other memory. Several identities may pass the shared bound at once, each by one answer.
        if self.usage.0.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_err() {
            return Err(self.usage.refuse(Limit::Bytes));
        }
        if let Some(shared) = &self.usage.0.shared {
            shared.bytes.fetch_add(more, Ordering::Relaxed);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Holds that many bytes less.
    fn release(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.usage.0.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(shared) = &self.usage.0.shared {
            shared.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Splits off what is held beyond so many bytes.
    fn split_off(&mut self, at: usize) -> Self {
        let rest = self.bytes.saturating_sub(at);
        self.bytes -= rest;
        Self { usage: self.usage.clone(), bytes: rest }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Data on its way to a client. It is held until the connection has written or dropped it.
#[derive(Debug)]
pub(crate) struct Data {
    bytes: Bytes,
    held: Option<Held>,
}

impl Data {
    pub(crate) fn new(bytes: Bytes, usage: Option<&Usage>) -> Self {
        let held = usage.map(|usage| usage.hold_anyway(bytes.len()));
        Self { bytes, held }
    }

    /// Splits off what is beyond so many bytes.
    pub(crate) fn split_off(&mut self, at: usize) -> Option<Self> {
        if self.bytes.len() <= at {
            return None;
        }
        let held = self.held.as_mut().map(|held| held.split_off(at));
        Some(Self { bytes: self.bytes.split_off(at), held })
    }
}

impl Buf for Data {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(held) = &mut self.held {
            held.release(count);
        }
    }
}

/// The length of an answer before it was compressed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length(pub(crate) u64);

impl Usage {
    /// Holds the bytes of an answer of a known length until the client takes them. An answer that is too much is refused instead.
    pub(crate) fn hold_answer(&self, mut response: Response) -> Response {
        // A refusal or failure is small, and says what to do.
        if !response.status().is_success() {
            return response;
        }
        let exact = response.body().size_hint().exact();
        let before = response.extensions_mut().remove::<Length>().map(|Length(length)| length);
        let Some(length) = exact.or(before).and_then(|length| usize::try_from(length).ok()) else { return response };
        match self.hold(length) {
            Ok(held) => response.map(|body| Body::new(HeldBody { body, held, is_compressed: exact.is_none() })),
            Err(refusal) => refusal.into_response(),
        }
    }
}

/// A body whose bytes are held until they are taken; those of a compressed one until its end.
struct HeldBody {
    body: Body,
    held: Held,
    is_compressed: bool,
}

impl hyper::body::Body for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && !self.is_compressed
        {
            let length = frame.data_ref().map_or(0, Bytes::len);
            self.held.release(length);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
