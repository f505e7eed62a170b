//! The policy of this node, its file, and since when each caller sees what it sees.
//!
//! # Guarantees
//!
//! - *The last good one*: a file that cannot be used changes nothing. The policy of before stays, and the status says why.
//! - *Resumed as seen*: while there is a policy file, a watch resumes only after versions that were given under what its caller sees now.
//!   Another one is refused (410), and the client lists again.
//!
//! # Limits
//!
//! The file is looked at every two seconds. Two clients of one caller are not told apart: if one of them lists after a change and the
//! other one begins a watch after a list of before, with no change of an object between, that watch is not refused.
//!
//! # Locks
//!
//! One for what was read of the file, and one for what callers see. No other lock is taken under either.

use larder_file::open_regular;
use larder_node::{PolicyReport, Report};
use larder_policy::{Policy, View};
use larder_resource::Kind;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How often the file is looked at.
const PERIOD: Duration = Duration::from_secs(2);
/// The largest file.
const LARGEST: u64 = 1 << 20;
/// The most callers whose views are remembered.
const MOST_CALLERS: usize = 4096;

/// Why a policy file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// It cannot be read.
    #[error("cannot read the policy in {path} (--policy): {source}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why it cannot.
        source: io::Error,
    },
    /// Others could change it.
    #[error(
        "the policy in {path} (--policy) is not safe: it must belong to root or to larder's own user, and nobody else may write it; run \
         `chown root {path}` and `chmod go-w {path}`",
        path = path.display()
    )]
    Unsafe {
        /// The file.
        path: PathBuf,
    },
    /// It is too large.
    #[error("{path}: this file is too large for a policy (--policy): it may have {LARGEST} bytes", path = path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A mistake in its text.
    #[error("{path}{place}: {mistake}", path = path.display(), place = place_of(mistake))]
    Mistake {
        /// The file.
        path: PathBuf,
        /// The mistake.
        mistake: larder_policy::Mistake,
    },
}

fn place_of(mistake: &larder_policy::Mistake) -> String {
    mistake.place().map_or_else(String::new, |place| format!(":{}:{}", place.line, place.column))
}

/// The policy of this node.
#[derive(Debug)]
pub(crate) struct Policies {
    file: Option<PathBuf>,
    current: watch::Sender<Arc<Policy>>,
    read: Mutex<LastRead>,
    callers: Mutex<Callers>,
}

#[derive(Debug, Default)]
struct LastRead {
    version: Option<FileVersion>,
    problem: Option<String>,
}

/// What tells that a file has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileVersion {
    fn of(metadata: &std::fs::Metadata) -> Self {
        Self {
            file: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Policies {
    /// Reads the file, if there is one.
    ///
    /// # Errors
    ///
    /// The file cannot be used.
    pub(crate) fn open(file: Option<PathBuf>) -> Result<Self, PolicyError> {
        let mut last = LastRead::default();
        let policy = match &file {
            Some(path) => {
                let (version, policy) = read(path)?;
                last.version = Some(version);
                tracing::info!(path = %path.display(), rules = policy.len(), "read the policy");
                policy
            }
            None => Policy::default(),
        };
        let (current, _) = watch::channel(Arc::new(policy));
        Ok(Self { file, current, read: Mutex::new(last), callers: Mutex::default() })
    }

    /// The policy of now.
    pub(crate) fn current(&self) -> Arc<Policy> {
        Arc::clone(&self.current.borrow())
    }

    /// Whether what a caller sees can change while its connection is open.
    pub(crate) fn may_change(&self) -> bool {
        self.file.is_some()
    }

    /// Tells when the policy changes.
    pub(crate) fn changes(&self) -> watch::Receiver<Arc<Policy>> {
        self.current.subscribe()
    }

    /// Follows the file until the token is cancelled.
    pub(crate) async fn keep_up_to_date(self: &Arc<Self>, token: &CancellationToken) {
        if self.file.is_none() {
            return;
        }
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while token.run_until_cancelled(ticks.tick()).await.is_some() {
            let this = Arc::clone(self);
            // A file system that does not answer holds the thread, and not the end of the daemon.
            let refresh = tokio::task::spawn_blocking(move || this.refresh());
            token.run_until_cancelled(refresh).await;
        }
    }

    /// Reads the file again if it has changed.
    pub(crate) fn refresh(&self) {
        let Some(path) = &self.file else { return };
        let before = self.read.lock().version;
        if let Ok(metadata) = std::fs::metadata(path)
            && Some(FileVersion::of(&metadata)) == before
        {
            return;
        }
        match read(path) {
            Ok((version, policy)) => {
                *self.read.lock() = LastRead { version: Some(version), problem: None };
                let rules = policy.len();
                let is_new = self.current.send_if_modified(|current| {
                    let is_new = **current != policy;
                    if is_new {
                        *current = Arc::new(policy);
                    }
                    is_new
                });
                if is_new {
                    tracing::info!(path = %path.display(), rules, "the policy has changed");
                }
            }
            Err(error) => {
                let problem = error.to_string();
                let mut last = self.read.lock();
                // It is read again at each look: only its path may be wrong for a while.
                last.version = None;
                if last.problem.as_ref() != Some(&problem) {
                    tracing::warn!(%problem, "the policy file cannot be used; the policy of before stays");
                    last.problem = Some(problem);
                }
            }
        }
    }

    /// Adds the policy to a report.
    pub(crate) fn report(&self, report: &mut Report) {
        let Some(path) = &self.file else { return };
        let problem = self.read.lock().problem.clone();
        if let Some(problem) = &problem {
            report.degraded.push(format!("policy: {problem}; the policy of before stays"));
        }
        let mut policy = PolicyReport::default();
        (policy.file, policy.rules, policy.problem) = (path.clone(), self.current.borrow().len(), problem);
        report.policy = Some(policy);
    }

    /// Notes what a caller sees now.
    pub(crate) fn note(&self, caller: &str, view: &View) {
        if self.may_change() {
            self.callers.lock().note(caller, view);
        }
    }

    /// Notes that a caller gets all objects of a kind that it sees with a view, as of a version. Whether that is still what the caller sees.
    pub(crate) fn gives(&self, caller: &str, view: &View, kind: Kind, version: u64) -> bool {
        if !self.may_change() {
            return true;
        }
        let mut callers = self.callers.lock();
        if callers.seen.get(caller).is_none_or(|known| known.view != *view) {
            return false;
        }
        if let Some(since) = callers.since(caller, kind, version)
            && let Since::NotGiven(from) = *since
        {
            // Versions up to `from` were given before the change, too.
            *since = Since::Given(if version > from { from.saturating_add(1) } else { from });
        }
        true
    }

    /// Whether a watch of a caller may resume after a version of a journal that has reached `current`.
    pub(crate) fn may_resume(&self, caller: &str, kind: Kind, version: u64, current: u64) -> bool {
        if !self.may_change() {
            return true;
        }
        let mut callers = self.callers.lock();
        let Some(since) = callers.since(caller, kind, current) else { return false };
        if let Since::Given(from) | Since::NotGiven(from) = *since
            && from > current.saturating_add(1)
        {
            // The journal has begun anew since then, and refuses older versions itself.
            *since = Since::Ever;
        }
        match *since {
            Since::Ever => true,
            Since::Changed => false,
            Since::NotGiven(from) => version > from,
            Since::Given(from) => version >= from,
        }
    }
}

fn read(path: &Path) -> Result<(FileVersion, Policy), PolicyError> {
    let unreadable = |source| PolicyError::Unreadable { path: path.to_owned(), source };
    let file: File = open_regular(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let is_own = metadata.uid() == 0 || metadata.uid() == rustix::process::geteuid().as_raw();
    if !is_own || metadata.mode() & 0o022 != 0 {
        return Err(PolicyError::Unsafe { path: path.to_owned() });
    }
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LARGEST {
        return Err(PolicyError::TooLarge { path: path.to_owned() });
    }
    let mistake = |mistake| PolicyError::Mistake { path: path.to_owned(), mistake };
    Ok((FileVersion::of(&metadata), Policy::parse(&text).map_err(mistake)?))
}

/// What callers see, and since when.
#[derive(Debug, Default)]
struct Callers {
    seen: HashMap<String, Caller>,
    /// Whether a caller was forgotten. Then what one saw before is not known.
    has_forgotten: bool,
}

#[derive(Debug)]
struct Caller {
    view: View,
    since: HashMap<Kind, Since>,
    /// Of kinds that are not in `since`.
    otherwise: Since,
}

/// Since when a caller sees of a kind what it sees now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    /// As long as it is known.
    Ever,
    /// It has changed, and nobody has asked for the kind since.
    Changed,
    /// It has changed when its journal had reached this version, and the caller has got no list since.
    NotGiven(u64),
    /// The same, and the caller has got a list of this version or a later one.
    Given(u64),
}

impl Callers {
    fn note(&mut self, caller: &str, view: &View) {
        match self.seen.get_mut(caller) {
            Some(known) if known.view == *view => {}
            Some(known) => *known = Caller { view: view.clone(), since: HashMap::new(), otherwise: Since::Changed },
            None => {
                if self.seen.len() >= MOST_CALLERS {
                    self.seen.clear();
                    self.has_forgotten = true;
                }
                let otherwise = if self.has_forgotten { Since::Changed } else { Since::Ever };
                self.seen.insert(caller.to_owned(), Caller { view: view.clone(), since: HashMap::new(), otherwise });
            }
        }
    }

    /// Since when a caller sees of a kind what it sees now; `current` is what the journal of the kind has reached. `None` for a caller that is
    /// not known.
    fn since(&mut self, caller: &str, kind: Kind, current: u64) -> Option<&mut Since> {
        let Caller { since, otherwise, .. } = self.seen.get_mut(caller)?;
        let since = since.entry(kind).or_insert(*otherwise);
        if *since == Since::Changed {
            *since = Since::NotGiven(current);
        }
        Some(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_policy::Subject;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use tempfile::TempDir;

    const ALLOW: &str = "version: 1\nrules:\n- {name: a, effect: allow, subjects: [{user: 7}], documents: [status]}\n";

    struct Place {
        policies: Policies,
        path: PathBuf,
        _folder: TempDir,
    }

    fn place(text: &str) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.yaml");
        write(&path, text);
        Place { policies: Policies::open(Some(path.clone())).unwrap(), path, _folder: folder }
    }

    fn write(path: &Path, text: &str) {
        let new = path.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, Permissions::from_mode(0o644)).unwrap();
        fs::rename(&new, path).unwrap();
    }

    fn view(policies: &Policies) -> View {
        policies.current().view(&Subject::Host { uid: 7, gids: vec![], is_admin: false })
    }

    #[test]
    fn a_file_that_cannot_be_used_leaves_the_policy_of_before() {
        let Place { policies, path, _folder } = place(ALLOW);
        let mut changes = policies.changes();
        for (change, problem) in [
            (
                &(|path: &Path| write(path, "version: 1\nrules: [{name: 1}]\n")) as &dyn Fn(&Path),
                "policy.yaml:2:16: rules[0].name: ",
            ),
            (&|path| fs::remove_file(path).unwrap(), "cannot read the policy in "),
            (
                &|path| {
                    write(path, "version: 1\nrules: []\n");
                    fs::set_permissions(path, Permissions::from_mode(0o664)).unwrap();
                },
                "is not safe",
            ),
            (&|path| write(path, &"# \n".repeat(1 << 19)), "too large"),
        ] {
            change(&path);
            policies.refresh();
            let told = policies.read.lock().problem.clone().unwrap();
            assert!(told.contains(problem), "{told}");
            assert!(!changes.has_changed().unwrap() && !view(&policies).sees_nothing(), "{told}");
        }
        write(&path, "version: 1\nrules: []\n");
        policies.refresh();
        assert!(changes.has_changed().unwrap() && view(&policies).sees_nothing());
        assert_eq!(policies.read.lock().problem, None);
        // The same rules are no change.
        changes.mark_unchanged();
        write(&path, "version: 1\n# none\nrules: []\n");
        policies.refresh();
        assert!(!changes.has_changed().unwrap());
    }

    #[test]
    fn a_start_with_a_bad_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.yaml");
        let refused = || Policies::open(Some(path.clone())).unwrap_err().to_string();
        assert!(refused().starts_with("cannot read the policy in "), "{}", refused());
        write(&path, "version: 1\nrules: []\nmore: hunter2\n");
        let told = refused();
        assert_eq!(told, format!("{}:3:7: a field here is unknown: the fields are version, rules", path.display()));
    }

    #[test]
    fn a_watch_resumes_after_what_was_given_under_todays_view() {
        let Place { policies, path, _folder } = place(ALLOW);
        let resumes = |version, current| policies.may_resume("ann", Kind::Pod, version, current);
        assert!(!resumes(5, 5), "the caller is not known");
        policies.note("ann", &view(&policies));
        assert!(resumes(3, 5));
        write(&path, "version: 1\nrules: []\n");
        policies.refresh();
        policies.note("ann", &view(&policies));
        assert!(!resumes(5, 5) && !resumes(3, 5) && resumes(6, 6), "what was given before the change");
        // A list of the same version, and one of a later version.
        assert!(policies.gives("ann", &view(&policies), Kind::Pod, 5));
        assert!(resumes(5, 6) && !resumes(4, 6));
        write(&path, ALLOW);
        let before = view(&policies);
        policies.refresh();
        policies.note("ann", &view(&policies));
        assert!(!policies.gives("ann", &before, Kind::Pod, 6), "what the caller saw before");
        assert!(!resumes(6, 6));
        assert!(policies.gives("ann", &view(&policies), Kind::Pod, 8));
        assert!(resumes(7, 8) && !resumes(6, 8));
        assert!(resumes(1, 2), "the journal has begun anew");
        assert!(policies.may_resume("ann", Kind::Pod, 1, 9));
        assert!(!policies.may_resume("ann", Kind::Secret, 9, 9), "each kind has its own");
    }

    #[test]
    fn a_caller_that_was_forgotten_lists_again() {
        let Place { policies, .. } = place(ALLOW);
        for caller in 0..=MOST_CALLERS {
            policies.note(&caller.to_string(), &view(&policies));
        }
        assert!(policies.callers.lock().seen.len() <= MOST_CALLERS);
        policies.note("0", &view(&policies));
        assert!(!policies.may_resume("0", Kind::Pod, 1, 1));
    }

    #[test]
    fn without_a_file_nothing_is_remembered() {
        let policies = Policies::open(None).unwrap();
        policies.note("ann", &view(&policies));
        assert!(policies.callers.lock().seen.is_empty() && policies.may_resume("ann", Kind::Pod, 1, 1));
    }
}
