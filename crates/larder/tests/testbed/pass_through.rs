//! kubectl in a real pod, with the token of its service account, through `--listen --pass-through`: it prints what it prints of the API server,
//! and the audit log says who asked what there. A kubelet runs the pods, so that logs, `exec`, `attach`, `cp` and
//! `port-forward` are real.

use crate::cluster::{Cluster, NAMESPACE, container};
use crate::daemon::Daemon;
use crate::tokens::kubectl;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use larder_testbed::poll::until;
use larder_testbed::{Options, Testbed};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

const LIMIT: Duration = Duration::from_mins(2);
const USER: &str = "system:serviceaccount:shop:agent";

/// The service account, what it may do, and what there is to see.
const OBJECTS: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: agent, namespace: shop}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: agent, namespace: shop}
rules:
- {apiGroups: [""], resources: [pods, configmaps], verbs: [get, list, watch, create, patch, update, delete]}
- {apiGroups: [""], resources: [pods/log], verbs: [get]}
- {apiGroups: [""], resources: [pods/exec, pods/attach, pods/portforward], verbs: [create, get]}
- {apiGroups: [apps], resources: [deployments], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: agent, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: agent}
subjects: [{kind: ServiceAccount, name: agent, namespace: shop}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "larder.test/busybox:1"}]}
---
apiVersion: v1
kind: Secret
metadata: {name: own, namespace: shop, annotations: {note: whole}}
stringData: {key: mine, other: hidden}
"#;

/// What a kubectl in the pod is asked, and its exit code. Each prints the same of larder and of the API server.
const COMMANDS: &[(&str, i32)] = &[
    ("get deployments -o custom-columns=NAME:.metadata.name,REPLICAS:.spec.replicas", 0),
    ("get deployment web -o yaml", 0),
    ("get pods -o name", 0),
    ("get pod target -o jsonpath={.metadata.uid}", 0),
    ("logs target --tail=1 --limit-bytes=4", 0),
    ("exec target -- echo hello", 0),
    ("exec target -- sh -c 'cat /etc/no-such-file'", 1),
    ("exec -i target -- cat < /run/larder/sent", 0),
    ("attach -q target | head -n 2", 0),
    ("api-resources --api-group=apps -o name", 0),
    ("explain deployments.spec.replicas", 0),
    ("auth can-i list deployments.apps", 0),
    ("auth can-i list secrets", 1),
    ("get secrets", 1),
    ("get deployments -n default", 1),
    ("delete node localhost", 1),
    ("delete deployment web", 1),
    ("get --raw /apis/apps/v1/namespaces/shop/deployments/none", 1),
];

/// A pod in which kubectl runs.
struct Agent<'a> {
    testbed: &'a Testbed,
    id: String,
}

impl Agent<'_> {
    /// What a shell in the pod prints, and its exit code.
    async fn shell(&self, script: &str) -> (String, i32) {
        let script = format!("( {script} ) 2>&1; printf '\\n%d' $?");
        let printed = self.testbed.pods().exec(&self.id, &["sh", "-c", &script]).await.expect("a shell");
        let (printed, code) = printed.rsplit_once('\n').expect("a code");
        (printed.to_owned(), code.parse().expect("a code"))
    }

    /// The same of kubectl, which asks larder or the API server.
    async fn kubectl(&self, of: &str, arguments: &str) -> (String, i32) {
        // Each has a cache of its own.
        let own = format!("--kubeconfig /run/larder/{of}.kubeconfig --cache-dir /tmp/{of} --request-timeout 20s");
        self.shell(&format!("/programs/kubectl {own} {arguments}")).await
    }
}

fn kubeconfig(server: &str, authority: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": "u", "user": {"tokenFile": "/var/run/secrets/agent/token"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}],
        "current-context": "x",
    })
    .to_string()
}

/// A pod that the kubelet runs, with the host's programs.
fn spec(folder: &Path, programs: &Path, command: &str) -> Value {
    let mut main = container("main", command);
    let paths = [
        ("larder", folder.to_str().expect("UTF-8"), "/run/larder"),
        ("programs", programs.to_str().expect("UTF-8"), "/programs"),
        ("usr", "/usr", "/usr"),
        ("lib", "/lib", "/lib"),
        ("lib64", "/lib64", "/lib64"),
    ];
    let mut mounts: Vec<_> =
        paths.iter().map(|(name, _, at)| json!({"name": name, "mountPath": at, "readOnly": true})).collect();
    let mut volumes: Vec<_> =
        paths.iter().map(|(name, path, _)| json!({"name": name, "hostPath": {"path": path}})).collect();
    mounts.push(json!({"name": "token", "mountPath": "/var/run/secrets/agent"}));
    volumes.push(json!({"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}));
    mounts.push(json!({"name": "tmp", "mountPath": "/tmp"}));
    volumes.push(json!({"name": "tmp", "emptyDir": {}}));
    main["volumeMounts"] = mounts.into();
    main["env"] = json!([
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "own", "key": "key"}}},
        {"name": "PATH", "value": "/bin:/usr/bin"},
        {"name": "HOME", "value": "/tmp"},
    ]);
    json!({
        "serviceAccountName": "agent",
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "tolerations": [{"operator": "Exists"}],
        "containers": [main],
        "volumes": volumes,
    })
}

/// Waits until the kubelet runs the pod, and gives the ID of its container.
async fn running(daemon: &Daemon, pod: &str) -> String {
    let path = format!("/larder/v1/namespaces/{NAMESPACE}/pods/{pod}/status");
    let running = until("the pod runs", LIMIT, async || {
        let answer = daemon.get(&path).await;
        let container = &answer.body["status"]["containers"][0];
        match container["id"].as_str().filter(|_| container["state"] == "running") {
            Some(id) => Ok(id.trim_start_matches("containerd://").to_owned()),
            None => Err(format!("{answer:?}")),
        }
    });
    running.await.unwrap_or_else(|error| panic!("{pod}: {error}"))
}

/// What the API server was asked by the pod's account of this resource, as verbs and names.
fn asked(testbed: &Testbed, resource: &str) -> Vec<(String, String)> {
    let requests = testbed.requests().expect("the audit log");
    let of_agent = requests.into_iter().filter(|request| request.user == USER && request.resource == resource);
    of_agent.map(|request| (request.verb, request.name)).collect()
}

async fn writes_and_copies(agent: &Agent<'_>) {
    // Writes: created, changed, read back, removed.
    for (arguments, printed) in [
        ("apply -f /run/larder/map.json", "configmap/settings created\n"),
        ("apply -f /run/larder/map.json", "configmap/settings unchanged\n"),
        ("patch configmap settings -p '{\"data\":{\"a\":\"two\"}}'", "configmap/settings patched\n"),
        ("get configmap settings -o jsonpath={.data.a}", "two"),
        (
            "get configmap settings -o yaml | sed s/two/three/ | /programs/kubectl --kubeconfig /run/larder/larder.kubeconfig replace -f -",
            "configmap/settings replaced\n",
        ),
        ("delete configmap settings", "configmap \"settings\" deleted from shop namespace\n"),
    ] {
        assert_eq!(agent.kubectl("larder", arguments).await, (printed.to_owned(), 0), "{arguments}");
    }
    // Copies, both ways.
    assert_eq!(agent.kubectl("larder", "cp /run/larder/sent target:/tmp/copied").await.1, 0);
    assert_eq!(agent.kubectl("larder", "cp target:/tmp/copied /tmp/back").await.1, 0);
    assert_eq!(agent.shell("cat /tmp/back").await, ("sent by standard input\n".to_owned(), 0));
}

/// Connections to a port of the target, over WebSocket and over SPDY.
async fn forwards(agent: &Agent<'_>) {
    // The pods share the host's network, so this is a port of theirs, too.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let target = listener.local_addr().expect("an address").port();
    let answers = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("accepted");
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            stream.read_line(&mut line).await.expect("a line");
            stream.write_all(format!("answer to {line}").as_bytes()).await.expect("written");
        }
    });
    for over_websocket in [true, false] {
        let script = format!(
            "mkfifo /tmp/forward-{over_websocket}; \
             KUBECTL_PORT_FORWARD_WEBSOCKETS={over_websocket} timeout 60 /programs/kubectl \
             --kubeconfig /run/larder/larder.kubeconfig port-forward target :{target} > /tmp/forward-{over_websocket} & \
             exec 3< /tmp/forward-{over_websocket}; read -r line <&3; port=${{line%% ->*}}; port=${{port##*:}}; \
             for word in one two; do echo $word | busybox nc 127.0.0.1 $port; done; {{ kill $!; wait $!; }} 2> /dev/null; true"
        );
        let printed = agent.shell(&script).await;
        assert_eq!(printed, ("answer to one\nanswer to two\n".to_owned(), 0), "WebSocket: {over_websocket}");
    }
    answers.abort();
}

#[tokio::test]
async fn kubectl_in_a_pod_works_through_larder_as_against_the_api_server() {
    // The API server reaches the kubelet by the name of its node.
    let options = Options { kubelet: true, node_name: "localhost".to_owned(), ..Options::default() };
    let testbed = Testbed::start(options).await.expect("testbed");
    let cluster = Cluster::new(&testbed).await;
    let objects = testbed.folder().join("objects.yaml");
    fs::write(&objects, OBJECTS).expect("written");
    kubectl(&testbed, &["apply", "-f", objects.to_str().expect("UTF-8")]).await;
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/token-keys.yaml");
    kubectl(&testbed, &["apply", "-f", keys]).await;
    let node_kubeconfig = testbed.node_kubeconfig().display().to_string();
    let listen = ["--listen", "127.0.0.1:0", "--tls-directory", "tls", "--pass-through"];
    let arguments = [&["--kubeconfig", &node_kubeconfig, "--node-name", testbed.node_name()], &listen[..]].concat();
    let daemon = Daemon::spawn(&testbed, &arguments);
    daemon.wait_until_ready().await;

    let url = daemon.get("/larder/v1/status").await.body["listen"]["url"].as_str().expect("a URL").to_owned();
    let of_larder: Value = serde_saphyr::from_str(&daemon.larder(&["kubeconfig"]).await.ok()).expect("a kubeconfig");
    let authority = of_larder["clusters"][0]["cluster"]["certificate-authority-data"].as_str().expect("an authority");
    let admin: Value =
        serde_saphyr::from_str(&fs::read_to_string(testbed.admin_kubeconfig()).expect("a kubeconfig")).expect("YAML");
    let cluster_of_admin = &admin["clusters"][0]["cluster"];
    let of_server = match cluster_of_admin["certificate-authority-data"].as_str() {
        Some(data) => data.to_owned(),
        None => STANDARD.encode(
            fs::read(cluster_of_admin["certificate-authority"].as_str().expect("a file")).expect("an authority"),
        ),
    };
    let folder = daemon.socket().parent().expect("a folder").to_owned();
    fs::write(folder.join("larder.kubeconfig"), kubeconfig(&url, authority)).expect("written");
    fs::write(folder.join("server.kubeconfig"), kubeconfig(&testbed.api_server_url(), &of_server)).expect("written");
    fs::write(folder.join("sent"), "sent by standard input\n").expect("written");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "one"}});
    fs::write(folder.join("map.json"), map.to_string()).expect("written");

    let programs = testbed.kubectl_program().parent().expect("a folder").to_owned();
    cluster.create_pod("agent", spec(&folder, &programs, "exec sleep 100000")).await;
    let ticks = "while true; do echo tick; sleep 1; done";
    cluster.create_pod("target", spec(&folder, &programs, ticks)).await;
    let agent = Agent { testbed: &testbed, id: running(&daemon, "agent").await };
    running(&daemon, "target").await;

    // What larder holds and may show whole makes no request there.
    for arguments in [
        "get pod agent -o jsonpath={.metadata.name}",
        "get pods --field-selector metadata.name=agent -o jsonpath={.items[0].metadata.name}",
    ] {
        assert_eq!(agent.kubectl("larder", arguments).await, ("agent".to_owned(), 0), "{arguments}");
    }
    let follows = "timeout 5 /programs/kubectl --kubeconfig /run/larder/larder.kubeconfig get pods --field-selector metadata.name=agent -w -o name";
    let (followed, _) = agent.shell(&format!("{follows} | head -n 1")).await;
    assert_eq!(followed.trim(), "pod/agent");
    assert_eq!(asked(&testbed, "pods"), [], "reads of what larder holds make no request");
    // Of its own Secret it may see a part here, after the API server has refused all of it once.
    for _ in 0..3 {
        let (data, code) = agent.kubectl("larder", "get secret own -o jsonpath={.data}").await;
        assert_eq!((&*data, code), (r#"{"key":"bWluZQ=="}"#, 0));
    }
    assert_eq!(asked(&testbed, "secrets"), [("get".to_owned(), "own".to_owned())]);

    for (arguments, code) in COMMANDS {
        let larder = agent.kubectl("larder", arguments).await;
        let server = agent.kubectl("server", arguments).await;
        assert_eq!(larder, server, "{arguments}");
        assert_eq!(larder.1, *code, "{arguments}: {larder:?}");
    }
    let (sent, _) = agent.kubectl("larder", "exec -i target -- cat < /run/larder/sent").await;
    assert_eq!(sent, "sent by standard input\n");
    // The same over SPDY, which older clients speak.
    let spdy = "KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false /programs/kubectl --kubeconfig /run/larder/larder.kubeconfig";
    let (sent, code) = agent.shell(&format!("{spdy} exec -i target -- cat < /run/larder/sent")).await;
    assert_eq!((&*sent, code), ("sent by standard input\n", 0));
    let (lines, _) = agent
        .shell("/programs/kubectl --kubeconfig /run/larder/larder.kubeconfig logs -f --tail=1 target | head -n 3")
        .await;
    assert_eq!(lines, "tick\ntick\ntick\n", "it follows");
    writes_and_copies(&agent).await;
    forwards(&agent).await;

    // All of it was asked as the pod's account, and nothing of it as the node.
    let requests = testbed.requests().expect("the audit log");
    let writes = requests.iter().filter(|request| request.resource == "configmaps" && request.name == "settings");
    let users: BTreeSet<_> = writes.map(|request| request.user.as_str()).collect();
    assert_eq!(users, [USER].into());
    let users = |part: &str| -> BTreeSet<&str> {
        requests.iter().filter(|request| request.uri.contains(part)).map(|request| request.user.as_str()).collect()
    };
    for part in
        ["/pods/target/exec?", "/pods/target/attach?", "/pods/target/portforward", "/pods/target/log?", "/deployments"]
    {
        let mut users = users(part);
        // Who has made the Deployment.
        users.remove("admin");
        assert_eq!(users, [USER].into(), "{part}");
    }
    let metrics = daemon.text("/metrics").await;
    assert!(metrics.contains(r#"larder_pass_through_requests_total{why="kind",code="101"}"#), "{metrics}");

    // A frozen API server does not hold up what larder has.
    testbed.api_server().pause().expect("frozen");
    let own = ("get secret own -o jsonpath={.data.key}", ("bWluZQ==".to_owned(), 0));
    assert_eq!(agent.kubectl("larder", own.0).await, own.1);
    testbed.api_server().resume().expect("thawed");
    // While the API server is away, larder says so, and answers what it holds.
    testbed.api_server().kill().expect("killed");
    let (away, code) = agent.kubectl("larder", "get deployments").await;
    assert!(code == 1 && away.contains("was to go to the API server"), "{code}: {away}");
    assert_eq!(agent.kubectl("larder", "get pod agent -o jsonpath={.metadata.name}").await, ("agent".to_owned(), 0));
}
