//! The rules that apply to one subject, and what they decide.

use crate::extent::{Extent, Keys};
use crate::rules::{Effect, FileRule};
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
    /// Whether it is of the pod alone that asks, and not of another pod of its name.
    pub is_of_own_pod: bool,
}

impl Decision {
    /// Nothing may be seen, because no rule allows it.
    pub const fn refused() -> Self {
        Self { extent: None, rule: Rule::None, is_of_own_pod: false }
    }

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
    /// The rule of this name in the policy file.
    File(Arc<str>),
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
            Self::File(_) => "file",
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
            Self::File(name) => write!(f, "rule \"{name}\" of the policy file"),
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
    /// The rules of a file that are about the subject.
    rules: Vec<Arc<FileRule>>,
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
        same_pod && self.is_admin == other.is_admin && self.rules == other.rules
    }
}

impl Eq for View {}

impl View {
    pub(crate) fn of(subject: &Subject, rules: Vec<Arc<FileRule>>) -> Self {
        let pod = match subject {
            Subject::Pod(pod) => Some(Arc::clone(pod)),
            Subject::Host { .. } | Subject::Client { .. } => None,
        };
        Self { is_admin: subject.is_admin(), pod, rules }
    }

    /// Whether it sees all of everything, so that nothing has to be decided for each object.
    pub fn sees_all(&self) -> bool {
        self.is_admin && self.rules.iter().all(|rule| rule.effect.widens())
    }

    /// Whether rules of a file are about the subject.
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Whether it sees nothing at all, not even of its own.
    pub fn sees_nothing(&self) -> bool {
        !self.is_admin && self.pod.is_none() && !self.rules.iter().any(|rule| rule.effect.widens())
    }

    /// How much of the object of that name may be seen. It may not exist.
    pub fn decide(&self, verb: Verb, target: &Target<'_>) -> Decision {
        self.decide_among(self.built_in(target), |rule| rule.names(verb, target), |rule| rule.names(verb, target))
    }

    /// The same, of a pod that only has the name of the pod that asks.
    pub fn decide_of_other_pod(&self, verb: Verb, target: &Target<'_>) -> Decision {
        let built_in = self.built_in(target).filter(|(_, rule)| *rule != Rule::OwnPod);
        self.decide_among(built_in, |rule| rule.names(verb, target), |rule| rule.names(verb, target))
    }

    /// Whether a document may be seen.
    pub fn may_document(&self, document: Document) -> Decision {
        let names = |rule: &FileRule| rule.documents.contains(&document);
        let built_in = match document {
            Document::Status | Document::Metrics | Document::Whois => self.is_admin,
            // Those of all pods. What is denied of some, is decided for each.
            Document::Entries | Document::PodStatuses => self.sees_all(),
        };
        self.decide_among(built_in.then_some((Extent::Whole, Rule::Admin)), names, names)
    }

    /// The most that may be seen of any object of a kind, in a namespace or in all.
    pub fn may_some(&self, verb: Verb, kind: Kind, namespace: Option<&str>) -> Decision {
        let built_in = self.most_built_in(kind, namespace);
        let allows = |rule: &FileRule| rule.names_some(verb, kind, namespace);
        self.decide_among(built_in, allows, |rule| rule.names_every(verb, kind, namespace))
    }

    /// Whether the pod that asks refers to an object, or is in the namespace that it is.
    pub fn refers_to(&self, target: &Target<'_>) -> bool {
        let Some(pod) = self.pod.as_deref() else { return false };
        match target.kind {
            Kind::Pod | Kind::Node => false,
            Kind::Namespace => target.name == pod.namespace,
            Kind::Secret | Kind::ConfigMap => {
                let of_kind = target.kind.object_kind();
                target.namespace == pod.namespace
                    && of_kind.is_some_and(|kind| pod.grants.keys(kind, target.name).is_some())
            }
        }
    }

    /// A rule that denies some of what is seen of a kind, in a namespace or in all.
    pub fn narrowed_by(&self, verb: Verb, kind: Kind, namespace: Option<&str>) -> Option<Rule> {
        let narrows = |rule: &&Arc<FileRule>| !rule.effect.widens() && rule.names_some(verb, kind, namespace);
        self.rules.iter().find(narrows).map(|rule| rule.rule())
    }

    /// Whether all of every object of a kind may be seen, in a namespace or in all, those among them that do not exist yet.
    pub fn sees_every(&self, verb: Verb, kind: Kind, namespace: Option<&str>) -> bool {
        let allows = |rule: &FileRule| rule.effect == Effect::Allow && rule.names_every(verb, kind, namespace);
        self.narrowed_by(verb, kind, namespace).is_none()
            && (self.is_admin || self.rules.iter().any(|rule| allows(rule)))
    }

    /// What is left of what is seen without a file, with the rules that allow more and those that deny. A denial has the last word,
    /// whatever the order of the rules.
    fn decide_among(
        &self,
        built_in: Option<(Extent, Rule)>,
        allows: impl Fn(&FileRule) -> bool,
        denies: impl Fn(&FileRule) -> bool,
    ) -> Decision {
        let denial =
            |effect| self.rules.iter().find(|rule| rule.effect == effect && denies(rule)).map(|rule| rule.rule());
        if let Some(rule) = denial(Effect::Deny) {
            return Decision { rule, ..Decision::refused() };
        }
        let allowed = self.rules.iter().filter(|rule| rule.effect.widens() && allows(rule));
        let Some((extent, rule)) = allowed.fold(built_in, |most, rule| Some(wider(most, rule))) else {
            return Decision::refused();
        };
        let is_of_own_pod = rule == Rule::OwnPod;
        let (extent, rule) = match denial(Effect::DenyData) {
            Some(denial) if extent.clone().without_data() != extent => (extent.without_data(), denial),
            _ => (extent, rule),
        };
        Decision { extent: Some(extent), rule, is_of_own_pod }
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

/// The most so far, and what a rule allows besides. Of two extents of one object, one always shows all that the other does.
fn wider(most: Option<(Extent, Rule)>, allowing: &FileRule) -> (Extent, Rule) {
    let extent = if allowing.effect == Effect::Allow { Extent::Whole } else { Extent::identity() };
    let Some((before, rule)) = most else { return (extent, allowing.rule()) };
    let both = before.clone().and(extent.clone());
    // A rule of a file holds for every pod of a name, and so goes before one that holds for a single pod.
    let is_taken = both != before || extent == both && !matches!(rule, Rule::Admin | Rule::File(_));
    if is_taken { (both, allowing.rule()) } else { (before, rule) }
}

#[cfg(test)]
mod tests;
