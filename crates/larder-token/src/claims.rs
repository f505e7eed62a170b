//! What a token says of its pod, and whether that holds now.

use crate::error::TokenError;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

/// How far clocks may differ, and how long a token outlasts its pod's `deletionTimestamp`: one minute, as upstream (`jwt.DefaultLeeway`).
pub const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// What a token has to say to be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expected {
    /// The cluster's issuer (`--service-account-issuer`).
    pub issuer: String,
    /// The API server's audiences (`--api-audiences`), of which the token has to name one. By default the issuer, as upstream.
    pub audiences: Vec<String>,
    /// The name of this node.
    pub node: String,
}

impl Expected {
    /// Tokens of an issuer, for its own audience, on a node.
    ///
    /// ```
    /// let expected = larder_token::Expected::new("https://kubernetes.default.svc", "node-1");
    /// assert_eq!(expected.audiences, ["https://kubernetes.default.svc"]);
    /// ```
    pub fn new(issuer: impl Into<String>, node: impl Into<String>) -> Self {
        let issuer = issuer.into();
        Self { audiences: vec![issuer.clone()], issuer, node: node.into() }
    }

    /// The issuer and the audiences that the claims themselves name.
    pub(crate) fn as_claimed(claims: &Map<String, Value>, node: &str) -> Result<Self, TokenError> {
        let audiences = audiences(claims)?.into_iter().map(str::to_owned).collect();
        Ok(Self { issuer: text(claims, "iss", "iss")?.to_owned(), audiences, node: node.to_owned() })
    }
}

/// The name and the UID of an object. Neither is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// What an accepted token says. Every field may be logged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Bound {
    /// The namespace of the service account and of the pod.
    pub namespace: String,
    /// The service account.
    pub service_account: Reference,
    /// The pod.
    pub pod: Reference,
    /// When the token expires, without the leeway.
    pub expires: Timestamp,
}

/// A pod of this node as it is now.
#[derive(Clone, Copy, Debug)]
pub struct PodNow<'a> {
    /// Its UID.
    pub uid: &'a str,
    /// Its service account (`spec.serviceAccountName`).
    pub service_account: &'a str,
    /// Its `metadata.deletionTimestamp`.
    pub deletion: Option<Timestamp>,
}

impl Bound {
    /// The user whom the API server sees in the token (`serviceaccount.MakeUsername`).
    pub fn username(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.service_account.name)
    }

    /// Whether the token has expired, with the [leeway](LEEWAY).
    ///
    /// ```
    /// # use larder_testkit::tokens::{TokenSigner, jwks, pod_claims};
    /// # use larder_token::{Expected, Keys, LEEWAY, verify};
    /// # let (cluster, now) = (TokenSigner::p256()?, jiff::Timestamp::now());
    /// # let token = cluster.token(&pod_claims("issuer", "node-1", "web", ["shop-1", "uid-1"], "shop", now));
    /// # let keys = Keys::from_jwks(jwks([&cluster]).as_bytes())?;
    /// let bound = verify(&token, &keys, &Expected::new("issuer", "node-1"), now)?;
    /// assert!(!bound.has_expired(bound.expires + LEEWAY));
    /// assert!(bound.has_expired(bound.expires + LEEWAY * 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires < before(now)
    }

    /// Whether the token holds for its pod. `pod` is the node's pod of the token's namespace and name; `None` if there is none.
    ///
    /// As upstream, a pod that is gone or has another UID ends the token at once. A deleted pod that is still there ends it a
    /// [minute](LEEWAY) after its `deletionTimestamp`.
    ///
    /// # Errors
    ///
    /// [`TokenError`] says why the token does not hold.
    ///
    /// ```
    /// # use larder_testkit::tokens::{TokenSigner, jwks, pod_claims};
    /// # use larder_token::{Expected, Keys, PodNow, verify};
    /// # let (cluster, now) = (TokenSigner::p256()?, jiff::Timestamp::now());
    /// # let token = cluster.token(&pod_claims("issuer", "node-1", "web", ["shop-1", "uid-1"], "shop", now));
    /// # let keys = Keys::from_jwks(jwks([&cluster]).as_bytes())?;
    /// let bound = verify(&token, &keys, &Expected::new("issuer", "node-1"), now)?;
    /// let made_again = PodNow { uid: "uid-2", service_account: "shop", deletion: None };
    /// let error = bound.check_pod(Some(made_again), now).unwrap_err();
    /// assert_eq!(error.reason(), "other-pod");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_pod(&self, pod: Option<PodNow<'_>>, now: Timestamp) -> Result<(), TokenError> {
        let name = || format!("{}/{}", self.namespace, self.pod.name);
        match pod {
            None => Err(TokenError::PodGone { pod: name() }),
            Some(pod) if pod.uid != self.pod.uid => Err(TokenError::OtherPod { pod: name() }),
            Some(pod) if pod.service_account != self.service_account.name => {
                Err(TokenError::OtherAccount { pod: name() })
            }
            Some(pod) if pod.deletion.is_some_and(|at| at < before(now)) => Err(TokenError::PodDeleted { pod: name() }),
            Some(_) => Ok(()),
        }
    }

    /// The claims of a token, checked for issuer, audience, times and node.
    pub(crate) fn of(claims: &Map<String, Value>, expected: &Expected, now: Timestamp) -> Result<Self, TokenError> {
        let issuer = text(claims, "iss", "iss")?;
        if issuer != expected.issuer {
            return Err(TokenError::Issuer { found: issuer.to_owned(), expected: expected.issuer.clone() });
        }
        if !audiences(claims)?.iter().any(|one| expected.audiences.iter().any(|own| own == one)) {
            return Err(TokenError::Audience { expected: expected.audiences.clone() });
        }
        let expires = time(claims, "exp")?.ok_or(missing("exp"))?;
        for name in ["nbf", "iat"] {
            if let Some(at) = time(claims, name)?
                && at > after(now)
            {
                return Err(TokenError::NotYet { at });
            }
        }
        if expires < before(now) {
            return Err(TokenError::Expired { at: expires });
        }
        let own = group(claims, "kubernetes.io", "kubernetes.io")?.ok_or(missing("kubernetes.io"))?;
        let namespace = text(own, "namespace", "kubernetes.io.namespace")?;
        let account = group(own, "serviceaccount", "kubernetes.io.serviceaccount")?;
        let account = account.ok_or(missing("kubernetes.io.serviceaccount"))?;
        let pod = group(own, "pod", "kubernetes.io.pod")?.ok_or(TokenError::NoPod)?;
        if let Some(node) = group(own, "node", "kubernetes.io.node")? {
            let found = text(node, "name", "kubernetes.io.node.name")?;
            if found != expected.node {
                return Err(TokenError::OtherNode { found: found.to_owned(), expected: expected.node.clone() });
            }
        }
        let bound = Self {
            namespace: namespace.to_owned(),
            service_account: Reference {
                name: text(account, "name", "kubernetes.io.serviceaccount.name")?.to_owned(),
                uid: text(account, "uid", "kubernetes.io.serviceaccount.uid")?.to_owned(),
            },
            pod: Reference {
                name: text(pod, "name", "kubernetes.io.pod.name")?.to_owned(),
                uid: text(pod, "uid", "kubernetes.io.pod.uid")?.to_owned(),
            },
            expires,
        };
        if text(claims, "sub", "sub")? != bound.username() {
            return Err(TokenError::Claim { name: "sub", problem: "is not the service account of the other claims" });
        }
        Ok(bound)
    }
}

/// The latest time at which a token may begin. Times at the end of all times stay there.
fn after(now: Timestamp) -> Timestamp {
    now.saturating_add(LEEWAY).unwrap_or(Timestamp::MAX)
}

fn before(now: Timestamp) -> Timestamp {
    now.saturating_sub(LEEWAY).unwrap_or(Timestamp::MIN)
}

fn missing(name: &'static str) -> TokenError {
    TokenError::Claim { name, problem: "is missing" }
}

fn text<'a>(of: &'a Map<String, Value>, name: &str, whole: &'static str) -> Result<&'a str, TokenError> {
    match of.get(name) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        Some(Value::String(_)) => Err(TokenError::Claim { name: whole, problem: "is empty" }),
        Some(_) => Err(TokenError::Claim { name: whole, problem: "is not a string" }),
        None => Err(missing(whole)),
    }
}

fn group<'a>(
    of: &'a Map<String, Value>,
    name: &str,
    whole: &'static str,
) -> Result<Option<&'a Map<String, Value>>, TokenError> {
    match of.get(name) {
        Some(Value::Object(group)) => Ok(Some(group)),
        Some(_) => Err(TokenError::Claim { name: whole, problem: "is not an object" }),
        None => Ok(None),
    }
}

/// A string, or an array of strings.
fn audiences(claims: &Map<String, Value>) -> Result<Vec<&str>, TokenError> {
    let wrong = TokenError::Claim { name: "aud", problem: "is neither a string nor an array of strings" };
    match claims.get("aud") {
        Some(Value::String(one)) => Ok(vec![one]),
        Some(Value::Array(all)) => all.iter().map(|one| one.as_str().ok_or_else(|| wrong.clone())).collect(),
        Some(_) => Err(wrong),
        // Upstream takes such a token for one of the API server: those of Secrets have no audience. larder takes tokens of pods alone.
        None => Err(missing("aud")),
    }
}

/// Seconds since 1970; parts of a second are left out, as upstream.
fn time(claims: &Map<String, Value>, name: &'static str) -> Result<Option<Timestamp>, TokenError> {
    let wrong = TokenError::Claim { name, problem: "is not a time in seconds since 1970" };
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = match value {
        Value::Number(number) => number.as_i64().or_else(|| whole_seconds(number.as_f64()?)),
        _ => None,
    };
    seconds.and_then(|seconds| Timestamp::from_second(seconds).ok()).map(Some).ok_or(wrong)
}

fn whole_seconds(seconds: f64) -> Option<i64> {
    // Beyond the range of a timestamp, which a duration has, too.
    SignedDuration::try_from_secs_f64(seconds).ok().map(|since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_token_ends_with_its_pod_as_upstream() {
        let reference = |name: &str, uid: &str| Reference { name: name.to_owned(), uid: uid.to_owned() };
        let bound = Bound {
            namespace: "web".to_owned(),
            service_account: reference("shop", "u-sa"),
            pod: reference("shop-1", "u-1"),
            expires: at(10_000),
        };
        let pod = || "web/shop-1".to_owned();
        let now = |uid, service_account, deletion: Option<i64>| {
            Some(PodNow { uid, service_account, deletion: deletion.map(at) })
        };
        for (pod_now, expected) in [
            (now("u-1", "shop", None), Ok(())),
            (now("u-1", "shop", Some(2_000)), Ok(())),
            (now("u-1", "shop", Some(940)), Ok(())),
            (now("u-1", "shop", Some(939)), Err(TokenError::PodDeleted { pod: pod() })),
            (now("u-2", "shop", None), Err(TokenError::OtherPod { pod: pod() })),
            (now("u-1", "default", None), Err(TokenError::OtherAccount { pod: pod() })),
            (None, Err(TokenError::PodGone { pod: pod() })),
        ] {
            assert_eq!(bound.check_pod(pod_now, at(1_000)), expected, "{pod_now:?}");
        }
        assert_eq!(bound.username(), "system:serviceaccount:web:shop");
    }

    #[test]
    fn times_are_whole_seconds() {
        for (json, expected) in [
            ("7", Some(7)),
            ("7.9", Some(7)),
            ("-1", Some(-1)),
            ("1e3", Some(1_000)),
            ("1e300", None),
            ("9223372036854775807", None),
            ("18446744073709551615", None),
            ("\"7\"", None),
            ("null", None),
            ("true", None),
            ("[7]", None),
        ] {
            let claims = serde_json::from_str(&format!("{{\"exp\": {json}}}")).unwrap();
            assert_eq!(time(&claims, "exp").ok().flatten(), expected.map(at), "{json}");
        }
        assert_eq!(time(&Map::new(), "exp"), Ok(None));
    }
}
