//! From a file's text to objects, each document on its own.

use crate::object::Manifest;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use serde_saphyr::Spanned;

/// What a document gave: an object, or what is wrong with it.
pub(crate) struct Found {
    /// From 1, blank documents not counted.
    pub(crate) document: usize,
    /// In the file, from 1.
    pub(crate) line: usize,
    pub(crate) result: Result<Manifest, Mistake>,
}

/// What is wrong with a document or an item.
pub(crate) struct Mistake {
    pub(crate) problem: String,
    /// Whether it may be of any Secret or ConfigMap; otherwise it is known to be of none.
    pub(crate) hides: bool,
}

impl Mistake {
    fn of(kind: &str, problem: String) -> Self {
        Self { problem, hides: kind != "Pod" }
    }
}

impl From<String> for Mistake {
    fn from(problem: String) -> Self {
        Self { problem, hides: true }
    }
}

/// All objects of a file, in order.
pub(crate) fn read(text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    for (document, part) in documents(text).into_iter().enumerate() {
        let document = document + 1;
        for (line, result) in objects(part.text) {
            let line = line.map_or(part.first, |line| part.line + line.max(1) - 1);
            found.push(Found { document, line, result });
        }
    }
    found
}

struct Document<'a> {
    /// Of its text's first line, in the file, from 1.
    line: usize,
    /// Of the first line that has content.
    first: usize,
    text: &'a str,
}

/// Cuts a file at the lines that begin with `---`, which YAML allows nowhere inside of a document, so that a mistake in one
/// cannot reach the next. Documents without content are left out.
fn documents(text: &str) -> Vec<Document<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut documents = Vec::new();
    let (mut start, mut start_line, mut at) = (0, 1, 0);
    let mut push = |start: usize, end: usize, line: usize| {
        let text = text.get(start..end).unwrap_or_default();
        // Without content but for comments, directives and the marks of a beginning and an end, it is none.
        if let Some(first) = text.lines().position(has_content) {
            documents.push(Document { line, first: line + first, text });
        }
    };
    for (line, content) in text.split_inclusive('\n').enumerate() {
        let separates = content
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if separates && at > 0 {
            push(start, at, start_line);
            (start, start_line) = (at, line + 1);
        }
        at += content.len();
    }
    push(start, text.len(), start_line);
    documents
}

fn has_content(line: &str) -> bool {
    let line = line.strip_prefix("---").unwrap_or(line).trim();
    !line.is_empty() && !line.starts_with(['#', '%']) && line != "..."
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    api_version: Option<String>,
    kind: Option<String>,
}

/// Objects and mistakes with their lines in the document, from 1, where they are known.
type Placed = Vec<(Option<usize>, Result<Manifest, Mistake>)>;

/// The objects of one document.
fn objects(text: &str) -> Placed {
    let head: Head = match parse(text) {
        Ok(head) => head,
        Err((line, problem)) => return vec![(line, Err(problem.into()))],
    };
    let kind = head.kind.unwrap_or_default();
    let version = head.api_version.unwrap_or_default();
    let list_of = match (version.as_str(), kind.as_str()) {
        ("v1", "Pod" | "Secret" | "ConfigMap") => None,
        ("v1", "List") => Some(""),
        ("v1", "PodList") => Some("Pod"),
        ("v1", "SecretList") => Some("Secret"),
        ("v1", "ConfigMapList") => Some("ConfigMap"),
        ("" | "v1", "") => return vec![(None, Err("kind is missing".to_owned().into()))],
        ("", _) => return vec![(None, Err("apiVersion is missing".to_owned().into()))],
        _ => return vec![(None, Err(unknown(&version, &kind)))],
    };
    match list_of {
        None => {
            let value: Value = match parse(text) {
                Ok(value) => value,
                Err((line, problem)) => return vec![(line, Err(problem.into()))],
            };
            let made = Manifest::new(&kind, value).map_err(|problem| {
                // The library knows the line of a mistake where the document is read as what it shall be.
                (line_of(&kind, text), problem)
            });
            match made {
                Ok(manifest) => vec![(None, Ok(manifest))],
                Err((line, problem)) => vec![(line, Err(Mistake::of(&kind, problem)))],
            }
        }
        Some(list_of) => items(text, list_of),
    }
}

/// The items of a list, each on its own.
fn items(text: &str, list_of: &str) -> Placed {
    #[derive(Deserialize)]
    struct List {
        items: Option<Vec<Spanned<Value>>>,
    }
    let list: List = match parse(text) {
        Ok(list) => list,
        Err((line, problem)) => return vec![(line, Err(problem.into()))],
    };
    let mut found = Vec::new();
    for (at, item) in list.items.unwrap_or_default().into_iter().enumerate() {
        let line = usize::try_from(item.referenced.line()).ok();
        let field = |name| item.value.get(name).and_then(Value::as_str);
        let kind = field("kind").unwrap_or(list_of).to_owned();
        let version = field("apiVersion").unwrap_or("v1").to_owned();
        let result = match (version.as_str(), kind.as_str()) {
            ("v1", "Pod" | "Secret" | "ConfigMap") => {
                Manifest::new(&kind, item.value).map_err(|problem| Mistake::of(&kind, problem))
            }
            (_, "") => Err("kind is missing".to_owned().into()),
            _ => Err(unknown(&version, &kind)),
        };
        let placed = |mistake: Mistake| Mistake { problem: format!("items[{at}]: {}", mistake.problem), ..mistake };
        found.push((line, result.map_err(placed)));
    }
    found
}

fn unknown(version: &str, kind: &str) -> Mistake {
    let problem = format!(
        "{version} {kind} is nothing that a node's larder holds; it takes v1 Pod, Secret, ConfigMap and lists of these"
    );
    Mistake { problem, hides: false }
}

/// Reads a document; an error has its line, and a text that quotes nothing.
fn parse<T: DeserializeOwned>(text: &str) -> Result<T, (Option<usize>, String)> {
    // As the tools of Kubernetes read it: `defaultMode: 0400` is octal.
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let line = error.location().and_then(|place| usize::try_from(place.line()).ok());
        (line, describe(error.without_snippet()))
    })
}

/// What is wrong with the YAML. The library's own words can quote the document, which may be a Secret.
fn describe(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error;
    match error {
        Error::DuplicateMappingKey { .. } => "the same key twice".to_owned(),
        Error::Eof { .. } => "it ends too early".to_owned(),
        Error::Budget { .. } => "it is larger or deeper than a manifest can be".to_owned(),
        Error::UnknownAnchor { .. } => "an alias to an anchor that is not there".to_owned(),
        Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => "too many aliases".to_owned(),
        Error::Unexpected { .. } | Error::SerdeInvalidType { .. } => "a value of the wrong type".to_owned(),
        _ => "not valid YAML".to_owned(),
    }
}

/// The line of the first mistake that the library finds when it reads the document as this kind.
fn line_of(kind: &str, text: &str) -> Option<usize> {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
    fn of<T: DeserializeOwned>(text: &str) -> Option<usize> {
        parse::<T>(text).err()?.0
    }
    match kind {
        "Pod" => of::<Pod>(text),
        "Secret" => of::<Secret>(text),
        "ConfigMap" => of::<ConfigMap>(text),
        _ => of::<IgnoredAny>(text),
    }
}

#[cfg(test)]
mod tests;
