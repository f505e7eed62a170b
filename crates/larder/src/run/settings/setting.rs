//! What is known of a setting, the macro that declares them all, and the types of settings: how a file and a flag write each.

use super::Settings;
use super::file::Found;
use crate::run::LogFormat;
use clap::builder::{EnumValueParser, PossibleValuesParser, TypedValueParser as _, ValueParser};
use clap::{Arg, ArgMatches, ValueEnum as _, value_parser};
use larder_node::Strategy;
use larder_server::AuditLevel;
use serde_json::Value as Json;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// A setting, as [`SETTINGS`](super::table::SETTINGS) declares it.
pub(super) struct Setting {
    /// The field of [`Settings`] that it sets.
    path: &'static [&'static str],
    field: &'static dyn Access,
    help: &'static str,
    pub(super) default: Option<&'static str>,
    /// The flag, and what stands for its value in the help.
    flag: Option<(&'static str, &'static str)>,
    pub(super) env: Option<&'static str>,
    excludes: Option<&'static str>,
    /// What the flag alone stands for.
    alone: Option<&'static str>,
    checked_as: Option<&'static str>,
}

/// Declares [`SETTINGS`](super::table::SETTINGS): for each its help, the field of [`Settings`], and whatever else there is
/// to say of it, by methods of [`Setting`].
macro_rules! settings {
    ($($(#[doc = $help:literal])+ $($path:ident).+ $(: $($method:ident($($word:literal),+)).+)?;)+) => {
        /// Every setting, in the order of the help and of `--print-config`.
        pub(super) const SETTINGS: &[Setting] = &[$(
            Setting::new(
                &[$(stringify!($path)),+],
                &Field { get: |settings| &settings.$($path).+, get_mut: |settings| &mut settings.$($path).+ },
                concat!($($help),+),
            )$($(.$method($($word),+))+)?
        ),+];
    };
}
pub(super) use settings;

impl Setting {
    pub(super) const fn new(path: &'static [&'static str], field: &'static dyn Access, help: &'static str) -> Self {
        Self { path, field, help, default: None, flag: None, env: None, excludes: None, alone: None, checked_as: None }
    }

    /// A default that is not a value.
    pub(super) const fn default(self, words: &'static str) -> Self {
        Self { default: Some(words), ..self }
    }

    /// A flag.
    pub(super) const fn flag(self, name: &'static str, value: &'static str) -> Self {
        Self { flag: Some((name, value)), ..self }
    }

    /// The environment variable that stands in for the flag.
    pub(super) const fn env(self, name: &'static str) -> Self {
        Self { env: Some(name), ..self }
    }

    /// The flag that this one cannot stand beside.
    pub(super) const fn excludes(self, flag: &'static str) -> Self {
        Self { excludes: Some(flag), ..self }
    }

    /// The value that the flag stands for without one.
    pub(super) const fn alone(self, value: &'static str) -> Self {
        Self { alone: Some(value), ..self }
    }

    /// The name that the check of the options has for it, if that is not the field's.
    pub(super) const fn checked_as(self, field: &'static str) -> Self {
        Self { checked_as: Some(field), ..self }
    }

    /// Its key in the file: `kube.pageSize`.
    pub(super) fn key(&self) -> String {
        camel_case(&self.field_name())
    }

    /// The name that the check of the options has for it: `kube.page_size`.
    pub(super) fn checked_name(&self) -> String {
        self.checked_as.map_or_else(|| self.field_name(), str::to_owned)
    }

    /// The field without the options that it is in.
    fn field_name(&self) -> String {
        match self.path {
            [_options, path @ ..] if !path.is_empty() => path.join("."),
            path => path.join("."),
        }
    }

    /// Its help, in a line.
    pub(super) fn help(&self) -> &'static str {
        self.help.trim_start()
    }

    /// Its flag: `sync-period`.
    pub(super) fn flag_name(&self) -> Option<&'static str> {
        self.flag.map(|(name, _)| name)
    }

    /// What values there are, in words.
    pub(super) fn allowed(&self) -> String {
        self.field.allowed()
    }

    /// The value as a file has it; `None` if it is left out.
    pub(super) fn value(&self, settings: &Settings) -> Option<Json> {
        self.field.value(settings)
    }

    /// Sets what stands in the file; whether that is a value of this setting.
    pub(super) fn read(&self, settings: &mut Settings, found: &Found<'_>) -> bool {
        self.field.read(settings, found)
    }

    /// Sets what its flag says; whether the flag is given.
    pub(super) fn take(&self, settings: &mut Settings, matches: &ArgMatches) -> bool {
        self.flag_name().is_some_and(|name| self.field.take(settings, matches, name))
    }

    /// The definition of its flag.
    pub(super) fn arg(&self, defaults: &Settings) -> Option<Arg> {
        let (name, value) = self.flag?;
        let default = self.default.map(str::to_owned).or_else(|| Some(flag_text(&self.value(defaults)?)));
        let default = default.map(|default| format!(" [default: {default}]")).unwrap_or_default();
        let arg = Arg::new(name).long(name).value_name(value).help(format!("{}{default}", self.help()));
        let arg = self.env.into_iter().fold(arg, Arg::env);
        let arg = self.excludes.into_iter().fold(arg, Arg::conflicts_with);
        let arg = self.alone.into_iter().fold(arg, |arg, value| arg.num_args(0..=1).default_missing_value(value));
        Some(self.field.parsed_by(arg))
    }
}

/// A value as a flag has it.
pub(super) fn flag_text(value: &Json) -> String {
    match value {
        Json::Bool(true) => "on".to_owned(),
        Json::Bool(false) => "off".to_owned(),
        other => plain(other),
    }
}

/// A value without the quotes of JSON.
pub(super) fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `kube.page_size`, as a file has it: `kube.pageSize`.
fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut all, word| {
        all.extend(word.chars().take(1).map(|first| first.to_ascii_uppercase()));
        all.extend(word.chars().skip(1));
        all
    })
}

/// A field of [`Settings`], whatever its type.
pub(super) trait Access {
    fn allowed(&self) -> String;
    fn value(&self, settings: &Settings) -> Option<Json>;
    fn read(&self, settings: &mut Settings, found: &Found<'_>) -> bool;
    fn take(&self, settings: &mut Settings, matches: &ArgMatches, flag: &str) -> bool;
    fn parsed_by(&self, arg: Arg) -> Arg;
}

pub(super) struct Field<T> {
    pub(super) get: fn(&Settings) -> &T,
    pub(super) get_mut: fn(&mut Settings) -> &mut T,
}

impl<T: Value> Field<T> {
    fn set(&self, settings: &mut Settings, value: Option<T>) -> bool {
        value.map(|value| *(self.get_mut)(settings) = value).is_some()
    }
}

impl<T: Value> Access for Field<T> {
    fn allowed(&self) -> String {
        T::allowed()
    }

    fn value(&self, settings: &Settings) -> Option<Json> {
        (self.get)(settings).to_json()
    }

    fn read(&self, settings: &mut Settings, found: &Found<'_>) -> bool {
        self.set(settings, T::read(found))
    }

    fn take(&self, settings: &mut Settings, matches: &ArgMatches, flag: &str) -> bool {
        self.set(settings, T::of_flag(matches, flag))
    }

    fn parsed_by(&self, arg: Arg) -> Arg {
        arg.value_parser(T::parser())
    }
}

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
    usize: COUNT, |found: &Found<'_>| found.number()?.try_into().ok(), |count: &Self| *count, value_parser!(Self);
    NonZeroUsize: COUNT,
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
    AuditLevel: format_args!("one of {}", Self::ALL.map(Self::as_str).join(", ")),
        |found: &Found<'_>| found.text()?.parse().ok(),
        |level: &Self| level.as_str(),
        PossibleValuesParser::new(Self::ALL.map(Self::as_str)).try_map(|word| word.parse::<Self>());
    LogFormat: format_args!("one of {}", Self::value_variants().iter().copied().map(name_of).collect::<Vec<_>>().join(", ")),
        |found: &Found<'_>| Self::from_str(found.text()?, false).ok(),
        |format: &Self| name_of(*format),
        EnumValueParser::<Self>::new();
}

const WHOLE_NUMBER: &str = "a whole number from 1 to 4294967295";
const COUNT: &str = "a whole number, 1 or more";

/// Reads a duration of the command line or of a file.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    larder_server::parse_duration(text).ok_or_else(|| "write 30s, 1m30s or 500ms".to_owned())
}

/// Writes a duration as [`duration`] reads it.
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
