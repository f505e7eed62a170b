//! From a file's text to objects, each document on its own.

use crate::object::{Manifest, ManifestKind};
use larder_yaml::{Mistake as Wrong, Node, Value, yaml_or_json};

/// What a document gave: an object, or what is wrong with it.
pub(crate) struct Found {
    /// From 1, blank documents not counted.
    pub(crate) document: usize,
    /// In the file, from 1.
    pub(crate) line: usize,
    /// Of a mistake, from 1, where it is known.
    pub(crate) column: Option<usize>,
    pub(crate) result: Result<Manifest, Mistake>,
}

/// What is wrong with a document or an item.
pub(crate) struct Mistake {
    pub(crate) problem: String,
    pub(crate) hides: Hides,
}

/// What is to say of the kinds of object that a document or a file that cannot be read may have.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Hides<T = bool> {
    /// A Secret or a ConfigMap.
    pub(crate) objects: T,
    /// A pod.
    pub(crate) pods: T,
}

impl Mistake {
    fn of(kind: &str, problem: String) -> Self {
        let hides = Hides { objects: kind != "Pod", pods: !matches!(kind, "Secret" | "ConfigMap") };
        Self { problem, hides }
    }
}

impl From<String> for Mistake {
    fn from(problem: String) -> Self {
        Self { problem, hides: Hides { objects: true, pods: true } }
    }
}

/// All objects of a file, in order. Each document is decoded when its turn comes.
pub(crate) fn read(text: &str) -> impl Iterator<Item = Found> {
    documents(text).enumerate().flat_map(|(document, part)| {
        objects(part.text).into_iter().map(move |Placed { place, result }| {
            let (line, column) = match place {
                Some(Place { line, column }) => (part.line + line - 1, column),
                None => (part.first, None),
            };
            Found { document: document + 1, line, column, result }
        })
    })
}

/// What the first document of a manifest means to larder, to compare it with what it means to the kubelet's decoder.
///
/// # Errors
///
/// What is wrong with it.
///
/// ```
/// let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
/// assert_eq!(larder_manifests::manifest_meaning(map)?["metadata"]["name"], "a");
/// # Ok::<(), String>(())
/// ```
#[doc(hidden)]
pub fn manifest_meaning(text: &str) -> Result<serde_json::Value, String> {
    let first = read(text).next().ok_or("it has no document")?;
    let json = first.result.map_err(|mistake| mistake.problem)?.json();
    serde_json::from_slice(&json).map_err(|error| error.to_string())
}

struct Document<'a> {
    /// Of its text's first line, in the file, from 1.
    line: usize,
    /// Of the first line that has content.
    first: usize,
    text: &'a str,
}

/// Cuts a file after the lines that begin with `...` and before those that begin with `---`, which YAML allows nowhere inside of
/// a document, so that a mistake in one cannot reach the next. Documents without content are left out.
fn documents(text: &str) -> impl Iterator<Item = Document<'_>> {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut next_line = 1;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let (mut end, line) = (0, next_line);
            for content in rest.split_inclusive('\n') {
                if end > 0 && is_mark(content, "---") {
                    break;
                }
                end += content.len();
                next_line += 1;
                if is_mark(content, "...") {
                    break;
                }
            }
            let (text, after) = rest.split_at_checked(end)?;
            rest = after;
            // Without content but for comments, directives and the marks of a beginning and an end, it is none.
            if let Some(first) = text.lines().position(has_content) {
                return Some(Document { line, first: line + first, text });
            }
        }
        None
    })
}

fn is_mark(line: &str, mark: &str) -> bool {
    line.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

fn has_content(line: &str) -> bool {
    let line = line.strip_prefix("---").unwrap_or(line).trim();
    !line.is_empty() && !line.starts_with(['#', '%']) && line != "..."
}

/// An object or a mistake, and its place in the document, where that is known.
struct Placed {
    place: Option<Place>,
    result: Result<Manifest, Mistake>,
}

/// A place in a document, from 1; of an object only the line.
struct Place {
    line: usize,
    column: Option<usize>,
}

impl Placed {
    fn wrong(kind: &str, wrong: &Wrong) -> Self {
        let place = wrong.place().map(|place| Place { line: place.line, column: Some(place.column) });
        Self { place, result: Err(Mistake::of(kind, wrong.to_string())) }
    }

    fn mistake(mistake: impl Into<Mistake>) -> Self {
        Self { place: None, result: Err(mistake.into()) }
    }

    fn made(kind: &str, result: Result<Manifest, Wrong>) -> Self {
        match result {
            Ok(manifest) => Self { place: None, result: Ok(manifest) },
            Err(wrong) => Self::wrong(kind, &wrong),
        }
    }
}

/// The objects of one document.
fn objects(text: &str) -> Vec<Placed> {
    let node = match yaml_or_json(text) {
        Ok(node) => node,
        Err(wrong) => return vec![Placed::wrong("", &wrong)],
    };
    let (version, kind) = match head(&node) {
        Ok(head) => head,
        Err(wrong) => return vec![Placed::wrong("", &wrong)],
    };
    if version == "v1" {
        if let Some(known) = ManifestKind::from_name(&kind) {
            return vec![Placed::made(&kind, Manifest::new(known, node))];
        }
        // A `List` is of any kinds.
        let is_held = |of: &str| of.is_empty() || ManifestKind::from_name(of).is_some();
        if let Some(list_of) = kind.strip_suffix("List").filter(|of| is_held(of)) {
            return items(node, list_of);
        }
    }
    vec![match (version.as_str(), kind.as_str()) {
        ("" | "v1", "") => Placed::mistake("kind is missing".to_owned()),
        ("", _) => Placed::mistake("apiVersion is missing".to_owned()),
        _ => Placed::mistake(unknown(&version, &kind)),
    }]
}

/// Version and kind, in the form that this program knows them by.
fn head(node: &Node) -> Result<(String, String), Wrong> {
    let version = node.head("apiVersion")?;
    let version = if version == "/v1" { "v1".to_owned() } else { version };
    Ok((version, node.head("kind")?))
}

/// The items of a list, each on its own.
fn items(list: Node, list_of: &str) -> Vec<Placed> {
    let Value::Map(mut fields) = list.value else { return Vec::new() };
    let items = match fields.remove("items") {
        None | Some(Node { value: Value::Null, .. }) => return Vec::new(),
        Some(Node { value: Value::List(items), .. }) => items,
        Some(other) => return vec![Placed::wrong("", &other.mistake("items", "it is not a list"))],
    };
    let mut found = Vec::new();
    for (at, item) in items.into_iter().enumerate() {
        let line = item.place.line;
        let mut placed = match head(&item) {
            Err(wrong) => Placed::wrong("", &wrong),
            Ok((version, kind)) => {
                let kind = if kind.is_empty() { list_of.to_owned() } else { kind };
                match ManifestKind::from_name(&kind).filter(|_| matches!(version.as_str(), "" | "v1")) {
                    Some(known) => Placed::made(&kind, Manifest::new(known, item)),
                    None if kind.is_empty() => Placed::mistake("kind is missing".to_owned()),
                    None => Placed::mistake(unknown(&version, &kind)),
                }
            }
        };
        placed.place.get_or_insert(Place { line, column: None });
        placed.result = placed
            .result
            .map_err(|mistake| Mistake { problem: format!("items[{at}]: {}", mistake.problem), ..mistake });
        found.push(placed);
    }
    found
}

fn unknown(version: &str, kind: &str) -> Mistake {
    let problem = format!(
        "{version} {kind} is nothing that a node's larder holds; it takes v1 {} and lists of these",
        ManifestKind::names()
    );
    Mistake { problem, hides: Hides { objects: false, pods: false } }
}

#[cfg(test)]
mod tests;
