//! What each subject sees without a file.

use super::*;
use crate::extent::Metadata;
use crate::grants::Grants;
use crate::policy::Policy;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

const NAMESPACES: [&str; 3] = ["", "shop", "other"];
const NAMES: [&str; 4] = ["", "web", "db", "tls"];

/// A container of pod `shop/web` that has these keys of Secrets in its environment.
fn pod(references: &[(&str, &str)]) -> View {
    let env = references
        .iter()
        .map(|(name, key)| json!({"name": "A", "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}));
    let pod = json!({"spec": {"containers": [{"name": "app", "env": env.collect::<Vec<_>>()}]}});
    view(&Subject::Pod(Arc::new(PodSubject {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        grants: Grants::of(&serde_json::from_value(pod).unwrap(), |_| true),
        ..PodSubject::default()
    })))
}

fn view(subject: &Subject) -> View {
    Policy::default().view(subject)
}

fn decided(extent: Extent, rule: Rule) -> Decision {
    let is_of_own_pod = rule == Rule::OwnPod;
    Decision { extent: Some(extent), rule, is_of_own_pod }
}

fn targets() -> impl Iterator<Item = Target<'static>> {
    let kinds = Kind::ALL.into_iter();
    kinds.flat_map(|kind| {
        let namespaces = NAMESPACES.into_iter().filter(move |namespace| kind.is_namespaced() != namespace.is_empty());
        namespaces.flat_map(move |namespace| NAMES.map(|name| Target { kind, namespace, name }))
    })
}

/// Everything that may be seen with each verb, of the targets.
fn seen(view: &View) -> Vec<(Target<'static>, Decision)> {
    let mut seen = Vec::new();
    for verb in Verb::ALL {
        let decided = targets().map(|target| (target, view.decide(verb, &target)));
        let of_verb: Vec<_> = decided.filter(|(_, decision)| decision.is_allowed()).collect();
        assert!(verb == Verb::Get || of_verb == seen, "{verb:?} sees what get sees");
        seen = of_verb;
    }
    seen
}

#[test]
fn who_is_no_administrator_and_no_pod_sees_nothing() {
    let nothing = Decision::refused();
    for subject in [
        Subject::Host { uid: 0, gids: vec![0], is_admin: false },
        Subject::Client { name: "ops".to_owned(), groups: vec!["larder:admins".to_owned()], is_admin: false },
    ] {
        let view = view(&subject);
        assert!(!view.sees_all() && !subject.is_admin());
        assert_eq!(seen(&view), []);
        for verb in Verb::ALL {
            for kind in Kind::ALL {
                for namespace in NAMESPACES.map(Some).into_iter().chain([None]) {
                    assert_eq!(view.may_some(verb, kind, namespace), nothing);
                }
            }
        }
        assert!(Document::ALL.into_iter().all(|document| view.may_document(document) == nothing));
    }
}

#[test]
fn administrators_see_everything() {
    let everything = decided(Extent::Whole, Rule::Admin);
    for subject in [
        Subject::Host { uid: 1000, gids: vec![], is_admin: true },
        Subject::Client { name: String::new(), groups: vec![], is_admin: true },
    ] {
        let view = view(&subject);
        assert!(view.sees_all());
        assert_eq!(seen(&view).len(), targets().count());
        assert!(seen(&view).iter().all(|(_, decision)| *decision == everything));
        assert!(Kind::ALL.into_iter().all(|kind| view.may_some(Verb::List, kind, None) == everything));
        assert!(Document::ALL.into_iter().all(|document| view.may_document(document) == everything));
    }
}

#[test]
fn a_container_sees_its_pod_its_node_and_its_references() {
    let own = |kind, namespace, name, extent, rule| (Target { kind, namespace, name }, decided(extent, rule));
    let without = [own(Kind::Pod, "shop", "web", Extent::Whole, Rule::OwnPod)]
        .into_iter()
        .chain(NAMES.map(|name| own(Kind::Node, "", name, Extent::node(), Rule::OwnNode)));
    let of_db = Extent::Part { metadata: Metadata::Identity, keys: Keys::named(["user", "password"]) };
    let with = [own(Kind::Secret, "shop", "db", of_db, Rule::Reference)].into_iter().chain(without.clone());
    let container = pod(&[("db", "user"), ("db", "password")]);
    assert_eq!(seen(&container), with.collect::<Vec<_>>());
    assert_eq!(seen(&pod(&[])), without.collect::<Vec<_>>());
    for view in [container, pod(&[])] {
        assert!(!view.sees_all());
        assert!(!Document::ALL.into_iter().any(|document| view.may_document(document).is_allowed()));
    }
}

#[test]
fn a_list_may_be_asked_for_where_something_may_be_seen() {
    let view = pod(&[("db", "user"), ("tls", "key")]);
    let most = |kind, namespace| view.may_some(Verb::List, kind, namespace);
    let keys = Extent::of_keys(Keys::named(["user", "key"]));
    for namespace in [Some("shop"), None] {
        assert_eq!(most(Kind::Secret, namespace), decided(keys.clone(), Rule::Reference));
        assert_eq!(most(Kind::Pod, namespace), decided(Extent::Whole, Rule::OwnPod));
        assert!(!most(Kind::ConfigMap, namespace).is_allowed());
        assert!(!most(Kind::Namespace, namespace).is_allowed());
    }
    for kind in [Kind::Secret, Kind::ConfigMap, Kind::Pod] {
        assert!(!most(kind, Some("other")).is_allowed());
    }
}

#[test]
fn a_view_differs_with_what_it_shows() {
    assert_eq!(pod(&[("db", "user")]), pod(&[("db", "user"), ("db", "user")]));
    assert_ne!(pod(&[("db", "user")]), pod(&[("db", "password")]));
    assert_ne!(pod(&[]), view(&Subject::Host { uid: 0, gids: vec![], is_admin: false }));
    let host = |is_admin| view(&Subject::Host { uid: 0, gids: vec![], is_admin });
    assert_ne!(host(true), host(false));
}

proptest! {
    /// The most that may be seen of a kind covers each decision, and where nothing may, no decision allows.
    #[test]
    fn may_some_is_an_upper_bound(
        references in proptest::collection::vec((select(&NAMES[1..]), select(vec!["a", "b", "c"])), 0..5),
    ) {
        let view = pod(&references);
        for (target, decision) in seen(&view) {
            for namespace in [None, Some(target.namespace)] {
                let most = view.may_some(Verb::List, target.kind, namespace);
                prop_assert_eq!(most.rule, decision.rule.clone());
                let most = most.extent.expect("something may be seen");
                prop_assert_eq!(decision.extent.clone().unwrap().and(most.clone()), most);
            }
        }
    }

    #[test]
    fn two_extents_show_what_either_shows(
        one in proptest::option::of(proptest::collection::btree_set("[a-c]", 0..3)),
        other in proptest::option::of(proptest::collection::btree_set("[a-c]", 0..3)),
    ) {
        let keys = |of: Option<std::collections::BTreeSet<String>>| of.map_or(Keys::All, Keys::named);
        let (one, other) = (keys(one), keys(other));
        let both = one.clone().and(other.clone());
        for key in ["a", "b", "c", "d"] {
            prop_assert_eq!(both.has(key), one.has(key) || other.has(key));
        }
        prop_assert_eq!(Extent::Whole.and(Extent::of_keys(one.clone())), Extent::Whole);
        prop_assert_eq!(Extent::of_keys(one).and(Extent::of_keys(other)), Extent::of_keys(both));
        prop_assert_eq!(Extent::node().and(Extent::identity()), Extent::identity());
    }
}
