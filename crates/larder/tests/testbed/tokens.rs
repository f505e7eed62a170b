//! What real pods see of larder over TLS with tokens of the real API server.

use crate::access::spec;
use crate::cluster::{Cluster, NAMESPACE};
use crate::daemon::Daemon;
use base64::Engine as _;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::PostParams;
use larder_testbed::poll::until;
use larder_testbed::{Options, Testbed};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

const LIMIT: Duration = Duration::from_mins(1);
/// The user `nobody`.
const NOBODY: u32 = 65_534;
const ACCOUNT: &str = "reader";

/// What kubectl prints, as the cluster's administrator.
pub(crate) async fn kubectl(testbed: &Testbed, arguments: &[&str]) -> String {
    let mut command = tokio::process::Command::new(testbed.kubectl_program());
    command.arg("--kubeconfig").arg(testbed.admin_kubeconfig()).args(arguments).kill_on_drop(true);
    let output = tokio::time::timeout(LIMIT, command.output()).await.expect("kubectl ends").expect("kubectl");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
}

/// The token that the API server makes for a pod.
async fn token(testbed: &Testbed, pod: &str, uid: &str, more: &[&str]) -> String {
    let of_pod = ["--bound-object-kind", "Pod", "--bound-object-name", pod, "--bound-object-uid", uid];
    kubectl(testbed, &[&["create", "token", ACCOUNT, "-n", NAMESPACE], &of_pod[..], more].concat()).await
}

/// What larder answers to a process in a container that shows a token: the code, and the JSON.
async fn ask(testbed: &Testbed, id: &str, url: &str, token: &str) -> (u16, Value) {
    let header = format!("Authorization: Bearer {token}");
    let curl = ["/usr/bin/curl", "--silent", "--show-error", "--cacert", "/run/larder/ca.crt", "--header", &header];
    let printed = testbed.pods().exec(id, &[&curl[..], &["--write-out", "\n%{http_code}", url]].concat()).await;
    let printed = printed.expect("curl");
    let (body, code) = printed.rsplit_once('\n').unwrap_or_else(|| panic!("{printed}"));
    (code.parse().expect("a code"), serde_json::from_str(body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn pods_see_their_own_by_the_tokens_of_the_api_server_and_nothing_of_others() {
    let testbed = Testbed::start(Options { node_ttl: Some(2), ..Options::default() }).await.expect("testbed");
    let cluster = Cluster::new(&testbed).await;
    let account: ServiceAccount =
        serde_json::from_value(json!({"metadata": {"name": ACCOUNT}})).expect("a service account");
    cluster.api().create(&PostParams::default(), &account).await.expect("created");
    for name in ["of-one", "of-two"] {
        let secret =
            json!({"metadata": {"name": name}, "stringData": {"key": format!("key {name}"), "other": "hidden"}});
        let secret: Secret = serde_json::from_value(secret).expect("a Secret");
        cluster.api().create(&PostParams::default(), &secret).await.expect("created");
    }
    let kubeconfig = testbed.node_kubeconfig().display().to_string();
    let listen = ["--listen", "127.0.0.1:0", "--tls-directory", "tls"];
    let arguments = [&["--kubeconfig", &kubeconfig, "--node-name", testbed.node_name()], &listen[..]].concat();
    let daemon = Daemon::spawn(&testbed, &arguments);
    daemon.wait_until_ready().await;
    let url = daemon.get("/larder/v1/status").await.body["listen"]["url"].as_str().expect("a URL").to_owned();
    let written: Value = serde_saphyr::from_str(&daemon.larder(&["kubeconfig"]).await.ok()).expect("a kubeconfig");
    let authority = written["clusters"][0]["cluster"]["certificate-authority-data"].as_str().expect("an authority");
    let authority = base64::engine::general_purpose::STANDARD.decode(authority).expect("base64");
    fs::write(daemon.socket().parent().expect("a folder").join("ca.crt"), authority).expect("written");
    let mut pods = Vec::new();
    for (name, user, secret, other) in [("one", 0, "of-one", "of-two"), ("two", NOBODY, "of-two", "of-one")] {
        let mut spec = spec(&daemon, user, secret);
        spec["serviceAccountName"] = ACCOUNT.into();
        let pod = cluster.create_pod(name, spec).await;
        let running = testbed.pods().run(&pod).await.expect("runs");
        let own = token(&testbed, name, &running.uid, &[]).await;
        pods.push((name, secret, other, running, own));
    }
    let secrets = format!("{url}/api/v1/namespaces/{NAMESPACE}/secrets");
    let (_, secret, _, running, own) = &pods[0];
    let id = &running.containers["main"];
    let vault = token(&testbed, "one", &running.uid, &["--audience", "vault"]).await;
    let unbound = kubectl(&testbed, &["create", "token", ACCOUNT, "-n", NAMESPACE]).await;
    let check = async |when: &str| {
        for (name, secret, other, running, own) in &pods {
            let ask = async |path: &str, token: &str| ask(&testbed, &running.containers["main"], path, token).await;
            let answer = until("the pod reads its own", LIMIT, async || {
                let (code, answer) = ask(&format!("{secrets}/{secret}"), own).await;
                if code == 200 { Ok(answer) } else { Err(format!("{code} {answer}")) }
            });
            let answer = answer.await.unwrap_or_else(|error| panic!("{name}, {when}: {error}"));
            let keys: Vec<_> = answer["data"].as_object().expect("data").keys().collect();
            assert_eq!(keys, ["key"], "{name}, {when}: {answer}");
            let (code, list) = ask(&format!("{url}/api/v1/pods"), own).await;
            assert_eq!((code, list["items"].as_array().map(Vec::len)), (200, Some(1)), "{name}, {when}: {list}");
            assert_eq!(list["items"][0]["metadata"]["uid"], json!(running.uid), "{name}, {when}");
            for path in [
                format!("{secrets}/{other}"),
                format!("{secrets}/missing"),
                format!("{url}/api/v1/namespaces/{NAMESPACE}/pods/{}", if *name == "one" { "two" } else { "one" }),
                format!("{url}/larder/v1/status"),
            ] {
                assert_eq!(ask(&path, own).await.0, 403, "{name}, {when}: {path}");
            }
            for (token, code) in [(&*vault, 401), (&*unbound, 403), ("a.b.c", 401)] {
                assert_eq!(ask(&format!("{secrets}/{secret}"), token).await.0, code, "{name}, {when}");
            }
        }
    };
    // A node may not read the keys, and may ask whose a token is.
    check("by review").await;
    let status = daemon.get("/larder/v1/status").await.body;
    let tokens = &status["listen"]["tokens"];
    assert_eq!((&tokens["keys"], &tokens["reviews"]["remembered"]), (&json!(0), &json!(2)), "{status}");
    assert_eq!(status["degraded"], json!([]), "{status}");
    testbed.api_server().pause().expect("frozen");
    for (_, secret, _, running, own) in &pods {
        let (code, answer) = ask(&testbed, &running.containers["main"], &format!("{secrets}/{secret}"), own).await;
        assert_eq!(code, 200, "by review, with a frozen API server: {answer}");
    }
    testbed.api_server().resume().expect("thawed");
    // The binding of the docs lets it read the keys.
    let binding = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/token-keys.yaml");
    kubectl(&testbed, &["apply", "-f", binding]).await;
    let keys = until("the keys are read", LIMIT, async || {
        ask(&testbed, id, &format!("{secrets}/{secret}"), own).await;
        let status = daemon.get("/larder/v1/status").await.body;
        if status["listen"]["tokens"]["keys"] == json!(1) { Ok(()) } else { Err(status.to_string()) }
    });
    keys.await.expect("keys");
    check("with the API server").await;
    testbed.api_server().pause().expect("frozen");
    let stale = until("it is stale", LIMIT, async || {
        let answer = daemon.get(&format!("/api/v1/namespaces/{NAMESPACE}/pods/one")).await;
        if answer.is_stale() { Ok(()) } else { Err(format!("{answer:?}")) }
    });
    stale.await.expect("stale");
    check("with a frozen API server").await;
    testbed.api_server().kill().expect("killed");
    check("without the API server").await;
}

/// The docs' pod, by a real kubelet. Its image is one that is there, with kubectl from the host; and it names its account and mounts its token itself,
/// which the API server's admission does elsewhere.
#[tokio::test]
async fn the_pod_of_the_docs_follows_its_own_secret_with_kubectl_and_its_token() {
    let options = Options { kubelet: true, node_ttl: Some(2), ..Options::default() };
    let testbed = Testbed::start(options).await.expect("testbed");
    let cluster = Cluster::new(&testbed).await;
    let account: ServiceAccount =
        serde_json::from_value(json!({"metadata": {"name": "default"}})).expect("a service account");
    cluster.api().create(&PostParams::default(), &account).await.expect("created");
    let kubeconfig = testbed.node_kubeconfig().display().to_string();
    let listen = ["--listen", "127.0.0.1:0", "--tls-directory", "tls"];
    let arguments = [&["--kubeconfig", &kubeconfig, "--node-name", testbed.node_name()], &listen[..]].concat();
    let daemon = Daemon::spawn(&testbed, &arguments);
    daemon.wait_until_ready().await;
    let for_pods = daemon.larder(&["kubeconfig", "--for-pods"]).await.ok();
    let written = testbed.folder().join("pods.kubeconfig");
    fs::write(&written, for_pods).expect("written");
    let from_file = format!("--from-file=kubeconfig={}", written.display());
    kubectl(&testbed, &["create", "configmap", "larder", "-n", NAMESPACE, &from_file]).await;

    let example = include_str!("../../../../docs/examples/pod-with-token.yaml");
    let objects: Vec<Value> = serde_saphyr::from_multiple(example).expect("objects");
    let [secret, pod] = &objects[..] else { panic!("{objects:?}") };
    let secret: Secret = serde_json::from_value(secret.clone()).expect("a Secret");
    cluster.api().create(&PostParams::default(), &secret).await.expect("created");
    let mut spec = pod["spec"].clone();
    spec["serviceAccountName"] = "default".into();
    let main = &mut spec["containers"][0];
    main["image"] = larder_testbed::image::BUSYBOX.into();
    main["imagePullPolicy"] = "Never".into();
    main["command"][0] = "/kubectl".into();
    // It listens on loopback here, as its kubeconfig says.
    let words = main["command"].as_array_mut().expect("words");
    words.retain(|word| word != "--server=https://$(NODE_IP):6440");
    let mounts = main["volumeMounts"].as_array_mut().expect("mounts");
    mounts.push(json!({"name": "kubectl", "mountPath": "/kubectl", "readOnly": true}));
    // What kubectl is linked to.
    mounts
        .extend(["lib", "lib64"].map(|name| json!({"name": name, "mountPath": format!("/{name}"), "readOnly": true})));
    mounts.push(json!({"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}));
    let volumes = spec["volumes"].as_array_mut().expect("volumes");
    volumes.push(json!({"name": "kubectl", "hostPath": {"path": testbed.kubectl_program(), "type": "File"}}));
    volumes.extend(["lib", "lib64"].map(|name| json!({"name": name, "hostPath": {"path": format!("/{name}")}})));
    volumes.push(json!({"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}));
    let pod = cluster.create_pod("web", spec).await;

    let uid = pod.metadata.uid.expect("a UID");
    let log = testbed.folder().join("pod-logs").join(format!("{NAMESPACE}_web_{uid}")).join("app");
    let printed = async |what: &str| {
        let printed = until("it is printed", LIMIT, async || {
            let logs: Vec<_> = fs::read_dir(&log).map_err(|error| error.to_string())?.flatten().collect();
            let texts: Vec<_> = logs.iter().filter_map(|log| fs::read_to_string(log.path()).ok()).collect();
            if texts.iter().any(|text| text.contains(what)) { Ok(texts.concat()) } else { Err(texts.concat()) }
        });
        printed.await.unwrap_or_else(|error| panic!("{what}: {error}"))
    };
    // "let-me-in", and "changed".
    let text = printed(r#""password": "bGV0LW1lLWlu""#).await;
    assert!(!text.contains("root-password"), "{text}");
    kubectl(&testbed, &["patch", "secret", "db", "-n", NAMESPACE, "-p", r#"{"stringData":{"password":"changed"}}"#])
        .await;
    printed(r#""password": "Y2hhbmdlZA==""#).await;
}
