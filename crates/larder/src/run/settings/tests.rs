//! Settings from a file, and the place of what is wrong with them.

use super::*;
use crate::cli::{Cli, Command};
use clap::Parser as _;
use larder_node::Strategy;

fn args(line: &str) -> Args {
    match Cli::try_parse_from(line.split_whitespace()).unwrap().command {
        Command::Run(args) => *args,
        other => panic!("{other:?}"),
    }
}

/// The options that these flags give, over a file with that text.
fn options(text: &str, line: &str) -> anyhow::Result<(Config, ServeOptions)> {
    let mut settings = parse(text).map_err(anyhow::Error::msg)?;
    settings.apply(args(line));
    settings.into_options()
}

#[test]
fn flags_become_settings() {
    let (config, serve) = options(
        "",
        "larder run --kubeconfig k --context c --node-name edge-1 --runtime-endpoint none --socket /tmp/l.sock \
         --metrics-address 127.0.0.1:1 --default-ttl 5s --events off --change-detection auto --sync-period 10s \
         --keep-last-known off --serve-absences off",
    )
    .unwrap();
    assert_eq!(config.node_name, "edge-1");
    assert_eq!(config.cluster, Cluster::Kubeconfig { path: "k".into(), context: Some("c".to_owned()) });
    assert_eq!((config.runtime, config.runtime_events), (RuntimeEndpoint::None, false));
    assert_eq!((config.default_ttl, config.sync_period), (Duration::from_secs(5), Duration::from_secs(10)));
    assert_eq!(config.change_detection, ChangeDetection::both(Strategy::Auto));
    assert!(!config.policy.keep_last_known && !config.policy.serve_absences);
    assert_eq!(serve.socket, Path::new("/tmp/l.sock"));
    assert_eq!(serve.metrics_address, Some("127.0.0.1:1".parse().unwrap()));

    let (config, serve) = options("", "larder run --manifests m --node-name edge-1").unwrap();
    assert_eq!(config.cluster, Cluster::Manifests("m".into()));
    assert_eq!((config.runtime, config.runtime_events), (RuntimeEndpoint::WellKnown, true));
    assert_eq!(serve.metrics_address, None);
}

#[test]
fn without_a_file_and_flags_all_is_as_the_crates_have_it() {
    let (config, serve) = options("# nothing\n", "larder run --manifests m --node-name edge-1").unwrap();
    let defaults = Config::new("edge-1", Cluster::Manifests("m".into()));
    assert_eq!(format!("{config:?}"), format!("{defaults:?}"));
    assert_eq!(serve.limits, Limits::default());
}

#[test]
fn a_file_sets_what_stands_in_it_and_flags_win_over_it() {
    let text = "\
nodeName: edge-1
kubeconfig: /etc/kubernetes/kubelet.conf
context: c
changeDetection:
  secrets: direct
minIdle: 5s
defaultTtl: 2m
policy:
  keepLastKnown: false
  fetchBackoffMax: 1m
kube:
  fetchDeadline: 3s
pleg:
  relistPeriod: 5s
  inspectionDeadline: none
limits:
  connections: 7
";
    let (config, serve) = options(text, "larder run").unwrap();
    assert_eq!(config.node_name, "edge-1");
    let path = "/etc/kubernetes/kubelet.conf".into();
    assert_eq!(config.cluster, Cluster::Kubeconfig { path, context: Some("c".to_owned()) });
    assert_eq!((config.default_ttl, config.min_idle), (Duration::from_mins(2), Duration::from_secs(5)));
    let detection = ChangeDetection { secrets: Strategy::Direct, config_maps: Strategy::Watch };
    assert_eq!(config.change_detection, detection);
    assert_eq!((config.policy.keep_last_known, config.policy.accept_older_versions), (false, true));
    assert_eq!(config.policy.fetch_backoff_max, Duration::from_mins(1));
    assert_eq!(config.kube.fetch_deadline, Duration::from_secs(3));
    assert_eq!((config.pleg.relist_period, config.pleg.inspection_deadline), (Duration::from_secs(5), None));
    assert!(config.pleg.independent_pods, "what the file does not have is the daemon's, not the kubelet's");
    assert_eq!(serve.limits.connections, 7);

    let (config, _) = options(text, "larder run --context other").unwrap();
    let path = "/etc/kubernetes/kubelet.conf".into();
    assert_eq!(config.cluster, Cluster::Kubeconfig { path, context: Some("other".to_owned()) });

    let flags = "larder run --manifests m --default-ttl 1s --node-name other --change-detection ttl";
    let (config, _) = options(text, flags).unwrap();
    assert_eq!(config.change_detection, ChangeDetection::both(Strategy::Ttl));
    assert_eq!(config.cluster, Cluster::Manifests("m".into()), "a flag's source takes the place of the file's");
    assert_eq!((config.default_ttl, config.node_name.as_str()), (Duration::from_secs(1), "other"));
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_what_is_allowed() {
    for (text, expected) in [
        (
            "defaultTtl: 1m\ndefaultTTl: 2m\n",
            ":2:1: unknown setting \"defaultTTl\"; there are kubeconfig, context, manifests,",
        ),
        ("policy:\n  keepLastKnwon: true\n", ":2:3: unknown setting \"keepLastKnwon\"; there are keepLastKnown, "),
        ("policy:\n  keepLastKnown: maybe\n", ":2:18: "),
        ("defaultTtl: soon\n", ":1:13: \"soon\" is not a duration: write 30s, 1m30s or 500ms"),
        ("changeDetection: {secrets: often}\n", ":1:28: \"often\" is not one of direct, ttl, watch, auto"),
        ("logFormat: xml\n", ":1:12: \"xml\" is not one of text, json"),
        ("kube:\n  pageSize: many\n", ":2:13: "),
        ("nodeName: a\nnodeName: b\n", ":2:1: "),
        ("limits: [1]\n", ":1:9: "),
        ("- a\n", ":1:1: "),
        ("nodeName: 'a\n", ":"),
    ] {
        let problem = parse(text).unwrap_err();
        assert!(problem.starts_with(expected), "{text}: {problem}");
        assert!(!problem.contains('\n'), "{text}: {problem}");
    }
}

#[test]
fn what_is_printed_is_what_is_read() {
    let mut settings = parse("policy: {fetchBackoffInitial: 250ms}\nmetricsAddress: 127.0.0.1:9464\n").unwrap();
    settings.apply(args("larder run --manifests m --node-name edge-1 --default-ttl 90s"));
    let text = String::from_utf8(settings.to_yaml().unwrap()).unwrap();
    assert!(text.contains("defaultTtl: 1m30s\n") && text.contains("  fetchBackoffInitial: 250ms\n"), "{text}");
    let again = parse(&text).unwrap();
    assert_eq!(format!("{settings:?}"), format!("{again:?}"), "{text}");
}

#[test]
fn a_setting_that_cannot_be_used_is_named() {
    for (text, line, names) in [
        ("", "larder run --manifests m --node-name Edge_1", ["node_name", "Edge_1"]),
        ("kubeconfig: k\nmanifests: m\n", "larder run --node-name n", ["kubeconfig", "manifests"]),
        ("", "larder run --context c --node-name n", ["context", "--kubeconfig"]),
        ("manifests: m\ncontext: c\n", "larder run --node-name n", ["context", "--kubeconfig"]),
        ("limits: {connections: 0}", "larder run --manifests m --node-name n", ["limits", "connections"]),
        ("kube: {pageSize: 0}", "larder run --manifests m --node-name n", ["kube", "page_size"]),
        ("pleg: {relistPeriod: 0s}", "larder run --manifests m --node-name n", ["pleg", "relist_period"]),
    ] {
        let error = options(text, line).unwrap_err().to_string();
        assert!(names.iter().all(|name| error.contains(name)), "{text}: {error}");
    }
}
