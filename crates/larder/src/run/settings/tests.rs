//! Settings from a file, and the place of what is wrong with them.

use super::*;
use crate::{Cli, Command};
use clap::{CommandFactory as _, Parser as _};
use larder_node::{ChangeDetection, Strategy};
use larder_server::Limits;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::time::Duration;

fn flags(line: &str) -> Flags {
    match Cli::try_parse_from(line.split_whitespace()).unwrap().command {
        Command::Run(args) => args.flags,
        other => panic!("{other:?}"),
    }
}

/// The settings of a file `f` with that text.
fn parse(text: &str) -> anyhow::Result<Settings> {
    let mut settings = Settings::default();
    file::parse(&mut settings, "f", text).map(|()| settings)
}

/// The settings that these flags give, over a file `f` with that text.
fn settings(text: &str, line: &str) -> Settings {
    let mut settings = parse(text).unwrap();
    settings.apply(&flags(line));
    settings
}

fn options(text: &str, line: &str) -> anyhow::Result<(Config, ServeOptions)> {
    settings(text, line).options()
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
    assert_eq!(config.change_detection, ChangeDetection::same(Strategy::Auto));
    assert!(!config.policy.keep_last_known && !config.policy.serve_absences);
    assert_eq!(serve.socket, Path::new("/tmp/l.sock"));
    assert_eq!(serve.metrics_address, Some("127.0.0.1:1".parse().unwrap()));

    let (config, serve) = options("", "larder run --manifests m --node-name edge-1").unwrap();
    assert_eq!(config.cluster, Cluster::Manifests("m".into()));
    assert_eq!((config.runtime, config.runtime_events), (RuntimeEndpoint::Search, true));
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
    let detection = config.change_detection;
    assert_eq!((detection.secrets, detection.config_maps), (Strategy::Direct, Strategy::Watch));
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
    assert_eq!(config.change_detection, ChangeDetection::same(Strategy::Ttl));
    assert_eq!(config.cluster, Cluster::Manifests("m".into()), "a flag's source takes the place of the file's");
    assert_eq!((config.default_ttl, config.node_name.as_str()), (Duration::from_secs(1), "other"));
}

#[test]
fn pass_through_is_a_flag_with_or_without_a_value_and_needs_a_listener() {
    let enabled = |text: &str, flags: &str| settings(text, &format!("larder run {flags}")).serve.pass_through.enabled;
    for (text, flags, expected) in [
        ("", "", false),
        ("", "--pass-through", true),
        ("", "--pass-through --listen 127.0.0.1:1", true),
        ("", "--pass-through off", false),
        ("passThrough: {enabled: true}\n", "", true),
        ("passThrough: {enabled: true}\n", "--pass-through off", false),
    ] {
        assert_eq!(enabled(text, flags), expected, "{text:?} {flags}");
    }
    let refused = options("", "larder run --kubeconfig k --node-name n --pass-through").unwrap_err().to_string();
    assert_eq!(refused, "--pass-through: needs an address to listen on over TLS: set --listen");
    let refused = options("passThrough: {requests: 0}\n", "larder run --kubeconfig k --node-name n").unwrap_err();
    assert_eq!(refused.to_string(), "f:1:25: passThrough.requests: must be from 1 to 65536");
}

/// The names of the fields of a struct, as its `Debug` has them.
fn fields(value: &dyn std::fmt::Debug) -> BTreeSet<String> {
    let text = format!("{value:#?}");
    let field = |line: &str| Some(line.strip_prefix("    ")?.split_once(": ")?.0.to_owned());
    text.lines().filter_map(field).filter(|name| !name.starts_with(' ')).collect()
}

#[test]
fn a_section_has_all_options_that_a_file_may_set() {
    let Config { policy, kube, cri, pleg, .. } = Config::new("node", Cluster::InCluster);
    let check = |section: &str, options: &dyn std::fmt::Debug, others: &[&str]| {
        let of_section = |setting: &Setting| setting.checked_name().strip_prefix(section).map(str::to_owned);
        let mut settings: BTreeSet<String> = SETTINGS.iter().filter_map(of_section).collect();
        settings.extend(others.iter().map(|&name| name.to_owned()));
        assert_eq!(settings, fields(options), "{section}");
    };
    check("policy.", &policy, &[]);
    check("limits.", &Limits::default(), &[]);
    check("pass_through.", &larder_server::PassThroughOptions::default(), &[]);
    check("cri.", &cri, &[]);
    // The rest is of tests, of the process and its environment, or of other settings.
    check("kube.", &kube, &["connector", "jitter", "plugin_open_files", "proxies"]);
    check(
        "pleg.",
        &pleg,
        &[
            "event_capacity",
            "relist_queue",
            "relist_on_wait",
            "jitter",
            "keep_last_status",
            "keep_unchanged",
            "independent_pods",
            "inspection_patience",
            "reconnect_initial",
            "reconnect_max",
            "unsupported_retry",
        ],
    );
}

/// Nothing of what reads the file comes through: neither its words nor its advice.
fn is_own(problem: &str) -> bool {
    !["invalid", "expected", "scalar", "mapping", "serde", "deserial", "Options", "unclosed", "integer", "enum"]
        .iter()
        .any(|word| problem.contains(word))
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_what_is_allowed() {
    for (text, expected) in [
        (
            "defaultTtl: 1m\ndefaultTTl: 2m\n",
            ":2:1: unknown setting \"defaultTTl\": the settings here are kubeconfig, context, manifests,",
        ),
        (
            "policy:\n  keepLastKnwon: true\n",
            ":2:3: unknown setting \"keepLastKnwon\": the settings here are keepLastKnown, ",
        ),
        ("5: 3\n", ":1:1: unknown setting \"5\": the settings here are kubeconfig, "),
        ("policy:\n  keepLastKnown: maybe\n", ":2:18: policy.keepLastKnown: \"maybe\" is not true or false"),
        ("runtimeEvents: 1\n", ":1:16: runtimeEvents: 1 is not true or false"),
        ("defaultTtl: soon\n", ":1:13: defaultTtl: \"soon\" is not a duration: write 30s, 1m30s or 500ms"),
        ("defaultTtl: 5\n", ":1:13: defaultTtl: 5 is not a duration: write 30s, 1m30s or 500ms"),
        ("defaultTtl:\n", ":1:11: defaultTtl: an empty value is not a duration: write 30s"),
        ("policy: {fetchBackoffMax: [1s]}\n", ":1:27: policy.fetchBackoffMax: a list is not a duration: write 30s"),
        ("pleg: {inspectionDeadline: no}\n", ":1:28: pleg.inspectionDeadline: \"no\" is not a duration: write 30s"),
        (
            "changeDetection: {secrets: often}\n",
            ":1:28: changeDetection.secrets: \"often\" is not one of direct, ttl, watch, auto",
        ),
        ("changeDetection: {configMaps: [a]}\n", ":1:31: changeDetection.configMaps: a list is not one of direct, "),
        ("changeDetection: watch\n", ":1:18: changeDetection: \"watch\" is not a section: write its settings under it"),
        ("logFormat: xml\n", ":1:12: logFormat: \"xml\" is not one of text, json"),
        (
            "metricsAddress: here\n",
            ":1:17: metricsAddress: \"here\" is not an address with a port: write 127.0.0.1:9464",
        ),
        ("nodeName: [a]\n", ":1:11: nodeName: a list is not a text"),
        ("nodeName:\n  password: a-token\n", ":2:3: nodeName: a section is not a text"),
        (
            "changeDetection: {secrets: {watch: 1}}\n",
            ":1:28: changeDetection.secrets: a section is not one of direct, ",
        ),
        ("socket: {a: b}\n", ":1:9: socket: a section is not a text"),
        ("kube:\n  pageSize: many\n", ":2:13: kube.pageSize: \"many\" is not a whole number from 1 to 4294967295"),
        ("kube: {pageSize: -1}\n", ":1:18: kube.pageSize: -1 is not a whole number from 1 to 4294967295"),
        ("kube: {pageSize: 99999999999}\n", ":1:18: kube.pageSize: 99999999999 is not a whole number from 1 to "),
        ("kube: {pageSize: 1.5}\n", ":1:18: kube.pageSize: 1.5 is not a whole number from 1 to "),
        ("kube: {pageSize: 1e3}\n", ":1:18: kube.pageSize: 1e3 is not a whole number from 1 to "),
        ("kube: {pageSize: 99999999999999999999999}\n", ":1:18: kube.pageSize: "),
        (
            "pleg:\n  inspectionConcurrency: 0\n",
            ":2:26: pleg.inspectionConcurrency: 0 is not a whole number, 1 or more",
        ),
        ("limits: [1]\n", ":1:9: limits: a list is not a section: write its settings under it, such as connections, "),
        ("limits:\n", ":1:7: limits: an empty value is not a section: "),
        ("- a\n", ":1:1: this is not a list of settings: write NAME: VALUE"),
        ("a-token\n", ":1:1: this is not a list of settings: write NAME: VALUE"),
        ("nodeName: a\nnodeName: b\n", ":2:1: nodeName is set twice"),
        ("policy: {keepLastKnown: true, keepLastKnown: true}\n", ":1:31: keepLastKnown is set twice"),
        ("nodeName: a\n---\nnodeName: b\n", ":3:1: a second document begins here"),
        ("nodeName: *a\n", ":1:11: this alias"),
        ("nodeName: 'a\n", ":1:11: this is not YAML: "),
        ("nodeName: a: b\n", ":1:12: this is not YAML: "),
        ("nodeName: @a\n", ":1:11: this is not YAML: "),
        ("policy: {keepLastKnown: true\n", ":1:9: this is not YAML: "),
        ("~: a\n", ":1:1: this is not YAML: "),
    ] {
        let problem = parse(text).unwrap_err().to_string();
        assert!(problem.starts_with(&format!("f{expected}")), "{text}: {problem}");
        assert!(!problem.contains('\n') && !problem.contains("a-token") && is_own(&problem), "{text}: {problem}");
    }
}

#[test]
fn a_value_that_is_longer_than_a_line_is_not_told_whole() {
    for text in [format!("logFormat: {}\n", "ö".repeat(100_000)), format!("minIdle: {}\n", "9".repeat(100_000))] {
        let problem = parse(&text).unwrap_err().to_string();
        assert!(problem.starts_with("f:1:") && problem.len() < 400, "{} bytes: {problem:.400}", problem.len());
    }
}

#[test]
fn what_is_printed_is_what_is_read() {
    let file =
        "policy: {fetchBackoffInitial: 250ms}\nmetricsAddress: 127.0.0.1:9464\npleg: {inspectionDeadline: none}\n";
    let mut settings = settings(file, "larder run --manifests m --node-name edge-1 --default-ttl 90s");
    let text = String::from_utf8(settings.to_yaml().unwrap()).unwrap();
    assert!(text.contains("defaultTtl: 1m30s\n") && text.contains("  fetchBackoffInitial: 250ms\n"), "{text}");
    let mut again = parse(&text).unwrap();
    (settings.origins, again.origins) = (HashMap::new(), HashMap::new());
    assert_eq!(format!("{settings:?}"), format!("{again:?}"), "{text}");
}

/// By the name that it was set by, with its place in the file; the same to who starts as to who has the settings printed.
#[test]
fn a_setting_that_cannot_be_used_is_told_where_it_was_set() {
    let long = "x".repeat(120);
    for (text, line, expected) in [
        ("", "larder run --manifests m --node-name Edge_1", "--node-name: \"edge_1\" is not a node's name: "),
        ("nodeName: an_edge\n", "larder run --manifests m", "f:1:11: nodeName: \"an_edge\" is not a node's name: "),
        (
            "kubeconfig: k\nmanifests: m\n",
            "larder run --node-name n",
            "f:2:12: manifests: kubeconfig is also set, and larder takes pods from only one",
        ),
        ("", "larder run --context c --node-name n", "--context: a context needs a kubeconfig: "),
        ("manifests: m\ncontext: c\n", "larder run --node-name n", "f:2:10: context: a context needs a kubeconfig: "),
        ("manifests: ''\n", "larder run --node-name n", "f:1:12: manifests: the manifests' directory is empty: "),
        ("kube: {pingInterval: 1ns}", "larder run", "f:1:22: kube.pingInterval: must be at least a millisecond"),
        (
            "pleg: {inspectionConcurrency: 18446744073709551615}",
            "larder run",
            "f:1:31: pleg.inspectionConcurrency: must be at most 65536",
        ),
        ("limits: {connections: 0}", "larder run", "f:1:23: limits.connections: must be from 1 to 1048576"),
        (
            "limits:\n  headTimeout: 0s\n",
            "larder run",
            "f:2:16: limits.headTimeout: must be longer than nothing and at",
        ),
        ("kube: {pageSize: 0}", "larder run", "f:1:18: kube.pageSize: must be from 1 to 65536"),
        ("kube:\n\n  maxPageBytes: 0\n", "larder run", "f:3:17: kube.maxPageBytes: must be at least 1 byte and less"),
        ("cri: {maxMessageBytes: 0}", "larder run", "f:1:24: cri.maxMessageBytes: must be between 1 and 1073741824"),
        ("tokens: {jwksFile: k}", "larder run", "f:1:20: tokens.jwksFile: a file of keys does not name the issuer"),
        ("runtimeSockets: []", "larder run", "f:1:17: runtimeSockets: names no socket: name one"),
        ("pleg: {relistPeriod: 0s}", "larder run", "f:1:22: pleg.relistPeriod: must be above zero"),
        ("syncPeriod: 0s\n", "larder run", "f:1:13: syncPeriod: must be longer than nothing"),
        ("syncPeriod: 1s\n", "larder run --sync-period 0s", "--sync-period: must be longer than nothing"),
        ("", "larder run --default-ttl 9000h", "--default-ttl: must not be longer than a year"),
        ("runtimeEndpoint: tcp://a\n", "larder run", "f:1:18: runtimeEndpoint: container runtime endpoint \"tcp://a\""),
        ("", "larder run --runtime-endpoint tcp://a", "--runtime-endpoint: container runtime endpoint \"tcp://a\""),
        ("logLevel: loud\n", "larder run", "f:1:11: logLevel: \"loud\" is not a log level: write off, error, "),
        (
            "logLevel: info\n",
            "larder run --log-level loud",
            "--log-level: \"loud\" is not a log level: write off, error, ",
        ),
        (&format!("socket: /{long}\n"), "larder run", "f:1:9: socket: socket path /xxx"),
        // One that does not go with another names both, with their values, at the place of the one that is set.
        (
            "policy: {fetchBackoffMax: 10ms}\n",
            "larder run",
            "f:1:27: policy.fetchBackoffMax (10ms): must not be shorter than policy.fetchBackoffInitial (500ms)",
        ),
        (
            "policy: {fetchBackoffInitial: 1m}\n",
            "larder run",
            "f:1:31: policy.fetchBackoffMax (10s): must not be shorter than policy.fetchBackoffInitial (1m)",
        ),
        (
            "kube: {deadLinkTimeout: 2s}\n",
            "larder run",
            "f:1:25: kube.pingInterval (5s): must be shorter than kube.deadLinkTimeout (2s)",
        ),
        (
            "pleg: {relistPeriod: 5m}\n",
            "larder run",
            "f:1:22: pleg.relistThreshold (3m): must be above pleg.relistPeriod (5m)",
        ),
    ] {
        let at_start = || {
            let has_source = ["manifests", "kubeconfig", "context"].iter().any(|source| text.contains(source));
            let flags = if has_source || line.contains("--manifests") || line.contains("--context") {
                line.to_owned()
            } else {
                format!("{line} --manifests m")
            };
            let settings = settings(text, &flags);
            settings.log_filter().and_then(|_| settings.options()).unwrap_err().to_string()
        };
        let printed = settings(text, line).check().unwrap_err().to_string();
        assert!(printed.starts_with(expected), "{text}{line}: {printed}");
        assert_eq!(printed, at_start(), "{text}{line}");
    }
}

#[test]
fn to_print_settings_no_source_has_to_be_named() {
    settings("", "larder run --node-name n").check().unwrap();
    settings("kubeconfig: /does/not/exist\n", "larder run --node-name n").check().unwrap();
}

/// A file that sets one setting, and the place of its value.
fn file_of(setting: &Setting, value: &str) -> (String, String) {
    let key = setting.key();
    let (before, name) =
        key.split_once('.').map_or((String::new(), &*key), |(section, name)| (format!("{section}:\n  "), name));
    let (line, indent) = if before.is_empty() { (1, 0) } else { (2, 2) };
    (format!("{before}{name}: {value}\n"), format!("f:{line}:{}", indent + name.len() + 3))
}

/// What is told of a setting that has that value, after its place; `None` if it can have it.
fn refusal(setting: &Setting, value: &str) -> Option<String> {
    let (text, place) = file_of(setting, value);
    let refused = parse(&text).and_then(|settings| settings.check()).err()?.to_string();
    let problem = refused.strip_prefix(&format!("{place}: ")).unwrap_or_else(|| panic!("{text}: {refused}"));
    let key = setting.key();
    // Another one that does not go with it names it last.
    assert!(problem.starts_with(&key) || problem.ends_with(&format!(" {key} ({value})")), "{text}: {refused}");
    Some(problem.to_owned())
}

/// The smallest and the largest value of the setting's type, or an empty one.
fn extremes(setting: &Setting) -> &'static [&'static str] {
    match setting.allowed() {
        allowed if allowed.starts_with("a duration") => &["0s", "2000000000h"],
        allowed if allowed.starts_with("a whole number") => &["0", "18446744073709551615"],
        allowed if allowed == "a text" => &["''"],
        allowed if allowed == "a list of texts" => &["[]", "['']"],
        _ => &[],
    }
}

#[test]
fn each_setting_is_refused_by_its_name_and_place() {
    let mut taken = BTreeSet::new();
    for setting in SETTINGS {
        let key = setting.key();
        assert!(refusal(setting, "{a: b}").unwrap().starts_with(&format!("{key}: a section is not ")), "{key}");
        for value in extremes(setting) {
            if refusal(setting, value).is_none() {
                taken.insert(format!("{key}: {value}"));
            }
        }
        if let Some(flag) = setting.flag_name().filter(|_| setting.allowed().starts_with("a duration")) {
            let line = format!("larder run --{flag} 2000000000h");
            let refused = settings("", &line).check().unwrap_err().to_string();
            assert!(refused.starts_with(&format!("--{flag}: must ")), "{refused}");
        }
    }
    // No setting loses a bound by mistake.
    insta::assert_snapshot!("extremes_that_are_taken", taken.into_iter().collect::<Vec<_>>().join("\n"));
}

/// The settings as a table of Markdown.
fn table() -> String {
    let defaults = Settings::default();
    let row = |setting: &Setting| {
        let default = setting.value(&defaults).map(|value| match value {
            Json::Array(items) => {
                items.iter().map(|item| format!("`{}`", setting::plain(item))).collect::<Vec<_>>().join(", ")
            }
            value => format!("`{}`", setting::plain(&value)),
        });
        let default = setting.default.map(str::to_owned).or(default).unwrap_or_default();
        let own =
            |problem: String| problem.strip_prefix(&setting.key())?.split_once(": ").map(|(_, why)| why.to_owned());
        let bounds = extremes(setting).iter().filter_map(|value| own(refusal(setting, value)?));
        let mut bounds: Vec<String> = bounds.filter(|why| why.starts_with("must ")).collect();
        bounds.dedup();
        let allowed = setting.allowed();
        let kind = allowed.split(": ").next().unwrap_or_default().to_owned();
        let values = if bounds.is_empty() { kind } else { bounds.join("; ") };
        let flag = setting.flag_name().map(|flag| format!("`--{flag}`")).into_iter();
        let flags = flag.chain(setting.env.map(|env| format!("`{env}`"))).collect::<Vec<_>>().join(", ");
        format!("| `{}` | {flags} | {default} | {values} | {} |\n", setting.key(), setting.help())
    };
    let head =
        "| key in the file | flag, environment | default | values | meaning |\n| --- | --- | --- | --- | --- |\n";
    SETTINGS.iter().fold(head.to_owned(), |table, setting| table + &row(setting))
}

#[test]
fn the_documentation_lists_each_setting() {
    let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md")).unwrap();
    let table = table();
    assert!(docs.contains(&table), "docs/settings.md must have this table:\n{table}");
    let rows = |text: &str| text.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows(&docs), rows(&table), "docs/settings.md lists what is not a setting");
}

#[test]
fn help_shows_each_flag_with_its_default() {
    let mut cli = Cli::command();
    let run = cli.find_subcommand_mut("run").unwrap();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let help = words(&run.render_long_help().to_string());
    let defaults = Settings::default();
    let mut flags = BTreeSet::from(["config", "print-config", "help"]);
    for setting in SETTINGS {
        let Some((arg, flag)) = setting.arg(&defaults).zip(setting.flag_name()) else { continue };
        if !flags.insert(flag) {
            continue;
        }
        let value = format!("<{}>", arg.get_value_names().unwrap()[0]);
        let value =
            if arg.get_num_args().is_some_and(|most| most.min_values() == 0) { format!("[{value}]") } else { value };
        let shown = format!("--{flag} {value} {}", setting.help());
        assert!(help.contains(&words(&shown)), "{shown} is not in {help}");
        let default = setting.value(&defaults).map(|value| setting::flag_text(&value));
        let default = setting.default.map(str::to_owned).or(default);
        let shown = default.map_or(words(&shown), |default| words(&format!("{shown} [default: {default}]")));
        assert!(help.contains(&shown), "{shown} is not in {help}");
    }
    let taken: BTreeSet<&str> = run.get_arguments().filter_map(|arg| arg.get_long()).collect();
    assert_eq!(taken, flags);
}

#[test]
fn a_printed_file_has_each_setting_that_has_a_value() {
    let defaults = Settings::default();
    let printed = parse(&String::from_utf8(defaults.to_yaml().unwrap()).unwrap()).unwrap();
    let set: BTreeSet<String> = printed.origins.into_keys().collect();
    let with_value = SETTINGS.iter().filter(|setting| setting.value(&defaults).is_some());
    assert_eq!(set, with_value.map(Setting::key).collect());
}

#[test]
fn keys_and_names_are_unique() {
    for name_of in [Setting::key, Setting::checked_name] {
        assert_eq!(SETTINGS.iter().map(name_of).collect::<BTreeSet<_>>().len(), SETTINGS.len());
    }
}
