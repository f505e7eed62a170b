//! The `Cache-Status` header of RFC 9211: how the cache made an answer.
//!
//! | the answer | header |
//! | --- | --- |
//! | was held and fresh | `larder; hit; ttl=48; detail=live-read` |
//! | was held and stale | `larder; hit; ttl=-12; detail="stale: next try in 3s: ..."` |
//! | was fetched for this read | `larder; fwd=miss; stored; ttl=60; detail=live-read` |
//! | was held; fetching it again failed or took too long | `larder; fwd=stale; ttl=-12; detail="stale: ..."` |
//! | says that the object is known to be absent | `larder; hit; detail=absent` |
//! | says that this node has no such pod | `larder; hit; detail="absent from this node"` |
//! | is not known yet | `larder; fwd=miss; detail="..."` |
//! | is the API server's, to a request that was passed on | `larder; fwd=bypass` |
//! | has no source: discovery, a review, larder's own state, a refusal | `larder` |
//!
//! `ttl` is the number of seconds that a fresh answer stays fresh. There is no `ttl` if no time ends the freshness: a watch keeps the
//! object, the object is immutable and held, or every read fetches. A stale answer has a negative `ttl`: it has been stale for so many
//! seconds. The cache decides both, and this module computes nothing again. `detail` is the source of a fresh answer, or the reason why
//! an answer is stale.

use sfv::{BareItem, ListEntry, StringRef, TokenRef};
use std::fmt::{self, Write as _};

/// The value of a `Cache-Status` header in which larder is the only cache.
///
/// ```
/// use larder_server::cache_status::{CacheStatus, Outcome};
///
/// let mut status = CacheStatus::new(Outcome::Hit);
/// status.ttl = Some(-3);
/// status.detail = Some("stale: no answer".to_owned());
/// assert_eq!(status.to_string(), r#"larder; hit; ttl=-3; detail="stale: no answer""#);
/// assert_eq!(CacheStatus::parse(&status.to_string()), Some(status));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStatus {
    /// Whether larder held the answer or fetched it.
    pub outcome: Outcome,
    /// For how many seconds the answer stays fresh, negative if it is stale; `None` if no time ends its freshness.
    pub ttl: Option<i64>,
    /// The source of a fresh answer, or the reason why it is stale.
    pub detail: Option<String>,
}

/// Whether larder held an answer or fetched it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// larder held the answer, and fetched nothing.
    Hit,
    /// larder did not hold the answer: it fetched the answer and holds it now (`stored`).
    Fetched,
    /// larder held a stale answer: it fetched the answer again and holds it now (`stored`).
    Refreshed,
    /// larder held a stale answer, and could not fetch it again: it sends the stale one.
    FetchFailed,
    /// larder did not hold the answer, and could not fetch it.
    Unknown,
    /// larder passed the request on to the API server, and its answer back.
    Passed,
    /// larder made the answer itself. It has no source to hold or fetch it from.
    Generated,
}

impl fmt::Display for CacheStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.outcome {
            Outcome::Hit => "larder; hit",
            Outcome::Fetched => "larder; fwd=miss; stored",
            Outcome::Refreshed => "larder; fwd=stale; stored",
            Outcome::FetchFailed => "larder; fwd=stale",
            Outcome::Unknown => "larder; fwd=miss",
            Outcome::Passed => "larder; fwd=bypass",
            Outcome::Generated => "larder",
        })?;
        if let Some(ttl) = self.ttl {
            // An sf-integer has at most 15 digits.
            write!(f, "; ttl={}", ttl.clamp(-999_999_999_999_999, 999_999_999_999_999))?;
        }
        if let Some(detail) = &self.detail {
            f.write_str("; detail=")?;
            write_item(f, detail)?;
        }
        Ok(())
    }
}

/// Writes a token of structured fields if the text is one, else a string.
fn write_item(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let is_token = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&b));
    if is_token {
        return f.write_str(text);
    }
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            // A string of a structured field holds printable ASCII only.
            ' '..='~' => f.write_char(c)?,
            _ => f.write_char('?')?,
        }
    }
    f.write_char('"')
}

impl CacheStatus {
    /// With this outcome alone.
    pub const fn new(outcome: Outcome) -> Self {
        Self { outcome, ttl: None, detail: None }
    }

    /// Reads larder's own member of a `Cache-Status` header; `None` if there is none, or one of another shape.
    pub fn parse(header: &str) -> Option<Self> {
        let members: sfv::List = sfv::Parser::new(header).parse().ok()?;
        let parameters = members.iter().find_map(|member| match member {
            ListEntry::Item(item) if item.bare_item.as_token()?.as_str() == "larder" => Some(&item.params),
            _ => None,
        })?;
        let flag = |name| parameters.get(name).and_then(BareItem::as_boolean).unwrap_or(false);
        let text = |value: &BareItem| {
            let token = value.as_token().map(TokenRef::as_str);
            token.or_else(|| value.as_string().map(StringRef::as_str)).map(str::to_owned)
        };
        let forwarded = parameters.get("fwd").and_then(text);
        let outcome = match (flag("hit"), forwarded.as_deref(), flag("stored")) {
            (true, None, _) => Outcome::Hit,
            (false, Some("miss"), true) => Outcome::Fetched,
            (false, Some("miss"), false) => Outcome::Unknown,
            (false, Some("stale"), true) => Outcome::Refreshed,
            (false, Some("stale"), false) => Outcome::FetchFailed,
            (false, Some("bypass"), false) => Outcome::Passed,
            (false, None, false) => Outcome::Generated,
            _ => return None,
        };
        let ttl = match parameters.get("ttl") {
            Some(ttl) => Some(ttl.as_integer()?.into()),
            None => None,
        };
        Some(Self { outcome, ttl, detail: parameters.get("detail").and_then(text) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(outcome: Outcome, ttl: Option<i64>, detail: Option<&str>, expected: &str) {
        let status = CacheStatus { outcome, ttl, detail: detail.map(str::to_owned) };
        assert_eq!(status.to_string(), expected);
        assert_eq!(CacheStatus::parse(expected), Some(status), "{expected}");
    }

    #[test]
    fn each_outcome_is_written_and_read() {
        check(Outcome::Hit, Some(48), Some("live-read"), "larder; hit; ttl=48; detail=live-read");
        check(Outcome::Hit, None, Some("watch"), "larder; hit; detail=watch");
        check(Outcome::Fetched, Some(60), None, "larder; fwd=miss; stored; ttl=60");
        check(Outcome::Refreshed, Some(60), None, "larder; fwd=stale; stored; ttl=60");
        check(Outcome::FetchFailed, Some(-1), Some("a; b"), r#"larder; fwd=stale; ttl=-1; detail="a; b""#);
        check(Outcome::Generated, None, None, "larder");
        check(Outcome::Passed, None, None, "larder; fwd=bypass");
        check(Outcome::Unknown, None, Some(r#"say "x\""#), r#"larder; fwd=miss; detail="say \"x\\\"""#);
    }

    #[test]
    fn a_detail_is_never_more_than_printable_ascii() {
        let status = CacheStatus { outcome: Outcome::Hit, ttl: None, detail: Some("naïve\r\nX: y".to_owned()) };
        assert_eq!(status.to_string(), r#"larder; hit; detail="na?ve??X: y""#);
    }

    #[test]
    fn other_caches_are_not_taken_for_larder() {
        assert_eq!(CacheStatus::parse("proxy; hit"), None);
        assert_eq!(CacheStatus::parse("larder; hit; fwd=miss"), None);
        assert_eq!(CacheStatus::parse(""), None);
        assert_eq!(CacheStatus::parse("larder; hit; ttl=soon"), None);
        assert_eq!(CacheStatus::parse("proxy; fwd=miss, larder;hit"), Some(CacheStatus::new(Outcome::Hit)));
    }

    #[test]
    fn whatever_the_status_is_its_header_is_a_structured_field() {
        for ttl in [i64::MIN, 0, i64::MAX] {
            for detail in ["", "a", "9", ":a", "stale: \"b\" \\ c", "é\t\0", "a;b=c, d"] {
                let status =
                    CacheStatus { ttl: Some(ttl), detail: Some(detail.to_owned()), ..CacheStatus::new(Outcome::Hit) };
                let parsed = CacheStatus::parse(&status.to_string()).unwrap();
                assert_eq!(parsed.ttl, Some(ttl.clamp(-999_999_999_999_999, 999_999_999_999_999)), "{status}");
                assert_eq!(parsed.detail.unwrap().chars().count(), detail.chars().count(), "{status}");
            }
        }
    }
}
