//! Odd kubeconfigs.

use super::credentials::{Credentials, Named};
use super::tree::{Tree, map, odd_text, scalar};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _, seq::IndexedRandom as _};

/// What comes near in the fields of a kubeconfig.
const VALUES: [&str; 30] = [
    "https://127.0.0.1:6443",
    "http://127.0.0.1:8080",
    "127.0.0.1:7461",
    "localhost",
    "example.com/path",
    "https://h/k8s/c-1",
    "'[::1]:6443'",
    "https://",
    "ftp://x",
    "socks5://p:1080",
    "ca.crt",
    "./sub/../ca.crt",
    "tls.crt",
    "tls.key",
    "token",
    "none",
    "aGk=",
    "\"aG\\nk=\"",
    "a",
    "main",
    "other",
    "Never",
    "Always",
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
    "client.authentication.k8s.io/v1alpha1",
    "v1",
    "Config",
    "bin/plugin",
    "plugin",
];

pub(super) fn texts(seed: u64, count: usize, credentials: &Credentials) -> Vec<String> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..count)
        .map(|_| {
            let base = base(&mut random, credentials);
            odd_text(&mut random, &base, &VALUES)
        })
        .collect()
}

/// A kubeconfig that is right, with some of the fields that there are.
fn base(random: &mut Xoshiro256PlusPlus, credentials: &Credentials) -> Tree {
    let mut cluster = vec![("server", scalar("https://127.0.0.1:6443"))];
    match random.random_range(0..5) {
        0 => cluster.push(("certificate-authority", scalar("ca.crt"))),
        1 | 2 => cluster.push(match credentials.authority(random) {
            Named::File(name) => ("certificate-authority", scalar(&name)),
            Named::Data(data) => ("certificate-authority-data", scalar(&data)),
        }),
        3 => cluster.push(("insecure-skip-tls-verify", scalar("true"))),
        _ => {}
    }
    let more = [
        ("tls-server-name", scalar("kubernetes")),
        ("proxy-url", scalar("http://proxy:3128")),
        ("disable-compression", scalar("true")),
        (
            "extensions",
            Tree::List(vec![map(&[
                ("name", scalar("client.authentication.k8s.io/exec")),
                ("extension", map(&[("audience", scalar("x"))])),
            ])]),
        ),
    ];
    cluster.extend(more.into_iter().filter(|_| random.random_bool(0.25)));
    let mut user = match random.random_range(0..7) {
        0 => vec![("token", scalar("t"))],
        1 => vec![("tokenFile", scalar("token"))],
        2 => vec![("client-certificate", scalar("tls.crt")), ("client-key", scalar("tls.key"))],
        3 | 4 => {
            let [certificate, key] = credentials.client(random);
            let certificate = match certificate {
                Named::File(name) => ("client-certificate", scalar(&name)),
                Named::Data(data) => ("client-certificate-data", scalar(&data)),
            };
            let key = match key {
                Named::File(name) => ("client-key", scalar(&name)),
                Named::Data(data) => ("client-key-data", scalar(&data)),
            };
            vec![certificate, key]
        }
        5 => vec![("username", scalar("u")), ("password", scalar("p"))],
        _ => vec![(
            "exec",
            map(&[
                ("apiVersion", scalar("client.authentication.k8s.io/v1")),
                ("command", scalar("plugin")),
                ("args", Tree::List(vec![scalar("get"), scalar("token")])),
                ("env", Tree::List(vec![map(&[("name", scalar("A")), ("value", scalar("b"))])])),
                ("interactiveMode", scalar("Never")),
                ("provideClusterInfo", scalar("true")),
                ("installHint", scalar("install it")),
            ]),
        )],
    };
    let impersonation = [
        ("as", scalar("someone")),
        ("as-uid", scalar("u-1")),
        ("as-groups", Tree::List(vec![scalar("g")])),
        ("as-user-extra", map(&[("scopes", Tree::List(vec![scalar("s")]))])),
    ];
    if random.random_bool(0.2) {
        user.extend(impersonation);
    }
    let named = |name: &str, field: &str, tree: Tree| Tree::List(vec![map(&[("name", scalar(name)), (field, tree)])]);
    let namespace = ["default", "web", "''"].choose(random).unwrap_or(&"web");
    map(&[
        ("apiVersion", scalar("v1")),
        ("kind", scalar("Config")),
        ("current-context", scalar("main")),
        ("clusters", named("a", "cluster", map(&cluster))),
        ("users", named("a", "user", map(&user))),
        (
            "contexts",
            named(
                "main",
                "context",
                map(&[("cluster", scalar("a")), ("user", scalar("a")), ("namespace", scalar(namespace))]),
            ),
        ),
    ])
}
