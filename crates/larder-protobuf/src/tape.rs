//! JSON as a row of tokens, which say where the values stand. No value is copied.

use crate::error::{Fault, Problem};
use std::borrow::Cow;
use std::ops::Deref;
use zeroize::Zeroizing;

/// How deep JSON may be nested; Go's reader has the same bound.
const MOST_LEVELS: usize = 10_000;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// Behind it are its keys, each before its value.
    Object,
    Array,
    /// A string that reads as it stands.
    Text,
    EscapedText,
    Number,
    True,
    False,
    Null,
}

/// A value, or the key of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    /// Where it stands in the text, a string without its quotes.
    start: u32,
    end: u32,
    /// The token behind it and all that is in it.
    pub(crate) next: u32,
}

impl Token {
    pub(crate) fn start(&self) -> usize {
        self.start as usize
    }
}

/// The tokens of a text of JSON.
pub(crate) struct Tape<'a> {
    pub(crate) text: &'a str,
    tokens: Vec<Token>,
}

enum Expect {
    Value,
    FirstKey,
    Key,
    FirstElement,
    Separator,
}

impl<'a> Tape<'a> {
    /// Reads a text that is one value.
    pub(crate) fn parse(json: &'a [u8]) -> Result<Self, Fault> {
        let text = std::str::from_utf8(json).map_err(|error| Fault::new(Problem::Utf8, error.valid_up_to()))?;
        if u32::try_from(text.len()).is_err() {
            return Err(Fault::new(Problem::Size, 0));
        }
        let mut reader =
            Reader { bytes: text.as_bytes(), at: 0, tokens: Vec::with_capacity(text.len() / 16), open: Vec::new() };
        reader.read()?;
        Ok(Self { text, tokens: reader.tokens })
    }

    /// The token at a place.
    pub(crate) fn token(&self, at: u32) -> Token {
        // Places come out of the tape itself; were one wrong, `null` is the harmless answer.
        const NULL: Token = Token { kind: TokenKind::Null, start: 0, end: 0, next: u32::MAX };
        self.tokens.get(at as usize).copied().unwrap_or(NULL)
    }

    /// The places of what is in an array, or of the keys and values of an object.
    pub(crate) fn children(&self, at: u32) -> impl Iterator<Item = u32> + use<'_, 'a> {
        let end = self.token(at).next;
        let mut next = at.saturating_add(1);
        std::iter::from_fn(move || {
            let current = next;
            if current >= end {
                return None;
            }
            next = self.token(current).next;
            Some(current)
        })
    }

    /// How a token stands in the text, a string without its quotes.
    pub(crate) fn literal(&self, token: Token) -> &'a str {
        self.text.get(token.start as usize..token.end as usize).unwrap_or_default()
    }

    /// A string; none if the token is something else.
    pub(crate) fn string(&self, token: Token) -> Option<Text<'a>> {
        match token.kind {
            TokenKind::Text => Some(Text::Borrowed(self.literal(token))),
            TokenKind::EscapedText => Some(Text::Owned(unescape(self.literal(token)))),
            TokenKind::Object
            | TokenKind::Array
            | TokenKind::Number
            | TokenKind::True
            | TokenKind::False
            | TokenKind::Null => None,
        }
    }
}

/// A string of JSON. A copy is overwritten when it is dropped.
pub(crate) enum Text<'a> {
    Borrowed(&'a str),
    Owned(Zeroizing<String>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Owned(text) => text,
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    tokens: Vec<Token>,
    /// The objects and arrays that are open.
    open: Vec<u32>,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<(), Fault> {
        let mut expect = Expect::Value;
        loop {
            self.skip_space();
            let byte = self.peek();
            expect = match expect {
                Expect::FirstKey if byte == Some(b'}') => self.close(),
                Expect::FirstElement if byte == Some(b']') => self.close(),
                Expect::FirstKey | Expect::Key => self.key()?,
                Expect::Value | Expect::FirstElement => self.value()?,
                Expect::Separator => match (self.opened(), byte) {
                    (None, None) => return Ok(()),
                    (None, Some(_)) => return Err(self.broken("there is more behind the value")),
                    (Some(TokenKind::Object), Some(b',')) => self.pass(Expect::Key),
                    (Some(TokenKind::Array), Some(b',')) => self.pass(Expect::Value),
                    (Some(TokenKind::Object), Some(b'}')) | (Some(TokenKind::Array), Some(b']')) => self.close(),
                    (Some(_), _) => return Err(self.broken("a comma or an end is missing")),
                },
            };
        }
    }

    fn opened(&self) -> Option<TokenKind> {
        let last = *self.open.last()?;
        self.tokens.get(last as usize).map(|token| token.kind)
    }

    fn pass(&mut self, then: Expect) -> Expect {
        self.at += 1;
        then
    }

    fn close(&mut self) -> Expect {
        self.at += 1;
        let (end, next) = (short(self.at), short(self.tokens.len()));
        let opened = self.open.pop().and_then(|at| self.tokens.get_mut(at as usize));
        if let Some(token) = opened {
            (token.end, token.next) = (end, next);
        }
        Expect::Separator
    }

    fn key(&mut self) -> Result<Expect, Fault> {
        if self.peek() != Some(b'"') {
            return Err(self.broken("a key is missing"));
        }
        self.string()?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.broken("a colon is missing"));
        }
        Ok(self.pass(Expect::Value))
    }

    fn value(&mut self) -> Result<Expect, Fault> {
        match self.peek() {
            Some(b'{') => self.open(TokenKind::Object, Expect::FirstKey),
            Some(b'[') => self.open(TokenKind::Array, Expect::FirstElement),
            Some(b'"') => self.string().map(|()| Expect::Separator),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", TokenKind::True),
            Some(b'f') => self.word("false", TokenKind::False),
            Some(b'n') => self.word("null", TokenKind::Null),
            Some(_) => Err(self.broken("a value is missing")),
            None => Err(self.fault(Problem::Truncated)),
        }
    }

    fn open(&mut self, kind: TokenKind, then: Expect) -> Result<Expect, Fault> {
        if self.open.len() >= MOST_LEVELS {
            return Err(self.fault(Problem::Depth(MOST_LEVELS)));
        }
        self.open.push(short(self.tokens.len()));
        self.token(kind, self.at, self.at);
        self.at += 1;
        Ok(then)
    }

    fn word(&mut self, word: &str, kind: TokenKind) -> Result<Expect, Fault> {
        let end = self.at + word.len();
        if self.bytes.get(self.at..end) != Some(word.as_bytes()) {
            return Err(self.broken("a value is missing"));
        }
        self.token(kind, self.at, end);
        self.at = end;
        Ok(Expect::Separator)
    }

    fn number(&mut self) -> Result<Expect, Fault> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        self.token(TokenKind::Number, start, self.at);
        Ok(Expect::Separator)
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        match rest.iter().take_while(|byte| byte.is_ascii_digit()).count() {
            0 => Err(self.broken("a digit is missing")),
            count => {
                self.at += count;
                Ok(())
            }
        }
    }

    fn string(&mut self) -> Result<(), Fault> {
        let start = self.at + 1;
        self.at = start;
        let mut kind = TokenKind::Text;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    kind = TokenKind::EscapedText;
                    self.at += self.escape()?;
                }
                Some(0..=0x1f) => return Err(self.broken("a string has a control character")),
                Some(_) => self.at += 1,
                None => return Err(self.fault(Problem::Truncated)),
            }
        }
        self.token(kind, start, self.at);
        self.at += 1;
        Ok(())
    }

    /// How long the escape is that stands here.
    fn escape(&self) -> Result<usize, Fault> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(2),
            Some(b'u') => match self.bytes.get(self.at + 2..self.at + 6) {
                Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => Ok(6),
                _ => Err(self.broken("an escape is wrong")),
            },
            _ => Err(self.broken("an escape is wrong")),
        }
    }

    fn token(&mut self, kind: TokenKind, start: usize, end: usize) {
        let next = short(self.tokens.len() + 1);
        self.tokens.push(Token { kind, start: short(start), end: short(end), next });
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn broken(&self, what: &'static str) -> Fault {
        self.fault(if self.at >= self.bytes.len() { Problem::Truncated } else { Problem::Syntax(what) })
    }

    fn fault(&self, problem: Problem) -> Fault {
        Fault::new(problem, self.at)
    }
}

/// A place in a text that is known to have less than 4 GiB.
fn short(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// The string that stands there with escapes, which are known to be right. Half a surrogate pair becomes U+FFFD, as in Go.
fn unescape(literal: &str) -> Zeroizing<String> {
    // No escape is shorter than what it means, so the string does not grow, and leaves no copy behind.
    let mut text = Zeroizing::new(String::with_capacity(literal.len()));
    let mut rest = literal;
    while let Some((before, escape)) = rest.split_once('\\') {
        text.push_str(before);
        let mut characters = escape.chars();
        let character = match characters.next() {
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => {
                let (character, len) = unicode(escape);
                text.push(character);
                rest = escape.get(len..).unwrap_or_default();
                continue;
            }
            Some(itself) => itself,
            None => break,
        };
        text.push(character);
        rest = characters.as_str();
    }
    text.push_str(rest);
    text
}

/// The character of an escape that begins with `u`, and how long the escape is without its backslash.
fn unicode(escape: &str) -> (char, usize) {
    let unit = |from: usize| u32::from_str_radix(escape.get(from..from + 4)?, 16).ok();
    let first = unit(1).unwrap_or_default();
    if let Some(character) = char::from_u32(first) {
        return (character, 5);
    }
    // A surrogate.
    let second = if escape.get(5..7) == Some("\\u") { unit(7) } else { None };
    match second {
        Some(second @ 0xdc00..=0xdfff) if first < 0xdc00 => {
            let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 11)
        }
        _ => (char::REPLACEMENT_CHARACTER, 5),
    }
}

/// Checks that these bytes are one value of JSON.
pub(crate) fn check(json: &[u8]) -> Result<(), Fault> {
    Tape::parse(json).map(drop)
}

/// A name that is compared, and never held.
pub(crate) fn name<'a>(tape: &Tape<'a>, key: Token) -> Cow<'a, str> {
    match tape.string(key) {
        Some(Text::Borrowed(text)) => Cow::Borrowed(text),
        Some(Text::Owned(text)) => Cow::Owned(text.to_string()),
        None => Cow::Borrowed(""),
    }
}

#[cfg(test)]
mod tests {
    use super::TokenKind::{Array, Number, Text, True};
    use super::*;

    #[test]
    fn tokens_say_where_values_stand() {
        let tape = Tape::parse(br#" {"a": [1, {"b": null}, "x\ny"], "c": -0.5e+3 , "d":true} "#).unwrap();
        let kinds: Vec<TokenKind> = tape.children(0).map(|at| tape.token(at).kind).collect();
        assert_eq!(kinds, [Text, Array, Text, Number, Text, True]);
        let array = tape.children(0).nth(1).unwrap();
        let elements: Vec<&str> = tape.children(array).map(|at| tape.literal(tape.token(at))).collect();
        assert_eq!(elements, ["1", "{\"b\": null}", "x\\ny"]);
        let last = tape.children(array).last().unwrap();
        assert_eq!(&*tape.string(tape.token(last)).unwrap(), "x\ny");
    }

    #[test]
    fn what_serde_json_takes_is_taken() {
        for text in [
            "",
            " ",
            "{",
            "}",
            "[",
            "[1",
            "[1,",
            "[1,]",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,}",
            "{a:1}",
            "1 2",
            "01",
            "-",
            "1.",
            "1e",
            "1e+",
            ".5",
            "nul",
            "nulll",
            "truefalse",
            "\"",
            "\"\\",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "\"\u{1}\"",
            "[1}",
            "{\"a\" 1}",
            "[1 2]",
            "null",
            "[]",
            "{}",
            "[[],{}]",
            "0",
            "-1.5E-7",
            "\"\\ud83d\\ude00\"",
            "[,1]",
            "{,}",
            "\u{a0}1",
        ] {
            let ours = Tape::parse(text.as_bytes()).is_ok();
            assert_eq!(ours, serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text:?}");
        }
        assert!(Tape::parse(b"\"\xff\"").is_err());
    }

    #[test]
    fn escapes_are_read_as_in_go() {
        for (literal, expected) in [
            (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r"\u0041\u00e4", "Aä"),
            (r"\ud83d\ude00!", "😀!"),
            (r"\ud83d", "\u{fffd}"),
            (r"\ud83dx\ude00", "\u{fffd}x\u{fffd}"),
            (r"\ud83d\u0041", "\u{fffd}A"),
            (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
        ] {
            assert_eq!(&*unescape(literal), expected, "{literal}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |levels: usize| [b"[".repeat(levels), b"]".repeat(levels)].concat();
        assert!(Tape::parse(&deep(MOST_LEVELS)).is_ok());
        let fault = Tape::parse(&deep(MOST_LEVELS + 1)).err().unwrap();
        assert_eq!((fault.problem, fault.byte), (Problem::Depth(MOST_LEVELS), MOST_LEVELS));
    }
}
