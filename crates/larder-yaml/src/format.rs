//! Texts whose form Kubernetes fixes: numbers, quantities and times.

/// A number as Go's JSON writes it.
pub(crate) fn float(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        scientific(&format!("{number:e}"), 1)
    } else {
        number.to_string()
    }
}

/// A number that is the key of a map, as Go writes it: in the shortest form of 32 bits.
pub(crate) fn float_key(number: f64) -> String {
    if !number.is_finite() {
        let text = if number.is_nan() {
            ".nan"
        } else if number > 0.0 {
            ".inf"
        } else {
            "-.inf"
        };
        return text.to_owned();
    }
    #[expect(clippy::cast_possible_truncation, reason = "this is the form that the keys have")]
    let short = number as f32;
    let text = format!("{short:e}");
    let exponent: i32 = text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or_default();
    if (-4..6).contains(&exponent) { short.to_string() } else { scientific(&text, 2) }
}

/// Rust's `1e6` with a sign and at least so many digits in its exponent.
fn scientific(text: &str, digits: usize) -> String {
    let Some((mantissa, exponent)) = text.split_once('e') else { return text.to_owned() };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{mantissa}e{sign}{exponent:0>digits$}")
}

/// Whether the text is a quantity: a number, and a suffix that is a unit or an exponent.
pub(crate) fn is_quantity(text: &str) -> bool {
    if text.is_empty() {
        return false;
    }
    let number = text.strip_prefix(['+', '-']).unwrap_or(text);
    let after = number.trim_start_matches(|c: char| c.is_ascii_digit());
    let suffix = after.strip_prefix('.').map_or(after, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    match suffix {
        "" | "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E" | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" => true,
        _ => suffix.strip_prefix(['e', 'E']).is_some_and(|exponent| exponent.parse::<i64>().is_ok()),
    }
}

/// Whether the text is a time of RFC 3339 as Go reads it.
pub(crate) fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let has = |form: &[u8], at: usize| {
        bytes.get(at..at + form.len()).is_some_and(|part| {
            part.iter().zip(form).all(|(byte, form)| if *form == b'0' { byte.is_ascii_digit() } else { byte == form })
        })
    };
    if !has(b"0000-00-00T00:00:00", 0) {
        return false;
    }
    let number = |at: usize| text.get(at..at + 2).and_then(|part| part.parse::<u8>().ok()).unwrap_or(u8::MAX);
    if number(11) > 23 || number(14) > 59 || number(17) > 59 {
        return false;
    }
    let mut at = 19;
    if matches!(bytes.get(at), Some(b'.')) {
        let digits = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return false;
        }
        at += 1 + digits;
    }
    &text[at..] == "Z" || ((has(b"+00:00", at) || has(b"-00:00", at)) && text.len() == at + 6)
}
