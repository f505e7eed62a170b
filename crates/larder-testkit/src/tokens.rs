//! Service-account tokens as an API server signs them, and forged ones.
//!
//! The RSA key is of these tests alone (`tokens/rsa.der`): `ring` can make none. The others are made anew.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RSA_PKCS1_SHA384, RsaKeyPair,
};
use ring::{error, hmac};
use serde_json::{Value, json};

mod forged;

pub use forged::{Forgery, forge};

const RSA: &[u8] = include_bytes!("tokens/rsa.der");

/// A key that signs tokens.
#[derive(Debug)]
pub struct TokenSigner {
    key: Key,
    random: SystemRandom,
}

#[derive(Debug)]
enum Key {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
}

impl TokenSigner {
    /// The RSA key. All of these are one.
    ///
    /// # Errors
    ///
    /// If `ring` does not take the key.
    pub fn rsa() -> Result<Self, error::KeyRejected> {
        Ok(Self { key: Key::Rsa(Box::new(RsaKeyPair::from_pkcs8(RSA)?)), random: SystemRandom::new() })
    }

    /// A new key on P-256.
    ///
    /// # Errors
    ///
    /// If the system has no randomness.
    pub fn p256() -> Result<Self, error::Unspecified> {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random);
        Ok(Self { key: Key::P256(key.map_err(|_| error::Unspecified)?), random })
    }

    /// A new key on P-384.
    ///
    /// # Errors
    ///
    /// If the system has no randomness.
    pub fn p384() -> Result<Self, error::Unspecified> {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, &random)?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, made.as_ref(), &random);
        Ok(Self { key: Key::P384(key.map_err(|_| error::Unspecified)?), random })
    }

    /// The algorithm that goes with the key.
    pub fn algorithm(&self) -> &'static str {
        match self.key {
            Key::Rsa(_) => "RS256",
            Key::P256(_) => "ES256",
            Key::P384(_) => "ES384",
        }
    }

    /// The key's ID, as the API server derives it.
    pub fn id(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, &self.public_der()))
    }

    /// The public key as a JWK.
    pub fn jwk(&self) -> Value {
        let mut jwk = match &self.key {
            Key::Rsa(key) => {
                let public: ring::rsa::PublicKeyComponents<Vec<u8>> = key.public().into();
                json!({"kty": "RSA", "n": URL_SAFE_NO_PAD.encode(public.n), "e": URL_SAFE_NO_PAD.encode(public.e)})
            }
            Key::P256(key) => point("P-256", key),
            Key::P384(key) => point("P-384", key),
        };
        jwk["use"] = "sig".into();
        jwk["alg"] = self.algorithm().into();
        jwk["kid"] = self.id().into();
        jwk
    }

    /// The public key in PEM.
    pub fn pem(&self) -> String {
        let text = base64::engine::general_purpose::STANDARD.encode(self.public_der());
        let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\n");
        format!("-----BEGIN PUBLIC KEY-----\n{lines}\n-----END PUBLIC KEY-----\n")
    }

    /// The public key as a `SubjectPublicKeyInfo`.
    fn public_der(&self) -> Vec<u8> {
        let (algorithm, key): (&[u8], _) = match &self.key {
            Key::Rsa(key) => (b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00", key.public().as_ref()),
            Key::P256(key) => (
                b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07",
                key.public_key().as_ref(),
            ),
            Key::P384(key) => {
                (b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22", key.public_key().as_ref())
            }
        };
        let bits = element(0x03, &[&[0], key].concat());
        element(0x30, &[element(0x30, algorithm), bits].concat())
    }

    /// Any claims, signed under the header that goes with the key.
    pub fn token(&self, claims: &Value) -> String {
        self.sign(&json!({"alg": self.algorithm(), "kid": self.id()}).to_string(), &claims.to_string())
    }

    /// Any header and claims, signed with the key by its own algorithm.
    pub fn sign(&self, header: &str, claims: &str) -> String {
        let signed = signed(header, claims);
        let signature = self.signature(signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn signature(&self, message: &[u8]) -> Vec<u8> {
        match &self.key {
            Key::Rsa(key) => rsa(key, &RSA_PKCS1_SHA256, &self.random, message),
            // Without randomness there is no signature, which no test takes for one.
            Key::P256(key) | Key::P384(key) => {
                key.sign(&self.random, message).map(|signature| signature.as_ref().to_vec()).unwrap_or_default()
            }
        }
    }
}

fn rsa(
    key: &RsaKeyPair,
    by: &'static dyn ring::signature::RsaEncoding,
    random: &SystemRandom,
    message: &[u8],
) -> Vec<u8> {
    let mut signature = vec![0; key.public().modulus_len()];
    match key.sign(by, random, message, &mut signature) {
        Ok(()) => signature,
        Err(_) => Vec::new(),
    }
}

/// The claims of a pod's token that is valid for an hour, as the API server writes them.
pub fn pod_claims(issuer: &str, node: &str, namespace: &str, pod: [&str; 2], account: &str, now: Timestamp) -> Value {
    let [name, uid] = pod;
    let now = now.as_second();
    json!({
        "aud": [issuer],
        "exp": now + 3600,
        "iat": now,
        "iss": issuer,
        "jti": "5b4ef4a8-4a5d-4b5e-9d0c-5b1b7b2a6d11",
        "kubernetes.io": {
            "namespace": namespace,
            "node": {"name": node, "uid": "7d3d7e0e-23ee-4b13-9f2f-1b8a6f0b54a1"},
            "pod": {"name": name, "uid": uid},
            "serviceaccount": {"name": account, "uid": "c0a4f7b2-6d7e-4e4f-8d0b-0a9b6a2f3c55"},
            "warnafter": now + 3607,
        },
        "nbf": now,
        "sub": format!("system:serviceaccount:{namespace}:{account}"),
    })
}

/// The JWKS of keys, as at `/openid/v1/jwks`.
pub fn jwks<'a>(signers: impl IntoIterator<Item = &'a TokenSigner>) -> String {
    json!({"keys": signers.into_iter().map(TokenSigner::jwk).collect::<Vec<_>>()}).to_string()
}

fn signed(header: &str, claims: &str) -> String {
    [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".")
}

fn hs256(header: &str, claims: &str, secret: &[u8]) -> String {
    let signed = signed(header, claims);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag))
}

fn point(curve: &str, key: &EcdsaKeyPair) -> Value {
    let coordinates = key.public_key().as_ref().get(1..).unwrap_or_default();
    let (x, y) = coordinates.split_at(coordinates.len() / 2);
    json!({"kty": "EC", "crv": curve, "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y)})
}

/// An element of DER.
fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
    let length = contents.len().to_be_bytes();
    let zeros = length.iter().take_while(|byte| **byte == 0).count();
    let length = length.get(zeros..).unwrap_or_default();
    let head = match length {
        [] => vec![tag, 0],
        [short @ 0..=0x7f] => vec![tag, *short],
        long => [&[tag, 0x80 | u8::try_from(long.len()).unwrap_or_default()], long].concat(),
    };
    [&*head, contents].concat()
}
