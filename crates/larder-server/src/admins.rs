//! Which processes of the host see everything over the socket, besides root and the daemon's user, and how the kernel names a process.

use larder_identity::PidSource;
use std::io;
use std::path::{Path, PathBuf};

/// Where a machine has the names of its groups.
const GROUPS: &str = "/etc/group";

/// Who sees what.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessOptions {
    /// The groups of the host whose processes see everything over the socket: names of `/etc/group`, or IDs. Default: none.
    pub admin_groups: Vec<String>,
    /// Whether to ask the kernel for a pidfd of a process that connects to the socket. When off, as before Linux 6.5, larder opens the
    /// process by its PID. Default: on.
    pub peer_pidfd: bool,
    /// The policy file, whose rules show more or less than what is seen without it. Default: none.
    pub policy: Option<PathBuf>,
}

impl Default for AccessOptions {
    fn default() -> Self {
        Self { admin_groups: Vec::new(), peer_pidfd: true, policy: None }
    }
}

/// An option of access that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("setting access.{field}: {problem}")]
pub struct AccessError {
    /// The option: `admin_groups`.
    pub field: &'static str,
    /// Why it cannot be used.
    pub problem: String,
}

impl AccessOptions {
    /// Checks what does not depend on the machine.
    ///
    /// # Errors
    ///
    /// A group that no machine can have.
    pub fn validate(&self) -> Result<(), AccessError> {
        for group in &self.admin_groups {
            if let Err(problem) = parse(group) {
                return Err(AccessError { field: "admin_groups", problem });
            }
        }
        Ok(())
    }
}

/// The rules by which processes of the host are admins.
#[derive(Clone, Debug)]
pub(crate) struct Admins {
    gids: Vec<u32>,
    pub(crate) source: PidSource,
}

impl Admins {
    /// Looks up the groups of the options.
    ///
    /// # Errors
    ///
    /// A group that this machine does not have.
    pub(crate) fn of(options: &AccessOptions) -> Result<Self, AccessError> {
        Self::of_file(options, Path::new(GROUPS))
    }

    fn of_file(options: &AccessOptions, groups: &Path) -> Result<Self, AccessError> {
        options.validate()?;
        let refuse = |problem| AccessError { field: "admin_groups", problem };
        let mut file = None;
        let mut gids = Vec::new();
        for group in &options.admin_groups {
            let gid = match parse(group).map_err(refuse)? {
                Group::Id(gid) => gid,
                Group::Name(name) => {
                    let text: &io::Result<String> = file.get_or_insert_with(|| std::fs::read_to_string(groups));
                    let text = text.as_ref().map_err(|error| {
                        refuse(format!("group {name:?} cannot be looked up in {}: {error}", groups.display()))
                    })?;
                    find(text, name).ok_or_else(|| {
                        refuse(format!(
                            "there is no group {name:?} in {}: create the group, or write the ID of another one",
                            groups.display()
                        ))
                    })?
                }
            };
            gids.push(gid);
        }
        let source = if options.peer_pidfd { PidSource::Socket } else { PidSource::Pid };
        Ok(Self { gids, source })
    }

    /// Whether one of these groups is an admin group.
    pub(crate) fn have(&self, gids: &[u32]) -> bool {
        gids.iter().any(|gid| self.gids.contains(gid))
    }
}

enum Group<'a> {
    Id(u32),
    Name(&'a str),
}

fn parse(group: &str) -> Result<Group<'_>, String> {
    if !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit()) {
        // The highest number stands for no group.
        let gid = group.parse().ok().filter(|gid| *gid != u32::MAX);
        return gid.map(Group::Id).ok_or_else(|| format!("must be names or IDs of groups, and {group} is not an ID"));
    }
    if group.is_empty() {
        return Err("must be names or IDs of groups".to_owned());
    }
    let is_name = !group.contains(|c: char| c == ':' || c.is_whitespace() || c.is_control());
    if is_name {
        Ok(Group::Name(group))
    } else {
        Err(format!("must be names or IDs of groups, and {group:?} is neither"))
    }
}

/// The ID of the group of that name in a text with the form of `/etc/group`.
fn find(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next()? == name;
        is_it.then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admins(groups: &[&str]) -> Result<Admins, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "root:x:0:\nops:x:2000:ann,bob\nops-night:x:2001:\nbroken:x\n").unwrap();
        let options = AccessOptions {
            admin_groups: groups.iter().copied().map(str::to_owned).collect(),
            ..AccessOptions::default()
        };
        Admins::of_file(&options, file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn groups_are_told_by_name_or_id() {
        let of = |groups| admins(groups).unwrap();
        assert!(of(&["ops"]).have(&[100, 2000]) && !of(&["ops"]).have(&[2001]));
        assert!(of(&["ops", "7"]).have(&[7]) && !of(&["7"]).have(&[2000]));
        assert!(!of(&[]).have(&[0]));
    }

    #[test]
    fn a_group_that_is_not_there_is_refused() {
        for (group, problem) in [
            ("op", "there is no group \"op\" in "),
            ("broken", "there is no group \"broken\" in "),
            ("", "must be names or IDs of groups"),
            ("a b", "must be names or IDs of groups, and \"a b\" is neither"),
            ("4294967295", "must be names or IDs of groups, and 4294967295 is not an ID"),
            ("-1", "there is no group \"-1\" in "),
        ] {
            let error = admins(&[group]).unwrap_err();
            assert!(error.starts_with(&format!("setting access.admin_groups: {problem}")), "{error}");
        }
        let options = AccessOptions { admin_groups: vec!["ops".to_owned()], ..AccessOptions::default() };
        let error = Admins::of_file(&options, Path::new("/nowhere")).unwrap_err().to_string();
        assert!(error.contains("cannot be looked up in /nowhere"), "{error}");
    }
}
