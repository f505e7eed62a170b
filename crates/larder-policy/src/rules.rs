//! The rules of a policy file: which subjects and which objects each of them names.

use crate::subject::Subject;
use crate::view::{Document, Rule, Target, Verb};
use larder_resource::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One rule of a policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileRule {
    pub(crate) name: Arc<str>,
    pub(crate) effect: Effect,
    pub(crate) subjects: Vec<SubjectSelector>,
    pub(crate) objects: Vec<ObjectSelector>,
    pub(crate) documents: BTreeSet<Document>,
}

/// What a rule does with what it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Shows all of it.
    Allow,
    /// Shows its name, UID, version, times and labels.
    AllowMetadata,
    /// Hides it.
    Deny,
    /// Hides all but its name, UID, version, times and labels.
    DenyData,
}

impl Effect {
    pub(crate) const ALL: [Self; 4] = [Self::Allow, Self::AllowMetadata, Self::Deny, Self::DenyData];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::AllowMetadata => "allowMetadata",
            Self::Deny => "deny",
            Self::DenyData => "denyData",
        }
    }

    pub(crate) const fn widens(self) -> bool {
        match self {
            Self::Allow | Self::AllowMetadata => true,
            Self::Deny | Self::DenyData => false,
        }
    }
}

/// Who a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SubjectSelector {
    /// The pods of a service account.
    ServiceAccount { namespace: String, name: String },
    /// The pods of a namespace that have these labels.
    Pods { namespace: String, labels: BTreeMap<String, String> },
    /// The processes of a user of the host.
    User(u32),
    /// The processes of a group of the host.
    Group(u32),
    /// The client whose certificate has this common name.
    Client(String),
    /// The clients whose certificates have this organization.
    ClientGroup(String),
}

impl SubjectSelector {
    fn names(&self, subject: &Subject) -> bool {
        match (self, subject) {
            (Self::ServiceAccount { namespace, name }, Subject::Pod(pod)) => {
                *namespace == pod.namespace && *name == pod.service_account
            }
            (Self::Pods { namespace, labels }, Subject::Pod(pod)) => {
                *namespace == pod.namespace && labels.iter().all(|(label, value)| pod.labels.get(label) == Some(value))
            }
            (Self::User(user), Subject::Host { uid, .. }) => user == uid,
            (Self::Group(group), Subject::Host { gids, .. }) => gids.contains(group),
            (Self::Client(client), Subject::Client { name, .. }) => client == name,
            (Self::ClientGroup(group), Subject::Client { groups, .. }) => groups.contains(group),
            (
                Self::ServiceAccount { .. }
                | Self::Pods { .. }
                | Self::User(_)
                | Self::Group(_)
                | Self::Client(_)
                | Self::ClientGroup(_),
                Subject::Pod(_) | Subject::Host { .. } | Subject::Client { .. },
            ) => false,
        }
    }
}

/// What a rule is about. An empty set of namespaces or names stands for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectSelector {
    pub(crate) kinds: BTreeSet<Kind>,
    pub(crate) namespaces: BTreeSet<String>,
    pub(crate) names: BTreeSet<String>,
    pub(crate) verbs: BTreeSet<Verb>,
}

impl ObjectSelector {
    fn names(&self, verb: Verb, target: &Target<'_>) -> bool {
        let in_namespace = self.namespaces.is_empty() || self.namespaces.contains(target.namespace);
        let is_named = self.names.is_empty() || self.names.contains(target.name);
        self.kinds.contains(&target.kind) && self.verbs.contains(&verb) && in_namespace && is_named
    }

    /// Whether it names an object of the kind, in a namespace or in any.
    fn names_some(&self, verb: Verb, kind: Kind, namespace: Option<&str>) -> bool {
        let in_namespace = self.namespaces.is_empty()
            || !kind.is_namespaced()
            || namespace.is_none_or(|namespace| self.namespaces.contains(namespace));
        self.kinds.contains(&kind) && self.verbs.contains(&verb) && in_namespace
    }

    /// Whether it names every object of the kind, in a namespace or in all.
    fn names_every(&self, verb: Verb, kind: Kind, namespace: Option<&str>) -> bool {
        let in_namespace =
            self.namespaces.is_empty() || namespace.is_some_and(|namespace| self.namespaces.contains(namespace));
        self.kinds.contains(&kind) && self.verbs.contains(&verb) && in_namespace && self.names.is_empty()
    }
}

impl FileRule {
    pub(crate) fn is_about(&self, subject: &Subject) -> bool {
        self.subjects.iter().any(|selector| selector.names(subject))
    }

    pub(crate) fn names(&self, verb: Verb, target: &Target<'_>) -> bool {
        self.objects.iter().any(|selector| selector.names(verb, target))
    }

    pub(crate) fn names_some(&self, verb: Verb, kind: Kind, namespace: Option<&str>) -> bool {
        self.objects.iter().any(|selector| selector.names_some(verb, kind, namespace))
    }

    pub(crate) fn names_every(&self, verb: Verb, kind: Kind, namespace: Option<&str>) -> bool {
        self.objects.iter().any(|selector| selector.names_every(verb, kind, namespace))
    }

    pub(crate) fn rule(&self) -> Rule {
        Rule::File(Arc::clone(&self.name))
    }
}
