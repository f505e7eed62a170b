//! What is wrong with a text, where, and at which field. It never quotes the text.

use std::borrow::Cow;
use std::fmt;

/// A place in a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} column {}", self.line, self.column)
    }
}

/// Why a text cannot be read, or a value cannot be decoded. It shows itself as `spec.containers[0].ports: a number where a list
/// belongs`; the place is apart, for callers add their file's own lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake {
    place: Option<Place>,
    path: String,
    problem: Cow<'static, str>,
}

impl Mistake {
    /// A mistake at a place.
    pub(crate) fn at(place: Place, problem: impl Into<Cow<'static, str>>) -> Self {
        Self { place: Some(place), path: String::new(), problem: problem.into() }
    }

    pub(crate) fn anywhere(problem: impl Into<Cow<'static, str>>) -> Self {
        Self { place: None, path: String::new(), problem: problem.into() }
    }

    /// The same mistake, told from further out: the field of a map, or an item of a list.
    pub(crate) fn inside(mut self, step: &str, place: Place) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{step}{dot}{}", self.path);
        self.or_at(place)
    }

    /// The same mistake, at this place where it has none.
    pub(crate) fn or_at(mut self, place: Place) -> Self {
        self.place.get_or_insert(place);
        self
    }

    /// The same mistake, with this path where it has none.
    #[must_use]
    pub fn under(mut self, path: &str) -> Self {
        if self.path.is_empty() {
            path.clone_into(&mut self.path);
        }
        self
    }

    /// Where the mistake is, where that is known.
    pub fn place(&self) -> Option<Place> {
        self.place
    }

    /// The path of the field, such as `spec.containers[0].ports`; empty where the whole text is wrong.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What is wrong, without place and path.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Mistake {}

impl serde::de::Error for Mistake {
    /// Drops the message, which can quote a value.
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::anywhere("a value that this field cannot have")
    }

    fn invalid_type(_: serde::de::Unexpected<'_>, _: &dyn serde::de::Expected) -> Self {
        Self::anywhere("a value of the wrong type")
    }

    fn invalid_value(unexpected: serde::de::Unexpected<'_>, _: &dyn serde::de::Expected) -> Self {
        use serde::de::Unexpected::{Signed, Unsigned};
        Self::anywhere(match unexpected {
            Signed(_) | Unsigned(_) => "a number that is too small or too large for this field",
            _ => "a value that this field cannot have",
        })
    }

    fn missing_field(field: &'static str) -> Self {
        Self { place: None, path: field.to_owned(), problem: "it is missing".into() }
    }
}
