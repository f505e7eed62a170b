//! A folder of manifests followed through real changes of real files.

use larder_clock::{Clock, MonotonicClock, VirtualClock};
use larder_manifests::{ManifestError, ManifestOptions, ManifestReader, ManifestSource};
use larder_objects::{Fetch, FetchError, FreshState, ObjectKey, ReadKind, Source};
use larder_resource::{Change, ObjectKind};
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A source that runs, and ends with the test.
struct Running {
    reader: ManifestReader,
    cancelled: CancellationToken,
    run: JoinHandle<()>,
}

impl Running {
    /// With a rescan so rare that a change must be noticed by itself.
    async fn on(folder: &Path) -> Self {
        Self::with(folder, options(Duration::from_hours(1))).await
    }

    async fn with(folder: &Path, options: ManifestOptions) -> Self {
        let source = ManifestSource::new(folder, "n1", MonotonicClock::new(), options).unwrap();
        let (reader, cancelled) = (source.reader(), CancellationToken::new());
        let run = tokio::spawn(source.run(cancelled.clone()));
        assert!(reader.pods().synced().await);
        Self { reader, cancelled, run }
    }

    async fn stop(self) -> ManifestReader {
        self.cancelled.cancel();
        self.run.await.unwrap();
        self.reader
    }
}

/// Changes are noticed soon, and looked for as often as this.
fn options(rescan: Duration) -> ManifestOptions {
    let mut options = ManifestOptions::default();
    options.settle = Duration::from_millis(5);
    options.rescan = rescan;
    options
}

/// Waits for a condition, a minute at most.
async fn until(mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), wait).await.expect("it comes within the minute");
}

fn pod(name: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: i}}]}}\n"
    )
}

fn secret(name: &str, value: &str) -> String {
    format!("---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{a: {value}}}\n")
}

#[tokio::test]
async fn pods_secrets_and_config_maps_follow_the_files() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a.yaml"), pod("web") + &secret("tls", "one")).unwrap();
    let running = Running::on(folder.path()).await;
    let reader = &running.reader;
    let mut changes = reader.pods().changes();
    assert!(matches!(changes.next().await, Some(Change::Resync(all)) if all.len() == 1 && all[0].name() == "web"));

    let fetcher = reader.fetcher(ObjectKind::Secret);
    assert_eq!(fetcher.source(ReadKind::Consistent), Source::Manifest);
    let key = ObjectKey::new("default", "tls");
    let first = fetcher.fetch(&key, ReadKind::Consistent).await.unwrap();
    assert!(std::str::from_utf8(&first.json()).unwrap().contains("b25l"));

    fs::write(folder.path().join("b.yaml"), pod("db")).unwrap();
    assert!(matches!(changes.next().await, Some(Change::Set { new, old: None }) if new.name() == "db"));
    fs::write(folder.path().join("a.yaml"), secret("tls", "two")).unwrap();
    assert!(matches!(changes.next().await, Some(Change::Removed(old)) if old.name() == "web"));
    let second = fetcher.fetch(&key, ReadKind::Consistent).await.unwrap();
    assert!(std::str::from_utf8(&second.json()).unwrap().contains("dHdv"));
    let order = larder_objects::resource_version_order;
    assert!(order(second.resource_version()) > order(first.resource_version()));

    fs::remove_file(folder.path().join("a.yaml")).unwrap();
    until(|| reader.objects(ObjectKind::Secret).is_empty()).await;
    let error = fetcher.fetch(&key, ReadKind::Consistent).await.unwrap_err();
    assert!(
        error.is_not_found() && error.to_string().starts_with("Secret default/tls is in no manifest of "),
        "{error}"
    );
    assert!(
        matches!(reader.pods().freshness(), Some(freshness) if freshness.is_fresh() && freshness.source == Source::Manifest)
    );

    let reader = running.stop().await;
    assert_eq!(reader.pods().list().len(), 1, "what was known stays");
    assert!(matches!(reader.pods().freshness().unwrap().state, FreshState::Stale { .. }));
}

#[tokio::test]
async fn problems_come_and_go_with_the_files() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.yaml");
    fs::write(&path, pod("web") + "---\nkind: [\n").unwrap();
    let running = Running::on(folder.path()).await;
    let problems = running.reader.problems();
    assert_eq!((problems.len(), problems[0].document, &problems[0].file), (1, Some(2), &path));
    assert!(problems[0].to_string().starts_with(&format!("{}:7:7: document 2: ", path.display())), "{}", problems[0]);
    fs::write(&path, pod("web")).unwrap();
    until(|| running.reader.problems().is_empty()).await;
    running.stop().await;
}

/// With time and memory that grow with the square of the documents this would not end within the minute.
#[tokio::test]
async fn a_file_with_very_many_bad_documents_holds_up_no_other_file() {
    let folder = TempDir::new().unwrap();
    let running = Running::on(folder.path()).await;
    fs::write(folder.path().join("a.yaml"), "---\na: 1\n".repeat(50_000)).unwrap();
    fs::write(folder.path().join("b.yaml"), pod("web")).unwrap();
    until(|| running.reader.pods().get("default", "web").is_some()).await;
    let problems = running.reader.problems();
    assert!(problems.len() < 20, "{} problems", problems.len());
    assert!(problems.last().unwrap().to_string().contains(" more problems in this file"), "{problems:?}");
    fs::write(folder.path().join("b.yaml"), pod("db")).unwrap();
    until(|| running.reader.pods().get("default", "db").is_some()).await;
    running.stop().await;
}

#[tokio::test]
async fn a_file_swapped_in_by_rename_is_noticed() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a.yaml"), pod("web")).unwrap();
    let running = Running::on(folder.path()).await;
    fs::write(folder.path().join(".new"), pod("db")).unwrap();
    fs::rename(folder.path().join(".new"), folder.path().join("a.yaml")).unwrap();
    until(|| running.reader.pods().get("default", "db").is_some()).await;
    assert!(running.reader.pods().get("default", "web").is_none());
    running.stop().await;
}

#[tokio::test]
async fn a_change_that_gives_no_sign_is_seen_at_the_rescan() {
    let (folder, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let target = elsewhere.path().join("a.yaml");
    fs::write(&target, pod("web")).unwrap();
    std::os::unix::fs::symlink(&target, folder.path().join("a.yaml")).unwrap();
    let running = Running::with(folder.path(), options(Duration::from_millis(20))).await;
    fs::write(&target, pod("web") + &pod("db")).unwrap();
    until(|| running.reader.pods().list().len() == 2).await;
    running.stop().await;
}

#[tokio::test]
async fn a_folder_that_goes_leaves_what_was_known_and_another_one_takes_its_place() {
    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("manifests");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a.yaml"), pod("web")).unwrap();
    fs::write(folder.join("b.yaml"), secret("key", "v1")).unwrap();
    let running = Running::with(&folder, options(Duration::from_millis(20))).await;
    let pods = running.reader.pods().clone();
    let secrets = running.reader.fetcher(ObjectKind::Secret);
    let key = ObjectKey::new("default", "key");
    assert!(secrets.fetch(&key, ReadKind::Consistent).await.is_ok());
    fs::rename(&folder, parent.path().join("away")).unwrap();
    until(|| !pods.status().connected).await;
    assert!(pods.get("default", "web").is_some());
    // What is in memory is not confirmed by a look at it.
    let error = secrets.fetch(&key, ReadKind::Consistent).await.unwrap_err();
    assert!(matches!(error, ManifestError::Lost { .. }), "{error}");
    let fault = pods.status().last_fault.unwrap();
    assert_eq!(fault.class, "unreadable");
    assert!(fault.error.to_string().contains(&folder.display().to_string()), "{}", fault.error);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a.yaml"), pod("db")).unwrap();
    until(|| pods.get("default", "db").is_some()).await;
    assert!(pods.status().connected && pods.get("default", "web").is_none());
    running.stop().await;
}

#[test]
fn a_folder_that_is_not_there_is_said_at_once() {
    let new = |path: &Path, options| ManifestSource::new(path, "n1", VirtualClock::default(), options).map(|_| ());
    let error = new(Path::new("/none"), ManifestOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "manifest folder /none: No such file or directory (os error 2); give a folder that this process may read with --manifests"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(new(file.path(), ManifestOptions::default()).unwrap_err().to_string().contains("Not a directory"));
    let mut options = ManifestOptions::default();
    options.rescan = Duration::ZERO;
    let error = new(Path::new("/none"), options).unwrap_err();
    assert_eq!(error.to_string(), "setting rescan: must be longer than nothing and at most a day");
}

#[tokio::test]
async fn before_the_first_look_absence_says_nothing() {
    let folder = TempDir::new().unwrap();
    let clock = MonotonicClock::new();
    let source = ManifestSource::new(folder.path(), "n1", clock, ManifestOptions::default()).unwrap();
    let fetcher = source.reader().fetcher(ObjectKind::ConfigMap);
    let error = fetcher.fetch(&ObjectKey::new("default", "a"), ReadKind::Consistent).await.unwrap_err();
    assert!(matches!(error, ManifestError::NotRead { .. }) && !error.is_not_found());
    assert!(clock.now() > larder_clock::Timestamp::ZERO);
}
