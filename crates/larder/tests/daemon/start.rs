//! What cannot work is told before anything starts.

use crate::harness::{Daemon, folder_with, larder, run, until};
use larder_testkit::api_server::{ApiServer, ApiServerOptions, User};
use larder_testkit::objects::node;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::process::CommandExt as _;

/// What `larder run` with these arguments complains of.
async fn told(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = larder();
    command.arg("run").args(arguments).args(["--socket", "l.sock"]).current_dir(folder.path());
    let told = run(command).await.failed();
    assert!(!folder.path().join("l.sock").exists(), "{told}");
    told
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_used_is_named_with_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("garbage"), "{{{ not yaml").unwrap();
    fs::write(path("empty"), "apiVersion: v1\nkind: Config\n").unwrap();
    for (name, why) in [("missing", "No such file"), ("", "directory"), ("garbage", "kubeconfig"), ("empty", "context")]
    {
        let path = path(name);
        let told = told(&["--kubeconfig", &path, "--node-name", "n", "--runtime-endpoint", "none"]).await;
        assert!(told.starts_with("error: ") && told.contains(&path) && told.contains(why), "{told}");
        assert_eq!(told.matches(&path).count(), 1, "told twice: {told}");
    }
}

/// A server that has the node, and the kubeconfig of that node.
async fn server(tls: bool) -> (ApiServer, Value) {
    let server = ApiServer::start_with(ApiServerOptions { tls, ..Default::default() }).await.unwrap();
    server.store().create(node("node-1")).unwrap();
    let kubeconfig = server.kubeconfig(&server.add_user(User::node("node-1")));
    (server, serde_json::from_str(&kubeconfig).unwrap())
}

/// A daemon with a kubeconfig, whose folder has these files too.
fn daemon_with(config: &Value, files: &[(&str, &[u8])]) -> Daemon {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let path = folder.path().join("kubeconfig");
    fs::write(&path, config.to_string()).unwrap();
    Daemon::spawn(folder, &["--kubeconfig", path.to_str().unwrap(), "--runtime-endpoint", "none"])
}

#[tokio::test]
async fn empty_fields_of_a_kubeconfig_are_not_set() {
    let (_server, mut config) = server(true).await;
    let cluster = &mut config["clusters"][0]["cluster"];
    let authorities: k8s_openapi::ByteString =
        serde_json::from_value(cluster["certificate-authority-data"].take()).unwrap();
    cluster["certificate-authority"] = json!("ca.crt");
    for field in ["certificate-authority-data", "tls-server-name", "proxy-url"] {
        cluster[field] = json!("");
    }
    for field in ["client-certificate", "client-certificate-data", "client-key-data", "tokenFile", "username"] {
        config["users"][0]["user"][field] = json!("");
    }
    let daemon = daemon_with(&config, &[("ca.crt", &authorities.0)]);
    daemon.ready().await;
    assert_eq!(daemon.get("/api/v1/nodes/node-1").await.code, 200);
}

#[tokio::test]
async fn a_client_certificate_of_version_1_does_not_prevent_the_start() {
    let (_server, mut config) = server(true).await;
    config["users"][0]["user"] = json!({"client-certificate": "v1.crt", "client-key": "v1.key"});
    let certificate = include_bytes!("../../../larder-kube/src/tls/testdata/v1.crt");
    let key = include_bytes!("../../../larder-kube/src/tls/testdata/v1.key");
    let daemon = daemon_with(&config, &[("v1.crt", certificate), ("v1.key", key)]);
    until("it answers", async || daemon.try_get("/larder/v1/status").await).await;
}

#[tokio::test]
async fn a_server_without_a_scheme_is_reached_as_by_kubectl_and_that_is_told() {
    let (server, mut config) = server(false).await;
    config["clusters"][0]["cluster"]["server"] = json!(server.url().strip_prefix("http://").unwrap());
    let daemon = daemon_with(&config, &[]);
    daemon.logged("the server has no scheme").await;
    until("the report tells of it", async || {
        let report = daemon.try_get("/larder/v1/status").await?.json();
        report["degraded"].to_string().contains("401").then_some(())
    })
    .await;
    // Told once, however often the kubeconfig is read.
    until("it is read again", async || {
        let metrics = daemon.get("/metrics").await.text;
        let reads = metrics.lines().find_map(|line| line.strip_prefix("larder_api_server_configuration_reads_total "));
        (reads?.parse::<u64>().ok()? >= 3).then_some(())
    })
    .await;
    assert_eq!(daemon.log().matches("the server has no scheme").count(), 1, "{}", daemon.log());
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_named() {
    for (arguments, expected) in [
        (&["--node-name", "n"][..], "--kubeconfig"),
        (&["--manifests", "/does/not/exist"], "/does/not/exist"),
        (&["--manifests", "/", "--node-name", "Not_A_Name"], "--node-name: \"not_a_name\" is not a node's name"),
        (&["--manifests", "/", "--runtime-endpoint", "tcp://127.0.0.1:1"], "tcp://127.0.0.1:1"),
        (&["--manifests", "/", "--log-level", "lou[d"], "--log-level"),
        (&["--manifests", "/", "--log-level", "verbose"], "off, error, warn, info, debug or trace"),
    ] {
        let told = told(arguments).await;
        assert!(told.starts_with("error: ") && told.contains(expected), "{arguments:?}: {told}");
        assert!(told.matches("/does/not/exist").count() < 2, "told twice: {told}");
    }
}

#[tokio::test]
async fn a_file_of_settings_that_cannot_be_used_is_named_with_the_place() {
    let folder = folder_with(&[("settings.yaml", "policy:\n  keepLastKnwon: true\n")]);
    let path = folder.path().join("manifests/settings.yaml").display().to_string();
    let wrong = told(&["--manifests", "/", "--config", &path]).await;
    assert!(wrong.starts_with(&format!("error: {path}:2:3: unknown setting \"keepLastKnwon\"")), "{wrong}");
    // To print them is to check them, as the start does, in the same words.
    fs::write(&path, "kube:\n  pageSize: 0\n").unwrap();
    for key in ["maxConnections", "http1Connections", "streamsPerConnection", "startsInFlight"] {
        fs::write(&path, format!("kube: {{{key}: 65537}}\n")).unwrap();
        let told = told(&["--manifests", "/", "--config", &path]).await;
        assert!(told.contains(&format!("kube.{key}: must be from")), "{told}");
    }
    fs::write(&path, "kube:\n  pageSize: 0\n").unwrap();
    let unusable = format!("error: {path}:2:13: kube.pageSize: must be from 1 to 65536\n");
    assert_eq!(told(&["--manifests", "/", "--config", &path]).await, unusable);
    assert_eq!(told(&["--print-config", "--config", &path]).await, unusable);
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("fifo"), rustix::fs::Mode::RUSR).unwrap();
    for path in [folder.path().join("fifo").to_str().unwrap(), "/dev/zero", "/"] {
        let told = told(&["--manifests", "/", "--config", path]).await;
        assert!(
            told.contains(path) && told.contains("--config") && told.contains("put a regular file in its place"),
            "{told}"
        );
    }
    let missing = told(&["--manifests", "/", "--config", "/does/not/exist"]).await;
    assert!(missing.contains("/does/not/exist") && missing.contains("--config"), "{missing}");
}

#[tokio::test]
async fn settings_are_printed_as_they_are() {
    let mut command = larder();
    command.args(["run", "--print-config", "--node-name", "edge-1", "--default-ttl", "90s"]);
    let printed = run(command).await.ok();
    assert!(printed.contains("nodeName: edge-1\n") && printed.contains("defaultTtl: 1m30s\n"), "{printed}");
}

#[tokio::test]
async fn a_metrics_address_in_use_is_named_and_nothing_is_left_behind() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let told = told(&["--manifests", "/tmp", "--runtime-endpoint", "none", "--metrics-address", &address]).await;
    assert!(told.contains(&address) && told.contains("--metrics-address"), "{told}");
}

#[tokio::test]
async fn the_usage_line_is_the_same_whatever_the_environment_sets() {
    let mut command = larder();
    command.args(["get"]).env("LARDER_SOCKET", "l.sock");
    let told = run(command).await.stderr;
    assert!(told.contains("Usage: larder get [OPTIONS] <KIND [NAME]>..."), "{told}");
}

#[tokio::test]
async fn an_empty_name_is_refused_before_anything_is_asked() {
    let mut command = larder();
    command.args(["get", "pods", ""]);
    let told = run(command).await.failed();
    assert_eq!(told, "error: a name may not be empty: leave it out for all pods\n");
}

#[tokio::test]
async fn a_runtime_that_is_away_is_told_once() {
    let endpoint = ["--runtime-endpoint", "unix:///does/not/exist.sock"];
    let daemon = Daemon::spawn(
        folder_with(&[]),
        &[&["--manifests", "manifests", "--log-level", "larder_pleg=debug"], &endpoint[..]].concat(),
    );
    let log = until("it is found away twice", || async {
        let log = daemon.log();
        log.contains("still cannot be listed").then_some(log)
    })
    .await;
    let warned = log.lines().filter(|line| line.contains("WARN") && line.contains("cannot be listed")).count();
    assert_eq!(warned, 1, "{log}");
}

#[tokio::test]
async fn a_runtime_that_answers_nonsense_of_several_kinds_is_told_once_for_each() {
    use tokio::io::AsyncWriteExt as _;
    let folder = folder_with(&[]);
    fs::write(folder.path().join("settings.yaml"), "pleg: {relistPeriod: 20ms}\n").unwrap();
    let runtime = tokio::net::UnixListener::bind(folder.path().join("cri.sock")).unwrap();
    let nonsense: [&[u8]; 4] =
        [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", &[0xff; 64], &[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1]];
    let answering = async {
        for answer in nonsense.iter().cycle() {
            let (mut stream, _) = runtime.accept().await.unwrap();
            // It may have been closed already.
            let _ = stream.write_all(answer).await;
        }
    };
    let endpoint = format!("unix://{}", folder.path().join("cri.sock").display());
    let arguments = ["--manifests", "manifests", "--config", "settings.yaml", "--runtime-endpoint", &endpoint];
    let daemon = Daemon::spawn(folder, &[&arguments[..], &["--log-level", "larder_pleg=debug"]].concat());
    let log = until("it cannot be listed again and again", || async {
        let log = daemon.log();
        (log.matches("still cannot be listed").count() >= 20).then_some(log)
    });
    let log = tokio::select! {
        log = log => log,
        () = answering => unreachable!("it answers for ever"),
    };
    let warned: Vec<_> =
        log.lines().filter(|line| line.contains("WARN") && line.contains("cannot be listed")).collect();
    assert!((1..=3).contains(&warned.len()), "{warned:#?}");
    let all = log.lines().filter(|line| line.contains("WARN")).count();
    assert!(all <= warned.len() + 1, "the stream of events is told of once, beside them: {log}");
}

#[tokio::test]
async fn a_log_that_cannot_be_written_harms_nobody() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let arguments = ["--manifests", "manifests", "--runtime-endpoint", "none", "--log-level", "trace"];
    let mut daemon = Daemon::spawn_with_log(folder_with(&[]), &arguments, full);
    daemon.ready().await;
    daemon.signal(rustix::process::Signal::TERM);
    assert!(daemon.ended().await.success());
}

#[tokio::test]
async fn a_log_that_nobody_reads_holds_up_nobody() {
    // A pipe that is full: nobody reads its other end.
    let (reader, writer) = std::io::pipe().unwrap();
    let arguments = ["--manifests", "manifests", "--runtime-endpoint", "none", "--log-level", "trace"];
    let log = fs::File::from(std::os::fd::OwnedFd::from(writer));
    let mut daemon = Daemon::spawn_with_log(folder_with(&[]), &arguments, log);
    daemon.ready().await;
    for _ in 0..500 {
        assert_eq!(daemon.get("/livez").await.code, 200);
    }
    daemon.signal(rustix::process::Signal::TERM);
    assert!(daemon.ended().await.success());
    drop(reader);
}

#[tokio::test]
async fn no_core_is_dumped() {
    let daemon = Daemon::with_manifests(&[]).await;
    let limits = fs::read_to_string(format!("/proc/{}/limits", daemon.id())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"], "{core}");
}

#[tokio::test]
async fn a_fatal_signal_leaves_no_core() {
    use std::os::unix::process::ExitStatusExt as _;
    let mut daemon = Daemon::with_manifests(&[]).await;
    daemon.signal(rustix::process::Signal::ABORT);
    let status = daemon.ended().await;
    assert_eq!((status.signal(), status.core_dumped()), (Some(6), false), "{status:?}");
}

#[tokio::test]
async fn another_process_of_the_same_user_can_read_nothing_of_its_memory() {
    const USER: u32 = 65_532;
    let daemon = Daemon::spawn_as(USER, folder_with(&[]), &["--manifests", "manifests", "--runtime-endpoint", "none"]);
    daemon.ready().await;
    for file in ["mem", "environ", "maps", "auxv"] {
        let mut command = std::process::Command::new("head");
        command.args(["-c1"]).arg(format!("/proc/{}/{file}", daemon.id())).uid(USER).gid(USER);
        let told = run(command).await;
        assert!(told.code != Some(0) && told.stderr.contains("Permission denied"), "{file}: {told:?}");
    }
    // What belongs to a process that may be dumped belongs to its user.
    let status = fs::metadata(format!("/proc/{}/status", daemon.id())).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&status), 0);
}

#[tokio::test]
async fn a_nodes_name_is_taken_as_the_kubelet_takes_it() {
    let arguments = ["--manifests", "manifests", "--runtime-endpoint", "none"];
    let by_flag = [&arguments[..], &["--node-name", " Edge-1.Example.COM\n"]].concat();
    for daemon in [
        Daemon::spawn(folder_with(&[]), &by_flag),
        Daemon::spawn_where("NODE_NAME", "EDGE-1.example.com ", folder_with(&[]), &arguments),
    ] {
        daemon.ready().await;
        let report = daemon.get("/larder/v1/status").await.json();
        assert_eq!(report["node"], "edge-1.example.com");
    }
}

#[tokio::test]
async fn logs_are_lines_of_json_where_that_is_asked_for() {
    let arguments = ["--manifests", "manifests", "--runtime-endpoint", "none", "--log-format", "json"];
    let daemon = Daemon::spawn(folder_with(&[]), &arguments);
    daemon.ready().await;
    daemon.logged("serving").await;
    let log = daemon.log();
    // The last line may be half written.
    for line in log.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["level"].is_string() && line["fields"]["message"].is_string(), "{line}");
    }
}

#[tokio::test]
async fn completion_scripts_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let mut command = larder();
        command.args(["completion", shell]);
        let script = run(command).await.ok();
        assert!(script.contains("larder") && script.contains("get") && script.contains("wait"), "{shell}");
    }
}
