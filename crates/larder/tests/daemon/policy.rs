//! What the rules of a policy file show and hide, what a change of the file does, and what a file does that cannot be used.

use crate::access::{NOBODY, Place, answer};
use crate::harness::{Daemon, run, until};
use larder_testkit::api_server::{Fault, Kind};
use larder_testkit::cri_runtime::SandboxSpec;
use larder_testkit::objects::{pod, secret};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// A policy file, whose text is replaced as a whole.
pub(crate) struct PolicyFile {
    path: PathBuf,
    _folder: TempDir,
}

impl PolicyFile {
    pub(crate) fn new(rules: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let this = Self { path: folder.path().join("policy.yaml"), _folder: folder };
        this.write(rules);
        this
    }

    pub(crate) fn write(&self, rules: &str) {
        let new = self.path.with_extension("new");
        fs::write(&new, format!("version: 1\nrules:\n{rules}")).unwrap();
        fs::rename(&new, &self.path).unwrap();
    }

    pub(crate) fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

/// Asks as `nobody` of the host.
async fn ask(place: &Place, path: &str) -> (u16, String) {
    answer(run(place.curl_of_host(&[], "--clear-groups", path)).await)
}

const NODE: &str = "node-1";
const PODS: &str = "- {name: pods, effect: allow, subjects: [{user: 65534}], objects: [{kinds: [pods]}]}\n";
const SECRETS: &str =
    "- {name: secrets, effect: allowMetadata, subjects: [{user: 65534}], objects: [{kinds: [secrets]}]}\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_shows_a_user_of_the_host_what_it_names_until_the_file_changes() {
    let file = PolicyFile::new(&format!("{PODS}{SECRETS}"));
    let place = Place::start(&["--policy", file.path()]).await;
    let (code, text) = ask(&place, "/api/v1/pods").await;
    assert!(code == 200 && text.contains("uid-web") && text.contains("uid-other"), "{code} {text}");
    // Of Secrets only the metadata, however they are asked for.
    for path in ["/api/v1/secrets", "/api/v1/namespaces/shop/secrets/db", "/api/v1/secrets?watch=true&timeoutSeconds=1"]
    {
        let (code, text) = ask(&place, path).await;
        assert!(code == 200 && text.contains("\"db\""), "{path}: {code} {text}");
        assert!(!text.contains("b25l") && !text.contains("\"data\":"), "{path}: {text}");
    }
    for path in ["/api/v1/namespaces/shop/configmaps/x", "/api/v1/nodes", "/larder/v1/status"] {
        let (code, text) = ask(&place, path).await;
        assert!(code == 403 && text.contains("user 65534 may not "), "{path}: {code} {text}");
    }
    let list: Value = serde_json::from_str(&ask(&place, "/api/v1/pods").await.1).unwrap();
    let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let resume = format!("/api/v1/pods?watch=true&timeoutSeconds=1&resourceVersion={version}");
    assert_eq!(ask(&place, &resume).await, (200, String::new()));

    let mut watch = place.watch_of_host("/api/v1/pods?watch=true");
    for _ in 0..2 {
        assert_eq!(watch.event().await["type"], "ADDED");
    }
    file.write(&format!(
        "{PODS}- {{name: not-other, effect: deny, subjects: [{{user: 65534}}], objects: [{{kinds: [pods], names: [other]}}]}}\n"
    ));
    // What has left the view goes, with nothing but its identity.
    let gone = watch.event().await;
    let version = gone["object"]["metadata"]["resourceVersion"].clone();
    let metadata = json!({"namespace": "shop", "name": "other", "uid": "uid-other", "resourceVersion": version});
    let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata});
    assert_eq!(gone, json!({"type": "DELETED", "object": object}));
    let end = watch.event().await;
    assert_eq!((&end["type"], &end["object"]["code"]), (&json!("ERROR"), &json!(410)), "{end}");
    // What was listed before the change is listed again, and then goes on.
    let (_, text) = ask(&place, &resume).await;
    let end: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&end["type"], &end["object"]["code"]), (&json!("ERROR"), &json!(410)), "{end}");
    let (code, text) = ask(&place, "/api/v1/pods").await;
    assert!(code == 200 && text.contains("uid-web") && !text.contains("uid-other"), "{code} {text}");
    let list: Value = serde_json::from_str(&text).unwrap();
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let resume = format!("/api/v1/pods?watch=true&timeoutSeconds=1&resourceVersion={version}");
    assert_eq!(ask(&place, &resume).await, (200, String::new()));
    let (code, text) = ask(&place, "/api/v1/namespaces/shop/pods/other").await;
    assert!(code == 403 && text.contains(r#"rule \"not-other\" of the policy file denies it"#), "{code} {text}");
    assert_eq!(ask(&place, "/api/v1/secrets").await.0, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_see_a_pod_does_not_see_the_status_of_one_whose_uid_it_claims() {
    let evil =
        "- {name: evil, effect: allow, subjects: [{user: 65534}], objects: [{kinds: [pods], namespaces: [evil]}]}\n";
    let file = PolicyFile::new(evil);
    let place = Place::start(&["--policy", file.path()]).await;
    place.run("app");
    let run = |name: &str| {
        let sandbox =
            place.cri.containers().run_sandbox(&SandboxSpec::new("kube-system", name, &format!("uid-{name}")));
        let id = place.cri.containers().create_container(&sandbox, "main", "hidden:1").unwrap();
        place.cri.containers().start_container(&id).unwrap();
    };
    run("etcd");
    // Whoever may create pods can write the annotation. The API server has no pod of a static one's own UID.
    for (name, uid) in [("web", "uid-web"), ("etcd", "uid-etcd"), ("late", "uid-late")] {
        let claims =
            pod("evil", name).node(NODE).annotation("kubernetes.io/config.mirror", uid).container("app", "evil:1");
        place.api.store().create(claims.build()).unwrap();
    }
    for (uid, image) in [("uid-web", "shop/web:1"), ("uid-etcd", "hidden:1")] {
        let path = format!("/larder/v1/pods/{uid}/status");
        until("the runtime has it", async || place.daemon.get(&path).await.text.contains(image).then_some(())).await;
    }
    until("the pods are known", async || {
        (ask(&place, "/api/v1/namespaces/evil/pods/late").await.0 == 200).then_some(())
    })
    .await;
    for path in [
        "/larder/v1/pods/uid-etcd/status",
        "/larder/v1/namespaces/evil/pods/etcd/status",
        "/larder/v1/namespaces/evil/pods/web/status",
        "/larder/v1/namespaces/evil/pods/web/status?newerThan=2099-01-01T00:00:00Z&timeout=1ms",
    ] {
        let (code, text) = ask(&place, path).await;
        assert!(code == 403 && !text.contains("hidden") && !text.contains("shop"), "{path}: {code} {text}");
    }
    let mut wait = place.watch_of_host("/larder/v1/pods/uid-late/status?changedAfter=2000-01-01T00:00:00Z&timeout=60s");
    until("it waits", async || {
        place.daemon.get("/metrics").await.text.contains("larder_http_connections{listener=\"socket\"} 2").then_some(())
    })
    .await;
    run("late");
    let answer = wait.next().await.unwrap();
    assert!(answer.contains("\"code\":403") && !answer.contains("hidden"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_is_answered_by_the_policy_of_its_end() {
    let file = PolicyFile::new(PODS);
    let place = Place::start(&["--policy", file.path()]).await;
    place.run("app");
    let path = "/larder/v1/pods/uid-web/status";
    let known = until("the runtime has it", async || {
        let (code, text) = ask(&place, path).await;
        (code == 200 && text.contains("shop/web:1")).then_some(text)
    })
    .await;
    let known: Value = serde_json::from_str(&known).unwrap();
    let modified = known["modifiedAt"].as_str().unwrap();
    let mut wait = place.watch_of_host(&format!("{path}?changedAfter={modified}&timeout=60s"));
    until("it waits", async || {
        place.daemon.get("/metrics").await.text.contains("larder_http_connections{listener=\"socket\"} 2").then_some(())
    })
    .await;
    file.write(SECRETS);
    until("the file counts", async || (ask(&place, path).await.0 == 403).then_some(())).await;
    place.run("late");
    let answer = wait.next().await.unwrap();
    assert!(answer.contains("\"code\":403") && !answer.contains("shop/web"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_names_the_objects_that_its_reader_may_list() {
    let file = PolicyFile::new(
        "- {name: status, effect: allow, subjects: [{user: 65534}], documents: [status]}\n\
         - {name: db, effect: allowMetadata, subjects: [{user: 65534}], objects: [{kinds: [secrets], names: [db]}]}\n\
         - {name: no-root, effect: deny, subjects: [{user: 0}], objects: [{kinds: [secrets], names: [tls]}]}\n",
    );
    let place = Place::start(&["--policy", file.path()]).await;
    let path = "/larder/v1/status?objects=true";
    let names = |text: &str| -> Vec<String> {
        let status: Value = serde_json::from_str(text).unwrap();
        let objects = status["objects"].as_array().unwrap();
        objects.iter().map(|object| object["name"].as_str().unwrap().to_owned()).collect()
    };
    let (code, text) = ask(&place, path).await;
    assert_eq!((code, names(&text)), (200, vec!["db".to_owned()]), "{text}");
    assert_eq!(names(&place.daemon.get(path).await.text), ["db"], "also of an admin, what is denied is left out");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_holds_for_root_and_for_a_container_of_its_own() {
    let file = PolicyFile::new(
        "- {name: no-root, effect: deny, subjects: [{user: 0}], objects: [{kinds: [secrets], names: [tls]}]}\n\
         - {name: no-values, effect: denyData, subjects: [{namespace: shop}], objects: [{kinds: [secrets]}]}\n\
         - {name: all-pods, effect: allow, subjects: [{namespace: shop}], objects: [{kinds: [pods], verbs: [list]}]}\n",
    );
    let place = Place::start(&["--policy", file.path()]).await;
    let app = place.run("app");
    let refused = place.daemon.get("/api/v1/namespaces/shop/secrets/tls").await;
    assert!(refused.code == 403 && refused.text.contains("no-root"), "{}", refused.text);
    let list = place.daemon.get("/api/v1/secrets").await;
    assert!(list.code == 200 && list.text.contains("b25l") && !list.text.contains("dGhyZWU="), "{}", list.text);
    for user in [0, NOBODY] {
        let (code, text) = place.ask(&app, user, "/api/v1/namespaces/shop/secrets/db").await;
        assert!(code == 200 && !text.contains("b25l") && text.contains("\"name\":\"db\""), "{code} {text}");
        let (code, text) = place.ask(&app, user, "/api/v1/pods").await;
        assert!(code == 200 && text.contains("uid-other"), "{code} {text}");
        assert_eq!(place.ask(&app, user, "/api/v1/namespaces/shop/pods/other").await.0, 403);
    }
    let metrics = place.daemon.get("/metrics").await.text;
    assert!(
        metrics.contains(r#"larder_access_decisions_total{subject="host",rule="file",allowed="false"}"#),
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_that_a_rule_selects_changes_the_view_of_an_open_watch() {
    let file = PolicyFile::new(
        "- {name: front, effect: allow, subjects: [{namespace: shop, podLabels: {tier: front}}], objects: [{kinds: [secrets]}]}\n",
    );
    let place = Place::start(&["--policy", file.path()]).await;
    let app = place.run("app");
    let mut watch = place.watch(&app, "/api/v1/secrets?watch=true");
    assert_eq!(watch.event().await["object"]["metadata"]["name"], "db");
    let web = pod("shop", "web").uid("uid-web").node("node-1").label("tier", "front");
    place.api.store().apply(web.container("app", "shop/web:1").env_secret("db", "password").build()).unwrap();
    until("the pod has the label", async || {
        let web = place.daemon.get("/api/v1/namespaces/shop/pods/web").await.json();
        (web["metadata"]["labels"]["tier"] == "front").then_some(())
    })
    .await;
    // The container sees this Secret now, and its watch has not shown it.
    place.api.store().apply(secret("shop", "tls", &[("key", "four")])).unwrap();
    let end = watch.event().await;
    assert_eq!((&end["type"], &end["object"]["code"]), (&json!("ERROR"), &json!(410)), "{end}");
    let (code, text) = place.ask(&app, NOBODY, "/api/v1/secrets").await;
    assert!(code == 200 && text.contains("\"tls\"") && text.contains("dHdv"), "{code} {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_says_who_asks_what_it_may_see_and_by_which_rule() {
    let file = PolicyFile::new(
        "- {name: no-root, effect: deny, subjects: [{user: 0}], objects: [{kinds: [secrets], names: [tls]}]}\n\
         - {name: some, effect: allow, subjects: [{user: 0}], objects: [{kinds: [secrets]}]}\n",
    );
    let place = Place::start(&["--policy", file.path()]).await;
    let whoami = place.daemon.larder("auth whoami").await.ok();
    assert!(whoami.starts_with("ATTRIBUTE") && whoami.contains("user 0"), "{whoami}");
    assert_eq!(place.daemon.larder("auth can-i get secret db -n shop -o name").await.ok(), "yes\n");
    let yes = place.daemon.larder("auth can-i get secret db -n shop").await.ok();
    assert_eq!(yes, "yes - administrators see everything\n");
    let no = place.daemon.larder("auth can-i get secret tls -n shop").await;
    assert_eq!((no.code, &*no.stdout), (Some(1), "no - rule \"no-root\" of the policy file denies it\n"), "{no:?}");
    let json = place.daemon.larder("auth can-i get secret tls -n shop -o json").await;
    let review: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((json.code, &review["status"]["allowed"]), (Some(1), &json!(false)), "{review}");
    assert_eq!(place.daemon.larder("auth can-i get /metrics -o name").await.ok(), "yes\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_used_refuses_the_start_and_later_changes_nothing() {
    let bad = "- {name: a, effect: allow, subjects: [{user: 1}], objects: [{kinds: [pods]}], more: 1}\n";
    let file = PolicyFile::new(bad);
    let place = format!("{}:3:85: rules[0]: a field here is unknown", file.path());
    let manifests = tempfile::tempdir().unwrap();
    let arguments =
        ["--manifests", manifests.path().to_str().unwrap(), "--runtime-endpoint", "none", "--policy", file.path()];
    let mut refused = Daemon::spawn(tempfile::tempdir().unwrap(), &arguments);
    assert!(!refused.ended().await.success());
    assert!(refused.log().contains(&place), "{}", refused.log());

    file.write(PODS);
    let daemon = Daemon::spawn(tempfile::tempdir().unwrap(), &arguments);
    daemon.ready().await;
    let status = daemon.get("/larder/v1/status").await.json();
    assert_eq!(status["policy"], json!({"file": file.path(), "rules": 1}));
    file.write(bad);
    let status = until("the status tells it", async || {
        let status = daemon.get("/larder/v1/status").await.json();
        status["policy"]["problem"].is_string().then_some(status)
    })
    .await;
    assert_eq!(status["policy"]["rules"], 1);
    let is_degraded = async || daemon.get("/metrics").await.text.contains("\nlarder_degraded 1\n");
    assert!(is_degraded().await, "the metric says what the status says");
    let degraded = status["degraded"].to_string();
    assert!(
        degraded.contains(&format!("policy: {place}")) && degraded.contains("the policy of before stays"),
        "{degraded}"
    );
    file.write("  []\n");
    until("the file is in effect", async || {
        let status = daemon.get("/larder/v1/status").await.json();
        (status["policy"]["rules"] == 0 && status["policy"]["problem"].is_null()).then_some(())
    })
    .await;
    assert!(!is_degraded().await);
}

/// What no answer names to a caller that may not see it: a Secret, and a pod whose container runs.
const HIDDEN: [&str; 3] = ["hidden-secret", "shop/other", "uid-other"];

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_names_what_a_rule_denies() {
    let file = PolicyFile::new(
        "- {name: hidden, effect: deny, subjects: [{user: 0}], objects: [{kinds: [secrets], names: [hidden-secret]}, {kinds: [pods], names: [other]}]}\n\
         - {name: documents, effect: allow, subjects: [{user: 65534}], documents: [status, whois]}\n",
    );
    let place = Place::start(&["--policy", file.path()]).await;
    let (app, other) = (place.run("app"), place.run_other("app"));
    let store = place.api.store();
    store.create(secret("shop", "hidden-secret", &[("key", "value")])).unwrap();
    let reader = pod("shop", "reader").uid("uid-reader").node("node-1").container("app", "shop/web:1");
    place.api.inject(Fault::status(500).kind(Kind::Secret).name("hidden-secret"));
    store.create(reader.env_secret("hidden-secret", "key").build()).unwrap();
    // The counts and the line that something is wrong stay.
    let status = until("the reads of the Secret fail", async || {
        let status = place.daemon.get("/larder/v1/status?objects=true").await.json();
        (status["counts"]["secrets"]["referenced"] == 3 && status["degraded"] != json!([])).then_some(status)
    })
    .await;
    let named = |name: &str| status["objects"].as_array().unwrap().iter().any(|object| object["name"] == name);
    assert!(named("db") && named("tls"), "{status}");
    let whois = |id: &str| format!("/larder/v1/whois?containerID={id}&timeout=30s");
    let whois_other = whois(&other.id);
    for path in [
        "/larder/v1/status",
        "/larder/v1/status?objects=true",
        "/larder/v1/objects/secrets",
        "/larder/v1/pods",
        "/api/v1/secrets",
        "/api/v1/secrets?partial=true",
        "/api/v1/secrets?watch=true&timeoutSeconds=1",
        "/metrics",
        "/readyz?verbose",
        &whois_other,
    ] {
        let answer = place.daemon.get(path).await;
        let told = format!("{:?} {}", answer.headers, answer.text);
        assert!(!HIDDEN.iter().any(|name| told.contains(name)), "{path}: {told}");
    }
    let table = place.daemon.larder("status -o wide").await.stdout;
    assert!(table.contains("DEGRADED") && table.contains(" db ") && !table.contains("hidden-secret"), "{table}");
    let refused = place.daemon.get(&whois_other).await;
    let why =
        r#"user 0 may not get the pod of this process or container: rule \"hidden\" of the policy file denies it"#;
    assert!(refused.code == 403 && refused.text.contains(why), "{refused:?}");
    assert_eq!(place.daemon.get(&whois(&app.id)).await.code, 200);
    // Who may see the documents alone gets no names.
    let (code, text) = ask(&place, "/larder/v1/status?objects=true").await;
    let status: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &status["objects"], &status["counts"]["secrets"]["referenced"]), (200, &json!([]), &json!(3)));
    assert!(!["hidden-secret", "reader", "web"].iter().any(|name| text.contains(name)), "{text}");
    for id in [&app.id, &other.id] {
        assert_eq!(ask(&place, &whois(id)).await.0, 403);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_root_may_list_in_part_says_which_rule_denies_the_rest() {
    let file = PolicyFile::new(
        "- {name: no-shop, effect: deny, subjects: [{user: 0}], objects: [{kinds: [secrets], namespaces: [shop]}]}\n\
         - {name: no-status, effect: deny, subjects: [{user: 0}], documents: [status]}\n",
    );
    let place = Place::start(&["--policy", file.path(), "--listen", "127.0.0.1:0", "--tls-directory", "tls"]).await;
    let told = place.daemon.larder("auth can-i list secrets -A").await.ok();
    assert_eq!(told, "yes - administrators see everything, but for what rule \"no-shop\" of the policy file denies\n");
    let told = place.daemon.larder("auth can-i list pods -A").await.ok();
    assert_eq!(told, "yes - administrators see everything\n");
    // Nothing has to be asked for a kubeconfig whose address is given.
    let folder = place.daemon.folder.path().join("tls");
    let line = format!("kubeconfig --server https://10.0.0.7:6440 --tls-directory {}", folder.display());
    let config = place.daemon.larder(&line).await.ok();
    assert!(config.contains("https://10.0.0.7:6440"), "{config}");
    for path in ["/api/v1/pods", "/api/v1/namespaces/shop/pods/web", "/api/v1/nodes/node-1", "/api/v1/configmaps"] {
        let refused = place.daemon.get(&format!("{path}?timeout=abc")).await;
        assert!(refused.code == 400 && refused.text.contains("timeout"), "{path}: {refused:?}");
    }
    let refused = place.daemon.get("/larder/v1/whois").await;
    assert!(refused.code == 400 && refused.text.contains("a parameter is missing: give one of pid, "), "{refused:?}");
    let refused = place.daemon.larder("kubeconfig").await.failed();
    assert!(refused.contains("no-status"), "{refused}");
}
