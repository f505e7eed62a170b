//! Label and field selectors of a list, in the grammar of the Kubernetes API.
//!
//! # Limits
//!
//! A field by which the API server does not select is refused, as there.

use crate::kind::Kind;

mod field;

pub use field::{FieldSelector, Selectable};

/// What is wrong with a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// The text is not a selector.
    #[error("unable to parse requirement \"{requirement}\": {reason}")]
    Malformed {
        /// The part that is wrong.
        requirement: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Objects of the kind are not selected by this field.
    #[error("field label not supported: \"{field}\": {} are selected by {}", kind.resource(), SelectorError::fields_of(*kind))]
    UnknownField {
        /// The field.
        field: String,
        /// The kind of the objects.
        kind: Kind,
    },
}

fn malformed(requirement: &str, reason: &'static str) -> SelectorError {
    SelectorError::Malformed { requirement: requirement.trim().to_owned(), reason }
}

/// A label selector such as `app=web,tier in (front, back),!canary`.
///
/// ```
/// use larder_resource::selector::LabelSelector;
///
/// let selector: LabelSelector = "app=web,tier notin (back),!canary".parse().unwrap();
/// assert!(selector.matches(|key| (key == "app").then_some("web")));
/// assert!(!selector.matches(|_| None));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// Whether an object is selected, `label` giving the value of its label of a key. A label that is not there
    /// satisfies `!=` and `notin`.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.test.holds(label(&requirement.key)))
    }

    /// Whether it selects every object.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        let is_one_of = |values: &[String]| value.is_some_and(|value| values.iter().any(|one| one == value));
        match self {
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::In(values) => is_one_of(values),
            Self::NotIn(values) => !is_one_of(values),
            Self::Greater(bound) => number().is_some_and(|number| number > *bound),
            Self::Less(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

impl std::str::FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        if trim(text).is_empty() {
            return Ok(Self::default());
        }
        let requirements = split_requirements(text)?.into_iter().map(parse_requirement).collect::<Result<_, _>>()?;
        Ok(Self { requirements })
    }
}

/// The parts between the commas that are not in parentheses.
fn split_requirements(text: &str) -> Result<Vec<&str>, SelectorError> {
    let (mut parts, mut start, mut open) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '(' if open => return Err(malformed(text, "a '(' within parentheses")),
            '(' => open = true,
            ')' if !open => return Err(malformed(text, "a ')' without its '('")),
            ')' => open = false,
            ',' if !open => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if open {
        return Err(malformed(text, "a '(' without its ')'"));
    }
    parts.push(&text[start..]);
    Ok(parts)
}

fn parse_requirement(text: &str) -> Result<Requirement, SelectorError> {
    let trimmed = trim(text);
    if let Some(key) = trimmed.strip_prefix('!') {
        return Ok(Requirement { key: label_key(key, text)?, test: Test::Absent });
    }
    // `!=` and `==` before the `=` within them.
    if let Some((key, value)) = trimmed.split_once("!=") {
        return Ok(Requirement { key: label_key(key, text)?, test: Test::NotIn(vec![label_value(value, text)?]) });
    }
    if let Some((key, value)) = trimmed.split_once("==").or_else(|| trimmed.split_once('=')) {
        return Ok(Requirement { key: label_key(key, text)?, test: Test::In(vec![label_value(value, text)?]) });
    }
    if let Some((key, bound)) = trimmed.split_once('>') {
        return Ok(Requirement { key: label_key(key, text)?, test: Test::Greater(bound_of(bound, text)?) });
    }
    if let Some((key, bound)) = trimmed.split_once('<') {
        return Ok(Requirement { key: label_key(key, text)?, test: Test::Less(bound_of(bound, text)?) });
    }
    let Some((key, rest)) = trimmed.split_once(is_space) else {
        return Ok(Requirement { key: label_key(trimmed, text)?, test: Test::Exists });
    };
    let rest = rest.trim_start_matches(is_space);
    let (operator, values) = rest.find('(').map_or((rest, ""), |at| rest.split_at(at));
    let values = values
        .strip_prefix('(')
        .and_then(|values| values.strip_suffix(')'))
        .ok_or_else(|| malformed(text, "expected 'in (...)' or 'notin (...)' after the key"))?;
    let values = values.split(',').map(|value| label_value(value, text)).collect::<Result<_, _>>()?;
    let set = match trim(operator) {
        "in" => Test::In(values),
        "notin" => Test::NotIn(values),
        _ => return Err(malformed(text, "expected 'in (...)' or 'notin (...)' after the key")),
    };
    Ok(Requirement { key: label_key(key, text)?, test: set })
}

fn bound_of(bound: &str, whole: &str) -> Result<i64, SelectorError> {
    // It is a label's value too, so it has no sign.
    let value = label_value(bound, whole)?;
    value.parse().map_err(|_| malformed(whole, "'>' and '<' compare with an integer"))
}

/// Without the spaces around it. No other character is a space to the API server.
fn trim(text: &str) -> &str {
    text.trim_matches(is_space)
}

const fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// A label's key: a name, with an optional DNS prefix before a slash.
fn label_key(key: &str, whole: &str) -> Result<String, SelectorError> {
    let key = trim(key);
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let prefix_is_fine = prefix.is_none_or(|prefix| prefix.len() <= 253 && prefix.split('.').all(is_dns_label));
    if name.is_empty() || !prefix_is_fine || !is_label_text(name) {
        return Err(malformed(whole, "not a label's key"));
    }
    Ok(key.to_owned())
}

fn label_value(value: &str, whole: &str) -> Result<String, SelectorError> {
    let value = trim(value);
    if is_label_text(value) { Ok(value.to_owned()) } else { Err(malformed(whole, "not a label's value")) }
}

/// Small letters, digits and `-`, the first and last of them a letter or digit.
fn is_dns_label(text: &str) -> bool {
    let is_alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(is_alphanumeric)
        && bytes.last().is_some_and(is_alphanumeric)
        && bytes.iter().all(|b| is_alphanumeric(b) || *b == b'-')
}

/// At most 63 letters, digits, `-`, `_` and `.`, the first and last of them a letter or digit.
fn is_label_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends_are_fine =
        bytes.first().is_none_or(u8::is_ascii_alphanumeric) && bytes.last().is_none_or(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && ends_are_fine
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `labels` as `a=1 b=2`.
    fn check(selector: &str, labels: &str, expected: bool) {
        let parsed: LabelSelector = selector.parse().unwrap();
        let pairs: Vec<_> = labels.split_whitespace().filter_map(|pair| pair.split_once('=')).collect();
        let matches = parsed.matches(|key| pairs.iter().find(|(has, _)| *has == key).map(|(_, value)| *value));
        assert_eq!(matches, expected, "{selector} on {labels}");
    }

    #[test]
    fn label_selectors_select_as_the_api_server_does() {
        check("", "", true);
        check("a=1", "a=1", true);
        check("a==1", "a=1", true);
        check("a=1", "a=2", false);
        check("a=1", "", false);
        check("a!=1", "", true);
        check("a!=1", "a=1", false);
        check("a", "a=", true);
        check("a", "b=1", false);
        check("!a", "b=1", true);
        check("!a", "a=1", false);
        check("a in (1, 2),b", "a=2 b=x", true);
        check("a in (1,2),b", "a=2", false);
        check("a notin (1,2)", "a=3", true);
        check("a notin(1,2)", "a=1", false);
        check("a in(1)", "a=1", true);
        check("a in ()", "a=", true);
        check("a>5", "a=6", true);
        check("a<5", "a=6", false);
        check("a>5", "a=x", false);
        check("a.b-c.d/e, a\t=\n1", "a.b-c.d/e=x a=1", true);
        check("example.com/part-of=x", "example.com/part-of=x", true);
        check("a=", "a=", true);
    }

    #[test]
    fn what_is_not_a_label_selector_is_refused_by_name() {
        for bad in [
            "a in (1",
            "a in 1)",
            "a b",
            "=1",
            "a=(",
            "a=b c",
            "a>x",
            "!",
            "a,",
            "/a=1",
            "a=-",
            "a in ((1))",
            "a>-1",
            "a<+1",
            "a>",
            "a\u{a0}=1",
            "a..b/c",
            "-a/b",
            "a-/b",
            ".a/b",
            "A/b",
            "a/b/c",
            "!a=b",
        ] {
            let error = bad.parse::<LabelSelector>().unwrap_err();
            assert!(error.to_string().starts_with("unable to parse requirement"), "{bad}: {error}");
        }
    }
}
