//! Durations of the file of settings, as the flags have them: `30s`, `1m30s`, `500ms`.

use serde::{Deserialize, Deserializer, Serializer};
use std::time::Duration;

pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*duration))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse(&String::deserialize(deserializer)?)
}

/// A duration, or `none`.
pub(super) mod or_none {
    use super::{Deserialize, Deserializer, Duration, Serializer};

    #[expect(clippy::ref_option, reason = "the signature is serde's")]
    pub(in super::super) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::serialize(duration, serializer),
            None => serializer.serialize_str("none"),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "none" { Ok(None) } else { super::parse(&text).map(Some) }
    }
}

fn parse<E: serde::de::Error>(text: &str) -> Result<Duration, E> {
    crate::run::duration(text).map_err(|hint| E::custom(format!("\"{text}\" is not a duration: {hint}")))
}

/// A duration as [`crate::run::duration`] reads it.
fn text(duration: Duration) -> String {
    let signed = jiff::SignedDuration::try_from(duration).unwrap_or(jiff::SignedDuration::MAX);
    format!("{signed:#}").replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_as_it_was_written() {
        for text_of in ["0s", "500ms", "30s", "1m30s", "2h", "1ms500µs", "36h"] {
            let duration = crate::run::duration(text_of).unwrap();
            assert_eq!(crate::run::duration(&text(duration)), Ok(duration), "{text_of}: {}", text(duration));
        }
        assert_eq!(text(Duration::from_secs(90)), "1m30s");
        assert_eq!(text(Duration::ZERO), "0s");
    }
}
