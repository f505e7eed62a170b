//! What a request asks for, read from its method, path and query.

use super::object::{Key, Kind};
use super::selector::Filter;
use super::status::Failure;
use http::{HeaderMap, Method, Uri, header};
use std::time::Duration;

/// What a request does, in the words of Kubernetes' audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Lists objects.
    List,
    /// Watches objects; a list with `watch=true`.
    Watch,
    /// Asks what the caller may do.
    Review,
    /// Discovery, health and version, and whatever the server does not know.
    Other,
}

impl Verb {
    /// As RBAC has it: `get`, `list`, `watch`; `create` for a review.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Review => "create",
            Self::Other => "other",
        }
    }
}

/// A request, understood.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Get { kind: Kind, key: Key, version: Version },
    List { kind: Kind, list: List },
    Watch { kind: Kind, watch: Watch },
    Review,
    TokenReview,
    Discovery(Discovery),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Discovery {
    Health,
    Version,
    Api,
    Apis,
    CoreV1,
    /// The issuer of tokens.
    Issuer,
    /// The keys of tokens.
    Jwks,
}

/// Which state a read wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// No resourceVersion: the newest, consistently.
    Newest,
    /// `resourceVersion=0`: whatever the watch cache has.
    Any,
    /// Not older than this.
    NotOlderThan(u64),
    /// Exactly this (`resourceVersionMatch=Exact`).
    Exact(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) filter: Filter,
    pub(crate) version: Version,
    /// 0 for no limit.
    pub(crate) limit: usize,
    pub(crate) from: Option<Continue>,
}

/// Where the next page of a list begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Continue {
    pub(crate) revision: u64,
    /// The last object of the page before.
    pub(crate) after: Key,
}

#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) filter: Filter,
    pub(crate) version: Version,
    pub(crate) bookmarks: bool,
    /// `sendInitialEvents=true`: a streaming list.
    pub(crate) initial_events: bool,
    pub(crate) timeout: Option<Duration>,
}

/// What the log and the faults know of a request, whether it is understood or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) verb: Verb,
    pub(crate) kind: Option<Kind>,
    pub(crate) namespace: String,
    /// The name in the path, or the one that a field selector insists on.
    pub(crate) name: String,
}

/// The query's fields that matter here.
#[derive(Default)]
struct Query {
    watch: bool,
    label_selector: String,
    field_selector: String,
    limit: String,
    continue_: String,
    resource_version: String,
    resource_version_match: String,
    bookmarks: bool,
    initial_events: bool,
    timeout_seconds: String,
}

impl Continue {
    /// A token that needs no escaping in a query.
    pub(crate) fn to_token(&self) -> String {
        format!("{}.{}~{}", self.revision, self.after.namespace, self.after.name)
    }

    fn parse(token: &str) -> Option<Self> {
        let (revision, after) = token.split_once('.')?;
        let (namespace, name) = after.split_once('~')?;
        Some(Self { revision: revision.parse().ok()?, after: Key::new(namespace, name) })
    }
}

/// The request, unless the client does not accept the media type that the keys of tokens have at an API server.
pub(crate) fn accepted(request: Request, headers: &HeaderMap) -> Result<Request, Failure> {
    const JWKS: &str = "application/jwk-set+json";
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
    if matches!(request, Request::Discovery(Discovery::Jwks)) && !accept.contains(JWKS) && !accept.contains("*/*") {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {JWKS}");
        return Err(Failure::new(406, "NotAcceptable", message));
    }
    Ok(request)
}

/// What the request is about, and the request itself or why it is refused.
pub(crate) fn parse(method: &Method, uri: &Uri) -> (Target, Result<Request, Failure>) {
    let path: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
    let other = Target { verb: Verb::Other, kind: None, namespace: String::new(), name: String::new() };
    if method == Method::POST && path == ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"] {
        return (Target { verb: Verb::Review, ..other }, Ok(Request::Review));
    }
    if method == Method::POST && path == ["apis", "authentication.k8s.io", "v1", "tokenreviews"] {
        return (Target { verb: Verb::Review, name: "tokenreviews".to_owned(), ..other }, Ok(Request::TokenReview));
    }
    let (namespace, plural, name) = match path[..] {
        ["livez" | "readyz" | "healthz", ..] => return (other, Ok(Request::Discovery(Discovery::Health))),
        [".well-known", "openid-configuration"] => return (other, Ok(Request::Discovery(Discovery::Issuer))),
        ["openid", "v1", "jwks"] => return (other, Ok(Request::Discovery(Discovery::Jwks))),
        ["version"] => return (other, Ok(Request::Discovery(Discovery::Version))),
        ["api"] => return (other, Ok(Request::Discovery(Discovery::Api))),
        ["apis"] => return (other, Ok(Request::Discovery(Discovery::Apis))),
        ["api", "v1"] => return (other, Ok(Request::Discovery(Discovery::CoreV1))),
        ["api", "v1", "namespaces", namespace, plural] => (namespace, plural, ""),
        ["api", "v1", "namespaces", namespace, plural, name] => (namespace, plural, name),
        ["api", "v1", plural] => ("", plural, ""),
        ["api", "v1", plural, name] => ("", plural, name),
        _ => return (other, Err(Failure::no_such_path())),
    };
    let Some(kind) = Kind::from_plural(plural) else {
        return (other, Err(Failure::no_such_path()));
    };
    let query = Query::parse(uri);
    let filter = Filter::parse(kind, namespace, &query.label_selector, &query.field_selector);
    let verb = match (name.is_empty(), query.watch) {
        (false, false) => Verb::Get,
        (true, false) => Verb::List,
        (_, true) => Verb::Watch,
    };
    let selected = filter.as_ref().ok().and_then(|f| f.required_field("metadata.name")).unwrap_or_default();
    let shown = if name.is_empty() { selected } else { name };
    let target = Target { verb, kind: Some(kind), namespace: namespace.into(), name: shown.into() };
    if method != Method::GET {
        let message = format!("the simulated API server is read-only over HTTP: {method} is not allowed");
        return (Target { verb: Verb::Other, ..target }, Err(Failure::new(405, "MethodNotAllowed", message)));
    }
    if (!name.is_empty() && kind.is_namespaced() == namespace.is_empty())
        || (!kind.is_namespaced() && !namespace.is_empty())
    {
        return (target, Err(Failure::no_such_path()));
    }
    let request = query.into_request(kind, verb, Key::new(namespace, name), filter);
    (target, request)
}

impl Query {
    fn parse(uri: &Uri) -> Self {
        let mut query = Self::default();
        for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            let is_true = || matches!(&*value, "true" | "1" | "True" | "TRUE" | "t" | "T");
            match &*name {
                "watch" => query.watch = is_true(),
                "allowWatchBookmarks" => query.bookmarks = is_true(),
                "sendInitialEvents" => query.initial_events = is_true(),
                "labelSelector" => query.label_selector = value.into_owned(),
                "fieldSelector" => query.field_selector = value.into_owned(),
                "limit" => query.limit = value.into_owned(),
                "continue" => query.continue_ = value.into_owned(),
                "resourceVersion" => query.resource_version = value.into_owned(),
                "resourceVersionMatch" => query.resource_version_match = value.into_owned(),
                "timeoutSeconds" => query.timeout_seconds = value.into_owned(),
                _ => {}
            }
        }
        query
    }

    fn version(&self) -> Result<Version, Failure> {
        let text = self.resource_version.as_str();
        let version = match text {
            "" => Version::Newest,
            "0" => Version::Any,
            _ => Version::NotOlderThan(text.parse().map_err(|_| {
                Failure::bad_request(format!(
                    "Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
                ))
            })?),
        };
        match (self.resource_version_match.as_str(), version) {
            ("", _) | ("NotOlderThan", Version::Any | Version::NotOlderThan(_)) => Ok(version),
            // A streaming list from the newest state says so with a match and no version.
            ("NotOlderThan", Version::Newest) if self.watch && self.initial_events => Ok(version),
            ("Exact", Version::NotOlderThan(exact)) if !self.watch => Ok(Version::Exact(exact)),
            (other, _) => {
                Err(Failure::new(422, "Invalid", format!("resourceVersionMatch: Forbidden: {other:?} with {text:?}")))
            }
        }
    }

    fn into_request(
        self,
        kind: Kind,
        verb: Verb,
        key: Key,
        filter: Result<Filter, String>,
    ) -> Result<Request, Failure> {
        let filter = filter.map_err(Failure::bad_request)?;
        let version = self.version()?;
        let number = |name: &str, text: &str| -> Result<u64, Failure> {
            if text.is_empty() {
                Ok(0)
            } else {
                text.parse().map_err(|_| Failure::bad_request(format!("invalid {name}")))
            }
        };
        match verb {
            Verb::Get => Ok(Request::Get { kind, key, version }),
            Verb::Watch => {
                let by_match = self.resource_version_match == "NotOlderThan";
                if self.initial_events != by_match {
                    let message = "sendInitialEvents: Forbidden: requires resourceVersionMatch=NotOlderThan and the other way round";
                    return Err(Failure::new(422, "Invalid", message));
                }
                if !key.name.is_empty() {
                    return Err(Failure::no_such_path());
                }
                let seconds = number("timeoutSeconds", &self.timeout_seconds)?;
                let timeout = (seconds > 0).then(|| Duration::from_secs(seconds));
                let (bookmarks, initial_events) = (self.bookmarks, self.initial_events);
                Ok(Request::Watch { kind, watch: Watch { filter, version, bookmarks, initial_events, timeout } })
            }
            _ => {
                let limit = usize::try_from(number("limit", &self.limit)?).unwrap_or(usize::MAX);
                let from = match self.continue_.as_str() {
                    "" => None,
                    token => {
                        Some(Continue::parse(token).ok_or_else(|| Failure::bad_request("continue key is not valid"))?)
                    }
                };
                Ok(Request::List { kind, list: List { filter, version, limit, from } })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &Method, uri: &str, verb: Verb, code: Option<u16>) {
        let (target, request) = parse(method, &uri.parse().expect("a URI"));
        assert_eq!((target.verb, request.err().map(|failure| failure.code)), (verb, code), "{method} {uri}");
    }

    #[test]
    fn requests_are_understood_or_refused_as_by_an_api_server() {
        for (uri, verb, code) in [
            ("/api/v1/namespaces/a/secrets/x", Verb::Get, None),
            ("/api/v1/namespaces/a/secrets/x?resourceVersion=0", Verb::Get, None),
            ("/api/v1/namespaces/a/secrets?fieldSelector=metadata.name%3Dx", Verb::List, None),
            ("/api/v1/pods?watch=true&resourceVersion=7&timeoutSeconds=290", Verb::Watch, None),
            ("/api/v1/nodes/n1", Verb::Get, None),
            ("/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", Verb::Watch, None),
            ("/api/v1/pods?watch=1&sendInitialEvents=true", Verb::Watch, Some(422)),
            ("/api/v1/secrets/x", Verb::Get, Some(404)),
            ("/api/v1/namespaces/a/nodes/n1", Verb::Get, Some(404)),
            ("/api/v1/namespaces/a/services", Verb::Other, Some(404)),
            ("/api/v1/pods?resourceVersion=x", Verb::List, Some(400)),
            ("/api/v1/pods?resourceVersionMatch=Exact", Verb::List, Some(422)),
            ("/api/v1/pods?fieldSelector=spec.x%3Dy", Verb::List, Some(400)),
            ("/readyz", Verb::Other, None),
        ] {
            check(&Method::GET, uri, verb, code);
        }
        check(&Method::DELETE, "/api/v1/namespaces/a/secrets/x", Verb::Other, Some(405));
        check(&Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", Verb::Review, None);
    }

    #[test]
    fn a_name_in_the_field_selector_is_the_target() {
        let uri = "/api/v1/namespaces/a/configmaps?watch=true&fieldSelector=metadata.name%3Dx";
        let (target, _) = parse(&Method::GET, &uri.parse().expect("a URI"));
        assert_eq!((target.namespace.as_str(), target.name.as_str()), ("a", "x"));
    }

    #[test]
    fn continue_tokens_come_back_as_they_were() {
        let from = Continue { revision: 12, after: Key::new("kube-system", "a.b-c") };
        assert_eq!(Continue::parse(&from.to_token()), Some(from));
        assert_eq!(Continue::parse("garbage"), None);
    }
}
