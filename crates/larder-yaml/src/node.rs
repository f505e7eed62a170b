//! The tree of a document.

use crate::mistake::{Mistake, Place};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt;
use zeroize::Zeroizing;

/// A value and its place.
#[derive(Clone)]
pub struct Node {
    /// What it is.
    pub value: Value,
    /// Where it begins.
    pub place: Place,
}

/// What JSON can say. Numbers are apart by what Go makes of them.
#[derive(Clone)]
#[expect(missing_docs, reason = "the variants are JSON's")]
pub enum Value {
    Null,
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number above the signed ones.
    UInt(u64),
    /// A number that no field for whole numbers takes.
    Float(f64),
    String(Zeroizing<String>),
    List(Vec<Node>),
    Map(BTreeMap<String, Node>),
}

impl Value {
    /// The kind of the value, for a message.
    pub(crate) fn in_words(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::UInt(_) | Self::Float(_) => "a number",
            Self::String(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

impl Node {
    /// Decodes the node as Go's JSON does; see the crate's documentation.
    ///
    /// # Errors
    ///
    /// The first field whose value has the wrong type.
    ///
    /// ```
    /// let labels = larder_yaml::yaml("app: web\nnode-role.kubernetes.io/master:\n")?;
    /// let labels: std::collections::BTreeMap<String, String> = labels.decode()?;
    /// assert_eq!(labels["node-role.kubernetes.io/master"], "");
    /// # Ok::<(), larder_yaml::Mistake>(())
    /// ```
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Mistake> {
        T::deserialize(self).map_err(|mistake| mistake.or_at(self.place))
    }

    /// The text of `kind` or `apiVersion`, whose names alone are read in any case; empty where it is missing.
    ///
    /// # Errors
    ///
    /// Where the node is not a map, or the field is not a string.
    ///
    /// ```
    /// assert_eq!(larder_yaml::yaml("Kind: Pod")?.head("kind")?, "Pod");
    /// # Ok::<(), larder_yaml::Mistake>(())
    /// ```
    pub fn head(&self, name: &str) -> Result<String, Mistake> {
        let fields = match &self.value {
            Value::Map(fields) => fields,
            Value::Null => return Ok(String::new()),
            _ => return Err(self.mistake("", "it is not a map of fields")),
        };
        let mut text = String::new();
        for (key, value) in fields.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name)) {
            if !matches!(value.value, Value::Null) {
                text = value.decode().map_err(|mistake| mistake.under(key))?;
            }
        }
        Ok(text)
    }

    /// A mistake of this node, at the path of a field.
    pub fn mistake(&self, path: &str, problem: impl Into<std::borrow::Cow<'static, str>>) -> Mistake {
        Mistake::at(self.place, problem).under(path)
    }

    /// The value of a key, where the node is a map that has the key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(fields) => fields.get(key),
            _ => None,
        }
    }

    /// The text, where the node is a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// How many values it has in all, and how many bytes of text.
    pub(crate) fn weight(&self) -> (usize, usize) {
        let add = |(nodes, bytes): (usize, usize), (more, text): (usize, usize)| (nodes + more, bytes + text);
        match &self.value {
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_) => (1, 0),
            Value::String(text) => (1, text.len()),
            Value::List(items) => items.iter().map(Self::weight).fold((1, 0), add),
            Value::Map(fields) => fields.iter().map(|(key, node)| add((1, key.len()), node.weight())).fold((1, 0), add),
        }
    }
}

impl fmt::Debug for Node {
    /// Shows the kind and the place, never the value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.value.in_words(), self.place)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.in_words())
    }
}
