//! Changes of the policy while watches are open, by a generator. A model of the rules says what each watch may still show.

use crate::access::{Container, NOBODY, Place, Watch, answer};
use crate::harness::{run, until};
use crate::policy::PolicyFile;
use k8s_openapi::ByteString;
use larder_testkit::objects::{pod, secret};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// How often the policy changes. The daemon looks at the file every two seconds.
const CHANGES: usize = 15;
/// The most rules that a policy has by chance. Rules of nobody make the number of the rules another one with each change.
const MOST_RULES: usize = 5;

/// Who watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// A container of `shop/web`, which has the key `password` of `db` in its environment.
    Web,
    /// A container of `shop/other`, which has the key `key` of `tls` in its environment.
    Other,
    /// `nobody` of the host.
    Host,
}

const SUBJECTS: [(&str, &[Who]); 5] = [
    ("{namespace: shop}", &[Who::Web, Who::Other]),
    ("{namespace: shop, podLabels: {app: web}}", &[Who::Web]),
    ("{namespace: shop, podLabels: {app: other}}", &[Who::Other]),
    ("{user: 65534}", &[Who::Host]),
    ("{namespace: other}", &[]),
];
const EFFECTS: [&str; 4] = ["allow", "allowMetadata", "denyData", "deny"];
/// The objects of each kind that is watched.
const OBJECTS: [(&str, [&str; 2]); 2] = [("secrets", ["db", "tls"]), ("pods", ["web", "other"])];

/// How much of an object a caller sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    Nothing,
    Metadata,
    /// The key that the container has in its environment.
    Named,
    Whole,
}

#[derive(Clone, Debug)]
struct Rule {
    effect: &'static str,
    subjects: Vec<usize>,
    kinds: Vec<&'static str>,
    names: Vec<&'static str>,
    verbs: Vec<&'static str>,
}

impl Rule {
    fn random(random: &mut StdRng) -> Self {
        let some = |from: &[&'static str], random: &mut StdRng| {
            from.iter().copied().filter(|_| random.random_bool(0.5)).collect::<Vec<_>>()
        };
        let mut kinds = some(&["secrets", "pods"], random);
        if kinds.is_empty() {
            kinds.push("secrets");
        }
        let subjects: BTreeSet<_> =
            (0..random.random_range(1..3)).map(|_| random.random_range(0..SUBJECTS.len())).collect();
        Self {
            effect: EFFECTS.choose(random).unwrap(),
            subjects: subjects.into_iter().collect(),
            kinds,
            // Without names or verbs, all are meant.
            names: some(&["db", "tls", "web", "other"], random),
            verbs: if random.random_bool(0.8) { Vec::new() } else { some(&["get", "list", "watch"], random) },
        }
    }

    fn holds_for(&self, who: Who, verb: &str, kind: &str, name: &str) -> bool {
        let is_one = |list: &[&str], one: &str| list.is_empty() || list.contains(&one);
        self.subjects.iter().any(|subject| SUBJECTS[*subject].1.contains(&who))
            && self.kinds.contains(&kind)
            && is_one(&self.names, name)
            && is_one(&self.verbs, verb)
    }
}

/// The text of rules, of which there are so many with those of nobody.
fn text(rules: &[Rule], count: usize) -> String {
    let mut text = String::new();
    for (number, Rule { effect, subjects, kinds, names, verbs }) in rules.iter().enumerate() {
        let subjects = subjects.iter().map(|subject| SUBJECTS[*subject].0).collect::<Vec<_>>().join(", ");
        let mut object = format!("kinds: [{}]", kinds.join(", "));
        for (field, values) in [("names", names), ("verbs", verbs)] {
            if !values.is_empty() {
                write!(object, ", {field}: [{}]", values.join(", ")).unwrap();
            }
        }
        let rule = format!("{{name: r{number}, effect: {effect}, subjects: [{subjects}], objects: [{{{object}}}]}}");
        writeln!(text, "- {rule}").unwrap();
    }
    for number in rules.len()..count {
        let rule =
            format!("{{name: r{number}, effect: allow, subjects: [{{user: 4242}}], objects: [{{kinds: [nodes]}}]}}");
        writeln!(text, "- {rule}").unwrap();
    }
    text
}

/// What these rules show.
fn shown(rules: &[Rule], who: Who, verb: &str, kind: &str, name: &str) -> Shown {
    let effects: BTreeSet<_> =
        rules.iter().filter(|rule| rule.holds_for(who, verb, kind, name)).map(|rule| rule.effect).collect();
    let own = match (who, kind, name) {
        (Who::Web, "secrets", "db") | (Who::Other, "secrets", "tls") => Shown::Named,
        (Who::Web, "pods", "web") | (Who::Other, "pods", "other") => Shown::Whole,
        _ => Shown::Nothing,
    };
    let by_rules = if effects.contains("allow") {
        Shown::Whole
    } else if effects.contains("allowMetadata") {
        Shown::Metadata
    } else {
        Shown::Nothing
    };
    let most = match (effects.contains("deny"), effects.contains("denyData")) {
        (true, _) => Shown::Nothing,
        (false, true) => Shown::Metadata,
        (false, false) => Shown::Whole,
    };
    own.max(by_rules).min(most)
}

/// What a caller sees of the objects of a kind; those of which it sees nothing are not among them.
type View = BTreeMap<&'static str, Shown>;

/// What a caller sees of the objects of a kind that it lists or watches.
fn view(rules: &[Rule], who: Who, verb: &str, kind: &str) -> View {
    let (_, names) = OBJECTS.into_iter().find(|(of, _)| *of == kind).unwrap();
    let all = names.into_iter().map(|name| (name, shown(rules, who, verb, kind, name)));
    all.filter(|(_, shown)| *shown != Shown::Nothing).collect()
}

/// Gives each object values and a label that it had not before.
fn write_values(place: &Place, round: usize) {
    let store = place.api.store();
    let value = |name: &str, key: &str| format!("{name}-{key}-{round}");
    for (name, keys) in [("db", ["password", "root"]), ("tls", ["key", "more"])] {
        let values = keys.map(|key| value(name, key));
        let data = [(keys[0], &*values[0]), (keys[1], &*values[1])];
        let mut secret = secret("shop", name, &data);
        secret.metadata.labels = Some(BTreeMap::from([("round".to_owned(), round.to_string())]));
        store.apply(secret).unwrap();
    }
    for (name, secret, key) in [("web", "db", "password"), ("other", "tls", "key")] {
        let of_pod = pod("shop", name)
            .uid(&format!("uid-{name}"))
            .node("node-1")
            .label("app", name)
            .label("round", &round.to_string());
        let of_pod = of_pod.annotation("note", &value(name, "note")).container("app", "shop/web:1");
        store.apply(of_pod.env_secret(secret, key).build()).unwrap();
    }
}

/// The values of an object in an event, in plain text.
fn values(object: &Value) -> BTreeMap<String, String> {
    let data: Option<BTreeMap<String, ByteString>> = serde_json::from_value(object["data"].clone()).unwrap();
    let data = data.unwrap_or_default().into_iter().map(|(key, value)| (key, String::from_utf8(value.0).unwrap()));
    let note = object["metadata"]["annotations"]["note"].as_str();
    data.chain(note.map(|note| ("note".to_owned(), note.to_owned()))).collect()
}

/// The names of the values that a caller sees.
fn keys(name: &str, shown: Shown) -> &'static [&'static str] {
    match (name, shown) {
        (_, Shown::Nothing | Shown::Metadata) => &[],
        ("db", Shown::Named) => &["password"],
        ("tls", Shown::Named) => &["key"],
        ("db", Shown::Whole) => &["password", "root"],
        ("tls", Shown::Whole) => &["key", "more"],
        _ => &["note"],
    }
}

/// A client that watches a kind, and begins anew when its watch ends.
struct Watcher {
    who: Who,
    user: u32,
    kind: &'static str,
    watch: Option<Watch>,
    /// What it is shown, and the round of the values that it saw last.
    sees: BTreeMap<&'static str, (Shown, usize)>,
}

impl Watcher {
    fn path(&self, query: &str) -> String {
        format!("/api/v1/{}{query}", self.kind)
    }

    /// Checks what a list shows, begins to watch where the rules show something of it, and reads until it has seen the
    /// values of this round.
    async fn begin(&mut self, place: &Place, containers: &[Container; 2], rules: &[Rule], round: usize) {
        self.sees.clear();
        self.watch = None;
        let container = match self.who {
            Who::Web => Some(&containers[0]),
            Who::Other => Some(&containers[1]),
            Who::Host => None,
        };
        self.check_list(place, container, &view(rules, self.who, "list", self.kind)).await;
        let view = view(rules, self.who, "watch", self.kind);
        if view.is_empty() {
            return;
        }
        let path = self.path("?watch=true");
        self.watch = Some(match container {
            Some(container) => place.watch_as(container, self.user, &path),
            None => place.watch_of_host(&path),
        });
        while self.sees.len() < view.len() {
            let event = self.watch.as_mut().unwrap().event().await;
            let name = self.take(&event, &view, round);
            let had = self.sees.insert(name.0, (view[name.0], name.1));
            assert_eq!((&event["type"], had), (&json!("ADDED"), None), "{self}: {event}");
        }
        self.catch_up(&view, round).await;
    }

    /// Checks what a list shows. Also one that shows nothing may be allowed, where a rule denies what another one shows.
    async fn check_list(&self, place: &Place, container: Option<&Container>, view: &View) {
        let path = self.path("");
        let (code, text) = match container {
            Some(container) => place.ask(container, self.user, &path).await,
            None => answer(run(place.curl_of_host(&[], "--clear-groups", &path)).await),
        };
        if code == 403 && view.is_empty() {
            return;
        }
        assert_eq!(code, 200, "{self}: {text}");
        let list: Value = serde_json::from_str(&text).unwrap();
        let shown: BTreeMap<_, _> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|object| {
                (object["metadata"]["name"].as_str().unwrap(), values(object).into_keys().collect::<Vec<_>>())
            })
            .collect();
        let expected: BTreeMap<_, _> = view
            .iter()
            .map(|(name, shown)| (*name, keys(name, *shown).iter().map(ToString::to_string).collect()))
            .collect();
        assert_eq!(shown, expected, "{self}: {text}");
    }

    /// Checks an object that an event shows: its name, and the round of its values.
    fn take(&self, event: &Value, view: &View, round: usize) -> (&'static str, usize) {
        let object = &event["object"];
        let name = object["metadata"]["name"].as_str().unwrap_or_else(|| panic!("{self}: {event}"));
        let (name, shown) = view.get_key_value(name).unwrap_or_else(|| panic!("{self}: {event}"));
        let values = values(object);
        let names: Vec<_> = values.keys().map(String::as_str).collect();
        assert_eq!(names, keys(name, *shown), "{self}: {event}");
        let label = object["metadata"]["labels"]["round"].as_str();
        let rounds: BTreeSet<usize> = values
            .values()
            .map(|value| value.rsplit('-').next().unwrap())
            .chain(label)
            .map(|of| of.parse().unwrap())
            .collect();
        assert!(rounds.len() == 1 && rounds.first() <= Some(&round), "{self}: {event}");
        (name, rounds.into_iter().next().unwrap())
    }

    fn is_up_to_date(&self, round: usize) -> bool {
        self.sees.values().all(|(_, of)| *of == round)
    }

    /// Reads until it has seen the values of this round. Whether the watch goes on.
    async fn catch_up(&mut self, view: &View, round: usize) -> bool {
        while !self.is_up_to_date(round) {
            let event = self.watch.as_mut().unwrap().event().await;
            if event["type"] == "ERROR" {
                self.ended(&event);
                return false;
            }
            let (name, of) = self.take(&event, view, round);
            assert_eq!(event["type"], "MODIFIED", "{self}: {event}");
            self.sees.insert(name, (view[name], of));
        }
        true
    }

    fn ended(&self, event: &Value) {
        let code = event["object"]["code"].as_u64();
        assert!(matches!(code, Some(403 | 410)), "{self}: {event}");
    }

    /// After a change, from what it saw to what these rules show.
    async fn follow(&mut self, place: &Place, containers: &[Container; 2], rules: &[Rule], round: usize) {
        let view = view(rules, self.who, "watch", self.kind);
        let before: BTreeMap<_, _> = self.sees.iter().map(|(name, (shown, _))| (*name, *shown)).collect();
        if before == view && self.watch.is_some() && self.catch_up(&view, round).await {
            return;
        }
        if before != view
            && let Some(mut watch) = self.watch.take()
        {
            // What has left the view goes, with its identity alone, and then the watch ends. No new value comes before.
            let mut left: BTreeSet<_> = before.keys().filter(|name| !view.contains_key(**name)).copied().collect();
            loop {
                let event = watch.event().await;
                if event["type"] == "ERROR" {
                    self.ended(&event);
                    break;
                }
                assert_eq!(event["type"], "DELETED", "{self}: {event}");
                let metadata = event["object"]["metadata"].as_object().unwrap();
                assert!(left.remove(metadata["name"].as_str().unwrap()), "{self}: {event}");
                let fields: BTreeSet<_> = metadata.keys().map(String::as_str).collect();
                assert_eq!(fields, ["name", "namespace", "resourceVersion", "uid"].into(), "{self}: {event}");
                assert_eq!(event["object"].as_object().unwrap().len(), 3, "{self}: {event}");
            }
            assert!(left.is_empty(), "{self}: {left:?} is not DELETED");
        }
        self.begin(place, containers, rules, round).await;
    }
}

impl std::fmt::Display for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} as user {}, {}, which sees {:?}", self.who, self.user, self.kind, self.sees)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_each_change_a_watch_shows_what_the_new_rules_show_and_nothing_else() {
    let seed = std::env::var("LARDER_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"));
    println!("LARDER_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let file = PolicyFile::new(&text(&[], MOST_RULES + 1));
    let place = Place::start(&["--policy", file.path(), "--change-detection", "watch"]).await;
    let containers = [place.run("app"), place.run_other("app")];
    write_values(&place, 0);
    until("the pods have their labels", async || {
        let pods = place.daemon.get("/api/v1/pods").await.text;
        (pods.contains("web-note-0") && pods.contains("other-note-0")).then_some(())
    })
    .await;
    let mut watchers = Vec::new();
    for (who, user) in [(Who::Web, NOBODY), (Who::Web, 0), (Who::Other, NOBODY), (Who::Host, NOBODY)] {
        for (kind, _) in OBJECTS {
            let mut watcher = Watcher { who, user, kind, watch: None, sees: BTreeMap::new() };
            watcher.begin(&place, &containers, &[], 0).await;
            watchers.push(watcher);
        }
    }
    for round in 1..=CHANGES {
        let rules: Vec<_> = (0..random.random_range(0..=MOST_RULES)).map(|_| Rule::random(&mut random)).collect();
        let count = MOST_RULES + 1 + round % 2;
        let written = text(&rules, count);
        println!("{round}:\n{written}");
        file.write(&written);
        until("the rules are in effect", async || {
            let status = place.daemon.get("/larder/v1/status").await.json();
            (status["policy"]["rules"] == count).then_some(())
        })
        .await;
        // These values came after the change, so the rules of before show none of them.
        write_values(&place, round);
        for watcher in &mut watchers {
            watcher.follow(&place, &containers, &rules, round).await;
        }
    }
    let log = place.daemon.log();
    assert!(!log.contains("db-password-") && !log.contains("tls-key-"), "{log}");
}
