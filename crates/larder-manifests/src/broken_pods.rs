//! The pods that are stale or unknown because a manifest cannot be read.

use crate::error::Problem;
use larder_clock::Timestamp;
use larder_objects::ObjectKey;
use std::collections::HashMap;

/// The pods that are stale or unknown because a manifest cannot be read; see
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
    /// The problem of the manifest.
    pub problem: Problem,
    /// The last look at the manifests at which the file could be read; `None` if it could not be read at the first look.
    pub since: Option<Timestamp>,
}

impl From<Problem> for Broken {
    fn from(problem: Problem) -> Self {
        Self { problem, since: None }
    }
}

impl BrokenPods {
    /// The manifest that has been broken longest.
    pub fn first(&self) -> Option<&Broken> {
        self.stale.values().chain(&self.hiding).min_by_key(|broken| broken.since)
    }

    /// Sets the times: a manifest that was broken `before` keeps its time, any other could be read at the last look.
    pub(crate) fn date(&mut self, before: &Self, last_look: Option<Timestamp>) {
        for (key, broken) in &mut self.stale {
            broken.since = before.stale.get(key).map_or(last_look, |known| known.since);
        }
        if let Some(broken) = &mut self.hiding {
            broken.since = before.hiding.as_ref().map_or(last_look, |known| known.since);
        }
    }
}
