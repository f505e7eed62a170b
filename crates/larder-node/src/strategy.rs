//! The strategy of each kind of objects.

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
