//! Texts and what they mean; each was compared with the tools of Kubernetes.

use super::*;
use std::collections::BTreeMap;

/// The node as JSON.
fn json(node: &Node) -> serde_json::Value {
    node.decode().unwrap_or_else(|mistake| panic!("{mistake}"))
}

#[test]
fn scalars_mean_what_yaml_1_1_says() {
    for (text, means) in [
        ("yes", "true"),
        ("Off", "false"),
        ("y", "true"),
        ("~", "null"),
        ("", "null"),
        ("0777", "511"),
        ("0o17", "15"),
        ("0x1F", "31"),
        ("-0b11", "-3"),
        ("1_000", "1000"),
        ("08", "8"),
        ("1e3", "1000"),
        ("1.0", "1"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("+12", "12"),
        ("18446744073709551615", "18446744073709551615"),
        ("1:30", "\"1:30\""),
        ("2001-01-01", "\"2001-01-01\""),
        ("2001-01-01T00:00:00Z", "\"2001-01-01T00:00:00Z\""),
        ("- ", "[null]"),
        ("'12'", "\"12\""),
        ("! '12'", "\"12\""),
        ("! 12", "\"12\""),
        ("!!str 12", "\"12\""),
        ("!!int '12'", "12"),
        ("!!float 3", "3"),
        ("!!binary aGk=", "\"hi\""),
        ("!other 12", "\"12\""),
        ("{1: a, true: b, 1.5: c, 1e6: d}", r#"{"1": "a", "true": "b", "1.5": "c", "1e+06": "d"}"#),
        ("a: .inf\na: 2\n-.inf: 3", r#"{"a": 2, "-.inf": 3}"#),
        ("{<<: {a: 1, b: 1}, b: 2}", r#"{"a": 1, "b": 2}"#),
        ("{<<: [{a: 1}, {a: 2, b: 2}]}", r#"{"a": 1, "b": 2}"#),
        ("a: &x {b: 1}\nc: *x", r#"{"a": {"b": 1}, "c": {"b": 1}}"#),
        ("a\n---\n[", "\"a\""),
        ("|\n  text", "\"text\""),
    ] {
        let means: serde_json::Value = serde_json::from_str(means).unwrap();
        assert_eq!(json(&yaml(text).unwrap_or_else(|mistake| panic!("{text:?}: {mistake}"))), means, "{text:?}");
    }
    for text in [
        "!!int x",
        "!!null x",
        "!!bool 1",
        ".inf",
        "{~: 1}",
        "{[1]: 2}",
        "{<<: 1}",
        "*x",
        "a: &x [*x]",
        "a: &'' b",
        "a: !,!x b",
        "a: \u{7}",
    ] {
        assert!(yaml(text).is_err(), "{text:?}");
    }
}

#[test]
fn json_is_read_as_go_reads_it() {
    for (text, means) in [
        (r#"{"a": 1, "a": 2}"#, r#"{"a": 2}"#),
        (r#"{"a": {"b": 1}, "a": {"c": 2}}"#, r#"{"a": {"b": 1, "c": 2}}"#),
        (r#"{"a": "\ud83d\ude00\u00e9\/\n"}"#, r#"{"a": "😀é/\n"}"#),
        (r#"{"a": "\ud83dx"}"#, "{\"a\": \"\u{fffd}x\"}"),
        ("\n {\"a\":\t[1.5, -0, 1E2, true, null]}\n", r#"{"a": [1.5, 0, 100.0, true, null]}"#),
    ] {
        let means: serde_json::Value = serde_json::from_str(means).unwrap();
        let read = yaml_or_json(text).unwrap_or_else(|mistake| panic!("{text}: {mistake}"));
        assert_eq!(json(&read), means, "{text}");
    }
    for (text, place) in [
        (r#"{"a": 01}"#, "line 1 column 8"),
        (r#"{"a": 1,}"#, "line 1 column 9"),
        ("{\"a\":\n \"\t\"}", "line 2 column 3"),
        ("{'a': 1}", "line 1 column 2"),
        ("{\"a\": 1} x", "line 1 column 10"),
        ("{\"a\"", "line 1 column 5"),
        (r#"{"a": "\x"}"#, "line 1 column 9"),
        (r#"{"a": "\u12g4"}"#, "line 1 column 10"),
    ] {
        let mistake = json::read(text).unwrap_err();
        assert_eq!(mistake.place().unwrap().to_string(), place, "{text}: {mistake}");
    }
    // A decimal number is none for a field of whole numbers, but through YAML it is one.
    assert!(yaml_or_json("{\"a\": 1.0}").unwrap().decode::<BTreeMap<String, i32>>().is_err());
    assert!(yaml_or_json("a: 1.0").unwrap().decode::<BTreeMap<String, i32>>().is_ok());
}

#[test]
fn a_mistake_has_the_path_and_the_place_and_no_value() {
    #[derive(serde::Deserialize, Debug)]
    struct Port {
        #[serde(rename = "number")]
        _number: u16,
    }
    for (text, says, place) in [
        ("web:\n- number: 80\n- number: 70000", "web[1].number: a number that is too small or too large", (3, 11)),
        ("web: [{number: '80'}]", "web[0].number: a string where a number belongs; write it without quotes", (1, 16)),
        ("web: [{number: 1.5}]", "web[0].number: a decimal or too large number", (1, 16)),
        ("web: 70000", "web: a number where a list belongs", (1, 6)),
        ("[70000]", "a list where a map belongs", (1, 1)),
        ("web: [{}]", "web[0].number: it is missing", (1, 7)),
    ] {
        let mistake = yaml(text).unwrap().decode::<BTreeMap<String, Vec<Port>>>().unwrap_err();
        assert!(mistake.to_string().starts_with(says) && !mistake.to_string().contains("70000"), "{text}: {mistake}");
        assert_eq!(mistake.place(), Some(Place { line: place.0, column: place.1 }), "{text}");
    }
}

#[test]
fn limits_are_kept() {
    for deep in ["[".repeat(100_000), format!("{{\"a\": {}", "[".repeat(100_000)), "- ".repeat(100_000)] {
        assert!(yaml_or_json(&deep).is_err());
    }
    let mut bomb = format!("a: &a {}\nb: [", "x".repeat(1 << 20));
    bomb.push_str(&"*a, ".repeat(64));
    bomb.push(']');
    assert_eq!(yaml(&bomb).unwrap_err().problem(), "too many aliases");
}

#[test]
fn no_text_makes_it_panic() {
    let seeds = [
        "a: &x [1, 'two', \"th\\x72ee\"]\nb: {<<: *x, ? c : !!int 4}\n--- |+\n  text\n...\n%YAML 1.1\n",
        r#"{"a": [1.5e3, "\ud83d\ude00", {"b": null}], "a": true}"#,
    ];
    let odd = [
        "\"\\", "!<", "!!", "&", "*", "\u{feff}", "\t", "\r", "[", "{", "}", "? ", "- ", ": ", "%", "\\u", "é", "|9",
        ">-", ",",
    ];
    for seed in seeds {
        for at in (0..=seed.len()).filter(|at| seed.is_char_boundary(*at)) {
            for insert in odd {
                for text in [format!("{}{insert}{}", &seed[..at], &seed[at..]), format!("{}{insert}", &seed[..at])] {
                    let _read = (
                        yaml(&text).map(|node| node.decode::<serde_json::Value>().is_ok()),
                        yaml_or_json(&text).is_ok(),
                    );
                }
            }
        }
    }
}
