//! How long ago something was, in the words of the API server's tables: `12s`, `3m4s`, `5h`, `2d3h`.

use jiff::SignedDuration;
use larder_resource::representation::human_duration;

/// From `then` to `now`; `<unknown>` for a time that is not known.
pub(crate) use larder_resource::representation::age as since;

/// A number of seconds: exact where it is short, coarse where it is long.
pub(crate) fn seconds(seconds: i64) -> String {
    human_duration(SignedDuration::from_secs(seconds))
}
