#![doc(test(attr(deny(warnings))))]
//! Who may see which objects of a node, and which part of each.
//!
//! A caller is a [`Subject`]. A [`Policy`] makes a [`View`] of it: the rules that apply to this subject. The view decides for each
//! object how much the subject may see, its [`Extent`], and [`restrict`] makes the JSON of that part. Nothing here does I/O, reads
//! a clock, or spawns a task.
//!
//! # Without a file
//!
//! | subject | sees |
//! | --- | --- |
//! | administrators: root, the daemon's user, the admin group | everything |
//! | containers of a pod | their own pod; the node's name and a few of its labels; the keys of Secrets and ConfigMaps that they mount or have in their environment |
//! | everyone else | nothing |
//!
//! # With a file
//!
//! Each rule of a [policy file](Policy::parse) has a name, and names subjects and what they see. `allow` and `allowMetadata` add to what is
//! seen without the file, `deny` and `denyData` take away from what all other rules show, also from administrators.
//!
//! # Guarantees
//!
//! - *Refused unless allowed*: a decision without a rule is a refusal.
//! - *Deny wins*: whatever the order of the rules, an object that a `deny` names is not seen, and of one that a `denyData` names no more than
//!   its identity.
//! - *Allow-listed*: a part of an object has the fields that [`restrict`] names. A field that larder does not know is not shown.
//! - *Quiet*: no `Debug`, no [`Rule`] and no error has a value of an object.
//!
//! # Limits
//!
//! - A decision is about a name. The caller of this crate checks that the pod of this name is the pod that asks, and that its
//!   container still runs.
//! - A container sees all of its own pod. So it sees the literal values in the environment of the pod's other containers. Of their
//!   Secrets and ConfigMaps it sees only the names.
//! - A part of an object has no annotations, owner references, finalizers or managed fields.
//!
//! # Example
//!
//! ```
//! use larder_policy::{Grants, PodSubject, Policy, Subject, Target, Verb, restrict};
//! use larder_resource::Kind;
//!
//! let pod = r#"{"metadata": {"namespace": "shop", "name": "web"}, "spec": {"containers": [{"name": "app", "env": [
//!     {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}
//! ]}]}}"#;
//! let mut subject = PodSubject { namespace: "shop".into(), name: "web".into(), ..PodSubject::default() };
//! subject.grants = Grants::of(&serde_json::from_str(pod)?, |container| container == "app");
//! let view = Policy::default().view(&Subject::Pod(subject.into()));
//!
//! let decision = view.decide(Verb::Get, &Target { kind: Kind::Secret, namespace: "shop", name: "db" });
//! let secret = br#"{"metadata": {"name": "db"}, "data": {"password": "aGk=", "root": "bm8="}}"#;
//! let seen = restrict(secret, Kind::Secret, &decision.extent.unwrap())?;
//! assert_eq!(*seen, br#"{"metadata":{"name":"db"},"data":{"password":"aGk="}}"#);
//!
//! let other = view.decide(Verb::Get, &Target { kind: Kind::Secret, namespace: "shop", name: "tls" });
//! assert_eq!(other.extent, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod extent;
mod file;
mod grants;
mod policy;
mod restrict;
mod rules;
mod subject;
mod view;

pub use extent::{Extent, Keys, Metadata};
pub use grants::Grants;
pub use larder_yaml::{Mistake, Place};
pub use policy::Policy;
pub use restrict::{NODE_LABELS, restrict};
pub use subject::{PodSubject, Subject};
pub use view::{Decision, Document, Rule, Target, Verb, View};
