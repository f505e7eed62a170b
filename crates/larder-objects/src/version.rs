//! The order of resource versions.

/// Where a `resourceVersion` stands in the order of versions, as the kubelet reads it (Go's `ParseUint` with its errors
/// ignored): decimal digits are a number, a number beyond 64 bits is the largest, and anything else is 0.
///
/// The digits are read from the left, so a number that is already too large counts as the largest whatever follows.
///
/// ```
/// use larder_objects::resource_version_order;
///
/// assert!(resource_version_order("9") < resource_version_order("10"));
/// assert_eq!(resource_version_order(""), 0);
/// assert_eq!(resource_version_order("+5"), 0);
/// assert_eq!(resource_version_order("18446744073709551616"), u64::MAX);
/// ```
pub fn resource_version_order(version: &str) -> u64 {
    let mut number = 0_u64;
    for byte in version.bytes() {
        if !byte.is_ascii_digit() {
            return 0;
        }
        let digit = u64::from(byte - b'0');
        let Some(next) = number.checked_mul(10).and_then(|tens| tens.checked_add(digit)) else {
            return u64::MAX;
        };
        number = next;
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_go_reads_them() {
        let table = [
            ("", 0),
            ("0", 0),
            ("1", 1),
            ("007", 7),
            ("12345", 12_345),
            ("18446744073709551614", u64::MAX - 1),
            ("18446744073709551615", u64::MAX),
            ("18446744073709551616", u64::MAX),
            ("18446744073709551620", u64::MAX),
            ("99999999999999999999", u64::MAX),
            ("100000000000000000000000000000000000000000", u64::MAX),
            ("000000000000000000000000000000000000000001", 1),
            ("+5", 0),
            ("-5", 0),
            ("1_000", 0),
            ("5 ", 0),
            (" 5", 0),
            ("5x", 0),
            ("x5", 0),
            ("5.0", 0),
            ("0x10", 0),
            ("1e3", 0),
            ("٣", 0),
            ("５", 0),
            ("5\u{0}", 0),
            // Too large before the letter is reached.
            ("99999999999999999999x", u64::MAX),
            ("18446744073709551616x", u64::MAX),
            // The letter comes first.
            ("18446744073709551615x", 0),
            ("1844674407370955161x5", 0),
        ];
        for (version, order) in table {
            assert_eq!(resource_version_order(version), order, "{version:?}");
        }
    }
}
