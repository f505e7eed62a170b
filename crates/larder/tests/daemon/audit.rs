//! The audit's lines: of the socket and over TLS, of refusals and of what is allowed, in the log and in a file, and what is never in them.

use crate::access::{NOBODY, Place, answer};
use crate::harness::{run, until};
use crate::policy::PolicyFile;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const DB: &str = "/api/v1/namespaces/shop/secrets/db";
const TLS: &str = "/api/v1/namespaces/shop/secrets/tls";
/// The values of the Secrets, as they are and as the API has them.
const VALUES: [&str; 6] = ["one", "two", "three", "b25l", "dHdv", "dGhyZWU="];

/// The lines of the file so far. The last one may be half written.
fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The line that says all of that.
pub(crate) async fn line(path: &Path, fields: &[(&str, &str)]) -> Value {
    let has = |line: &Value| fields.iter().all(|(name, value)| line[name].as_str() == Some(value));
    until(&format!("a line with {fields:?}"), async || lines(path).into_iter().find(has)).await
}

fn assert_without_values(text: &str) {
    for value in VALUES {
        let is_there = text.split(|c: char| !c.is_alphanumeric() && c != '=').any(|word| word == value);
        assert!(!is_there, "{value} is in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_a_line_in_the_log_and_what_is_allowed_has_none() {
    let place = Place::start(&[]).await;
    let app = place.run("app");
    assert_eq!(place.ask(&app, 0, DB).await.0, 200);
    for _ in 0..3 {
        assert_eq!(place.ask(&app, 0, TLS).await.0, 403);
    }
    let path = format!("{DB}?labelSelector=telltale%3Dselector");
    assert_eq!(answer(run(place.curl_of_host(&[], "--clear-groups", &path)).await).0, 403);
    place.daemon.logged("user 65534").await;
    let log = place.daemon.log();
    let of = |word: &str| log.lines().filter(|line| line.contains("larder_audit") && line.contains(word)).count();
    assert_eq!((of(r#"secret \"shop/tls\""#), of(r#"secret \"shop/db\""#)), (1, 0), "{log}");
    assert_eq!((of(&format!("what=\"{DB}\"")), of("telltale")), (1, 0), "{log}");
    let line = log.lines().find(|line| line.contains("shop/tls")).unwrap();
    for part in [
        r#"caller="container \"app\" of pod \"shop/web\"""#,
        r#"verb="get""#,
        r#"rule="none""#,
        r#"source="socket""#,
        "refused",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert_without_values(&log);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_has_each_decision_with_its_rule_and_without_values() {
    let file = PolicyFile::new(
        "- {name: no-tls, effect: deny, subjects: [{user: 0}], objects: [{kinds: [secrets], names: [tls]}]}\n",
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let arguments = ["--policy", file.path(), "--audit", "all", "--audit-file", path.to_str().unwrap()];
    let mut place = Place::start(&arguments).await;
    let app = place.run("app");
    assert_eq!(place.ask(&app, 0, DB).await.0, 200);
    assert_eq!(place.daemon.get(TLS).await.code, 403);
    let refused = line(&path, &[("what", "secret \"shop/tls\"")]).await;
    assert_eq!((&refused["rule"], &refused["caller"]), (&"file:no-tls".into(), &"user 0".into()), "{refused}");
    assert_eq!((&refused["allowed"], &refused["source"]), (&false.into(), &"socket".into()), "{refused}");
    let allowed = line(&path, &[("what", "secret \"shop/db\"")]).await;
    assert_eq!((&allowed["rule"], &allowed["allowed"]), (&"reference".into(), &true.into()), "{allowed}");
    assert_eq!(allowed["caller"], r#"container "app" of pod "shop/web""#, "{allowed}");
    assert!(allowed["time"].as_str().unwrap().ends_with('Z'), "{allowed}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);

    // It is rotated, and what repeats has its line at the latest when the daemon ends.
    fs::rename(&path, folder.path().join("audit.log.1")).unwrap();
    for _ in 0..3 {
        assert_eq!(place.ask(&app, NOBODY, DB).await.0, 200);
    }
    place.daemon.signal(rustix::process::Signal::TERM);
    assert!(place.daemon.ended().await.success());
    let found = lines(&path);
    let repeated = found.iter().find(|line| line["what"] == "secret \"shop/db\"").unwrap();
    assert_eq!(repeated["suppressed"], 2, "{found:?}");
    for name in ["audit.log", "audit.log.1"] {
        assert_without_values(&fs::read_to_string(folder.path().join(name)).unwrap());
    }
    assert!(!place.daemon.log().contains("larder_audit"), "{}", place.daemon.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_a_link_refuses_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target, manifests) =
        (folder.path().join("audit.log"), folder.path().join("target"), folder.path().join("manifests"));
    fs::create_dir(&manifests).unwrap();
    std::os::unix::fs::symlink(&target, &path).unwrap();
    let arguments = ["--manifests", manifests.to_str().unwrap(), "--runtime-endpoint", "none"];
    let arguments: Vec<_> = arguments.into_iter().chain(["--audit-file", path.to_str().unwrap()]).collect();
    let mut refused = crate::harness::Daemon::spawn(tempfile::tempdir().unwrap(), &arguments);
    assert!(!refused.ended().await.success());
    assert!(refused.log().contains("(--audit-file)") && refused.log().contains("is a link"), "{}", refused.log());
    assert!(!target.exists());
}
