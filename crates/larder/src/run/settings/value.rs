//! The types of settings: how a file and a flag write each of them.

use super::file::Found;
use crate::run::{LogFormat, duration};
use clap::builder::{EnumValueParser, PossibleValuesParser, TypedValueParser as _, ValueParser};
use clap::{ArgMatches, ValueEnum as _, value_parser};
use larder_node::Strategy;
use serde_json::Value as Json;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// A type of settings.
pub(super) trait Value: Clone + Send + Sync + 'static {
    /// The word for no value of this type; without one, the setting is left out of the file instead.
    const NONE: Option<&'static str> = None;

    /// The values of this type, in words.
    fn allowed() -> String;
    /// The value in a file.
    fn read(found: &Found<'_>) -> Option<Self>;
    /// The value as a file has it; `None` if it is left out.
    fn to_json(&self) -> Option<Json>;
    /// What reads a flag.
    fn parser() -> ValueParser;
    /// The value of a flag that is given.
    fn of_flag(matches: &ArgMatches, flag: &str) -> Option<Self>;
}

impl<T: Value> Value for Option<T> {
    fn allowed() -> String {
        T::NONE.map_or_else(T::allowed, |none| format!("{}, or {none}", T::allowed()))
    }

    fn read(found: &Found<'_>) -> Option<Self> {
        let is_none = T::NONE.map_or(found.is_nothing(), |none| found.text() == Some(none));
        if is_none { Some(None) } else { T::read(found).map(Some) }
    }

    fn to_json(&self) -> Option<Json> {
        self.as_ref().map_or_else(|| T::NONE.map(Json::from), T::to_json)
    }

    fn parser() -> ValueParser {
        T::parser()
    }

    fn of_flag(matches: &ArgMatches, flag: &str) -> Option<Self> {
        T::of_flag(matches, flag).map(Some)
    }
}

/// For each type: its values in words, how a file is read and written, and what reads a flag.
macro_rules! values {
    ($($type:ty $(, none: $none:literal)?: $allowed:expr, $read:expr, $to_json:expr, $parser:expr;)+) => {$(
        impl Value for $type {
            $(const NONE: Option<&'static str> = Some($none);)?

            fn allowed() -> String {
                $allowed.to_string()
            }

            fn read(found: &Found<'_>) -> Option<Self> {
                $read(found)
            }

            fn to_json(&self) -> Option<Json> {
                Some($to_json(self).into())
            }

            fn parser() -> ValueParser {
                $parser.into()
            }

            fn of_flag(matches: &ArgMatches, flag: &str) -> Option<Self> {
                matches.get_one::<Self>(flag).cloned()
            }
        }
    )+};
}

values! {
    bool: "true or false",
        |found: &Found<'_>| match found.text()? {
            "true" | "True" | "TRUE" => Some(true),
            "false" | "False" | "FALSE" => Some(false),
            _ => None,
        },
        |on: &Self| *on,
        PossibleValuesParser::new(["on", "off"]).map(|word| word == "on");
    u32: WHOLE_NUMBER, |found: &Found<'_>| found.number()?.try_into().ok(), |count: &Self| *count, value_parser!(Self);
    usize: WHOLE_NUMBER, |found: &Found<'_>| found.number()?.try_into().ok(), |count: &Self| *count, value_parser!(Self);
    NonZeroUsize: WHOLE_NUMBER,
        |found: &Found<'_>| Self::new(found.number()?.try_into().ok()?),
        |count: &Self| count.get(),
        value_parser!(Self);
    Duration, none: "none": "a duration: write 30s, 1m30s or 500ms", |found: &Found<'_>| duration(found.text()?).ok(), text_of, duration;
    String: "a text", |found: &Found<'_>| found.text().map(str::to_owned), Self::as_str, value_parser!(Self);
    Vec<String>: "a list of texts",
        Found::texts,
        Self::clone,
        |text: &str| Ok::<Self, std::convert::Infallible>(text.split(',').map(str::to_owned).collect());
    PathBuf: "a text",
        |found: &Found<'_>| found.text().map(Self::from),
        |path: &Self| path.to_string_lossy().into_owned(),
        value_parser!(Self);
    SocketAddr: "an address with a port: write 127.0.0.1:9464",
        |found: &Found<'_>| found.text()?.parse().ok(),
        Self::to_string,
        value_parser!(Self);
    Strategy: format_args!("one of {}", Self::ALL.map(Self::as_str).join(", ")),
        |found: &Found<'_>| found.text()?.parse().ok(),
        |strategy: &Self| strategy.as_str(),
        // Help and completion know the names.
        PossibleValuesParser::new(Self::ALL.map(Self::as_str)).try_map(|word| word.parse::<Self>());
    LogFormat: format_args!("one of {}", Self::value_variants().iter().copied().map(name_of).collect::<Vec<_>>().join(", ")),
        |found: &Found<'_>| Self::from_str(found.text()?, false).ok(),
        |format: &Self| name_of(*format),
        EnumValueParser::<Self>::new();
}

const WHOLE_NUMBER: &str = "a whole number from 1 to 4294967295";

/// A duration as [`duration`] reads it.
fn text_of(duration: &Duration) -> String {
    let signed = jiff::SignedDuration::try_from(*duration).unwrap_or(jiff::SignedDuration::MAX);
    format!("{signed:#}").replace(' ', "")
}

fn name_of(format: LogFormat) -> String {
    format.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_as_it_was_written() {
        for written in ["0s", "500ms", "30s", "1m30s", "2h", "1ms500µs", "36h"] {
            let read = duration(written).unwrap();
            assert_eq!(duration(&text_of(&read)), Ok(read), "{written}: {}", text_of(&read));
        }
        assert_eq!(text_of(&Duration::from_secs(90)), "1m30s");
    }
}
