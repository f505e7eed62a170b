//! The command line of the daemon.

use super::*;
use serde_json::json;

#[test]
fn a_level_that_is_misspelt_is_no_target() {
    for text in ["info", "WARN", "off", "larder_kube=debug,info", "larder_cri", "info, larder_node=trace", "h2=warn"] {
        assert!(log_filter(text).is_ok(), "{text}");
    }
    for text in ["verbose", "", "info,loud", "larder_kube=verbose", "inf o", "larder_node[read]=trace"] {
        let error = format!("{:#}", log_filter(text).unwrap_err());
        assert!(error.contains("write off, error, warn, info, debug or trace"), "{text}: {error}");
    }
}

#[test]
fn a_line_of_the_log_is_one_line() {
    let mut out = OneLine(Vec::new());
    out.write_all(b"plain\n").unwrap();
    out.write_all(b"a\nforged\r\n").unwrap();
    assert_eq!(out.0, b"plain\na\\nforged\\r\n");
}

#[test]
fn a_nodes_name_is_trimmed_and_in_lower_case_as_the_kubelets() {
    for (given, expected) in
        [("edge-1", "edge-1"), ("Edge-1.Example.COM", "edge-1.example.com"), (" EDGE-1\n", "edge-1"), ("  ", "")]
    {
        assert_eq!(node_name(Some(given)).unwrap(), expected, "{given:?}");
    }
}

#[test]
fn the_hosts_name_stands_in_for_the_nodes() {
    let name = node_name(None).unwrap();
    assert!(!name.is_empty() && name == name.to_lowercase() && !name.contains(char::is_whitespace), "{name}");
    assert_eq!(node_name(Some("")).unwrap(), name, "an empty name is none, as for the kubelet");
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
    let listening = Listening { address: "127.0.0.1:6440".parse().unwrap(), tls: TlsOptions::default() };
    let metrics = "127.0.0.1:9464".parse().unwrap();
    let text = greeting(&report(), Path::new("/tmp/l.sock"), Some(metrics), Some(&listening));
    insta::assert_snapshot!("greeting", text);
}

/// `larder kubeconfig` was named where it can issue nothing.
#[test]
fn the_greeting_names_the_way_over_tls_that_works() {
    let check = |cert_file: Option<&str>, client_ca: Option<&str>, expected: &str| {
        let mut tls = TlsOptions::default();
        (tls.cert_file, tls.client_ca) = (cert_file.map(Into::into), client_ca.map(Into::into));
        let listening = Listening { address: "127.0.0.1:6440".parse().unwrap(), tls };
        let text = greeting(&report(), Path::new(DEFAULT_SOCKET), None, Some(&listening));
        assert_eq!(text.lines().last(), Some(&*format!("  listen   https://127.0.0.1:6440 ({expected})")));
    };
    check(None, None, "larder kubeconfig");
    check(None, Some("clients.crt"), "larder kubeconfig");
    check(Some("tls.crt"), None, "larder kubeconfig --certificate-authority FILE");
    let of_ca = "for clients with a certificate of --client-ca, of the group \"larder:admins\"";
    check(Some("tls.crt"), Some("clients.crt"), of_ca);
}

#[test]
fn at_the_default_socket_nothing_has_to_be_named() {
    let text = greeting(&report(), Path::new(DEFAULT_SOCKET), None, None);
    assert!(!text.contains("--socket") && !text.contains("metrics") && !text.contains("listen "), "{text}");
}
