//! An object as its source sent it: the bytes of its JSON, and the few fields that a cache needs of it.
//!
//! # Guarantees
//!
//! - *Faithful*: [`KubeObject::json`] is what the source sent, byte by byte but for a newline behind it, so fields that larder does not know survive.
//!   The one addition: items of a list carry no `kind` and `apiVersion`, so these are put in front.
//! - *Lean*: metadata is not copied out of the JSON; an object costs its JSON and about 100 bytes. JSON that would leave much of
//!   its block of memory unused is held in two blocks (`pieces`).
//! - *Quiet*: `Debug` shows kind, name and version, never data. A Secret's bytes are overwritten when the last user of
//!   them goes.
//!
//! # Limits
//!
//! The buffers of TLS and HTTP that the bytes came through belong to those libraries and are not overwritten.

use crate::error::DecodeError;
use crate::json::{Borrowed, Entries, Pairs, Strict};
use crate::kind::Kind;
use crate::pieces::{Json, Pieces};
use crate::text::{Span, Spans};
use bytes::Bytes;
use larder_objects::ObjectKey;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;
use zeroize::{Zeroize, Zeroizing};

/// An object as the API server has it in lists and events: [`KubeObject`], or [`Pod`](crate::Pod) and [`Node`](crate::Node), of
/// which more is read.
pub trait ApiObject: Send + Sync + Sized + 'static {
    /// An object of this kind, from its JSON. A type that has one kind has it whatever `kind` says.
    ///
    /// # Errors
    ///
    /// The bytes are not the JSON of one.
    fn decode_json(kind: Kind, json: &[u8]) -> Result<Self, DecodeError>;

    /// The object's JSON and metadata.
    fn object(&self) -> &KubeObject;

    /// The node that it is bound to; empty where it is bound to none.
    fn node_name(&self) -> &str;
}

/// One object, with its JSON as the source gave it.
///
/// ```
/// use larder_resource::{Kind, KubeObject};
///
/// let json = r#"{"kind":"Secret","apiVersion":"v1","metadata":{"namespace":"web","name":"tls","uid":"u1",
///     "resourceVersion":"7"},"type":"kubernetes.io/tls","data":{"tls.key":"c2VjcmV0"}}"#;
/// let secret = KubeObject::from_json(Kind::Secret, json.as_bytes())?;
/// assert_eq!((secret.namespace(), secret.name(), secret.resource_version()), ("web", "tls", "7"));
/// assert_eq!(*secret.json(), *json.as_bytes());
/// assert!(!format!("{secret:?}").contains("c2VjcmV0"));
/// # Ok::<(), larder_resource::DecodeError>(())
/// ```
pub struct KubeObject {
    /// The JSON, and behind it what the JSON has with escapes.
    pieces: Pieces,
    namespace: Span,
    name: Span,
    uid: Span,
    resource_version: Span,
    type_: Span,
    labels: Box<[(Span, Span)]>,
    /// Seconds since the Unix epoch; `i64::MIN` where the object has none.
    created: i64,
    entries: u32,
    kind: Kind,
    immutable: bool,
}

impl ApiObject for KubeObject {
    fn decode_json(kind: Kind, json: &[u8]) -> Result<Self, DecodeError> {
        Self::from_json(kind, json)
    }

    fn object(&self) -> &KubeObject {
        self
    }

    fn node_name(&self) -> &'static str {
        ""
    }
}

impl KubeObject {
    /// An object of this kind, from its JSON.
    ///
    /// `kind` and `apiVersion` are put in front where the JSON has none, as in the items of a list.
    ///
    /// # Errors
    ///
    /// The bytes are not the JSON of one object of this kind in version `v1`, or have no name.
    pub fn from_json(kind: Kind, given: &[u8]) -> Result<Self, DecodeError> {
        // The API server ends an object that it sends alone with a newline. In an event of a watch, the object stands in a line.
        let given = given.trim_ascii_end();
        let Strict(head): Strict<Head<'_>> = serde_json::from_slice(given)?;
        for (field, has, wants) in [("kind", &head.kind, kind.as_str()), ("apiVersion", &head.api_version, "v1")] {
            if !has.0.is_empty() && has.0 != wants {
                return Err(DecodeError::Unexpected { field, wants });
            }
        }
        let json = Self::keep(kind, given, &head);
        u32::try_from(json.len()).map_err(|_| DecodeError::TooLarge { limit: u32::MAX as usize })?;
        let Strict(wire): Strict<Wire<'_>> = serde_json::from_slice(&json)?;
        let Strict(meta) = wire.metadata;
        if meta.name.0.is_empty() {
            return Err(DecodeError::Missing("metadata.name"));
        }
        let mut spans = Spans::of(&json);
        let mut object = Self {
            pieces: Pieces::default(),
            namespace: spans.span(&meta.namespace),
            name: spans.span(&meta.name),
            uid: spans.span(&meta.uid),
            resource_version: spans.span(&meta.resource_version),
            type_: spans.span(&wire.type_),
            labels: meta.labels.iter().flat_map(|all| &all.0).map(|(k, v)| (spans.span(k), spans.span(v))).collect(),
            created: meta.creation_timestamp.map_or(i64::MIN, jiff::Timestamp::as_second),
            entries: [wire.data, wire.binary_data].into_iter().flatten().map(|entries| entries.0).sum(),
            kind,
            immutable: wire.immutable.unwrap_or_default(),
        };
        let behind = spans.behind();
        object.pieces = Pieces::hold(json, behind);
        Ok(object)
    }

    /// One exact allocation for the bytes, with what a list leaves out put in front.
    fn keep(kind: Kind, given: &[u8], head: &Head<'_>) -> Zeroizing<Vec<u8>> {
        let mut front = String::new();
        if head.kind.0.is_empty() {
            front = format!("\"kind\":\"{kind}\",");
        }
        if head.api_version.0.is_empty() {
            front.push_str("\"apiVersion\":\"v1\",");
        }
        let open = given.iter().position(|byte| *byte == b'{').map_or(0, |at| at + 1);
        let given = if front.is_empty() { given } else { given.get(open..).unwrap_or_default() };
        let brace: &[u8] = if front.is_empty() { b"" } else { b"{" };
        Zeroizing::new([brace, front.as_bytes(), given].concat())
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its namespace; empty for a node.
    pub fn namespace(&self) -> &str {
        self.namespace.get(&self.pieces)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.name.get(&self.pieces)
    }

    /// Its namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace(), self.name())
    }

    /// Its UID; empty where the source gave none.
    pub fn uid(&self) -> &str {
        self.uid.get(&self.pieces)
    }

    /// Its resource version, opaque but for equality; empty where the source gave none.
    pub fn resource_version(&self) -> &str {
        self.resource_version.get(&self.pieces)
    }

    /// Whether it says of itself that it never changes.
    pub fn is_immutable(&self) -> bool {
        self.immutable
    }

    /// A Secret's type, such as `kubernetes.io/tls`; empty for other kinds and where none is given.
    pub fn type_(&self) -> &str {
        self.type_.get(&self.pieces)
    }

    /// Its labels, in the order of the JSON.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.labels.iter().map(|(key, value)| (key.get(&self.pieces), value.get(&self.pieces)))
    }

    /// The value of one label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels().find_map(|(has, value)| (has == key).then_some(value))
    }

    /// When the server says it was created, in whole seconds since the Unix epoch.
    pub fn created_at(&self) -> Option<i64> {
        (self.created != i64::MIN).then_some(self.created)
    }

    /// How many entries `data` and `binaryData` have together.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// The whole object as JSON, with `kind` and `apiVersion`. It is copied if it is held in two blocks; [`json_of`] shares it.
    pub fn json(&self) -> Json<'_> {
        Json::of(self.pieces.json())
    }

    /// The length of the JSON in bytes.
    pub fn json_len(&self) -> usize {
        self.pieces.json().iter().map(|piece| piece.len()).sum()
    }

    pub(crate) fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    /// What may be kept of a Secret that went: its identity, version, labels and type, without values and annotations. An object
    /// with a name has one.
    pub(crate) fn without_data(&self) -> Option<Self> {
        let labels: serde_json::Map<_, _> = self.labels().map(|(key, value)| (key.to_owned(), value.into())).collect();
        let mut metadata = serde_json::Map::new();
        let mut put = |name: &str, value: serde_json::Value| metadata.insert(name.to_owned(), value);
        for (field, text) in [
            ("namespace", self.namespace()),
            ("name", self.name()),
            ("uid", self.uid()),
            ("resourceVersion", self.resource_version()),
        ] {
            if !text.is_empty() {
                put(field, text.into());
            }
        }
        if let Some(created) = self.created_at().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok()) {
            put("creationTimestamp", created.to_string().into());
        }
        if !labels.is_empty() {
            put("labels", labels.into());
        }
        let mut object = serde_json::json!({"kind": self.kind.as_str(), "apiVersion": "v1", "metadata": metadata});
        if !self.type_().is_empty()
            && let Some(fields) = object.as_object_mut()
        {
            fields.insert("type".to_owned(), self.type_().into());
        }
        Self::from_json(self.kind, object.to_string().as_bytes()).ok()
    }

    /// The object as a typed one, such as `k8s_openapi::api::core::v1::Secret`; made anew at every call.
    ///
    /// # Errors
    ///
    /// A field is not of the type that `T` has for it.
    ///
    /// ```
    /// use larder_resource::{Kind, KubeObject};
    /// let object = KubeObject::from_json(Kind::ConfigMap, br#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#)?;
    /// let typed: k8s_openapi::api::core::v1::ConfigMap = object.decode()?;
    /// assert_eq!(typed.data.unwrap()["k"], "v");
    /// # Ok::<(), larder_resource::DecodeError>(())
    /// ```
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        Ok(serde_json::from_slice(&self.json())?)
    }

    /// About how many bytes of memory it takes.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.pieces.memory() + size_of_val(&*self.labels)
    }
}

impl Drop for KubeObject {
    fn drop(&mut self) {
        if self.kind == Kind::Secret {
            self.pieces.zeroize();
        }
    }
}

impl AsRef<Self> for KubeObject {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// The JSON of a [`KubeObject`], [`Pod`](crate::Pod) or [`Node`](crate::Node) that others have too, in two pieces, of which the
/// second is empty as a rule. The bytes are the object's own, which lives for as long as they do.
///
/// ```
/// use larder_resource::{Kind, KubeObject, json_of};
/// use std::sync::Arc;
/// let object = Arc::new(KubeObject::from_json(Kind::ConfigMap, br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}"#)?);
/// let [json, rest] = json_of(Arc::clone(&object));
/// assert_eq!((json.as_ptr(), rest.len()), (object.json().as_ptr(), 0));
/// # Ok::<(), larder_resource::DecodeError>(())
/// ```
pub fn json_of<T: AsRef<KubeObject> + Send + Sync + ?Sized + 'static>(object: Arc<T>) -> [Bytes; 2] {
    struct First<T: ?Sized>(Arc<T>);
    struct Rest<T: ?Sized>(Arc<T>);
    impl<T: AsRef<KubeObject> + ?Sized> AsRef<[u8]> for First<T> {
        fn as_ref(&self) -> &[u8] {
            let [first, _] = (*self.0).as_ref().pieces.json();
            first
        }
    }
    impl<T: AsRef<KubeObject> + ?Sized> AsRef<[u8]> for Rest<T> {
        fn as_ref(&self) -> &[u8] {
            let [_, rest] = (*self.0).as_ref().pieces.json();
            rest
        }
    }
    let [_, rest] = (*object).as_ref().pieces.json();
    let rest = if rest.is_empty() { Bytes::new() } else { Bytes::from_owner(Rest(Arc::clone(&object))) };
    [Bytes::from_owner(First(object)), rest]
}

/// As [`json_of`], of an object from a [journal](crate::journal).
///
/// ```
/// use larder_resource::journal::Resource;
/// use larder_resource::{Kind, KubeObject, json_of_resource, whole_json};
/// use std::sync::Arc;
/// let object: Arc<Resource> = Arc::new(KubeObject::from_json(Kind::ConfigMap, br#"{"metadata":{"name":"a"}}"#)?);
/// assert!(whole_json(&json_of_resource(object)).starts_with(b"{"));
/// # Ok::<(), larder_resource::DecodeError>(())
/// ```
pub fn json_of_resource(object: Arc<crate::journal::Resource>) -> [Bytes; 2] {
    json_of(object)
}

/// The two pieces as one. A copy is overwritten when it is dropped.
pub fn whole_json(pieces: &[Bytes; 2]) -> Bytes {
    let [first, rest] = pieces;
    if rest.is_empty() { first.clone() } else { Bytes::from_owner(Zeroizing::new(pieces.concat())) }
}

impl larder_objects::Object for KubeObject {
    fn resource_version(&self) -> &str {
        self.resource_version()
    }

    fn uid(&self) -> &str {
        self.uid()
    }

    fn is_immutable(&self) -> bool {
        self.immutable
    }
}

impl fmt::Debug for KubeObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeObject")
            .field("kind", &self.kind)
            .field("namespace", &self.namespace())
            .field("name", &self.name())
            .field("uid", &self.uid())
            .field("resource_version", &self.resource_version())
            .field("json_bytes", &self.json_len())
            .finish_non_exhaustive()
    }
}

/// What an object says of its type.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    #[serde(borrow, default)]
    kind: Borrowed<'a>,
    #[serde(borrow, default)]
    api_version: Borrowed<'a>,
}

/// The fields that are kept apart of an object's JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    #[serde(borrow)]
    metadata: Strict<WireMeta<'a>>,
    #[serde(borrow, default, rename = "type")]
    type_: Borrowed<'a>,
    immutable: Option<bool>,
    data: Option<Entries>,
    binary_data: Option<Entries>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMeta<'a> {
    #[serde(borrow, default)]
    namespace: Borrowed<'a>,
    #[serde(borrow, default)]
    name: Borrowed<'a>,
    #[serde(borrow, default)]
    uid: Borrowed<'a>,
    #[serde(borrow, default)]
    resource_version: Borrowed<'a>,
    #[serde(borrow)]
    labels: Option<Pairs<'a>>,
    creation_timestamp: Option<jiff::Timestamp>,
}

#[cfg(test)]
mod tests;
