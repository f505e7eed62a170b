//! The lines of containers.

use super::*;
use serde_json::json;

fn answers() -> PodStatusAnswers {
    let runtime = json!({"state": "ok", "lastRelist": "2026-01-02T00:10:00Z", "ageSeconds": 0.5});
    serde_json::from_value(json!({
        "runtime": runtime,
        "items": [
            {
                "uid": "1f4c4c5e-0000-4000-8000-000000000001", "namespace": "shop", "name": "web", "runtime": runtime,
                "freshness": {"state": "fresh", "ageSeconds": 0.5},
                "status": {
                    "uid": "1f4c4c5e-0000-4000-8000-000000000001", "namespace": "shop", "name": "web",
                    "containers": [
                        {
                            "id": "containerd://4f5e6d7c8b9a0f1e2d3c", "name": "app", "image": "shop/web:1", "state": "running",
                            "createdAt": "2026-01-02T00:08:00Z", "startedAt": "2026-01-02T00:08:01Z", "restartCount": 1,
                        },
                        {
                            "id": "containerd://a1b2c3d4e5f6a7b8c9d0", "name": "app", "image": "shop/web:1", "state": "exited",
                            "createdAt": "2026-01-02T00:00:00Z", "startedAt": "2026-01-02T00:00:01Z",
                            "finishedAt": "2026-01-02T00:07:00Z", "exitCode": 3, "reason": "Error",
                        },
                    ],
                },
            },
            {
                "uid": "u2", "namespace": "shop", "name": "young", "runtime": runtime,
                "freshness": {"state": "fresh", "ageSeconds": 0.5}, "error": "cannot be inspected",
            },
        ],
    }))
    .unwrap()
}

fn now() -> Timestamp {
    "2026-01-02T00:10:00Z".parse().unwrap()
}

#[test]
fn a_table_has_each_life_of_a_container_the_newest_first() {
    insta::assert_snapshot!("table", table(&answers(), false, false, now()));
}

#[test]
fn a_wide_table_says_why_when_and_how_fresh() {
    insta::assert_snapshot!("wide", table(&answers(), true, true, now()));
}

#[test]
fn names_are_whole_identifiers() {
    assert_eq!(names(&answers()), "4f5e6d7c8b9a0f1e2d3c\na1b2c3d4e5f6a7b8c9d0\n");
}
