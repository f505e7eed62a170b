//! What real pods see of larder over the mounted socket, as root in their container and as nobody.

use crate::cluster::{Cluster, NAMESPACE, container};
use crate::daemon::Daemon;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use larder_testbed::poll::until;
use larder_testbed::{Options, Testbed};
use serde_json::{Value, json};
use std::time::Duration;

const LIMIT: Duration = Duration::from_mins(1);
/// The user `nobody`.
const NOBODY: u32 = 65_534;

/// `curl` in a container, which the host's folders of programs bring there.
const CURL: [&str; 6] =
    ["/usr/bin/curl", "--silent", "--show-error", "--no-buffer", "--unix-socket", "/run/larder/larder.sock"];

/// A pod whose container has a key of the Secret in its environment, and mounts the folder of the socket.
pub(crate) fn spec(daemon: &Daemon, user: u32, secret: &str) -> Value {
    let mut main = container("main", "exec sleep 100000");
    main["env"] = json!([{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": secret, "key": "key"}}}]);
    main["securityContext"] = json!({"runAsUser": user});
    let folder = daemon.socket().parent().expect("a folder");
    let paths = [
        ("larder", folder.to_str().expect("UTF-8"), "/run/larder"),
        ("usr", "/usr", "/usr"),
        ("lib", "/lib", "/lib"),
        ("lib64", "/lib64", "/lib64"),
    ];
    main["volumeMounts"] =
        paths.iter().map(|(name, _, at)| json!({"name": name, "mountPath": at, "readOnly": true})).collect();
    let volumes: Vec<_> =
        paths.iter().map(|(name, path, _)| json!({"name": name, "hostPath": {"path": path}})).collect();
    json!({"containers": [main], "volumes": volumes})
}

/// What larder answers to a process in a container: the code, and the JSON.
async fn ask(testbed: &Testbed, id: &str, path: &str) -> (u16, Value) {
    let url = format!("http://larder{path}");
    let command = [&CURL[..], &["--write-out", "\n%{http_code}", &url]].concat();
    let printed = testbed.pods().exec(id, &command).await.expect("curl");
    let (body, code) = printed.rsplit_once('\n').unwrap_or_else(|| panic!("{printed}"));
    (code.parse().expect("a code"), serde_json::from_str(body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn pods_see_their_own_over_the_mounted_socket_and_nothing_of_others() {
    let testbed = Testbed::start(Options { node_ttl: Some(2), ..Options::default() }).await.expect("testbed");
    let cluster = Cluster::new(&testbed).await;
    for name in ["of-root", "of-nobody"] {
        let secret =
            json!({"metadata": {"name": name}, "stringData": {"key": format!("key {name}"), "other": "hidden"}});
        let secret: Secret = serde_json::from_value(secret).expect("a Secret");
        cluster.api().create(&PostParams::default(), &secret).await.expect("created");
    }
    let daemon = Daemon::start(&testbed).await;
    let mut pods = Vec::new();
    for (name, user, secret, other) in [("root", 0, "of-root", "of-nobody"), ("nobody", NOBODY, "of-nobody", "of-root")]
    {
        let pod = cluster.create_pod(name, spec(&daemon, user, secret)).await;
        let running = testbed.pods().run(&pod).await.expect("runs");
        pods.push((name, secret, other, pod, running));
    }
    let secrets = format!("/api/v1/namespaces/{NAMESPACE}/secrets");
    let check = async |when: &str| {
        for (name, secret, other, _, running) in &pods {
            let ask = async |path: &str| ask(&testbed, &running.containers["main"], path).await;
            let own = until("the pod reads its own", LIMIT, async || {
                let (code, answer) = ask(&format!("{secrets}/{secret}")).await;
                if code == 200 { Ok(answer) } else { Err(format!("{code} {answer}")) }
            });
            let own = own.await.unwrap_or_else(|error| panic!("{name}, {when}: {error}"));
            let keys: Vec<_> = own["data"].as_object().expect("data").keys().collect();
            assert_eq!(keys, ["key"], "{name}, {when}: {own}");
            let (code, pod) = ask(&format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}")).await;
            assert_eq!((code, &pod["metadata"]["uid"]), (200, &json!(running.uid)), "{name}, {when}: {pod}");
            let (code, status) = ask(&format!("/larder/v1/pods/{}/status", running.uid)).await;
            assert_eq!(code, 200, "{name}, {when}: {status}");
            let (code, list) = ask("/api/v1/pods").await;
            assert_eq!((code, list["items"].as_array().map(Vec::len)), (200, Some(1)), "{name}, {when}: {list}");
            for path in [
                format!("{secrets}/{other}"),
                format!("{secrets}/missing"),
                format!("/api/v1/namespaces/{NAMESPACE}/pods/{}", if *name == "root" { "nobody" } else { "root" }),
                "/larder/v1/status".to_owned(),
                "/metrics".to_owned(),
            ] {
                assert_eq!(ask(&path).await.0, 403, "{name}, {when}: {path}");
            }
        }
        let of_root = daemon.get("/api/v1/secrets").await;
        assert_eq!(of_root.body["items"].as_array().map(Vec::len), Some(2), "{when}: {of_root:?}");
        let user = NOBODY.to_string();
        let mut command = tokio::process::Command::new("setpriv");
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--", "curl", "--silent", "--unix-socket"]);
        let output = command.arg(daemon.socket()).arg("http://larder/api/v1/pods").output().await.expect("curl");
        let refusal = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(refusal.contains("user 65534 may not read from larder"), "{when}: {refusal}");
    };
    check("with the API server").await;
    a_watch_and_a_successor(&testbed, &cluster, &daemon, &secrets).await;
    testbed.api_server().kill().expect("killed");
    let stale = until("it is stale", LIMIT, async || {
        let answer = daemon.get(&format!("/api/v1/namespaces/{NAMESPACE}/pods/root")).await;
        if answer.is_stale() { Ok(()) } else { Err(format!("{answer:?}")) }
    });
    stale.await.expect("stale");
    check("without the API server").await;
}

/// A pod follows its Secret until its container ends, and the next instance of the container follows it again.
async fn a_watch_and_a_successor(testbed: &Testbed, cluster: &Cluster, daemon: &Daemon, secrets: &str) {
    cluster.create_secret("watched", "one").await;
    let mut spec = spec(daemon, NOBODY, "watched");
    let url = format!("http://larder{secrets}?watch=true");
    spec["containers"][0]["command"] = json!([&CURL[..], &[&*url]].concat());
    let pod = cluster.create_pod("watches", spec).await;
    let mut running = testbed.pods().run(&pod).await.expect("runs");
    let printed = |attempt: u32| testbed.pods().log(&running, "main", attempt).unwrap_or_default();
    let has = async |attempt: u32, event: &str, value: &str| {
        let printed = until("the event has come", LIMIT, async || {
            let log = printed(attempt);
            let is_it = |line: &str| line.contains(&format!("\"type\":\"{event}\"")) && line.contains(value);
            if log.lines().any(is_it) { Ok(()) } else { Err(log) }
        });
        printed.await.unwrap_or_else(|error| panic!("{event}: {error}"));
    };
    has(0, "ADDED", "b25l").await;
    cluster.update_secret("watched", "two").await;
    has(0, "MODIFIED", "dHdv").await;
    let id = running.containers["main"].clone();
    testbed.pods().stop_container(&id, Duration::ZERO).await.expect("stopped");
    let main = &pod.spec.as_ref().expect("spec").containers[0];
    testbed.pods().start_container(&mut running, main).await.expect("restarts");
    let printed = |attempt: u32| testbed.pods().log(&running, "main", attempt).unwrap_or_default();
    let again = until("its successor follows it", LIMIT, async || {
        let log = printed(1);
        if log.contains("\"type\":\"ADDED\"") && log.contains("dHdv") { Ok(()) } else { Err(log) }
    });
    again.await.expect("followed");
    testbed.pods().remove(&running.sandbox).await.expect("removed");
    cluster.delete_pod("watches").await;
    cluster.api::<Secret>().delete("watched", &kube::api::DeleteParams::default()).await.expect("deleted");
}
