//! A token's parts: header, claims and signature (RFC 7515, compact form).

use crate::claims::{Bound, Expected};
use crate::error::TokenError;
use crate::json;
use crate::keys::Keys;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::{Map, Value};

/// The longest token in bytes. Kubernetes' own have about 1 KiB.
pub const LONGEST: usize = 16 << 10;

/// Verifies a token: its signature (RFC 7515 5.2), and then its claims (RFC 7519 7.2). Whether its pod is a pod of this node is
/// [`Bound::check_pod`]'s question.
///
/// # Errors
///
/// [`TokenError`] says why the token is refused.
///
/// ```
/// use larder_testkit::tokens::{TokenSigner, jwks, pod_claims};
/// use larder_token::{Expected, Keys, verify};
///
/// let (cluster, now) = (TokenSigner::p256()?, jiff::Timestamp::now());
/// let keys = Keys::from_jwks(jwks([&cluster]).as_bytes())?;
/// let issuer = "https://kubernetes.default.svc";
/// let token = cluster.token(&pod_claims(issuer, "node-1", "web", ["shop-1", "uid-1"], "shop", now));
/// let bound = verify(&token, &keys, &Expected::new(issuer, "node-1"), now)?;
/// assert_eq!((bound.username().as_str(), bound.pod.uid.as_str()), ("system:serviceaccount:web:shop", "uid-1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn verify(token: &str, keys: &Keys, expected: &Expected, now: Timestamp) -> Result<Bound, TokenError> {
    let parts = Parts::of(token)?;
    parts.verify_signature(keys)?;
    Bound::of(&parts.claims()?, expected, now)
}

/// What a token claims, without a look at its signature: whether it is worth fetching newer keys for. It proves nothing.
///
/// # Errors
///
/// [`TokenError`] says why no key could make the token good.
///
/// ```
/// use larder_token::{Expected, TokenError, claims_without_signature};
///
/// let expected = Expected::new("https://kubernetes.default.svc", "node-1");
/// let unsigned = "e30.e30.";
/// let error = claims_without_signature(unsigned, &expected, jiff::Timestamp::now()).unwrap_err();
/// assert_eq!(error, TokenError::Claim { name: "iss", problem: "is missing" });
/// ```
pub fn claims_without_signature(token: &str, expected: &Expected, now: Timestamp) -> Result<Bound, TokenError> {
    Bound::of(&Parts::of(token)?.claims()?, expected, now)
}

/// What a token claims, without a look at its signature, issuer and audience: for a token that the API server is asked about
/// (`TokenReview`). Its times and its node are checked. It proves nothing until the API server has vouched for the token.
///
/// # Errors
///
/// [`TokenError`] says why the token is of no pod of this node, whatever the API server says.
///
/// ```
/// use larder_testkit::tokens::{TokenSigner, pod_claims};
/// use larder_token::claims_for_review;
///
/// let now = jiff::Timestamp::now();
/// let token = TokenSigner::p256()?.token(&pod_claims("issuer", "node-1", "web", ["shop-1", "uid-1"], "shop", now));
/// assert_eq!(claims_for_review(&token, "node-1", now)?.pod.uid, "uid-1");
/// assert_eq!(claims_for_review(&token, "node-2", now).unwrap_err().reason(), "other-node");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn claims_for_review(token: &str, node: &str, now: Timestamp) -> Result<Bound, TokenError> {
    let claims = Parts::of(token)?.claims()?;
    let expected = Expected::as_claimed(&claims, node)?;
    Bound::of(&claims, &expected, now)
}

struct Parts<'a> {
    header: Map<String, Value>,
    /// What is signed: header and claims in base64, with the dot.
    signed: &'a str,
    /// In base64.
    claims: &'a str,
    signature: Vec<u8>,
}

impl<'a> Parts<'a> {
    fn of(token: &'a str) -> Result<Self, TokenError> {
        if token.len() > LONGEST {
            return Err(TokenError::Malformed("it is longer than 16 KiB"));
        }
        let dots = TokenError::Malformed("it is not three parts with a dot between each two");
        let (signed, signature) = token.rsplit_once('.').ok_or_else(|| dots.clone())?;
        let (header, claims) = signed.split_once('.').ok_or_else(|| dots.clone())?;
        if claims.contains('.') {
            return Err(dots);
        }
        let header = object(header, "its header is not JSON in base64url")?;
        let signature = bytes(signature).ok_or(TokenError::Malformed("its signature is not base64url"))?;
        Ok(Self { header, signed, claims, signature })
    }

    fn claims(&self) -> Result<Map<String, Value>, TokenError> {
        object(self.claims, "its claims are not JSON in base64url")
    }

    /// Keys in the header (`jwk`, `jku`, `x5c`, `x5u`) are not looked at.
    fn verify_signature(&self, keys: &Keys) -> Result<(), TokenError> {
        if self.header.contains_key("crit") {
            return Err(TokenError::Malformed("its header asks for an extension (crit)"));
        }
        let Some(Value::String(algorithm)) = self.header.get("alg") else {
            return Err(TokenError::Malformed("its header names no algorithm (alg)"));
        };
        let id = match self.header.get("kid") {
            None => None,
            Some(Value::String(id)) => Some(&**id).filter(|id| !id.is_empty()),
            Some(_) => return Err(TokenError::Malformed("its header's key ID (kid) is not a string")),
        };
        let mut refused = TokenError::UnknownKey { known: keys.len() };
        for key in keys.candidates(id) {
            refused = match key.verify(algorithm, self.signed.as_bytes(), &self.signature) {
                Ok(()) => return Ok(()),
                // Of several keys, one of the right algorithm says more.
                Err(TokenError::Algorithm { .. }) if refused == TokenError::Signature => refused,
                Err(error) => error,
            };
        }
        Err(refused)
    }
}

fn bytes(base64url: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(base64url).ok()
}

fn object(base64url: &str, problem: &'static str) -> Result<Map<String, Value>, TokenError> {
    bytes(base64url).and_then(|bytes| json::object(&bytes)).ok_or(TokenError::Malformed(problem))
}
