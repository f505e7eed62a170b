//! Times as `metav1.Time` has them: seconds, in UTC.

use std::fmt::Write as _;

/// The seconds of Go's zero time, the beginning of the year 1.
pub(crate) const ZERO: i64 = -62_135_596_800;

/// Seconds that a year of four digits can have, and some thousand years more: what JSON of Go has, and no reader takes.
const RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800..=900_000_000_000;

const SECONDS_OF_DAY: i64 = 86_400;

/// The time in RFC 3339; none where the year has no four digits, or little more.
pub(crate) fn format(seconds: i64) -> Option<String> {
    if !RANGE.contains(&seconds) {
        return None;
    }
    let (day, second) = (seconds.div_euclid(SECONDS_OF_DAY), seconds.rem_euclid(SECONDS_OF_DAY));
    let (year, month, day) = date(day);
    let mut text = String::with_capacity(20);
    // Writing to a string cannot fail.
    let _ =
        write!(text, "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60);
    Some(text)
}

/// The seconds of a time in RFC 3339.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let number = |from: usize, len: usize| {
        let digits = text.get(from..from + len)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?
    };
    let is = |at: usize, byte: u8| text.as_bytes().get(at) == Some(&byte);
    if !(is(4, b'-') && is(7, b'-') && is(10, b'T') && is(13, b':') && is(16, b':')) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    if !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = days(year, month, day);
    // A day that the month does not have is one of the next.
    if day < 1 || date(days) != (year, month, day) {
        return None;
    }
    let mut rest = text.get(19..)?;
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let end = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if end == 0 {
            return None;
        }
        rest = fraction.get(end..)?;
    }
    let offset = match rest.as_bytes() {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let start = text.len() - rest.len();
            let (hours, minutes) = (number(start + 1, 2)?, number(start + 4, 2)?);
            if hours > 24 || minutes > 60 {
                return None;
            }
            let offset = hours * 3600 + minutes * 60;
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };
    Some(days * SECONDS_OF_DAY + hour * 3600 + minute * 60 + second - offset)
}

/// Year, month and day of a day since 1970: the years begin in March here, so that the leap day is the last of a year.
fn date(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// The day since 1970.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let month = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_796_299_200, "2026-12-03T12:00:00Z"),
            (ZERO, "0001-01-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(format(seconds).as_deref(), Some(text));
            assert_eq!(parse(text), Some(seconds));
        }
        assert_eq!(format(253_402_300_800).as_deref(), Some("10000-01-01T00:00:00Z"));
        for none in [i64::MIN, i64::MAX, ZERO - 1] {
            assert_eq!(format(none), None);
        }
    }

    #[test]
    fn offsets_and_fractions_are_read() {
        assert_eq!(parse("1970-01-01T02:30:00.999+02:30"), Some(0));
        assert_eq!(parse("1969-12-31T23:00:00,5-01:00"), Some(0));
        for bad in [
            "",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "1970-01-01t00:00:00Z",
            "1970-02-29T00:00:00Z",
            "1970-13-01T00:00:00Z",
            "1970-00-01T00:00:00Z",
            "1970-01-00T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00+0100",
            "1970-01-01T00:00:00Z ",
            "+970-01-01T00:00:00Z",
            "1970-01-01T00:00:00€",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
