//! What a scalar of YAML means, as the reader of Kubernetes' tools resolves it: YAML 1.1, of which it leaves sexagesimal numbers out.

use crate::node::Value;
use zeroize::Zeroizing;

/// The prefix of YAML's own tags, which `!!` stands for.
pub(crate) const TAGS: &str = "tag:yaml.org,2002:";

/// The value of a plain or tagged scalar; the tag is written out, and empty where there is none.
///
/// # Errors
///
/// What is wrong, where the text is not what the tag says.
pub(crate) fn resolve(tag: &str, text: &str) -> Result<Value, &'static str> {
    let string = || Value::String(Zeroizing::new(text.to_owned()));
    let Some(wanted) = Tag::of(tag) else { return Ok(string()) };
    if wanted == Tag::String {
        return Ok(string());
    }
    let value = guess(wanted, text);
    let fits = match (&value, wanted) {
        (_, Tag::None)
        | (Some(Value::Null), Tag::Null)
        | (Some(Value::Bool(_)), Tag::Bool)
        | (Some(Value::Int(_) | Value::UInt(_)), Tag::Int)
        | (Some(Value::Float(_) | Value::Int(_)), Tag::Float) => true,
        // A time stays the text that it is.
        (None, Tag::Time) => is_time(text),
        _ => false,
    };
    if !fits {
        return Err("a value that is not what its tag says");
    }
    match value {
        Some(value) => Ok(value),
        None => Ok(string()),
    }
}

/// The tags that say how to read a scalar. Text with any other tag is a string.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tag {
    None,
    String,
    Bool,
    Int,
    Float,
    Null,
    Time,
}

impl Tag {
    fn of(tag: &str) -> Option<Self> {
        if tag.is_empty() {
            return Some(Self::None);
        }
        match tag.strip_prefix(TAGS)? {
            "str" => Some(Self::String),
            "bool" => Some(Self::Bool),
            "int" => Some(Self::Int),
            "float" => Some(Self::Float),
            "null" => Some(Self::Null),
            "timestamp" => Some(Self::Time),
            _ => None,
        }
    }
}

/// What the text looks like; none for a string.
fn guess(tag: Tag, text: &str) -> Option<Value> {
    let value = match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Value::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" => Value::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Value::Float(f64::NEG_INFINITY),
        _ => match text.as_bytes().first()? {
            b'.' => Value::Float(float(text)?),
            b'0'..=b'9' | b'+' | b'-' if matches!(tag, Tag::None | Tag::Time) && is_time(text) => return None,
            b'0'..=b'9' | b'+' | b'-' => number(&text.replace('_', ""))?,
            _ => return None,
        },
    };
    Some(value)
}

/// A whole number with a sign and a base as Go writes them, or a decimal one.
fn number(text: &str) -> Option<Value> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        _ if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    // Of a number's text, only the digits are left.
    let whole = if digits.starts_with(['+', '-']) { None } else { i128::from_str_radix(digits, radix).ok() };
    if let Some(whole) = whole {
        let unsigned = !text.starts_with(['+', '-']);
        if let Ok(small) = i64::try_from(whole * sign) {
            return Some(Value::Int(small));
        }
        if let (Ok(large), true) = (u64::try_from(whole), unsigned) {
            return Some(Value::UInt(large));
        }
    }
    float(text).map(Value::Float)
}

/// A decimal number of YAML.
fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).map_or((unsigned, None), |(m, e)| (m, Some(e)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let has_mantissa = match mantissa.split_once('.') {
        None => digits(mantissa),
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
    };
    let has_exponent = exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)));
    let number = text.parse::<f64>().ok().filter(|_| has_mantissa && has_exponent)?;
    number.is_finite().then_some(number)
}

/// A value as it is after it went through JSON: a decimal number that is whole stands there as a whole one.
pub(crate) fn through_json(value: Value) -> Value {
    match value {
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked, and the value is whole")]
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e18 => Value::Int(number as i64),
        value => value,
    }
}

/// Whether Go's reader takes the text for a time, which leaves it a string: a date alone, or with a time of day.
fn is_time(text: &str) -> bool {
    let mut rest = text;
    let Some(year) = digits(&mut rest, 4, 4) else { return false };
    let Some(month) = after(&mut rest, "-").then(|| digits(&mut rest, 1, 2)).flatten() else { return false };
    let Some(day) = after(&mut rest, "-").then(|| digits(&mut rest, 1, 2)).flatten() else { return false };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    if day == 0 || day > days {
        return false;
    }
    if rest.is_empty() {
        return true;
    }
    let zoned = match rest.as_bytes()[0] {
        b'T' | b't' => true,
        b' ' => false,
        _ => return false,
    };
    rest = rest[1..].trim_start_matches(|c| !zoned && c == ' ');
    let time = [(23, ":"), (59, ":"), (59, "")]
        .into_iter()
        .all(|(most, then)| digits(&mut rest, 1, 2).is_some_and(|part| part <= most) && after(&mut rest, then));
    if !time {
        return false;
    }
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let end = fraction.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(fraction.len());
        if end == 0 {
            return false;
        }
        rest = &fraction[end..];
    }
    if !zoned {
        return rest.is_empty();
    }
    if rest == "Z" {
        return true;
    }
    let Some(mut zone) = rest.strip_prefix(['+', '-']) else { return false };
    digits(&mut zone, 2, 2).is_some_and(|hours| hours <= 24)
        && after(&mut zone, ":")
        && digits(&mut zone, 2, 2).is_some_and(|minutes| minutes <= 60)
        && zone.is_empty()
}

fn after(rest: &mut &str, expected: &str) -> bool {
    match rest.strip_prefix(expected) {
        Some(after) => {
            *rest = after;
            true
        }
        None => false,
    }
}

/// A number of at least and at most so many digits.
fn digits(rest: &mut &str, least: usize, most: usize) -> Option<u32> {
    let end = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if end < least {
        return None;
    }
    let (number, after) = rest.split_at(end);
    *rest = after;
    number.parse().ok()
}
