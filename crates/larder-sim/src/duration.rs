//! Durations as Go's `time.ParseDuration` reads them.

use std::fmt;
use std::str::FromStr;

/// A duration in Go's notation, such as `"1m30s"` or `"-1.5h"`: what it means, and how it was written.
///
/// Reads what Go's `time.ParseDuration` reads, to the nanosecond: an optional sign, then `0` or any number of decimal
/// numbers, each with an optional fraction and a unit (`ns`, `us` or `µs`, `ms`, `s`, `m`, `h`).
///
/// ```
/// use larder_sim::GoDuration;
///
/// let duration: GoDuration = "1m0.5s".parse()?;
/// assert_eq!(duration.nanos(), 60_500_000_000);
/// assert_eq!(duration.to_string(), "1m0.5s");
/// assert_eq!("60".parse::<GoDuration>().unwrap_err().to_string(), "the duration \"60\" has a number without a unit");
/// # Ok::<(), larder_sim::DurationError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoDuration {
    text: Box<str>,
    nanos: i64,
}

impl GoDuration {
    /// The duration in whole nanoseconds, which is written as such.
    ///
    /// ```
    /// assert_eq!(larder_sim::GoDuration::from_nanos(-7).to_string(), "-7ns");
    /// ```
    pub fn from_nanos(nanos: i64) -> Self {
        Self { text: format!("{nanos}ns").into(), nanos }
    }

    /// Its length in nanoseconds.
    pub const fn nanos(&self) -> i64 {
        self.nanos
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A text is not a duration as Go writes them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// There is nothing to read, or something that is neither a number nor a unit.
    #[error("\"{text}\" is not a duration; write one such as \"1m30s\"")]
    Invalid {
        /// The beginning of the text.
        text: String,
    },
    /// A number that no unit follows.
    #[error("the duration \"{text}\" has a number without a unit")]
    MissingUnit {
        /// The beginning of the text.
        text: String,
    },
    /// A unit that is none.
    #[error("the duration \"{text}\" has an unknown unit; there are ns, us, ms, s, m and h")]
    UnknownUnit {
        /// The beginning of the text.
        text: String,
    },
    /// More than 64 bits of nanoseconds hold.
    #[error("the duration \"{text}\" is longer than 292 years")]
    Overflow {
        /// The beginning of the text.
        text: String,
    },
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let nanos = parse(text).map_err(|fault| {
            let text = crate::error_excerpt(text);
            match fault {
                Fault::Invalid => DurationError::Invalid { text },
                Fault::MissingUnit => DurationError::MissingUnit { text },
                Fault::UnknownUnit => DurationError::UnknownUnit { text },
                Fault::Overflow => DurationError::Overflow { text },
            }
        })?;
        Ok(Self { text: text.into(), nanos })
    }
}

enum Fault {
    Invalid,
    MissingUnit,
    UnknownUnit,
    Overflow,
}

/// The magnitude of `i64::MIN`: the most that a sum may reach on the way.
const LIMIT: u64 = 1 << 63;

fn parse(text: &str) -> Result<i64, Fault> {
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(Fault::Invalid);
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (digits, after) = split_digits(rest);
        let whole = integer(digits)?;
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => split_digits(after),
            None => ("", after),
        };
        if digits.is_empty() && fraction.is_empty() {
            return Err(Fault::Invalid);
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let part = part(whole, fraction, &unit_named(unit)?)?;
        // Two halves of the whole range wrap to zero unnoticed in Go, and so here.
        total = total.wrapping_add(part);
        if total > LIMIT {
            return Err(Fault::Overflow);
        }
        rest = after;
    }
    match (negative, i64::try_from(total)) {
        (true, Ok(total)) => Ok(-total),
        (false, Ok(total)) => Ok(total),
        (true, Err(_)) => Ok(i64::MIN),
        (false, Err(_)) => Err(Fault::Overflow),
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn integer(digits: &str) -> Result<u64, Fault> {
    digits.bytes().try_fold(0u64, |value, digit| {
        value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(digit - b'0')))
            .filter(|value| *value <= LIMIT)
            .ok_or(Fault::Overflow)
    })
}

/// A unit in nanoseconds, as the two types that the sums need.
struct Unit {
    nanos: u64,
    float: f64,
}

fn unit_named(name: &str) -> Result<Unit, Fault> {
    let (nanos, float) = match name {
        "" => return Err(Fault::MissingUnit),
        "ns" => (1, 1.0),
        // Both the micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => (1_000, 1e3),
        "ms" => (1_000_000, 1e6),
        "s" => (1_000_000_000, 1e9),
        "m" => (60_000_000_000, 6e10),
        "h" => (3_600_000_000_000, 3.6e12),
        _ => return Err(Fault::UnknownUnit),
    };
    Ok(Unit { nanos, float })
}

/// One number and its unit, in nanoseconds.
fn part(whole: u64, fraction: &str, unit: &Unit) -> Result<u64, Fault> {
    let nanos = whole.checked_mul(unit.nanos).filter(|nanos| *nanos <= LIMIT).ok_or(Fault::Overflow)?;
    let nanos = nanos + fraction_of(fraction, unit.float);
    if nanos > LIMIT { Err(Fault::Overflow) } else { Ok(nanos) }
}

/// The digits after a point, of a unit. In floating point, in the order in which Go computes it: the last nanosecond
/// depends on it.
fn fraction_of(digits: &str, unit: f64) -> u64 {
    // Digits that no longer fit are beyond any unit's nanoseconds.
    const MOST: u64 = (LIMIT - 1) / 10;
    let (mut value, mut scale) = (0u64, 1.0);
    for digit in digits.bytes() {
        if value > MOST {
            break;
        }
        value = value * 10 + u64::from(digit - b'0');
        scale *= 10.0;
    }
    // Below the unit's own nanoseconds, and so well below 2^63.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let nanos = (value as f64 * (unit / scale)) as u64;
    nanos
}

#[cfg(test)]
mod tests;
