//! Follows a folder of manifests.

use crate::broken_pods::BrokenPods;
use crate::error::{ManifestError, Problem};
use crate::fetch::ManifestFetch;
use crate::folder;
use crate::state::{Objects, Scan, State};
use larder_clock::Clock;
use larder_objects::{FetchError, ObjectKey, Source};
use larder_resource::{Kind, KubeObject, ObjectKind, Pod, SourceReader, SourceWriter, source};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::RwLock;
use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// The longest that a look at the folder may take before it counts as failed; it is waited for all the same, since a system
/// call cannot be taken back.
const SLOW: Duration = Duration::from_secs(30);

/// How soon a file is looked at again that could not be read, or had become empty.
const AGAIN: Duration = Duration::from_secs(1);

/// Settings of a [`ManifestSource`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ManifestOptions {
    /// How long the folder must have been quiet before it is read. 100 ms: an editor writes in several steps. While it is
    /// never quiet, it is read after ten times this.
    pub settle: Duration,
    /// How often it is read without any sign of change. 20 s, as the kubelet does: a change behind a link or on a network
    /// file system gives no sign.
    pub rescan: Duration,
    /// The largest file that is read, in bytes. 10 MiB, as the kubelet's.
    pub max_file_bytes: u64,
    /// The most files that are read, the first by name. 1,000: a node has some hundred pods.
    pub max_files: usize,
}

impl Default for ManifestOptions {
    fn default() -> Self {
        Self {
            settle: Duration::from_millis(100),
            rescan: Duration::from_secs(20),
            max_file_bytes: 10 << 20,
            max_files: 1_000,
        }
    }
}

impl ManifestOptions {
    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// [`ManifestError::InvalidOption`] with the first field that makes no sense.
    pub fn validate(&self) -> Result<(), ManifestError> {
        let invalid = |field, problem| Err(ManifestError::InvalidOption { field, problem });
        if self.rescan.is_zero() || self.rescan > Duration::from_hours(24) {
            return invalid("rescan", "must be longer than nothing and at most a day");
        }
        if self.settle > Duration::from_mins(1) {
            return invalid("settle", "must be at most a minute");
        }
        if self.max_file_bytes == 0 || u32::try_from(self.max_file_bytes).is_err() {
            return invalid("max_file_bytes", "must be at least 1 byte and less than 4 GiB");
        }
        if self.max_files == 0 {
            return invalid("max_files", "must be at least 1");
        }
        Ok(())
    }
}

struct Shared {
    folder: PathBuf,
    pods: SourceReader<Pod>,
    objects: RwLock<Arc<Objects>>,
    broken_pods: RwLock<Arc<BrokenPods>>,
    problems: RwLock<Arc<[Problem]>>,
}

/// What is known of the manifests. Clones share it; it outlives the source, with what was last known.
#[derive(Clone)]
pub struct ManifestReader {
    shared: Arc<Shared>,
}

impl ManifestReader {
    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.shared.folder
    }

    /// The pods, with the state of the whole source: synced, last read, last fault.
    pub fn pods(&self) -> &SourceReader<Pod> {
        &self.shared.pods
    }

    /// Which pods are stale or not known, because a manifest cannot be read. A caller reads this before the pods: the pods of a
    /// mended manifest are there before this says that the manifest is mended.
    pub fn broken_pods(&self) -> Arc<BrokenPods> {
        Arc::clone(&self.shared.broken_pods.read())
    }

    /// A Secret or a ConfigMap.
    pub fn object(&self, kind: ObjectKind, namespace: &str, name: &str) -> Option<Arc<KubeObject>> {
        self.objects_now().served.get(&(kind.into(), ObjectKey::new(namespace, name))).cloned()
    }

    /// All Secrets, or all ConfigMaps, ordered by namespace and name.
    pub fn objects(&self, kind: ObjectKind) -> Vec<Arc<KubeObject>> {
        let kind = Kind::from(kind);
        let mut all: Vec<_> = self
            .objects_now()
            .served
            .iter()
            .filter(|((is, _), _)| *is == kind)
            .map(|(key, object)| (key.1.clone(), Arc::clone(object)))
            .collect();
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all.into_iter().map(|(_, object)| object).collect()
    }

    /// All that is not served as it stands in the files, in the order of the files.
    pub fn problems(&self) -> Arc<[Problem]> {
        Arc::clone(&self.shared.problems.read())
    }

    /// Reads of Secrets or ConfigMaps, for a store of `larder-objects`.
    pub fn fetcher(&self, kind: ObjectKind) -> ManifestFetch {
        ManifestFetch::new(self.clone(), kind)
    }

    pub(crate) fn objects_now(&self) -> Arc<Objects> {
        Arc::clone(&self.shared.objects.read())
    }
}

impl fmt::Debug for ManifestReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManifestReader")
            .field("folder", &self.shared.folder)
            .field("pods", &self.shared.pods)
            .field("objects", &self.objects_now().served.len())
            .field("problems", &self.problems().len())
            .finish()
    }
}

/// Follows a folder of manifests for as long as it is run; what it knows is read through its [`reader`](Self::reader).
///
/// # Cancel safety
///
/// Cancelling or dropping the run ends the watching. A look at the folder that is under way runs on tokio's pool for what
/// blocks, and ends after the document that it reads.
pub struct ManifestSource {
    state: State,
    options: ManifestOptions,
    writer: SourceWriter<Pod>,
    reader: ManifestReader,
}

impl ManifestSource {
    /// The manifests of a folder, for the node of this name. The clock is for the times in status and freshness, and for
    /// versions (see [`version_at`](crate::version_at)).
    ///
    /// # Errors
    ///
    /// [`ManifestError::Folder`] where the folder cannot be read, [`ManifestError::InvalidOption`] for a setting that makes no
    /// sense.
    pub fn new(
        folder: impl AsRef<Path>,
        node: &str,
        clock: impl Clock,
        options: ManifestOptions,
    ) -> Result<Self, ManifestError> {
        options.validate()?;
        let given = folder.as_ref();
        let folder = std::path::absolute(given).unwrap_or_else(|_| given.to_owned());
        folder::list(&folder, 1).map_err(|error| unreadable(&folder, error))?;
        let clock: Arc<dyn Clock> = Arc::new(clock);
        let (writer, pods) = source::new(Source::Manifest, Arc::clone(&clock));
        let shared = Shared {
            folder: folder.clone(),
            pods,
            objects: RwLock::default(),
            broken_pods: RwLock::default(),
            problems: RwLock::new(Arc::new([])),
        };
        let state = State::new(folder, node.to_owned(), options.clone(), clock);
        Ok(Self { state, options, writer, reader: ManifestReader { shared: Arc::new(shared) } })
    }

    /// What is known, for as many readers as wanted.
    pub fn reader(&self) -> ManifestReader {
        self.reader.clone()
    }

    /// Follows until it is cancelled. A folder that cannot be read any more is looked at again and again.
    pub async fn run(self, cancelled: CancellationToken) {
        let looks = cancelled.child_token();
        let _dropped = looks.clone().drop_guard();
        cancelled.run_until_cancelled(self.follow(looks)).await;
    }

    async fn follow(self, cancelled: CancellationToken) {
        let Self { mut state, options, mut writer, reader } = self;
        let mut watching = Watching::new(&reader.shared.folder);
        loop {
            // A file system that does not answer holds up a thread of the pool, not the runtime.
            let ended = cancelled.clone();
            let mut look = tokio::task::spawn_blocking(move || {
                watching.renew();
                let scan = state.scan(&ended);
                (state, watching, scan)
            });
            let looked = loop {
                if let Ok(looked) = timeout(SLOW, &mut look).await {
                    break looked;
                }
                let error = ManifestError::Slow { path: reader.shared.folder.clone(), after: SLOW };
                tracing::warn!(%error);
                writer.failed(error.class(), Arc::new(error));
            };
            let Ok((looked_at, watched, scan)) = looked else {
                tracing::error!(folder = %reader.shared.folder.display(), "reading the manifests has failed for good");
                return;
            };
            (state, watching) = (looked_at, watched);
            let mut pause = options.rescan;
            match scan {
                Ok(scan) => {
                    if scan.again {
                        pause = pause.min(AGAIN);
                    }
                    publish(&reader.shared, &mut writer, scan);
                }
                Err(error) => {
                    let error = unreadable(&reader.shared.folder, error);
                    if reader.pods().status().failures == 0 {
                        tracing::warn!(%error, "cannot read the manifests; larder keeps serving what it knows, as stale");
                    }
                    writer.failed(error.class(), Arc::new(error));
                }
            }
            watching.quiet(Instant::now() + pause, options.settle).await;
        }
    }
}

impl fmt::Debug for ManifestSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManifestSource").field("reader", &self.reader).finish_non_exhaustive()
    }
}

fn unreadable(folder: &Path, error: io::Error) -> ManifestError {
    ManifestError::Folder { path: folder.to_owned(), source: error.into() }
}

/// Makes a look at the folder known: Secrets and ConfigMaps before the pods that may refer to them.
fn publish(shared: &Shared, writer: &mut SourceWriter<Pod>, scan: Scan) {
    let before = Arc::clone(&shared.problems.read());
    let known: HashSet<&Problem> = before.iter().collect();
    for problem in scan.problems.iter().filter(|problem| !known.contains(problem)) {
        tracing::warn!("{problem}");
    }
    if scan.problems.is_empty() && !before.is_empty() {
        tracing::info!(folder = %shared.folder.display(), "all manifests are served as they are");
    }
    *shared.problems.write() = scan.problems.into();
    *shared.objects.write() = Arc::new(scan.objects);
    let mut broken_pods = scan.broken_pods;
    broken_pods.date(&shared.broken_pods.read(), shared.pods.status().last_contact);
    writer.replace(scan.pods, "");
    *shared.broken_pods.write() = Arc::new(broken_pods);
}

/// Tells when something in the folder has changed. Without it (no inotify left), only the rescans do.
struct Watching {
    folder: PathBuf,
    changed: Arc<Notify>,
    watcher: Option<RecommendedWatcher>,
    /// What is watched; another folder may come under the same name.
    watched: Option<(u64, u64)>,
}

impl Watching {
    fn new(folder: &Path) -> Self {
        let changed = Arc::new(Notify::new());
        let tell = Arc::clone(&changed);
        // One permit stands for any number of changes, so nothing grows while nobody looks.
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| event.kind.is_access()) {
                return;
            }
            tell.notify_one();
        });
        let watcher = watcher.inspect_err(|error| {
            tracing::warn!(%error, "changes of manifests cannot be watched, they are seen at the regular rescan only");
        });
        Self { folder: folder.to_owned(), changed, watcher: watcher.ok(), watched: None }
    }

    /// Watches the folder of this name, if that is not the one that is watched.
    fn renew(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let now = folder::identity(&self.folder).ok();
        if now == self.watched {
            return;
        }
        if self.watched.take().is_some() {
            // An error means that it is gone already.
            let _ = watcher.unwatch(&self.folder);
        }
        if now.is_some() && watcher.watch(&self.folder, RecursiveMode::NonRecursive).is_ok() {
            self.watched = now;
        }
    }

    /// Returns when something has changed and the folder has been quiet since, or at that time.
    async fn quiet(&self, latest: Instant, settle: Duration) {
        tokio::select! {
            () = self.changed.notified() => {}
            () = sleep_until(latest) => return,
        }
        let patience = Instant::now() + settle * 10;
        loop {
            let until = patience.min(Instant::now() + settle);
            tokio::select! {
                () = self.changed.notified(), if Instant::now() < patience => {}
                () = sleep_until(until) => return,
            }
        }
    }
}
