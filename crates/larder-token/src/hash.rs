//! What stands for a token where the token itself is not kept.

use ring::digest::{SHA256, digest};
use std::fmt;

/// The SHA-256 of a token. A token has too many random bits in its signature to be found by its hash.
///
/// ```
/// use larder_token::TokenHash;
///
/// assert_eq!(TokenHash::of("a.b.c"), TokenHash::of("a.b.c"));
/// assert_ne!(TokenHash::of("a.b.c"), TokenHash::of("a.b.d"));
/// assert_eq!(format!("{:?}", TokenHash::of("a.b.c")), "TokenHash");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of a token.
    pub fn of(token: &str) -> Self {
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(digest(&SHA256, token.as_bytes()).as_ref()) {
            *to = *from;
        }
        Self(bytes)
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash")
    }
}
