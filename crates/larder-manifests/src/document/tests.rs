//! Where documents begin and end, and where mistakes are.

use super::*;
use serde_json::Value;

/// What a file gives, a line for each: `document:line kind namespace/name`, or `document:line:column! problem`.
fn lines(text: &str) -> Vec<String> {
    let place = |found: &Found| {
        let column = found.column.map(|column| format!(":{column}")).unwrap_or_default();
        format!("{}:{}{column}", found.document, found.line)
    };
    read(text)
        .map(|found| match &found.result {
            Ok(made) => format!("{} {} {}/{}", place(&found), made.kind, made.namespace, made.name),
            Err(Mistake { problem, hides: Hides { objects: true, .. } }) => format!("{}! {problem}", place(&found)),
            Err(Mistake { problem, .. }) => format!("{}? {problem}", place(&found)),
        })
        .collect()
}

const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: conf\n";

#[test]
fn documents_are_cut_at_their_marks_and_blank_ones_left_out() {
    let second = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: web}\n";
    let table = [
        (format!("{CONFIG_MAP}---\n{second}"), vec!["1:1 ConfigMap default/conf", "2:6 Secret web/s"]),
        (
            format!("---\n{CONFIG_MAP}---\n---  \n# nothing\n...\n--- # here\n{second}---\n"),
            vec!["1:2 ConfigMap default/conf", "2:11 Secret web/s"],
        ),
        (format!("%YAML 1.2\n---\n{CONFIG_MAP}"), vec!["1:3 ConfigMap default/conf"]),
        (format!("\u{feff}{CONFIG_MAP}"), vec!["1:1 ConfigMap default/conf"]),
        (
            format!("{CONFIG_MAP}---\n{second}").replace('\n', "\r\n"),
            vec!["1:1 ConfigMap default/conf", "2:6 Secret web/s"],
        ),
        (format!("{CONFIG_MAP}data:\n  a: |\n    ---\n    text\n  b: '---x'\n"), vec!["1:1 ConfigMap default/conf"]),
        ("--- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n".to_owned(), vec!["1:1 ConfigMap default/a"]),
        (
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#.to_owned(),
            vec!["1:1 ConfigMap default/a"],
        ),
        (String::new(), vec![]),
        ("\n# a comment\n---\n\n".to_owned(), vec![]),
    ];
    for (text, expected) in table {
        assert_eq!(lines(&text), expected, "{text}");
    }
}

#[test]
fn a_bad_document_has_its_line_and_the_ones_around_it_are_read() {
    let table = [
        ("kind: ConfigMap\n  metadata: x\n", "2:7"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a\n", "2:"),
        ("apiVersion: v1\nmetadata: {name: a}\n", "2:6! kind is missing"),
        ("kind: Pod\nmetadata: {name: a}\n", "2:6! apiVersion is missing"),
        ("just a text\n", "2:6:1! it is not a map of fields"),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n",
            "2:6? apps/v1 Deployment is nothing that a node's larder holds",
        ),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {labels: {}}\n", "2:8:11! metadata.name: it is missing"),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Upper}\n",
            "2:8:18! metadata.name: \"Upper\" is not a name",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: a.b}\n",
            "2:8:32! metadata.namespace: \"a.b\" is not a name",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  port: 80\n",
            "2:10:9! data.port: a number where a string belongs; put it in quotes",
        ),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  port:\n  - 80\n", "2:"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {}\n", "2:"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n",
            "2:6:1? spec.containers: a pod needs at least one container",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: c\n    image: i\n    ports: 80\n",
            "2:13:12? spec.containers[0].ports: a number where a list belongs",
        ),
        ("a: &x [1]\nb: *y\n", "2:7:4! an alias to an anchor that is not there"),
    ];
    for (bad, says) in table {
        // The mark is line 5 of the file, and the document's first line is line 6.
        let text = format!("{CONFIG_MAP}---\n{bad}---\n{}", CONFIG_MAP.replace("conf", "last"));
        let found = lines(&text);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[0], "1:1 ConfigMap default/conf");
        assert!(found[1].starts_with(says), "{bad}: {found:?}");
        assert!(found[2].ends_with("ConfigMap default/last"), "{found:?}");
    }
}

#[test]
fn a_list_is_taken_item_by_item() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n- apiVersion: v1\n  kind: Service\n  metadata: {name: b}\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: c}\n  data: {x: 1}\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: d}\n";
    let found = lines(text);
    assert_eq!(found[0], "1:4 ConfigMap default/a");
    assert!(found[1].starts_with("1:7? items[1]: v1 Service is nothing"), "{found:?}");
    assert!(found[2].starts_with("1:13:13! items[2]: data.x: a number where a string belongs"), "{found:?}");
    assert_eq!(found[3], "1:14 ConfigMap default/d");
    assert_eq!(
        lines("apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: a}\n"),
        ["1:4 ConfigMap default/a"]
    );
    assert!(lines("apiVersion: v1\nkind: List\nitems: 5\n")[0].starts_with("1:3:8! "));
    assert!(lines("apiVersion: v1\nkind: List\n").is_empty());
}

#[test]
fn nothing_of_a_secret_is_quoted() {
    let head = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n";
    let broken = [
        format!("{head}data:\n  password: 31337\n"),
        format!("{head}data:\n  password: '31337!'\n"),
        format!("{head}stringData: {{password: [31337]}}\n"),
        format!("{head}stringData: {{password: 31337}}\n"),
        format!("{head}stringData: 31337\n"),
        format!("{head}type: {{x: 31337}}\n"),
        format!("{head}stringData: {{password: '31337\n"),
        format!("{head}stringData:\n  password: \"\\q31337\"\n"),
        format!("{head}stringData:\n   password: 31337\n  other: x\n"),
        format!("{head}stringData: {{password: !!int x31337}}\n"),
        format!("{head}stringData: {{a: [{{31337: a}}]}}\n"),
        format!("{head}immutable: s31337\n"),
        format!("{head}stringData: *31337\n"),
        format!("31337\n{head}"),
        "apiVersion: v1\nkind: SecretList\nitems:\n- metadata: {name: s}\n  stringData: {a: 31337}\n".to_owned(),
    ];
    for text in broken {
        let found = lines(&text);
        assert!(found.iter().all(|line| line.contains('!') && !line.contains("31337")), "{text}: {found:?}");
        assert!(!found.is_empty(), "{text}");
    }
}

#[test]
fn a_bomb_of_aliases_is_refused() {
    let mut text =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\na: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10_u32 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        text += &["b", &level.to_string(), ": &a", &level.to_string(), " [", &aliases, "]\n"].concat();
    }
    let found = lines(&text);
    assert!(found.len() == 1 && found[0].contains('!'), "{found:?}");
    let deep = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\nx: {}\n", "[".repeat(100_000));
    assert!(lines(&deep)[0].contains('!'));
}

#[test]
fn scalars_are_read_as_the_tools_of_kubernetes_read_them() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: c, image: i}]\n  volumes:\n  - {name: v, secret: {secretName: s, defaultMode: 0400}}\n";
    let mut found = read(text);
    let Ok(mut pod) = found.next().unwrap().result else { panic!("it is a pod") };
    let json: Value = serde_json::from_slice(&pod.versioned(1)).unwrap();
    assert_eq!(json["spec"]["volumes"][0]["secret"]["defaultMode"], 0o400);
    let problem = &lines("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\n")[0];
    assert!(problem.contains("metadata.name: a boolean where a string belongs; put it in quotes"), "{problem}");
}

/// The JSON of a text's only object.
fn json(text: &str) -> Value {
    let mut found = read(text);
    match found.next().unwrap().result {
        Ok(mut made) => serde_json::from_slice(&made.versioned(1)).unwrap(),
        Err(mistake) => panic!("{text}: {}", mistake.problem),
    }
}

#[test]
fn base64_of_a_secret_may_have_line_breaks() {
    let head = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n";
    for data in
        ["data:\n  key: |\n    aGVs\n    bG8=\n", "data: {key: \"aGVs\\r\\nbG8=\\n\"}\n", "data: {key: aGVsbG9=}\n"]
    {
        let key = json(&format!("{head}{data}"))["data"]["key"].clone();
        assert_eq!(key, "aGVsbG8=");
    }
    let empty = json(&format!("{head}data: {{a: '', b: null, c: }}\n"));
    assert_eq!(empty["data"], serde_json::json!({"a": "", "b": "", "c": ""}));
    let map = json("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\nbinaryData: {a: \"AA\\n==\"}\ndata: {x: }\n");
    assert_eq!((&map["binaryData"]["a"], &map["data"]["x"]), (&"AA==".into(), &"".into()));
}

#[test]
fn keys_without_a_value_and_keys_that_stand_twice_are_taken_as_the_kubelet_takes_them() {
    let pod = json(
        "apiVersion: v1\nKind: Pod\nmetadata:\n  name: p\n  creationTimestamp: null\n  labels: {a: , b: x}\nspec:\n  hostNetwork: \
         true\n  hostNetwork: true\n  restartPolicy: Never\n  restartPolicy: Always\n  nodeSelector: \
         {node-role.kubernetes.io/master: }\n  containers:\n  - {name: c, image: i, args: [null, b]}\n",
    );
    assert_eq!(pod["metadata"]["labels"], serde_json::json!({"a": "", "b": "x"}));
    assert_eq!((&pod["spec"]["hostNetwork"], &pod["spec"]["restartPolicy"]), (&true.into(), &"Always".into()));
    assert_eq!(pod["spec"]["nodeSelector"], serde_json::json!({"node-role.kubernetes.io/master": ""}));
    assert_eq!(pod["spec"]["containers"][0]["args"], serde_json::json!(["", "b"]));
}

#[test]
fn what_follows_the_end_of_a_document_is_a_document() {
    let second = CONFIG_MAP.replace("conf", "second");
    assert_eq!(
        lines(&format!("{CONFIG_MAP}...\n{second}")),
        ["1:1 ConfigMap default/conf", "2:6 ConfigMap default/second"]
    );
}
