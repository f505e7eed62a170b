//! How long ago something was: `12s`, `3m4s`, `5h`, `2d3h`.

use jiff::{SignedDuration, Timestamp};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Go's zero time, `0001-01-01T00:00:00Z`, in seconds since the Unix epoch. It stands for a time that is not set.
const GO_ZERO: i64 = -62_135_596_800;

/// The longest duration that Go has, in seconds; `time.Since` gives it for all that is longer.
const GO_LONGEST: i64 = i64::MAX / 1_000_000_000;

/// Whether a time is set: Go's zero time means that it is not.
pub(super) fn is_set(time: &Timestamp) -> bool {
    *time != Timestamp::constant(GO_ZERO, 0)
}

/// From `then` to `now`, as the API server writes it in a table; `<unknown>` for a time that is not known.
///
/// ```
/// use larder_resource::representation::age;
///
/// let now = "2026-01-01T00:05:07Z".parse()?;
/// assert_eq!(age(Some("2026-01-01T00:00:00Z".parse()?), now), "5m7s");
/// assert_eq!(age(None, now), "<unknown>");
/// # Ok::<(), jiff::Error>(())
/// ```
pub fn age(then: Option<Timestamp>, now: Timestamp) -> String {
    then.filter(is_set).map_or_else(|| "<unknown>".to_owned(), |then| human_duration(now.duration_since(then)))
}

/// A duration as `duration.HumanDuration` of `k8s.io/apimachinery` writes it: exact where it is short, coarse where it is long.
///
/// A second is the least difference between the clocks of two machines that says something: durations from -2 s to 0 s are `0s`,
/// and what is further in the future is `<invalid>`.
///
/// ```
/// use jiff::SignedDuration;
/// use larder_resource::representation::human_duration;
///
/// assert_eq!(human_duration(SignedDuration::from_secs(119)), "119s");
/// assert_eq!(human_duration(SignedDuration::from_hours(50)), "2d2h");
/// assert_eq!(human_duration(SignedDuration::from_secs(-5)), "<invalid>");
/// ```
pub fn human_duration(duration: SignedDuration) -> String {
    let two = |large: i64, large_unit, small: i64, small_unit| {
        if small == 0 { format!("{large}{large_unit}") } else { format!("{large}{large_unit}{small}{small_unit}") }
    };
    match duration.as_secs().min(GO_LONGEST) {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..600 => two(seconds / MINUTE, 'm', seconds % MINUTE, 's'),
        seconds @ 600..10_800 => format!("{}m", seconds / MINUTE),
        seconds @ 10_800..28_800 => two(seconds / HOUR, 'h', seconds % HOUR / MINUTE, 'm'),
        seconds @ 28_800..172_800 => format!("{}h", seconds / HOUR),
        seconds @ 172_800..691_200 => two(seconds / DAY, 'd', seconds % DAY / HOUR, 'h'),
        seconds @ 691_200..63_072_000 => format!("{}d", seconds / DAY),
        seconds @ 63_072_000..252_288_000 => two(seconds / YEAR, 'y', seconds % YEAR / DAY, 'd'),
        seconds => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_upstream_writes_them() {
        for (given, expected) in [
            (i64::MIN, "<invalid>"),
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (63_071_999, "729d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (252_288_000, "8y"),
            (i64::MAX, "292y"),
        ] {
            assert_eq!(human_duration(SignedDuration::from_secs(given)), expected, "{given}");
        }
        assert_eq!(human_duration(SignedDuration::from_millis(-1_999)), "0s");
        assert_eq!(human_duration(SignedDuration::from_millis(-2_000)), "<invalid>");
        assert_eq!(human_duration(SignedDuration::from_millis(119_999)), "119s");
    }

    #[test]
    fn a_time_that_is_not_set_is_unknown() {
        assert_eq!(age(None, Timestamp::UNIX_EPOCH), "<unknown>");
        assert_eq!(age(Some("0001-01-01T00:00:00Z".parse().unwrap()), Timestamp::UNIX_EPOCH), "<unknown>");
        assert_eq!(age(Some("0001-01-01T00:00:01Z".parse().unwrap()), Timestamp::UNIX_EPOCH), "292y");
        assert_eq!(age(Some(Timestamp::UNIX_EPOCH), Timestamp::UNIX_EPOCH), "0s");
    }
}
