//! How a store's objects are found in a pod.

#[cfg(feature = "k8s")]
mod k8s;

#[cfg(feature = "k8s")]
pub use k8s::{ConfigMaps, Secrets, config_maps, secrets};

/// What tells one pod from another: a pod that is created again under its name has another UID.
///
/// ```
/// use larder_objects::PodIdentity;
/// let pod = PodIdentity { namespace: "shop", name: "web-0", uid: "0b5c" };
/// assert_ne!(pod, PodIdentity { uid: "77aa", ..pod });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodIdentity<'p> {
    /// The pod's namespace, which is that of the objects that it refers to.
    pub namespace: &'p str,
    /// The pod's name.
    pub name: &'p str,
    /// The pod's UID.
    pub uid: &'p str,
}

/// One way that a pod refers to an object.
///
/// ```
/// use larder_objects::Reference;
/// let reference = Reference { name: "feature-flags", optional: true };
/// assert!(reference.optional);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference<'p> {
    /// The object's name, in the pod's namespace.
    pub name: &'p str,
    /// Whether the pod can do without the object.
    pub optional: bool,
}

/// Finds the objects of one kind that a pod refers to.
///
/// ```
/// use larder_objects::{PodIdentity, Reference, References};
///
/// struct Pod {
///     uid: String,
///     secrets: Vec<String>,
/// }
/// struct Secrets;
/// impl References<Pod> for Secrets {
///     fn identity<'p>(&self, pod: &'p Pod) -> PodIdentity<'p> {
///         PodIdentity { namespace: "default", name: "web-0", uid: &pod.uid }
///     }
///     fn visit<'p>(&self, pod: &'p Pod, mut visit: impl FnMut(Reference<'p>)) {
///         pod.secrets.iter().for_each(|name| visit(Reference { name, optional: false }));
///     }
/// }
/// let pod = Pod { uid: "0b5c".into(), secrets: vec!["db".into(), "tls".into()] };
/// let mut names = Vec::new();
/// Secrets.visit(&pod, |reference| names.push(reference.name));
/// assert_eq!(names, ["db", "tls"]);
/// ```
pub trait References<P: ?Sized>: Send + Sync + 'static {
    /// Which pod it is.
    fn identity<'p>(&self, pod: &'p P) -> PodIdentity<'p>;

    /// Calls `visit` with every reference, in any order; the same name may come more than once.
    fn visit<'p>(&self, pod: &'p P, visit: impl FnMut(Reference<'p>));
}
