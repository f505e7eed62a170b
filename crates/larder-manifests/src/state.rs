//! What the files had at the last look, and what of it is served.

use crate::broken_pods::BrokenPods;
use crate::document::{self, Hides, Mistake};
use crate::error::Problem;
use crate::folder::{self, Candidate, Stamp, Unread};
use crate::hash::Hash;
use crate::object::Manifest;
use crate::source::ManifestOptions;
use larder_clock::{Clock, Timestamp};
use larder_objects::ObjectKey;
use larder_resource::{DecodeError, Kind, KubeObject, Pod};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The most problems of a file that are reported one by one.
const REPORTED: usize = 10;

/// What is served of Secrets and ConfigMaps, and how far it is to be believed.
#[derive(Default)]
pub(crate) struct Objects {
    pub(crate) served: HashMap<Key, Arc<KubeObject>>,
    /// Those of which the manifest cannot be read any more, and why.
    pub(crate) kept: HashMap<Key, Problem>,
    /// Why an object that is not served may be there all the same, the first reason of all.
    pub(crate) hidden: Option<Problem>,
}

/// What a look at the folder gave.
pub(crate) struct Scan {
    pub(crate) pods: Vec<Arc<Pod>>,
    pub(crate) objects: Objects,
    /// Without times.
    pub(crate) broken_pods: BrokenPods,
    pub(crate) problems: Vec<Problem>,
    /// A file is to be looked at again soon.
    pub(crate) again: bool,
}

/// The version that an object gets which is read at this time, if it is the first: microseconds since the clock's epoch. Versions
/// grow faster only while there is more than one change in each microsecond.
pub fn version_at(now: Timestamp) -> u64 {
    u64::try_from(now.as_nanos() / 1_000).unwrap_or_default()
}

/// All files, as they were when they could last be read.
pub(crate) struct State {
    folder: PathBuf,
    node: String,
    options: ManifestOptions,
    files: BTreeMap<OsString, Contents>,
    /// What is served of each object: what it was, and as which version.
    served: HashMap<Key, (Hash, u64)>,
    clock: Arc<dyn Clock>,
    /// The last version that was given.
    version: u64,
}

pub(crate) type Key = (Kind, ObjectKey);

#[derive(Default)]
struct Contents {
    /// None where the file is to be read again at the next look, changed or not.
    stamp: Option<Stamp>,
    entries: Vec<Entry>,
    problems: Problems,
    /// What is served though the file lacks it now.
    served_as_before: Option<Problem>,
    /// The first problems behind which there may be objects that nobody knows.
    hides: Hides<Option<Problem>>,
    seen_empty: bool,
}

/// The first problems of a file, and how many more there are.
#[derive(Clone, Default)]
struct Problems {
    reported: Vec<Problem>,
    more: usize,
}

impl Problems {
    fn push(&mut self, problem: Problem) {
        if self.reported.len() < REPORTED {
            self.reported.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// All of a file, as they are reported.
    fn report(self, path: &Path) -> impl Iterator<Item = Problem> {
        let more = (self.more > 0).then(|| {
            let more = self.more;
            problem(path, &format!("{more} more problems in this file; mend the first ones to see the next ones"))
        });
        self.reported.into_iter().chain(more)
    }
}

/// What came of a look at a file.
enum Looked {
    Done,
    /// It is to be looked at again soon.
    Again,
    /// It is not there any more.
    Gone,
    /// The look was cancelled.
    Cancelled,
}

struct Entry {
    key: Key,
    fingerprint: Hash,
    version: u64,
    document: usize,
    line: usize,
    object: Held,
    /// It is not in the file as that can be read now.
    kept: bool,
}

#[derive(Clone)]
enum Held {
    Pod(Arc<Pod>),
    Object(Arc<KubeObject>),
}

impl Held {
    fn new(kind: Kind, json: &[u8]) -> Result<Self, DecodeError> {
        if kind == Kind::Pod {
            Pod::from_json(json).map(|pod| Self::Pod(pod.into()))
        } else {
            KubeObject::from_json(kind, json).map(|object| Self::Object(object.into()))
        }
    }

    fn object(&self) -> &KubeObject {
        match self {
            Self::Pod(pod) => pod,
            Self::Object(object) => object,
        }
    }

    /// The same object under another version.
    fn versioned(&self, version: u64) -> Result<Self, DecodeError> {
        let mut value: serde_json::Value = self.object().decode()?;
        value["metadata"]["resourceVersion"] = version.to_string().into();
        Self::new(self.object().kind(), value.to_string().as_bytes())
    }
}

impl State {
    /// Nothing has been looked at.
    pub(crate) fn new(folder: PathBuf, node: String, options: ManifestOptions, clock: Arc<dyn Clock>) -> Self {
        Self { folder, node, options, files: BTreeMap::new(), served: HashMap::new(), clock, version: 0 }
    }

    /// Looks at the folder, and reads what has changed.
    ///
    /// # Errors
    ///
    /// Why the folder cannot be read; [`io::ErrorKind::Interrupted`] after cancellation, with which the state is no more of use.
    pub(crate) fn scan(&mut self, cancelled: &CancellationToken) -> io::Result<Scan> {
        let (candidates, more) = folder::list(&self.folder, self.options.max_files)?;
        self.look(candidates, more, cancelled)
    }

    /// Reads of these files those that have changed; `more` if the folder has more than these.
    fn look(&mut self, candidates: Vec<Candidate>, more: bool, cancelled: &CancellationToken) -> io::Result<Scan> {
        // A journal gives a version of its own to each object that goes. Versions that follow the clock are above those.
        self.version = self.version.max(version_at(self.clock.now()));
        let names: HashSet<_> = candidates.iter().map(|candidate| candidate.name.clone()).collect();
        self.files.retain(|name, _| names.contains(name));
        let mut again = false;
        for candidate in candidates {
            let mut contents = self.files.remove(&candidate.name).unwrap_or_default();
            let looked = match candidate.stamp {
                Ok(stamp) if contents.stamp == Some(stamp) => Looked::Done,
                Ok(_) => self.read(&candidate.path, &mut contents, cancelled),
                Err(problem) => {
                    unread(&candidate.path, &mut contents, &problem);
                    Looked::Done
                }
            };
            match looked {
                Looked::Done => {}
                Looked::Gone if folder::identity(&self.folder).is_ok() => continue,
                // What has gone with its folder is kept. The next look meets the folder.
                Looked::Again | Looked::Gone => again = true,
                Looked::Cancelled => return Err(io::ErrorKind::Interrupted.into()),
            }
            self.files.insert(candidate.name, contents);
        }
        let mut scan = self.merge();
        scan.again = again;
        if more {
            let problem = format!(
                "it has more than {} manifest files; those that sort last are not read",
                self.options.max_files
            );
            let problem = Problem { file: self.folder.clone(), document: None, line: None, column: None, problem };
            scan.objects.hidden.get_or_insert_with(|| problem.clone());
            scan.broken_pods.hiding.get_or_insert_with(|| problem.clone().into());
            scan.problems.push(problem);
        }
        Ok(scan)
    }

    /// Reads a file into what is known of it.
    fn read(&mut self, path: &Path, contents: &mut Contents, cancelled: &CancellationToken) -> Looked {
        let (text, stamp) = match folder::read(path, self.options.max_file_bytes) {
            Ok(read) => read,
            Err(Unread::Gone) => return Looked::Gone,
            Err(Unread::Problem(problem)) => {
                unread(path, contents, &problem);
                return Looked::Again;
            }
        };
        let mut found = document::read(&text).peekable();
        if found.peek().is_none() && !contents.entries.is_empty() && !contents.seen_empty {
            unread(path, contents, "it has become empty");
            contents.seen_empty = true;
            return Looked::Again;
        }
        let old = std::mem::take(&mut contents.entries);
        let mut known = HashMap::with_capacity(old.len());
        for entry in &old {
            known.entry((&entry.key, entry.fingerprint)).or_insert(entry);
        }
        let mut problems = Problems::default();
        (contents.hides, contents.served_as_before) = (Hides::default(), None);
        for found in found {
            if cancelled.is_cancelled() {
                return Looked::Cancelled;
            }
            let made = found.result.and_then(|manifest| {
                self.entry(manifest, path, &known, found.document, found.line).map_err(Mistake::from)
            });
            match made {
                Ok(entry) => contents.entries.push(entry),
                Err(Mistake { problem, hides }) => {
                    let (document, line) = (Some(found.document), Some(found.line));
                    let problem = Problem { file: path.to_owned(), document, line, column: found.column, problem };
                    let Hides { objects, pods } = &mut contents.hides;
                    for (_, first) in
                        [(hides.objects, objects), (hides.pods, pods)].into_iter().filter(|(hides, _)| *hides)
                    {
                        first.get_or_insert_with(|| problem.clone());
                    }
                    problems.push(problem);
                }
            }
        }
        if !problems.reported.is_empty() {
            let has: HashSet<Key> = contents.entries.iter().map(|entry| entry.key.clone()).collect();
            let kept = old.into_iter().filter(|entry| !has.contains(&entry.key));
            let kept: Vec<Entry> = kept.map(|entry| Entry { kept: true, ..entry }).collect();
            if !kept.is_empty() {
                let text = format!("served as before until that is mended: {}", names(&kept));
                contents.served_as_before = Some(problem(path, &text));
            }
            contents.entries.extend(kept);
        }
        contents.problems = problems;
        contents.stamp = Some(stamp);
        contents.seen_empty = false;
        Looked::Done
    }

    /// An object of a file; the one from before where it is the same.
    fn entry(
        &mut self,
        mut manifest: Manifest,
        path: &Path,
        known: &HashMap<(&Key, Hash), &Entry>,
        document: usize,
        line: usize,
    ) -> Result<Entry, String> {
        manifest.settle(&self.node, &path.to_string_lossy());
        let key = (manifest.kind, ObjectKey::new(&manifest.namespace, &manifest.name));
        let fingerprint = manifest.fingerprint();
        let same = known.get(&(&key, fingerprint)).map(|same| (same.version, same.object.clone()));
        if let Some((version, object)) = same {
            return Ok(Entry { key, fingerprint, version, document, line, object, kept: false });
        }
        self.version += 1;
        let json = zeroize::Zeroizing::new(manifest.versioned(self.version));
        let object = Held::new(manifest.kind, &json).map_err(|error| error.to_string())?;
        Ok(Entry { key, fingerprint, version: self.version, document, line, object, kept: false })
    }

    /// Of all files' objects those that are served, and all problems in the order of the files.
    fn merge(&mut self) -> Scan {
        let mut problems = Vec::new();
        let mut winners: HashMap<Key, (PathBuf, usize)> = HashMap::new();
        let mut uids: HashMap<Box<str>, Key> = HashMap::new();
        let (mut pods, mut objects, mut broken_pods) = (Vec::new(), Objects::default(), BrokenPods::default());
        let mut served = HashMap::with_capacity(self.served.len());
        for (name, contents) in &mut self.files {
            let path = self.folder.join(name);
            let mut of_file = contents.problems.clone();
            if objects.hidden.is_none() {
                objects.hidden.clone_from(&contents.hides.objects);
            }
            if broken_pods.hiding.is_none() {
                broken_pods.hiding = contents.hides.pods.clone().map(Into::into);
            }
            for entry in &mut contents.entries {
                let mut refuse = |problem: String| {
                    let (document, line) = (Some(entry.document), Some(entry.line));
                    of_file.push(Problem { file: path.clone(), document, line, column: None, problem });
                };
                let (kind, key) = &entry.key;
                if let Some((file, line)) = winners.get(&entry.key) {
                    refuse(format!(
                        "{kind} {key} stands already in {}:{line}, which is served; rename or remove one of them",
                        file.display()
                    ));
                    continue;
                }
                if let Held::Pod(pod) = &entry.object
                    && let Some((_, other)) = uids.get(pod.runtime_uid())
                {
                    refuse(format!("Pod {key} has the UID of Pod {other}, which is served; remove metadata.uid"));
                    continue;
                }
                // One that was hidden by another until now, or comes from another file, is a change of what is served.
                if let Some((fingerprint, version)) = self.served.get(&entry.key)
                    && *fingerprint != entry.fingerprint
                    && entry.version <= *version
                {
                    match entry.object.versioned(self.version + 1) {
                        Ok(object) => {
                            self.version += 1;
                            (entry.object, entry.version) = (object, self.version);
                        }
                        Err(error) => refuse(error.to_string()),
                    }
                }
                winners.insert(entry.key.clone(), (path.clone(), entry.line));
                served.insert(entry.key.clone(), (entry.fingerprint, entry.version));
                // Where all that can be read is of other kinds, the first that is wrong stands for all.
                let why = |hides: &Option<Problem>| {
                    let why = hides.as_ref().or(contents.problems.reported.first());
                    why.filter(|_| entry.kept).cloned()
                };
                match &entry.object {
                    Held::Pod(pod) => {
                        uids.insert(pod.runtime_uid().into(), entry.key.clone());
                        pods.push(Arc::clone(pod));
                        if let Some(why) = why(&contents.hides.pods) {
                            broken_pods.stale.insert(key.clone(), why.into());
                        }
                    }
                    Held::Object(object) => {
                        objects.served.insert(entry.key.clone(), Arc::clone(object));
                        if let Some(why) = why(&contents.hides.objects) {
                            objects.kept.insert(entry.key.clone(), why);
                        }
                    }
                }
            }
            problems.extend(of_file.report(&path));
            problems.extend(contents.served_as_before.clone());
        }
        self.served = served;
        Scan { pods, objects, broken_pods, problems, again: false }
    }
}

/// A file of which nothing can be said now: what it had is kept, and the file is read again at the next look.
fn unread(path: &Path, contents: &mut Contents, why: &str) {
    let mut text = why.to_owned();
    if !contents.entries.is_empty() {
        text.push_str("; served as before until it can be read: ");
        text.push_str(&names(&contents.entries));
    }
    for entry in &mut contents.entries {
        entry.kept = true;
    }
    let hides = Some(problem(path, why));
    contents.hides = Hides { objects: hides.clone(), pods: hides };
    contents.problems = Problems { reported: vec![problem(path, &text)], more: 0 };
    contents.served_as_before = None;
    contents.stamp = None;
}

fn problem(path: &Path, text: &str) -> Problem {
    Problem { file: path.to_owned(), document: None, line: None, column: None, problem: text.to_owned() }
}

/// The first few names, for a report.
fn names(entries: &[Entry]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> =
        entries.iter().take(SHOWN).map(|entry| format!("{} {}", entry.key.0, entry.key.1)).collect();
    let more = entries.len().saturating_sub(SHOWN);
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

#[cfg(test)]
mod tests;
