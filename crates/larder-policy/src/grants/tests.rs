//! What containers refer to, compared with the files and the environment that the kubelet would make for them.

use super::*;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Component, Path};

/// Kind, name and key.
type Reference = (&'static str, String, String);

const KINDS: [(&str, ObjectKind); 2] = [("secret", ObjectKind::Secret), ("configMap", ObjectKind::ConfigMap)];
/// `pull` is a pull secret, and `driver` is a driver's.
const NAMES: [&str; 4] = ["s", "t", "pull", "driver"];
/// The keys that each object has.
const KEYS: [&str; 3] = ["k", "l", "m"];

fn typed(pod: &Value) -> Pod {
    serde_json::from_value(pod.clone()).unwrap()
}

/// Those keys of the objects that exist which are granted.
fn granted(grants: &Grants) -> BTreeSet<Reference> {
    let mut granted = BTreeSet::new();
    for (kind, of) in KINDS {
        for name in NAMES {
            for key in KEYS.into_iter().filter(|key| grants.keys(of, name).is_some_and(|keys| keys.has(key))) {
                granted.insert((kind, name.to_owned(), key.to_owned()));
            }
        }
    }
    granted
}

/// The grants of container `c` with these fields, in a pod with these volumes.
fn check(container: &Value, volumes: &Value, wants: &[(&'static str, &str, &[&str])]) {
    let mut container = container.clone();
    container["name"] = json!("c");
    let grants =
        Grants::of(&typed(&json!({"spec": {"containers": [container], "volumes": volumes}})), |name| name == "c");
    let wants: BTreeSet<Reference> = wants
        .iter()
        .flat_map(|(kind, name, keys)| keys.iter().map(|key| (*kind, (*name).to_owned(), (*key).to_owned())))
        .collect();
    assert_eq!(granted(&grants), wants, "{container} {volumes}");
}

#[test]
fn the_environment_grants_its_keys() {
    let of = |env: Value| json!({"env": [env]});
    let secret = json!({"secretKeyRef": {"name": "s", "key": "k"}});
    check(&of(json!({"name": "A", "valueFrom": secret})), &json!([]), &[("secret", "s", &["k"])]);
    check(&of(json!({"name": "A", "value": "", "valueFrom": secret})), &json!([]), &[("secret", "s", &["k"])]);
    check(&of(json!({"name": "A", "value": "literal", "valueFrom": secret})), &json!([]), &[]);
    check(&of(json!({"name": "A", "value": "$(s)"})), &json!([]), &[]);
    let map = json!({"configMapKeyRef": {"name": "t", "key": "l", "optional": true}});
    check(&of(json!({"name": "A", "valueFrom": map})), &json!([]), &[("configMap", "t", &["l"])]);
    let prefixed = json!({"envFrom": [{"prefix": "P_", "secretRef": {"name": "s", "optional": true}}]});
    check(&prefixed, &json!([]), &[("secret", "s", &KEYS)]);
    let twice = json!({"env": [{"name": "A", "valueFrom": secret}, {"name": "A", "value": "b"}]});
    check(&twice, &json!([]), &[("secret", "s", &["k"])]);
}

#[test]
fn a_sub_path_grants_the_keys_below_it() {
    let volumes = json!([
        {"name": "all", "secret": {"secretName": "s"}},
        {"name": "items", "secret": {"secretName": "s", "items": [{"key": "k", "path": "d/x"}, {"key": "l", "path": "y"}]}},
        {"name": "out", "secret": {"secretName": "s", "items": [{"key": "k", "path": "../x"}]}},
    ]);
    let cases: [(&str, &str, &[&str]); 18] = [
        ("all", "", &KEYS),
        ("all", ".", &KEYS),
        ("all", "..data", &KEYS),
        ("all", "k", &["k"]),
        ("all", "./k/", &["k"]),
        ("all", "..data/k", &["k"]),
        ("all", "..data/..data/k", &[]),
        ("all", "k/x", &[]),
        ("all", "/k", &[]),
        ("all", "../k", &[]),
        ("all", "d/../k", &[]),
        ("items", "", &["k", "l"]),
        ("items", "d", &["k"]),
        ("items", "d/x", &["k"]),
        ("items", "y", &["l"]),
        ("items", "l", &[]),
        ("out", "", &[]),
        ("out", "../x", &[]),
    ];
    for (volume, path, keys) in cases {
        let mounts = json!({"volumeMounts": [{"name": volume, "mountPath": "/m", "subPath": path}]});
        check(&mounts, &volumes, &[("secret", "s", keys)]);
    }
    let expression = json!({"volumeMounts": [{"name": "all", "mountPath": "/m", "subPathExpr": "k"}]});
    check(&expression, &volumes, &[]);
    check(&json!({}), &volumes, &[]);
}

#[test]
fn secrets_that_a_driver_or_the_kubelet_reads_are_not_granted() {
    let volumes = json!([
        {"name": "csi", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "driver"}}},
        {"name": "rbd", "rbd": {"image": "i", "monitors": [], "secretRef": {"name": "driver"}}},
        {"name": "file", "azureFile": {"shareName": "a", "secretName": "driver"}},
    ]);
    let mounts = ["csi", "rbd", "file"].map(|name| json!({"name": name, "mountPath": "/m"}));
    check(&json!({"volumeMounts": mounts}), &volumes, &[]);
    let pod = json!({"spec": {"imagePullSecrets": [{"name": "pull"}], "serviceAccountName": "s", "containers": [{"name": "c"}]}});
    assert_eq!(Grants::of(&typed(&pod), |_| true), Grants::default());
}

#[test]
fn each_container_has_its_own_grants() {
    let env = |key| json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": key}}}]);
    let pod = typed(&json!({"spec": {
        "initContainers": [{"name": "sidecar", "restartPolicy": "Always", "env": env("k")}],
        "containers": [{"name": "app", "env": env("l")}],
        "ephemeralContainers": [{"name": "debug", "env": env("m")}],
    }}));
    for (container, key) in [("sidecar", "k"), ("app", "l"), ("debug", "m")] {
        let grants = Grants::of(&pod, |name| name == container);
        assert_eq!(grants.iter().collect::<Vec<_>>(), [(ObjectKind::Secret, "s", &Keys::named([key]))]);
    }
    assert_eq!(Grants::of(&pod, |_| true).keys(ObjectKind::Secret, "s"), Some(&Keys::named(KEYS)));
    assert_eq!(Grants::of(&pod, |_| false), Grants::default());
}

/// What one container sees, by the steps of the kubelet.
struct Kubelet<'a> {
    pod: &'a Value,
    sees: BTreeSet<Reference>,
}

impl Kubelet<'_> {
    fn start(&mut self, container: &Value) {
        let list = |field: &str| container[field].as_array().cloned().unwrap_or_default();
        for source in list("envFrom") {
            for (kind, field) in [("configMap", "configMapRef"), ("secret", "secretRef")] {
                if source[field].is_object() {
                    self.sees.extend(KEYS.map(|key| (kind, text(&source[field]["name"]), key.to_owned())));
                    break;
                }
            }
        }
        for var in list("env").iter().filter(|var| text(&var["value"]).is_empty()) {
            let from = &var["valueFrom"];
            let sources = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
            let kind = match sources.into_iter().find(|source| from[source].is_object()) {
                Some(source @ "configMapKeyRef") => Some(("configMap", source)),
                Some(source @ "secretKeyRef") => Some(("secret", source)),
                _ => None,
            };
            self.sees.extend(kind.map(|(kind, of)| (kind, text(&from[of]["name"]), text(&from[of]["key"]))));
        }
        for mount in list("volumeMounts") {
            self.mount(&mount);
        }
    }

    fn mount(&mut self, mount: &Value) {
        let volumes = self.pod["spec"]["volumes"].as_array().unwrap();
        let Some(volume) = volumes.iter().find(|volume| volume["name"] == mount["name"]) else { return };
        let mut files = Vec::new();
        write_files("secret", "secretName", &volume["secret"], &mut files);
        write_files("configMap", "name", &volume["configMap"], &mut files);
        for source in volume["projected"]["sources"].as_array().into_iter().flatten() {
            write_files("secret", "name", &source["secret"], &mut files);
            write_files("configMap", "name", &source["configMap"], &mut files);
        }
        let expression = !text(&mount["subPathExpr"]).is_empty();
        let Some(path) = clean(&text(&mount["subPath"])).filter(|_| !expression) else { return };
        for (file, reference) in files {
            // Each file is in the folder `..data`, and can be reached by a link in the volume's root as well.
            let real = Path::new("..data").join(&file);
            if Path::new(&file).starts_with(&path) || real.starts_with(&path) {
                self.sees.insert(reference);
            }
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A relative path without `.`; `None` for one that the kubelet refuses.
fn clean(path: &str) -> Option<String> {
    let mut names = Vec::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => names.push(name.to_str().unwrap()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::ParentDir => return None,
        }
    }
    Some(names.join("/"))
}

fn write_files(kind: &'static str, name: &str, source: &Value, files: &mut Vec<(String, Reference)>) {
    if !source.is_object() {
        return;
    }
    let name = text(&source[name]);
    let items = source["items"].as_array().cloned().unwrap_or_default();
    if items.is_empty() {
        files.extend(KEYS.map(|key| (key.to_owned(), (kind, name.clone(), key.to_owned()))));
    }
    for item in items {
        files.extend(clean(&text(&item["path"])).map(|path| (path, (kind, name.clone(), text(&item["key"])))));
    }
}

/// A reference to one key, as its fields.
fn key_ref() -> impl Strategy<Value = Value> {
    let key = select(&KEYS[..]);
    (select(&NAMES[..2]), key, any::<bool>())
        .prop_map(|(name, key, o)| json!({"name": name, "key": key, "optional": o}))
}

fn variable() -> impl Strategy<Value = Value> {
    let source = prop_oneof![
        4 => key_ref().prop_map(|of| json!({"secretKeyRef": of})),
        4 => key_ref().prop_map(|of| json!({"configMapKeyRef": of})),
        1 => (key_ref(), key_ref()).prop_map(|(a, b)| json!({"secretKeyRef": a, "configMapKeyRef": b})),
        1 => key_ref().prop_map(|of| json!({"secretKeyRef": of, "fieldRef": {"fieldPath": "metadata.name"}})),
        1 => key_ref().prop_map(|of| json!({"configMapKeyRef": of, "resourceFieldRef": {"resource": "limits.cpu"}})),
    ];
    let value = prop_oneof![4 => Just(None), 1 => Just(Some("")), 1 => Just(Some("literal"))];
    (select(vec!["A", "B"]), value, proptest::option::weighted(0.9, source))
        .prop_map(|(name, value, from)| json!({"name": name, "value": value, "valueFrom": from}))
}

fn all_keys() -> impl Strategy<Value = Value> {
    (select(&NAMES[..2]), select(&NAMES[..2]), 0..3).prop_map(|(one, other, which)| match which {
        0 => json!({"secretRef": {"name": one}}),
        1 => json!({"prefix": "P_", "configMapRef": {"name": one}}),
        _ => json!({"configMapRef": {"name": one}, "secretRef": {"name": other}}),
    })
}

fn source(name: &'static str) -> impl Strategy<Value = Value> {
    let paths = vec!["k", "l", "d/k", "d/l", "d//e/./k", "./x", "d"];
    let item = (select(&KEYS[..]), select(paths)).prop_map(|(key, path)| json!({"key": key, "path": path}));
    (select(&NAMES[..2]), prop_oneof![Just(vec![]), proptest::collection::vec(item, 0..4)], any::<bool>())
        .prop_map(move |(of, items, optional)| json!({name: of, "items": items, "optional": optional}))
}

fn volume() -> impl Strategy<Value = Value> {
    let part = prop_oneof![
        3 => source("name").prop_map(|of| json!({"secret": of})),
        3 => source("name").prop_map(|of| json!({"configMap": of})),
        1 => Just(json!({"downwardAPI": {"items": []}})),
        1 => Just(json!({"serviceAccountToken": {"path": "k"}})),
    ];
    prop_oneof![
        3 => source("secretName").prop_map(|of| json!({"secret": of})),
        3 => source("name").prop_map(|of| json!({"configMap": of})),
        3 => proptest::collection::vec(part, 0..4).prop_map(|of| json!({"projected": {"sources": of}})),
        1 => Just(json!({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "driver"}}})),
        1 => Just(json!({"emptyDir": {}})),
    ]
}

fn mount() -> impl Strategy<Value = Value> {
    let paths = vec![
        "",
        "",
        ".",
        "k",
        "l",
        "d",
        "d/k",
        "d/e",
        "d/e/k",
        "..data",
        "..data/k",
        "..data/d",
        "../k",
        "/k",
        "d/../k",
        "k/",
        "./d",
        "k/x",
        "..2026_12_02/k",
        "x",
    ];
    let expression = proptest::option::weighted(0.1, select(vec!["", "k", "$(A)"]));
    (select(vec!["v0", "v1", "v2", "v3", "v9"]), select(paths), expression).prop_map(
        |(name, path, expression)| json!({"name": name, "mountPath": "/m", "subPath": path, "subPathExpr": expression}),
    )
}

fn container() -> impl Strategy<Value = Value> {
    let env = proptest::collection::vec(variable(), 0..3);
    let env_from = proptest::collection::vec(all_keys(), 0..2);
    let mounts = proptest::collection::vec(mount(), 0..3);
    (env, env_from, mounts).prop_map(|(env, from, mounts)| json!({"env": env, "envFrom": from, "volumeMounts": mounts}))
}

prop_compose! {
    /// A pod whose containers are `c0`, `c1` and so on, and which of them ask.
    fn pods()(
        volumes in proptest::collection::vec(volume(), 4),
        containers in proptest::collection::vec((container(), 0..3usize, any::<bool>()), 1..5),
    ) -> (Value, Vec<String>) {
        let mut pod = json!({"spec": {"imagePullSecrets": [{"name": "pull"}], "volumes": volumes, "containers": []}});
        for (at, volume) in pod["spec"]["volumes"].as_array_mut().unwrap().iter_mut().enumerate() {
            volume["name"] = json!(format!("v{at}"));
        }
        let mut asking = Vec::new();
        for (at, (mut container, list, asks)) in containers.into_iter().enumerate() {
            let name = format!("c{at}");
            container["name"] = json!(name);
            let list = &mut pod["spec"][["initContainers", "containers", "ephemeralContainers"][list]];
            if list.is_null() {
                *list = json!([]);
            }
            list.as_array_mut().unwrap().push(container);
            asking.extend(asks.then_some(name));
        }
        (pod, asking)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn granted_is_what_the_kubelet_gives_the_containers((pod, asking) in pods()) {
        let mut kubelet = Kubelet { pod: &pod, sees: BTreeSet::new() };
        for list in ["initContainers", "containers", "ephemeralContainers"] {
            for container in pod["spec"][list].as_array().into_iter().flatten() {
                if asking.contains(&text(&container["name"])) {
                    kubelet.start(container);
                }
            }
        }
        let grants = Grants::of(&typed(&pod), |name| asking.iter().any(|asks| asks == name));
        prop_assert_eq!(granted(&grants), kubelet.sees);
    }
}
