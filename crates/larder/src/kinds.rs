//! The kinds of object that larder holds, and the names that kubectl's users give them.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use larder_resource::Kind;
use std::ffi::OsStr;

/// The kind of that name: singular, plural or short, in any case.
fn kind_of(name: &str) -> Option<Kind> {
    let name = name.to_ascii_lowercase();
    Kind::ALL
        .into_iter()
        .find(|kind| [Some(kind.singular()), Some(kind.resource()), kind.short_name()].contains(&Some(name.as_str())))
}

/// The kinds in a sentence, each with its short name.
fn kinds_in_words() -> String {
    let names = Kind::ALL.map(|kind| match kind.short_name() {
        Some(short) => format!("{} ({short})", kind.resource()),
        None => kind.resource().to_owned(),
    });
    let [before @ .., last] = &names;
    format!("{} and {last}", before.join(", "))
}

/// What a command line asks for: a list of a kind, or one object of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    /// `None` for a list.
    pub(crate) name: Option<String>,
}

/// The namespace of a command line: an empty one is the default one, as for kubectl.
#[expect(clippy::unnecessary_wraps, reason = "clap's parsers give results")]
pub(crate) fn namespace(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(if text.is_empty() { "default" } else { text }.to_owned())
}

/// A word of a command line that names a kind, an object of it, or both. Any word is taken; completion offers the kinds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KindOrName(pub(crate) &'static [&'static str]);

/// What completion offers where every kind can stand.
pub(crate) const KINDS: KindOrName = KindOrName(&RESOURCES);

const RESOURCES: [&str; Kind::ALL.len()] = {
    let (mut resources, mut at) = ([""; Kind::ALL.len()], 0);
    while at < resources.len() {
        resources[at] = Kind::ALL[at].resource();
        at += 1;
    }
    resources
};

impl TypedValueParser for KindOrName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(PossibleValue::new)))
    }
}

/// What is wrong with the words of a command line; worded as kubectl's users know it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParseError {
    #[error("larder holds no resource type \"{0}\": it has {held} of this node", held = kinds_in_words())]
    UnknownKind(String),
    #[error("arguments in kind/name form may not have more than one slash: \"{0}\"")]
    ManySlashes(String),
    #[error("there is no need to specify a kind as a separate argument when passing arguments in kind/name form")]
    MixedForms,
    #[error("there must be a name after the slash: \"{0}\"")]
    EmptyName(String),
    #[error("a name may not be empty: leave it out for all {}", .0.resource())]
    NoName(Kind),
}

/// Reads `KIND[,KIND...] [NAME...]` or `KIND/NAME...`.
pub(crate) fn parse_targets(words: &[String]) -> Result<Vec<Target>, ParseError> {
    let Some((first, rest)) = words.split_first() else {
        return Ok(Vec::new());
    };
    if first.contains('/') {
        return words.iter().map(|word| parse_pair(word)).collect();
    }
    let kinds = first.split(',').map(kind).collect::<Result<Vec<_>, _>>()?;
    if rest.iter().any(|word| word.contains('/')) {
        return Err(ParseError::MixedForms);
    }
    if rest.is_empty() {
        return Ok(kinds.into_iter().map(|kind| Target { kind, name: None }).collect());
    }
    if rest.iter().any(String::is_empty) {
        return Err(ParseError::NoName(kinds.first().copied().unwrap_or(Kind::Pod)));
    }
    let named = |kind| rest.iter().map(move |name| Target { kind, name: Some(name.clone()) });
    Ok(kinds.into_iter().flat_map(named).collect())
}

fn kind(name: &str) -> Result<Kind, ParseError> {
    kind_of(name).ok_or_else(|| ParseError::UnknownKind(name.to_owned()))
}

fn parse_pair(word: &str) -> Result<Target, ParseError> {
    let (kind_name, name) = word.split_once('/').ok_or(ParseError::MixedForms)?;
    if name.contains('/') {
        return Err(ParseError::ManySlashes(word.to_owned()));
    }
    if name.is_empty() {
        return Err(ParseError::EmptyName(word.to_owned()));
    }
    Ok(Target { kind: kind(kind_name)?, name: Some(name.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Vec<Target>, ParseError> {
        parse_targets(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn check(line: &str, expected: &[(Kind, Option<&str>)]) {
        let expected: Vec<_> =
            expected.iter().map(|&(kind, name)| Target { kind, name: name.map(str::to_owned) }).collect();
        assert_eq!(parse(line), Ok(expected), "{line}");
    }

    #[test]
    fn kinds_and_names_are_read_as_kubectl_reads_them() {
        check("secret", &[(Kind::Secret, None)]);
        check("secrets", &[(Kind::Secret, None)]);
        check("cm", &[(Kind::ConfigMap, None)]);
        check("ConfigMaps", &[(Kind::ConfigMap, None)]);
        check("po web", &[(Kind::Pod, Some("web"))]);
        check("no", &[(Kind::Node, None)]);
        check("pods a b", &[(Kind::Pod, Some("a")), (Kind::Pod, Some("b"))]);
        check("po,cm", &[(Kind::Pod, None), (Kind::ConfigMap, None)]);
        check("po,cm x", &[(Kind::Pod, Some("x")), (Kind::ConfigMap, Some("x"))]);
        check("secret/a cm/b", &[(Kind::Secret, Some("a")), (Kind::ConfigMap, Some("b"))]);
    }

    #[test]
    fn an_empty_name_is_no_name() {
        let words = ["pods", "a", ""].map(str::to_owned);
        assert_eq!(parse_targets(&words), Err(ParseError::NoName(Kind::Pod)));
        assert_eq!(namespace(""), Ok("default".to_owned()));
        assert_eq!(namespace("shop"), Ok("shop".to_owned()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(parse("deployments"), Err(ParseError::UnknownKind("deployments".to_owned())));
        assert_eq!(parse("po,"), Err(ParseError::UnknownKind(String::new())));
        assert_eq!(parse("pods po/a"), Err(ParseError::MixedForms));
        assert_eq!(parse("po/a b"), Err(ParseError::MixedForms));
        assert_eq!(parse("po/a/b"), Err(ParseError::ManySlashes("po/a/b".to_owned())));
        assert_eq!(parse("po/"), Err(ParseError::EmptyName("po/".to_owned())));
    }
}
