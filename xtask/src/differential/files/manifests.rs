//! Odd manifests of Pods, Secrets and ConfigMaps.

use super::tree::{Tree, map, odd_text, scalar};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

/// What comes near in the fields of an object.
const VALUES: [&str; 28] = [
    "web",
    "aGVsbG8=",
    "\"aGVs\\nbG8=\"",
    "|\n aGVs\n bG8=\n",
    "aGVsbG8",
    "aGVsbG9=",
    "Pod",
    "Secret",
    "ConfigMap",
    "v1",
    "v2",
    "500m",
    "2",
    "0.5",
    "1.5Gi",
    "1e3",
    "12e6",
    "1Ki",
    "100x",
    "' 1 '",
    "http",
    "8080",
    "Always",
    "2026-01-01T00:00:00Z",
    "0644",
    "kubernetes.io/tls",
    "{a: b}",
    "[a, null]",
];

pub(super) fn texts(seed: u64, count: usize) -> Vec<String> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..count)
        .map(|_| {
            let base = match random.random_range(0..4) {
                0 => secret(),
                1 => config_map(),
                _ => pod(),
            };
            odd_text(&mut random, &base, &VALUES)
        })
        .collect()
}

fn object(kind: &str, more: &[(&str, Tree)]) -> Tree {
    let metadata = map(&[
        ("name", scalar("web")),
        ("namespace", scalar("shop")),
        ("labels", map(&[("app", scalar("web")), ("tier", scalar("''"))])),
        ("annotations", map(&[("note", scalar("'1'"))])),
        ("creationTimestamp", scalar("null")),
    ]);
    let head = [("apiVersion", scalar("v1")), ("kind", scalar(kind)), ("metadata", metadata)];
    map(&[&head[..], more].concat())
}

fn secret() -> Tree {
    object(
        "Secret",
        &[
            ("type", scalar("Opaque")),
            ("data", map(&[("a", scalar("aGVsbG8=")), ("b", scalar("''"))])),
            ("stringData", map(&[("b", scalar("text")), ("c", scalar("'1'"))])),
            ("immutable", scalar("true")),
        ],
    )
}

fn config_map() -> Tree {
    object(
        "ConfigMap",
        &[
            ("data", map(&[("a", scalar("text")), ("b", scalar("|\n line\n line\n"))])),
            ("binaryData", map(&[("c", scalar("AAE="))])),
            ("immutable", scalar("false")),
        ],
    )
}

fn pod() -> Tree {
    let container = map(&[
        ("name", scalar("c")),
        ("image", scalar("registry/i:1")),
        ("args", Tree::List(vec![scalar("a"), scalar("'2'")])),
        ("ports", Tree::List(vec![map(&[("containerPort", scalar("8080")), ("name", scalar("http"))])])),
        (
            "env",
            Tree::List(vec![
                map(&[("name", scalar("A")), ("value", scalar("'1'"))]),
                map(&[
                    ("name", scalar("B")),
                    (
                        "valueFrom",
                        map(&[(
                            "secretKeyRef",
                            map(&[("name", scalar("s")), ("key", scalar("k")), ("optional", scalar("true"))]),
                        )]),
                    ),
                ]),
            ]),
        ),
        (
            "resources",
            map(&[
                ("limits", map(&[("cpu", scalar("2")), ("memory", scalar("1Gi"))])),
                ("requests", map(&[("cpu", scalar("500m"))])),
            ]),
        ),
        (
            "livenessProbe",
            map(&[
                ("httpGet", map(&[("path", scalar("/")), ("port", scalar("http"))])),
                ("periodSeconds", scalar("10")),
            ]),
        ),
        ("securityContext", map(&[("runAsUser", scalar("1000")), ("privileged", scalar("false"))])),
        ("volumeMounts", Tree::List(vec![map(&[("name", scalar("v")), ("mountPath", scalar("/v"))])])),
    ]);
    object(
        "Pod",
        &[(
            "spec",
            map(&[
                ("containers", Tree::List(vec![container])),
                ("hostNetwork", scalar("true")),
                ("nodeSelector", map(&[("node-role.kubernetes.io/master", scalar(""))])),
                ("terminationGracePeriodSeconds", scalar("30")),
                (
                    "tolerations",
                    Tree::List(vec![map(&[("operator", scalar("Exists")), ("tolerationSeconds", scalar("60"))])]),
                ),
                (
                    "volumes",
                    Tree::List(vec![
                        map(&[
                            ("name", scalar("v")),
                            ("secret", map(&[("secretName", scalar("s")), ("defaultMode", scalar("0400"))])),
                        ]),
                        map(&[("name", scalar("e")), ("emptyDir", map(&[("sizeLimit", scalar("1Gi"))]))]),
                    ]),
                ),
            ]),
        )],
    )
}
