//! The strategy that keeps the objects of each kind up to date, as the settings name it. larder-objects defines the strategies.

pub use larder_objects::{Strategy, UnknownStrategy};

/// The strategy of each kind.
///
/// ```
/// use larder_node::{ChangeDetection, ObjectKind, Strategy};
///
/// let mut detection = ChangeDetection::default();
/// detection.secrets = Strategy::Direct;
/// assert_eq!(*detection.of(ObjectKind::Secret), Strategy::Direct);
/// assert_eq!(*detection.of(ObjectKind::ConfigMap), Strategy::Watch);
/// assert_ne!(detection, ChangeDetection::same(Strategy::Direct));
/// ```
pub type ChangeDetection = larder_resource::PerKind<Strategy>;
