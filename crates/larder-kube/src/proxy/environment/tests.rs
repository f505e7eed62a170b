//! Each expectation is what Go 1.26's `httpproxy` does, unless it says otherwise.

use super::ProxyEnvironment;

fn environment(vars: &[(&str, &str)]) -> ProxyEnvironment {
    let value = |name: &str| vars.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned());
    ProxyEnvironment::from_vars(value)
}

/// The proxy for a server, or what is wrong with it; empty for none.
fn found(vars: &[(&str, &str)], server: &str) -> String {
    match environment(vars).proxy_for(&server.parse().unwrap()) {
        Ok(proxy) => proxy.map_or_else(String::new, |proxy| proxy.to_string()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn each_kind_of_server_has_its_variable_and_capitals_come_first() {
    let all = [
        ("HTTPS_PROXY", "http://secure:1"),
        ("https_proxy", "http://small:2"),
        ("HTTP_PROXY", ""),
        ("http_proxy", "http://plain:3"),
        ("ALL_PROXY", "http://all:4"),
    ];
    assert_eq!(found(&all, "https://api:6443"), "http://secure:1");
    assert_eq!(found(&all[1..], "https://api:6443"), "http://small:2");
    // What is empty is not set.
    assert_eq!(found(&all, "http://api:8080"), "http://plain:3");
    // Go knows no proxy for all.
    assert_eq!(found(&all[4..], "https://api:6443"), "");
    assert_eq!(found(&[], "https://api:6443"), "");
}

#[test]
fn a_proxy_may_be_named_without_a_scheme() {
    for (value, expected) in [
        ("proxy", "http://proxy:80"),
        ("proxy:3128", "http://proxy:3128"),
        ("user:pass@proxy:3128/", "http://proxy:3128"),
        ("https://proxy", "https://proxy:443"),
        ("socks5://proxy", "socks5://proxy:1080"),
        ("socks5h://proxy", "socks5h://proxy:1080"),
    ] {
        assert_eq!(found(&[("HTTPS_PROXY", value)], "https://api"), expected);
    }
}

#[test]
fn what_cannot_be_a_proxy_is_told_with_its_variable_and_without_its_value() {
    for value in ["ftp://user:pass@proxy", "http://user:pa ss@proxy", "://pass", "http://user:pass"] {
        let told = found(&[("https_proxy", value)], "https://api");
        assert!(told.starts_with("environment variable https_proxy: it is not the URL of a proxy"), "{told}");
        assert!(!told.contains("pass@") && !told.contains("pa ss"), "{told}");
        let debug = format!("{:?}", environment(&[("HTTPS_PROXY", value)]));
        assert!(!debug.contains("proxy") && !debug.contains("pa"), "{debug}");
        // Nobody who is not led there needs to know.
        assert_eq!(found(&[("https_proxy", value), ("NO_PROXY", "api")], "https://api"), "");
        assert_eq!(found(&[("https_proxy", value)], "https://127.0.0.1:6443"), "");
    }
}

#[test]
fn loopback_is_never_proxied() {
    for (server, direct) in [
        ("https://localhost:6443", true),
        ("https://127.0.0.1:6443", true),
        ("https://127.8.9.10", true),
        ("https://[::1]:6443", true),
        ("https://[::ffff:127.0.0.1]", true),
        ("https://localhost.example", false),
        ("https://128.0.0.1", false),
        ("https://[::2]", false),
    ] {
        let proxy = found(&[("HTTPS_PROXY", "http://proxy:1")], server);
        assert_eq!(proxy.is_empty(), direct, "{server}: {proxy}");
    }
}

/// The table of `NO_PROXY`, of a server, and of whether it is reached without.
const NO_PROXY: &[(&str, &str, bool)] = &[
    ("*", "https://api.example", true),
    ("*", "https://10.0.0.1", true),
    ("other, *", "https://10.0.0.1", true),
    ("*.example", "https://api.example", true),
    ("*.example", "https://example", false),
    (".example", "https://api.example", true),
    (".example", "https://a.b.example", true),
    (".example", "https://example", false),
    ("example", "https://example", true),
    ("example", "https://api.example", true),
    ("example", "https://notexample", false),
    ("EXAMPLE", "https://api.Example", true),
    (" , ,example ,", "https://example", true),
    ("example:6443", "https://example:6443", true),
    ("example:6443", "https://api.example:6443", true),
    ("example:6443", "https://example:443", false),
    ("example:443", "https://example", true),
    ("example:80", "http://example", true),
    ("example:", "https://example:6443", true),
    (":6443", "https://example:6443", false),
    (".example:6443", "https://api.example:6443", true),
    ("*.example:6443", "https://api.example:6444", false),
    ("a*.example", "https://api.example", false),
    ("10.0.0.1", "https://10.0.0.1:6443", true),
    ("10.0.0.1", "https://10.0.0.11", false),
    ("10.0.0.1:6443", "https://10.0.0.1:6443", true),
    ("10.0.0.1:6443", "https://10.0.0.1", false),
    ("10.0.0.0/8", "https://10.255.0.1:6443", true),
    ("10.1.2.3/8", "https://10.255.0.1", true),
    ("10.0.0.0/8", "https://11.0.0.1", false),
    ("10.0.0.0/8", "https://api.example", false),
    ("10.0.0.0/8:6443", "https://10.0.0.1:6443", false),
    ("10.0.0.0/33", "https://10.0.0.1", false),
    ("10.0", "https://10.0.0.1", false),
    (".0.0.1", "https://10.0.0.1", false),
    ("fd00::1", "https://[fd00::1]:6443", true),
    ("fd00:0::1", "https://[fd00::1]", true),
    ("[fd00::1]:6443", "https://[fd00::1]:6443", true),
    ("[fd00::1]:6443", "https://[fd00::1]", false),
    ("[fd00::1]", "https://[fd00::1]", false),
    ("fd00::/8", "https://[fd12::1]", true),
    ("fd00::/8", "https://[fe80::1]", false),
    ("10.0.0.1", "https://[::ffff:10.0.0.1]", true),
    ("::ffff:10.0.0.1", "https://10.0.0.1", true),
    ("10.0.0.0/8", "https://[::ffff:10.0.0.1]", true),
];

#[test]
fn what_is_named_is_reached_without() {
    for (no_proxy, server, direct) in NO_PROXY {
        let vars = [("HTTPS_PROXY", "http://proxy:1"), ("HTTP_PROXY", "http://proxy:1"), ("no_proxy", no_proxy)];
        let proxy = found(&vars, server);
        assert_eq!(proxy.is_empty(), *direct, "{no_proxy} {server}: {proxy}");
    }
}
