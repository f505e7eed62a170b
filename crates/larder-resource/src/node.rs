//! The node itself, and the TTL that its annotation sets for the objects of its pods.

use crate::error::DecodeError;
use crate::json::{Borrowed, Strict};
use crate::kind::Kind;
use crate::object::{ApiObject, KubeObject};
use crate::source::{SourceObject, SourceReader};
use crate::text::Text;
use larder_objects::{ObjectTtl, Ttl};
use serde::Deserialize;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// This node: its JSON ([`KubeObject`], to which it dereferences) and the TTL of its annotation.
pub struct Node {
    object: KubeObject,
    ttl: Option<Text>,
}

impl Node {
    /// A node from its JSON.
    ///
    /// # Errors
    ///
    /// The bytes are not the JSON of a node with a name.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let node = larder_resource::Node::from_json(
    ///     br#"{"metadata":{"name":"n1","annotations":{"node.alpha.kubernetes.io/ttl":"15"}}}"#)?;
    /// assert_eq!(node.object_ttl(), Some(Duration::from_secs(15).into()));
    /// # Ok::<(), larder_resource::DecodeError>(())
    /// ```
    pub fn from_json(json: &[u8]) -> Result<Self, DecodeError> {
        let object = KubeObject::from_json(Kind::Node, json)?;
        let json = object.json();
        let wire: Wire<'_> = serde_json::from_slice(&json)?;
        let ttl = wire.metadata.0.annotations.and_then(|all| all.0.ttl).map(|value| Text::of(&json, &value));
        drop(json);
        Ok(Self { object, ttl })
    }

    /// The TTL of its annotation `node.alpha.kubernetes.io/ttl`; none where it has no integer there.
    pub fn object_ttl(&self) -> Option<ObjectTtl> {
        self.ttl_annotation().and_then(ObjectTtl::from_annotation)
    }

    /// The node as `k8s_openapi` has it; made anew at every call.
    ///
    /// # Errors
    ///
    /// A field is not of the type that the Kubernetes API has for it.
    pub fn typed(&self) -> Result<k8s_openapi::api::core::v1::Node, DecodeError> {
        self.decode()
    }
}

impl Deref for Node {
    type Target = KubeObject;

    fn deref(&self) -> &KubeObject {
        &self.object
    }
}

impl AsRef<KubeObject> for Node {
    fn as_ref(&self) -> &KubeObject {
        &self.object
    }
}

impl ApiObject for Node {
    fn decode_json(_: Kind, json: &[u8]) -> Result<Self, DecodeError> {
        Self::from_json(json)
    }

    fn object(&self) -> &KubeObject {
        &self.object
    }

    fn node_name(&self) -> &'static str {
        ""
    }
}

impl SourceObject for Node {
    const KIND: Kind = Kind::Node;

    fn runtime_uid(&self) -> Option<&str> {
        None
    }

    fn ttl_annotation(&self) -> Option<&str> {
        self.ttl.as_ref().map(|ttl| ttl.get(self.object.pieces()))
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("object", &self.object).field("ttl", &self.object_ttl()).finish()
    }
}

impl SourceReader<Node> {
    /// The node, as it was last seen; none before the first answer and after its deletion.
    pub fn node(&self) -> Option<Arc<Node>> {
        self.list().into_iter().next()
    }
}

/// The TTL of the node's annotation: one atomic load. None while the node is not known.
impl Ttl for SourceReader<Node> {
    fn object_ttl(&self) -> Option<ObjectTtl> {
        self.annotated_ttl()
    }
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    metadata: Strict<WireMeta<'a>>,
}

#[derive(Deserialize)]
struct WireMeta<'a> {
    #[serde(borrow)]
    annotations: Option<Strict<Annotations<'a>>>,
}

#[derive(Deserialize)]
struct Annotations<'a> {
    #[serde(borrow, rename = "node.alpha.kubernetes.io/ttl")]
    ttl: Option<Borrowed<'a>>,
}
