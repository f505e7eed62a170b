//! An object as its source sent it: the bytes of its JSON, and the few fields that a cache needs of it.
//!
//! # Guarantees
//!
//! - *Faithful*: [`KubeObject::json`] is what the source sent, byte by byte, so fields that larder does not know survive.
//!   The one addition: items of a list carry no `kind` and `apiVersion`, so these are put in front.
//! - *Lean*: metadata is not copied out of the JSON; an object costs its JSON and about 100 bytes.
//! - *Quiet*: `Debug` shows kind, name and version, never data. A Secret's bytes are overwritten when the last user of
//!   them goes.
//!
//! # Limits
//!
//! The buffers of TLS and HTTP that the bytes came through belong to those libraries and are not overwritten.

use crate::error::DecodeError;
use crate::json::{Borrowed, Entries, Pairs, Strict};
use crate::kind::Kind;
use crate::text::{Span, Spans};
use bytes::Bytes;
use larder_objects::ObjectKey;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;
use zeroize::{Zeroize, Zeroizing};

/// One object, with its JSON as the source gave it.
///
/// ```
/// use larder_resource::{Kind, KubeObject};
///
/// let json = r#"{"kind":"Secret","apiVersion":"v1","metadata":{"namespace":"web","name":"tls","uid":"u1",
///     "resourceVersion":"7"},"type":"kubernetes.io/tls","data":{"tls.key":"c2VjcmV0"}}"#;
/// let secret = KubeObject::from_json(Kind::Secret, json.as_bytes())?;
/// assert_eq!((secret.namespace(), secret.name(), secret.resource_version()), ("web", "tls", "7"));
/// assert_eq!(secret.json(), json.as_bytes());
/// assert!(!format!("{secret:?}").contains("c2VjcmV0"));
/// # Ok::<(), larder_resource::DecodeError>(())
/// ```
pub struct KubeObject {
    /// The JSON, and behind it what the JSON has with escapes.
    bytes: Box<[u8]>,
    json_len: u32,
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

impl KubeObject {
    /// An object of this kind, from its JSON.
    ///
    /// `kind` and `apiVersion` are put in front where the JSON has none, as in the items of a list.
    ///
    /// # Errors
    ///
    /// The bytes are not the JSON of one object of this kind in version `v1`, or have no name.
    pub fn from_json(kind: Kind, given: &[u8]) -> Result<Self, DecodeError> {
        let Strict(head): Strict<Head<'_>> = serde_json::from_slice(given)?;
        for (field, has, wants) in [("kind", &head.kind, kind.as_str()), ("apiVersion", &head.api_version, "v1")] {
            if !has.0.is_empty() && has.0 != wants {
                return Err(DecodeError::Unexpected { field, wants });
            }
        }
        let mut json = Self::keep(kind, given, &head);
        let json_len = u32::try_from(json.len()).map_err(|_| DecodeError::TooLarge { limit: u32::MAX as usize })?;
        let Strict(wire): Strict<Wire<'_>> = serde_json::from_slice(&json)?;
        let Strict(meta) = wire.metadata;
        if meta.name.0.is_empty() {
            return Err(DecodeError::Missing("metadata.name"));
        }
        let mut spans = Spans::of(&json);
        let mut object = Self {
            bytes: Box::default(),
            json_len,
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
        let bytes = if behind.is_empty() { std::mem::take(&mut *json) } else { [&json, behind.as_bytes()].concat() };
        object.bytes = bytes.into_boxed_slice();
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
        self.namespace.get(&self.bytes)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.name.get(&self.bytes)
    }

    /// Its namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace(), self.name())
    }

    /// Its UID; empty where the source gave none.
    pub fn uid(&self) -> &str {
        self.uid.get(&self.bytes)
    }

    /// Its resource version, opaque but for equality; empty where the source gave none.
    pub fn resource_version(&self) -> &str {
        self.resource_version.get(&self.bytes)
    }

    /// Whether it says of itself that it never changes.
    pub fn is_immutable(&self) -> bool {
        self.immutable
    }

    /// A Secret's type, such as `kubernetes.io/tls`; empty for other kinds and where none is given.
    pub fn type_(&self) -> &str {
        self.type_.get(&self.bytes)
    }

    /// Its labels, in the order of the JSON.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.labels.iter().map(|(key, value)| (key.get(&self.bytes), value.get(&self.bytes)))
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

    /// The whole object as JSON, with `kind` and `apiVersion`; [`json_of`] shares it.
    pub fn json(&self) -> &[u8] {
        self.bytes.get(..self.json_len as usize).unwrap_or_default()
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
        Ok(serde_json::from_slice(self.json())?)
    }

    /// About how many bytes of memory it takes.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.bytes.len() + size_of_val(&*self.labels)
    }
}

impl Drop for KubeObject {
    fn drop(&mut self) {
        if self.kind == Kind::Secret {
            self.bytes.zeroize();
        }
    }
}

impl AsRef<KubeObject> for KubeObject {
    fn as_ref(&self) -> &KubeObject {
        self
    }
}

/// Its JSON.
impl AsRef<[u8]> for KubeObject {
    fn as_ref(&self) -> &[u8] {
        self.json()
    }
}

/// The JSON of a [`KubeObject`], [`Pod`](crate::Pod) or [`Node`](crate::Node) that others have too. The bytes are the object's
/// own, which lives for as long as they do.
///
/// ```
/// use larder_resource::{Kind, KubeObject, json_of};
/// use std::sync::Arc;
/// let object = Arc::new(KubeObject::from_json(Kind::ConfigMap, br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}"#)?);
/// assert_eq!(json_of(Arc::clone(&object)).as_ptr(), object.json().as_ptr());
/// # Ok::<(), larder_resource::DecodeError>(())
/// ```
pub fn json_of<T: AsRef<[u8]> + Send + Sync + 'static>(object: Arc<T>) -> Bytes {
    struct Shared<T>(Arc<T>);
    impl<T: AsRef<[u8]>> AsRef<[u8]> for Shared<T> {
        fn as_ref(&self) -> &[u8] {
            (*self.0).as_ref()
        }
    }
    Bytes::from_owner(Shared(object))
}

/// As [`json_of`], of an object from a [journal](crate::journal).
///
/// ```
/// use larder_resource::journal::Resource;
/// use larder_resource::{Kind, KubeObject, json_of_resource};
/// use std::sync::Arc;
/// let object: Arc<Resource> = Arc::new(KubeObject::from_json(Kind::ConfigMap, br#"{"metadata":{"name":"a"}}"#)?);
/// assert!(json_of_resource(object).starts_with(b"{"));
/// # Ok::<(), larder_resource::DecodeError>(())
/// ```
pub fn json_of_resource(object: Arc<crate::journal::Resource>) -> Bytes {
    struct Shared(Arc<crate::journal::Resource>);
    impl AsRef<[u8]> for Shared {
        fn as_ref(&self) -> &[u8] {
            let object: &KubeObject = (*self.0).as_ref();
            object.json()
        }
    }
    Bytes::from_owner(Shared(object))
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
            .field("json_bytes", &self.json_len)
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
