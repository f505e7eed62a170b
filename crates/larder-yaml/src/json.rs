//! JSON as Go reads it, with places: of a key that stands twice, maps are put together and anything else is replaced.

use crate::compose::place_of;
use crate::mistake::Mistake;
use crate::node::{Node, Value};
use std::collections::BTreeMap;
use zeroize::Zeroizing;

/// The deepest nesting.
const DEPTH: usize = 255;

pub(crate) fn read(text: &str) -> Result<Node, Mistake> {
    let mut reader = Reader { text, at: 0 };
    let node = reader.node(0)?;
    reader.blanks();
    if reader.at < text.len() { Err(reader.wrong()) } else { Ok(node) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn wrong(&self) -> Mistake {
        let problem = if self.at < self.text.len() { "not valid JSON" } else { "it ends too early" };
        Mistake::at(place_of(self.text, self.at), problem)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Takes the byte where it comes next.
    fn takes(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), Mistake> {
        if self.takes(byte) { Ok(()) } else { Err(self.wrong()) }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, Mistake> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(self.wrong())
        }
    }

    fn node(&mut self, depth: usize) -> Result<Node, Mistake> {
        self.blanks();
        let place = place_of(self.text, self.at);
        if depth > DEPTH {
            return Err(Mistake::at(place, "it is deeper than a manifest can be"));
        }
        let value = match self.peek() {
            Some(b'{') => Value::Map(self.map(depth)?),
            Some(b'[') => Value::List(self.list(depth)?),
            Some(b'"') => Value::String(self.string()?),
            Some(b't') => self.word("true", Value::Bool(true))?,
            Some(b'f') => self.word("false", Value::Bool(false))?,
            Some(b'n') => self.word("null", Value::Null)?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => return Err(self.wrong()),
        };
        Ok(Node { value, place })
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Mistake> {
        self.expect(b'[')?;
        let mut items = Vec::new();
        self.blanks();
        if self.takes(b']') {
            return Ok(items);
        }
        loop {
            items.push(self.node(depth + 1)?);
            self.blanks();
            if self.takes(b']') {
                return Ok(items);
            }
            self.expect(b',')?;
        }
    }

    fn map(&mut self, depth: usize) -> Result<BTreeMap<String, Node>, Mistake> {
        self.expect(b'{')?;
        let mut fields = BTreeMap::new();
        self.blanks();
        if self.takes(b'}') {
            return Ok(fields);
        }
        loop {
            self.blanks();
            let key = std::mem::take(&mut *self.string()?);
            self.blanks();
            self.expect(b':')?;
            let value = self.node(depth + 1)?;
            match fields.get_mut(&key) {
                Some(before) => put_over(before, value),
                None => {
                    fields.insert(key, value);
                }
            }
            self.blanks();
            if self.takes(b'}') {
                return Ok(fields);
            }
            self.expect(b',')?;
        }
    }

    fn number(&mut self) -> Result<Value, Mistake> {
        let start = self.at;
        self.takes(b'-');
        if !self.takes(b'0') {
            self.digits()?;
        }
        let mut whole = true;
        if self.takes(b'.') {
            whole = false;
            self.digits()?;
        }
        if self.takes(b'e') || self.takes(b'E') {
            whole = false;
            let _sign = self.takes(b'+') || self.takes(b'-');
            self.digits()?;
        }
        let text = &self.text[start..self.at];
        if whole && let Ok(number) = text.parse() {
            return Ok(Value::Int(number));
        }
        if whole && let Ok(number) = text.parse() {
            return Ok(Value::UInt(number));
        }
        text.parse().map(Value::Float).map_err(|_| self.wrong())
    }

    fn digits(&mut self) -> Result<(), Mistake> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.wrong()) } else { Ok(()) }
    }

    fn string(&mut self) -> Result<Zeroizing<String>, Mistake> {
        self.expect(b'"')?;
        // Room for all of it: growing would leave copies behind.
        let end = self.text[self.at..].find('"').unwrap_or_default();
        let mut string = Zeroizing::new(String::with_capacity(end));
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(|c: char| c == '"' || c == '\\' || c < ' ').unwrap_or(rest.len());
            string.push_str(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(string);
                }
                Some(b'\\') => string.push(self.escape()?),
                _ => return Err(self.wrong()),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Mistake> {
        self.at += 1;
        let escaped = match self.peek() {
            Some(b'u') => return self.unicode(),
            Some(same @ (b'"' | b'\\' | b'/')) => char::from(same),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            _ => return Err(self.wrong()),
        };
        self.at += 1;
        Ok(escaped)
    }

    /// A character by its number, or two that are the halves of one. Half a character alone is replaced, as Go does.
    fn unicode(&mut self) -> Result<char, Mistake> {
        let first = self.unit()?;
        if let Some(whole) = char::from_u32(first) {
            return Ok(whole);
        }
        let after = self.at;
        if (0xd800..0xdc00).contains(&first) && self.takes(b'\\') && self.peek() == Some(b'u') {
            let second = self.unit()?;
            if (0xdc00..0xe000).contains(&second) {
                let number = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
        }
        self.at = after;
        Ok(char::REPLACEMENT_CHARACTER)
    }

    /// The four digits after `u`.
    fn unit(&mut self) -> Result<u32, Mistake> {
        self.at += 1;
        let digits = self.text.get(self.at..self.at + 4).filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
        let unit = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).ok_or_else(|| self.wrong())?;
        self.at += 4;
        Ok(unit)
    }
}

/// What a key that stands again makes of what it had.
fn put_over(before: &mut Node, again: Node) {
    match (&mut before.value, again.value) {
        (Value::Map(fields), Value::Map(more)) => {
            for (key, value) in more {
                match fields.get_mut(&key) {
                    Some(field) => put_over(field, value),
                    None => {
                        fields.insert(key, value);
                    }
                }
            }
        }
        (before, again) => *before = again,
    }
}
