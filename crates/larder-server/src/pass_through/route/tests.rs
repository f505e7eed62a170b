//! Where each kind of request is answered.

use super::*;
use larder_policy::{Grants, PodSubject, Policy};
use std::sync::Arc;

const NODE: &str = "node-1";

/// The view of the pod `shop/web`, which mounts the Secret `db` and the `ConfigMap` `flags`, with these rules of a policy file.
fn view(rules: &str) -> View {
    let pod = serde_json::from_str(
        r#"{"spec": {
            "containers": [{"name": "app", "volumeMounts": [{"name": "v", "mountPath": "/v"}], "envFrom": [{"configMapRef": {"name": "flags"}}]}],
            "volumes": [{"name": "v", "secret": {"secretName": "db"}}]
        }}"#,
    );
    let subject = PodSubject {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        uid: "uid-web".to_owned(),
        labels: std::collections::BTreeMap::new(),
        service_account: "agent".to_owned(),
        grants: Grants::of(&pod.unwrap(), |_| true),
    };
    let policy = match rules {
        "" => Policy::default(),
        rules => Policy::parse(&format!("version: 1\nrules:\n{rules}\n")).unwrap(),
    };
    policy.view(&larder_policy::Subject::Pod(Arc::new(subject)))
}

/// A rule about the pod.
fn rule(effect: &str, objects: &str) -> String {
    format!("- {{name: {effect}, effect: {effect}, subjects: [{{serviceAccount: shop/agent}}], objects: [{objects}]}}")
}

fn route(method: &Method, uri: &str, view: &View) -> Route {
    Route::of(method, &uri.parse().unwrap(), view, NODE)
}

fn of(kind: Kind, namespace: &str, name: &str) -> Subject {
    Subject { kind, namespace: namespace.to_owned(), name: name.to_owned() }
}

#[test]
fn a_pod_without_a_policy_file_has_its_own_pod_here_and_its_parts_after_the_api_server() {
    let view = view("");
    let check = |uri: &str, expected: Route| assert_eq!(route(&Method::GET, uri, &view), expected, "{uri}");
    let first =
        |verb, kind, namespace: &str, name: &str| Route::ServerFirst(First::Part(verb, of(kind, namespace, name)));
    for uri in
        ["/larder/v1/status", "/livez", "/readyz?verbose", "/metrics", "/larder", "/node/api/v1/secrets", "/pods"]
    {
        check(uri, Route::Own);
    }
    for uri in
        ["/version", "/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/openapi/v3", "/openapi/v3/api/v1"]
    {
        check(uri, Route::ServerFirst(First::Document));
    }
    for uri in [
        "/healthz",
        "/livez/ping",
        "/openapi/v2",
        "/apis/apps/v1/deployments",
        "/api/v1/events",
        "/metrics/cadvisor",
        "/",
        "/larders",
        "/nodes",
        "/pods/web",
    ] {
        check(uri, Route::Server(Why::Kind));
    }
    let own_pod = "/api/v1/namespaces/shop/pods/web";
    for uri in [own_pod, "/api/v1/namespaces/shop/pods/web/status"] {
        check(uri, Route::Here(Held::AsAnswered));
    }
    for uri in [
        "/api/v1/namespaces/shop/pods?fieldSelector=metadata.name=web",
        "/api/v1/pods?fieldSelector=metadata.namespace%3Dshop%2Cmetadata.name%3Dweb",
        "/api/v1/namespaces/shop/pods?watch=1&fieldSelector=metadata.name%3Dweb",
    ] {
        check(uri, Route::Here(Held::Object(of(Kind::Pod, "shop", "web"))));
    }
    for uri in [
        "/api/v1/namespaces/shop/pods/web/log",
        "/api/v1/namespaces/shop/pods/web/exec?command=ls",
        "/api/v1/namespaces/shop/pods/w%65b",
        "/api/v1/namespaces//pods/web",
        "/api/v1/watch/namespaces/shop/pods/web",
        "/api/v1/namespaces/shop/services/web/proxy/",
    ] {
        check(uri, Route::Server(Why::Kind));
    }
    check("/api/v1/namespaces/shop/secrets/db", first(Verb::Get, Kind::Secret, "shop", "db"));
    check("/api/v1/namespaces/shop/configmaps/flags", first(Verb::Get, Kind::ConfigMap, "shop", "flags"));
    check("/api/v1/nodes/node-1", first(Verb::Get, Kind::Node, "", "node-1"));
    check(
        "/api/v1/namespaces/shop/secrets?watch=true&fieldSelector=metadata.name%3Ddb",
        first(Verb::Watch, Kind::Secret, "shop", "db"),
    );
    check("/api/v1/nodes?fieldSelector=metadata.name%3Dnode-1", first(Verb::List, Kind::Node, "", "node-1"));
    check("/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1", first(Verb::List, Kind::Pod, "", ""));
    for uri in [
        "/api/v1/namespaces/shop/secrets/other",
        "/api/v1/namespaces/far/pods/web",
        "/api/v1/namespaces/shop",
        "/api/v1/namespaces/shop/pods?fieldSelector=metadata.name%3Dother",
    ] {
        check(uri, Route::Server(Why::Policy));
    }
    for uri in [
        "/api/v1/pods",
        "/api/v1/namespaces/shop/pods",
        "/api/v1/pods?fieldSelector=metadata.name%3Dweb",
        "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-2",
        "/api/v1/pods?fieldSelector=spec.nodeName!%3Dnode-1",
        "/api/v1/pods?fieldSelector=no.such%3Dfield",
        "/api/v1/pods?labelSelector=app%3Dweb",
        "/api/v1/namespaces/shop/secrets",
        "/api/v1/nodes",
        "/api/v1/namespaces",
    ] {
        check(uri, Route::Server(Why::List));
    }
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS] {
        for uri in [
            own_pod,
            "/api/v1/namespaces/shop/pods",
            "/version",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        ] {
            assert_eq!(route(&method, uri, &view), Route::Server(Why::Write), "{method} {uri}");
        }
        assert_eq!(route(&method, "/larder/v1/status", &view), Route::Own);
    }
    assert_eq!(route(&Method::HEAD, own_pod, &view), Route::Here(Held::AsAnswered));
}

#[test]
fn what_a_rule_shows_whole_is_here_as_long_as_it_stays_on_this_node() {
    let all = view(&rule("allow", "{kinds: [pods, secrets, namespaces, nodes]}"));
    let check = |view: &View, uri: &str, expected: Route| assert_eq!(route(&Method::GET, uri, view), expected, "{uri}");
    let held = |kind, namespace: &str, name: &str| Route::Here(Held::Object(of(kind, namespace, name)));
    let of_node = "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1";
    for uri in [
        of_node,
        "/api/v1/pods?watch=true&fieldSelector=spec.nodeName%3Dnode-1",
        "/api/v1/namespaces/far/pods?watch=true&fieldSelector=spec.nodeName%3Dnode-1%2Cmetadata.name%3Dx",
        "/api/v1/namespaces/far/secrets/x",
        "/api/v1/nodes/node-1",
    ] {
        check(&all, uri, Route::Here(Held::AsAnswered));
    }
    let named = "fieldSelector=metadata.name%3Dx";
    check(&all, &format!("/api/v1/namespaces/far/pods?{named}"), held(Kind::Pod, "far", "x"));
    check(&all, &format!("/api/v1/namespaces/far/secrets?{named}"), held(Kind::Secret, "far", "x"));
    check(&all, &format!("/api/v1/namespaces?{named}"), held(Kind::Namespace, "", "x"));
    // A pod may come to another node, and nobody here may refer to a Secret any more.
    for path in ["/api/v1/namespaces/far/pods", "/api/v1/namespaces/far/secrets", "/api/v1/namespaces"] {
        check(&all, &format!("{path}?watch=true&{named}"), Route::Server(Why::List));
    }
    check(&all, "/api/v1/namespaces?watch=true&fieldSelector=metadata.name%3Dshop", held(Kind::Namespace, "", "shop"));
    check(
        &all,
        "/api/v1/namespaces/shop/secrets?watch=true&fieldSelector=metadata.name%3Ddb",
        held(Kind::Secret, "shop", "db"),
    );
    for uri in ["/api/v1/secrets", "/api/v1/pods", "/api/v1/nodes", "/api/v1/namespaces"] {
        check(&all, uri, Route::Server(Why::List));
    }
    // A rule that hides one of them leaves a list without it.
    let allow = rule("allow", "{kinds: [pods]}");
    for (effect, names) in [("deny", "names: [x]"), ("denyData", "namespaces: [far]")] {
        let some = view(&format!("{allow}\n{}", rule(effect, &format!("{{kinds: [pods], {names}}}"))));
        check(&some, of_node, Route::ServerFirst(First::Part(Verb::List, of(Kind::Pod, "", ""))));
    }
    let one_namespace = view(&rule("allow", "{kinds: [pods], namespaces: [far]}"));
    check(&one_namespace, of_node, Route::ServerFirst(First::Part(Verb::List, of(Kind::Pod, "", ""))));
    check(
        &one_namespace,
        "/api/v1/namespaces/far/pods?fieldSelector=spec.nodeName%3Dnode-1",
        Route::Here(Held::AsAnswered),
    );
}

#[test]
fn a_put_replaces_the_object_that_it_names() {
    let check = |method: &Method, path: &str, expected: Option<Subject>| {
        assert_eq!(replaced(method, path), expected, "{method} {path}");
    };
    let db = "/api/v1/namespaces/shop/secrets/db";
    check(&Method::PUT, db, Some(of(Kind::Secret, "shop", "db")));
    check(&Method::PUT, "/api/v1/nodes/node-1", Some(of(Kind::Node, "", "node-1")));
    check(&Method::PATCH, db, None);
    check(&Method::PUT, "/apis/apps/v1/namespaces/shop/deployments/db", None);
}

#[test]
fn watches_logs_and_what_goes_on_to_a_pod_last() {
    for (uri, expected) in [
        ("/api/v1/pods?watch=true", true),
        ("/api/v1/pods?watch", true),
        ("/api/v1/pods?watch=0", false),
        ("/api/v1/namespaces/a/pods/b/log?follow=true", true),
        ("/api/v1/namespaces/a/pods/b/log", false),
        ("/api/v1/namespaces/a/services/b/proxy/path", true),
        ("/api/v1/watch/pods", true),
        ("/api/v1/pods", false),
    ] {
        assert_eq!(lasts(&uri.parse().unwrap()), expected, "{uri}");
    }
}
