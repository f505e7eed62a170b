//! Whose credentials these are, and whether the node is there.

use crate::fake::{Answer, Fake, ok, status};
use larder_kube::{KubeOptions, NodeCheck};
use serde_json::json;

fn review(user: &str) -> Answer {
    ok(&json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
        "status": {"userInfo": {"username": user, "groups": ["system:nodes"]}}}))
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_there_is_found() {
    let fake = Fake::new([ok(&json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}))]);
    let check = fake.client(KubeOptions::default()).check_node("n1").await.unwrap();
    assert!(matches!(check, NodeCheck::Found(node) if node.name() == "n1"));
    assert_eq!(fake.paths(), ["/api/v1/nodes/n1"]);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_node_name_is_reported_with_the_user() {
    let denied = || status(403, "Forbidden", "node 'n1' cannot read 'n2', only its own Node object");
    let missing = || status(404, "NotFound", "nodes \"n2\" not found");
    let table = [
        (denied(), review("system:node:n1"), "cannot read 'n2'", "the credentials are those of node \"n1\""),
        (missing(), review("system:node:n2"), "not found", "the node may not have registered yet"),
        (missing(), review("admin"), "not found", "user \"admin\" must be allowed to get it"),
        (missing(), status(403, "Forbidden", ""), "not found", "as in `kubectl get nodes`"),
    ];
    for (answer, review, problem, advice) in table {
        let error = Fake::new([answer, review]).client(KubeOptions::default()).check_node("n2").await.unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("node n2: the API server answered 40"), "{text}");
        assert!(text.contains(problem) && text.contains(advice) && text.contains("--node-name"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_are_an_error() {
    let error = Fake::new([status(401, "Unauthorized", "")]).client(KubeOptions::default()).check_node("n1").await;
    assert!(error.unwrap_err().is_unauthorized());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_says_nothing_about_the_name() {
    for answer in [Answer::Hang, Answer::Break, status(503, "", ""), status(429, "", ""), ok(&json!({"kind": "No"}))] {
        let check = Fake::new([answer]).client(KubeOptions::default()).check_node("n1").await.unwrap();
        assert!(matches!(check, NodeCheck::Unknown(_)));
    }
}
