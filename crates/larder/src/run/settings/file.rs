//! The file of `--config`: YAML with one key for each setting. larder reads it, and `--print-config` writes one. What cannot be
//! used is told with its line and column.

use super::setting::Setting;
use super::table::SETTINGS;
use super::{Origin, Settings};
use crate::output;
use anyhow::{Context as _, bail};
use larder_file::open_regular;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_saphyr::{Error, Location, Spanned};
use std::fmt;
use std::io::{self, Read as _};
use std::path::Path;

/// A file of settings is far smaller; one that is not is something else.
const LARGEST_FILE: u64 = 1 << 20;
/// The most characters that are quoted of a value.
const LONGEST_QUOTE: usize = 60;

/// Sets what a file sets.
pub(super) fn read(settings: &mut Settings, path: &Path) -> anyhow::Result<()> {
    let read = || {
        let mut text = String::new();
        open_regular(path)?.take(LARGEST_FILE + 1).read_to_string(&mut text)?;
        Ok::<_, io::Error>(text)
    };
    let text = read().with_context(|| format!("cannot read the settings in {} (--config)", path.display()))?;
    let is_small = text.len() as u64 <= LARGEST_FILE;
    anyhow::ensure!(is_small, "{}: this file is too large for settings (--config)", path.display());
    parse(settings, &path.display().to_string(), &text)
}

/// Sets what the text of a file sets.
pub(super) fn parse(settings: &mut Settings, path: &str, text: &str) -> anyhow::Result<()> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(());
    }
    let file = File { path, text };
    let options = serde_saphyr::options! { strict_booleans: true };
    let content: Spanned<Node> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| file.not_yaml(error.without_snippet()))?;
    match content.value {
        Node::Section(children) => file.read(settings, "", &children),
        // It may be any file, with a token in it: it is not quoted.
        _ => {
            bail!("{}: this is not a list of settings: write NAME: VALUE, one per line", file.place(content.referenced))
        }
    }
}

/// Writes all settings as a file sets them.
pub(super) fn write(settings: &Settings) -> anyhow::Result<Vec<u8>> {
    output::yaml_of(&Section(settings, "")).context("cannot write the settings as YAML")
}

struct File<'a> {
    path: &'a str,
    text: &'a str,
}

impl File<'_> {
    fn place(&self, at: Location) -> String {
        format!("{}:{}:{}", self.path, at.line(), at.column())
    }

    /// Reads a section; the file itself is the section without a name.
    fn read(
        &self,
        settings: &mut Settings,
        section: &str,
        children: &[(Spanned<String>, Spanned<Node>)],
    ) -> anyhow::Result<()> {
        for (name, node) in children {
            let key = key_of(section, &name.value);
            let place = self.place(node.referenced);
            let found = Found { node: &node.value, written: self.written(node.defined) };
            if let Some(setting) = find(&key) {
                if !setting.read(settings, &found) {
                    bail!("{place}: {key}: {found} is not {}", setting.allowed());
                }
                settings.origins.insert(key, Origin::File(place));
                continue;
            }
            let names_in = names(&key);
            match found.node {
                _ if names_in.is_empty() => bail!(
                    "{}: unknown setting {:?}: the settings here are {}",
                    self.place(name.referenced),
                    name.value,
                    names(section).join(", ")
                ),
                Node::Section(children) => self.read(settings, &key, children)?,
                _ => bail!(
                    "{place}: {key}: {found} is not a section: write its settings under it, such as {}",
                    names_in.join(", ")
                ),
            }
        }
        Ok(())
    }

    /// A value as the file has it.
    fn written(&self, at: Location) -> &str {
        let range = || {
            let start = usize::try_from(at.span().byte_offset()?).ok()?;
            self.text.get(start..start.checked_add(usize::try_from(at.span().byte_len()?).ok()?)?)
        };
        range().unwrap_or_default()
    }

    /// What keeps a text from being YAML.
    fn not_yaml(&self, error: &Error) -> anyhow::Error {
        let what = match error {
            Error::DuplicateMappingKey { key: Some(key), .. } => format!("{key} is set twice: remove one of them"),
            Error::MultipleDocuments { .. } => "a second document begins here: write all settings in one".to_owned(),
            Error::UnknownAnchor { .. } => {
                "this alias (*) has no anchor (&): put text with special characters in quotes".to_owned()
            }
            Error::Budget { .. } => "this is too large or too deeply nested for settings".to_owned(),
            _ => "this is not YAML: put text with special characters in quotes, close quotes and brackets, and indent \
                  with spaces"
                .to_owned(),
        };
        let place = error.location().map_or_else(|| self.path.to_owned(), |at| self.place(at));
        anyhow::anyhow!("{place}: {what}")
    }
}

/// What a file has for a setting.
pub(super) struct Found<'a> {
    node: &'a Node,
    written: &'a str,
}

impl<'a> Found<'a> {
    pub(super) fn is_nothing(&self) -> bool {
        matches!(self.node, Node::Nothing)
    }

    /// A text. What YAML takes for a number or a truth value is one, too: `nodeName: 007`.
    pub(super) fn text(&self) -> Option<&'a str> {
        match self.node {
            Node::Text(text) => Some(text),
            Node::Number(_) | Node::Bool => Some(self.written),
            Node::Nothing | Node::List(_) | Node::Section(_) => None,
        }
    }

    /// A whole number, in quotes or not.
    pub(super) fn number(&self) -> Option<u64> {
        match self.node {
            Node::Number(number) => *number,
            _ => self.text()?.parse().ok(),
        }
    }

    /// A list of texts. Whole numbers are texts, too: `adminGroups: [2002]`.
    pub(super) fn texts(&self) -> Option<Vec<String>> {
        let Node::List(items) = self.node else { return None };
        let text = |item: &Node| match item {
            Node::Text(text) => Some(text.clone()),
            Node::Number(number) => number.map(|number| number.to_string()),
            Node::Nothing | Node::Bool | Node::List(_) | Node::Section(_) => None,
        };
        items.iter().map(text).collect()
    }
}

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A longer one would hide what is told of it.
        let quote = |text: &str| text.chars().take(LONGEST_QUOTE).collect::<String>();
        let more = |text: &str| if text.chars().nth(LONGEST_QUOTE).is_some() { "…" } else { "" };
        match self.node {
            Node::Nothing => f.write_str("an empty value"),
            Node::Text(text) => write!(f, "{:?}{}", quote(text), more(text)),
            Node::Number(_) | Node::Bool => write!(f, "{}{}", quote(self.written), more(self.written)),
            Node::List(_) => f.write_str("a list"),
            Node::Section(_) => f.write_str("a section"),
        }
    }
}

/// Whatever stands in a file.
enum Node {
    Nothing,
    Bool,
    /// `None` if it is negative, or not whole.
    Number(Option<u64>),
    Text(String),
    List(Vec<Node>),
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

    fn visit_bool<E>(self, _value: bool) -> Result<Node, E> {
        Ok(Node::Bool)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Number(value.try_into().ok()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Node, E> {
        Ok(Node::Number(value.try_into().ok()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(Some(value)))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Node, E> {
        Ok(Node::Number(value.try_into().ok()))
    }

    fn visit_f64<E>(self, _value: f64) -> Result<Node, E> {
        Ok(Node::Number(None))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut section: A) -> Result<Node, A::Error> {
        let mut children = Vec::new();
        while let Some(child) = section.next_entry()? {
            children.push(child);
        }
        Ok(Node::Section(children))
    }
}

/// The settings of a section, as a file has them.
struct Section<'a>(&'a Settings, &'a str);

impl Serialize for Section<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(settings, section) = self;
        let mut map = serializer.serialize_map(None)?;
        for name in names(section) {
            let key = key_of(section, &name);
            match find(&key) {
                None => map.serialize_entry(&name, &Section(settings, &key))?,
                Some(setting) => {
                    if let Some(value) = setting.value(settings) {
                        map.serialize_entry(&name, &value)?;
                    }
                }
            }
        }
        map.end()
    }
}

/// The setting with that key.
fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key() == key)
}

/// The key of what has that name in a section; the file itself is the section without a name.
fn key_of(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

/// The names in a section, in order.
fn names(section: &str) -> Vec<String> {
    let name = |setting: &Setting| {
        let key = setting.key();
        let name = key.strip_prefix(&key_of(section, ""))?;
        name.split('.').next().map(str::to_owned)
    };
    let mut names: Vec<String> = SETTINGS.iter().filter_map(name).collect();
    names.dedup();
    names
}
