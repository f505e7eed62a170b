//! What a policy file can say and what is refused, and that its rules decide as a simple model does.

use super::*;
use crate::extent::{Extent, Keys, Metadata};
use crate::grants::Grants;
use crate::subject::{PodSubject, Subject};
use crate::view::{Rule, Target};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use std::fmt::Write as _;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

#[test]
fn the_schema_of_the_docs_is_that_of_the_parser() {
    let path = format!("{DOCS}/policy.schema.json");
    let docs: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let schema = Policy::schema();
    assert!(docs == schema, "{path} must be:\n{}", serde_json::to_string_pretty(&schema).unwrap());
}

#[test]
fn the_example_of_the_docs_is_a_policy() {
    let text = std::fs::read_to_string(format!("{DOCS}/examples/policy.yaml")).unwrap();
    let policy = Policy::parse(&text).unwrap();
    let agent = PodSubject {
        namespace: "monitoring".to_owned(),
        service_account: "node-agent".to_owned(),
        ..PodSubject::default()
    };
    let agent = policy.view(&Subject::Pod(agent.into()));
    let decide = |view: &crate::View, kind, namespace, name| view.decide(Verb::List, &Target { kind, namespace, name });
    assert_eq!(decide(&agent, Kind::Pod, "shop", "web").extent, Some(Extent::Whole));
    assert_eq!(decide(&agent, Kind::Secret, "shop", "db").extent, Some(Extent::identity()));
    assert!(agent.may_document(Document::Metrics).is_allowed());
    let root = policy.view(&Subject::Host { uid: 0, gids: vec![0], is_admin: true });
    let refused = decide(&root, Kind::Secret, "vault", "root-key");
    assert_eq!((refused.extent, refused.rule), (None, Rule::File("vault-secrets".into())));
    assert!(decide(&root, Kind::Secret, "shop", "db").is_allowed());
}

#[test]
fn a_mistake_has_its_place_and_quotes_nothing() {
    let mut wrong = Vec::new();
    let rule = "version: 1\nrules:\n- name: a\n  effect: allow\n";
    for (text, expected) in [
        ("", "1:1: it must be a map of version, rules"),
        ("rules: []\n", "1:1: the field version is missing"),
        ("version: 2\nrules: []\n", "1:10: version: it must be 1"),
        ("version: 1\nrules: {}\n", "2:8: rules: it must be a list"),
        ("version: 1\nrules: []\nversion: 1\n", "3:1: version: this key stands twice: remove one of them"),
        ("version: 1\nrules: []\npassword: hunter2\n", "3:11: a field here is unknown: the fields are version, rules"),
        ("version: 1\nrules: []\n---\n{}\n", "3:1: a second document"),
        ("version: 1\nrules: [\n", "2:8: not valid YAML"),
        (
            "version: 1\nrules: [hunter2]\n",
            "2:9: rules[0]: it must be a map of name, effect, subjects, objects, documents",
        ),
        (
            "version: 1\nrules:\n- name: a b\n",
            "3:9: rules[0].name: it must have from 1 to 63 letters, digits, '.', '_' and '-'",
        ),
        ("version: 1\nrules:\n- name: 7\n", "3:9: rules[0].name: it must be a text: put it in quotes"),
        (
            "version: 1\nrules:\n- name: a\n  effect: hunter2\n",
            "4:11: rules[0].effect: it must be one of allow, allowMetadata, deny, denyData",
        ),
        (rule, "3:3: rules[0]: the field subjects is missing"),
        ("{rule}  subjects: []\n", "5:13: rules[0].subjects: it must not be empty: leave it out, or name something"),
        (
            "{rule}  subjects: [{podLabels: {a: b}}]\n",
            "5:14: rules[0].subjects[0]: it names nobody: write one of serviceAccount, namespace, user, group, client and clientGroup",
        ),
        (
            "{rule}  subjects: [{user: 1, namespace: shop}]\n",
            "5:21: rules[0].subjects[0].user: it does not go with namespace: write two subjects",
        ),
        (
            "{rule}  subjects: [{user: 1, podLabels: {a: b}}]\n",
            "5:35: rules[0].subjects[0].podLabels: it goes with namespace alone",
        ),
        ("{rule}  subjects: [{user: ann}]\n", "5:21: rules[0].subjects[0].user: it must be the ID, a whole number"),
        (
            "{rule}  subjects: [{group: 4294967295}]\n",
            "5:22: rules[0].subjects[0].group: it must be the ID, a whole number",
        ),
        (
            "{rule}  subjects: [{serviceAccount: agent}]\n",
            "5:31: rules[0].subjects[0].serviceAccount: it must be NAMESPACE/NAME",
        ),
        ("{rule}  subjects: [{user: 1}]\n", "3:3: rules[0]: it has neither objects nor documents"),
        (
            "{rule}  subjects: [{user: 1}]\n  objects: [{kinds: [deployments]}]\n",
            "6:22: rules[0].objects[0].kinds[0]: it must be one of configmaps, namespaces, nodes, pods, secrets",
        ),
        (
            "{rule}  subjects: [{user: 1}]\n  objects: [{kinds: [pods, nodes], namespaces: [shop]}]\n",
            "6:48: rules[0].objects[0].namespaces: nodes are in no namespace: write another entry for them",
        ),
        (
            "{rule}  subjects: [{user: 1}]\n  objects: [{kinds: [pods], verbs: [delete]}]\n",
            "6:37: rules[0].objects[0].verbs[0]: it must be one of get, list, watch",
        ),
        (
            "{rule}  subjects: [{user: 1}]\n  documents: [podStatuses]\n",
            "6:15: rules[0].documents[0]: it must be one of status, metrics, whois",
        ),
        (
            "version: 1\nrules:\n- {name: a, effect: denyData, subjects: [{user: 1}], documents: [status]}\n",
            "3:65: rules[0].documents: only the effects allow and deny have documents",
        ),
        (
            "version: 1\nrules:\n- &a {name: a, effect: deny, subjects: [{user: 1}], documents: [status]}\n- *a\n",
            "4:3: rules[1].name: another rule has the name \"a\"",
        ),
    ] {
        let mistake = Policy::parse(&text.replace("{rule}", rule)).unwrap_err();
        let place = mistake.place().unwrap();
        let words = |text: &str| {
            // The order of the kinds is theirs.
            let (before, after) = text.split_once("one of ").unwrap_or((text, ""));
            let mut after: Vec<_> = after.split(", ").map(str::to_owned).collect();
            after.sort();
            (before.to_owned(), after)
        };
        let told = format!("{}:{}: {mistake}", place.line, place.column);
        if words(&told) != words(expected) {
            wrong.push(format!("{told}\n  not {expected}"));
        }
        assert!(!told.contains("hunter2"), "{told}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_file_of_no_rules_changes_nothing() {
    assert_eq!(Policy::parse("version: 1\nrules: []\n").unwrap(), Policy::default());
}

const NAMESPACES: [&str; 2] = ["shop", "bank"];
const NAMES: [&str; 3] = ["web", "db", "tls"];

/// A rule as the model has it: the YAML is made of it.
#[derive(Clone, Debug)]
struct ModelRule {
    effect: &'static str,
    /// Of `SUBJECTS`.
    subjects: Vec<usize>,
    kinds: Vec<&'static str>,
    namespaces: Vec<&'static str>,
    names: Vec<&'static str>,
    verbs: Vec<&'static str>,
}

/// How a file names subjects, and which of the callers of [`callers`] are meant.
const SUBJECTS: [(&str, [bool; 5]); 8] = [
    ("{user: 0}", [true, false, false, false, false]),
    ("{user: 7}", [false, true, false, false, false]),
    ("{group: 70}", [true, true, false, false, false]),
    ("{serviceAccount: shop/seller}", [false, false, true, false, false]),
    ("{namespace: shop}", [false, false, true, false, false]),
    ("{namespace: shop, podLabels: {app: web}}", [false, false, true, false, false]),
    ("{namespace: shop, podLabels: {app: web, tier: x}}", [false, false, false, false, false]),
    ("{clientGroup: ops}", [false, false, false, true, true]),
];

fn callers() -> [Subject; 5] {
    let pod = r#"{"spec": {"containers": [{"name": "app", "env": [
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}
    ]}]}}"#;
    let pod = PodSubject {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        service_account: "seller".to_owned(),
        labels: [("app", "web"), ("tier", "front")].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        grants: Grants::of(&serde_json::from_str(pod).unwrap(), |_| true),
        ..PodSubject::default()
    };
    let client =
        |name: &str, is_admin| Subject::Client { name: name.to_owned(), groups: vec!["ops".to_owned()], is_admin };
    [
        Subject::Host { uid: 0, gids: vec![0, 70], is_admin: true },
        Subject::Host { uid: 7, gids: vec![70], is_admin: false },
        Subject::Pod(pod.into()),
        client("ann", false),
        client("bob", true),
    ]
}

/// How much an extent shows: nothing, a node's identity, an identity, some keys, everything.
fn level(extent: Option<&Extent>) -> u8 {
    match extent {
        None => 0,
        Some(Extent::Part { metadata: Metadata::Node, keys }) if *keys == Keys::none() => 1,
        Some(Extent::Part { metadata: Metadata::Identity, keys }) if *keys == Keys::none() => 2,
        Some(Extent::Part { .. }) => 3,
        Some(Extent::Whole) => 4,
    }
}

/// The model: what a caller sees without a file, with each rule that names it and the object.
fn model(rules: &[ModelRule], caller: usize, verb: Verb, target: &Target<'_>) -> u8 {
    let of_pod = match (target.kind, target.namespace, target.name) {
        (Kind::Pod, "shop", "web") => 4,
        (Kind::Secret, "shop", "db") => 3,
        (Kind::Node, ..) => 1,
        _ => 0,
    };
    let mut seen = [4, 0, of_pod, 0, 4][caller];
    let named: Vec<&str> = rules
        .iter()
        .filter(|rule| {
            rule.subjects.iter().any(|at| SUBJECTS[*at].1[caller])
                && rule.kinds.contains(&target.kind.resource())
                && (rule.namespaces.is_empty() || rule.namespaces.contains(&target.namespace))
                && (rule.names.is_empty() || rule.names.contains(&target.name))
                && (rule.verbs.is_empty() || rule.verbs.contains(&verb.as_str()))
        })
        .map(|rule| rule.effect)
        .collect();
    if named.contains(&"allowMetadata") {
        seen = seen.max(2);
    }
    if named.contains(&"allow") {
        seen = 4;
    }
    if named.contains(&"denyData") {
        seen = seen.min(2);
    }
    if named.contains(&"deny") { 0 } else { seen }
}

fn yaml(rules: &[ModelRule]) -> String {
    let list = |words: &[&str]| format!("[{}]", words.join(", "));
    let mut text = "version: 1\nrules:".to_owned();
    text += if rules.is_empty() { " []\n" } else { "\n" };
    for (at, rule) in rules.iter().enumerate() {
        let subjects: Vec<_> = rule.subjects.iter().map(|at| SUBJECTS[*at].0).collect();
        let _ = write!(text, "- name: r{at}\n  effect: {}\n  subjects: {}\n", rule.effect, list(&subjects));
        let _ = write!(text, "  objects:\n  - kinds: {}\n", list(&rule.kinds));
        for (field, words) in [("namespaces", &rule.namespaces), ("names", &rule.names), ("verbs", &rule.verbs)] {
            if !words.is_empty() {
                let _ = writeln!(text, "    {field}: {}", list(words));
            }
        }
    }
    text
}

fn parsed(rules: &[ModelRule]) -> Policy {
    Policy::parse(&yaml(rules)).unwrap_or_else(|mistake| panic!("{mistake}: {}", yaml(rules)))
}

prop_compose! {
    fn a_rule()(
        effect in select(Effect::ALL.map(Effect::as_str).to_vec()),
        subjects in subsequence((0..SUBJECTS.len()).collect::<Vec<_>>(), 1..4),
        kinds in prop_oneof![
            subsequence(vec!["pods", "secrets", "configmaps"], 1..=3).prop_flat_map(|kinds| {
                (Just(kinds), subsequence(NAMESPACES.to_vec(), 0..=2))
            }),
            subsequence(vec!["nodes", "namespaces", "pods"], 1..=3).prop_map(|kinds| (kinds, vec![])),
        ],
        names in subsequence(NAMES.to_vec(), 0..=2),
        verbs in subsequence(vec!["get", "list", "watch"], 0..=3),
    ) -> ModelRule {
        ModelRule { effect, subjects, kinds: kinds.0, namespaces: kinds.1, names, verbs }
    }
}

fn targets() -> Vec<Target<'static>> {
    let kinds = Kind::ALL.into_iter();
    kinds
        .flat_map(|kind| {
            let namespaces = if kind.is_namespaced() { NAMESPACES.to_vec() } else { vec![""] };
            namespaces.into_iter().flat_map(move |namespace| NAMES.map(|name| Target { kind, namespace, name }))
        })
        .collect()
}

/// Each decision of a policy, as a level.
fn levels(policy: &Policy) -> Vec<u8> {
    let views: Vec<_> = callers().iter().map(|caller| policy.view(caller)).collect();
    let mut levels = Vec::new();
    for view in &views {
        for verb in Verb::ALL {
            levels.extend(targets().iter().map(|target| level(view.decide(verb, target).extent.as_ref())));
        }
    }
    levels
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rules_decide_as_the_model_and_lists_as_their_objects(rules in prop::collection::vec(a_rule(), 0..6)) {
        let policy = parsed(&rules);
        for (at, caller) in callers().iter().enumerate() {
            let view = policy.view(caller);
            for verb in Verb::ALL {
                for target in targets() {
                    let decision = view.decide(verb, &target);
                    let seen = level(decision.extent.as_ref());
                    prop_assert_eq!(seen, model(&rules, at, verb, &target), "{:?} {:?} {:?}", caller, verb, target);
                    prop_assert!(!view.sees_all() || seen == 4);
                    prop_assert!(!view.sees_nothing() || seen == 0);
                    if let Rule::File(name) = &decision.rule {
                        let rule = &rules[name[1..].parse::<usize>().unwrap()];
                        let expected = match rule.effect { "deny" => 0, "allow" => 4, _ => 2 };
                        prop_assert_eq!(seen, expected, "the rule that is told has decided");
                    }
                    let other = view.decide_of_other_pod(verb, &target);
                    prop_assert!(level(other.extent.as_ref()) <= seen);
                    prop_assert!(!other.is_of_own_pod && (decision.is_of_own_pod || other == decision));
                    for namespace in [None, Some(target.namespace)] {
                        let most = view.may_some(verb, target.kind, namespace);
                        prop_assert!(level(most.extent.as_ref()) >= seen, "{:?} of {:?}", most, target);
                    }
                }
            }
        }
    }

    #[test]
    fn the_order_of_rules_decides_nothing(
        (rules, shuffled) in prop::collection::vec(a_rule(), 0..6)
            .prop_flat_map(|rules| (Just(rules.clone()), Just(rules).prop_shuffle())),
    ) {
        prop_assert_eq!(levels(&parsed(&rules)), levels(&parsed(&shuffled)));
    }

    #[test]
    fn a_denial_never_shows_more_and_a_grant_never_less(rules in prop::collection::vec(a_rule(), 0..4), more in a_rule()) {
        let before = levels(&parsed(&rules));
        let mut rules = rules;
        let denies = more.effect.starts_with("deny");
        rules.push(more);
        for (before, after) in before.into_iter().zip(levels(&parsed(&rules))) {
            let is_right = if denies { after <= before } else { after >= before };
            prop_assert!(is_right, "{before} {after}");
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,80}", at in 0..200_usize) {
        let _ = Policy::parse(&text);
        let mut file = "version: 1\nrules:\n- name: a\n  effect: deny\n  subjects: [{user: 1}]\n  objects: [{kinds: [pods]}]\n".to_owned();
        if file.is_char_boundary(at.min(file.len())) {
            file.insert_str(at.min(file.len()), &text);
        }
        let _ = Policy::parse(&file);
    }
}
