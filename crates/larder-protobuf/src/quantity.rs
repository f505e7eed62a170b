//! Quantities such as `100m`, in the form in which Go writes what it has read (`ParseQuantity` and `String` of
//! k8s.io/apimachinery/pkg/api/resource).

use std::borrow::Cow;
use std::fmt::Write as _;

/// The smallest exponent of ten.
const NANO: i64 = -9;
/// Digits that Go reads without a large number.
const MOST_INT64_DIGITS: i64 = 18;
/// The largest amount with a binary suffix.
const MOST_BINARY: u128 = i64::MAX as u128;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Exponent,
    Decimal,
    Binary,
}

/// The quantity as Go writes it; none if it is no quantity, or has more than 36 digits.
pub(crate) fn canonical(text: &str) -> Option<Cow<'_, str>> {
    if text == "0" {
        return Some(Cow::Borrowed(text));
    }
    let parts = split(text)?;
    let (exponent, format) = suffix(parts.suffix)?;
    let scale = exponent.checked_sub(i64::try_from(parts.fraction.len()).ok()?)?;
    let digits = [parts.whole, parts.fraction].concat();
    let is_small = is_small(&parts, exponent, scale, format);
    if is_small && keeps_form(scale, format, &digits) {
        return Some(Cow::Borrowed(text));
    }
    // Go reads a number without any digit as zero, but for the long way.
    if !is_small && !text.trim_end_matches(parts.suffix).bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let trimmed = digits.trim_start_matches('0');
    if trimmed.len() > 36 {
        return None;
    }
    let value: u128 = if trimmed.is_empty() { 0 } else { trimmed.parse().ok()? };
    if value == 0 {
        return Some(Cow::Borrowed("0"));
    }
    write(parts.is_negative, value, exponent, scale, format).map(Cow::Owned)
}

/// Whether Go reads it without a large number. Only such a quantity may keep its form.
fn is_small(parts: &Parts<'_>, exponent: i64, scale: i64, format: Format) -> bool {
    let len = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
    let (whole, fraction) = (len(parts.whole), len(parts.fraction));
    match format {
        Format::Binary => fraction == 0 && 15_i64.saturating_sub(whole) - exponent * 3 / 10 > 0,
        Format::Decimal | Format::Exponent => whole.saturating_add(fraction) <= MOST_INT64_DIGITS && scale >= NANO,
    }
}

/// Whether Go keeps the text as it is.
fn keeps_form(scale: i64, format: Format, digits: &str) -> bool {
    match format {
        Format::Binary => digits.parse::<u64>().is_ok_and(|value| value & 7 != 0),
        Format::Decimal | Format::Exponent => scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0'),
    }
}

/// The quantity as Go writes a number.
fn write(is_negative: bool, mut value: u128, exponent: i64, mut scale: i64, mut format: Format) -> Option<String> {
    if format == Format::Binary {
        scale -= exponent;
        value = value.checked_mul(1_u128.checked_shl(u32::try_from(exponent).ok()?)?)?;
    }
    // What is smaller than a billionth is rounded up, away from zero.
    while scale < NANO {
        let is_exact = value.is_multiple_of(10);
        value = value / 10 + u128::from(!is_exact);
        scale += 1;
        if value == 1 && scale < NANO {
            scale = NANO;
        }
    }
    if format == Format::Binary {
        let unit = 10_u128.pow(u32::try_from(-scale).ok()?);
        if value > MOST_BINARY.checked_mul(unit)? {
            (value, scale) = (MOST_BINARY, 0);
        }
        let unit = 10_u128.pow(u32::try_from(-scale).ok()?);
        // A small number, and one with a fraction, is written without a binary suffix.
        if value < 1024 * unit || !value.is_multiple_of(unit) {
            format = Format::Decimal;
        } else {
            (value, scale) = (value / unit, 0);
        }
    }
    let mut text = String::from(if is_negative { "-" } else { "" });
    if format == Format::Binary {
        let mut power = 0;
        while value.is_multiple_of(1024) {
            value /= 1024;
            power += 1;
        }
        let _ = write!(text, "{value}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(power)?);
        return Some(text);
    }
    while value.is_multiple_of(10) {
        value /= 10;
        scale += 1;
    }
    while scale % 3 != 0 {
        value = value.checked_mul(10)?;
        scale -= 1;
    }
    let _ = match format {
        Format::Exponent if scale == 0 => write!(text, "{value}"),
        Format::Exponent => write!(text, "{value}e{scale}"),
        Format::Decimal | Format::Binary => {
            let power = usize::try_from(scale / 3 + 3).ok()?;
            // Go has no suffix beyond E, and writes none: 7000E becomes 7.
            let suffix = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].get(power).copied();
            write!(text, "{value}{}", suffix.unwrap_or_default())
        }
    };
    Some(text)
}

struct Parts<'a> {
    is_negative: bool,
    /// The digits before the point without zeros in front; `0` where there are none.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

fn split(text: &str) -> Option<Parts<'_>> {
    if text.is_empty() {
        return None;
    }
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let rest = rest.trim_start_matches('0');
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = rest.split_at(digits(rest));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let letters = rest.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
    let number = letters.strip_prefix(['-', '+']).unwrap_or(letters);
    if digits(number) != number.len() {
        return None;
    }
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(Parts { is_negative: text.starts_with('-'), whole, fraction, suffix: rest })
}

fn suffix(suffix: &str) -> Option<(i64, Format)> {
    let (exponent, format) = match suffix {
        "n" => (-9, Format::Decimal),
        "u" => (-6, Format::Decimal),
        "m" => (-3, Format::Decimal),
        "" => (0, Format::Decimal),
        "k" => (3, Format::Decimal),
        "M" => (6, Format::Decimal),
        "G" => (9, Format::Decimal),
        "T" => (12, Format::Decimal),
        "P" => (15, Format::Decimal),
        "E" => (18, Format::Decimal),
        "Ki" => (10, Format::Binary),
        "Mi" => (20, Format::Binary),
        "Gi" => (30, Format::Binary),
        "Ti" => (40, Format::Binary),
        "Pi" => (50, Format::Binary),
        "Ei" => (60, Format::Binary),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (i64::from(exponent), Format::Exponent)
        }
    };
    Some((exponent, format))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_as_in_go() {
        // `cargo xtask differential` compares more of them with Go.
        for (text, expected) in [
            ("0", "0"),
            ("00", "0"),
            ("-0", "0"),
            ("0.0", "0"),
            ("0Ki", "0"),
            (".", "0"),
            ("Ki", "0"),
            ("100m", "100m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1.500", "1.500"),
            ("+5", "+5"),
            ("05", "05"),
            ("-5", "-5"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("1e3", "1e3"),
            ("1E3", "1E3"),
            ("10e2", "1e3"),
            ("1024Ki", "1Mi"),
            ("1025Ki", "1025Ki"),
            ("8Ki", "8Ki"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("0.001Ki", "1024m"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("-0.1n", "-1n"),
            ("1e-12", "1e-9"),
            ("16Ei", "9223372036854775807"),
            ("1T", "1T"),
            ("7000E", "7"),
            ("12345678901234567890", "12345678901234567890"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
        }
        for bad in
            ["", "Pi", "+Ei", "e-12", "a", "1x", "1Kii", "1 ", " 1", "1e", "1mm", "--1", "1e99999999999", "1.2.3"]
        {
            assert_eq!(canonical(bad), None, "{bad}");
        }
    }
}
