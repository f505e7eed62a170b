//! The rules of a node.

use crate::rules::FileRule;
use crate::subject::Subject;
use crate::view::View;
use std::sync::Arc;

/// The rules of a node. The default has [no rules of a file](crate#without-a-file); [`Policy::parse`] reads those of a file.
///
/// ```
/// use larder_policy::{Policy, Subject};
/// let admin = Subject::Client { name: "ops".into(), groups: vec!["larder:admins".into()], is_admin: true };
/// assert!(Policy::default().view(&admin).sees_all());
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<Arc<FileRule>>,
}

impl Policy {
    pub(crate) fn of_rules(rules: Vec<Arc<FileRule>>) -> Self {
        Self { rules }
    }

    /// The rules that apply to a subject.
    pub fn view(&self, subject: &Subject) -> View {
        let rules = self.rules.iter().filter(|rule| rule.is_about(subject)).cloned();
        View::of(subject, rules.collect())
    }

    /// How many rules its file has.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether it has no rules of a file.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}
