//! What a process in a container sees over the socket, and until when. The containers are of a simulated runtime, and their cgroups and
//! processes are real.

use crate::harness::{Daemon, LIMIT, Output, folder_with, run, until};
use larder_testkit::api_server::{ApiServer, Kind, User};
use larder_testkit::cri_runtime::{Call, CallFault, CriServer, SandboxSpec};
use larder_testkit::objects::{node, pod, secret};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use tokio::time::Instant;

const NODE: &str = "node-1";
const DB: &str = "/api/v1/namespaces/shop/secrets/db";
/// The user and group `nobody`.
pub(crate) const NOBODY: u32 = 65_534;

/// A node with the pods `shop/web` and `shop/other`, each of which has a Secret in its environment.
pub(crate) struct Place {
    pub(crate) api: ApiServer,
    pub(crate) cri: CriServer,
    pub(crate) daemon: Daemon,
    sandbox: String,
    _folder: TempDir,
}

impl Place {
    pub(crate) async fn start(more: &[&str]) -> Self {
        assert!(rustix::process::geteuid().is_root(), "these tests make cgroups, and so need root");
        let (api, folder) = (ApiServer::start().await.unwrap(), tempfile::tempdir().unwrap());
        let store = api.store();
        store.create(node(NODE)).unwrap();
        store.create(secret("shop", "db", &[("password", "one"), ("root", "two")])).unwrap();
        store.create(secret("shop", "tls", &[("key", "three")])).unwrap();
        let web =
            pod("shop", "web").uid("uid-web").node(NODE).container("app", "shop/web:1").env_secret("db", "password");
        store.create(web.build()).unwrap();
        let other =
            pod("shop", "other").uid("uid-other").node(NODE).container("app", "shop/other:1").env_secret("tls", "key");
        store.create(other.build()).unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        api.write_kubeconfig(&kubeconfig, &api.add_user(User::node(NODE))).unwrap();
        let cri = CriServer::start(&folder.path().join("cri.sock")).await.unwrap();
        let sandbox = cri.containers().run_sandbox(&SandboxSpec::new("shop", "web", "uid-web"));
        let endpoint = cri.endpoint();
        let mut arguments = vec!["--kubeconfig", kubeconfig.to_str().unwrap(), "--runtime-endpoint", &endpoint];
        arguments.extend(more);
        let daemon = Daemon::spawn(tempfile::tempdir().unwrap(), &arguments);
        daemon.ready().await;
        fs::set_permissions(daemon.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Self { api, cri, daemon, sandbox, _folder: folder }
    }

    /// A running container of the pod `web`, and its cgroup.
    pub(crate) fn run(&self, name: &str) -> Container {
        self.run_in(&self.sandbox, name)
    }

    /// A running container of the pod `other`.
    pub(crate) fn run_other(&self, name: &str) -> Container {
        let sandbox = self.cri.containers().run_sandbox(&SandboxSpec::new("shop", "other", "uid-other"));
        self.run_in(&sandbox, name)
    }

    fn run_in(&self, sandbox: &str, name: &str) -> Container {
        let id = self.cri.containers().create_container(sandbox, name, "shop/web:1").unwrap();
        self.cri.containers().start_container(&id).unwrap();
        Container { cgroups: Cgroups::of(&id), id }
    }

    /// `curl` in a container, as that user.
    pub(crate) fn curl(&self, container: &Container, user: u32, path: &str) -> Command {
        let mut command = container.cgroups.command(user);
        command.args(["curl", "--silent", "--show-error", "--no-buffer", "--unix-socket"]).arg(self.daemon.socket());
        command.args(["--write-out", "\n%{http_code}"]).arg(format!("http://larder{path}"));
        command
    }

    pub(crate) async fn ask(&self, container: &Container, user: u32, path: &str) -> (u16, String) {
        answer(run(self.curl(container, user, path)).await)
    }

    /// A watch in a container that has begun.
    pub(crate) fn watch(&self, container: &Container, path: &str) -> Watch {
        self.watch_as(container, NOBODY, path)
    }

    /// The same, as that user.
    pub(crate) fn watch_as(&self, container: &Container, user: u32, path: &str) -> Watch {
        Self::begun(self.curl(container, user, path))
    }

    /// A watch of `nobody` of the host.
    pub(crate) fn watch_of_host(&self, path: &str) -> Watch {
        Self::begun(self.curl_of_host(&[], "--clear-groups", path))
    }

    /// `curl` as `nobody` of the host, with these groups, as an argument of `setpriv`. The program and arguments of `before` run it.
    pub(crate) fn curl_of_host(&self, before: &[&str], groups: &str, path: &str) -> Command {
        let (mut words, user) = (before.to_vec(), NOBODY.to_string());
        words.extend(["setpriv", "--reuid", &user, "--regid", &user, groups, "--", "curl", "--silent", "--no-buffer"]);
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg("--unix-socket").arg(self.daemon.socket());
        command.args(["--write-out", "\n%{http_code}"]).arg(format!("http://larder{path}"));
        command
    }

    fn begun(command: Command) -> Watch {
        let mut command = tokio::process::Command::from(command);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Watch { child, lines }
    }
}

pub(crate) fn answer(output: Output) -> (u16, String) {
    let printed = output.ok();
    let (text, code) = printed.rsplit_once('\n').unwrap();
    (code.parse().unwrap(), text.to_owned())
}

pub(crate) struct Container {
    pub(crate) id: String,
    cgroups: Cgroups,
}

impl Container {
    /// A program, whose arguments follow, in a cgroup below those of the container, and as that user with these groups.
    pub(crate) fn command_below(&self, below: &str, user: u32, groups: &str) -> Command {
        let paths: Vec<_> = self.cgroups.0.iter().map(|path| path.join(below)).collect();
        for path in &paths {
            fs::create_dir_all(path).unwrap();
        }
        Cgroups::command_at(&paths, user, &["--groups", groups])
    }
}

pub(crate) struct Watch {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    pub(crate) async fn next(&mut self) -> Option<String> {
        tokio::time::timeout(LIMIT, self.lines.next_line()).await.expect("it goes on or ends").unwrap()
    }

    pub(crate) async fn event(&mut self) -> Value {
        let line = self.next().await.expect("an event");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

/// The cgroups of a container, one in each hierarchy of which there may be several: that of version 2, and the freezer of version 1.
struct Cgroups(Vec<PathBuf>);

impl Cgroups {
    fn of(id: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let roots = mounts.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (at, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
            let is_freezer = || kind == "cgroup" && options.split(',').any(|option| option == "freezer");
            (kind == "cgroup2" || is_freezer()).then(|| PathBuf::from(at))
        });
        // The runtimes of tests that run side by side draw the same IDs.
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let pod = format!("kubepods-{}-{number}/pod{id:.32}", std::process::id());
        let paths: Vec<_> = roots.map(|root| root.join(&pod).join(id)).collect();
        assert!(!paths.is_empty(), "no cgroups are mounted here: {mounts}");
        for path in &paths {
            fs::create_dir_all(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        Self(paths)
    }

    /// The same cgroups below one of another user, as systemd gives them to the users of a machine.
    fn of_user_for(user: u32, id: &str) -> Self {
        let cgroups = Self::of(id);
        for path in &cgroups.0 {
            for owned in path.ancestors().take(3) {
                std::os::unix::fs::chown(owned, Some(user), Some(user)).unwrap();
            }
        }
        cgroups
    }

    /// A program, whose arguments follow, in these cgroups and as that user and group.
    fn command(&self, user: u32) -> Command {
        self.of_user(user, &["--clear-groups"])
    }

    /// The same, with these groups besides the user's own.
    fn command_in(&self, user: u32, groups: &str) -> Command {
        self.of_user(user, &["--groups", groups])
    }

    fn of_user(&self, user: u32, groups: &[&str]) -> Command {
        Self::command_at(&self.0, user, groups)
    }

    fn command_at(paths: &[PathBuf], user: u32, groups: &[&str]) -> Command {
        const ENTER: &str =
            "while [ \"$1\" != -- ]; do echo $$ >\"$1/cgroup.procs\" || exit 1; shift; done; shift; exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", ENTER, "sh"]).args(paths).arg("--");
        let user = user.to_string();
        command.args(["setpriv", "--reuid", &user, "--regid", &user]).args(groups).arg("--");
        command.stdin(Stdio::null());
        command
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for path in &self.0 {
            // One whose processes are still ending stays. No other test has its name.
            remove_below(path);
            let _ = path.ancestors().take(3).try_for_each(fs::remove_dir);
        }
    }
}

/// Removes the cgroups below one.
fn remove_below(path: &Path) {
    for child in fs::read_dir(path).into_iter().flatten().flatten().filter(|child| child.path().is_dir()) {
        remove_below(&child.path());
        let _ = fs::remove_dir(child.path());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_of_the_host_does_not_become_a_container_by_the_name_of_a_cgroup_of_its_own() {
    let place = Place::start(&[]).await;
    let app = place.run("app");
    let forged = Container { id: app.id.clone(), cgroups: Cgroups::of_user_for(NOBODY, &app.id) };
    let (code, text) = place.ask(&forged, NOBODY, DB).await;
    assert_eq!(code, 403, "{text}");
    assert!(text.contains("is not told apart here"), "{text}");
    assert_eq!(place.ask(&app, NOBODY, DB).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_sees_its_own_whatever_its_user_and_nothing_of_others() {
    let place = Place::start(&[]).await;
    let app = place.run("app");
    let other = place.run_other("app");
    for user in [0, NOBODY] {
        let get = async |path: &str| place.ask(&app, user, path).await;
        let (code, text) = get(DB).await;
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, &json["data"]), (200, &json!({"password": "b25l"})), "user {user}: {text}");
        let (code, text) = get("/api/v1/secrets").await;
        let list: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 1), "user {user}: {text}");
        let (code, text) = get("/api/v1/pods").await;
        assert!(code == 200 && text.contains("uid-web") && !text.contains("uid-other"), "user {user}: {code} {text}");
        let (code, text) = get("/api/v1/nodes").await;
        assert!(code == 200 && text.contains(NODE), "user {user}: {code} {text}");
        let (code, text) = get("/larder/v1/pods/uid-web/status").await;
        assert!(code == 200 && text.contains(&app.id), "user {user}: {code} {text}");
        let (code, text) = get("/larder/v1/events").await;
        assert!(code == 200 && text.contains(&app.id) && !text.contains("uid-other"), "user {user}: {code} {text}");
        assert_eq!(get("/readyz?verbose").await.0, 200, "user {user}");
        for path in [
            "/api/v1/namespaces/shop/secrets/tls",
            "/api/v1/namespaces/shop/pods/other",
            "/api/v1/namespaces/shop/secrets/db?pod=other",
            "/api/v1/namespaces",
            "/larder/v1/pods/uid-other/status",
            "/larder/v1/namespaces/shop/pods/other/status",
            "/larder/v1/status",
            "/larder/v1/whois?pid=1",
            "/metrics",
        ] {
            let (code, text) = get(path).await;
            let refusal = r#"container \"app\" of pod \"shop/web\" may not get "#;
            let listed = r#"container \"app\" of pod \"shop/web\" may not list "#;
            assert!(
                code == 403 && (text.contains(refusal) || text.contains(listed)),
                "user {user}, {path}: {code} {text}"
            );
        }
    }
    // The other pod sees its own.
    assert_eq!(place.ask(&other, NOBODY, "/api/v1/namespaces/shop/secrets/tls").await.0, 200);
    assert_eq!(place.ask(&other, 0, DB).await.0, 403);
    // The host's root sees all, and its other users nothing.
    assert_eq!(place.daemon.get("/api/v1/secrets").await.json()["items"].as_array().unwrap().len(), 2);
    let mut command = Command::new("setpriv");
    let user = NOBODY.to_string();
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--", "curl", "--silent", "--unix-socket"]);
    command.arg(place.daemon.socket()).args(["--write-out", "\n%{http_code}", "http://larder/api/v1/pods"]);
    let (code, text) = answer(run(command).await);
    assert!(code == 403 && text.contains("user 65534 may not read from larder"), "{code} {text}");
    // Each decision is counted.
    let metrics = place.daemon.get("/metrics").await.text;
    for line in [
        r#"larder_access_decisions_total{subject="pod",rule="reference",allowed="true"}"#,
        r#"larder_access_decisions_total{subject="pod",rule="none",allowed="false"}"#,
        r#"larder_access_decisions_total{subject="host",rule="none",allowed="false"}"#,
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn a_group_is_named_in_a_file_by_its_number_and_refused_by_the_name_that_was_set() {
    let spawn = |settings: &str, more: &[&str]| {
        let folder = folder_with(&[("../settings.yaml", settings)]);
        let fixed = ["--manifests", "manifests", "--runtime-endpoint", "none", "--config", "settings.yaml"];
        Daemon::spawn(folder, &[&fixed[..], more].concat())
    };
    spawn("access: {adminGroups: [2002, daemon]}\n", &[]).ready().await;
    for (settings, flags, told) in [
        (
            "access: {adminGroups: [nobodys]}\n",
            &[][..],
            "settings.yaml:1:23: access.adminGroups: there is no group \"nobodys\"",
        ),
        ("", &["--socket-admin-group", "nobodys"][..], "--socket-admin-group: there is no group \"nobodys\""),
    ] {
        let mut daemon = spawn(settings, flags);
        assert!(!daemon.ended().await.success());
        assert!(daemon.log().contains(told), "{}", daemon.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_group_sees_all_on_the_host_and_nothing_more_in_a_container() {
    for older in [false, true] {
        let config = tempfile::NamedTempFile::new().unwrap();
        fs::write(config.path(), format!("access: {{peerPidfd: {}}}\n", !older)).unwrap();
        let arguments = ["--config", config.path().to_str().unwrap(), "--socket-admin-group", "4242,daemon"];
        let place = Place::start(&arguments).await;
        let app = place.run("app");
        let tls = "/api/v1/namespaces/shop/secrets/tls";
        let curl = |groups: &str, before: &[&str]| place.curl_of_host(before, &format!("--groups={groups}"), tls);
        // `daemon` has this ID on every Linux.
        for groups in ["4242", "7,4242", "1"] {
            let (code, text) = answer(run(curl(groups, &[])).await);
            assert!(code == 200 && text.contains("dGhyZWU="), "groups {groups}, older {older}: {code} {text}");
        }
        let (code, text) = answer(run(curl("4243", &[])).await);
        assert!(code == 403 && text.contains("--socket-admin-group"), "older {older}: {code} {text}");
        // A PID namespace of its own, as a container has whose cgroup has no name of one.
        let (code, text) = answer(run(curl("4242", &["unshare", "--pid", "--fork", "--"])).await);
        assert_eq!(code, 403, "older {older}: {text}");
        let mut command = app.cgroups.command_in(NOBODY, "4242");
        command.args(["curl", "--silent", "--unix-socket"]).arg(place.daemon.socket());
        command.args(["--write-out", "\n%{http_code}", "http://larder/api/v1/namespaces/shop/secrets/tls"]);
        let (code, text) = answer(run(command).await);
        assert!(
            code == 403 && text.contains(r#"container \"app\" of pod \"shop/web\""#),
            "older {older}: {code} {text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn root_in_a_pid_namespace_of_its_own_is_not_the_hosts_root() {
    let place = Place::start(&[]).await;
    let as_root = |before: &[&str]| {
        let mut words = before.to_vec();
        words.push("curl");
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["--silent", "--unix-socket"]).arg(place.daemon.socket());
        command.args(["--write-out", "\n%{http_code}"]).arg(format!("http://larder{DB}"));
        run(command)
    };
    let (code, text) = answer(as_root(&[]).await);
    assert!(code == 200 && text.contains("dHdv"), "{code} {text}");
    let (code, text) = answer(as_root(&["unshare", "--pid", "--fork", "--"]).await);
    assert!(code == 403 && text.contains("PID namespace of its own"), "{code} {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_claims_the_uid_of_another_one_changes_nothing_for_that_one() {
    let place = Place::start(&[]).await;
    let app = place.run("app");
    let mut watch = place.watch(&app, "/api/v1/pods?watch=true");
    assert_eq!(watch.event().await["object"]["metadata"]["name"], "web");
    // Whoever may create pods can write the annotation.
    let claims = pod("evil", "claims").node(NODE).annotation("kubernetes.io/config.mirror", "uid-web");
    place.api.store().create(claims.container("app", "evil:1").build()).unwrap();
    let path = "/api/v1/namespaces/evil/pods/claims";
    until("the pod is known", async || (place.daemon.get(path).await.code == 200).then_some(())).await;
    assert_eq!(place.ask(&app, 0, DB).await.0, 200);
    let (code, text) = place.ask(&app, 0, "/api/v1/pods").await;
    assert!(code == 200 && text.contains("\"name\":\"web\"") && !text.contains("claims"), "{code} {text}");
    place.api.store().delete(Kind::Pod, "evil", "claims").unwrap();
    until("the pod is gone", async || (place.daemon.get(path).await.code == 404).then_some(())).await;
    assert_eq!(place.ask(&app, 0, DB).await.0, 200);
    assert!(watch.child.try_wait().unwrap().is_none(), "its watch is not closed");
    place.api.store().delete(Kind::Pod, "shop", "web").unwrap();
    while let Some(line) = watch.next().await {
        assert!(!line.contains("claims"), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_not_told_where_the_runtime_is_that_fails() {
    let place = Place::start(&[]).await;
    let app = place.run("app");
    let path = "/larder/v1/pods/uid-web/status";
    assert_eq!(place.ask(&app, 0, path).await.0, 200);
    place.cri.outage().await;
    let stale = async || {
        let text = place.daemon.get(path).await.text;
        text.contains("cri.sock").then_some(())
    };
    until("root is told why", stale).await;
    for path in [path, "/larder/v1/pods", "/larder/v1/pods/uid-web/status?newerThan=2099-01-01T00:00:00Z&timeout=1ms"] {
        let mut curl = place.curl(&app, 0, path);
        let (_, text) = answer(
            run({
                curl.arg("--include");
                curl
            })
            .await,
        );
        assert!(!text.contains("cri.sock") && text.contains("the reason is told"), "{path}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_a_container_has_its_own_changes_alone() {
    let place = Place::start(&[]).await;
    let app = place.run("app");
    let mut watch = place.watch(&app, "/api/v1/secrets?watch=true");
    let first = watch.event().await;
    assert_eq!((&first["type"], &first["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("db")), "{first}");
    place.api.store().apply(secret("shop", "tls", &[("key", "four")])).unwrap();
    until("root sees the change", async || {
        let tls = place.daemon.get("/api/v1/namespaces/shop/secrets/tls").await.json();
        (tls["data"]["key"] == "Zm91cg==").then_some(())
    })
    .await;
    place.api.store().apply(secret("shop", "db", &[("password", "five"), ("root", "six")])).unwrap();
    let next = watch.event().await;
    assert_eq!(
        (&next["type"], &next["object"]["data"]),
        (&json!("MODIFIED"), &json!({"password": "Zml2ZQ=="})),
        "{next}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_the_runtime_has_not_told_of_is_waited_for() {
    let place = Place::start(&["--events", "off"]).await;
    for call in [Call::ListPodSandbox, Call::ListContainers] {
        place.cri.inject(CallFault::hang().call(call));
    }
    until("a list hangs", async || (place.cri.calls(Call::ListPodSandbox).open > 0).then_some(())).await;
    let app = place.run("app");
    let asked = place.ask(&app, NOBODY, DB);
    let released = async {
        until("it waits", async || {
            let metrics = place.daemon.get("/metrics").await.text;
            metrics.contains("larder_pod_status_open_waits 1\n").then_some(())
        })
        .await;
        place.cri.clear_faults();
    };
    let ((code, text), ()) = tokio::join!(asked, released);
    assert!(code == 200 && text.contains("b25l"), "{code} {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_nobody_knows_is_refused_with_what_to_do() {
    let place = Place::start(&[]).await;
    let unknown =
        Container { id: String::new(), cgroups: Cgroups::of(&format!("{:064x}", u64::from(std::process::id()))) };
    let (code, text) = place.ask(&unknown, 0, DB).await;
    assert!(
        code == 403 && text.contains("a process of user 0 (") && text.contains("not told apart here"),
        "{code} {text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_has_ended_loses_its_watch_and_its_successor_has_its_own() {
    let place = Place::start(&[]).await;
    let app = place.run("app");
    let mut watch = place.watch(&app, "/api/v1/secrets?watch=true");
    assert_eq!(watch.event().await["type"], "ADDED");
    let path = format!("/larder/v1/whois?containerID={}", app.id);
    place.cri.containers().exit_container(&app.id, 0).unwrap();
    until("the runtime tells that it has ended", async || {
        (place.daemon.get(&path).await.json()["container"]["exitCode"] == 0).then_some(())
    })
    .await;
    let told = Instant::now();
    while let Some(line) = watch.next().await {
        assert!(!line.contains("\"type\""), "nothing comes any more: {line}");
    }
    assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
    assert!(!watch.child.wait().await.unwrap().success(), "the connection is closed, and the answer has no end");
    // Whoever is left in its cgroup sees nothing.
    let (code, text) = place.ask(&app, 0, DB).await;
    assert!(code == 403 && text.contains("its container has ended"), "{code} {text}");
    let successor = place.run("app");
    assert_eq!(place.ask(&successor, NOBODY, DB).await.0, 200);
    // The pod goes from the API server, while the runtime still has its container.
    let mut watch = place.watch(&successor, "/api/v1/secrets?watch=true");
    assert_eq!(watch.event().await["type"], "ADDED");
    place.api.store().delete(Kind::Pod, "shop", "web").unwrap();
    while watch.next().await.is_some() {}
    let (code, text) = place.ask(&successor, 0, DB).await;
    assert!(code == 403 && text.contains("its pod is not among the pods of this node"), "{code} {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_api_server_a_container_still_sees_its_own() {
    let place = Place::start(&[]).await;
    let app = place.run("app");
    assert_eq!(place.ask(&app, NOBODY, DB).await.0, 200);
    place.api.outage().await;
    until("it is stale", async || {
        let answer = place.daemon.get("/api/v1/namespaces/shop/pods/web").await;
        answer.is_stale().then_some(())
    })
    .await;
    for user in [0, NOBODY] {
        let (code, text) = place.ask(&app, user, DB).await;
        assert!(code == 200 && text.contains("b25l") && !text.contains("dHdv"), "{code} {text}");
        assert_eq!(place.ask(&app, user, "/api/v1/namespaces/shop/secrets/tls").await.0, 403);
        assert_eq!(place.ask(&app, user, "/api/v1/namespaces/shop/pods/web").await.0, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_has_all_its_connections_takes_none_from_others() {
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), "limits: {podConnections: 2}\n").unwrap();
    let place = Place::start(&["--config", config.path().to_str().unwrap()]).await;
    let app = place.run("app");
    let other = place.run_other("app");
    let mut watches = Vec::new();
    for _ in 0..2 {
        let mut watch = place.watch(&app, "/api/v1/secrets?watch=true");
        watch.event().await;
        watches.push(watch);
    }
    let (code, text) = place.ask(&app, 0, DB).await;
    assert!(code == 503 && text.contains("too many connections"), "{code} {text}");
    assert_eq!(place.ask(&other, 0, "/api/v1/namespaces/shop/secrets/tls").await.0, 200);
    assert_eq!(place.daemon.get(DB).await.code, 200);
    drop(watches);
    until("there is room again", async || (place.ask(&app, 0, DB).await.0 == 200).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pod_of_the_docs_reads_its_own_key() {
    let (folder, daemon_folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let manifests = folder.path().join("manifests");
    fs::create_dir(&manifests).unwrap();
    let example = include_str!("../../../../docs/examples/pod-with-socket.yaml");
    fs::write(manifests.join("web.yaml"), example).unwrap();
    let cri = CriServer::start(&folder.path().join("cri.sock")).await.unwrap();
    let endpoint = cri.endpoint();
    let arguments = ["--manifests", manifests.to_str().unwrap(), "--runtime-endpoint", &endpoint];
    let daemon = Daemon::spawn(daemon_folder, &arguments);
    daemon.ready().await;
    fs::set_permissions(daemon.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let pod = daemon.get("/api/v1/namespaces/shop/pods/web").await.json();
    let (uid, spec) = (pod["metadata"]["uid"].as_str().unwrap(), &pod["spec"]["containers"][0]);
    let sandbox = cri.containers().run_sandbox(&SandboxSpec::new("shop", "web", uid));
    let id = cri.containers().create_container(&sandbox, spec["name"].as_str().unwrap(), "curl").unwrap();
    cri.containers().start_container(&id).unwrap();
    // Its command, as its user, and with the place of this socket.
    let cgroups = Cgroups::of(&id);
    let user = spec["securityContext"]["runAsUser"].as_u64().unwrap();
    let mut command = cgroups.command(user.try_into().unwrap());
    let socket = daemon.socket();
    command.args(spec["command"].as_array().unwrap().iter().map(|word| {
        let word = word.as_str().unwrap();
        if word == "/run/larder/larder.sock" { socket.to_str().unwrap() } else { word }
    }));
    let mut command = tokio::process::Command::from(command);
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = Watch { child, lines }.event().await;
    assert_eq!(first["object"]["data"], json!({"password": "bGV0LW1lLWlu"}), "{first}");
}
