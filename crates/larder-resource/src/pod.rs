//! A pod of this node, and which UID the container runtime knows it by.

use crate::error::DecodeError;
use crate::json::{Borrowed, Strict};
use crate::kind::Kind;
use crate::object::{ApiObject, KubeObject};
use crate::source::SourceObject;
use crate::text::Text;
use serde::Deserialize;
use std::fmt;
use std::ops::Deref;

/// The annotation by which a mirror pod names the static pod that it stands for: the UID that the runtime has.
pub const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// The UID under which the container runtime has this pod.
///
/// A static pod's mirror in the API server has a UID of its own; the runtime's is in the annotation
/// `kubernetes.io/config.mirror`. Empty where the pod has neither.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// let mut pod = Pod::default();
/// pod.metadata.uid = Some("api".into());
/// assert_eq!(larder_resource::runtime_uid(&pod), "api");
/// pod.metadata.annotations = Some([("kubernetes.io/config.mirror".to_owned(), "static".to_owned())].into());
/// assert_eq!(larder_resource::runtime_uid(&pod), "static");
/// ```
pub fn runtime_uid(pod: &k8s_openapi::api::core::v1::Pod) -> &str {
    let mirror = pod.metadata.annotations.as_ref().and_then(|all| all.get(MIRROR_ANNOTATION));
    mirror.or(pod.metadata.uid.as_ref()).map_or("", String::as_str)
}

/// A pod's phase.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// Accepted, not all containers started.
    Pending,
    /// Bound to a node, containers run.
    Running,
    /// All containers ended well, and none will be started again.
    Succeeded,
    /// All containers ended, one of them badly.
    Failed,
    /// Not said, or a word that is none of these.
    Unknown,
}

impl Phase {
    fn of(word: &str) -> Self {
        match word {
            "Pending" => Self::Pending,
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            _ => Self::Unknown,
        }
    }

    /// The phase as it stands in a pod's status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A pod: its JSON ([`KubeObject`], to which it dereferences) and what larder itself needs of it.
///
/// The typed form is not kept, it takes several times the JSON's memory; [`Pod::decode`](KubeObject::decode) makes one,
/// which [`Pod::typed`] does for `k8s_openapi`'s.
///
/// ```
/// let pod = larder_resource::Pod::from_json(br#"{"metadata":{"namespace":"web","name":"p","uid":"u1"},
///     "spec":{"nodeName":"n1"},"status":{"phase":"Succeeded"}}"#)?;
/// assert_eq!((pod.runtime_uid(), pod.node_name()), ("u1", "n1"));
/// assert!(pod.is_terminal());
/// # Ok::<(), larder_resource::DecodeError>(())
/// ```
pub struct Pod {
    object: KubeObject,
    mirrored_uid: Text,
    node_name: Text,
    phase: Phase,
    is_deleting: bool,
}

impl Pod {
    /// A pod from its JSON.
    ///
    /// # Errors
    ///
    /// The bytes are not the JSON of a pod with a name.
    pub fn from_json(json: &[u8]) -> Result<Self, DecodeError> {
        let object = KubeObject::from_json(Kind::Pod, json)?;
        let json = object.json();
        let wire: Wire<'_> = serde_json::from_slice(&json)?;
        let Strict(meta) = wire.metadata;
        let annotations = meta.annotations.map(|Strict(all)| all).unwrap_or_default();
        let spec = wire.spec.map(|Strict(spec)| spec).unwrap_or_default();
        let status = wire.status.map(|Strict(status)| status).unwrap_or_default();
        let (mirrored_uid, node_name) = (Text::of(&json, &annotations.mirror), Text::of(&json, &spec.node_name));
        let (phase, is_deleting) = (Phase::of(&status.phase.0), meta.deletion_timestamp.is_some());
        drop(json);
        Ok(Self { object, mirrored_uid, node_name, phase, is_deleting })
    }

    /// The UID under which the container runtime has this pod (see [`runtime_uid`]).
    pub fn runtime_uid(&self) -> &str {
        match self.mirrored_uid.get(self.pieces()) {
            "" => self.uid(),
            mirrored => mirrored,
        }
    }

    /// Whether this is the API server's picture of a static pod.
    pub fn is_mirror(&self) -> bool {
        !self.mirrored_uid.get(self.pieces()).is_empty()
    }

    /// The node that it is bound to; empty where none is.
    pub fn node_name(&self) -> &str {
        self.node_name.get(self.pieces())
    }

    /// Its phase, as the source last said.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether its containers have ended for good.
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Whether its deletion has been asked for.
    pub fn is_deleting(&self) -> bool {
        self.is_deleting
    }

    /// The pod as `k8s_openapi` has it; made anew at every call.
    ///
    /// # Errors
    ///
    /// A field is not of the type that the Kubernetes API has for it.
    pub fn typed(&self) -> Result<k8s_openapi::api::core::v1::Pod, DecodeError> {
        self.decode()
    }
}

impl Deref for Pod {
    type Target = KubeObject;

    fn deref(&self) -> &KubeObject {
        &self.object
    }
}

impl AsRef<KubeObject> for Pod {
    fn as_ref(&self) -> &KubeObject {
        &self.object
    }
}

impl ApiObject for Pod {
    fn decode_json(_: Kind, json: &[u8]) -> Result<Self, DecodeError> {
        Self::from_json(json)
    }

    fn object(&self) -> &KubeObject {
        &self.object
    }

    fn node_name(&self) -> &str {
        self.node_name()
    }
}

impl SourceObject for Pod {
    const KIND: Kind = Kind::Pod;

    fn runtime_uid(&self) -> Option<&str> {
        Some(self.runtime_uid())
    }

    fn ttl_annotation(&self) -> Option<&str> {
        None
    }
}

impl fmt::Debug for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pod").field("object", &self.object).field("phase", &self.phase).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    metadata: Strict<WireMeta<'a>>,
    #[serde(borrow)]
    spec: Option<Strict<WireSpec<'a>>>,
    #[serde(borrow)]
    status: Option<Strict<WireStatus<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMeta<'a> {
    #[serde(borrow)]
    annotations: Option<Strict<Annotations<'a>>>,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize, Default)]
struct Annotations<'a> {
    #[serde(borrow, default, rename = "kubernetes.io/config.mirror")]
    mirror: Borrowed<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct WireSpec<'a> {
    #[serde(borrow, default)]
    node_name: Borrowed<'a>,
}

#[derive(Deserialize, Default)]
struct WireStatus<'a> {
    #[serde(borrow, default)]
    phase: Borrowed<'a>,
}
