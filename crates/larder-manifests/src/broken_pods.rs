//! Which pods are not known for certain, because a manifest cannot be read.

use crate::error::Problem;
use larder_clock::Timestamp;
use larder_objects::ObjectKey;
use std::collections::HashMap;

/// What the manifests that cannot be read leave uncertain about pods, from
/// [`ManifestReader::broken_pods`](crate::ManifestReader::broken_pods).
///
/// ```
/// use larder_manifests::BrokenPods;
/// assert!(BrokenPods::default().first().is_none(), "while all manifests can be read");
/// ```
#[derive(Clone, Default, Debug)]
#[non_exhaustive]
pub struct BrokenPods {
    /// Pods that are served as they were, because their manifest cannot be read now.
    pub stale: HashMap<ObjectKey, Broken>,
    /// The first manifest that cannot be read and may have pods that nobody knows.
    pub hiding: Option<Broken>,
}

/// A manifest that cannot be read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Broken {
    /// What is wrong with the manifest.
    pub problem: Problem,
    /// When all manifests were last looked at before that; `None` if it was so at the first look.
    pub since: Option<Timestamp>,
}

impl From<Problem> for Broken {
    fn from(problem: Problem) -> Self {
        Self { problem, since: None }
    }
}

impl BrokenPods {
    /// What has been broken for longest.
    pub fn first(&self) -> Option<&Broken> {
        self.stale.values().chain(&self.hiding).min_by_key(|broken| broken.since)
    }

    /// Sets the times: what was broken `before` keeps its time, and the rest was known at the last look.
    pub(crate) fn date(&mut self, before: &Self, last_look: Option<Timestamp>) {
        for (key, broken) in &mut self.stale {
            broken.since = before.stale.get(key).map_or(last_look, |known| known.since);
        }
        if let Some(broken) = &mut self.hiding {
            broken.since = before.hiding.as_ref().map_or(last_look, |known| known.since);
        }
    }
}
