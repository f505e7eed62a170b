//! Plugins are shell scripts.

use super::*;
use crate::kubeconfig::ExecConfig;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;
use tokio::time::Instant;

const V1: &str = "client.authentication.k8s.io/v1";

/// Longer than anything here takes on a busy machine.
const LONG: Duration = Duration::from_mins(1);

fn exec(script: &str) -> ExecConfig {
    ExecConfig {
        command: "sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        env: Vec::new(),
        api_version: V1.to_owned(),
        install_hint: None,
        provide_cluster_info: false,
        interactive_mode: InteractiveMode::IfAvailable,
        cluster_config: None,
    }
}

fn plugin(script: &str) -> Plugin {
    Plugin::new(&exec(script), None).unwrap()
}

fn printing(status: &str) -> String {
    format!(r#"echo '{{"kind": "ExecCredential", "apiVersion": "{V1}", "status": {status}}}'"#)
}

/// Waits until a process is gone, or is a zombie that its new parent has yet to take.
async fn until_gone(pid: &str) {
    let stat = format!("/proc/{}/stat", pid.trim());
    let deadline = Instant::now() + LONG;
    while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < deadline, "process {pid} is still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_token_and_a_certificate_are_taken_with_their_expiry() {
    let status = r#"{"token": "t", "expirationTimestamp": "2030-01-02T03:04:05Z"}"#;
    let issued = plugin(&printing(status)).run(LONG).await.unwrap();
    assert_eq!(issued.token.unwrap().as_str(), "t");
    assert_eq!(issued.expires_at.unwrap().to_string(), "2030-01-02T03:04:05Z");
    let status = r#"{"clientCertificateData": "c", "clientKeyData": "k", "expirationTimestamp": null}"#;
    let issued = plugin(&printing(status)).run(LONG).await.unwrap();
    let (certificate, key) = issued.certificate.unwrap();
    assert_eq!((certificate.as_slice(), key.as_slice()), (&b"c"[..], &b"k"[..]));
    assert!(issued.token.is_none() && issued.expires_at.is_none());
}

#[tokio::test]
async fn a_plugin_is_told_its_environment_and_the_cluster_and_gets_no_input() {
    let folder = TempDir::new().unwrap();
    let told = folder.path().join("told");
    let script = format!(
        "cat > {0}.input; echo \"$FLAVOUR $KUBERNETES_EXEC_INFO\" > {0}; {1}",
        told.display(),
        printing(r#"{"token": "t"}"#)
    );
    let exec = ExecConfig { env: vec![("FLAVOUR".to_owned(), "plain".into())], ..exec(&script) };
    let cluster = serde_json::json!({"server": "https://k", "config": null});
    Plugin::new(&exec, Some(cluster)).unwrap().run(LONG).await.unwrap();
    let told = fs::read_to_string(told).unwrap();
    let info: serde_json::Value = serde_json::from_str(told.strip_prefix("plain ").unwrap()).unwrap();
    let expected = serde_json::json!({"kind": "ExecCredential", "apiVersion": V1,
        "spec": {"interactive": false, "cluster": {"server": "https://k", "config": null}}});
    assert_eq!(info, expected);
    assert_eq!(fs::read_to_string(folder.path().join("told.input")).unwrap(), "");
}

#[tokio::test]
async fn a_plugin_that_fails_is_told_without_what_it_printed() {
    let table = [
        ("exit 7".to_owned(), "ended with exit status: 7"),
        ("kill -9 $$".to_owned(), "ended with signal: 9"),
        ("echo sentinel".to_owned(), "did not print an ExecCredential in JSON"),
        ("echo '\"sentinel\"'".to_owned(), "did not print an ExecCredential in JSON"),
        ("true".to_owned(), "did not print an ExecCredential in JSON"),
        ("echo '{\"kind\": \"Secret\", \"apiVersion\": \"v1\"}'".to_owned(), "did not print an ExecCredential"),
        (printing("{}").replace(V1, "client.authentication.k8s.io/v1beta1"), "did not print the version that"),
        (printing("null"), "printed an ExecCredential without a status"),
        (printing("{}"), "printed neither a token nor a certificate"),
        (printing(r#"{"token": ""}"#), "printed neither a token nor a certificate"),
        (printing(r#"{"token": "sentinel", "clientKeyData": "k"}"#), "printed only one of a certificate and its key"),
        (
            printing(r#"{"token": "sentinel", "expirationTimestamp": "sentinel"}"#),
            "whose status.expirationTimestamp is not a time such as 2030-01-02T03:04:05Z",
        ),
        (printing(r#"{"token": ["sentinel"]}"#), "whose status.token is not a string"),
        (
            printing(r#"{"clientCertificateData": {"sentinel": 1}}"#),
            "whose status.clientCertificateData is not a string",
        ),
        (printing(r#"{"clientKeyData": 1}"#), "whose status.clientKeyData is not a string"),
        ("yes sentinel".to_owned(), "printed more than 1048576 bytes and was killed"),
        ("yes sentinel & yes sentinel".to_owned(), "printed more than 1048576 bytes and was killed"),
    ];
    for (script, says) in table {
        let told = plugin(&format!("{script}; # sentinel")).run(LONG).await.map(drop).unwrap_err();
        assert!(told.starts_with("the credential plugin \"sh\" ") && told.contains(says), "{script}: {told}");
        assert!(told.ends_with("run it by hand, as the kubeconfig's exec section has it, to see why"), "{told}");
        assert!(!told.contains("sentinel"), "{told}");
    }
}

#[tokio::test]
async fn a_plugin_that_is_missing_is_told_with_how_to_install_it() {
    let exec = ExecConfig {
        command: "/none/plugin".to_owned(),
        install_hint: Some("get it at example.com\n".to_owned()),
        ..exec("")
    };
    let told = Plugin::new(&exec, None).unwrap().run(LONG).await.map(drop).unwrap_err();
    let expected = "the credential plugin \"/none/plugin\" cannot be started: No such file or directory (os error 2); \
                    install it; get it at example.com";
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_plugin_that_cannot_be_started_is_told_with_what_is_wrong_with_it() {
    let folder = TempDir::new().unwrap();
    let program = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
    };
    let table = [
        ("a\0b".to_owned(), "its command has a NUL character; remove it from the kubeconfig"),
        (folder.path().display().to_string(), "it is a directory; give the path of a program in the kubeconfig"),
        ("/dev/null".to_owned(), "it is not a regular file; give the path of a program in the kubeconfig"),
        (
            program("plain", "#!/bin/sh\n", 0o600),
            "it is not executable; make it executable (chmod +x), or give the path of a program in the kubeconfig",
        ),
        (
            program("interpreter", "#!/none/sh\n", 0o700),
            "the interpreter that it needs is missing; install the one that its first line (#!) names",
        ),
        (program("other", "\u{7f}ELF", 0o700), "Exec format error (os error 8); it must be a program for this machine"),
    ];
    for (command, says) in table {
        let exec = ExecConfig { command, install_hint: Some("get it at example.com".to_owned()), ..exec("") };
        let told = Plugin::new(&exec, None).unwrap().run(LONG).await.map(drop).unwrap_err();
        let expected = format!("the credential plugin {:?} cannot be started: {says}", exec.command);
        assert!(told.starts_with(&expected) && !told.contains("install it"), "{told}");
    }
    let told = plugin("a\0b").run(LONG).await.map(drop).unwrap_err();
    assert!(told.contains("one of its arguments or environment variables has a NUL character"), "{told}");
}

#[test]
fn a_plugin_that_must_have_a_terminal_is_refused() {
    let exec = ExecConfig { interactive_mode: InteractiveMode::Always, ..exec("") };
    let told = Plugin::new(&exec, None).map(drop).unwrap_err();
    assert!(told.contains("interactiveMode: Always") && told.contains("set interactiveMode to"), "{told}");
}

/// The plugin, its child and its grandchild.
const FAMILY: &str = "echo $$ > F/a; sh -c 'echo $$ > F/b; sleep 1000 & echo $! > F/c; wait' &";

async fn until_started(folder: &TempDir) -> Vec<String> {
    let deadline = Instant::now() + LONG;
    loop {
        let read = |name| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        let pids: Vec<String> = ["a", "b", "c"].map(read).into();
        if pids.iter().all(|pid| pid.ends_with('\n')) {
            return pids;
        }
        assert!(Instant::now() < deadline, "it starts");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_plugin_that_hangs_is_killed_at_the_deadline_with_all_that_it_started() {
    let folder = TempDir::new().unwrap();
    let script = format!("{FAMILY} wait").replace('F', &folder.path().display().to_string());
    let plugin = plugin(&script);
    let begun = Instant::now();
    let run = tokio::spawn(async move { plugin.run(Duration::from_secs(2)).await.map(drop) });
    let pids = until_started(&folder).await;
    let told = run.await.unwrap().unwrap_err();
    assert!(told.contains("has not ended within 2s and was killed"), "{told}");
    assert!(begun.elapsed() < LONG);
    for pid in pids {
        until_gone(&pid).await;
    }
}

#[tokio::test]
async fn a_run_that_is_dropped_kills_the_plugin_with_all_that_it_started() {
    let folder = TempDir::new().unwrap();
    let script = format!("{FAMILY} wait").replace('F', &folder.path().display().to_string());
    let plugin = plugin(&script);
    let run = tokio::spawn(async move { plugin.run(LONG).await.map(drop) });
    let pids = until_started(&folder).await;
    run.abort();
    for pid in pids {
        until_gone(&pid).await;
    }
}

/// Its output stays open until the child is killed, so client-go would wait for it.
#[tokio::test]
async fn a_plugin_that_leaves_a_child_behind_is_not_waited_for_any_longer() {
    let folder = TempDir::new().unwrap();
    let script =
        format!("{FAMILY} while [ ! -s F/c ]; do :; done; {}", printing(r#"{"token": "t"}"#).replace('F', "%"))
            .replace('F', &folder.path().display().to_string());
    let issued = plugin(&script).run(LONG).await.unwrap();
    assert_eq!(issued.token.unwrap().as_str(), "t");
    for pid in until_started(&folder).await {
        until_gone(&pid).await;
    }
}

/// client-go would wait for it.
#[tokio::test]
async fn a_child_that_has_left_the_group_and_holds_the_output_is_not_waited_for() {
    let folder = TempDir::new().unwrap();
    let pid = folder.path().join("pid");
    let script = format!(
        "setsid sh -c 'echo $$ > {0}; exec sleep 1000' & while [ ! -s {0} ]; do :; done; {1}",
        pid.display(),
        printing(r#"{"token": "t"}"#)
    );
    let issued = plugin(&script).run(LONG).await.map(|issued| issued.token.unwrap().to_string());
    let pid = fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    assert_eq!(issued.unwrap(), "t");
}

#[tokio::test]
async fn a_plugin_that_closes_its_output_early_is_waited_for() {
    let script = format!("{}; exec >&-; sleep 0.2; exit 3", printing(r#"{"token": "t"}"#));
    let told = plugin(&script).run(LONG).await.map(drop).unwrap_err();
    assert!(told.contains("ended with exit status: 3"), "{told}");
}
