use super::*;
use crate::cli::{Cli, Command};
use clap::Parser as _;
use serde_json::json;

fn args(line: &str) -> Args {
    match Cli::try_parse_from(line.split_whitespace()).unwrap().command {
        Command::Run(args) => *args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn arguments_become_settings() {
    let (config, serve) = settings(args(
        "larder run --kubeconfig k --context c --node-name edge-1 --runtime-endpoint none --socket /tmp/l.sock \
         --metrics-address 127.0.0.1:1 --default-ttl 5s",
    ))
    .unwrap();
    assert_eq!(config.node_name, "edge-1");
    assert_eq!(config.cluster, Cluster::Kubeconfig { path: "k".into(), context: Some("c".to_owned()) });
    assert_eq!(config.runtime, RuntimeEndpoint::None);
    assert_eq!(config.default_ttl, Duration::from_secs(5));
    assert_eq!(serve.socket, Path::new("/tmp/l.sock"));
    assert_eq!(serve.metrics_address, Some("127.0.0.1:1".parse().unwrap()));

    let (config, serve) = settings(args("larder run --manifests m --node-name edge-1")).unwrap();
    assert_eq!(config.cluster, Cluster::Manifests("m".into()));
    assert_eq!(config.runtime, RuntimeEndpoint::WellKnown);
    assert_eq!(serve.metrics_address, None);
}

#[test]
fn a_setting_that_cannot_be_used_is_named() {
    let error = settings(args("larder run --manifests m --node-name Edge_1")).unwrap_err().to_string();
    assert!(error.contains("node_name") && error.contains("Edge_1"), "{error}");
}

#[test]
fn a_level_that_is_misspelt_is_no_target() {
    for text in
        ["info", "WARN", "off", "larder_kube=debug,info", "larder_cri", "info, larder_node[read]=trace", "h2=warn"]
    {
        assert!(log_filter(text).is_ok(), "{text}");
    }
    for text in ["verbose", "", "info,loud", "larder_kube=verbose", "inf o"] {
        let error = format!("{:#}", log_filter(text).unwrap_err());
        assert!(error.contains("write off, error, warn, info, debug or trace"), "{text}: {error}");
    }
}

#[test]
fn the_hosts_name_stands_in_for_the_nodes() {
    let name = host_name().unwrap();
    assert!(!name.is_empty() && name == name.to_lowercase() && !name.contains(char::is_whitespace), "{name}");
}

fn report() -> Report {
    serde_json::from_value(json!({
        "version": "0.1.0", "node": "edge-1", "startedAt": "2026-01-02T00:00:00Z",
        "degraded": ["runtime: nobody listens"],
        "sources": [
            {"name": "pods", "from": "/etc/larder/manifests", "state": "ok"},
            {"name": "secrets", "from": "/etc/larder/manifests", "state": "ok"},
            {"name": "runtime", "from": "unix:///run/containerd/containerd.sock", "state": "failing"},
        ],
        "counts": {"pods": 1, "secrets": {"referenced": 2}, "configMaps": {"referenced": 1}, "containers": {"running": 2}},
    }))
    .unwrap()
}

#[test]
fn the_greeting_says_what_is_held_and_how_to_ask() {
    let text = greeting(&report(), Path::new("/tmp/l.sock"), Some("127.0.0.1:9464".parse().unwrap()));
    insta::assert_snapshot!("greeting", text);
}

#[test]
fn at_the_default_socket_nothing_has_to_be_named() {
    let text = greeting(&report(), Path::new(DEFAULT_SOCKET), None);
    assert!(!text.contains("--socket") && !text.contains("metrics"), "{text}");
}
