//! Writing JSON: objects whose fields are as they stood, but for some.

use serde_json::value::RawValue;

/// Writes an object, field by field.
pub(crate) struct Object<'o> {
    out: &'o mut Vec<u8>,
    is_first: bool,
}

impl<'o> Object<'o> {
    pub(crate) fn begin(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_first: true }
    }

    pub(crate) fn raw(&mut self, name: &str, value: &RawValue) {
        self.name(name).extend_from_slice(value.get().as_bytes());
    }

    pub(crate) fn text(&mut self, name: &str, value: &str) {
        string(value, self.name(name));
    }

    /// A text, unless it is empty.
    pub(crate) fn some_text(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.text(name, value);
        }
    }

    pub(crate) fn number(&mut self, name: &str, value: i64) {
        self.name(name).extend_from_slice(value.to_string().as_bytes());
    }

    pub(crate) fn flag(&mut self, name: &str, value: bool) {
        self.name(name).extend_from_slice(if value { b"true" } else { b"false" });
    }

    /// A time in whole seconds, as the API has it; `null` if it is not known.
    pub(crate) fn time(&mut self, name: &str, seconds: Option<i64>) {
        let time = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
        match time {
            Some(time) => self.text(name, &time.to_string()),
            None => self.name(name).extend_from_slice(b"null"),
        }
    }

    /// Begins a field. Its value is to be written next.
    pub(crate) fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.is_first) {
            self.out.push(b',');
        }
        string(name, self.out);
        self.out.push(b':');
        self.out
    }

    pub(crate) fn end(self) {
        self.out.push(b'}');
    }
}

/// Writes an array.
pub(crate) fn array<T>(
    out: &mut Vec<u8>,
    elements: impl IntoIterator<Item = T>,
    mut write: impl FnMut(T, &mut Vec<u8>),
) {
    out.push(b'[');
    for (at, element) in elements.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(element, out);
    }
    out.push(b']');
}

fn string(text: &str, out: &mut Vec<u8>) {
    // A string, and writing to a vector, do not fail.
    let _ = serde_json::to_writer(out, text);
}
