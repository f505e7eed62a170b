//! What a folder's files make of what is held.

use super::*;
use larder_clock::VirtualClock;
use rustix::fs::{CWD, Mode, mkfifoat};
use std::fs;
use std::os::unix::net::UnixListener;
use std::time::Duration;
use tempfile::TempDir;

struct Folder {
    dir: TempDir,
    state: State,
    clock: VirtualClock,
}

impl Folder {
    fn new() -> Self {
        Self::with(ManifestOptions::default())
    }

    fn with(options: ManifestOptions) -> Self {
        let dir = TempDir::new().unwrap();
        let clock = VirtualClock::new(Timestamp::from_nanos(100_999));
        let state = State::new(dir.path().to_owned(), "n1".to_owned(), options, Arc::new(clock.clone()));
        Self { dir, state, clock }
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.dir.path().join(file), text).unwrap();
    }

    fn remove(&self, file: &str) {
        fs::remove_file(self.dir.path().join(file)).unwrap();
    }

    fn scan(&mut self) -> Seen {
        Seen::new(&self.state.scan(&CancellationToken::new()).unwrap(), self.dir.path())
    }
}

/// What is served, as `kind namespace/name@version value`, and the problems without the folder's name.
#[derive(Debug)]
struct Seen {
    objects: Vec<String>,
    problems: Vec<String>,
    again: bool,
}

impl Seen {
    fn new(scan: &Scan, folder: &Path) -> Self {
        let mut objects: Vec<String> = scan
            .objects
            .served
            .values()
            .map(|object| {
                let value: serde_json::Value = object.decode().unwrap();
                let data = value["data"]["a"].as_str().unwrap_or_default();
                format!("{} {}@{} {data}", object.kind(), object.key(), object.resource_version()).trim_end().to_owned()
            })
            .chain(scan.pods.iter().map(|pod| format!("Pod {}@{}", pod.key(), pod.resource_version())))
            .collect();
        objects.sort();
        let folder = format!("{}", folder.display());
        let problems = scan
            .problems
            .iter()
            .map(|problem| problem.to_string().replace(&format!("{folder}/"), "").replace(&folder, "."))
            .collect();
        Self { objects, problems, again: scan.again }
    }
}

fn map(name: &str, data: &str) -> String {
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata: {{a: '{data}'}}\n")
}

fn pod(name: &str, uid: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: '{uid}'}}\nspec: {{containers: [{{name: c, image: i}}]}}\n"
    )
}

#[test]
fn versions_follow_the_clock_and_never_go_back() {
    let mut folder = Folder::new();
    folder.write("a.yaml", &(map("a", "1") + &map("b", "1")));
    assert_eq!(folder.scan().objects, ["ConfigMap default/a@101 1", "ConfigMap default/b@102 1"]);
    folder.write("a.yaml", &(map("a", "22") + &map("b", "1")));
    assert_eq!(folder.scan().objects, ["ConfigMap default/a@103 22", "ConfigMap default/b@102 1"]);
    folder.clock.advance(Duration::from_micros(50));
    folder.write("a.yaml", &(map("a", "22") + &map("b", "333")));
    assert_eq!(folder.scan().objects, ["ConfigMap default/a@103 22", "ConfigMap default/b@151 333"]);
}

#[test]
fn what_changes_gets_a_higher_version_and_nothing_else_does() {
    let mut folder = Folder::new();
    folder.write("a.yaml", &(map("x", "1") + &map("yy", "1")));
    folder.write("b.yml", &pod("p", "u1"));
    assert_eq!(folder.scan().objects, ["ConfigMap default/x@101 1", "ConfigMap default/yy@102 1", "Pod default/p@103"]);
    folder.write("a.yaml", &(map("yy", "1") + &map("x", "2")));
    folder.write("c.json", r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}"#);
    let seen = folder.scan();
    assert_eq!(
        seen.objects,
        ["ConfigMap default/x@104 2", "ConfigMap default/yy@102 1", "Pod default/p@103", "Secret default/s@105"]
    );
    assert!(seen.problems.is_empty() && !seen.again);
    folder.remove("a.yaml");
    assert_eq!(folder.scan().objects, ["Pod default/p@103", "Secret default/s@105"]);
    folder.write("a.yaml", &map("x", "2"));
    assert!(folder.scan().objects.contains(&"ConfigMap default/x@106 2".to_owned()), "it is another one");
}

#[test]
fn only_manifest_files_are_read() {
    let mut folder = Folder::new();
    for file in ["a.txt", "b", ".hidden.yaml", "c.yaml~", "d.yaml.bak"] {
        folder.write(file, &map("x", "1"));
    }
    fs::create_dir(folder.dir.path().join("e")).unwrap();
    let seen = folder.scan();
    assert!(seen.objects.is_empty() && seen.problems.is_empty(), "{seen:?}");
}

#[test]
fn what_takes_the_place_of_a_file_and_is_none_is_a_problem_of_that_file() {
    let mut folder = Folder::new();
    let path = folder.dir.path().join("a.yaml");
    let replace: [(&str, &dyn Fn()); 4] = [
        ("a FIFO", &|| mkfifoat(CWD, &path, Mode::RUSR).unwrap()),
        ("a directory", &|| fs::create_dir(&path).unwrap()),
        ("a socket", &|| drop(UnixListener::bind(&path).unwrap())),
        ("a device", &|| std::os::unix::fs::symlink("/dev/zero", &path).unwrap()),
    ];
    for (what, replace) in replace {
        folder.write("a.yaml", &map("x", what));
        assert!(folder.scan().problems.is_empty());
        fs::remove_file(&path).unwrap();
        replace();
        let seen = folder.scan();
        assert!(seen.objects.len() == 1 && seen.objects[0].ends_with(what), "{seen:?}");
        let says = format!(
            "a.yaml: it is {what}; put a regular file in its place, or give it another ending; served as before until it \
             can be read: ConfigMap default/x"
        );
        assert_eq!(seen.problems, [says]);
        // What took its place between the list and the read.
        assert!(matches!(folder::read(&path, 10), Err(Unread::Problem(_))));
        if path.is_dir() { fs::remove_dir(&path) } else { fs::remove_file(&path) }.unwrap();
    }
    assert!(folder.scan().objects.is_empty(), "then it is gone");
}

#[test]
fn a_file_that_goes_while_it_is_looked_at_is_gone() {
    let mut folder = Folder::new();
    folder.write("a.yaml", &map("x", "1"));
    folder.write("b.yaml", &map("yy", "1"));
    folder.scan();
    folder.write("a.yaml", &map("x", "2"));
    let look = |folder: &mut Folder, away: &dyn Fn()| {
        let (files, more) = folder::list(folder.dir.path(), 10).unwrap();
        away();
        Seen::new(&folder.state.look(files, more, &CancellationToken::new()).unwrap(), folder.dir.path())
    };
    let (root, other) = (folder.dir.path().to_owned(), folder.dir.path().with_extension("away"));
    let seen = look(&mut folder, &|| fs::rename(&root, &other).unwrap());
    assert!(seen.objects.len() == 2 && seen.again, "the folder is gone, not the file: {seen:?}");
    fs::rename(&other, &root).unwrap();
    let seen = look(&mut folder, &|| fs::remove_file(root.join("a.yaml")).unwrap());
    assert_eq!((seen.objects.len(), seen.problems.len(), seen.again), (1, 0, false), "{seen:?}");
}

#[test]
fn of_many_problems_of_a_file_a_few_are_reported_and_the_others_counted() {
    let mut folder = Folder::new();
    folder.write("a.yaml", &("---\na: 1\n".repeat(25) + &map("x", "1")));
    folder.write("b.yaml", &map("x", "1").repeat(30));
    let seen = folder.scan();
    assert_eq!(seen.objects, ["ConfigMap default/x@101 1"]);
    assert_eq!(seen.problems.len(), 22, "{seen:?}");
    assert_eq!(seen.problems[0], "a.yaml:2: document 1: kind is missing");
    let more = |file: &str, more: usize| {
        format!("{file}.yaml: {more} more problems in this file; mend the first ones to see the next ones")
    };
    assert_eq!((&seen.problems[10], &seen.problems[21]), (&more("a", 15), &more("b", 20)));
    folder.write("a.yaml", &"---\na: 1\n".repeat(25));
    let seen = folder.scan();
    assert_eq!(
        seen.problems[10..12],
        [more("a", 15), "a.yaml: served as before until that is mended: ConfigMap default/x".to_owned()]
    );
}

#[test]
fn a_look_that_is_cancelled_ends_before_the_next_document() {
    let mut folder = Folder::new();
    folder.write("a.yaml", &map("x", "1"));
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let error = folder.state.scan(&cancelled).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::Interrupted);
}

#[test]
fn one_bad_document_among_good_ones_is_reported_with_its_place() {
    let mut folder = Folder::new();
    folder.write("a.yaml", &(map("x", "1") + "---\nkind: [\n" + &map("yy", "1")));
    let seen = folder.scan();
    assert_eq!(seen.objects, ["ConfigMap default/x@101 1", "ConfigMap default/yy@102 1"]);
    assert_eq!(seen.problems.len(), 1, "{seen:?}");
    assert!(seen.problems[0].starts_with("a.yaml:") && seen.problems[0].contains(": document 2: "), "{seen:?}");
}

#[test]
fn of_two_with_the_same_name_the_first_file_wins_and_the_next_follows_it_as_a_change() {
    let mut folder = Folder::new();
    folder.write("b.yaml", &map("x", "of b"));
    folder.write("a.yaml", &(map("x", "of a") + &map("x", "again")));
    let seen = folder.scan();
    assert_eq!(seen.objects, ["ConfigMap default/x@101 of a"]);
    let of = |place: &str| {
        format!(
            "{place}: ConfigMap default/x stands already in a.yaml:2, which is served; rename or remove one of them"
        )
    };
    assert_eq!(seen.problems, [of("a.yaml:8: document 2"), of("b.yaml:2: document 1")]);
    folder.remove("a.yaml");
    let seen = folder.scan();
    assert!(seen.problems.is_empty());
    // It was read as version 103, before this became what is served.
    assert_eq!(seen.objects, ["ConfigMap default/x@103 of b"]);
    folder.write("0.yaml", &map("x", "first"));
    assert_eq!(folder.scan().objects, ["ConfigMap default/x@104 first"]);
    folder.remove("0.yaml");
    assert_eq!(folder.scan().objects, ["ConfigMap default/x@105 of b"], "back to older contents is a change, too");
}

#[test]
fn two_pods_with_one_uid_are_not_both_served() {
    let mut folder = Folder::new();
    folder.write("a.yaml", &(pod("p", "same") + &pod("q", "same")));
    let seen = folder.scan();
    assert_eq!(seen.objects, ["Pod default/p@101"]);
    assert_eq!(
        seen.problems,
        ["a.yaml:7: document 2: Pod default/q has the UID of Pod default/p, which is served; remove metadata.uid"]
    );
}

#[test]
fn a_half_written_file_drops_nothing_silently() {
    let mut folder = Folder::new();
    let whole = map("x", "1") + &map("yy", "1") + &map("z", "1");
    folder.write("a.yaml", &whole);
    let before = folder.scan().objects;
    for end in 1..whole.len() {
        folder.write("a.yaml", &whole[..end]);
        let seen = folder.scan();
        // Cut where it is a whole file by itself, nobody can tell it from one that is meant so.
        if seen.problems.is_empty() {
            folder.write("a.yaml", &whole);
            folder.scan();
            continue;
        }
        let names = |objects: &[String]| -> Vec<String> {
            objects.iter().map(|object| object.split('@').next().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(names(&seen.objects), names(&before), "cut at {end}: {seen:?}");
    }
    folder.write("a.yaml", &(map("x", "2") + "---\nbroken: [\n"));
    let seen = folder.scan();
    assert!(
        seen.objects.iter().any(|object| object.starts_with("ConfigMap default/x@") && object.ends_with('2')),
        "{seen:?}"
    );
    assert_eq!(seen.objects.len(), 3);
    assert_eq!(
        seen.problems.last().unwrap(),
        "a.yaml: served as before until that is mended: ConfigMap default/yy, ConfigMap default/z"
    );
    folder.write("a.yaml", &map("x", "2"));
    let seen = folder.scan();
    assert!(seen.objects.len() == 1 && seen.problems.is_empty(), "{seen:?}");
}

#[test]
fn an_empty_file_is_believed_at_the_second_look() {
    let mut folder = Folder::new();
    folder.write("a.yaml", &map("x", "1"));
    folder.scan();
    folder.write("a.yaml", "");
    let seen = folder.scan();
    assert_eq!(seen.objects, ["ConfigMap default/x@101 1"]);
    assert!(seen.again && seen.problems[0].contains("it has become empty; served as before"), "{seen:?}");
    let seen = folder.scan();
    assert!(seen.objects.is_empty() && seen.problems.is_empty() && !seen.again, "{seen:?}");
}

#[test]
fn a_file_that_cannot_be_read_keeps_what_it_had() {
    let mut folder = Folder::with(ManifestOptions { max_file_bytes: 200, ..ManifestOptions::default() });
    let path = folder.dir.path().join("a.yaml");
    folder.write("a.yaml", &map("x", "1"));
    folder.scan();
    let check = |folder: &mut Folder, says: &str| {
        for _ in 0..2 {
            let seen = folder.scan();
            assert_eq!(seen.objects, ["ConfigMap default/x@101 1"]);
            assert!(seen.problems.len() == 1 && seen.problems[0].contains(says), "{seen:?}");
        }
    };
    folder.write("a.yaml", &map("x", &"2".repeat(200)));
    check(
        &mut folder,
        "a.yaml: it is larger than 200 bytes; served as before until it can be read: ConfigMap default/x",
    );
    fs::write(&path, b"a: 1\nb: \xff\n").unwrap();
    check(&mut folder, "line 2 is not UTF-8");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("nowhere", &path).unwrap();
    check(&mut folder, "No such file or directory");
    fs::remove_file(&path).unwrap();
    let seen = folder.scan();
    assert!(seen.objects.is_empty() && seen.problems.is_empty(), "{seen:?}");
}

#[test]
fn only_so_many_files_are_read_and_that_is_said() {
    let mut folder = Folder::with(ManifestOptions { max_files: 2, ..ManifestOptions::default() });
    for file in ["d", "b", "a", "c", "e", "f", "g"] {
        folder.write(&format!("{file}.yaml"), &map(file, "1"));
    }
    let seen = folder.scan();
    assert_eq!(seen.objects, ["ConfigMap default/a@101 1", "ConfigMap default/b@102 1"]);
    assert_eq!(seen.problems, [".: it has more than 2 manifest files; those that sort last are not read"]);
}

#[test]
fn a_mounted_config_map_is_followed_through_its_links() {
    let mut folder = Folder::new();
    let root = folder.dir.path().to_owned();
    let version = |name: &str, data: &str| {
        fs::create_dir(root.join(name)).unwrap();
        fs::write(root.join(name).join("x.yaml"), map("x", data)).unwrap();
        std::os::unix::fs::symlink(name, root.join("..data_tmp")).unwrap();
        fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
    };
    version("..1", "1");
    std::os::unix::fs::symlink("..data/x.yaml", root.join("x.yaml")).unwrap();
    assert_eq!(folder.scan().objects, ["ConfigMap default/x@101 1"]);
    version("..2", "2");
    fs::remove_dir_all(root.join("..1")).unwrap();
    assert_eq!(folder.scan().objects, ["ConfigMap default/x@102 2"]);
}

#[test]
fn a_folder_that_is_gone_is_an_error_and_forgets_nothing() {
    let mut folder = Folder::new();
    folder.write("a.yaml", &map("x", "1"));
    folder.scan();
    let (from, to) = (folder.dir.path().to_owned(), folder.dir.path().with_extension("away"));
    fs::rename(&from, &to).unwrap();
    assert!(folder.state.scan(&CancellationToken::new()).is_err());
    fs::rename(&to, &from).unwrap();
    assert_eq!(folder.scan().objects, ["ConfigMap default/x@101 1"]);
}

#[test]
fn what_cannot_be_read_casts_doubt_on_what_it_had_and_on_what_is_not_there() {
    let mut folder = Folder::with(ManifestOptions { max_file_bytes: 250, ..ManifestOptions::default() });
    let doubts = |scan: &Scan| {
        let mut kept: Vec<_> = scan.objects.kept.keys().map(|(_, key)| key.name().to_owned()).collect();
        kept.sort();
        (kept, scan.objects.hidden.is_some())
    };
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {k: dg==}\n";
    folder.write("a.yaml", &format!("{}{secret}", map("x", "1")));
    folder.write("b.yaml", &map("z", "1"));
    assert_eq!(doubts(&folder.state.scan(&CancellationToken::new()).unwrap()), (vec![], false));

    // A value that is no base64; then a document of another kind, which hides nothing.
    folder.write("a.yaml", &format!("{}{}", map("x", "1"), secret.replace("dg==", "'no base64'")));
    assert_eq!(doubts(&folder.state.scan(&CancellationToken::new()).unwrap()), (vec!["s".to_owned()], true));
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: s}\n";
    folder.write("a.yaml", &format!("{}{secret}", map("x", "2")));
    assert_eq!(doubts(&folder.state.scan(&CancellationToken::new()).unwrap()), (vec![], false));
    folder.write("a.yaml", &format!("{}{secret}{service}", map("x", "2")));
    assert_eq!(doubts(&folder.state.scan(&CancellationToken::new()).unwrap()), (vec![], false));

    // The whole file, which is too large; what is in others is as it stands there.
    folder.write("a.yaml", &map("x", &"1".repeat(300)));
    assert_eq!(
        doubts(&folder.state.scan(&CancellationToken::new()).unwrap()),
        (vec!["s".to_owned(), "x".to_owned()], true)
    );
    folder.write("a.yaml", &map("x", "3"));
    assert_eq!(doubts(&folder.state.scan(&CancellationToken::new()).unwrap()), (vec![], false));
}
