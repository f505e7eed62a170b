//! Reading a file of settings, and what is told of one that cannot be read.

use super::Settings;
use super::places::{At, Place, Places};
use anyhow::Context as _;
use larder_node::Strategy;
use serde_json::Value;
use serde_saphyr::Error;
use std::io::Read as _;
use std::path::Path;

/// A file of settings is far smaller; one that is not is something else.
const LARGEST_FILE: u64 = 1 << 20;

/// Reads a file of settings.
pub(super) fn read(path: &Path) -> anyhow::Result<(Settings, Places)> {
    let mut text = String::new();
    let file = std::fs::File::open(path).and_then(|file| file.take(LARGEST_FILE + 1).read_to_string(&mut text));
    file.with_context(|| format!("cannot read the settings in {} (--config)", path.display()))?;
    anyhow::ensure!(
        text.len() as u64 <= LARGEST_FILE,
        "{}: larger than a file of settings can be (--config)",
        path.display()
    );
    parse(&text).map_err(|problem| anyhow::anyhow!("{}{problem}", path.display()))
}

/// Reads the text of a file of settings. What is wrong with it begins with its place: `:12:3: unknown setting …`.
pub(super) fn parse(text: &str) -> Result<(Settings, Places), String> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok((Settings::default(), Places::default()));
    }
    let options = serde_saphyr::options! { strict_booleans: true };
    let places = serde_saphyr::from_str_with_options(text, options.clone()).map(Places::of);
    let places = places.map_err(|error| no_yaml(error.without_snippet()))?;
    match serde_saphyr::from_str_with_options(text, options) {
        Ok(settings) => Ok((settings, places)),
        Err(error) => Err(describe(error.without_snippet(), &places)),
    }
}

/// What keeps a text from being YAML.
fn no_yaml(error: &Error) -> String {
    let what = match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("{key} is set twice: leave one of them out"),
        Error::MultipleDocuments { .. } => "a second document begins here: all settings stand in one".to_owned(),
        Error::UnknownAnchor { .. } => "an alias (*) of what has no anchor (&): put what has special characters in quotes".to_owned(),
        Error::Budget { .. } => "this is larger or deeper than a file of settings can be".to_owned(),
        _ => "this is not YAML: put what has special characters in quotes, close quotes and brackets, and indent with spaces"
            .to_owned(),
    };
    format!("{}: {what}", place_of(error))
}

/// What keeps YAML from being settings.
fn describe(error: &Error, places: &Places) -> String {
    let all = Settings::default().values();
    let is_section = |key: &str| all.pointer(&pointer(key)).is_some_and(Value::is_object);
    let what = match (error, error.location().and_then(|location| places.at(location.into(), is_section))) {
        (Error::SerdeUnknownField { field, expected, .. }, _) => {
            format!("unknown setting \"{field}\"; there are {}", expected.join(", "))
        }
        (_, Some(place)) => unfit(place),
        (_, None) => "this cannot be a setting: --print-config shows what can".to_owned(),
    };
    format!("{}: {what}", place_of(error))
}

fn place_of(error: &Error) -> String {
    error.location().map_or_else(String::new, |location| format!(":{}", At::from(location)))
}

/// That a value is not what its key takes.
fn unfit(place: &Place) -> String {
    let Place { key, found, .. } = place;
    if key.is_empty() {
        // It may be any file, with a token in it: it is not quoted.
        return "these are no settings: write NAME: VALUE for each, in lines of their own".to_owned();
    }
    let found = found.as_deref().unwrap_or("nothing");
    format!("{key}: {found} is not {}", allowed(key))
}

/// What a key takes: what its default is, but for a few.
fn allowed(key: &str) -> String {
    const DURATION: &str = "a duration: write 30s, 1m30s or 500ms";
    let all = Settings::default().values();
    match (key, all.pointer(&pointer(key))) {
        ("metricsAddress", _) => "an address with a port: write 127.0.0.1:9464".to_owned(),
        ("logFormat", _) => "one of text, json".to_owned(),
        ("changeDetection.secrets" | "changeDetection.configMaps", _) => {
            format!("one of {}", Strategy::ALL.map(Strategy::as_str).join(", "))
        }
        ("pleg.inspectionDeadline", _) => format!("{DURATION}, or none"),
        (_, Some(Value::Bool(_))) => "true or false".to_owned(),
        (_, Some(Value::Number(_))) => format!("a whole number from 1 to {}", u32::MAX),
        (_, Some(Value::Object(section))) => {
            let names: Vec<&str> = section.keys().map(String::as_str).collect();
            format!("a section: write what is to be set under it, of {}", names.join(", "))
        }
        (_, Some(Value::String(text))) if crate::run::duration(text).is_ok() => DURATION.to_owned(),
        _ => "a text".to_owned(),
    }
}

/// Where a key's value is in those of all settings.
fn pointer(key: &str) -> String {
    format!("/{}", key.replace('.', "/"))
}
