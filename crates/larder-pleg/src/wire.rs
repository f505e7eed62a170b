//! The JSON form of single values in a status: times, hashes, container identifiers.

/// Nanoseconds since the Unix epoch, as RFC 3339 in UTC with nine digits after the point; 0 is not set, and left out.
pub(crate) mod time {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use std::borrow::Cow;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
    pub(crate) fn is_unset(nanos: &i64) -> bool {
        *nanos == 0
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
    pub(crate) fn serialize<S: Serializer>(nanos: &i64, serializer: S) -> Result<S::Ok, S::Error> {
        if is_unset(nanos) {
            return serializer.serialize_none();
        }
        // Every `i64` of nanoseconds lies between the years 1677 and 2262.
        let time = jiff::Timestamp::from_nanosecond(i128::from(*nanos)).map_err(serde::ser::Error::custom)?;
        serializer.collect_str(&format_args!("{time:.9}"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
        let Some(text) = Option::<Cow<'de, str>>::deserialize(deserializer)? else { return Ok(0) };
        let time: jiff::Timestamp = text.parse().map_err(de::Error::custom)?;
        i64::try_from(time.as_nanosecond()).map_err(|_| de::Error::custom(format_args!("time out of range: {text}")))
    }
}

/// A hash of 64 bits, in hexadecimal without leading zeros: more than a number in JSON can be trusted with.
pub(crate) mod hash {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use std::borrow::Cow;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
    pub(crate) fn is_unset(hash: &u64) -> bool {
        *hash == 0
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
    pub(crate) fn serialize<S: Serializer>(hash: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{hash:x}"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(de::Error::custom)
    }
}
