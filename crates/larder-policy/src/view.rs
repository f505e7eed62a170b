//! The rules that apply to one subject, and what they decide.

use crate::extent::{Extent, Keys};
use crate::subject::{PodSubject, Subject};
use larder_resource::Kind;
use std::fmt;
use std::sync::Arc;

/// What a caller wants to do with objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Read one.
    Get,
    /// Read those of a kind.
    List,
    /// Follow those of a kind, or one.
    Watch,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 3] = [Self::Get, Self::List, Self::Watch];

    /// The verb as the Kubernetes API has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
        }
    }
}

/// The object that a caller wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; empty where its kind has none.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// What a caller wants to see that is not an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Document {
    /// The daemon's status.
    Status,
    /// The daemon's metrics.
    Metrics,
    /// Which container a process is in.
    Whois,
    /// What the caches know of each object, without its values.
    Entries,
    /// What the container runtime knows of each pod: statuses, waits for them, and events.
    PodStatuses,
}

impl Document {
    /// Every document.
    pub const ALL: [Self; 5] = [Self::Status, Self::Metrics, Self::Whois, Self::Entries, Self::PodStatuses];

    /// The document's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Metrics => "metrics",
            Self::Whois => "whois",
            Self::Entries => "entries",
            Self::PodStatuses => "podStatuses",
        }
    }
}

/// What a view decided, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// How much may be seen; `None` where nothing may.
    pub extent: Option<Extent>,
    /// The rule that decided.
    pub rule: Rule,
}

impl Decision {
    /// Whether something may be seen.
    pub const fn is_allowed(&self) -> bool {
        self.extent.is_some()
    }
}

/// The rule that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Administrators see everything.
    Admin,
    /// A container sees its own pod.
    OwnPod,
    /// A container sees what it mounts or has in its environment.
    Reference,
    /// A container sees the name and a few labels of its node.
    OwnNode,
    /// No rule allows it.
    None,
}

impl Rule {
    /// The kind of rule: a word from a bounded set, for a label of metrics.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::OwnPod => "own-pod",
            Self::Reference => "reference",
            Self::OwnNode => "own-node",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admin => f.write_str("administrators see everything"),
            Self::OwnPod => f.write_str("a container sees its own pod"),
            Self::Reference => f.write_str("a container sees the keys that it mounts or has in its environment"),
            Self::OwnNode => f.write_str("a container sees the name and a few labels of its node"),
            Self::None => f.write_str("no rule allows it"),
        }
    }
}

/// The rules that apply to one subject. Equal views decide alike.
///
/// ```
/// use larder_policy::{Document, Policy, Rule, Subject};
/// let view = Policy::default().view(&Subject::Host { uid: 1000, gids: vec![], is_admin: false });
/// let decision = view.may_document(Document::Metrics);
/// assert!(!decision.is_allowed() && decision.rule == Rule::None);
/// ```
#[derive(Clone, Debug)]
pub struct View {
    is_admin: bool,
    pod: Option<Arc<PodSubject>>,
}

impl PartialEq for View {
    fn eq(&self, other: &Self) -> bool {
        let same_pod = match (&self.pod, &other.pod) {
            (Some(this), Some(other)) => {
                this.namespace == other.namespace && this.name == other.name && this.grants == other.grants
            }
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        same_pod && self.is_admin == other.is_admin
    }
}

impl Eq for View {}

impl View {
    pub(crate) fn of(subject: &Subject) -> Self {
        let pod = match subject {
            Subject::Pod(pod) => Some(Arc::clone(pod)),
            Subject::Host { .. } | Subject::Client { .. } => None,
        };
        Self { is_admin: subject.is_admin(), pod }
    }

    /// Whether it sees all of everything, so that nothing has to be decided for each object.
    pub const fn sees_all(&self) -> bool {
        self.is_admin
    }

    /// How much of the object of that name may be seen. It may not exist.
    pub fn decide(&self, verb: Verb, target: &Target<'_>) -> Decision {
        // The rules without a file are the same for every verb.
        let _ = verb;
        let (extent, rule) = self.built_in(target).map_or((None, Rule::None), |(extent, rule)| (Some(extent), rule));
        Decision { extent, rule }
    }

    /// Whether a document may be seen.
    pub fn may_document(&self, document: Document) -> Decision {
        let _ = document;
        if self.is_admin {
            Decision { extent: Some(Extent::Whole), rule: Rule::Admin }
        } else {
            Decision { extent: None, rule: Rule::None }
        }
    }

    /// The most that may be seen of any object of a kind, in a namespace or in all.
    pub fn may_some(&self, verb: Verb, kind: Kind, namespace: Option<&str>) -> Decision {
        let _ = verb;
        let (extent, rule) =
            self.most_built_in(kind, namespace).map_or((None, Rule::None), |(extent, rule)| (Some(extent), rule));
        Decision { extent, rule }
    }

    /// What may be seen of an object without a rule of a file.
    fn built_in(&self, target: &Target<'_>) -> Option<(Extent, Rule)> {
        if self.is_admin {
            return Some((Extent::Whole, Rule::Admin));
        }
        let pod = self.pod.as_deref()?;
        let in_namespace = target.namespace == pod.namespace;
        match target.kind {
            Kind::Pod => (in_namespace && target.name == pod.name).then_some((Extent::Whole, Rule::OwnPod)),
            // larder has one node.
            Kind::Node => Some((Extent::node(), Rule::OwnNode)),
            Kind::Namespace => None,
            Kind::Secret | Kind::ConfigMap => {
                let keys = pod.grants.keys(target.kind.object_kind()?, target.name).filter(|_| in_namespace)?;
                Some((Extent::of_keys(keys.clone()), Rule::Reference))
            }
        }
    }

    fn most_built_in(&self, kind: Kind, namespace: Option<&str>) -> Option<(Extent, Rule)> {
        if self.is_admin {
            return Some((Extent::Whole, Rule::Admin));
        }
        let pod = self.pod.as_deref()?;
        match kind {
            _ if kind.is_namespaced() && namespace.is_some_and(|namespace| namespace != pod.namespace) => None,
            Kind::Pod => Some((Extent::Whole, Rule::OwnPod)),
            Kind::Node => Some((Extent::node(), Rule::OwnNode)),
            Kind::Namespace => None,
            Kind::Secret | Kind::ConfigMap => {
                let of_kind = pod.grants.iter().filter(|(of, ..)| of.kind() == kind);
                let keys = of_kind.map(|(.., keys)| keys.clone()).reduce(Keys::and)?;
                Some((Extent::of_keys(keys), Rule::Reference))
            }
        }
    }
}

#[cfg(test)]
mod tests;
