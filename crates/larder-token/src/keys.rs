//! The public keys of a cluster, from a JWKS (RFC 7517) or PEM.

use crate::error::{KeysError, TokenError};
use crate::json;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pki_types::SubjectPublicKeyInfoDer;
use pki_types::pem::{PemObject as _, SectionKind};
use ring::digest::{SHA256, digest};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde_json::{Map, Value};

/// The most keys. A cluster has two or three while it rotates them.
const MOST: usize = 32;
/// The bytes of the shortest RSA modulus that is accepted: 2048 bits.
const SHORTEST_MODULUS: usize = 256;
const LONGEST_MODULUS: usize = 1024;

/// The identifiers of algorithms in a `SubjectPublicKeyInfo` (RFC 3279 2.3.1, RFC 5480 2.1.1).
const RSA: &[u8] = &[0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 0x05, 0];
const P256: &[u8] = &[0x06, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const P384: &[u8] = &[0x06, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 0x06, 5, 0x2b, 0x81, 0x04, 0, 0x22];

/// The public keys of a cluster.
///
/// ```
/// use larder_testkit::tokens::TokenSigner;
/// use larder_token::Keys;
///
/// let keys = Keys::parse(TokenSigner::rsa()?.pem().as_bytes())?;
/// assert_eq!(keys.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    keys: Vec<Key>,
    unusable: Vec<&'static str>,
}

/// A key with its ID. A key without an ID is tried for every token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    id: Option<String>,
    public: Public,
}

/// A public key, each kind with the one algorithm that it verifies.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Public {
    /// RS256. Big-endian.
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    /// ES256. An uncompressed point.
    P256(Vec<u8>),
    /// ES384. An uncompressed point.
    P384(Vec<u8>),
}

impl Keys {
    /// Keys in either form, as a file may have them.
    ///
    /// # Errors
    ///
    /// As of [`from_jwks`](Self::from_jwks) for text that begins with `{`, else as of [`from_pem`](Self::from_pem).
    pub fn parse(text: &[u8]) -> Result<Self, KeysError> {
        if text.trim_ascii_start().starts_with(b"{") { Self::from_jwks(text) } else { Self::from_pem(text) }
    }

    /// The keys of a JWKS, as the API server has it at `/openid/v1/jwks`. Keys that larder cannot use are left out, and are in
    /// [`unusable`](Self::unusable).
    ///
    /// # Errors
    ///
    /// [`KeysError`] if it is none, holds a private key, or more than 32 keys.
    pub fn from_jwks(text: &[u8]) -> Result<Self, KeysError> {
        let set = json::object(text).ok_or(KeysError::Jwks("it is not an object in JSON"))?;
        let Some(Value::Array(all)) = set.get("keys") else { return Err(KeysError::Jwks("it has no array \"keys\"")) };
        let mut keys = Self::default();
        for key in all {
            let Value::Object(key) = key else { return Err(KeysError::Jwks("a key is not an object")) };
            if key.contains_key("d") {
                return Err(KeysError::Private);
            }
            let id = key.get("kid").and_then(Value::as_str).filter(|id| !id.is_empty()).map(str::to_owned);
            keys.push(id, of_jwk(key))?;
        }
        Ok(keys)
    }

    /// Public keys in PEM, such as those of the API server's `--service-account-key-file`. Other blocks are left out. The ID of a key is
    /// the one that the API server derives from it.
    ///
    /// # Errors
    ///
    /// [`KeysError`] if there is no public key, a private one, or more than 32 keys.
    pub fn from_pem(text: &[u8]) -> Result<Self, KeysError> {
        let mut keys = Self::default();
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
            match section.map_err(|_| KeysError::Pem)? {
                (SectionKind::PublicKey, der) => {
                    let der = SubjectPublicKeyInfoDer::from(der);
                    let id = URL_SAFE_NO_PAD.encode(digest(&SHA256, &der));
                    keys.push(Some(id), of_spki(&der))?;
                }
                (SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey, _) => {
                    return Err(KeysError::Private);
                }
                _ => {}
            }
        }
        if keys.keys.is_empty() && keys.unusable.is_empty() { Err(KeysError::Pem) } else { Ok(keys) }
    }

    /// How many keys can be used.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no key can be used.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Why keys of the document are not used, one entry for each.
    pub fn unusable(&self) -> &[&'static str] {
        &self.unusable
    }

    fn push(&mut self, id: Option<String>, public: Result<Public, &'static str>) -> Result<(), KeysError> {
        if self.keys.len() + self.unusable.len() == MOST {
            return Err(KeysError::TooMany { most: MOST });
        }
        match public {
            Ok(public) => self.keys.push(Key { id, public }),
            Err(why) => self.unusable.push(why),
        }
        Ok(())
    }

    /// The keys that may have signed a token with this key ID.
    pub(crate) fn candidates(&self, id: Option<&str>) -> impl Iterator<Item = &Key> {
        self.keys.iter().filter(move |key| id.is_none() || key.id.is_none() || key.id.as_deref() == id)
    }
}

impl Key {
    /// Verifies a signature. `algorithm` is the header's, which has to be the key's own.
    pub(crate) fn verify(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> Result<(), TokenError> {
        let expected = self.public.algorithm();
        if algorithm != expected {
            return Err(TokenError::Algorithm { expected });
        }
        let verified = match &self.public {
            Public::Rsa { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }.verify(
                &RSA_PKCS1_2048_8192_SHA256,
                message,
                signature,
            ),
            Public::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature),
            Public::P384(point) => UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).verify(message, signature),
        };
        verified.map_err(|_| TokenError::Signature)
    }
}

impl Public {
    fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa { .. } => "RS256",
            Self::P256(_) => "ES256",
            Self::P384(_) => "ES384",
        }
    }

    fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Self, &'static str> {
        let [modulus, exponent] = [modulus, exponent].map(|number| {
            let zeros = number.iter().take_while(|byte| **byte == 0).count();
            number.get(zeros..).unwrap_or_default().to_vec()
        });
        match modulus.len() {
            ..SHORTEST_MODULUS => Err("its RSA modulus has less than 2048 bits"),
            SHORTEST_MODULUS..=LONGEST_MODULUS => Ok(Self::Rsa { modulus, exponent }),
            _ => Err("its RSA modulus has more than 8192 bits"),
        }
    }
}

/// The key of a JWK (RFC 7518 6). One with a use or an algorithm of its own has to be for the signatures that larder verifies.
fn of_jwk(key: &Map<String, Value>) -> Result<Public, &'static str> {
    let text = |name| key.get(name).and_then(Value::as_str);
    let number = |name| text(name).and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
    let point = |size| {
        let (x, y) = number("x").zip(number("y")).ok_or("its point is not in base64url")?;
        if x.len() != size || y.len() != size {
            return Err("its point has another size than its curve");
        }
        Ok([&[4], &*x, &*y].concat())
    };
    if key.get("use").is_some_and(|of| of != "sig") {
        return Err("it is not for signatures (use)");
    }
    let public = match (text("kty"), text("crv")) {
        (Some("RSA"), _) => {
            let (modulus, exponent) = number("n").zip(number("e")).ok_or("its modulus is not in base64url")?;
            Public::rsa(&modulus, &exponent)?
        }
        (Some("EC"), Some("P-256")) => Public::P256(point(32)?),
        (Some("EC"), Some("P-384")) => Public::P384(point(48)?),
        (Some("EC"), _) => return Err("its curve is neither P-256 nor P-384"),
        _ => return Err("it is neither of RSA nor of EC (kty)"),
    };
    if key.get("alg").is_some_and(|of| of != public.algorithm()) {
        return Err("it is for an algorithm other than RS256, ES256 and ES384, or than that of its kind (alg)");
    }
    Ok(public)
}

/// The key in a `SubjectPublicKeyInfo` (RFC 5280 4.1).
fn of_spki(der: &[u8]) -> Result<Public, &'static str> {
    spki(der).unwrap_or(Err("it is not a public key in DER"))
}

fn spki(der: &[u8]) -> Option<Result<Public, &'static str>> {
    let info = only(element(0x30, der)?)?;
    let (algorithm, rest) = element(0x30, info)?;
    let bits = only(element(0x03, rest)?)?;
    // The number of unused bits.
    let (0, key) = bits.split_first().map(|(unused, key)| (*unused, key))? else { return None };
    Some(match algorithm {
        RSA => {
            let (modulus, rest) = element(0x02, only(element(0x30, key)?)?)?;
            Public::rsa(modulus, only(element(0x02, rest)?)?)
        }
        P256 if key.len() == 65 && key.first() == Some(&4) => Ok(Public::P256(key.to_vec())),
        P384 if key.len() == 97 && key.first() == Some(&4) => Ok(Public::P384(key.to_vec())),
        _ => Err("it is neither an RSA key nor an uncompressed point on P-256 or P-384"),
    })
}

/// The contents of an element of DER (X.690 8.1) with this tag, and what follows it.
fn element(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81 | 0x82 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0, |all, byte| all << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    if *found == tag { rest.split_at_checked(length) } else { None }
}

/// The contents of an element that nothing follows.
fn only<'a>((contents, rest): (&'a [u8], &'a [u8])) -> Option<&'a [u8]> {
    rest.is_empty().then_some(contents)
}
