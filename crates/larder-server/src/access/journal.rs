//! The journal of a kind, as a caller sees it.

use super::{Access, CHANGED, Reader};
use crate::error::ApiError;
use futures_util::FutureExt as _;
use larder_objects::ObjectKey;
use larder_policy::{Extent, Metadata, NODE_LABELS, Verb};
use larder_resource::journal::{Ended, Entry, EventType, Follower, Journal, Resource, Snapshot};
use larder_resource::selector::Selectable;
use larder_resource::{DecodeError, Kind, KubeObject};
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// The journal of a kind, without what the caller may not see.
#[derive(Debug)]
pub(crate) struct SeenJournal {
    journal: Journal,
    filter: Filter,
    reader: Reader,
}

/// `None` for a caller that sees all.
type Filter = Option<(Access, Verb)>;

impl SeenJournal {
    pub(super) fn new(journal: Journal, filter: Filter, reader: Reader) -> Self {
        Self { journal, filter, reader }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.journal.kind()
    }

    /// The version of the last position.
    pub(crate) fn version(&self) -> u64 {
        self.journal.version()
    }

    /// See [`Journal::reached`].
    pub(crate) async fn reached(&self, version: u64) {
        self.journal.reached(version).await;
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// All objects, with the version of the moment.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, ApiError> {
        let snapshot = seen(&self.filter, self.journal.snapshot()).map_err(|error| unwritable(&error))?;
        self.given(snapshot)
    }

    /// All objects, and a follower from that moment.
    pub(crate) fn follow(&self) -> Result<(Snapshot, SeenFollower), ApiError> {
        let (snapshot, follower) = self.journal.follow();
        let snapshot = self.given(seen(&self.filter, snapshot).map_err(|error| unwritable(&error))?)?;
        Ok((snapshot, self.follower(follower)))
    }

    fn given(&self, snapshot: Snapshot) -> Result<Snapshot, ApiError> {
        let Reader { app, access, .. } = &self.reader;
        let is_same = app.policy.gives(&access.key, &access.view, self.kind(), snapshot.version);
        if is_same { Ok(snapshot) } else { Err(ApiError::Expired(CHANGED.to_owned())) }
    }

    /// See [`Journal::resume`].
    ///
    /// # Errors
    ///
    /// Also if the caller saw something else at that version.
    pub(crate) fn resume(&self, version: u64) -> Result<SeenFollower, ApiError> {
        let Reader { app, access, .. } = &self.reader;
        if !app.policy.may_resume(&access.key, self.kind(), version, self.journal.version()) {
            return Err(ApiError::Expired(CHANGED.to_owned()));
        }
        Ok(self.follower(self.journal.resume(version)?))
    }

    fn follower(&self, follower: Follower) -> SeenFollower {
        SeenFollower { journal: self.journal.clone(), follower, filter: self.filter.clone() }
    }
}

fn unwritable(error: &DecodeError) -> ApiError {
    ApiError::Unwritable(error.to_string())
}

fn seen(filter: &Filter, mut snapshot: Snapshot) -> Result<Snapshot, DecodeError> {
    let Some((access, verb)) = filter else { return Ok(snapshot) };
    let mut objects = Vec::new();
    for (object, _) in &snapshot.objects {
        if let Some(part) = access.seen(*verb, object)? {
            // Selectors see what the caller sees.
            let selectable = Arc::new(Selectable::of((*part).as_ref()));
            objects.push((part, selectable));
        }
    }
    snapshot.objects = objects;
    Ok(snapshot)
}

/// Follows a journal, without what the caller may not see.
#[derive(Debug)]
pub(crate) struct SeenFollower {
    journal: Journal,
    follower: Follower,
    filter: Filter,
}

/// Changes of a journal, as a caller sees them. There may be none: the changes were of other objects.
pub(crate) struct SeenEntries {
    pub(crate) entries: Vec<SeenEntry>,
    /// Whether a bookmark has to follow, because the position after the changes has another version than the last object; see
    /// [`Entry::needs_bookmark`].
    pub(crate) needs_bookmark: bool,
}

/// One change, as a caller sees it.
pub(crate) struct SeenEntry {
    entry: Arc<Entry>,
    /// What the caller sees of the object; `None` for a caller that sees all of it.
    part: Option<Part>,
}

struct Part {
    object: Arc<Resource>,
    selectable: Selectable,
    before: Option<Selectable>,
}

impl SeenFollower {
    /// See [`Follower::next`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`Follower::next`].
    pub(crate) async fn next(&mut self) -> Result<Result<SeenEntries, DecodeError>, Ended> {
        let entries = self.follower.next().await?;
        let Some((access, verb)) = &self.filter else {
            let needs_bookmark = entries.last().is_some_and(|last| last.needs_bookmark());
            let entries = entries.into_iter().map(|entry| SeenEntry { entry, part: None }).collect();
            return Ok(Ok(SeenEntries { entries, needs_bookmark }));
        };
        let needs_bookmark = entries.iter().any(|entry| entry.needs_bookmark());
        let seen = entries.into_iter().filter_map(|entry| SeenEntry::of(access, *verb, entry).transpose());
        Ok(seen.collect::<Result<Vec<_>, _>>().map(|entries| {
            // Of changes that it does not see, a caller learns with the next bookmark that is due.
            let needs_bookmark = needs_bookmark && !entries.is_empty();
            SeenEntries { entries, needs_bookmark }
        }))
    }

    /// See [`Follower::version`].
    pub(crate) fn version(&self) -> Option<u64> {
        self.follower.version()
    }

    /// The objects that have left the caller's view, which is `now`, without their contents: those that are there, that the caller saw, and
    /// that it does not see any more. `None` sees nothing. The follower is of no more use then.
    ///
    /// `knows` says whether the caller has been told of an object with this key and this state.
    pub(crate) fn left(
        mut self,
        now: Option<&Access>,
        knows: impl Fn(&ObjectKey, &Selectable) -> bool,
    ) -> Result<Vec<Arc<Resource>>, DecodeError> {
        let verb = self.filter.as_ref().map_or(Verb::Watch, |(_, verb)| *verb);
        let snapshot = self.journal.snapshot();
        // What has come into view since, the caller has not been told of.
        let mut added = BTreeSet::new();
        while let Some(Ok(entries)) = self.follower.next().now_or_never() {
            let new = entries.iter().filter(|entry| entry.event == EventType::Added);
            added.extend(new.map(|entry| entry.key.clone()));
        }
        let is_hidden = |object: &Arc<Resource>| now.is_none_or(|now| now.extent(verb, (**object).as_ref()).is_none());
        let hidden: Vec<_> = snapshot.objects.iter().filter(|(object, _)| is_hidden(object)).cloned().collect();
        let version = snapshot.version;
        let seen = seen(&self.filter, Snapshot { objects: hidden, version })?;
        let told = seen.objects.iter().filter(|(object, selectable)| {
            let key = (**object).as_ref().key();
            !added.contains(&key) && knows(&key, selectable)
        });
        told.map(|(object, _)| gone((**object).as_ref(), version)).collect()
    }
}

/// The identity of an object that has left the view of its caller.
fn gone(object: &KubeObject, version: u64) -> Result<Arc<Resource>, DecodeError> {
    let mut metadata = json!({"name": object.name(), "uid": object.uid(), "resourceVersion": version.to_string()});
    if object.kind().is_namespaced() {
        metadata["namespace"] = object.namespace().into();
    }
    let json = json!({"kind": object.kind().as_str(), "apiVersion": "v1", "metadata": metadata});
    Ok(Arc::new(KubeObject::from_json(object.kind(), json.to_string().as_bytes())?))
}

impl SeenEntry {
    fn of(access: &Access, verb: Verb, entry: Arc<Entry>) -> Result<Option<Self>, DecodeError> {
        // The journal has the object of each entry that a connected follower gets.
        let Some(object) = entry.object() else { return Ok(None) };
        let this: &KubeObject = (**object).as_ref();
        let Some(extent) = access.extent(verb, this) else { return Ok(None) };
        if extent == Extent::Whole {
            return Ok(Some(Self { entry, part: None }));
        }
        let object = super::part(this, &extent)?;
        let selectable = Selectable::of(&object);
        let before = entry.before.as_ref().map(|before| {
            let shows = |label: &str| match &extent {
                Extent::Part { metadata: Metadata::Node, .. } => NODE_LABELS.contains(&label),
                Extent::Part { metadata: Metadata::Identity, .. } | Extent::Whole => true,
            };
            before.part(&selectable, shows)
        });
        Ok(Some(Self { entry, part: Some(Part { object, selectable, before }) }))
    }

    pub(crate) fn event(&self) -> EventType {
        self.entry.event
    }

    pub(crate) fn key(&self) -> &ObjectKey {
        &self.entry.key
    }

    /// Whether the object was not in view before.
    pub(crate) fn is_new(&self) -> bool {
        self.entry.before.is_none()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.entry.key.namespace()
    }

    pub(crate) fn object(&self) -> Option<&Arc<Resource>> {
        self.part.as_ref().map(|part| &part.object).or_else(|| self.entry.object())
    }

    /// What selectors see of the object now, or at its end.
    pub(crate) fn selectable(&self) -> &Selectable {
        self.part.as_ref().map_or(&*self.entry.selectable, |part| &part.selectable)
    }

    /// What selectors saw of the object before; `None` for one that was not in view.
    pub(crate) fn before(&self) -> Option<&Selectable> {
        match &self.part {
            Some(part) => part.before.as_ref(),
            None => self.entry.before.as_deref(),
        }
    }

    /// The entry whose encodings all watches share that see the whole object.
    pub(crate) fn shared(&self) -> Option<&Entry> {
        self.part.is_none().then_some(&*self.entry)
    }
}

impl fmt::Debug for SeenEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeenEntry").field("entry", &self.entry).finish_non_exhaustive()
    }
}
