//! What is wrong with the bytes of an object.

/// Why bytes are not the object that they should be. It holds places and names of fields, never values.
///
/// It does not name the object: who asked for it knows.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end before the object does.
    #[error("it ends in the middle, at line {line} column {column}")]
    Truncated {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// The bytes are not JSON.
    #[error("not JSON at line {line} column {column}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// A field has another type than it must have.
    #[error("a field of the wrong type or missing, at line {line} column {column}")]
    Shape {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// A field has another type than it must have, and its name is known.
    #[error("the field {field} has the wrong type, at line {line} column {column}")]
    WrongType {
        /// The field's path, such as `status.containerStatuses[0].ready`.
        field: Box<str>,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// A field is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A field says that this is something else than was asked for.
    #[error("{field} is not {wants:?}, as was asked for")]
    Unexpected {
        /// The field.
        field: &'static str,
        /// What it should be.
        wants: &'static str,
    },
    /// It is another object than the one asked for.
    #[error("it is another object: {field} differs")]
    AnotherObject {
        /// The field.
        field: &'static str,
    },
    /// It is larger than larder takes.
    #[error("it is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
}

impl DecodeError {
    /// The error of a field at this path.
    pub(crate) fn wrong_type(path: &serde_path_to_error::Path, error: &serde_json::Error) -> Self {
        let field = path.to_string();
        if field.is_empty() || field == "." {
            return Self::Shape { line: error.line(), column: error.column() };
        }
        Self::WrongType { field: field.into(), line: error.line(), column: error.column() }
    }
}

impl From<serde_json::Error> for DecodeError {
    /// Keeps the place and drops the message, which can quote values.
    fn from(error: serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        match error.classify() {
            serde_json::error::Category::Eof => Self::Truncated { line, column },
            serde_json::error::Category::Data => Self::Shape { line, column },
            serde_json::error::Category::Syntax | serde_json::error::Category::Io => Self::Syntax { line, column },
        }
    }
}
