//! Schemathesis makes requests out of the schemas that larder serves, the cluster's own, and wrong ones: each error is a
//! `Status`, none is a 500, and no connection is dropped.
//!
//! `LARDER_SCHEMATHESIS=60` makes it run for 60 seconds with every method and every path of the schemas.

use crate::cluster::Cluster;
use crate::daemon::Daemon;
use crate::forward::Forward;
use larder_testbed::python::PythonProgram;
use larder_testbed::{Options, Testbed};
use serde_json::json;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;

/// How long it may take beyond the time that it is given.
const LIMIT: Duration = Duration::from_mins(3);

/// All paths but those that larder serves.
const NOT_SERVED: &str =
    r"^(?!/api/v1/((namespaces/\{namespace\}/)?(pods|secrets|configmaps)|nodes|namespaces)(/\{name\}(/status)?)?$)";

/// Runs it, and returns what it prints.
async fn schemathesis(
    forward: &Forward,
    folder: &std::path::Path,
    document: &str,
    arguments: &[&str],
    limit: Duration,
) -> Output {
    let program = PythonProgram::Schemathesis;
    let url = forward.url();
    let mut command = Command::new(program.interpreter().expect("schemathesis"));
    command
        .args(["-m", "schemathesis.cli", "run"])
        .arg(format!("{url}{document}"))
        .args(["--url", &url, "--checks", "errors_are_a_status", "--request-timeout", "20", "--continue-on-failure"])
        .args(["--no-color", "--suppress-health-check", "all", "--warnings", "off", "--generation-database", "none"])
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("PYTHONPATH", program.folder())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("HOME", folder)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(limit, command.output()).await;
    output.unwrap_or_else(|_| panic!("schemathesis does not end within {limit:?}")).expect("it runs")
}

#[tokio::test]
async fn requests_made_out_of_the_schemas_are_answered() {
    let testbed = Testbed::start(Options::default()).await.expect("testbed");
    let cluster = Cluster::new(&testbed).await;
    // The hooks ask for this name often.
    cluster.create_secret("web", "one").await;
    cluster.create_config_map("web", "one").await;
    let volumes = json!([
        { "name": "a", "secret": { "secretName": "web" } },
        { "name": "b", "configMap": { "name": "web" } },
    ]);
    cluster.create_pod("web", json!({ "volumes": volumes })).await;
    let daemon = Daemon::start(&testbed).await;
    let forward = Forward::to(daemon.socket()).await;
    let seconds: Option<u64> = std::env::var("LARDER_SCHEMATHESIS").ok().map(|text| text.parse().expect("seconds"));
    let time = seconds.unwrap_or_default().to_string();
    let limit = LIMIT + Duration::from_secs(seconds.unwrap_or_default());
    // Without the methods that change something, whose bodies take long to make. The phase of coverage tries wrong methods.
    let short = ["--include-method", "GET", "--exclude-path-regex", NOT_SERVED, "--max-examples", "10"];
    let short = [&short[..], &["--phases", "coverage,fuzzing"]].concat();
    let arguments = if seconds.is_some() { vec!["--max-time", &time] } else { short };
    let documents =
        ["/openapi/v3/api/v1", "/openapi/v3/apis/authorization.k8s.io/v1", "/openapi/v3/apis/authentication.k8s.io/v1"];
    for document in documents {
        let arguments = if document.ends_with("/api/v1") { &arguments[..] } else { &["--max-examples", "10"][..] };
        let output = schemathesis(&forward, testbed.folder(), document, arguments, limit).await;
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        println!("{stdout}");
        assert!(output.status.success(), "{document}: {}\n{stdout}{stderr}", output.status);
    }
}
