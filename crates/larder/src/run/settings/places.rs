//! Where each value of a file of settings stands, by its key: `policy.keepLastKnown`.
//!
//! Settings are read as what they are to be, which forgets where they stood; what is wrong with one of them may only show
//! when all are known. So the file is read once more, as whatever it is.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};
use std::fmt;

/// The most characters that are quoted of a value.
const LONGEST_QUOTE: usize = 60;

/// A line and a column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    line: u64,
    column: u64,
}

impl From<Location> for At {
    fn from(location: Location) -> Self {
        Self { line: location.line(), column: location.column() }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value of the file.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Its key, with that of its section before it; empty for the file as a whole.
    pub(super) key: String,
    /// Where it stands.
    pub(super) at: At,
    /// Where its name stands.
    name_at: At,
    /// What it is, in words; `None` if there is only its name.
    pub(super) found: Option<String>,
}

/// The values of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Vec<Place>);

impl Places {
    pub(super) fn of(file: Spanned<Node>) -> Self {
        let mut places = Self::default();
        places.add(String::new(), file.referenced.into(), file);
        places
    }

    fn add(&mut self, key: String, name_at: At, node: Spanned<Node>) {
        let at = node.referenced.into();
        let (found, children) = match node.value {
            Node::Nothing => (None, Vec::new()),
            Node::Value(found) => (Some(found), Vec::new()),
            Node::Section(children) => (Some("a section".to_owned()), children),
        };
        for (name, child) in children {
            let child_key = if key.is_empty() { name.value } else { format!("{key}.{}", name.value) };
            self.add(child_key, name.referenced.into(), child);
        }
        self.0.push(Place { key, at, name_at, found });
    }

    /// The value with that key.
    pub(super) fn of_key(&self, key: &str) -> Option<&Place> {
        self.0.iter().find(|place| place.key == key)
    }

    /// The value that stands there, or whose name does: a section begins where the first of its settings does, and that
    /// one is meant then, unless what has it in the file is no section of the settings.
    pub(super) fn at(&self, at: At, is_section: impl Fn(&str) -> bool) -> Option<&Place> {
        let is_setting = |key: &str| key.rsplit_once('.').is_none_or(|(section, _)| is_section(section));
        // What is in a section comes before it.
        self.0.iter().find(|place| (place.at == at || place.name_at == at) && is_setting(&place.key))
    }
}

/// Whatever stands in a file.
pub(super) enum Node {
    Nothing,
    Value(String),
    Section(Vec<(Spanned<String>, Spanned<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Value(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Value(value.to_string()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Node, E> {
        Ok(Node::Value(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Value(value.to_string()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Node, E> {
        Ok(Node::Value(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        // `1e3` is 1000.0: without the point, it would be told that 1000 is no whole number.
        Ok(Node::Value(format!("{value:?}")))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        // One that is longer than a line would hide what is told of it.
        let begins: String = value.chars().take(LONGEST_QUOTE).collect();
        let more = if begins.len() < value.len() { "…" } else { "" };
        Ok(Node::Value(format!("{begins:?}{more}")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Node::Value("a list".to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut section: A) -> Result<Node, A::Error> {
        let mut children = Vec::new();
        while let Some(child) = section.next_entry()? {
            children.push(child);
        }
        Ok(Node::Section(children))
    }
}
