//! The strategy of each kind of objects.

pub use larder_objects::{Strategy, UnknownStrategy};

/// The strategy of each kind.
///
/// ```
/// use larder_node::{ChangeDetection, ObjectKind, Strategy};
///
/// let mut detection = ChangeDetection::default();
/// detection.secrets = Strategy::Direct;
/// assert_eq!(detection.of(ObjectKind::Secret), Strategy::Direct);
/// assert_eq!(detection.of(ObjectKind::ConfigMap), Strategy::Watch);
/// assert_ne!(detection, ChangeDetection::both(Strategy::Direct));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangeDetection {
    /// That of Secrets.
    pub secrets: Strategy,
    /// That of `ConfigMap`s.
    pub config_maps: Strategy,
}

impl ChangeDetection {
    /// The same for both kinds.
    pub const fn both(strategy: Strategy) -> Self {
        Self { secrets: strategy, config_maps: strategy }
    }

    /// That of a kind.
    pub const fn of(self, kind: larder_resource::ObjectKind) -> Strategy {
        match kind {
            larder_resource::ObjectKind::Secret => self.secrets,
            larder_resource::ObjectKind::ConfigMap => self.config_maps,
        }
    }
}
