//! The rules of a node.

use crate::subject::Subject;
use crate::view::View;

/// The rules of a node. The default has [no rules of a file](crate#without-a-file).
///
/// ```
/// use larder_policy::{Policy, Subject};
/// let admin = Subject::Client { name: "ops".into(), groups: vec!["larder:admins".into()], is_admin: true };
/// assert!(Policy::default().view(&admin).sees_all());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {}

impl Policy {
    /// The rules that apply to a subject.
    pub fn view(&self, subject: &Subject) -> View {
        View::of(subject)
    }
}
