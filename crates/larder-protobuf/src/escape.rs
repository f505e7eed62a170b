//! Strings of JSON as Go's `encoding/json` writes them, with the escapes for HTML.

use crate::output::Output;

/// How a byte is escaped: not at all, with the letter, as `\u00xx`, or perhaps as the first byte of U+2028 or U+2029.
const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = b'u';
        byte += 1;
    }
    table[0x08] = b'b';
    table[0x0c] = b'f';
    table[b'\n' as usize] = b'n';
    table[b'\r' as usize] = b'r';
    table[b'\t' as usize] = b't';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[b'<' as usize] = b'u';
    table[b'>' as usize] = b'u';
    table[b'&' as usize] = b'u';
    table[0xe2] = 0xe2;
    table
};

/// The string of these bytes. Each byte that is not of UTF-8 becomes U+FFFD.
pub(crate) fn string(out: &mut Output, bytes: &[u8]) {
    out.byte(b'"');
    if std::str::from_utf8(bytes).is_ok() {
        escaped(out, bytes);
    } else {
        for chunk in bytes.utf8_chunks() {
            escaped(out, chunk.valid().as_bytes());
            for _ in chunk.invalid() {
                out.put(b"\\ufffd");
            }
        }
    }
    out.byte(b'"');
}

/// JSON without the space between its values, and with the escapes for HTML, as Go compacts what a type has written.
pub(crate) fn compact(out: &mut Output, json: &[u8]) {
    let (mut in_string, mut after_backslash) = (false, false);
    let mut copied = 0;
    for (at, &byte) in json.iter().enumerate() {
        let copy = |out: &mut Output| out.put(json.get(copied..at).unwrap_or_default());
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' if !in_string => {
                copy(out);
                copied = at + 1;
            }
            b'<' | b'>' | b'&' => {
                copy(out);
                unicode(out, u32::from(byte));
                copied = at + 1;
            }
            0xe2 => {
                if let Some(separator) = line_separator(json, at) {
                    copy(out);
                    unicode(out, separator);
                    copied = at + 3;
                }
            }
            b'"' if !after_backslash => in_string = !in_string,
            _ => {}
        }
        after_backslash = byte == b'\\' && !after_backslash;
    }
    out.put(json.get(copied..).unwrap_or_default());
}

fn escaped(out: &mut Output, bytes: &[u8]) {
    let mut copied = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let escape = ESCAPES[usize::from(byte)];
        if escape == 0 {
            continue;
        }
        let separator = line_separator(bytes, at);
        if escape == 0xe2 && separator.is_none() {
            continue;
        }
        out.put(bytes.get(copied..at).unwrap_or_default());
        copied = at + 1;
        match separator {
            Some(separator) => {
                unicode(out, separator);
                copied = at + 3;
            }
            None if escape == b'u' => unicode(out, u32::from(byte)),
            None => out.put(&[b'\\', escape]),
        }
    }
    out.put(bytes.get(copied..).unwrap_or_default());
}

/// U+2028 or U+2029, which JavaScript takes for the end of a line.
fn line_separator(bytes: &[u8], at: usize) -> Option<u32> {
    match bytes.get(at..at + 3)? {
        [0xe2, 0x80, 0xa8] => Some(0x2028),
        [0xe2, 0x80, 0xa9] => Some(0x2029),
        _ => None,
    }
}

fn unicode(out: &mut Output, code: u32) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.put(b"\\u");
    for shift in [12, 8, 4, 0] {
        out.byte(DIGITS[(code >> shift & 0xf) as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(write: fn(&mut Output, &[u8]), text: &[u8], expected: &str) {
        let mut out = Output::with_capacity(0);
        write(&mut out, text);
        assert_eq!(String::from_utf8_lossy(&out.finish()), expected);
    }

    #[test]
    fn strings_are_escaped_as_in_go() {
        check(string, b"", r#""""#);
        check(string, "päß/\u{7f}€".as_bytes(), "\"päß/\u{7f}€\"");
        check(string, b"a\"\\\n\r\t\x08\x0c\x00\x1f<>&", r#""a\"\\\n\r\t\b\f\u0000\u001f\u003c\u003e\u0026""#);
        check(string, "\u{2028}x\u{2029}\u{202a}".as_bytes(), "\"\\u2028x\\u2029\u{202a}\"");
        check(string, b"a\xff\xe2\x82b", r#""a\ufffd\ufffd\ufffdb""#);
    }

    #[test]
    fn json_is_compacted_as_in_go() {
        check(compact, br#" { "a <b" : [ 1 , "x\" y" ] , "c" : "\\" } "#, r#"{"a \u003cb":[1,"x\" y"],"c":"\\"}"#);
        check(compact, "\"\u{2028}\"".as_bytes(), r#""\u2028""#);
    }
}
