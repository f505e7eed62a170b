//! What is known of a setting, and the macro that declares them all.

use super::Settings;
use super::file::Found;
use super::value::Value;
use clap::{Arg, ArgMatches};

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
        Self { path, field, help, default: None, flag: None, env: None, excludes: None, checked_as: None }
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
    pub(super) fn value(&self, settings: &Settings) -> Option<serde_json::Value> {
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
        Some(self.field.parsed_by(arg))
    }
}

/// A value as a flag has it.
pub(super) fn flag_text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Bool(true) => "on".to_owned(),
        serde_json::Value::Bool(false) => "off".to_owned(),
        other => plain(other),
    }
}

/// A value without the quotes of JSON.
pub(super) fn plain(value: &serde_json::Value) -> String {
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
    fn value(&self, settings: &Settings) -> Option<serde_json::Value>;
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

    fn value(&self, settings: &Settings) -> Option<serde_json::Value> {
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
