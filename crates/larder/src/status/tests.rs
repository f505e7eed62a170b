//! The status as it is printed.

use super::*;
use serde_json::json;

fn report(degraded: &[&str]) -> Report {
    let state = if degraded.is_empty() { "ok" } else { "failing" };
    serde_json::from_value(json!({
        "version": "0.1.0", "node": "edge-1", "startedAt": "2026-01-02T00:00:00Z", "degraded": degraded,
        "sources": [
            {"name": "pods", "from": "https://10.0.0.1:6443/", "state": state, "ageSeconds": 310.2, "lastError": "no route"},
            {"name": "node", "from": "https://10.0.0.1:6443/", "state": "starting"},
            {"name": "secrets", "from": "https://10.0.0.1:6443/", "state": "idle"},
            {"name": "runtime", "from": "none", "state": "off"},
        ],
        "counts": {
            "pods": 3, "podsRegistered": 2,
            "secrets": {"referenced": 5, "fresh": 1, "due": 1, "stale": 1, "absent": 1, "unknown": 1},
            "configMaps": {"referenced": 1, "fresh": 1},
            "containers": {"running": 2, "exited": 1},
            "openWaits": 4,
        },
        "keeping": [
            {"kind": "secrets", "strategy": "watch", "watches": 1, "watched": 1},
            {"kind": "configmaps", "strategy": "auto", "polled": 1},
        ],
        "apiServer": {"connections": 1, "watches": 3},
        "objects": [
            {"kind": "secrets", "namespace": "shop", "name": "db", "references": 2, "kept": "watched", "state": "fresh", "ageSeconds": 4.2},
            {"kind": "configmaps", "namespace": "shop", "name": "flags", "references": 1, "kept": "polled", "state": "unknown"},
        ],
    }))
    .unwrap()
}

fn now() -> Timestamp {
    "2026-01-02T05:00:00Z".parse().unwrap()
}

#[test]
fn all_well() {
    insta::assert_snapshot!("healthy", text(&report(&[]), false, now()));
}

#[test]
fn what_is_degraded_comes_first() {
    insta::assert_snapshot!("degraded", text(&report(&["pods: no route"]), true, now()));
}
