//! From the events of a YAML parser to a tree: anchors, aliases, merges and keys as the reader of Kubernetes' tools has them.

use crate::format;
use crate::mistake::{Mistake, Place};
use crate::node::{Node, Value};
use crate::scalar::{TAGS, resolve, through_json};
use base64::Engine as _;
use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, Tag};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use zeroize::Zeroizing;

/// The deepest nesting. The parser counts both styles apart.
const DEPTH: usize = 255;

/// The text that aliases may repeat in all, in bytes.
const REPEATED: usize = 16 << 20;

/// With `strict`, refuses what would hide a part of the text.
pub(crate) fn compose(text: &str, strict: bool) -> Result<Node, Mistake> {
    if let Some(place) = control_character(text) {
        return Err(Mistake::at(place, "a control character, which YAML does not allow"));
    }
    let options = granit_parser::options! {
        emit_comments: false,
        emit_anchor_events: true,
        block_scalar_eof_without_line_feed: true,
        flow_nesting_limit: DEPTH,
        block_nesting_limit: DEPTH,
    };
    let events = Parser::new_from_str_with_options(text, options);
    let mut composer = Composer { strict, events, anchors: HashMap::new(), values: 0, aliased: 0, repeated: 0 };
    loop {
        match composer.next()? {
            (Event::DocumentStart(..), _) => {
                let document = composer.document()?;
                return if strict { composer.end().map(|()| document) } else { Ok(document) };
            }
            (Event::StreamEnd, span) => return Ok(Node { value: Value::Null, place: place(&span) }),
            _ => {}
        }
    }
}

struct Composer<'a, I: Iterator<Item = Result<(Event<'a>, Span), ScanError>>> {
    strict: bool,
    events: I,
    /// None while its node is not complete, so that one that contains itself is noticed.
    anchors: HashMap<usize, Option<Node>>,
    /// How many values there are, and how many of them came by aliases.
    values: usize,
    aliased: usize,
    /// The text that came by aliases, in bytes.
    repeated: usize,
}

/// A node, and whether it is a plain `<<`.
struct Composed {
    node: Node,
    merges: bool,
}

impl<'a, I: Iterator<Item = Result<(Event<'a>, Span), ScanError>>> Composer<'a, I> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Mistake> {
        loop {
            match self.events.next() {
                Some(Ok((Event::Anchor(_, name), span))) => {
                    // YAML 1.1 has fewer names.
                    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
                        let problem = "an anchor that is not of letters, digits, '-' and '_'";
                        return Err(Mistake::at(place(&span), problem));
                    }
                }
                Some(Ok(next)) => return Ok(next),
                Some(Err(error)) => return Err(scan(&error)),
                None => return Err(Mistake::anywhere("it ends too early")),
            }
        }
    }

    fn document(&mut self) -> Result<Node, Mistake> {
        let (event, span) = self.next()?;
        let root = self.value(event, &span)?;
        match self.next()? {
            (Event::DocumentEnd, _) => finite(&root).map(|()| root),
            (_, span) => Err(Mistake::at(place(&span), "not valid YAML")),
        }
    }

    /// Refuses a second document.
    fn end(&mut self) -> Result<(), Mistake> {
        loop {
            match self.next()? {
                (Event::DocumentStart(..), span) => return Err(Mistake::at(place(&span), "a second document")),
                (Event::StreamEnd, _) => return Ok(()),
                _ => {}
            }
        }
    }

    /// A node that is not a key.
    fn value(&mut self, event: Event<'a>, span: &Span) -> Result<Node, Mistake> {
        let Node { value, place } = self.node(event, span)?.node;
        Ok(Node { value: through_json(value), place })
    }

    fn node(&mut self, event: Event<'a>, span: &Span) -> Result<Composed, Mistake> {
        let place = place(span);
        self.values += 1;
        let (value, anchor, merges) = match event {
            Event::Alias(id) => return self.alias(id, place).map(|node| Composed { node, merges: false }),
            Event::Scalar(text, style, anchor, tag) => {
                let tag = written_out(tag.as_deref());
                let implicit = tag == "!" || (tag.is_empty() && style == ScalarStyle::Plain);
                let merges = text == "<<" && (implicit || tag.strip_prefix(TAGS) == Some("merge"));
                let value = scalar(&tag, implicit, &text).map_err(|problem| Mistake::at(place, problem))?;
                (value, anchor, merges)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.begin(anchor);
                (Value::List(self.list()?), anchor, false)
            }
            Event::MappingStart(_, anchor, _) => {
                self.begin(anchor);
                (Value::Map(self.map()?), anchor, false)
            }
            _ => return Err(Mistake::at(place, "not valid YAML")),
        };
        let node = Node { value, place };
        if anchor != 0 {
            self.anchors.insert(anchor, Some(node.clone()));
        }
        Ok(Composed { node, merges })
    }

    fn begin(&mut self, anchor: usize) {
        if anchor != 0 {
            self.anchors.insert(anchor, None);
        }
    }

    /// A copy of an anchored node, within the limits of expansion that the original reader has.
    fn alias(&mut self, id: usize, place: Place) -> Result<Node, Mistake> {
        let node = match self.anchors.get(&id) {
            Some(Some(node)) => node,
            Some(None) => return Err(Mistake::at(place, "an alias that contains itself")),
            None => return Err(Mistake::at(place, "an alias to an anchor that is not there")),
        };
        let (values, text) = node.weight();
        self.values += values;
        self.aliased += values;
        self.repeated += text;
        #[expect(clippy::cast_precision_loss, reason = "a ratio that is compared to a rough limit")]
        let ratio = self.aliased as f64 / self.values as f64;
        let excessive = self.aliased > 100 && self.values > 1000 && ratio > allowed_ratio(self.values);
        if excessive || self.repeated > REPEATED {
            return Err(Mistake::at(place, "too many aliases"));
        }
        Ok(Node { value: node.value.clone(), place })
    }

    fn list(&mut self) -> Result<Vec<Node>, Mistake> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, span) => items.push(self.value(event, &span)?),
            }
        }
    }

    fn map(&mut self) -> Result<BTreeMap<String, Node>, Mistake> {
        let mut fields = BTreeMap::new();
        loop {
            let (event, span) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(fields),
                key => key,
            };
            let key_place = place(&span);
            let key = self.node(event, &span)?;
            let (event, span) = self.next()?;
            let value = self.value(event, &span)?;
            if key.merges {
                if self.strict {
                    return Err(Mistake::at(key_place, "a merge (<<), which is not allowed here"));
                }
                merge(&mut fields, value)?;
                continue;
            }
            // Of a key that stands twice the last one counts.
            let name = key_text(key.node)?;
            if self.strict && fields.contains_key(&name) {
                return Err(Mistake::at(key_place, "this key stands twice: remove one of them").under(&name));
            }
            fields.insert(name, value);
        }
    }
}

/// Puts the fields of a map, or of a list of maps, among others. The first of a list wins, and a key that follows.
fn merge(fields: &mut BTreeMap<String, Node>, from: Node) -> Result<(), Mistake> {
    const PROBLEM: &str = "a merge of what is not a map";
    match from.value {
        Value::Map(more) => fields.extend(more),
        Value::List(maps) => {
            for map in maps.into_iter().rev() {
                match map.value {
                    Value::Map(more) => fields.extend(more),
                    _ => return Err(Mistake::at(map.place, PROBLEM)),
                }
            }
        }
        _ => return Err(Mistake::at(from.place, PROBLEM)),
    }
    Ok(())
}

/// The key of a map as JSON has it.
fn key_text(key: Node) -> Result<String, Mistake> {
    match key.value {
        Value::String(mut text) => Ok(std::mem::take(&mut *text)),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Int(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(format::float_key(number)),
        Value::Null | Value::UInt(_) | Value::List(_) | Value::Map(_) => {
            Err(Mistake::at(key.place, "a key that is not a string"))
        }
    }
}

fn scalar(tag: &str, implicit: bool, text: &str) -> Result<Value, &'static str> {
    if tag.is_empty() && !implicit {
        return Ok(Value::String(Zeroizing::new(text.to_owned())));
    }
    if tag.strip_prefix(TAGS) == Some("binary") {
        let decoded = crate::bytes::GO.decode(crate::bytes::without_breaks(text).as_bytes());
        let bytes = decoded.map_err(|_| "binary data that is not base64")?;
        return Ok(Value::String(Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned())));
    }
    resolve(tag, text)
}

/// Refuses numbers that JSON does not have, where they are left of what stood there.
fn finite(node: &Node) -> Result<(), Mistake> {
    match &node.value {
        Value::Float(number) if !number.is_finite() => Err(Mistake::at(node.place, "a number that JSON does not have")),
        Value::List(items) => items.iter().try_for_each(finite),
        Value::Map(fields) => fields.values().try_for_each(finite),
        _ => Ok(()),
    }
}

/// A tag without its short form.
fn written_out(tag: Option<&Tag>) -> Cow<'static, str> {
    match tag {
        None => Cow::Borrowed(""),
        Some(tag) => Cow::Owned(format!("{}{}", tag.handle(), tag.suffix())),
    }
}

/// The share of values that may come by aliases: nearly all in a small document, a tenth in a very large one.
fn allowed_ratio(values: usize) -> f64 {
    const LOW: usize = 400_000;
    const HIGH: usize = 4_000_000;
    #[expect(clippy::cast_precision_loss, reason = "both are small")]
    let scale = |values: usize| (values - LOW) as f64 / (HIGH - LOW) as f64;
    match values {
        ..=LOW => 0.99,
        HIGH.. => 0.10,
        between => 0.99 - 0.89 * scale(between),
    }
}

fn place(span: &Span) -> Place {
    Place { line: span.start.line().max(1), column: span.start.col() + 1 }
}

/// What is wrong with the YAML. The parser's own words can quote the text.
fn scan(error: &ScanError) -> Mistake {
    let marker = error.marker();
    let place = Place { line: marker.line().max(1), column: marker.col() + 1 };
    let problem = match error.kind() {
        ErrorKind::UnknownAnchor => "an alias to an anchor that is not there",
        ErrorKind::RecursionLimitExceeded => "it is deeper than a manifest can be",
        _ => "not valid YAML",
    };
    Mistake::at(place, problem)
}

/// The first character that YAML allows nowhere.
fn control_character(text: &str) -> Option<Place> {
    let is_allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}');
    let (at, _) = text.char_indices().find(|(_, c)| !is_allowed(*c))?;
    Some(place_of(text, at))
}

/// The place of a byte of a text.
pub(crate) fn place_of(text: &str, at: usize) -> Place {
    let before = text.get(..at).unwrap_or(text);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    Place { line, column }
}
