//! The cgroups of a process, and the containers that their names stand for.
//!
//! | who names it | the last part of the path |
//! | --- | --- |
//! | containerd and CRI-O with cgroupfs | `ID` in `pod<UID>`, `crio-ID` |
//! | containerd with systemd | `cri-containerd-ID.scope` in `kubepods-…-pod<UID>.slice` |
//! | containerd whose settings differ from the kubelet's | `kubepods-…-pod<UID>.slice:cri-containerd:ID` |
//! | CRI-O with systemd | `crio-ID.scope`; `crio-conmon-ID.scope` is its monitor on the host |
//!
//! The ID has 64 hexadecimal digits; systemd's names have `_` in place of the `-` of a UID.

use crate::owners::Mounts;
use std::io;
use std::str::FromStr;

/// The digits of a container's ID, as containerd and CRI-O make it.
const ID_DIGITS: usize = 64;

/// The cgroups of a process, one for each hierarchy: `/proc/PID/cgroup` (cgroups(7)), of version 1, 2 or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroups {
    hierarchies: Vec<Hierarchy>,
}

/// The cgroup in one hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    /// Empty for version 2; `None` where the hierarchy is not known.
    controllers: Option<String>,
    path: String,
    /// How many bytes of the path root alone can have named. A container's cgroup is among these.
    named_by_root: usize,
}

impl Hierarchy {
    fn new(controllers: Option<&str>, path: &str) -> Self {
        let named_by_root = named_by_system(path);
        Self { controllers: controllers.map(str::to_owned), path: path.to_owned(), named_by_root }
    }

    /// The part of the path that proves something.
    fn proof(&self) -> &str {
        self.path.get(..self.named_by_root).unwrap_or_default()
    }
}

/// What the cgroups of a process say of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership<T> {
    /// It is in the cgroup of no container and of no pod.
    Host,
    /// It is in the cgroup of this container.
    Container(T),
    /// It is in a cgroup that has the form of a container's, with this ID, or of a pod's, with this UID. The caller knows none of them.
    Unknown(String),
    /// Its hierarchies are in the cgroups of different containers.
    Contradictory,
}

/// A text is not that of `/proc/PID/cgroup`.
///
/// ```
/// let error = "0::/a\nfreezer\n".parse::<larder_identity::Cgroups>().unwrap_err();
/// assert_eq!(error.to_string(), "line 2 is not ID:CONTROLLERS:PATH");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is not ID:CONTROLLERS:PATH")]
pub struct BadCgroups {
    line: usize,
}

impl FromStr for Cgroups {
    type Err = BadCgroups;

    /// Reads `/proc/PID/cgroup`.
    ///
    /// # Errors
    ///
    /// A line is not `ID:CONTROLLERS:PATH`.
    fn from_str(text: &str) -> Result<Self, BadCgroups> {
        let path = |(at, line): (usize, &str)| {
            let mut fields = line.splitn(3, ':');
            let has_id = fields.next().is_some_and(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()));
            match (has_id, fields.next(), fields.next()) {
                (true, Some(controllers), Some(path)) if path.starts_with('/') => {
                    Ok(Hierarchy::new(Some(controllers), path))
                }
                _ => Err(BadCgroups { line: at + 1 }),
            }
        };
        Ok(Self { hierarchies: text.lines().enumerate().map(path).collect::<Result<_, _>>()? })
    }
}

impl Cgroups {
    /// The cgroup of this path alone.
    ///
    /// ```
    /// # use larder_identity::{Cgroups, Membership};
    /// let cgroups = Cgroups::of_path("/kubepods/besteffort/pod2f6f3d1c-6f0e-4f4e-9d5c-0a1b2c3d4e5f");
    /// let uid = "2f6f3d1c-6f0e-4f4e-9d5c-0a1b2c3d4e5f".to_owned();
    /// assert_eq!(cgroups.resolve(|_| None::<()>), Membership::Unknown(uid));
    /// ```
    pub fn of_path(path: &str) -> Self {
        Self { hierarchies: vec![Hierarchy::new(None, path)] }
    }

    /// The same, where cgroups count only as far as root alone can have named them. This asks the file systems of cgroups that this process
    /// sees. Where none shows a cgroup, all of its path counts but what is below systemd's cgroup of a user (`user@ID.service`).
    ///
    /// # Errors
    ///
    /// `/proc` cannot be read.
    pub fn checked(mut self) -> io::Result<Self> {
        for hierarchy in &mut self.hierarchies {
            let Hierarchy { controllers, path, named_by_root } = hierarchy;
            // No other path is looked for containers.
            if components(path).any(|component| container_id(component).is_some()) {
                *named_by_root = (*named_by_root).min(Mounts::known()?.named_by_root(controllers.as_deref(), path));
            }
        }
        Ok(self)
    }

    /// The container among those that `known` finds by their IDs. In each hierarchy the container nearest to the root counts, and no other one:
    /// one that is not known yet names those below itself.
    ///
    /// ```
    /// # use larder_identity::{Cgroups, Membership};
    /// let (own, other) = ("1".repeat(64), "2".repeat(64));
    /// // A container that may write cgroups names a child of its own like another container.
    /// let cgroups = Cgroups::of_path(&format!("/kubepods/pod7/{own}/{other}"));
    /// assert_eq!(cgroups.resolve(|id| Some(id.to_owned())), Membership::Container(own.clone()));
    /// assert_eq!(cgroups.resolve(|id| (id == other).then_some(())), Membership::Unknown(own));
    /// ```
    pub fn resolve<T: PartialEq>(&self, known: impl FnMut(&str) -> Option<T>) -> Membership<T> {
        self.resolve_outside(None, known)
    }

    /// As [`resolve`](Self::resolve), for a caller whose own cgroups are `own` and which may run on a node that is a container itself, as of kind.
    /// That container is the node's, unless `known` finds it.
    ///
    /// ```
    /// # use larder_identity::{Cgroups, Membership};
    /// let (node, pod) = ("1".repeat(64), "2".repeat(64));
    /// let own = Cgroups::of_path(&format!("/docker/{node}/larder"));
    /// let find = |path: &str| Cgroups::of_path(path).resolve_on(&own, |id| (id == pod).then_some(()));
    /// assert_eq!(find(&format!("/docker/{node}/kubepods/{pod}")), Membership::Container(()));
    /// assert_eq!(find(&format!("/docker/{node}/shell")), Membership::Host);
    /// ```
    pub fn resolve_on<T: PartialEq>(&self, own: &Self, mut known: impl FnMut(&str) -> Option<T>) -> Membership<T> {
        self.resolve_outside(own.nearest_container().filter(|own| known(own).is_none()), known)
    }

    /// As [`resolve`](Self::resolve), for a caller whose own cgroups are `own` and which may run in a container itself. A process of the caller's own container is
    /// [`Membership::Host`]. A container below it is not, unless `known` finds the caller's own: then the names below are the own
    /// container's to choose, and none of them counts.
    ///
    /// The paths are those that the caller reads. If it is in a cgroup namespace of its own, the paths of its container begin
    /// at its root, and those of others with `/..` (`cgroup_namespaces(7)`).
    ///
    /// ```
    /// # use larder_identity::{Cgroups, Membership};
    /// let (node, pod) = ("1".repeat(64), "2".repeat(64));
    /// let own = Cgroups::of_path(&format!("/docker/{node}/larder"));
    /// let find = |path: &str| Cgroups::of_path(path).resolve_within(&own, |id| (id == pod).then_some(()));
    /// assert_eq!(find(&format!("/docker/{node}/shell")), Membership::Host);
    /// assert_eq!(find(&format!("/docker/{node}/kubepods/{pod}")), Membership::Container(()));
    /// ```
    pub fn resolve_within<T: PartialEq>(&self, own: &Self, known: impl FnMut(&str) -> Option<T>) -> Membership<T> {
        self.resolve_outside(own.nearest_container(), known)
    }

    fn resolve_outside<T: PartialEq>(
        &self,
        own: Option<&str>,
        mut known: impl FnMut(&str) -> Option<T>,
    ) -> Membership<T> {
        let (mut container, mut unknown) = (None, None);
        for hierarchy in &self.hierarchies {
            let from = own.and_then(|own| below(hierarchy.proof(), own));
            if from.is_some() && own.is_some_and(|own| known(own).is_some()) {
                continue;
            }
            let from = from.unwrap_or_default();
            let (path, proof) = (hierarchy.path.get(from..).unwrap_or_default(), hierarchy.proof().get(from..));
            let found = proof.and_then(|proof| components(proof).find_map(container_id)).and_then(&mut known);
            match (found, &container) {
                (Some(found), None) => container = Some(found),
                (Some(found), Some(earlier)) if found != *earlier => return Membership::Contradictory,
                _ => {}
            }
            unknown = unknown.or_else(|| claim(path));
        }
        match (container, unknown) {
            (Some(container), _) => Membership::Container(container),
            (None, Some(claim)) => Membership::Unknown(claim),
            (None, None) => Membership::Host,
        }
    }

    /// The container that is nearest to the root, if all hierarchies that name one name the same.
    fn nearest_container(&self) -> Option<&str> {
        let mut all = self.hierarchies.iter().filter_map(|of| components(of.proof()).find_map(container_id));
        let first = all.next()?;
        all.all(|id| id == first).then_some(first)
    }
}

/// Where in a path begins what is below the cgroup of this container, if the container is the one nearest to the root.
fn below(path: &str, container: &str) -> Option<usize> {
    let nearest = components(path).find(|component| container_id(component).is_some())?;
    let at = path.find(nearest)?;
    (container_id(nearest) == Some(container)).then_some(at + nearest.len())
}

/// How many bytes of a path are not below systemd's cgroup of a user, who names what is below.
fn named_by_system(path: &str) -> usize {
    let mut end = 0;
    for component in path.split('/') {
        end += component.len();
        if component.starts_with("user@") && component.ends_with(".service") {
            return end;
        }
        end += 1;
    }
    path.len()
}

fn components(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|component| !component.is_empty())
}

/// What the path claims to be: the container nearest to the root, else a pod.
fn claim(path: &str) -> Option<String> {
    let container = components(path).find_map(container_id).map(str::to_owned);
    container.or_else(|| components(path).find_map(pod_uid)).or_else(|| components(path).find_map(of_kubernetes))
}

/// The ID of the container whose cgroup this is.
fn container_id(component: &str) -> Option<&str> {
    let name = component.strip_suffix(".scope").unwrap_or(component);
    if name.starts_with("crio-conmon-") {
        return None;
    }
    let id = name.rsplit([':', '-']).next()?;
    is_hexadecimal(id, ID_DIGITS).then_some(id)
}

/// The UID of the pod whose cgroup this is; that of a static pod is a hash of 32 digits.
fn pod_uid(component: &str) -> Option<String> {
    // With differing settings, the container's ID is in the same part.
    let name = component.split(':').next()?;
    let uid = match name.strip_suffix(".slice") {
        // A kubelet with a cgroup of its own for all puts that in front.
        Some(slice) => slice.split_once("kubepods")?.1.split_once("-pod")?.1.replace('_', "-"),
        None => name.strip_prefix("pod")?.to_owned(),
    };
    let digits: String = uid.split('-').collect();
    is_hexadecimal(&digits, 32).then_some(uid)
}

/// A cgroup that the kubelet keeps for pods, whatever is in it.
fn of_kubernetes(component: &str) -> Option<String> {
    component.split(['-', '.']).any(|part| part == "kubepods").then(|| component.to_owned())
}

fn is_hexadecimal(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests;
