//! The checked parameters of a request: each error names the parameter, its value, and what the value should be.

use crate::error::ApiError;
use jiff::SignedDuration;
use larder_resource::Kind;
use larder_resource::selector::{FieldSelector, LabelSelector, SelectorError};
use std::collections::HashMap;
use std::time::Duration;

/// The parameters after the `?` of a request.
#[derive(Debug)]
pub(crate) struct Params(HashMap<String, String>);

impl Params {
    pub(crate) fn new(query: HashMap<String, String>) -> Self {
        Self(query)
    }

    /// Refuses parameters that a path of larder's own does not know: nobody would notice a misspelt `newerThan`. (The paths of
    /// Kubernetes ignore unknown parameters, as the API server does.)
    pub(crate) fn only(&self, known: &'static [&'static str]) -> Result<(), ApiError> {
        match self.0.keys().filter(|name| !known.contains(&name.as_str())).min() {
            Some(name) => Err(ApiError::unknown_parameter(name, known)),
            None => Ok(()),
        }
    }

    /// The text of a parameter; an empty one counts as not given.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether a parameter is there, and with which value of a [flag](Self::flag).
    pub(crate) fn given_flag(&self, name: &str) -> Option<bool> {
        self.0.contains_key(name).then(|| self.flag(name))
    }

    /// Whether a parameter is set: `?verbose`, and with any value but `0` and `false`, as the API server reads it.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// A duration such as `30s`, `1m30s` or `500ms`, within bounds; the default if it is not given.
    pub(crate) fn duration(
        &self,
        name: &'static str,
        default: Duration,
        bounds: (Duration, Duration),
    ) -> Result<Duration, ApiError> {
        let Some(value) = self.text(name) else {
            return Ok(default);
        };
        let problem = |problem: String| ApiError::bad_parameter(name, value, problem);
        let duration =
            parse_duration(value).ok_or_else(|| problem("is not a duration: write 30s, 1m30s or 500ms".to_owned()))?;
        let (least, most) = bounds;
        if duration < least || duration > most {
            return Err(problem(format!("must be between {least:?} and {most:?}")));
        }
        Ok(duration)
    }

    /// How many of something.
    pub(crate) fn count(&self, name: &'static str) -> Result<Option<usize>, ApiError> {
        let Some(value) = self.text(name) else {
            return Ok(None);
        };
        let refused = |_| ApiError::bad_parameter(name, value, "is not a whole number from 0".to_owned());
        value.parse().map(Some).map_err(refused)
    }

    /// A whole number, as the API server reads it: an empty one is refused.
    pub(crate) fn integer(&self, name: &'static str) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.0.get(name) else {
            return Ok(None);
        };
        value.parse().map(Some).map_err(|_| ApiError::bad_parameter(name, value, "is not a whole number".to_owned()))
    }

    /// An instant in RFC 3339, with up to nine digits of a second, as nanoseconds since the Unix epoch.
    pub(crate) fn instant(&self, name: &'static str) -> Result<Option<i128>, ApiError> {
        let Some(value) = self.text(name) else {
            return Ok(None);
        };
        // A '+' of an offset that was not escaped arrives as a space.
        let text = value.replace(' ', "+");
        let instant: jiff::Timestamp = text.parse().map_err(|_| {
            let problem = "is not a time in RFC 3339, such as 2026-01-02T15:04:05.000000001Z";
            ApiError::bad_parameter(name, value, problem.to_owned())
        })?;
        Ok(Some(instant.as_nanosecond()))
    }

    pub(crate) fn label_selector(&self) -> Result<LabelSelector, ApiError> {
        let text = self.text("labelSelector").unwrap_or_default();
        text.parse().map_err(|error: SelectorError| ApiError::bad_parameter("labelSelector", text, error.to_string()))
    }

    pub(crate) fn field_selector(&self, kind: Kind) -> Result<FieldSelector, ApiError> {
        let text = self.text("fieldSelector").unwrap_or_default();
        FieldSelector::parse(text, kind)
            .map_err(|error| ApiError::bad_parameter("fieldSelector", text, error.to_string()))
    }
}

/// A duration as Go and people write it (`1m30s`, `500ms`, `2h`); none below zero.
///
/// ```
/// use larder_server::parse_duration;
/// use std::time::Duration;
///
/// assert_eq!(parse_duration("1m30s"), Some(Duration::from_secs(90)));
/// assert_eq!(parse_duration("1.5s"), Some(Duration::from_millis(1500)));
/// assert_eq!(parse_duration("0"), Some(Duration::ZERO));
/// assert_eq!(parse_duration("-1s"), None);
/// assert_eq!(parse_duration("soon"), None);
/// ```
pub fn parse_duration(text: &str) -> Option<Duration> {
    let signed = if text == "0" { SignedDuration::ZERO } else { text.parse().ok()? };
    signed.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_mins(10));

    fn params(name: &str, value: &str) -> Params {
        Params::new(HashMap::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn a_flag_is_read_as_the_api_server_reads_it() {
        for set in ["", "1", "true", "True", "t", "yes"] {
            assert!(params("watch", set).flag("watch"), "{set:?}");
        }
        for unset in ["0", "false", "False", "FALSE"] {
            assert!(!params("watch", unset).flag("watch"), "{unset:?}");
        }
        assert!(!params("watch", "1").flag("verbose"));
    }

    #[test]
    fn what_is_misspelt_is_refused_by_name_with_what_there_is() {
        let known = &["newerThan", "timeout"];
        params("timeout", "1s").only(known).unwrap();
        let error = params("newerthan", "").only(known).unwrap_err();
        assert_eq!(error.code(), http::StatusCode::BAD_REQUEST);
        assert_eq!(error.to_string(), "parameter \"newerthan\" is unknown: this path takes newerThan, timeout");
        assert_eq!(
            params("x", "").only(&[]).unwrap_err().to_string(),
            "parameter \"x\" is unknown: this path takes no parameters"
        );
    }

    #[test]
    fn a_duration_is_read_as_go_and_people_write_it() {
        let read = [
            ("1m30s", 90_000_000_000),
            ("1.5s", 1_500_000_000),
            ("2h", 7_200_000_000_000),
            ("1 minute, 30 seconds", 90_000_000_000),
            ("PT1M", 60_000_000_000),
            ("0", 0),
            ("-0s", 0),
        ];
        for (text, nanos) in read {
            assert_eq!(parse_duration(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
        for text in ["", "5", "soon", "-1s", "1s ago", "1s!", "99999999999999999999s"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn a_duration_is_bounded() {
        let get = |value| params("timeout", value).duration("timeout", Duration::from_secs(10), BOUNDS);
        assert_eq!(get("").unwrap(), Duration::from_secs(10));
        assert_eq!(get("250ms").unwrap(), Duration::from_millis(250));
        for bad in ["ten", "10", "-1s", "0s", "601s", "1h", "99999999999999999999s"] {
            let error = get(bad).unwrap_err();
            assert_eq!(error.code(), http::StatusCode::BAD_REQUEST, "{bad}");
            assert!(error.to_string().contains("timeout"), "{error}");
        }
    }

    #[test]
    fn a_count_is_nothing_or_more() {
        let get = |value| params("tail", value).count("tail");
        assert_eq!(get("").unwrap(), None);
        assert_eq!(get("0").unwrap(), Some(0));
        assert_eq!(get("12").unwrap(), Some(12));
        for bad in ["-1", "all", "1.5", "99999999999999999999"] {
            let error = get(bad).unwrap_err();
            assert!(error.to_string().contains("tail"), "{error}");
        }
    }

    #[test]
    fn an_instant_has_nanoseconds_and_an_offset() {
        let get = |value| params("newerThan", value).instant("newerThan");
        assert_eq!(get("1970-01-01T00:00:00.000000001Z").unwrap(), Some(1));
        assert_eq!(get("1970-01-01T02:00:00 02:00").unwrap(), Some(0));
        assert_eq!(get("").unwrap(), None);
        for bad in ["now", "1970-01-01", "1970-01-01T00:00:00", "12"] {
            let error = get(bad).unwrap_err();
            assert!(error.to_string().contains("newerThan"), "{error}");
        }
    }
}
