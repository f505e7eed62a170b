//! Which decisions have a line, which share one, and what a line says.

use super::*;
use crate::caller::Container;
use std::fs;
use std::path::Path;
use tokio::time::advance;

fn host(uid: u32) -> Caller {
    Caller::Host { uid, gids: [].into(), is_admin: false }
}

fn container(pod: &str) -> Caller {
    Caller::Container(Arc::new(Container::new(["shop", pod, pod], "app", "id", 0)))
}

fn key(caller: &Caller, what: &str) -> Key {
    Key::of(caller, None, Group::of_refused(caller), "get", what, "none".to_owned(), Outcome::Refused)
}

/// What lines say, sorted: the caller, what it asked for, and how many decisions were suppressed.
fn said(lines: &[Line]) -> Vec<(String, String, u64)> {
    let mut said: Vec<_> = lines
        .iter()
        .map(|line| match line {
            Line::Decision { key, suppressed, .. } => (key.caller.to_string(), key.what.clone(), *suppressed),
            Line::Lost { lost, .. } => (String::new(), "lost".to_owned(), *lost),
        })
        .collect();
    said.sort();
    said
}

fn note(table: &mut Table, key: Key) {
    table.note(key, Timestamp::UNIX_EPOCH, Instant::now());
}

fn take(table: &mut Table) -> Vec<(String, String, u64)> {
    said(&table.take(Instant::now(), usize::MAX).0)
}

fn line(caller: &str, what: &str, suppressed: u64) -> (String, String, u64) {
    (caller.to_owned(), what.to_owned(), suppressed)
}

#[test]
fn what_was_asked_for_has_no_control_characters() {
    let key = key(&container("web"), "/a\u{9b}31m\u{7f}b\nc");
    assert_eq!(key.what, "/a\u{fffd}31m\u{fffd}b\u{fffd}c");
}

#[tokio::test(start_paused = true)]
async fn the_first_decision_has_a_line_at_once_and_repeats_have_one_a_minute() {
    let mut table = Table::default();
    let web = key(&container("web"), "x");
    let caller = "container \"app\" of pod \"shop/web\"";
    assert!(table.note(web.clone(), Timestamp::UNIX_EPOCH, Instant::now()).is_due);
    assert_eq!(take(&mut table), [line(caller, "x", 0)]);
    for _ in 0..3 {
        let noted = table.note(web.clone(), Timestamp::UNIX_EPOCH, Instant::now());
        assert!(!noted.is_due && !noted.is_lost);
    }
    note(&mut table, key(&container("web"), "y"));
    assert_eq!(take(&mut table), [line(caller, "y", 0)]);
    advance(WINDOW).await;
    assert_eq!(take(&mut table), [line(caller, "x", 2)]);
    advance(WINDOW).await;
    let (lines, next) = table.take(Instant::now(), usize::MAX);
    assert!(lines.is_empty() && next.is_none(), "what does not happen again is forgotten: {lines:?}");
    assert!(table.note(web, Timestamp::UNIX_EPOCH, Instant::now()).is_due);
}

#[tokio::test(start_paused = true)]
async fn no_caller_hides_the_lines_of_another_one() {
    let mut table = Table::default();
    for name in 0..1000 {
        note(&mut table, key(&container("greedy"), &format!("secret {name}")));
    }
    // Whoever may see nothing cannot be told from others by names that it chooses.
    for uid in 0..5000 {
        note(&mut table, key(&host(uid), "/api/v1/pods"));
        let why: Arc<str> = format!("process {uid} has ended").into();
        note(&mut table, key(&Caller::Unresolved { uid: 0, why }, "/api/v1/pods"));
    }
    note(&mut table, key(&container("web"), "x"));
    let lines = take(&mut table);
    let of = |caller: &str| lines.iter().filter(|(found, ..)| found == caller).collect::<Vec<_>>();
    assert_eq!(of("container \"app\" of pod \"shop/greedy\"").len(), 256);
    assert_eq!(of("pod \"shop/greedy\""), [&line("pod \"shop/greedy\"", "further objects and paths", 743)]);
    assert_eq!(of("container \"app\" of pod \"shop/web\"").len(), 1);
    assert_eq!(of("a process of user 0 that is not told apart")[0].2, 4999);
    assert_eq!(of("callers who may see nothing").len(), 1);
    let decisions: u64 = lines.iter().map(|(.., suppressed)| suppressed + 1).sum();
    assert_eq!(decisions, 1000 + 5000 + 5000 + 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_table_counts_what_it_loses() {
    let mut table = Table::default();
    let mut lost = 0;
    for pod in 0..100 {
        for name in 0..256 {
            // Each pod has kinds of its own, and rules besides, as no policy has them.
            let mut kind = key(&container(&pod.to_string()), &name.to_string());
            kind.rule = format!("file:{name}");
            lost += u64::from(table.note(kind, Timestamp::UNIX_EPOCH, Instant::now()).is_lost);
        }
    }
    let lines = take(&mut table);
    let told = lines.iter().find(|(_, what, _)| what == "lost").unwrap();
    assert!(lost > 0 && told.2 == lost, "{lost} {told:?}");
    let decisions: u64 = lines.iter().map(|(_, what, n)| if what == "lost" { *n } else { n + 1 }).sum();
    assert_eq!(decisions, 100 * 256);
    for _ in 0..2 {
        advance(WINDOW).await;
        assert!(take(&mut table).is_empty());
    }
    assert_eq!(table.take(Instant::now(), 1).1, None, "nothing is left");
}

#[tokio::test(start_paused = true)]
async fn lines_that_wait_longest_are_written_first_and_so_many_at_once() {
    let mut table = Table::default();
    note(&mut table, key(&container("early"), "x"));
    advance(Duration::from_secs(1)).await;
    for name in 0..50 {
        note(&mut table, key(&container("web"), &name.to_string()));
    }
    let (lines, next) = table.take(Instant::now(), 20);
    assert_eq!((lines.len(), next), (20, Some(Instant::now())));
    assert_eq!(said(&lines)[0].0, "container \"app\" of pod \"shop/early\"");
    assert_eq!(table.take_all().len(), 31, "the end takes the rest");
}

fn audit(path: &Path) -> Audit {
    Audit::open(&AuditOptions { level: AuditLevel::All, file: Some(path.to_owned()) }).unwrap()
}

fn lines_of(path: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_file_has_lines_of_json_and_the_rest_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let (audit, lost, end) = (audit(&path), Counter::default(), CancellationToken::new());
    let web = key(&container("web"), "secret \"shop/a\nb\"");
    tokio::join!(audit.write(&lost, &end), async {
        audit.note(web.clone(), Timestamp::UNIX_EPOCH, &lost);
        sleep(PAUSE).await;
        assert_eq!(lines_of(&path).len(), 1, "the first is written at once");
        audit.note(web.clone(), Timestamp::UNIX_EPOCH, &lost);
        audit.note(web.clone(), Timestamp::UNIX_EPOCH + Duration::from_secs(1), &lost);
        sleep(PAUSE).await;
        assert_eq!(lines_of(&path).len(), 1);
        end.cancel();
    });
    let lines = lines_of(&path);
    let line = |time: &str, suppressed: u64| {
        serde_json::json!({
            "time": time, "allowed": false, "caller": "container \"app\" of pod \"shop/web\"", "verb": "get",
            "what": "secret \"shop/a\u{fffd}b\"", "rule": "none", "source": "socket", "suppressed": suppressed,
        })
    };
    assert_eq!(lines, [line("1970-01-01T00:00:00Z", 0), line("1970-01-01T00:00:01Z", 1)]);
    assert_eq!(lost.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_cannot_be_written_is_told_and_its_decisions_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (path, rotated) = (folder.path().join("audit.log"), folder.path().join("audit.log.1"));
    let (audit, lost, end) = (audit(&path), Counter::default(), CancellationToken::new());
    tokio::join!(audit.write(&lost, &end), async {
        fs::rename(&path, &rotated).unwrap();
        fs::create_dir(&path).unwrap();
        audit.note(key(&host(1), "x"), Timestamp::UNIX_EPOCH, &lost);
        sleep(PAUSE * 2).await;
        assert_eq!(lost.get(), 1);
        let problem = audit.problem.lock().clone();
        assert!(problem.is_some_and(|problem| problem.contains("audit.log")));
        fs::remove_dir(&path).unwrap();
        audit.note(key(&host(2), "x"), Timestamp::UNIX_EPOCH, &lost);
        sleep(PAUSE * 2).await;
        assert_eq!(*audit.problem.lock(), None);
        end.cancel();
    });
    assert_eq!((lost.get(), lines_of(&path).len()), (1, 1));
}

#[test]
fn a_level_is_read_as_it_is_written() {
    for level in AuditLevel::ALL {
        assert_eq!(level.as_str().parse(), Ok(level));
    }
    assert_eq!("some".parse::<AuditLevel>(), Err(UnknownAuditLevel));
}
