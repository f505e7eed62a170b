//! Lines that are traces, and the place of what is wrong in others.

use super::*;
use crate::Trace;

const POD_STATUS: &str = r#"{"larder_trace":1,"kind":"pod-status"}"#;
const OBJECTS: &str = r#"{"larder_trace":1,"kind":"objects","default_ttl":"60s"}"#;

#[track_caller]
fn check(header: &str, line: &str, expected: &str) {
    let trace = format!("{header}\n{line}\n");
    let error = Trace::parse(trace.as_bytes()).expect_err(line);
    assert_eq!(error.to_string(), format!("line 2: {expected}"), "{line}");
}

#[test]
fn bad_lines_of_pod_status_name_their_field() {
    let table = [
        ("", "the line is empty; each line is a JSON object"),
        (" \t\r", "the line is empty; each line is a JSON object"),
        ("nonsense", "bad JSON at byte 2: expected ident"),
        (r#"{"op":"get","uid":"u"#, "bad JSON at byte 20: EOF while parsing a string"),
        (r#"{"op":"get","uid":"u"} {}"#, "bad JSON at byte 24: trailing characters"),
        (r#"{"op":"get","uid":"u",}"#, "bad JSON at byte 23: trailing comma"),
        (r#"{"op":"get" "uid":"u"}"#, "bad JSON at byte 13: expected `,` or `}`"),
        (
            "{\"op\":\"get\",\"uid\":\"a\tb\"}",
            "bad JSON at byte 20: control character (\\u0000-\\u001F) found while parsing a string",
        ),
        (r#"{"op":"get","uid":"u","more":[}"#, "bad JSON at byte 31: expected value"),
        ("[]", "not a JSON object but an array"),
        ("null", "not a JSON object but null"),
        ("1", "not a JSON object but a number"),
        ("\"get\"", "not a JSON object but a string"),
        ("true", "not a JSON object but a boolean"),
        ("{}", "field `op` is missing"),
        (POD_STATUS, "a second header; each trace is a file of its own"),
        (r#"{"op":7}"#, "field `op` is a number, not a string"),
        (r#"{"op":null}"#, "field `op` is null, not a string"),
        (r#"{"op":"put"}"#, "unknown operation \"put\" in a trace of kind \"pod-status\""),
        (r#"{"op":"GET","uid":"u"}"#, "unknown operation \"GET\" in a trace of kind \"pod-status\""),
        (r#"{"op":"advance","by":"1s"}"#, "unknown operation \"advance\" in a trace of kind \"pod-status\""),
        (r#"{"op":"get"}"#, "field `uid` is missing"),
        (r#"{"op":"get","UID":"u"}"#, "field `uid` is missing"),
        (r#"{"op":"get","uid":7}"#, "field `uid` is a number, not a string"),
        (r#"{"op":"get","uid":["u"]}"#, "field `uid` is an array, not a string"),
        (r#"{"op":"get","uid":"u","uid":"u"}"#, "field `uid` stands there twice"),
        (r#"{"op":"get","uid":"\ud800"}"#, "field `uid` is not a valid string: unexpected end of hex escape"),
        (r#"{"op":"set","uid":"u","t":1}"#, "field `status` is missing"),
        (r#"{"op":"set","uid":"u","status":"","t":1}"#, "field `status` is empty"),
        (r#"{"op":"set","uid":"u","status":{},"t":1}"#, "field `status` is an object, not a string or null"),
        (r#"{"op":"set","uid":"u","status":null,"error":"","t":1}"#, "field `error` is empty"),
        (r#"{"op":"set","uid":"u","status":null,"error":false,"t":1}"#, "field `error` is a boolean, not a string"),
        (r#"{"op":"set","uid":"u","status":"s"}"#, "field `t` is missing"),
        (r#"{"op":"set","uid":"u","status":"s","t":"1"}"#, "field `t` is a string, not an integer"),
        (r#"{"op":"set","uid":"u","status":"s","t":null}"#, "field `t` is null, not an integer"),
        (r#"{"op":"update_time"}"#, "field `t` is missing"),
        (r#"{"op":"update_time","t":1.0}"#, "field `t`: 1.0 is not written as an integer"),
        (r#"{"op":"update_time","t":1e3}"#, "field `t`: 1e3 is not written as an integer"),
        (
            r#"{"op":"update_time","t":9223372036854775808}"#,
            "field `t`: 9223372036854775808 is out of range (-9223372036854775808 to 9223372036854775807)",
        ),
        (
            r#"{"op":"update_time","t":-9223372036854775809}"#,
            "field `t`: -9223372036854775809 is out of range (-9223372036854775808 to 9223372036854775807)",
        ),
        (r#"{"op":"update_time","t":01}"#, "bad JSON at byte 26: invalid number"),
        (r#"{"op":"update_time","t":+1}"#, "bad JSON at byte 25: expected value"),
        (r#"{"op":"observed","uid":"u"}"#, "field `t` is missing"),
        (r#"{"op":"observed","t":1}"#, "field `uid` is missing"),
        (r#"{"op":"delete"}"#, "field `uid` is missing"),
        (r#"{"op":"newer","uid":"u","min":1}"#, "field `id` is missing"),
        (r#"{"op":"newer","id":1,"min":1}"#, "field `uid` is missing"),
        (r#"{"op":"newer","id":1,"uid":"u"}"#, "field `min` is missing"),
        (r#"{"op":"newer","id":"1","uid":"u","min":1}"#, "field `id` is a string, not an integer"),
        (r#"{"op":"cancel"}"#, "field `id` is missing"),
    ];
    for (line, expected) in table {
        check(POD_STATUS, line, expected);
    }
}

#[test]
fn bad_lines_of_objects_name_their_field() {
    let table = [
        (r#"{"op":"set","uid":"u","status":"s","t":1}"#, "unknown operation \"set\" in a trace of kind \"objects\""),
        (r#"{"op":"server_put","name":"x","rv":"1","data":""}"#, "field `ns` is missing"),
        (r#"{"op":"server_put","ns":"a","rv":"1","data":""}"#, "field `name` is missing"),
        (r#"{"op":"server_put","ns":"a","name":"x","data":""}"#, "field `rv` is missing"),
        (r#"{"op":"server_put","ns":"a","name":"x","rv":"1"}"#, "field `data` is missing"),
        (r#"{"op":"server_put","ns":"a","name":"x","rv":1,"data":""}"#, "field `rv` is a number, not a string"),
        (r#"{"op":"server_cache","ns":"a","name":"x","rv":"1"}"#, "field `data` is missing"),
        (r#"{"op":"server_delete","ns":"a"}"#, "field `name` is missing"),
        (r#"{"op":"server_fail","ns":"a","name":"x"}"#, "field `code` is missing"),
        (r#"{"op":"server_fail","ns":"a","name":"x","code":"503"}"#, "field `code` is a string, not an integer"),
        (r#"{"op":"server_fail","ns":"a","name":"x","code":399}"#, "field `code`: 399 is out of range (400 to 599)"),
        (r#"{"op":"server_fail","ns":"a","name":"x","code":600}"#, "field `code`: 600 is out of range (400 to 599)"),
        (
            r#"{"op":"server_fail","ns":"a","name":"x","code":99999999999999999999}"#,
            "field `code`: 99999999999999999999 is out of range (400 to 599)",
        ),
        (r#"{"op":"node_ttl"}"#, "field `value` is missing"),
        (r#"{"op":"node_ttl","value":15}"#, "field `value` is a number, not a string or null"),
        (r#"{"op":"advance"}"#, "field `by` is missing"),
        (r#"{"op":"advance","by":16}"#, "field `by` is a number, not a duration such as \"60s\""),
        (r#"{"op":"advance","by":"16"}"#, "field `by`: the duration \"16\" has a number without a unit"),
        (
            r#"{"op":"advance","by":"300y"}"#,
            "field `by`: the duration \"300y\" has an unknown unit; there are ns, us, ms, s, m and h",
        ),
        (r#"{"op":"register","ns":"a","name":"p","uid":"u"}"#, "field `refs` is missing"),
        (
            r#"{"op":"register","ns":"a","name":"p","uid":"u","refs":null}"#,
            "field `refs` is null, not an array of strings",
        ),
        (
            r#"{"op":"register","ns":"a","name":"p","uid":"u","refs":"x"}"#,
            "field `refs` is a string, not an array of strings",
        ),
        (
            r#"{"op":"register","ns":"a","name":"p","uid":"u","refs":["x",1]}"#,
            "field `refs` is an array with another value, not an array of strings",
        ),
        (r#"{"op":"register","ns":"a","name":"p","refs":[]}"#, "field `uid` is missing"),
        (
            r#"{"op":"unregister","ns":"a","name":"p","uid":"u","refs":{}}"#,
            "field `refs` is an object, not an array of strings",
        ),
        (r#"{"op":"unregister","ns":"a","name":"p"}"#, "field `uid` is missing"),
        (r#"{"op":"add_reference","ns":"a","name":"x"}"#, "field `uid` is missing"),
        (r#"{"op":"delete_reference","ns":"a","uid":"u"}"#, "field `name` is missing"),
        (r#"{"op":"get","name":"x"}"#, "field `ns` is missing"),
        (r#"{"op":"get","ns":"a"}"#, "field `name` is missing"),
    ];
    for (line, expected) in table {
        check(OBJECTS, line, expected);
    }
}

#[test]
fn bad_headers_are_told_from_bad_operations() {
    let table = [
        ("", "the trace is empty; it begins with a header such as {\"larder_trace\":1,\"kind\":\"pod-status\"}"),
        ("\n", "the line is empty; each line is a JSON object"),
        (
            r#"{"op":"get","uid":"u"}"#,
            "not a header: field `larder_trace` is missing; a trace begins with one such as {\"larder_trace\":1,\"kind\":\"pod-status\"}",
        ),
        (
            r#"{"larder_trace":2,"kind":"pod-status"}"#,
            "field `larder_trace`: version 2 of the format is not known; this is version 1",
        ),
        (r#"{"larder_trace":"1","kind":"pod-status"}"#, "field `larder_trace` is a string, not an integer"),
        (r#"{"larder_trace":1.5,"kind":"pod-status"}"#, "field `larder_trace`: 1.5 is not written as an integer"),
        (r#"{"larder_trace":1}"#, "field `kind` is missing"),
        (
            r#"{"larder_trace":1,"kind":"pods"}"#,
            "field `kind`: \"pods\" is not known; there are \"pod-status\" and \"objects\"",
        ),
        (r#"{"larder_trace":1,"kind":"objects"}"#, "field `default_ttl` is missing"),
        (
            r#"{"larder_trace":1,"kind":"objects","default_ttl":60}"#,
            "field `default_ttl` is a number, not a duration such as \"60s\"",
        ),
        (
            r#"{"larder_trace":1,"kind":"objects","default_ttl":"soon"}"#,
            "field `default_ttl`: \"soon\" is not a duration; write one such as \"1m30s\"",
        ),
        (r#"{"larder_trace":1,"kind":"pod-status","evented":"yes"}"#, "field `evented` is a string, not true or false"),
        (r#"{"larder_trace":1,"larder_trace":1,"kind":"pod-status"}"#, "field `larder_trace` stands there twice"),
        ("\u{feff}{\"larder_trace\":1,\"kind\":\"pod-status\"}", "bad JSON at byte 1: expected value"),
    ];
    for (text, expected) in table {
        let error = Trace::parse(text.as_bytes()).expect_err(text);
        assert_eq!(error.to_string(), format!("line 1: {expected}"), "{text}");
    }
}

#[test]
fn bytes_that_are_no_utf8_are_named() {
    let trace = [POD_STATUS.as_bytes(), b"\n{\"op\":\"get\",\"uid\":\"\xff\"}\n"].concat();
    let error = Trace::parse(&trace[..]).expect_err("not UTF-8");
    assert_eq!(error.to_string(), "line 2: not UTF-8 at byte 20");
}

#[test]
fn what_is_allowed_is_read() {
    let table = [
        // Spaces, the end of a line as on Windows, and any order of the fields.
        (POD_STATUS, " { \"uid\" : \"u\" , \"op\" : \"get\" } \r", r#"{"op":"get","uid":"u"}"#),
        // Unknown fields, whatever they hold; fields that only other operations have.
        (POD_STATUS, r#"{"op":"get","uid":"u","x":{"y":[1,{}]},"t":"late","ns":null}"#, r#"{"op":"get","uid":"u"}"#),
        // Names of fields are JSON strings.
        (POD_STATUS, r#"{"\u006fp":"g\u0065t","uid":"\ud83e\udd80"}"#, r#"{"op":"get","uid":"🦀"}"#),
        (POD_STATUS, r#"{"op":"get","uid":""}"#, r#"{"op":"get","uid":""}"#),
        (POD_STATUS, r#"{"op":"update_time","t":-0}"#, r#"{"op":"update_time","t":0}"#),
        (
            POD_STATUS,
            r#"{"op":"update_time","t":-9223372036854775808}"#,
            r#"{"op":"update_time","t":-9223372036854775808}"#,
        ),
        // A field that may be absent may also be null.
        (
            POD_STATUS,
            r#"{"op":"set","uid":"u","status":null,"error":null,"t":1}"#,
            r#"{"op":"set","status":null,"t":1,"uid":"u"}"#,
        ),
        (OBJECTS, r#"{"op":"node_ttl","value":null}"#, r#"{"op":"node_ttl","value":null}"#),
        (
            OBJECTS,
            r#"{"op":"unregister","ns":"a","name":"p","uid":"u","refs":null}"#,
            r#"{"name":"p","ns":"a","op":"unregister","uid":"u"}"#,
        ),
        (
            OBJECTS,
            r#"{"op":"unregister","ns":"a","name":"p","uid":"u","refs":[]}"#,
            r#"{"name":"p","ns":"a","op":"unregister","refs":[],"uid":"u"}"#,
        ),
        (OBJECTS, r#"{"op":"advance","by":"1h0.5m"}"#, r#"{"by":"1h0.5m","op":"advance"}"#),
    ];
    for (header, line, expected) in table {
        let trace =
            Trace::parse(format!("{header}\n{line}").as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(trace.ops.len(), 1);
        assert_eq!(trace.ops[0].to_string(), expected);
    }
}

#[test]
fn a_header_may_hold_more_than_it_needs() {
    let table = [
        (
            r#"{"larder_trace":1,"kind":"pod-status","evented":null,"default_ttl":7}"#,
            Header::PodStatus { evented: false },
        ),
        (r#"{"larder_trace":1,"kind":"pod-status","evented":true,"by":"hand"}"#, Header::PodStatus { evented: true }),
        (
            r#"{"larder_trace":1,"kind":"objects","evented":"x","default_ttl":"-5ns"}"#,
            Header::Objects { default_ttl: GoDuration::from_nanos(-5) },
        ),
    ];
    for (line, expected) in table {
        assert_eq!(header(line.as_bytes()), Ok(expected), "{line}");
    }
}

#[test]
fn every_field_has_its_own_place() {
    for (place, (field, name)) in Field::ALL.into_iter().enumerate() {
        assert_eq!(field as usize, place, "{name}");
        assert_eq!(field.name(), name);
        assert_eq!(Field::named(name).map(|field| field as usize), Some(place));
    }
    assert!(Field::named("other").is_none());
}
