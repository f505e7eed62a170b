//! How a list-watch begins: with a list, or from the version that it had reached.
//!
//! # What a list of pods costs, and what it proves
//!
//! etcd has no index of pods by node: a consistent list that the API server does not serve from its watch cache reads all
//! pods of the cluster. So pods are listed, in this order,
//!
//! 1. by a *streaming list*, which is consistent, and which the watch cache always serves;
//! 2. where the server refuses that, by a list that is *not older than the version that the server is at*, for which a list
//!    of a single name asks first (a read of one key). It is as good as a consistent list as of that question, and the watch
//!    cache serves it;
//! 3. where the watch cache does not reach that version within some seconds (504, on servers that cannot ask etcd for its
//!    progress), by a list that is *not older than the version that the list-watch had reached*, or, where it has reached
//!    none, by *whatever the watch cache has* (`resourceVersion=0`). Its absences prove nothing: it is told as
//!    [`ReadKind::ApiServerCache`] and as stale, until an event or a bookmark of the watch reaches the version that step 2 asked for.
//!
//! Everything else is listed by one name or in pages of one namespace, consistently.

use super::requests::{Begin, End, Event, Item, ListFrom, Scope, Watch, list};
use super::{Currency, ListWatch, Listing, Sink, State, advanced};
use crate::error::KubeError;
use larder_objects::{ReadKind, resource_version_order};
use larder_resource::ApiObject;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// How a list-watch begins, or begins again.
#[derive(Clone, Copy)]
pub(super) enum Start {
    /// With a list as the beginning of the watch (`sendInitialEvents`, KEP-3157), in one request.
    ///
    /// → `Watching` when the list is complete; → `List` where the server does not serve it, or no watch has room.
    StreamingList,
    /// With a list of its own.
    ///
    /// → `Resuming` when it is complete.
    List,
    /// The watch was lost then: the server may be another one, with versions of its own. It is asked which version it is at,
    /// by one list-watch for all that were lost before. The watch has reported all that it missed when it reaches that version.
    ///
    /// → `Resuming` where it has reached ours; → `StreamingList` where it has not, or may not be asked.
    Probing(Instant),
    /// With a watch from the version that was told last.
    ///
    /// → `Watching` when it is open; → `Probing` where it took so long to open that what was told counts as stale.
    Resuming,
}

/// What a step of a start leads to.
enum Step {
    Next(Start),
    Open(Watch),
}

impl<S: Sink> ListWatch<S> {
    /// Goes from state to state until a watch is open or something fails. It is one of a bounded number that do so.
    pub(super) async fn start(&mut self, from: Start) -> State {
        let shared = Arc::clone(&self.shared);
        let at = &mut self.at;
        (at.begun, at.returns) = (Instant::now(), shared.client.availability().returns());
        (at.listed, at.has_events) = (matches!(from, Start::StreamingList | Start::List), false);
        let permit = shared.starts.acquire().await;
        let mut start = from;
        let watch = loop {
            let step = match start {
                Start::StreamingList if !shared.streaming.worth_asking() => Ok(Step::Next(Start::List)),
                Start::StreamingList => self.streaming_list().await,
                Start::List => self.list().await,
                Start::Probing(lost_at) => self.probe(lost_at).await,
                Start::Resuming => self.resume().await,
            };
            match step {
                Ok(Step::Next(next)) => start = next,
                Ok(Step::Open(watch)) => break watch,
                Err(error) => return self.failed(start, error),
            }
        };
        drop(permit);
        self.at.failing = false;
        if shared.unreachable.swap(false, Ordering::Relaxed) {
            tracing::info!(server = %shared.client.server(), "the API server answers again");
        }
        self.member = None;
        self.sink.watching();
        State::Watching(watch)
    }

    /// The list that a watch begins with.
    async fn streaming_list(&mut self) -> Result<Step, KubeError> {
        let shared = Arc::clone(&self.shared);
        let (client, options) = (&shared.client, shared.client.options());
        let counters = client.counters();
        self.sink.listing();
        let refused = || {
            counters.refused_streaming();
            shared.streaming.refused();
            tracing::debug!(target = %self.selection.target(), "the API server refuses streaming lists, listing and watching");
            Ok(Step::Next(Start::List))
        };
        let scope = self.selection.scope();
        let mut watch = match Watch::begin(client, &scope, Begin::Listing).await {
            Ok(watch) => watch,
            Err(error) if matches!(error.code(), Some(400 | 422 | 501)) => return refused(),
            Err(error) if error.is_no_room() => return Ok(Step::Next(Start::List)),
            Err(error) => return Err(error),
        };
        let known = shared.streaming.is_served();
        let patience = if known { options.list_deadline } else { options.fetch_deadline };
        let deadline = Instant::now() + patience;
        let mut objects = Listing::new();
        let version = loop {
            let event = if Instant::now() < deadline { watch.next(deadline).await } else { Ok(Err(End::Idle)) };
            match event {
                Ok(Ok(Event::Set(json))) => self.collect(&mut objects, &json)?,
                Ok(Ok(Event::Deleted(json))) => {
                    drop(objects.remove(&key(&self.decode(&json)?)));
                }
                Ok(Ok(Event::Bookmark { version, ends_list: true })) if !version.is_empty() => break version,
                Ok(Ok(Event::Bookmark { .. })) => {}
                // A server that has never heard of streaming lists begins a plain watch, and never says that it is complete.
                Ok(Err(End::Idle)) if !known => return refused(),
                Ok(Err(End::Idle)) => return Err(client.late(&scope.target, patience)),
                Ok(Err(End::Closed { .. } | End::WentBack)) => {
                    return Err(client.cut(&scope.target, &std::io::Error::from(std::io::ErrorKind::UnexpectedEof)));
                }
                // It knows them, and has too old an etcd behind it.
                Err(error) if error.code() == Some(500) => return refused(),
                Err(error) => return Err(error),
            }
        };
        shared.streaming.served();
        counters.listed_streaming();
        self.tell(objects, version, ReadKind::Consistent);
        Ok(Step::Open(watch))
    }

    /// A list of its own.
    async fn list(&mut self) -> Result<Step, KubeError> {
        let asked_at = Instant::now();
        self.sink.listing();
        let (objects, version, read) = if self.selection.is_costly() {
            self.list_from_cache(asked_at).await?
        } else {
            let (objects, version) = self.list_from(ListFrom::Now).await?;
            (objects, version, ReadKind::Consistent)
        };
        self.shared.client.counters().listed();
        self.tell(objects, version, read);
        if self.at.currency == Currency::Known {
            self.member = Some(self.shared.current.unwatched(&self.sink, self.selection.target()));
        }
        Ok(Step::Next(Start::Resuming))
    }

    /// A list that the API server's watch cache serves; see the [module](self).
    async fn list_from_cache(
        &mut self,
        asked_at: Instant,
    ) -> Result<(Listing<S::Object>, String, ReadKind), KubeError> {
        let current = match self.revision(asked_at).await {
            Ok(current) => Some(current).filter(|current| *current != 0),
            Err(error) if error.is_forbidden() => None,
            Err(error) => return Err(error),
        };
        if let Some(current) = current {
            match self.list_from(ListFrom::NotOlderThan(&current.to_string())).await {
                Ok((objects, version)) => return Ok((objects, version, ReadKind::Consistent)),
                Err(error) if error.is_version_too_large() => {}
                Err(error) => return Err(error),
            }
        }
        let known = resource_version_order(&self.at.version);
        let from = if known != 0 && current.is_none_or(|current| known <= current) {
            ListFrom::NotOlderThan(&self.at.version)
        } else {
            ListFrom::Cache
        };
        let listed = match (self.list_from(from).await, from) {
            // The server has lost versions, or a part of it lags behind.
            (Err(error), ListFrom::NotOlderThan(_)) if error.is_version_too_large() => {
                self.list_from(ListFrom::Cache).await
            }
            (listed, _) => listed,
        };
        let (objects, version) = listed?;
        if current.is_some_and(|current| resource_version_order(&version) >= current) {
            return Ok((objects, version, ReadKind::Consistent));
        }
        self.at.currency = Currency::Unconfirmed { until: current.unwrap_or(0) };
        Ok((objects, version, ReadKind::ApiServerCache))
    }

    async fn list_from(&self, from: ListFrom<'_>) -> Result<(Listing<S::Object>, String), KubeError> {
        let client = &self.shared.client;
        let page_size = self.selection.is_paged().then_some(client.options().page_size);
        let mut objects = Listing::new();
        let version = list(client, &self.selection.scope(), from, page_size, |item| {
            match item {
                Item::Raw(json) => self.collect(&mut objects, json)?,
                Item::Restart => objects.clear(),
            }
            Ok(())
        })
        .await?;
        Ok((objects, version))
    }

    /// Asks which version the server is at. All that are lost at once wait for this one small request, so its deadline is that
    /// of a read.
    async fn probe(&mut self, lost_at: Instant) -> Result<Step, KubeError> {
        let (current, known) = (self.revision(lost_at).await?, resource_version_order(&self.at.version));
        // A version that is no number says nothing of order.
        if current != 0 && known > current {
            self.shared.client.counters().relisted_went_back();
            return Ok(Step::Next(Start::StreamingList));
        }
        self.at.currency = match self.at.currency {
            Currency::Known | Currency::Settling { .. } => Currency::Settling { until: current },
            Currency::Unconfirmed { .. } => Currency::Unconfirmed { until: current },
        };
        Ok(Step::Next(Start::Resuming))
    }

    /// A version that the server has reached since then.
    async fn revision(&self, since: Instant) -> Result<u64, KubeError> {
        let (shared, scope): (_, Scope) = (&*self.shared, self.selection.probe());
        let ask = Box::pin(async {
            let patience = shared.client.options().fetch_deadline;
            let list = list(&shared.client, &scope, ListFrom::Now, None, |_| Ok(()));
            let version = tokio::time::timeout(patience, list).await;
            let version = version.unwrap_or_else(|_| Err(shared.client.late(&scope.target, patience)))?;
            Ok(resource_version_order(&version))
        });
        // Another list-watch may have asked.
        shared.revision.since(since, ask).await.map_err(|error| error.with_target(self.selection.target()))
    }

    /// A watch from the version that was told last.
    async fn resume(&mut self) -> Result<Step, KubeError> {
        let scope = self.selection.scope();
        let watch = Watch::begin(&self.shared.client, &scope, Begin::After(&self.at.version)).await?;
        let is_stale = self.member.take().is_some_and(|member| member.is_stale());
        if self.at.currency == Currency::Known {
            // The watch has yet to bring what happened since: it confirms nothing before.
            if is_stale {
                return Ok(Step::Next(Start::Probing(Instant::now())));
            }
            // So soon after a list, or after a watch that was closed in good order, nothing can have been missed for long.
            self.sink.confirm(Duration::ZERO);
        }
        Ok(Step::Open(watch))
    }

    fn collect(&self, objects: &mut Listing<S::Object>, json: &[u8]) -> Result<(), KubeError> {
        let object = self.decode(json)?;
        if self.selection.has(&object) {
            objects.insert(key(&object), Arc::new(object));
        }
        Ok(())
    }

    /// Tells a list, and first that versions have gone back if they have.
    fn tell(&mut self, objects: Listing<S::Object>, version: String, read: ReadKind) {
        self.member = None;
        let at = &mut self.at;
        if advanced(&at.version, &version).is_none() {
            tracing::warn!(
                target = %self.selection.target(), before = %at.version, after = %version,
                "the API server's versions went back, as after a restore of etcd; what is listed now is believed"
            );
            self.sink.went_back(&at.version, &version);
        }
        if read == ReadKind::Consistent {
            at.currency = Currency::Known;
        }
        at.version = version.into();
        if let Currency::Unconfirmed { until: wants } = at.currency {
            let error = KubeError::Behind { target: self.selection.target(), has: at.version.to_string(), wants };
            tracing::info!("{error}");
            self.sink.replace_unconfirmed(objects, &at.version, Arc::new(error));
        } else {
            self.sink.replace(objects, &at.version);
        }
    }
}

fn key(object: &impl ApiObject) -> (String, String) {
    let object = object.object();
    (object.namespace().to_owned(), object.name().to_owned())
}
