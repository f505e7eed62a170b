//! The parameters of a list or watch: `ListOptions` of the Kubernetes API, with the API server's rules for which go together
//! (`ValidateListOptions` of apimachinery).

use crate::error::{ApiError, Violation};
use crate::params::Params;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use larder_resource::journal::Snapshot;
use larder_resource::selector::{FieldSelector, LabelSelector, Selectable};
use larder_resource::{Kind, KubeObject};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// The longest time for which a watch may ask.
const LONGEST_WATCH: u64 = 24 * 60 * 60;

/// Which objects are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) namespace: Option<String>,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Wanted {
    /// Whether an object of that namespace and name may be wanted.
    pub(crate) fn may_have(&self, namespace: &str, name: &str) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| wanted == namespace) && self.fields.may_match(namespace, name)
    }

    pub(crate) fn has(&self, namespace: &str, object: &Selectable) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
            && object.is_selected(&self.labels, &self.fields)
    }

    pub(crate) fn has_object(&self, object: &KubeObject) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| wanted == object.namespace())
            && self.fields.matches(object)
            && self.labels.matches(|key| object.label(key))
    }

    /// The wanted objects of a snapshot.
    pub(crate) fn of(&self, snapshot: Snapshot) -> Vec<Arc<larder_resource::journal::Resource>> {
        let wanted = snapshot.objects.into_iter().filter(|(object, selectable)| {
            let object: &KubeObject = (**object).as_ref();
            self.has(object.namespace(), selectable)
        });
        wanted.map(|(object, _)| object).collect()
    }
}

/// Of which version the answer is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Version {
    /// What larder has. The API server would read etcd where the client gives no version; larder says how old its answer is.
    Any,
    /// This version or a later one.
    NotOlderThan(u64),
    /// This one.
    Exact(u64),
}

/// The version that a client gives. Any is good for 0, as for none.
fn given_version(params: &Params) -> Result<Option<u64>, ApiError> {
    let Some(text) = params.text("resourceVersion") else { return Ok(None) };
    // Without a sign, which Rust would take.
    let version = text.parse::<u64>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let problem = || "is not a version of this API".to_owned();
    let version = version.ok_or_else(|| ApiError::bad_parameter("resourceVersion", text, problem()))?;
    Ok(Some(version).filter(|version| *version != 0))
}

/// Refuses parameters that do not go together, in the API server's words.
fn validate(params: &Params, is_watch: bool, initial: Option<bool>) -> Result<(), ApiError> {
    let forbidden = |name, problem| Err(ApiError::InvalidParameter(name, Violation::Forbidden(problem)));
    if initial.is_some() && !is_watch {
        return forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
    }
    let Some(given) = params.text("resourceVersionMatch") else {
        if initial.is_some() {
            return forbidden(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            );
        }
        return Ok(());
    };
    let name = "resourceVersionMatch";
    if is_watch && initial.is_none() {
        return forbidden(name, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
    }
    if !is_watch && params.text("resourceVersion").is_none() {
        return forbidden(name, "resourceVersionMatch is forbidden unless resourceVersion is provided");
    }
    if params.text("continue").is_some() {
        return forbidden(name, "resourceVersionMatch is forbidden when continue is provided");
    }
    let unsupported = |supported| {
        let value = given.chars().take(200).collect();
        Err(ApiError::InvalidParameter(name, Violation::Unsupported { value, supported }))
    };
    match given {
        "NotOlderThan" => Ok(()),
        _ if is_watch => unsupported("\"NotOlderThan\""),
        "Exact" if params.text("resourceVersion") == Some("0") => {
            forbidden(name, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
        }
        "Exact" => Ok(()),
        _ => unsupported("\"Exact\", \"NotOlderThan\", \"\""),
    }
}

/// Refuses a list that goes on where a page ended. Each list of larder is one page, so the client has its token from the API server, or
/// from nowhere.
fn refuse_to_continue(token: &str, has_version: bool) -> Result<(), ApiError> {
    #[derive(Deserialize)]
    struct Token {
        v: String,
        rv: i64,
        start: String,
    }
    let json = URL_SAFE_NO_PAD.decode(token).ok();
    let read = json.and_then(|json| serde_json::from_slice::<Token>(&json).ok());
    let is_token = |token: Token| token.v == "meta.k8s.io/v1" && token.rv != 0 && !token.start.is_empty();
    if !read.is_some_and(is_token) {
        return Err(ApiError::bad_parameter("continue", token, "is not a continue token".to_owned()));
    }
    if has_version {
        let problem = "does not go with resourceVersion".to_owned();
        return Err(ApiError::bad_parameter("continue", token, problem));
    }
    let problem = "the continue token is of another server: larder's lists are one page each; list again without it";
    Err(ApiError::Expired(problem.to_owned()))
}

impl Version {
    /// Of which version one object is to be.
    ///
    /// # Errors
    ///
    /// What is given is no version.
    pub(crate) fn of_one(params: &Params) -> Result<Self, ApiError> {
        Ok(given_version(params)?.map_or(Self::Any, Self::NotOlderThan))
    }
}

/// The parameters of a list or watch.
#[derive(Debug)]
pub(crate) struct ListOptions {
    pub(crate) wanted: Wanted,
    pub(crate) version: Version,
    pub(crate) is_watch: bool,
    /// Whether a watch begins with the objects that there are; `None` where the client does not say.
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) bookmarks: bool,
    pub(crate) timeout: Option<Duration>,
}

impl ListOptions {
    /// # Errors
    ///
    /// A parameter is not one of the Kubernetes API, or does not go with another one.
    pub(crate) fn parse(params: &Params, kind: Kind, namespace: Option<&str>) -> Result<Self, ApiError> {
        // First what is no value of its type, then what does not go together, as at the API server.
        let is_watch = params.flag("watch");
        let initial = params.given_flag("sendInitialEvents");
        let timeout = params.integer("timeoutSeconds")?;
        params.integer("limit")?;
        let labels = params.label_selector()?;
        validate(params, is_watch, initial)?;
        let fields = params.field_selector(kind)?;
        let given = given_version(params)?;
        if let Some(token) = params.text("continue").filter(|_| !is_watch) {
            refuse_to_continue(token, given.is_some())?;
        }
        let version = match (params.text("resourceVersionMatch"), given) {
            (Some("Exact"), Some(version)) => Version::Exact(version),
            (_, Some(version)) => Version::NotOlderThan(version),
            (_, None) => Version::Any,
        };
        // A negative time has passed when the watch begins.
        let timeout = timeout
            .filter(|seconds| *seconds != 0)
            .map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or_default().min(LONGEST_WATCH)));
        Ok(Self {
            wanted: Wanted { namespace: namespace.map(str::to_owned), labels, fields },
            version,
            is_watch,
            send_initial_events: initial,
            bookmarks: params.flag("allowWatchBookmarks"),
            timeout,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;

    fn parse(query: &str) -> Result<ListOptions, ApiError> {
        let pairs =
            query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let params = Params::new(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect());
        ListOptions::parse(&params, Kind::Pod, None)
    }

    /// Which version a request is answered from, or the code with which it is refused.
    fn check(query: &str, expected: Result<Version, u16>) {
        let version = parse(query).map(|options| options.version).map_err(|error| error.code().as_u16());
        assert_eq!(version, expected, "{query}");
    }

    #[test]
    fn versions_and_their_match_are_taken_as_the_api_server_takes_them() {
        check("", Ok(Version::Any));
        check("resourceVersion=", Ok(Version::Any));
        check("resourceVersion=0", Ok(Version::Any));
        check("resourceVersion=7", Ok(Version::NotOlderThan(7)));
        check("resourceVersion=7&resourceVersionMatch=NotOlderThan", Ok(Version::NotOlderThan(7)));
        check("resourceVersion=7&resourceVersionMatch=Exact", Ok(Version::Exact(7)));
        check("resourceVersion=0&resourceVersionMatch=NotOlderThan", Ok(Version::Any));
        check("resourceVersion=0&resourceVersionMatch=Exact", Err(422));
        check("resourceVersionMatch=NotOlderThan", Err(422));
        check("resourceVersion=00", Ok(Version::Any));
        check("resourceVersion=00&resourceVersionMatch=Exact", Ok(Version::Any));
        check("resourceVersion=007", Ok(Version::NotOlderThan(7)));
        check("resourceVersion=7&resourceVersionMatch=Newest", Err(422));
        check("resourceVersion=7&resourceVersionMatch=exact", Err(422));
        check("resourceVersionMatch=x&limit=x", Err(400));
        check("resourceVersion=x", Err(400));
        check("resourceVersion=-1", Err(400));
        check("resourceVersion=+1", Err(400));
        check("sendInitialEvents=true", Err(422));
        check("watch=1&sendInitialEvents=true&resourceVersionMatch=Newest", Err(422));
        check("watch=1&resourceVersion=7", Ok(Version::NotOlderThan(7)));
        check("watch=1&resourceVersionMatch=NotOlderThan", Err(422));
        check("watch=1&sendInitialEvents=true", Err(422));
        check("watch=1&sendInitialEvents=true&resourceVersion=7&resourceVersionMatch=Exact", Err(422));
        check("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", Ok(Version::Any));
        // As at the API server, an empty flag is set.
        check("watch=1&sendInitialEvents=", Err(422));
        check("sendInitialEvents", Err(422));
        check(
            "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=7",
            Ok(Version::NotOlderThan(7)),
        );
        for limit in ["500", "0", "-1"] {
            check(&format!("limit={limit}"), Ok(Version::Any));
        }
        for bad in ["limit=many", "limit=", "limit", "timeoutSeconds="] {
            check(bad, Err(400));
        }
    }

    #[test]
    fn a_token_of_the_api_server_has_expired_and_another_is_none() {
        let token = |json: &str| format!("continue={}", URL_SAFE_NO_PAD.encode(json));
        let good = token(r#"{"v":"meta.k8s.io/v1","rv":7,"start":"shop/web\u0000"}"#);
        check(&good, Err(410));
        check(&format!("{good}&resourceVersion=0"), Err(410));
        check(&format!("{good}&resourceVersion=7"), Err(400));
        check(&format!("{good}&resourceVersion=7&resourceVersionMatch=Exact"), Err(422));
        check(&format!("{good}&watch=1"), Ok(Version::Any));
        for bad in [
            "abc",
            "%",
            &token("{}")["continue=".len()..],
            &token(r#"{"v":"v1","rv":7,"start":"a"}"#)["continue=".len()..],
        ] {
            check(&format!("continue={bad}"), Err(400));
        }
    }

    #[test]
    fn an_unknown_match_is_told_with_what_there_is() {
        let error = parse("resourceVersion=7&resourceVersionMatch=x").unwrap_err();
        let expected = "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Unsupported value: \"x\": supported \
                        values: \"Exact\", \"NotOlderThan\", \"\"";
        assert_eq!(error.to_string(), expected);
        let cause = &error.status().details.unwrap().causes.unwrap()[0];
        assert_eq!(cause.reason.as_deref(), Some("FieldValueNotSupported"));
    }

    #[test]
    fn the_version_of_one_object_is_the_oldest_that_it_may_have() {
        for (text, expected) in [
            ("", Ok(Version::Any)),
            ("0", Ok(Version::Any)),
            ("7", Ok(Version::NotOlderThan(7))),
            ("-1", Err(400)),
            ("00", Ok(Version::Any)),
            ("+7", Err(400)),
            ("x", Err(400)),
        ] {
            let params = Params::new([("resourceVersion".to_owned(), text.to_owned())].into());
            assert_eq!(Version::of_one(&params).map_err(|error| error.code().as_u16()), expected, "{text}");
        }
    }

    #[test]
    fn the_time_of_a_watch_is_bounded() {
        let timeout = |query: &str| parse(query).unwrap().timeout.map(|timeout| timeout.as_secs());
        assert_eq!(timeout("timeoutSeconds=7"), Some(7));
        assert_eq!(timeout("timeoutSeconds=0"), None);
        assert_eq!(timeout("timeoutSeconds=-1"), Some(0));
        assert_eq!(timeout("timeoutSeconds=99999999999"), Some(LONGEST_WATCH));
        assert_eq!(parse("timeoutSeconds=soon").unwrap_err().code(), StatusCode::BAD_REQUEST);
    }
}
