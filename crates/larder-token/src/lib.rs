#![doc(test(attr(deny(warnings))))]
//! Bound service-account tokens of Kubernetes, verified without the API server.
//!
//! A pod's token is a JWT (RFC 7519), signed in the compact form (RFC 7515), that the API server makes for one service account, one pod
//! and, since Kubernetes 1.30, one node. The keys are a JWKS (RFC 7517) or PEM. The rules are those of `pkg/serviceaccount` of Kubernetes
//! (`jwt.go`, `claims.go`), or narrower.
//!
//! # Guarantees
//!
//! - *Pinned algorithms*: a key verifies by its own algorithm alone: RS256, ES256 or ES384. The token's header can pick none. No key is a
//!   shared secret, so HS256 and `none` never verify.
//! - *One meaning*: a token in which a name stands twice, or a field has another type, is refused.
//! - *Bound to a pod*: [`Bound`] always names a pod. [`Bound::check_pod`] compares that pod with the node's pod of today.
//! - *Quiet*: no error and no `Debug` shows a token or a part of its signature.
//!
//! # Limits
//!
//! - It does no I/O, reads no clock and keeps nothing. The caller brings the keys and the time.
//! - ES512 (P-521) is not supported: `ring` has no such curve. Neither are RSA keys below 2048 bits. [`Keys::unusable`] names such keys.
//! - Nobody here knows whether a service account was deleted and made again while the pod runs.
//!
//! # Example
//!
//! ```
//! use larder_token::{Expected, Keys, TokenError, verify};
//!
//! let keys = Keys::from_jwks(br#"{"keys": []}"#)?;
//! let expected = Expected::new("https://kubernetes.default.svc", "node-1");
//! let now = "2026-12-01T00:00:00Z".parse()?;
//! assert_eq!(verify("a.b", &keys, &expected, now), Err(TokenError::Malformed("it is not three parts with a dot between each two")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod claims;
mod error;
mod hash;
mod json;
mod jws;
mod keys;

pub use claims::{Bound, Expected, LEEWAY, PodNow, Reference};
pub use error::{KeysError, TokenError};
pub use hash::TokenHash;
pub use jws::{LONGEST, claims_for_review, claims_without_signature, verify};
pub use keys::Keys;
