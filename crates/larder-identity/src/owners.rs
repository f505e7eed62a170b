//! Who may name a cgroup: the owner of the cgroup that it stands in.
//!
//! systemd gives each user of a machine a cgroup, below which the user makes and names cgroups of its own (`Delegate=`,
//! `systemd.resource-control(5)`). Such a name proves nothing.

use rustix::fs::{FsWord, statfs};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where this process sees its mounts (`proc_pid_mountinfo(5)`).
const MOUNTS: &str = "/proc/self/mountinfo";
/// What `statfs(2)` says of the file systems of cgroups, of version 2 and 1.
const CGROUP_MAGIC: [FsWord; 2] = [0x6367_7270, 0x0027_e0eb];
/// How deep a cgroup is looked for: a container's has a few steps. One that may write cgroups can make thousands below its own.
const MOST_STEPS: usize = 32;
/// The permission to write of others than the owner.
const WRITTEN_BY_OTHERS: u32 = 0o022;

/// The file systems of cgroups that this process sees.
#[derive(Debug, Default)]
pub(crate) struct Mounts(Vec<Mount>);

#[derive(Debug, PartialEq, Eq)]
struct Mount {
    /// The cgroup at its root.
    root: String,
    at: PathBuf,
    /// The controllers of version 1, and a name; `None` for version 2.
    controllers: Option<Vec<String>>,
}

impl Mounts {
    /// Those at the first call: a machine mounts them when it boots, and a node has thousands of other mounts.
    pub(crate) fn known() -> io::Result<&'static Self> {
        static KNOWN: OnceLock<Mounts> = OnceLock::new();
        if let Some(known) = KNOWN.get() {
            return Ok(known);
        }
        let read = Self(fs::read_to_string(MOUNTS)?.lines().filter_map(Mount::of).collect());
        Ok(KNOWN.get_or_init(|| read))
    }

    /// How many bytes of a cgroup's path only root, or this process's user, can have named. All, where no file system shows that cgroup, but no more
    /// than a few dozen steps.
    ///
    /// The path is of the hierarchy with these controllers; an empty text is version 2, and `None` any hierarchy.
    pub(crate) fn named_by_root(&self, controllers: Option<&str>, path: &str) -> usize {
        let deepest = path.match_indices('/').nth(MOST_STEPS).map_or(path.len(), |(at, _)| at);
        let path = path.get(..deepest).unwrap_or_default();
        let of_hierarchy = self.0.iter().filter(|mount| mount.is_of(controllers));
        of_hierarchy.filter_map(|mount| mount.named_by_root(path)).min().unwrap_or(path.len())
    }
}

impl Mount {
    /// The mount of a line; `None` if it is of another file system.
    fn of(line: &str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, at) = (mount.next()?, mount.next()?);
        let mut file_system = file_system.split(' ');
        let (kind, options) = (file_system.next()?, file_system.nth(1)?);
        let controllers = match kind {
            "cgroup2" => None,
            "cgroup" => Some(options.split(',').map(str::to_owned).collect()),
            _ => return None,
        };
        let root = String::from_utf8(unescaped(root)).ok()?;
        Some(Self { root, at: OsString::from_vec(unescaped(at)).into(), controllers })
    }

    fn is_of(&self, controllers: Option<&str>) -> bool {
        match (&self.controllers, controllers) {
            (_, None) | (None, Some("")) => true,
            (None, Some(_)) | (Some(_), Some("")) => false,
            (Some(own), Some(controllers)) => controllers.split(',').all(|one| own.iter().any(|own| own == one)),
        }
    }

    /// `None` if the mount does not show the cgroup.
    fn named_by_root(&self, path: &str) -> Option<usize> {
        let root = self.root.trim_end_matches('/');
        let below = path.strip_prefix(root).filter(|below| below.is_empty() || below.starts_with('/'))?;
        // Another mount may hide this one.
        if below.split('/').any(|step| step == "..") || !is_of_cgroups(&self.at) {
            return None;
        }
        let mut folder = self.at.clone();
        let mut end = root.len();
        for step in below.split('/').skip(1) {
            match fs::symlink_metadata(&folder) {
                Ok(found) if is_of_root(found.uid(), found.mode()) => {}
                // A cgroup that is not there any more stood in one of root's.
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Ok(_) | Err(_) => return Some(end),
            }
            folder.push(step);
            end += 1 + step.len();
        }
        Some(path.len())
    }
}

/// Whether the root of this process's user namespace, or its user, alone writes there.
fn is_of_root(owner: u32, mode: u32) -> bool {
    (owner == 0 || owner == rustix::process::geteuid().as_raw()) && mode & WRITTEN_BY_OTHERS == 0
}

fn is_of_cgroups(at: &Path) -> bool {
    statfs(at).is_ok_and(|found| CGROUP_MAGIC.contains(&found.f_type))
}

/// The kernel writes space, tab, line break and backslash as an octal number.
fn unescaped(text: &str) -> Vec<u8> {
    let mut rest = text.as_bytes();
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some((first, more)) = rest.split_first() {
        let octal = more.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            rest = more.get(3..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = more;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_mount_is_read() {
        let mount = |root: &str, at: &str, controllers: Option<&[&str]>| Mount {
            root: root.to_owned(),
            at: at.into(),
            controllers: controllers.map(|all| all.iter().copied().map(str::to_owned).collect()),
        };
        for (line, expected) in [
            (
                "33 24 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate",
                Some(mount("/", "/sys/fs/cgroup", None)),
            ),
            (
                "40 33 0:35 /.. /host/cpu\\040x ro - cgroup cgroup rw,cpu,cpuacct",
                Some(mount("/..", "/host/cpu x", Some(&["rw", "cpu", "cpuacct"]))),
            ),
            ("24 30 0:22 / /sys rw,nosuid - sysfs sysfs rw", None),
            ("garbage", None),
        ] {
            assert_eq!(Mount::of(line), expected, "{line}");
        }
    }

    #[test]
    fn a_hierarchy_is_that_of_its_controllers() {
        let of = |options: &str| Mount::of(&format!("1 2 0:3 / /x rw - {options}")).unwrap();
        for (mount, controllers, expected) in [
            ("cgroup2 cgroup2 rw", "", true),
            ("cgroup2 cgroup2 rw", "cpu", false),
            ("cgroup cgroup rw,cpu,cpuacct", "cpu,cpuacct", true),
            ("cgroup cgroup rw,cpu,cpuacct", "memory", false),
            ("cgroup cgroup rw,xattr,name=systemd", "name=systemd", true),
            ("cgroup cgroup rw,cpu", "", false),
        ] {
            assert_eq!(of(mount).is_of(Some(controllers)), expected, "{mount} {controllers}");
            assert!(of(mount).is_of(None));
        }
    }

    #[test]
    fn a_deep_cgroup_is_looked_for_as_far_as_that_is_bounded() {
        for mounts in [&Mounts::default(), Mounts::known().unwrap()] {
            let path = format!("/larder-{}-no-such-cgroup", std::process::id()).repeat(MOST_STEPS);
            assert_eq!(mounts.named_by_root(None, &path), path.len());
            assert_eq!(mounts.named_by_root(None, &format!("{path}/deeper/x")), path.len());
        }
    }

    #[test]
    fn only_root_and_the_own_user_may_write() {
        let own = rustix::process::geteuid().as_raw();
        for (owner, mode, expected) in
            [(0, 0o755, true), (own, 0o700, true), (own + 7, 0o755, false), (0, 0o775, false), (0, 0o757, false)]
        {
            assert_eq!(is_of_root(owner, mode), expected, "{owner} {mode:o}");
        }
    }
}
