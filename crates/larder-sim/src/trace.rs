//! What a trace says: its header and its operations.

use crate::GoDuration;
use crate::error::{LineError, TraceError};
use crate::lines::Lines;
use crate::parse;
use serde_json::{Value, json};
use std::fmt;

/// A whole trace in memory, as the generator makes it and a shrinker takes it apart.
///
/// Its [`Display`](fmt::Display) is the text of the trace. A replay needs no such thing: it reads line by line.
///
/// ```
/// use larder_sim::{Header, Op, PodStatusOp, Trace};
///
/// let trace = Trace {
///     header: Header::PodStatus { evented: false },
///     ops: vec![Op::PodStatus(PodStatusOp::Get { uid: "u1".into() })],
/// };
/// let text = "{\"kind\":\"pod-status\",\"larder_trace\":1}\n{\"op\":\"get\",\"uid\":\"u1\"}\n";
/// assert_eq!(trace.to_string(), text);
/// assert_eq!(Trace::parse(text.as_bytes())?, trace);
/// # Ok::<(), larder_sim::TraceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The first line.
    pub header: Header,
    /// The others; each is an operation of the header's kind.
    pub ops: Vec<Op>,
}

impl Trace {
    /// Reads a whole trace.
    ///
    /// # Errors
    ///
    /// The first line that is not as it should be. That an open wait has a wait's `id` is seen by a replay only.
    pub fn parse(input: impl std::io::BufRead) -> Result<Self, TraceError> {
        let mut lines = Lines::new(input);
        let Some((line, text)) = lines.next()? else {
            return Err(TraceError::Line { line: 1, fault: LineError::NoTrace });
        };
        let header = parse::header(text).map_err(|fault| TraceError::Line { line, fault })?;
        let mut ops = Vec::new();
        while let Some((line, text)) = lines.next()? {
            ops.push(parse::op(header.kind(), text).map_err(|fault| TraceError::Line { line, fault })?);
        }
        Ok(Self { header, ops })
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.header)?;
        self.ops.iter().try_for_each(|op| writeln!(f, "{op}"))
    }
}

/// Which cache a trace is about.
///
/// ```
/// assert_eq!(larder_sim::Kind::PodStatus.to_string(), "pod-status");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The pod status cache.
    PodStatus,
    /// The TTL store under the pod-object manager.
    Objects,
}

impl Kind {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::PodStatus, Self::Objects];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PodStatus => "pod-status",
            Self::Objects => "objects",
        })
    }
}

/// The first line of a trace.
///
/// ```
/// let header = larder_sim::Header::Objects { default_ttl: larder_sim::GoDuration::from_nanos(5) };
/// assert_eq!(header.to_string(), r#"{"default_ttl":"5ns","kind":"objects","larder_trace":1}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Header {
    /// A trace of the pod status cache.
    PodStatus {
        /// Whether `set` refuses older data.
        evented: bool,
    },
    /// A trace of the TTL store under the pod-object manager.
    Objects {
        /// The TTL where the node has no annotation for it.
        default_ttl: GoDuration,
    },
}

impl Header {
    /// Which cache the trace is about.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::PodStatus { .. } => Kind::PodStatus,
            Self::Objects { .. } => Kind::Objects,
        }
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = json!({"larder_trace": 1, "kind": self.kind().to_string()});
        match self {
            Self::PodStatus { evented: true } => line["evented"] = true.into(),
            Self::PodStatus { evented: false } => {}
            Self::Objects { default_ttl } => line["default_ttl"] = default_ttl.to_string().into(),
        }
        write!(f, "{line}")
    }
}

/// An operation of either kind of trace.
///
/// ```
/// use larder_sim::{ObjectsOp, Op};
/// assert_eq!(Op::Objects(ObjectsOp::NodeFail).to_string(), r#"{"op":"node_fail"}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// On the pod status cache.
    PodStatus(PodStatusOp),
    /// On the TTL store under the pod-object manager, or the world around it.
    Objects(ObjectsOp),
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = match self {
            Self::PodStatus(op) => op.to_json(),
            Self::Objects(op) => op.to_json(),
        };
        write!(f, "{line}")
    }
}

/// An operation on the pod status cache. Times are nanoseconds since the epoch.
///
/// ```
/// use larder_sim::{Op, PodStatusOp};
/// let op = Op::PodStatus(PodStatusOp::UpdateTime { at: 7 });
/// assert_eq!(op.to_string(), r#"{"op":"update_time","t":7}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodStatusOp {
    /// Reads what is cached of a pod.
    Get {
        /// The pod.
        uid: String,
    },
    /// Sets what is cached of a pod.
    Set {
        /// The pod.
        uid: String,
        /// The status, if there is one.
        status: Option<String>,
        /// The error of the inspection, if there was one.
        error: Option<String>,
        /// As of when.
        at: i64,
    },
    /// Says that a pod's entry was still true.
    Observed {
        /// The pod.
        uid: String,
        /// As of when.
        at: i64,
    },
    /// Drops a pod's entry.
    Delete {
        /// The pod.
        uid: String,
    },
    /// Says that every entry was still true.
    UpdateTime {
        /// As of when.
        at: i64,
    },
    /// Begins to wait for a status newer than a time.
    Newer {
        /// The wait's number.
        id: i64,
        /// The pod.
        uid: String,
        /// The time that it has to be newer than.
        min: i64,
    },
    /// The reader of a wait goes away.
    Cancel {
        /// The wait's number.
        id: i64,
    },
}

impl PodStatusOp {
    fn to_json(&self) -> Value {
        match self {
            Self::Get { uid } => json!({"op": "get", "uid": uid}),
            Self::Set { uid, status, error: None, at } => json!({"op": "set", "uid": uid, "status": status, "t": at}),
            Self::Set { uid, status, error: Some(error), at } => {
                json!({"op": "set", "uid": uid, "status": status, "error": error, "t": at})
            }
            Self::Observed { uid, at } => json!({"op": "observed", "uid": uid, "t": at}),
            Self::Delete { uid } => json!({"op": "delete", "uid": uid}),
            Self::UpdateTime { at } => json!({"op": "update_time", "t": at}),
            Self::Newer { id, uid, min } => json!({"op": "newer", "id": id, "uid": uid, "min": min}),
            Self::Cancel { id } => json!({"op": "cancel", "id": id}),
        }
    }
}

/// An operation on the TTL store under the pod-object manager, or on the API server, the node or the clock around it.
///
/// ```
/// use larder_sim::{ObjectsOp, Op};
/// let op = Op::Objects(ObjectsOp::NodeTtl { value: Some("15".into()) });
/// assert_eq!(op.to_string(), r#"{"op":"node_ttl","value":"15"}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectsOp {
    /// The object exists on the API server.
    ServerPut {
        /// Its namespace.
        ns: String,
        /// Its name.
        name: String,
        /// Its resourceVersion.
        rv: String,
        /// What it holds.
        data: String,
    },
    /// The object does not exist on the API server.
    ServerDelete {
        /// Its namespace.
        ns: String,
        /// Its name.
        name: String,
    },
    /// Reads of the object fail.
    ServerFail {
        /// Its namespace.
        ns: String,
        /// Its name.
        name: String,
        /// The HTTP status, 400 to 599.
        code: u16,
    },
    /// The API server's cache has this of the object, until the object changes.
    ServerCache {
        /// Its namespace.
        ns: String,
        /// Its name.
        name: String,
        /// Its resourceVersion.
        rv: String,
        /// What it holds.
        data: String,
    },
    /// The node's annotation for the TTL.
    NodeTtl {
        /// Its value; none where the node has no such annotation.
        value: Option<String>,
    },
    /// The node cannot be read.
    NodeFail,
    /// The clock moves.
    Advance {
        /// By how much; backwards too.
        by: GoDuration,
    },
    /// A pod is registered.
    Register {
        /// Its namespace.
        ns: String,
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
        /// The names of the objects that it refers to.
        refs: Vec<String>,
    },
    /// A pod is no longer registered.
    Unregister {
        /// Its namespace.
        ns: String,
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
        /// The names of the objects that it is said to refer to.
        refs: Option<Vec<String>>,
    },
    /// A reference is added straight to the store.
    AddReference {
        /// The object's namespace.
        ns: String,
        /// The object's name.
        name: String,
        /// The UID of the pod that refers to it.
        uid: String,
    },
    /// A reference is taken straight from the store.
    DeleteReference {
        /// The object's namespace.
        ns: String,
        /// The object's name.
        name: String,
        /// The UID of the pod that referred to it.
        uid: String,
    },
    /// A read.
    Get {
        /// The object's namespace.
        ns: String,
        /// The object's name.
        name: String,
    },
}

impl ObjectsOp {
    fn to_json(&self) -> Value {
        match self {
            Self::ServerPut { ns, name, rv, data } => {
                json!({"op": "server_put", "ns": ns, "name": name, "rv": rv, "data": data})
            }
            Self::ServerDelete { ns, name } => json!({"op": "server_delete", "ns": ns, "name": name}),
            Self::ServerFail { ns, name, code } => {
                json!({"op": "server_fail", "ns": ns, "name": name, "code": code})
            }
            Self::ServerCache { ns, name, rv, data } => {
                json!({"op": "server_cache", "ns": ns, "name": name, "rv": rv, "data": data})
            }
            Self::NodeTtl { value } => json!({"op": "node_ttl", "value": value}),
            Self::NodeFail => json!({"op": "node_fail"}),
            Self::Advance { by } => json!({"op": "advance", "by": by.to_string()}),
            Self::Register { ns, name, uid, refs } | Self::Unregister { ns, name, uid, refs: Some(refs) } => {
                let op = if matches!(self, Self::Register { .. }) { "register" } else { "unregister" };
                json!({"op": op, "ns": ns, "name": name, "uid": uid, "refs": refs})
            }
            Self::Unregister { ns, name, uid, refs: None } => {
                json!({"op": "unregister", "ns": ns, "name": name, "uid": uid})
            }
            Self::AddReference { ns, name, uid } => {
                json!({"op": "add_reference", "ns": ns, "name": name, "uid": uid})
            }
            Self::DeleteReference { ns, name, uid } => {
                json!({"op": "delete_reference", "ns": ns, "name": name, "uid": uid})
            }
            Self::Get { ns, name } => json!({"op": "get", "ns": ns, "name": name}),
        }
    }
}
