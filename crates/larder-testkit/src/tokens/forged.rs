//! Tokens that nobody may accept, made out of good ones.

use super::{Key, RSA_PKCS1_SHA384, TokenSigner, element, hs256, rsa, signed};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// What is wrong with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Forgery {
    /// It has expired, at least 61 s ago.
    Expired,
    /// It is valid in 61 s at the earliest.
    NotYet,
    /// It is issued in the future.
    IssuedLater,
    /// Its algorithm is `none`, in any case.
    Unsigned,
    /// Somebody else's key of the same kind has signed it, under the ID of a good one.
    Resigned,
    /// Somebody else's key has signed it, and is in the header.
    KeyInHeader,
    /// HS256 with a public key as the secret, in one of its forms.
    PublicKeyAsSecret,
    /// It is for another audience.
    OtherAudience,
    /// Somebody else issued it.
    OtherIssuer,
    /// It is of a pod on another node.
    OtherNode,
    /// It names the ID of another good key.
    OtherKeyId,
    /// It names the ID of no key.
    UnknownKeyId,
    /// It is signed by another algorithm of the same key, or says so.
    OtherAlgorithm,
    /// A claim stands twice.
    Doubled,
    /// Its header is huge.
    HugeHeader,
    /// A claim has another type.
    WrongType,
    /// A claim is missing.
    Missing,
    /// It is bound to no pod.
    NoPod,
    /// One character of it is another.
    Changed,
    /// Its end, or a part of it, is missing, or it has a part more.
    Cut,
    /// Its header asks for an extension that nobody knows.
    Critical,
    /// Its signature by an elliptic curve has the form of certificates.
    DerSignature,
}

impl Forgery {
    /// Every one.
    pub const ALL: [Self; 22] = [
        Self::Expired,
        Self::NotYet,
        Self::IssuedLater,
        Self::Unsigned,
        Self::Resigned,
        Self::KeyInHeader,
        Self::PublicKeyAsSecret,
        Self::OtherAudience,
        Self::OtherIssuer,
        Self::OtherNode,
        Self::OtherKeyId,
        Self::UnknownKeyId,
        Self::OtherAlgorithm,
        Self::Doubled,
        Self::HugeHeader,
        Self::WrongType,
        Self::Missing,
        Self::NoPod,
        Self::Changed,
        Self::Cut,
        Self::Critical,
        Self::DerSignature,
    ];
}

/// The claims without which, or with others in place of which, no token of a pod is good.
const CLAIMS: [&str; 12] = [
    "/iss",
    "/aud",
    "/exp",
    "/sub",
    "/kubernetes.io",
    "/kubernetes.io/namespace",
    "/kubernetes.io/serviceaccount",
    "/kubernetes.io/serviceaccount/name",
    "/kubernetes.io/serviceaccount/uid",
    "/kubernetes.io/pod",
    "/kubernetes.io/pod/name",
    "/kubernetes.io/pod/uid",
];

/// A token out of the claims of a good one. `good` are the cluster's keys, one of each kind, and `strange` somebody else's. What is left open
/// follows from the numbers.
#[expect(clippy::too_many_lines, reason = "one arm for each forgery")]
pub fn forge(
    forgery: Forgery,
    claims: &Value,
    good: &[TokenSigner],
    strange: &[TokenSigner],
    [a, b]: [u32; 2],
) -> String {
    let pick = a as usize;
    let signer = &good[pick % good.len()];
    let header = |more: Value| {
        let mut header = json!({"alg": signer.algorithm(), "kid": signer.id()});
        if let (Some(header), Value::Object(more)) = (header.as_object_mut(), more) {
            header.extend(more);
        }
        header.to_string()
    };
    let mut claims = claims.clone();
    let now = claims["iat"].as_i64().unwrap_or_default();
    let far = 61 + i64::from(b);
    match forgery {
        Forgery::Expired => claims["exp"] = (now - far).into(),
        Forgery::NotYet => claims["nbf"] = (now + far).into(),
        Forgery::IssuedLater => claims["iat"] = (now + far).into(),
        Forgery::OtherAudience => {
            claims["aud"] = [json!(["vault"]), json!("vault"), json!([]), json!([""])][b as usize % 4].clone();
        }
        Forgery::OtherIssuer => claims["iss"] = format!("{}/", claims["iss"].as_str().unwrap_or_default()).into(),
        Forgery::OtherNode => claims["kubernetes.io"]["node"]["name"] = format!("other-{b}").into(),
        Forgery::NoPod => {
            if let Some(own) = claims["kubernetes.io"].as_object_mut() {
                own.remove("pod");
            }
        }
        Forgery::WrongType => {
            let wrong = [json!(null), json!([["a"]]), json!(true), json!({"a": ["b"]}), json!([7]), json!(1e300)];
            if let Some(claim) = claims.pointer_mut(CLAIMS[b as usize % CLAIMS.len()]) {
                *claim = wrong[(b as usize / CLAIMS.len()) % wrong.len()].clone();
            }
        }
        Forgery::Missing => {
            let (group, name) = CLAIMS[b as usize % CLAIMS.len()].rsplit_once('/').unwrap_or_default();
            if let Some(Value::Object(group)) = claims.pointer_mut(group) {
                group.remove(name);
            }
        }
        Forgery::Unsigned => {
            let none = ["none", "None", "NONE", "nOnE", ""][b as usize % 5];
            let with_signature = signer.sign(&header(json!({"alg": none})), &claims.to_string());
            let end = with_signature.rfind('.').map_or(0, |at| at + 1);
            // With a signature that is good for the key, and with none.
            return if b % 2 == 0 { with_signature[..end].to_owned() } else { with_signature };
        }
        Forgery::Resigned => {
            let other = strange.iter().find(|other| other.algorithm() == signer.algorithm()).unwrap_or(&strange[0]);
            return other.sign(&header(json!({})), &claims.to_string());
        }
        Forgery::KeyInHeader => {
            let other = &strange[b as usize % strange.len()];
            let jwk = other.jwk();
            let named =
                json!({"alg": other.algorithm(), "kid": jwk["kid"], "jwk": jwk, "jku": "https://evil.example/jwks"});
            return other.sign(&named.to_string(), &claims.to_string());
        }
        Forgery::PublicKeyAsSecret => {
            let secret = match b % 4 {
                0 => signer.pem().into_bytes(),
                1 => signer.public_der(),
                2 => signer.jwk().to_string().into_bytes(),
                _ => signer.pem().trim_end().as_bytes().to_vec(),
            };
            return hs256(&header(json!({"alg": "HS256"})), &claims.to_string(), &secret);
        }
        Forgery::OtherKeyId => {
            let other = &good[(pick + 1 + b as usize % (good.len() - 1)) % good.len()];
            return signer.sign(&header(json!({"kid": other.id()})), &claims.to_string());
        }
        Forgery::UnknownKeyId => {
            let kid = [json!("unknown"), json!(signer.id().to_lowercase() + "="), json!(7), json!([signer.id()])];
            return signer.sign(&header(json!({"kid": kid[b as usize % 4]})), &claims.to_string());
        }
        Forgery::OtherAlgorithm => {
            let names = ["RS384", "RS512", "PS256", "ES512", "EdDSA", "HS384", "rs256", "es256", " ES256"];
            let other = header(json!({"alg": names[b as usize % names.len()]}));
            return match &signer.key {
                Key::Rsa(key) if b % 2 == 0 => {
                    let front = signed(&header(json!({"alg": "RS384"})), &claims.to_string());
                    let signature = rsa(key, &RSA_PKCS1_SHA384, &signer.random, front.as_bytes());
                    format!("{front}.{}", URL_SAFE_NO_PAD.encode(signature))
                }
                _ => signer.sign(&other, &claims.to_string()),
            };
        }
        Forgery::Doubled => {
            let (_, name) = CLAIMS[b as usize % CLAIMS.len()].rsplit_once('/').unwrap_or_default();
            let text = claims.to_string();
            let twice = text.replacen(&format!("\"{name}\":"), &format!("\"{name}\":\"other\",\"{name}\":"), 1);
            return signer.sign(&header(json!({})), &twice);
        }
        Forgery::HugeHeader => {
            let filling = "a".repeat(12_288 + b as usize % 100_000);
            return signer.sign(&header(json!({"x": filling})), &claims.to_string());
        }
        Forgery::Changed => {
            let token = signer.token(&claims);
            let at = b as usize % token.len();
            let other = if token.as_bytes()[at] == b'A' { 'B' } else { 'A' };
            return format!("{}{other}{}", &token[..at], &token[at + 1..]);
        }
        Forgery::Cut => {
            let token = signer.token(&claims);
            return match b % 4 {
                0 => token[..b as usize % token.len()].to_owned(),
                1 => format!("{token}.{token}"),
                2 => format!("{token}="),
                _ => token.split_once('.').unwrap_or_default().1.to_owned(),
            };
        }
        Forgery::Critical => {
            return signer.sign(&header(json!({"crit": ["b64"], "b64": false})), &claims.to_string());
        }
        Forgery::DerSignature => {
            let token = signer.token(&claims);
            let (front, signature) = token.rsplit_once('.').unwrap_or_default();
            let fixed = URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
            let (r, s) = fixed.split_at(fixed.len() / 2);
            let numbers = [r, s].map(|number| element(0x02, &[&[0], number].concat())).concat();
            return format!("{front}.{}", URL_SAFE_NO_PAD.encode(element(0x30, &numbers)));
        }
    }
    signer.sign(&header(json!({})), &claims.to_string())
}
