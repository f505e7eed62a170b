//! The socket: whose it is, and who may read.

use crate::harness::{Daemon, LIMIT, binary_for_all, folder_with, is_socket, larder, run, until};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use tokio::net::UnixStream;

const ARGUMENTS: [&str; 4] = ["--manifests", "manifests", "--runtime-endpoint", "none"];

/// The user and group `nobody`.
const NOBODY: u32 = 65_534;

#[tokio::test]
async fn a_socket_in_use_is_left_alone_and_its_holder_named() {
    let first = Daemon::with_manifests(&[]).await;
    let mut command = larder();
    command.arg("run").args(ARGUMENTS).arg("--socket").arg(first.socket()).current_dir(first.folder.path());
    let told = run(command).await.failed();
    let holder = format!("in use by larder (process {})", first.id());
    assert!(told.contains(&holder) && told.contains("l.sock"), "{told}");
    assert_eq!(first.get("/livez").await.code, 200);
}

#[tokio::test]
async fn the_socket_of_a_daemon_that_was_killed_is_taken_over() {
    let mut first = Daemon::with_manifests(&[]).await;
    first.kill();
    assert!(is_socket(&first.socket()), "it had no chance to remove it");
    let folder = std::mem::replace(&mut first.folder, tempfile::tempdir().unwrap());
    let second = Daemon::spawn(folder, &ARGUMENTS);
    second.ready().await;
}

#[tokio::test]
async fn a_socket_that_was_removed_is_listened_on_anew() {
    let mut daemon = Daemon::with_manifests(&[]).await;
    fs::remove_file(daemon.socket()).unwrap();
    daemon.ready().await;
    daemon.logged("listening on a new one").await;
    assert_eq!(fs::metadata(daemon.socket()).unwrap().permissions().mode() & 0o777, 0o666);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.ended().await.code(), Some(0), "{}", daemon.log());
    assert!(!daemon.socket().exists(), "it is removed at the end, as the first one is");
}

#[tokio::test]
async fn what_is_no_socket_is_refused_and_kept() {
    let folder = folder_with(&[]);
    let path = folder.path().join("l.sock");
    fs::write(&path, "precious").unwrap();
    let mut daemon = Daemon::spawn(folder, &ARGUMENTS);
    assert_eq!(daemon.ended().await.code(), Some(1));
    daemon.logged("is not a socket").await;
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test]
async fn a_path_that_is_too_long_says_how_long_it_may_be() {
    let mut command = larder();
    let path = format!("/tmp/{}", "x".repeat(120));
    command.args(["run", "--manifests", "/tmp", "--runtime-endpoint", "none", "--socket", &path]);
    let told = run(command).await.failed();
    assert!(told.contains("125 bytes") && told.contains("107"), "{told}");
}

#[tokio::test]
async fn a_signal_ends_it_cleanly_and_removes_the_socket() {
    // A supervisor starts a daemon again that ends for a reason that nobody chose.
    for (signal, code) in [(Signal::TERM, 0), (Signal::INT, 0), (Signal::HUP, 129)] {
        let mut daemon = Daemon::with_manifests(&[]).await;
        // One client is idle, one in the middle of its request: neither holds up the end.
        let idle = UnixStream::connect(daemon.socket()).await.unwrap();
        let halfway = UnixStream::connect(daemon.socket()).await.unwrap();
        halfway.writable().await.unwrap();
        halfway.try_write(b"GET /livez HTTP/1.1\r\n").unwrap();
        daemon.signal(signal);
        let signalled = tokio::time::Instant::now();
        let status = daemon.ended().await;
        let took = signalled.elapsed();
        assert!(took < std::time::Duration::from_secs(4), "{took:?}, which is near the limit for answers in flight");
        assert_eq!(status.code(), Some(code), "{}", daemon.log());
        assert!(!daemon.socket().exists(), "the socket is removed");
        drop((idle, halfway));
    }
}

#[tokio::test]
async fn a_hangup_that_was_ignored_before_is_ignored() {
    let mut daemon = Daemon::ignoring_hangups().await;
    daemon.signal(Signal::HUP);
    assert_eq!(daemon.get("/livez").await.code, 200);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.ended().await.code(), Some(0), "{}", daemon.log());
    assert!(daemon.log().contains("SIGTERM") && !daemon.log().contains("SIGHUP"), "{}", daemon.log());
}

#[tokio::test]
async fn everyone_may_connect_and_only_root_may_read() {
    assert!(rustix::process::geteuid().is_root(), "this test changes the user of a process, and so needs root");
    let daemon = Daemon::with_manifests(&[]).await;
    assert_eq!(fs::metadata(daemon.socket()).unwrap().permissions().mode() & 0o777, 0o666);
    fs::set_permissions(daemon.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let open = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(binary_for_all(open.path()));
    command.args(["get", "secrets", "-A"]).env("LARDER_SOCKET", daemon.socket()).uid(NOBODY).gid(NOBODY);
    let told = run(command).await.failed();
    assert!(told.starts_with("Error from server (Forbidden): user 65534 may not read"), "{told}");
    let metrics = until("it is counted", async || {
        Some(daemon.get("/metrics").await.text).filter(|text| text.contains("larder_http_connections_foreign_total 1"))
    });
    metrics.await;
}

/// The user that many images of containers run as.
const NONROOT: u32 = 65_532;

/// What `larder get` says to that user; with `--pid`, in a PID namespace of its own, as in a container.
async fn get_as(user: u32, daemon: &Daemon, namespace: &[&str]) -> crate::harness::Output {
    let mut command = std::process::Command::new("unshare");
    command.args(namespace).args(["--", "setpriv", "--reuid"]).arg(user.to_string()).args(["--clear-groups", "--"]);
    command.arg(binary_for_all(daemon.folder.path())).args(["get", "pods", "-A"]);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("LARDER_SOCKET", daemon.socket());
    run(command).await
}

#[tokio::test]
async fn a_daemon_that_is_not_root_serves_root_and_its_own_user_but_no_other_container_of_that_user() {
    let daemon = Daemon::spawn_as(NONROOT, folder_with(&[]), &ARGUMENTS);
    daemon.ready().await;
    assert_eq!(fs::metadata(daemon.socket()).unwrap().permissions().mode() & 0o777, 0o666);
    for user in [0, NONROOT] {
        assert_eq!(get_as(user, &daemon, &[]).await.code, Some(0), "user {user}");
    }
    for (user, namespace, who) in [
        (0, &["--pid", "--fork"][..], "a process of user 0 (it is in a user or PID namespace of its own)"),
        (NONROOT, &["--pid", "--fork"], "a process of user 65532 (it is in a user or PID namespace of its own)"),
        (NOBODY, &[], "user 65534"),
    ] {
        let told = get_as(user, &daemon, namespace).await.failed();
        assert!(told.starts_with(&format!("Error from server (Forbidden): {who} may not read")), "{told}");
    }
    // It is made anew by that user too.
    fs::remove_file(daemon.socket()).unwrap();
    daemon.ready().await;
    assert_eq!(get_as(NONROOT, &daemon, &[]).await.code, Some(0));
}

#[tokio::test]
async fn a_mount_of_the_folder_survives_a_restart_and_one_of_the_file_does_not() {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
    let mut first = Daemon::with_manifests(&[]).await;
    // As two pods have it: one mounts the folder, and one the file.
    let pods = tempfile::tempdir().unwrap();
    let script = "\
        mkdir folder && touch file && mount --bind -o ro \"$2\" folder && mount --bind \"$2/l.sock\" file || exit 1
        for when in before after; do
            read _
            for socket in folder/l.sock file; do
                \"$1\" get pods -A --socket $socket >&2 && echo $when $socket answers || echo $when $socket fails
            done
        done";
    let mut command = tokio::process::Command::from(std::process::Command::new("unshare"));
    command.args(["--mount", "--", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_larder")]).arg(first.folder.path());
    command.current_dir(pods.path()).kill_on_drop(true);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut reader = command.spawn().unwrap();
    let (mut ask, told) = (reader.stdin.take().unwrap(), reader.stdout.take().unwrap());
    let mut told = tokio::io::BufReader::new(told).lines();
    let mut two_lines = async || {
        ask.write_all(b"\n").await.unwrap();
        let mut next = async || tokio::time::timeout(LIMIT, told.next_line()).await.expect("it answers").unwrap();
        [next().await.expect("a line"), next().await.expect("a line")]
    };
    assert_eq!(two_lines().await, ["before folder/l.sock answers", "before file answers"]);
    first.signal(Signal::TERM);
    first.ended().await;
    let folder = std::mem::replace(&mut first.folder, tempfile::tempdir().unwrap());
    let second = Daemon::spawn(folder, &ARGUMENTS);
    second.ready().await;
    assert_eq!(two_lines().await, ["after folder/l.sock answers", "after file fails"]);
}

#[tokio::test]
async fn a_folder_in_which_others_could_swap_the_socket_is_refused_with_what_to_do() {
    let run_in = async |prepare: &dyn Fn(&Path)| {
        let folder = folder_with(&[]);
        prepare(folder.path());
        let mut daemon = Daemon::spawn(folder, &ARGUMENTS);
        assert_eq!(daemon.ended().await.code(), Some(1), "{}", daemon.log());
        assert!(!daemon.socket().exists());
        daemon.log()
    };
    let world = run_in(&|folder| fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap()).await;
    assert!(world.contains("its mode 0777 lets everybody write") && world.contains("chmod go-w /"), "{world}");
    let foreign = run_in(&|folder| std::os::unix::fs::chown(folder, Some(NOBODY), None).unwrap()).await;
    assert!(foreign.contains("it belongs to user 65534") && foreign.contains("chown -h root /"), "{foreign}");
}

#[tokio::test]
async fn without_a_daemon_a_command_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = larder();
    command.args(["get", "pods", "--socket"]).arg(folder.path().join("l.sock"));
    let told = run(command).await.failed();
    assert!(
        told.contains("the socket does not exist") && told.contains("larder run") && told.contains("LARDER_SOCKET"),
        "{told}"
    );
}
